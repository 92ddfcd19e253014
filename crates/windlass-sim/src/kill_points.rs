//! Every place at which a process can be killed, and every place at which it can be killed again: small whole lives, played
//! once for each edge of the process's work and once for each pair of edges.
//!
//! Nothing is left to chance here. Random lives have kills too, but seldom two that fall just so; here each of them is
//! played. What is judged, and how, is what it is in all lives ([`checks`](crate::checks)), after every single step.

mod lives;

use crate::edge::{Comeback, Kill};
use crate::life::{Failure, Options, Report, run};
use crate::trace::Clock;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use lives::{Life, lives};

/// How many failures are told from their beginning.
const SHOWN: usize = 2;

/// How many kills a life suffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// One.
    One,
    /// One, and then another.
    Two,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many lives there are.
    pub lives: usize,
    /// How many kills were played alone.
    pub kills: u64,
    /// How many pairs of kills were played.
    pub pairs: u64,
    /// How many operations the engine asked for.
    pub operations: u64,
    /// The lives in which a promise was broken, by name, where they were killed, and which promise.
    pub failures: Vec<Broken>,
}

/// A life that broke a promise.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The name of the life.
    pub life: &'static str,
    /// Where it was killed.
    pub kills: Vec<Kill>,
    /// What it broke.
    pub failure: Failure,
}

impl Results {
    fn merge(&mut self, other: Self) {
        self.kills += other.kills;
        self.pairs += other.pairs;
        self.operations += other.operations;
        self.failures.extend(other.failures);
    }

    /// Notes what came of a life; says how many edges it has, unless it broke a promise.
    fn note(&mut self, life: &Life, kills: Vec<Kill>, report: Report) -> Option<u64> {
        match kills.len() {
            0 => {}
            1 => self.kills += 1,
            _ => self.pairs += 1,
        }
        self.operations += report.operations;
        match report.failure {
            None => Some(report.edges),
            Some(failure) => {
                self.failures.push(Broken { life: life.name, kills, failure });
                None
            }
        }
    }
}

/// Plays all lives with all kills to this depth. What comes of it does not depend on how many threads play.
pub fn play(lives: &[Life], depth: Depth, jobs: usize, options: &Options) -> Results {
    let mut all = Results { lives: lives.len(), ..Results::default() };
    let mut first_kills = Vec::new();
    for life in lives {
        let report = life.killed_at(&[], options);
        let edges = all.note(life, Vec::new(), report).unwrap_or(0);
        let kills = (1..=edges).flat_map(|edge| Comeback::ALL.map(|comeback| Kill { edge, comeback }));
        first_kills.extend(kills.map(|kill| (life, kill)));
    }
    let next = AtomicUsize::new(0);
    let all = Mutex::new(all);
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut results = Results::default();
                while let Some((life, kill)) = first_kills.get(next.fetch_add(1, Ordering::Relaxed)) {
                    results.play_from(life, *kill, depth, options);
                }
                if let Ok(mut all) = all.lock() {
                    all.merge(results);
                }
            });
        }
    });
    let mut results = all.into_inner().unwrap_or_default();
    results.failures.sort_by(|one, other| (one.life, &one.kills).cmp(&(other.life, &other.kills)));
    results
}

impl Results {
    /// Plays a life with one kill, and then with each that can follow it.
    fn play_from(&mut self, life: &Life, first: Kill, depth: Depth, options: &Options) {
        let report = life.killed_at(&[first], options);
        let Some(edges) = self.note(life, vec![first], report) else {
            return;
        };
        if depth == Depth::One {
            return;
        }
        for edge in first.edge + 1..=edges {
            // At once, for what a pause or a slow disk shows was shown by the first.
            let kills = [first, Kill { edge, comeback: Comeback::AtOnce }];
            let report = life.killed_at(&kills, options);
            self.note(life, kills.into(), report);
        }
    }
}

impl Life {
    /// Lives, and is killed at these edges.
    pub fn killed_at(&self, kills: &[Kill], options: &Options) -> Report {
        let mut script = self.script.clone();
        script.kills = kills.to_vec();
        run(self.setting.clone(), script, options)
    }
}

/// Options for lives as small as these: everything is looked at after each step.
pub fn options() -> Options {
    Options { thorough_every: 1, ..Options::default() }
}

/// Plays everything and tells what came of it; the last line is a summary.
pub fn play_and_report(jobs: usize) -> (Results, String) {
    let begin = Instant::now();
    let lives = lives();
    let results = play(&lives, Depth::Two, jobs, &options());
    let text = report(&lives, &results, begin.elapsed());
    (results, text)
}

fn report(lives: &[Life], results: &Results, took: Duration) -> String {
    let mut text = String::new();
    for broken in results.failures.iter().take(SHOWN) {
        let life = lives.iter().find(|it| it.name == broken.life);
        let traced = life.map(|it| it.killed_at(&broken.kills, &Options { trace: true, ..options() }));
        for line in traced.iter().flat_map(|it| &it.trace) {
            let _ = writeln!(text, "    {line}");
        }
    }
    for Broken { life, kills, failure } in &results.failures {
        let kills: Vec<String> = kills.iter().map(Kill::to_string).collect();
        let (kills, clock, Failure { check, message, .. }) = (kills.join(","), Clock(failure.at), failure);
        let _ = writeln!(text, "kills --life '{life}' --at '{kills}' at {clock}: {check}: {message}");
    }
    let verdict = if results.failures.is_empty() { "ok" } else { "FAILED" };
    let _ = writeln!(
        text,
        "{verdict}: {} lives, {} kills and {} pairs of kills, {} broke a promise, {} operations in {:.1} s",
        results.lives,
        results.kills,
        results.pairs,
        results.failures.len(),
        results.operations,
        took.as_secs_f64(),
    );
    text
}
