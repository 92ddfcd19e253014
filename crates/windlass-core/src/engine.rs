//! The engine: facts in, operations out. It only dispatches; what each fact means stands in the module of its subject.

use crate::actual::{PodKey, Running, Standing, Turn, Volume, VolumeKey};
use crate::event::{Event, Wait};
use crate::explain;
use crate::ids::{BootId, ObjectName, OperationId, PodUid, SourceName, Time, WaiterId};
use crate::notice::Notice;
use crate::oddity::{Oddities, Oddity};
use crate::operation::{Action, Earlier, Operation};
use crate::plan::{Plan, Rest, plan};
use crate::table::Table;
use crate::tally::Tally;
use crate::titles::Titles;
use crate::world::{Source, Start, World};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What an engine is told once.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Config {
    /// Where pods come from, as far as that is known from the start; others are told by [`Event::SourceAnnounced`]. Nothing
    /// is taken away before each has been complete (I-1); with none, nothing ever is.
    pub sources: Vec<SourceName>,
    /// This boot.
    pub boot: BootId,
    /// Whether somebody outside attaches volumes and tells of it; if so, start waits for
    /// [`Event::AttachmentsComplete`].
    pub attacher: bool,
    /// Whether finished pods keep their volumes until they are gone.
    pub keep_terminated: bool,
    /// Where planning looks after an event.
    pub planning: Planning,
    /// Varies where names lie in memory, so that nobody can choose names that collide. It changes no decision.
    pub seed: u64,
}

/// Where planning looks after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Planning {
    /// At the volumes that the event touched.
    #[default]
    Touched,
    /// At all volumes. It decides the same, only slower; for tests of just that.
    Everything,
}

/// Knows what pods want and what the node holds, and decides the next step for each volume.
///
/// It does nothing itself and never waits: facts go in with [`Engine::handle`], work comes out of
/// [`Engine::next_operation`], and [`Engine::deadline`] says when it wants to be woken if nothing happens.
///
/// ```
/// use windlass_core::{Config, Engine, Event, ids::Time};
///
/// let mut engine = Engine::new(Config {
///     sources: vec!["manifests".into()],
///     boot: "a-boot-id".into(),
///     attacher: false,
///     keep_terminated: false,
///     planning: Default::default(),
///     seed: 0,
/// });
/// engine.handle(Time(0), Event::DiskRead);
/// while let Some(operation) = engine.next_operation() {
///     // Run it somewhere, and answer with Event::OperationEnded.
///     println!("{} {}", operation.action.kind(), operation.volume());
/// }
/// assert_eq!(engine.deadline(), None);
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) boot: BootId,
    pub(crate) planning: Planning,
    pub(crate) world: World,
    pub(crate) volumes: Table<Volume>,
    pub(crate) waits: BTreeMap<WaiterId, Wait>,
    pub(crate) waiters: BTreeMap<PodUid, Vec<WaiterId>>,
    /// Which volumes failed for want of which object.
    pub(crate) missing_objects: BTreeSet<(ObjectName, VolumeKey, Option<PodKey>)>,
    pub(crate) timers: BTreeSet<(Time, Timer)>,
    pub(crate) in_use_version: u64,
    /// Volumes by the version in which they came into the set of volumes in use, until that is reported.
    pub(crate) unreported: BTreeMap<u64, VolumeKey>,
    pub(crate) touched: BTreeSet<VolumeKey>,
    pub(crate) touched_pods: Vec<PodUid>,
    pub(crate) next_operation_id: u64,
    pub(crate) operations: VecDeque<Operation>,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) oddities: Oddities,
    pub(crate) tally: Tally,
}

