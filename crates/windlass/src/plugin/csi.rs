//! `csi`: volumes of drivers (C-67..C-127).
//!
//! What a driver is told stands in `csi/request.rs`. A volume that is a directory is made in `csi/directory.rs`, one that
//! is a device in `csi/device.rs`; `csi/notes.rs` keeps the kubelet's notes beside both. `csi/controller.rs` attaches
//! volumes where no cluster does.
//!
//! A driver's word is not enough: what it says it mounted must be in the mount table, or it is named as the one who is
//! wrong (`DriverLied`). An error is final or it leaves the outcome open (C-61); only after a final one, and only where
//! nothing was before, is anything cleaned up.

mod capabilities;
pub(crate) mod controller;
mod device;
mod directory;
pub(crate) mod names;
pub(crate) mod notes;
mod request;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec};
use k8s_openapi::api::storage::v1::CSIDriver;
use windlass_core::expand;
use windlass_core::flight::Trace;
use windlass_core::ids::DriverName;
use windlass_core::operation::{Cause, Earlier, Obstacle, Proof};
use windlass_core::spec::{Access, Mode, Sharing, VolumeSpec};
use windlass_csi::proto::csi::{CapacityRange, NodeExpandVolumeRequest, NodeGetVolumeStatsRequest, volume_usage};
use windlass_csi::{CallError, End};
use windlass_linux::name::{self, Name};
use windlass_linux::whole_file;

use super::{
    Attach, Condition, Failure, HandedOver, Left, Made, Measure, Plugin, Publish, Scene, Stage, Statistics, Unpublish,
    VolumeForm, Want, absolute, directory_proof, foreign, group, mount_proof, mounted, nothing_proof,
};
use crate::catalogue::{Attacher, Attributes, Circumstances, HeldUpBy, Origin, VolumeType};
use crate::csi::Registered;
use crate::layout::Slot;
use crate::memory::Object;
use crate::objects::{self, Lookup, Reference};
use crate::observe::Observed;
use names::Identified;
use notes::Note;
use request::{Source, Step};

/// Where the plugin has its volumes, below the root.
const VOLUMES: &str = "plugins/kubernetes.io/csi";
/// The directory among those of drivers that holds devices.
const DEVICES: &str = "volumeDevices";

/// Names and values, as CSI has them.
type Context = BTreeMap<String, String>;

/// Volumes of CSI drivers.
pub(super) static CSI: VolumeType = VolumeType {
    in_pod: |it| it.csi.is_some(),
    persistent: |it| it.csi.is_some(),
    capabilities: capabilities::of,
    own_name: |volume| match volume.spec.as_ref().and_then(|it| it.csi.as_ref()) {
        Some(it) if !it.driver.is_empty() && !it.volume_handle.is_empty() => {
            names::own_name(&it.driver, &it.volume_handle)
        }
        Some(_) | None => String::new(),
    },
    attributes: |access| {
        let read_only = access == Access::ReadOnly;
        Attributes { read_only, managed: !read_only, relabel: false }
    },
    trace: Trace::Record,
    held_up_by: HeldUpBy::Driver,
    mount_options: true,
    // The names of volumes that a pod describes for a driver of old may be addresses (C-72, C-160).
    slashed_names: true,
    ..VolumeType::plain("kubernetes.io/csi", &Csi)
};

/// The calls of [`CSI`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Csi;

#[async_trait]
impl Plugin for Csi {
    fn node_id(&self, scene: &Scene, spec: &VolumeSpec) -> Result<String, Failure> {
        controller::node_id(scene, spec)
    }

    async fn attach(&self, scene: &Scene, task: &Attach<'_>) -> Result<HandedOver, Failure> {
        controller::attach(scene, task).await
    }

    async fn detach(&self, scene: &Scene, spec: &VolumeSpec, node_id: &str) -> Result<(), Failure> {
        controller::detach(scene, spec, node_id).await
    }

    async fn stage(&self, scene: &Scene, task: &Stage<'_>) -> Result<Made, Failure> {
        match task.spec.mode {
            Mode::Filesystem => directory::stage(scene, task).await,
            Mode::Block => device::stage(scene, task).await,
        }
    }

    fn staging_path(&self, scene: &Scene, spec: &VolumeSpec) -> Option<PathBuf> {
        directory::staging(scene, &Identified::of_spec(spec, None)?).ok()
    }

    async fn unstage(&self, scene: &Scene, spec: &VolumeSpec) -> Result<(), Failure> {
        match spec.mode {
            Mode::Filesystem => directory::unstage(scene, spec).await,
            Mode::Block => device::unstage(scene, spec).await,
        }
    }

    async fn publish(&self, scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
        match task.spec.mode {
            Mode::Filesystem => directory::publish(scene, task).await,
            Mode::Block => device::publish(scene, task).await,
        }
    }

    async fn unpublish(&self, scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
        match task.slot.mode {
            Mode::Filesystem => directory::unpublish(scene, task).await,
            Mode::Block => device::unpublish(scene, task).await,
        }
    }

