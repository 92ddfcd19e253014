//! A volume that pods see as a directory: staged once for the node, and given to each pod (C-81..C-100).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use windlass_core::spec::Access;
use windlass_csi::proto::csi::{
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::table::Mount;

use super::*;
use crate::layout::PRIVATE;

/// The mount point of a staged volume, in its directory.
const STAGED: &str = "globalmount";
/// The mount point of a pod's volume, in its directory.
const PUBLISHED: &str = "mount";
/// The directory of a pod that holds volumes of drivers.
const PLUGIN: &str = "kubernetes.io~csi";

/// The directory of a staged volume, below the root (C-71).
fn stage_directory(id: &Identified) -> Result<(PathBuf, Name), name::Error> {
    let driver = Name::new("driver", &id.driver)?;
    Ok((Path::new(VOLUMES).join(driver.as_path()), Name::new("volume", names::directory(&id.handle))?))
}

/// Where a volume is staged.
pub(super) fn staging(scene: &Scene, id: &Identified) -> Result<PathBuf, name::Error> {
    let (above, name) = stage_directory(id)?;
    Ok(absolute(scene, &above.join(name.as_path()).join(STAGED)))
}

/// Where a pod has it (C-72).
pub(super) fn target(scene: &Scene, slot: &Slot) -> PathBuf {
    absolute(scene, &slot.path().join(PUBLISHED))
}

pub(super) async fn stage(scene: &Scene, task: &Stage<'_>) -> Result<Made, Failure> {
    let call = Call::of(scene, task.want)?;
    let (source, can) = (&call.source, &call.registered.capabilities);
    let path = staging(scene, &source.id).map_err(left_nothing)?;
    let request = NodeStageVolumeRequest {
        volume_id: source.id.handle.clone(),
        publish_context: source.publish_context(scene)?,
        staging_target_path: text(&path)?,
        volume_capability: Some(source.capability(Mode::Filesystem, can, task.label)),
        secrets: source.secrets(scene, Step::Stage)?,
        volume_context: source.attributes(),
    };
    nothing_foreign(scene, task.after, &path)?;
    let (above, name) = stage_directory(&source.id).map_err(left_nothing)?;
    let directory = scene.layout.make(&above.join(name.as_path()), PRIVATE).map_err(left_nothing)?;
    let undo = |failure: Failure| undo(task.after, failure, || tidy(scene, &above, &name, STAGED));
    if mounted(&scene.watch, &path).map_err(left_nothing)?.is_none() {
        let point = Name::new("mount point", STAGED).map_err(left_nothing)?;
        directory.add_directory(&point, PRIVATE).map_err(|error| undo(error.into()))?;
    }
    Note::staged(&source.id).labelled(task.label).write_after(task.after, &directory).map_err(undo)?;
    // Many may wait for the driver: nothing is held open meanwhile.
    drop(directory);
    let (driver, deadline) = (&call.registered.driver, call.deadline(scene));
    let staged = scene.drivers.call(driver, |it| async move { it.stage(request, deadline).await });
    staged.await.map_err(|error| undo(failed(&error)))?;
    staged_at(scene, path)
}

/// Before the first call nothing is mounted there that a driver could have made: it would take it for its own (I-4).
fn nothing_foreign(scene: &Scene, after: Earlier, path: &Path) -> Result<(), Failure> {
    match mounted(&scene.watch, path).map_err(left_nothing)? {
        Some(mount) if after == Earlier::Nothing => Err(foreign(&mount).nothing_left()),
        Some(_) | None => Ok(()),
    }
}

pub(super) async fn unstage(scene: &Scene, spec: &VolumeSpec) -> Result<(), Failure> {
    let Some(id) = Identified::of_spec(spec, None) else { return Ok(()) };
    let (above, name) = stage_directory(&id)?;
    let path = staging(scene, &id)?;
    let registered = scene.drivers.get(&id.driver)?;
    // No pod has it, but a call that nobody waited for any more may have given it to one after it was taken away.
    for slot in elsewhere(scene, &path)?.iter().filter_map(|it| published_at(scene, it)) {
        if !is_of_another(scene, &slot, &id)? {
            take(scene, &registered, &id, &slot).await?;
        }
    }
    // C-93: what is bound anywhere else is in use by somebody whom the engine does not know.
    let others: Vec<String> = elsewhere(scene, &path)?.iter().map(|it| it.display().to_string()).collect();
    if !others.is_empty() {
        let text = format!("{} is still mounted by other references: {}", path.display(), others.join(", "));
        return Err(Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::HeldOpen), text) });
    }
    if registered.capabilities.stage_unstage {
        let request = NodeUnstageVolumeRequest { volume_id: id.handle.clone(), staging_target_path: text(&path)? };
        let (driver, deadline) = (&registered.driver, scene.drivers.deadline(&id.driver));
        let unstaged = scene.drivers.call(driver, |it| async move { it.unstage(request, deadline).await });
        unstaged.await.map_err(|error| failed(&error))?;
    }
    tidy(scene, &above, &name, STAGED).map_err(|failure| still_there(&id, failure))
}

