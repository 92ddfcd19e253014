//! Runs operations: calls the plugin, keeps the records, and says how it ended. It decides nothing.
//!
//! Each operation runs on worker threads of its plugin's lane, where it may hang without holding up another volume
//! (I-6); while it waits for a driver it has none. Around the plugin's call stand the duties that
//! [`windlass_core::operation`] names: the intent is on disk before anything is made, the record claims nothing before
//! anything is taken away, *done* is said only of what the mount table shows, *refused* only if nothing was left behind.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

use k8s_openapi::api::core::v1::Pod;
use rustix::io::Errno;
use serde_json::Map;
use windlass_core::{
    Operation,
    ids::{BootId, PodUid},
    operation::{Action, Cause, Done, Earlier, Obstacle, Outcome, Proof, Trouble},
    spec::{self, VolumeSpec},
};
use windlass_linux::{holders, name::Name, ownership, remove, table::MountId, whole_file::Survives};

use crate::{
    catalogue::Kind,
    csi::Refreshed,
    layout::{self, Home, Slot},
    packed::Packed,
    plugin::{self, Attributes, Failure, Left, Made, Plugin, Publish, Scene, Stage, Statistics, Unpublish, Want, What},
    record::{self, Begun, Key, Record, Records, State},
};

/// The revision of content that was being written. No other content has it, but for a chance of one in 2^64.
const UNKNOWN: u64 = u64::MAX;

/// What operations are run with.
pub(crate) struct Executor {
    pub(crate) scene: Scene,
    pub(crate) records: Records,
    pub(crate) boot: BootId,
    /// Pods that are wanted or hold something: their directories stay.
    pub(crate) live: Mutex<HashSet<PodUid>>,
    /// Volumes stay with a pod that is gone while somebody else has them mounted or open.
    holds_while_in_use: bool,
    /// One at a time makes or removes a pod's directory. Those of pods that have theirs stay here.
    pods: Mutex<HashMap<PodUid, Arc<Mutex<Directory>>>>,
}

/// Whether a pod's directory is there, as far as this process knows. Somebody else may remove it; then whatever needs it
/// makes it again.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Directory {
    #[default]
    Unknown,
    Made,
}

/// An operation with all that it needs.
pub(crate) struct Job {
    pub(crate) operation: Operation,
    /// What a pod that wants the volume says of it.
    pub(crate) want: Option<Want>,
    /// How often the content was renewed though nothing changed.
    pub(crate) epoch: u64,
    /// What was made and is to be taken away, if this life of the process knows.
    pub(crate) held: Option<Made>,
    /// It is known that there is no record of it: all were read, and it is to be made for the first time.
    pub(crate) is_unrecorded: bool,
    /// Shared with the operations of the same pod that were given out together.
    pub(crate) together: Together,
}

/// Keeps a pod and its directory open until the last of the operations has ended that were given out together.
pub(crate) type Together = Arc<Shared>;

/// What operations of one pod that were given out together share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The pod's directory.
    home: OnceLock<Arc<Home>>,
    /// The pod, since the turn of the first of them came.
    pod: OnceLock<Arc<Pod>>,
}

impl Shared {
    /// Opens the pod, once for all of them.
    pub(crate) fn open(&self, packed: &Packed) -> Option<Arc<Pod>> {
        let pod = packed.open()?;
        // Whoever has it open has it open for all; if this is another version of the pod, then each for itself.
        let _ = self.pod.set(pod.clone());
        Some(pod)
    }
}

/// How a job ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// What is there now, if it was made.
    pub(crate) made: Option<Made>,
    /// The mounts that stand at its place although it failed.
    pub(crate) obstacles: Vec<MountId>,
}

impl Ended {
    fn failed(failure: Failure) -> Self {
        let trouble = Trouble { text: failure.to_string().into(), cause: failure.cause };
        let outcome = match failure.left {
            Left::Nothing => Outcome::Refused(trouble),
            Left::Something => Outcome::Unknown(trouble),
        };
        Self { outcome, made: None, obstacles: Vec::new() }
    }

    fn done(done: Done) -> Self {
        Self { outcome: Outcome::Done(done), made: None, obstacles: Vec::new() }
    }

    /// It could not begin.
    pub(crate) fn refused(trouble: Trouble) -> Self {
        Self { outcome: Outcome::Refused(trouble), made: None, obstacles: Vec::new() }
    }

    /// It ended without a word.
    pub(crate) fn broke_off() -> Self {
        let text = "the operation broke off; this is a defect of windlass";
        let trouble = Trouble { cause: Cause::Other, text: text.into() };
        Self { outcome: Outcome::Unknown(trouble), made: None, obstacles: Vec::new() }
    }
}

