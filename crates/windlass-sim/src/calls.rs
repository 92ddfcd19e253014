//! Calls on their way: from the executor to a driver or to the plugin itself, what they do there, and the answer back.

use crate::driver::{Answer, Call, CallId, Effect, Response, device_of, file_system_of, fits, respond};
use crate::edge::Edge;
use crate::executor::{Flight, after_deadline};
use crate::faults::Fault;
use crate::life::Sabotage;
use crate::rng::Rng;
use crate::script::{Behavior, LocalTrouble};
use crate::setting::Medium;
use crate::world::{Happening, World};
use std::sync::Arc;
use windlass_core::Operation;
use windlass_core::event::MountPlace;
use windlass_core::ids::Time;
use windlass_core::operation::{Action, Cause, Obstacle, OperationKind, Trouble};
use windlass_core::spec::Attach;

impl World {
    /// Makes the call of a flight.
    pub(crate) fn place_call(&mut self, flight: &Flight) {
        let operation = flight.operation.clone();
        let mut rng = self.luck_of_try(&operation);
        let driver = operation.spec.driver.as_ref();
        let driver = driver.and_then(|name| self.setting.drivers.iter().position(|it| it == name));
        let response = match driver {
            Some(driver) => self.driver_response(driver, &operation, &mut rng),
            None => self.local_response(&operation, &mut rng),
        };
        let id = self.next_call;
        self.next_call += 1;
        if let Some(at) = response.finishes {
            self.schedule(at, Happening::CallFinishes(id));
        }
        if let Some(at) = response.answers {
            self.schedule(at, Happening::CallAnswers(id));
        }
        let Response { effect, answer, finishes, .. } = response;
        let place = flight.place.clone();
        let life = self.life;
        let at_work = finishes != Some(self.now);
        let call = Call { operation, place, driver, life, effect, answer, at_work, awaited: true };
        self.begin_to_take_away(&call);
        self.calls.insert(id, call);
        crate::checks::call_placed(self, id);
    }

    /// What is in a directory goes before the directory does.
    fn begin_to_take_away(&mut self, call: &Call) {
        let medium = self.setting.volume(call.operation.volume()).map(|it| it.medium);
        if let (Some(place), OperationKind::Unpublish, None, Effect::Whole, Some(Medium::Directory)) =
            (&call.place, call.operation.action.kind(), call.driver, call.effect, medium)
        {
            self.contents.remove(place);
        }
    }

    fn driver_response(&mut self, driver: usize, operation: &Operation, rng: &mut Rng) -> Response {
        let now = self.now;
        let at_once =
            |answer| Response { effect: Effect::Nothing, answer, finishes: Some(now), answers: Some(Time(now.0 + 1)) };
        if !self.drivers[driver].up {
            let text = Arc::from("nobody listens on the driver's socket");
            return at_once(Answer::Final(Trouble { cause: Cause::Driver, text }));
        }
        if self.calls.values().any(|it| it.driver == Some(driver) && it.excludes(operation)) {
            self.faults.add(Fault::Aborted);
            let text = "ABORTED: an earlier call for this volume is still at work";
            return at_once(Answer::open(text));
        }
        if let Some(text) = self.unmet_condition(operation) {
            return at_once(Answer::refused(text));
        }
        let behavior = self.drivers[driver].misbehavior(now, operation.action.kind(), rng);
        let behavior = behavior.filter(|it| *it != Behavior::DoneWithoutEffect || self.lie_would_be_seen(operation));
        if let Some(behavior) = behavior {
            self.faults.add(fault_of(behavior));
            self.note(|| format!("  driver of {} will misbehave: {behavior:?}", operation.id));
        }
        respond(now, operation, behavior, rng)
    }

    /// Could anybody see that a call was not carried out? Not that a session without a mount goes on, nor that a mount that
    /// is there has old content. A lie about these could not be found out.
    fn lie_would_be_seen(&self, operation: &Operation) -> bool {
        let mounted = self.place_of(operation).is_some_and(|it| self.kernel.visible(&it).is_some());
        match operation.action.kind() {
            OperationKind::Unstage => mounted,
            OperationKind::Publish => !mounted,
            OperationKind::Attach
            | OperationKind::Stage
            | OperationKind::Expand
            | OperationKind::Unpublish
            | OperationKind::Detach => true,
        }
    }

