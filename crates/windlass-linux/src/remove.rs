//! Removing directories and files: the only code in windlass that does, and it cannot delete data (promise I-5).
//!
//! It walks by open directories, never crosses a mount, never follows a link. It removes empty directories, and files
//! that the caller declares its own. It looks at everything first: if anything else is in the way, the error names it
//! and nothing is removed at all. What changes between the look and the removal, and a file that is mounted over, is
//! refused by the kernel when its turn comes, and then the rest stays. A directory that is moved elsewhere while it is
//! being emptied keeps what it has then, down to the last file (`remove/aside.rs`).

mod aside;

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::{Mounts, Place, open_beneath};

pub use aside::Aside;
use aside::{Holder, Shelf, Taking};

/// Why something was not removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// Something is mounted there.
    #[error("remove {}: it is a mount point", path.display())]
    Mounted {
        /// The mount point.
        path: PathBuf,
    },
    /// Something is there that the caller did not declare its own.
    #[error("remove {}: {} that is not ours", path.display(), described(*kind))]
    Foreign {
        /// What is in the way.
        path: PathBuf,
        /// What kind of file it is.
        kind: FileType,
    },
    /// A directory was filled again while it was being emptied.
    #[error("remove {}: it is not empty, {} appeared in it", path.display(), entry.display())]
    Refilled {
        /// The directory.
        path: PathBuf,
        /// One of the things in it.
        entry: PathBuf,
    },
    /// A directory was moved elsewhere while it was being emptied. What it held then is with it.
    #[error("remove {}: it was moved meanwhile, and keeps what it has", path.display())]
    Moved {
        /// Where it was.
        path: PathBuf,
    },
    /// The same, and a file of it could not be put back, because its directory is gone or has another of that name.
    #[error("remove {}: it was moved meanwhile; this file is kept as {}", path.display(), kept.display())]
    Stranded {
        /// Where it was.
        path: PathBuf,
        /// Where it is.
        kept: PathBuf,
    },
}

fn described(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link",
        FileType::Fifo => "a fifo",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something",
    }
}

/// Something that is not a directory, about which the caller is asked.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'walk> {
    /// Its path within the tree; empty if the tree is this file.
    pub path: &'walk Path,
    /// What kind of file it is; never a directory.
    pub kind: FileType,
}

