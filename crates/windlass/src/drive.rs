//! The one thread that drives the engine: messages come in, facts go to the engine, operations go out to workers, and it
//! sleeps until the next message or the next deadline. It does nothing that can block, and decides nothing.
//!
//! Its state lies in rooms: what is wanted ([`wishes`]), what is under way ([`operations`]), what is here ([`holdings`]), how
//! far the start has come ([`start`]), who waits ([`waits`]), what is made for claims ([`provision`]), the one alarm clock
//! ([`alarms`]), and whom it tells ([`outside`]).

mod alarms;
mod departing;
mod directories;
mod drivers;
mod errands;
mod held;
mod holdings;
mod inbox;
mod lanes;
mod message;
mod objects;
mod operations;
mod outside;
mod pods;
mod provision;
mod reading;
mod recorder;
mod retry;
mod show;
mod start;
mod turns;
mod waits;
mod wishes;

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::ids::{PodUid, Time, VolumeId};
use windlass_core::notice::Notice;
use windlass_core::reason::Code;
use windlass_core::recording::Entry;
use windlass_core::{Engine, Event};

use self::alarms::{Alarm, Alarms};
use self::holdings::Holdings;
use self::inbox::Inbox;
pub(crate) use self::message::{About, Message, Question};
use self::operations::Operations;
pub(crate) use self::outside::Outside;
pub(crate) use self::provision::Provisions;
use self::reading::Reading;
pub(crate) use self::recorder::Recorder;
use self::start::Start;
use self::waits::Waits;
pub(crate) use self::wishes::{Standing, Wishes};
use crate::node::{Change, Ended, Report};
use crate::under_way::UnderWay;

/// So many messages without a pause leave memory behind that is worth giving back.
const BURST: u32 = 500;
/// A pause.
const QUIET: Duration = Duration::from_millis(100);

/// How long a driver may take to register before owners of pods are told that it is missing: at the start of a node pods
/// come before drivers, and that is nobody's concern.
const DRIVER_COMES: Duration = Duration::from_secs(5);

pub(crate) struct Drive {
    engine: Engine,
    outside: Outside,
    wishes: Wishes,
    operations: Operations,
    holdings: Holdings,
    start: Start,
    waits: Waits,
    provisions: Provisions,
    reading: Reading,
    alarms: Alarms,
    report: Report,
    messages: Messages,
    stopping: Option<Stopping>,
    /// How it ends, if nobody stops it.
    ended: Option<Ended>,
}

/// What was heard so far.
#[derive(Default)]
struct Messages {
    /// How many of each kind.
    counts: BTreeMap<&'static str, u64>,
    /// How many since the last pause, if that matters.
    burst: u32,
    gives_memory_back: bool,
}

/// The end is near.
struct Stopping {
    until: Time,
    /// Told how many operations still ran.
    done: Vec<oneshot::Sender<usize>>,
}

/// A drive that has ended.
pub(crate) struct Over {
    pub(crate) ended: Ended,
    /// How many operations still ran.
    running: usize,
    done: Vec<oneshot::Sender<usize>>,
}

impl Over {
    /// Tells whoever stopped it. Everybody must be able to know by then that it has ended.
    pub(crate) fn tell(self) {
        for done in self.done {
            let _ = done.send(self.running);
        }
    }
}

/// What a drive begins with.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) outside: Outside,
    pub(crate) wishes: Wishes,
    pub(crate) provisions: Provisions,
    pub(crate) under_way: Arc<UnderWay>,
    pub(crate) keep_directories: bool,
    pub(crate) gives_memory_back: bool,
    pub(crate) report: Report,
}

