//! Operations on their way, what they made, and what the mount table says of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use windlass_core::event::MountPlace;
use windlass_core::ids::{DriverName, OperationId, PluginName, Time};
use windlass_core::operation::{Action, Cause, Done, Earlier, OperationKind, Outcome, Proof, Trouble};
use windlass_core::spec::Mode;
use windlass_core::{Event, Operation};
use windlass_linux::table::{self, MountId};
use windlass_linux::workers::Lane;

use super::alarms::Alarm;
use super::errands::Errands;
use super::lanes::{Beginning, Lanes};
use super::outside::Owed;
use super::turns::{Turn, Turns};
use super::{Drive, Message};
use crate::csi::Drivers;
use crate::executor::{Ended, Job};
use crate::node::Change;
use crate::observe::{Ending, Observed, OperationReport};
use crate::plugin::{self, Made, Want};
use crate::under_way::UnderWay;
use crate::{catalogue, task};

/// So many operations have their pods open before their turn comes.
const OPEN_MAX: usize = 2048;

/// A driver that has as many operations under way as it takes, and says nothing for this long, does not wait for those.
const SILENCE: Duration = Duration::from_secs(1);

/// How many operations may run at a time without any need to make room for them.
const ROOM: usize = 64;

/// What is under way.
pub(super) struct Operations {
    pub(super) running: HashMap<OperationId, Running>,
    /// Where they are at work.
    pub(super) busy: HashMap<MountPlace, OperationId>,
    pub(super) turns: Turns,
    pub(super) lanes: Lanes,
    /// Where a mount stands that was there when an operation had failed: if it goes, that is tried again.
    obstacles: HashMap<MountId, MountPlace>,
    pub(super) under_way: Arc<UnderWay>,
    pub(super) errands: Errands,
    /// When drivers are listened to of which operations wait.
    listen_at: Option<Time>,
    /// How many pods' directories are being made or removed, and how many claims are being worked for.
    pub(super) chores: usize,
}

/// An operation that has not ended.
pub(super) struct Running {
    pub(super) place: MountPlace,
    kind: OperationKind,
    plugin: PluginName,
    mode: Mode,
    migrated: bool,
    given_out: Instant,
    pub(super) began: Option<Instant>,
    /// The CSI driver whose volume it is about.
    pub(super) driver: Option<DriverName>,
    pub(super) lane: Lane,
    /// Its number in the lane.
    pub(super) ticket: u64,
    pub(super) turn: Turn,
}

impl Operations {
    pub(super) fn new(drivers: Arc<Drivers>, under_way: Arc<UnderWay>) -> Self {
        Self {
            running: HashMap::new(),
            busy: HashMap::new(),
            turns: Turns::default(),
            lanes: Lanes::new(drivers),
            obstacles: HashMap::new(),
            under_way,
            errands: Errands::default(),
            listen_at: None,
            chores: 0,
        }
    }

    /// Whether nothing is under way.
    pub(super) fn are_over(&self) -> bool {
        self.running.is_empty() && self.chores == 0
    }
}