/// Removes what has this name: a directory with everything in it, or a file. That it is missing is success.
///
/// `ours` says of each file whether it may be removed, by its place in the tree and its kind. It is asked when everything
/// is looked at; of a tree that is too large to be kept in mind it is asked again when the file is about to go.
///
/// What is moved out of the tree meanwhile stays whole; `parent` itself is not to be moved. While it takes, there is
/// another directory in `parent`, for nobody else.
pub fn tree(parent: &Place, name: &Name, mut ours: impl FnMut(Entry<'_>) -> bool) -> Result<(), Error> {
    remove_tree(parent, name, &mut ours, Shelf::Beside(None))
}

/// As [`tree`], also if `parent` or a directory above it is moved, as far as the root of `aside`; and nothing is made in
/// `parent`.
pub fn tree_by(
    aside: &Aside,
    parent: &Place,
    name: &Name,
    mut ours: impl FnMut(Entry<'_>) -> bool,
) -> Result<(), Error> {
    remove_tree(parent, name, &mut ours, Shelf::Aside(aside))
}

/// As [`tree`], of a directory that windlass wrote and can write again: nothing is made beside it. If it is moved away, it
/// may lose one file of which the look and the removal were on both sides of that moment.
pub(crate) fn tree_in_place(parent: &Place, name: &Name) -> Result<(), Error> {
    remove_tree(parent, name, &mut |_| true, Shelf::InPlace)
}

fn remove_tree(
    parent: &Place,
    name: &Name,
    ours: &mut dyn FnMut(Entry<'_>) -> bool,
    shelf: Shelf<'_>,
) -> Result<(), Error> {
    let mut look = Walk::new(parent, name, Pass::Look(Some(Plan::default())), &mut *ours);
    // What is empty holds nothing to look at.
    if look.remove_empty(name.as_ref())? == Emptied::Gone {
        return Ok(());
    }
    look.run()?;
    let taking = Taking::new(parent, name, shelf);
    let Walk { pass, .. } = look;
    match pass {
        Pass::Look(Some(plan)) => plan.carry_out(parent, name, taking),
        Pass::Look(None) | Pass::Remove(_) => Walk::new(parent, name, Pass::Remove(taking), ours).run(),
    }
}

/// Removes a directory that holds nothing but directories. A file is in the way: it stays, with the directories above it.
///
/// Unlike [`tree`] it does not look first, because a directory that the kernel finds empty holds nothing to lose.
pub fn empty_directories(parent: &Place, name: &Name) -> Result<(), Error> {
    nested_directories(parent, name, 0)
}

/// As [`empty_directories`], where the directories of so many levels, the first among them, are known to hold others: it is
/// not tried in vain whether they are empty.
pub fn nested_directories(parent: &Place, name: &Name, levels: usize) -> Result<(), Error> {
    let mut nothing = |_: Entry<'_>| false;
    let walk = Walk::new(parent, name, Pass::Remove(Taking::new(parent, name, Shelf::InPlace)), &mut nothing);
    Walk { nested: levels, ..walk }.run()
}

/// Removes a directory that holds at most this one file of ours, with the file. That either is missing is success.
///
/// Anything else in the directory is in the way, and stays with it.
pub fn directory_of(parent: &Place, name: &Name, file: &Name) -> Result<(), Error> {
    let path = || parent.path().join(name.as_path());
    let directory = match open_directory(parent.as_fd(), name.as_ref()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::XDEV) => return Err(Error::Mounted { path: path() }),
        Err(source) => return Err(PathError::new("look at", path(), source).into()),
    };
    unlink(directory.as_fd(), file.as_ref(), || path().join(file.as_path()))?;
    match remove_directory(parent.as_fd(), name.as_ref(), &directory, path) {
        Err(Error::Refilled { path, entry }) => {
            let status = rustix::fs::statat(&directory, &entry, AtFlags::SYMLINK_NOFOLLOW);
            let kind = status.map_or(FileType::Unknown, |it| FileType::from_raw_mode(it.st_mode));
            Err(Error::Foreign { path: path.join(entry), kind })
        }
        other => other,
    }
}

enum Pass<'walk> {
    /// Nothing is removed. What is seen is kept for the removal, until it is too much.
    Look(Option<Plan>),
    Remove(Taking<'walk>),
}

/// What a look found, in the order in which it goes: whatever is in a directory before the directory.
///
/// The directories stay open, so that none has to be found, opened and listed again.
#[derive(Default)]
struct Plan {
    /// Each with its path within the tree.
    directories: Vec<(OwnedFd, PathBuf)>,
    steps: Vec<Step>,
}

/// Something to remove.
struct Step {
    /// The directory that holds it; `None` if it is the top.
    within: Option<usize>,
    name: OsString,
    /// The directory that it is itself, if it is one.
    directory: Option<usize>,
}

impl Plan {
    /// Each worker may have as many open; windlass's own directories are far fewer.
    const DIRECTORIES_MAX: usize = 8;
    const STEPS_MAX: usize = 1024;

    fn is_too_much(&self) -> bool {
        self.directories.len() > Self::DIRECTORIES_MAX || self.steps.len() > Self::STEPS_MAX
    }

    fn carry_out(self, parent: &Place, top: &Name, mut taking: Taking<'_>) -> Result<(), Error> {
        let holder = |within: Option<usize>| match within.map(|it| &self.directories[it]) {
            Some((fd, below)) => Holder { fd: fd.as_fd(), below: Some(below) },
            None => Holder { fd: parent.as_fd(), below: None },
        };
        let mut last = None;
        for Step { within, name, directory } in self.steps {
            if last != Some(within) {
                last.map_or(Ok(()), |it| taking.finish(holder(it)))?;
                last = Some(within);
            }
            let gone = match directory.map(|it| &self.directories[it]) {
                Some((fd, below)) => remove_directory(holder(within).fd, &name, fd, || full_path(parent, top, below)),
                None => taking.remove(holder(within), name),
            };
            if let Err(error) = gone {
                // What was taken from the directory before this error goes, or is put back.
                let _ = taking.finish(holder(within));
                return Err(error);
            }
        }
        last.map_or(Ok(()), |it| taking.finish(holder(it)))
    }
}

/// Which directory it is, to know it again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    mount: u64,
    device: (u32, u32),
    inode: u64,
}

/// A directory on the way from the top to where the walk is.
struct Level {
    directory: Directory,
    name: OsString,
    /// What is still to be visited.
    entries: Vec<(OsString, FileType)>,
}

enum Directory {
    Open(OwnedFd),
    /// In the plan, by its number, which keeps it open.
    Planned(usize),
    /// Closed while the walk is far below, so that a deep tree does not use up the descriptors.
    Closed(Identity),
}

struct Walk<'walk, 'ours> {
    parent: &'walk Place,
    name: &'walk Name,
    pass: Pass<'walk>,
    ours: &'ours mut dyn FnMut(Entry<'_>) -> bool,
    levels: Vec<Level>,
    /// The path from the top of the tree to where the walk is.
    below: PathBuf,
    /// Directories of so many levels are not empty, most likely.
    nested: usize,
}

