//! A volume that pods see as a device (C-103..C-108).
//!
//! The driver makes the device visible at a path of its own for each pod. From there it is bound over a file that is named
//! by the pod, and a link in the pod leads to it. The kubelet also puts a loop device on that file; here the bind is enough
//! (W-23), and one that a kubelet left is taken away with the rest.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use windlass_core::spec::Access;
use windlass_csi::proto::csi::{
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use windlass_linux::safe_path::Place;
use windlass_linux::{block_map, device};

use super::*;
use crate::layout::PRIVATE;
use crate::plugin::{device_map, mount_proof};

/// The directories beside those of volumes. No volume of a name like theirs can be a device.
const STAGING: &str = "staging";
const PUBLISH: &str = "publish";

fn devices() -> PathBuf {
    Path::new(VOLUMES).join(DEVICES)
}

/// The directory of a volume, below the root (C-73).
fn own(name: &Name) -> PathBuf {
    devices().join(name.as_path())
}

/// Where the driver is to stage it (C-74).
pub(super) fn staging(scene: &Scene, slot: &Slot) -> PathBuf {
    absolute(scene, &devices().join(STAGING).join(slot.name.as_path()))
}

/// Where the driver makes it visible for a pod (C-74).
pub(super) fn target(scene: &Scene, slot: &Slot) -> PathBuf {
    absolute(scene, &devices().join(PUBLISH).join(slot.name.as_path()).join(slot.pod.as_path()))
}

fn volume_name(spec: &VolumeSpec) -> Result<Name, Failure> {
    let name = Name::new("volume name", spec.inner_name.as_str())?;
    if [STAGING, PUBLISH].iter().any(|it| name.as_bytes() == it.as_bytes()) {
        let text = format!("a persistent volume that is a device cannot be called {name}: its directory is in use");
        return Err(Failure::refused(Cause::Node(Obstacle::InputInvalid), text));
    }
    Ok(name)
}

/// The note of a volume that is a device.
pub(super) fn note(scene: &Scene, name: &Name) -> Result<Option<Note>, Failure> {
    let data = scene.layout.find(&own(name).join("data"))?;
    Ok(data.as_ref().map(Note::read).transpose()?.flatten())
}

/// C-103.
fn write_note(scene: &Scene, call: &Call<'_>, name: &Name) -> Result<(), Failure> {
    let data = scene.layout.make(&own(name).join("data"), PRIVATE)?;
    Note::published(&call.source.id, &call.source.name, &scene.node, &call.attachment(scene)).write(&data)
}

pub(super) async fn stage(scene: &Scene, task: &Stage<'_>) -> Result<Made, Failure> {
    let call = Call::of(scene, task.want)?;
    let (source, can) = (&call.source, &call.registered.capabilities);
    let name = volume_name(task.spec).map_err(Failure::nothing_left)?;
    let below = devices().join(STAGING).join(name.as_path());
    let path = absolute(scene, &below);
    let request = NodeStageVolumeRequest {
        volume_id: source.id.handle.clone(),
        publish_context: source.publish_context(scene)?,
        staging_target_path: text(&path)?,
        volume_capability: Some(source.capability(Mode::Block, can, None)),
        secrets: source.secrets(scene, Step::Stage)?,
        volume_context: source.attributes(),
    };
    let undo = |failure: Failure| undo(task.after, failure, || tidy(scene, &name));
    write_note(scene, &call, &name).map_err(|it| undo(it.nothing_left()))?;
    if mounted(&scene.watch, &path).map_err(left_nothing)?.is_none() {
        scene.layout.make(&below, PRIVATE).map_err(|error| undo(left_nothing(error)))?;
    }
    let (driver, deadline) = (&call.registered.driver, call.deadline(scene));
    let staged = scene.drivers.call(driver, |it| async move { it.stage(request, deadline).await });
    staged.await.map_err(|error| undo(failed(&error)))?;
    staged_at(scene, path)
}

pub(super) async fn publish(scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
    let call = Call::of(scene, task.want)?;
    let (source, can) = (&call.source, &call.registered.capabilities);
    let slot = task.slot;
    let name = volume_name(task.spec).map_err(Failure::nothing_left)?;
    let path = target(scene, slot);
    let mut context = source.attributes();
    if call.wants_pod_info() {
        context.extend(source.pod_info(&scene.default_account));
    }
    let request = NodePublishVolumeRequest {
        volume_id: source.id.handle.clone(),
        publish_context: source.publish_context(scene)?,
        // Also of a driver that stages nothing (C-57).
        staging_target_path: text(&staging(scene, slot))?,
        target_path: text(&path)?,
        volume_capability: Some(source.capability(Mode::Block, can, None)),
        readonly: task.access == Access::ReadOnly,
        secrets: source.secrets(scene, Step::Publish)?,
        volume_context: context,
    };
    // What is staged keeps the volume's directories.
    let undo =
        |failure: Failure| undo(task.after, failure, || if can.stage_unstage { Ok(()) } else { tidy(scene, &name) });
    write_note(scene, &call, &name).map_err(|it| undo(it.nothing_left()))?;
    let below = devices().join(PUBLISH).join(name.as_path());
    scene.layout.make(&below, PRIVATE).map_err(|error| undo(left_nothing(error)))?;
    let (driver, deadline) = (&call.registered.driver, call.deadline(scene));
    let published = scene.drivers.call(driver, |it| async move { it.publish(request, deadline).await });
    published.await.map_err(|error| undo(failed(&error)))?;
    // From here on every error leaves the outcome open (C-106).
    let open = |failure: Failure| Failure { left: Left::Something, ..failure };
    map(scene, task, &call, &path).map_err(open)
}

/// Binds what the driver made visible, and makes the pod's link (C-104).
fn map(scene: &Scene, task: &Publish<'_>, call: &Call<'_>, published: &Path) -> Result<Made, Failure> {
    let found = device::resolve(published).map_err(|error| match error.is_missing() {
        true => lied(&call.source.id.driver, format_args!("there is no device at {}", published.display())),
        false => Failure::open(&error),
    })?;
    if !matches!(device::look(&found), Ok(device::AtPath::Block(_))) {
        return Err(lied(&call.source.id.driver, format_args!("{} is no block device", found.display())));
    }
    device_map::map(scene, task, &found, &own(&task.slot.name).join("dev"))
}

/// C-107.
pub(super) async fn unpublish(scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
    let slot = task.slot;
    let note = note(scene, &slot.name)?;
    let directory = scene.layout.find(&own(&slot.name).join("dev"))?;
    if let Some(directory) = &directory {
        block_map::release(directory, &slot.pod).map_err(|error| device_map::failed(&error))?;
    }
    if let Some(parent) = scene.layout.find(&slot.parent())? {
        block_map::unlink(&parent, &slot.name).map_err(|error| device_map::failed(&error))?;
    }
    if let Some(directory) = &directory {
        block_map::unbind(directory, &slot.pod).map_err(|error| device_map::failed(&error))?;
    }
    drop(directory);
    let Some(id) = identify(note.as_ref(), task.spec, Some(slot)) else { return Ok(()) };
    let registered = scene.drivers.get(&id.driver)?;
    take(scene, &registered, &id, &target(scene, slot)).await?;
    // With a driver that stages nothing there is no other end (C-105).
    match registered.capabilities.stage_unstage {
        true => Ok(()),
        false if is_mapped(scene, &slot.name)? => Ok(()),
        false => tidy(scene, &slot.name),
    }
}

/// Has the driver take away what it made visible for a pod.
async fn take(scene: &Scene, registered: &Registered, id: &Identified, path: &Path) -> Result<(), Failure> {
    let request = NodeUnpublishVolumeRequest { volume_id: id.handle.clone(), target_path: text(path)? };
    let (driver, deadline) = (&registered.driver, scene.drivers.deadline(&id.driver));
    let unpublished = scene.drivers.call(driver, |it| async move { it.unpublish(request, deadline).await });
    unpublished.await.map_err(|error| failed(&error))?;
    match mounted(&scene.watch, path)? {
        Some(_) => Err(lied(&id.driver, format_args!("{} is still mounted", path.display()))),
        None => Ok(()),
    }
}

/// Does any pod have it?
fn is_mapped(scene: &Scene, name: &Name) -> Result<bool, Failure> {
    let Some(directory) = scene.layout.find(&own(name).join("dev"))? else { return Ok(false) };
    Ok(!block_map::references(&directory).map_err(|error| device_map::failed(&error))?.is_empty())
}

/// C-108.
pub(super) async fn unstage(scene: &Scene, spec: &VolumeSpec) -> Result<(), Failure> {
    let name = volume_name(spec)?;
    if is_mapped(scene, &name)? {
        let path = absolute(scene, &own(&name).join("dev"));
        let text = format!("the device \"{}\" is still referenced from other Pods", path.display());
        return Err(Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::HeldOpen), text) });
    }
    let note = note(scene, &name)?;
    if let Some(id) = identify(note.as_ref(), spec, None) {
        let registered = scene.drivers.get(&id.driver)?;
        // No pod has it, but a call that nobody waited for any more may have given it to one after it was taken away.
        let below = devices().join(PUBLISH).join(name.as_path());
        for pod in scene.layout.find(&below)?.map(|it| whole_file::names(&it)).transpose()?.unwrap_or_default() {
            let path = absolute(scene, &below.join(pod.as_path()));
            if mounted(&scene.watch, &path)?.is_some() {
                take(scene, &registered, &id, &path).await?;
            }
        }
        if registered.capabilities.stage_unstage {
            let path = absolute(scene, &devices().join(STAGING).join(name.as_path()));
            let request = NodeUnstageVolumeRequest { volume_id: id.handle.clone(), staging_target_path: text(&path)? };
            let (driver, deadline) = (&registered.driver, scene.drivers.deadline(&id.driver));
            let unstaged = scene.drivers.call(driver, |it| async move { it.unstage(request, deadline).await });
            unstaged.await.map_err(|error| failed(&error))?;
        }
    }
    tidy(scene, &name)
}

