//! One life of the process: the real engine, and what the shell around it knows.
//!
//! The shell decides nothing. It carries facts to the engine, runs its operations and passes on its notices; what it
//! remembers here is what any shell must, and what the checks need to judge the engine by what it was told.

use crate::checks::waiters;
use crate::conditions::Refusal;
use crate::describe::{describe, describe_notice};
use crate::executor::Flight;
use crate::faults::Fault;
use crate::source::{LogVersion, PodState};
use crate::world::{Happening, World};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::event::{Attachment, Goal, MountPlace, Wait};
use windlass_core::ids::{OperationId, PodUid, Time, Version, VolumeId, WaiterId};
use windlass_core::notice::{Notice, Verdict};
use windlass_core::operation::{Proof, Trouble};
use windlass_core::{Engine, Event};

/// A process that runs.
pub struct Process {
    /// The engine.
    pub engine: Engine,
    /// Which life it is.
    pub life: u64,
    /// The operations that run.
    pub flights: BTreeMap<OperationId, Flight>,
    /// The newest state of each pod that the engine was told of in this life.
    pub told: BTreeMap<usize, LogVersion>,
    /// The pods that the engine has in mind, with the newest version of each that it was told: none of one that was only found,
    /// also where a list left it out. It forgets a pod when nothing of it is left.
    pub known: BTreeMap<PodUid, Version>,
    /// What the engine was told a pod's name stands for, while the pod names it.
    pub resolved: BTreeMap<(usize, usize), VolumeId>,
    /// The pods' volumes, by pod and index, of which the engine was told that they could not be looked up.
    pub unknown: BTreeSet<(usize, usize)>,
    /// Which sources are complete, as far as the engine was told.
    pub complete: Vec<bool>,
    /// Which sources were ever complete in this life.
    pub complete_once: Vec<bool>,
    /// The pods that were missing in the first list of their source, and that it has not told of since.
    pub missing: BTreeSet<usize>,
    /// The pods that were looked up again while their source was away.
    pub looked_up_alone: BTreeSet<usize>,
    /// Whether what is on disk was told.
    pub found: bool,
    /// Whether the engine was told that it knows the whole disk.
    pub disk_read: bool,
    /// Whether there was a moment at which the engine had been told of all sources, the disk and all attachments.
    pub all_known_once: bool,
    /// Whether pods came before the disk was read.
    pub slow_scan: bool,
    /// The drivers that the engine was told are registered.
    pub drivers: BTreeSet<usize>,
    /// What the engine was told of attachments, and how new that is.
    pub attachments: BTreeMap<VolumeId, (u64, Attachment)>,
    /// Whether the engine was told that it knows all attachments.
    pub attachments_complete: bool,
    /// Whether a report of what is in use is on its way.
    pub reporting: bool,
    /// Whether another report is due after that.
    pub report_again: bool,
    /// Those who wait, for which pod, what and until when.
    pub waiters: BTreeMap<WaiterId, Wait>,
    /// The places of which a change is on its way to the engine, and how many.
    pub undelivered: BTreeMap<MountPlace, u32>,
    /// The mounts of earlier lives that this life has no reason to touch, with their content (I-11).
    pub proven: BTreeMap<MountPlace, (Proof, u64)>,
    /// The volumes of which the engine was told that they cannot grow.
    pub refused_growth: BTreeMap<VolumeId, RefusedGrowth>,
    /// What the engine was told of the last operation for a volume, or for a pod's mount of it, where that failed.
    pub failures: BTreeMap<(VolumeId, Option<PodUid>), Trouble>,
    /// How far the clock goes back for the next event.
    pub clock_back: u64,
}

/// What the engine was told about a volume that does not grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedGrowth {
    /// Not while it is in use.
    InUse,
    /// Not to this size.
    To(u64),
}

impl Process {
    /// A process that has told its engine nothing yet.
    pub fn new(engine: Engine, life: u64, sources: usize) -> Self {
        Self {
            engine,
            life,
            flights: BTreeMap::new(),
            told: BTreeMap::new(),
            known: BTreeMap::new(),
            resolved: BTreeMap::new(),
            unknown: BTreeSet::new(),
            complete: vec![false; sources],
            complete_once: vec![false; sources],
            missing: BTreeSet::new(),
            looked_up_alone: BTreeSet::new(),
            found: false,
            disk_read: false,
            all_known_once: false,
            slow_scan: false,
            drivers: BTreeSet::new(),
            attachments: BTreeMap::new(),
            attachments_complete: false,
            reporting: false,
            report_again: false,
            waiters: BTreeMap::new(),
            undelivered: BTreeMap::new(),
            proven: BTreeMap::new(),
            refused_growth: BTreeMap::new(),
            failures: BTreeMap::new(),
            clock_back: 0,
        }
    }

    /// The engine hears what a source says of a pod. Is it news, and not older than what the engine knows?
    pub fn hears_of(&mut self, pod: &PodUid, version: Version, state: PodState) -> bool {
        let known = self.known.get(pod).copied();
        let news = known.is_none_or(|it| it <= version);
        // Of a pod that was not known and is gone nothing is kept, once all is read that may be left of it.
        let kept = known.is_some() || state != PodState::Absent || !self.disk_read;
        if news && kept {
            self.known.insert(pod.clone(), version);
        }
        news
    }

