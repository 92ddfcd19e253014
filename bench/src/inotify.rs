//! Waiting for what happens in directories.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

/// Directories that are watched.
pub(crate) struct Directories(OwnedFd);

impl Directories {
    /// None yet.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        Ok(Self(events.context("make an inotify instance; fs.inotify.max_user_instances may be too low")?))
    }

    /// One more; the number tells it apart.
    pub(crate) fn add(&self, directory: &Path, flags: WatchFlags) -> anyhow::Result<i32> {
        inotify::add_watch(&self.0, directory, flags).with_context(|| format!("watch {}", directory.display()))
    }

    /// Sleeps until something happens, and tells in which directories; in none if the time is over before.
    pub(crate) fn wait(&self, within: Duration) -> anyhow::Result<Vec<i32>> {
        let within = Timespec::try_from(within)?;
        if rustix::event::poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&within))? == 0 {
            return Ok(Vec::new());
        }
        let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut watches = vec![reader.next()?.wd()];
        while !reader.is_buffer_empty() {
            watches.push(reader.next()?.wd());
        }
        Ok(watches)
    }
}
