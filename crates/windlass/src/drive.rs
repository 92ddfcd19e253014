//! The one thread that drives the engine: facts go in as messages, operations go out to workers, and it sleeps until the
//! next message or the engine's next deadline. It does nothing that can block.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant, SystemTime},
};

use k8s_openapi::api::core::v1 as api;
use rustix::fd::OwnedFd;
use tokio::sync::{broadcast, oneshot};
use windlass_core::{
    Engine, Event, Operation,
    answer::WaitError,
    event::{Containers, Goal, Place, Wait},
    ids::{ObjectName, OperationId, PodUid, SourceName, Time, Version, VolumeId, WaiterId},
    notice::Notice,
    operation::{Action, Cause, Kind as ActionKind, Outcome, Proof, Trouble},
    spec::{Access, Phase, Want as VolumeWant},
};
use windlass_linux::{
    table,
    workers::{Lane, Workers},
};

use crate::{
    catalogue::{Catalogue, Drivers},
    executor::{Ended, Executor, Job},
    fingerprint::Fingerprint,
    memory::{Memory, Object},
    node::{Change, Handed},
    objects::Reference,
    plugin::{self, Attributes, Failure, Made, Want, What},
    reconstruct::{self, Remains},
    resolve::{Detail, Given, Resolver, Settings},
};

/// Held by whoever changes anything below the root, a call that hangs too, so that no other node begins to work there.
pub(crate) type Locks = Arc<[OwnedFd; 2]>;

/// Something for the driving thread to do. It must not block.
pub(crate) type Message = Box<dyn FnOnce(&mut Drive) + Send>;

/// How long after the first failed attempt the disk is read again; twice as long after each, up to 32 times.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// A pod as it was given.
struct Known {
    pod: Arc<api::Pod>,
    details: BTreeMap<VolumeId, Arc<Detail>>,
    /// It has left, and its containers may still run: it keeps what it has and gets nothing new.
    ending: bool,
}

/// Content that expires rather than changes.
#[derive(Default)]
struct Renewal {
    /// How often it was renewed.
    epoch: u64,
    /// When it is to be renewed next.
    at: Option<Time>,
}

/// Something to be done at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// Read the disk again.
    ReadDisk,
    /// The content of a volume is to be renewed though nothing changed.
    Renew(PodUid, VolumeId),
}

pub(crate) struct Drive {
    pub(crate) engine: Engine,
    pub(crate) executor: Arc<Executor>,
    pub(crate) workers: Workers,
    pub(crate) memory: Arc<RwLock<Memory>>,
    settings: Settings,
    catalogue: Catalogue,
    drivers: Drivers,
    source: SourceName,
    keep_directories: bool,
    locks: Locks,
    began: Instant,
    inbox: Sender<Message>,
    changes: broadcast::Sender<Change>,

    pods: HashMap<PodUid, Known>,
    /// The pods that name a volume.
    users: HashMap<VolumeId, BTreeSet<PodUid>>,
    waiters: HashMap<WaiterId, oneshot::Sender<Result<(), WaitError>>>,
    next_waiter: u64,

    /// What is made, by where it is.
    held: HashMap<Place, Made>,
    /// The mounts among them, by path.
    mounts: HashMap<PathBuf, Place>,
    running: HashMap<OperationId, Place>,
    busy: HashSet<Place>,

    renewals: HashMap<(PodUid, VolumeId), Renewal>,
    alarms: BTreeSet<(Time, Alarm)>,
    /// Whether the disk has been looked at. Before that pods are not told: what they want may be there already, and no call
    /// is to be made that the state does not need (I-11).
    looked: bool,
    /// How many pods' directories are being made or removed.
    chores: usize,
    /// How often the disk could not be read.
    unreadable: u32,
    /// Whether all pods were given before that.
    completed: bool,
    stopping: Option<Stopping>,
}

/// The end is near.
struct Stopping {
    until: Time,
    /// Told how many operations still ran.
    done: Vec<oneshot::Sender<usize>>,
}

/// What a drive begins with.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) executor: Arc<Executor>,
    pub(crate) workers: Workers,
    pub(crate) memory: Arc<RwLock<Memory>>,
    pub(crate) settings: Settings,
    pub(crate) catalogue: Catalogue,
    pub(crate) source: SourceName,
    pub(crate) keep_directories: bool,
    pub(crate) locks: Locks,
    pub(crate) inbox: Sender<Message>,
    pub(crate) changes: broadcast::Sender<Change>,
}