/// Takes away what belongs to a volume that no pod has (C-105): its note, and directories that are empty but for what the
/// driver left of its own targets.
fn tidy(scene: &Scene, name: &Name) -> Result<(), Failure> {
    let note = |path: &Path, kind| kind == FileType::RegularFile && path == Path::new("data").join(notes::FILE);
    // A file over which the driver mounted the device is empty; whatever else is in the way is told.
    for (below, ours) in [(PUBLISH, true), (STAGING, false)] {
        if let Some(parent) = scene.layout.find(&devices().join(below))? {
            let is_target = |path: &Path| ours && path.iter().count() == 1;
            let left = |path: &Path| is_target(path) && is_empty_file(&parent, &name.as_path().join(path));
            scene.layout.remove_tree(&parent, name, |it| it.kind == FileType::RegularFile && left(it.path))?;
        }
    }
    match scene.layout.find(&devices())? {
        Some(parent) => Ok(scene.layout.remove_tree(&parent, name, |it| note(it.path, it.kind))?),
        None => Ok(()),
    }
}

fn is_empty_file(directory: &Place, below: &Path) -> bool {
    rustix::fs::statat(directory, below, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|it| it.st_size == 0)
}

/// What is staged, by the notes beside it.
pub(super) fn staged(scene: &Scene) -> Result<Vec<(VolumeSpec, Option<Proof>)>, Failure> {
    let mut found = Vec::new();
    let Some(volumes) = scene.layout.find(&devices())? else { return Ok(found) };
    for name in whole_file::names(&volumes)? {
        let Some(data) = scene.layout.find(&own(&name).join("data"))? else { continue };
        let Some(note) = Note::read(&data)? else { continue };
        let (Some(id), Ok(text)) = (note.identified(), std::str::from_utf8(name.as_bytes())) else { continue };
        // A note that is not where it belongs is somebody's copy.
        if note.name().is_some_and(|it| it != text) {
            continue;
        }
        let path = absolute(scene, &devices().join(STAGING).join(name.as_path()));
        let seen = mounted(&scene.watch, &path)?.map(|it| mount_proof(&it));
        found.push((rebuild(&id, text, Mode::Block), seen));
    }
    Ok(found)
}
