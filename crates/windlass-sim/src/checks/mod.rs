//! The promises, one file each. Each check compares what the engine says or asks for with what is true in the world.

pub mod growth;
pub mod idle;
pub mod in_use;
pub mod nothing_wanted_is_taken;
pub mod one_at_a_time;
pub mod order;
pub mod proof;
pub mod reasons;
pub mod records;
pub mod restart;
pub mod settled;
pub mod sharing;
pub mod unknown;
pub mod waiters;

use crate::driver::CallId;
use crate::executor::Flight;
use crate::world::World;
use windlass_core::Operation;
use windlass_core::event::MountPlace;
use windlass_core::operation::Outcome;

/// An operation is about to start.
pub(crate) fn operation_started(world: &mut World, operation: &Operation) {
    let results = [
        (nothing_wanted_is_taken::NAME, nothing_wanted_is_taken::check(world, operation)),
        (one_at_a_time::NAME, one_at_a_time::check(world, operation)),
        (order::NAME, order::check(world, operation)),
        (restart::NAME, restart::check(world, operation)),
        (sharing::NAME, sharing::check(world, operation)),
        (growth::NAME, growth::check(world, operation)),
    ];
    for (name, result) in results {
        world.verdict(name, result);
    }
}

/// A call reached a driver or plugin.
pub(crate) fn call_placed(world: &mut World, call: CallId) {
    let results = [(in_use::NAME, in_use::check_call(world, call)), (records::NAME, records::check_call(world, call))];
    for (name, result) in results {
        world.verdict(name, result);
    }
}

/// The process itself is about to mount something.
pub(crate) fn mount_begins(world: &mut World, place: &MountPlace) {
    let result = records::check_mount(world, place);
    world.verdict(records::NAME, result);
}

/// The engine is about to be told how an operation ended.
pub(crate) fn operation_ended(world: &mut World, flight: &Flight, outcome: &Outcome) {
    let result = records::check_end(world, flight, outcome);
    world.verdict(records::NAME, result);
}

/// Something happened, and everything that follows at once has followed.
pub(crate) fn after_step(world: &mut World) {
    // What is no longer mounted needs no excuse.
    world.unrecognisable.retain(|it| world.kernel.has_volume(it));
    if let Some(process) = &mut world.process {
        process.refused_growth.retain(|it, _| world.kernel.has_volume(it));
    }
    if std::mem::take(&mut world.holdings_changed) {
        let result = in_use::check(world);
        world.verdict(in_use::NAME, result);
    }
    // Up to its last kill a life is the same as with that kill left out, which was looked at when it was played so.
    if world.steps.is_multiple_of(world.thorough_every) && !world.will_be_killed() {
        thorough(world);
    }
}

/// Looks at everything.
pub(crate) fn thorough(world: &mut World) {
    let Some(process) = &world.process else {
        return;
    };
    let snapshot = process.engine.snapshot();
    let results = [
        (proof::NAME, proof::check(world, &snapshot)),
        (in_use::NAME, in_use::check(world)),
        (in_use::NAME, in_use::check_said(world)),
        (reasons::NAME, reasons::check(world, &snapshot)),
        (unknown::NAME, unknown::check(world, &snapshot)),
        (waiters::NAME, waiters::check(world, &snapshot)),
    ];
    for (name, result) in results {
        world.verdict(name, result);
    }
}

/// All trouble has ended and nothing happens any more.
pub(crate) fn settled(world: &mut World) {
    thorough(world);
    let results = [(settled::NAME, settled::check(world)), (idle::NAME, idle::check(world))];
    for (name, result) in results {
        world.verdict(name, result);
    }
}

/// All pods have gone and nothing happens any more.
pub(crate) fn nothing_left(world: &mut World) {
    let result = settled::check_nothing_left(world);
    world.verdict(settled::NAME, result);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::life::{Options, plan};
    use windlass_core::ids::Time;

    /// Some world in the middle of its life that looks like this.
    pub(crate) fn world_in_which(looks: impl Fn(&World) -> bool) -> World {
        for seed in 0..50 {
            let (setting, script) = plan(seed, 1);
            let end = script.end;
            let mut world = World::new(setting, script, &Options::default());
            while world.now < end && world.step() {
                if looks(&world) {
                    return world;
                }
            }
        }
        unreachable!("no world ever looks like this");
    }

    #[test]
    fn a_world_that_lives_well_breaks_no_promise() {
        let mut world = world_in_which(|it| it.now > Time(3_600_000) && it.process.is_some());
        thorough(&mut world);
        assert_eq!(world.failure, None);
    }
}