impl Executor {
    pub(crate) fn new(scene: Scene, records: Records, boot: BootId, holds_while_in_use: bool) -> Self {
        Self { scene, records, boot, live: Mutex::default(), holds_while_in_use, pods: Mutex::default() }
    }

    /// Runs one operation to its end.
    pub(crate) async fn run(&self, job: &Job) -> Ended {
        let operation = &job.operation;
        if let Err(failure) = self.refresh_driver(operation).await {
            return Ended::failed(failure);
        }
        let ended = match &operation.action {
            Action::Stage { after, label } => self.stage(job, *after, label.clone()).await,
            Action::Publish { pod, after, access, revision, label } => {
                let request = Request { pod, after: *after, access: *access, revision: *revision, label };
                self.publish(job, &request).await
            }
            Action::Unpublish { pod, with_pod } => self.unpublish(job, pod, *with_pod).await,
            Action::Unstage => self.unstage(&operation.spec).await,
            Action::Expand { to_bytes, .. } => self.expand(job, *to_bytes).await,
            Action::Attach => self.attach(job).await,
            Action::Detach => self.detach(&operation.spec).await,
        };
        ended.unwrap_or_else(|failure| Ended { obstacles: self.obstacles(operation), ..Ended::failed(failure) })
    }

    /// A driver that was started again is asked what it can do before it is called. If that is something else than before,
    /// nothing is made on the word of the one before: the engine hears of it first.
    async fn refresh_driver(&self, operation: &Operation) -> Result<(), Failure> {
        let spec = &operation.spec;
        let Some(driver) = spec.driver.as_ref().filter(|_| Kind::of_plugin(spec.plugin.as_str()) == Some(Kind::Csi))
        else {
            return Ok(());
        };
        let makes = match operation.action {
            Action::Attach | Action::Stage { .. } | Action::Publish { .. } | Action::Expand { .. } => true,
            Action::Unpublish { .. } | Action::Unstage | Action::Detach => false,
        };
        match self.scene.drivers.refresh(driver.as_str()).await {
            Refreshed::Changed if makes => {
                let text = format!("driver {driver} was started again and can do other things than before");
                Err(Failure::refused(Cause::Driver, text))
            }
            Refreshed::Changed | Refreshed::Same => Ok(()),
        }
    }

    /// What is mounted at the place of an operation that failed, once that was undone as far as it could be.
    fn obstacles(&self, operation: &Operation) -> Vec<MountId> {
        let spec = &operation.spec;
        let places: Vec<PathBuf> = match &operation.action {
            Action::Publish { pod, .. } | Action::Unpublish { pod, .. } => {
                let slot = Slot::of(pod, spec).map(|it| self.scene.layout.path().join(it.path()));
                slot.into_iter().flat_map(|it| [it.join("mount"), it]).collect()
            }
            Action::Stage { .. } | Action::Unstage => {
                plugin::csi::staging_path(&self.scene, spec).into_iter().collect()
            }
            Action::Attach | Action::Detach | Action::Expand { .. } => return Vec::new(),
        };
        // If the table cannot be read, nobody is told either when something goes.
        if self.scene.watch.catch_up().is_err() {
            return Vec::new();
        }
        let table = self.scene.watch.table();
        places.iter().filter_map(|it| table.topmost(it)).map(|it| it.id).collect()
    }

