//! The walk: several threads, one stack of tasks, children before their directory, the root last.
//!
//! A task is a directory to enter, or some names in one. Whoever lists a directory changes what is no directory at
//! once and puts the directories on the stack; as the newest task is taken first, the walk goes deep before it goes
//! wide, and little is pending. Each directory counts its unfinished tasks. Who finishes the last one changes the
//! directory, and has thereby finished a task of the directory above.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::descriptors::Descriptors;
use super::entry::{self, Settled};
use super::{Control, Error, Failure, Summary, Wanted};
use crate::path_error::PathError;
use crate::safe_path::{Mounts, Place, open_beneath};

/// Once so many entries were met, other threads are started. Starting one takes as long as changing some ten entries.
const SMALL: u64 = 128;

/// So many names are given to another thread at once, if a directory has that many.
const BATCH: usize = 256;

/// Gives all of a tree to the group.
pub(super) fn run(root: &Place, wanted: &Wanted, threads: NonZero<usize>, control: &Control) -> Result<Summary, Error> {
    let look = |source| PathError::new("look at", root.path(), source);
    let status = rustix::fs::fstat(root).map_err(look)?;
    if !is_directory(&status) {
        let walk = Walk::new(root, None, wanted, threads, control);
        walk.go_on()?;
        walk.settle(root, &status, || root.path().into());
        return walk.end();
    }
    let top = read(root).map_err(|source| PathError::new("read the directory", root.path(), source))?;
    let walk = Walk::new(root, Some(top), wanted, threads, control);
    walk.add([Task::List(Directory::new(0, None, OsString::new(), &status))]);
    std::thread::scope(|scope| Worker { walk: &walk, scope }.run());
    walk.end()
}

/// A directory with tasks that are not finished.
struct Directory {
    /// What it is known by while the walk lasts. The root is 0.
    number: u64,
    above: Option<Arc<Directory>>,
    name: OsString,
    /// Device and inode, to know it again.
    identity: (u64, u64),
    /// Its tasks that are pending or running: listing it, and then one for each directory in it and each batch.
    unfinished: AtomicUsize,
}

impl Directory {
    /// Its one task is to be listed.
    fn new(number: u64, above: Option<Arc<Self>>, name: OsString, status: &Stat) -> Arc<Self> {
        Arc::new(Self { number, above, name, identity: identity(status), unfinished: AtomicUsize::new(1) })
    }

    /// The path, for messages.
    fn path(&self, root: &Path) -> PathBuf {
        let mut names = Vec::new();
        let mut here = self;
        while let Some(above) = &here.above {
            names.push(&here.name);
            here = above;
        }
        let mut path = root.to_owned();
        path.extend(names.into_iter().rev());
        path
    }
}

impl Drop for Directory {
    /// Not recursive: whoever filled the tree chose its depth, and could choose the depth of our stack.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.above.take();
        }
    }
}

enum Task {
    /// List the directory, which is the root.
    List(Arc<Directory>),
    /// Look at a name that seemed to be a directory's, and list that.
    Enter { above: Arc<Directory>, name: OsString },
    /// Change what these names stand for.
    Settle { directory: Arc<Directory>, names: Vec<OsString> },
}

#[derive(Default)]
struct Tasks {
    /// The newest is taken first.
    pending: Vec<Task>,
    running: usize,
    /// How many threads wait for a task.
    waiting: usize,
    /// The first error, after which nothing new is begun.
    error: Option<Error>,
}

/// What all threads share.
struct Walk<'walk> {
    root: &'walk Place,
    /// The root, open for reading, if it is a directory.
    top: Option<Arc<OwnedFd>>,
    wanted: &'walk Wanted,
    control: &'walk Control,
    tasks: Mutex<Tasks>,
    changed_tasks: Condvar,
    descriptors: Descriptors,
    last_number: AtomicU64,
    /// How many threads may still be started.
    helpers: AtomicUsize,
    changed: AtomicU64,
    right_already: AtomicU64,
    mounts_skipped: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<Failure>>,
}

impl<'walk> Walk<'walk> {
    fn new(
        root: &'walk Place,
        top: Option<OwnedFd>,
        wanted: &'walk Wanted,
        threads: NonZero<usize>,
        control: &'walk Control,
    ) -> Self {
        Self {
            root,
            top: top.map(Arc::new),
            wanted,
            control,
            tasks: Mutex::default(),
            changed_tasks: Condvar::new(),
            descriptors: Descriptors::default(),
            last_number: AtomicU64::new(0),
            helpers: AtomicUsize::new(threads.get() - 1),
            changed: AtomicU64::new(0),
            right_already: AtomicU64::new(0),
            mounts_skipped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
        }
    }