    /// What a strict driver demands before it does anything.
    fn unmet_condition(&self, operation: &Operation) -> Option<&'static str> {
        let volume = operation.volume();
        let attached = match operation.spec.capabilities.attach {
            Attach::NotNeeded => true,
            Attach::ByNode => self.node_attached.contains(volume),
            Attach::ByController => self.attacher.is_attached(volume),
        };
        let staged = || self.kernel.visible(&MountPlace::Stage(volume.clone())).is_some();
        match operation.action.kind() {
            OperationKind::Stage | OperationKind::Publish if !attached => {
                Some("NOT_FOUND: the volume is not attached to this node")
            }
            OperationKind::Publish if operation.spec.capabilities.stage && !staged() => {
                Some("FAILED_PRECONDITION: the volume is not staged")
            }
            OperationKind::Attach
            | OperationKind::Stage
            | OperationKind::Publish
            | OperationKind::Expand
            | OperationKind::Unpublish
            | OperationKind::Unstage
            | OperationKind::Detach => None,
        }
    }

    /// A plugin that does the work in the process itself.
    fn local_response(&mut self, operation: &Operation, rng: &mut Rng) -> Response {
        let soon = Time(self.now.0 + 1 + rng.below(30));
        let at_once = |effect, answer| Response { effect, answer, finishes: Some(soon), answers: Some(soon) };
        if operation.action.kind() == OperationKind::Publish
            && let Some(plan) = self.setting.volume_index(operation.volume())
            && let Some(object) = &self.setting.volumes[plan].object
            && self.conditions.objects_missing.contains_key(&plan)
        {
            let text = Arc::from(format!("{object} not found"));
            let cause = Cause::Object(object.clone());
            self.faults.add(Fault::ObjectMissing);
            return at_once(Effect::Nothing, Answer::Final(Trouble { cause, text }));
        }
        let now = self.now;
        let troubles = self.conditions.local.iter().filter(|(.., until)| *until > now);
        let trouble = troubles.into_iter().find(|(_, per_mille, _)| rng.chance(*per_mille));
        let mut obstacle = || in_the_way(*rng.pick(obstacles(operation.action.kind())));
        match trouble.map(|(trouble, ..)| *trouble) {
            None => at_once(Effect::Whole, Answer::Done),
            Some(LocalTrouble::Refused) => {
                self.faults.add(Fault::LocalRefused);
                at_once(Effect::Nothing, Answer::Final(obstacle()))
            }
            Some(LocalTrouble::Unknown) => {
                self.faults.add(Fault::LocalUnknown);
                let answer = Answer::Open(obstacle());
                let effect = if rng.chance(500) { Effect::Whole } else { Effect::Nothing };
                at_once(effect, answer)
            }
            Some(LocalTrouble::Hang) => {
                self.faults.add(Fault::LocalHang);
                let at = after_deadline(operation, rng);
                let (effect, answer) = if rng.chance(700) {
                    (Effect::Whole, Answer::Done)
                } else {
                    (Effect::Nothing, Answer::Final(in_the_way(Obstacle::FileSystemBroken)))
                };
                // A system call may have done its work long before it returns.
                let finishes = Some(if rng.chance(500) { soon } else { at });
                Response { effect, answer, finishes, answers: Some(at) }
            }
        }
    }

    /// A call does what it does, whoever waits for it.
    pub(crate) fn call_finishes(&mut self, id: CallId) {
        if let Some(call) = self.calls.get(&id)
            && let Some(place) = call.place.clone()
            && self.will_be_announced(call)
        {
            // An executor that mounts without a word; only to see that it is noticed.
            let operation = call.operation.id;
            if self.sabotage != Some(Sabotage::NeverAnnounces) && self.announce(operation) {
                return;
            }
            crate::checks::mount_begins(self, &place);
        }
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        if call.at_work {
            call.at_work = false;
            let call = call.clone();
            self.take_effect(&call);
            self.forget_call_if_over(id);
            self.dies_at(Edge::CallDone(call.operation.id));
        }
    }

    /// Is this a mount of a new file system by the process itself? It is named before it is made.
    fn will_be_announced(&self, call: &Call) -> bool {
        let Some((plan, place)) = self.setting.volume(call.operation.volume()).zip(call.place.as_ref()) else {
            return false;
        };
        let is_mounted = || self.kernel.seen(place).is_some_and(|it| fits(plan, call.operation.volume(), &it));
        call.driver.is_none()
            && call.at_work
            && call.operation.action.kind() == OperationKind::Publish
            && (plan.medium, call.effect) == (Medium::Memory, Effect::Whole)
            && !is_mounted()
    }

    /// A call answers, if somebody still waits for it.
    pub(crate) fn call_answers(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let was_awaited = std::mem::take(&mut call.awaited);
        let (life, operation) = call.asked_by();
        let answer = call.answer.clone();
        self.forget_call_if_over(id);
        if was_awaited && self.lives(life) {
            self.flight_answered(operation, answer);
        }
    }

    fn forget_call_if_over(&mut self, id: CallId) {
        if self.calls.get(&id).is_some_and(|it| !it.at_work && !it.awaited) {
            self.calls.remove(&id);
        }
    }

    fn take_effect(&mut self, call: &Call) {
        if call.effect == Effect::Nothing {
            return;
        }
        self.holdings_changed = true;
        let volume = call.operation.volume();
        match (&call.operation.action, &call.place) {
            (Action::Attach, _) => {
                self.node_attached.insert(volume.clone());
            }
            (Action::Detach, _) => {
                self.node_attached.remove(volume);
            }
            (Action::Expand { to_bytes, .. }, _) => {
                if let Some(driver) = call.driver {
                    self.drivers[driver].sizes.insert(volume.clone(), *to_bytes);
                }
            }
            (Action::Stage { .. }, Some(place)) => {
                if let Some(driver) = call.driver {
                    self.drivers[driver].sessions.insert(volume.clone());
                }
                if call.effect == Effect::Whole {
                    self.make_mount(place, call);
                }
            }
            (Action::Unstage, Some(place)) => {
                if let Some(driver) = call.driver
                    && call.effect == Effect::Whole
                {
                    self.drivers[driver].sessions.remove(volume);
                }
                self.take_mount(place);
            }
            (Action::Publish { revision, .. }, Some(place)) => {
                self.make_mount(place, call);
                self.contents.insert(place.clone(), (*revision, self.boot));
            }
            (Action::Unpublish { .. }, Some(place)) => self.take_mount(place),
            (Action::Stage { .. } | Action::Unstage | Action::Publish { .. } | Action::Unpublish { .. }, None) => {}
        }
    }

    /// Mounts a volume, unless it is mounted there already (CSI: the calls are idempotent).
    fn make_mount(&mut self, place: &MountPlace, call: &Call) {
        let volume = call.operation.volume();
        let Some(plan) = self.setting.volume(volume) else {
            return;
        };
        if self.kernel.seen(place).is_some_and(|it| fits(plan, volume, &it)) {
            return;
        }
        let kind = file_system_of(plan.medium);
        match plan.medium {
            // The node's own disk is device 1.
            Medium::Directory => self.kernel.make_directory(place.clone(), 1, kind),
            Medium::Memory => self.kernel.mount(place.clone(), None, kind),
            Medium::Remote => self.kernel.mount(place.clone(), Some(device_of(volume)), kind),
        };
        self.mount_changed(place);
    }

    fn take_mount(&mut self, place: &MountPlace) {
        self.contents.remove(place);
        if self.kernel.unmount_all(place) {
            self.mount_changed(place);
        }
    }

    /// A driver stops, and with it the calls that are in it: each has done its work or will never do it.
    pub(crate) fn driver_down(&mut self, driver: usize) {
        let name = self.setting.drivers[driver].clone();
        self.note(|| format!("true: driver {name} stops"));
        self.drivers[driver].up = false;
        let broken: Vec<CallId> =
            self.calls.iter().filter(|(_, it)| it.driver == Some(driver)).map(|(id, _)| *id).collect();
        for id in broken {
            let done = self.luck(&[12, id]).chance(500);
            if let Some(call) = self.calls.get_mut(&id) {
                call.answer = Answer::open("UNAVAILABLE: the driver stopped");
                if std::mem::take(&mut call.at_work) {
                    self.faults.add(Fault::DriverRestart);
                    if done {
                        let call = call.clone();
                        self.take_effect(&call);
                    }
                }
            }
            self.schedule_in(1, Happening::CallAnswers(id));
        }
    }

    /// The calls of a process that died: those in drivers go on, those in the process itself end with it.
    pub(crate) fn drop_local_calls(&mut self) {
        self.calls.retain(|_, it| it.driver.is_some());
    }
}

