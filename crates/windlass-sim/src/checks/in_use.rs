//! I-3, in use means in use: at every instant each volume that a controller attaches and that is staged or published here,
//! or about to be, stands in the report that the controller reads, and is attached. And once a process says what is in use,
//! it leaves out nothing that must be attached and is attached by this node, staged or published, or kept by a driver.

use crate::driver::CallId;
use crate::world::World;
use windlass_core::event::MountPlace;
use windlass_core::ids::VolumeId;
use windlass_core::operation::OperationKind;
use windlass_core::spec::Attach;

/// What the check is called.
pub const NAME: &str = "in use means in use (I-3)";

/// Judges everything that is mounted, or that somebody keeps a session for.
pub fn check(world: &World) -> Result<(), String> {
    if !world.setting.attacher {
        return Ok(());
    }
    held(world).try_for_each(|(volume, what)| judge(world, volume, what))
}

/// Judges what the process says is in use, before it is reported and whether or not anybody reads the report.
pub fn check_said(world: &World) -> Result<(), String> {
    let Some(said) = world.process.as_ref().and_then(|it| it.engine.volumes_in_use()) else {
        return Ok(());
    };
    let attached = world.node_attached.iter().map(|it| (it, "attached by this node"));
    for (volume, what) in held(world).chain(attached) {
        let plan = world.setting.volume(volume);
        let attachable = plan.is_some_and(|it| it.capabilities.attach != Attach::NotNeeded);
        if attachable && !world.unrecognisable.contains(volume) && !said.volumes.contains(volume) {
            return Err(format!("{volume} is {what} and not said to be in use"));
        }
    }
    Ok(())
}

/// Everything that is mounted, that a driver keeps, or that it is at work on, and how that is called.
fn held(world: &World) -> impl Iterator<Item = (&VolumeId, &'static str)> {
    let mounted = world.kernel.ours().map(|it| match it {
        MountPlace::Stage(volume) => (volume, "staged"),
        MountPlace::Publish(volume, _) => (volume, "published"),
    });
    let kept = world.drivers.iter().flat_map(|it| &it.sessions).map(|it| (it, "staged, at least in part,"));
    let calls = world.calls.values().filter(|it| it.at_work);
    let being_mounted =
        calls.filter(|it| matches!(it.operation.action.kind(), OperationKind::Stage | OperationKind::Publish));
    mounted.chain(kept).chain(being_mounted.map(|it| (it.operation.volume(), "being mounted")))
}

/// Judges a call that was just made.
pub fn check_call(world: &World, call: CallId) -> Result<(), String> {
    match world.calls.get(&call) {
        Some(call) if matches!(call.operation.action.kind(), OperationKind::Stage | OperationKind::Publish) => {
            judge(world, call.operation.volume(), "about to be mounted")
        }
        Some(_) | None => Ok(()),
    }
}

fn judge(world: &World, volume: &VolumeId, what: &str) -> Result<(), String> {
    let plan = world.setting.volume(volume);
    let by_controller = plan.is_some_and(|it| it.capabilities.attach == Attach::ByController);
    if !by_controller || world.unrecognisable.contains(volume) {
        return Ok(());
    }
    if !world.apiserver.in_use.contains(volume) {
        return Err(format!("{volume} is {what} and not reported in use"));
    }
    if !world.attacher.is_attached(volume) {
        return Err(format!("{volume} is {what} and not attached"));
    }
    Ok(())
}
