//! What this node holds: volumes, whether each is attached and staged, and the pods it is published to.

use crate::backoff::Backoff;
use crate::desired::{Pod, Used};
use crate::ids::{OperationId, Time, VolumeId};
use crate::operation::{OperationKind, Proof};
use crate::reason::Code;
use crate::spec::{Access, VolumeSpec};
use crate::step::Step;
use crate::table::{Key, Named};
use crate::tally::Share;
use alloc::boxed::Box;
use alloc::sync::Arc;
use smallvec::SmallVec;

pub(crate) type PodKey = Key<Pod>;
pub(crate) type VolumeKey = Key<Volume>;

/// A volume that some pod wants or that may be here.
#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) spec: Arc<VolumeSpec>,
    /// Where attach by this node stands. What a controller does is a fact from outside; see [`crate::world::World`].
    pub(crate) attach: Step<Option<Arc<str>>>,
    pub(crate) stage: Step<Proof>,
    pub(crate) expanding: Option<OperationId>,
    /// The pods that want it or may have it, in the order in which they came. Most volumes have one, and keep it inside.
    pub(crate) mounts: SmallVec<[Mount; 1]>,
    /// The SELinux label it is mounted with, while anything of it may be mounted.
    pub(crate) label: Option<Option<Arc<str>>>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) growth: Growth,
    /// Since which version of the set of volumes in use it belongs to it.
    pub(crate) in_use_since: Option<u64>,
    pub(crate) backoff: Option<Box<Backoff>>,
    pub(crate) standing: Standing,
    /// When it wants to be planned again, if nothing happens before.
    pub(crate) wake_at: Option<Time>,
    /// Whether it is listed with its driver as not settled.
    pub(crate) parked: bool,
    /// Whether it is only a directory without a readable record (E-199).
    pub(crate) unreadable: bool,
    /// What it adds to the counts, once it has been counted.
    pub(crate) share: Option<Share>,
}

/// Whether a volume may be asked to grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    Open,
    /// Not while it is here: it said so (E-286).
    InUse,
    /// Never to this size.
    Infeasible {
        to_bytes: u64,
    },
}

/// A pod's mount of a volume.
#[derive(Clone)]
pub(crate) struct Mount {
    pub(crate) pod: PodKey,
    /// How the pod uses it; `None` if the pod does not name it.
    pub(crate) used: Option<Used>,
    /// Since when the pod wants it as it does now.
    pub(crate) used_since: Time,
    /// It was found at start, no record says that it was being taken away, and the pod has not named it since.
    pub(crate) unclaimed: bool,
    pub(crate) step: Step<Published>,
    /// The call that brings it up to date while the pod has it.
    pub(crate) refreshing: Option<OperationId>,
    pub(crate) backoff: Option<Box<Backoff>>,
    pub(crate) standing: Standing,
}

/// What is known of a mount that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Published {
    pub(crate) proof: Proof,
    pub(crate) revision: u64,
    pub(crate) at: Time,
    /// It was published before the volume had grown, so the pod does not have it yet (E-281).
    pub(crate) awaits_growth: bool,
}

/// How something stands, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    pub(crate) code: Code,
    pub(crate) since: Time,
}

/// An operation that was given out and has not ended.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) volume: VolumeKey,
    pub(crate) pod: Option<PodKey>,
    pub(crate) kind: OperationKind,
    /// When it was given out, or began if it had to wait.
    pub(crate) since: Time,
    pub(crate) turn: Turn,
    /// Whether it brings up to date what a pod has already.
    pub(crate) refresh: bool,
    /// The content that a publish brings; the size that an expansion aims at.
    pub(crate) goal: u64,
}

/// Whether an operation that was given out has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// So many others go first.
    Queued { ahead: u32 },
    /// Somebody of before may still be at its place.
    Blocked { by: Arc<str> },
    /// It has time until then.
    Runs { deadline: Time },
    /// It should have ended by now.
    Hung,
}

impl Named for Volume {
    fn name(&self) -> &str {
        self.spec.id.as_str()
    }
}

impl Volume {
    pub(crate) fn new(spec: Arc<VolumeSpec>, now: Time) -> Self {
        Self {
            size_bytes: spec.size.recorded_bytes,
            spec,
            attach: Step::Absent,
            stage: Step::Absent,
            expanding: None,
            mounts: SmallVec::new(),
            label: None,
            growth: Growth::Open,
            in_use_since: None,
            backoff: None,
            standing: Standing { code: Code::Idle, since: now },
            wake_at: None,
            parked: false,
            unreadable: false,
            share: None,
        }
    }

    pub(crate) fn id(&self) -> &VolumeId {
        &self.spec.id
    }

    /// The operation that has the volume to itself.
    pub(crate) fn operation(&self) -> Option<OperationId> {
        self.attach.operation().or(self.stage.operation()).or(self.expanding)
    }

    /// May it be staged, or published to any pod?
    pub(crate) fn may_be_mounted(&self) -> bool {
        self.stage.may_be_here() || self.mounts.iter().any(|it| it.step.may_be_here())
    }

    /// May anything at all of it be here by our doing?
    pub(crate) fn may_be_here(&self) -> bool {
        self.attach.may_be_here() || self.may_be_mounted()
    }

    pub(crate) fn mount(&self, pod: PodKey) -> Option<&Mount> {
        self.mounts.iter().find(|it| it.pod == pod)
    }

    pub(crate) fn mount_mut(&mut self, pod: PodKey) -> Option<&mut Mount> {
        self.mounts.iter_mut().find(|it| it.pod == pod)
    }

    /// The size it should grow to, if it should and may (E-119).
    ///
    /// A pod that only reads does not make it grow (E-158).
    pub(crate) fn grows_to(&self) -> Option<u64> {
        let (wanted, has) = (self.spec.size.wanted_bytes?, self.size_bytes?);
        let may = match self.growth {
            Growth::Open => true,
            Growth::InUse => false,
            Growth::Infeasible { to_bytes } => wanted != to_bytes,
        };
        let writer = || self.mounts.iter().any(Mount::can_grow);
        (self.spec.capabilities.expand && may && wanted > has && writer()).then_some(wanted)
    }

    /// Lets pods have what they waited for, once the volume has its size or will not get it.
    pub(crate) fn hand_over_if_grown(&mut self) {
        if self.grows_to().is_none() {
            for mount in &mut self.mounts {
                if let Step::Held(published) = &mut mount.step {
                    published.awaits_growth = false;
                }
            }
        }
    }

    /// Forgets the label once nothing is mounted any more (the kubelet never does, W-23).
    pub(crate) fn forget_label_if_unmounted(&mut self) {
        if !self.may_be_mounted() {
            self.label = None;
        }
    }
}

impl Mount {
    pub(crate) fn new(pod: PodKey, now: Time) -> Self {
        Self {
            pod,
            used: None,
            used_since: now,
            unclaimed: false,
            step: Step::Absent,
            refreshing: None,
            backoff: None,
            standing: Standing { code: Code::Idle, since: now },
        }
    }

    pub(crate) fn operation(&self) -> Option<OperationId> {
        self.step.operation().or(self.refreshing)
    }

    /// Could the volume be grown through this mount?
    pub(crate) fn can_grow(&self) -> bool {
        let writes = self.used.as_ref().is_some_and(|it| it.access == Access::ReadWrite);
        writes && self.step.held().is_some()
    }
}

impl Named for Pod {
    fn name(&self) -> &str {
        self.uid.as_str()
    }
}
