//! What a volume type is to the rest of windlass: a few calls, each of which may be made twice.
//!
//! A plugin does and decides nothing: the engine says when, the executor keeps the records, and a plugin's
//! file reads as the description of its volume type. Its calls run on worker threads, where what the kernel does may block and
//! hang; only what a driver does is awaited.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as api;
use rustix::io::Errno;
use windlass_core::ids::{OuterName, PodUid, VolumeId};
use windlass_core::operation::{Cause, Earlier, Obstacle, Proof};
use windlass_core::spec::{Access, VolumeSpec};
use windlass_linux::mount::{self, UnmountPolicy};
use windlass_linux::name::Name;
use windlass_linux::safe_path::{self, Place};
use windlass_linux::{atomic_dir, holders, remove, table};

use crate::catalogue::VolumeType;
use crate::csi::Drivers;
use crate::layout::{self, Home, Layout, Slot};
use crate::memory::Memory;
use crate::observe::{Observed, Observer};
use crate::payload::Snapshot;
use crate::resolve::Detail;
use crate::tell::Tell;
use crate::token;

pub(crate) mod csi;
pub(crate) mod empty_dir;
pub(crate) mod host_path;
pub(crate) mod image;
pub(crate) mod local;
pub(crate) mod written;

mod device_map;
mod group;
mod proof;
mod statistics;

pub(crate) use group::wanted as group_wanted;
pub use proof::mount_proof;
pub(crate) use proof::{directory_proof, directory_proof_of, mounted, nothing_proof};
use proof::{entry_proof, fresh_proof, new_mount_proof};
pub use statistics::{Condition, Measure, Statistics};
pub use windlass_core::flight::Left;

/// All types of volumes, in the kubelet's order (P-12).
pub(crate) static ALL: &[&VolumeType] = &[
    &empty_dir::EMPTY_DIR,
    &empty_dir::GIT_REPO,
    &host_path::HOST_PATH,
    &written::SECRET,
    &written::DOWNWARD_API,
    &written::CONFIG_MAP,
    &written::PROJECTED,
    &local::LOCAL_VOLUME,
    &csi::CSI,
    &image::IMAGE,
];

/// What plugins work with.
pub struct Scene {
    /// Where things are.
    pub layout: Layout,
    /// The mount table, kept current.
    pub watch: table::Watch,
    /// The objects that volumes show.
    pub objects: Arc<RwLock<Memory>>,
    /// Tokens, if anybody gives any.
    pub tokens: token::Cache,
    /// The CSI drivers.
    pub drivers: Arc<Drivers>,
    /// What this node attached itself.
    pub attachments: Attachments,
    /// Who hears what pods' owners should know.
    pub tell: Tell,
    /// Who is told of what is counted.
    pub observer: Observer,
    /// This node's name.
    pub node: Arc<str>,
    /// The service account that drivers are told of a pod that names none.
    pub default_account: Arc<str>,
}

/// What a pod says of one of its volumes.
#[derive(Clone, Debug)]
pub struct Want {
    /// The pod, with the API server's defaults.
    pub pod: Arc<api::Pod>,
    /// The volume.
    pub detail: Arc<Detail>,
    /// The objects that it shows, as they were when its revision was told: content and revision belong together, or what
    /// a record says of the content would not be true.
    pub objects: Snapshot,
}

impl Want {
    /// What a pod on this node says of a volume, with the objects as they are now.
    pub fn new(pod: &Arc<api::Pod>, detail: &Arc<Detail>, memory: &Memory, node: &str) -> Self {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let described = described(pod, detail);
        let objects = described.map(|it| Snapshot::of(memory, namespace, node, it)).unwrap_or_default();
        Self { pod: pod.clone(), detail: detail.clone(), objects }
    }

    /// The volume, if the pod describes it itself.
    pub fn volume(&self) -> Option<&api::Volume> {
        described(&self.pod, &self.detail)
    }

