//! Chaos, for real: pods come, go and change while the real daemon is killed at any moment and started again.
//!
//! A seed makes the schedule: which manifest changes in which order, and after how many microseconds a kill comes. It is
//! printed first and with every failure, and `WINDLASS_CHAOS_SEED` plays the same schedule again; what the daemon was
//! doing when it was hit is up to the machine. `WINDLASS_CHAOS_KILLS` makes it longer. See docs/chaos.md.
//!
//! As the daemon's other tests, it runs in a mount namespace of its own, so nothing is left behind whatever happens.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::time::Instant;
use windlass_testing::daemon::Case;
use windlass_testing::harness::{Failure, Tests};
use windlass_testing::namespace;

mod chance;
mod judge;
mod life;
mod schedule;
mod truth;
mod witness;
mod world;

use life::Trouble;
use schedule::Schedule;

const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass");

/// Enough to see every kind of kill, and short enough for every run of the tests.
const KILLS: usize = 12;

fn main() {
    let mut tests = Tests::from_args().after(namespace::enter);
    tests.add("a_seed_makes_the_same_schedule_every_time", &[], the_same_schedule);
    tests.add("it_comes_right_after_every_kill_and_nothing_is_left_at_the_end", &[], chaos);
    tests.add("whatever_is_wrong_is_noticed", &[], judge::whatever_is_wrong_is_noticed);
    tests.run();
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|it| !it.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, and must be a number")))
}

fn chaos() -> Result<(), Failure> {
    let seed = setting("WINDLASS_CHAOS_SEED").unwrap_or_else(any_number);
    let kills = setting("WINDLASS_CHAOS_KILLS").map_or(KILLS, |it| usize::try_from(it).unwrap_or(usize::MAX));
    println!("chaos: seed {seed}, {kills} kills");
    let case = Case::new(PROGRAM, "chaos");
    let began = Instant::now();
    let step = RefCell::new("before the first round".to_owned());
    // What the shared code of the tests finds wrong, it panics about.
    let played = catch_unwind(AssertUnwindSafe(|| {
        life::play(&case, Schedule::new(seed, kills), |told| *step.borrow_mut() = told)
    }));
    let trouble = match played {
        Ok(Ok(figures)) => {
            println!(
                "chaos: seed {seed}: {} kills, {} of them in the middle of something, {} starts, {} actions; came right \
                 {} times, after {:.1} s at most; a container looked {} times and noticed nothing; {:.1} s altogether",
                figures.kills,
                figures.in_the_middle,
                figures.starts,
                figures.actions,
                figures.settled,
                figures.slowest.as_secs_f64(),
                figures.looks,
                began.elapsed().as_secs_f64(),
            );
            return Ok(());
        }
        Ok(Err(Trouble(text))) => text,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            text.unwrap_or("panicked").to_owned()
        }
    };
    let log = std::fs::read_to_string(case.path("log")).unwrap_or_default();
    let last: Vec<&str> = log.lines().collect();
    Err(Failure::from(format!(
        "seed {seed}, {kills} kills, {}\n\n{trouble}\n\nThe end of the log:\n{}\n\nThe same schedule again: make chaos \
         SEED={seed} KILLS={kills}",
        step.borrow(),
        last[last.len().saturating_sub(60)..].join("\n")
    )))
}

/// A seed when none is asked for.
fn any_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % 1_000_000
}

fn the_same_schedule() {
    let text = |seed| Schedule::new(seed, 50).rounds.iter().map(|it| format!("{it}\n")).collect::<String>();
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
    let kills: usize = Schedule::new(7, 50).rounds.iter().map(schedule::Round::kills).sum();
    assert!(kills >= 50, "{kills}");
}
