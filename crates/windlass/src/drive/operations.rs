//! Operations on their way, what they made, and what the mount table says of it.

use super::{lanes::Beginning, *};
use crate::task;

/// So many operations have their pods open before their turn comes.
const OPEN_MAX: usize = 2048;

/// How many operations may run at a time without any need to make room for them.
const ROOM: usize = 64;

impl Drive {
    pub(super) fn start(&mut self, operation: Operation) {
        let place = place_of(&operation);
        let volume = operation.volume().clone();
        let pod = match &operation.action {
            Action::Expand { pod, .. } => Some(pod.clone()),
            other => other.pod().cloned(),
        };
        let pod = pod.or_else(|| self.user_of(&volume));
        let makes = matches!(
            operation.action.kind(),
            ActionKind::Attach | ActionKind::Stage | ActionKind::Publish | ActionKind::Expand
        );
        let want = pod.as_ref().filter(|_| makes).and_then(|pod| {
            let known = self.pods.get(pod)?;
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            let Want { pod, detail, objects } =
                Want::new(&known.pod.open()?, known.detail(&volume)?, &memory, &self.settings.node);
            // What waits for its turn for long takes no more memory than the pod at rest.
            let open = (self.running.len() < OPEN_MAX).then_some(pod);
            Some((known.pod.clone(), open, detail, objects))
        });
        let held = match operation.action.kind() {
            ActionKind::Unpublish => self.held.get(&place),
            _ => None,
        };
        let together = match (&self.together, operation.action.pod()) {
            (Some((last, together)), Some(pod)) if last == pod => together.clone(),
            (_, pod) => {
                let together = Together::default();
                self.together = pod.map(|it| (it.clone(), together.clone()));
                together
            }
        };
        let epoch = pod.and_then(|it| self.renewals.get(&(it, volume))).map_or(0, |it| it.epoch);
        let is_first = matches!(
            &operation.action,
            Action::Publish { after: Earlier::Nothing, .. } | Action::Stage { after: Earlier::Nothing, .. }
        );
        let is_unrecorded = self.disk_read && is_first;
        let id = operation.id;
        let driver = lanes::driver_of(&operation).cloned();
        let lane = self.lanes.of(&operation);
        let ticket = self.lanes.ticket(&lane);
        if !self.obstacles.is_empty() {
            self.obstacles.retain(|_, it| *it != place);
        }
        let turn = Turn::Waits;
        let running = Running { place: place.clone(), driver: driver.clone(), lane: lane.clone(), ticket, turn };
        self.running.insert(id, running);
        self.busy.insert(place, id);
        let (executor, inbox, locks) = (self.executor.clone(), self.inbox.clone(), Some(self.locks.clone()));
        let begun = self.turns.begun.clone();
        let job = task::begins(&self.workers, &lane, move || {
            begun.note(id, &inbox);
            Box::pin(async move {
                let mut answer = Answer { id, inbox, locks, ended: None };
                let want = want.and_then(|(packed, open, detail, objects)| {
                    Some(Want { pod: open.or_else(|| together.open(&packed))?, detail, objects })
                });
                let job = Job { operation, want, epoch, held, is_unrecorded, together };
                answer.ended = Some(executor.run(&job).await);
            })
        });
        self.look_again_at(id);
        let Some(beginning) = self.hold_back(Beginning { id, lane, job }) else { return };
        if let Some(beginning) = self.lanes.enter(driver.as_ref(), beginning) {
            self.give_out(beginning);
        }
    }

    pub(super) fn give_out(&self, beginning: Beginning) {
        let Beginning { id, lane, job } = beginning;
        if let Err(error) = self.workers.run_job(&lane, job) {
            let trouble = Trouble { cause: Cause::Other, text: plugin::chain(&error).into() };
            let ended = Ended { outcome: Outcome::Refused(trouble), made: None, obstacles: Vec::new() };
            // Not here: the engine is not to be told of an end while it is asked what to start.
            let _ = self.inbox.send(Box::new(move |drive| drive.ended(id, ended)));
        }
    }

    /// The pod for whom a volume is made ready: one that is to run, and one that may write if there is one.
    pub(super) fn user_of(&self, volume: &VolumeId) -> Option<PodUid> {
        let users = self.users.get(volume)?.iter().filter_map(|it| Some((it, self.pods.get(it)?)));
        let mut running = users.filter(|(_, it)| !it.ending && it.phase == Phase::Running);
        let writes = |known: &Known| {
            let detail = known.detail(volume);
            detail.is_some_and(|it| known.access(&it.name) == Access::ReadWrite)
        };
        let first = running.next()?;
        let chosen = if writes(first.1) { first } else { running.find(|(_, it)| writes(it)).unwrap_or(first) };
        Some(chosen.0.clone())
    }