/// What the path of a walk is the path of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// The deepest directory.
    Directory,
    /// Something in it.
    Entry,
}

/// What became of something that might be an empty directory.
#[derive(PartialEq, Eq)]
enum Emptied {
    Gone,
    /// It is not empty, or no directory, or cannot be removed: a closer look will tell.
    There,
}

impl<'walk, 'ours> Walk<'walk, 'ours> {
    /// How many directories are kept open at a time.
    const OPEN_MAX: usize = 32;

    fn new(
        parent: &'walk Place,
        name: &'walk Name,
        pass: Pass<'walk>,
        ours: &'ours mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Self {
        Self { parent, name, pass, ours, levels: Vec::new(), below: PathBuf::new(), nested: 0 }
    }

    /// Not recursive: whoever filled the tree chose its depth, and could choose the depth of our stack.
    fn run(&mut self) -> Result<(), Error> {
        let name: &OsStr = self.name.as_ref();
        let first = self.visit(name.to_owned(), FileType::Unknown);
        first.and_then(|()| self.go_on()).inspect_err(|_| {
            // What was taken from the directory before this error goes, or is put back.
            let _ = self.taking(At::Entry, Taking::finish);
        })
    }

    fn go_on(&mut self) -> Result<(), Error> {
        while let Some(level) = self.levels.last_mut() {
            match level.entries.pop() {
                Some((name, kind)) => {
                    self.below.push(&name);
                    let depth = self.levels.len();
                    self.visit(name, kind)?;
                    if self.levels.len() == depth {
                        self.below.pop();
                    }
                }
                None => {
                    self.leave()?;
                    self.below.pop();
                }
            }
        }
        Ok(())
    }

    /// The path of where the walk is, for messages.
    fn path(&self) -> PathBuf {
        full_path(self.parent, self.name, &self.below)
    }

