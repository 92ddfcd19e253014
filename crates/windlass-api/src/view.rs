//! What is shown of a node to people and programs: Kubernetes-style objects with conditions.
//!
//! These types are a contract: `docs/openapi.json` is made from them, the server sends them and the client reads them.
//! Here fields are added, and none is renamed or dropped.

mod about;
mod claim;
mod driver;
mod statistics;
mod status;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use about::{ApiResource, ApiResourceList, Health, Version};
pub use claim::{ClaimDeletionStatus, ClaimPhase, ClaimStatus};
pub use driver::{DriverSettings, DriverStatus};
pub use statistics::{PodStatisticsStatus, Usage, VolumeCondition, VolumeStatistics};
pub use status::Status;

/// What `apiVersion` says of every object here.
pub const API_VERSION: &str = "windlass/v1alpha1";

/// An object of some kind, with what every object has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<S> {
    /// [`API_VERSION`].
    pub api_version: String,
    /// For example `Pod`.
    pub kind: String,
    /// What it is called.
    pub metadata: Metadata,
    /// How it stands.
    pub status: S,
}

impl<S> AsRef<Metadata> for Object<S> {
    fn as_ref(&self) -> &Metadata {
        &self.metadata
    }
}

/// What an object is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The namespace, for kinds that live in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// What tells it apart from an earlier one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Many objects of a kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// [`API_VERSION`].
    pub api_version: String,
    /// The kind of the items, and `List`.
    pub kind: String,
    /// The objects.
    pub items: Vec<T>,
}

/// One step of a watch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WatchEvent<T> {
    /// What happened to it.
    #[serde(rename = "type")]
    pub kind: WatchKind,
    /// The object as it is now, or as it last was. None with a bookmark.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub object: Option<T>,
}

fn none<T>() -> Option<T> {
    None
}

/// What happened to an object that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchKind {
    /// It is there, for the first time in this watch.
    Added,
    /// It is another than before.
    Modified,
    /// It is gone.
    Deleted,
    /// Everything that was there at the beginning has been told.
    Bookmark,
}

/// A kind of object.
pub trait Kind {
    /// What `kind` says of it.
    const KIND: &'static str;
    /// What it is, for people.
    const ABOUT: &'static str;
}

/// The kinds, each with its status.
macro_rules! kinds {
    ($($(#[doc = $about:literal])+ $kind:ident = $status:ty;)+) => {$(
        $(#[doc = $about])+
        pub type $kind = Object<$status>;

        impl Kind for $kind {
            const KIND: &'static str = stringify!($kind);
            const ABOUT: &'static str = concat!($($about),+);
        }
    )+};
}

kinds! {
    /// The daemon and its node.
    Node = NodeStatus;
    /// A pod, with its volumes.
    Pod = PodStatus;
    /// What the containers of a pod are to be given.
    Containers = ContainersStatus;
    /// How full the volumes of a pod are, and how they are doing.
    PodStatistics = PodStatisticsStatus;
    /// A volume as one pod has it.
    Mount = MountStatus;
    /// A volume of this node, whoever uses it.
    Volume = VolumeStatus;
    /// A CSI driver that is registered, that volumes wait for, or that something is set for.
    Driver = DriverStatus;
    /// A claim, or what was made for one that is gone.
    Claim = ClaimStatus;
    /// What becomes of the volume of a claim that somebody has deleted.
    ClaimDeletion = ClaimDeletionStatus;
    /// Work that runs.
    Operation = OperationStatus;
    /// Something that the owner of a pod or of a claim should know.
    Event = EventStatus;
    /// What is tried at once because somebody asked for it.
    Retry = RetryStatus;
}

/// Whether something that should be true is true.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What should be true, for example `VolumesMounted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is.
    pub status: ConditionStatus,
    /// Why, as a code.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// Since when.
    pub last_transition_time: Timestamp,
}

/// Whether a condition is true.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not.
    False,
    /// It is not known.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { Self::True } else { Self::False }
    }
}