/// Where else the volume is mounted that is staged here. The same place seen through another mount of the root does not
/// count.
fn elsewhere(scene: &Scene, staging: &Path) -> Result<Vec<PathBuf>, Failure> {
    let Some(mount) = mounted(&scene.watch, staging)? else { return Ok(Vec::new()) };
    let own = staging.strip_prefix(scene.layout.path()).unwrap_or(staging);
    let table = scene.watch.table();
    let others = table.references(&mount).map(|it| it.mount_point.clone());
    Ok(others.filter(|it| !it.ends_with(own)).collect())
}

/// The place in a pod at which this mount point is, if it is one of ours.
fn published_at(scene: &Scene, point: &Path) -> Option<Slot> {
    let below = point.strip_prefix(scene.layout.path()).ok()?;
    let parts: Vec<&OsStr> = below.iter().collect();
    let [_, pod, _, plugin, name, _] = parts[..] else { return None };
    let part = |it| Name::new("name", it).ok();
    let (pod, plugin, name) = (part(pod)?, part(plugin)?, part(name)?);
    let slot = Slot { pod, plugin, name, mode: Mode::Filesystem };
    let is_ours = slot.plugin.as_path() == Path::new(PLUGIN) && target(scene, &slot) == point;
    is_ours.then_some(slot)
}

/// The note beside a pod's volume.
pub(super) fn note(scene: &Scene, slot: &Slot) -> Result<Option<Note>, Failure> {
    let directory = scene.layout.find(&slot.path())?;
    Ok(directory.as_ref().map(Note::read).transpose()?.flatten())
}

/// Does the note in a pod name another volume? Two volumes may be of one file system, and look alike in the mount table.
fn is_of_another(scene: &Scene, slot: &Slot, id: &Identified) -> Result<bool, Failure> {
    Ok(note(scene, slot)?.and_then(|it| it.identified()).is_some_and(|it| it != *id))
}

/// Has the driver take a volume from a pod, and takes away what is beside it (C-92).
async fn take(scene: &Scene, registered: &Registered, id: &Identified, slot: &Slot) -> Result<(), Failure> {
    let target_path = text(&target(scene, slot))?;
    let request = NodeUnpublishVolumeRequest { volume_id: id.handle.clone(), target_path };
    // Also if nothing is there: the driver may have something elsewhere.
    let (driver, deadline) = (&registered.driver, scene.drivers.deadline(&id.driver));
    let unpublished = scene.drivers.call(driver, |it| async move { it.unpublish(request, deadline).await });
    unpublished.await.map_err(|error| failed(&error))?;
    tidy(scene, &slot.parent(), &slot.name, PUBLISHED).map_err(|failure| still_there(id, failure))
}

pub(super) async fn publish(scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
    let call = Call::of(scene, task.want)?;
    let (source, can, object) = (&call.source, &call.registered.capabilities, call.object.as_deref());
    // Before anything is asked of the driver: a group that is none must not be told of a volume that is there.
    let group = match task.access == Access::ReadWrite && source.changes_group(object, can) {
        true => group::wanted(task.want)?,
        false => None,
    };
    let path = target(scene, task.slot);
    let stages = can.stage_unstage && matches!(source.origin, request::Origin::Persistent(..));
    let staging = if stages { text(&staging(scene, &source.id).map_err(left_nothing)?)? } else { String::new() };
    let publish_context = source.publish_context(scene)?;
    let mut secrets = source.secrets(scene, Step::Publish)?;
    // A copy: what a pod adds must not reach another call (W-14).
    let mut context = source.attributes();
    if call.wants_pod_info() {
        context.extend(source.pod_info(&scene.default_account));
    }
    let (in_secrets, in_context) = source.tokens(scene, object)?;
    secrets.extend(in_secrets);
    context.extend(in_context);
    let request = NodePublishVolumeRequest {
        volume_id: source.id.handle.clone(),
        publish_context,
        staging_target_path: staging,
        target_path: text(&path)?,
        volume_capability: Some(source.capability(Mode::Filesystem, can, task.label)),
        readonly: task.access == Access::ReadOnly,
        secrets,
        volume_context: context,
    };
    nothing_foreign(scene, task.after, &path)?;
    let parent = task.home.make_parent(task.slot, PRIVATE).map_err(left_nothing)?;
    let directory = parent.make_directory(&task.slot.name, PRIVATE, Mounts::Refuse).map_err(left_nothing)?;
    drop(parent);
    let undo =
        |failure: Failure| undo(task.after, failure, || tidy(scene, &task.slot.parent(), &task.slot.name, PUBLISHED));
    let note = Note::published(&source.id, &source.name, &scene.node, &call.attachment(scene));
    note.living(source.life()).labelled(task.label).write_after(task.after, &directory).map_err(undo)?;
    drop(directory);
    task.home.close();
    let (driver, deadline) = (&call.registered.driver, call.deadline(scene));
    let published = scene.drivers.call(driver, |it| async move { it.publish(request, deadline).await });
    published.await.map_err(|error| undo(failed(&error)))?;
    let Some(mount) = mounted(&scene.watch, &path)? else {
        if scene.drivers.settings().get(&source.id.driver).is_some_and(|it| it.unmounted_publish) {
            return unmounted(scene, task.slot);
        }
        return Err(lied(&source.id.driver, format_args!("nothing is mounted at {}", path.display())));
    };
    if let Some(group) = group {
        let root = open(scene, task.slot, &mount)?;
        group::give_all(scene, task, &root, group)?;
    }
    Ok(Made::mount(&mount))
}

