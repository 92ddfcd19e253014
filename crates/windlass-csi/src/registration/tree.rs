//! The watched directory and those below it, by inotify.
//!
//! An event says only where to look: what is there by then is what counts. So events that come late, twice or too many to be
//! told do no harm.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::socket::{Entry, EntryState, File};

/// How deep directories are looked into.
const DEPTH_MAX: usize = 16;
/// Room for many events; one alone never needs more than 300 bytes.
const BUFFER_BYTES: usize = 8192;

pub(super) struct Tree {
    path: PathBuf,
    inotify: AsyncFd<OwnedFd>,
    /// The directory above the root. That the root itself is removed, the kernel tells only once nobody has anything of it
    /// open any more, and whoever listens at a socket in it has.
    above: i32,
    /// The directories that are watched, by their paths below the root.
    watches: HashMap<i32, PathBuf>,
}

impl Tree {
    /// Watches a directory, which is made if it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let (inotify, above) = start(path)?;
        let mut tree = Self { path: path.to_path_buf(), inotify, above, watches: HashMap::new() };
        tree.watch(Path::new(""), &tree.root()?)?;
        Ok(tree)
    }

    /// What is there now.
    pub(super) fn look_everywhere(&mut self) -> Vec<Entry> {
        let mut found = Vec::new();
        self.look_into(Path::new(""), &mut found);
        found
    }

    /// Waits for something to change, and looks at it. An error: the directory is gone, and cannot be made; another call
    /// tries again.
    pub(super) async fn touched(&mut self) -> io::Result<Vec<Entry>> {
        if !self.watches.values().any(|it| it.as_os_str().is_empty()) {
            return self.start_again();
        }
        let mut touched = BTreeSet::new();
        let mut everything = false;
        let (above, name_above) = (self.above, self.path.file_name().map(OsStr::to_os_string));
        self.read(|event, watches| {
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                everything = true;
                return;
            }
            let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()));
            if event.wd() == above {
                everything |= name == name_above.as_deref();
                return;
            }
            let Some(directory) = watches.get(&event.wd()) else { return };
            let is_root = directory.as_os_str().is_empty();
            if is_root && flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT) {
                everything = true;
            }
            if let Some(name) = name {
                touched.insert(directory.join(name));
            }
            if flags.contains(ReadFlags::IGNORED) {
                watches.remove(&event.wd());
            }
        })
        .await?;
        if everything {
            return self.start_again();
        }
        let mut found = Vec::new();
        for path in touched {
            self.look(&path, &mut found);
        }
        Ok(found)
    }

    /// Begins anew: the directory may be another, or what happened in it was not told.
    fn start_again(&mut self) -> io::Result<Vec<Entry>> {
        self.watches.clear();
        (self.inotify, self.above) = start(&self.path)?;
        self.watch(Path::new(""), &self.root()?)?;
        Ok(self.look_everywhere())
    }

    /// Reads events until there are none; waits for the first.
    async fn read(&mut self, mut each: impl FnMut(&inotify::Event<'_>, &mut HashMap<i32, PathBuf>)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut any = false;
            let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        any = true;
                        each(&event, &mut self.watches);
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
            ready.clear_ready();
            if any {
                return Ok(());
            }
        }
    }

    /// Looks at one path below the root.
    fn look(&mut self, path: &Path, found: &mut Vec<Entry>) {
        let hidden = path.components().any(|it| it.as_os_str().as_bytes().starts_with(b"."));
        if hidden || path.components().count() > DEPTH_MAX {
            return;
        }
        let whole = self.path.join(path);
        let what = match self.open_below(path) {
            Ok(descriptor) => match rustix::fs::fstat(&descriptor) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    match self.watch(path, &descriptor) {
                        Ok(()) => self.look_into(path, found),
                        Err(error) => {
                            let what = EntryState::Trouble(error.to_string());
                            found.push(Entry { path: whole.clone(), what });
                        }
                    }
                    // A mount of a socket that is not there makes one of these.
                    if path.extension() != Some(OsStr::new("sock")) {
                        return;
                    }
                    File::judge(descriptor, &stat)
                }
                Ok(stat) => File::judge(descriptor, &stat),
                Err(errno) => EntryState::Trouble(format!("it cannot be looked at: {errno}")),
            },
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.watches.retain(|wd, it| {
                    let gone = it.starts_with(path);
                    if gone {
                        // It may be gone with its directory.
                        let _ = inotify::remove_watch(&self.inotify, *wd);
                    }
                    !gone
                });
                EntryState::Nothing
            }
            Err(errno) => EntryState::Trouble(format!("it cannot be opened: {errno}")),
        };
        found.push(Entry { path: whole, what });
    }

    /// Looks at all that is in a directory, which is watched already: nothing can come unseen.
    fn look_into(&mut self, directory: &Path, found: &mut Vec<Entry>) {
        let listed = self.list(directory);
        match listed {
            Ok(names) => {
                // What was there and is not found now is gone.
                found.push(Entry { path: self.path.join(directory), what: EntryState::Nothing });
                names.iter().for_each(|it| self.look(it, found));
            }
            Err(Errno::NOENT) => found.push(Entry { path: self.path.join(directory), what: EntryState::Nothing }),
            Err(errno) => {
                let what = EntryState::Trouble(format!("it cannot be listed: {errno}"));
                found.push(Entry { path: self.path.join(directory), what });
            }
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<PathBuf>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory_or_dot = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let opened = rustix::fs::openat2(self.root()?, directory_or_dot, flags, Mode::empty(), BELOW)?;
        let mut names = Vec::new();
        for entry in Dir::new(opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !name.starts_with(b".") {
                names.push(directory.join(OsStr::from_bytes(name)));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens a path to be looked at. Never through a link, and a link is opened itself.
    fn open_below(&self, path: &Path) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(self.root()?, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), BELOW)
    }

    fn root(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::open(&self.path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    }

    fn watch(&mut self, path: &Path, directory: &OwnedFd) -> io::Result<()> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let by_descriptor = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let wd = inotify::add_watch(&self.inotify, by_descriptor, flags).map_err(unwatchable)?;
        self.watches.insert(wd, path.to_path_buf());
        Ok(())
    }
}

const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

#[expect(
    deprecated,
    reason = "what takes its place is unsafe, for types that lie about their descriptor; this one does not"
)]
fn start(path: &Path) -> io::Result<(AsyncFd<OwnedFd>, i32)> {
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(path)?;
    let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(unwatchable)?;
    let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
    let above = match path.parent() {
        Some(it) => {
            let it = if it.as_os_str().is_empty() { Path::new(".") } else { it };
            inotify::add_watch(&inotify, it, flags).map_err(unwatchable)?
        }
        // The root of the file system is not removed; and no watch has this number.
        None => -1,
    };
    Ok((AsyncFd::with_interest(inotify, Interest::READABLE)?, above))
}

/// Of a limit of inotify the kernel's own words speak as of a full disk, or of open files.
fn unwatchable(errno: Errno) -> io::Error {
    io::Error::other(match errno {
        Errno::NOSPC => "it cannot be watched: fs.inotify.max_user_watches limits how many directories can be".into(),
        Errno::MFILE => format!("it cannot be watched: {errno} (fs.inotify.max_user_instances limits how many watch)"),
        _ => format!("it cannot be watched: {errno}"),
    })
}
