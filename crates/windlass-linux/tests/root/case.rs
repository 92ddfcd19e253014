//! Where the tests run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities};
use windlass_linux::format::Patience;
use windlass_linux::loop_device::{self, LoopDevice, Settings};
use windlass_linux::mount::{Detached, UnmountPolicy, unmount};
use windlass_linux::name::Name;
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Mount, Reader};
use windlass_linux::tools::{Call, Output, Tool};

pub(crate) const MEBIBYTE: u64 = 1 << 20;

/// Covered by a tmpfs in each test's namespace, so nothing is written on this system's disk.
const BASE: &str = "/mnt";

/// Why these tests cannot run here, if they cannot.
pub(crate) fn impossible() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("loop devices need root".into());
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"] {
        return Some("loop devices need root outside of user namespaces".into());
    }
    // A container can have root and the node, and neither the right to use it nor nodes for new loop devices.
    try_a_loop().err()
}

fn try_a_loop() -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| format!("make a file: {error}"))?;
    file.as_file().set_len(MEBIBYTE).map_err(|error| format!("make a file larger: {error}"))?;
    let place = file.reopen().map_err(|error| format!("open a file: {error}"))?;
    let attached = loop_device::attach(&Place::of(place.into(), file.path()), Settings::default());
    match attached {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("loop devices do not work here: {error}: {:?}", std::error::Error::source(&error))),
    }
}

/// The right to resize an ext4 that is mounted; a container can have root and not this.
pub(crate) const RESIZE: &str = "CAP_SYS_RESOURCE";

/// That nobody but the test opens its loop devices, as udev does with every new device for a moment.
pub(crate) const UNDISTURBED: &str = "no udev";

/// Why a test that needs this cannot run here, if it cannot.
pub(crate) fn lacking(need: &str) -> Option<String> {
    match need {
        RESIZE => {
            let has = capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::SYS_RESOURCE));
            (!has).then(|| format!("this root is without {RESIZE}"))
        }
        UNDISTURBED => Path::new("/run/udev/control").exists().then(|| "udev opens every new device".into()),
        tool => Tool::new(tool, None).find().err().map(|it| it.to_string()),
    }
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

/// One test: a mount namespace that is its thread's alone, and an empty directory.
pub(crate) struct Case {
    /// No other test has this path, in whatever namespace: of a loop device's file the kernel tells little more.
    directory: PathBuf,
    /// Long enough for every program to end by itself.
    pub(crate) patience: Patience,
}

impl Case {
    pub(crate) fn new(name: &str) -> std::io::Result<Self> {
        // With FS goes the working directory, which threads share; the kernel wants both at once.
        unshare(UnshareFlags::NEWNS | UnshareFlags::FS)?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount("tests", BASE, "tmpfs", MountFlags::empty(), None)?;
        let minutes = Duration::from_secs(600);
        let directory = Path::new(BASE).join(name);
        std::fs::create_dir(&directory)?;
        Ok(Self { directory, patience: Patience { look: minutes, work: minutes } })
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.join(below)
    }

    /// Makes a directory and holds it open for its path alone.
    pub(crate) fn directory(&self, below: &str) -> Place {
        std::fs::create_dir_all(self.path(below)).unwrap();
        Place::root(self.path(below)).unwrap()
    }

    /// Makes a file of zeroes, or makes it larger or smaller.
    pub(crate) fn image(&self, below: &str, size_bytes: u64) {
        let file = File::options().write(true).create(true).truncate(false).open(self.path(below)).unwrap();
        file.set_len(size_bytes).unwrap();
    }

    /// Holds a file.
    pub(crate) fn file(&self, below: &str) -> Place {
        Place::of(File::open(self.path(below)).unwrap().into(), self.path(below))
    }

    /// A loop device of a new file of zeroes.
    pub(crate) fn disk(&self, below: &str, size_bytes: u64) -> Disk {
        self.image(below, size_bytes);
        self.attach(below, Settings::default())
    }

    /// A loop device of a file that is there.
    pub(crate) fn attach(&self, below: &str, settings: Settings) -> Disk {
        let attached = loop_device::attach(&self.file(below), settings).unwrap();
        Disk { path: attached.device().path(), device: attached.keep() }
    }

    /// The loop devices of a file that are not already on their way out.
    pub(crate) fn loops(&self, below: &str) -> Vec<LoopDevice> {
        let all = loop_device::of_file(&self.file(below)).unwrap();
        all.into_iter().filter(|it| !it.autoclear).collect()
    }

    /// Attaches a mount to a directory, which is made. Gone with the namespace at the latest.
    pub(crate) fn mount(&self, detached: Detached, below: &str) {
        drop(detached.attach(&self.directory(below)).unwrap());
    }

    pub(crate) fn mounted(&self, below: &str) -> Option<Mount> {
        Reader::best().read().unwrap().topmost(&self.path(below)).map(|it| Mount::clone(it))
    }

    pub(crate) fn unmount(&self, below: &str) {
        unmount(&self.mounted(below).unwrap(), UnmountPolicy::Clean).unwrap();
    }

    /// Runs a program that must succeed.
    pub(crate) fn run(&self, tool: &str, arguments: &[&str], device: &Path) -> Output {
        let call = Call::new(Tool::new(tool, None), self.patience.work);
        let call = arguments.iter().copied().fold(call, Call::argument).argument(device);
        call.run().and_then(Output::success).unwrap()
    }
}

/// A loop device that is detached when the test ends, however it ends.
pub(crate) struct Disk {
    pub(crate) device: LoopDevice,
    pub(crate) path: PathBuf,
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Still mounted, it goes with the namespace.
        if let Err(error) = loop_device::detach(&self.device) {
            eprintln!("{error}");
        }
    }
}

pub(crate) fn name(value: &str) -> Name {
    Name::new("name", value).unwrap()
}