    /// The directory that holds the entry which is being visited.
    fn here(&self) -> BorrowedFd<'_> {
        match self.levels.last().map(|it| &it.directory) {
            Some(Directory::Open(fd)) => fd.as_fd(),
            Some(Directory::Planned(number)) => match &self.pass {
                Pass::Look(Some(plan)) => plan.directories[*number].0.as_fd(),
                Pass::Look(None) | Pass::Remove(_) => unreachable!("what is planned is in the plan"),
            },
            Some(Directory::Closed(_)) => unreachable!("the deepest directory is open"),
            None => self.parent.as_fd(),
        }
    }

    fn visit(&mut self, name: OsString, kind: FileType) -> Result<(), Error> {
        if matches!(kind, FileType::Directory | FileType::Unknown) {
            let may_be_empty = matches!(self.pass, Pass::Remove(_)) && self.levels.len() >= self.nested;
            if may_be_empty && self.remove_empty(&name)? == Emptied::Gone {
                return Ok(());
            }
            match open_directory(self.here(), &name) {
                Ok(fd) => {
                    self.taking(At::Entry, Taking::finish)?;
                    return self.enter(fd, name);
                }
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::XDEV) => return Err(Error::Mounted { path: self.path() }),
                // Not a directory, or no longer.
                Err(Errno::NOTDIR | Errno::LOOP) => {}
                Err(source) => return Err(PathError::new("look at", self.path(), source).into()),
            }
        }
        self.ask(&name, kind)?;
        match self.pass {
            Pass::Look(_) => {
                self.plan(name, None);
                Ok(())
            }
            Pass::Remove(_) => self.taking(At::Entry, |taking, holder| taking.remove(holder, name)),
        }
    }

    /// Does something about the files of the directory where the walk is.
    fn taking(
        &mut self,
        at: At,
        work: impl FnOnce(&mut Taking<'walk>, Holder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Pass::Remove(taking) = &mut self.pass else { return Ok(()) };
        let below = match at {
            At::Entry => self.below.parent(),
            At::Directory => Some(self.below.as_path()),
        };
        let holder = match self.levels.last().map(|it| &it.directory) {
            Some(Directory::Open(fd)) => Holder { fd: fd.as_fd(), below },
            Some(Directory::Planned(_) | Directory::Closed(_)) => unreachable!("the deepest directory is open"),
            None => Holder { fd: self.parent.as_fd(), below: None },
        };
        work(taking, holder)
    }

    /// Removes a directory if it is empty, without opening it. The kernel refuses one that is not, and a mount point.
    fn remove_empty(&self, name: &OsStr) -> Result<Emptied, Error> {
        match rustix::fs::unlinkat(self.here(), Path::new(name), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(Emptied::Gone),
            Err(Errno::BUSY) => Err(Error::Mounted { path: self.path() }),
            Err(_) => Ok(Emptied::There),
        }
    }

    /// Goes down into a directory.
    fn enter(&mut self, fd: OwnedFd, name: OsString) -> Result<(), Error> {
        let entries = list(&fd).map_err(|source| PathError::new("look at", self.path(), source))?;
        let directory = match &mut self.pass {
            Pass::Look(Some(plan)) => {
                plan.directories.push((fd, self.below.clone()));
                Directory::Planned(plan.directories.len() - 1)
            }
            Pass::Look(None) | Pass::Remove(_) => Directory::Open(fd),
        };
        self.levels.push(Level { directory, name, entries });
        self.limit_plan();
        if let Some(far) = self.levels.len().checked_sub(Self::OPEN_MAX + 1)
            && let Directory::Open(fd) = &self.levels[far].directory
        {
            let identity = identify(fd).map_err(|source| PathError::new("look at", self.path(), source))?;
            self.levels[far].directory = Directory::Closed(identity);
        }
        Ok(())
    }

    /// Goes up from a directory that has nothing left to visit.
    fn leave(&mut self) -> Result<(), Error> {
        self.taking(At::Directory, Taking::finish)?;
        let Some(level) = self.levels.pop() else { return Ok(()) };
        let fd = match level.directory {
            Directory::Open(fd) => fd,
            Directory::Planned(number) => {
                self.plan(level.name, Some(number));
                return Ok(());
            }
            Directory::Closed(_) => unreachable!("the deepest directory is open"),
        };
        if let Some(Level { directory: above @ Directory::Closed(_), .. }) = self.levels.last_mut() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let reopened = rustix::fs::openat(&fd, "..", flags, Mode::empty());
            // It may have been moved since we came down, and then its parent is another directory.
            match reopened.and_then(|it| Ok((Directory::Closed(identify(&it)?), it))) {
                Ok((found, reopened)) if found.is_same(above) => *above = Directory::Open(reopened),
                Ok(_) => return Err(Error::Moved { path: self.path() }),
                Err(source) => return Err(PathError::new("look at", self.path(), source).into()),
            }
        }
        match self.pass {
            Pass::Look(_) => Ok(()),
            Pass::Remove(_) => remove_directory(self.here(), &level.name, &fd, || self.path()),
        }
    }

    /// Is this file ours?
    fn ask(&mut self, name: &OsStr, kind: FileType) -> Result<(), Error> {
        let kind = match kind {
            // The directory does not say, or what it took for a directory is none.
            FileType::Unknown | FileType::Directory => {
                match rustix::fs::statat(self.here(), Path::new(name), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(status) => FileType::from_raw_mode(status.st_mode),
                    Err(Errno::NOENT) => return Ok(()),
                    Err(source) => return Err(PathError::new("look at", self.path(), source).into()),
                }
            }
            kind => kind,
        };
        if (self.ours)(Entry { path: &self.below, kind }) {
            return Ok(());
        }
        Err(Error::Foreign { path: self.path(), kind })
    }

    /// Remembers to remove something that is in the directory where the walk is.
    fn plan(&mut self, name: OsString, directory: Option<usize>) {
        let within = match self.levels.last().map(|it| &it.directory) {
            Some(Directory::Planned(number)) => Some(*number),
            Some(Directory::Open(_) | Directory::Closed(_)) | None => None,
        };
        if let Pass::Look(Some(plan)) = &mut self.pass {
            plan.steps.push(Step { within, name, directory });
            self.limit_plan();
        }
    }

    /// Gives the plan up if it is too much: the look goes on without it.
    fn limit_plan(&mut self) {
        let Pass::Look(plan) = &mut self.pass else { return };
        let Some(mut given_up) = plan.take_if(|it| it.is_too_much()) else { return };
        // The deepest first, which has the greatest number: taking it out moves none that is still to come.
        for level in self.levels.iter_mut().rev() {
            if let Directory::Planned(number) = level.directory {
                let (fd, _) = given_up.directories.swap_remove(number);
                level.directory = Directory::Open(fd);
            }
        }
    }
}