impl Drive {
    pub(super) fn begin_operation(&mut self, operation: Operation) {
        let place = place_of(&operation);
        let volume = operation.volume().clone();
        let pod = match &operation.action {
            Action::Expand { pod, .. } => Some(pod.clone()),
            other => other.pod().cloned(),
        };
        let pod = pod.or_else(|| self.wishes.user_of(&volume));
        let makes = matches!(
            operation.action.kind(),
            OperationKind::Attach | OperationKind::Stage | OperationKind::Publish | OperationKind::Expand
        );
        let want = pod.as_ref().filter(|_| makes).and_then(|pod| {
            let given = self.wishes.pods.get(pod)?;
            let memory = self.wishes.memory();
            let Want { pod, detail, objects } =
                Want::new(&given.pod.open()?, given.detail(&volume)?, &memory, &self.wishes.settings.node);
            // What waits for its turn for long takes no more memory than the pod at rest.
            let open = (self.operations.running.len() < OPEN_MAX).then_some(pod);
            Some((given.pod.clone(), open, detail, objects))
        });
        let held = match operation.action.kind() {
            OperationKind::Unpublish => self.holdings.held.get(&place),
            _ => None,
        };
        let together = self.together(operation.action.pod());
        let epoch = pod.map_or(0, |it| self.holdings.renewals.epoch(&it, &volume));
        let is_first = matches!(
            &operation.action,
            Action::Publish { after: Earlier::Nothing, .. } | Action::Stage { after: Earlier::Nothing, .. }
        );
        let is_unrecorded = self.start.disk_read && is_first;
        let id = operation.id;
        let driver = catalogue::driver_of(&operation.spec).cloned();
        let lane = self.operations.lanes.of(&operation);
        let ticket = self.operations.lanes.ticket(&lane);
        if !self.operations.obstacles.is_empty() {
            self.operations.obstacles.retain(|_, it| *it != place);
        }
        let running = Running {
            place: place.clone(),
            kind: operation.action.kind(),
            plugin: operation.spec.plugin.clone(),
            mode: operation.spec.mode,
            migrated: want.as_ref().is_some_and(|(_, _, detail, _)| detail.migrated),
            given_out: Instant::now(),
            began: None,
            driver: driver.clone(),
            lane: lane.clone(),
            ticket,
            turn: Turn::Waits,
        };
        self.operations.running.insert(id, running);
        self.operations.busy.insert(place, id);
        let (executor, inbox, begun) =
            (self.outside.executor.clone(), self.outside.inbox(), self.operations.turns.begun.clone());
        let goes_together = operation.action.pod().is_some() && self.operations.lanes.is_of_root(&lane);
        let errand = goes_together.then(|| self.errand(&lane));
        let answer = self.outside.owe_as_part_of(errand.as_ref(), Owed::Operation(id));
        let job = task::begins(&self.outside.workers, &lane, move || {
            begun.note(id, &inbox);
            Box::pin(async move {
                let want = want.and_then(|(packed, open, detail, objects)| {
                    Some(Want { pod: open.or_else(|| together.open(&packed))?, detail, objects })
                });
                let job = Job { operation, want, epoch, held, is_unrecorded, together };
                answer.give(Message::OperationEnded(id, executor.run(&job).await));
            })
        });
        self.look_again_at(id);
        let Some(beginning) = self.hold_back(Beginning { id, lane, job }) else { return };
        if let Some(errand) = errand {
            return errand.add(id, beginning.job);
        }
        self.enter(driver.as_ref(), beginning);
    }

    /// Begins an operation as soon as its driver takes it.
    pub(super) fn enter(&mut self, driver: Option<&DriverName>, beginning: Beginning) {
        match self.operations.lanes.enter(driver, beginning) {
            Some(beginning) => self.give_out(beginning),
            None => self.listen_later(),
        }
    }

    /// Begins what a driver takes of what waits for it.
    fn begin_waiting(&mut self, driver: &DriverName) {
        while let Some(next) = self.operations.lanes.next(driver) {
            self.give_out(next);
        }
    }

    fn listen_later(&mut self) {
        if self.operations.listen_at.is_none() {
            let at = self.now() + SILENCE;
            self.operations.listen_at = Some(at);
            self.alarms.set(at, Alarm::Listen);
        }
    }

    /// Sees that operations do not wait for others that hang. Comes again only while any wait (I-8).
    pub(super) fn listen(&mut self) {
        self.operations.listen_at = None;
        for driver in self.operations.lanes.listen() {
            self.begin_waiting(&driver);
            self.listen_later();
        }
    }

    pub(super) fn give_out(&self, beginning: Beginning) {
        let Beginning { id, lane, job } = beginning;
        if let Err(error) = self.outside.workers.run_job(&lane, job) {
            let trouble = Trouble { cause: Cause::Other, text: plugin::chain(&error).into() };
            // Not here: the engine is not to be told of an end while it is asked what to start.
            let _ = self.outside.inbox().send(Message::OperationEnded(id, Ended::refused(trouble)));
        }
    }

