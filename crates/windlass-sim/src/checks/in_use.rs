//! I-3, in use means in use: at every instant each volume that a controller attaches and that is staged or published here,
//! or about to be, stands in the report that the controller reads, and is attached.

use crate::{driver::CallId, world::World};
use windlass_core::{event::Place, ids::VolumeId, operation::Kind, spec::Attach};

/// What the check is called.
pub const NAME: &str = "in use means in use (I-3)";

/// Judges everything that is mounted, or that somebody keeps a session for.
pub fn check(world: &World) -> Result<(), String> {
    if !world.setting.attacher {
        return Ok(());
    }
    for place in world.kernel.ours() {
        let (volume, what) = match place {
            Place::Stage(volume) => (volume, "staged"),
            Place::Publish(volume, _) => (volume, "published"),
        };
        judge(world, volume, what)?;
    }
    for volume in world.drivers.iter().flat_map(|it| &it.sessions) {
        judge(world, volume, "staged, at least in part,")?;
    }
    for call in world.calls.values() {
        if call.at_work && matches!(call.operation.action.kind(), Kind::Stage | Kind::Publish) {
            judge(world, call.operation.volume(), "being mounted")?;
        }
    }
    Ok(())
}

/// Judges a call that was just made.
pub fn check_call(world: &World, call: CallId) -> Result<(), String> {
    match world.calls.get(&call) {
        Some(call) if matches!(call.operation.action.kind(), Kind::Stage | Kind::Publish) => {
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
