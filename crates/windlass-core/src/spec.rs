//! A volume as the engine sees it: what it is called and what its plugin can do, nothing about how.

use crate::ids::{DriverName, InnerName, ObjectName, OuterName, PluginName, PodUid, SourceName, Version, VolumeId};
use crate::reason::Reason;
use crate::{expand, label};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// A pod as its source gave it, with its volumes already looked up.
///
/// Only volumes that some container uses are listed (E-146): the others are never set up nor waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pod {
    /// The pod's identity.
    pub uid: PodUid,
    /// `namespace/name`, for people.
    pub name: Arc<str>,
    /// Who gave it.
    pub source: SourceName,
    /// How new this is. An older version than the one known is stale and ignored.
    pub version: Version,
    /// How far its life has gone.
    pub phase: Phase,
    /// The groups it already asks for, which [`Engine::extra_groups`](crate::Engine::extra_groups) leaves out (E-37).
    pub groups: Vec<i64>,
    /// The volumes its containers use.
    pub volumes: Vec<PodVolume>,
}

/// How far a pod's life has gone, as far as volumes care (E-141).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Phase {
    /// It is to run: all its volumes are wanted.
    Running,
    /// It is being ended but its containers may still run: it keeps what it has and gets nothing new (E-143, E-161).
    Stopping,
    /// Nothing of it runs nor will run again: its volumes are not wanted (E-165), unless
    /// [`Config::keep_terminated`](crate::Config::keep_terminated) says so.
    Finished,
}

/// What is known of a pod's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It was found on disk and no source has spoken of it.
    Found,
    /// Its source has it, in this phase.
    Known(Phase),
    /// It is here, and no source can tell whether it has it: it keeps what it has.
    Held,
    /// Its source no longer has it but its containers may run.
    Leaving,
    /// Nobody has it; what is left of it goes.
    Gone,
}

/// One volume of a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PodVolume {
    /// What the pod calls it.
    pub name: OuterName,
    /// What it turned out to be.
    pub want: Want,
}

/// What looking up one volume of a pod gave.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Want {
    /// It is this volume, used like this.
    Volume(Use),
    /// The look-up failed, which says nothing: what is there stays (I-1).
    Unknown {
        /// What went wrong, for people (E-152).
        text: Arc<str>,
        /// The object that is missing or could not be read, if there is one.
        waits_on: Option<ObjectName>,
    },
    /// Nobody can say yet which volume it is, because it is to be made first, or one of before is to go first: this is why
    /// it has not been made. What is there stays (I-1).
    Pending(Box<Reason>),
    /// It cannot be what the pod says, for example a block volume used as a mount (E-155).
    Invalid {
        /// Why, for people.
        text: Arc<str>,
    },
}

/// How one pod uses one volume.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Use {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// Whether this pod may write (E-158: the claim reference's flag, not the container's).
    pub access: Access,
    /// Changes whenever what is to be in the volume changes; see [`Refresh::OnChange`].
    pub revision: u64,
    /// The SELinux label this pod asks for.
    pub label: label::Wish,
}

/// May a pod write?
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Access {
    /// It may.
    #[default]
    ReadWrite,
    /// It may not.
    ReadOnly,
}

/// How a pod sees the volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Mode {
    /// As a directory.
    #[default]
    Filesystem,
    /// As a raw device.
    Block,
}

/// How many pods may hold the volume at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Sharing {
    /// Any number on this node.
    #[default]
    Shared,
    /// `ReadWriteOncePod`: the next pod waits for the one before (E-250 step 5).
    OnePod,
}

/// A volume, whatever its plugin.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct VolumeSpec {
    /// Its identity.
    pub id: VolumeId,
    /// Its kind.
    pub plugin: PluginName,
    /// The driver that must be registered before anything can be done with it.
    pub driver: Option<DriverName>,
    /// What its directory below a pod is called.
    pub inner_name: InnerName,
    /// What can and must be done with it.
    pub capabilities: Capabilities,
    /// As a directory or as a device.
    pub mode: Mode,
    /// How many pods may hold it.
    pub sharing: Sharing,
    /// The group that its users get besides their own (E-37), as it was written.
    pub group: Option<Arc<str>>,
    /// How large it should be and is, for volumes that grow.
    pub size: expand::Size,
}

/// What a plugin can do with a volume, as data to plan with.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Capabilities {
    /// Must it be attached to this node first, and by whom?
    pub attach: Attach,
    /// Is it made ready once per node before it is given to pods?
    pub stage: bool,
    /// Can it be given as a raw device?
    pub block: bool,
    /// Can this node grow it?
    pub expand: bool,
    /// When must a pod's mount be made anew while the pod has it?
    pub refresh: Refresh,
    /// One volume for all pods that name it, or one for each pod?
    pub identity: Identity,
    /// Which operations of one volume may run at the same time?
    pub concurrency: Concurrency,
    /// How long an operation may take before it counts as hung (I-6).
    pub patience: Duration,
}

impl Default for Capabilities {
    /// A pod's own directory that needs nothing: no attach, no stage, no growth.
    fn default() -> Self {
        Self {
            attach: Attach::NotNeeded,
            stage: false,
            block: false,
            expand: false,
            refresh: Refresh::Never,
            identity: Identity::PerPod,
            concurrency: Concurrency::Alone,
            patience: Duration::from_secs(150),
        }
    }
}

/// Who attaches a volume to this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Attach {
    /// Nobody has to.
    NotNeeded,
    /// A controller elsewhere, which is told of our need by the in-use report and tells us when it is done (E-188).
    ByController,
    /// This node, by an operation of its own (E-189).
    ByNode,
}

/// When a mount that a pod has is made anew in place (E-207).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refresh {
    /// Never.
    Never,
    /// When [`Use::revision`] changes: `configMap`, `secret`, `downwardAPI`, `projected`.
    OnChange,
    /// When the revision changes, and this long after the last time, at least a second: CSI drivers that ask to be
    /// republished.
    Every(Duration),
}

/// Whose volume it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Identity {
    /// One volume, any number of pods (E-63).
    Shared,
    /// The volume of exactly one pod (E-64).
    PerPod,
}

/// Which operations of one volume may overlap (I-2). Attach, stage, expand, unstage and detach always run alone on
/// their volume, and each pod's mount has at most one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Concurrency {
    /// None: one operation per volume, what the CSI specification asks of an orchestrator.
    Alone,
    /// Unpublishes from different pods, as the kubelet has it (E-325).
    ReleasesOverlap,
    /// Publishes and unpublishes for different pods.
    PodsOverlap,
}
