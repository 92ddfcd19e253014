//! I-10, unknown is a state: once the disk was read, whatever is mounted, staged in part or attached by our doing is known
//! to the engine as possibly here. Nothing of ours is ever taken for absent.

use crate::world::World;
use std::collections::BTreeMap;
use windlass_core::event::MountPlace;
use windlass_core::ids::{PodUid, VolumeId};
use windlass_core::snapshot::{Snapshot, StepView, VolumeView};

/// What the check is called.
pub const NAME: &str = "unknown is a state (I-10)";

/// Judges what is here by what the engine knows of it.
pub fn check(world: &World, snapshot: &Snapshot) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    if !process.disk_read {
        return Ok(());
    }
    let views: BTreeMap<&VolumeId, &VolumeView> = snapshot.volumes.iter().map(|it| (&it.id, it)).collect();
    for place in world.kernel.ours() {
        let known = match place {
            MountPlace::Stage(volume) => views.get(volume).is_some_and(|it| it.stage != StepView::Absent),
            MountPlace::Publish(volume, pod) => {
                has_mount(views.get(volume).copied(), pod) || is_known_by_name(world, snapshot, volume, pod)
            }
        };
        if !known {
            return Err(format!("the engine knows nothing of what is {}", crate::describe::place_words(place)));
        }
    }
    for volume in world.drivers.iter().flat_map(|it| &it.sessions) {
        if !views.get(volume).is_some_and(|it| it.stage != StepView::Absent) {
            return Err(format!("a driver keeps a session for {volume} and the engine knows nothing of it"));
        }
    }
    for volume in &world.node_attached {
        if !views.get(volume).is_some_and(|it| it.attach != StepView::Absent) {
            return Err(format!("{volume} is attached to this node and the engine knows nothing of it"));
        }
    }
    Ok(())
}

fn has_mount(volume: Option<&VolumeView>, pod: &PodUid) -> bool {
    let mounts = volume.into_iter().flat_map(|it| &it.mounts);
    mounts.into_iter().any(|it| it.pod == *pod && it.publish != StepView::Absent)
}

/// What has no readable record is known by the names of its directories alone.
fn is_known_by_name(world: &World, snapshot: &Snapshot, volume: &VolumeId, pod: &PodUid) -> bool {
    let mut unreadable = world.disk.published().filter(|it| it.pod == pod && it.volume == volume);
    let Some(directory) = unreadable.find(|it| it.record.is_none()) else {
        return false;
    };
    snapshot.volumes.iter().any(|it| it.plugin == *directory.plugin && has_mount(Some(it), pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;

    #[test]
    fn a_mount_that_the_engine_takes_for_absent_is_noticed() {
        let world = world_in_which(|it| {
            it.process.as_ref().is_some_and(|it| it.disk_read) && it.kernel.ours().next().is_some()
        });
        let mut snapshot = world.process.as_ref().expect("it runs").engine.snapshot();
        assert_eq!(check(&world, &snapshot), Ok(()));
        for volume in &mut snapshot.volumes {
            volume.stage = StepView::Absent;
            volume.mounts.clear();
        }
        assert!(check(&world, &snapshot).is_err());
    }
}
