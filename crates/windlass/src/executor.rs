//! Runs operations: calls the plugin, keeps the records, and says how it ended. It decides nothing.
//!
//! Each operation runs on worker threads of its plugin's lane, where it may hang without holding up another volume
//! (I-6); while it waits for a driver it has none. What is done around the plugin's call, and in which order, is a
//! [`windlass_core::flight::Flight`]; `executor/course.rs` takes its steps.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use k8s_openapi::api::core::v1::Pod;
use rustix::io::Errno;
use windlass_core::Operation;
use windlass_core::ids::{BootId, PodUid};
use windlass_core::operation::{Action, Cause, Obstacle, Outcome, Proof, Trouble};
use windlass_core::spec::{self, VolumeSpec};
use windlass_linux::name::Name;
use windlass_linux::table::{Mount, MountId};
use windlass_linux::{holders, ownership, remove};

use crate::catalogue::{Content, VolumeType, driver_of};
use crate::csi::Refreshed;
use crate::layout::{self, Home, Slot};
use crate::packed::Packed;
use crate::plugin::{self, Failure, Left, Made, Scene, Statistics, VolumeForm, Want};
use crate::record::{Held, Record, Records, State};

mod course;

use course::Course;

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
    /// The file of the pod's records.
    records: OnceLock<Held>,
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
        if let Some(cover) = self.cover() {
            return Ended::failed(plugin::covered(&self.scene, &cover).nothing_left());
        }
        if let Err(failure) = self.refresh_driver(operation).await {
            return Ended::failed(failure);
        }
        let flown = match Course::of(self, job) {
            Ok(course) => course.fly().await,
            Err(failure) => Err(failure),
        };
        flown.unwrap_or_else(|failure| Ended { obstacles: self.obstacles(operation), ..Ended::failed(failure) })
    }

    /// What lies over the root, so that what is below it cannot be reached by its path.
    pub(crate) fn cover(&self) -> Option<Arc<Mount>> {
        let layout = &self.scene.layout;
        layout.cover(&self.scene.watch.table(), layout.path())
    }

    /// A driver that was started again is asked what it can do before it is called. If that is something else than before,
    /// nothing is made on the word of the one before: the engine hears of it first.
    async fn refresh_driver(&self, operation: &Operation) -> Result<(), Failure> {
        let Some(driver) = driver_of(&operation.spec) else { return Ok(()) };
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
                VolumeType::of(spec).and_then(|it| it.plugin.staging_path(&self.scene, spec)).into_iter().collect()
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

    /// How full a volume is.
    pub(crate) async fn statistics(&self, want: &Want, made: &Made) -> Result<Statistics, Failure> {
        want.detail.volume_type.plugin.statistics(&self.scene, want, made).await
    }

    /// Whatever is mounted where something was made must be that: what somebody else put there is neither written to nor
    /// handed out (I-4, I-12).
    fn check_place(&self, spec: &VolumeSpec, known: Option<&Made>) -> Result<(), Failure> {
        let Some(known) = known else { return Ok(()) };
        let path = match &known.form {
            VolumeForm::Mount(path) => path,
            VolumeForm::Directory => &known.path,
            VolumeForm::Host => return Ok(()),
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
            Some(Made { form: VolumeForm::Host, .. }) => return Ok(()),
            Some(Made { form: VolumeForm::Mount(path), .. }) => path.clone(),
            Some(Made { form: VolumeForm::Directory, path, .. }) => path.clone(),
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
        if made.lost_at.is_some() {
            return made.lost_at;
        }
        let (boot, earlier) = before?.made()?;
        if VolumeType::of(spec).is_none_or(|it| it.content != Content::Scratch) {
            return None;
        }
        let was_proven = matches!(before?.state, State::Proven { .. });
        let is_lost = match (&earlier.form, &made.form) {
            // After a reboot a directory that somebody put back with its content is another one, and nothing is lost.
            (VolumeForm::Directory, VolumeForm::Directory) => {
                earlier.proof.root != made.proof.root && is_empty(&made.path)
            }
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
        let text = match before.map(|it| &it.state) {
            Some(State::Proven { .. }) => format!(
                "volume \"{name}\" was unmounted or removed by somebody else, and what was in it is lost: it was made \
                 anew, empty, at {path}"
            ),
            _ => format!(
                "volume \"{name}\" was being removed when the pod came back, and something of what was in it may be lost: \
                 look into {path}"
            ),
        };
        self.scene.tell.warning(pod, "VolumeContentLost", text);
    }

    /// Is what was made the thing that is there (I-4)? A plugin's word is not enough.
    fn check(&self, made: &Made) -> Result<(), Failure> {
        let path = match &made.form {
            VolumeForm::Mount(path) => path,
            VolumeForm::Directory => {
                let cover = self.scene.layout.cover(&self.scene.watch.table(), &made.path);
                return cover.map_or(Ok(()), |it| Err(plugin::foreign(&it)));
            }
            VolumeForm::Host => return Ok(()),
        };
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
        match &made.form {
            VolumeForm::Mount(path) => Ok(plugin::mounted(&self.scene.watch, path)?.map(|it| plugin::mount_proof(&it))),
            VolumeForm::Host => Ok(Some(made.proof)),
            VolumeForm::Directory => {
                if let Some(mount) = plugin::mounted(&self.scene.watch, &made.path)? {
                    return Ok(Some(plugin::mount_proof(&mount)));
                }
                let layout = &self.scene.layout;
                let Ok(below) = made.path.strip_prefix(layout.path()) else { return Ok(None) };
                // It is found from the root that is held open; whoever is handed its path comes from elsewhere.
                if layout.cover(&self.scene.watch.table(), &made.path).is_some() {
                    return Ok(None);
                }
                match layout.find(below) {
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

    fn check_refusal(&self, pod: &PodUid, want: &Want) -> Result<(), Failure> {
        let Some(refusal) = &want.detail.refusal else { return Ok(()) };
        let invalid = Cause::Node(Obstacle::InputInvalid);
        let cause = refusal.waits_on.clone().map_or(invalid, Cause::Object);
        let failure = Failure::refused(cause, refusal.to_string()).noting(&*refusal.note);
        if !self.may_still_come(&failure) {
            self.scene.tell.warning(pod, refusal.event, failure.text.as_str());
        }
        Err(failure)
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
                self.records.expect_pod(&name).map_err(|error| Failure::open(&error).nothing_left())?;
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
            let Err(in_the_way) = remove::nested_directories(&pods, &name, 2) else {
                return self.records.remove_pod(&name).map_err(|error| Failure::open(&error));
            };
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
    if !(want.detail.volume_type.attributes)(access).managed {
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
