//! Runs operations as the real executor does, one small step at a time, so that the process can die between any two.
//!
//! It keeps the four duties that `windlass_core::operation` states: one answer for each operation; the intent on disk
//! before the call and the proof after it; *refused* only if nothing was left behind; *done* only if the mount is seen.

use crate::{
    describe::describe_operation,
    disk::{AttachRecord, MountRecord, Sync},
    driver::{Answer, fits},
    edge::Edge,
    faults::Fault,
    kernel::Mount,
    life::Sabotage,
    process::RefusedGrowth,
    rng::Rng,
    setting::Setting,
    world::{Happening, World},
};
use std::sync::Arc;
use windlass_core::{
    Event, Operation,
    event::{Place, Record},
    ids::{OperationId, Time},
    operation::{Action, Cause, Done, Earlier, Kind, Outcome, Proof, Trouble},
};

/// How long the disk keeps writes in memory before it writes them back by itself.
const WRITE_BACK: u64 = 30_000;

/// An operation on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// What was asked for.
    pub operation: Operation,
    /// The place it is about, if it is about a mount.
    pub place: Option<Place>,
    /// Whether it has begun, and how long it may take.
    pub turn: Turn,
    /// What comes next.
    pub next: Next,
    /// What its call answered.
    pub answer: Option<Answer>,
    /// What was mounted before the call.
    before: Option<Mount>,
    /// What was seen after the call.
    seen: Option<Proof>,
    /// How it ended, once that is known.
    outcome: Option<Outcome>,
    /// Whether the record is of this flight's making, so that a refusal removes it.
    made_record: bool,
    /// Whether the directory is of this flight's making.
    made_directory: bool,
    rng: Rng,
}

/// Whether a flight has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It waits for others, and the engine was told so.
    Queued {
        /// How many go first.
        ahead: u32,
    },
    /// Somebody of before may be at its place, and the engine was told so.
    Blocked,
    /// It counts as hung from this moment on.
    Runs {
        /// The moment.
        until: Time,
    },
}

/// The step that a flight takes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Make the directory.
    MakeDirectory,
    /// Write down what is going to be done.
    WriteIntent,
    /// Call the driver, or the plugin itself.
    Call,
    /// Nothing: the call has to answer.
    Await,
    /// See what is there now.
    Look,
    /// Write down what was seen.
    WriteProof,
    /// Remove the record.
    RemoveRecord,
    /// Remove the directory.
    RemoveDirectory,
    /// Tell the engine.
    Report,
}

impl Next {
    /// What it means if the process dies before this step.
    pub fn kill(self) -> Fault {
        match self {
            Self::MakeDirectory | Self::WriteIntent => Fault::KillBeforeIntent,
            Self::Call => Fault::KillBeforeCall,
            Self::Await => Fault::KillDuringCall,
            Self::Look => Fault::KillBeforeLook,
            Self::WriteProof | Self::RemoveRecord | Self::RemoveDirectory => Fault::KillBeforeRecord,
            Self::Report => Fault::KillBeforeResult,
        }
    }
}

impl World {
    /// Starts an operation that the engine asked for.
    pub(crate) fn start_flight(&mut self, operation: Operation) {
        self.note(|| describe_operation(&operation));
        self.operations += 1;
        crate::checks::operation_started(self, &operation);
        let rng = self.luck_of_try(&operation);
        let place = self.place_of(&operation);
        if let Some(process) = &mut self.process
            && let (Some(place), Kind::Unpublish | Kind::Unstage) = (&place, operation.action.kind())
        {
            process.proven.remove(place);
        }
        let flight = Flight {
            next: match operation.action.kind() {
                Kind::Publish => Next::MakeDirectory,
                Kind::Attach | Kind::Stage | Kind::Unpublish | Kind::Unstage | Kind::Detach => Next::WriteIntent,
                Kind::Expand => Next::Call,
            },
            turn: Turn::Runs { until: operation.deadline },
            operation,
            place,
            answer: None,
            before: None,
            seen: None,
            outcome: None,
            made_record: false,
            made_directory: false,
            rng,
        };
        self.add_flight(flight.clone());
        // An executor that starts things twice; only to see that it is noticed.
        if self.sabotage == Some(Sabotage::StartsTwice) && flight.operation.action.kind() == Kind::Publish {
            crate::checks::operation_started(self, &flight.operation);
        }
    }