    /// The pod's UID.
    pub fn uid(&self) -> PodUid {
        self.pod.metadata.uid.as_deref().unwrap_or_default().into()
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    /// The pod's namespace.
    pub fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Whether the pod may write, by its reference to the claim.
    pub fn access(&self) -> Access {
        match read_only(&self.pod).contains(&self.detail.name) {
            true => Access::ReadOnly,
            false => Access::ReadWrite,
        }
    }

    /// The group that a volume belongs to, if the pod names one (`fsGroup`).
    pub fn group(&self) -> Option<i64> {
        self.pod.spec.as_ref()?.security_context.as_ref()?.fs_group
    }
}

/// How a pod describes a volume, if it does.
fn described<'a>(pod: &'a api::Pod, detail: &Detail) -> Option<&'a api::Volume> {
    let mut volumes = pod.spec.iter().filter_map(|it| it.volumes.as_ref()).flatten();
    volumes.find(|it| detail.persistent.is_none() && it.name == detail.name.as_str())
}

/// What a pod calls the volumes that it may only read, by its references to claims (P-219).
pub(crate) fn read_only(pod: &api::Pod) -> BTreeSet<OuterName> {
    let volumes = pod.spec.iter().filter_map(|it| it.volumes.as_ref()).flatten();
    let claims = volumes.filter(|it| it.persistent_volume_claim.as_ref().is_some_and(|it| it.read_only == Some(true)));
    claims.map(|it| it.name.as_str().into()).collect()
}

/// What was handed over when a volume was attached, for the calls that follow: names and values.
pub(crate) type HandedOver = BTreeMap<String, String>;

/// What was handed over of the volumes that this node attached itself. The records have it too.
#[derive(Default)]
pub struct Attachments(Mutex<HashMap<VolumeId, HandedOver>>);

impl Attachments {
    /// What was handed over when this node attached a volume.
    pub fn get(&self, volume: &VolumeId) -> Option<HandedOver> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(volume).cloned()
    }

    /// A volume is attached by this node, and this was handed over; or it is not.
    pub fn set(&self, volume: &VolumeId, handed_over: Option<HandedOver>) {
        let mut attached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match handed_over {
            Some(handed_over) => attached.insert(volume.clone(), handed_over),
            None => attached.remove(volume),
        };
    }
}

/// A volume to be attached.
pub struct Attach<'a> {
    /// The volume.
    pub spec: &'a VolumeSpec,
    /// What one of the pods that want it says of it.
    pub want: &'a Want,
    /// What whoever attaches it calls this node.
    pub node_id: &'a str,
}

/// A stage to be made.
pub struct Stage<'a> {
    /// The volume.
    pub spec: &'a VolumeSpec,
    /// What one of the pods that want it says of it.
    pub want: &'a Want,
    /// Whether only for reading.
    pub access: Access,
    /// What came before.
    pub after: Earlier,
    /// The SELinux label to mount it with.
    pub label: Option<&'a str>,
}

/// A publish to be made.
pub struct Publish<'a> {
    /// The volume.
    pub spec: &'a VolumeSpec,
    /// Its place in the pod.
    pub slot: &'a Slot,
    /// The pod's directory.
    pub home: &'a Home,
    /// The pod.
    pub uid: &'a PodUid,
    /// What the pod says of it.
    pub want: &'a Want,
    /// Whether the pod may write.
    pub access: Access,
    /// What came before. After a success the pod has the volume: nothing of it may be taken away (E-256).
    pub after: Earlier,
    /// The SELinux label to mount it with.
    pub label: Option<&'a str>,
    /// What was made there in this boot, or was going to be, if that is recorded. No other mount is the volume (I-4).
    pub made: Option<&'a Made>,
    /// Records what is going to be made, before anybody can see it.
    pub intend: &'a (dyn Fn(&Made) -> Result<(), Failure> + Sync),
}

