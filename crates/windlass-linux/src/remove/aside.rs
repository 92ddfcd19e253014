//! Files that are about to go are taken aside first, so that whoever moves a directory meanwhile loses nothing.
//!
//! An open directory stays open wherever somebody moves it, and a file removed through it is removed at its new place. So
//! no file is removed there: a few are renamed into a directory of our own, then the directory they came from is looked
//! up again by its path, and only if it is still the same are they removed. If it is not, they are put back where they
//! came from, wherever that is now. A process that ends in between leaves them aside, and [`Aside::sweep`] removes them.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Error, full_path, identify, list, unlink};
use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::{self, Mounts, Place, open_beneath};

/// Names of what could not be put back begin like this. It is nobody's to remove but its owner's.
const KEPT: &str = "kept-";

/// A directory of our own on the file system where things are removed, which nobody else may enter.
#[derive(Debug)]
pub struct Aside {
    /// What is removed lies beneath it, and is looked up from it.
    root: Arc<Place>,
    place: Place,
    next: AtomicU64,
}

impl Aside {
    /// The directory of this name in `above`, which is made if it is missing. Everything that is removed by means of it
    /// lies beneath `root`, and its path, as [`Place::path`] has it, begins with the root's.
    pub fn open(root: Arc<Place>, above: &Place, name: &Name) -> Result<Self, safe_path::Error> {
        let place = above.make_directory(name, Mode::RWXU, Mounts::Refuse)?;
        Ok(Self { root, place, next: AtomicU64::new(0) })
    }

    /// Removes what an earlier process had taken aside when it ended. Answers what could not be put back by one, and is
    /// kept: its owner may want it.
    pub fn sweep(&self) -> Result<Vec<PathBuf>, Error> {
        let path = |name: &OsStr| self.place.path().join(name);
        let look = |source| PathError::new("look at", self.place.path(), source);
        let listed = open_beneath(
            &self.place,
            Path::new("."),
            OFlags::RDONLY | OFlags::DIRECTORY,
            Mode::empty(),
            Mounts::Refuse,
        );
        let mut kept = Vec::new();
        for (name, _) in listed.and_then(|it| list(&it)).map_err(look)? {
            if name.as_bytes().starts_with(KEPT.as_bytes()) {
                kept.push(path(&name));
            } else {
                unlink(self.place.as_fd(), &name, || path(&name))?;
            }
        }
        Ok(kept)
    }
}

/// Where files go before they are removed.
pub(super) enum Shelf<'walk> {
    /// There.
    Aside(&'walk Aside),
    /// To a directory beside the tree, which is there for as long as the removal takes.
    Beside(Option<Beside>),
    /// Nowhere: for files that windlass wrote and can write again. The directory is looked up before each of them is
    /// removed.
    InPlace,
}

/// A directory that was made for one removal.
pub(super) struct Beside {
    place: Place,
    name: OsString,
    next: AtomicU64,
}

impl Beside {
    /// Makes it; `None` if that is not possible.
    fn make(parent: &Place) -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = rustix::process::getpid().as_raw_nonzero();
        let name = format!("..removing-{process}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let place = parent.make_new_directory(&Name::new("directory", &name).ok()?, Mode::RWXU).ok()??;
        Some(Self { place, name: name.into(), next: AtomicU64::new(0) })
    }
}

/// A file under its number in the directory of our own.
struct Numbered([u8; 16]);

impl Numbered {
    fn new(number: u64) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        Self(std::array::from_fn(|at| DIGITS[(number >> (60 - 4 * at) & 15) as usize]))
    }

    fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

/// A removal, and the files that were taken aside for it and are not removed yet. They are all of one directory.
pub(super) struct Taking<'walk> {
    parent: &'walk Place,
    top: &'walk Name,
    shelf: Shelf<'walk>,
    taken: Vec<(u64, OsString)>,
}

/// Where a file was taken from: an open directory, and its path in the tree; `None` if it is what holds the tree.
#[derive(Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) below: Option<&'a Path>,
}

impl<'walk> Taking<'walk> {
    /// As many as fit into a directory that takes no room for them: also on a full disk they can be taken aside.
    const TAKEN_MAX: usize = 16;

    pub(super) fn new(parent: &'walk Place, top: &'walk Name, shelf: Shelf<'walk>) -> Self {
        Self { parent, top, shelf, taken: Vec::new() }
    }

    /// Removes a file, now or at the next [`Taking::finish`].
    pub(super) fn remove(&mut self, holder: Holder<'_>, name: OsString) -> Result<(), Error> {
        if self.taken.len() >= Self::TAKEN_MAX {
            self.finish(holder)?;
        }
        if self.is_anchor(holder) {
            return unlink(holder.fd, &name, || self.path(holder, &name));
        }
        if let Shelf::Beside(made @ None) = &mut self.shelf {
            *made = Beside::make(self.parent);
        }
        let Some((place, next)) = self.shelf() else { return self.remove_in_place(holder, &name) };
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (from, to) = (Path::new(&name), Numbered::new(number));
        match rustix::fs::renameat_with(holder.fd, from, place, to.as_path(), RenameFlags::NOREPLACE) {
            Ok(()) => self.taken.push((number, name)),
            Err(Errno::BUSY) => return Err(Error::Mounted { path: self.path(holder, &name) }),
            // Another project's quota, a part of the file system that is apart, no room, or a file system that does not
            // rename like this.
            Err(_) => return self.remove_in_place(holder, &name),
        }
        Ok(())
    }