    async fn publish(&self, job: &Job, request: &Request<'_>) -> Result<Ended, Failure> {
        let spec = &job.operation.spec;
        let Some(want) = &job.want else { return Err(nobody(spec)) };
        let told = |failure: Failure| self.tell_failure(request.pod, spec, failure);
        // First, because the pod has its directory whatever becomes of its volumes. Whoever removes the directory of a pod
        // of this name is done, or will see that the pod is back.
        let home = self.make_home(request.pod, &job.together).map_err(|it| told(it.nothing_left()))?;
        self.check_refusal(want).inspect_err(|failure| {
            if self.may_still_come(failure) {
                return;
            }
            self.scene.tell.warning(request.pod, refused_reason(want, spec), failure.text.as_str());
        })?;
        check_group(want, request.access).map_err(told)?;
        let plugin = plugin_of(spec)?;
        let slot = Slot::of(request.pod, spec).map_err(|error| told(Failure::open(&error).nothing_left()))?;
        let key = Key::Publish(slot.clone());
        let before = match job.is_unrecorded {
            true => None,
            false => self.known(&key).map_err(|it| told(it.nothing_left()))?,
        };
        let known = before.as_ref().and_then(|it| it.made_in(&self.boot));
        self.check_place(spec, known).map_err(|it| told(it.nothing_left()))?;
        let kept = before.as_ref().map(|it| it.other.clone()).unwrap_or_default();
        let in_use = before.as_ref().filter(|_| request.after == Earlier::Success).and_then(|it| self.proven(it));
        let proof_is_stale = before.as_ref().is_some_and(|it| matches!(it.state, State::Proven { .. }));
        let writes_intent = in_use.is_none() && (trace(spec) == Trace::Record || proof_is_stale);
        let mut begun = None;
        if writes_intent {
            let state = before.as_ref().map_or(State::Intent { made: None }, |it| it.intent(&self.boot));
            let intent = self.record(spec, state, request.label.clone(), Some(want), kept.clone());
            begun = self.intend(&key, before.as_ref(), &intent, trace(spec).survives()).map_err(told)?;
        } else if let (Some(record), Some(made)) = (&before, in_use) {
            // What the pod has stays proven, but from now on its content may be the new one or the old.
            let state =
                State::Proven { boot: self.boot.clone(), made: made.clone(), revision: UNKNOWN, epoch: job.epoch };
            let unsettled = Record { state, ..record.clone() };
            self.write(&key, &unsettled, Survives::Crash).map_err(|it| told(it.nothing_left()))?;
        }
        let (uid, access, after, label) = (request.pod, request.access, request.after, request.label.as_deref());
        let begun = Mutex::new(begun);
        let lost = |made: Made| Made { lost_at: self.lost_at(spec, before.as_ref(), &made), ..made };
        // What a plugin is going to mount is known before anybody can see it, and stands in the record by then.
        let intend = |made: &Made| {
            let state = State::Intent { made: Some((self.boot.clone(), lost(made.clone()))) };
            let intent = self.record(spec, state, request.label.clone(), Some(want), kept.clone());
            let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
            match &*begun {
                Some(begun) => begun.add(&intent).map_err(|error| Failure::open(&error)),
                None => {
                    *begun = self.intend(&key, before.as_ref(), &intent, Survives::Crash)?;
                    Ok(())
                }
            }
        };
        let task =
            Publish { spec, slot: &slot, home: &home, uid, want, access, after, label, made: known, intend: &intend };
        let published = plugin.publish(&self.scene, &task).await.and_then(|made| {
            self.check(&made)?;
            Ok(made)
        });
        let begun = begun.into_inner().unwrap_or_else(PoisonError::into_inner);
        match published {
            Ok(made) => {
                let made = lost(made);
                self.tell_if_lost(request.pod, want, before.as_ref(), &made);
                let state = State::Proven {
                    boot: self.boot.clone(),
                    made: made.clone(),
                    revision: request.revision,
                    epoch: job.epoch,
                };
                let proof = self.record(spec, state, request.label.clone(), Some(want), kept);
                // What left a directory is found without a record too, so one that was not finished is taken for none, and
                // goes with the volume.
                let is_first = before.is_none() && !writes_intent && begun.is_none() && made.what != What::Host;
                self.prove(&key, begun.as_ref(), &proof, is_first).map_err(told)?;
                Ok(Ended { outcome: Outcome::Done(Done::Mounted(made.proof)), made: Some(made), obstacles: Vec::new() })
            }
            Err(failure) => {
                // What this call did not change is as it was recorded before.
                match (&failure.left, &before) {
                    (Left::Nothing, Some(record)) if in_use.is_some() => self.write(&key, record, Survives::Crash)?,
                    (Left::Nothing, None) if writes_intent || begun.is_some() => self.forget(&key)?,
                    _ => {}
                }
                Err(told(failure))
            }
        }
    }

    /// Both records outlast a power cut, as what is attached does.
    async fn attach(&self, job: &Job) -> Result<Ended, Failure> {
        let spec = &job.operation.spec;
        let Some(want) = &job.want else { return Err(nobody(spec)) };
        let uid = want.uid();
        let told =
            |failure: Failure| self.tell_as("FailedAttachVolume", &uid, spec, "AttachVolume.Attach failed", failure);
        let plugin = plugin_of(spec)?;
        let key = Key::Attach(spec.id.clone());
        let before = self.known(&key).map_err(|it| told(it.nothing_left()))?;
        let node = match attached_as(before.as_ref()) {
            // It may be attached under this name, so it is not attached under another one.
            Some(node) => node.to_owned(),
            None => plugin.node_id(&self.scene, spec).map_err(|it| told(it.nothing_left()))?,
        };
        let state = |context| State::Attachment { node: node.clone(), context };
        let write =
            |context| self.write(&key, &self.record(spec, state(context), None, None, Map::new()), Survives::PowerLoss);
        write(None).map_err(told)?;
        let task = plugin::Attach { spec, want, node_id: &node };
        match plugin.attach(&self.scene, &task).await {
            Ok(context) => {
                write(Some(context.clone())).map_err(told)?;
                self.scene.drivers.set_context(&spec.id, Some(context));
                let text = format!("AttachVolume.Attach succeeded for volume \"{}\" ", spec.inner_name);
                self.scene.tell.normal(&uid, "SuccessfulAttachVolume", text);
                Ok(Ended::done(Done::Attached { device: None }))
            }
            Err(failure) => {
                if failure.left == Left::Nothing && before.is_none() {
                    self.forget(&key)?;
                }
                Err(told(failure))
            }
        }
    }