/// A publish to be undone. Only names are known for certain: the pod may be long gone.
pub struct Unpublish<'a> {
    /// The volume; of what was found without a record only the names are true.
    pub spec: &'a VolumeSpec,
    /// Its place in the pod.
    pub slot: &'a Slot,
    /// The pod's directory.
    pub home: &'a Home,
    /// What was made there in this boot, if that is recorded.
    pub made: Option<&'a Made>,
    /// Whether there is any record of it.
    pub recorded: bool,
}

/// What a stage or publish made.
#[derive(Clone, PartialEq, Debug)]
pub struct Made {
    /// What identifies it.
    pub proof: Proof,
    /// What it is.
    pub form: VolumeForm,
    /// The path that a container is given.
    pub path: PathBuf,
    /// When its content must be written anew though nothing changes: tokens expire.
    pub refresh_at: Option<SystemTime>,
    /// When what a pod had in it was found to be lost, or a part of that.
    pub lost_at: Option<SystemTime>,
}

/// What a volume is on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeForm {
    /// A mount at this path.
    Mount(PathBuf),
    /// A directory that windlass made, which must not be mounted over.
    Directory,
    /// Something of the host, to which nothing was done.
    Host,
}

impl Made {
    /// A mount whose path is handed out.
    pub fn mount(mount: &table::Mount) -> Self {
        let path = mount.mount_point.clone();
        Self { proof: mount_proof(mount), form: VolumeForm::Mount(path.clone()), path, refresh_at: None, lost_at: None }
    }

    /// A file system of this type that is going to be mounted at this path, which is handed out.
    pub fn new_mount(mount: &mount::Detached, path: &Path, kind: &str) -> Result<Self, Failure> {
        let (proof, path) = (new_mount_proof(mount, kind)?, path.to_path_buf());
        Ok(Self { proof, form: VolumeForm::Mount(path.clone()), path, refresh_at: None, lost_at: None })
    }

    /// Something of the host, to which nothing is done.
    pub(crate) fn untouched(path: PathBuf) -> Self {
        Self { proof: nothing_proof(&path), form: VolumeForm::Host, path, refresh_at: None, lost_at: None }
    }

    /// Is this mount what was made?
    pub(crate) fn is_mounted_as(&self, mount: &table::Mount) -> bool {
        matches!(self.form, VolumeForm::Mount(_)) && self.proof.holds_for(&mount_proof(mount))
    }
}

/// Why a call failed, and what it left behind.
#[derive(Debug)]
pub struct Failure {
    /// What it left behind.
    pub left: Left,
    /// What kind of trouble it was.
    pub cause: Cause,
    /// What happened, for people: the kubelet's words, where it has any.
    pub text: String,
    /// What the kubelet's words leave out; empty if that is nothing.
    pub note: String,
}

impl Failure {
    /// It was refused before anything was done.
    pub fn refused(cause: Cause, text: impl Into<String>) -> Self {
        Self { left: Left::Nothing, cause, text: text.into(), note: String::new() }
    }

    /// Something went wrong; whether anything is left behind is not known.
    pub fn open(error: &(dyn StdError + 'static)) -> Self {
        Self { left: Left::Something, cause: cause(error), text: chain(error), note: String::new() }
    }

    /// Something that is not windlass's is where the volume belongs; whether anything is left behind is not known.
    pub fn in_the_way(text: impl Into<String>) -> Self {
        Self { left: Left::Something, ..Self::refused(Cause::Node(Obstacle::InTheWay), text) }
    }

    /// The same, with what its words leave out.
    #[must_use]
    pub fn noting(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The same, but known to have left nothing behind.
    #[must_use]
    pub fn nothing_left(self) -> Self {
        Self { left: Left::Nothing, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.note.as_str() {
            "" => f.write_str(&self.text),
            note => write!(f, "{} ({note})", self.text),
        }
    }
}

macro_rules! from {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::open(&error)
            }
        })*
    };
}