    fn add_flight(&mut self, mut flight: Flight) {
        let id = flight.operation.id;
        let delay = flight.rng.below(3);
        // Some wait for their turn, now and then for longer than they may run.
        let waits = match flight.rng.below(6) {
            _ if self.conditions.local.is_empty() => None,
            0 => Some((Fault::Queued, Turn::Queued { ahead: 2 }, flight.rng.spread(1, 200_000))),
            1 => Some((Fault::HeldBack, Turn::Blocked, flight.rng.spread(1, 60_000))),
            _ => None,
        };
        if let Some((fault, turn, _)) = waits {
            self.faults.add(fault);
            flight.turn = turn;
        }
        let Some(process) = &mut self.process else { return };
        let life = process.life;
        process.flights.insert(id, flight);
        match waits {
            None => self.schedule_in(delay, Happening::FlightStep { life, id }),
            Some((_, turn, time)) => {
                self.tell_turn(id, turn);
                self.schedule_in(time, Happening::FlightBegins { life, id });
            }
        }
    }

    fn tell_turn(&mut self, id: OperationId, turn: Turn) {
        self.tell(match turn {
            Turn::Queued { ahead } => Event::OperationQueued { id, ahead },
            Turn::Blocked => Event::OperationBlocked { id, by: "process 1 of before still hangs in it".into() },
            Turn::Runs { .. } => Event::OperationStarted { id },
        });
    }

    /// A flight that had to wait begins.
    pub(crate) fn flight_begins(&mut self, id: OperationId) {
        let now = self.now;
        let Some(process) = &mut self.process else { return };
        let life = process.life;
        let Some(flight) = process.flights.get_mut(&id) else { return };
        flight.operation.deadline = now + flight.operation.spec.capabilities.patience;
        flight.turn = Turn::Runs { until: flight.operation.deadline };
        let turn = flight.turn;
        self.tell_turn(id, turn);
        self.schedule_in(0, Happening::FlightStep { life, id });
    }

    /// The place that an operation is about. One for something unreadable knows only the names of its directories.
    pub(crate) fn place_of(&self, operation: &Operation) -> Option<Place> {
        let volume = operation.volume();
        match &operation.action {
            Action::Stage { .. } | Action::Unstage => Some(Place::Stage(volume.clone())),
            Action::Publish { pod, .. } => Some(Place::Publish(volume.clone(), pod.clone())),
            Action::Unpublish { pod, .. } => {
                let spec = &operation.spec;
                let named = self.disk.published().find(|it| {
                    it.pod == pod
                        && *it.plugin == spec.plugin
                        && *it.inner_name == spec.inner_name
                        && it.mode == spec.mode
                });
                let volume = named.map_or(volume, |it| it.volume);
                Some(Place::Publish(volume.clone(), pod.clone()))
            }
            Action::Attach | Action::Expand { .. } | Action::Detach => None,
        }
    }

    /// Takes the steps of a flight up to the next pause.
    pub(crate) fn flight_step(&mut self, id: OperationId) {
        loop {
            if self.kill_is_due() {
                return self.kill_now();
            }
            let next = self.process.as_ref().and_then(|it| it.flights.get(&id)).map(|it| it.next);
            if next.is_some_and(|next| self.dies_at(Edge::Before(id, next))) {
                return;
            }
            if self.now.0 >= self.disk_synced.0 + WRITE_BACK {
                self.disk.sync();
                self.disk_synced = self.now;
            }
            // The flight is taken out while it moves, so that it can use the world.
            let Some(mut flight) = self.process.as_mut().and_then(|it| it.flights.remove(&id)) else {
                return;
            };
            if flight.next == Next::Report {
                self.report(flight);
                self.dies_at(Edge::Told(id));
                return;
            }
            flight.next = self.take_step(&mut flight);
            let (paused, delay) = (flight.next == Next::Await, flight.rng.below(4));
            let Some(process) = &mut self.process else {
                return;
            };
            let life = process.life;
            process.flights.insert(id, flight);
            if paused {
                self.dies_at(Edge::CallMade(id));
                return;
            }
            if delay > 0 {
                return self.schedule_in(delay, Happening::FlightStep { life, id });
            }
        }
    }

