//! Giving a tree to a group: every entry gets the group, and modes that let the group in.
//!
//! What it ends with is what a plain walk with `lchown` and `chmod` ends with (rules P-209 to P-213); how it gets there
//! differs. It works on open descriptors and never on paths, so nobody who rearranges the tree meanwhile can lead it
//! out. It never goes into a mount, follows no link, and opens no fifo or device for reading or writing. What is right
//! already is not written. Several threads share a large tree.
//!
//! Children come before their directory and the root comes last: a change that was stopped, or that failed, leaves a
//! root that does not match, and the next [`apply`] with [`When::OnRootMismatch`] goes on where it is needed.

use std::fmt;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::path_error::PathError;
use crate::safe_path::Place;

mod descriptors;
mod entry;
mod walk;

/// Why a tree was not given to a group. Its root is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// The number is not one that a group can have: to the kernel it means «leave the group as it is».
    #[error("give {} to the group {group}: there is no such group", path.display())]
    NoSuchGroup {
        /// The root of the tree.
        path: PathBuf,
        /// The number.
        group: u32,
    },
    /// A directory was moved elsewhere while its entries were being changed.
    #[error("give {} to a group: it was moved meanwhile", path.display())]
    Moved {
        /// Where it was.
        path: PathBuf,
    },
    /// [`Control::stop`] was called.
    #[error("give {} to a group: stopped after {processed} entries", path.display())]
    Stopped {
        /// The root of the tree.
        path: PathBuf,
        /// How far it came.
        processed: u64,
    },
}

/// What the group may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read and write: files get 0660.
    ReadWrite,
    /// Read: files get 0440.
    ReadOnly,
}

impl Access {
    /// The bits that something of this kind gets in addition to those it has (P-212).
    fn bits(self, kind: FileType) -> u32 {
        let bits = match self {
            Self::ReadWrite => 0o660,
            Self::ReadOnly => 0o440,
        };
        // The set-group-id bit gives the group to what is made in the directory later.
        if kind.is_dir() { bits | 0o2110 } else { bits }
    }
}

/// When the whole tree is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// Always.
    Always,
    /// Not if [`root_matches`].
    OnRootMismatch,
}

/// What a tree is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The group of every entry.
    pub group: u32,
    /// What the group may do with them.
    pub access: Access,
    /// When to look further than the root.
    pub when: When,
}

/// How others follow and stop a change that is under way.
///
/// One can be used for several changes, which are then counted together, and stopped together.
#[derive(Debug, Default)]
pub struct Control {
    processed: AtomicU64,
    stopped: AtomicBool,
}

impl Control {
    /// How many entries were dealt with so far, whether they needed a change or not.
    #[must_use]
    pub fn processed(&self) -> u64 {
        self.processed.load(Ordering::Relaxed)
    }

    /// Makes the change end soon, with [`Error::Stopped`]. Stays in force for changes that begin later.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`Control::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// What a change came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// The root matched, so nothing else was looked at.
    pub root_matched: bool,
    /// How many entries were changed.
    pub changed: u64,
    /// How many entries were right already.
    pub right_already: u64,
    /// How many mount points below the root were left alone.
    pub mounts_skipped: u64,
    /// How many entries could not be changed.
    pub failed: u64,
    /// The first of those, at most [`Summary::FAILURES_MAX`].
    pub failures: Vec<Failure>,
}

impl Summary {
    /// How many failures are told one by one.
    pub const FAILURES_MAX: usize = 16;
}

/// One entry that could not be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("change the {attempt} of {}", path.display())]
pub struct Failure {
    /// The entry.
    pub path: PathBuf,
    /// What was tried.
    pub attempt: Attempt,
    /// Why it failed.
    #[source]
    pub source: Errno,
}

/// What is changed of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Its group.
    Group,
    /// Its mode.
    Mode,
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Group => "group",
            Self::Mode => "mode",
        })
    }
}

/// Whether the root alone shows that the tree was given to the group before (P-210): it is a directory of the group,
/// has every bit that it would be given, and the set-group-id bit. If it cannot be looked at, it does not match.
#[must_use]
pub fn root_matches(root: &Place, wanted: &Wanted) -> bool {
    let Ok(status) = rustix::fs::fstat(root) else { return false };
    let kind = FileType::from_raw_mode(status.st_mode);
    let bits = wanted.access.bits(kind);
    kind.is_dir() && status.st_gid == wanted.group && status.st_mode & bits == bits
}

/// Gives a tree to a group. Bits are added to modes, never taken away.
///
/// At most so many threads are at work, this one among them; a small tree gets no other. Entries that cannot be changed
/// are told in the summary and do not keep the rest from being changed, nor the root: who cares about them looks there.
/// What cannot be looked at, and a directory that cannot be read, ends it (P-212). Entries that vanish meanwhile are
/// nobody's business. If the root is not a directory, it is all there is.
pub fn apply(root: &Place, wanted: &Wanted, threads: NonZero<usize>, control: &Control) -> Result<Summary, Error> {
    if wanted.group == u32::MAX {
        return Err(Error::NoSuchGroup { path: root.path().into(), group: wanted.group });
    }
    if wanted.when == When::OnRootMismatch && root_matches(root, wanted) {
        return Ok(Summary { root_matched: true, ..Summary::default() });
    }
    walk::run(root, wanted, threads, control)
}

/// Whether files can be given to this group at all: in a user namespace only groups that are mapped into it can own
/// anything, see user_namespaces(7).
#[must_use]
pub fn is_mapped(group: u32) -> bool {
    static MAP: OnceLock<Option<String>> = OnceLock::new();
    // Where it cannot be read, the kernel says later what it thinks of the group.
    let map = MAP.get_or_init(|| std::fs::read_to_string("/proc/self/gid_map").ok());
    map.as_ref().is_none_or(|it| maps(it, group))
}

/// Lines of the map: the first id inside, the first id outside, and how many there are.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_whitespace().map(|it| it.parse::<u64>().ok());
        let (first, count) = (words.next().flatten(), words.nth(1).flatten());
        matches!((first, count), (Some(first), Some(count)) if (first..first + count).contains(&u64::from(id)))
    })
}

#[cfg(test)]
mod tests;
