//! inotify: what each of its watches stands for, and what its events mean for paths.
//!
//! A watch is on an inode, and the same inode can be a directory of the tree and a step on the way to something else. It
//! is kept as long as somebody holds it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::Error;

/// Who wants to hear.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// A directory of the tree: all that happens in it.
    Directory(PathBuf),
    /// A link, or the root: that something on the way to where it leads is another.
    Way(PathBuf),
}

impl Holder {
    /// The path that it is about.
    pub(super) fn path(&self) -> &Path {
        let (Self::Directory(path) | Self::Way(path)) = self;
        path
    }
}

/// Where a name is on a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    /// A directory or a link that leads on.
    Way,
    /// What is reached by it: what is moved there comes whole.
    End,
}

/// What an event means.
#[derive(Debug)]
pub(super) enum Told {
    /// This path is to be looked at.
    Touched(PathBuf),
    /// This was moved here, and was whole before it had this name.
    Arrived(PathBuf),
    /// This is another file than a moment ago, or none, or somebody has written to it and closed it.
    Rewritten(PathBuf),
    /// This file was written to, and will be closed.
    Modified(PathBuf),
    /// This is new.
    Created(PathBuf),
    /// This directory was deleted: its inode may be another's now.
    Deleted(PathBuf),
    /// The file system that this directory is on was unmounted.
    Unmounted(PathBuf),
    /// Events were lost.
    Lost,
}

/// A directory of the tree.
const TREE: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::ATTRIB)
    .union(STEP)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);
/// A directory on a way: nothing that happens in it is of interest, so that neighbors do not wake anybody.
const STEP: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);
/// A link on a way; what replaces it lowers the count of its names.
const LINK: WatchFlags = STEP.union(WatchFlags::ATTRIB);
/// The file at the end of a way.
const END: WatchFlags = LINK.union(WatchFlags::MODIFY).union(WatchFlags::CLOSE_WRITE);
/// The directory that the end of a way is in: what is moved there under that name comes whole.
const ARRIVE: WatchFlags = STEP.union(WatchFlags::MOVED_TO);
/// A directory in which something is waited for.
const AWAIT: WatchFlags = STEP.union(WatchFlags::CREATE).union(WatchFlags::MOVED_TO).union(WatchFlags::ATTRIB);
/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

/// The watches of one inotify instance.
#[derive(Debug)]
pub(super) struct Watches {
    inotify: Option<OwnedFd>,
    /// Who hears of a watch; those on a way hear only of these names in a directory.
    holders: BTreeMap<i32, BTreeMap<Holder, BTreeMap<OsString, On>>>,
    held: BTreeMap<Holder, Vec<i32>>,
}

