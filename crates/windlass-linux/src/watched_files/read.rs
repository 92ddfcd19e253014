//! Reading a whole file that somebody else named: never a pipe or a device, and never more than is bearable.

use std::fs::{FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use super::identity;
use crate::raw;

/// Why a file or directory could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The kernel says no.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// There can be no more watches, so changes would not be noticed.
    #[error("it cannot be watched: fs.inotify.max_user_watches limits how many directories can be")]
    Unwatchable,
    /// It is something else.
    #[error("it is {0} and not a file")]
    NotAFile(&'static str),
    /// It is too large.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// It is not whole at the moment.
    #[error("it is being written")]
    BeingWritten,
    /// It was read through a mount that is not there any more, and nothing is in its place.
    #[error("what was mounted there is not any more: mount it again")]
    Unmounted,
    /// It is another directory than the one that was entered, and lacks what was there.
    #[error(
        "{}, and {} is not in it: put back what was there",
        if *.mounted { "another file system is there than before" } else { "this is another directory than before" },
        .missing.display(),
    )]
    Another {
        /// Something was mounted over it, or what was mounted there was unmounted.
        mounted: bool,
        /// A file that was there and is not here.
        missing: PathBuf,
    },
}

impl Trouble {
    /// Whether descriptors or memory had run out, which says nothing of the file and passes.
    pub(super) fn is_shortage(&self) -> bool {
        let Self::Unreadable(error) = self else { return false };
        Errno::from_io_error(error).is_some_and(|it| matches!(it, Errno::MFILE | Errno::NFILE | Errno::NOMEM))
    }

    pub(super) fn of_directory(error: io::Error) -> Self {
        // inotify_add_watch(2): the user limit on the total number of watches was reached.
        match error.kind() {
            io::ErrorKind::StorageFull => Self::Unwatchable,
            _ => Self::Unreadable(error),
        }
    }
}

/// Reads a file, or the file that a link leads to, if it is not larger than this.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Trouble> {
    read_followed(path, bytes_max).map(|(bytes, _)| bytes)
}

/// As [`read`], with what is known of the file.
pub(super) fn read_followed(path: &Path, bytes_max: u64) -> Result<(Vec<u8>, Statx), Trouble> {
    read_seen(path, &std::fs::metadata(path).map_err(Trouble::Unreadable)?, bytes_max)
}

/// As [`read_followed`], of what has been looked at already.
pub(super) fn read_seen(path: &Path, seen: &Metadata, bytes_max: u64) -> Result<(Vec<u8>, Statx), Trouble> {
    // Looked at before it is opened, for opening a device can do something; and again after, for it may be another.
    regular(seen.file_type())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| Trouble::Unreadable(errno.into()))?;
    // What a writer has not closed may be torn, or still to come.
    if raw::is_written_to(&file) == Ok(true) {
        // Perhaps it was closed just now: see `AGAIN`.
        std::thread::yield_now();
        if raw::is_written_to(&file) == Ok(true) {
            return Err(Trouble::BeingWritten);
        }
    }
    let status = identity::status(&file).map_err(Trouble::Unreadable)?;
    if rustix::fs::FileType::from_raw_mode(status.stx_mode.into()) != rustix::fs::FileType::RegularFile {
        return Err(Trouble::NotAFile("something else by now"));
    }
    if status.stx_size > bytes_max {
        return Err(Trouble::TooLarge(bytes_max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(status.stx_size).unwrap_or_default());
    let file = std::fs::File::from(file);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(Trouble::Unreadable)?;
    if bytes.len() as u64 > bytes_max { Err(Trouble::TooLarge(bytes_max)) } else { Ok((bytes, status)) }
}

/// Whether there is a file that has something in it and can be read.
pub(super) fn is_readable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() > 0) && std::fs::File::open(path).is_ok()
}

/// Whether it is known that nobody writes to a file any more.
pub(super) fn is_closed(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    std::fs::metadata(path).is_ok_and(|it| it.is_file())
        && rustix::fs::open(path, flags, Mode::empty()).is_ok_and(|it| raw::is_written_to(it) == Ok(false))
}

fn regular(kind: FileType) -> Result<(), Trouble> {
    if kind.is_file() {
        return Ok(());
    }
    Err(Trouble::NotAFile(match kind {
        it if it.is_dir() => "a directory",
        it if it.is_fifo() => "a pipe",
        it if it.is_socket() => "a socket",
        _ => "a device",
    }))
}