impl Drive {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            engine,
            executor,
            workers,
            memory,
            settings,
            catalogue,
            source,
            keep_directories,
            locks,
            inbox,
            changes,
        } = parts;
        Self {
            engine,
            executor,
            workers,
            memory,
            settings,
            catalogue,
            drivers: Drivers::new(),
            source,
            keep_directories,
            locks,
            began: Instant::now(),
            inbox,
            changes,
            pods: HashMap::new(),
            users: HashMap::new(),
            waiters: HashMap::new(),
            next_waiter: 0,
            held: HashMap::new(),
            mounts: HashMap::new(),
            running: HashMap::new(),
            busy: HashSet::new(),
            renewals: HashMap::new(),
            alarms: BTreeSet::new(),
            looked: false,
            chores: 0,
            unreadable: 0,
            completed: false,
            stopping: None,
        }
    }

    /// Runs until it is told to stop, or nobody is left to tell it anything.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        self.read_disk();
        loop {
            self.ring();
            self.settle();
            if self.is_over() {
                break;
            }
            let due = [self.engine.deadline(), self.alarms.first().map(|(at, _)| *at), self.stop_due()];
            let message = match due.into_iter().flatten().min() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => messages.recv_timeout(at.since(self.now())),
            };
            match message {
                Ok(message) => message(&mut self),
                Err(RecvTimeoutError::Timeout) => self.tell(Event::TimePassed),
                // The node is gone and holds no thread of ours to the end.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let (running, waiting) = (self.running.len(), self.stopping.take());
        // Whoever is told may begin anew at once, if nothing works here any more.
        drop(self);
        for done in waiting.into_iter().flat_map(|it| it.done) {
            let _ = done.send(running);
        }
    }

    /// Milliseconds since this drive began. Rounded down, so that a deadline is never thought to be over too early.
    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn tell(&mut self, event: Event) {
        let now = self.now();
        self.engine.handle(now, event);
    }

    /// Does what is due.
    fn ring(&mut self) {
        let now = self.now();
        while let Some((_, alarm)) = self.alarms.first().filter(|(at, _)| *at <= now).cloned() {
            self.alarms.pop_first();
            match alarm {
                Alarm::ReadDisk => self.read_disk(),
                Alarm::Renew(pod, volume) => {
                    let renewal = self.renewals.entry((pod.clone(), volume)).or_default();
                    renewal.epoch = renewal.epoch.wrapping_add(1).max(1);
                    renewal.at = None;
                    self.apply(&pod);
                }
            }
        }
    }

    /// Starts what the engine wants started and passes on what it has to say.
    fn settle(&mut self) {
        loop {
            if let Some(operation) = self.engine.next_operation() {
                if self.stopping.is_none() {
                    self.start(operation);
                }
            } else if let Some(notice) = self.engine.next_notice() {
                self.pass_on(notice);
            } else {
                return;
            }
        }
    }

    fn start(&mut self, operation: Operation) {
        let place = place_of(&operation);
        let volume = operation.volume().clone();
        let pod = match &operation.action {
            Action::Expand { pod, .. } => Some(pod.clone()),
            other => other.pod().cloned(),
        };
        let pod = pod.or_else(|| self.user_of(&volume));
        let want = pod.as_ref().and_then(|pod| {
            let known = self.pods.get(pod)?;
            let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
            Some(Want::new(&known.pod, known.details.get(&volume)?, &memory, &self.settings.node))
        });
        let epoch = pod.and_then(|it| self.renewals.get(&(it, volume))).map_or(0, |it| it.epoch);
        let id = operation.id;
        self.running.insert(id, place.clone());
        self.busy.insert(place);
        let lane = Lane::from(operation.spec.plugin.as_str());
        let (executor, inbox, locks) = (self.executor.clone(), self.inbox.clone(), Some(self.locks.clone()));
        let started = self.workers.run(&lane, move || {
            let mut answer = Answer { id, inbox, locks, ended: None };
            let job = Job { operation, want, epoch };
            answer.ended = Some(executor.run(&job));
        });
        if let Err(error) = started {
            let trouble = Trouble { cause: Cause::Other, text: plugin::chain(&error).into() };
            let ended = Ended { outcome: Outcome::Refused(trouble), made: None };
            // Not here: the engine is not to be told of an end while it is asked what to start.
            let _ = self.inbox.send(Box::new(move |drive| drive.ended(id, ended)));
        }
    }

    /// The pod for whom a volume is made ready: one that is to run, and one that may write if there is one.
    fn user_of(&self, volume: &VolumeId) -> Option<PodUid> {
        let users = self.users.get(volume)?.iter().filter_map(|it| Some((it, self.pods.get(it)?)));
        let mut running = users.filter(|(_, it)| !it.ending && phase(&it.pod) == Phase::Running);
        let writes = |known: &Known| {
            let detail = known.details.get(volume);
            detail.is_some_and(|it| plugin::access(&known.pod, &it.name) == Access::ReadWrite)
        };
        let first = running.next()?;
        let chosen = if writes(first.1) { first } else { running.find(|(_, it)| writes(it)).unwrap_or(first) };
        Some(chosen.0.clone())
    }

    fn ended(&mut self, id: OperationId, ended: Ended) {
        let Some(place) = self.running.remove(&id) else { return };
        self.busy.remove(&place);
        match (&ended.outcome, &ended.made) {
            (Outcome::Done(_), Some(made)) => self.hold(place.clone(), made),
            (Outcome::Done(windlass_core::operation::Done::Gone), None) => self.let_go(&place),
            _ => {}
        }
        self.tell(Event::OperationEnded { id, outcome: ended.outcome });
        // What changed at the place meanwhile was taken for the operation's own work.
        self.look_at(&place);
    }

    fn hold(&mut self, place: Place, made: &Made) {
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
        if let Some(before) = self.held.insert(place.clone(), made.clone()) {
            self.unwatch(&before, &place);
        }
        if let Some(path) = watched(made) {
            self.mounts.insert(path.clone(), place);
        }
    }

    fn let_go(&mut self, place: &Place) {
        if let Some(made) = self.held.remove(place) {
            self.unwatch(&made, place);
        }
        if let Place::Publish(volume, pod) = place
            && let Some(Renewal { at: Some(at), .. }) = self.renewals.remove(&(pod.clone(), volume.clone()))
        {
            self.alarms.remove(&(at, Alarm::Renew(pod.clone(), volume.clone())));
        }
    }

    fn unwatch(&mut self, made: &Made, place: &Place) {
        if let Some(path) = watched(made)
            && self.mounts.get(path) == Some(place)
        {
            self.mounts.remove(path);
        }
    }

    /// The mount table changed.
    pub(crate) fn mounts_changed(&mut self, changes: &[table::Change]) {
        let mut places = BTreeSet::new();
        for change in changes {
            let (table::Change::Appeared(mount) | table::Change::Vanished(mount)) = change;
            let place = self.mounts.get(&mount.mount_point).filter(|it| !self.busy.contains(*it));
            places.extend(place.cloned());
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
    fn look_at(&mut self, place: &Place) {
        let Some(made) = self.held.get(place) else { return };
        let (path, plain) = match &made.what {
            What::Mount(path) => (path, None),
            // Only what lies over it can be seen without touching it; that it is itself is seen when it is handed out.
            What::Directory => (&made.path, Some(made.proof)),
            What::Host => return,
        };
        let seen = self.executor.scene.watch.table().topmost(path).map(|it| plugin::mount_proof(it)).or(plain);
        if !seen.is_some_and(|it| made.proof.holds_for(&it)) {
            self.tell(Event::MountSeen { place: place.clone(), proof: seen });
        }
    }

    /// What is at a place was looked at, and is not what it should be.
    pub(crate) fn seen(&mut self, place: Place, expected: Proof, proof: Option<Proof>) {
        // It was looked at some time ago: what was made anew since then is another.
        let is_current = self.held.get(&place).is_some_and(|it| it.proof == expected);
        if is_current && !self.busy.contains(&place) {
            self.tell(Event::MountSeen { place, proof });
        }
    }

    fn pass_on(&mut self, notice: Notice) {
        let change = match notice {
            Notice::WaitEnded { waiter, result } => {
                if let Some(sender) = self.waiters.remove(&waiter) {
                    let _ = sender.send(result);
                }
                return;
            }
            Notice::VolumeChanged { volume, pod, code } => Change::Volume { volume, pod, code },
            Notice::PodReleased(pod) => {
                self.release(&pod);
                Change::PodReleased(pod)
            }
            Notice::Synced => Change::Synced,
            Notice::InUseChanged { version } => Change::InUse { version },
            Notice::ExpansionEnded { volume, verdict } => Change::Expansion { volume, verdict },
        };
        // Nobody need listen.
        let _ = self.changes.send(change);
    }

    fn release(&mut self, pod: &PodUid) {
        if self.pods.contains_key(pod) {
            return;
        }
        self.executor.live.lock().unwrap_or_else(PoisonError::into_inner).remove(pod);
        let work = if self.keep_directories { Executor::forget_pod } else { Executor::remove_pod };
        self.chore(pod.clone(), work);
    }

    /// Removes the directory of a pod, if the pod has gone.
    pub(crate) fn remove_directory(&mut self, pod: &PodUid) {
        self.chore(pod.clone(), Executor::remove_pod);
    }

    /// Makes or removes a pod's directory, elsewhere.
    fn chore(&mut self, pod: PodUid, work: fn(&Executor, &PodUid) -> Result<(), Failure>) {
        let (executor, inbox, locks) = (self.executor.clone(), self.inbox.clone(), Some(self.locks.clone()));
        let started = self.workers.run(&Lane::from("pods"), move || {
            let mut chore = Chore { inbox, locks, trouble: None };
            if let Err(failure) = work(&executor, &pod) {
                chore.trouble = Some(Change::Leftover { pod, text: failure.text.into() });
            }
        });
        // Without any thread it waits for the next start, which finds what was left.
        if started.is_ok() {
            self.chores += 1;
        }
    }

    fn read_disk(&mut self) {
        let (executor, inbox) = (self.executor.clone(), self.inbox.clone());
        let started = self.workers.run(&Lane::from("start"), move || {
            let remains = reconstruct::read(&executor);
            let _ = inbox.send(Box::new(move |drive| match remains {
                Ok(remains) => drive.disk_was_read(remains),
                Err(failure) => drive.disk_is_unreadable(&failure.text),
            }));
        });
        if let Err(error) = started {
            self.disk_is_unreadable(&plugin::chain(&error));
        }
    }

    fn disk_is_unreadable(&mut self, text: &str) {
        let _ = self.changes.send(Change::DiskUnreadable { text: text.into() });
        let again = READ_AGAIN * 2_u32.pow(self.unreadable.min(5));
        self.unreadable += 1;
        self.alarms.insert((self.now() + again, Alarm::ReadDisk));
        // Mounts do not wait for a disk that cannot be read.
        self.begin();
    }

    fn disk_was_read(&mut self, remains: Remains) {
        let mut taken_over = Vec::new();
        for text in remains.troubles {
            let _ = self.changes.send(Change::Damaged { text: text.into() });
        }
        for it in remains.made {
            // What this life has made since is newer.
            if self.held.contains_key(&it.place) || self.busy.contains(&it.place) {
                continue;
            }
            if let (Place::Publish(volume, pod), 1..) = (&it.place, it.epoch) {
                self.renewals.entry((pod.clone(), volume.clone())).or_default().epoch = it.epoch;
            }
            taken_over.push(it.place.clone());
            self.hold(it.place, &it.made);
        }
        {
            let mut live = self.executor.live.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &remains.events {
                if let Event::FoundPod(pod) | Event::FoundPublished { pod, .. } = event {
                    live.insert(pod.clone());
                }
            }
        }
        for event in remains.events {
            self.tell(event);
        }
        self.tell(Event::DiskRead);
        // What changed while the disk was read was nobody's place then.
        for place in taken_over {
            self.look_at(&place);
        }
        self.begin();
    }

    /// Tells of the pods that were given so far.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.looked, true) {
            return;
        }
        let mut pods: Vec<PodUid> = self.pods.keys().cloned().collect();
        pods.sort();
        for pod in &pods {
            self.tell_pod(pod);
        }
        if std::mem::take(&mut self.completed) {
            self.complete();
        }
    }

    /// A pod is there, for the first time or changed.
    pub(crate) fn add_pod(&mut self, uid: &PodUid, pod: api::Pod) {
        let details = self.pods.remove(uid).map(|it| it.details).unwrap_or_default();
        self.pods.insert(uid.clone(), Known { pod: Arc::new(pod), details, ending: false });
        if self.looked {
            self.tell_pod(uid);
        }
    }

    /// Tells the engine of a pod. From now on it says when the pod's directory may go again.
    fn tell_pod(&mut self, uid: &PodUid) {
        self.executor.live.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        self.chore(uid.clone(), Executor::make_pod);
        self.apply(uid);
    }

    /// Looks a pod's volumes up and tells the engine.
    fn apply(&mut self, uid: &PodUid) {
        let Some(known) = self.pods.get(uid).filter(|it| self.looked && !it.ending) else { return };
        let pod = known.pod.clone();
        let given = Given { source: self.source.clone(), version: Version::NONE, phase: phase(&pod) };
        let memory = self.memory.clone();
        let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
        let resolver = Resolver {
            settings: &self.settings,
            catalogue: &self.catalogue,
            drivers: &self.drivers,
            objects: &*memory,
        };
        // A pod without a name or a specification is refused when it is given.
        let Ok(mut resolved) = resolver.resolve(&pod, given) else { return };
        memory.set_uses(uid, &resolved.depends_on);
        drop(memory);
        for volume in &mut resolved.pod.volumes {
            if let VolumeWant::Volume(used) = &mut volume.want
                && let Some(Renewal { epoch: epoch @ 1.., .. }) =
                    self.renewals.get(&(uid.clone(), used.spec.id.clone()))
            {
                used.revision = renewed(used.revision, *epoch);
            }
        }
        let before = self.pods.get_mut(uid).map(|it| std::mem::take(&mut it.details)).unwrap_or_default();
        self.forget_users(uid, before.keys());
        let mut details: BTreeMap<_, _> =
            resolved.details.into_iter().map(|it| (it.volume.clone(), Arc::new(it))).collect();
        // A volume that cannot be looked up at the moment is still the pod's, as long as the pod has it (I-1).
        for (volume, detail) in before {
            let place = Place::Publish(volume.clone(), uid.clone());
            if self.held.contains_key(&place) || self.busy.contains(&place) {
                details.entry(volume).or_insert(detail);
            }
        }
        for volume in details.keys() {
            self.users.entry(volume.clone()).or_default().insert(uid.clone());
        }
        if let Some(known) = self.pods.get_mut(uid) {
            known.details = details;
        }
        for (name, warning) in resolved.warnings {
            let text: Arc<str> = format!("volume {name}: {warning}").into();
            self.executor.scene.tell.warning(uid, "SELinuxLabel", text);
        }
        self.tell(Event::PodApplied(resolved.pod));
    }

    fn forget_users<'a>(&mut self, uid: &PodUid, volumes: impl Iterator<Item = &'a VolumeId>) {
        for volume in volumes {
            if let Some(users) = self.users.get_mut(volume) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(volume);
                }
            }
        }
    }

    /// A pod is gone, and nothing of it runs.
    pub(crate) fn remove_pod(&mut self, uid: &PodUid, containers: Containers) {
        if containers == Containers::Stopped {
            if let Some(known) = self.pods.remove(uid) {
                self.forget_users(uid, known.details.keys());
            }
            self.memory.write().unwrap_or_else(PoisonError::into_inner).set_uses(uid, &[]);
        } else if let Some(known) = self.pods.get_mut(uid) {
            known.ending = true;
        }
        self.tell(Event::PodGone { uid: uid.clone(), version: Version::NONE, containers });
    }

    /// All pods there are have been given.
    pub(crate) fn complete(&mut self) {
        if !self.looked {
            self.completed = true;
            return;
        }
        let was_partial = {
            let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
            memory.set_partial(false)
        };
        if was_partial {
            // What has not been told of by now does not exist.
            let mut pods: Vec<PodUid> = self.pods.keys().cloned().collect();
            pods.sort();
            self.apply_all(pods);
        }
        let source = self.source.clone();
        self.tell(Event::SourceComplete { source, version: Version::NONE, containers: Containers::Stopped });
    }

    pub(crate) fn update_object(&mut self, object: Object) {
        let name = ObjectName::from(&object.reference());
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).put(object);
        self.apply_all(pods);
        self.tell(Event::ObjectChanged(name));
    }

    pub(crate) fn remove_object(&mut self, reference: &Reference) {
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).remove(reference);
        self.apply_all(pods);
        self.tell(Event::ObjectChanged(reference.into()));
    }

    pub(crate) fn fail_object(&mut self, reference: &Reference, text: &str) {
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).fail(reference, text);
        self.apply_all(pods);
    }

    fn apply_all(&mut self, pods: Vec<PodUid>) {
        for pod in pods {
            self.apply(&pod);
        }
    }

    /// Somebody waits for a pod.
    pub(crate) fn wait(
        &mut self,
        pod: PodUid,
        goal: Goal,
        within: Option<Duration>,
        answer: oneshot::Sender<Result<(), WaitError>>,
    ) -> WaiterId {
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        self.waiters.insert(waiter, answer);
        let until = within.map_or(Time(u64::MAX), |it| self.now() + it);
        self.tell(Event::WaitStarted(Wait { waiter, pod, goal, until }));
        waiter
    }

    pub(crate) fn cancel(&mut self, waiter: WaiterId) {
        if self.waiters.remove(&waiter).is_some() {
            self.tell(Event::WaitCancelled(waiter));
        }
    }

    /// What a pod may be given, to be looked at once more before it is handed out.
    pub(crate) fn hand_out(&self, uid: &PodUid) -> Vec<Handed> {
        let mounted = self.engine.mounted_volumes(uid);
        let handed = mounted.into_iter().filter_map(|(name, volume)| {
            let place = Place::Publish(volume.volume.clone(), uid.clone());
            let made = self.held.get(&place)?.clone();
            let known = self.pods.get(uid)?;
            let detail = known.details.get(&volume.volume)?;
            // A pod may name one volume twice, once to write and once only to read.
            let access = match plugin::access(&known.pod, &name) {
                Access::ReadOnly => Access::ReadOnly,
                Access::ReadWrite => volume.access,
            };
            let attributes = match volume.mode {
                windlass_core::spec::Mode::Filesystem => Attributes::of(detail.kind, access),
                windlass_core::spec::Mode::Block => {
                    Attributes { read_only: access == Access::ReadOnly, managed: false, relabel: false }
                }
            };
            Some(Handed { name, mode: volume.mode, attributes, proof: volume.proof, place, made })
        });
        handed.collect()
    }

    /// The names of a pod's volumes, for explaining each.
    pub(crate) fn volume_names(&self, uid: &PodUid) -> Vec<windlass_core::ids::OuterName> {
        let volumes = self.pods.get(uid).and_then(|it| it.pod.spec.as_ref()?.volumes.clone()).unwrap_or_default();
        volumes.iter().map(|it| it.name.as_str().into()).collect()
    }

    /// Begins no operation any more, and ends when those that run have ended or the time is up.
    pub(crate) fn stop(&mut self, within: Duration, done: Option<oneshot::Sender<usize>>) {
        let until = self.now() + within;
        match &mut self.stopping {
            Some(stopping) => stopping.until = stopping.until.min(until),
            None => self.stopping = Some(Stopping { until, done: Vec::new() }),
        }
        if let (Some(stopping), Some(done)) = (&mut self.stopping, done) {
            stopping.done.push(done);
        }
    }

    fn stop_due(&self) -> Option<Time> {
        self.stopping.as_ref().map(|it| it.until)
    }

    fn is_over(&self) -> bool {
        self.stopping.as_ref().is_some_and(|it| (self.running.is_empty() && self.chores == 0) || self.now() >= it.until)
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
            Ended { outcome: Outcome::Unknown(trouble), made: None }
        });
        let id = self.id;
        drop(self.locks.take());
        let _ = self.inbox.send(Box::new(move |drive| drive.ended(id, ended)));
    }
}

