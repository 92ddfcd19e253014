//! The one thread that drives the engine: facts go in as messages, operations go out to workers, and it sleeps until the
//! next message or the engine's next deadline. It does nothing that can block.

mod claims;
mod departing;
mod disk;
mod drivers;
mod held;
mod lanes;
mod operations;
mod pods;
mod provision;
mod retry;
mod show;
mod turns;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    mem,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as api;
use rustix::fd::OwnedFd;
use tokio::sync::{broadcast, oneshot};
use windlass_core::{
    Engine, Event, Operation,
    event::{Containers, Goal, Hold, Place, Wait},
    ids::{DriverName, ObjectName, OperationId, OuterName, PodUid, SourceName, Time, Version, VolumeId, WaiterId},
    notice::{Notice, Verdict},
    operation::{Action, Cause, Earlier, Kind as ActionKind, Outcome, Proof, Trouble},
    reason::Code,
    snapshot::PodStanding,
    spec::{Access, Life, Phase, Want as VolumeWant},
};
use windlass_linux::{
    table::{self, MountId},
    workers::{Lane, Workers},
};

use crate::{
    catalogue::{Catalogue, Drivers},
    drive::{
        departing::{Departures, Waiter},
        held::Held,
        lanes::Lanes,
        provision::Provisions,
        turns::{Turn, Turns},
    },
    executor::{Ended, Executor, Job, Together},
    fingerprint::Fingerprint,
    memory::{Memory, Object},
    node::{Change, DeleteError, Handed, Report},
    objects::Reference,
    packed::Packed,
    plugin::{self, Attributes, Failure, Made, Want},
    provision::store::Store,
    reconstruct::{self, Remains},
    resolve::{Detail, Given, Resolver, Settings},
    under_way::UnderWay,
    view::Clock,
};

/// Held by whoever changes anything below the root, a call that hangs too, so that no other node begins to work there.
pub(crate) type Locks = Arc<[OwnedFd]>;

/// Something for the driving thread to do. It must not block.
pub(crate) type Message = Box<dyn FnOnce(&mut Drive) + Send>;

/// How long the drive lets news gather when the last came sooner than this: many operations that end one after the other
/// then cost one wake-up. Nobody notices the delay, and if nothing came the drive sleeps until it is woken (I-8).
const REST: Duration = Duration::from_micros(200);

/// So many messages without a pause leave memory behind that is worth giving back.
const BURST: u32 = 500;
/// A pause.
const QUIET: Duration = Duration::from_millis(100);

/// How long after the first failed attempt the disk is read again; twice as long after each, up to 32 times.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// How long a driver may take to register before owners of pods are told that it is missing: at the start of a node pods
/// come before drivers, and that is nobody's concern.
const DRIVER_COMES: Duration = Duration::from_secs(5);

/// A pod as it was given.
struct Known {
    pod: Packed,
    phase: Phase,
    /// The names of volumes that the pod may only read, by its references to claims (P-219).
    read_only: BTreeSet<OuterName>,
    /// Of its volumes: a few, so they are looked through. Of a volume that it names twice the last counts.
    details: Box<[Arc<Detail>]>,
    /// When it was given first.
    given: Time,
    /// How its volumes stand, and since when.
    standing: Standing,
    /// It has left and its containers may still run, or it is held: it keeps what it has and gets nothing new.
    ending: bool,
}

/// How the volumes of a pod stand, and since when.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) now: PodStanding,
    pub(crate) mounted_since: Time,
    pub(crate) current_since: Time,
}

impl Standing {
    /// A pod that was given just now: nothing of it is mounted.
    fn new(now: Time) -> Self {
        Self { now: PodStanding { mounted: false, current: true }, mounted_since: now, current_since: now }
    }

    fn note(&mut self, standing: PodStanding, now: Time) {
        if self.now.mounted != standing.mounted {
            self.mounted_since = now;
        }
        if self.now.current != standing.current {
            self.current_since = now;
        }
        self.now = standing;
    }
}

impl Known {
    fn detail(&self, volume: &VolumeId) -> Option<&Arc<Detail>> {
        self.details.iter().rfind(|it| it.volume == *volume)
    }

    fn volumes(&self) -> impl Iterator<Item = &VolumeId> {
        self.details.iter().map(|it| &it.volume)
    }

    /// Whether the pod may write what it calls by this name.
    fn access(&self, name: &OuterName) -> Access {
        if self.read_only.contains(name) { Access::ReadOnly } else { Access::ReadWrite }
    }
}

/// Content that expires rather than changes.
#[derive(Default)]
struct Renewal {
    /// How often it was renewed.
    epoch: u64,
    /// When it is to be renewed next.
    at: Option<Time>,
}

/// An operation that has not ended.
struct Running {
    place: Place,
    /// The CSI driver whose volume it is about.
    driver: Option<DriverName>,
    lane: Lane,
    /// Its number in the lane.
    ticket: u64,
    turn: Turn,
}

