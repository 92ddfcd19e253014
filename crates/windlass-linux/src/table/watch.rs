//! Keeping a table current: the kernel says that something changed, and what is known is brought up to date.
//!
//! Two kinds of kernel events give the same answers. fanotify (Linux 6.15) names the mount, so an event costs one
//! `statmount`, however many mounts there are. Otherwise mountinfo can be polled, which says only that something is
//! different, so the table is read again and compared.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::read::{Error, MOUNTINFO, Reader, describe};
use super::{Mount, MountId, Table};
use crate::abilities::Abilities;
use crate::raw;

/// A change of the mount table. A mount that was moved vanishes and appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This mount is there now.
    Appeared(Arc<Mount>),
    /// This mount is no longer there.
    Vanished(Arc<Mount>),
}

/// How the kernel tells of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// fanotify on the mount namespace, which names the mount. Goes with [`Reader::Statmount`] only.
    Fanotify,
    /// `poll` on mountinfo, which only wakes.
    Poll,
}

impl Events {
    /// The better kind of those that work here.
    #[must_use]
    pub fn best() -> Self {
        let abilities = Abilities::of_this_kernel();
        let both = abilities.mount_events.is_present() && abilities.statmount.is_present();
        if both { Self::Fanotify } else { Self::Poll }
    }
}

/// The one table of a process, kept current, and the changes it went through.
///
/// Shared by reference between threads, all of them in the mount namespace where it began. The kernel queues an
/// event before the call that causes it returns, so after [`Watch::catch_up`] the table holds everything that was
/// mounted before, by this process or another.
///
/// What can change while a mount stays (attributes, options, propagation) is as of the last time it was looked at;
/// [`look_up`](super::look_up) tells what it is now.
#[derive(Debug)]
pub struct Watch {
    table: RwLock<Table>,
    inner: Mutex<Inner>,
    /// Counts up when changes wait for [`Watch::changes`] that another thread's [`Watch::catch_up`] found.
    waiting: OwnedFd,
    /// Readable when the kernel has events or changes wait. One descriptor, so that callers need not know which kind
    /// of event there is: mountinfo signals changes as priority data, fanotify as ordinary data.
    ready: OwnedFd,
}

#[derive(Debug)]
struct Inner {
    reader: Reader,
    source: Source,
    changes: VecDeque<Change>,
    buffer: Vec<u64>,
    /// Events may have been lost, so the table is to be read as a whole.
    stale: bool,
}

#[derive(Debug)]
enum Source {
    Fanotify(OwnedFd),
    /// Kept open for its poll state: the kernel remembers per open file which change was seen.
    Mountinfo(OwnedFd),
}

impl Watch {
    /// Reads the table and begins to watch it, in the best way this kernel has.
    pub fn begin() -> Result<Self, Error> {
        let (reader, events) = (Reader::best(), Events::best());
        match (Self::begin_with(reader, events), events) {
            // What the kernel has can still be refused to this process.
            (Err(Error::Watch { .. }), Events::Fanotify) => Self::begin_with(reader, Events::Poll),
            (begun, _) => begun,
        }
    }

    /// As [`Watch::begin`], in a given way. fanotify's events name unique ids, so it reads by `statmount` regardless.
    pub fn begin_with(reader: Reader, events: Events) -> Result<Self, Error> {
        let failed = |step| move |source| Error::Watch { step, source };
        let (reader, source, interest) = match events {
            Events::Fanotify => (Reader::Statmount, Source::Fanotify(fanotify()?), epoll::EventFlags::IN),
            Events::Poll => {
                let file = rustix::fs::open(MOUNTINFO, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                let file = file.map_err(failed("open mountinfo"))?;
                (reader, Source::Mountinfo(file), epoll::EventFlags::PRI)
            }
        };
        let waiting = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let waiting = waiting.map_err(failed("make an eventfd"))?;
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("make an epoll set"))?;
        let (Source::Fanotify(kernel) | Source::Mountinfo(kernel)) = &source;
        epoll::add(&ready, kernel, epoll::EventData::new_u64(0), interest).map_err(failed("add to the epoll set"))?;
        epoll::add(&ready, &waiting, epoll::EventData::new_u64(1), epoll::EventFlags::IN)
            .map_err(failed("add to the epoll set"))?;
        // Read after the watch has begun: what changes in between is then seen twice rather than not at all.
        let table = reader.read()?;
        let inner = Inner { reader, source, changes: VecDeque::new(), buffer: Vec::new(), stale: false };
        Ok(Self { table: RwLock::new(table), inner: Mutex::new(inner), waiting, ready })
    }

    /// The table as of the last [`Watch::catch_up`] or [`Watch::changes`]. Hold it briefly: they wait for it.
    pub fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the table up to date without waiting. What changed is kept for [`Watch::changes`].
    pub fn catch_up(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = !inner.changes.is_empty();
        let drained = self.drain(&mut inner);
        // Whoever waits for changes was told of those that were there before.
        if !waited && !inner.changes.is_empty() {
            // Cannot fail: the counter would have to reach 2^64, and it is set back whenever changes are taken.
            let _ = rustix::io::write(&self.waiting, &1u64.to_ne_bytes());
        }
        drained
    }

