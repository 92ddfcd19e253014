//! Compares what is wanted with what is held, for one volume, and says what comes next. Nothing else decides.
//!
//! The order inside one volume is the kubelet's (E-181, E-183): take it from pods that do not want it; attach, stage and
//! publish for those that do; grow it; unstage; detach. Planning changes nothing and looks at one volume and the facts
//! around it, so planning a volume that nothing happened to gives what it gave before.

use crate::actual::{Mount, PodKey, Volume, VolumeKey};
use crate::backoff::Backoff;
use crate::desired::{Ignorance, Wanting, wanting};
use crate::event::Attachment;
use crate::ids::{OperationId, Time};
use crate::label;
use crate::operation::{Action, OperationKind};
use crate::spec::{Attach, Concurrency, Life, Phase, Refresh, Sharing, VolumeSpec};
use crate::step::Step;
use crate::table::Table;
use crate::world::World;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// A mount is not refreshed more often than this for its period's sake: a period of nothing would never rest.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The plan for one volume.
pub(crate) enum Plan {
    /// This must begin; then the volume is planned again.
    Run(Action),
    /// Nothing can begin.
    Rest(Rest),
}

/// How a volume stands in which nothing can begin.
pub(crate) struct Rest {
    pub(crate) volume: Status,
    /// One for each of [`Volume::mounts`].
    pub(crate) mounts: Vec<Status>,
    /// Whether it belongs to the set of volumes in use (E-38).
    pub(crate) in_use: bool,
    /// When it must be planned again even if nothing happens.
    pub(crate) wake_at: Option<Time>,
}

/// Settled, or waiting for this.
pub(crate) type Status = Option<Wait>;

/// What a volume or a pod's mount of it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Its own operation must end.
    Running(OperationId),
    /// Another operation of the volume must end.
    Busy(OperationId),
    /// The time of the next try must come.
    Backoff(Time),
    /// The driver must register.
    Driver,
    /// The volume must be reported as in use.
    Report,
    /// The attacher must attach it.
    Attacher,
    /// The attacher must attach it again.
    AttachmentLost,
    /// The volume must be attached first.
    Attach,
    /// The volume must be staged first.
    Stage,
    /// The volume must grow first.
    Growth,
    /// The pod that has it must let go (RWOP).
    OtherPod(PodKey),
    /// The pods that have it must let go before it can be taken down; this is one of them.
    Pods(PodKey),
    /// The pod that came first has another label.
    LabelConflict(PodKey),
    /// What is mounted with another label must go first.
    LabelMismatch,
    /// The pod's older volume at the same place must go first.
    Identity(VolumeKey),
    /// The start must be over before anything is taken away.
    Start,
    /// The disk must have been read before it is known who has it.
    Disk,
    /// Whether it is wanted must become known.
    Ignorance(Ignorance),
}

/// What comes next for a volume or a mount.
enum Next {
    Settled,
    Run(Action),
    Wait(Wait),
}

impl Next {
    /// How it stands, unless something must begin.
    fn status(self) -> Result<Status, Action> {
        match self {
            Self::Settled => Ok(None),
            Self::Wait(wait) => Ok(Some(wait)),
            Self::Run(action) => Err(action),
        }
    }
}

/// Plans one volume.
pub(crate) fn plan(key: VolumeKey, volumes: &Table<Volume>, world: &World) -> Plan {
    match Planner::new(key, volumes, world).plan() {
        Ok(rest) => Plan::Rest(rest),
        Err(action) => Plan::Run(action),
    }
}

/// One volume on the way through its plan.
struct Planner<'a> {
    key: VolumeKey,
    volume: &'a Volume,
    volumes: &'a Table<Volume>,
    world: &'a World,
    /// One for each of the volume's mounts.
    wants: Vec<Wanting>,
    /// The pod whose label counts: the first that wants it and may have it, else the first that wants it.
    lead: Option<usize>,
    /// A publish or refresh that runs for one of the pods.
    publishing: Option<OperationId>,
    /// An unpublish that runs for one of the pods.
    unpublishing: Option<OperationId>,
    /// Whether growing waits for the operations of pods to end, so that no new one may begin.
    draining: bool,
    /// When the first wait is over by itself.
    wake_at: Option<Time>,
}