    pub(super) fn operation_ended(&mut self, id: OperationId, ended: Ended) {
        // An operation that was quick has begun, and ended, since the list of begun ones was last read.
        self.take_begun();
        let Some(running) = self.operations.running.remove(&id) else { return };
        self.turn_is_over(id, &running);
        let report = self.report(id, &running, &ended.outcome);
        self.outside.executor.scene.observer.tell(&Observed::OperationEnded(&report));
        self.outside.say(Change::OperationEnded(report));
        let Running { place, driver, .. } = running;
        self.operations.busy.remove(&place);
        self.operations.obstacles.extend(ended.obstacles.iter().map(|it| (*it, place.clone())));
        if let Some(driver) = driver {
            self.operations.lanes.leave(&driver);
            self.begin_waiting(&driver);
        }
        if self.operations.running.is_empty() {
            // What many at once took is not kept for ever.
            self.operations.running.shrink_to(ROOM);
            self.operations.busy.shrink_to(ROOM);
            self.errands_are_over();
            if let Some(at) = self.operations.listen_at.take() {
                self.alarms.cancel(at, Alarm::Listen);
            }
        }
        match (&ended.outcome, &ended.made) {
            (Outcome::Done(_), Some(made)) => self.hold(place.clone(), made),
            (Outcome::Done(Done::Gone), None) => self.let_go(&place),
            _ => {}
        }
        let is_gone = matches!(ended.outcome, Outcome::Done(Done::Gone));
        self.tell(Event::OperationEnded { id, outcome: ended.outcome });
        let (MountPlace::Stage(volume) | MountPlace::Publish(volume, _)) = &place;
        self.volumes_were_let_go([volume]);
        if let (MountPlace::Publish(volume, pod), true) = (&place, is_gone) {
            self.volume_outlives_pod(volume, pod);
            // What it had may have kept another from being made for its claim.
            if let Some(pod) = self.pod(pod) {
                self.claims_are_used(&pod);
            }
        }
        self.look_after(volume);
        if let MountPlace::Publish(_, pod) = &place
            && let Some(given) = self.wishes.pods.get(pod)
        {
            given.pod.rest();
        }
        // What changed at the place meanwhile was taken for the operation's own work.
        self.look_at(&place);
    }

    /// What there is to tell of an operation that has ended.
    fn report(&self, id: OperationId, running: &Running, outcome: &Outcome) -> Arc<OperationReport> {
        let (now, began) = (Instant::now(), running.began);
        let (volume, pod) = match &running.place {
            MountPlace::Stage(volume) => (volume, None),
            MountPlace::Publish(volume, pod) => (volume, Some(pod)),
        };
        let since = pod.filter(|_| running.kind == OperationKind::Publish);
        let since = since.and_then(|pod| self.engine.wanted_since(volume, pod));
        Arc::new(OperationReport {
            id,
            kind: running.kind,
            plugin: running.plugin.clone(),
            driver: running.driver.clone(),
            volume: volume.clone(),
            mode: running.mode,
            migrated: running.migrated,
            pod: pod.cloned(),
            ending: match outcome {
                Outcome::Done(_) => Ending::Done,
                Outcome::Refused(_) => Ending::Refused,
                Outcome::Unknown(_) => Ending::Unknown,
            },
            queued: began.unwrap_or(now).saturating_duration_since(running.given_out),
            took: began.map_or(Duration::ZERO, |it| now.saturating_duration_since(it)),
            wanted: since.map(|it| self.now().since(it)),
        })
    }

    pub(super) fn hold(&mut self, place: MountPlace, made: &Made) {
        if let (MountPlace::Publish(volume, pod), Some(at)) = (&place, made.refresh_at) {
            // Times are rounded down twice on the way; too early would be for nothing.
            let ahead = at.duration_since(SystemTime::now()).unwrap_or_default() + Duration::from_millis(2);
            let at = self.now() + ahead;
            if let Some(before) = self.holdings.renewals.set_at(pod, volume, at) {
                self.alarms.cancel(before, Alarm::Renew(pod.clone(), volume.clone()));
            }
            self.alarms.set(at, Alarm::Renew(pod.clone(), volume.clone()));
        }
        self.holdings.held.insert(place, made);
    }