impl Drive {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { engine, outside, wishes, provisions, under_way, keep_directories, gives_memory_back, report } =
            parts;
        Self {
            operations: Operations::new(outside.executor.scene.drivers.clone(), under_way),
            engine,
            outside,
            wishes,
            holdings: Holdings::new(keep_directories),
            start: Start::default(),
            waits: Waits::default(),
            provisions,
            reading: Reading::default(),
            alarms: Alarms::default(),
            report,
            messages: Messages { gives_memory_back, ..Messages::default() },
            stopping: None,
            ended: None,
        }
    }

    /// Runs until it is told to stop, cannot go on, or nobody is left to tell it anything.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) -> Over {
        self.read_disk();
        let mut inbox = Inbox::new(messages);
        loop {
            self.take_begun();
            self.ring();
            self.settle();
            if self.is_over() || self.ended.is_some() {
                break;
            }
            let due = [self.engine.deadline(), self.alarms.next(), self.stopping.as_ref().map(|it| it.until)];
            let due = due.into_iter().flatten().min();
            let pause = (self.messages.burst >= BURST).then_some(QUIET);
            match inbox.next(|| due.map(|at| at.since(self.now())).into_iter().chain(pause).min()) {
                Ok(message) => {
                    self.messages.burst = self.messages.burst.saturating_add(self.messages.gives_memory_back.into());
                    *self.messages.counts.entry(message.kind()).or_default() += 1;
                    self.hear(message);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if mem::take(&mut self.messages.burst) >= BURST {
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
        let (running, ended) = (self.operations.running.len(), self.ended.take().unwrap_or(Ended::Stopped));
        // Whoever is told may begin anew at once, if nothing works here any more: what the drive holds goes before that.
        Over { ended, running, done: self.stopping.take().map(|it| it.done).unwrap_or_default() }
    }

    /// Takes in one message.
    fn hear(&mut self, message: Message) {
        match message {
            Message::Source(source, said) => self.source_said(&source, said),
            Message::ObjectGiven(object) => self.object_given(object),
            Message::ObjectGone(reference) => self.object_gone(&reference),
            Message::ObjectUnavailable { reference, why } => self.object_unavailable(&reference, &why),
            Message::Driver(news) => self.driver_news(news),
            Message::MountsChanged(changes) => self.mounts_changed(&changes),
            Message::MountsUnreadable(text) => self.outside.say(Change::Damaged { text: text.into() }),
            Message::MountSeen { place, expected, proof } => self.mount_seen(place, expected, proof),
            Message::DiskRead(Ok(remains)) => self.disk_was_read(*remains),
            Message::DiskRead(Err(failure)) => self.disk_is_unreadable(&failure.text),
            Message::ProcessEnded(process) => self.process_has_ended(process),
            Message::StateLost(loss) => self.state_is_lost(&loss),
            Message::StateRenewed(renewed) => self.state_was_renewed(renewed),
            Message::InUseReported(version) => self.tell(Event::InUseReported { version }),
            // Nothing to do: the loop reads which have begun before every sleep.
            Message::OperationsBegan => {}
            Message::ErrandBegan => self.look_at_errands_later(),
            Message::OperationEnded(id, ended) => self.operation_ended(id, ended),
            Message::OperationsEnded(ended) => {
                ended.into_iter().for_each(|(id, ended)| self.operation_ended(id, ended));
            }
            Message::DirectoryDone(pod, done) => self.directory_done(&pod, done),
            Message::ClaimWorked(claim, worked) => self.claim_worked(&claim, *worked),
            Message::WaitBegan { waiter, pod, goal, within, answer } => {
                self.wait_began(waiter, pod, goal, within, answer);
            }
            Message::WaitCancelled(waiter) => self.wait_cancelled(waiter),
            Message::ReleaseAwaited(pod, answer) => self.release_awaited(&pod, answer),
            Message::Retry { pod, volume, answer } => {
                let _ = answer.send(self.retry(pod.as_ref(), volume.as_deref()));
            }
            Message::RetryClaim(claim, answer) => _ = answer.send(self.retry_claims(|_, it| *it == claim).pop()),
            Message::Republish(pod) => self.republish(&pod),
            Message::RemoveDirectory(pod) => self.remove_directory(&pod),
            order @ (Message::DeletePod(..) | Message::DeleteOrphans(..) | Message::DeleteClaim(..)) => {
                self.once_read(self.now(), order);
            }
            Message::Question(Question { about, look }) => {
                self.tell_turns(&about);
                look(self);
            }
            Message::BrokeOff(text) => panic!("{text}"),
            Message::Stop { within, done } => self.stop(within, done),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How many messages of each kind there were.
    pub(crate) fn messages(&self) -> &BTreeMap<&'static str, u64> {
        &self.messages.counts
    }

    fn now(&self) -> Time {
        self.outside.now()
    }

    /// Tells the engine a fact.
    fn tell(&mut self, event: Event) {
        let at = self.now();
        self.outside.record(|| Entry::Told { at, event: event.clone() });
        self.engine.handle(at, event);
    }

    /// Does what is due.
    fn ring(&mut self) {
        while let Some(alarm) = self.alarms.due(self.now()) {
            match alarm {
                Alarm::ReadDisk => self.read_disk(),
                Alarm::Errands => self.look_at_errands(),
                Alarm::Review => self.review(),
                Alarm::Listen => self.listen(),
                Alarm::Renew(pod, volume) => {
                    self.holdings.renewals.is_due(&pod, &volume);
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
                self.outside.record(|| Entry::Gave(operation.clone()));
                if self.stopping.is_none() {
                    self.begin_operation(operation);
                }
            } else if let Some(notice) = self.engine.next_notice() {
                self.pass_on(notice);
            } else if let Some((oddity, text)) = self.engine.next_oddity() {
                self.outside.say(Change::Oddity { oddity, text: text.into() });
            } else if let Some(pod) = self.wishes.fresh.pop() {
                self.make_directory(pod);
            } else {
                return self.send_errand();
            }
        }
    }

    fn pass_on(&mut self, notice: Notice) {
        match notice {
            Notice::WaitEnded { waiter, result } => self.wait_ended(waiter, result),
            Notice::VolumeChanged { volume, pod, code } => self.volume_changed(volume, pod, code),
            Notice::PodReleased(pod) => self.release(&pod),
            Notice::RereadWanted { as_of } => self.reread(as_of),
            Notice::HoldEnded(pod) => self.hold_ended(&pod),
            Notice::Synced => self.outside.say(Change::Synced),
            Notice::InUseChanged { version } => {
                if self.report == Report::Asked {
                    self.tell(Event::InUseReported { version });
                }
                self.outside.say(Change::InUse { version });
            }
            Notice::ExpansionEnded { volume, verdict } => {
                self.expansion_has_ended(&volume, &verdict);
                self.outside.say(Change::Expansion { volume, verdict });
            }
        }
    }

    /// A volume, or a pod's mount of it, stands differently than before.
    fn volume_changed(&mut self, volume: VolumeId, pod: Option<PodUid>, code: Code) {
        if let Some(pod) = &pod {
            self.note_standing(pod);
        }
        if code == Code::DriverMissing {
            self.alarms.set(self.now() + DRIVER_COMES, Alarm::DriverMissing(volume.clone(), pod.clone()));
        }
        if pod.is_none()
            && code == Code::BackingOff
            && let Some(deepest) = self.engine.explain_growth(&volume).last()
        {
            self.tell_of_failed_growth(&volume, &deepest.text);
        }
        let mounted = pod.clone().filter(|_| code == Code::Mounted).filter(|it| self.is_mounted(it));
        self.outside.say(Change::Volume { volume, pod, code });
        if let Some(pod) = mounted {
            self.outside.say(Change::PodMounted(pod));
        }
    }

    /// Whether all volumes of a pod are mounted, if anybody listens.
    fn is_mounted(&self, pod: &PodUid) -> bool {
        self.outside.is_heard()
            && self.engine.pod_status(pod).is_some_and(|it| it.unmounted.is_empty() && it.errors.is_empty())
    }

    /// Begins no operation any more, and ends when those that run have ended or the time is up.
    fn stop(&mut self, within: Duration, done: Option<oneshot::Sender<usize>>) {
        let until = self.now() + within;
        let stopping = self.stopping.get_or_insert_with(|| Stopping { until, done: Vec::new() });
        stopping.until = stopping.until.min(until);
        stopping.done.extend(done);
    }

    fn is_over(&self) -> bool {
        self.stopping.as_ref().is_some_and(|it| self.operations.are_over() || self.now() >= it.until)
    }
}