/// How a pod's volumes stand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// How far the pod's life has gone.
    pub phase: PodPhase,
    /// Volumes that it had and that nobody else uses, which are not gone from this node yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releasing: Vec<String>,
    /// Since when this node knows it: its directory's birth, if it was found there at start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<Timestamp>,
    /// `VolumesMounted` and `VolumesCurrent`; and `VolumeContentLost` if that is so.
    pub conditions: Vec<Condition>,
    /// When what is here of it is taken away if nothing happens before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_at: Option<Timestamp>,
    /// Its volumes.
    pub volumes: Vec<MountStatus>,
}

/// How much a reason needs somebody's attention.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub enum Urgency {
    /// It is as it should be.
    Settled,
    /// It is being done, or its turn comes by itself.
    Working,
    /// It waits for something that has to happen first, and that is nobody's fault.
    Waiting,
    /// It fails, or needs a person.
    Trouble,
}

/// How far a pod's life has gone, as far as its volumes care.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub enum PodPhase {
    /// It was found on disk, and nobody has spoken of it yet.
    Found,
    /// It is here, and whether it is to be here cannot be told: it keeps what it has, perhaps for a while only.
    Held,
    /// It is to have its volumes.
    Wanted,
    /// It is ending: it keeps what it has and gets nothing new.
    Ending,
    /// It has run to its end.
    Finished,
    /// It is gone, and what is left of it goes.
    Leaving,
    /// Nothing of it is left; volumes that it alone had are being unstaged, detached or deleted.
    Releasing,
}

/// A volume as one pod has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MountStatus {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// What the pod calls the volume.
    pub volume: String,
    /// The pod does not call it anything, or not any more: it is here from before, and this is what it is called on disk.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unnamed: bool,
    /// The volume that it is, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// Its kind, for example `kubernetes.io/configmap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// `Filesystem` or `Block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(extend("enum" = ["Filesystem", "Block"])))]
    pub mode: Option<String>,
    /// How it stands: a code of `docs/reasons.md`.
    #[cfg_attr(test, schemars(with = "crate::tests::openapi::Code"))]
    pub state: String,
    /// Since when.
    pub since: Timestamp,
    /// Whether a container may have it.
    pub mounted: bool,
    /// It is mounted, and something keeps it from being what it should be now, as its reasons say.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stale: bool,
    /// Where it is on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why it is not settled, deepest cause last; empty if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// One link of the chain from "this is not settled" to the deepest cause known (I-7).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A code of `docs/reasons.md`.
    #[cfg_attr(test, schemars(with = "crate::tests::openapi::Code"))]
    pub code: String,
    /// How much it needs somebody's attention.
    pub urgency: Urgency,
    /// The reason in words.
    pub message: String,
    /// What a person can do.
    pub remedy: String,
    /// Since when it holds.
    pub since: Timestamp,
    /// How many times in a row the operation it is about failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub attempts: u32,
    /// When it is tried next, if that is a matter of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Timestamp>,
    /// When what is here is taken away if nothing happens before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes_at: Option<Timestamp>,
    /// What has to happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_on: Option<Awaited>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What something waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// What kind of thing, for example `Object`.
    #[cfg_attr(test, schemars(extend("enum" = ["Time", "Operation", "Driver", "Object", "Attacher", "Report", "Pod", "Volume", "Source", "Disk"])))]
    pub kind: String,
    /// Which, if there are many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How a volume stands on this node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Its kind, for example `kubernetes.io/local-volume`.
    pub plugin: String,
    /// Whether it is attached to this node: `Absent`, `Doing`, `Held`, `Uncertain` or `Undoing`; `NotNeeded` if it need not
    /// be.
    #[cfg_attr(test, schemars(extend("enum" = ["Absent", "Doing", "Held", "Uncertain", "Undoing", "NotNeeded"])))]
    pub attached: String,
    /// Whether it is ready on this node, in the same words.
    #[cfg_attr(test, schemars(extend("enum" = ["Absent", "Doing", "Held", "Uncertain", "Undoing", "NotNeeded"])))]
    pub staged: String,
    /// The size it is known to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether anything of it is here or may be, or it is reported as in use.
    pub in_use: bool,
    /// Why it is not settled, deepest cause last; empty if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// The pods that want it or have it.
    pub pods: Vec<VolumeUser>,
}

