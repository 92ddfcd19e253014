//! A container, as far as its volumes are concerned: it has them open from the start of the pod, and never looks at any
//! path of the host again. Daemons die and come back meanwhile, and it must not notice.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_testing::wait::Stir;

use crate::world::{Kind, Pod, VERSION};

const CANARY: &str = "still here";

/// What a container has of a volume that windlass writes.
struct Watched {
    kind: Kind,
    directory: OwnedFd,
    /// A file that is always there, and the number in it.
    file: &'static str,
    number: u64,
}

/// A file that the container wrote and keeps open.
struct Kept {
    path: PathBuf,
    file: File,
    inode: u64,
}

/// The container. It ends when it is dropped.
pub(crate) struct Witness {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    looks: AtomicU64,
    /// The first thing it noticed.
    noticed: Mutex<Option<String>>,
}

impl Witness {
    /// A container of this pod, whose volumes are all there.
    pub(crate) fn start(root: &Path, pod: &Pod) -> Self {
        let directory = |kind: Kind| root.join(pod.place(kind).expect("a directory"));
        let watched = [
            (Kind::Config, VERSION),
            (Kind::Secret, VERSION),
            (Kind::Labels, "labels"),
            (Kind::Projected, "config/version"),
        ];
        let stir = Stir::new();
        let watched = watched.map(|(kind, file)| {
            let path = directory(kind);
            stir.cover(&path);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(&path, flags, Mode::empty()).expect("open a volume");
            Watched { kind, directory, file, number: 0 }
        });
        let kept = [Kind::Disk, Kind::Memory].map(|kind| {
            let path = directory(kind).join("witness");
            fs::write(&path, CANARY).expect("write into a volume");
            let file = File::open(&path).expect("open what was written");
            let inode = file.metadata().expect("look at what was written").ino();
            Kept { path, file, inode }
        });
        let shared = Arc::new(Shared::default());
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || live(&shared, &stir, watched, kept)
        });
        Self { shared, thread: Some(thread) }
    }

    /// What it noticed, if anything.
    pub(crate) fn noticed(&self) -> Option<String> {
        self.shared.noticed.lock().expect("nobody panics while it is held").clone()
    }

    /// How often it looked.
    pub(crate) fn looks(&self) -> u64 {
        self.shared.looks.load(Ordering::Relaxed)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks whenever something happens in a volume, which is when something could be missing, and now and then besides.
fn live(shared: &Shared, stir: &Stir, mut watched: [Watched; 4], mut kept: [Kept; 2]) {
    while !shared.stop.load(Ordering::Relaxed) {
        let looked =
            watched.iter_mut().try_for_each(Watched::look).and_then(|()| kept.iter_mut().try_for_each(Kept::look));
        shared.looks.fetch_add(1, Ordering::Relaxed);
        if let Err(noticed) = looked {
            *shared.noticed.lock().expect("nobody panics while it is held") = Some(noticed);
            return;
        }
        stir.wait(Duration::from_millis(20));
    }
}

impl Watched {
    /// The file is there at every moment, and what it says is never older than what it said before.
    fn look(&mut self) -> Result<(), String> {
        let title = format!("{} in the volume {}", self.file, self.kind.name());
        let text = loop {
            let version = self.version();
            match self.read() {
                Ok(text) => break text,
                // The path was looked up while one version took the place of the other. This layout has that window
                // (the kubelet's too), and whoever looks again sees the new version.
                Err(Errno::NOENT) if version.is_ok() && version != self.version() => {}
                Err(errno) => return Err(format!("{title} cannot be read: {errno}; the version is {version:?}")),
            }
        };
        let digits: String = text.chars().rev().skip_while(|it| *it == '"').take_while(char::is_ascii_digit).collect();
        let number: u64 =
            digits.chars().rev().collect::<String>().parse().map_err(|_| format!("{title} reads {text:?}"))?;
        if number < self.number {
            return Err(format!("{title} went back from {} to {number}", self.number));
        }
        self.number = number;
        Ok(())
    }

    fn version(&self) -> Result<Vec<u8>, Errno> {
        rustix::fs::readlinkat(&self.directory, "..data", Vec::new()).map(|it| it.into_bytes())
    }

    fn read(&self) -> Result<String, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, self.file, flags, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).map_err(|it| Errno::from_io_error(&it).unwrap_or(Errno::IO))?;
        Ok(text)
    }
}

impl Kept {
    /// The file reads as it was written, and it is the one that the host shows.
    fn look(&mut self) -> Result<(), String> {
        let told = |what: &str, error: io::Error| format!("{} cannot be {what}: {error}", self.path.display());
        let mut text = String::new();
        self.file.seek(SeekFrom::Start(0)).map_err(|it| told("read", it))?;
        self.file.read_to_string(&mut text).map_err(|it| told("read", it))?;
        let inode = fs::metadata(&self.path).map_err(|it| told("found", it))?.ino();
        match (text == CANARY, inode == self.inode) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("{} reads {text:?}", self.path.display())),
            (true, false) => Err(format!("{} is another file than it was", self.path.display())),
        }
    }
}
