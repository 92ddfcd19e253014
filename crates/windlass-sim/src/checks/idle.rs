//! I-8, idle is idle: once the node has settled, the engine does not want to be woken any more, except to refresh volumes
//! that must be refreshed now and then.

use crate::trace::Clock;
use crate::world::World;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;

    #[test]
    fn an_operation_that_runs_is_noticed() {
        let world = world_in_which(|it| it.process.as_ref().is_some_and(|it| !it.flights.is_empty()));
        assert!(check(&world).is_err());
    }

    #[test]
    fn a_wake_up_that_nothing_needs_is_noticed() {
        let wakes = |world: &World| {
            let process = world.process.as_ref()?;
            let idle = process.flights.is_empty() && !world.refreshes_regularly();
            process.engine.deadline().filter(|_| idle)
        };
        let world = world_in_which(|it| wakes(it).is_some());
        assert!(check(&world).is_err());
    }
}
