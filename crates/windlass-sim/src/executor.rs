//! Takes the steps of operations as the real executor does, one at a time, so that the process can die between any two.
//!
//! Which steps, and in which order, is the [`Flight`](flight::Flight) that is shipped. What is simulated is what the steps do:
//! the disk they write to, the plugin and the driver that are called, and the mount table that is looked at.

use crate::describe::describe_operation;
use crate::disk::{AttachRecord, MountRecord};
use crate::driver::{Answer, fits};
use crate::edge::Edge;
use crate::faults::Fault;
use crate::kernel::Mount;
use crate::life::Sabotage;
use crate::process::RefusedGrowth;
use crate::rng::Rng;
use crate::setting::Setting;
use crate::world::{Happening, World};
use std::sync::Arc;
use windlass_core::event::{MountPlace, Record};
use windlass_core::flight::{self, End, Known, Left, Recorded, Step, Trace, Write};
use windlass_core::ids::{OperationId, Time};
use windlass_core::operation::{Action, Cause, Done, Earlier, OperationKind, Outcome, Proof, Trouble};
use windlass_core::spec::{Identity, VolumeSpec};
use windlass_core::{Event, Operation};

/// How long the disk keeps writes in memory before it writes them back by itself.
const WRITE_BACK: u64 = 30_000;

/// The revision of content that was being written.
pub(crate) const UNSETTLED: u64 = u64::MAX;

/// An operation on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// What was asked for.
    pub operation: Operation,
    /// The place it is about, if it is about a mount.
    pub place: Option<MountPlace>,
    /// Whether it has begun, and how long it may take.
    pub turn: Turn,
    /// Its steps, and how far it has come.
    pub steps: flight::Flight,
    /// How far its call has come.
    pub call: CallState,
    /// The record that was there before.
    pub former: Option<MountRecord>,
    /// What was mounted before the call.
    before: Option<Mount>,
    /// What was seen after the call.
    seen: Option<Proof>,
    /// What was made, as it was seen.
    made: Option<Proof>,
    /// Why it failed, if it did.
    trouble: Option<Trouble>,
    /// Whether the directory is of this flight's making.
    made_directory: bool,
    rng: Rng,
}

/// How far the call of a flight has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallState {
    /// It has not been made.
    ToCome,
    /// It has to answer.
    Awaited,
    /// It has answered, and the plugin has not looked at the answer.
    Answered(Answer),
}

impl Flight {
    /// What it means if the process dies now.
    pub fn kill(&self) -> Fault {
        match (self.steps.next(), &self.call) {
            (Step::Make | Step::Read | Step::Inspect, _)
            | (Step::Intend(_) | Step::Unsettle(_) | Step::Retire { .. }, _) => Fault::KillBeforeIntent,
            (Step::Call, CallState::ToCome) => Fault::KillBeforeCall,
            (Step::Call, CallState::Awaited) => Fault::KillDuringCall,
            (Step::Call, CallState::Answered(_)) | (Step::Look, _) => Fault::KillBeforeLook,
            (Step::Prove(_) | Step::Restore(_) | Step::Forget, _) => Fault::KillBeforeRecord,
            (Step::End(_), _) => Fault::KillBeforeResult,
        }
    }
}