    async fn detach(&self, spec: &Arc<VolumeSpec>) -> Result<Ended, Failure> {
        let left = |it: Failure| Failure { left: Left::Something, ..it };
        let key = Key::Attach(spec.id.clone());
        let before = self.known(&key)?;
        let plugin = plugin_of(spec)?;
        let node = match attached_as(before.as_ref()) {
            Some(node) => node.to_owned(),
            None => plugin.node_id(&self.scene, spec).map_err(left)?,
        };
        let state = State::Attachment { node: node.clone(), context: None };
        self.write(&key, &self.record(spec, state, None, None, Map::new()), Survives::PowerLoss)?;
        self.scene.drivers.set_context(&spec.id, None);
        plugin.detach(&self.scene, spec, &node).await.map_err(left)?;
        self.forget(&key)?;
        Ok(Ended::done(Done::Gone))
    }

    async fn stage(&self, job: &Job, after: Earlier, label: Option<Arc<str>>) -> Result<Ended, Failure> {
        let spec = &job.operation.spec;
        let Some(want) = &job.want else { return Err(nobody(spec)) };
        let uid = want.uid();
        let told = |failure: Failure| self.tell_step(&uid, spec, stage_failed(spec.mode), failure);
        self.check_refusal(want).inspect_err(|failure| {
            if self.may_still_come(failure) {
                return;
            }
            self.scene.tell.warning(&uid, refused_reason(want, spec), failure.text.as_str());
        })?;
        let plugin = plugin_of(spec)?;
        let key = Key::Stage(spec.id.clone());
        let before = match job.is_unrecorded {
            true => None,
            false => self.known(&key).map_err(|it| told(it.nothing_left()))?,
        };
        let kept = before.as_ref().map(|it| it.other.clone()).unwrap_or_default();
        let known = before.as_ref().and_then(|it| it.made_in(&self.boot));
        self.check_place(spec, known).map_err(|it| told(it.nothing_left()))?;
        let state = before.as_ref().map_or(State::Intent { made: None }, |it| it.intent(&self.boot));
        let intent = self.record(spec, state, label.clone(), None, kept.clone());
        let begun = self.intend(&key, before.as_ref(), &intent, Survives::PowerLoss).map_err(told)?;
        let task = Stage { spec, want, access: want.access(), after, label: label.as_deref() };
        let staged = plugin.stage(&self.scene, &task).await.and_then(|made| {
            self.check(&made)?;
            Ok(made)
        });
        match staged {
            Ok(made) => {
                let state = State::Proven { boot: self.boot.clone(), made: made.clone(), revision: 0, epoch: 0 };
                self.prove(&key, begun.as_ref(), &self.record(spec, state, label, None, kept), false).map_err(told)?;
                Ok(Ended { outcome: Outcome::Done(Done::Mounted(made.proof)), made: Some(made), obstacles: Vec::new() })
            }
            Err(failure) => {
                if failure.left == Left::Nothing && before.is_none() {
                    self.forget(&key)?;
                }
                Err(told(failure))
            }
        }
    }

    async fn unpublish(&self, job: &Job, pod: &PodUid, with_pod: bool) -> Result<Ended, Failure> {
        let spec = &job.operation.spec;
        let slot = Slot::of(pod, spec).map_err(|error| Failure::open(&error))?;
        let key = Key::Publish(slot.clone());
        // What this life has made it knows as well as the record does.
        let before = if job.held.is_some() { None } else { self.known(&key)? };
        let made = before.as_ref().map_or(job.held.as_ref(), |it| it.made_in(&self.boot));
        let home = job.together.home.get_or_init(|| Arc::new(self.scene.layout.home(&slot.pod)));
        let recorded = before.is_some() || job.held.is_some();
        if self.holds_while_in_use {
            self.check_unused(&slot, made)?;
        }
        self.retire(&key, with_pod)?;
        let task = Unpublish { spec, slot: &slot, home, made, recorded };
        plugin_of(spec)?.unpublish(&self.scene, &task).await.map_err(|it| Failure { left: Left::Something, ..it })?;
        self.forget(&key)?;
        Ok(Ended::done(Done::Gone))
    }

