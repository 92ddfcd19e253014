//! Which file or directory is at a path, whatever it is called: a name says nothing once something else is mounted there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use linux_raw_sys::general as linux;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags};

/// Device and number of an inode.
pub type Inode = ((u32, u32), u64);

/// Where a content was read, and how it came to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// It was moved there, or a link on its way was turned, so nobody was interrupted while writing it there.
    pub moved: bool,
    /// The mount that it was read through.
    pub mount: u64,
    /// The directory that it is in; the file itself, if that alone is mounted there.
    pub place: Inode,
    /// The file.
    pub file: Inode,
    /// Its size.
    pub size: u64,
    /// When it was written to, in seconds and nanoseconds.
    pub modified: (i64, u32),
}

impl Origin {
    /// Whether it was read at the same place, and not where something was mounted or unmounted in between. What was mounted
    /// again is the same.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        self.mount == other.mount || self.place == other.place
    }

    /// Whether it is the same file, not written to in between, wherever it was moved.
    #[must_use]
    pub fn is_of(&self, other: &Self) -> bool {
        (self.file, self.size, self.modified) == (other.file, other.size, other.modified)
    }
}

const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::INO)
    .union(StatxFlags::MNT_ID)
    .union(StatxFlags::from_bits_retain(linux::STATX_MNT_ID_UNIQUE));

/// A file or directory, and the mount that it is seen through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: (u32, u32),
    inode: u64,
    /// Never used again where the kernel can promise that (Linux 6.8). Zero before Linux 5.8, which does not tell.
    pub(super) mount: u64,
}

impl Identity {
    /// The directory at a path, which is not followed if it is a link; a dot at its end is.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let status = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, WANTED)?;
        if FileType::from_raw_mode(status.stx_mode.into()) != FileType::Directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self::from(&status))
    }

    pub(super) fn inode(&self) -> Inode {
        (self.device, self.inode)
    }

    /// It was deleted, and the number of its inode may be used again: nothing is the same directory any more.
    pub(super) fn delete(&mut self) {
        self.inode = 0;
    }
}

impl From<&Statx> for Identity {
    fn from(status: &Statx) -> Self {
        let device = (status.stx_dev_major, status.stx_dev_minor);
        Self { device, inode: status.stx_ino, mount: status.stx_mnt_id }
    }
}

/// What is known of an open file.
pub(super) fn status(file: impl AsFd) -> io::Result<Statx> {
    Ok(rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, WANTED | StatxFlags::SIZE | StatxFlags::MTIME)?)
}

/// What becomes readable, as priority data, when the mount table of this thread's namespace changes.
pub(super) fn mounts() -> Option<OwnedFd> {
    rustix::fs::open("/proc/thread-self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}