    /// Takes one step and says what comes next.
    fn take_step(&mut self, flight: &mut Flight) -> Next {
        match flight.next {
            Next::MakeDirectory => {
                if let (Action::Publish { pod, .. }, spec) = (&flight.operation.action, &flight.operation.spec) {
                    flight.made_directory = self.disk.make_publish_directory(pod, spec);
                }
                Next::WriteIntent
            }
            Next::WriteIntent => {
                // An executor that writes its records too late; only to see that it is noticed.
                if self.sabotage != Some(Sabotage::RecordsLate) {
                    self.write_intent(flight);
                }
                Next::Call
            }
            Next::Call => {
                flight.before = flight.place.as_ref().and_then(|it| self.kernel.visible(it));
                self.place_call(flight);
                Next::Await
            }
            Next::Await | Next::Report => flight.next,
            Next::Look => {
                let outcome = self.look(flight);
                let next = after_look(flight, &outcome);
                flight.outcome = Some(outcome);
                next
            }
            Next::WriteProof => {
                self.write_proof(flight);
                Next::Report
            }
            Next::RemoveRecord => {
                match &flight.place {
                    Some(place) => self.disk.remove_record(place),
                    None => self.disk.remove_attached(flight.operation.volume()),
                }
                let removes = match flight.operation.action.kind() {
                    Kind::Unpublish => true,
                    Kind::Publish => flight.made_directory,
                    Kind::Attach | Kind::Stage | Kind::Expand | Kind::Unstage | Kind::Detach => false,
                };
                if removes && self.sabotage != Some(Sabotage::LeavesDirectories) {
                    Next::RemoveDirectory
                } else {
                    Next::Report
                }
            }
            Next::RemoveDirectory => {
                if let Some(Place::Publish(volume, pod)) = &flight.place {
                    self.disk.remove_publish_directory(pod, volume);
                }
                Next::Report
            }
        }
    }

    /// Before anything is made: what is going to be. Before anything is taken away: that the record proves nothing.
    fn write_intent(&mut self, flight: &mut Flight) {
        let operation = &flight.operation;
        let spec = operation.spec.clone();
        match (&operation.action, &flight.place) {
            (Action::Attach, _) => {
                flight.made_record = self.disk.read_attached(&spec.id).is_none();
                self.disk.write_attached(AttachRecord { spec, device: None }, Sync::Now);
            }
            (Action::Detach, _) => {
                if self.disk.read_attached(&spec.id).is_some() {
                    self.disk.write_attached(AttachRecord { spec, device: None }, Sync::Now);
                }
            }
            (Action::Stage { label, .. } | Action::Publish { label, .. }, Some(place)) => {
                flight.made_record = !self.disk.has_record(place);
                // What a pod has and is only brought up to date stays proven.
                if !(is_refresh(operation) && self.is_proven(place)) {
                    let (record, label) = (Record::Intent, label.clone());
                    self.disk.write(place, MountRecord { spec, record, label }, Sync::Now);
                }
            }
            (Action::Unpublish { .. } | Action::Unstage, Some(place)) => {
                if let Some(record) = self.disk.read(place).cloned() {
                    let with_pod = matches!(operation.action, Action::Unpublish { with_pod: true, .. });
                    let record = MountRecord { record: Record::Leaving { with_pod }, ..record };
                    self.disk.write(place, record, Sync::Now);
                }
            }
            (
                Action::Stage { .. }
                | Action::Publish { .. }
                | Action::Expand { .. }
                | Action::Unpublish { .. }
                | Action::Unstage,
                _,
            ) => {}
        }
    }

    fn is_proven(&self, place: &Place) -> bool {
        let boot = Setting::boot(self.boot);
        self.disk
            .read(place)
            .is_some_and(|it| matches!(&it.record, Record::Proven { boot: other, .. } if *other == boot))
    }