/// Something to be done at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    /// Read the disk again.
    ReadDisk,
    /// Look at operations that were given out a while ago.
    Review,
    /// The content of a volume is to be renewed though nothing changed.
    Renew(PodUid, VolumeId),
    /// A claim's volume is to be made or deleted, once more.
    Provision(Reference),
    /// If the driver is still not there for which a volume, or a pod's mount of it, waits, the pod's owner is to know.
    DriverMissing(VolumeId, Option<PodUid>),
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
    gives_memory_back: bool,
    report: Report,
    /// Messages since the last pause.
    burst: u32,
    locks: Locks,
    began: Instant,
    /// By which times were shown last.
    clock: Cell<Clock>,
    inbox: Sender<Message>,
    changes: broadcast::Sender<Change>,

    pods: HashMap<PodUid, Known>,
    /// The pods that name a persistent volume.
    users: HashMap<VolumeId, BTreeSet<PodUid>>,
    /// Those who wait for a pod, and for which if it is to be gone.
    waiters: HashMap<WaiterId, (Waiter, Option<PodUid>)>,
    departures: Departures,
    next_waiter: u64,

    held: Held,
    running: HashMap<OperationId, Running>,
    busy: HashMap<Place, OperationId>,
    turns: Turns,
    /// Where a mount stands that was there when an operation had failed: if it goes, that is tried again.
    obstacles: HashMap<MountId, Place>,
    under_way: Arc<UnderWay>,
    /// The pod whose operation was given out last, while more of it may follow.
    together: Option<(PodUid, Together)>,
    lanes: Lanes,

    provisions: Provisions,
    renewals: HashMap<(PodUid, VolumeId), Renewal>,
    alarms: BTreeSet<(Time, Alarm)>,
    /// Whether the disk has been looked at. Before that pods are not told: what they want may be there already, and no call
    /// is to be made that the state does not need (I-11).
    looked: bool,
    /// Whether it could be read, so that the engine was told of every record.
    disk_read: bool,
    /// Pods that were told since the engine was last asked what to start.
    fresh: Vec<PodUid>,
    /// Pods whose directories were found at start and need not be made.
    whole: HashSet<PodUid>,
    /// Since when pods are known here that were found at start, by when their directories were made, or that are leaving.
    born: HashMap<PodUid, Timestamp>,
    /// How many pods' directories are being made or removed.
    chores: usize,
    /// How often the disk could not be read.
    unreadable: u32,
    /// Pods that are held, until the disk has been read: what is on it of them is told then.
    holds: BTreeMap<PodUid, Hold>,
    /// All pods were given before the disk was looked at; for how long what is on it besides stays.
    completed: Option<Duration>,
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
    pub(crate) provisions: Store,
    pub(crate) delete_delay: Duration,
    pub(crate) settings: Settings,
    pub(crate) catalogue: Catalogue,
    pub(crate) source: SourceName,
    pub(crate) keep_directories: bool,
    pub(crate) gives_memory_back: bool,
    pub(crate) report: Report,
    pub(crate) locks: Locks,
    pub(crate) under_way: Arc<UnderWay>,
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
            provisions,
            delete_delay,
            settings,
            catalogue,
            source,
            keep_directories,
            gives_memory_back,
            report,
            locks,
            under_way,
            inbox,
            changes,
        } = parts;
        Self {
            lanes: Lanes::new(executor.scene.drivers.settings()),
            engine,
            executor,
            workers,
            memory,
            settings,
            catalogue,
            drivers: Drivers::new(),
            source,
            keep_directories,
            gives_memory_back,
            report,
            burst: 0,
            locks,
            began: Instant::now(),
            clock: Cell::new(Clock::at(Time::ZERO)),
            inbox,
            changes,
            pods: HashMap::new(),
            users: HashMap::new(),
            waiters: HashMap::new(),
            departures: Departures::default(),
            next_waiter: 0,
            held: Held::default(),
            running: HashMap::new(),
            busy: HashMap::new(),
            turns: Turns::default(),
            obstacles: HashMap::new(),
            under_way,
            together: None,
            provisions: Provisions::new(provisions, delete_delay),
            renewals: HashMap::new(),
            alarms: BTreeSet::new(),
            looked: false,
            disk_read: false,
            fresh: Vec::new(),
            whole: HashSet::new(),
            born: HashMap::new(),
            chores: 0,
            unreadable: 0,
            holds: BTreeMap::new(),
            completed: None,
            stopping: None,
        }
    }

    /// Runs until it is told to stop, or nobody is left to tell it anything.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        self.read_disk();
        let mut inbox = Inbox { messages, busy: false };
        loop {
            self.take_begun();
            self.ring();
            self.settle();
            if self.is_over() {
                break;
            }
            let due = [self.engine.deadline(), self.alarms.first().map(|(at, _)| *at), self.stop_due()];
            let due = due.into_iter().flatten().min();
            let pause = (self.burst >= BURST).then_some(QUIET);
            match inbox.next(|| due.map(|at| at.since(self.now())).into_iter().chain(pause).min()) {
                Ok(message) => {
                    message(&mut self);
                    self.burst = self.burst.saturating_add(self.gives_memory_back.into());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if mem::take(&mut self.burst) >= BURST {
                        // What many pods at once took for a moment would stay with the process for ever.
                        windlass_linux::raw::trim_heaps();
                        windlass_linux::raw::let_go_of_program();
                    }
                    self.tell(Event::TimePassed);
                }
                // The node is gone and holds no thread of ours to the end.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.note_given_up();
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
                Alarm::Review => self.review(),
                Alarm::Renew(pod, volume) => {
                    let renewal = self.renewals.entry((pod.clone(), volume)).or_default();
                    renewal.epoch = renewal.epoch.wrapping_add(1).max(1);
                    renewal.at = None;
                    self.apply(&pod);
                }
                Alarm::Provision(claim) => self.look_at_claim(&claim),
                Alarm::DriverMissing(volume, pod) => self.tell_of_missing_driver(&volume, pod.as_ref()),
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
            } else if let Some(pod) = self.fresh.pop() {
                self.make_directory(pod);
            } else {
                self.together = None;
                return;
            }
        }
    }

    fn pass_on(&mut self, notice: Notice) {
        let change = match notice {
            Notice::WaitEnded { waiter, result } => {
                match (self.waiters.remove(&waiter), result) {
                    (Some((sender, Some(pod))), Ok(())) => self.gone_but_for_directory(&pod, sender),
                    (Some((sender, _)), result) => _ = sender.send(result.map_err(Into::into)),
                    (None, _) => {}
                }
                return;
            }
            Notice::VolumeChanged { volume, pod, code } => {
                if let Some(pod) = &pod {
                    self.note_standing(pod);
                }
                if code == Code::DriverMissing {
                    let alarm = Alarm::DriverMissing(volume.clone(), pod.clone());
                    self.alarms.insert((self.now() + DRIVER_COMES, alarm));
                }
                if pod.is_none()
                    && code == Code::BackingOff
                    && let Some(deepest) = self.engine.explain_growth(&volume).last()
                {
                    self.tell_of_failed_growth(&volume, &deepest.text);
                }
                let mounted = pod.clone().filter(|_| code == Code::Mounted).filter(|it| self.is_mounted(it));
                let _ = self.changes.send(Change::Volume { volume, pod, code });
                let Some(pod) = mounted else { return };
                Change::PodMounted(pod)
            }
            Notice::PodReleased(pod) => return self.release(&pod),
            Notice::HoldEnded(pod) => return self.hold_ended(&pod),
            Notice::Synced => Change::Synced,
            Notice::InUseChanged { version } => {
                if self.report == Report::Asked {
                    self.tell(Event::InUseReported { version });
                }
                Change::InUse { version }
            }
            Notice::ExpansionEnded { volume, verdict } => {
                self.expansion_has_ended(&volume, &verdict);
                Change::Expansion { volume, verdict }
            }
        };
        // Nobody need listen.
        let _ = self.changes.send(change);
    }

    /// Notes how the volumes of a pod stand, so that it can be told since when.
    pub(super) fn note_standing(&mut self, pod: &PodUid) {
        let now = self.now();
        if let (Some(known), Some(standing)) = (self.pods.get_mut(pod), self.engine.pod_standing(pod)) {
            known.standing.note(standing, now);
        }
    }

    /// Whether all volumes of a pod are mounted, if anybody listens.
    fn is_mounted(&self, pod: &PodUid) -> bool {
        self.changes.receiver_count() > 0
            && self.engine.pod_status(pod).is_some_and(|it| it.unmounted.is_empty() && it.errors.is_empty())
    }

    /// Somebody waits for a pod.
    pub(crate) fn wait(&mut self, pod: PodUid, goal: Goal, within: Option<Duration>, answer: Waiter) -> WaiterId {
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        self.waiters.insert(waiter, (answer, Some(pod.clone()).filter(|_| goal == Goal::Gone)));
        let until = within.map_or(Time(u64::MAX), |it| self.now() + it);
        self.tell(Event::WaitStarted(Wait { waiter, pod, goal, until }));
        waiter
    }

    pub(crate) fn cancel(&mut self, waiter: WaiterId) {
        if self.waiters.remove(&waiter).is_some() {
            self.tell(Event::WaitCancelled(waiter));
        }
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

/// What the drive is told, in order.
struct Inbox<'a> {
    messages: &'a Receiver<Message>,
    /// News came sooner than after a [`REST`].
    busy: bool,
}

impl Inbox<'_> {
    /// The next message, if there is one within this time.
    #[expect(
        clippy::disallowed_methods,
        reason = "in a burst a short rest costs less than being woken for each message"
    )]
    fn next(&mut self, within: impl FnOnce() -> Option<Duration>) -> Result<Message, RecvTimeoutError> {
        if let Ok(message) = self.messages.try_recv() {
            return Ok(message);
        }
        if self.busy {
            std::thread::sleep(REST);
            if let Ok(message) = self.messages.try_recv() {
                return Ok(message);
            }
        }
        let began = Instant::now();
        let message = match within() {
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(within) => self.messages.recv_timeout(within),
        };
        self.busy = began.elapsed() < REST;
        message
    }
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
