//! I-8, idle is idle: once the node has settled, the engine does not want to be woken any more, except to refresh volumes
//! that must be refreshed now and then.

use crate::{trace::Clock, world::World};

/// What the check is called.
pub const NAME: &str = "idle is idle (I-8)";

/// Judges a node in which nothing should happen any more.
pub fn check(world: &World) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    if let Some((id, flight)) = process.flights.first_key_value() {
        let (kind, volume) = (flight.operation.action.kind(), flight.operation.volume());
        return Err(format!("{kind} {id} of {volume} is still running"));
    }
    match process.engine.deadline() {
        Some(at) if !world.refreshes_regularly() => {
            Err(format!("the engine wants to be woken at {} although all is settled", Clock(at)))
        }
        Some(_) | None => Ok(()),
    }
}
