//! Where the tests run: a mount namespace, and an empty tmpfs over a directory that every system has.

use std::{
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, RwLock},
    task::{Context, Poll, Waker},
};

use rustix::thread::UnshareFlags;
use windlass::{
    layout::Layout,
    memory::{Memory, Object},
    plugin::Scene,
    tell::Tell,
    token,
};
use windlass_linux::{
    mount::{Tmpfs, tmpfs},
    safe_path::Place,
    table::{Mount, Reader, Watch},
};

#[path = "enter.rs"]
mod enter_namespace;

use enter_namespace::{BASE, unshare};
pub(crate) use enter_namespace::{enter, privileged};

/// What this node does itself waits for nobody.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => panic!("it waits for somebody"),
    }
}

/// One test: a mount namespace that is its thread's alone (and of threads it starts), and a node whose root directory
/// is in it.
pub(crate) struct Case {
    directory: PathBuf,
    pub(crate) scene: Scene,
}

impl Case {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        // With FS goes the working directory, which threads share; the kernel wants both at once.
        unshare(UnshareFlags::NEWNS | UnshareFlags::FS)?;
        let directory = Path::new(BASE).join(name);
        std::fs::create_dir(&directory)?;
        Self::at(directory).map_err(io::Error::other)
    }

    /// A node whose root directory is below this one.
    fn at(directory: PathBuf) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let scene = Scene {
            default_account: "".into(),
            layout: Layout::open(&directory.join("root"))?,
            watch: Watch::begin()?,
            objects: Arc::new(RwLock::new(Memory::new([1, 2]))),
            tokens: token::Cache::new(Arc::new(token::NoProvider)),
            drivers: windlass::csi::Drivers::none(),
            tell: Tell::new(|_| {}),
            node: "node-1".into(),
        };
        Ok(Self { directory, scene })
    }

    /// Another node, whose root directory is on a file system of its own.
    pub(crate) fn on(&self, below: &str, settings: &Tmpfs) -> Self {
        let directory = self.path(below);
        self.directory(&format!("{below}/root"));
        tmpfs(settings).unwrap().attach(&Place::root(directory.join("root")).unwrap()).unwrap();
        Self::at(directory).unwrap()
    }

    /// There is this object now.
    pub(crate) fn put(&self, object: impl Into<Object>) {
        self.scene.objects.write().unwrap().put(object.into());
    }

    /// A path that is this test's own; the node's root directory is at `root`.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.join(below)
    }

    /// Makes a directory.
    pub(crate) fn directory(&self, below: &str) -> PathBuf {
        std::fs::create_dir_all(self.path(below)).unwrap();
        self.path(below)
    }

    /// Makes a file.
    pub(crate) fn file(&self, below: &str, contents: &str) {
        std::fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
        std::fs::write(self.path(below), contents).unwrap();
    }

    pub(crate) fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).unwrap()
    }

    /// Mounts an empty tmpfs on a directory, which is made.
    pub(crate) fn tmpfs(&self, below: &str) -> Place {
        tmpfs(&Tmpfs::default()).unwrap().attach(&Place::root(self.directory(below)).unwrap()).unwrap()
    }

    /// Unmounts whatever is at a path, as somebody else would.
    pub(crate) fn unmount(&self, below: &str) {
        rustix::mount::unmount(self.path(below), rustix::mount::UnmountFlags::empty()).unwrap();
    }

    /// The mount that is seen at a path.
    pub(crate) fn mounted(&self, below: &str) -> Option<Mount> {
        Reader::best().read().unwrap().topmost(&self.path(below)).map(|it| Mount::clone(it))
    }

    /// The mount that is seen at any path.
    pub(crate) fn mounted_at(&self, path: &Path) -> Option<Mount> {
        Reader::best().read().unwrap().topmost(path).map(|it| Mount::clone(it))
    }

    /// Where something is mounted below a path.
    pub(crate) fn mounts_below(&self, below: &str) -> Vec<PathBuf> {
        Reader::best().read().unwrap().below(&self.path(below)).map(|it| it.mount_point.clone()).collect()
    }

    /// Mounts an empty tmpfs over a directory that is there.
    pub(crate) fn tmpfs_at(&self, path: &Path) {
        tmpfs(&Tmpfs::default()).unwrap().attach(&Place::root(path).unwrap()).unwrap();
    }

    /// The mode of what is at a path, without following a link there.
    pub(crate) fn mode(&self, below: &str) -> u32 {
        std::fs::symlink_metadata(self.path(below)).unwrap().mode() & 0o7777
    }

    pub(crate) fn group(&self, below: &str) -> u32 {
        std::fs::symlink_metadata(self.path(below)).unwrap().gid()
    }

    /// What there is below the root directory, as lines `kind mode path`, sorted by path.
    pub(crate) fn tree(&self) -> String {
        let root = self.path("root");
        let mut lines = Vec::new();
        let mut left = vec![root.clone()];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let status = entry.metadata().unwrap();
                let kind = match status.file_type() {
                    it if it.is_dir() => 'd',
                    it if it.is_symlink() => 'l',
                    it if it.is_file() => '-',
                    it if it.is_socket() => 's',
                    _ => '?',
                };
                let path = entry.path();
                let below = path.strip_prefix(&root).unwrap().display().to_string();
                lines.push((below.clone(), format!("{kind} {:04o} {below}", status.mode() & 0o7777)));
                if kind == 'd' {
                    left.push(path);
                }
            }
        }
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }
}