    /// C-113..C-115.
    async fn expand(
        &self,
        scene: &Scene,
        spec: &VolumeSpec,
        want: &Want,
        to_bytes: u64,
    ) -> Result<Option<u64>, Failure> {
        let call = Call::of(scene, want)?;
        let can = &call.registered.capabilities;
        if !can.expand {
            return Ok(None);
        }
        let slot = Slot::of(&want.uid(), spec)?;
        let (volume_path, staging) = match spec.mode {
            Mode::Filesystem => (directory::target(scene, &slot), directory::staging(scene, &call.source.id)?),
            Mode::Block => (device::target(scene, &slot), device::staging(scene, &slot)),
        };
        let request = NodeExpandVolumeRequest {
            volume_id: call.source.id.handle.clone(),
            volume_path: text(&volume_path)?,
            capacity_range: Some(CapacityRange {
                required_bytes: i64::try_from(to_bytes).unwrap_or(i64::MAX),
                limit_bytes: 0,
            }),
            staging_target_path: text(&staging)?,
            volume_capability: Some(call.source.capability(spec.mode, can, None)),
            secrets: call.source.secrets(scene, Step::Expand)?,
        };
        let deadline = call.deadline(scene);
        let expanded =
            scene.drivers.call(&call.registered.driver, |it| async move { it.expand(request, deadline).await });
        expanded.await.map_err(|error| {
            let cause = match error.code {
                windlass_csi::Code::FailedPrecondition => Some(Cause::InUse),
                windlass_csi::Code::InvalidArgument | windlass_csi::Code::OutOfRange | windlass_csi::Code::NotFound => {
                    Some(Cause::Infeasible)
                }
                _ => None,
            };
            let failure = failed(&error);
            Failure { cause: cause.unwrap_or(failure.cause.clone()), ..failure }
        })?;
        // The driver's word on the size is not used (C-60): the pod was promised this one.
        Ok(Some(to_bytes))
    }

    /// C-117, C-118.
    async fn statistics(&self, scene: &Scene, want: &Want, made: &Made) -> Result<Statistics, Failure> {
        let call = Call::of(scene, want)?;
        let (driver, can) = (&call.registered.driver, &call.registered.capabilities);
        if !can.volume_stats {
            let text = format!("driver {} does not say how full its volumes are", driver.name());
            return Err(Failure::refused(Cause::NotSupported, text));
        }
        let path = if let VolumeForm::Mount(path) = &made.form { path } else { &made.path };
        let request = NodeGetVolumeStatsRequest {
            volume_id: call.source.id.handle.clone(),
            volume_path: text(path)?,
            staging_target_path: String::new(),
        };
        let began = Instant::now();
        let deadline = call.deadline(scene);
        let asked = scene.drivers.call(driver, |it| async move { it.stats(request, deadline).await });
        let answer = asked.await.map_err(|error| failed(&error))?;
        scene.observer.tell(&Observed::Measured { source: driver.name(), took: began.elapsed() });
        if answer.usage.is_empty() && !can.volume_condition {
            return Err(lied(driver.name(), "its answer has no figures"));
        }
        let mut statistics = Statistics::default();
        for usage in &answer.usage {
            let count = |number: i64| u64::try_from(number).unwrap_or(0);
            let measure = Measure {
                total: Some(count(usage.total)),
                available: Some(count(usage.available)),
                used: count(usage.used),
            };
            match usage.unit() {
                volume_usage::Unit::Bytes => statistics.bytes = Some(measure),
                volume_usage::Unit::Inodes => statistics.inodes = Some(measure),
                volume_usage::Unit::Unknown => {}
            }
        }
        let condition = answer.volume_condition.filter(|_| can.volume_condition);
        statistics.condition = condition.map(|it| Condition { abnormal: it.abnormal, message: it.message });
        Ok(statistics)
    }

    /// A volume of the pod itself is known by its place.
    fn published(&self, scene: &Scene, slot: &Slot) -> Result<Option<VolumeSpec>, Failure> {
        let note = match slot.mode {
            Mode::Filesystem => directory::note(scene, slot)?,
            Mode::Block => device::note(scene, &slot.name)?,
        };
        let Some(note) = note.filter(|it| !it.is_of_pod()) else { return Ok(None) };
        let (Some(id), Ok(name)) = (note.identified(), std::str::from_utf8(slot.name.as_bytes())) else {
            return Ok(None);
        };
        // A note that is not where it belongs is somebody's copy.
        Ok(note.name().is_some_and(|it| it == name).then(|| rebuild(&id, name, slot.mode)))
    }

    /// The kubelet looks at pods alone, and forgets what is staged for none (W-1).
    fn staged(&self, scene: &Scene) -> Result<Vec<(VolumeSpec, Option<Proof>)>, Failure> {
        let mut all = directory::staged(scene)?;
        all.extend(device::staged(scene)?);
        Ok(all)
    }
}

/// What every call begins with.
struct Call<'a> {
    source: Source<'a>,
    registered: Registered,
    /// The driver's object, if it has one (C-33).
    object: Option<Arc<CSIDriver>>,
}

