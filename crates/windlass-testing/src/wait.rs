//! Waiting for what happens, by what the kernel tells of it.

use std::fs::File;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Long enough for any machine that is not stuck: a test that waits in vain says so.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so, which may become so whenever something happens in this directory or to this file.
#[track_caller]
pub fn until(what: &str, watched: &Path, is_so: impl FnMut() -> bool) {
    let stir = Stir::new();
    let watching = stir.watch(watched, WatchFlags::empty());
    watching.unwrap_or_else(|errno| panic!("watch {}: {errno}", watched.display()));
    stir.until(what, is_so);
}

/// Waits until there is something at a path. The directory that it is in may not be there yet.
#[track_caller]
pub fn until_exists(path: &Path) {
    for part in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
        if let Some(above) = part.parent() {
            until(&format!("{} exists", part.display()), above, || part.exists());
        }
    }
}

/// Tells that something happened below some directories, to some files or in the mount table.
///
/// Whoever looks at what happened looks at all of it, so only that something happened is kept.
pub struct Stir {
    events: OwnedFd,
    /// The kernel tells of mounts by the descriptor of this file: see proc_pid_mountinfo(5).
    mounts: File,
}

impl Stir {
    /// Tells of mounts, and of nothing else yet.
    #[expect(clippy::new_without_default, reason = "it opens files")]
    pub fn new() -> Self {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
        Self { events, mounts: File::open("/proc/self/mountinfo").expect("open the mount table") }
    }

    fn watch(&self, path: &Path, more: WatchFlags) -> rustix::io::Result<()> {
        let kinds = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ATTRIB
            | more;
        // What is written little by little is told of at each step where nobody says that its end is enough.
        let kinds = if more.contains(WatchFlags::CLOSE_WRITE) { kinds } else { kinds | WatchFlags::MODIFY };
        inotify::add_watch(&self.events, path, kinds).map(drop)
    }

    /// Tells of a directory and all below it. What comes into being meanwhile is told of by the directory it is in.
    pub fn cover(&self, directory: &Path) {
        // What goes away meanwhile is told of in the same way.
        let more = WatchFlags::CLOSE_WRITE | WatchFlags::DONT_FOLLOW | WatchFlags::ONLYDIR;
        if self.watch(directory, more).is_err() {
            return;
        }
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                self.cover(&entry.path());
            }
        }
    }

    /// Sleeps until something happens, but not longer than this. Whether something did.
    pub fn wait(&self, at_most: Duration) -> bool {
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

    /// Waits until something is so, which may become so whenever something happens.
    #[track_caller]
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "after {PATIENCE:?} it is still not so that {what}");
            self.wait(left);
        }
    }
}

/// Runs a future to its end. Tests' threads have namespaces of their own, so each has a runtime of its own too.
#[track_caller]
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let done = runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await });
    done.unwrap_or_else(|_| panic!("it took longer than {PATIENCE:?}"))
}
