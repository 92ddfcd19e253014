//! Where a test runs: a mount namespace that is its thread's alone (and of threads it starts), and a directory.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::Place;
use windlass_linux::table::{MountId, identify};
use windlass_testing::directory::Directory;
use windlass_testing::namespace;

/// One test.
pub(crate) struct Case {
    directory: Directory,
    pub(crate) root: Place,
}

impl Deref for Case {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        namespace::separate();
        let directory = Directory::new(name);
        Self { root: Place::root(directory.path("")).unwrap(), directory }
    }

    pub(crate) fn id(&self, below: &str) -> MountId {
        identify(Place::root(self.path(below)).unwrap()).unwrap()
    }
}

pub(crate) fn name(value: &str) -> Name {
    Name::new("name", value).unwrap()
}

pub(crate) fn relative(value: &str) -> Relative {
    Relative::new("path", value).unwrap()
}

/// Tells other threads to stop when it goes, also when it goes because an assertion failed: a scope waits for them.
pub(crate) struct Stopping<'stop>(pub(crate) &'stop AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
