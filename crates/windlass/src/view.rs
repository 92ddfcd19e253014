//! What is shown of a node to people and programs: Kubernetes-style objects with conditions.
//!
//! These types are a contract: `docs/openapi.json` describes them, the API serves them and the command line reads them.
//! Inner types change freely; here fields are added, and none is renamed or dropped.

mod claim;
pub mod containers;
mod driver;
mod statistics;

use std::{fmt, time::SystemTime};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windlass_core::{
    ids::Time,
    reason::{self, Code, WaitsOn},
    snapshot::{OperationView, PodDetail, PodView, PodVolumeView, StepView, TurnView, VolumeView},
    spec::{Life, Mode, Phase},
};

use crate::drive::Standing;

pub use claim::{Claim, ClaimDeletion, ClaimDeletionStatus, ClaimPhase, ClaimStatus};
pub(crate) use driver::Operations;
pub use driver::{Driver, DriverSettings, DriverStatus};
pub use statistics::{PodStatistics, PodStatisticsStatus, Usage, VolumeCondition, VolumeStatistics, statistics};

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

/// What an object is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
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

/// A pod, with its volumes.
pub type Pod = Object<PodStatus>;
/// A volume of this node, whoever uses it.
pub type Volume = Object<VolumeStatus>;
/// A volume as one pod has it.
pub type Mount = Object<MountStatus>;
/// Work that runs.
pub type Operation = Object<OperationStatus>;
/// Something that the owner of a pod or of a claim should know.
pub type Event = Object<EventStatus>;
/// The daemon and its node.
pub type Node = Object<NodeStatus>;

/// Whether something that should be true is true.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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

/// How far a pod's life has gone, as far as its volumes care.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub struct MountStatus {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// What the pod calls the volume.
    pub volume: String,
    /// The volume that it is, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// Its kind, for example `kubernetes.io/configmap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// `Filesystem` or `Block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How it stands: a code of `docs/reasons.md`.
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
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A code of `docs/reasons.md`.
    pub code: String,
    /// The reason in words.
    pub message: String,
    /// What a person can do.
    pub remedy: String,
    /// Since when it holds.
    pub since: Timestamp,
    /// How many times in a row the operation it is about failed.
    #[serde(default, skip_serializing_if = "is_zero")]
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
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// What kind of thing, for example `Object`.
    pub kind: String,
    /// Which, if there are many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How a volume stands on this node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    /// Its kind, for example `kubernetes.io/local-volume`.
    pub plugin: String,
    /// Whether it is attached to this node: `Absent`, `Doing`, `Held`, `Uncertain` or `Undoing`; `NotNeeded` if it need not
    /// be.
    pub attached: String,
    /// Whether it is ready on this node, in the same words.
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
#[serde(rename_all = "camelCase")]
pub struct VolumeUser {
    /// The pod's UID.
    pub uid: String,
    /// What the pod calls the volume.
    pub names: Vec<String>,
    /// Whether it is published: `Absent`, `Doing`, `Held`, `Uncertain` or `Undoing`.
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

/// What is tried at once because somebody asked for it.
pub type Retry = Object<RetryStatus>;

/// What is tried at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryStatus {
    /// All of it.
    pub retried: Vec<Retried>,
}

/// What is tried at once of a pod, or of the node, as it is shown.
pub fn retry(metadata: Metadata, retried: Vec<Retried>) -> Retry {
    Object::new("Retry", metadata, RetryStatus { retried })
}

/// Something that failed before and is tried at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retried {
    /// What it is, for people.
    pub what: String,
    /// How often it had failed in a row.
    pub attempts: u32,
}

/// Something that happened to a pod or a claim, in the words of the kubelet or of Kubernetes' controllers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventStatus {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
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
    pub count: u64,
    /// When it was told first.
    pub first_time: Timestamp,
    /// When it was told last.
    pub last_time: Timestamp,
}

/// The daemon and its node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
pub enum Severity {
    /// It is not in force; what was before stays.
    Error,
    /// It is in force, and an API server would not have taken it.
    Warning,
    /// Something on disk that is not windlass's, and is left alone.
    NotOurs,
}

/// What a pod's containers are to be given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub struct GivenVolume {
    /// What the pod calls it.
    pub name: String,
    /// Where it is on the host; none for an image, which the container runtime mounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `Filesystem` or `Block`.
    pub mode: String,
    /// It must be given read-only.
    pub read_only: bool,
    /// Its ownership is windlass's to change.
    pub managed: bool,
    /// The container runtime may relabel it for SELinux.
    pub relabel: bool,
}