    async fn unstage(&self, spec: &Arc<VolumeSpec>) -> Result<Ended, Failure> {
        let key = Key::Stage(spec.id.clone());
        self.retire(&key, false)?;
        plugin_of(spec)?.unstage(&self.scene, spec).await.map_err(|it| Failure { left: Left::Something, ..it })?;
        self.forget(&key)?;
        Ok(Ended::done(Done::Gone))
    }

    async fn expand(&self, job: &Job, to_bytes: u64) -> Result<Ended, Failure> {
        let spec = &job.operation.spec;
        let Some(want) = &job.want else { return Err(nobody(spec)) };
        match plugin_of(spec)?.expand(&self.scene, spec, want, to_bytes).await? {
            Some(size_bytes) => Ok(Ended::done(Done::Expanded { size_bytes })),
            None => Err(Failure::refused(Cause::NotSupported, "there is nothing to grow on this node")),
        }
    }

    /// How full a volume is.
    pub(crate) fn statistics(&self, want: &Want, made: &Made) -> Result<Statistics, Failure> {
        plugin::of(want.detail.kind).statistics(&self.scene, want, made)
    }

    /// The record of something.
    fn known(&self, key: &Key) -> Result<Option<Record>, Failure> {
        sensible(self.records.read(key))
    }

    /// What a record proves for this boot.
    fn proven<'a>(&self, record: &'a Record) -> Option<&'a Made> {
        match &record.state {
            State::Proven { boot, made, .. } if *boot == self.boot => Some(made),
            State::Proven { .. } | State::Intent { .. } | State::Leaving { .. } | State::Attachment { .. } => None,
        }
    }

    /// Whatever is mounted where something was made must be that: what somebody else put there is neither written to nor
    /// handed out (I-4, I-12).
    fn check_place(&self, spec: &VolumeSpec, known: Option<&Made>) -> Result<(), Failure> {
        let Some(known) = known else { return Ok(()) };
        let path = match &known.what {
            What::Mount(path) => path,
            What::Directory => &known.path,
            What::Host => return Ok(()),
        };
        let Some(mount) = plugin::mounted(&self.scene.watch, path)? else { return Ok(()) };
        if known.is_mounted_as(&mount) {
            return Ok(());
        }
        // A driver may have mounted its volume anew, in a call of whose end nobody heard.
        let is_beneath = || self.scene.watch.table().at(path).any(|it| known.is_mounted_as(it));
        let (seen, made) = (plugin::mount_proof(&mount), known.proof);
        let is_same_file_system = (seen.device, seen.kind) == (made.device, made.kind);
        if spec.driver.is_some() && is_same_file_system && !is_beneath() {
            return Ok(());
        }
        Err(plugin::foreign(&mount))
    }

    /// Does anybody still have what is about to be taken away: a container in a mount namespace of its own, or a process
    /// with something open in it?
    fn check_unused(&self, slot: &Slot, made: Option<&Made>) -> Result<(), Failure> {
        let path = match made {
            Some(Made { what: What::Host, .. }) => return Ok(()),
            Some(Made { what: What::Mount(path), .. }) => path.clone(),
            Some(Made { what: What::Directory, path, .. }) => path.clone(),
            None => plugin::absolute(&self.scene, &slot.path()),
        };
        self.scene.watch.catch_up()?;
        let table = self.scene.watch.table();
        let Some(mount) = table.containing(&path) else { return Ok(()) };
        let below = path.strip_prefix(&mount.mount_point).unwrap_or(Path::new(""));
        let root: PathBuf = mount.root.join(below).components().collect();
        let elsewhere = holders::in_other_namespaces(mount, &root, &path, plugin::HOLDERS_MAX);
        let here = holders::below(&path, plugin::HOLDERS_MAX);
        let named: Vec<String> = elsewhere.iter().chain(&here).map(ToString::to_string).collect();
        if named.is_empty() {
            return Ok(());
        }
        let text =
            format!("{} is still in use, and is held back until it is not: {}", path.display(), named.join(", "));
        Err(Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::HeldOpen), text) })
    }

    /// When the content of a scratch volume was lost: now, if this is another than was recorded, or as is recorded.
    fn lost_at(&self, spec: &VolumeSpec, before: Option<&Record>, made: &Made) -> Option<SystemTime> {
        let (boot, earlier) = before?.made()?;
        if Kind::of_plugin(spec.plugin.as_str()) != Some(Kind::EmptyDir) {
            return None;
        }
        let was_proven = matches!(before?.state, State::Proven { .. });
        let is_lost = match (&earlier.what, &made.what) {
            // A directory that somebody put back with its content is another one, and nothing is lost.
            (What::Directory, What::Directory) => earlier.proof.root != made.proof.root && is_empty(&made.path),
            // What was in memory ends with the boot, and so do the containers that had it.
            _ => *boot == self.boot && !earlier.proof.holds_for(&made.proof),
        };
        if was_proven && is_lost { Some(SystemTime::now()) } else { earlier.lost_at }
    }

    /// Says that what a pod had in a volume is lost, once.
    fn tell_if_lost(&self, pod: &PodUid, want: &Want, before: Option<&Record>, made: &Made) {
        let known = before.and_then(Record::made).and_then(|(_, it)| it.lost_at);
        if made.lost_at.is_none() || made.lost_at == known {
            return;
        }
        let (name, path) = (&want.detail.name, made.path.display());
        let text = format!(
            "volume \"{name}\" was unmounted or removed by somebody else, and what was in it is lost: it was made anew, \
             empty, at {path}"
        );
        self.scene.tell.warning(pod, "VolumeContentLost", text);
    }

    /// Is what was made the thing that is there (I-4)? A plugin's word is not enough.
    fn check(&self, made: &Made) -> Result<(), Failure> {
        let What::Mount(path) = &made.what else { return Ok(()) };
        match plugin::mounted(&self.scene.watch, path)? {
            Some(mount) if made.proof.holds_for(&plugin::mount_proof(&mount)) => Ok(()),
            Some(_) | None => {
                let text = format!("what was mounted at {} is not there any more", path.display());
                Err(Failure::in_the_way(text))
            }
        }
    }

    /// What is there now, of something that was made: nothing at the path is touched unless it is a directory of ours.
    pub(crate) fn look(&self, made: &Made) -> Result<Option<Proof>, Failure> {
        match &made.what {
            What::Mount(path) => Ok(plugin::mounted(&self.scene.watch, path)?.map(|it| plugin::mount_proof(&it))),
            What::Host => Ok(Some(made.proof)),
            What::Directory => {
                if let Some(mount) = plugin::mounted(&self.scene.watch, &made.path)? {
                    return Ok(Some(plugin::mount_proof(&mount)));
                }
                let Ok(below) = made.path.strip_prefix(self.scene.layout.path()) else { return Ok(None) };
                match self.scene.layout.find(below) {
                    Ok(Some(place)) => Ok(Some(plugin::directory_proof(&place)?)),
                    Ok(None) => Ok(None),
                    // Something else is there, or was put over it just now.
                    Err(layout::Error::Reach(error))
                        if matches!(error.errno(), Errno::NOTDIR | Errno::LOOP | Errno::XDEV) =>
                    {
                        Ok(None)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    fn check_refusal(&self, want: &Want) -> Result<(), Failure> {
        match &want.detail.refusal {
            None => Ok(()),
            Some(refusal) => {
                let invalid = Cause::Node(Obstacle::InputInvalid);
                let cause = refusal.waits_on.clone().map_or(invalid, Cause::Object);
                Err(Failure::refused(cause, refusal.to_string()).noting(&*refusal.note))
            }
        }
    }

    fn record(
        &self,
        spec: &Arc<VolumeSpec>,
        state: State,
        label: Option<Arc<str>>,
        want: Option<&Want>,
        other: Map<String, serde_json::Value>,
    ) -> Record {
        let title = want.map(|it| [it.namespace(), "/", it.name()].concat());
        Record { spec: spec.clone(), state, label, title, other }
    }

    fn write(&self, key: &Key, record: &Record, survives: Survives) -> Result<(), Failure> {
        self.records.write(key, record, survives).map_err(|error| Failure::open(&error))
    }

    /// Writes down that something is going to be made. What comes of it can be added if there was no record before.
    fn intend(
        &self,
        key: &Key,
        before: Option<&Record>,
        intent: &Record,
        survives: Survives,
    ) -> Result<Option<Begun>, Failure> {
        let begun = match before {
            None => self.records.begin(key, intent, survives).map_err(|error| Failure::open(&error))?,
            Some(_) => None,
        };
        if begun.is_none() {
            self.write(key, intent, survives)?;
        }
        Ok(begun)
    }

    /// Writes down what was made. Not synced: proof holds for this boot alone, and is lost with it.
    fn prove(&self, key: &Key, begun: Option<&Begun>, proof: &Record, is_first: bool) -> Result<(), Failure> {
        let failed = |error| Failure::open(&error);
        if let Some(begun) = begun {
            return begun.add(proof).map_err(failed);
        }
        if is_first && self.records.begin(key, proof, Survives::Crash).map_err(failed)?.is_some() {
            return Ok(());
        }
        self.write(key, proof, Survives::Crash)
    }

    /// From now on what is recorded proves nothing.
    fn retire(&self, key: &Key, with_pod: bool) -> Result<(), Failure> {
        self.records.retire(key, with_pod).map_err(|error| Failure::open(&error))
    }

    fn forget(&self, key: &Key) -> Result<(), Failure> {
        self.records.remove(key).map_err(|error| Failure::open(&error))
    }

    /// Says it as the kubelet does (P-48), to the pod's owner and in the reason.
    fn tell_failure(&self, pod: &PodUid, spec: &VolumeSpec, failure: Failure) -> Failure {
        self.tell_step(pod, spec, publish_failed(spec.mode), failure)
    }

    fn tell_step(&self, pod: &PodUid, spec: &VolumeSpec, step: &str, failure: Failure) -> Failure {
        self.tell_as(failed_reason(spec.mode), pod, spec, step, failure)
    }

    fn tell_as(&self, reason: &'static str, pod: &PodUid, spec: &VolumeSpec, step: &str, failure: Failure) -> Failure {
        let text = format!("{step} for volume \"{}\" : {}", spec.inner_name, failure.text);
        if self.may_still_come(&failure) {
            return Failure { text, ..failure };
        }
        let is_open = failure.left == Left::Something && failure.cause == Cause::Other;
        if spec.driver.is_some() && (is_open || failure.cause == Cause::Driver) {
            self.scene.tell.no_answer(pod, reason, &spec.id, text.as_str());
        } else {
            self.scene.tell.warning(pod, reason, text.as_str());
        }
        Failure { text, ..failure }
    }

    /// Whether something failed for want of an object while not everything has been told: it may come in a moment, and then
    /// there is nothing to tell the pod's owner. If it does not, it fails again.
    fn may_still_come(&self, failure: &Failure) -> bool {
        let is_partial = || self.scene.objects.read().unwrap_or_else(PoisonError::into_inner).is_partial();
        matches!(failure.cause, Cause::Object(_)) && is_partial()
    }

    /// Makes a pod's directory, if the pod is still there.
    pub(crate) fn make_pod(&self, pod: &PodUid) -> Result<(), Failure> {
        self.make_home(pod, &Together::default()).map(drop)
    }

    /// The same, for something that is to be made in it.
    fn make_home(&self, pod: &PodUid, together: &Together) -> Result<Arc<Home>, Failure> {
        let name = Name::new("metadata.uid", pod.as_str())?;
        self.alone_with(pod, |directory| {
            if *directory == Directory::Unknown && self.is_live(pod) {
                let home = Arc::new(self.scene.layout.make_home(&name)?);
                *directory = Directory::Made;
                // If there is another already, this one is for this operation alone.
                let _ = together.home.set(home.clone());
                return Ok(home);
            }
            Ok(together.home.get_or_init(|| Arc::new(self.scene.layout.home(&name))).clone())
        })
    }

    /// Removes what windlass made of a pod's directory, if the pod is gone: empty directories alone (E-530..E-536). What
    /// others put there stays, and so do its parents; that it is in the way is an error.
    pub(crate) fn remove_pod(&self, pod: &PodUid) -> Result<(), Failure> {
        let name = Name::new("metadata.uid", pod.as_str())?;
        self.alone_with(pod, |directory| {
            if self.is_live(pod) {
                return Ok(());
            }
            *directory = Directory::Unknown;
            let Some(pods) = self.scene.layout.find(Path::new("pods"))? else { return Ok(()) };
            // Directories of plugins lie in two directories of the pod.
            let Err(in_the_way) = remove::nested_directories(&pods, &name, 2) else { return Ok(()) };
            // What is windlass's goes all the same.
            if let Some(place) = self.scene.layout.find(&Path::new("pods").join(name.as_path()))? {
                for directory in ["volumes", "volumeDevices", "volume-subpaths", "plugins"] {
                    remove::empty_directories(&place, &Name::new("directory", directory)?)?;
                }
            }
            Err(in_the_way.into())
        })
    }

    fn is_live(&self, pod: &PodUid) -> bool {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).contains(pod)
    }

    /// Nobody else makes or removes the directory of this pod meanwhile.
    fn alone_with<T>(
        &self,
        pod: &PodUid,
        work: impl FnOnce(&mut Directory) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let pods = || self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = pods().entry(pod.clone()).or_default().clone();
        let mut directory = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut directory);
        if *directory == Directory::Unknown {
            drop(directory);
            let mut pods = pods();
            // Nobody but this and the map has it: it is not needed before the pod comes again.
            if Arc::strong_count(&lock) <= 2 {
                pods.remove(pod);
            }
        }
        result
    }
}

/// Whether a directory has nothing in it; one that cannot be read may have.
fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut it| it.next().is_none())
}

