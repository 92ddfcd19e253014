//! A few hundred lives: no promise is broken, every kind of fault occurs, and a seed is always the same life.

use std::sync::LazyLock;
use windlass_core::Planning;
use windlass_sim::campaign::{Campaign, Results};
use windlass_sim::life::{Options, run_seed};

const TRACED: Options =
    Options { trace: true, planning: Planning::Touched, sabotage: None, without: None, thorough_every: 16 };

/// How many lives that are.
const LIVED: u64 = 400;

/// The lives that two tests look at.
static LIVES: LazyLock<Results> = LazyLock::new(|| {
    let jobs = std::thread::available_parallelism().map_or(1, Into::into);
    let campaign = Campaign { from: 0, seeds: LIVED, days: 1, jobs };
    campaign.run(&Options::default())
});

#[test]
fn hundreds_of_nodes_live_a_day_without_a_broken_promise() {
    assert!(LIVES.failures.is_empty(), "replay these: {:#?}", LIVES.failures);
    assert_eq!(LIVES.seeds, LIVED);
    assert!(LIVES.operations > LIVED * 100, "only {} operations", LIVES.operations);
}

#[test]
fn every_kind_of_fault_occurs() {
    let missing: Vec<&str> = LIVES.faults.missing().iter().map(|it| it.name()).collect();
    assert!(missing.is_empty(), "these never occurred: {missing:?}");
}

#[test]
fn a_seed_is_always_the_same_life() {
    for seed in 1000..1010 {
        let (one, other) = (run_seed(seed, 1, &TRACED), run_seed(seed, 1, &TRACED));
        assert!(one.trace.len() > 100);
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!((one.faults, one.operations), (other.faults, other.operations));
    }
}

#[test]
fn different_seeds_are_different_lives() {
    assert_ne!(run_seed(1, 1, &TRACED).trace, run_seed(2, 1, &TRACED).trace);
}

#[test]
fn looking_at_what_was_touched_decides_the_same_as_looking_at_everything() {
    for seed in 2000..2010 {
        let everything = Options { planning: Planning::Everything, ..TRACED };
        let (touched, all) = (run_seed(seed, 1, &TRACED), run_seed(seed, 1, &everything));
        assert_eq!(touched.trace, all.trace, "seed {seed}");
    }
}

#[test]
fn promises_hold_after_every_single_step() {
    let options = Options { thorough_every: 1, ..Options::default() };
    let jobs = std::thread::available_parallelism().map_or(1, Into::into);
    let results = Campaign { from: 5000, seeds: 20, days: 1, jobs }.run(&options);
    assert!(results.failures.is_empty(), "replay these: {:#?}", results.failures);
}

#[test]
fn how_many_threads_run_makes_no_difference() {
    let run = |jobs| Campaign { from: 40, seeds: 12, days: 1, jobs }.run(&Options::default());
    let (one, three) = (run(1), run(3));
    assert_eq!((one.seeds, one.operations, one.simulated), (three.seeds, three.operations, three.simulated));
    assert_eq!((one.faults, one.failures), (three.faults, three.failures));
}