/// What can be in the way of a plugin that does the work in the process itself.
fn obstacles(kind: OperationKind) -> &'static [Obstacle] {
    match kind {
        OperationKind::Attach | OperationKind::Stage | OperationKind::Publish | OperationKind::Expand => Obstacle::ALL,
        OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach => &[
            Obstacle::ReadOnlyFileSystem,
            Obstacle::HeldOpen,
            Obstacle::FileSystemBroken,
            Obstacle::NotPermitted,
            Obstacle::InTheWay,
        ],
    }
}

fn in_the_way(obstacle: Obstacle) -> Trouble {
    Trouble { cause: Cause::Node(obstacle), text: obstacle.code().meaning().into() }
}

/// The fault that a misbehavior counts as.
fn fault_of(behavior: Behavior) -> Fault {
    match behavior {
        Behavior::FinalError => Fault::FinalError,
        Behavior::TimeoutWithEffect => Fault::TimeoutWithEffect,
        Behavior::TimeoutWithoutEffect => Fault::TimeoutWithoutEffect,
        Behavior::ConnectionLost => Fault::ConnectionLost,
        Behavior::Hang => Fault::Hang,
        Behavior::HangUntilRestart => Fault::HangUntilRestart,
        Behavior::DoneWithoutEffect => Fault::DoneWithoutEffect,
        Behavior::RefusedWithEffect => Fault::RefusedWithEffect,
        Behavior::PartialStage => Fault::PartialStage,
        Behavior::PartialUnstage => Fault::PartialUnstage,
        Behavior::ExpandInUse => Fault::ExpandInUse,
        Behavior::ExpandInfeasible => Fault::ExpandInfeasible,
        Behavior::ExpandNotSupported => Fault::ExpandNotSupported,
    }
}