/// Whether the volume can be used as far as attaching goes.
enum Attachedness {
    Ready,
    /// Somebody else has to do something.
    Missing(Wait),
    /// This node has to attach it.
    Ours,
}

/// When a mount is brought up to date.
enum Due {
    Never,
    Now,
    At(Time),
}

impl<'a> Planner<'a> {
    fn new(key: VolumeKey, volumes: &'a Table<Volume>, world: &'a World) -> Self {
        let volume = &volumes[key];
        let wants: Vec<Wanting> = volume.mounts.iter().map(|it| wanting(it, world)).collect();
        let wanted = |index: &usize| wants[*index] == Wanting::Wanted;
        let lead = (0..wants.len())
            .filter(wanted)
            .find(|&it| volume.mounts[it].step.may_be_here())
            .or_else(|| (0..wants.len()).find(wanted));
        let mut publishing = None;
        let mut unpublishing = None;
        for mount in &volume.mounts {
            match mount.step {
                Step::Undoing { operation, .. } => unpublishing = Some(operation),
                Step::Doing { operation, .. } => publishing = Some(operation),
                Step::Absent | Step::Held(_) | Step::Uncertain(_) => {}
            }
            publishing = publishing.or(mount.refreshing);
        }
        let (draining, wake_at) = (false, None);
        Self { key, volume, volumes, world, wants, lead, publishing, unpublishing, draining, wake_at }
    }

    /// Goes through the volume in its order; the first thing that can begin ends the way.
    fn plan(mut self) -> Result<Rest, Action> {
        let mut mounts: Vec<Status> = self.wants.iter().map(|_| None).collect();
        for (index, status) in mounts.iter_mut().enumerate() {
            if self.wants[index] != Wanting::Wanted {
                *status = self.release(index).status()?;
            }
        }
        let volume = self.alone().status()?;
        for (index, status) in mounts.iter_mut().enumerate() {
            if self.wants[index] == Wanting::Wanted {
                *status = self.provide(index).status()?;
            }
        }
        Ok(Rest { volume, mounts, in_use: self.in_use(), wake_at: self.wake_at })
    }

    /// A mount that is not wanted, or of which that is not known.
    fn release(&mut self, index: usize) -> Next {
        let mount = &self.volume.mounts[index];
        if let Some(operation) = mount.operation() {
            return Next::Wait(Wait::Running(operation));
        }
        if let Wanting::Unknown(ignorance) = self.wants[index] {
            return Next::Wait(Wait::Ignorance(ignorance));
        }
        if !mount.step.may_be_here() {
            return Next::Settled;
        }
        if !self.world.start.may_take_away {
            return Next::Wait(Wait::Start);
        }
        let others = match self.volume.spec.capabilities.concurrency {
            Concurrency::Alone => self.publishing.or(self.unpublishing),
            Concurrency::ReleasesOverlap => self.publishing,
            Concurrency::PodsOverlap => None,
        };
        if let Some(operation) = self.volume.operation().or(others) {
            return Next::Wait(Wait::Busy(operation));
        }
        if let Some(wait) = self.hindrance(OperationKind::Unpublish, mount.backoff.as_deref()) {
            return Next::Wait(wait);
        }
        let pod = &self.world.pods[mount.pod];
        Next::Run(Action::Unpublish { pod: pod.uid.clone(), with_pod: pod.life == Life::Gone })
    }

    /// What the volume does alone: attach, stage, expand, unstage, detach.
    fn alone(&mut self) -> Next {
        if let Some(operation) = self.volume.operation() {
            return Next::Wait(Wait::Running(operation));
        }
        let next = if self.lead.is_none() { self.take_down() } else { self.bring_up() };
        let Next::Run(action) = next else { return next };
        if let Some(wait) = self.hindrance(action.kind(), self.volume.backoff.as_deref()) {
            return Next::Wait(wait);
        }
        if let Some(operation) = self.publishing.or(self.unpublishing) {
            // Pods that come and go could keep a volume from ever growing.
            self.draining = matches!(action, Action::Expand { .. });
            return Next::Wait(Wait::Busy(operation));
        }
        Next::Run(action)
    }

