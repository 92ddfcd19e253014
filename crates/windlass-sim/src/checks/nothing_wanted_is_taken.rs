//! I-1, nothing wanted is taken away: an unpublish, unstage or detach starts only if what the engine was told says that
//! nobody wants the volume.
//!
//! The judgement is by the newest state of each pod of which word reached the engine in this life of the process, by an
//! event or by a list in which the pod was missing. What has not reached it cannot be held against it; but where nothing
//! reached it, or the state it was told of wants the volume, taking it away was a guess.

use crate::world::World;
use windlass_core::{
    Operation,
    event::Place,
    ids::{PodUid, VolumeId},
    operation::Action,
};

/// What the check is called.
pub const NAME: &str = "nothing wanted is taken (I-1)";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    match &operation.action {
        Action::Unpublish { pod } => {
            let volume = match world.place_of(operation) {
                Some(Place::Publish(volume, _)) => volume,
                Some(Place::Stage(_)) | None => operation.volume().clone(),
            };
            check_unpublish(world, &volume, pod)
        }
        Action::Unstage | Action::Detach => check_volume(world, operation),
        Action::Attach | Action::Stage { .. } | Action::Publish { .. } | Action::Expand { .. } => Ok(()),
    }
}

fn check_unpublish(world: &World, volume: &VolumeId, uid: &PodUid) -> Result<(), String> {
    let (Some(process), Some(pod)) = (&world.process, world.pod_index(uid)) else {
        return Ok(());
    };
    let Some(told) = process.told.get(&pod).copied() else {
        return Err(format!("{volume} is taken from pod {uid}, of which nothing was said"));
    };
    let (since, state) = world.sources.state_at(pod, told);
    let keep = world.setting.keep_terminated;
    let uses = &world.setting.pods[pod].uses;
    let wanted = (0..uses.len()).any(|it| world.setting.id(pod, it) == volume && state.wants(it, keep));
    if wanted && !uses.iter().any(|it| it.invalid) {
        return Err(format!("{volume} is taken from pod {uid}, which wants it in version {since}"));
    }
    Ok(())
}

/// Unstage and detach: no pod that the engine knows to want the volume is left without it.
fn check_volume(world: &World, operation: &Operation) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    let volume = operation.volume();
    for ((pod, index), named) in &process.resolved {
        let told = process.told.get(pod).copied().unwrap_or(0);
        let (_, state) = world.sources.state_at(*pod, told);
        let uid = &world.setting.pods[*pod].uid;
        let has_it = world.kernel.visible(&Place::Publish(volume.clone(), uid.clone())).is_some();
        if named == volume && state.wants(*index, world.setting.keep_terminated) && has_it {
            let kind = operation.action.kind();
            return Err(format!("{kind} of {volume} starts while pod {uid} has it and wants it"));
        }
    }
    Ok(())
}
