//! Many seeds, on as many threads as there are processors, with one report at the end.
//!
//! Seeds are independent, so threads take them one by one from a counter. What is printed depends on the seeds alone, but
//! for the speeds.

use crate::faults::Counts;
use crate::life::{Failure, Options, plan, run_seed};
use crate::minimise::minimise;
use crate::script::DAY;
use crate::trace::Clock;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many failing seeds are shown in full.
const SHOWN: usize = 3;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub seeds: u64,
    /// How many days each node lives.
    pub days: u64,
    /// How many threads to use.
    pub jobs: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many operations the engine asked for.
    pub operations: u64,
    /// How much time passed in the worlds, in milliseconds.
    pub simulated: u64,
    /// What went wrong around the engine.
    pub faults: Counts,
    /// The seeds in which a promise was broken, and which.
    pub failures: Vec<(u64, Failure)>,
}

impl Results {
    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.operations += other.operations;
        self.simulated += other.simulated;
        self.faults.merge(&other.faults);
        self.failures.extend(other.failures);
    }
}

impl Campaign {
    /// Runs all seeds.
    pub fn run(&self, options: &Options) -> Results {
        let next = AtomicU64::new(self.from);
        let end = self.from.saturating_add(self.seeds);
        let all = Mutex::new(Results::default());
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    let mut results = Results::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            break;
                        }
                        let report = run_seed(seed, self.days, options);
                        results.seeds += 1;
                        results.operations += report.operations;
                        results.simulated += report.simulated;
                        results.faults.merge(&report.faults);
                        results.failures.extend(report.failure.map(|it| (seed, it)));
                    }
                    if let Ok(mut all) = all.lock() {
                        all.merge(results);
                    }
                });
            }
        });
        let mut results = all.into_inner().unwrap_or_default();
        results.failures.sort_by_key(|(seed, _)| *seed);
        results
    }

    /// Runs all seeds and tells what came of it; the last line is a summary.
    pub fn run_and_report(&self) -> (Results, String) {
        let begin = Instant::now();
        let results = self.run(&Options::default());
        let text = self.report(&results, begin.elapsed());
        (results, text)
    }

    fn report(&self, results: &Results, took: Duration) -> String {
        let mut text = String::new();
        for (seed, failure) in results.failures.iter().take(SHOWN) {
            text += &self.story(*seed, failure);
        }
        for (seed, failure) in results.failures.iter().skip(SHOWN) {
            let _ = writeln!(text, "seed {seed}: {}: {}", failure.check, failure.message);
        }
        let seconds = took.as_secs_f64().max(0.001);
        let days = results.simulated as f64 / DAY as f64;
        let _ = write!(
            text,
            "\nfaults injected\n{}\nseeds       {:>12}  {:.0} per second\noperations  {:>12}  {:.0} per seed\n\
             simulated   {:>9.1} days  {:.2} days per second\nfaults      {:>12}  {:.0} per seed\n\n",
            results.faults,
            results.seeds,
            results.seeds as f64 / seconds,
            results.operations,
            results.operations as f64 / results.seeds.max(1) as f64,
            days,
            days / seconds,
            results.faults.total(),
            results.faults.total() as f64 / results.seeds.max(1) as f64,
        );
        let verdict = if results.failures.is_empty() { "ok" } else { "FAILED" };
        let _ = writeln!(
            text,
            "{verdict}: {} seeds from {}, {} broke a promise, {} operations, {} faults, {days:.1} days in {seconds:.1} s",
            results.seeds,
            self.from,
            results.failures.len(),
            results.operations,
            results.faults.total(),
        );
        text
    }

    /// A failing seed, made as short as possible and told from its beginning.
    fn story(&self, seed: u64, failure: &Failure) -> String {
        let mut text = format!("seed {seed} at {}: {}\n  {}\n", Clock(failure.at), failure.check, failure.message);
        let (setting, script) = plan(seed, self.days);
        if let Some(short) = minimise(&setting, &script, &Options::default()) {
            let _ = writeln!(text, "  the same with {} of {} entries:", short.entries.len(), script.entries.len());
            for entry in &short.entries {
                let _ = writeln!(text, "    {entry}");
            }
            text += "  which goes like this:\n";
            for line in &short.report.trace {
                let _ = writeln!(text, "    {line}");
            }
        }
        text
    }
}
