//! I-1, nothing wanted is taken away: an unpublish, unstage or detach starts only if what the engine was told says that
//! nobody wants the volume.
//!
//! The judgement is by the newest state of each pod of which word reached the engine in this life of the process, by an
//! event or by a list in which the pod was missing. What has not reached it cannot be held against it; but where nothing
//! reached it, or the state it was told of wants the volume, taking it away was a guess, unless a record says that an earlier
//! life had begun to. And nothing is taken at all before
//! there was a moment at which every source, the disk and the attacher had told all they know.

use crate::disk::Published;
use crate::source::PodState;
use crate::world::World;
use windlass_core::Operation;
use windlass_core::event::{MountPlace, Record};
use windlass_core::ids::{PodUid, VolumeId};
use windlass_core::operation::{Action, OperationKind};
use windlass_core::spec::Phase;

/// What the check is called.
pub const NAME: &str = "nothing wanted is taken (I-1)";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    let takes =
        matches!(operation.action.kind(), OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach);
    if takes && world.process.as_ref().is_some_and(|it| !it.all_known_once) {
        let (kind, volume) = (operation.action.kind(), operation.volume());
        return Err(format!("{kind} of {volume} starts before all was known"));
    }
    match &operation.action {
        Action::Unpublish { pod, .. } => {
            let volume = match world.place_of(operation) {
                Some(MountPlace::Publish(volume, _)) => volume,
                Some(MountPlace::Stage(_)) | None => operation.volume().clone(),
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
        // An earlier life knew: it had begun to take away this volume, or the whole pod.
        let begun = |it: &Published<'_>| match it.record.map(|it| &it.record) {
            Some(Record::Leaving { with_pod }) => *with_pod || it.volume == volume,
            Some(Record::Intent | Record::Proven { .. }) | None => false,
        };
        if world.disk.published().filter(|it| it.pod == uid).any(|it| begun(&it)) {
            return Ok(());
        }
        return Err(format!("{volume} is taken from pod {uid}, of which nothing was said"));
    };
    let (since, state) = world.sources.state_at(pod, told);
    let keep = world.setting.keep_terminated;
    let uses = &world.setting.pods[pod].uses;
    let names = |index: usize| !uses[index].invalid && world.setting.id(pod, index) == volume;
    if (0..uses.len()).any(|it| names(it) && state.wants(it, keep)) {
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
        if named != volume || !matches!(state, PodState::Present(Phase::Running, _)) || !state.names(*index) {
            continue;
        }
        let plan = &world.setting.pods[*pod];
        let used = &world.setting.volumes[plan.uses[*index].volume];
        let has_it = world.kernel.visible(&MountPlace::Publish(volume.clone(), plan.uid.clone())).is_some();
        // Staged with another label it is of no use to the pod, and must be staged anew.
        let wrong_label = used.labelled && operation.action == Action::Unstage;
        if has_it || !wrong_label {
            let (kind, uid) = (operation.action.kind(), &plan.uid);
            return Err(format!("{kind} of {volume} starts while pod {uid} wants it"));
        }
    }
    Ok(())
}
