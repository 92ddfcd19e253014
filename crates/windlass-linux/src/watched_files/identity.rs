//! Which directory is at a path, whatever it is called: a name says nothing once something else is mounted there.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use linux_raw_sys::general as linux;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};

/// A directory, and the mount that it is seen through.
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
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MNT_ID;
        let wanted = wanted | StatxFlags::from_bits_retain(linux::STATX_MNT_ID_UNIQUE);
        let status = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        if FileType::from_raw_mode(status.stx_mode.into()) != FileType::Directory {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let device = (status.stx_dev_major, status.stx_dev_minor);
        Ok(Self { device, inode: status.stx_ino, mount: status.stx_mnt_id })
    }

    /// It was deleted, and the number of its inode may be used again: nothing is the same directory any more.
    pub(super) fn delete(&mut self) {
        self.inode = 0;
    }
}

/// What becomes readable, as priority data, when the mount table of this thread's namespace changes.
pub(super) fn mounts() -> Option<OwnedFd> {
    rustix::fs::open("/proc/thread-self/mountinfo", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}
