//! What the driver knows: its mounts, and the calls so far.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{Question, Tally};
use crate::times::milliseconds;

/// Shared by the calls and the one who measures.
#[derive(Default)]
pub(super) struct State {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    mounts: HashSet<PathBuf>,
    tally: Tally,
    /// Calls that have no answer yet.
    running: usize,
}

impl State {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins.
    pub(super) fn begin(&self) -> Instant {
        self.known().running += 1;
        Instant::now()
    }

    /// A call ends that began then.
    pub(super) fn end(&self, method: &str, began: Instant) {
        let busy = milliseconds(began.elapsed());
        let mut known = self.known();
        known.tally.note(method, busy);
        known.running -= 1;
        if known.running == 0 {
            self.changed.notify_all();
        }
    }

    /// Whether something of a volume is mounted there.
    pub(super) fn is_mounted(&self, path: &Path) -> bool {
        self.known().mounts.contains(path)
    }

    pub(super) fn mounted(&self, path: PathBuf) {
        self.known().mounts.insert(path);
    }

    pub(super) fn unmounted(&self, path: &Path) {
        self.known().mounts.remove(path);
    }

    /// The calls since the last answer, when it is as the question wants it.
    pub(super) fn answer(&self, question: Question) -> Tally {
        let wait = |known: &mut Known| match question {
            Question::Now => false,
            Question::Settled => known.running > 0 || !known.mounts.is_empty(),
        };
        let mut known = self.changed.wait_while(self.known(), wait).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut known.tally)
    }
}
