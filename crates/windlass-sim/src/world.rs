//! The simulated world: everything around the engine, and the order in which things happen.
//!
//! One queue holds all that will happen, sorted by time; time jumps from one to the next. What each part of the world does
//! stands in that part's file; here it is only called.

use crate::apiserver::ApiServer;
use crate::attacher::Attacher;
use crate::checks;
use crate::conditions::Conditions;
use crate::delivery::Delivery;
use crate::disk::Disk;
use crate::driver::{Call, CallId, Driver};
use crate::faults::{Counts, Fault};
use crate::kernel::Kernel;
use crate::life::{Failure, Options, Sabotage};
use crate::process::Process;
use crate::rng::{Rng, number_of};
use crate::script::{Script, Start};
use crate::setting::Setting;
use crate::source::Sources;
use crate::trace::Trace;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use windlass_core::event::{Attachment, MountPlace};
use windlass_core::ids::{OperationId, PodUid, Time, VolumeId};
use windlass_core::operation::Proof;
use windlass_core::{Event, Operation, Planning};

/// The world of one node.
pub struct World {
    pub(crate) setting: Arc<Setting>,
    pub(crate) script: Script,
    pub(crate) now: Time,
    queue: BinaryHeap<Queued>,
    next_order: u64,

    pub(crate) kernel: Kernel,
    pub(crate) disk: Disk,
    /// When the disk last wrote back what it held in memory.
    pub(crate) disk_synced: Time,
    pub(crate) drivers: Vec<Driver>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    pub(crate) next_call: CallId,
    /// The volumes that this node attached itself.
    pub(crate) node_attached: BTreeSet<VolumeId>,
    /// What was put into each pod's mount last, and in which boot.
    pub(crate) contents: BTreeMap<MountPlace, (u64, u64)>,
    /// What was told as done in this boot and nothing has been done about since, with its content.
    pub(crate) made: BTreeMap<MountPlace, (Proof, u64)>,
    pub(crate) sources: Sources,
    pub(crate) apiserver: ApiServer,
    pub(crate) attacher: Attacher,
    pub(crate) conditions: Conditions,

    pub(crate) process: Option<Process>,
    /// Counts the lives of the process; what was meant for an earlier one does not reach a later one.
    pub(crate) life: u64,
    pub(crate) boot: u64,
    pub(crate) kill: Option<PlannedKill>,
    /// How many edges of its work the process has come to, over all lives.
    pub(crate) edges: u64,
    /// Volumes with a mount whose record was damaged. Until it is gone nobody can know which volume it is, so nobody can be
    /// blamed for taking the volume away below it.
    pub(crate) unrecognisable: BTreeSet<VolumeId>,
    /// How often each operation was tried, over all lives, so that each try has luck of its own.
    attempts: HashMap<u64, u64>,
    pub(crate) next_waiter: u64,

    pub(crate) planning: Planning,
    pub(crate) sabotage: Option<Sabotage>,
    without: Option<&'static str>,
    pub(crate) thorough_every: u64,
    pub(crate) faults: Counts,
    pub(crate) operations: u64,
    pub(crate) steps: u64,
    pub(crate) trace: Trace,
    pub(crate) failure: Option<Failure>,
    /// Whether anything changed since the last step about what is mounted, attached or reported.
    pub(crate) holdings_changed: bool,
    /// How many times in a row the engine was woken without time passing.
    idle_wakes: u32,
}

/// A kill that falls before one of the next steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedKill {
    pub(crate) steps: u32,
    pub(crate) start: Start,
}

/// Something that will happen.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// An entry of the script begins.
    Stimulus(usize),
    /// An entry of the script that lasts is over.
    StimulusOver(usize),
    /// A planned kill comes even though no operation ran.
    KillAnyway,

    ProcessStarts(Start),
    ScanRuns(u64),
    ScanEnds(u64),
    DriverTold {
        life: u64,
        driver: usize,
    },
    DriverUp {
        driver: usize,
    },
    FlightStep {
        life: u64,
        id: OperationId,
    },
    FlightBegins {
        life: u64,
        id: OperationId,
    },
    CallFinishes(CallId),
    CallAnswers(CallId),
    MountSeen {
        life: u64,
        place: MountPlace,
    },

    ListRuns {
        life: u64,
        source: usize,
        connection: u64,
    },
    Delivered {
        life: u64,
        delivery: Delivery,
    },
    Resolved {
        life: u64,
        pod: usize,
    },

    AttacherLooks(VolumeId),
    AttachEnds(VolumeId),
    DetachVerified(VolumeId),
    DetachEnds(VolumeId),
    Relisted(VolumeId),
    AttachmentTold {
        life: u64,
        volume: VolumeId,
        version: u64,
        attachment: Attachment,
    },
    AttachmentsTold {
        life: u64,
    },
    ReportSent {
        life: u64,
    },
    ReportStored {
        life: u64,
        version: u64,
        volumes: Vec<VolumeId>,
    },
    ReportAnswered {
        life: u64,
        version: u64,
        listed: Vec<(VolumeId, u64, bool)>,
    },
}