/// What a publish asks for.
struct Request<'a> {
    pod: &'a PodUid,
    after: Earlier,
    access: spec::Access,
    revision: u64,
    label: &'a Option<Arc<str>>,
}

/// What tells after a crash that something may be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// The volume's directory in the pod, or there is nothing to undo.
    Directory,
    /// A record alone.
    Record,
}

impl Trace {
    /// What a record of an intent must outlive.
    fn survives(self) -> Survives {
        match self {
            Self::Directory => Survives::Crash,
            Self::Record => Survives::PowerLoss,
        }
    }
}

fn trace(spec: &VolumeSpec) -> Trace {
    match Kind::of_plugin(spec.plugin.as_str()) {
        Some(Kind::LocalVolume | Kind::Csi) | None => Trace::Record,
        Some(
            Kind::EmptyDir
            | Kind::GitRepo
            | Kind::HostPath
            | Kind::Secret
            | Kind::DownwardApi
            | Kind::ConfigMap
            | Kind::Projected
            | Kind::Image,
        ) => Trace::Directory,
    }
}

/// A record that makes no sense counts as none; one that cannot be read may still claim something.
fn sensible(read: Result<Option<Record>, record::Error>) -> Result<Option<Record>, Failure> {
    match read {
        Err(record::Error::Damaged { .. }) => Ok(None),
        other => other.map_err(|error| Failure::open(&error)),
    }
}

