//! Paths that stay beneath a directory, whoever rearranges what is below it at the same time.
//!
//! Everything is reached from an open directory, by names that were checked ([`Name`], [`Relative`]), with
//! `openat2(2)`: the kernel refuses links, magic links, ways out and, unless asked to allow them, mount points. There
//! is no check first and use later, so there is nothing to win a race against.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::name::{Name, Relative};
use crate::path_error::PathError;
use crate::working_directory;

/// What can go wrong on the way to a path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// Something below could not be opened.
    #[error("open {} beneath {}{}", below.display(), root.display(), hint(*source))]
    Open {
        /// The directory it was to be beneath.
        root: PathBuf,
        /// The rest of the path.
        below: PathBuf,
        /// Why. [`Errno::LOOP`] is a link on the way, [`Errno::XDEV`] a mount or a way out.
        #[source]
        source: Errno,
    },
}

impl Error {
    /// Whether it failed because nothing is there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.errno() == Errno::NOENT
    }

    /// What the kernel answered.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::System(error) => error.source,
            Self::Open { source, .. } => *source,
        }
    }
}

/// The kernel's words for these two lead astray: «too many levels of symbolic links», «cross-device link».
fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::LOOP => " (there is a link on the way)",
        Errno::XDEV => " (there is a mount or a way out)",
        _ => "",
    }
}

/// Whether a path may lead through mount points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// A mount point on the way, or at the end, is an error.
    Refuse,
    /// Mount points are entered.
    Enter,
}

/// How directories are opened to be listed.
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A file or directory that is held open, with the path that it was reached by.
///
/// The descriptor is what counts; the path is for messages, and may be out of date.
pub struct Place {
    fd: OwnedFd,
    path: PathBuf,
    /// It was made by this process, and passes nothing on to what is made in it: neither its group nor a mode.
    is_plain: bool,
}