    /// Somebody wants it: attach, stage, expand.
    fn bring_up(&self) -> Next {
        let volume = self.volume;
        if self.label_mismatch() {
            return match self.take_down() {
                Next::Settled | Next::Wait(Wait::Pods(_)) => Next::Wait(Wait::LabelMismatch),
                next => next,
            };
        }
        let stages = volume.spec.capabilities.stage;
        let provided = if stages {
            volume.stage.held().is_some()
        } else {
            self.wanted_mounts().all(|it| it.step.held().is_some())
        };
        match self.attachedness() {
            Attachedness::Ready => {}
            Attachedness::Ours => return Next::Run(Action::Attach),
            Attachedness::Missing(wait) if !provided => return Next::Wait(wait),
            Attachedness::Missing(Wait::Attacher) if self.world.start.attachments_complete => {
                return Next::Wait(Wait::AttachmentLost);
            }
            // All is there already, and that the report is on its way is nothing to wait for.
            Attachedness::Missing(_) => {}
        }
        if stages && volume.stage.held().is_none() {
            if self.lead.is_some_and(|it| self.may_be_labelled_otherwise(it)) {
                return Next::Wait(Wait::Disk);
            }
            let label = self.lead.and_then(|it| self.label(it));
            return Next::Run(Action::Stage { after: volume.stage.earlier(), label });
        }
        let grower = volume.mounts.iter().find(|it| it.can_grow());
        if let (Some(to_bytes), Some(from_bytes), Some(mount)) = (volume.grows_to(), volume.size_bytes, grower) {
            let pod = self.world.pods[mount.pod].uid.clone();
            return Next::Run(Action::Expand { pod, from_bytes, to_bytes });
        }
        Next::Settled
    }

    /// Nobody wants it, or not with the label it has: unstage, then detach.
    fn take_down(&self) -> Next {
        let volume = self.volume;
        if let Some(mount) = volume.mounts.iter().find(|it| it.step.may_be_here()) {
            return Next::Wait(Wait::Pods(mount.pod));
        }
        if !volume.may_be_here() {
            return Next::Settled;
        }
        if !self.world.start.may_take_away {
            return Next::Wait(Wait::Start);
        }
        if volume.stage.may_be_here() {
            Next::Run(Action::Unstage)
        } else if self.lead.is_none() {
            Next::Run(Action::Detach)
        } else {
            Next::Settled
        }
    }

    /// A mount that is wanted.
    fn provide(&mut self, index: usize) -> Next {
        let mount = &self.volume.mounts[index];
        if let Some(operation) = mount.operation() {
            return Next::Wait(Wait::Running(operation));
        }
        if let Some(published) = mount.step.held() {
            match self.refresh_due(mount) {
                Due::Now => {}
                Due::Never if published.awaits_growth => return Next::Wait(Wait::Growth),
                Due::Never => return Next::Settled,
                Due::At(at) => {
                    self.wake_at(at);
                    return if published.awaits_growth { Next::Wait(Wait::Growth) } else { Next::Settled };
                }
            }
        } else if let Some(wait) = self.obstacle(index) {
            return Next::Wait(wait);
        }
        if let Some(wait) = self.missing_ground() {
            return Next::Wait(wait);
        }
        let others = match self.volume.spec.capabilities.concurrency {
            Concurrency::PodsOverlap if !self.draining => None,
            Concurrency::Alone | Concurrency::ReleasesOverlap | Concurrency::PodsOverlap => {
                self.publishing.or(self.unpublishing)
            }
        };
        if let Some(operation) = self.volume.operation().or(others) {
            return Next::Wait(Wait::Busy(operation));
        }
        if let Some(wait) = self.hindrance(OperationKind::Publish, mount.backoff.as_deref()) {
            return Next::Wait(wait);
        }
        let Some(used) = &mount.used else {
            return Next::Settled;
        };
        Next::Run(Action::Publish {
            pod: self.world.pods[mount.pod].uid.clone(),
            after: mount.step.earlier(),
            access: used.access,
            revision: used.revision,
            label: self.label(index),
        })
    }