#[derive(Clone, Debug)]
struct Queued {
    at: Time,
    order: u64,
    happening: Happening,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    /// The heap gives the greatest first, so the earliest counts as the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(setting: Setting, script: Script, options: &Options) -> Self {
        let setting = Arc::new(setting);
        let mut world = Self {
            now: Time::ZERO,
            queue: BinaryHeap::new(),
            next_order: 0,
            kernel: Kernel::default(),
            disk: Disk::default(),
            disk_synced: Time::ZERO,
            drivers: setting.drivers.iter().map(|_| Driver { up: true, ..Driver::default() }).collect(),
            calls: BTreeMap::new(),
            next_call: 1,
            node_attached: BTreeSet::new(),
            contents: BTreeMap::new(),
            made: BTreeMap::new(),
            sources: Sources::new(&setting),
            apiserver: ApiServer::default(),
            attacher: Attacher::default(),
            conditions: Conditions::new(&setting),
            process: None,
            life: 0,
            boot: 1,
            kill: None,
            edges: 0,
            unrecognisable: BTreeSet::new(),
            attempts: HashMap::new(),
            next_waiter: 1,
            planning: options.planning,
            sabotage: options.sabotage,
            without: options.without,
            thorough_every: options.thorough_every.max(1),
            faults: Counts::default(),
            operations: 0,
            steps: 0,
            trace: if options.trace { Trace::kept() } else { Trace::none() },
            failure: None,
            holdings_changed: false,
            idle_wakes: 0,
            setting,
            script,
        };
        let start = world.script.first_start;
        world.schedule(Time::ZERO, Happening::ProcessStarts(start));
        for index in 0..world.script.entries.len() {
            let at = world.script.entries[index].at;
            world.schedule(at, Happening::Stimulus(index));
        }
        world
    }

    /// Puts something into the future.
    pub(crate) fn schedule(&mut self, at: Time, happening: Happening) {
        self.next_order += 1;
        self.queue.push(Queued { at: at.max(self.now), order: self.next_order, happening });
    }

    /// Puts something so many milliseconds into the future.
    pub(crate) fn schedule_in(&mut self, delay: u64, happening: Happening) {
        self.schedule(Time(self.now.0 + delay), happening);
    }

    /// A generator for one matter; see [`Rng::keyed`].
    pub(crate) fn luck(&self, key: &[u64]) -> Rng {
        Rng::keyed(self.setting.seed, key)
    }

    /// A generator for the next try of an operation.
    pub(crate) fn luck_of_try(&mut self, operation: &Operation) -> Rng {
        let pod = operation.action.pod().map_or(0, |it| number_of(it.as_str()));
        let volume = number_of(operation.volume().as_str());
        let kind = operation.action.kind() as u64;
        let which = self.luck(&[10, volume, pod, kind]).number();
        let attempt = self.attempts.entry(which).or_default();
        *attempt += 1;
        let key = [10, volume, pod, kind, *attempt];
        self.luck(&key)
    }

    /// Notes that a promise was broken. The first time counts.
    pub(crate) fn fail(&mut self, check: &'static str, message: String) {
        let now = self.now;
        self.trace.note(now, || format!("BROKEN {check}: {message}"));
        if self.failure.is_none() {
            self.failure = Some(Failure { check, message, at: now });
        }
    }

    /// Notes what a check found.
    pub(crate) fn verdict(&mut self, check: &'static str, result: Result<(), String>) {
        if let Err(message) = result
            && self.without != Some(check)
        {
            self.fail(check, message);
        }
    }

    /// Notes a line for people.
    pub(crate) fn note(&mut self, words: impl FnOnce() -> String) {
        let now = self.now;
        self.trace.note(now, words);
    }

    /// When the engine wants to be woken, as late as timers are at the moment.
    fn wake_at(&self) -> Option<Time> {
        let deadline = self.process.as_ref()?.engine.deadline()?;
        Some(Time(deadline.0 + self.conditions.timer_delay(self.now)).max(self.now))
    }

    /// When something happens next.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let queued = self.queue.peek().map(|it| it.at);
        match (queued, self.wake_at()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Whether nothing is on its way, apart from what the engine wants to be woken for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// Lets the next thing happen; says whether there was one.
    pub(crate) fn step(&mut self) -> bool {
        let wake = self.wake_at();
        let queued = self.queue.peek().map(|it| it.at);
        match (queued, wake) {
            (None, None) => return false,
            (queued, Some(wake)) if queued.is_none_or(|it| wake < it) => self.wake(wake),
            _ => {
                if let Some(next) = self.queue.pop() {
                    self.now = next.at;
                    self.idle_wakes = 0;
                    self.happen(next.happening);
                }
            }
        }
        self.steps += 1;
        checks::after_step(self);
        true
    }

    /// Lets everything happen up to this moment.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.failure.is_none() && self.next_at().is_some_and(|it| it <= end) {
            self.step();
        }
        if self.failure.is_none() {
            self.now = self.now.max(end);
        }
    }

    fn wake(&mut self, at: Time) {
        if at > self.now {
            self.idle_wakes = 0;
        }
        self.idle_wakes += 1;
        self.now = at;
        if self.idle_wakes > 100 {
            return self.fail("idle", "the engine wants to be woken again and again without time passing (I-8)".into());
        }
        if self.conditions.timer_delay(at) > 0 {
            self.faults.add(Fault::TimerLate);
        }
        self.tell(Event::TimePassed);
    }

    fn happen(&mut self, happening: Happening) {
        self.comes_to(&happening);
        match happening {
            Happening::Stimulus(index) => self.stimulus(index),
            Happening::StimulusOver(index) => self.stimulus_over(index),
            Happening::KillAnyway => self.kill_anyway(),
            Happening::ProcessStarts(start) => self.process_starts(start),
            Happening::ScanRuns(life) if self.lives(life) => self.scan_runs(),
            Happening::ScanEnds(life) if self.lives(life) => self.scan_ends(),
            Happening::DriverTold { life, driver } if self.lives(life) => self.driver_told(driver),
            Happening::DriverUp { driver } => self.driver_up(driver),
            Happening::FlightStep { life, id } if self.lives(life) => self.flight_step(id),
            Happening::FlightBegins { life, id } if self.lives(life) => self.flight_begins(id),
            Happening::CallFinishes(call) => self.call_finishes(call),
            Happening::CallAnswers(call) => self.call_answers(call),
            Happening::MountSeen { life, place } if self.lives(life) => self.mount_seen(&place),
            Happening::ListRuns { life, source, connection } if self.lives(life) => self.list_runs(source, connection),
            Happening::Delivered { life, delivery } if self.lives(life) => self.delivered(delivery),
            Happening::Resolved { life, pod } if self.lives(life) => self.resolved(pod),
            Happening::AttacherLooks(volume) => self.attacher_looks(&volume),
            Happening::AttachEnds(volume) => self.attach_ends(&volume),
            Happening::DetachVerified(volume) => self.detach_verified(&volume),
            Happening::DetachEnds(volume) => self.detach_ends(&volume),
            Happening::Relisted(volume) => self.relisted(&volume),
            Happening::AttachmentTold { life, volume, version, attachment } if self.lives(life) => {
                self.attachment_told(volume, version, attachment)
            }
            Happening::AttachmentsTold { life } if self.lives(life) => self.attachments_told(),
            Happening::ReportSent { life } if self.lives(life) => self.report_sent(),
            Happening::ReportStored { life, version, volumes } => self.report_stored(life, version, volumes),
            Happening::ReportAnswered { life, version, listed } if self.lives(life) => {
                self.report_answered(version, listed)
            }
            // Meant for a process that is no more.
            Happening::ScanRuns(_)
            | Happening::ScanEnds(_)
            | Happening::DriverTold { .. }
            | Happening::FlightStep { .. }
            | Happening::FlightBegins { .. }
            | Happening::MountSeen { .. }
            | Happening::ListRuns { .. }
            | Happening::Delivered { .. }
            | Happening::Resolved { .. }
            | Happening::AttachmentTold { .. }
            | Happening::AttachmentsTold { .. }
            | Happening::ReportSent { .. }
            | Happening::ReportAnswered { .. } => {}
        }
    }

    /// Is this life of the process the present one?
    pub(crate) fn lives(&self, life: u64) -> bool {
        self.process.as_ref().is_some_and(|it| it.life == life)
    }

    /// The index of a pod that the setting knows.
    pub(crate) fn pod_index(&self, uid: &PodUid) -> Option<usize> {
        self.setting.pod_index(uid)
    }
}