impl Place {
    /// Opens a directory that this system's owner chose, following links on the way: where all safe paths begin.
    pub fn root(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => Ok(Self::of(fd, path)),
            Err(source) => Err(PathError::new("open", path, source).into()),
        }
    }

    /// Something that is open already. The path is for messages.
    pub fn of(fd: OwnedFd, path: impl Into<PathBuf>) -> Self {
        Self { fd, path: path.into(), is_plain: false }
    }

    /// The root of a file system that was just made.
    pub(crate) fn of_new(fd: OwnedFd, path: impl Into<PathBuf>) -> Self {
        Self { fd, path: path.into(), is_plain: true }
    }

    /// Whether what the calling thread makes in it has exactly the mode that it asks for, and belongs to it.
    pub(crate) fn makes_exactly(&self) -> bool {
        self.is_plain && working_directory::umask_is_empty()
    }

    /// The path that it was reached by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Holds whatever is at a path beneath: a file of any kind, a directory, but not a link. Opens nothing for
    /// reading or writing, so a device or a fifo is not disturbed.
    pub fn find(&self, below: &Relative, mounts: Mounts) -> Result<Self, Error> {
        self.open(below, OFlags::PATH, mounts)
    }

    /// Opens what is at a path beneath, with flags of `open(2)`. `O_CLOEXEC` is added.
    ///
    /// For something that could be a fifo or a device, add `O_NONBLOCK`, or [`Place::find`] it first.
    pub fn open(&self, below: &Relative, flags: OFlags, mounts: Mounts) -> Result<Self, Error> {
        self.open_path(below.as_path(), flags, mounts)
    }

    /// As [`Place::open`]; a file that is missing is made, with exactly this mode, whatever the umask. One that is there
    /// gets the mode too.
    pub fn create(&self, below: &Relative, flags: OFlags, mode: Mode, mounts: Mounts) -> Result<Self, Error> {
        let below = below.as_path();
        let failed = |source| PathError::new("make", self.path.join(below), source);
        let fd = open_beneath(&self.fd, below, flags | OFlags::CREATE, mode, mounts).map_err(failed)?;
        let file = Self::of(fd, joined(&self.path, below));
        if file.mode()? != mode {
            file.set_mode(mode)?;
        }
        Ok(file)
    }

    /// Opens the directory at a path beneath, for listing.
    pub fn directory(&self, below: &Relative, mounts: Mounts) -> Result<Self, Error> {
        self.open_path(below.as_path(), LISTED, mounts)
    }

    /// As [`Place::directory`], of one name.
    pub fn directory_named(&self, name: &Name, mounts: Mounts) -> Result<Self, Error> {
        self.open_path(name.as_path(), LISTED, mounts)
    }

    fn open_path(&self, below: &Path, flags: OFlags, mounts: Mounts) -> Result<Self, Error> {
        match open_beneath(&self.fd, below, flags, Mode::empty(), mounts) {
            Ok(fd) => Ok(Self::of(fd, joined(&self.path, below))),
            Err(source) => Err(Error::Open { root: self.path.clone(), below: below.into(), source }),
        }
    }

    /// Makes the directories of a path that are missing, and opens the last. Those that are made get exactly this
    /// mode, whatever the umask; those that are there stay as they are.
    pub fn make_directories(&self, below: &Relative, mode: Mode, mounts: Mounts) -> Result<Self, Error> {
        // Most of them are there, so the longest part that is there is looked for from its end.
        let mut missing = Vec::new();
        let mut there = below.as_path();
        let mut place = loop {
            // Those on the way are only passed through.
            let flags = if missing.is_empty() { LISTED } else { OFlags::PATH | OFlags::DIRECTORY };
            match self.open_path(there, flags, mounts) {
                Ok(place) if missing.is_empty() => return Ok(place),
                Ok(place) => break Some(place),
                Err(error) if !error.is_missing() => return Err(error),
                Err(_) => missing.extend(there.file_name()),
            }
            match there.parent().filter(|it| !it.as_os_str().is_empty()) {
                Some(above) => there = above,
                None => break None,
            }
        };
        for name in missing.into_iter().rev() {
            place = Some(place.as_ref().unwrap_or(self).make(Path::new(name), mode, mounts)?);
        }
        Ok(place.expect("a path has at least one name"))
    }

    /// One directory of [`Place::make_directories`].
    pub fn make_directory(&self, name: &Name, mode: Mode, mounts: Mounts) -> Result<Self, Error> {
        self.make(name.as_path(), mode, mounts)
    }

    /// As [`Place::make_directory`], unless there is something by this name already: then `None`.
    pub fn make_new_directory(&self, name: &Name, mode: Mode) -> Result<Option<Self>, Error> {
        self.make_new(name.as_path(), mode, Mounts::Refuse)
    }

    /// As [`Place::make_directory`], for one that need not be open afterwards.
    pub fn add_directory(&self, name: &Name, mode: Mode) -> Result<(), Error> {
        let name = name.as_path();
        if !self.mkdir(name, mode)? {
            return self.open_path(name, OFlags::PATH | OFlags::DIRECTORY, Mounts::Refuse).map(drop);
        }
        if self.makes_exactly() {
            return Ok(());
        }
        let status = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let status = status.map_err(|source| PathError::new("look at", self.path.join(name), source))?;
        if Mode::from_raw_mode(status.st_mode) == mode {
            return Ok(());
        }
        self.open_path(name, LISTED, Mounts::Refuse)?.make_exact(mode).map(drop)
    }

    fn make(&self, name: &Path, mode: Mode, mounts: Mounts) -> Result<Self, Error> {
        match self.make_new(name, mode, mounts)? {
            Some(place) => Ok(place),
            None => self.open_path(name, LISTED, mounts),
        }
    }

    fn make_new(&self, name: &Path, mode: Mode, mounts: Mounts) -> Result<Option<Self>, Error> {
        if !self.mkdir(name, mode)? {
            return Ok(None);
        }
        let place = self.open_path(name, LISTED, mounts)?;
        let is_plain = self.makes_exactly() || place.make_exact(mode)?;
        Ok(Some(Self { is_plain, ..place }))
    }

    /// Answers whether it made the directory. The kernel takes bits off its mode, and never adds any to let others in.
    fn mkdir(&self, name: &Path, mode: Mode) -> Result<bool, Error> {
        match rustix::fs::mkdirat(&self.fd, name, mode) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(source) => Err(PathError::new("make", self.path.join(name), source).into()),
        }
    }

    /// Gives a directory that was just made its mode, if the umask or the directory above gave it another. Answers whether
    /// it had its mode at once.
    fn make_exact(&self, mode: Mode) -> Result<bool, Error> {
        let status = self.status()?;
        let found = Mode::from_raw_mode(status.st_mode);
        // Whoever may write here can have put another directory in its place by now. One that is not ours, or that
        // is open wider than ours was made, is not the one we made: it stays as it is.
        let inherited = Mode::SGID; // from the directory above
        let is_ours = || mode.contains(found - inherited) && status.st_uid == rustix::process::geteuid().as_raw();
        if found == mode || !is_ours() { Ok(found == mode) } else { self.set_mode(mode).map(|()| false) }
    }

    /// What kind of file it is.
    pub fn kind(&self) -> Result<FileType, Error> {
        Ok(FileType::from_raw_mode(self.status()?.st_mode))
    }

    /// Its mode.
    pub fn mode(&self) -> Result<Mode, Error> {
        Ok(Mode::from_raw_mode(self.status()?.st_mode))
    }

    /// Changes its mode. It must be open for more than its path.
    pub fn set_mode(&self, mode: Mode) -> Result<(), Error> {
        let changed = rustix::fs::fchmod(&self.fd, mode);
        changed.map_err(|source| PathError::new("set the mode of", &self.path, source).into())
    }

    fn status(&self) -> Result<Stat, Error> {
        rustix::fs::fstat(&self.fd).map_err(|source| PathError::new("look at", &self.path, source).into())
    }
}

