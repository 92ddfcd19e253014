//! Which operations have begun, which wait for their turn, and which are held back because a process of before may still be
//! at their place.
//!
//! Most operations begin at once or in a moment, so the engine is told of those that wait only when somebody asks or when
//! they have waited for a while. Those that run for that long are noted where the next process finds them ([`UnderWay`](crate::under_way::UnderWay)): if
//! this one is killed while they hang in the kernel, their places are left alone until they are over (I-2).

use std::mem;

use windlass_linux::process::Process;

use super::{lanes::Beginning, *};

/// After this time an operation that has not begun is queued for everybody to see, and one that has begun is noted.
const SOON: Duration = Duration::from_millis(500);

/// How far an operation is that was given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// It has not begun.
    Waits,
    /// The same, and the engine was told how many go first.
    Queued {
        ahead: u32,
    },
    /// It is held back, and the engine was told.
    Blocked,
    Begun,
}

/// What workers tell of operations that begin: a list and not a message each, for these would wake the drive for nothing.
#[derive(Clone, Default)]
pub(super) struct Begun(Arc<Mutex<Beginnings>>);

#[derive(Default)]
struct Beginnings {
    ids: Vec<OperationId>,
    /// The engine was told of an operation that waits, so it is to hear when that begins.
    is_awaited: bool,
}

impl Begun {
    /// An operation begins, on the thread that calls this.
    pub(super) fn note(&self, id: OperationId, inbox: &Sender<Message>) {
        let mut beginnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beginnings.ids.push(id);
        if beginnings.is_awaited {
            // It looks before it sleeps again, and that is all it is to do.
            let _ = inbox.send(Box::new(|_| ()));
        }
    }

    fn take(&self, into: &mut Vec<OperationId>, is_awaited: bool) {
        let mut beginnings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut beginnings.ids, into);
        beginnings.is_awaited = is_awaited;
    }
}

/// What is known of turns.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) begun: Begun,
    /// Those that have begun, between two looks.
    scratch: Vec<OperationId>,
    /// How many the engine was told of as queued.
    queued: usize,
    /// Operations in the order in which they were given out or began, each with when it is to be looked at.
    review: VecDeque<(Time, OperationId)>,
    review_at: Option<Time>,
    /// Those that have run for long.
    slow: BTreeSet<OperationId>,
    /// Held back until a process of before has ended.
    blocked: Vec<(Process, Option<DriverName>, Beginning)>,
}

impl Drive {
    /// Takes in which operations have begun.
    pub(super) fn take_begun(&mut self) {
        self.take_begun_and(self.turns.queued > 0);
    }

    fn take_begun_and(&mut self, is_awaited: bool) {
        let mut ids = mem::take(&mut self.turns.scratch);
        self.turns.begun.take(&mut ids, is_awaited);
        for id in ids.drain(..) {
            self.has_begun(id);
        }
        self.turns.scratch = ids;
    }

    fn has_begun(&mut self, id: OperationId) {
        let Some(running) = self.running.get_mut(&id) else { return };
        let before = mem::replace(&mut running.turn, Turn::Begun);
        self.lanes.has_begun(&running.lane);
        if let Turn::Queued { .. } = before {
            self.turns.queued -= 1;
            self.tell(Event::OperationStarted { id });
            self.look_again_at(id);
        }
    }

    /// Tells the engine which operations wait, as it is at this moment: those that are for a pod, or all.
    pub(crate) fn tell_turns(&mut self, pod: Option<&PodUid>) {
        if pod.is_none() && self.running.values().all(|it| it.turn == Turn::Begun) {
            return self.take_begun();
        }
        self.take_begun_and(true);
        let mut ids: Vec<OperationId> = match pod {
            None => self.running.keys().copied().collect(),
            Some(uid) => {
                let volumes = self.pods.get(uid).into_iter().flat_map(Known::volumes);
                let places = volumes
                    .flat_map(|it| [Place::Publish(it.clone(), uid.clone()), Place::Stage(it.clone())].into_iter());
                places.filter_map(|it| self.busy.get(&it).copied()).collect()
            }
        };
        ids.sort_unstable();
        for id in ids {
            self.tell_turn(id);
        }
        self.take_begun();
    }

    fn tell_turn(&mut self, id: OperationId) {
        let Some(running) = self.running.get_mut(&id) else { return };
        let ahead = self.lanes.ahead(&running.lane, running.ticket);
        match running.turn {
            Turn::Waits => self.turns.queued += 1,
            Turn::Queued { ahead: before } if before != ahead => {}
            Turn::Queued { .. } | Turn::Blocked | Turn::Begun => return,
        }
        running.turn = Turn::Queued { ahead };
        self.tell(Event::OperationQueued { id, ahead });
    }

