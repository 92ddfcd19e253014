//! Devices for tests: files on the tests' tmpfs, as loop devices.

use std::{fs::File, os::unix::fs::symlink, path::PathBuf, time::Duration};

use rustix::thread::{CapabilitySet, capabilities};
use windlass_linux::{
    loop_device::{self, LoopDevice, Settings},
    safe_path::Place,
    tools::{Call, Output, Tool},
};

use crate::namespace::Case;

pub(crate) const MEBIBYTE: u64 = 1 << 20;

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
    attached.map(drop).map_err(|error| format!("loop devices do not work here: {}", windlass::plugin::chain(&error)))
}

/// The right to resize an ext4 that is mounted; a container can have root and not this.
pub(crate) const RESIZE: &str = "CAP_SYS_RESOURCE";

/// File systems that a program serves.
pub(crate) const FUSE: &str = "/dev/fuse";

/// Why a test that needs this cannot run here, if it cannot: a program, [`RESIZE`] or [`FUSE`].
pub(crate) fn lacking(need: &str) -> Option<String> {
    match need {
        RESIZE => {
            let has = capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::SYS_RESOURCE));
            (!has).then(|| format!("this root is without {RESIZE}"))
        }
        FUSE => File::options().read(true).write(true).open(FUSE).err().map(|error| format!("{FUSE}: {error}")),
        tool => Tool::new(tool, None).find().err().map(|it| it.to_string()),
    }
}

/// A loop device that is detached when the test ends, however it ends.
pub(crate) struct Disk {
    device: LoopDevice,
    image: PathBuf,
    /// The device itself.
    pub(crate) path: PathBuf,
    /// A link to it, as an administrator would make one.
    pub(crate) link: PathBuf,
}

impl Disk {
    /// A device of zeroes, with a link to it of this name.
    pub(crate) fn new(case: &Case, name: &str, size_bytes: u64) -> Self {
        let image = case.path(&format!("{name}.img"));
        File::create(&image).unwrap().set_len(size_bytes).unwrap();
        let place = Place::of(File::open(&image).unwrap().into(), &image);
        let attached = loop_device::attach(&place, Settings::default()).unwrap();
        let disk = Self { path: attached.device().path(), link: case.path(name), image, device: attached.keep() };
        symlink(&disk.path, &disk.link).unwrap();
        disk
    }

    /// Makes the device larger.
    pub(crate) fn grow(&self, size_bytes: u64) {
        File::options().write(true).open(&self.image).unwrap().set_len(size_bytes).unwrap();
        self.run("losetup", &["-c"]);
    }

    /// Runs a program on it, which must succeed.
    pub(crate) fn run(&self, tool: &str, arguments: &[&str]) -> Output {
        let call = Call::new(Tool::new(tool, None), Duration::from_secs(600));
        let call = arguments.iter().copied().fold(call, Call::argument).argument(&self.path);
        call.run().and_then(Output::success).unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Still mounted, it goes with the namespace.
        if let Err(error) = loop_device::detach(&self.device) {
            eprintln!("{error}");
        }
    }
}
