//! I-2, one thing at a time: at most one operation runs for a volume, except that those for different pods may overlap
//! where the volume allows it. What may overlap is written at [`Concurrency`].

use crate::world::World;
use windlass_core::Operation;
use windlass_core::operation::OperationKind;
use windlass_core::spec::Concurrency;

/// What the check is called.
pub const NAME: &str = "one thing at a time (I-2)";

/// Judges an operation that is about to start beside those that run.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    let place = world.place_of(operation);
    for flight in process.flights.values() {
        let other = &flight.operation;
        let same_place = place.is_some() && flight.place == place;
        let same_volume = other.volume() == operation.volume();
        if same_place || (same_volume && !may_overlap(other, operation)) {
            return Err(format!(
                "{} {} of {} starts while {} {} runs",
                operation.action.kind(),
                operation.id,
                operation.volume(),
                other.action.kind(),
                other.id
            ));
        }
    }
    Ok(())
}

fn may_overlap(one: &Operation, other: &Operation) -> bool {
    let (Some(one_pod), Some(other_pod)) = (one.action.pod(), other.action.pod()) else {
        return false;
    };
    let releases = |it: &Operation| it.action.kind() == OperationKind::Unpublish;
    one_pod != other_pod
        && match other.spec.capabilities.concurrency {
            Concurrency::Alone => false,
            Concurrency::ReleasesOverlap => releases(one) && releases(other),
            Concurrency::PodsOverlap => true,
        }
}
