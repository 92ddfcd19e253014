//! Removing directories and files: the only code in windlass that does, and it cannot delete data (promise I-5).
//!
//! It walks by open directories, never crosses a mount, never follows a link. It removes empty directories, and files
//! that the caller declares its own. It looks at everything first: if anything else is in the way, the error names it
//! and nothing is removed at all. What changes between the look and the removal is refused by the kernel or found
//! when its turn comes, and then the rest stays.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;

use crate::name::Name;
use crate::safe_path::{Mounts, Place, open_beneath};

/// Why something was not removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// A directory was moved elsewhere while it was being emptied.
    #[error("remove {}: it was moved meanwhile", path.display())]
    Moved {
        /// Where it was.
        path: PathBuf,
    },
    /// Something could not be looked at.
    #[error("look at {}", path.display())]
    Look {
        /// What it was.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A file could not be removed.
    #[error("remove the file {}", path.display())]
    RemoveFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// An empty directory could not be removed.
    #[error("remove the directory {}", path.display())]
    RemoveDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
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
/// `ours` says of each file whether it may be removed, by its place in the tree and its kind. It is asked twice: when
/// everything is looked at, and when the file is about to go.
pub fn tree(parent: &Place, name: &Name, mut ours: impl FnMut(Entry<'_>) -> bool) -> Result<(), Error> {
    for pass in [Pass::Look, Pass::Remove] {
        let mut walk =
            Walk { parent, name, pass, ours: &mut ours, levels: Vec::new(), below: PathBuf::new(), buffer: Vec::new() };
        walk.buffer.resize(32 * 1024, MaybeUninit::uninit());
        walk.run()?;
    }
    Ok(())
}

/// Removes a directory that holds nothing but directories. Any file is in the way.
pub fn empty_directories(parent: &Place, name: &Name) -> Result<(), Error> {
    tree(parent, name, |_| false)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Look,
    Remove,
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
    /// Closed while the walk is far below, so that a deep tree does not use up the descriptors.
    fd: Option<OwnedFd>,
    identity: Identity,
    name: OsString,
    /// What is still to be visited.
    entries: Vec<(OsString, FileType)>,
}

struct Walk<'walk> {
    parent: &'walk Place,
    name: &'walk Name,
    pass: Pass,
    ours: &'walk mut dyn FnMut(Entry<'_>) -> bool,
    levels: Vec<Level>,
    /// The path from the top of the tree to where the walk is.
    below: PathBuf,
    buffer: Vec<MaybeUninit<u8>>,
}

