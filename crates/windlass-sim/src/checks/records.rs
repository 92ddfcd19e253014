//! What is on disk keeps up with what is done (the duties in `windlass_core::operation`): something tells of whatever a call
//! may make, no record vouches for what a call may change or take away, and what the engine was told stands recorded.

use crate::driver::CallId;
use crate::executor::{Flight, UNSETTLED, trace};
use crate::setting::Setting;
use crate::world::World;
use windlass_core::event::{MountPlace, Record};
use windlass_core::flight::{Recorded, Trace};
use windlass_core::operation::{Action, Done, Earlier, OperationKind, Outcome};

/// What the check is called.
pub const NAME: &str = "records";

/// Judges a call that was just made.
pub fn check_call(world: &World, call: CallId) -> Result<(), String> {
    let Some(call) = world.calls.get(&call) else { return Ok(()) };
    let operation = &call.operation;
    let (kind, volume) = (operation.action.kind(), operation.volume());
    let Some(place) = &call.place else {
        return match (kind, world.disk.read_attached(volume)) {
            (OperationKind::Attach, None) => Err(format!("{volume} is about to be attached and nothing tells of it")),
            (OperationKind::Detach, Some(record)) if record.device.is_some() => {
                Err(format!("{volume} is about to be detached and is recorded as attached"))
            }
            (_, _) => Ok(()),
        };
    };
    let told = match (kind, trace(&operation.spec)) {
        (OperationKind::Publish, Trace::Directory) => world.disk.has_directory(place),
        (OperationKind::Publish | OperationKind::Stage, _) => world.disk.has_durable_record(place),
        (_, _) => true,
    };
    if !told {
        return Err(format!("nothing tells that {kind} of {volume} has begun"));
    }
    match world.disk.read(place).map(|it| &it.record) {
        Some(Record::Proven { revision, .. }) if *revision != UNSETTLED => {
            Err(format!("{kind} of {volume} begins while its record is proof"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Judges a mount that the process itself is about to make.
pub fn check_mount(world: &World, place: &MountPlace) -> Result<(), String> {
    match world.recorded(place) {
        Recorded::Unproven => Ok(()),
        other => Err(format!("what is about to be mounted at {place:?} is not announced: {other:?}")),
    }
}

/// The places of which nothing but a record tells, and which are recorded so that this outlives the machine.
pub fn told_durably(world: &World) -> Vec<MountPlace> {
    let recorded = world.disk.durable_records();
    let alone = recorded.filter(|(place, spec)| matches!(place, MountPlace::Stage(_)) || trace(spec) == Trace::Record);
    alone.map(|(place, _)| place).collect()
}

/// Judges what a power loss left of these.
pub fn check_power_loss(world: &World, places: &[MountPlace]) -> Result<(), String> {
    match places.iter().find(|it| world.disk.read(it).is_none()) {
        Some(place) => Err(format!("the power loss took the record of {place:?}, which had been synced")),
        None => Ok(()),
    }
}

/// Judges how an operation ended that the engine is about to be told of.
pub fn check_end(world: &World, flight: &Flight, outcome: &Outcome) -> Result<(), String> {
    let operation = &flight.operation;
    let (kind, volume) = (operation.action.kind(), operation.volume());
    let Some(place) = &flight.place else {
        let record = world.disk.read_attached(volume);
        return match (kind, outcome) {
            (OperationKind::Attach, Outcome::Done(_)) if record.is_none_or(|it| it.device.is_none()) => {
                Err(format!("{volume} is attached and not recorded"))
            }
            (OperationKind::Detach, Outcome::Done(_)) if record.is_some() => {
                Err(format!("{volume} is detached and recorded"))
            }
            (_, _) => Ok(()),
        };
    };
    let record = world.disk.read(place);
    let (after, wanted) = match &operation.action {
        Action::Publish { after, revision, .. } => (*after, *revision),
        Action::Stage { after, .. } => (*after, 0),
        Action::Attach | Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage | Action::Detach => {
            (Earlier::Unknown, 0)
        }
    };
    let boot = Setting::boot(world.boot);
    let was_in_use = after == Earlier::Success
        && flight
            .former
            .as_ref()
            .is_some_and(|it| matches!(&it.record, Record::Proven { boot: it, .. } if *it == boot));
    let is_kept = match outcome {
        Outcome::Done(Done::Mounted(made)) => {
            record.is_some_and(|it| it.record == Record::Proven { boot, proof: *made, revision: wanted })
        }
        Outcome::Done(Done::Gone) => record.is_none(),
        Outcome::Refused(_) if kind == OperationKind::Publish && was_in_use => record == flight.former.as_ref(),
        Outcome::Refused(_)
            if matches!(kind, OperationKind::Publish | OperationKind::Stage) && flight.former.is_none() =>
        {
            record.is_none()
        }
        Outcome::Done(Done::Attached { .. } | Done::Expanded { .. }) | Outcome::Refused(_) | Outcome::Unknown(_) => {
            true
        }
    };
    if !is_kept {
        return Err(format!("{kind} of {volume} ended as {outcome:?}, and its record says {record:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;

    #[test]
    fn a_call_that_nothing_tells_of_is_noticed() {
        let staged = |world: &World| {
            let mut calls = world.calls.iter().filter(|(_, it)| it.life == world.life && world.process.is_some());
            calls
                .find(|(_, it)| it.operation.action.kind() == OperationKind::Stage)
                .map(|(id, it)| (*id, it.place.clone()))
        };
        let mut world = world_in_which(|it| staged(it).is_some());
        let (id, place) = staged(&world).expect("it was just there");
        assert_eq!(check_call(&world, id), Ok(()));
        world.disk.remove_record(&place.expect("a stage has a place"));
        world.disk.sync();
        assert!(check_call(&world, id).is_err_and(|it| it.contains("nothing tells")));
    }
}
