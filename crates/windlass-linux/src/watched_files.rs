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
//! - Nothing is believed to be gone, and no content is told, unless every directory on the way is the one that was entered
//!   (`identity.rs`). Where another file system was mounted over one, or the one that was there is gone, what is found
//!   instead says nothing about what was in it, however often it is read.
//! - What was read through a mount that is not there any more is lost and not removed, whatever becomes of the place where
//!   it was mounted.
//! - The kernel tells whoever watches files nothing of mounts. Whoever hears of them says so ([`Handle::mounted`]), and what
//!   is on the way to a file, or below the root, is looked at again.
//! - With each content comes where it was read, and whether it is known to be whole: what is moved into place is, what is
//!   written in place may have been cut by whatever ended its writer ([`Origin`]).
//!
//! Links to files are followed and watched on their whole way, so that a link on it that is swapped is noticed. Links to
//! directories are not followed; the root itself may be one.

mod identity;
mod mounts;
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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use identity::Identity;
pub use identity::{Inode, Origin};
use mounts::Mounts;
pub use read::{Trouble, read};
use watches::{Holder, Told, Watches};

/// The kernel tells that a writer has closed a file a moment before it counts one writer less, so a file that seems to be
/// written to is looked at once more after this time.
const AGAIN: Duration = Duration::from_millis(100);

/// A file that is made by its name alone is never closed, so a new one that stays empty for this long is taken to be so.
const EMPTY: Duration = Duration::from_millis(200);

/// When what could not be read because descriptors or memory had run out is looked at again: no event tells that there are
/// some again.
const SHORTAGE: Duration = Duration::from_secs(1);

/// Whoever moves files around faster than they can be read so many times does nothing else.
const PASSES_MAX: usize = 1000;

/// Which files are of interest.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// Whether a file of this name is read.
    pub file: fn(&OsStr) -> bool,
    /// Whether a file of this name, which is not read, is told of.
    pub misnamed: fn(&OsStr) -> bool,
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
        /// Where it was read.
        origin: Origin,
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
    /// It is there, and is not read because of its name ([`Choice::misnamed`]).
    Misnamed {
        /// The file.
        path: PathBuf,
    },
    /// Another directory takes its place, and what is in that counts from now on.
    Replaced {
        /// The directory.
        path: PathBuf,
        /// Somebody put it there. If not, something was mounted or unmounted, and all that was told of is in it by chance:
        /// what was taken out of the one before may be back there, where nobody sees it.
        meant: bool,
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
    /// How often everything was to be read, the first time included.
    wanted: AtomicU64,
    interrupted: AtomicBool,
    mounts: Mutex<Mounts>,
}

impl Handle {
    /// Something was mounted or unmounted at this path, which has no links in it. If that can have covered or uncovered
    /// anything, it is looked at. Costs the same however many files there are.
    pub fn mounted(&self, point: &Path) {
        if self.mounts().changed(point) {
            self.wake();
        }
    }

    fn mounts(&self) -> MutexGuard<'_, Mounts> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything is to be read again. That has been done once [`WatchedFiles::read`] is not less than this number.
    pub fn reread(&self) -> u64 {
        let number = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        number
    }