fn plugin_of(spec: &VolumeSpec) -> Result<&'static dyn Plugin, Failure> {
    let plugin = Kind::of_plugin(spec.plugin.as_str()).map(plugin::of);
    plugin.ok_or_else(|| {
        let text = format!("no volume plugin matched name: {}", spec.plugin);
        Failure::refused(Cause::Node(Obstacle::AbilityMissing), text)
    })
}

/// What the driver calls this node, if it may have attached the volume to it.
fn attached_as(record: Option<&Record>) -> Option<&str> {
    match &record?.state {
        State::Attachment { node, .. } => Some(node),
        State::Intent { .. } | State::Leaving { .. } | State::Proven { .. } => None,
    }
}

fn nobody(spec: &VolumeSpec) -> Failure {
    Failure::refused(Cause::Other, format!("no pod wants {} any more", spec.id))
}

/// The kubelet says `FailedMount` of a device on the wrong node too (E-268).
fn refused_reason(want: &Want, spec: &VolumeSpec) -> &'static str {
    match &want.detail.refusal {
        Some(refusal) if refusal.step.contains("NodeAffinity") => "FailedMount",
        Some(_) | None => failed_reason(spec.mode),
    }
}

/// The kubelet's word for a volume that a pod does not get (P-48).
pub(crate) fn failed_reason(mode: spec::Mode) -> &'static str {
    match mode {
        spec::Mode::Filesystem => "FailedMount",
        spec::Mode::Block => "FailedMapVolume",
    }
}

