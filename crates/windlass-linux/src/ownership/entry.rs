//! One entry that is held open, of whatever kind: what it lacks, and giving it that.

use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Stat};
use rustix::io::Errno;

use super::{Attempt, Wanted};
use crate::raw;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    RightAlready,
    Changed,
    Failed(Attempt, Errno),
}

/// What is to be written to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Change {
    group: bool,
    /// The new mode.
    mode: Option<u32>,
}

/// Compares before anything is written, so that a tree which is nearly right costs few writes.
fn change(status: &Stat, wanted: &Wanted) -> Change {
    let kind = FileType::from_raw_mode(status.st_mode);
    let group = status.st_gid != wanted.group;
    if kind.is_symlink() {
        return Change { group, mode: None };
    }
    let mode = status.st_mode & 0o7777;
    let new_mode = mode | wanted.access.bits(kind);
    // Changing the group takes the set-id bits away, and the mode from before brings them back (P-212).
    let lost = group && mode & 0o6000 != 0;
    Change { group, mode: (new_mode != mode || lost).then_some(new_mode) }
}

/// Gives an entry to the group. The descriptor may be open for its path alone, and may hold a link.
pub(super) fn settle(fd: impl AsFd, status: &Stat, wanted: &Wanted) -> Settled {
    let change = change(status, wanted);
    if change == Change::default() {
        return Settled::RightAlready;
    }
    let mut failed = None;
    if change.group {
        let group = Some(Gid::from_raw(wanted.group));
        let changed = rustix::fs::chownat(&fd, "", None, group, AtFlags::EMPTY_PATH);
        failed = changed.err().map(|errno| (Attempt::Group, errno));
    }
    // Also if the group could not be changed: an entry without bits for its group is no better off (P-212).
    if let Some(mode) = change.mode
        && let Err(errno) = set_mode(&fd, Mode::from_raw_mode(mode))
    {
        failed = failed.or(Some((Attempt::Mode, errno)));
    }
    match failed {
        Some((attempt, errno)) => Settled::Failed(attempt, errno),
        None => Settled::Changed,
    }
}

/// `fchmod(2)` refuses descriptors that are open for their path alone; opening a fifo or a device in any other way
/// would be noticed by whoever is at its other end.
fn set_mode(fd: impl AsFd, mode: Mode) -> Result<(), Errno> {
    match raw::fchmodat2(&fd, "", mode, AtFlags::EMPTY_PATH) {
        // Linux before 6.6, or a sandbox that has not heard of the call.
        Err(Errno::NOSYS | Errno::PERM) => set_mode_by_magic_link(fd, mode),
        answer => answer,
    }
}

/// The link leads to what is open, wherever that is now. A link that is held itself must not come here.
fn set_mode_by_magic_link(fd: impl AsFd, mode: Mode) -> Result<(), Errno> {
    let link = format!("/proc/thread-self/fd/{}", fd.as_fd().as_raw_fd());
    rustix::fs::chmodat(CWD, link, mode, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::*;
    use crate::ownership::{Access, When};

    const DIRECTORY: u32 = 0o040_000;
    const FILE: u32 = 0o100_000;
    const LINK: u32 = 0o120_000;
    const FIFO: u32 = 0o010_000;

    /// What is written to something with this mode, of group 1 or of the wanted group 2.
    fn change_of(group: u32, mode: u32, access: Access) -> Change {
        let directory = tempfile::tempdir().unwrap();
        let mut status = rustix::fs::stat(directory.path()).unwrap();
        (status.st_gid, status.st_mode) = (group, mode);
        change(&status, &Wanted { group: 2, access, when: When::Always })
    }

    #[test]
    fn bits_are_added_and_none_is_taken_away() {
        use Access::{ReadOnly, ReadWrite};
        for (before, access, after) in [
            // P-213, and what follows from it.
            (FILE | 0o600, ReadWrite, Some(0o660)),
            (FILE | 0o400, ReadOnly, Some(0o440)),
            (FILE | 0o644, ReadOnly, None),
            (DIRECTORY | 0o755, ReadWrite, Some(0o2775)),
            (DIRECTORY | 0o700, ReadOnly, Some(0o2750)),
            (DIRECTORY | 0o2770, ReadWrite, None),
            (DIRECTORY | 0o1777, ReadWrite, Some(0o3777)),
            (FILE, ReadWrite, Some(0o660)),
            (FILE | 0o777, ReadWrite, None),
            (FIFO | 0o200, ReadWrite, Some(0o660)),
            (FILE | 0o4711, ReadWrite, Some(0o4771)),
            (LINK | 0o777, ReadWrite, None),
        ] {
            let case = format!("{before:o} {access:?}");
            assert_eq!(change_of(2, before, access), Change { group: false, mode: after }, "{case}");
            assert!(change_of(1, before, access).group, "{case}");
        }
    }

    #[test]
    fn set_id_bits_that_go_with_the_group_are_brought_back() {
        assert_eq!(change_of(1, FILE | 0o6770, Access::ReadWrite), Change { group: true, mode: Some(0o6770) });
        assert_eq!(change_of(1, FILE | 0o4770, Access::ReadWrite), Change { group: true, mode: Some(0o4770) });
        assert_eq!(change_of(1, FILE | 0o770, Access::ReadWrite), Change { group: true, mode: None });
        assert_eq!(change_of(1, LINK | 0o777, Access::ReadWrite), Change { group: true, mode: None });
    }

    #[test]
    fn both_ways_to_set_a_mode_reach_what_is_open_and_not_what_took_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mode_of = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        let hold = |name: &str| rustix::fs::open(path(name), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
        type Way = fn(OwnedFd, Mode) -> Result<(), Errno>;
        let ways: [Way; 2] = [set_mode, set_mode_by_magic_link];
        for (number, way) in ways.into_iter().enumerate() {
            let (held, moved) = (format!("held{number}"), format!("moved{number}"));
            std::fs::write(path(&held), "").unwrap();
            let fd = hold(&held);
            std::fs::rename(path(&held), path(&moved)).unwrap();
            std::fs::write(path(&held), "").unwrap();
            std::fs::set_permissions(path(&held), std::fs::Permissions::from_mode(0o600)).unwrap();
            way(fd, Mode::from_raw_mode(0o640)).unwrap();
            assert_eq!((mode_of(&path(&moved)), mode_of(&path(&held))), (0o640, 0o600));
        }
    }
}