/// A directory that was made a moment ago and that nobody else has been told of, or one below it: everything in it was made
/// by way of it, so it need not be opened to be sure of it.
#[derive(Debug, Clone)]
pub struct Fresh {
    top: Arc<Place>,
    below: PathBuf,
}

impl Fresh {
    /// The directory itself; `None` if what is made in it would have to be looked at.
    #[must_use]
    pub fn of(top: &Arc<Place>) -> Option<Self> {
        top.makes_exactly().then(|| Self { top: top.clone(), below: PathBuf::new() })
    }

    /// A directory in it, which [was made](Fresh::make) or is going to be.
    #[must_use]
    pub fn directory(&self, name: &Path) -> Self {
        Self { top: self.top.clone(), below: joined(&self.below, name) }
    }

    /// Makes this directory. That there is something already is an error.
    pub fn make(&self, mode: Mode) -> Result<(), Error> {
        let made = rustix::fs::mkdirat(&self.top, &self.below, mode);
        made.map_err(|source| PathError::new("make", self.path(), source).into())
    }

    /// Makes an empty file in it. That there is something already is an error.
    pub fn add_file(&self, name: &Name, mode: Mode) -> Result<(), Error> {
        let path = joined(&self.below, name.as_path());
        let made = rustix::fs::mknodat(&self.top, &path, FileType::RegularFile, mode, 0);
        made.map_err(|source| PathError::new("make", self.top.path().join(path), source).into())
    }

    /// Opens it, beneath its top and without links as always.
    pub fn open(&self) -> Result<Place, Error> {
        let place = self.top.open_path(&self.below, LISTED, Mounts::Refuse)?;
        Ok(Place { is_plain: true, ..place })
    }

    /// What it is, without opening it.
    pub fn status(&self) -> Result<Stat, Error> {
        let status = rustix::fs::statat(&self.top, &self.below, AtFlags::SYMLINK_NOFOLLOW);
        status.map_err(|source| PathError::new("look at", self.path(), source).into())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        joined(self.top.path(), &self.below)
    }

    /// The way to it from the top.
    pub(crate) fn way(&self) -> (&Place, &Path) {
        (&self.top, &self.below)
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Place({:?})", self.path)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.as_os_str().as_bytes().escape_ascii())
    }
}

impl From<Place> for OwnedFd {
    fn from(place: Place) -> Self {
        place.fd
    }
}

/// As [`Path::join`], in one piece of memory.
fn joined(above: &Path, below: &Path) -> PathBuf {
    let mut path = PathBuf::with_capacity(above.as_os_str().len() + 1 + below.as_os_str().len());
    path.push(above);
    path.push(below);
    path
}