/// A pod that wants a volume or has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeUser {
    /// The pod's UID.
    pub uid: String,
    /// What the pod calls the volume.
    pub names: Vec<String>,
    /// Whether it is published: `Absent`, `Doing`, `Held`, `Uncertain` or `Undoing`.
    #[cfg_attr(test, schemars(extend("enum" = ["Absent", "Doing", "Held", "Uncertain", "Undoing"])))]
    pub published: String,
    /// Whether a container may have it.
    #[serde(default)]
    pub mounted: bool,
    /// It is mounted, and something keeps it from being what it should be now, as its reasons say.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stale: bool,
    /// Why it is not settled in this pod, deepest cause last; empty if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// Work that runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// What it does, for example `publish`.
    pub operation: String,
    /// The volume.
    pub volume_id: String,
    /// The pod's UID, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// When it began; while it is queued, when it was asked for.
    pub since: Timestamp,
    /// Whether it should have ended by now, or is held back because a process of before hangs at its place.
    pub hung: bool,
    /// How many others go first, if it waits for its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_behind: Option<u32>,
}

/// What is tried at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RetryStatus {
    /// All of it.
    pub retried: Vec<Retried>,
}

/// Something that failed before and is tried at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Retried {
    /// What it is, for people.
    pub what: String,
    /// How often it had failed in a row.
    pub attempts: u32,
}

/// Something that happened to a pod or a claim, in the words of the kubelet or of Kubernetes' controllers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventStatus {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    #[cfg_attr(test, schemars(extend("enum" = ["Normal", "Warning"])))]
    pub tone: String,
    /// The kubelet's word for it, for example `FailedMount`.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// The pod's name; empty for what happened to a claim.
    pub pod: String,
    /// The pod's UID; empty likewise.
    pub pod_uid: String,
    /// The claim's name, if it happened to a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// How often.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// When it was told first.
    pub first_time: Timestamp,
    /// When it was told last.
    pub last_time: Timestamp,
}

/// The daemon and its node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The version of windlass that runs.
    pub version: String,
    /// Its process.
    pub process: u32,
    /// When it started.
    pub started: Timestamp,
    /// Where volumes are.
    pub root: String,
    /// Where manifests are read.
    pub manifests: String,
    /// Whatever the manifests were at this moment is in force, or a problem says why not.
    pub manifests_as_of: Timestamp,
    /// Whether it has a user and mount namespace of its own, which others must enter to see the mounts.
    pub rootless: bool,
    /// The mount namespace in which the mounts are, as the link `/proc/PID/ns/mnt` of a process in it reads; empty if it
    /// could not be read.
    #[serde(default)]
    pub mount_namespace: String,
    /// `Synced`, `SourceComplete`, `ManifestsValid`.
    pub conditions: Vec<Condition>,
    /// What is wrong with the manifests, and what was found on disk that is not windlass's.
    pub problems: Vec<Problem>,
    /// How many there are.
    pub counts: Counts,
}

/// How many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Pods.
    pub pods: u64,
    /// Pods whose volumes are all mounted.
    pub ready_pods: u64,
    /// Volumes.
    pub volumes: u64,
    /// Operations that run.
    pub operations: u64,
    /// Operations that should have ended.
    pub hung_operations: u64,
    /// Threads.
    pub threads: u64,
}

/// Something that a person should look at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The file or directory it is about.
    pub path: String,
    /// The line, if it is a file of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The object it is about, for example `Pod default/web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Problem {
    /// As compilers write it: `web.yaml:12: Pod default/web: what is wrong`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, object, message, .. } = self;
        f.write_str(path)?;
        if let Some(line) = line {
            write!(f, ":{line}")?;
        }
        if let Some(object) = object {
            write!(f, ": {object}")?;
        }
        write!(f, ": {message}")
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub enum Severity {
    /// It is not in force; what was before stays.
    Error,
    /// Nothing is out of force because of it: an API server would not have taken it, or it is not read.
    Warning,
    /// Something on disk that is not windlass's, and is left alone.
    NotOurs,
}

