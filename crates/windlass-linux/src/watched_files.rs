//! The files of a directory and of those below it: what is in them, and again whenever that changes.
//!
//! The kernel tells of changes (inotify), so nothing is polled, and only what an event touched is read again. Which
//! names count is the caller's to say. What is given is whole:
//!
//! - A file that somebody writes is read once it is closed; what was written to while it was read is read again then.
//! - A file that vanished counts as gone only if it stays away for a moment ([`Choice::grace`]), because editors and
//!   `git` save by moving the old file away before they make the new one.
//! - A directory that cannot be read says nothing about what is below it. That goes for the root too, which may vanish
//!   and come back.
//!
//! Links to files are followed and watched on their whole way, so that a link on it that is swapped is noticed. Links to
//! directories are not followed; the root itself may be one.

mod read;
#[cfg(test)]
mod tests;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

pub use read::{Trouble, read};
use watches::{Holder, Told, Watches};

/// The kernel tells that a writer has closed a file a moment before it counts one writer less, so a file that seems to be
/// written to is looked at once more after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// A file that is made by its name alone is never closed, so a new one that stays empty for this long is taken to be so.
const EMPTY: Duration = Duration::from_millis(200);

/// Whoever moves files around faster than they can be read so many times does nothing else.
const PASSES_MAX: usize = 1000;

/// Which files are of interest.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// Whether a file of this name is read.
    pub file: fn(&OsStr) -> bool,
    /// Whether a directory of this name is entered.
    pub directory: fn(&OsStr) -> bool,
    /// What is larger is not read.
    pub bytes_max: u64,
    /// How long a file must be away before it is gone.
    pub grace: Duration,
}

/// What is new about a file. Paths are relative to the root, which itself is the empty path.
#[derive(Debug)]
pub enum Change {
    /// This is in it.
    Content {
        /// The file.
        path: PathBuf,
        /// All of it.
        bytes: Vec<u8>,
    },
    /// It is not there any more. Also told of a directory that was unreadable and is not any more.
    Gone {
        /// The file or directory.
        path: PathBuf,
        /// When it was first missed.
        since: Instant,
    },
    /// It is there and cannot be read; if it is a directory, nothing is known of what is below.
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        trouble: Trouble,
    },
}

/// Why there is nothing to be told any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel gives no means to watch.
    #[error("{step}{}", hint(source))]
    Begin {
        /// What was tried.
        step: &'static str,
        /// Why it did not work.
        #[source]
        source: Errno,
    },
    /// The kernel's events cannot be read.
    #[error("read file events")]
    Events(#[source] Errno),
}

fn hint(errno: &Errno) -> &'static str {
    match *errno {
        Errno::MFILE => " (fs.inotify.max_user_instances limits how many there are)",
        _ => "",
    }
}

/// Ends a watch, or makes it read everything again, from any thread.
#[derive(Debug)]
pub struct Handle {
    wake: OwnedFd,
    ended: AtomicBool,
    stale: AtomicBool,
}

impl Handle {
    /// Everything is to be read again.
    pub fn reread(&self) {
        self.stale.store(true, Ordering::Release);
        self.wake();
    }

    /// [`WatchedFiles::changes`] is to return `None` from now on.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // Cannot fail: the counter would have to reach 2^64, and it is set back whenever it is seen.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// What is known of a path below the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// A file, or a link to one; `true` if its content has been told.
    File(bool),
    /// A directory; `true` if it cannot be read.
    Directory(bool),
}

/// What may be about to change.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// When it is taken for what it seems.
    until: Instant,
    /// When it was first missed, if it is not there.
    missed: Option<Instant>,
}

impl Doubt {
    /// About something that is there.
    fn within(time: Duration) -> Self {
        Self { until: Instant::now() + time, missed: None }
    }
}