/// `openat2` beneath a directory, without links. With `O_PATH` and `O_NOFOLLOW` a link at the end is held itself.
pub(crate) fn open_beneath(
    root: impl AsFd,
    below: &Path,
    flags: OFlags,
    mode: Mode,
    mounts: Mounts,
) -> Result<OwnedFd, Errno> {
    // The kernel answers EAGAIN when something was renamed or mounted during the look-up and it cannot be sure. It
    // needs a steady stream of renames to keep that up, so after this many times it is somebody's doing.
    const TRIES: usize = 128;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if mounts == Mounts::Refuse {
        resolve |= ResolveFlags::NO_XDEV;
    }
    let flags = flags | OFlags::CLOEXEC;
    for _ in 1..TRIES {
        match rustix::fs::openat2(&root, below, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    rustix::fs::openat2(&root, below, flags, mode, resolve)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn path(value: &str) -> Relative {
        Relative::new("path", value).unwrap()
    }

    #[test]
    fn a_link_on_the_way_or_at_the_end_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("real")).unwrap();
        std::fs::write(directory.path().join("real/file"), "").unwrap();
        symlink("real", directory.path().join("link")).unwrap();
        symlink("/etc", directory.path().join("out")).unwrap();
        let root = Place::root(directory.path()).unwrap();
        assert!(root.find(&path("real/file"), Mounts::Refuse).is_ok());
        for below in ["link", "link/file", "out", "out/passwd"] {
            let error = root.find(&path(below), Mounts::Enter).unwrap_err();
            assert_eq!(error.errno(), Errno::LOOP, "{below}");
            assert!(error.to_string().ends_with("(there is a link on the way)"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let root = Place::root(directory.path()).unwrap();
        assert!(root.find(&path("a/b"), Mounts::Refuse).unwrap_err().is_missing());
        assert!(Place::root(directory.path().join("none")).unwrap_err().is_missing());
    }

    #[test]
    fn every_directory_that_is_made_has_exactly_the_mode() {
        let directory = tempfile::tempdir().unwrap();
        let root = Place::root(directory.path()).unwrap();
        std::fs::create_dir(directory.path().join("there")).unwrap();
        let before = std::fs::metadata(directory.path().join("there")).unwrap().mode();
        let mode = Mode::from_raw_mode(0o3777); // no umask lets this through
        root.make_directories(&path("there/new/newer"), mode, Mounts::Refuse).unwrap();
        let mode_of = |below: &str| std::fs::metadata(directory.path().join(below)).unwrap().mode();
        assert_eq!(mode_of("there"), before);
        assert_eq!(mode_of("there/new") & 0o7777, 0o3777);
        assert_eq!(mode_of("there/new/newer") & 0o7777, 0o3777);
        root.make_directories(&path("there/new/newer"), Mode::from_raw_mode(0o700), Mounts::Refuse).unwrap();
        assert_eq!(mode_of("there/new/newer") & 0o7777, 0o3777, "what is there stays");
    }

    #[test]
    fn what_is_new_is_told_from_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = Place::root(directory.path()).unwrap();
        let name = |value| Name::new("name", value).unwrap();
        let mode = Mode::from_raw_mode(0o1773);
        assert!(root.make_new_directory(&name("a"), mode).unwrap().is_some());
        assert!(root.make_new_directory(&name("a"), Mode::RWXU).unwrap().is_none());
        root.add_directory(&name("b"), mode).unwrap();
        root.add_directory(&name("b"), Mode::RWXU).unwrap();
        for made in ["a", "b"] {
            assert_eq!(std::fs::metadata(directory.path().join(made)).unwrap().mode() & 0o7777, 0o1773, "{made}");
        }
        std::fs::write(directory.path().join("file"), "").unwrap();
        symlink("a", directory.path().join("link")).unwrap();
        for other in ["file", "link"] {
            assert!(root.make_new_directory(&name(other), mode).unwrap().is_none());
            assert!(root.add_directory(&name(other), mode).is_err(), "{other} is no directory");
        }
    }

    #[test]
    fn a_file_that_is_created_has_exactly_the_mode() {
        let directory = tempfile::tempdir().unwrap();
        let root = Place::root(directory.path()).unwrap();
        let create = |below| root.create(&path(below), OFlags::WRONLY, Mode::from_raw_mode(0o666), Mounts::Refuse);
        std::fs::write(directory.path().join("there"), "kept").unwrap();
        std::fs::set_permissions(directory.path().join("there"), std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("there", directory.path().join("link")).unwrap();
        for file in ["new", "there"] {
            create(file).unwrap();
            assert_eq!(std::fs::metadata(directory.path().join(file)).unwrap().mode() & 0o7777, 0o666, "{file}");
        }
        assert_eq!(std::fs::read(directory.path().join("there")).unwrap(), b"kept");
        assert_eq!(create("link").unwrap_err().errno(), Errno::LOOP);
        assert!(create("none/new").unwrap_err().is_missing());
    }

    #[test]
    fn a_mode_loses_the_group_bit_that_it_inherited() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o2755)).unwrap();
        let root = Place::root(directory.path()).unwrap();
        root.make_directories(&path("a"), Mode::from_raw_mode(0o750), Mounts::Refuse).unwrap();
        assert_eq!(std::fs::metadata(directory.path().join("a")).unwrap().mode() & 0o7777, 0o750);
    }

    #[test]
    fn a_file_or_a_link_in_place_of_a_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        symlink("/tmp", directory.path().join("link")).unwrap();
        let root = Place::root(directory.path()).unwrap();
        let make = |below| root.make_directories(&path(below), Mode::RWXU, Mounts::Refuse).unwrap_err().errno();
        assert_eq!(make("file/a"), Errno::NOTDIR);
        // O_DIRECTORY is checked before the link is noticed.
        assert!(matches!(make("link/a"), Errno::LOOP | Errno::NOTDIR));
    }
}