    /// The step that must be held before a mount is made or brought up to date.
    fn missing_ground(&self) -> Option<Wait> {
        if !matches!(self.attachedness(), Attachedness::Ready) {
            return Some(Wait::Attach);
        }
        let staged = !self.volume.spec.capabilities.stage || self.volume.stage.held().is_some();
        (!staged).then_some(Wait::Stage)
    }

    /// What stands between a pod and a volume that it does not have, apart from other operations.
    fn obstacle(&self, index: usize) -> Option<Wait> {
        let volume = self.volume;
        let mount = &volume.mounts[index];
        if let Some(lead) = self.lead
            && let (Some(mine), Some(first)) = (self.wish(index), self.wish(lead))
            && !mine.agrees_with(first)
        {
            return Some(Wait::LabelConflict(volume.mounts[lead].pod));
        }
        if let Some(older) = self.other_at_this_place(mount) {
            return Some(Wait::Identity(older));
        }
        if volume.spec.sharing == Sharing::OnePod
            && let Some(other) = self.other_holder(index)
        {
            return Some(Wait::OtherPod(other));
        }
        if self.has_unknown_rivals(index) {
            return Some(Wait::Disk);
        }
        self.is_labelled_otherwise(index).then_some(Wait::LabelMismatch)
    }

    /// Could the volume turn out to be mounted with another label? Mounts do not wait for the disk to be read, except
    /// where what is found decides who may have the volume.
    fn may_be_labelled_otherwise(&self, index: usize) -> bool {
        !self.world.start.disk_read && self.wish(index).is_some_and(|it| it.enforced)
    }

    /// Could another pod turn out to have it, with whom this one cannot share it?
    fn has_unknown_rivals(&self, index: usize) -> bool {
        let exclusive = self.volume.spec.sharing == Sharing::OnePod && !self.world.start.disk_read;
        exclusive || self.may_be_labelled_otherwise(index)
    }

    /// The pod that has a volume which only one may have (E-122). Where that is doubtful of two, the first goes on.
    fn other_holder(&self, index: usize) -> Option<PodKey> {
        let mounts = &self.volume.mounts;
        let mine = mounts[index].step.may_be_here();
        let goes_first = |it: &usize| !mine || *it < index || !matches!(mounts[*it].step, Step::Uncertain(_));
        let mut others = (0..mounts.len()).filter(|it| *it != index && mounts[*it].step.may_be_here());
        others.find(goes_first).map(|it| mounts[it].pod)
    }

    /// Another volume that the same pod may have at this volume's place (E-417). Of two, the first goes on.
    fn other_at_this_place(&self, mount: &Mount) -> Option<VolumeKey> {
        let pod = &self.world.pods[mount.pod];
        if !pod.contested {
            return None;
        }
        let mine = mount.step.may_be_here();
        let before_mine = pod.mounts.iter().take_while(|it| **it != self.key);
        let after_mine = pod.mounts.iter().skip_while(|it| **it != self.key).skip(1).filter(|_| !mine);
        let has = |it: &&VolumeKey| {
            let other = &self.volumes[**it];
            same_place(other, self.volume) && other.mount(mount.pod).is_some_and(|it| it.step.may_be_here())
        };
        before_mine.chain(after_mine).find(has).copied()
    }

    fn attachedness(&self) -> Attachedness {
        let volume = self.volume;
        match volume.spec.capabilities.attach {
            Attach::NotNeeded => Attachedness::Ready,
            Attach::ByNode if volume.attach.held().is_some() => Attachedness::Ready,
            Attach::ByNode => Attachedness::Ours,
            Attach::ByController => {
                let staged = volume.stage.held().is_some();
                match self.world.attachment(volume.id()) {
                    // It was staged in an earlier life, so it was reported then and still is (E-39, E-197).
                    None if staged && !self.world.start.attachments_complete => Attachedness::Ready,
                    Some(Attachment::Attached { .. }) if staged || self.is_reported() => Attachedness::Ready,
                    Some(Attachment::Attached { .. }) => Attachedness::Missing(Wait::Report),
                    None | Some(Attachment::Detached | Attachment::Failed { .. }) => {
                        Attachedness::Missing(Wait::Attacher)
                    }
                }
            }
        }
    }

