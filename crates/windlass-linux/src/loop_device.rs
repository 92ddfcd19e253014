//! Loop devices: a file, or another device, as a block device (loop(4)). By ioctl, without `losetup` (W-10).
//!
//! [`attach`] gives a guard that detaches again unless it is told to keep the loop device, so nothing that fails in
//! between leaks one. A loop device is known by its number *and* by its file: the number may have gone to another file
//! meanwhile, and then it is left alone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use linux_raw_sys::loop_device as linux;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::device::{self, Device};
use crate::path_error::PathError;
use crate::raw;
use crate::safe_path::Place;

/// What can go wrong with a loop device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// There are no loop devices here.
    #[error("open {CONTROL}")]
    OpenControl(#[source] Errno),
    /// No loop device is free, and none can be made.
    #[error("find a free loop device")]
    FindFree(#[source] Errno),
    /// Only a file or a block device can be attached.
    #[error("attach {} as a loop device: it is neither a file nor a block device", path.display())]
    NotFile {
        /// What it was.
        path: PathBuf,
    },
    /// The kernel does not take the file.
    #[error("attach {} as {}", file.display(), path.display())]
    Attach {
        /// The file.
        file: PathBuf,
        /// The loop device.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The loop device has another file by now, or none.
    #[error("change {}: it has another file by now", path.display())]
    OtherFile {
        /// The loop device.
        path: PathBuf,
    },
}

const CONTROL: &str = "/dev/loop-control";

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Backing {
    /// The file system that holds it.
    pub device: Device,
    /// Its number there.
    pub inode: u64,
}

impl Backing {
    /// The file, or the node of a device, that is open.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Errno> {
        let status = rustix::fs::fstat(file)?;
        Ok(Self { device: device::number(status.st_dev), inode: status.st_ino })
    }
}

/// A loop device that has a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    /// Its number: 3 is `/dev/loop3`.
    pub number: u32,
    /// The file.
    pub backing: Backing,
    /// It detaches itself when nobody has it open or mounted any more.
    pub autoclear: bool,
    /// It refuses to be written.
    pub read_only: bool,
}

impl LoopDevice {
    /// `/dev/loop3`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        node(self.number)
    }
}

fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// How a file is attached. The default can be written, and stays until it is detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// It refuses to be written.
    pub read_only: bool,
    /// It detaches itself when nobody has it open or mounted any more; a process that is killed then leaks none.
    pub autoclear: bool,
}

/// A loop device that was just made. Dropped, it is detached, unless it was kept.
#[derive(Debug)]
pub struct Attached {
    device: LoopDevice,
    fd: OwnedFd,
    kept: bool,
}

impl Attached {
    /// The loop device.
    #[must_use]
    pub fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// Leaves the loop device attached. One that clears itself is gone with this unless it is mounted or open by now.
    #[must_use]
    pub fn keep(mut self) -> LoopDevice {
        self.kept = true;
        self.device.clone()
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.kept {
            // Whatever failed before is what gets reported.
            let _ = clear(&self.fd, &self.device);
        }
    }
}

/// Attaches a file or a block device as a whole, through the page cache, to a loop device that is free.
pub fn attach(file: &Place, settings: Settings) -> Result<Attached, Error> {
    // Between the search for a free one and taking it, somebody else can take it; not every time.
    const TRIES: usize = 64;
    let open_file = |source| PathError::new("open", file.path(), source);
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file).map_err(open_file)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
        return Err(Error::NotFile { path: file.path().into() });
    }
    let access = if settings.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let opened = device::reopen(file, access).map_err(open_file)?;
    let control = rustix::fs::open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let control = control.map_err(Error::OpenControl)?;
    let info = describe(file.path(), settings);
    for _ in 0..TRIES {
        let number = raw::loop_get_free(&control).map_err(Error::FindFree)?;
        let path = node(number);
        let fd = rustix::fs::open(&path, access | OFlags::CLOEXEC, Mode::empty());
        let fd = fd.map_err(|source| PathError::new("open", path.clone(), source))?;
        match raw::loop_configure(&fd, &opened, &info) {
            Ok(()) => {}
            Err(Errno::BUSY) => continue,
            Err(source) => return Err(Error::Attach { file: file.path().into(), path, source }),
        }
        return match ask(number, &fd) {
            Ok(Some(device)) => Ok(Attached { device, fd, kept: false }),
            Ok(None) => Err(PathError::new("look at", path, Errno::NXIO).into()),
            Err(error) => {
                // No guard yet. It was free and is open here, so it has our file or none.
                let _ = raw::loop_clear(&fd);
                Err(error)
            }
        };
    }
    Err(Error::FindFree(Errno::BUSY))
}

