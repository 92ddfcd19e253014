//! A device given to pods as it is (P-247..P-252).
//!
//! Its node is bound over a file that is named by the pod, and a link in the pod leads to the device. The kubelet also
//! puts a loop device on that file, so that the device's number cannot go to another device unseen. That uses up loop
//! devices (W-23), and here the bind is enough: it holds the node that was there, and the mount table proves which one
//! that is (I-4). A loop device that a kubelet left is taken away with the rest.

use std::path::{Path, PathBuf};

use windlass_core::operation::{Cause, Earlier, Obstacle};
use windlass_core::spec::VolumeSpec;
use windlass_linux::{block_map, device, remove, whole_file};

use super::{
    Failure, Left, MAPS, Made, Publish, Scene, Source, Unpublish, absolute, foreign, listed, mount_proof, mounted,
    volume_name,
};
use crate::layout::Slot;
use crate::plugin::device_map;

/// Where a volume is mapped for pods, below the root (P-244).
fn global(slot: &Slot) -> PathBuf {
    Path::new(MAPS).join(slot.name.as_path())
}

/// Maps a device into a pod.
pub(super) fn publish(scene: &Scene, task: &Publish<'_>, source: &Source<'_>) -> Result<Made, Failure> {
    map(scene, task, source).map_err(|failure| {
        if task.after != Earlier::Nothing {
            return failure;
        }
        match unmap(scene, task.slot) {
            Ok(()) => failure.nothing_left(),
            Err(_) => failure,
        }
    })
}

fn map(scene: &Scene, task: &Publish<'_>, source: &Source<'_>) -> Result<Made, Failure> {
    let device = device::resolve(&source.path).map_err(|error| source.unreachable(&error))?;
    device_map::map(scene, task, &device, &global(task.slot))
}

/// Takes a device from a pod.
pub(super) fn unpublish(scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
    let path = absolute(scene, &global(task.slot)).join(task.slot.pod.as_path());
    if let Some(mount) = mounted(&scene.watch, &path)?
        && task.made.is_some_and(|it| !it.proof.holds_for(&mount_proof(&mount)))
    {
        return Err(foreign(&mount));
    }
    unmap(scene, task.slot)
}

/// P-251: what holds the device, the link, the bind. The directory for all pods goes when the last pod has gone.
fn unmap(scene: &Scene, slot: &Slot) -> Result<(), Failure> {
    let directory = scene.layout.find(&global(slot))?;
    if let Some(directory) = &directory {
        block_map::release(directory, &slot.pod).map_err(|error| device_map::failed(&error))?;
    }
    let unlinked = match scene.layout.find(&slot.parent())? {
        Some(parent) => block_map::unlink(&parent, &slot.name).map_err(|error| device_map::failed(&error)).map(drop),
        None => Ok(()),
    };
    // Also if something of a user's is where the link belongs: it does not need the device.
    if let Some(directory) = &directory {
        block_map::unbind(directory, &slot.pod).map_err(|error| device_map::failed(&error))?;
    }
    unlinked
}

/// Removes the directory in which a device was mapped, if no pod has it (P-252, E-276).
pub(super) fn unstage(scene: &Scene, spec: &VolumeSpec) -> Result<(), Failure> {
    let name = volume_name(spec)?;
    let Some(maps) = scene.layout.find(Path::new(MAPS))? else { return Ok(()) };
    let Some(directory) = scene.layout.find(&Path::new(MAPS).join(name.as_path()))? else { return Ok(()) };
    let left = block_map::references(&directory).map_err(|error| device_map::failed(&error))?;
    if !left.is_empty() {
        let pods = left.iter().map(|it| directory.path().join(&it.name).display().to_string());
        let (path, pods) = (directory.path().display(), listed(pods));
        let text = format!("the device \"{path}\" is still referenced from other Pods {pods}");
        return Err(Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::HeldOpen), text) });
    }
    // What a call that was cut off left: files without a device.
    for pod in whole_file::names(&directory)? {
        block_map::unbind(&directory, &pod).map_err(|error| device_map::failed(&error))?;
    }
    drop(directory);
    Ok(remove::empty_directories(&maps, &name)?)
}
