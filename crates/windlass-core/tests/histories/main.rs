//! Random histories: every invariant after every step, incremental planning against full planning, and the state after a
//! restart from records against the state before it.
//!
//! `WINDLASS_HISTORIES=100000 cargo test --release -p windlass-core --test histories` runs more of them.

mod history;
mod model;
mod moves;

use history::History;
use moves::{Move, moves};
use proptest::prelude::*;
use proptest::test_runner::Config;

fn histories() -> Config {
    let cases = std::env::var("WINDLASS_HISTORIES").ok().and_then(|it| it.parse().ok()).unwrap_or(1500);
    Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn every_invariant_holds_after_every_step(moves in moves()) {
        let mut history = History::new();
        for it in &moves {
            history.play(it);
            history.check();
        }
    }

    #[test]
    fn planning_what_was_touched_decides_the_same_as_planning_everything(moves in moves()) {
        let mut touched = History::new();
        let mut everything = History::planning_everything();
        for it in &moves {
            prop_assert_eq!(touched.play(it), everything.play(it));
            prop_assert_eq!(touched.engine.snapshot(), everything.engine.snapshot());
            prop_assert_eq!(touched.engine.tally(), everything.engine.tally());
            prop_assert_eq!(touched.engine.deadline(), everything.engine.deadline());
        }
    }

    #[test]
    fn a_restart_from_records_knows_what_was_known_before_it(moves in moves()) {
        let mut history = History::new();
        for it in &moves {
            history.play(it);
        }
        history.check_restart();
    }

    #[test]
    fn once_every_call_succeeds_all_that_is_wanted_is_mounted_and_nothing_else_is_left(moves in moves()) {
        let mut history = History::new();
        for it in &moves {
            history.play(it);
        }
        history.check_convergence();
    }
}

#[test]
fn a_history_of_nothing_is_at_rest() {
    let mut history = History::new();
    history.play(&Move::Advance { seconds: 3600 });
    assert_eq!(history.engine.deadline(), None);
}
