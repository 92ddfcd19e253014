//! Devices in pods, whoever they come from: a node bound over a file that is named by the pod, and a link in the pod.

use std::path::Path;

use windlass_linux::block_map;

use super::{Failure, Made, Publish, Scene, VolumeForm, absolute, chain, mount_proof, mounted};
use crate::layout::PRIVATE;

/// Binds a device over the file of a pod in this directory below the root, makes the pod's link, and tells its owner.
pub(super) fn map(scene: &Scene, task: &Publish<'_>, device: &Path, below: &Path) -> Result<Made, Failure> {
    let slot = task.slot;
    let directory = scene.layout.make(below, PRIVATE)?;
    // Also for a pod that may only read: what it is given says so, the device does not (P-248).
    block_map::bind_device(device, &directory, &slot.pod).map_err(|error| failed(&error))?;
    let parent = task.home.make_parent(slot, PRIVATE)?;
    block_map::link(&parent, &slot.name, device).map_err(|error| failed(&error))?;
    // What counts is what the mount table says (I-4).
    let path = directory.path().join(slot.pod.as_path());
    let Some(mount) = mounted(&scene.watch, &path)? else {
        return Err(Failure::in_the_way(format!("{} was mounted, and is not any more", path.display())));
    };
    for (word, below) in [("globalMapPath", below), ("volumeMapPath", &slot.parent())] {
        let (name, path) = (&task.spec.inner_name, absolute(scene, below));
        let text = format!("MapVolume.MapPodDevice succeeded for volume \"{name}\" {word} \"{}\"", path.display());
        scene.tell.normal(task.uid, "SuccessfulMountVolume", text);
    }
    let given = absolute(scene, &slot.path());
    Ok(Made { proof: mount_proof(&mount), form: VolumeForm::Mount(path), path: given, refresh_at: None, lost_at: None })
}

/// A device could not be mapped, or its map not taken away.
pub(super) fn failed(error: &block_map::Error) -> Failure {
    use block_map::Error;
    match error {
        Error::InTheWay { .. } | Error::OtherDevice { .. } | Error::NotALink { .. } => {
            Failure::in_the_way(chain(error))
        }
        _ => Failure::open(error),
    }
}
