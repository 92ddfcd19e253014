//! I-11, restart is routine: after a start no stage or publish is called for a place that is mounted as its record proves,
//! with the content that is wanted, unless the engine was told otherwise since; nor is a volume attached by this node that is
//! attached as its record says.

use crate::world::World;
use windlass_core::Operation;
use windlass_core::operation::Action;
use windlass_core::spec::Refresh;

/// What the check is called.
pub const NAME: &str = "restart is routine (I-11)";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    if operation.action == Action::Attach {
        let volume = operation.volume();
        // Mounts do not wait for a disk that is slow to read, so what is on it may not be known.
        let known = world.process.as_ref().is_some_and(|it| !it.slow_scan);
        let recorded = known && world.disk.read_attached(volume).is_some_and(|it| it.device.is_some());
        return match recorded && world.node_attached.contains(volume) {
            true => Err(format!("attach of {volume} is called although it is there as recorded")),
            false => Ok(()),
        };
    }
    let (Some(process), Some(place)) = (&world.process, world.place_of(operation)) else {
        return Ok(());
    };
    let Some((_, proven)) = process.proven.get(&place) else {
        return Ok(());
    };
    let needless = match &operation.action {
        Action::Stage { .. } => true,
        Action::Publish { revision, .. } => match operation.spec.capabilities.refresh {
            Refresh::Never => true,
            Refresh::OnChange => revision == proven,
            Refresh::Every(_) => false,
        },
        Action::Attach | Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage | Action::Detach => false,
    };
    if needless {
        let (kind, volume) = (operation.action.kind(), operation.volume());
        return Err(format!("{kind} of {volume} is called although it is there as recorded"));
    }
    Ok(())
}