/// What the containers of a pod are to be given.
pub type Containers = Object<ContainersStatus>;

/// What one container is to be given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub struct ContainerDevice {
    /// What the pod calls the volume.
    pub volume: String,
    /// Where it is on the host.
    pub host_path: String,
    /// Where the container wants it.
    pub container_path: String,
    /// What the container may do: `r` or `rwm`.
    pub permissions: String,
}

/// A volume that a container names and cannot be given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingMount {
    /// What the pod calls the volume.
    pub volume: String,
    /// Where the container wants it.
    pub container_path: String,
    /// Why it cannot be given.
    pub message: String,
}

/// When something was, by the clock on the wall: the engine counts from its own start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What the clock on the wall showed, or would have shown, at the engine's zero; to the millisecond.
    zero: Timestamp,
}

impl Clock {
    /// It is now `now` for the engine.
    pub fn at(now: Time) -> Self {
        let wall = Timestamp::now();
        let zero = wall.checked_sub(since_zero(now)).unwrap_or(Timestamp::MIN);
        Self { zero: Timestamp::from_millisecond(zero.as_millisecond()).unwrap_or(zero) }
    }

    /// The earlier clock as long as it is right to the second, so that what was at one time is shown at the same time twice:
    /// the two clocks are never read at quite the same moment. One that was set, or that went on while the machine slept, is
    /// not right any more.
    pub(crate) fn or_earlier(self, earlier: Self) -> Self {
        let off = self.zero.duration_since(earlier.zero).abs();
        if off < SignedDuration::from_secs(1) { earlier } else { self }
    }

    /// This moment of the engine on the wall, to the millisecond.
    pub fn wall(&self, time: Time) -> Timestamp {
        self.zero.checked_add(since_zero(time)).unwrap_or(Timestamp::MAX)
    }

    fn reasons(&self, reasons: &[reason::Reason]) -> Vec<Reason> {
        reasons.iter().map(|it| self.reason(it)).collect()
    }

    pub(crate) fn reason(&self, reason: &reason::Reason) -> Reason {
        let reason::Reason { code, text, since, attempts, next_try, goes_at, waits_on } = reason;
        Reason {
            code: code.to_string(),
            message: text.clone(),
            remedy: code.remedy().into(),
            since: self.wall(*since),
            attempts: *attempts,
            next_try: next_try.map(|it| self.wall(it)),
            goes_at: goes_at.map(|it| self.wall(it)),
            waits_on: awaited(waits_on),
        }
    }
}

fn since_zero(time: Time) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(time.0).unwrap_or(i64::MAX))
}

fn awaited(waits_on: &WaitsOn) -> Option<Awaited> {
    let (kind, name) = match waits_on {
        WaitsOn::Nothing => return None,
        WaitsOn::Time => ("Time", None),
        WaitsOn::Operation(id) => ("Operation", Some(id.to_string())),
        WaitsOn::Driver(name) => ("Driver", Some(name.to_string())),
        WaitsOn::Object(name) => ("Object", Some(name.to_string())),
        WaitsOn::Attacher => ("Attacher", None),
        WaitsOn::Report => ("Report", None),
        WaitsOn::Pod(uid) => ("Pod", Some(uid.to_string())),
        WaitsOn::Volume(id) => ("Volume", Some(id.to_string())),
        WaitsOn::Source(name) => ("Source", Some(name.to_string())),
        WaitsOn::Disk => ("Disk", None),
    };
    Some(Awaited { kind: kind.into(), name })
}

impl<S> Object<S> {
    /// An object of this kind.
    pub fn new(kind: &str, metadata: Metadata, status: S) -> Self {
        Self { api_version: API_VERSION.into(), kind: kind.into(), metadata, status }
    }
}

impl<T> List<T> {
    /// These objects of this kind.
    pub fn new(kind: &str, items: Vec<T>) -> Self {
        Self { api_version: API_VERSION.into(), kind: format!("{kind}List"), items }
    }
}

/// Namespace and name of what is titled `namespace/name`.
pub fn split(title: &str) -> (Option<String>, String) {
    match title.split_once('/') {
        Some((namespace, name)) => (Some(namespace.into()), name.into()),
        None => (None, title.into()),
    }
}

/// Since when a pod is known, and stands as it does.
#[derive(Clone, Copy)]
pub(crate) struct Since {
    /// When it was given first in this life of the node.
    pub(crate) given: Time,
    /// When it was given first in any.
    pub(crate) first_seen: Timestamp,
    /// How its volumes stand; none of a pod that is not given.
    pub(crate) standing: Option<Standing>,
}

