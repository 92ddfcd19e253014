//! Tables, for a terminal and for a page.

use std::fmt::Write as _;

use crate::goals::{Verdict, digits};
use crate::results::{Metric, Results, Spread};
use crate::system::System;

/// A heading and rows of as many cells.
pub(super) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns on the left, which hold words.
    words: usize,
}

/// The figure that a work is about.
fn lead(work: &str) -> Metric {
    let mut words = work.split('-');
    match words.next() {
        Some("csi") if words.next() == Some("one") => Metric::P50,
        Some("idle") => Metric::Idle,
        Some("one" | "foreign" | "unmount") => Metric::P50,
        Some("configmap" | "secret" | "labels") => Metric::P99,
        _ => Metric::Wall,
    }
}

impl Table {
    /// All works, each with the systems that were measured at it.
    pub(super) fn of_works(results: &Results) -> Self {
        let heading = vec![
            "work",
            "system",
            "wall ms",
            "CPU ms",
            "p50 ms",
            "p99 ms",
            "memory MiB",
            "idle %",
            "wakes/s",
            "RPCs",
            "spread",
            "under kubelet",
            "over floor",
        ];
        let mut rows = Vec::new();
        for work in results.works() {
            let mut first = true;
            for system in results.systems(work) {
                let name = if std::mem::take(&mut first) { work.to_owned() } else { String::new() };
                rows.push(row(results, work, name, system));
            }
        }
        Self { heading, rows, words: 2 }.without_empty_columns()
    }

    fn without_empty_columns(mut self) -> Self {
        for column in (self.words..self.heading.len()).rev() {
            if self.rows.iter().all(|it| it[column].is_empty()) {
                self.heading.remove(column);
                self.rows.iter_mut().for_each(|it| drop(it.remove(column)));
            }
        }
        self
    }

    /// What is to be reached, and whether it is.
    pub(super) fn of_goals(verdicts: &[Verdict]) -> Self {
        let row = |it: &Verdict| {
            let met = if it.met { "met" } else { "NOT MET" };
            vec![it.title.to_owned(), it.wanted.clone(), it.system.to_string(), it.measured.clone(), met.to_owned()]
        };
        let heading = vec!["goal", "wanted", "system", "measured", ""];
        Self { heading, rows: verdicts.iter().map(row).collect(), words: 3 }
    }

    /// With columns that stand below each other.
    pub(super) fn for_terminal(&self) -> String {
        let count = |it: &str| it.chars().count();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|it| it.get(column)).map(|it| count(it));
            cells.chain([count(self.heading[column])]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (column, cell) in cells.enumerate() {
                let width = widths[column];
                let _ = if column < self.words {
                    write!(line, "{cell:width$}  ")
                } else {
                    write!(line, "{cell:>width$}  ")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        };
        line(&mut self.heading.iter().copied());
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str));
        }
        text
    }

    /// As Markdown.
    pub(super) fn for_page(&self) -> String {
        let mut text = format!("| {} |\n|", self.heading.join(" | "));
        for column in 0..self.heading.len() {
            text.push_str(if column < self.words { "---|" } else { "---:|" });
        }
        text.push('\n');
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

fn row(results: &Results, work: &str, name: String, system: System) -> Vec<String> {
    let median = |metric| results.median(work, system, metric);
    let text = |it: Option<f64>| it.map(digits).unwrap_or_default();
    let lead = lead(work);
    let own = median(lead);
    let other = |it: System| results.median(work, it, lead).filter(|_| it != system);
    // Nothing is infinitely many times less than something.
    let times = |value: f64| if value.is_finite() { format!("{} ×", digits(value)) } else { "∞".into() };
    let under = own.zip(other(System::Kubelet)).filter(|_| system != System::Floor).map(|(own, it)| times(it / own));
    let over = own.zip(other(System::Floor)).map(|(own, it)| times(own / it));
    vec![
        name,
        system.to_string(),
        text(median(Metric::Wall)),
        text(median(Metric::Cpu)),
        text(median(Metric::P50)),
        text(median(Metric::P99)),
        text(median(Metric::Rss).map(|it| it / 1024.0)),
        median(Metric::Idle).map(|it| format!("{it:.3}")).unwrap_or_default(),
        text(median(Metric::Wakeups)),
        text(median(Metric::Rpcs)),
        results.spread(work, system, lead).map(|it| spread(it, lead)).unwrap_or_default(),
        under.unwrap_or_default(),
        over.unwrap_or_default(),
    ]
}

fn spread(spread: Spread, metric: Metric) -> String {
    let text = |it: f64| if metric == Metric::Idle { format!("{it:.3}") } else { digits(it) };
    if spread.least == spread.most { String::new() } else { format!("{}–{}", text(spread.least), text(spread.most)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Figures;

    #[test]
    fn each_system_is_held_against_the_kubelet_and_the_floor() {
        let mut results = Results::default();
        for (system, wall) in [(System::Floor, 200.0), (System::Windlass, 250.0), (System::Kubelet, 5000.0)] {
            for more in [-1.0, 0.0, 1.0] {
                let figures = Figures { wall_ms: Some(wall + more), ..Figures::default() };
                results.add("up-1000", system, figures);
            }
        }
        let Table { heading, rows, .. } = Table::of_works(&results);
        assert_eq!(heading, ["work", "system", "wall ms", "spread", "under kubelet", "over floor"]);
        let ends: Vec<&[String]> = rows.iter().map(|it| &it[3..]).collect();
        assert_eq!(ends, [["199–201", "", ""], ["249–251", "20.0 ×", "1.25 ×"], ["4999–5001", "", "25.0 ×"]]);
        assert_eq!(rows[0][..3], ["up-1000", "floor", "200"]);
    }
}
