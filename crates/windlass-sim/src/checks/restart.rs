//! I-11, restart is routine: after a start no stage or publish is called for a place that is mounted as its record proves,
//! with the content that is wanted, unless the engine was told otherwise since.

use crate::world::World;
use windlass_core::{Operation, operation::Action, spec::Refresh};

/// What the check is called.
pub const NAME: &str = "restart is routine (I-11)";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
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