from! {
    atomic_dir::Error, layout::Error, mount::Error, remove::Error, safe_path::Error, table::Error,
    windlass_linux::name::Error, windlass_linux::path_error::PathError, windlass_linux::whole_file::Error,
}

/// How many processes that hold something open are named.
pub(crate) const HOLDERS_MAX: usize = 3;

/// Unmounts what is ours. What is mounted in it, or who has something open there, and keeps it busy, is named.
fn unmount(scene: &Scene, mount: &table::Mount) -> Result<(), Failure> {
    explain(scene, mount, mount::unmount_watched(&scene.watch, mount, UnmountPolicy::Clean))
}

/// The same, of what is in memory, from within the open directory that holds its mount point.
fn unmount_in(scene: &Scene, parent: &Place, name: &Name, mount: &table::Mount) -> Result<(), Failure> {
    explain(scene, mount, mount::unmount_in(parent, name, &scene.watch, mount, UnmountPolicy::Clean))
}

fn explain(
    scene: &Scene,
    mount: &table::Mount,
    unmounted: Result<mount::Unmounted, mount::Error>,
) -> Result<(), Failure> {
    let Err(error) = unmounted else { return Ok(()) };
    let is_busy = error.is_busy();
    let mut failure = Failure::from(error);
    if !is_busy {
        return Err(failure);
    }
    let inside = scene.watch.table().children(mount);
    if !inside.is_empty() {
        let inside: Vec<String> = inside.iter().map(|it| it.mount_point.display().to_string()).collect();
        failure.text.push_str(&format!(" (mounted in it: {})", inside.join(", ")));
    }
    let holders: Vec<String> =
        holders::below(&mount.mount_point, HOLDERS_MAX).iter().map(ToString::to_string).collect();
    Err(failure.noting(holders.join(", ")))
}

/// An error and what led to it, in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        // Transparent errors repeat their source.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = error.source();
    }
    text
}

/// What kind of trouble an error is (E-435 for what counts as broken).
fn cause(error: &(dyn StdError + 'static)) -> Cause {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(remove::Error::Foreign { .. } | remove::Error::Mounted { .. } | remove::Error::Refilled { .. }) =
            error.downcast_ref()
        {
            return Cause::Node(Obstacle::InTheWay);
        }
        if error.is::<windlass_linux::name::Error>() {
            return Cause::Node(Obstacle::InputInvalid);
        }
        if let Some(errno) = error.downcast_ref::<Errno>() {
            return obstacle(*errno).map_or(Cause::Other, Cause::Node);
        }
        next = error.source();
    }
    Cause::Other
}

/// What the kernel's answer means to a person.
pub(crate) fn obstacle(errno: Errno) -> Option<Obstacle> {
    Some(match errno {
        Errno::NOSPC | Errno::DQUOT => Obstacle::NoSpace,
        Errno::ROFS => Obstacle::ReadOnlyFileSystem,
        Errno::BUSY => Obstacle::HeldOpen,
        Errno::NOTCONN | Errno::STALE | Errno::IO | Errno::HOSTDOWN | Errno::NODEV => Obstacle::FileSystemBroken,
        Errno::PERM | Errno::ACCESS => Obstacle::NotPermitted,
        Errno::NOTDIR | Errno::ISDIR | Errno::EXIST | Errno::LOOP | Errno::XDEV | Errno::NOTEMPTY => Obstacle::InTheWay,
        Errno::NOSYS | Errno::OPNOTSUPP => Obstacle::AbilityMissing,
        Errno::NAMETOOLONG => Obstacle::InputInvalid,
        _ => return None,
    })
}