impl<'a> Call<'a> {
    fn of(scene: &Scene, want: &'a Want) -> Result<Self, Failure> {
        let source = Source::of(want)?;
        let registered = scene.drivers.get(&source.id.driver)?;
        let object = driver_object(scene, &source.id.driver)?;
        Ok(Self { source, registered, object })
    }

    /// Whether the driver wants to hear of pods (C-35).
    fn wants_pod_info(&self) -> bool {
        self.object.as_ref().is_some_and(|it| it.spec.pod_info_on_mount == Some(true))
    }

    /// How long a call may take (C-46).
    fn deadline(&self, scene: &Scene) -> Duration {
        self.source.deadline().unwrap_or_else(|| scene.drivers.deadline(&self.source.id.driver))
    }

    fn attachment(&self, scene: &Scene) -> String {
        names::attachment(&self.source.id.handle, &self.source.id.driver, &scene.node)
    }
}

fn driver_object(scene: &Scene, driver: &str) -> Result<Option<Arc<CSIDriver>>, Failure> {
    let reference = Reference::new(objects::ObjectKind::Driver, "", driver);
    let objects = scene.objects.read().unwrap_or_else(PoisonError::into_inner);
    match objects.get(&reference) {
        Lookup::Found(Object::Driver(object)) => Ok(Some(object.clone())),
        Lookup::Found(_) | Lookup::Absent => Ok(None),
        Lookup::Unavailable(text) => Err(Failure::refused(Cause::Object((&reference).into()), text.to_string())),
    }
}

/// A call that failed, in the kubelet's words.
fn failed(error: &CallError) -> Failure {
    let text = format!("rpc error: code = {:?} desc = {}", error.code, error.message);
    let cause = if error.lied { Cause::Node(Obstacle::DriverLied) } else { Cause::Other };
    let (left, cause) = match error.end {
        End::Final => (Left::Nothing, cause),
        End::Unknown => (Left::Something, cause),
        // Nobody is there, or another driver is: it is tried as soon as the right one is back.
        End::NotSent => (Left::Nothing, Cause::Driver),
    };
    let note = format!("{} of driver {}", error.method, error.driver);
    Failure { left, ..Failure::refused(cause, text).noting(note) }
}

/// What a driver said is not so.
pub(crate) fn lied(driver: &str, what: impl std::fmt::Display) -> Failure {
    let text = format!("driver {driver} said that it was done, but {what}");
    Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::DriverLied), text) }
}

/// After an error: takes away what the call made, if nothing was there before and nothing is left of it by the driver
/// (C-83, C-89).
fn undo(after: Earlier, failure: Failure, tidy: impl FnOnce() -> Result<(), Failure>) -> Failure {
    if failure.left == Left::Something || after != Earlier::Nothing {
        return failure;
    }
    match tidy() {
        Ok(()) => failure,
        // The driver said that nothing was done, and something is there (W-7).
        Err(_) => Failure { left: Left::Something, ..failure },
    }
}

/// What was staged at a path. Not every driver mounts something there: a stage may be a log-in somewhere else.
fn staged_at(scene: &Scene, path: PathBuf) -> Result<Made, Failure> {
    Ok(match mounted(&scene.watch, &path)? {
        Some(mount) => Made::mount(&mount),
        None => Made { proof: nothing_proof(&path), form: VolumeForm::Host, path, refresh_at: None, lost_at: None },
    })
}

/// A path as CSI hands it over.
fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(Into::into).ok_or_else(|| {
        let text = format!("{} is not text, and CSI knows no other paths", path.display());
        Failure::refused(Cause::Node(Obstacle::InputInvalid), text)
    })
}

/// What is known of a volume that is to be taken away: by the note beside it, or by what the engine knows (W-5).
fn identify(note: Option<&Note>, spec: &VolumeSpec, slot: Option<&Slot>) -> Option<Identified> {
    note.and_then(Note::identified).or_else(|| Identified::of_spec(spec, slot))
}

/// A volume that was found staged, as far as its notes tell.
fn rebuild(id: &Identified, name: &str, mode: Mode) -> VolumeSpec {
    let source = CSIPersistentVolumeSource { driver: id.driver.clone(), ..CSIPersistentVolumeSource::default() };
    let spec = PersistentVolumeSpec { csi: Some(source), ..PersistentVolumeSpec::default() };
    let volume = PersistentVolume { spec: Some(spec), ..PersistentVolume::default() };
    let origin = Origin::Persistent(Arc::new(volume));
    VolumeSpec {
        id: names::volume_id(&id.driver, &id.handle),
        plugin: CSI.name.into(),
        driver: Some(DriverName::from(id.driver.as_str())),
        inner_name: name.into(),
        capabilities: capabilities::of(&Circumstances {
            origin: &origin,
            object: None,
            registered: None,
            attacher: Attacher::Controller,
            republish_every: Duration::ZERO,
            deadline: crate::csi::DEADLINE_DEFAULT,
        }),
        mode,
        sharing: Sharing::Shared,
        group: None,
        size: expand::Size::default(),
    }
}

fn left_nothing(error: impl Into<Failure>) -> Failure {
    error.into().nothing_left()
}
