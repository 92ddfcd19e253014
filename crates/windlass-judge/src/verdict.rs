//! What the judge says in the end: for programs as data, for people as text.

use std::fmt::{self, Write};

use serde::Serialize;

use crate::call::Shown;
use crate::rule::{Level, Rule};

/// What came of a rule, or of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was kept.
    Passed,
    /// A rule that advises was not kept.
    Unwise,
    /// A rule that demands was not kept.
    Broken,
    /// Nothing came that it could be held against.
    NotSeen,
}

impl Outcome {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unwise => "unwise",
            Self::Broken => "broken",
            Self::NotSeen => "not seen",
        }
    }
}

/// A breach, and the calls that show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is not as the rule says.
    pub text: String,
    /// The calls, the last one last.
    pub calls: Vec<Shown>,
}

/// What came of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// The rule's name.
    pub rule: &'static str,
    /// How binding it is.
    pub level: Level,
    /// What came of it.
    pub outcome: Outcome,
    /// What it is about.
    pub title: &'static str,
    /// What the specification says.
    pub text: &'static str,
    /// How often it could be held against something.
    pub seen: u64,
    /// How often it was not kept.
    pub broken: u64,
    /// The breaches; the same one of one volume once, and not too many.
    pub findings: Vec<Finding>,
}

impl Checked {
    pub(crate) fn new(rule: Rule, seen: u64, broken: u64, findings: Vec<Finding>) -> Self {
        let outcome = match (seen, broken, rule.level()) {
            (0, 0, _) => Outcome::NotSeen,
            (_, 0, _) => Outcome::Passed,
            (_, _, Level::Must) => Outcome::Broken,
            (_, _, Level::Should) => Outcome::Unwise,
        };
        let (level, title, text) = (rule.level(), rule.title(), rule.text());
        Self { rule: rule.id(), level, outcome, title, text, seen, broken, findings }
    }
}

/// A fault that was to be played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Played {
    /// Which, as it was written.
    pub fault: String,
    /// How often it was, with all volumes together.
    pub played: u32,
}

/// What the judge says in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The worst that came of any rule; not seen if no call for a volume came.
    pub outcome: Outcome,
    /// How many calls came.
    pub calls: u64,
    /// For how many volumes.
    pub volumes: usize,
    /// The rules.
    pub checks: Vec<Checked>,
    /// The faults that were to be played.
    pub faults: Vec<Played>,
    /// What the judge has taken away itself at the end, for it was still there.
    pub taken_away: Vec<String>,
    /// What the judge itself could not do; what came of it is not the orchestrator's fault.
    pub troubles: Vec<String>,
}

impl Verdict {
    pub(crate) fn new(calls: u64, volumes: usize, checks: Vec<Checked>, faults: Vec<Played>) -> Self {
        let has = |outcome| checks.iter().any(|it| it.outcome == outcome);
        let outcome = match (has(Outcome::Broken), has(Outcome::Unwise), volumes) {
            (true, _, _) => Outcome::Broken,
            (false, true, _) => Outcome::Unwise,
            (false, false, 0) => Outcome::NotSeen,
            (false, false, _) => Outcome::Passed,
        };
        Self { outcome, calls, volumes, checks, faults, taken_away: Vec::new(), troubles: Vec::new() }
    }

    /// How many rules have this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.checks.iter().filter(|it| it.outcome == outcome).count()
    }

    /// Says the whole of it: a table of all rules, then each breach with the calls that show it.
    fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rules, levels, outcomes) = (18, 6, 8);
        writeln!(f, "{:rules$}   {:levels$}   {:outcomes$}   {:>5}   WHAT", "RULE", "LEVEL", "RESULT", "SEEN")?;
        for it in &self.checks {
            let level = match it.level {
                Level::Must => "must",
                Level::Should => "should",
            };
            let outcome = it.outcome.as_str();
            writeln!(f, "{:rules$}   {level:levels$}   {outcome:outcomes$}   {:>5}   {}", it.rule, it.seen, it.title)?;
        }
        for it in self.checks.iter().filter(|it| it.broken > 0) {
            writeln!(f, "\n{} {}: {}", it.outcome.as_str().to_uppercase(), it.rule, it.title)?;
            writeln!(f, "  {}", it.text)?;
            for finding in &it.findings {
                writeln!(f, "  - {}", finding.text)?;
                for call in &finding.calls {
                    writeln!(f, "      {call}")?;
                }
            }
            let shown = it.findings.len() as u64;
            if it.broken > shown {
                writeln!(f, "  - and {} more like these", it.broken - shown)?;
            }
        }
        self.tell_rest(f)
    }

    fn tell_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = String::new();
        for it in &self.faults {
            match it.played {
                0 => writeln!(rest, "The fault {} was never played: no such call came.", it.fault)?,
                1 => writeln!(rest, "The fault {} was played once.", it.fault)?,
                times => writeln!(rest, "The fault {} was played {times} times.", it.fault)?,
            }
        }
        for it in &self.taken_away {
            writeln!(rest, "Taken away by the judge, for it was still there: {it}")?;
        }
        for it in &self.troubles {
            writeln!(rest, "The judge itself failed, which is not the orchestrator's fault: {it}")?;
        }
        if !rest.is_empty() {
            write!(f, "\n{rest}")?;
        }
        writeln!(
            f,
            "\n{}: {} passed, {} broken, {} unwise, {} not seen; {}, {}",
            match self.outcome {
                Outcome::Passed => "Passed",
                Outcome::Unwise => "Passed, but unwise",
                Outcome::Broken => "Broken",
                Outcome::NotSeen => "Nothing to judge: no call for a volume came",
            },
            self.count(Outcome::Passed),
            self.count(Outcome::Broken),
            self.count(Outcome::Unwise),
            self.count(Outcome::NotSeen),
            count(self.calls, "call"),
            count(self.volumes as u64, "volume"),
        )
    }
}

fn count(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f)
    }
}