    fn write_proof(&mut self, flight: &Flight) {
        let operation = &flight.operation;
        let spec = operation.spec.clone();
        match (&flight.outcome, &flight.place) {
            (Some(Outcome::Done(Done::Mounted(proof))), Some(place)) => {
                let (revision, label) = match &operation.action {
                    Action::Publish { revision, label, .. } => (*revision, label.clone()),
                    Action::Stage { label, .. } => (0, label.clone()),
                    Action::Attach
                    | Action::Expand { .. }
                    | Action::Unpublish { .. }
                    | Action::Unstage
                    | Action::Detach => (0, None),
                };
                let boot = Setting::boot(self.boot);
                let record = Record::Proven { boot, proof: *proof, revision };
                self.disk.write(place, MountRecord { spec, record, label }, Sync::Later);
            }
            (Some(Outcome::Done(Done::Attached { device })), _) => {
                let device = device.clone();
                self.disk.write_attached(AttachRecord { spec, device }, Sync::Later);
            }
            (_, _) => {}
        }
    }

    /// Compares what was answered with what is there.
    fn look(&mut self, flight: &mut Flight) -> Outcome {
        let operation = &flight.operation;
        let answer = flight.answer.take().unwrap_or(Answer::open("no answer"));
        let visible = flight.place.as_ref().and_then(|it| self.kernel.visible(it));
        flight.seen = visible.map(|it| it.proof);
        match operation.action.kind() {
            Kind::Stage | Kind::Publish => {
                if self.sabotage == Some(Sabotage::TrustsDrivers) && answer == Answer::Done {
                    let proof = flight.seen.unwrap_or(Proof { mount_id: 1, device: 1, root: 1, kind: 1 });
                    return Outcome::Done(Done::Mounted(proof));
                }
                let plan = self.setting.volume(operation.volume());
                let fitting = flight.seen.filter(|seen| plan.is_some_and(|it| fits(it, operation.volume(), seen)));
                self.made(answer, fitting.map(Done::Mounted), flight.before.map(|it| it.proof) != flight.seen)
            }
            Kind::Unpublish | Kind::Unstage => self.unmade(answer, visible.is_none()),
            Kind::Attach => {
                let attached = self.node_attached.contains(operation.volume());
                let device: Arc<str> = format!("/dev/{}", operation.volume()).into();
                let done = attached.then_some(Done::Attached { device: Some(device) });
                self.made(answer, done, attached)
            }
            Kind::Detach => self.unmade(answer, !self.node_attached.contains(operation.volume())),
            Kind::Expand => match answer {
                Answer::Done => {
                    let to_bytes = match operation.action {
                        Action::Expand { to_bytes, .. } => to_bytes,
                        _ => 0,
                    };
                    Outcome::Done(Done::Expanded { size_bytes: to_bytes })
                }
                Answer::Final(trouble) => Outcome::Refused(trouble),
                Answer::Open(trouble) => Outcome::Unknown(trouble),
            },
        }
    }

    /// A call that should have made something: `found` is what is there, `changed` whether it was not there before.
    fn made(&self, answer: Answer, found: Option<Done>, changed: bool) -> Outcome {
        match (answer, found) {
            (Answer::Done, Some(done)) => Outcome::Done(done),
            (Answer::Done, None) => unknown("it was said to be done, but what should be there is not"),
            (Answer::Final(trouble), Some(_)) if changed && !self.guesses_refused() => {
                unknown(&format!("it was said to have failed, but something is there: {}", trouble.text))
            }
            (Answer::Final(trouble), _) => Outcome::Refused(trouble),
            (Answer::Open(trouble), _) if self.guesses_refused() => Outcome::Refused(trouble),
            (Answer::Open(trouble), _) => Outcome::Unknown(trouble),
        }
    }

    fn guesses_refused(&self) -> bool {
        self.sabotage == Some(Sabotage::GuessesRefused)
    }

    /// A call that should have taken something away.
    fn unmade(&self, answer: Answer, gone: bool) -> Outcome {
        match answer {
            Answer::Done if gone => Outcome::Done(Done::Gone),
            Answer::Done => unknown("it was said to be done, but something is still there"),
            Answer::Final(trouble) => Outcome::Refused(trouble),
            Answer::Open(trouble) => Outcome::Unknown(trouble),
        }
    }

