//! How much a volume holds: of the whole file system at once (rule P-265), or by looking at every file (rule P-266).
//!
//! Both can hang on a dead server, as everything does that asks a file system. A walk can also take long, so it has a
//! budget and can be told to stop; what it has seen until then is a lower bound, and says so.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Statx, StatxFlags};
use rustix::io::Errno;

use crate::path_error::PathError;
use crate::safe_path::{Mounts, Place, open_beneath};

/// How full a file system is. One that does not count its inodes says that it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// How much it can hold.
    pub capacity_bytes: u64,
    /// How much more those can write who are not root.
    pub available_bytes: u64,
    /// How much it holds. With what is available less than the capacity, if something is kept for root.
    pub used_bytes: u64,
    /// How many files it can hold.
    pub inodes: u64,
    /// How many more it can hold.
    pub inodes_free: u64,
    /// How many it holds.
    pub inodes_used: u64,
}

/// How full the file system is that this place is in (rule P-265). Costs one call, whatever the file system holds.
pub fn statfs(place: &Place) -> Result<Space, PathError> {
    let answer = rustix::fs::fstatfs(place)
        .map_err(|source| PathError::new("ask for the statistics of the file system of", place.path(), source))?;
    let block_bytes = u64::try_from(answer.f_bsize).unwrap_or(0);
    // Saturating, because the numbers are the file system's, which may be somebody's program.
    let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
    Ok(Space {
        capacity_bytes: bytes(answer.f_blocks),
        available_bytes: bytes(answer.f_bavail),
        used_bytes: bytes(answer.f_blocks.saturating_sub(answer.f_bfree)),
        inodes: answer.f_files,
        inodes_free: answer.f_ffree,
        inodes_used: answer.f_files.saturating_sub(answer.f_ffree),
    })
}

/// How much a walk may cost.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'stop> {
    /// How many entries are looked at.
    pub entries_max: u64,
    /// Once this is set, no more are.
    pub stop: &'stop AtomicBool,
}

/// What a walk has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// How much disk space the files and directories take, the one at the top among them.
    pub used_bytes: u64,
    /// How many files and directories there are, the one at the top among them. A file with several names is one.
    pub inodes_used: u64,
    /// Whether that is all. If not, the budget was used up, or something was moved away while the walk was deep in it.
    pub complete: bool,
}

/// Counts what is at this place and below, in the same mount and on the same device (rule P-266).
///
/// Links are counted and not followed. What vanishes meanwhile does not count.
pub fn walk(place: &Place, budget: &Budget<'_>) -> Result<Walked, PathError> {
    let look = |source| PathError::new("look at", place.path(), source);
    let status = status_of(place, OsStr::new("")).map_err(look)?;
    let mut walk = Walk {
        place,
        budget,
        entries: 0,
        extent: extent(&status),
        linked: HashSet::new(),
        walked: Walked::default(),
        levels: Vec::new(),
    };
    if kind(&status) == FileType::Directory {
        // The place may be held for its path alone, which cannot be listed.
        let fd = open_beneath(place, Path::new("."), LIST, Mode::empty(), Mounts::Refuse).map_err(look)?;
        walk.run(fd)?;
    } else if walk.pay() {
        walk.count(&status);
        walk.walked.complete = true;
    }
    Ok(walk.walked)
}

const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// What a walk does not leave: the mount, and the device, of which a file system with subvolumes has several.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Extent {
    mount: u64,
    device: (u32, u32),
}

/// A directory on the way from the top to where the walk is.
struct Level {
    /// Closed while the walk is far below, so that a deep tree does not use up the descriptors.
    fd: Option<OwnedFd>,
    inode: u64,
    name: OsString,
    /// Directories in it that are still to be visited. Files are counted as they are listed.
    directories: Vec<OsString>,
}

/// Whether a walk goes on.
#[derive(PartialEq, Eq)]
enum Going {
    On,
    NoFurther,
}

struct Walk<'walk> {
    place: &'walk Place,
    budget: &'walk Budget<'walk>,
    /// How many were looked at.
    entries: u64,
    extent: Extent,
    /// Files with several names that were seen by one of them.
    linked: HashSet<u64>,
    walked: Walked,
    levels: Vec<Level>,
}