    pub(super) fn let_go(&mut self, place: &MountPlace) {
        self.holdings.held.remove(place);
        if let MountPlace::Publish(volume, pod) = place
            && let Some(at) = self.holdings.renewals.remove(pod, volume)
        {
            self.alarms.cancel(at, Alarm::Renew(pod.clone(), volume.clone()));
        }
    }

    /// The mount table changed. What a mount covers is looked at, and nothing else (I-9).
    pub(super) fn mounts_changed(&mut self, changes: &[table::Change]) {
        let executor = self.outside.executor.clone();
        let root = executor.scene.layout.path();
        let mut places = BTreeSet::new();
        let (mut is_above, mut is_free) = (false, false);
        for change in changes {
            let (table::Change::Appeared(mount) | table::Change::Vanished(mount)) = change;
            let point = &mount.mount_point;
            self.reading.mounted(point);
            match point.strip_prefix(root) {
                Ok(below) => {
                    places.extend(self.holdings.held.at_or_below(point).cloned());
                    // What came while a directory of all pods, or all drivers, was covered may never have been made.
                    is_free |= matches!(change, table::Change::Vanished(_)) && below.components().count() <= 1;
                }
                Err(_) => is_above |= root.starts_with(point),
            }
            is_above |= point == root;
            if let table::Change::Vanished(mount) = change
                && let Some(place) = self.operations.obstacles.remove(&mount.id)
            {
                let (volume, pod) = match place {
                    MountPlace::Stage(volume) => (volume, None),
                    MountPlace::Publish(volume, pod) => (volume, Some(pod)),
                };
                self.tell(Event::RetryWanted { volume, pod });
            }
        }
        let cover = if is_above { executor.cover() } else { None };
        if is_above && cover.is_some() != self.holdings.covered {
            self.holdings.covered = cover.is_some();
            is_free |= cover.is_none();
            places.extend(self.holdings.held.at_or_below(root).cloned());
            let text = cover.map(|it| plugin::covered(&executor.scene, &it).text.into());
            self.outside.say(Change::RootCovered { text });
        }
        for place in places {
            if !self.operations.busy.contains_key(&place) {
                self.look_at(&place);
            }
        }
        if is_free {
            self.retry(None, None);
        }
    }

    /// Tells the engine if what is mounted at a place is not what was made there.
    pub(super) fn look_at(&mut self, place: &MountPlace) {
        let Some((path, is_plain)) = self.holdings.held.watched(place) else { return };
        let Some(proof) = self.holdings.held.proof(place) else { return };
        let scene = &self.outside.executor.scene;
        let table = scene.watch.table();
        // Of a directory only what lies over it can be seen without touching it; that it is itself is seen when it is handed
        // out.
        let plain = || (is_plain && scene.layout.cover(&table, path).is_none()).then_some(proof);
        let seen = table.topmost(path).map(|it| plugin::mount_proof(it)).or_else(plain);
        drop(table);
        if !seen.is_some_and(|it| proof.holds_for(&it)) {
            self.tell(Event::MountSeen { place: place.clone(), proof: seen });
        }
    }

    /// What is at a place was looked at, and is not what it should be.
    pub(super) fn mount_seen(&mut self, place: MountPlace, expected: Proof, proof: Option<Proof>) {
        // The look is some time ago. If the volume was made anew since then, it says nothing about what is there now.
        let is_current = self.holdings.held.proof(&place).is_some_and(|it| it == expected);
        if is_current && !self.operations.busy.contains_key(&place) {
            self.tell(Event::MountSeen { place, proof });
        }
    }
}

/// The place that an operation is about.
fn place_of(operation: &Operation) -> MountPlace {
    let volume = operation.volume().clone();
    match (operation.action.kind(), operation.action.pod()) {
        (OperationKind::Publish | OperationKind::Unpublish, Some(pod)) => MountPlace::Publish(volume, pod.clone()),
        _ => MountPlace::Stage(volume),
    }
}