    /// Tells the engine how a flight ended.
    fn report(&mut self, flight: Flight) {
        // An executor that loses results; only to see that it is noticed.
        if self.sabotage == Some(Sabotage::LosesResults) && flight.operation.id.0.is_multiple_of(5) {
            if let Some(process) = &mut self.process {
                let flight = Flight { next: Next::Await, ..flight };
                process.flights.insert(flight.operation.id, flight);
            }
            return;
        }
        let outcome = flight.outcome.unwrap_or_else(|| unknown("it ended without a result"));
        self.remember_refused_growth(&flight.operation, &outcome);
        self.remember_failure(&flight.operation, &outcome);
        self.tell(Event::OperationEnded { id: flight.operation.id, outcome });
        // The engine knows what was seen a few steps ago. If that changed since, it must hear of it after the result, for
        // what it heard before the result it took for a part of the operation.
        if let Some(place) = &flight.place
            && self.kernel.seen(place) != flight.seen
        {
            self.mount_changed(place);
        }
    }

    fn remember_refused_growth(&mut self, operation: &Operation, outcome: &Outcome) {
        if let (Some(process), Action::Expand { to_bytes, .. }, Outcome::Refused(trouble)) =
            (&mut self.process, &operation.action, outcome)
        {
            let refused = match trouble.cause {
                Cause::InUse => RefusedGrowth::InUse,
                Cause::Infeasible => RefusedGrowth::To(*to_bytes),
                Cause::Driver | Cause::Object(_) | Cause::NotSupported | Cause::Node(_) | Cause::Other => return,
            };
            process.refused_growth.insert(operation.volume().clone(), refused);
        }
    }

    fn remember_failure(&mut self, operation: &Operation, outcome: &Outcome) {
        let Some(process) = &mut self.process else {
            return;
        };
        let about = (operation.volume().clone(), operation.action.pod().cloned());
        match outcome {
            Outcome::Done(_) => process.failures.remove(&about),
            Outcome::Refused(trouble) | Outcome::Unknown(trouble) => process.failures.insert(about, trouble.clone()),
        };
    }

    /// The call of an operation answered.
    pub(crate) fn flight_answered(&mut self, id: OperationId, answer: Answer) {
        let Some(process) = &mut self.process else {
            return;
        };
        let life = process.life;
        if let Some(flight) = process.flights.get_mut(&id)
            && flight.next == Next::Await
        {
            flight.answer = Some(answer);
            flight.next = Next::Look;
            let delay = flight.rng.below(3);
            self.schedule_in(delay, Happening::FlightStep { life, id });
        }
    }
}

/// Where a flight goes once its outcome is known.
fn after_look(flight: &Flight, outcome: &Outcome) -> Next {
    match (flight.operation.action.kind(), outcome) {
        (Kind::Expand, _) => Next::Report,
        (Kind::Attach | Kind::Stage | Kind::Publish, Outcome::Done(_)) => Next::WriteProof,
        (Kind::Unpublish | Kind::Unstage | Kind::Detach, Outcome::Done(_)) => Next::RemoveRecord,
        // Nothing was left behind, so the record that this flight made must go too. One from before stays: it stands
        // for what may be there since then.
        (Kind::Attach | Kind::Stage | Kind::Publish, Outcome::Refused(_)) if flight.made_record => Next::RemoveRecord,
        (_, Outcome::Refused(_) | Outcome::Unknown(_)) => Next::Report,
    }
}

/// Does the operation bring up to date what a pod has already?
fn is_refresh(operation: &Operation) -> bool {
    matches!(operation.action, Action::Publish { after: Earlier::Success, .. })
}

fn unknown(text: &str) -> Outcome {
    Outcome::Unknown(Trouble { cause: Cause::Other, text: text.into() })
}

/// When an operation that hangs in the process itself answers.
pub(crate) fn after_deadline(operation: &Operation, rng: &mut Rng) -> Time {
    Time(operation.deadline.0 + rng.spread(1_000, 600_000))
}