/// What tells after a crash that something may be there, as with the real plugins: those of a pod's own that have no driver
/// begin with their directory.
pub(crate) fn trace(spec: &VolumeSpec) -> Trace {
    match (&spec.driver, spec.capabilities.identity) {
        (None, Identity::PerPod) => Trace::Directory,
        (Some(_), _) | (None, Identity::Shared) => Trace::Record,
    }
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

impl World {
    /// Starts an operation that the engine asked for.
    pub(crate) fn start_flight(&mut self, operation: Operation) {
        self.note(|| describe_operation(&operation));
        self.operations += 1;
        crate::checks::operation_started(self, &operation);
        let rng = self.luck_of_try(&operation);
        let place = self.place_of(&operation);
        if let Some(place) = &place {
            self.made.remove(place);
        }
        if let Some(process) = &mut self.process
            && let (Some(place), OperationKind::Unpublish | OperationKind::Unstage) = (&place, operation.action.kind())
        {
            process.proven.remove(place);
        }
        let flight = Flight {
            steps: flight::Flight::new(
                &operation.action,
                trace(&operation.spec),
                self.known(&operation, place.as_ref()),
            ),
            call: CallState::ToCome,
            former: place.as_ref().and_then(|it| self.disk.read(it)).cloned(),
            turn: Turn::Runs { until: operation.deadline },
            operation,
            place,
            before: None,
            seen: None,
            made: None,
            trouble: None,
            made_directory: false,
            rng,
        };
        self.add_flight(flight.clone());
        // An executor that starts things twice; only to see that it is noticed.
        if self.sabotage == Some(Sabotage::StartsTwice) && flight.operation.action.kind() == OperationKind::Publish {
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
    pub(crate) fn place_of(&self, operation: &Operation) -> Option<MountPlace> {
        let volume = operation.volume();
        match &operation.action {
            Action::Stage { .. } | Action::Unstage => Some(MountPlace::Stage(volume.clone())),
            Action::Publish { pod, .. } => Some(MountPlace::Publish(volume.clone(), pod.clone())),
            Action::Unpublish { pod, .. } => {
                let spec = &operation.spec;
                let named = self.disk.published().find(|it| {
                    it.pod == pod
                        && *it.plugin == spec.plugin
                        && *it.inner_name == spec.inner_name
                        && it.mode == spec.mode
                });
                let volume = named.map_or(volume, |it| it.volume);
                Some(MountPlace::Publish(volume.clone(), pod.clone()))
            }
            Action::Attach | Action::Expand { .. } | Action::Detach => None,
        }
    }

    /// What the process knows of a record before it reads it.
    fn known(&self, operation: &Operation, place: Option<&MountPlace>) -> Known {
        let disk_read = self.process.as_ref().is_some_and(|it| it.disk_read);
        match &operation.action {
            Action::Stage { after: Earlier::Nothing, .. } | Action::Publish { after: Earlier::Nothing, .. }
                if disk_read =>
            {
                Known::Unrecorded
            }
            Action::Unpublish { .. } if place.is_some_and(|it| self.recorded(it) == Recorded::Proven) => {
                Known::Remembered
            }
            Action::Attach
            | Action::Stage { .. }
            | Action::Publish { .. }
            | Action::Expand { .. }
            | Action::Unpublish { .. }
            | Action::Unstage
            | Action::Detach => Known::Unread,
        }
    }

    /// What is recorded of a place.
    pub(crate) fn recorded(&self, place: &MountPlace) -> Recorded {
        match self.disk.read(place).map(|it| &it.record) {
            None => Recorded::Nothing,
            Some(Record::Intent | Record::Leaving { .. }) => Recorded::Unproven,
            Some(Record::Proven { boot, .. }) if *boot == Setting::boot(self.boot) => Recorded::Proven,
            Some(Record::Proven { .. }) => Recorded::Stale,
        }
    }

    /// Takes the steps of a flight up to the next pause.
    pub(crate) fn flight_step(&mut self, id: OperationId) {
        loop {
            if self.kill_is_due() {
                return self.kill_now();
            }
            let Some(flight) = self.process.as_ref().and_then(|it| it.flights.get(&id)) else { return };
            let edge = match flight.call {
                CallState::ToCome => Edge::Before(id, flight.steps.next()),
                CallState::Awaited => return,
                CallState::Answered(_) => Edge::Answered(id),
            };
            if self.dies_at(edge) {
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
            if let Step::End(end) = flight.steps.next() {
                self.report(flight, end);
                self.dies_at(Edge::Told(id));
                return;
            }
            let took = self.take_step(&mut flight);
            if let Some(result) = took {
                flight.steps.took(result);
            }
            let delay = flight.rng.below(4);
            let Some(process) = &mut self.process else {
                return;
            };
            let life = process.life;
            process.flights.insert(id, flight);
            if took.is_none() {
                self.dies_at(Edge::CallMade(id));
                return;
            }
            if delay > 0 {
                return self.schedule_in(delay, Happening::FlightStep { life, id });
            }
        }
    }

    /// Takes one step and says how it went; `None` if it takes time.
    fn take_step(&mut self, flight: &mut Flight) -> Option<Result<(), Left>> {
        let step = flight.steps.next();
        if self.skips(step) {
            return Some(Ok(()));
        }
        match step {
            Step::Make => {
                if let Some(pod) = flight.operation.action.pod() {
                    self.disk.make_pod_directory(pod);
                }
            }
            Step::Read => {
                let recorded = match &flight.place {
                    Some(place) => self.recorded(place),
                    None if self.disk.read_attached(flight.operation.volume()).is_some() => Recorded::Unproven,
                    None => Recorded::Nothing,
                };
                flight.steps.read(recorded);
            }
            Step::Inspect | Step::End(_) => {}
            Step::Intend(write) => self.write(flight, Record::Intent, write),
            Step::Unsettle(write) => {
                if let Some(MountRecord { record: Record::Proven { boot, proof, .. }, .. }) = &flight.former {
                    let record = Record::Proven { boot: boot.clone(), proof: *proof, revision: UNSETTLED };
                    self.write(flight, record, write);
                }
            }
            Step::Retire { with_pod } => self.retire(flight, with_pod),
            Step::Call => {
                let CallState::Answered(answer) = std::mem::replace(&mut flight.call, CallState::Awaited) else {
                    self.begin_call(flight);
                    return None;
                };
                flight.call = CallState::ToCome;
                return Some(self.end_call(flight, answer));
            }
            Step::Look => return Some(self.look(flight)),
            Step::Prove(write) => match flight.made {
                Some(proof) => {
                    let revision = content(&flight.operation);
                    self.write(flight, Record::Proven { boot: Setting::boot(self.boot), proof, revision }, write);
                }
                None => {
                    let (spec, device) = (flight.operation.spec.clone(), Some(device(&flight.operation)));
                    self.disk.write_attached(AttachRecord { spec, device });
                }
            },
            Step::Restore(write) => {
                if let (Some(place), Some(former)) = (&flight.place, flight.former.clone()) {
                    self.disk.write(place, former, write);
                }
            }
            Step::Forget => self.forget(flight),
        }
        Some(Ok(()))
    }

    /// Executors that leave a step out; only to see that it is noticed.
    fn skips(&self, step: Step) -> bool {
        let sabotage = match step {
            Step::Intend(_) => Sabotage::RecordsLate,
            Step::Unsettle(_) => Sabotage::NeverUnsettles,
            Step::Retire { .. } => Sabotage::NeverRetires,
            Step::Prove(_) => Sabotage::NeverProves,
            Step::Restore(_) => Sabotage::NeverRestores,
            Step::Forget => Sabotage::NeverForgets,
            Step::Make | Step::Read | Step::Inspect | Step::Call | Step::Look | Step::End(_) => return false,
        };
        self.sabotage == Some(sabotage)
    }

    fn write(&mut self, flight: &Flight, record: Record, write: Write) {
        let spec = flight.operation.spec.clone();
        let Some(place) = &flight.place else {
            return self.disk.write_attached(AttachRecord { spec, device: None });
        };
        let label = match &flight.operation.action {
            Action::Publish { label, .. } | Action::Stage { label, .. } => label.clone(),
            Action::Attach | Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage | Action::Detach => {
                None
            }
        };
        self.disk.write(place, MountRecord { spec, record, label }, write);
    }

    fn retire(&mut self, flight: &Flight, with_pod: bool) {
        // An executor that forgets what is still there; only to see that it is noticed.
        if self.sabotage == Some(Sabotage::ForgetsEarly) {
            return self.forget(flight);
        }
        match &flight.place {
            Some(place) => self.disk.retire(place, with_pod),
            None => self.disk.write_attached(AttachRecord { spec: flight.operation.spec.clone(), device: None }),
        }
    }

    fn forget(&mut self, flight: &Flight) {
        match &flight.place {
            Some(place) => self.disk.remove_record(place),
            None => self.disk.remove_attached(flight.operation.volume()),
        }
    }

    /// The plugin begins: it makes the volume's directory, and does the rest or asks a driver to.
    fn begin_call(&mut self, flight: &mut Flight) {
        if let Action::Publish { pod, .. } = &flight.operation.action {
            flight.made_directory = self.disk.make_publish_directory(pod, &flight.operation.spec);
        }
        flight.before = flight.place.as_ref().and_then(|it| self.kernel.visible(it));
        self.place_call(flight);
    }

    /// The plugin is going to mount something that it can name; says whether the process dies once that is recorded.
    pub(crate) fn announce(&mut self, id: OperationId) -> bool {
        let Some(mut flight) = self.process.as_mut().and_then(|it| it.flights.remove(&id)) else { return false };
        let write = flight.steps.announces();
        self.write(&flight, Record::Intent, write);
        if let Some(process) = &mut self.process {
            process.flights.insert(id, flight);
        }
        self.dies_at(Edge::Announced(id))
    }

    /// The plugin ends: compares what was answered with what is there, and takes away what it made itself.
    fn end_call(&mut self, flight: &mut Flight, answer: Answer) -> Result<(), Left> {
        let operation = &flight.operation;
        flight.seen = flight.place.as_ref().and_then(|it| self.kernel.seen(it));
        let kind = operation.action.kind();
        let result = match (kind, answer) {
            (OperationKind::Unpublish | OperationKind::Unstage, Answer::Done) if flight.seen.is_some() => {
                Err((Left::Something, trouble("it was said to be done, but something is still there")))
            }
            (_, Answer::Done) => Ok(()),
            (OperationKind::Stage | OperationKind::Publish, Answer::Final(cause))
                if self.something_new_is_there(flight) =>
            {
                let text = format!("it was said to have failed, but something is there: {}", cause.text);
                Err((Left::Something, trouble(&text)))
            }
            (_, Answer::Final(trouble)) => Err((Left::Nothing, trouble)),
            (OperationKind::Stage | OperationKind::Publish | OperationKind::Attach, Answer::Open(trouble))
                if self.guesses_refused() =>
            {
                Err((Left::Nothing, trouble))
            }
            (_, Answer::Open(trouble)) => Err((Left::Something, trouble)),
        };
        let removes = match (&operation.action, &result) {
            (Action::Unpublish { .. }, Ok(())) => true,
            (Action::Publish { after: Earlier::Nothing, .. }, Err((Left::Nothing, _))) => flight.made_directory,
            _ => false,
        };
        if let Some(MountPlace::Publish(volume, pod)) = &flight.place
            && removes
            && self.sabotage != Some(Sabotage::LeavesDirectories)
        {
            self.disk.remove_publish_directory(pod, volume);
        }
        result.map_err(|(left, trouble)| {
            flight.trouble = Some(trouble);
            left
        })
    }

    /// Is there a mount of the volume that was not there before the call?
    fn something_new_is_there(&self, flight: &Flight) -> bool {
        let changed = flight.before.map(|it| it.proof) != flight.seen;
        changed && !self.guesses_refused() && self.fitting(flight).is_some()
    }

    /// What was seen, if it is a mount of the volume.
    fn fitting(&self, flight: &Flight) -> Option<Proof> {
        let volume = flight.operation.volume();
        let plan = self.setting.volume(volume)?;
        flight.seen.filter(|seen| fits(plan, volume, seen))
    }

    /// Looks at the mount table.
    fn look(&mut self, flight: &mut Flight) -> Result<(), Left> {
        flight.seen = flight.place.as_ref().and_then(|it| self.kernel.seen(it));
        flight.made = self.fitting(flight);
        if self.sabotage == Some(Sabotage::TrustsDrivers) {
            let nothing = Proof { mount_id: 1, device: 1, root: 1, kind: 1 };
            flight.made = Some(flight.seen.unwrap_or(nothing));
        }
        if flight.made.is_none() {
            flight.trouble = Some(trouble("it was said to be done, but what should be there is not"));
        }
        flight.made.map(drop).ok_or(Left::Something)
    }

    fn guesses_refused(&self) -> bool {
        self.sabotage == Some(Sabotage::GuessesRefused)
    }

    /// Tells the engine how a flight ended.
    fn report(&mut self, flight: Flight, end: End) {
        // An executor that loses results; only to see that it is noticed.
        if self.sabotage == Some(Sabotage::LosesResults) && flight.operation.id.0.is_multiple_of(5) {
            if let Some(process) = &mut self.process {
                process.flights.insert(flight.operation.id, flight);
            }
            return;
        }
        let trouble = || flight.trouble.clone().unwrap_or_else(|| trouble("it ended without a reason"));
        let outcome = match end {
            End::Done => Outcome::Done(done(&flight)),
            End::Refused => Outcome::Refused(trouble()),
            End::Unknown => Outcome::Unknown(trouble()),
        };
        crate::checks::operation_ended(self, &flight, &outcome);
        if let (Some(place), Outcome::Done(Done::Mounted(proof)), Action::Stage { .. } | Action::Publish { .. }) =
            (&flight.place, &outcome, &flight.operation.action)
        {
            self.made.insert(place.clone(), (*proof, content(&flight.operation)));
        }
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
            && flight.call == CallState::Awaited
        {
            flight.call = CallState::Answered(answer);
            let delay = flight.rng.below(3);
            self.schedule_in(delay, Happening::FlightStep { life, id });
        }
    }
}

/// What an operation brought that is done.
fn done(flight: &Flight) -> Done {
    match (&flight.operation.action, flight.made) {
        (Action::Expand { to_bytes, .. }, _) => Done::Expanded { size_bytes: *to_bytes },
        (Action::Attach, _) => Done::Attached { device: Some(device(&flight.operation)) },
        (_, Some(proof)) => Done::Mounted(proof),
        (_, None) => Done::Gone,
    }
}

/// The content that a publish brings.
fn content(operation: &Operation) -> u64 {
    match &operation.action {
        Action::Publish { revision, .. } => *revision,
        Action::Attach
        | Action::Stage { .. }
        | Action::Expand { .. }
        | Action::Unpublish { .. }
        | Action::Unstage
        | Action::Detach => 0,
    }
}

fn device(operation: &Operation) -> Arc<str> {
    format!("/dev/{}", operation.volume()).into()
}

fn trouble(text: &str) -> Trouble {
    Trouble { cause: Cause::Other, text: text.into() }
}

/// When an operation that hangs in the process itself answers.
pub(crate) fn after_deadline(operation: &Operation, rng: &mut Rng) -> Time {
    Time(operation.deadline.0 + rng.spread(1_000, 600_000))
}
