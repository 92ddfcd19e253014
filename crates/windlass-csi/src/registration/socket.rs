//! What is at a path in the watched directory.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

/// What a look at a path has found.
#[derive(Debug)]
pub(super) struct Entry {
    /// The whole path.
    pub(super) path: PathBuf,
    pub(super) what: EntryState,
}

#[derive(Debug)]
pub(super) enum EntryState {
    /// Nothing is there or below it, but for what the same look has found.
    Nothing,
    /// A socket that may be asked.
    Socket(File),
    /// Something that is never asked, and why.
    Unfit(File, String),
    /// It cannot be looked at.
    Trouble(String),
}

/// A file that is held, so that no other can have its number.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) descriptor: Arc<OwnedFd>,
    identity: (u64, u64),
    made: (i64, i64),
}

impl File {
    pub(super) fn is(&self, other: &Self) -> bool {
        self.identity == other.identity
    }

    /// Judges what has been opened.
    pub(super) fn judge(descriptor: OwnedFd, stat: &Stat) -> EntryState {
        let file = Self {
            descriptor: Arc::new(descriptor),
            identity: (stat.st_dev, stat.st_ino),
            // A socket is not written to, so this is when it was made; that its mode is changed does not count.
            made: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
        };
        let us = rustix::process::geteuid().as_raw();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket if stat.st_uid == 0 || stat.st_uid == us => EntryState::Socket(file),
            FileType::Socket => {
                let text = format!("it belongs to user {}, and neither to root nor to user {us}", stat.st_uid);
                EntryState::Unfit(file, text)
            }
            other => EntryState::Unfit(file, format!("it is {} and not a socket", name(other))),
        }
    }
}

impl Entry {
    /// When it was made, as far as that is known.
    pub(super) fn made(&self) -> (i64, i64) {
        match &self.what {
            EntryState::Socket(file) | EntryState::Unfit(file, _) => file.made,
            EntryState::Nothing | EntryState::Trouble(_) => (0, 0),
        }
    }
}

/// What kind of thing it is, in words.
fn name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}