fn describe(path: &Path, settings: Settings) -> linux::loop_info64 {
    let mut info = raw::loop_information();
    if settings.read_only {
        info.lo_flags |= linux::LO_FLAGS_READ_ONLY as u32;
    }
    if settings.autoclear {
        info.lo_flags |= linux::LO_FLAGS_AUTOCLEAR as u32;
    }
    // For people who list loop devices; the kernel keeps the last byte NUL, and its own knowledge of the file.
    let name = path.as_os_str().as_bytes();
    let length = name.len().min(info.lo_file_name.len() - 1);
    info.lo_file_name[..length].copy_from_slice(&name[..length]);
    info
}

/// What a loop device is that is open; `None` if it has no file.
fn ask(number: u32, fd: impl AsFd) -> Result<Option<LoopDevice>, Error> {
    match raw::loop_status(fd) {
        Ok(info) => Ok(Some(LoopDevice {
            number,
            backing: Backing { device: device::number(info.lo_device), inode: info.lo_inode },
            autoclear: info.lo_flags & linux::LO_FLAGS_AUTOCLEAR as u32 != 0,
            read_only: info.lo_flags & linux::LO_FLAGS_READ_ONLY as u32 != 0,
        })),
        Err(Errno::NXIO) => Ok(None),
        Err(source) => Err(PathError::new("look at", node(number), source).into()),
    }
}

/// The loop device with this number, if it has a file.
pub fn look(number: u32) -> Result<Option<LoopDevice>, Error> {
    match open(number)? {
        Some(fd) => ask(number, fd),
        None => Ok(None),
    }
}

/// Opens a loop device by number; `None` if there is none.
fn open(number: u32) -> Result<Option<OwnedFd>, Error> {
    let path = node(number);
    match rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => Ok(None),
        Err(source) => Err(PathError::new("open", path, source).into()),
    }
}

/// How a detach ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detached {
    /// This call did it.
    Now,
    /// It happens when the last one who has the loop device open or mounted closes it.
    WhenUnused,
    /// It had no file any more.
    Before,
}

/// Detaches a loop device, if it still has the file that it had. That it has none is success.
pub fn detach(device: &LoopDevice) -> Result<Detached, Error> {
    let Some(fd) = open(device.number)? else { return Ok(Detached::Before) };
    if !clear(&fd, device)? {
        return Ok(Detached::Before);
    }
    // The kernel may wait for the last one to close it, which may be us.
    drop(fd);
    let left = look(device.number)?.is_some_and(|it| it.backing == device.backing);
    Ok(if left { Detached::WhenUnused } else { Detached::Now })
}

/// Takes the file away; whether there was one.
fn clear(fd: &OwnedFd, device: &LoopDevice) -> Result<bool, Error> {
    match ask(device.number, fd)? {
        None => return Ok(false),
        Some(now) if now.backing != device.backing => return Err(Error::OtherFile { path: device.path() }),
        Some(_) => {}
    }
    match raw::loop_clear(fd) {
        Ok(()) => Ok(true),
        Err(Errno::NXIO) => Ok(false),
        Err(source) => Err(PathError::new("detach", device.path(), source).into()),
    }
}

/// Gives a loop device the size that its file has by now, if it still has the file that it had.
pub fn resize(device: &LoopDevice) -> Result<(), Error> {
    let path = device.path();
    let fd = open(device.number)?;
    let now = fd.as_ref().map(|it| ask(device.number, it)).transpose()?.flatten();
    match (fd, now) {
        (Some(fd), Some(now)) if now.backing == device.backing => {
            Ok(raw::loop_set_capacity(fd).map_err(|source| PathError::new("resize", path, source))?)
        }
        _ => Err(Error::OtherFile { path }),
    }
}

