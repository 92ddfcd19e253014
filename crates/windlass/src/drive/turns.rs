//! Which operations have begun, which wait for their turn, and which are held back because a process of before may still be
//! at their place.
//!
//! Most operations begin at once or in a moment, so the engine is told of those that wait only when somebody asks or when
//! they have waited for a while. Those that run for that long are noted where the next process finds them ([`UnderWay`](crate::under_way::UnderWay)): if
//! this one is killed while they hang in the kernel, their places are left alone until they are over (I-2).

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Event;
use windlass_core::event::MountPlace;
use windlass_core::ids::{DriverName, OperationId, PodUid, Time};
use windlass_linux::process::Process;
use windlass_linux::workers::Lane;

use super::alarms::Alarm;
use super::lanes::Beginning;
use super::operations::Running;
use super::wishes::GivenPod;
use super::{About, Drive, Message};

/// After this time an operation that has not begun is queued for everybody to see, and one that has begun is noted.
const SOON: Duration = Duration::from_millis(500);

/// How far an operation is that was given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// The operation has not begun.
    Waits,
    /// The operation has not begun, and the engine was told how many go first.
    Queued {
        ahead: u32,
    },
    /// The operation is held back, and the engine was told.
    Blocked,
    Begun,
}

/// What workers tell of operations that begin: a list and not a message each, for these would wake the drive for nothing.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Beginnings>>);

#[derive(Default)]
struct Beginnings {
    /// Which, and when.
    begun: Vec<(OperationId, Instant)>,
    /// The engine was told of an operation that waits, so it is to hear when that begins.
    is_awaited: bool,
}

impl Begun {
    /// An operation begins, on the thread that calls this.
    pub(super) fn note(&self, id: OperationId, inbox: &Sender<Message>) {
        let mut beginnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beginnings.begun.push((id, Instant::now()));
        if beginnings.is_awaited {
            // The message only wakes the drive, which reads this list before it sleeps again.
            let _ = inbox.send(Message::OperationsBegan);
        }
    }

    fn take(&self, into: &mut Vec<(OperationId, Instant)>, is_awaited: bool) {
        let mut beginnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut beginnings.begun, into);
        beginnings.is_awaited = is_awaited;
    }
}

/// What is known of turns.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) begun: Begun,
    /// Operations that have begun, as they are read from `begun`; kept for its memory alone.
    scratch: Vec<(OperationId, Instant)>,
    /// How many the engine was told of as queued.
    queued: usize,
    /// Operations in the order in which they were given out or began, each with when it is to be looked at.
    review: VecDeque<(Time, OperationId)>,
    review_at: Option<Time>,
    /// Operations that have run for long.
    slow: BTreeSet<OperationId>,
    /// Held back until a process of before has ended.
    blocked: Vec<(Process, Option<DriverName>, Beginning)>,
}

impl Drive {
    /// Takes in which operations have begun.
    pub(super) fn take_begun(&mut self) {
        self.take_begun_and(self.operations.turns.queued > 0);
    }

    fn take_begun_and(&mut self, is_awaited: bool) {
        let mut ids = mem::take(&mut self.operations.turns.scratch);
        self.operations.turns.begun.take(&mut ids, is_awaited);
        for (id, at) in ids.drain(..) {
            self.has_begun(id, at);
        }
        self.operations.turns.scratch = ids;
    }

    fn has_begun(&mut self, id: OperationId, at: Instant) {
        let Some(running) = self.operations.running.get_mut(&id) else { return };
        running.began = Some(at);
        let before = mem::replace(&mut running.turn, Turn::Begun);
        self.operations.lanes.has_begun(&running.lane);
        if let Turn::Queued { .. } = before {
            self.operations.turns.queued -= 1;
            self.tell(Event::OperationStarted { id });
            self.look_again_at(id);
        }
    }

    /// Tells the engine which of the operations that a question is about wait, as it is at this moment.
    pub(super) fn tell_turns(&mut self, about: &About) {
        let uids = match about {
            About::Nothing => return,
            About::Everything => {
                if self.operations.running.values().all(|it| it.turn == Turn::Begun) {
                    return self.take_begun();
                }
                None
            }
            About::Pods(uids) => Some(uids.clone()),
            About::Named(name) => Some(self.pods_named(name)),
        };
        self.take_begun_and(true);
        let mut ids: Vec<OperationId> = match uids {
            None => self.operations.running.keys().copied().collect(),
            Some(uids) => uids.iter().flat_map(|it| self.operations_of(it)).collect(),
        };
        ids.sort_unstable();
        for id in ids {
            self.tell_turn(id);
        }
        self.take_begun();
    }

    /// The operations that a pod waits for.
    fn operations_of(&self, uid: &PodUid) -> Vec<OperationId> {
        let volumes = self.wishes.pods.get(uid).into_iter().flat_map(GivenPod::volumes);
        let places = volumes
            .flat_map(|it| [MountPlace::Publish(it.clone(), uid.clone()), MountPlace::Stage(it.clone())].into_iter());
        places.filter_map(|it| self.operations.busy.get(&it).copied()).collect()
    }