/// Tells of the end of a chore, also if it broke off.
struct Chore {
    inbox: Sender<Message>,
    locks: Option<Locks>,
    trouble: Option<Change>,
}

impl Drop for Chore {
    fn drop(&mut self) {
        let trouble = self.trouble.take();
        drop(self.locks.take());
        let _ = self.inbox.send(Box::new(move |drive| {
            drive.chores = drive.chores.saturating_sub(1);
            if let Some(trouble) = trouble {
                let _ = drive.changes.send(trouble);
            }
        }));
    }
}

/// Where a mount would be that changes what was made.
fn watched(made: &Made) -> Option<&PathBuf> {
    match &made.what {
        What::Mount(path) => Some(path),
        What::Directory => Some(&made.path),
        What::Host => None,
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

/// The revision of a content that was renewed though nothing changed.
fn renewed(revision: u64, epoch: u64) -> u64 {
    let mut fingerprint = Fingerprint::new([0, 0]);
    fingerprint.number(revision);
    fingerprint.number(epoch);
    fingerprint.finish()
}

/// How far a pod's life has gone, by what its object says (E-141).
fn phase(pod: &api::Pod) -> Phase {
    let finished = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    match finished {
        Some("Succeeded" | "Failed") => Phase::Finished,
        _ if pod.metadata.deletion_timestamp.is_some() => Phase::Stopping,
        _ => Phase::Running,
    }
}