/// A volume type.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// Gives the volume to a pod, or brings what the pod has up to date.
    async fn publish(&self, scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure>;

    /// Takes it from the pod. That it is gone already is success.
    async fn unpublish(&self, scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure>;

    /// What whoever attaches the volume calls this node: what is noted before attach, so that it can be undone.
    fn node_id(&self, _scene: &Scene, spec: &VolumeSpec) -> Result<String, Failure> {
        Err(Failure::refused(Cause::Other, format!("{} has nothing to attach", spec.plugin)))
    }

    /// Attaches it to this node, and tells what is handed over to the calls that follow.
    async fn attach(&self, _scene: &Scene, task: &Attach<'_>) -> Result<HandedOver, Failure> {
        Err(Failure::refused(Cause::Other, format!("{} has nothing to attach", task.spec.plugin)))
    }

    /// Undoes attach. That it is gone already is success.
    async fn detach(&self, _scene: &Scene, spec: &VolumeSpec, _node_id: &str) -> Result<(), Failure> {
        Err(Failure::refused(Cause::Other, format!("{} has nothing to detach", spec.plugin)))
    }

    /// Makes it ready for this node.
    async fn stage(&self, _scene: &Scene, task: &Stage<'_>) -> Result<Made, Failure> {
        Err(Failure::refused(Cause::Other, format!("{} has nothing to stage", task.spec.plugin)))
    }

    /// Where it is staged, if that is a mount point.
    fn staging_path(&self, _scene: &Scene, _spec: &VolumeSpec) -> Option<PathBuf> {
        None
    }

    /// Undoes stage. That it is gone already is success.
    async fn unstage(&self, _scene: &Scene, _spec: &VolumeSpec) -> Result<(), Failure> {
        Ok(())
    }

    /// Grows it while the pod has it, and tells the size it has then; `None`: there is nothing to do on this node.
    async fn expand(
        &self,
        _scene: &Scene,
        _spec: &VolumeSpec,
        _want: &Want,
        _to_bytes: u64,
    ) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// How full it is, while a pod has it.
    async fn statistics(&self, scene: &Scene, _want: &Want, made: &Made) -> Result<Statistics, Failure> {
        let began = Instant::now();
        let statistics = statistics::measure(made)?;
        // A file system knows it; files have to be counted, which the kubelet's metrics call by the name of the program.
        if made.form == VolumeForm::Directory {
            scene.observer.tell(&Observed::Measured { source: "du", took: began.elapsed() });
        }
        Ok(statistics)
    }

    /// Which volume is at a place in a pod, as far as what lies there tells: read at start, for what no record tells.
    fn published(&self, _scene: &Scene, _slot: &Slot) -> Result<Option<VolumeSpec>, Failure> {
        Ok(None)
    }

    /// What is staged on this node, as far as directories and the mount table tell: read at start, for what no record
    /// tells.
    fn staged(&self, _scene: &Scene) -> Result<Vec<(VolumeSpec, Option<Proof>)>, Failure> {
        Ok(Vec::new())
    }
}

/// Something is mounted where a volume belongs.
pub(crate) fn foreign(mount: &table::Mount) -> Failure {
    let (path, kind, source) = (mount.mount_point.display(), mount.kind.display(), mount.source.display());
    let text = format!("{path} is the mount point of something that is not ours: {kind} {source}");
    Failure::in_the_way(text)
}

/// The root cannot be reached by its path, which is all that containers and drivers have of it.
pub(crate) fn covered(scene: &Scene, cover: &table::Mount) -> Failure {
    let (root, point) = (scene.layout.path().display(), cover.mount_point.display());
    let (kind, source) = (cover.kind.display(), cover.source.display());
    Failure::in_the_way(format!(
        "{kind} {source} is mounted at {point} and covers {root}: what windlass has there cannot be reached by its path, so \
         nothing is handed out, made or taken away until that is unmounted"
    ))
}

/// The path of a slot as people and the mount table call it.
pub(crate) fn absolute(scene: &Scene, below: &Path) -> PathBuf {
    // Of the right length from the start, so that it need not grow.
    let mut path = PathBuf::with_capacity(scene.layout.path().as_os_str().len() + 1 + below.as_os_str().len());
    path.extend([scene.layout.path(), below]);
    path
}