/// What a driver published that mounts nothing: a directory, which is made if the driver made none.
fn unmounted(scene: &Scene, slot: &Slot) -> Result<Made, Failure> {
    let directory = scene.layout.make(&slot.path(), PRIVATE)?;
    let root = directory.make_directory(&Name::new("mount point", PUBLISHED)?, PRIVATE, Mounts::Refuse)?;
    let path = root.path().to_path_buf();
    Ok(Made { proof: directory_proof(&root)?, form: VolumeForm::Directory, path, refresh_at: None, lost_at: None })
}

/// The root of a mount, and of no other that took its place.
fn open(scene: &Scene, slot: &Slot, mount: &Mount) -> Result<Place, Failure> {
    let Some(directory) = scene.layout.find(&slot.path())? else {
        let text = format!("{} was mounted, and its directory is gone", mount.mount_point.display());
        return Err(Failure::in_the_way(text));
    };
    let point = Name::new("mount point", PUBLISHED)?;
    let root = directory.directory(&point.into(), Mounts::Enter)?;
    if windlass_linux::table::identify(&root)? == mount.id {
        Ok(root)
    } else {
        Err(Failure::in_the_way(format!("{} was mounted, and something else is there now", root.path().display())))
    }
}

pub(super) async fn unpublish(scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
    // What was made in this boot was made of this volume; of anything else the note beside it knows more.
    let note = if task.made.is_some() { None } else { note(scene, task.slot)? };
    match identify(note.as_ref(), task.spec, Some(task.slot)) {
        Some(id) => take(scene, &scene.drivers.get(&id.driver)?, &id, task.slot).await,
        // Of what nothing is known, only what is windlass's own can go; anything else is in the way, and is named.
        None => tidy(scene, &task.slot.parent(), &task.slot.name, PUBLISHED),
    }
}

/// What is staged, by the notes beside it.
pub(super) fn staged(scene: &Scene) -> Result<Vec<(VolumeSpec, Option<Proof>)>, Failure> {
    let mut found = Vec::new();
    let Some(drivers) = scene.layout.find(Path::new(VOLUMES))? else { return Ok(found) };
    for driver in whole_file::names(&drivers)? {
        if driver.as_bytes() == DEVICES.as_bytes() {
            continue;
        }
        let above = Path::new(VOLUMES).join(driver.as_path());
        let Some(volumes) = scene.layout.find(&above)? else { continue };
        for name in whole_file::names(&volumes)? {
            let Some(directory) = scene.layout.find(&above.join(name.as_path()))? else { continue };
            let Some(id) = Note::read(&directory)?.and_then(|it| it.identified()) else { continue };
            // A note that is not where it belongs is somebody's copy.
            if stage_directory(&id).ok().as_ref() != Some(&(above.clone(), name.clone())) {
                continue;
            }
            let mount = mounted(&scene.watch, &directory.path().join(STAGED))?;
            let spec = rebuild(&id, &id.handle, Mode::Filesystem);
            found.push((spec, mount.map(|it| mount_proof(&it))));
        }
    }
    Ok(found)
}

/// Takes away the mount point, the note beside it and the directory of both (C-98). What is still mounted stays and is
/// told (W-7), and so is what anybody else put there (I-5).
fn tidy(scene: &Scene, above: &Path, name: &Name, point: &str) -> Result<(), Failure> {
    let Some(parent) = scene.layout.find(above)? else { return Ok(()) };
    let path = parent.path().join(name.as_path()).join(point);
    if mounted(&scene.watch, &path)?.is_some() {
        let text = format!("{} is still mounted", path.display());
        return Err(Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::HeldOpen), text) });
    }
    let ours = |path: &Path| {
        let unfinished = || Name::new("file", path.as_os_str()).is_ok_and(|it| whole_file::is_unfinished(&it));
        path.as_os_str().as_bytes() == notes::FILE.as_bytes() || unfinished()
    };
    Ok(scene.layout.remove_tree(&parent, name, |it| it.kind == FileType::RegularFile && ours(it.path))?)
}

/// A driver that took something away and left it mounted said what is not so.
fn still_there(id: &Identified, failure: Failure) -> Failure {
    match failure.cause {
        Cause::Node(Obstacle::HeldOpen) => lied(&id.driver, failure.text),
        _ => failure,
    }
}
