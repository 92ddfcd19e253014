//! What was measured, by work and system, round by round.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::protocol::Figures;
use crate::system::System;

/// One kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// Milliseconds.
    Wall,
    /// Milliseconds.
    Cpu,
    /// Milliseconds.
    P50,
    /// Milliseconds.
    P99,
    /// KiB.
    Rss,
    /// Per cent of a processor.
    Idle,
    /// A second.
    Wakeups,
    /// For each pod.
    Rpcs,
}

impl Metric {
    fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Wall => figures.wall_ms,
            Self::Cpu => figures.cpu_ms,
            Self::P50 => figures.p50_ms,
            Self::P99 => figures.p99_ms,
            Self::Rss => figures.rss_kib,
            Self::Idle => figures.idle_percent,
            Self::Wakeups => figures.wakeups,
            Self::Rpcs => figures.rpcs,
        }
    }
}

/// The rounds of one work, in the order in which works were first measured, and by system.
#[derive(Debug, Default)]
pub(crate) struct Results {
    works: Vec<String>,
    rounds: BTreeMap<(String, System), Vec<Figures>>,
    notes: Vec<Note>,
}

/// What could not be measured, and why.
#[derive(Debug, Clone, PartialEq)]
struct Note {
    system: System,
    works: Vec<String>,
    why: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.system, self.works.join(", "), self.why)
    }
}

/// The middle, and what the rounds lay between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// A line of results.json.
#[derive(Serialize, Debug, PartialEq)]
pub(crate) struct Line<'a> {
    work: &'a str,
    system: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rss_kib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rpcs: Option<f64>,
}

/// A line of rounds.json.
#[derive(Serialize, Debug)]
pub(crate) struct Rounds<'a> {
    work: &'a str,
    system: &'static str,
    rounds: &'a [Figures],
}

impl Results {
    /// Gives works their place, before any is measured.
    pub(crate) fn expect(&mut self, works: &[String]) {
        for work in works {
            if !self.works.contains(work) {
                self.works.push(work.clone());
            }
        }
    }

    /// Notes the figures of one round.
    pub(crate) fn add(&mut self, work: &str, system: System, figures: Figures) {
        self.expect(&[work.to_owned()]);
        self.rounds.entry((work.to_owned(), system)).or_default().push(figures);
    }

    /// Notes that a system could not be measured at some works.
    pub(crate) fn note(&mut self, system: System, works: &[String], why: &str) {
        let note = Note { system, works: works.to_vec(), why: why.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What could not be measured, and why.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.iter().map(Note::to_string).collect()
    }

    /// Those of some works alone.
    pub(crate) fn of(&self, is_meant: impl Fn(&str) -> bool) -> Self {
        let rounds = self.rounds.iter().filter(|(key, _)| is_meant(&key.0));
        let notes = self.notes.iter().filter(|it| it.works.iter().any(|it| is_meant(it)));
        Self {
            works: self.works.iter().filter(|it| is_meant(it)).cloned().collect(),
            rounds: rounds.map(|(key, figures)| (key.clone(), figures.clone())).collect(),
            notes: notes.cloned().collect(),
        }
    }

    /// Whether nothing was measured, nor tried.
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// All works.
    pub(crate) fn works(&self) -> impl Iterator<Item = &str> {
        self.works.iter().map(String::as_str)
    }

    /// The systems that were measured at a work.
    pub(crate) fn systems(&self, work: &str) -> impl Iterator<Item = System> {
        self.rounds.keys().filter(move |it| it.0 == work).map(|it| it.1)
    }

    /// One kind of figure of a work, over all rounds.
    pub(crate) fn spread(&self, work: &str, system: System, metric: Metric) -> Option<Spread> {
        let rounds = self.rounds.get(&(work.to_owned(), system))?;
        let mut values: Vec<f64> = rounds.iter().filter_map(|it| metric.of(it)).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Spread { median, least, most })
    }

    /// The middle of one kind of figure.
    pub(crate) fn median(&self, work: &str, system: System, metric: Metric) -> Option<f64> {
        self.spread(work, system, metric).map(|it| it.median)
    }

    /// What goes to results.json: medians.
    pub(crate) fn lines(&self) -> Vec<Line<'_>> {
        let pairs = self.works().flat_map(|work| self.systems(work).map(move |system| (work, system)));
        let line = |(work, system)| {
            // Three digits behind the point are a microsecond.
            let median = |metric| self.median(work, system, metric).map(|it| (it * 1000.0).round() / 1000.0);
            Line {
                work,
                system: System::name(system),
                wall_ms: median(Metric::Wall),
                cpu_ms: median(Metric::Cpu),
                p50_ms: median(Metric::P50),
                p99_ms: median(Metric::P99),
                rss_kib: median(Metric::Rss),
                idle_percent: self.median(work, system, Metric::Idle),
                rpcs: median(Metric::Rpcs),
            }
        };
        pairs.map(line).collect()
    }

    /// What goes to rounds.json: everything.
    pub(crate) fn all(&self) -> Vec<Rounds<'_>> {
        let pairs = self.works().flat_map(|work| self.systems(work).map(move |system| (work, system)));
        let rounds = |(work, system): (&str, System)| self.rounds.get(&(work.to_owned(), system));
        pairs.filter_map(|it| Some(Rounds { work: it.0, system: it.1.name(), rounds: rounds(it)? })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(walls: &[f64]) -> Results {
        let mut results = Results::default();
        for wall in walls {
            results.add("up-100", System::Floor, Figures { wall_ms: Some(*wall), ..Figures::default() });
        }
        results
    }

    #[test]
    fn the_median_is_between_the_two_in_the_middle() {
        let spread = results(&[4.0, 1.0, 3.0, 2.0]).spread("up-100", System::Floor, Metric::Wall);
        assert_eq!(spread, Some(Spread { median: 2.5, least: 1.0, most: 4.0 }));
        assert_eq!(results(&[9.0, 1.0, 3.0]).median("up-100", System::Floor, Metric::Wall), Some(3.0));
    }

    #[test]
    fn keys_that_do_not_apply_are_left_out() -> anyhow::Result<()> {
        let text = serde_json::to_string(&results(&[1.0]).lines())?;
        assert_eq!(text, r#"[{"work":"up-100","system":"floor","wall_ms":1.0}]"#);
        Ok(())
    }
}