/// The kubelet's words for a volume that cannot be made ready for this node.
pub(crate) fn stage_failed(mode: spec::Mode) -> &'static str {
    match mode {
        spec::Mode::Filesystem => "MountVolume.MountDevice failed",
        spec::Mode::Block => "MapVolume.SetUpDevice failed",
    }
}

/// The kubelet's words for a volume that cannot be mounted into a pod.
pub(crate) fn publish_failed(mode: spec::Mode) -> &'static str {
    match mode {
        spec::Mode::Filesystem => "MountVolume.SetUp failed",
        spec::Mode::Block => "MapVolume.MapPodDevice failed",
    }
}

/// A group that nothing can be given to is told before anything is made, not by files that the pod cannot read.
fn check_group(want: &Want, access: spec::Access) -> Result<(), Failure> {
    if !Attributes::of(want.detail.kind, access).managed {
        return Ok(());
    }
    match plugin::group_wanted(want)? {
        Some(group) if !ownership::is_mapped(group) => {
            let text = format!(
                "nothing can be given to the fsGroup {group}: it is not mapped into the user namespace of this process, \
                 which runs without root"
            );
            Err(Failure::refused(Cause::Node(Obstacle::NotPermitted), text))
        }
        Some(_) | None => Ok(()),
    }
}