/// What a pod's containers are to be given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainersStatus {
    /// The containers, in the order of the pod: init containers first, then the others.
    pub containers: Vec<ContainerMounts>,
    /// The groups that the volumes bring besides the pod's own.
    pub groups: Vec<i64>,
    /// The volumes that are mounted, each looked at just now: what is there is what windlass made.
    pub volumes: Vec<GivenVolume>,
}

/// A volume that may be given to containers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GivenVolume {
    /// What the pod calls it.
    pub name: String,
    /// Where it is on the host; none for an image, which the container runtime mounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `Filesystem` or `Block`.
    #[cfg_attr(test, schemars(extend("enum" = ["Filesystem", "Block"])))]
    pub mode: String,
    /// It must be given read-only.
    pub read_only: bool,
    /// Its ownership is windlass's to change.
    pub managed: bool,
    /// The container runtime may relabel it for SELinux.
    pub relabel: bool,
}

/// What one container is to be given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerMounts {
    /// Its name.
    pub name: String,
    /// Directories and files.
    pub mounts: Vec<ContainerMount>,
    /// Devices.
    pub devices: Vec<ContainerDevice>,
    /// What it names and cannot be given, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingMount>,
}

/// A directory that a container is to be given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerMount {
    /// What the pod calls the volume.
    pub volume: String,
    /// Where it is on the host.
    pub host_path: String,
    /// Where the container wants it.
    pub container_path: String,
    /// Whether the container may only read.
    pub read_only: bool,
    /// Whether mounts below it may only be read too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recursive_read_only: bool,
    /// `None`, `HostToContainer` or `Bidirectional`.
    #[cfg_attr(test, schemars(extend("enum" = ["None", "HostToContainer", "Bidirectional"])))]
    pub propagation: String,
    /// Whether the runtime should relabel it for SELinux.
    #[serde(default, skip_serializing_if = "is_false")]
    pub relabel: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A device that a container is to be given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContainerDevice {
    /// What the pod calls the volume.
    pub volume: String,
    /// Where it is on the host.
    pub host_path: String,
    /// Where the container wants it.
    pub container_path: String,
    /// What the container may do: `r` or `rwm`.
    #[cfg_attr(test, schemars(extend("enum" = ["r", "rwm"])))]
    pub permissions: String,
}

/// A volume that a container names and cannot be given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MissingMount {
    /// What the pod calls the volume.
    pub volume: String,
    /// Where the container wants it.
    pub container_path: String,
    /// Why it cannot be given.
    pub message: String,
}

impl<S> Object<S>
where
    Self: Kind,
{
    /// What stands so, under this name.
    pub fn new(metadata: Metadata, status: S) -> Self {
        Self { api_version: API_VERSION.into(), kind: Self::KIND.into(), metadata, status }
    }
}

impl Pod {
    /// The condition of this type, if it is told.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|it| it.kind == kind)
    }

    /// All volumes of the pod are mounted.
    pub fn is_mounted(&self) -> bool {
        self.condition("VolumesMounted").is_some_and(|it| it.status == ConditionStatus::True)
    }
}

impl<T: Kind> List<T> {
    /// These objects.
    pub fn new(items: Vec<T>) -> Self {
        Self { api_version: API_VERSION.into(), kind: format!("{}List", T::KIND), items }
    }
}

/// Namespace and name of what is titled `namespace/name`.
pub fn split(title: &str) -> (Option<String>, String) {
    match title.split_once('/') {
        Some((namespace, name)) => (Some(namespace.into()), name.into()),
        None => (None, title.into()),
    }
}

/// The mounts of a pod, each an object of its own.
pub fn mounts(pod: &Pod) -> Vec<Mount> {
    let one = |it: &MountStatus| {
        let name = format!("{}/{}", it.pod, it.volume);
        let metadata = Metadata { namespace: pod.metadata.namespace.clone(), name, uid: pod.metadata.uid.clone() };
        Object::new(metadata, it.clone())
    };
    pod.status.volumes.iter().map(one).collect()
}