    /// An operation was given out or begins now: if it takes long, that is to be seen.
    pub(super) fn look_again_at(&mut self, id: OperationId) {
        let at = self.now() + SOON;
        self.turns.review.push_back((at, id));
        if self.turns.review_at.is_none() {
            self.turns.review_at = Some(at);
            self.alarms.insert((at, Alarm::Review));
        }
    }

    /// Looks at those that were given out or began a while ago.
    pub(super) fn review(&mut self) {
        self.turns.review_at = None;
        self.take_begun_and(true);
        let (now, mut slow) = (self.now(), false);
        while let Some((at, id)) = self.turns.review.front().copied() {
            if at > now && self.running.contains_key(&id) {
                self.turns.review_at = Some(at);
                self.alarms.insert((at, Alarm::Review));
                break;
            }
            self.turns.review.pop_front();
            match self.running.get(&id).map(|it| it.turn) {
                Some(Turn::Waits) => self.tell_turn(id),
                Some(Turn::Begun) => slow |= self.turns.slow.insert(id),
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
            Turn::Waits | Turn::Blocked => self.lanes.has_begun(&running.lane),
            Turn::Queued { .. } => {
                self.turns.queued -= 1;
                self.lanes.has_begun(&running.lane);
            }
        }
        if self.turns.slow.remove(&id) {
            self.note_slow();
        }
        if self.running.is_empty() {
            // Nothing is to be looked at, so nobody is to wake for it (I-8).
            self.turns.review.clear();
            if let Some(at) = self.turns.review_at.take() {
                self.alarms.remove(&(at, Alarm::Review));
            }
        }
    }

    /// Notes what runs for long, for whoever comes after this process.
    fn note_slow(&self) {
        let places = self.turns.slow.iter().filter_map(|it| self.running.get(it)).map(|it| it.place.clone());
        let under_way = self.under_way.clone();
        under_way.set(places.collect());
        let lane = Lane::narrow("notes", NonZeroUsize::MIN);
        // What cannot be noted is not known to the next process, which then finds an intent at most.
        let _ = self.workers.run(&lane, move || under_way.write());
    }

    /// Notes what still runs when this process gives it up, and waits a moment for that.
    pub(super) fn note_given_up(&self) {
        if self.running.is_empty() {
            return;
        }
        let begun = self.running.values().filter(|it| it.turn == Turn::Begun);
        self.under_way.set(begun.map(|it| it.place.clone()).collect());
        let (under_way, (done, is_done)) = (self.under_way.clone(), std::sync::mpsc::sync_channel(1));
        let lane = Lane::from("last notes");
        let noted = self.workers.run(&lane, move || {
            under_way.write();
            let _ = done.send(());
        });
        if noted.is_ok() {
            let _ = is_done.recv_timeout(Duration::from_secs(1));
        }
    }

    /// Holds an operation back if a process of before may still be at its place; gives it back otherwise.
    pub(super) fn hold_back(&mut self, beginning: Beginning) -> Option<Beginning> {
        let Some(running) = self.running.get_mut(&beginning.id) else { return Some(beginning) };
        let Some(process) = self.under_way.haunting(&running.place) else { return Some(beginning) };
        running.turn = Turn::Blocked;
        let (id, driver) = (beginning.id, running.driver.clone());
        self.turns.blocked.push((process, driver, beginning));
        let by = format!("process {} of before still hangs in it", process.id).into();
        self.tell(Event::OperationBlocked { id, by });
        None
    }

    /// Nothing is left of a process of before.
    pub(crate) fn process_has_ended(&mut self, process: Process) {
        self.under_way.has_ended(process);
        let (free, blocked) = mem::take(&mut self.turns.blocked).into_iter().partition(|(it, ..)| *it == process);
        self.turns.blocked = blocked;
        let free: Vec<_> = free;
        for (_, driver, beginning) in free {
            let id = beginning.id;
            let Some(running) = self.running.get_mut(&id) else { continue };
            running.turn = Turn::Waits;
            self.tell(Event::OperationStarted { id });
            self.look_again_at(id);
            // Two of before may have hung in it.
            let Some(beginning) = self.hold_back(beginning) else { continue };
            if let Some(beginning) = self.lanes.enter(driver.as_ref(), beginning) {
                self.give_out(beginning);
            }
        }
    }
}
