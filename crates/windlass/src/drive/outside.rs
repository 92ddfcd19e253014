//! Whom the drive tells, and who works for it.

use std::cell::Cell;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Instant;

use rustix::fd::OwnedFd;
use tokio::sync::broadcast;
use windlass_core::ids::{OperationId, PodUid, Time};
use windlass_core::operation::Cause;
use windlass_core::recording::Entry;
use windlass_linux::workers::Workers;

use super::errands::Errand;
use super::provision::Worked;
use super::{Message, Recorder};
use crate::executor::{Ended, Executor};
use crate::node::Change;
use crate::objects::Reference;
use crate::plugin::Failure;
use crate::view::Clock;

/// Held by whoever changes anything below the root, a call that hangs too, so that no other node begins to work there.
pub(crate) type Locks = Arc<[OwnedFd]>;

/// What is around the drive.
pub(crate) struct Outside {
    pub(crate) executor: Arc<Executor>,
    pub(crate) workers: Workers,
    inbox: Sender<Message>,
    changes: broadcast::Sender<Change>,
    locks: Locks,
    began: Instant,
    /// By which times were shown last.
    clock: Cell<Clock>,
    /// Keeps what the engine is told, if somebody wants that.
    recorder: Option<Recorder>,
}

impl Outside {
    pub(crate) fn new(
        executor: Arc<Executor>,
        workers: Workers,
        inbox: Sender<Message>,
        changes: broadcast::Sender<Change>,
        locks: Locks,
        recorder: Option<Recorder>,
    ) -> Self {
        let clock = Cell::new(Clock::at(Time::ZERO));
        Self { executor, workers, inbox, changes, locks, began: Instant::now(), clock, recorder }
    }

    /// Keeps what the engine is told or gives out, if somebody wants that.
    pub(super) fn record(&self, entry: impl FnOnce() -> Entry) {
        if let Some(recorder) = &self.recorder {
            recorder.keep(entry());
        }
    }

    /// Milliseconds since this drive began. Rounded down, so that a deadline is never thought to be over too early.
    pub(super) fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// What the time is called by people.
    pub(super) fn clock(&self) -> Clock {
        let clock = Clock::at(self.now()).or_earlier(self.clock.get());
        self.clock.set(clock);
        clock
    }

    /// Tells whoever listens; nobody need.
    pub(super) fn say(&self, change: Change) {
        let _ = self.changes.send(change);
    }

    pub(super) fn is_heard(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    pub(super) fn inbox(&self) -> Sender<Message> {
        self.inbox.clone()
    }

    /// What work that begins owes the drive.
    pub(super) fn owe(&self, owed: Owed) -> Owing {
        self.owe_as_part_of(None, owed)
    }

    /// The same of work that is a part of an errand, if it is: then that tells of it.
    pub(super) fn owe_as_part_of(&self, errand: Option<&Arc<Errand>>, owed: Owed) -> Owing {
        let (inbox, locks) = (self.inbox.clone(), Some(self.locks.clone()));
        Owing { inbox, errand: errand.map(Arc::downgrade), locks, owed: Some(owed), given: None }
    }
}

/// What an answer is about, and so what is said if the work breaks off: it must not look like success.
pub(super) enum Owed {
    Operation(OperationId),
    Directory(PodUid),
    Disk,
    /// What was to be done for a claim, and what was noted of it before.
    Claim(Reference, Box<Worked>),
}

/// The message that some work owes the drive. It is sent whatever becomes of the work: an operation without an end would hold
/// its volume for ever.
pub(super) struct Owing {
    inbox: Sender<Message>,
    /// Not held: the errand holds what is to be done, and that holds this.
    errand: Option<Weak<Errand>>,
    /// As long as the work goes on, no other node begins to work here.
    locks: Option<Locks>,
    owed: Option<Owed>,
    given: Option<Message>,
}

impl Owing {
    /// The work is done, and this came of it.
    pub(super) fn give(mut self, message: Message) {
        self.given = Some(message);
    }
}

impl Drop for Owing {
    fn drop(&mut self) {
        drop(self.locks.take());
        let broken = |owed| match owed {
            Owed::Operation(id) => Message::OperationEnded(id, Ended::broke_off()),
            Owed::Directory(pod) => Message::DirectoryDone(pod, Err(broke_off())),
            Owed::Disk => Message::DiskRead(Err(broke_off())),
            Owed::Claim(claim, worked) => Message::ClaimWorked(claim, worked),
        };
        let message = self.given.take().or_else(|| self.owed.take().map(broken));
        match (message, self.errand.take().and_then(|it| it.upgrade())) {
            (Some(Message::OperationEnded(id, ended)), Some(errand)) => errand.ended(id, ended),
            // After a stop nobody listens, and nothing is to be done.
            (Some(message), _) => _ = self.inbox.send(message),
            (None, _) => {}
        }
    }
}

/// What is said of work that broke off.
pub(super) fn broke_off() -> Failure {
    Failure::refused(Cause::Other, "the work broke off; this is a defect of windlass")
}