/// A pod as it is shown. `path` tells where a volume of it is, by its id.
pub(crate) fn pod(
    clock: Clock,
    detail: &PodDetail,
    since: Since,
    path: impl Fn(&PodVolumeView) -> Option<String>,
) -> Pod {
    let PodDetail { pod, volumes } = detail;
    let given = since.given;
    let (namespace, name) = split(&pod.name);
    let volumes: Vec<_> = volumes
        .iter()
        .map(|it| MountStatus {
            pod: name.clone(),
            pod_uid: pod.uid.to_string(),
            volume: title(it),
            volume_id: it.volume.as_ref().map(|it| it.id.to_string()),
            plugin: it.volume.as_ref().map(|it| it.plugin.to_string()),
            mode: it.volume.as_ref().map(|it| mode(it.mode).into()),
            state: it.code.to_string(),
            // Of what is neither here nor wanted nobody knows since when.
            since: clock.wall(if it.volume.is_none() && it.reasons.is_empty() { given } else { it.since }),
            mounted: it.volume.as_ref().is_some_and(|it| it.mounted),
            stale: !it.current,
            path: path(it),
            reasons: clock.reasons(&it.reasons),
        })
        .collect();
    let of_volumes = volumes.iter().map(|it| it.since).max().unwrap_or(clock.wall(given));
    let mounted_since = since.standing.filter(|it| it.now.mounted == pod.ready).map(|it| clock.wall(it.mounted_since));
    let is_current = !volumes.iter().any(|it| it.stale);
    let current_since = since.standing.filter(|it| it.now.current == is_current).map(|it| clock.wall(it.current_since));
    let conditions = vec![
        mounted(pod, &volumes, mounted_since.unwrap_or(of_volumes)),
        current(&volumes, current_since.unwrap_or(of_volumes)),
    ];
    let phase = match pod.life {
        Life::Found => PodPhase::Found,
        Life::Held => PodPhase::Held,
        Life::Known(Phase::Running) => PodPhase::Wanted,
        Life::Known(Phase::Stopping) => PodPhase::Ending,
        Life::Known(Phase::Finished) => PodPhase::Finished,
        Life::Leaving => PodPhase::Ending,
        Life::Gone => PodPhase::Leaving,
    };
    let metadata = Metadata { namespace, name, uid: Some(pod.uid.to_string()) };
    let held = volumes.iter().flat_map(|it| &it.reasons).filter(|_| phase == PodPhase::Held);
    let goes_at = held.filter_map(|it| it.goes_at).max();
    Object::new(
        "Pod",
        metadata,
        PodStatus { phase, releasing: Vec::new(), first_seen: Some(since.first_seen), conditions, goes_at, volumes },
    )
}

impl MountStatus {
    /// Adds that what was in it is lost, before whatever else is to be said, which may be what to do next.
    pub(crate) fn content_was_lost(&mut self, at: SystemTime) {
        let since = Timestamp::try_from(at).unwrap_or(self.since);
        let code = Code::ContentLost;
        self.reasons.insert(
            0,
            Reason {
                code: code.to_string(),
                message: code.meaning().into(),
                remedy: code.remedy().into(),
                since,
                attempts: 0,
                next_try: None,
                goes_at: None,
                waits_on: None,
            },
        );
    }
}

/// That what a pod had in its volumes is lost, if it is.
pub(crate) fn content_lost(volumes: &[MountStatus]) -> Option<Condition> {
    let code = Code::ContentLost.as_str();
    let lost: Vec<_> = volumes.iter().filter(|it| it.reasons.iter().any(|it| it.code == code)).collect();
    let since = lost.iter().flat_map(|it| &it.reasons).filter(|it| it.code == code).map(|it| it.since).max()?;
    let names: Vec<&str> = lost.iter().map(|it| it.volume.as_str()).collect();
    Some(Condition {
        kind: "VolumeContentLost".into(),
        status: ConditionStatus::True,
        reason: code.into(),
        message: format!("volume {}: {}", names.join(", "), Code::ContentLost.meaning()),
        last_transition_time: since,
    })
}

fn title(volume: &PodVolumeView) -> String {
    let inner = || volume.volume.as_ref().map(|it| it.inner_name.to_string()).unwrap_or_default();
    volume.name.as_ref().map_or_else(inner, ToString::to_string)
}