impl Walk<'_> {
    /// How many directories are kept open at a time.
    const OPEN_MAX: usize = 32;

    /// Not recursive: whoever filled the tree chose its depth, and could choose the depth of our stack.
    fn run(&mut self) -> Result<(), Error> {
        let name: &OsStr = self.name.as_ref();
        self.visit(name.to_owned(), FileType::Unknown)?;
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
        let top = self.parent.path().join(self.name.as_path());
        // Joining an empty path would add a slash.
        if self.below.as_os_str().is_empty() { top } else { top.join(&self.below) }
    }

    /// The directory that holds the entry which is being visited.
    fn here(&self) -> BorrowedFd<'_> {
        match self.levels.last() {
            Some(level) => level.fd.as_ref().expect("the deepest directory is open").as_fd(),
            None => self.parent.as_fd(),
        }
    }

    fn visit(&mut self, name: OsString, kind: FileType) -> Result<(), Error> {
        if matches!(kind, FileType::Directory | FileType::Unknown) {
            // RESOLVE_NO_XDEV refuses a mount point before anything on the other side is touched, at the moment of
            // opening: a comparison of mount ids could only come later.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            match open_beneath(self.here(), Path::new(&name), flags, Mode::empty(), Mounts::Refuse) {
                Ok(fd) => return self.enter(fd, name),
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::XDEV) => return Err(Error::Mounted { path: self.path() }),
                // Not a directory, or no longer.
                Err(Errno::NOTDIR | Errno::LOOP) => {}
                Err(source) => return Err(Error::Look { path: self.path(), source }),
            }
        }
        match self.pass {
            Pass::Look => self.look_at_file(&name),
            Pass::Remove => self.remove_file(&name, kind),
        }
    }

    /// Goes down into a directory.
    fn enter(&mut self, fd: OwnedFd, name: OsString) -> Result<(), Error> {
        let look = |source| Error::Look { path: self.path(), source };
        let identity = identify(&fd).map_err(look)?;
        let above = match self.levels.last() {
            Some(level) => level.identity,
            None => identify(self.parent).map_err(look)?,
        };
        // Cannot be, after RESOLVE_NO_XDEV; kept because everything rests on it.
        if identity.mount != above.mount {
            return Err(Error::Mounted { path: self.path() });
        }
        let entries = list(&fd, &mut self.buffer).map_err(|source| Error::Look { path: self.path(), source })?;
        self.levels.push(Level { fd: Some(fd), identity, name, entries });
        if let Some(far) = self.levels.len().checked_sub(Self::OPEN_MAX + 1) {
            self.levels[far].fd = None;
        }
        Ok(())
    }

    /// Goes up from a directory that has nothing left to visit.
    fn leave(&mut self) -> Result<(), Error> {
        let mut level = self.levels.pop().expect("a directory to leave");
        let fd = level.fd.take().expect("the deepest directory is open");
        if let Some(above) = self.levels.last_mut().filter(|it| it.fd.is_none()) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let reopened = rustix::fs::openat(&fd, "..", flags, Mode::empty());
            // It may have been moved since we came down, and then its parent is another directory.
            match reopened.and_then(|it| Ok((identify(&it)?, it))) {
                Ok((identity, reopened)) if identity == above.identity => above.fd = Some(reopened),
                Ok(_) => return Err(Error::Moved { path: self.path() }),
                Err(source) => return Err(Error::Look { path: self.path(), source }),
            }
        }
        if self.pass == Pass::Look {
            return Ok(());
        }
        match rustix::fs::unlinkat(self.here(), Path::new(&level.name), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::BUSY) => Err(Error::Mounted { path: self.path() }),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let _ = rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(0));
                let left = list(&fd, &mut self.buffer).unwrap_or_default();
                let entry = left.into_iter().next().map(|(name, _)| PathBuf::from(name)).unwrap_or_default();
                Err(Error::Refilled { path: self.path(), entry })
            }
            Err(source) => Err(Error::RemoveDirectory { path: self.path(), source }),
        }
    }

    /// Checks that a file may be removed.
    fn look_at_file(&mut self, name: &OsStr) -> Result<(), Error> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let held = open_beneath(self.here(), Path::new(name), flags, Mode::empty(), Mounts::Refuse);
        match held.and_then(rustix::fs::fstat) {
            Ok(status) => self.ask(FileType::from_raw_mode(status.st_mode)),
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::XDEV) => Err(Error::Mounted { path: self.path() }),
            Err(source) => Err(Error::Look { path: self.path(), source }),
        }
    }

    fn ask(&mut self, kind: FileType) -> Result<(), Error> {
        if (self.ours)(Entry { path: &self.below, kind }) {
            return Ok(());
        }
        Err(Error::Foreign { path: self.path(), kind })
    }

    /// Removes a file, if it (still) may be. Removing is by name, so it removes a link and not what it leads to, and
    /// the kernel refuses a directory and a mount point.
    fn remove_file(&mut self, name: &OsStr, kind: FileType) -> Result<(), Error> {
        match kind {
            // The directory says what kind it is; what it took for a directory turned out not to be one.
            FileType::Unknown | FileType::Directory => self.look_at_file(name)?,
            kind => self.ask(kind)?,
        }
        match rustix::fs::unlinkat(self.here(), Path::new(name), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::BUSY) => Err(Error::Mounted { path: self.path() }),
            Err(Errno::ISDIR) => Err(Error::Foreign { path: self.path(), kind: FileType::Directory }),
            Err(source) => Err(Error::RemoveFile { path: self.path(), source }),
        }
    }
}

fn identify(fd: impl AsFd) -> Result<Identity, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = rustix::fs::statx(fd, "", flags, StatxFlags::INO | StatxFlags::MNT_ID)?;
    let device = (status.stx_dev_major, status.stx_dev_minor);
    Ok(Identity { mount: status.stx_mnt_id, device, inode: status.stx_ino })
}

/// The entries of a directory, with what the directory knows of their kind.
fn list(fd: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> Result<Vec<(OsString, FileType)>, Errno> {
    let mut entries = Vec::new();
    let mut directory = RawDir::new(fd, buffer);
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
