//! What a pod costs, counted: system calls, allocations, wake-ups and threads. No clock is asked, so a busy machine
//! disturbs nothing. What each may cost stands in `limits.rs`; whoever makes a pod cheaper lowers it there.
//!
//! The pods are those of the comparison with the kubelet (bench/): an emptyDir on disk, one in memory, a ConfigMap and a
//! Secret of four keys each. Everything runs in a mount namespace of its own, so nothing is left behind.

mod calls;
mod limits;
mod play;
mod rest;

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{Region, StatsAlloc};
use windlass_testing::harness::{Failure, Tests};
use windlass_testing::namespace;
use windlass_testing::wait::PATIENCE;

use limits::{ALLOCATIONS, Limits, WAKE_UPS};
use play::Play;
use rest::Slept;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// Pods that come before anything is counted: threads are there by then, and tables have their size.
const BEFORE: usize = 64;
/// Pods that are counted.
const COUNTED: usize = 64;

fn main() -> ExitCode {
    if let Some(words) = play::told() {
        return play::play(&words);
    }
    let mut tests = Tests::from_args().threads(1).after(namespace::enter);
    tests.add("a_pod_takes_no_more_system_calls_than_it_may", &[], calls::a_pod_takes_no_more_than_it_may);
    let start = "a_start_takes_no_more_system_calls_for_a_pod_than_it_may";
    tests.add(start, &[], calls::a_start_takes_no_more_than_it_may);
    tests.add("a_pod_takes_no_more_allocations_than_it_may", &[], allocations);
    tests.add("a_pod_alone_wakes_no_more_threads_than_it_may", &[], wake_ups);
    tests.add("a_burst_of_pods_takes_no_more_threads_than_it_may", &[], threads);
    tests.add("nothing_is_to_wake_while_nothing_changes", &[], nothing_wakes);
    tests.run()
}

/// Fails, and says by how much, if something costs more than it may.
fn judge(what: &str, up: f64, down: f64, limits: Limits) -> Result<(), Failure> {
    println!("{what} for each pod: {up:.1} up (at most {}), {down:.1} down (at most {})", limits.up, limits.down);
    match up <= limits.up && down <= limits.down {
        true => Ok(()),
        false => Err(format!("{what} for each pod: {up:.1} up and {down:.1} down; at most {limits:?}").into()),
    }
}

fn allocations() -> Result<(), Failure> {
    let mut play = Play::start("allocations");
    play.burst(0..BEFORE);
    play.remove_all();
    play.burst(0..BEFORE);
    let region = Region::new(ALLOCATOR);
    let each = || {
        let change = region.change();
        (change.allocations + change.reallocations) as f64
    };
    play.burst(BEFORE..BEFORE + COUNTED);
    let up = each();
    let before = each();
    play.remove_all();
    let down = each() - before;
    judge("allocations", up / COUNTED as f64, down / (BEFORE + COUNTED) as f64, ALLOCATIONS)
}

/// One pod after the other, so that every thread that has something to do must be woken for it.
fn wake_ups() -> Result<(), Failure> {
    let mut play = Play::start("wake-ups");
    let (mut up, mut down) = (0, 0);
    let mut before = Slept::so_far();
    for index in 0..BEFORE + COUNTED {
        play.burst(index..index + 1);
        at_rest()?;
        let ready = Slept::so_far();
        play.remove_all();
        at_rest()?;
        let gone = Slept::so_far();
        if index >= BEFORE {
            up += ready.since(&before);
            down += gone.since(&ready);
        }
        before = gone;
    }
    judge("wake-ups", up as f64 / COUNTED as f64, down as f64 / COUNTED as f64, WAKE_UPS)
}

fn threads() -> Result<(), Failure> {
    let mut play = Play::start("threads");
    play.burst(0..4 * COUNTED);
    play.remove_all();
    let (most, limit) = (play.threads_most, limits::threads(std::thread::available_parallelism()?.get()));
    println!("{most} worker threads at a time (at most {limit})");
    match most <= limit {
        true => Ok(()),
        false => Err(format!("{most} worker threads at a time; at most {limit}").into()),
    }
}

/// I-8: each thread waits for something to happen, and none for a time.
fn nothing_wakes() -> Result<(), Failure> {
    let mut play = Play::start("rest");
    play.burst(0..COUNTED);
    at_rest()
}

fn at_rest() -> Result<(), Failure> {
    let restless = rest::until_asleep(PATIENCE);
    restless.map_err(|threads| format!("these threads wake though nothing changes: {threads:?}").into())
}
