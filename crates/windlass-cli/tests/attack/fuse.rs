//! A file system that answers nothing: FUSE with a server that takes every request and keeps it.
//!
//! A thread that waits for such an answer cannot be killed, so its process stays as a zombie until the server ends.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::mpsc,
};

use rustix::mount::UnmountFlags;
use windlass_linux::{
    mount::{self, Options},
    safe_path::Place,
};

use crate::{case::PATIENCE, skip};

/// The file system, while the value lives.
pub(crate) struct Silent {
    directory: PathBuf,
    requests: mpsc::Receiver<u32>,
}

impl Drop for Silent {
    /// Every request that waits is answered with an error.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.directory, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

const INIT: u32 = 26;

impl Silent {
    /// Mounts one.
    pub(crate) fn mount(directory: &Path) -> Self {
        let device = attach(directory);
        let (sender, requests) = mpsc::channel();
        // Ends with the connection.
        std::thread::spawn(move || serve(device, &sender));
        Self { directory: directory.into(), requests }
    }

    /// Mounts one whose server has ended: every call fails at once, as on a stale file system of a network.
    pub(crate) fn mount_dead(directory: &Path) -> Self {
        drop(attach(directory));
        Self { directory: directory.into(), requests: mpsc::channel().1 }
    }

    /// Waits until somebody waits for an answer that does not come.
    pub(crate) fn until_asked(&self) {
        self.requests.recv_timeout(PATIENCE).expect("somebody asks the file system");
    }
}

/// Mounts FUSE on a directory; answers the device by which it is served.
fn attach(directory: &Path) -> File {
    let device = match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(device) => device,
        Err(error) => skip(&format!("there is no FUSE here: {error}")),
    };
    std::fs::create_dir_all(directory).unwrap();
    let words =
        [format!("fd={}", device.as_raw_fd()), "rootmode=40000".into(), "user_id=0".into(), "group_id=0".into()];
    let place = Place::root(directory).unwrap();
    mount::filesystem("fuse", "silent", &Options::parse(words)).unwrap().attach(&place).unwrap();
    device
}

/// Answers the kernel's greeting, and nothing else.
fn serve(mut device: File, requests: &mpsc::Sender<u32>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = device.read(&mut buffer) {
        let number = |at: usize| u32::from_ne_bytes(buffer[at..at + 4].try_into().unwrap());
        if count < 40 {
            return;
        }
        if number(4) != INIT {
            if requests.send(number(4)).is_err() {
                return;
            }
            continue;
        }
        // struct fuse_out_header, then struct fuse_init_out.
        let mut answer = Vec::new();
        answer.extend(80_u32.to_ne_bytes());
        answer.extend(0_u32.to_ne_bytes());
        answer.extend_from_slice(&buffer[8..16]);
        answer.extend(7_u32.to_ne_bytes());
        answer.extend(number(44).min(31).to_ne_bytes());
        answer.extend(4096_u32.to_ne_bytes());
        answer.extend(0_u32.to_ne_bytes());
        answer.extend(12_u16.to_ne_bytes());
        answer.extend(9_u16.to_ne_bytes());
        answer.extend(4096_u32.to_ne_bytes());
        answer.extend(1_u32.to_ne_bytes());
        answer.resize(80, 0);
        device.write_all(&answer).unwrap();
    }
}
