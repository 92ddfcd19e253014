//! A file system whose server takes requests and never answers, as one does that hangs.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::AsRawFd,
};

use windlass_linux::{
    mount::{self, Options},
    safe_path::Place,
};

use crate::namespace::Case;

/// The server. Dropped, everybody who waits for it gets an error.
pub(crate) struct Hung {
    connection: File,
}

impl Hung {
    /// Mounts it on a directory, which is made.
    pub(crate) fn new(case: &Case, below: &str) -> Self {
        let connection = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", connection.as_raw_fd());
        let detached = mount::filesystem("fuse", "hung", &Options::parse([options])).unwrap();
        detached.attach(&Place::root(case.directory(below)).unwrap()).unwrap();
        let hung = Self { connection };
        hung.greet();
        hung
    }

    /// Answers the first request, without which the kernel makes no other.
    fn greet(&self) {
        const INIT: u32 = 26;
        let (operation, unique) = self.request();
        assert_eq!(operation, INIT);
        let mut answer = Vec::new();
        // The length of it all, no error, which request it answers; then the version, and the oldest form of the rest.
        for number in [40u32, 0] {
            answer.extend(number.to_ne_bytes());
        }
        answer.extend(unique.to_ne_bytes());
        for number in [7u32, 22, 0, 0, 0, 4096] {
            answer.extend(number.to_ne_bytes());
        }
        assert_eq!((&self.connection).write(&answer).unwrap(), answer.len());
    }

    /// Waits until somebody waits for the server. Answers what for, and the request's number.
    pub(crate) fn request(&self) -> (u32, u64) {
        // The kernel wants room for the largest.
        let mut buffer = [0; 64 * 1024];
        let length = (&self.connection).read(&mut buffer).unwrap();
        assert!(length >= 16);
        let operation = u32::from_ne_bytes(buffer[4..8].try_into().unwrap());
        (operation, u64::from_ne_bytes(buffer[8..16].try_into().unwrap()))
    }
}
