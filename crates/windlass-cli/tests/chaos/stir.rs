//! Waits until something happens below some directories or in the mount table.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::inotify::{self, CreateFlags, WatchFlags},
};

/// Whoever looks at what happened looks at all of it, so only that something happened is kept.
pub(crate) struct Stir {
    events: OwnedFd,
    /// The kernel tells of mounts by the descriptor of this file: see proc_pid_mountinfo(5).
    mounts: File,
}

impl Stir {
    pub(crate) fn new() -> Self {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
        Self { events, mounts: File::open("/proc/self/mountinfo").expect("open the mount table") }
    }

    /// Watches a directory and all below it. What comes into being meanwhile is told of by the directory it is in.
    pub(crate) fn cover(&self, directory: &Path) {
        let kinds = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::ONLYDIR;
        // What goes away meanwhile is told of in the same way.
        if inotify::add_watch(&self.events, directory, kinds).is_err() {
            return;
        }
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                self.cover(&entry.path());
            }
        }
    }

    /// Sleeps until something happens, but not longer than this. Whether something did.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).expect("a short time");
            let mut polled = [PollFd::new(&self.events, PollFlags::IN), PollFd::new(&self.mounts, PollFlags::PRI)];
            match rustix::event::poll(&mut polled, Some(&left)) {
                Ok(0) => return false,
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => panic!("poll: {errno}"),
            }
        }
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        while reader.next().is_ok() {}
        true
    }
}