impl Directory {
    fn is_same(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Closed(one), Self::Closed(another)) if one == another)
    }
}

/// Joining an empty path would add a slash.
fn full_path(parent: &Place, top: &Name, below: &Path) -> PathBuf {
    let top = parent.path().join(top.as_path());
    if below.as_os_str().is_empty() { top } else { top.join(below) }
}

/// RESOLVE_NO_XDEV refuses a mount point before anything on the other side is touched, at the moment of opening: a
/// comparison of mount ids could only come later.
fn open_directory(holder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    open_beneath(holder, Path::new(name), flags, Mode::empty(), Mounts::Refuse)
}

/// Removes a file by name: of a link it removes the link and not what it leads to, and the kernel refuses a directory and
/// a mount point.
fn unlink(holder: BorrowedFd<'_>, name: &OsStr, path: impl Fn() -> PathBuf) -> Result<(), Error> {
    match rustix::fs::unlinkat(holder, Path::new(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(Error::Mounted { path: path() }),
        Err(Errno::ISDIR) => Err(Error::Foreign { path: path(), kind: FileType::Directory }),
        Err(source) => Err(PathError::new("remove the file", path(), source).into()),
    }
}

/// Removes a directory that was emptied. It is open, so that what is in it can be named if there is something.
fn remove_directory(
    holder: BorrowedFd<'_>,
    name: &OsStr,
    directory: &OwnedFd,
    path: impl Fn() -> PathBuf,
) -> Result<(), Error> {
    match rustix::fs::unlinkat(holder, Path::new(name), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::BUSY) => Err(Error::Mounted { path: path() }),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            let _ = rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0));
            let left = list(directory).unwrap_or_default();
            let entry = left.into_iter().next().map(|(name, _)| PathBuf::from(name)).unwrap_or_default();
            Err(Error::Refilled { path: path(), entry })
        }
        Err(source) => Err(PathError::new("remove the directory", path(), source).into()),
    }
}

fn identify(fd: impl AsFd) -> Result<Identity, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = rustix::fs::statx(fd, "", flags, StatxFlags::INO | StatxFlags::MNT_ID)?;
    let device = (status.stx_dev_major, status.stx_dev_minor);
    Ok(Identity { mount: status.stx_mnt_id, device, inode: status.stx_ino })
}

