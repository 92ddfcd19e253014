//! The directories that a walk keeps open: so many and no more, however deep and wide the tree is.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open directories by their number. When there are too many, the one that was opened first is closed: in a walk
/// that goes deep before it goes wide, it is the one that is needed last.
#[derive(Default)]
pub(super) struct Descriptors {
    held: Mutex<VecDeque<(u64, Arc<OwnedFd>)>>,
}

impl Descriptors {
    /// How many directories are kept open at a time, apart from those that a thread is just working in.
    pub(super) const OPEN_MAX: usize = 32;

    pub(super) fn get(&self, number: u64) -> Option<Arc<OwnedFd>> {
        // What is looked for is mostly what came last.
        self.lock().iter().rev().find(|it| it.0 == number).map(|it| it.1.clone())
    }

    pub(super) fn keep(&self, number: u64, fd: Arc<OwnedFd>) {
        let mut held = self.lock();
        if held.iter().any(|it| it.0 == number) {
            return; // another thread opened it too
        }
        held.push_back((number, fd));
        let oldest = if held.len() > Self::OPEN_MAX { held.pop_front() } else { None };
        drop(held);
        drop(oldest); // closing can take time, which nobody should wait for
    }

    /// A directory that is not needed any more.
    pub(super) fn forget(&self, number: u64) {
        let mut held = self.lock();
        if let Some(index) = held.iter().rposition(|it| it.0 == number) {
            let forgotten = held.remove(index);
            drop(held);
            drop(forgotten);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<OwnedFd>)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