impl Walk<'_> {
    /// How many directories are kept open at a time.
    const OPEN_MAX: usize = 32;

    /// Not recursive: whoever filled the tree chose its depth, and could choose the depth of our stack.
    fn run(&mut self, top: OwnedFd) -> Result<(), PathError> {
        let mut buffer = vec![MaybeUninit::uninit(); 32 * 1024];
        let mut going = if self.pay() { self.enter(top, OsString::new(), &mut buffer)? } else { Going::NoFurther };
        while going == Going::On {
            let Some(level) = self.levels.last_mut() else {
                self.walked.complete = true;
                break;
            };
            let (Some(fd), next) = (&level.fd, level.directories.pop()) else { break };
            going = match next {
                Some(name) => match open_beneath(fd, Path::new(&name), LIST, Mode::empty(), Mounts::Refuse) {
                    Ok(fd) => self.enter(fd, name, &mut buffer)?,
                    // Gone, another mount, or no directory any more: a change that came too late to be counted.
                    Err(Errno::NOENT | Errno::STALE | Errno::XDEV | Errno::NOTDIR | Errno::LOOP) => Going::On,
                    Err(source) => return Err(self.look(&name, source)),
                },
                None => self.leave(),
            };
        }
        Ok(())
    }

    /// Takes one entry off the budget, if there is one left.
    fn pay(&mut self) -> bool {
        let may = self.entries < self.budget.entries_max && !self.budget.stop.load(Ordering::Relaxed);
        self.entries += u64::from(may);
        may
    }

    fn count(&mut self, status: &Statx) {
        let several_names = status.stx_nlink > 1 && kind(status) != FileType::Directory;
        if several_names && !self.linked.insert(status.stx_ino) {
            return;
        }
        self.walked.used_bytes = self.walked.used_bytes.saturating_add(status.stx_blocks.saturating_mul(512));
        self.walked.inodes_used += 1;
    }

    /// Goes down into a directory: counts it and the files in it.
    fn enter(&mut self, fd: OwnedFd, name: OsString, buffer: &mut [MaybeUninit<u8>]) -> Result<Going, PathError> {
        let status = status_of(&fd, OsStr::new("")).map_err(|source| self.look(&name, source))?;
        if extent(&status) != self.extent {
            return Ok(Going::On); // a subvolume, which no mount separates
        }
        self.count(&status);
        let mut directories = Vec::new();
        let mut listing = RawDir::new(&fd, buffer);
        while let Some(entry) = listing.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::NOENT | Errno::STALE) => break, // removed while it is being listed
                Err(source) => return Err(self.look(&name, source)),
            };
            let file_name = match entry.file_name().to_bytes() {
                b"." | b".." => continue,
                file_name => OsStr::from_bytes(file_name),
            };
            if !self.pay() {
                return Ok(Going::NoFurther);
            }
            if entry.file_type() == FileType::Directory {
                directories.push(file_name.to_owned());
                continue;
            }
            match status_of(&fd, file_name) {
                // Something else is mounted over it.
                Ok(status) if extent(&status) != self.extent => {}
                Ok(status) if kind(&status) == FileType::Directory => directories.push(file_name.to_owned()),
                Ok(status) => self.count(&status),
                Err(Errno::NOENT | Errno::STALE) => {}
                Err(source) => return Err(self.look(&Path::new(&name).join(file_name).into_os_string(), source)),
            }
        }
        self.levels.push(Level { fd: Some(fd), inode: status.stx_ino, name, directories });
        if let Some(far) = self.levels.len().checked_sub(Self::OPEN_MAX + 1) {
            self.levels[far].fd = None;
        }
        Ok(Going::On)
    }

    /// Goes up from a directory that has nothing left to visit.
    fn leave(&mut self) -> Going {
        let level = self.levels.pop();
        let Some(above) = self.levels.last_mut().filter(|it| it.fd.is_none()) else { return Going::On };
        let up = level.and_then(|it| it.fd).and_then(|fd| {
            let up = rustix::fs::openat(fd, "..", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let up = up.ok()?;
            let status = status_of(&up, OsStr::new("")).ok()?;
            // It may have been moved since we came down, and then its parent is another directory.
            (extent(&status) == self.extent && status.stx_ino == above.inode).then_some(up)
        });
        above.fd = up;
        if above.fd.is_some() { Going::On } else { Going::NoFurther }
    }

    /// That something could not be looked at, in the directory where the walk is.
    fn look(&self, name: &OsStr, source: Errno) -> PathError {
        let names = self.levels.iter().map(|it| it.name.as_os_str()).chain([name]).filter(|it| !it.is_empty());
        PathError::new("look at", self.place.path().iter().chain(names).collect::<PathBuf>(), source)
    }
}