/// The entries of a directory, with what the directory knows of their kind.
fn list(fd: &OwnedFd) -> Result<Vec<(OsString, FileType)>, Errno> {
    let mut entries = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
    let mut directory = RawDir::new(fd, &mut buffer);
    while let Some(entry) = directory.next() {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => entries.push((OsStr::from_bytes(name).to_owned(), entry.file_type())),
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    struct Case {
        directory: tempfile::TempDir,
        parent: Place,
    }

    impl Case {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let parent = Place::root(directory.path()).unwrap();
            Self { directory, parent }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.directory.path().join(below)
        }

        fn file(&self, below: &str) -> &Self {
            std::fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
            std::fs::write(self.path(below), "contents").unwrap();
            self
        }

        fn remove(&self, ours: &[&str]) -> Result<(), Error> {
            let name = Name::new("name", "tree").unwrap();
            tree(&self.parent, &name, |entry| ours.iter().any(|it| Path::new(it) == entry.path))
        }
    }

    #[test]
    fn what_is_ours_goes_with_the_directories_around_it() {
        let case = Case::new();
        case.file("tree/a/mine").file("tree/mine").file("other");
        std::fs::create_dir_all(case.path("tree/b/c/d")).unwrap();
        case.remove(&["a/mine", "mine"]).unwrap();
        assert!(!case.path("tree").exists());
        assert!(case.path("other").exists());
    }

    #[test]
    fn what_is_missing_is_removed() {
        Case::new().remove(&[]).unwrap();
    }

    #[test]
    fn a_users_file_stops_everything_and_is_named() {
        let case = Case::new();
        case.file("tree/a/mine").file("tree/deep/er/diary").file("tree/z/mine");
        let error = case.remove(&["a/mine", "z/mine"]).unwrap_err();
        assert!(matches!(&error, Error::Foreign { kind: FileType::RegularFile, .. }), "{error}");
        assert!(error.to_string().contains("tree/deep/er/diary: a file that is not ours"), "{error}");
        for kept in ["tree/a/mine", "tree/deep/er/diary", "tree/z/mine"] {
            assert!(case.path(kept).exists(), "{kept}");
        }
    }

    #[test]
    fn a_link_is_removed_and_not_followed() {
        let case = Case::new();
        case.file("kept/file").file("tree/file");
        symlink(case.path("kept"), case.path("tree/link")).unwrap();
        assert!(matches!(case.remove(&["file"]), Err(Error::Foreign { kind: FileType::Symlink, .. })));
        case.remove(&["file", "link"]).unwrap();
        assert!(case.path("kept/file").exists());
        assert!(!case.path("tree").exists());
    }

    #[test]
    fn the_top_can_be_a_file_or_a_link() {
        let case = Case::new();
        case.file("tree").file("kept/file");
        assert!(case.remove(&["tree"]).unwrap_err().to_string().contains("/tree: a file"));
        case.remove(&[""]).unwrap();
        symlink("kept", case.path("tree")).unwrap();
        case.remove(&[""]).unwrap();
        assert!(case.path("kept/file").exists());
        assert!(!case.path("tree").exists());
    }

    #[test]
    fn directories_alone_can_be_removed() {
        let case = Case::new();
        std::fs::create_dir_all(case.path("tree/a/b")).unwrap();
        empty_directories(&case.parent, &Name::new("name", "tree").unwrap()).unwrap();
        assert!(!case.path("tree").exists());
        for levels in 0..5 {
            std::fs::create_dir_all(case.path("tree/a/b")).unwrap();
            std::fs::create_dir_all(case.path("tree/c")).unwrap();
            case.file("tree/c/diary");
            let name = Name::new("name", "tree").unwrap();
            let error = nested_directories(&case.parent, &name, levels).unwrap_err();
            assert!(error.to_string().ends_with("tree/c/diary: a file that is not ours"), "{error}");
            std::fs::remove_file(case.path("tree/c/diary")).unwrap();
            nested_directories(&case.parent, &name, levels).unwrap();
            assert!(!case.path("tree").exists());
        }
    }

    #[test]
    fn a_directory_goes_with_its_one_file_and_with_nothing_else() {
        let case = Case::new();
        let (tree, note) = (Name::new("name", "tree").unwrap(), Name::new("name", "note").unwrap());
        directory_of(&case.parent, &tree, &note).unwrap();
        case.file("tree/note");
        directory_of(&case.parent, &tree, &note).unwrap();
        assert!(!case.path("tree").exists());
        std::fs::create_dir(case.path("tree")).unwrap();
        directory_of(&case.parent, &tree, &note).unwrap();
        assert!(!case.path("tree").exists());
        case.file("tree/diary");
        let error = directory_of(&case.parent, &tree, &note).unwrap_err();
        assert!(error.to_string().ends_with("tree/diary: a file that is not ours"), "{error}");
        assert!(case.path("tree/diary").exists());
        case.file("kept/note");
        symlink("kept", case.path("link")).unwrap();
        assert!(directory_of(&case.parent, &Name::new("name", "link").unwrap(), &note).is_err());
        assert!(case.path("kept/note").exists());
    }

    #[test]
    fn a_tree_that_is_too_large_to_be_kept_in_mind_goes_whole_or_not_at_all() {
        for (directories, files) in [(2 * Plan::DIRECTORIES_MAX, 1), (2, Plan::STEPS_MAX)] {
            let case = Case::new();
            for directory in 0..directories {
                for file in 0..files {
                    case.file(&format!("tree/{directory}/in/file-{file}"));
                }
            }
            case.file("tree/0/in/diary");
            let tree = Name::new("name", "tree").unwrap();
            let ours = |entry: Entry<'_>| entry.path.file_name().is_some_and(|it| it != "diary");
            let before = walk(&case.path("tree"));
            assert!(matches!(super::tree(&case.parent, &tree, ours), Err(Error::Foreign { .. })));
            assert_eq!(walk(&case.path("tree")), before);
            super::tree(&case.parent, &tree, |_| true).unwrap();
            assert!(!case.path("tree").exists());
        }
    }

    #[test]
    fn a_tree_deeper_than_the_descriptors_kept_open_is_removed() {
        let case = Case::new();
        let mut place = Place::root(case.directory.path()).unwrap();
        let tree = Name::new("name", "tree").unwrap();
        for _ in 0..3 * Walk::OPEN_MAX {
            place = place.make_directory(&tree, Mode::RWXU, Mounts::Refuse).unwrap();
        }
        rustix::fs::openat(&place, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        drop(place);
        super::tree(&case.parent, &tree, |_| true).unwrap();
        assert!(!case.path("tree").exists());
    }

    /// Trees as lists of paths, each a file or a directory, some of the files ours.
    fn trees() -> impl Strategy<Value = BTreeMap<&'static str, (bool, bool)>> {
        let paths = vec!["a", "a/b", "a/b/c", "a/d", "e", "e/f", "g"];
        prop::collection::btree_map(prop::sample::select(paths), any::<(bool, bool)>(), 0..7)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn everything_goes_or_nothing_does(tree in trees()) {
            let case = Case::new();
            std::fs::create_dir(case.path("tree")).unwrap();
            let mut ours = Vec::new();
            let mut foreign = false;
            for (path, (is_file, is_ours)) in &tree {
                let below = format!("tree/{path}");
                // A path below one that became a file cannot be made.
                let made = if *is_file {
                    let parent = case.path(&below).parent().map(std::fs::create_dir_all);
                    parent.is_some_and(|it| it.is_ok()) && std::fs::write(case.path(&below), "").is_ok()
                } else {
                    std::fs::create_dir_all(case.path(&below)).is_ok()
                };
                if made && *is_file {
                    if *is_ours { ours.push(*path) } else { foreign = true }
                }
            }
            let before = walk(&case.path("tree"));
            prop_assert_eq!(case.remove(&ours).is_ok(), !foreign);
            prop_assert_eq!(case.path("tree").exists(), foreign);
            if foreign {
                prop_assert_eq!(walk(&case.path("tree")), before);
            }
        }
    }

    /// All paths in a directory.
    fn walk(directory: &Path) -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
        entries
            .flat_map(|it| {
                if it.is_dir() { walk(&it).into_iter().chain([it]).collect::<BTreeSet<_>>() } else { [it].into() }
            })
            .collect()
    }
}