impl Watches {
    pub(super) fn begin() -> Result<Self, Error> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|source| Error::Begin { step: "begin to watch files", source })?;
        Ok(Self { inotify: Some(inotify), ..Self::none() })
    }

    /// Watches nothing.
    pub(super) fn none() -> Self {
        Self { inotify: None, holders: BTreeMap::new(), held: BTreeMap::new() }
    }

    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        self.inotify.as_ref()
    }

    /// Watches a directory of the tree.
    pub(super) fn directory(&mut self, path: &Path, full: &Path) -> io::Result<()> {
        let holder = Holder::Directory(path.into());
        let before = self.held.remove(&holder).unwrap_or_default();
        let added = self.add(full, TREE, &holder, None);
        self.let_go_of_others(before, &holder);
        added.map(|_| ())
    }

    /// Lets go of what was held before and is not any more. Only once the new ones are held, so that what the kernel has
    /// told of a directory that is still the same is not lost.
    fn let_go_of_others(&mut self, before: Vec<i32>, holder: &Holder) {
        for watch in before {
            if self.held.get(holder).is_none_or(|it| !it.contains(&watch)) {
                self.let_go(watch, holder);
            }
        }
    }

    /// Watches everything on the way to a path, so that it is noticed when the path comes to mean something else. With
    /// `awaiting` also that what is missing or forbidden on the way appears or is allowed.
    ///
    /// What cannot be watched is left out: a directory may be passed through without being readable. Returns all that was
    /// passed, from the root of all to the end; none of it has links on its way.
    pub(super) fn follow(&mut self, path: &Path, holder: &Holder, awaiting: bool) -> Vec<PathBuf> {
        if self.inotify.is_none() {
            return Vec::new();
        }
        let before = self.held.remove(holder).unwrap_or_default();
        let steps = |path: &Path| -> Vec<OsString> {
            let named = path.components().filter(|it| matches!(it, Component::Normal(_) | Component::ParentDir));
            named.map(|it| it.as_os_str().to_owned()).collect()
        };
        let mut left = steps(path);
        left.reverse();
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        let mut passed = vec![at.clone()];
        while let Some(name) = left.pop() {
            // There are no links in what was passed, so this is what the kernel does.
            if name == ".." {
                at.pop();
                continue;
            }
            let watch = match (awaiting, left.is_empty()) {
                (true, _) => self.add(&at, AWAIT, holder, Some(&name)),
                (false, true) => self.add(&at, ARRIVE, holder, Some(&name)),
                (false, false) => Ok(None),
            };
            let here = at.join(&name);
            passed.push(here.clone());
            let status = std::fs::symlink_metadata(&here);
            if left.is_empty() && !status.as_ref().is_ok_and(|it| it.is_symlink()) {
                let names = watch.ok().flatten().and_then(|it| self.holders.get_mut(&it)?.get_mut(holder));
                names.into_iter().for_each(|it| _ = it.insert(name.clone(), On::End));
            }
            let Ok(status) = status else { break };
            let flags = match status.file_type() {
                it if it.is_dir() => STEP,
                it if it.is_symlink() => LINK,
                it if it.is_file() => END,
                _ => break,
            };
            let _ = self.add(&here, flags, holder, None);
            if status.is_dir() {
                at = here;
                continue;
            }
            let Ok(target) = std::fs::read_link(&here) else { break };
            links += 1;
            if links > LINKS_MAX {
                break;
            }
            if target.is_absolute() {
                at = "/".into();
            }
            left.extend(steps(&target).into_iter().rev());
        }
        self.let_go_of_others(before, holder);
        passed
    }

    fn add(
        &mut self,
        path: &Path,
        flags: WatchFlags,
        holder: &Holder,
        name: Option<&OsStr>,
    ) -> io::Result<Option<i32>> {
        let Some(inotify) = &self.inotify else { return Ok(None) };
        let watch = inotify::add_watch(inotify, path, flags | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD)?;
        let names = self.holders.entry(watch).or_default().entry(holder.clone()).or_default();
        names.extend(name.map(|it| (it.to_owned(), On::Way)));
        let held = self.held.entry(holder.clone()).or_default();
        if !held.contains(&watch) {
            held.push(watch);
        }
        Ok(Some(watch))
    }

    /// Nothing is to be heard for this one any more.
    pub(super) fn release(&mut self, holder: &Holder) {
        for watch in self.held.remove(holder).unwrap_or_default() {
            self.let_go(watch, holder);
        }
    }

    fn let_go(&mut self, watch: i32, holder: &Holder) {
        let Some(holders) = self.holders.get_mut(&watch) else { return };
        holders.remove(holder);
        if holders.is_empty() {
            self.holders.remove(&watch);
            // Fails if what was watched is gone.
            let _ = self.inotify.as_ref().map(|it| inotify::remove_watch(it, watch));
        }
    }

    /// What the kernel has told, without waiting.
    pub(super) fn take_in(&mut self) -> Result<Vec<Told>, Errno> {
        let Some(inotify) = &self.inotify else { return Ok(Vec::new()) };
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut told = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(told),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                told.push(Told::Lost);
            }
            let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()));
            for (holder, names) in self.holders.get(&event.wd()).into_iter().flatten() {
                told.extend(meaning(holder, names, flags, name));
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.holders.remove(&event.wd());
            }
        }
    }
}

/// After these a file is not what was moved there.
const REWRITTEN: ReadFlags = ReadFlags::CLOSE_WRITE.union(ReadFlags::DELETE).union(ReadFlags::MOVED_FROM);

/// What an event means to one who hears of it.
fn meaning(holder: &Holder, names: &BTreeMap<OsString, On>, flags: ReadFlags, name: Option<&OsStr>) -> Option<Told> {
    let (path, on) = match (holder, name) {
        (Holder::Directory(path), Some(name)) => (path.join(name), On::End),
        (Holder::Directory(path) | Holder::Way(path), None) => (path.clone(), On::End),
        (Holder::Way(path), Some(name)) => (path.clone(), *names.get(name)?),
    };
    let directory = matches!(holder, Holder::Directory(_));
    Some(match flags {
        it if it.contains(ReadFlags::UNMOUNT) && directory => Told::Unmounted(path),
        it if it.contains(ReadFlags::DELETE_SELF) && directory => Told::Deleted(path),
        it if it.contains(ReadFlags::MODIFY) => Told::Modified(path),
        it if it.contains(ReadFlags::CREATE) && directory => Told::Created(path),
        // The watch ended; what ended it has been told.
        it if it.contains(ReadFlags::IGNORED) => return None,
        it if it.contains(ReadFlags::MOVED_TO) && on == On::End => Told::Arrived(path),
        it if it.intersects(REWRITTEN) => Told::Rewritten(path),
        _ => Told::Touched(path),
    })
}