    /// Removes what was taken aside from this directory, if the directory is still where it was. Otherwise all of it is
    /// put back.
    pub(super) fn finish(&mut self, holder: Holder<'_>) -> Result<(), Error> {
        if self.taken.is_empty() {
            return Ok(());
        }
        let mut result = self.check(holder);
        for (number, name) in std::mem::take(&mut self.taken) {
            let Some((place, _)) = self.shelf() else { break };
            let numbered = Numbered::new(number);
            let removed = match result {
                Ok(()) => unlink(place.as_fd(), numbered.as_path().as_os_str(), || self.path(holder, &name)),
                Err(_) => Err(Error::Moved { path: self.path(holder, &name) }),
            };
            let Err(error) = removed else { continue };
            result = result.and(Err(error));
            // By the open directory: that is where it came from, wherever it is now.
            let put =
                |to: &Path| rustix::fs::renameat_with(place, numbered.as_path(), holder.fd, to, RenameFlags::NOREPLACE);
            if put(Path::new(&name)).is_err() {
                let mut kept = OsString::from(KEPT);
                kept.push(numbered.as_path());
                // If this fails too it keeps its number.
                let _ = rustix::fs::renameat(place, numbered.as_path(), place, &kept);
                result = Err(Error::Stranded { path: self.path(holder, &name), kept: place.path().join(kept) });
            }
        }
        result
    }

    /// Where there is no place to take it to: the directory is looked at, and then the file goes at once.
    fn remove_in_place(&mut self, holder: Holder<'_>, name: &OsStr) -> Result<(), Error> {
        self.finish(holder)?;
        self.check(holder)?;
        unlink(holder.fd, name, || self.path(holder, name))
    }

    /// Is the directory that is open still where its path leads?
    fn check(&self, holder: Holder<'_>) -> Result<(), Error> {
        let path = || self.path(holder, OsStr::new(""));
        let (anchor, above) = self.anchor();
        let below = [above, self.top.as_path(), holder.below.unwrap_or(Path::new(""))];
        let way: PathBuf = match holder.below {
            Some(_) => below.iter().collect(),
            None => above.into(),
        };
        let found = reach(anchor, &way).and_then(|it| identify(&it));
        match (found, identify(holder.fd)) {
            (Ok(found), Ok(open)) if found == open => Ok(()),
            (Err(Errno::XDEV), _) => Err(Error::Mounted { path: path() }),
            (Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP), Ok(_)) => Err(Error::Moved { path: path() }),
            (Err(source), _) | (_, Err(source)) => Err(PathError::new("look at", path(), source).into()),
        }
    }

    /// Where paths are looked up from, and the path from there to the directory that holds the tree.
    fn anchor(&self) -> (&Place, &Path) {
        match &self.shelf {
            Shelf::Aside(aside) => match self.parent.path().strip_prefix(aside.root.path()) {
                Ok(below) => (&aside.root, below),
                Err(_) => (self.parent, Path::new("")),
            },
            Shelf::Beside(_) | Shelf::InPlace => (self.parent, Path::new("")),
        }
    }

    /// Nothing above this directory is known that could have been moved.
    fn is_anchor(&self, holder: Holder<'_>) -> bool {
        holder.below.is_none() && self.anchor().1.as_os_str().is_empty()
    }

    fn shelf(&self) -> Option<(&Place, &AtomicU64)> {
        match &self.shelf {
            Shelf::Aside(aside) => Some((&aside.place, &aside.next)),
            Shelf::Beside(made) => made.as_ref().map(|it| (&it.place, &it.next)),
            Shelf::InPlace => None,
        }
    }

    /// The path of a file, for messages.
    fn path(&self, holder: Holder<'_>, name: &OsStr) -> PathBuf {
        let below = holder.below.map(|it| it.join(name)).unwrap_or_default();
        // Joining nothing adds a slash, which is taken away again.
        full_path(self.parent, self.top, &below.components().collect::<PathBuf>())
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if let Shelf::Beside(Some(made)) = &self.shelf {
            // It stays if something could not be put back.
            let _ = rustix::fs::unlinkat(self.parent, Path::new(&made.name), AtFlags::REMOVEDIR);
        }
    }
}

/// Opens a directory beneath another, without links or mounts on the way, however long the way is.
fn reach(anchor: &Place, way: &Path) -> Result<OwnedFd, Errno> {
    /// A little less than the kernel takes at a time.
    const BYTES_MAX: usize = 4000;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let open = |from: BorrowedFd<'_>, below: &Path| open_beneath(from, below, flags, Mode::empty(), Mounts::Refuse);
    if way.as_os_str().len() <= BYTES_MAX {
        let way = if way.as_os_str().is_empty() { Path::new(".") } else { way };
        return open(anchor.as_fd(), way);
    }
    let (mut reached, mut part) = (None::<OwnedFd>, PathBuf::new());
    for name in way {
        if part.as_os_str().len() + 1 + name.len() > BYTES_MAX {
            reached = Some(open(reached.as_ref().map_or(anchor.as_fd(), AsFd::as_fd), &part)?);
            part.clear();
        }
        part.push(name);
    }
    open(reached.as_ref().map_or(anchor.as_fd(), AsFd::as_fd), &part)
}
