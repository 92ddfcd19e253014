//! The checks can fail: each way of breaking the engine's surroundings on purpose is noticed by the check that should.

use std::collections::BTreeSet;
use windlass_sim::checks::{in_use, nothing_wanted_is_taken, one_at_a_time, proof, records, restart, settled, unknown};
use windlass_sim::kill_points::{self, Depth};
use windlass_sim::life::{Options, Sabotage, plan, run_seed};
use windlass_sim::minimise::minimise;

/// How many lives a sabotage may take to be noticed.
const LIVES: u64 = 40;

/// The first seed in which the check notices, and what it said.
fn noticed(sabotage: Sabotage, check: &str) -> (u64, String) {
    let options = Options { sabotage: Some(sabotage), ..Options::default() };
    let mut others = Vec::new();
    for seed in 0..LIVES {
        match run_seed(seed, 1, &options).failure {
            Some(failure) if failure.check == check => return (seed, failure.message),
            Some(failure) => others.push(failure.check),
            None => {}
        }
    }
    panic!("{sabotage:?} was not noticed by {check:?}, only by {others:?}");
}

#[test]
fn a_list_without_a_pod_that_is_there_is_noticed() {
    noticed(Sabotage::ForgetsPods, nothing_wanted_is_taken::NAME);
}

#[test]
fn an_operation_that_starts_twice_is_noticed() {
    noticed(Sabotage::StartsTwice, one_at_a_time::NAME);
}

#[test]
fn a_report_that_is_not_stored_is_noticed() {
    noticed(Sabotage::ForgetsReports, in_use::NAME);
}

#[test]
fn a_mount_on_a_drivers_word_alone_is_noticed() {
    noticed(Sabotage::TrustsDrivers, proof::NAME);
}

#[test]
fn a_doubt_taken_for_a_refusal_is_noticed() {
    noticed(Sabotage::GuessesRefused, unknown::NAME);
}

#[test]
fn a_start_that_does_not_look_at_the_mounts_is_noticed() {
    noticed(Sabotage::ScansBlindly, restart::NAME);
}

#[test]
fn a_directory_left_behind_is_noticed() {
    noticed(Sabotage::LeavesDirectories, "pod directory");
}

#[test]
fn a_result_that_never_comes_is_noticed() {
    let (_, message) = noticed(Sabotage::LosesResults, settled::NAME);
    assert!(message.contains("not mounted") || message.contains("left"), "{message}");
}

/// One kill is enough to notice this. The check of the records would notice it before any kill, so it is not made.
fn noticed_by_kills(sabotage: Sabotage, checks: &[&str]) {
    let options = Options { sabotage: Some(sabotage), without: Some(records::NAME), ..kill_points::options() };
    let lives = kill_points::lives();
    let results = kill_points::play(&lives, Depth::One, 1, &options);
    for check in checks {
        let noticed = results.failures.iter().any(|it| it.failure.check == *check && it.kills.len() <= 1);
        let others: BTreeSet<&str> = results.failures.iter().map(|it| it.failure.check).collect();
        assert!(noticed, "{sabotage:?} was not noticed by {check:?}, only by {others:?}");
    }
}

/// No kill is needed to see that a step was left out.
fn noticed_by_records(sabotage: Sabotage) {
    let options = Options { sabotage: Some(sabotage), ..kill_points::options() };
    let lives = kill_points::lives();
    let mut failures = lives.iter().filter_map(|it| it.killed_at(&[], &options).failure);
    assert!(failures.any(|it| it.check == records::NAME), "{sabotage:?} was not noticed");
}

#[test]
fn a_step_that_is_left_out_is_noticed_by_what_is_on_disk() {
    noticed_by_records(Sabotage::RecordsLate);
    noticed_by_records(Sabotage::NeverUnsettles);
    noticed_by_records(Sabotage::NeverAnnounces);
    noticed_by_records(Sabotage::NeverProves);
    noticed_by_records(Sabotage::NeverRestores);
    noticed_by_records(Sabotage::NeverRetires);
    noticed_by_records(Sabotage::NeverForgets);
}

#[test]
fn a_record_that_is_written_after_the_call_is_noticed() {
    noticed_by_kills(Sabotage::RecordsLate, &[unknown::NAME, in_use::NAME]);
}

#[test]
fn a_proof_that_is_not_written_is_noticed() {
    noticed_by_kills(Sabotage::NeverProves, &[restart::NAME]);
}

#[test]
fn proof_of_what_is_being_taken_away_is_noticed() {
    noticed_by_kills(Sabotage::NeverRetires, &[proof::NAME]);
}

#[test]
fn a_record_that_goes_before_what_it_is_of_is_noticed() {
    noticed_by_kills(Sabotage::ForgetsEarly, &[unknown::NAME, in_use::NAME]);
}

#[test]
fn a_record_of_what_is_gone_is_noticed() {
    noticed_by_kills(Sabotage::NeverForgets, &[settled::NAME]);
}

#[test]
fn a_report_of_what_pods_name_is_noticed() {
    noticed_by_kills(Sabotage::ReportsPodsOnly, &[in_use::NAME]);
}

#[test]
fn a_start_that_forgets_what_is_staged_without_a_pod_is_noticed() {
    noticed_by_kills(Sabotage::ForgetsStaged, &[unknown::NAME, in_use::NAME]);
}

#[test]
fn a_failing_life_is_made_much_shorter_and_fails_alike() {
    let options = Options { sabotage: Some(Sabotage::TrustsDrivers), ..Options::default() };
    let (seed, _) = noticed(Sabotage::TrustsDrivers, proof::NAME);
    let (setting, script) = plan(seed, 1);
    let short = minimise(&setting, &script, &options).expect("it fails");
    assert!(short.entries.len() * 10 < script.entries.len(), "{} entries are left", short.entries.len());
    assert!(short.report.failure.is_some_and(|it| it.check == proof::NAME));
    assert!(short.report.trace.iter().any(|it| it.contains("BROKEN")));
}