/// The files of a directory, watched.
#[derive(Debug)]
pub struct WatchedFiles {
    root: PathBuf,
    choice: Choice,
    watches: Watches,
    handle: Arc<Handle>,
    known: BTreeMap<PathBuf, Known>,
    /// To be looked at.
    touched: BTreeSet<PathBuf>,
    /// Not to be looked at before they are closed.
    writing: BTreeSet<PathBuf>,
    /// Found to be written to, and looked at once more without having been told to; see [`AGAIN`].
    again: BTreeSet<PathBuf>,
    /// Known and not there, or there and empty: when that is taken for what it seems.
    doubtful: BTreeMap<PathBuf, Doubt>,
    /// Directories as they were entered, by device and inode.
    entered: BTreeMap<PathBuf, (u64, u64)>,
    /// Those whose file system was unmounted. What is there instead says nothing about what was in them.
    unmounted: BTreeMap<PathBuf, (u64, u64)>,
    as_of: SystemTime,
}

impl WatchedFiles {
    /// Watches the files below `root`, which need not exist yet. Nothing is read before [`WatchedFiles::now`].
    pub fn begin(root: &Path, choice: Choice) -> Result<Self, Error> {
        Self::with(root, choice, Watches::begin()?)
    }

    fn with(root: &Path, choice: Choice, watches: Watches) -> Result<Self, Error> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|source| Error::Begin { step: "make an eventfd", source })?;
        Ok(Self {
            root: std::path::absolute(root).unwrap_or_else(|_| root.into()),
            choice,
            watches,
            handle: Arc::new(Handle { wake, ended: AtomicBool::new(false), stale: AtomicBool::new(true) }),
            known: BTreeMap::new(),
            touched: BTreeSet::new(),
            writing: BTreeSet::new(),
            again: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            entered: BTreeMap::new(),
            unmounted: BTreeMap::new(),
            as_of: SystemTime::UNIX_EPOCH,
        })
    }

    /// Whatever was put there by this time has been told of, unless it was being written to then.
    #[must_use]
    pub fn as_of(&self) -> SystemTime {
        self.as_of
    }

    /// What is in the files at this moment, without watching them.
    pub fn once(root: &Path, choice: Choice) -> Result<Vec<Change>, Error> {
        Self::with(root, choice, Watches::none())?.now()
    }

    /// Ends this from another thread.
    #[must_use]
    pub fn handle(&self) -> Arc<Handle> {
        self.handle.clone()
    }

    /// Waits until something changed, and says what; `None` once it is to end. Nothing, if this time comes first.
    pub fn changes(&mut self, until: Option<Instant>) -> Result<Option<Vec<Change>>, Error> {
        loop {
            let found = self.now()?;
            if self.handle.ended.load(Ordering::Acquire) {
                return Ok(None);
            }
            if !found.is_empty() {
                return Ok(Some(found));
            }
            if until.is_some_and(|it| it <= Instant::now()) {
                return Ok(Some(Vec::new()));
            }
            // Files that are still to be looked at were written to just now; their events are there already.
            if self.touched.is_empty() {
                self.wait(until)?;
            }
        }
    }

    /// What changed up to now; the first time, all there is.
    pub fn now(&mut self) -> Result<Vec<Change>, Error> {
        let as_of = SystemTime::now();
        self.take_in()?;
        if self.handle.stale.swap(false, Ordering::AcqRel) {
            // Somebody says that what is there now is meant.
            self.unmounted.clear();
            self.touch_everything();
        }
        let mut found = Vec::new();
        let mut left: Vec<PathBuf> = std::mem::take(&mut self.touched).into_iter().collect();
        while let Some(path) = left.pop() {
            self.look(&path, &mut left, &mut found);
        }
        self.decide(&mut found);
        self.take_in()?;
        let mut whole = Vec::with_capacity(found.len());
        for change in found {
            match change {
                // What was written to while it was read may be torn. It comes again when it is closed; only of a file of
                // which nothing is known is that worth telling.
                Change::Content { path, .. } if self.touched.contains(&path) || self.writing.contains(&path) => {
                    if self.known.get(&path) != Some(&Known::File(true)) {
                        whole.push(Change::Unreadable { path, trouble: Trouble::BeingWritten });
                    }
                }
                Change::Content { path, bytes } => {
                    self.known.insert(path.clone(), Known::File(true));
                    whole.push(Change::Content { path, bytes });
                }
                other @ (Change::Gone { .. } | Change::Unreadable { .. }) => whole.push(other),
            }
        }
        self.as_of = as_of;
        Ok(whole)
    }

    /// What is in the files at one moment, the first time: nothing was moved while the directories were read, which would
    /// be in none of them. `None` if something always was.
    pub fn at_once(&mut self) -> Result<Option<Vec<Change>>, Error> {
        let mut found = self.now()?;
        // What is touched while a little is read again is less than what was touched while all was read.
        for _ in 0..PASSES_MAX {
            if self.touched.is_empty() {
                return Ok(Some(found));
            }
            found.extend(self.now()?);
        }
        Ok(None)
    }

    fn touch_everything(&mut self) {
        self.touched.insert(PathBuf::new());
        // Who closed a file may have gone unheard.
        self.writing.clear();
    }

    /// Sleeps until the kernel or the handle has something to say, or it is time to end a doubt.
    fn wait(&self, until: Option<Instant>) -> Result<(), Error> {
        let now = Instant::now();
        let left =
            self.doubtful.values().map(|it| it.until).chain(until).min().map(|it| it.saturating_duration_since(now));
        let left = left.map(|it| Timespec::try_from(it).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
        let wake = PollFd::new(&self.handle.wake, PollFlags::IN);
        let done = match self.watches.descriptor() {
            Some(kernel) => rustix::event::poll(&mut [wake, PollFd::new(kernel, PollFlags::IN)], left.as_ref()),
            None => rustix::event::poll(&mut [wake], left.as_ref()),
        };
        match done {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::Events(errno)),
        }
    }

    /// Hears all that the kernel has to say at the moment.
    fn take_in(&mut self) -> Result<(), Error> {
        let _ = rustix::io::read(&self.handle.wake, &mut [0; 8]);
        for told in self.watches.take_in().map_err(Error::Events)? {
            match told {
                Told::Lost => self.touch_everything(),
                Told::Touched(path) => {
                    if self.is_chosen(&path) {
                        self.writing.remove(&path);
                        self.again.remove(&path);
                        self.touched.insert(path);
                    }
                }
                // Whoever writes closes the file later; but a file can be cut by its name alone.
                Told::Modified(path) if read::is_closed(&self.root.join(&path)) => {
                    if self.is_chosen(&path) {
                        self.writing.remove(&path);
                        self.touched.insert(path);
                    }
                }
                Told::Unmounted(path) => {
                    if let Some(id) = self.entered.remove(&path) {
                        self.unmounted.insert(path.clone(), id);
                    }
                    self.touched.insert(path);
                }
                Told::Modified(path) => {
                    if self.is_chosen(&path) {
                        self.touched.remove(&path);
                        self.doubtful.remove(&path);
                        self.writing.insert(path);
                    }
                }
                Told::Created(path) => {
                    if self.is_chosen(&path) {
                        // A new file has no content yet, and is closed when it has; unless it got its name last.
                        let status = std::fs::symlink_metadata(self.root.join(&path));
                        if status.is_ok_and(|it| it.is_file() && it.nlink() == 1) {
                            self.doubtful.insert(path.clone(), Doubt::within(EMPTY));
                            self.writing.insert(path);
                        } else {
                            self.touched.insert(path);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a path can be of interest by its name; links and their like come by the names they were found by.
    fn is_chosen(&self, path: &Path) -> bool {
        path.file_name().is_none_or(|it| (self.choice.file)(it) || (self.choice.directory)(it))
    }

    /// Looks at a path. What is to be looked at next is added to `left`.
    fn look(&mut self, path: &Path, left: &mut Vec<PathBuf>, found: &mut Vec<Change>) {
        let Some(name) = path.file_name() else { return self.look_at_root(left, found) };
        let (file, directory) = ((self.choice.file)(name), (self.choice.directory)(name));
        let full = self.root.join(path);
        let status = match std::fs::symlink_metadata(&full) {
            Ok(status) => status,
            Err(error) if is_missing(&error) => return self.miss(path),
            Err(error) => {
                self.known.entry(path.into()).or_insert(Known::File(false));
                return found.push(Change::Unreadable { path: path.into(), trouble: Trouble::Unreadable(error) });
            }
        };
        self.doubtful.remove(path);
        if status.is_dir() {
            if let Some(Known::File(_)) = self.known.get(path) {
                self.forget(path, Instant::now(), found);
            }
            if directory && let Err(error) = self.enter(path, &full, left, found) {
                match is_missing(&error) {
                    true => self.miss(path),
                    false => self.close(path, error, found),
                }
            }
        } else {
            if let Some(Known::Directory(_)) = self.known.get(path) {
                self.forget(path, Instant::now(), found);
            }
            if file {
                self.look_at_file(path, &full, &status, found);
            }
        }
    }

    fn look_at_file(&mut self, path: &Path, full: &Path, status: &Metadata, found: &mut Vec<Change>) {
        let known = self.known.get(path).copied();
        if self.writing.contains(path) {
            if known.is_none() {
                self.known.insert(path.into(), Known::File(false));
                found.push(Change::Unreadable { path: path.into(), trouble: Trouble::BeingWritten });
            }
            return;
        }
        let (way, link, bytes_max) = (Holder::Way(path.into()), status.is_symlink(), self.choice.bytes_max);
        let content = if link {
            // Watched first and read then: what changes in between is seen twice rather than not at all.
            self.watches.follow(full, &way, false);
            read(full, bytes_max).or_else(|trouble| match trouble {
                Trouble::Unreadable(_) => {
                    self.watches.follow(full, &way, true);
                    read(full, bytes_max)
                }
                other => Err(other),
            })
        } else {
            self.watches.release(&way);
            read::read_seen(full, status, bytes_max)
        };
        let change = match content {
            Ok(bytes) => Change::Content { path: path.into(), bytes },
            // A link to a directory is none of ours.
            Err(Trouble::NotAFile("a directory")) if link => return self.forget(path, Instant::now(), found),
            // It went just now; the event that says so is on its way.
            Err(Trouble::Unreadable(error)) if !link && is_missing(&error) => return self.miss(path),
            Err(trouble) => {
                if matches!(trouble, Trouble::BeingWritten) && self.again.insert(path.into()) {
                    self.doubtful.insert(path.into(), Doubt::within(AGAIN));
                }
                Change::Unreadable { path: path.into(), trouble }
            }
        };
        self.known.entry(path.into()).or_insert(Known::File(false));
        found.push(change);
    }

    fn look_at_root(&mut self, left: &mut Vec<PathBuf>, found: &mut Vec<Change>) {
        let (root, way) = (self.root.clone(), Holder::Way(PathBuf::new()));
        self.watches.follow(&root, &way, false);
        // With a dot, so that the root may be a link.
        let entered = self.enter(Path::new(""), &root.join("."), left, found).or_else(|_| {
            self.watches.follow(&root, &way, true);
            // It may have come between the two.
            self.enter(Path::new(""), &root.join("."), left, found)
        });
        if let Err(error) = entered {
            // Nothing is known of what is below, so nothing of it is missed.
            self.doubtful.clear();
            self.close(Path::new(""), error, found);
        }
    }

    /// Watches a directory and reads the names in it. All that is or was in it is to be looked at.
    fn enter(&mut self, path: &Path, full: &Path, left: &mut Vec<PathBuf>, found: &mut Vec<Change>) -> io::Result<()> {
        let status = std::fs::metadata(full)?;
        let id = (status.dev(), status.ino());
        if self.unmounted.get(path).is_some_and(|it| *it != id) {
            return Err(io::Error::other("what was mounted there is gone; mount it again, and have all read again"));
        }
        self.unmounted.remove(path);
        self.entered.insert(path.into(), id);
        let watched = self.watches.directory(path, full);
        let names =
            std::fs::read_dir(full)?.map(|it| it.map(|it| it.file_name())).collect::<io::Result<Vec<OsString>>>()?;
        let below = |it: &&PathBuf| it.parent() == Some(path) && it.as_path() != path;
        left.extend(self.known_at(path).map(|(it, _)| it).filter(below).cloned());
        left.extend(
            names.iter().map(|it| path.join(it)).filter(|it| self.is_chosen(it) && !self.known.contains_key(it)),
        );
        // What cannot be watched is read all the same, and then said to be so.
        watched?;
        if self.known.insert(path.into(), Known::Directory(false)) == Some(Known::Directory(true)) {
            found.push(Change::Gone { path: path.into(), since: Instant::now() });
        }
        Ok(())
    }

    /// A directory cannot be read or watched.
    fn close(&mut self, path: &Path, error: io::Error, found: &mut Vec<Change>) {
        self.known.insert(path.into(), Known::Directory(true));
        found.push(Change::Unreadable { path: path.into(), trouble: Trouble::of_directory(error) });
    }

    /// A path is not there. It counts as gone if that stays so.
    fn miss(&mut self, path: &Path) {
        self.writing.remove(path);
        if self.known_at(path).next().is_some() {
            let doubt = self.doubtful.entry(path.into()).or_insert_with(|| Doubt::within(self.choice.grace));
            doubt.missed.get_or_insert_with(Instant::now);
        }
    }

    /// Ends the doubt about those that have been missing or empty for long enough.
    fn decide(&mut self, found: &mut Vec<Change>) {
        if self.doubtful.is_empty() {
            return;
        }
        let now = Instant::now();
        let due = self.doubtful.iter().filter(|(_, it)| it.until <= now);
        for (path, doubt) in due.map(|(path, doubt)| (path.clone(), *doubt)).collect::<Vec<_>>() {
            self.doubtful.remove(&path);
            let is_there = |it: &Path| std::fs::symlink_metadata(it).map_or_else(|error| !is_missing(&error), |_| true);
            // With the root everything is away, which says nothing about this one.
            match (is_there(&self.root.join(".")), is_there(&self.root.join(&path))) {
                (false, _) => _ = self.touched.insert(PathBuf::new()),
                (true, true) => {
                    self.writing.remove(&path);
                    self.touched.insert(path);
                }
                (true, false) => self.forget(&path, doubt.missed.unwrap_or(now), found),
            }
        }
    }

    /// Drops all that is known at and below a path, which has been missed since then.
    fn forget(&mut self, path: &Path, since: Instant, found: &mut Vec<Change>) {
        self.writing.retain(|it| !it.starts_with(path));
        self.again.retain(|it| !it.starts_with(path));
        self.entered.retain(|it, _| !it.starts_with(path));
        let all: Vec<(PathBuf, Known)> = self.known_at(path).map(|(path, known)| (path.clone(), *known)).collect();
        for (path, known) in all {
            self.known.remove(&path);
            self.doubtful.remove(&path);
            self.watches.release(&Holder::Way(path.clone()));
            self.watches.release(&Holder::Directory(path.clone()));
            if known != Known::Directory(false) {
                found.push(Change::Gone { path, since });
            }
        }
    }

    /// What is known at and below a path: paths are ordered by their components, so it is all in one place.
    fn known_at(&self, path: &Path) -> impl Iterator<Item = (&PathBuf, &Known)> {
        self.known.range(path.to_path_buf()..).take_while(move |(it, _)| it.starts_with(path))
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
