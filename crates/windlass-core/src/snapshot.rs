//! A read-only view of everything the engine knows, for people, tests and checks.

use crate::ids::{DriverName, InnerName, OperationId, OuterName, PluginName, PodUid, SourceName, Time, VolumeId};
use crate::oddity::Oddity;
use crate::operation::OperationKind;
use crate::reason::{Code, Reason};
use crate::spec::{Life, Mode};
use crate::step::Doubt;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Everything, at one moment. Lists are sorted by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The moment.
    pub now: Time,
    /// Whether anything may be taken away yet (E-182).
    pub may_take_away: bool,
    /// Whether the set of volumes in use may be reported (E-39).
    pub synced: bool,
    /// The volumes.
    pub volumes: Vec<VolumeView>,
    /// The pods.
    pub pods: Vec<PodView>,
    /// The operations that run, oldest first.
    pub operations: Vec<OperationView>,
    /// The sources, in the order of their names.
    pub sources: Vec<SourceView>,
    /// The drivers that are registered.
    pub drivers: Vec<DriverName>,
    /// How often things that make no sense came in.
    pub oddities: Vec<(Oddity, u64)>,
}

/// A source of pods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceView {
    /// Its name.
    pub name: SourceName,
    /// How much is known of what it has.
    pub state: SourceState,
    /// Since when that is so.
    pub since: Time,
}

/// How much is known of what a source has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SourceState {
    /// It has not told all it has.
    #[default]
    Incomplete,
    /// It has told all it has.
    Complete {
        /// What it cannot read all the same, and may say more.
        doubt: Option<Arc<str>>,
    },
    /// It cannot be read any more, for this reason. What it gave stays wanted, and what it has now is not known.
    Lost(Arc<str>),
}

impl SourceState {
    /// Whether it has told all it has, as far as it can read it.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeView {
    /// Its identity.
    pub id: VolumeId,
    /// Its kind.
    pub plugin: PluginName,
    /// The driver that it is of.
    pub driver: Option<DriverName>,
    /// Whether it has to be attached before pods can have it.
    pub needs_attach: bool,
    /// Whether it is attached.
    pub attach: StepView,
    /// Whether it has to be staged before pods can have it.
    pub needs_stage: bool,
    /// Whether it is staged.
    pub stage: StepView,
    /// The size it is known to have.
    pub size_bytes: Option<u64>,
    /// Whether it belongs to the set of volumes in use.
    pub in_use: bool,
    /// Why it is not settled, deepest cause last; empty if it is.
    pub reasons: Vec<Reason>,
    /// The pods that want it or have it.
    pub mounts: Vec<MountView>,
}

/// A pod's mount of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountView {
    /// The pod.
    pub pod: PodUid,
    /// What the pod calls it; empty if the pod does not name it.
    pub names: Vec<OuterName>,
    /// Whether it is published.
    pub publish: StepView,
    /// Whether it may be handed out.
    pub mounted: bool,
    /// Whether nothing keeps it from being as it should be now; see [`PodVolumeView::current`].
    pub current: bool,
    /// Why it is not settled, deepest cause last; empty if it is.
    pub reasons: Vec<Reason>,
}

/// How the volumes of a pod stand, all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodStanding {
    /// Whether all of them are mounted.
    pub mounted: bool,
    /// Whether all of those that are mounted are current; see [`PodVolumeView::current`].
    pub current: bool,
}

/// A pod with its volumes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodDetail {
    /// The pod.
    pub pod: PodView,
    /// Its volumes: those that it names, as the pod has them, and then those that it still has without naming them.
    pub volumes: Vec<PodVolumeView>,
}

/// A volume as a pod has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodVolumeView {
    /// What the pod calls it; none if the pod does not name it (any more).
    pub name: Option<OuterName>,
    /// The volume that it is, if that is known.
    pub volume: Option<PodMountView>,
    /// How it stands.
    pub code: Code,
    /// Since when.
    pub since: Time,
    /// Whether nothing keeps what the pod has from being what it should have now: the content could be brought up to date,
    /// and what it is made of is known. An operation that runs for that keeps it from nothing. A volume that is not mounted
    /// is as current as it can be.
    pub current: bool,
    /// Why it is not settled, deepest cause last; empty if it is.
    pub reasons: Vec<Reason>,
}

/// What a pod's volume turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodMountView {
    /// Its identity.
    pub id: VolumeId,
    /// Its kind.
    pub plugin: PluginName,
    /// What its directory below the pod is called.
    pub inner_name: InnerName,
    /// As a directory or as a device.
    pub mode: Mode,
    /// Whether it is published.
    pub publish: StepView,
    /// Whether it may be handed out.
    pub mounted: bool,
}

/// Where a step stands, without the inner details.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepView {
    /// Nothing is here.
    Absent,
    /// A call that makes it runs.
    Doing,
    /// It is here.
    Held,
    /// It may be here.
    Uncertain(Doubt),
    /// A call that takes it away runs.
    Undoing,
}

/// A pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodView {
    /// Its identity.
    pub uid: PodUid,
    /// `namespace/name`.
    pub name: Arc<str>,
    /// How far its life has gone.
    pub life: Life,
    /// Whether all its volumes are mounted.
    pub ready: bool,
    /// Its volumes that are not a volume yet, and why.
    pub unresolved: Vec<(OuterName, Reason)>,
}

/// Whether an operation that was given out has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnView {
    /// It waits for its turn.
    Queued {
        /// So many others go first.
        ahead: u32,
    },
    /// It runs.
    Runs,
    /// It should have ended by now, or is held back because somebody of before hangs at its place.
    Hung,
}

/// An operation that was given out and has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperationView {
    /// Its number.
    pub id: OperationId,
    /// Its volume.
    pub volume: VolumeId,
    /// Its pod, if it is for one.
    pub pod: Option<PodUid>,
    /// What it does.
    pub kind: OperationKind,
    /// When it began; while it is queued, when it was given out.
    pub since: Time,
    /// Whether it has begun.
    pub turn: TurnView,
}