    fn end(self) -> Result<Summary, Error> {
        if let Some(error) = self.tasks.into_inner().unwrap_or_else(PoisonError::into_inner).error {
            return Err(error);
        }
        Ok(Summary {
            root_matched: false,
            changed: self.changed.into_inner(),
            right_already: self.right_already.into_inner(),
            mounts_skipped: self.mounts_skipped.into_inner(),
            failed: self.failed.into_inner(),
            failures: self.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// Asked before anything is touched.
    fn go_on(&self) -> Result<(), Error> {
        if !self.control.is_stopped() {
            return Ok(());
        }
        Err(Error::Stopped { path: self.root.path().into(), processed: self.control.processed() })
    }

    fn path(&self, directory: &Directory) -> PathBuf {
        directory.path(self.root.path())
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, new: impl IntoIterator<Item = Task>) {
        let mut tasks = self.tasks();
        tasks.pending.extend(new);
        if tasks.waiting > 0 {
            self.changed_tasks.notify_all();
        }
    }

    /// The next task; `None` when there is none and there will be none.
    fn next(&self) -> Option<(Task, Running<'_, 'walk>)> {
        let mut tasks = self.tasks();
        loop {
            if tasks.error.is_some() {
                return None;
            }
            if let Some(task) = tasks.pending.pop() {
                tasks.running += 1;
                return Some((task, Running(self)));
            }
            if tasks.running == 0 {
                return None;
            }
            tasks.waiting += 1;
            tasks = self.changed_tasks.wait(tasks).unwrap_or_else(PoisonError::into_inner);
            tasks.waiting -= 1;
        }
    }

    fn fail(&self, error: Error) {
        self.tasks().error.get_or_insert(error);
        self.changed_tasks.notify_all();
    }

    /// Counts and changes one entry that is held open.
    fn settle(&self, fd: impl AsFd, status: &Stat, path: impl FnOnce() -> PathBuf) {
        match entry::settle(fd, status, self.wanted) {
            Settled::RightAlready => self.right_already.fetch_add(1, Ordering::Relaxed),
            Settled::Changed => self.changed.fetch_add(1, Ordering::Relaxed),
            Settled::Failed(attempt, source) => {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                if failures.len() < Summary::FAILURES_MAX {
                    failures.push(Failure { path: path(), attempt, source });
                }
                self.failed.fetch_add(1, Ordering::Relaxed)
            }
        };
        self.control.processed.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes what these names stand for, and returns those that stand for directories.
    fn settle_names(&self, directory: &Directory, fd: &OwnedFd, names: Vec<OsString>) -> Result<Vec<OsString>, Error> {
        let mut directories = Vec::new();
        for name in names {
            self.go_on()?;
            match self.hold(directory, fd, &name)? {
                Some((_, status)) if is_directory(&status) => directories.push(name),
                Some((held, status)) => self.settle(held, &status, || self.path(directory).join(&name)),
                None => {}
            }
        }
        Ok(directories)
    }

    /// Opens an entry for its path alone: from here on, it is this entry that is looked at and changed, whatever its
    /// name comes to stand for. `None` if it vanished or if something is mounted there.
    fn hold(&self, directory: &Directory, fd: &OwnedFd, name: &OsStr) -> Result<Option<(OwnedFd, Stat)>, Error> {
        const TRIES: usize = 16;
        for _ in 0..TRIES {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let held = open_beneath(fd, Path::new(name), flags, Mode::empty(), Mounts::Refuse);
            match held.and_then(|held| rustix::fs::fstat(&held).map(|status| (held, status))) {
                Ok(found) => return Ok(Some(found)),
                Err(Errno::NOENT) => return Ok(None),
                // A mount, or something that was moved just as it was looked up.
                Err(Errno::XDEV) => match is_mount_point(fd, name) {
                    Ok(false) => {}
                    Err(Errno::NOENT) => return Ok(None),
                    // There are mounts that only their owner may look at.
                    Ok(true) | Err(_) => {
                        self.mounts_skipped.fetch_add(1, Ordering::Relaxed);
                        return Ok(None);
                    }
                },
                Err(source) => return Err(PathError::new("look at", self.path(directory).join(name), source).into()),
            }
        }
        Err(PathError::new("look at", self.path(directory).join(name), Errno::XDEV).into())
    }

    /// One task of a directory is finished; with the last one the directory is, and so on upwards.
    fn finish(&self, mut directory: Arc<Directory>, mut fd: Arc<OwnedFd>) -> Result<(), Error> {
        while directory.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.go_on()?;
            // Again, because a change that somebody made meanwhile is not to be undone.
            let status =
                rustix::fs::fstat(&fd).map_err(|source| PathError::new("look at", self.path(&directory), source))?;
            self.settle(&fd, &status, || self.path(&directory));
            self.descriptors.forget(directory.number);
            let Some(above) = directory.above.clone() else { break };
            fd = self.go_up(&above, &fd)?;
            directory = above;
        }
        Ok(())
    }

    /// Opens the directory above one that is open, if it is not open still.
    fn go_up(&self, above: &Directory, below: &OwnedFd) -> Result<Arc<OwnedFd>, Error> {
        if let Some(fd) = self.held(above) {
            return Ok(fd);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(below, "..", flags, Mode::empty()) {
            // It may have been moved since we came down, and then its parent is another directory.
            Ok(fd) if is_same(&fd, above) => Ok(self.keep(above, fd)),
            _ => self.find(above),
        }
    }

    /// The directory, open, from wherever it can be had.
    fn open(&self, directory: &Directory) -> Result<Arc<OwnedFd>, Error> {
        self.held(directory).map_or_else(|| self.find(directory), Ok)
    }

    fn held(&self, directory: &Directory) -> Option<Arc<OwnedFd>> {
        if directory.above.is_none() { self.top.clone() } else { self.descriptors.get(directory.number) }
    }

    fn keep(&self, directory: &Directory, fd: OwnedFd) -> Arc<OwnedFd> {
        let fd = Arc::new(fd);
        self.descriptors.keep(directory.number, fd.clone());
        fd
    }

    /// Goes down to a directory again, step by step, from the nearest one above it that is open.
    fn find(&self, directory: &Directory) -> Result<Arc<OwnedFd>, Error> {
        let mut way = Vec::new();
        let mut here = directory;
        let mut fd = loop {
            if let Some(fd) = self.held(here) {
                break fd;
            }
            way.push(&here.name);
            match &here.above {
                Some(above) => here = above,
                // The root is always open.
                None => return Err(Error::Moved { path: self.path(directory) }),
            }
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        for name in way.into_iter().rev() {
            fd = match open_beneath(&fd, Path::new(name), flags, Mode::empty(), Mounts::Refuse) {
                Ok(fd) => Arc::new(fd),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
                    return Err(Error::Moved { path: self.path(directory) });
                }
                Err(source) => return Err(PathError::new("look at", self.path(directory), source).into()),
            };
        }
        if !is_same(&fd, directory) {
            return Err(Error::Moved { path: self.path(directory) });
        }
        self.descriptors.keep(directory.number, fd.clone());
        Ok(fd)
    }
}

/// A task that is running. However it ends, others must not wait for it any longer.
struct Running<'running, 'walk>(&'running Walk<'walk>);

impl Drop for Running<'_, '_> {
    fn drop(&mut self) {
        let mut tasks = self.0.tasks();
        tasks.running -= 1;
        if tasks.running == 0 {
            self.0.changed_tasks.notify_all();
        }
    }
}

/// One thread of the walk.
struct Worker<'scope, 'walk> {
    walk: &'scope Walk<'walk>,
    scope: &'scope Scope<'scope, 'walk>,
}

impl Worker<'_, '_> {
    fn run(&self) {
        const BUFFER: usize = 32 << 10;
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        while let Some((task, _running)) = self.walk.next() {
            if let Err(error) = self.work(task, &mut buffer) {
                self.walk.fail(error);
            }
        }
    }

    fn work(&self, task: Task, buffer: &mut [MaybeUninit<u8>]) -> Result<(), Error> {
        let walk = self.walk;
        match task {
            Task::List(directory) => {
                let fd = walk.open(&directory)?;
                self.list(directory, fd, buffer)
            }
            Task::Enter { above, name } => {
                walk.go_on()?;
                let fd = walk.open(&above)?;
                match walk.hold(&above, &fd, &name)? {
                    Some((held, status)) if is_directory(&status) => {
                        // From the descriptor and not by its name, so it is what was looked at.
                        let entered = read(&held).map_err(|source| {
                            PathError::new("read the directory", walk.path(&above).join(&name), source)
                        })?;
                        let number = walk.last_number.fetch_add(1, Ordering::Relaxed) + 1;
                        self.list(Directory::new(number, Some(above), name, &status), Arc::new(entered), buffer)
                    }
                    // No directory any more.
                    Some((held, status)) => {
                        walk.settle(held, &status, || walk.path(&above).join(&name));
                        walk.finish(above, fd)
                    }
                    None => walk.finish(above, fd),
                }
            }
            Task::Settle { directory, names } => {
                let fd = walk.open(&directory)?;
                let directories = walk.settle_names(&directory, &fd, names)?;
                self.put_off(&directory, &fd, directories);
                walk.finish(directory, fd)
            }
        }
    }

    /// Lists a directory and changes what is in it, except for directories, which become tasks.
    fn list(&self, directory: Arc<Directory>, fd: Arc<OwnedFd>, buffer: &mut [MaybeUninit<u8>]) -> Result<(), Error> {
        let walk = self.walk;
        let mut directories = Vec::new();
        let mut names = Vec::new();
        let mut entries = RawDir::new(&*fd, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // What the kernel says of a directory that was removed.
                Err(Errno::NOENT) => break,
                Err(source) => return Err(PathError::new("read the directory", walk.path(&directory), source).into()),
            };
            let name = match entry.file_name().to_bytes() {
                b"." | b".." => continue,
                name => OsStr::from_bytes(name).to_owned(),
            };
            if entry.file_type() == FileType::Directory {
                directories.push(name);
                continue;
            }
            names.push(name);
            if names.len() == BATCH {
                let names = std::mem::take(&mut names);
                if let Some(names) = self.share(&directory, &fd, names) {
                    directories.append(&mut walk.settle_names(&directory, &fd, names)?);
                }
            }
        }
        directories.append(&mut walk.settle_names(&directory, &fd, names)?);
        self.put_off(&directory, &fd, directories);
        walk.finish(directory, fd)
    }

    /// Makes a task of each directory.
    fn put_off(&self, above: &Arc<Directory>, fd: &Arc<OwnedFd>, names: Vec<OsString>) {
        if names.is_empty() {
            return;
        }
        above.unfinished.fetch_add(names.len(), Ordering::Relaxed);
        if above.above.is_some() {
            self.walk.descriptors.keep(above.number, fd.clone());
        }
        self.walk.add(names.into_iter().map(|name| Task::Enter { above: above.clone(), name }));
        self.call_help();
    }

    /// Gives names to a thread that has nothing to do, or gives them back.
    fn share(&self, directory: &Arc<Directory>, fd: &Arc<OwnedFd>, names: Vec<OsString>) -> Option<Vec<OsString>> {
        self.call_help();
        let mut tasks = self.walk.tasks();
        // No more than can be begun at once, or the names of a large directory would pile up.
        if tasks.waiting <= tasks.pending.len() {
            return Some(names);
        }
        directory.unfinished.fetch_add(1, Ordering::Relaxed);
        tasks.pending.push(Task::Settle { directory: directory.clone(), names });
        drop(tasks);
        if directory.above.is_some() {
            self.walk.descriptors.keep(directory.number, fd.clone());
        }
        self.walk.changed_tasks.notify_one();
        None
    }

    /// Starts the other threads, once, if the tree turns out not to be small.
    fn call_help(&self) {
        let walk = self.walk;
        let met: u64 =
            [&walk.changed, &walk.right_already, &walk.failed].map(|it| it.load(Ordering::Relaxed)).iter().sum();
        if met < SMALL || walk.helpers.load(Ordering::Relaxed) == 0 {
            return;
        }
        for _ in 0..walk.helpers.swap(0, Ordering::Relaxed) {
            let helper = Worker { walk, scope: self.scope };
            // Whoever could not be started is not missed: the others do its share.
            let _ = std::thread::Builder::new().name("ownership".into()).spawn_scoped(self.scope, move || helper.run());
        }
    }
}

/// Opens a directory that is held, for reading.
fn read(held: impl AsFd) -> Result<OwnedFd, Errno> {
    open_beneath(held, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), Mounts::Refuse)
}

fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode).is_dir()
}

fn identity(status: &Stat) -> (u64, u64) {
    (status.st_dev, status.st_ino)
}

fn is_same(fd: &OwnedFd, directory: &Directory) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|it| identity(&it) == directory.identity)
}

/// Whether something is mounted at a name. Asks no file system: one that is mounted there could hang.
fn is_mount_point(directory: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let status = rustix::fs::statx(directory, Path::new(name), flags, StatxFlags::empty())?;
    Ok(status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests;
