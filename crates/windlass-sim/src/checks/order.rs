//! The order within a volume, as CSI has it: attached, staged, published, and back. Nothing is staged that is not attached,
//! nothing published that is not staged, nothing unstaged that a pod has, nothing detached that is staged.

use crate::world::World;
use windlass_core::Operation;
use windlass_core::event::MountPlace;
use windlass_core::operation::Action;
use windlass_core::spec::Attach;

/// What the check is called.
pub const NAME: &str = "order of steps";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    let volume = operation.volume();
    let stage = MountPlace::Stage(volume.clone());
    // A mount that vanished a moment ago is not known to the engine yet, nor is one that an old call has just made.
    let settled = |place: &MountPlace| world.process.as_ref().is_some_and(|it| !it.is_unsettled(place));
    let attached = match operation.spec.capabilities.attach {
        Attach::NotNeeded => true,
        Attach::ByNode => world.node_attached.contains(volume),
        Attach::ByController => world.attacher.is_attached(volume),
    };
    match &operation.action {
        Action::Stage { .. } if !attached => Err(format!("{volume} is staged without being attached")),
        Action::Publish { .. } if !attached => Err(format!("{volume} is published without being attached")),
        Action::Publish { .. }
            if operation.spec.capabilities.stage && world.kernel.visible(&stage).is_none() && settled(&stage) =>
        {
            Err(format!("{volume} is published without being staged"))
        }
        Action::Unstage | Action::Detach if world.unrecognisable.contains(volume) => Ok(()),
        Action::Unstage => {
            let holder = world
                .kernel
                .published_to(volume)
                .find(|pod| settled(&MountPlace::Publish(volume.clone(), (*pod).clone())));
            match holder {
                Some(pod) => Err(format!("{volume} is unstaged while pod {pod} has it")),
                None => Ok(()),
            }
        }
        Action::Detach if world.drivers.iter().any(|it| it.sessions.contains(volume)) => {
            Err(format!("{volume} is detached while it is staged"))
        }
        Action::Detach if world.kernel.has_volume(volume) => Err(format!("{volume} is detached while it is mounted")),
        Action::Attach
        | Action::Stage { .. }
        | Action::Publish { .. }
        | Action::Expand { .. }
        | Action::Unpublish { .. }
        | Action::Detach => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use std::sync::Arc;
    use windlass_core::ids::{OperationId, Time, VolumeId};
    use windlass_core::operation::Earlier;

    fn operation(world: &World, volume: &VolumeId, action: Action) -> Operation {
        let plan = world.setting.volume(volume).expect("it is planned");
        let spec = plan.spec(&world.setting, &world.setting.pods[0].uid, Default::default());
        Operation { id: OperationId(1 << 40), spec: Arc::new(spec), action, failures: 0, deadline: Time(u64::MAX) }
    }

    #[test]
    fn unstaging_what_a_pod_has_is_noticed() {
        let holder = |world: &World| {
            let process = world.process.as_ref()?;
            let published = world.kernel.ours().find(|it| match it {
                MountPlace::Publish(volume, _) => {
                    world.kernel.visible(&MountPlace::Stage(volume.clone())).is_some() && !process.is_unsettled(it)
                }
                MountPlace::Stage(_) => false,
            });
            published.map(crate::kernel::volume_of).cloned()
        };
        let world = world_in_which(|it| holder(it).is_some());
        let volume = holder(&world).expect("it was just there");
        assert!(check(&world, &operation(&world, &volume, Action::Unstage)).is_err());
    }

    #[test]
    fn staging_what_is_not_attached_is_noticed() {
        let detached = |world: &World| {
            let mut volumes = world.setting.attached_by_controller();
            volumes.find(|it| !world.attacher.is_attached(it)).cloned()
        };
        let world = world_in_which(|it| it.process.is_some() && detached(it).is_some());
        let volume = detached(&world).expect("it was just there");
        let action = Action::Stage { after: Earlier::Nothing, label: None };
        assert!(check(&world, &operation(&world, &volume, action)).is_err());
    }
}
