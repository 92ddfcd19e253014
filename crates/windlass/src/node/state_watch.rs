//! Notices that somebody removes what this node keeps for itself, while it runs.
//!
//! All of it is open, so nothing else would tell: a directory that has no name any more can be read, and is empty. What the
//! next start could not find out by itself is the volumes that were made for claims, and it would have others made (I-15).

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use windlass_linux::watched_files;

use crate::provision::store::DIRECTORY as NOTES;

/// Room for many events; one alone never needs more than 300 bytes.
const BUFFER_BYTES: usize = 4096;

/// What was removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// The directory of all, or one of those in it that are kept open.
    Directory,
    /// All that was noted for claims.
    Notes,
    /// What was noted for a claim, in the file of this name.
    Note(OsString),
}

/// Watches the directory in which a node keeps what is its own.
pub(super) struct StateWatch {
    inotify: OwnedFd,
    path: PathBuf,
    /// What the kernel calls that directory, and the one with the notes of claims.
    state: i32,
    notes: Option<i32>,
}

impl StateWatch {
    /// Fails where the kernel has no more watches: without one a removal would not be noticed.
    pub(super) fn begin(path: &Path) -> Result<Self, watched_files::Error> {
        let failed = |source| watched_files::Error::Begin { step: "begin to watch files", source };
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(failed)?;
        let removed = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let all = removed | WatchFlags::CREATE | WatchFlags::ONLYDIR;
        let state = inotify::add_watch(&inotify, path, all).map_err(failed)?;
        let mut watch = Self { inotify, path: path.into(), state, notes: None };
        watch.watch_notes();
        Ok(watch)
    }

    fn watch_notes(&mut self) {
        let removed = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        self.notes = inotify::add_watch(&self.inotify, self.path.join(NOTES), removed).ok();
    }

    /// What was removed since the last time. This node removes notes itself, too.
    pub(super) fn losses(&mut self) -> Vec<Loss> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let (mut losses, mut has_notes) = (Vec::new(), false);
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let (what, is_state) = (event.events(), event.wd() == self.state);
            let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()).to_owned());
            let is_notes = name.as_deref() == Some(OsStr::new(NOTES));
            let is_removed = what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
            match name {
                _ if is_state && what.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) => {
                    losses.push(Loss::Directory);
                }
                _ if what.contains(ReadFlags::QUEUE_OVERFLOW) => losses.push(Loss::Notes),
                Some(_) if is_state && what.contains(ReadFlags::ISDIR) => match (is_notes, is_removed) {
                    (true, true) => losses.push(Loss::Notes),
                    (true, false) => has_notes = true,
                    (false, true) => losses.push(Loss::Directory),
                    (false, false) => {}
                },
                Some(name) if Some(event.wd()) == self.notes && is_removed => losses.push(Loss::Note(name)),
                Some(_) | None => {}
            }
        }
        if has_notes {
            self.watch_notes();
        }
        losses
    }
}

impl AsFd for StateWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
