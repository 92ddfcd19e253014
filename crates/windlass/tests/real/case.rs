//! Where a test runs.

use std::error::Error;
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll, Waker};

use windlass::inner::{Cache, Layout, Memory, Scene, Tell};
use windlass::manifest::Object;
use windlass::token;
use windlass_linux::mount::{Tmpfs, tmpfs};
use windlass_linux::safe_path::Place;
use windlass_linux::table::Watch;
use windlass_testing::directory::{Directory, a_tmpfs};
use windlass_testing::namespace;

/// What this node does itself waits for nobody.
pub(crate) fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => panic!("it waits for somebody"),
    }
}

/// One test: a mount namespace that is its thread's alone (and of threads it starts), and a node whose root directory
/// is in it, at `root`.
pub(crate) struct Case {
    directory: Directory,
    pub(crate) scene: Scene,
}

impl Deref for Case {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        namespace::separate();
        Self::of(Directory::new(name)).unwrap()
    }

    /// A node whose root directory is in this one.
    fn of(directory: Directory) -> Result<Self, Box<dyn Error>> {
        let scene = Scene {
            default_account: "".into(),
            layout: Layout::open(&directory.path("root"))?,
            watch: Watch::begin()?,
            objects: Arc::new(RwLock::new(Memory::new([1, 2]))),
            tokens: Cache::new(Arc::new(token::NoProvider)),
            drivers: windlass::inner::Drivers::none(),
            attachments: Default::default(),
            observer: Default::default(),
            tell: Tell::new(|_| {}),
            node: "node-1".into(),
        };
        Ok(Self { directory, scene })
    }

    /// Another node, whose root directory is on a file system of its own.
    pub(crate) fn on(&self, below: &str, settings: &Tmpfs) -> Self {
        let root = self.place(&format!("{below}/root"));
        tmpfs(settings).unwrap().attach(&root).unwrap();
        Self::of(Directory::at(self.path(below))).unwrap()
    }

    /// There is this object now.
    pub(crate) fn put(&self, object: impl Into<Object>) {
        self.scene.objects.write().unwrap().put(object.into());
    }

    /// Mounts an empty tmpfs over a directory that is there.
    pub(crate) fn tmpfs_at(&self, path: &Path) {
        a_tmpfs().attach(&Place::root(path).unwrap()).unwrap();
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