/// The loop devices that have this file or device node, whatever path it was attached by.
pub fn of_file(file: &Place) -> Result<Vec<LoopDevice>, Error> {
    let backing = Backing::of(file).map_err(|source| PathError::new("open", file.path(), source))?;
    Ok(with(|_| true)?.into_iter().filter(|it| it.backing == backing).collect())
}

/// As [`of_file`], of those whose file has the name that this one has: the loop devices of others are not opened, not
/// even for a moment, which would keep one that is on its way out.
pub fn of_file_by_name(file: &Place) -> Result<Vec<LoopDevice>, Error> {
    let backing = Backing::of(file).map_err(|source| PathError::new("open", file.path(), source))?;
    let name = file.path().file_name();
    Ok(with(|it| it.file_name() == name)?.into_iter().filter(|it| it.backing == backing).collect())
}

/// The loop devices whose file has this path, without links, or had it when it was deleted.
///
/// For a device that is bind mounted at several paths this tells which of them was attached, and [`of_file`] cannot.
/// But a path can mean another file in another mount namespace, so look at [`LoopDevice::backing`] too.
pub fn of_path(path: &Path) -> Result<Vec<LoopDevice>, Error> {
    with(|it| it == path)
}

/// The loop devices whose file has a path that fits.
fn with(fits: impl Fn(&Path) -> bool) -> Result<Vec<LoopDevice>, Error> {
    const ALL: &str = "/sys/block";
    let look_at = |path: &Path, error: &std::io::Error| {
        PathError::new("look at", path, Errno::from_io_error(error).unwrap_or(Errno::IO))
    };
    let mut found = Vec::new();
    let entries = std::fs::read_dir(ALL).map_err(|error| look_at(Path::new(ALL), &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| look_at(Path::new(ALL), &error))?;
        let Some(number) = number_in(entry.file_name().as_bytes()) else { continue };
        let told = entry.path().join("loop/backing_file");
        let path = match std::fs::read(&told) {
            Ok(text) => backing_path(text),
            // There only while there is a file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            // Gone between opening and reading.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => continue,
            Err(error) => return Err(look_at(&told, &error).into()),
        };
        if fits(&path) {
            found.extend(look(number)?);
        }
    }
    found.sort_by_key(|it| it.number);
    Ok(found)
}

/// The number in `loop3`.
fn number_in(name: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(name.strip_prefix(b"loop")?).ok()?;
    digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The path in `backing_file`, without what the kernel adds to it.
fn backing_path(mut text: Vec<u8>) -> PathBuf {
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.ends_with(b" (deleted)") {
        text.truncate(text.len() - b" (deleted)".len());
    }
    PathBuf::from(std::ffi::OsString::from_vec(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_file_is_without_what_the_kernel_adds() {
        let path = |text: &str| backing_path(text.into());
        assert_eq!(path("/a/b\n"), Path::new("/a/b"));
        assert_eq!(path("/a/b (deleted)\n"), Path::new("/a/b"));
        assert_eq!(path("/a/b\n\n"), Path::new("/a/b\n"), "a name may end in a line feed");
        assert_eq!(path(""), Path::new(""));
    }

    #[test]
    fn only_loop_devices_have_a_number() {
        assert_eq!(number_in(b"loop0"), Some(0));
        assert_eq!(number_in(b"loop17"), Some(17));
        for name in ["loop", "loop1p1", "loop-1", "loop+1", "sda", "loop99999999999"] {
            assert_eq!(number_in(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn a_long_path_is_cut_where_people_read_it() {
        let settings = Settings { autoclear: true, ..Settings::default() };
        let info = describe(Path::new(&format!("/{}", "a".repeat(100))), settings);
        assert_eq!(info.lo_file_name[62..], [b'a', 0]);
        assert_eq!(info.lo_flags, 4);
    }

    #[test]
    fn a_directory_is_not_attached() {
        let directory = tempfile::tempdir().unwrap();
        let error = attach(&Place::root(directory.path()).unwrap(), Settings::default()).unwrap_err();
        assert!(matches!(error, Error::NotFile { .. }), "{error:?}");
    }
}