    /// Waits until something changed, at most for this long (`None`: for ever), and returns all changes since the
    /// last call, in order. Empty when the time is over.
    pub fn changes(&self, timeout: Option<Duration>) -> Result<Vec<Change>, Error> {
        // A time that is too far away to be told is for ever.
        let deadline = timeout.and_then(|it| Instant::now().checked_add(it));
        loop {
            {
                let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
                // Always look: polling mountinfo uses the event up, so whoever polled `as_fd` may have taken it.
                self.drain(&mut inner)?;
                let _ = rustix::io::read(&self.waiting, &mut [0; 8]);
                if !inner.changes.is_empty() {
                    return Ok(inner.changes.drain(..).collect());
                }
            }
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Vec::new());
            }
            let left = left.map(|it| Timespec::try_from(it).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 }));
            match rustix::event::poll(&mut [PollFd::new(&self.ready, PollFlags::IN)], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::Events(errno)),
            }
        }
    }

    /// Takes in everything the kernel has to say at the moment. If that fails, what was said is read anew the next time.
    fn drain(&self, inner: &mut Inner) -> Result<(), Error> {
        if inner.stale {
            self.compare(inner.reader, &mut inner.changes)?;
            inner.stale = false;
        }
        let drained = self.take_in(inner);
        inner.stale = drained.is_err();
        drained
    }

    fn take_in(&self, inner: &mut Inner) -> Result<(), Error> {
        let Inner { reader, source, changes, buffer, .. } = inner;
        let Source::Fanotify(group) = source else {
            return self.compare(*reader, changes);
        };
        // Far more than any event needs, so what leaves room for one was all there is.
        const ROOM: usize = 512;
        let mut bytes = [0; 8192];
        loop {
            let count = match rustix::io::read(&*group, &mut bytes) {
                Ok(count) => count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(Error::Events(errno)),
            };
            for event in raw::mount_events(&bytes[..count]) {
                match event.mount {
                    Some(id) => self.renew(id, changes, buffer)?,
                    // Without a mount it tells of events that were lost.
                    None => self.compare(*reader, changes)?,
                }
            }
            if count + ROOM <= bytes.len() {
                return Ok(());
            }
        }
    }

    /// Looks at mounts again, beginning with the one that an event was about, until no other can be affected.
    ///
    /// An event says which mount, not how things are now: by the time it is read the mount can have moved on. So the
    /// mount is looked at, and what is found counts. Attach, detach and move are all this.
    fn renew(&self, event: u64, changes: &mut VecDeque<Change>, buffer: &mut Vec<u64>) -> Result<(), Error> {
        let unique = |mount: &Mount| match mount.id {
            MountId::Unique(id) => Some(id),
            MountId::Reusable(_) => None,
        };
        let mut suspects = vec![event];
        while let Some(suspect) = suspects.pop() {
            let now = describe(suspect, buffer)?;
            let id = MountId::Unique(suspect);
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            let before = table.get(id).cloned();
            match (before, now) {
                (Some(before), Some(now)) if before.is_same_mount(&now) => drop(table.insert(now)),
                (before, now) => {
                    if let Some(before) = before {
                        // A mount that moves takes those on it along, and one that goes from the middle of a stack
                        // leaves its child to its parent. The kernel tells neither.
                        suspects.extend(table.children(&before).iter().filter_map(|it| unique(it)));
                        table.remove(id);
                        changes.push_back(Change::Vanished(before));
                    }
                    if let Some(now) = now {
                        // One that spreads to a place where something is mounted already goes in below it, and that
                        // has a new parent. The kernel does not tell this either.
                        let beside = table.at(&now.mount_point).filter(|it| it.parent == now.parent);
                        suspects.extend(beside.filter_map(|it| unique(it)));
                        changes.push_back(Change::Appeared(table.insert(now)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the whole table and finds out what is different.
    fn compare(&self, reader: Reader, changes: &mut VecDeque<Change>) -> Result<(), Error> {
        let now = reader.read()?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let stayed = |mount: &Mount, other: &Table| other.get(mount.id).is_some_and(|it| it.is_same_mount(mount));
        changes.extend(table.iter().filter(|it| !stayed(it, &now)).cloned().map(Change::Vanished));
        changes.extend(now.iter().filter(|it| !stayed(it, &table)).cloned().map(Change::Appeared));
        *table = now;
        Ok(())
    }
}

impl AsFd for Watch {
    /// Readable when [`Watch::changes`] may have something to return; to be polled, nothing else.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

/// A fanotify group that hears of every mount in the calling thread's mount namespace.
fn fanotify() -> Result<OwnedFd, Error> {
    let failed = |step| move |source| Error::Watch { step, source };
    let group = fanotify_group().map_err(failed("fanotify_init"))?;
    let namespace = rustix::fs::open("/proc/thread-self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let namespace = namespace.map_err(failed("open the mount namespace"))?;
    let mask = raw::FAN_MNT_ATTACH | raw::FAN_MNT_DETACH;
    raw::fanotify_mark(&group, raw::mark::ADD | raw::mark::MNTNS, mask, &namespace).map_err(failed("fanotify_mark"))?;
    Ok(group)
}

/// A fanotify group that can hear of mounts.
pub(crate) fn fanotify_group() -> Result<OwnedFd, Errno> {
    raw::fanotify_init(raw::init::CLOEXEC | raw::init::NONBLOCK | raw::init::REPORT_MNT)
}