    /// Is it known to stand in the report that the attacher reads (E-188)?
    fn is_reported(&self) -> bool {
        self.volume.in_use_since.is_some_and(|it| it <= self.world.reported_version)
    }

    fn wish(&self, index: usize) -> Option<&label::Wish> {
        self.volume.mounts[index].used.as_ref().map(|it| &it.label)
    }

    /// The label to mount with: what it is mounted with already, else what the pod asks for.
    fn label(&self, index: usize) -> Option<Arc<str>> {
        match &self.volume.label {
            Some(held) => held.clone(),
            None => self.wish(index)?.effective().cloned(),
        }
    }

    /// Is it still mounted with another label than the pods that want it now ask for (E-118)?
    fn label_mismatch(&self) -> bool {
        self.lead.is_some_and(|it| self.is_labelled_otherwise(it))
    }

    /// Is it mounted with another label than this pod asks for?
    ///
    /// A pod that has it keeps it with the label it has: a mount is not taken from a pod that wants it (I-1).
    fn is_labelled_otherwise(&self, index: usize) -> bool {
        let Some(held) = &self.volume.label else { return false };
        let wanted = self.wish(index).and_then(label::Wish::effective);
        !self.volume.mounts[index].step.may_be_here() && wanted != held.as_ref()
    }

    fn refresh_due(&self, mount: &Mount) -> Due {
        let (Some(published), Some(used)) = (mount.step.held(), &mount.used) else {
            return Due::Never;
        };
        if self.world.pods[mount.pod].life != Life::Known(Phase::Running) {
            return Due::Never;
        }
        match self.volume.spec.capabilities.refresh {
            Refresh::Never => Due::Never,
            Refresh::OnChange | Refresh::Every(_) if published.revision != used.revision => Due::Now,
            Refresh::OnChange => Due::Never,
            Refresh::Every(period) => {
                let at = published.at + period.max(SHORTEST_PERIOD);
                if at <= self.world.now { Due::Now } else { Due::At(at) }
            }
        }
    }

    /// What keeps an operation from beginning that has nothing to do with other operations.
    fn hindrance(&mut self, kind: OperationKind, backoff: Option<&Backoff>) -> Option<Wait> {
        if !self.world.driver_is_registered(self.volume.spec.driver.as_ref()) {
            return Some(Wait::Driver);
        }
        let retry_at = backoff.filter(|it| it.kind == kind && it.retry_at > self.world.now)?.retry_at;
        self.wake_at(retry_at);
        Some(Wait::Backoff(retry_at))
    }

    fn wake_at(&mut self, at: Time) {
        self.wake_at = Some(self.wake_at.map_or(at, |it| it.min(at)));
    }

    fn wanted_mounts(&self) -> impl Iterator<Item = &Mount> {
        let wanted = |(mount, want): (_, &Wanting)| (*want == Wanting::Wanted).then_some(mount);
        self.volume.mounts.iter().zip(&self.wants).filter_map(wanted)
    }

    /// A volume that must be attached and is wanted, or that may be here, is in use; also if it had to be attached
    /// when it came, whatever its plugin says by now (I-3).
    fn in_use(&self) -> bool {
        let volume = self.volume;
        let attachable = volume.spec.capabilities.attach != Attach::NotNeeded;
        let came_attached = volume.attach.may_be_here() || volume.in_use_since.is_some();
        (attachable && self.lead.is_some()) || ((attachable || came_attached) && volume.may_be_here())
    }
}

/// Would both be at one place below a pod?
pub(crate) fn same_place(one: &Volume, other: &Volume) -> bool {
    same_place_as(&one.spec, &other.spec)
}

pub(crate) fn same_place_as(one: &VolumeSpec, other: &VolumeSpec) -> bool {
    one.inner_name == other.inner_name && one.plugin == other.plugin && one.mode == other.mode
}