/// What happens when a moment comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// An operation should have ended by now.
    Hung(OperationId),
    /// A volume may be tried again or brought up to date.
    Volume(VolumeKey),
    /// Somebody has waited long enough.
    Wait(WaiterId),
    /// A pod was held for long enough.
    Hold(PodKey),
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(config: Config) -> Self {
        let Config { sources, boot, attacher, keep_terminated, planning, seed } = config;
        Self {
            boot,
            planning,
            world: World {
                now: Time::ZERO,
                keep_terminated,
                start: Start { disk_read: false, attachments_complete: !attacher, may_take_away: false },
                pods: Table::new(seed),
                titles: Titles::new(seed),
                sources: sources.into_iter().map(|it| (it, Source::default())).collect(),
                drivers: BTreeMap::new(),
                attachments: Table::new(seed),
                operations: BTreeMap::new(),
                reported_version: 0,
            },
            volumes: Table::new(seed),
            waits: BTreeMap::new(),
            waiters: BTreeMap::new(),
            missing_objects: BTreeSet::new(),
            timers: BTreeSet::new(),
            in_use_version: 0,
            unreported: BTreeMap::new(),
            touched: BTreeSet::new(),
            touched_pods: Vec::new(),
            next_operation_id: 1,
            operations: VecDeque::new(),
            notices: VecDeque::new(),
            oddities: Oddities::default(),
            tally: Tally::default(),
        }
    }

    /// Takes in one fact, at this moment.
    pub fn handle(&mut self, now: Time, event: Event) {
        if now < self.world.now {
            self.odd(Oddity::TimeWentBack, alloc::format!("from {:?} to {now:?}", self.world.now));
        }
        self.world.now = self.world.now.max(now);
        self.fire_timers();
        let in_use_before = self.in_use_version;
        match event {
            Event::PodApplied(pod) => self.pod_applied(pod),
            Event::PodGone { uid, version, containers } => self.pod_gone(&uid, version, containers),
            Event::SourceAnnounced(source) => self.source_announced(source),
            Event::SourceComplete { source, version, containers, orphan_delay, doubt } => {
                self.source_complete(&source, version, containers, orphan_delay, doubt);
            }
            Event::SourceRead { source, as_of } => self.source_read(&source, as_of),
            Event::PodHeld { uid, hold } => self.pod_held(&uid, hold),
            Event::HoldReleased(uid) => self.hold_released(&uid),
            Event::SourceLost { source, text } => self.source_lost(&source, &text),
            Event::ObjectChanged(object) => self.object_changed(&object),
            Event::DriverRegistered(driver) => self.driver_changed(&driver, true),
            Event::DriverUnregistered(driver) => self.driver_changed(&driver, false),
            Event::AttachmentChanged { volume, attachment } => self.attachment_changed(&volume, attachment),
            Event::AttachmentsComplete => self.attachments_complete(),
            Event::InUseReported { version } => self.in_use_reported(version),
            Event::MountSeen { place, proof } => self.mount_seen(&place, proof),
            Event::FoundAttached { spec, device } => self.found_attached(&spec, device),
            Event::FoundStaged(found) => self.found_staged(found),
            Event::FoundPublished { pod, found } => self.found_published(&pod, found),
            Event::FoundUnreadable { pod, plugin, inner_name, mode } => {
                self.found_unreadable(&pod, plugin, inner_name, mode);
            }
            Event::FoundPod { uid, name } => self.found_pod(&uid, name),
            Event::DiskRead => self.disk_read(),
            Event::OperationQueued { id, ahead } => self.operation_waits(id, Turn::Queued { ahead }),
            Event::OperationBlocked { id, by } => self.operation_waits(id, Turn::Blocked { by }),
            Event::OperationStarted { id } => self.operation_started(id),
            Event::OperationEnded { id, outcome } => self.operation_ended(id, outcome),
            Event::RetryWanted { volume, pod } => self.retry_wanted(&volume, pod.as_ref()),
            Event::WaitStarted(wait) => self.wait_started(wait),
            Event::WaitCancelled(waiter) => self.wait_cancelled(waiter),
            Event::TimePassed => {}
        }
        self.replan();
        if self.in_use_version != in_use_before && self.states_synced() {
            self.notices.push_back(Notice::InUseChanged { version: self.in_use_version });
        }
        self.answer_waiters();
    }

    /// The next operation to start, if there is one.
    pub fn next_operation(&mut self) -> Option<Operation> {
        self.operations.pop_front()
    }

    /// The next thing to tell, if there is one.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When to call [`Engine::handle`] with [`Event::TimePassed`] if nothing else happens. With nothing to do there is no
    /// such moment (I-8).
    pub fn deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The last things that made no sense, oldest first.
    pub fn oddities(&self) -> Vec<(Oddity, &str)> {
        self.oddities.latest().collect()
    }

    /// The next thing that made no sense and was not taken yet, if there is one.
    pub fn next_oddity(&mut self) -> Option<(Oddity, String)> {
        self.oddities.next()
    }

    /// How often each kind of nonsense was told.
    pub fn oddity_counts(&self) -> impl Iterator<Item = (Oddity, u64)> {
        self.oddities.counts()
    }

    pub(crate) fn odd(&mut self, oddity: Oddity, text: String) {
        self.oddities.note(oddity, text);
    }

    pub(crate) fn touch(&mut self, volume: VolumeKey) {
        self.touched.insert(volume);
    }

    pub(crate) fn touch_all(&mut self) {
        self.touched.extend(self.volumes.keys());
    }

    fn fire_timers(&mut self) {
        while let Some(&(at, timer)) = self.timers.first() {
            if at > self.world.now {
                break;
            }
            self.timers.pop_first();
            match timer {
                Timer::Hung(operation) => {
                    if let Some(running) = self.world.operations.get_mut(&operation) {
                        running.turn = Turn::Hung;
                        self.touched.insert(running.volume);
                    }
                }
                Timer::Volume(volume) => {
                    self.volumes[volume].wake_at = None;
                    self.touched.insert(volume);
                }
                Timer::Wait(waiter) => self.wait_is_over(waiter),
                Timer::Hold(pod) => self.hold_is_due(pod),
            }
        }
    }

    /// Plans every touched volume until nothing more can begin.
    ///
    /// Planning may touch others. Those that come later in the order of keys have their turn in the same round, the
    /// others in the next, so that planning everything would ask for the same in the same order.
    fn replan(&mut self) {
        loop {
            if self.planning == Planning::Everything {
                self.touch_all();
            }
            let mut from = self.volumes.first_key();
            while let Some(&volume) = self.touched.range(from..).next() {
                self.touched.remove(&volume);
                from = volume.next();
                // The volume may have gone since it was touched. To plan another that has its key by now does no harm.
                if self.volumes.contains(volume) {
                    self.replan_volume(volume);
                }
            }
            if self.touched.is_empty() {
                return;
            }
        }
    }

    fn replan_volume(&mut self, key: VolumeKey) {
        self.volumes[key].hand_over_if_grown();
        let rest = loop {
            match plan(key, &self.volumes, &self.world) {
                Plan::Run(action) => self.begin(key, action),
                Plan::Rest(rest) => break rest,
            }
        };
        self.settle(key, &rest);
        self.drop_idle_mounts(key);
        self.count(key);
        let volume = &self.volumes[key];
        if volume.mounts.is_empty() && !volume.may_be_here() && volume.operation().is_none() {
            self.drop_volume(key);
        }
    }

    /// Gives out an operation and notes that it runs.
    fn begin(&mut self, key: VolumeKey, action: Action) {
        let id = OperationId(self.next_operation_id);
        self.next_operation_id += 1;
        let now = self.world.now;
        let pod = action.pod().and_then(|it| self.world.pod(it));
        let volume = &mut self.volumes[key];
        let mut refresh = false;
        let mut goal = 0;
        let mut backoff = volume.backoff.as_deref();
        match &action {
            Action::Attach => volume.attach = volume.attach.doing(id),
            Action::Stage { label, .. } => {
                volume.stage = volume.stage.doing(id);
                volume.label = Some(label.clone());
            }
            Action::Expand { to_bytes, .. } => {
                volume.expanding = Some(id);
                goal = *to_bytes;
            }
            Action::Unstage => volume.stage = volume.stage.undoing(id),
            Action::Detach => volume.attach = volume.attach.undoing(id),
            Action::Publish { after, revision, label, .. } => {
                goal = *revision;
                refresh = *after == Earlier::Success;
                volume.label = Some(label.clone());
                if let Some(mount) = pod.and_then(|it| volume.mounts.iter_mut().find(|mount| mount.pod == it)) {
                    backoff = mount.backoff.as_deref();
                    if refresh {
                        mount.refreshing = Some(id);
                    } else {
                        mount.step = mount.step.doing(id);
                    }
                }
            }
            Action::Unpublish { .. } => {
                if let Some(mount) = pod.and_then(|it| volume.mounts.iter_mut().find(|mount| mount.pod == it)) {
                    backoff = mount.backoff.as_deref();
                    mount.step = mount.step.undoing(id);
                }
            }
        }
        let kind = action.kind();
        let failures = backoff.filter(|it| it.kind == kind).map_or(0, |it| it.failures);
        let deadline = now + volume.spec.capabilities.patience;
        let spec = volume.spec.clone();
        self.operations.push_back(Operation { id, spec, action, failures, deadline });
        self.timers.insert((deadline, Timer::Hung(id)));
        let turn = Turn::Runs { deadline };
        let running = Running { volume: key, pod, kind, since: now, turn, refresh, goal };
        self.world.operations.insert(id, running);
        self.touch_rivals(pod);
    }

    /// What one volume does at a place that two volumes of a pod claim decides what the other may do.
    pub(crate) fn touch_rivals(&mut self, pod: Option<PodKey>) {
        if let Some(pod) = pod.filter(|it| self.world.pods[*it].contested) {
            self.touched.extend(&self.world.pods[pod].mounts);
        }
    }

    /// Notes how a volume stands in which nothing can begin.
    fn settle(&mut self, key: VolumeKey, rest: &Rest) {
        let now = self.world.now;
        let mut settled = rest.volume.is_none();
        let volume = &mut self.volumes[key];
        let here = volume.may_be_here();
        let code = explain::code(rest.volume, here, &self.world);
        if volume.standing.code != code {
            volume.standing = Standing { code, since: now };
            self.notices.push_back(Notice::VolumeChanged { volume: volume.spec.id.clone(), pod: None, code });
        }
        for (mount, status) in volume.mounts.iter_mut().zip(&rest.mounts) {
            settled &= status.is_none();
            let code = explain::code(*status, mount.step.may_be_here(), &self.world);
            if mount.standing.code != code {
                mount.standing = Standing { code, since: now };
                let pod = self.world.pods[mount.pod].uid.clone();
                if !self.waits.is_empty() {
                    self.touched_pods.push(pod.clone());
                }
                let volume = volume.spec.id.clone();
                self.notices.push_back(Notice::VolumeChanged { volume, pod: Some(pod), code });
            }
        }
        if volume.wake_at != rest.wake_at {
            if let Some(at) = volume.wake_at {
                self.timers.remove(&(at, Timer::Volume(key)));
            }
            if let Some(at) = rest.wake_at {
                self.timers.insert((at, Timer::Volume(key)));
            }
            volume.wake_at = rest.wake_at;
        }
        if rest.in_use != volume.in_use_since.is_some() {
            self.set_in_use(key, rest.in_use);
        }
        self.set_parked(key, !settled);
    }

    fn set_in_use(&mut self, key: VolumeKey, in_use: bool) {
        self.in_use_version += 1;
        let volume = &mut self.volumes[key];
        if let Some(since) = volume.in_use_since.take() {
            self.unreported.remove(&since);
        }
        if in_use {
            volume.in_use_since = Some(self.in_use_version);
            self.unreported.insert(self.in_use_version, key);
        }
    }

    /// Lists a volume with its driver while it is not settled, so that the driver's return touches it and no other.
    pub(crate) fn set_parked(&mut self, key: VolumeKey, parked: bool) {
        let volume = &mut self.volumes[key];
        let Some(name) = &volume.spec.driver else { return };
        if volume.parked == parked {
            return;
        }
        volume.parked = parked;
        if parked {
            self.world.drivers.entry(name.clone()).or_default().parked.insert(key);
        } else if let Some(driver) = self.world.drivers.get_mut(name) {
            driver.parked.remove(&key);
            if driver.parked.is_empty() && !driver.registered {
                self.world.drivers.remove(name);
            }
        }
    }

    fn drop_volume(&mut self, key: VolumeKey) {
        self.discount(key);
        self.set_parked(key, false);
        self.clear_backoff(key, None);
        if self.volumes[key].in_use_since.is_some() {
            self.set_in_use(key, false);
        }
        let volume = self.volumes.remove(key);
        if let Some(at) = volume.wake_at {
            self.timers.remove(&(at, Timer::Volume(key)));
        }
    }

    /// Takes an operation off the list of those that run.
    pub(crate) fn take_running(&mut self, id: OperationId) -> Option<Running> {
        let running = self.world.operations.remove(&id)?;
        if let Turn::Runs { deadline } = running.turn {
            self.timers.remove(&(deadline, Timer::Hung(id)));
        }
        Some(running)
    }

    /// Those who wait for this pod may want an answer.
    pub(crate) fn touch_pod(&mut self, pod: PodKey) {
        if !self.waits.is_empty() {
            self.touched_pods.push(self.world.pods[pod].uid.clone());
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.snapshot()).finish()
    }
}
