//! Where the tests run.

use std::ops::Deref;

use windlass_linux::format::Patience;
use windlass_linux::loop_device::{self, LoopDevice, Settings};
use windlass_linux::mount::{Detached, UnmountPolicy, unmount};
use windlass_linux::name::Name;
use windlass_linux::safe_path::Place;
use windlass_testing::directory::Directory;
use windlass_testing::disk::{self, Disk};
use windlass_testing::namespace;

/// One test: a mount namespace that is its thread's alone, and an empty directory.
pub(crate) struct Case {
    /// No other test has this path, in whatever namespace: of a loop device's file the kernel tells little more.
    directory: Directory,
    /// Long enough for every program to end by itself.
    pub(crate) patience: Patience,
}

impl Deref for Case {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        namespace::separate_with_base();
        let patience = Patience { look: disk::PATIENCE, work: disk::PATIENCE };
        Self { directory: Directory::new(name), patience }
    }

    /// Makes a file of zeroes, or makes it larger or smaller.
    pub(crate) fn image(&self, below: &str, size_bytes: u64) {
        disk::resize(&self.path(below), size_bytes);
    }

    /// Holds a file.
    pub(crate) fn hold(&self, below: &str) -> Place {
        disk::hold(&self.path(below))
    }

    /// A loop device of a new file of zeroes.
    pub(crate) fn disk(&self, below: &str, size_bytes: u64) -> Disk {
        Disk::new(&self.path(below), size_bytes)
    }

    /// A loop device of a file that is there.
    pub(crate) fn attach(&self, below: &str, settings: Settings) -> Disk {
        Disk::of(&self.path(below), settings)
    }

    /// The loop devices of a file that are not already on their way out.
    pub(crate) fn loops(&self, below: &str) -> Vec<LoopDevice> {
        let all = loop_device::of_file(&self.hold(below)).unwrap();
        all.into_iter().filter(|it| !it.autoclear).collect()
    }

    /// Attaches a mount to a directory, which is made. Gone with the namespace at the latest.
    pub(crate) fn mount(&self, detached: Detached, below: &str) {
        drop(detached.attach(&self.place(below)).unwrap());
    }

    /// Unmounts what is at a path, as windlass does.
    pub(crate) fn unmount_cleanly(&self, below: &str) {
        unmount(&self.mounted(below).unwrap(), UnmountPolicy::Clean).unwrap();
    }
}

pub(crate) fn name(value: &str) -> Name {
    Name::new("name", value).unwrap()
}
