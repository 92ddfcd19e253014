//! A file system that answers nothing: FUSE with a server that does not serve.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use windlass_linux::mount::{self, Options};
use windlass_linux::safe_path::Place;

use crate::wait::PATIENCE;

/// The first request of a connection, `FUSE_INIT` of linux/fuse.h.
const INIT: u32 = 26;

/// The file system answers nothing while this lives, and only errors afterwards; it stays mounted.
///
/// By itself it has not even been greeted: whoever asks it waits for the greeting, and can be killed.
pub struct Silent {
    connection: OwnedFd,
    keeping: Option<Keeping>,
}

/// A thread that takes requests and keeps them.
struct Keeping {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    requests: Receiver<u32>,
}

impl Silent {
    /// Mounts it on a directory, which is made. Fails where there is no FUSE.
    pub fn mount(directory: &Path) -> io::Result<Self> {
        let connection = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        std::fs::create_dir_all(directory)?;
        let number = format!("fd={}", connection.as_raw_fd());
        let options = Options::parse([&number, "rootmode=40000", "user_id=0", "group_id=0"]);
        let target = Place::root(directory).map_err(io::Error::other)?;
        let detached = mount::filesystem("fuse", "silent", &options).map_err(io::Error::other)?;
        detached.attach(&target).map_err(io::Error::other)?;
        Ok(Self { connection, keeping: None })
    }

    /// The same, or says that what the test is about is skipped.
    pub fn mount_or_skip(directory: &Path) -> Option<Self> {
        Self::mount(directory).inspect_err(|error| eprintln!("skipped, there is no FUSE here: {error}")).ok()
    }

    /// Answers the greeting of the kernel, and from then on takes every request and keeps it. A thread that waits for such
    /// an answer cannot be killed, so its process stays as a zombie until this goes.
    pub fn greeted(mut self) -> Self {
        rustix::fs::fcntl_setfl(&self.connection, OFlags::NONBLOCK).expect("a connection that does not block");
        let connection = self.connection.try_clone().expect("a second descriptor");
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an event");
        let stopped = stop.try_clone().expect("a second descriptor");
        let (sender, requests) = mpsc::channel();
        let thread = std::thread::spawn(move || keep(&connection, &stopped, &sender));
        self.keeping = Some(Keeping { stop, thread: Some(thread), requests });
        self
    }

    /// Waits until somebody waits for an answer that does not come.
    pub fn until_asked(&self) {
        let keeping = self.keeping.as_ref().expect("a file system that was greeted");
        keeping.requests.recv_timeout(PATIENCE).expect("somebody asks the file system");
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes requests until it is told to stop.
fn keep(connection: &OwnedFd, stop: &OwnedFd, requests: &Sender<u32>) {
    // The kernel wants room for the largest.
    let mut request = vec![0; 1 << 17];
    loop {
        let mut ready = [PollFd::new(connection, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) if ready[1].revents().is_empty() => {}
            Err(rustix::io::Errno::INTR) => continue,
            Ok(_) | Err(_) => return,
        }
        match rustix::io::read(connection, &mut request) {
            Ok(_) => {}
            // Somebody else was faster, or the one who asked has given up.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::NOENT) => continue,
            // It is unmounted.
            Err(_) => return,
        }
        let number = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("four bytes"));
        if number(4) == INIT {
            greet(connection, &request[8..16], number(44));
        } else {
            // Nobody need want to know.
            let _ = requests.send(number(4));
        }
    }
}

/// Answers the greeting with this number, of a kernel that speaks this minor version: `struct fuse_out_header`, then
/// `struct fuse_init_out`.
fn greet(connection: &OwnedFd, number: &[u8], minor: u32) {
    let mut answer = [80_u32.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    answer.extend_from_slice(number);
    // The version, what is read ahead, no abilities, as many in the background as the kernel likes, what is written at once.
    answer.extend([7, minor.min(31), 0, 0, 0, 1 << 16].into_iter().flat_map(u32::to_ne_bytes));
    answer.resize(80, 0);
    rustix::io::write(connection, &answer).expect("answer the kernel");
}
