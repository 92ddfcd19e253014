//! Devices: what a path is, how large a device is, whether it may be written and whether somebody has it.
//!
//! A device is opened by its path, links followed: its owner chose the path (`/dev/disk/by-id/…`), and what it leads to
//! is looked at before it is opened, so a fifo or a terminal in its place is not disturbed.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::path_error::PathError;
use crate::raw;
pub use crate::table::Device;

/// What can go wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// A path that is not absolute means something else for every process, and may look like an option to a program.
    #[error("use {} as a device: the path is not absolute", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// It is something else.
    #[error("use {} as a device: it is not a block device", path.display())]
    NotBlock {
        /// The path.
        path: PathBuf,
    },
}

impl Error {
    /// Whether it failed because nothing is there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::System(error) if error.source == Errno::NOENT)
    }
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtPath {
    /// A directory.
    Directory,
    /// A block device, with its number.
    Block(Device),
    /// Anything else.
    Other,
}

/// What a path leads to, links followed. Opens nothing.
pub fn look(path: &Path) -> Result<AtPath, Error> {
    let status = rustix::fs::stat(path).map_err(|source| PathError::new("look at", path, source))?;
    Ok(kind(&status))
}

fn kind(status: &rustix::fs::Stat) -> AtPath {
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => AtPath::Directory,
        FileType::BlockDevice => AtPath::Block(number(status.st_rdev)),
        _ => AtPath::Other,
    }
}

/// The two parts of a device number.
pub(crate) fn number(device: u64) -> Device {
    Device { major: rustix::fs::major(device), minor: rustix::fs::minor(device) }
}

/// The path of a device without links, as the kernel has it.
pub fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let resolved = std::fs::canonicalize(path);
    resolved.map_err(|error| PathError::new("resolve", path, Errno::from_io_error(&error).unwrap_or(Errno::IO)).into())
}

/// A block device that is held without being opened: nothing is read, and no driver is asked.
pub(crate) fn find(path: &Path) -> Result<(OwnedFd, Device), Error> {
    if !path.is_absolute() {
        return Err(Error::NotAbsolute { path: path.into() });
    }
    let look = |source| PathError::new("look at", path, source);
    let held = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(look)?;
    match kind(&rustix::fs::fstat(&held).map_err(look)?) {
        AtPath::Block(device) => Ok((held, device)),
        AtPath::Directory | AtPath::Other => Err(Error::NotBlock { path: path.into() }),
    }
}

/// Opens what is held by its path alone, with flags of `open(2)`.
pub(crate) fn reopen(held: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    // The magic link leads to what is held, whatever has happened to its path.
    let link = Path::new("/proc/thread-self/fd").join(held.as_fd().as_raw_fd().to_string());
    rustix::fs::open(link, flags | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a block device for reading. Without waiting for a medium: a drive without one is an error or has no size.
pub(crate) fn open(path: &Path) -> Result<OwnedFd, Error> {
    let (held, _) = find(path)?;
    let opened = reopen(held, OFlags::RDONLY | OFlags::NONBLOCK);
    opened.map_err(|source| PathError::new("open the device", path, source).into())
}

/// The size of a block device.
pub fn size_bytes(path: &Path) -> Result<u64, Error> {
    let asked = size_of(&open(path)?);
    asked.map_err(|source| PathError::new("ask for the size of the device", path, source).into())
}

pub(crate) fn size_of(device: impl AsFd) -> Result<u64, Errno> {
    rustix::fs::seek(device, SeekFrom::End(0))
}

/// Whether a block device refuses to be written.
pub fn is_read_only(path: &Path) -> Result<bool, Error> {
    let asked = raw::block_is_read_only(open(path)?);
    asked.map_err(|source| PathError::new("ask for the write protection of the device", path, source).into())
}

/// Whether somebody has the device to himself: it is mounted, or part of a larger device (E-481).
pub fn is_busy(path: &Path) -> Result<bool, Error> {
    let (held, _) = find(path)?;
    // For a block device, and without O_CREAT, O_EXCL asks to have it alone (open(2)).
    match reopen(held, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::EXCL) {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(source) => Err(PathError::new("open the device", path, source).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_path_leads_to_is_told() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(look(directory.path()).unwrap(), AtPath::Directory);
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(look(&file).unwrap(), AtPath::Other);
        assert_eq!(look(Path::new("/dev/null")).unwrap(), AtPath::Other);
        let link = directory.path().join("link");
        symlink(directory.path(), &link).unwrap();
        assert_eq!(look(&link).unwrap(), AtPath::Directory, "links are followed");
        assert!(look(&directory.path().join("none")).unwrap_err().is_missing());
        assert!(resolve(&directory.path().join("none")).unwrap_err().is_missing());
        assert_eq!(resolve(&link).unwrap(), std::fs::canonicalize(directory.path()).unwrap());
    }

    #[test]
    fn what_is_no_block_device_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        for path in [fifo.as_path(), directory.path(), Path::new("/dev/null")] {
            for error in [size_bytes(path).unwrap_err(), is_busy(path).unwrap_err(), is_read_only(path).unwrap_err()] {
                assert!(matches!(error, Error::NotBlock { .. }), "{error:?}");
            }
        }
        let error = size_bytes(Path::new("-x")).unwrap_err();
        assert_eq!(error.to_string(), "use -x as a device: the path is not absolute");
    }
}