    /// [`WatchedFiles::changes`] is to return once, also if nothing changed.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
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
    /// Moved to where they are, with all below, and not told since.
    moved: BTreeSet<PathBuf>,
    /// Where links led the last time that they led anywhere.
    led: BTreeMap<PathBuf, PathBuf>,
    /// Directories as they were entered.
    entered: BTreeMap<PathBuf, Identity>,
    /// Files and directories that were read through another mount than the directory that they are in.
    mount_points: BTreeSet<PathBuf>,
    /// Where the root was then: its parent, and where it leads if it is a link.
    root_was: Option<(Identity, PathBuf)>,
    /// Directories in whose places others are, which say nothing about what was in them; and what was mounted and is gone.
    lost: BTreeSet<PathBuf>,
    /// Directories in which there was no file when they were entered, and below which none has been told: perhaps they are
    /// to be mounted on.
    bare: BTreeSet<PathBuf>,
    /// Tells of changes of the mount table while a directory is lost or bare: mounting makes no file event.
    mounts: Option<OwnedFd>,
    as_of: SystemTime,
    heard: Instant,
    /// How often it was begun to read everything, and how often that came to its end.
    begun: u64,
    read: u64,
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
            handle: Arc::new(Handle {
                wake,
                ended: AtomicBool::new(false),
                wanted: AtomicU64::new(1),
                interrupted: AtomicBool::new(false),
                mounts: Mutex::default(),
            }),
            known: BTreeMap::new(),
            touched: BTreeSet::new(),
            writing: BTreeSet::new(),
            again: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            moved: BTreeSet::new(),
            led: BTreeMap::new(),
            entered: BTreeMap::new(),
            mount_points: BTreeSet::new(),
            root_was: None,
            lost: BTreeSet::new(),
            bare: BTreeSet::new(),
            mounts: None,
            as_of: SystemTime::UNIX_EPOCH,
            heard: Instant::now(),
            begun: 0,
            read: 0,
        })
    }

    /// Whatever was put there by this time has been told of, unless it was being written to then.
    #[must_use]
    pub fn as_of(&self) -> SystemTime {
        self.as_of
    }

    /// Whatever the kernel had to tell of by this moment has been looked at: what was missed then is in no other place.
    #[must_use]
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// How often everything has been read; see [`Handle::reread`].
    #[must_use]
    pub fn read(&self) -> u64 {
        self.read
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

    /// Waits until something changed, and says what; `None` once it is to end. Nothing, if this time comes first, somebody
    /// interrupts it, or everything was read again and is as before.
    pub fn changes(&mut self, until: Option<Instant>) -> Result<Option<Vec<Change>>, Error> {
        loop {
            let before = self.read;
            let found = self.now()?;
            if self.handle.ended.load(Ordering::Acquire) {
                return Ok(None);
            }
            let interrupted = self.handle.interrupted.swap(false, Ordering::AcqRel);
            let read_again = before > 0 && self.read > before;
            if !found.is_empty() || interrupted || read_again {
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
        let (as_of, heard) = (SystemTime::now(), Instant::now());
        self.take_in()?;
        let wanted = self.handle.wanted.load(Ordering::Acquire);
        if self.begun < wanted {
            self.begun = wanted;
            self.touch_everything();
        }
        let mut found = Vec::new();
        let mut left: Vec<PathBuf> = std::mem::take(&mut self.touched).into_iter().collect();
        while let Some(path) = left.pop() {
            self.look(&path, &mut left, &mut found);
        }
        self.decide(&mut found);
        self.take_in()?;
        // Looked at after the files, so that whatever was mounted before they were read is noticed.
        let mut strayed: BTreeMap<PathBuf, Option<PathBuf>> = BTreeMap::new();
        let mut whole = Vec::with_capacity(found.len());
        for change in found {
            if let Change::Content { path, .. } = &change {
                let directory = path.parent().unwrap_or(Path::new(""));
                if !strayed.contains_key(directory) {
                    strayed.insert(directory.into(), self.strayed(path));
                }
                if let Some(Some(strayed)) = strayed.get(directory) {
                    self.touched.insert(strayed.clone());
                    continue;
                }
            }
            match change {
                // What was written to while it was read may be torn. It comes again when it is closed; only of a file of
                // which nothing is known is that worth telling.
                Change::Content { path, .. } if self.touched.contains(&path) || self.writing.contains(&path) => {
                    if self.known.get(&path) != Some(&Known::File(true)) {
                        whole.push(Change::Unreadable { path, trouble: Trouble::BeingWritten });
                    }
                }
                Change::Content { path, bytes, origin } => {
                    self.known.insert(path.clone(), Known::File(true));
                    self.bare.retain(|it| !path.starts_with(it));
                    self.moved.remove(&path);
                    whole.push(Change::Content { path, bytes, origin });
                }
                other @ (Change::Gone { .. }
                | Change::Unreadable { .. }
                | Change::Misnamed { .. }
                | Change::Replaced { .. }) => whole.push(other),
            }
        }
        // What was moved here as a part of a directory has been looked at with it.
        let (known, touched) = (&self.known, &self.touched);
        self.moved.retain(|it| touched.contains(it) || matches!(known.get(it), Some(Known::File(_))));
        if self.lost.is_empty() && self.bare.is_empty() {
            self.mounts = None;
        }
        self.as_of = as_of;
        if self.touched.is_empty() {
            self.read = self.begun;
            self.heard = heard;
        }
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
    fn wait(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let now = Instant::now();
        let left =
            self.doubtful.values().map(|it| it.until).chain(until).min().map(|it| it.saturating_duration_since(now));
        let left = left.map(|it| Timespec::try_from(it).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
        let mut awaited = vec![PollFd::new(&self.handle.wake, PollFlags::IN)];
        awaited.extend(self.watches.descriptor().map(|it| PollFd::new(it, PollFlags::IN)));
        // It signals a change as priority data (proc_pid_mountinfo(5)), and once.
        awaited.extend(self.mounts.as_ref().map(|it| PollFd::new(it, PollFlags::PRI)));
        match rustix::event::poll(&mut awaited, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Events(errno)),
        }
        if self.mounts.is_some() && awaited.last().is_some_and(|it| it.revents().contains(PollFlags::PRI)) {
            self.touched.extend(self.lost.iter().chain(&self.bare).cloned());
        }
        Ok(())
    }

    /// Hears all that the kernel has to say at the moment.
    fn take_in(&mut self) -> Result<(), Error> {
        let _ = rustix::io::read(&self.handle.wake, &mut [0; 8]);
        self.take_in_mounts();
        for told in self.watches.take_in().map_err(Error::Events)? {
            match told {
                Told::Lost => {
                    self.moved.clear();
                    self.touch_everything();
                }
                Told::Touched(path) => self.touch(path),
                Told::Arrived(path) => {
                    if self.is_chosen(&path) {
                        self.moved.insert(path.clone());
                    }
                    self.touch(path);
                }
                Told::Rewritten(path) => {
                    self.moved.remove(&path);
                    self.touch(path);
                }
                // Whoever writes closes the file later; but a file can be cut by its name alone.
                Told::Modified(path) if read::is_closed(&self.root.join(&path)) => {
                    if self.is_chosen(&path) {
                        self.moved.remove(&path);
                        self.writing.remove(&path);
                        self.touched.insert(path);
                    }
                }
                Told::Deleted(path) => {
                    self.entered.entry(path.clone()).and_modify(Identity::delete);
                    self.touched.insert(path);
                }
                Told::Unmounted(path) => _ = self.touched.insert(path),
                Told::Modified(path) => {
                    if self.is_chosen(&path) {
                        self.moved.remove(&path);
                        self.touched.remove(&path);
                        self.doubtful.remove(&path);
                        self.writing.insert(path);
                    }
                }
                Told::Created(path) => {
                    if self.is_chosen(&path) {
                        // A new file has no content yet, and is closed when it has; unless it got its name last.
                        let status = std::fs::symlink_metadata(self.root.join(&path));
                        self.moved.remove(&path);
                        match status.map(|it| (it.is_file(), it.nlink())) {
                            Ok((true, 1)) => {
                                self.doubtful.insert(path.clone(), Doubt::within(EMPTY));
                                self.writing.insert(path);
                            }
                            Ok((true, _)) => {
                                // Another name of a file that was made elsewhere.
                                self.moved.insert(path.clone());
                                self.touched.insert(path);
                            }
                            Ok((false, _)) | Err(_) => _ = self.touched.insert(path),
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What was mounted or unmounted since the last time is looked at.
    fn take_in_mounts(&mut self) {
        let (below, is_on_a_way) = self.handle.mounts().take();
        self.touched.extend(below.into_iter().filter(|it| self.known.contains_key(it)));
        if is_on_a_way {
            let others: Vec<_> = self.entered.keys().filter(|it| !self.is_entered(it)).cloned().collect();
            self.touched.extend(others.into_iter().chain(self.led.keys().cloned()));
        }
    }

    /// A path is to be looked at, and nobody is known to write to it.
    fn touch(&mut self, path: PathBuf) {
        if self.is_chosen(&path) {
            self.writing.remove(&path);
            self.again.remove(&path);
            self.touched.insert(path);
        }
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
            Err(error) if is_missing(&error) => {
                left.extend(self.strayed(path));
                return self.miss(path);
            }
            Err(error) => {
                self.known.entry(path.into()).or_insert(Known::File(false));
                let trouble = Trouble::Unreadable(error);
                self.come_back(path, &trouble);
                return found.push(Change::Unreadable { path: path.into(), trouble });
            }
        };
        if !self.is_kind(path, &status) {
            // What was there is away, and may come back as any other.
            left.extend(self.strayed(path));
            return self.miss(path);
        }
        self.doubtful.remove(path);
        if status.is_dir() {
            if directory && let Err(trouble) = self.enter(path, &full, left, found) {
                match trouble {
                    Trouble::Unreadable(error) if is_missing(&error) => self.miss(path),
                    other => self.close(path, other, found),
                }
            }
        } else if file {
            self.look_at_file(path, &full, &status, found);
        } else if (self.choice.misnamed)(name) && self.known.insert(path.into(), Known::File(false)).is_none() {
            found.push(Change::Misnamed { path: path.into() });
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
        let mut moved = path.ancestors().any(|it| self.moved.contains(it));
        let mut directory = path.parent().and_then(|it| self.entered.get(it)).copied();
        let content = if link {
            // Watched first and read then: what changes in between is seen twice rather than not at all.
            self.follow(full, &way, false);
            // Turning a link is one step, as moving a file is. What it leads to may have been away, and was not turned.
            if let Ok(leads) = std::fs::canonicalize(full) {
                directory = leads.parent().and_then(|it| Identity::of(it).ok());
                moved |= self.led.get(path).is_some_and(|it| *it != leads);
                self.led.insert(path.into(), leads);
            }
            read::read_followed(full, bytes_max).or_else(|trouble| match trouble {
                Trouble::Unreadable(_) => {
                    self.follow(full, &way, true);
                    read::read_followed(full, bytes_max)
                }
                other => Err(other),
            })
        } else {
            self.release(&way);
            self.led.remove(path);
            read::read_seen(full, status, bytes_max)
        };
        let change = match content {
            Ok((bytes, status)) => {
                let file = Identity::from(&status);
                let directory = directory.filter(|it| it.mount == file.mount);
                self.is_found(path, !link && directory.is_none());
                let origin = Origin {
                    moved,
                    mount: file.mount,
                    place: directory.unwrap_or(file).inode(),
                    file: file.inode(),
                    size: status.stx_size,
                    modified: (status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec),
                };
                Change::Content { path: path.into(), bytes, origin }
            }
            // A link to a directory is none of ours, unless it led to a file before.
            Err(Trouble::NotAFile("a directory")) if link && known != Some(Known::File(true)) => {
                return self.forget(path, Instant::now(), found);
            }
            // It went just now; the event that says so is on its way.
            Err(Trouble::Unreadable(error)) if !link && is_missing(&error) => return self.miss(path),
            Err(trouble) => {
                if matches!(trouble, Trouble::BeingWritten) && self.again.insert(path.into()) {
                    self.doubtful.insert(path.into(), Doubt::within(AGAIN));
                }
                self.come_back(path, &trouble);
                Change::Unreadable { path: path.into(), trouble }
            }
        };
        self.known.entry(path.into()).or_insert(Known::File(false));
        found.push(change);
    }

    fn look_at_root(&mut self, left: &mut Vec<PathBuf>, found: &mut Vec<Change>) {
        let (root, way) = (self.root.clone(), Holder::Way(PathBuf::new()));
        self.follow(&root, &way, false);
        // With a dot, so that the root may be a link.
        let entered = self.enter(Path::new(""), &root.join("."), left, found).or_else(|_| {
            self.follow(&root, &way, true);
            // It may have come between the two.
            self.enter(Path::new(""), &root.join("."), left, found)
        });
        if let Err(trouble) = entered {
            // Nothing is known of what is below, so nothing of it is missed.
            self.doubtful.clear();
            self.close(Path::new(""), trouble, found);
        }
    }

    /// Watches a directory and reads the names in it. All that is or was in it is to be looked at.
    fn enter(
        &mut self,
        path: &Path,
        full: &Path,
        left: &mut Vec<PathBuf>,
        found: &mut Vec<Change>,
    ) -> Result<(), Trouble> {
        let mut now = Identity::of(full).map_err(Trouble::Unreadable)?;
        if let Some(before) = self.entered.get(path).copied().filter(|it| *it != now) {
            if let Some(directory) = self.strayed(path) {
                left.push(directory);
                return Ok(());
            }
            if self.mounts.is_none() {
                self.mounts = identity::mounts();
                // What was mounted before that is not told.
                now = Identity::of(full).map_err(Trouble::Unreadable)?;
            }
            if before != now
                && let Some(trouble) = self.judge(path, full, before, now)
            {
                self.lost.insert(path.into());
                return Err(trouble);
            }
            // What was mounted again is the same directory.
            if before.inode() != now.inode() {
                let meant = before.mount == now.mount || self.moved.contains(path);
                found.push(Change::Replaced { path: path.into(), meant });
            }
        }
        let above = path.parent().and_then(|it| self.entered.get(it));
        self.is_found(path, above.is_some_and(|it| it.mount != now.mount));
        self.entered.insert(path.into(), now);
        if path.as_os_str().is_empty() {
            self.root_was = self.root_is();
        }
        let watched = self.watches.directory(path, full);
        let names = std::fs::read_dir(full)
            .and_then(|it| it.map(|it| it.map(|it| it.file_name())).collect::<io::Result<Vec<OsString>>>());
        let names = names.map_err(Trouble::of_directory)?;
        if names.iter().any(|it| (self.choice.file)(it)) {
            self.bare.remove(path);
        } else if self.bare.insert(path.into()) && self.mounts.is_none() {
            self.mounts = identity::mounts();
            if Identity::of(full).ok() != Some(now) {
                // It was mounted on before that was listened to.
                self.touched.insert(path.into());
            }
        }
        let below = |it: &&PathBuf| it.parent() == Some(path) && it.as_path() != path;
        left.extend(self.known_at(path).map(|(it, _)| it).filter(below).cloned());
        left.extend(
            names.iter().map(|it| path.join(it)).filter(|it| self.is_chosen(it) && !self.known.contains_key(it)),
        );
        // What cannot be watched is read all the same, and then said to be so.
        watched.map_err(Trouble::of_directory)?;
        if self.known.insert(path.into(), Known::Directory(false)) == Some(Known::Directory(true)) {
            found.push(Change::Gone { path: path.into(), since: Instant::now() });
        }
        Ok(())
    }

    /// Why a directory that is another than the one that was entered does not take its place, if it does not.
    ///
    /// It does if all that was told is in it. If something is missing, somebody must have meant that: by moving the
    /// directory there, or by turning the link that leads to it, and not by mounting or unmounting anything.
    fn judge(&mut self, path: &Path, full: &Path, before: Identity, now: Identity) -> Option<Trouble> {
        // What comes into it is to be heard of, for then it is judged again.
        let _ = self.watches.directory(path, full);
        let directories = self.known_at(path).filter(|(_, known)| matches!(known, Known::Directory(_)));
        for directory in directories.map(|(it, _)| it.clone()).filter(|it| it != path).collect::<Vec<_>>() {
            let _ = self.watches.directory(&directory, &self.root.join(&directory));
        }
        let mounted = before.mount != now.mount;
        if path.as_os_str().is_empty() {
            let replaced = self.is_root_replaced(mounted);
            let now = self.root_is();
            if let (Some((_, led)), Some((_, leads))) = (&mut self.root_was, now) {
                // What comes to be where it leads from now on is not there because somebody turned it.
                *led = leads;
            }
            if replaced && self.has_file(full) {
                self.moved.insert(PathBuf::new());
                return None;
            }
        } else if !mounted {
            // The directory above is the one that was entered, and in it somebody put one directory in place of another.
            return None;
        }
        if mounted {
            // What was moved to where it cannot be seen any more was not moved here.
            self.moved.retain(|it| !it.starts_with(path));
        }
        let is_file = |it: &Path| std::fs::symlink_metadata(self.root.join(it)).is_ok_and(|it| !it.is_dir());
        let mut told = self.known_at(path).filter(|(_, known)| **known == Known::File(true)).map(|(it, _)| it);
        let missing = told.find(|it| !is_file(it))?.clone();
        Some(Trouble::Another { mounted, missing })
    }

    /// Whether somebody moved the root there, or turned the link that it is.
    fn is_root_replaced(&self, mounted: bool) -> bool {
        let (Some((parent, led)), Some((parent_now, leads))) = (&self.root_was, self.root_is()) else { return false };
        let turned = std::fs::read_link(&self.root).is_ok() && *led != leads;
        *parent == parent_now && (turned || !mounted && self.moved.contains(Path::new("")))
    }

    /// The parent of the root, and where the root leads.
    fn root_is(&self) -> Option<(Identity, PathBuf)> {
        let parent = Identity::of(&self.root.parent()?.join(".")).ok()?;
        Some((parent, std::fs::canonicalize(&self.root).ok()?))
    }

    /// Whether a directory has a file in it that is of interest and can be read.
    fn has_file(&self, full: &Path) -> bool {
        let mut entries = std::fs::read_dir(full).into_iter().flatten().flatten();
        entries.any(|it| match it.file_type() {
            Ok(kind) if kind.is_dir() => (self.choice.directory)(&it.file_name()) && self.has_file(&it.path()),
            Ok(_) => (self.choice.file)(&it.file_name()) && read::is_readable(&it.path()),
            Err(_) => false,
        })
    }

    /// Whether what is at a path now is a directory if one is known there, and none if not.
    fn is_kind(&self, path: &Path, status: &Metadata) -> bool {
        self.known.get(path).is_none_or(|it| matches!(it, Known::Directory(_)) == status.is_dir())
    }

    /// A path is there, seen through a mount of its own or through that of its directory.
    fn is_found(&mut self, path: &Path, is_mount_point: bool) {
        match is_mount_point {
            true => _ = self.mount_points.insert(path.into()),
            false => _ = self.mount_points.remove(path),
        }
        self.lost.remove(path);
    }

    /// What was mounted at or below a path that is gone, unless the mount is in another place now with a directory above it.
    fn unmounted_at(&self, path: &Path) -> Vec<PathBuf> {
        let at = self.mount_points.range(path.to_path_buf()..).take_while(|it| it.starts_with(path));
        let moved = |it: &PathBuf| {
            let is_there = |at: &Path| Identity::of(&self.root.join(at)).ok() == self.entered.get(at).copied();
            let was = self.entered.get(it);
            was.is_some() && self.entered.iter().any(|(at, now)| at != it && Some(now) == was && is_there(at))
        };
        at.filter(|it| !moved(it)).cloned().collect()
    }

    /// The first directory on the way to a path that is not the one that was entered.
    fn strayed(&self, path: &Path) -> Option<PathBuf> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        above.into_iter().find(|it| !self.is_entered(it)).map(Path::to_path_buf)
    }

    /// Whether a directory is the one that was entered, if one was.
    fn is_entered(&self, path: &Path) -> bool {
        let full = if path.as_os_str().is_empty() { self.root.join(".") } else { self.root.join(path) };
        self.entered.get(path).is_none_or(|entered| Identity::of(&full).ok() == Some(*entered))
    }

    /// Watches everything on a way, and listens to what is mounted there.
    fn follow(&mut self, path: &Path, holder: &Holder, awaiting: bool) {
        let way = self.watches.follow(path, holder, awaiting);
        self.handle.mounts().pass(holder.path(), way);
    }

    fn release(&mut self, holder: &Holder) {
        self.watches.release(holder);
        self.handle.mounts().pass(holder.path(), Vec::new());
    }

    /// A directory cannot be read or watched.
    fn close(&mut self, path: &Path, trouble: Trouble, found: &mut Vec<Change>) {
        self.known.insert(path.into(), Known::Directory(true));
        self.come_back(path, &trouble);
        found.push(Change::Unreadable { path: path.into(), trouble });
    }

    /// Looks at a path again by itself, if what keeps it from being read passes without an event.
    fn come_back(&mut self, path: &Path, trouble: &Trouble) {
        if trouble.is_shortage() {
            self.doubtful.entry(path.into()).or_insert_with(|| Doubt::within(SHORTAGE));
        }
    }

    /// A path is not there. It counts as gone if that stays so.
    fn miss(&mut self, path: &Path) {
        self.writing.remove(path);
        if self.known_at(path).next().is_some() {
            let missed = Doubt { missed: Some(Instant::now()), ..Doubt::within(self.choice.grace) };
            let doubt = self.doubtful.entry(path.into()).or_insert(missed);
            // A doubt about what was there is shorter than it may be away.
            if doubt.missed.is_none() {
                *doubt = missed;
            }
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
            let status = std::fs::symlink_metadata(self.root.join(&path));
            let is_other = status.as_ref().is_ok_and(|it| !self.is_kind(&path, it));
            let is_there = !is_other && status.map_or_else(|error| !is_missing(&error), |_| true);
            // Looked at after the path: where a directory on the way is another, nothing is said about this one.
            match (self.strayed(&path), is_there) {
                (Some(directory), _) => _ = self.touched.insert(directory),
                (None, true) => {
                    self.writing.remove(&path);
                    self.touched.insert(path);
                }
                (None, false) => match doubt.missed {
                    Some(since) => {
                        self.forget(&path, since, found);
                        if is_other && !self.known.contains_key(&path) {
                            self.touched.insert(path);
                        }
                    }
                    None => self.miss(&path),
                },
            }
        }
    }

    /// Drops all that is known at and below a path, which has been missed since then. What was mounted there is lost.
    fn forget(&mut self, path: &Path, since: Instant, found: &mut Vec<Change>) {
        let unmounted = self.unmounted_at(path);
        let is_over = |it: &Path| it.starts_with(path) && !unmounted.iter().any(|lost| it.starts_with(lost));
        self.writing.retain(|it| !it.starts_with(path));
        self.again.retain(|it| !it.starts_with(path));
        self.entered.retain(|it, _| !is_over(it));
        self.mount_points.retain(|it| !is_over(it));
        self.lost.retain(|it| !is_over(it));
        self.bare.retain(|it| !it.starts_with(path));
        self.led.retain(|it, _| !is_over(it));
        let all: Vec<(PathBuf, Known)> = self.known_at(path).map(|(path, known)| (path.clone(), *known)).collect();
        for (path, known) in all.into_iter().filter(|(it, _)| is_over(it)) {
            self.known.remove(&path);
            self.doubtful.remove(&path);
            self.release(&Holder::Way(path.clone()));
            self.watches.release(&Holder::Directory(path.clone()));
            if known != Known::Directory(false) {
                found.push(Change::Gone { path, since });
            }
        }
        for path in unmounted {
            self.doubtful.retain(|it, _| !it.starts_with(&path));
            if self.lost.insert(path.clone()) && self.mounts.is_none() {
                self.mounts = identity::mounts();
                // It may have been mounted again before that was listened to.
                self.touched.insert(path.clone());
            }
            if let Some(Known::Directory(closed)) = self.known.get_mut(&path) {
                *closed = true;
            }
            found.push(Change::Unreadable { path, trouble: Trouble::Unmounted });
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