/// What is at a name, without following a link; with an empty name what the descriptor holds.
fn status_of(directory: impl AsFd, name: &OsStr) -> Result<Statx, Errno> {
    // Without asking a server: its answer would be no newer than what the look-up of the name brought, and something
    // that is mounted over a file may have a server that does not answer.
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)
}

fn kind(status: &Statx) -> FileType {
    FileType::from_raw_mode(status.stx_mode.into())
}

fn extent(status: &Statx) -> Extent {
    Extent { mount: status.stx_mnt_id, device: (status.stx_dev_major, status.stx_dev_minor) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);
    const ALL: Budget<'static> = Budget { entries_max: u64::MAX, stop: &NEVER };

    /// Used bytes and number of all these, by the standard library.
    fn sum(paths: &[&Path]) -> (u64, u64) {
        let bytes = paths.iter().map(|it| it.symlink_metadata().unwrap().blocks() * 512).sum();
        (bytes, u64::try_from(paths.len()).unwrap())
    }

    fn walk_all(path: &Path) -> (u64, u64) {
        let walked = walk(&Place::root(path).unwrap(), &ALL).unwrap();
        assert!(walked.complete);
        (walked.used_bytes, walked.inodes_used)
    }

    #[test]
    fn every_file_counts_once_and_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("top");
        let paths = ["", "a", "a/large", "a/deep", "a/deep/small", "link", "out"].map(|it| top.join(it));
        std::fs::create_dir_all(&paths[3]).unwrap();
        std::fs::write(&paths[2], vec![b'x'; 200_000]).unwrap();
        std::fs::write(&paths[4], "x").unwrap();
        symlink("a", &paths[5]).unwrap();
        symlink("/", &paths[6]).unwrap();
        std::fs::hard_link(&paths[2], top.join("again")).unwrap();
        std::fs::hard_link(&paths[2], directory.path().join("outside")).unwrap();
        let expected = sum(&paths.each_ref().map(PathBuf::as_path));
        assert!(expected.0 >= 200_000);
        assert_eq!(walk_all(&top), expected);
    }

    #[test]
    fn an_empty_directory_is_one_and_so_is_a_file() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(walk_all(directory.path()), sum(&[directory.path()]));
        let path = directory.path().join("file");
        std::fs::write(&path, vec![b'x'; 10_000]).unwrap();
        let file = Place::of(std::fs::File::open(&path).unwrap().into(), &path);
        let walked = walk(&file, &ALL).unwrap();
        assert_eq!((walked.used_bytes, walked.inodes_used, walked.complete), (sum(&[&path]).0, 1, true));
    }

    #[test]
    fn a_hole_takes_no_space() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::File::create(directory.path().join("file")).unwrap().set_len(1 << 40).unwrap();
        assert!(walk_all(directory.path()).0 < 1 << 30);
    }

    #[test]
    fn a_budget_that_is_used_up_gives_a_lower_bound() {
        let directory = tempfile::tempdir().unwrap();
        for below in ["a/b", "c"] {
            std::fs::create_dir_all(directory.path().join(below)).unwrap();
            std::fs::write(directory.path().join(below).join("file"), "").unwrap();
        }
        let place = Place::root(directory.path()).unwrap();
        for entries_max in 0..=6 {
            let walked = walk(&place, &Budget { entries_max, ..ALL }).unwrap();
            assert!(walked.inodes_used <= entries_max);
            assert_eq!(walked.complete, entries_max == 6, "{walked:?} of {entries_max}");
        }
        assert_eq!(walk(&place, &Budget { entries_max: 6, ..ALL }).unwrap().inodes_used, 6);
        let stop = AtomicBool::new(true);
        assert_eq!(walk(&place, &Budget { stop: &stop, ..ALL }).unwrap(), Walked::default());
    }

    #[test]
    fn the_file_system_says_how_full_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let space = statfs(&Place::root(directory.path()).unwrap()).unwrap();
        assert!(space.capacity_bytes > 0 && space.available_bytes <= space.capacity_bytes);
        assert!(space.used_bytes <= space.capacity_bytes);
        assert_eq!(space.inodes_used, space.inodes - space.inodes_free);
    }
}