    fn tell_turn(&mut self, id: OperationId) {
        let Some(running) = self.operations.running.get_mut(&id) else { return };
        let ahead = self.operations.lanes.ahead(&running.lane, running.ticket);
        match running.turn {
            Turn::Waits => self.operations.turns.queued += 1,
            Turn::Queued { ahead: before } if before != ahead => {}
            Turn::Queued { .. } | Turn::Blocked | Turn::Begun => return,
        }
        running.turn = Turn::Queued { ahead };
        self.tell(Event::OperationQueued { id, ahead });
    }

    /// An operation was given out or begins now: if it takes long, that is to be seen.
    pub(super) fn look_again_at(&mut self, id: OperationId) {
        let at = self.now() + SOON;
        self.operations.turns.review.push_back((at, id));
        if self.operations.turns.review_at.is_none() {
            self.operations.turns.review_at = Some(at);
            self.alarms.set(at, Alarm::Review);
        }
    }

    /// Looks at those that were given out or began a while ago.
    pub(super) fn review(&mut self) {
        self.operations.turns.review_at = None;
        self.take_begun_and(true);
        let (now, mut slow) = (self.now(), false);
        while let Some((at, id)) = self.operations.turns.review.front().copied() {
            if at > now && self.operations.running.contains_key(&id) {
                self.operations.turns.review_at = Some(at);
                self.alarms.set(at, Alarm::Review);
                break;
            }
            self.operations.turns.review.pop_front();
            match self.operations.running.get(&id).map(|it| it.turn) {
                Some(Turn::Waits) => self.tell_turn(id),
                Some(Turn::Begun) => slow |= self.operations.turns.slow.insert(id),
                Some(Turn::Queued { .. } | Turn::Blocked) | None => {}
            }
        }
        self.take_begun();
        if slow {
            self.note_slow();
        }
    }

    /// An operation has ended.
    pub(super) fn turn_is_over(&mut self, id: OperationId, running: &Running) {
        match running.turn {
            Turn::Begun => {}
            Turn::Waits | Turn::Blocked => self.operations.lanes.has_begun(&running.lane),
            Turn::Queued { .. } => {
                self.operations.turns.queued -= 1;
                self.operations.lanes.has_begun(&running.lane);
            }
        }
        if self.operations.turns.slow.remove(&id) {
            self.note_slow();
        }
        if self.operations.running.is_empty() {
            // Nothing is to be looked at, so nobody is to wake for it (I-8).
            self.operations.turns.review.clear();
            if let Some(at) = self.operations.turns.review_at.take() {
                self.alarms.cancel(at, Alarm::Review);
            }
        }
    }

    /// Notes what runs for long, for whoever comes after this process.
    fn note_slow(&self) {
        let places = self
            .operations
            .turns
            .slow
            .iter()
            .filter_map(|it| self.operations.running.get(it))
            .map(|it| it.place.clone());
        let under_way = self.operations.under_way.clone();
        under_way.set(places.collect());
        let lane = Lane::narrow("notes", NonZeroUsize::MIN);
        // What cannot be noted is not known to the next process, which then finds an intent at most.
        let _ = self.outside.workers.run(&lane, move || under_way.write());
    }

    /// Notes what still runs when this process gives it up, and waits a moment for that.
    pub(super) fn note_given_up(&self) {
        if self.operations.running.is_empty() {
            return;
        }
        let begun = self.operations.running.values().filter(|it| it.turn == Turn::Begun);
        self.operations.under_way.set(begun.map(|it| it.place.clone()).collect());
        let (under_way, (done, is_done)) = (self.operations.under_way.clone(), std::sync::mpsc::sync_channel(1));
        let lane = Lane::from("last notes");
        let noted = self.outside.workers.run(&lane, move || {
            under_way.write();
            let _ = done.send(());
        });
        if noted.is_ok() {
            let _ = is_done.recv_timeout(Duration::from_secs(1));
        }
    }

    /// Holds an operation back if a process of before may still be at its place; gives it back otherwise.
    pub(super) fn hold_back(&mut self, beginning: Beginning) -> Option<Beginning> {
        let Some(running) = self.operations.running.get_mut(&beginning.id) else { return Some(beginning) };
        let Some(process) = self.operations.under_way.haunting(&running.place) else { return Some(beginning) };
        running.turn = Turn::Blocked;
        let (id, driver) = (beginning.id, running.driver.clone());
        self.operations.turns.blocked.push((process, driver, beginning));
        let by = format!("process {} of before still hangs in it", process.id).into();
        self.tell(Event::OperationBlocked { id, by });
        None
    }

    /// Nothing is left of a process of before.
    pub(super) fn process_has_ended(&mut self, process: Process) {
        self.operations.under_way.has_ended(process);
        let (free, blocked) =
            mem::take(&mut self.operations.turns.blocked).into_iter().partition(|(it, ..)| *it == process);
        self.operations.turns.blocked = blocked;
        let free: Vec<_> = free;
        for (_, driver, beginning) in free {
            let id = beginning.id;
            let Some(running) = self.operations.running.get_mut(&id) else { continue };
            running.turn = Turn::Waits;
            self.tell(Event::OperationStarted { id });
            self.look_again_at(id);
            // Two of before may have hung in it.
            let Some(beginning) = self.hold_back(beginning) else { continue };
            self.enter(driver.as_ref(), beginning);
        }
    }
}