    /// Is anything on its way that concerns this place: a running operation, or a change that the engine does not know yet?
    pub fn is_unsettled(&self, place: &MountPlace) -> bool {
        self.undelivered.contains_key(place) || self.flights.values().any(|it| it.place.as_ref() == Some(place))
    }
}

impl World {
    /// Tells the engine a fact, starts what it asks for and passes on what it says.
    pub(crate) fn tell(&mut self, event: Event) {
        let Some(process) = &mut self.process else {
            return;
        };
        let now = self.now;
        self.trace.note(now, || describe(&event));
        if let Event::MountSeen { place, proof } = &event
            && let Some((proven, _)) = process.proven.get(place)
            && !proof.is_some_and(|it| proven.holds_for(&it))
        {
            process.proven.remove(place);
        }
        if let Event::FoundPod { uid: pod, .. }
        | Event::FoundPublished { pod, .. }
        | Event::FoundUnreadable { pod, .. } = &event
        {
            process.known.entry(pod.clone()).or_insert(Version::NONE);
        }
        process.all_known_once |=
            process.disk_read && process.attachments_complete && process.complete.iter().all(|it| *it);
        let back = std::mem::take(&mut process.clock_back);
        if back > 0 {
            self.faults.add(Fault::ClockBack);
        }
        process.engine.handle(Time(now.0.saturating_sub(back)), event);
        while let Some(operation) = self.process.as_mut().and_then(|it| it.engine.next_operation()) {
            self.start_flight(operation);
        }
        while let Some(notice) = self.process.as_mut().and_then(|it| it.engine.next_notice()) {
            self.notice(notice);
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.trace.is_kept()
            && let Some(words) = describe_notice(&notice)
        {
            self.note(|| words);
        }
        match notice {
            Notice::InUseChanged { .. } | Notice::Synced => self.report_soon(),
            Notice::PodReleased(pod) => {
                if let Some(process) = &mut self.process {
                    process.known.remove(&pod);
                }
                if let Err(volume) = self.disk.remove_pod_directory(&pod) {
                    self.fail(
                        "pod directory",
                        format!("pod {pod} was released with {volume} still in its directory (I-5)"),
                    );
                }
            }
            Notice::WaitEnded { waiter, result } => self.wait_ended(waiter, result.is_ok()),
            Notice::ExpansionEnded { volume, verdict } => self.expansion_ended(&volume, &verdict),
            Notice::VolumeChanged { .. } | Notice::HoldEnded(_) | Notice::RereadWanted { .. } => {}
        }
    }

    /// Somebody starts to wait for a pod.
    pub(crate) fn wait_starts(&mut self, pod: usize, goal: Goal, lasts: u64) {
        let until = Time(self.now.0 + lasts);
        let pod = self.setting.pods[pod].uid.clone();
        let waiter = WaiterId(self.next_waiter);
        let Some(process) = &mut self.process else {
            return;
        };
        self.next_waiter += 1;
        let wait = Wait { waiter, pod, goal, until };
        process.waiters.insert(waiter, wait.clone());
        self.tell(Event::WaitStarted(wait));
    }

    fn wait_ended(&mut self, waiter: WaiterId, reached: bool) {
        if let Some(process) = &mut self.process {
            let wait = process.waiters.remove(&waiter);
            let result = waiters::check_answer(process, wait.as_ref(), reached);
            self.verdict(waiters::NAME, result);
        }
    }

    /// What the outcome of growing a volume does to its claim.
    fn expansion_ended(&mut self, volume: &VolumeId, verdict: &Verdict) {
        let Some(index) = self.setting.volume_index(volume) else {
            return;
        };
        match verdict {
            Verdict::Grown { size_bytes } => {
                self.conditions.sizes[index].recorded_bytes = Some(*size_bytes);
                self.sources.forget_specs(index);
                self.conditions.growth_refused.remove(&index);
            }
            Verdict::Infeasible(_) => {
                self.conditions.growth_refused.insert(index, Refusal::ThisSize);
            }
            Verdict::InUse(_) => {
                self.conditions.growth_refused.insert(index, Refusal::InUse);
            }
            Verdict::Failed(_) => {}
        }
    }

    /// Something changed at a place: the process will see it.
    pub(crate) fn mount_changed(&mut self, place: &MountPlace) {
        let Some(process) = &mut self.process else {
            return;
        };
        *process.undelivered.entry(place.clone()).or_default() += 1;
        let life = process.life;
        let delay = 1 + self.luck(&[11, self.steps]).below(40);
        let place = place.clone();
        self.schedule_in(delay, Happening::MountSeen { life, place });
    }

    /// The process sees what is at a place now.
    pub(crate) fn mount_seen(&mut self, place: &MountPlace) {
        if let Some(process) = &mut self.process
            && let Some(count) = process.undelivered.get_mut(place)
        {
            *count -= 1;
            if *count == 0 {
                process.undelivered.remove(place);
            }
        }
        let proof = self.kernel.seen(place);
        self.tell(Event::MountSeen { place: place.clone(), proof });
    }
}
