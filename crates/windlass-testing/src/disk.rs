//! Loop devices.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_linux::loop_device::{self, LoopDevice, Settings};
use windlass_linux::safe_path::Place;
use windlass_linux::tools::{Call, Output, Tool};

/// In bytes.
pub const MEBIBYTE: u64 = 1 << 20;

/// Long enough for every program that works on a device to end by itself.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// That loop devices can be used here, or why not.
pub fn possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("loop devices need root".into());
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"] {
        return Err("loop devices need root outside of user namespaces".into());
    }
    // A container can have root and the node, and neither the right to use it nor nodes for new loop devices.
    let file = tempfile::NamedTempFile::new().map_err(|error| format!("make a file: {error}"))?;
    file.as_file().set_len(MEBIBYTE).map_err(|error| format!("make a file larger: {error}"))?;
    let place = file.reopen().map_err(|error| format!("open a file: {error}"))?;
    let attached = loop_device::attach(&Place::of(place.into(), file.path()), Settings::default());
    attached
        .map(drop)
        .map_err(|error| format!("loop devices do not work here: {error}: {:?}", std::error::Error::source(&error)))
}

/// A loop device that is detached when the test ends, however it ends.
pub struct Disk {
    /// The device, as it was when it was attached.
    pub device: LoopDevice,
    /// Its node.
    pub path: PathBuf,
    image: PathBuf,
}

impl Disk {
    /// A device of a new file of zeroes.
    pub fn new(image: &Path, size_bytes: u64) -> Self {
        resize(image, size_bytes);
        Self::of(image, Settings::default())
    }

    /// A device of a file that is there.
    pub fn of(image: &Path, settings: Settings) -> Self {
        let attached = loop_device::attach(&hold(image), settings).unwrap();
        Self { path: attached.device().path(), device: attached.keep(), image: image.into() }
    }

    /// Makes the device larger.
    pub fn grow(&self, size_bytes: u64) {
        resize(&self.image, size_bytes);
        self.run("losetup", &["-c"]);
    }

    /// Runs a program on it, which must succeed.
    pub fn run(&self, tool: &str, arguments: &[&str]) -> Output {
        run(tool, arguments, &self.path)
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

/// Makes a file of zeroes, or makes one larger or smaller.
pub fn resize(image: &Path, size_bytes: u64) {
    let file = File::options().write(true).create(true).truncate(false).open(image).unwrap();
    file.set_len(size_bytes).unwrap();
}

/// Holds a file.
pub fn hold(path: &Path) -> Place {
    Place::of(File::open(path).unwrap().into(), path)
}

/// Runs a program on a device, which must succeed.
pub fn run(tool: &str, arguments: &[&str], device: &Path) -> Output {
    let call = Call::new(Tool::new(tool, None), PATIENCE);
    let call = arguments.iter().copied().fold(call, Call::argument).argument(device);
    call.run().and_then(Output::success).unwrap()
}

/// The loop devices on files below a directory, also on those that are gone. They are the whole machine's, so what somebody
/// else attached there is among them.
pub fn loop_devices(below: &Path) -> Vec<PathBuf> {
    let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
    let is_below = |it: &std::fs::DirEntry| {
        let file = std::fs::read_to_string(it.path().join("loop/backing_file"));
        file.is_ok_and(|it| Path::new(it.trim()).starts_with(below))
    };
    devices.filter(is_below).map(|it| Path::new("/dev").join(it.file_name())).collect()
}