    pub(super) fn ended(&mut self, id: OperationId, ended: Ended) {
        let Some(running) = self.running.remove(&id) else { return };
        self.turn_is_over(id, &running);
        let Running { place, driver, .. } = running;
        self.busy.remove(&place);
        self.obstacles.extend(ended.obstacles.iter().map(|it| (*it, place.clone())));
        if let Some(next) = driver.and_then(|it| self.lanes.leave(&it)) {
            self.give_out(next);
        }
        if self.running.is_empty() {
            // What many at once took is not kept for ever.
            self.running.shrink_to(ROOM);
            self.busy.shrink_to(ROOM);
        }
        match (&ended.outcome, &ended.made) {
            (Outcome::Done(_), Some(made)) => self.hold(place.clone(), made),
            (Outcome::Done(windlass_core::operation::Done::Gone), None) => self.let_go(&place),
            _ => {}
        }
        let is_gone = matches!(ended.outcome, Outcome::Done(windlass_core::operation::Done::Gone));
        self.tell(Event::OperationEnded { id, outcome: ended.outcome });
        let (Place::Stage(volume) | Place::Publish(volume, _)) = &place;
        self.volumes_were_let_go([volume]);
        if let (Place::Publish(volume, pod), true) = (&place, is_gone) {
            self.volume_outlives_pod(volume, pod);
        }
        self.look_after(volume);
        if let Place::Publish(_, pod) = &place
            && let Some(known) = self.pods.get(pod)
        {
            known.pod.rest();
        }
        // What changed at the place meanwhile was taken for the operation's own work.
        self.look_at(&place);
    }

    pub(super) fn hold(&mut self, place: Place, made: &Made) {
        if let (Place::Publish(volume, pod), Some(at)) = (&place, made.refresh_at) {
            // Times are rounded down twice on the way; too early would be for nothing.
            let ahead = at.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_millis(2);
            let at = self.now() + ahead;
            let renewal = self.renewals.entry((pod.clone(), volume.clone())).or_default();
            let alarm = Alarm::Renew(pod.clone(), volume.clone());
            if let Some(before) = renewal.at.replace(at) {
                self.alarms.remove(&(before, alarm.clone()));
            }
            self.alarms.insert((at, alarm));
        }
        self.held.insert(place, made);
    }

    pub(super) fn let_go(&mut self, place: &Place) {
        self.held.remove(place);
        if let Place::Publish(volume, pod) = place
            && let Some(Renewal { at: Some(at), .. }) = self.renewals.remove(&(pod.clone(), volume.clone()))
        {
            self.alarms.remove(&(at, Alarm::Renew(pod.clone(), volume.clone())));
        }
    }

    /// The mount table changed.
    pub(crate) fn mounts_changed(&mut self, changes: &[table::Change]) {
        let mut places = BTreeSet::new();
        for change in changes {
            let (table::Change::Appeared(mount) | table::Change::Vanished(mount)) = change;
            let place = self.held.at(&mount.mount_point).filter(|it| !self.busy.contains_key(*it));
            places.extend(place.cloned());
            if let table::Change::Vanished(mount) = change
                && let Some(place) = self.obstacles.remove(&mount.id)
            {
                let (volume, pod) = match place {
                    Place::Stage(volume) => (volume, None),
                    Place::Publish(volume, pod) => (volume, Some(pod)),
                };
                self.tell(Event::RetryWanted { volume, pod });
            }
        }
        for place in places {
            self.look_at(&place);
        }
    }

    /// The mount table could not be read: what is held may not be what it was.
    pub(crate) fn mounts_unreadable(&mut self, text: &str) {
        let _ = self.changes.send(Change::Damaged { text: text.into() });
    }

    /// Tells the engine if what is mounted at a place is not what was made there.
    pub(super) fn look_at(&mut self, place: &Place) {
        let Some((path, is_plain)) = self.held.watched(place) else { return };
        let Some(proof) = self.held.proof(place) else { return };
        // Of a directory only what lies over it can be seen without touching it; that it is itself is seen when it is handed
        // out.
        let plain = is_plain.then_some(proof);
        let seen = self.executor.scene.watch.table().topmost(path).map(|it| plugin::mount_proof(it)).or(plain);
        if !seen.is_some_and(|it| proof.holds_for(&it)) {
            self.tell(Event::MountSeen { place: place.clone(), proof: seen });
        }
    }

    /// What is at a place was looked at, and is not what it should be.
    pub(crate) fn seen(&mut self, place: Place, expected: Proof, proof: Option<Proof>) {
        // It was looked at some time ago: what was made anew since then is another.
        let is_current = self.held.proof(&place).is_some_and(|it| it == expected);
        if is_current && !self.busy.contains_key(&place) {
            self.tell(Event::MountSeen { place, proof });
        }
    }
}

/// Sends an operation's end, also if the plugin panicked: an operation without an end would hold its volume for ever.
struct Answer {
    id: OperationId,
    inbox: Sender<Message>,
    locks: Option<Locks>,
    ended: Option<Ended>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let ended = self.ended.take().unwrap_or_else(|| {
            let text = "the operation broke off; this is a defect of windlass";
            let trouble = Trouble { cause: Cause::Other, text: text.into() };
            Ended { outcome: Outcome::Unknown(trouble), made: None, obstacles: Vec::new() }
        });
        let id = self.id;
        drop(self.locks.take());
        let _ = self.inbox.send(Box::new(move |drive| drive.ended(id, ended)));
    }
}

/// The place that an operation is about.
fn place_of(operation: &Operation) -> Place {
    let volume = operation.volume().clone();
    match (operation.action.kind(), operation.action.pod()) {
        (ActionKind::Publish | ActionKind::Unpublish, Some(pod)) => Place::Publish(volume, pod.clone()),
        _ => Place::Stage(volume),
    }
}