/// Whether all volumes of a pod are mounted; if not, the deepest cause of the first that is not.
fn mounted(pod: &PodView, volumes: &[MountStatus], since: Timestamp) -> Condition {
    let stuck = volumes.iter().find(|it| !it.mounted);
    let status = match pod.life {
        Life::Held => ConditionStatus::Unknown,
        Life::Found | Life::Known(_) | Life::Leaving | Life::Gone => pod.ready.into(),
    };
    let (reason, message) = match (pod.ready, stuck) {
        (true, _) => (Code::Mounted.to_string(), Code::Mounted.meaning().to_owned()),
        (false, None) => (Code::Idle.to_string(), "The pod wants no volumes any more.".to_owned()),
        (false, Some(volume)) => match volume.reasons.last() {
            Some(deepest) => (deepest.code.clone(), format!("volume {}: {}", volume.volume, deepest.message)),
            None => (volume.state.clone(), format!("volume {} is not mounted", volume.volume)),
        },
    };
    Condition { kind: "VolumesMounted".into(), status, reason, message, last_transition_time: since }
}

/// Whether all volumes that are mounted are as they should be now; if not, the deepest cause of the first that is not.
fn current(volumes: &[MountStatus], since: Timestamp) -> Condition {
    let stale = volumes.iter().find(|it| it.stale);
    let (reason, message) = match stale {
        None => ("Current".to_owned(), "Every volume that is mounted is as it should be now.".to_owned()),
        Some(volume) => match volume.reasons.last() {
            Some(deepest) => (deepest.code.clone(), format!("volume {}: {}", volume.volume, deepest.message)),
            None => (volume.state.clone(), format!("volume {} cannot be brought up to date", volume.volume)),
        },
    };
    let status = stale.is_none().into();
    Condition { kind: "VolumesCurrent".into(), status, reason, message, last_transition_time: since }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Filesystem => "Filesystem",
        Mode::Block => "Block",
    }
}

fn step(step: StepView) -> &'static str {
    match step {
        StepView::Absent => "Absent",
        StepView::Doing => "Doing",
        StepView::Held => "Held",
        StepView::Uncertain(_) => "Uncertain",
        StepView::Undoing => "Undoing",
    }
}

/// The mounts of a pod, each an object of its own.
pub fn mounts(pod: &Pod) -> Vec<Mount> {
    let one = |it: &MountStatus| {
        let name = format!("{}/{}", it.pod, it.volume);
        let metadata = Metadata { namespace: pod.metadata.namespace.clone(), name, uid: pod.metadata.uid.clone() };
        Object::new("Mount", metadata, it.clone())
    };
    pod.status.volumes.iter().map(one).collect()
}

/// A volume as it is shown.
pub(crate) fn volume(clock: Clock, volume: &VolumeView) -> Volume {
    let pods = volume.mounts.iter().map(|it| VolumeUser {
        uid: it.pod.to_string(),
        names: it.names.iter().map(ToString::to_string).collect(),
        published: step(it.publish).into(),
        mounted: it.mounted,
        stale: !it.current,
        reasons: clock.reasons(&it.reasons),
    });
    let is_absent = |it: StepView| it == StepView::Absent;
    let if_needed = |needed: bool, at: StepView| if needed || !is_absent(at) { step(at) } else { "NotNeeded" };
    let is_here =
        !is_absent(volume.attach) || !is_absent(volume.stage) || volume.mounts.iter().any(|it| !is_absent(it.publish));
    let status = VolumeStatus {
        plugin: volume.plugin.to_string(),
        attached: if_needed(volume.needs_attach, volume.attach).into(),
        staged: if_needed(volume.needs_stage, volume.stage).into(),
        size_bytes: volume.size_bytes,
        in_use: volume.in_use || is_here,
        reasons: clock.reasons(&volume.reasons),
        pods: pods.collect(),
    };
    Object::new("Volume", Metadata { name: volume.id.to_string(), ..Metadata::default() }, status)
}

/// An operation as it is shown.
pub(crate) fn operation(clock: Clock, operation: &OperationView) -> Operation {
    let status = OperationStatus {
        operation: operation.kind.to_string(),
        volume_id: operation.volume.to_string(),
        pod_uid: operation.pod.as_ref().map(ToString::to_string),
        since: clock.wall(operation.since),
        hung: operation.turn == TurnView::Hung,
        queued_behind: match operation.turn {
            TurnView::Queued { ahead } => Some(ahead),
            TurnView::Runs | TurnView::Hung => None,
        },
    };
    Object::new("Operation", Metadata { name: operation.id.to_string(), ..Metadata::default() }, status)
}
