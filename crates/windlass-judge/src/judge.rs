//! The judge: calls and their ends in, opinions out. It does nothing and knows no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_csi::Code;

use crate::call::{Asked, Context, Create, Expand, Grow, Question, Reply, Shown};
use crate::check::{self, Breach, Scene};
use crate::fault::{self, Call, FaultKind};
use crate::rule::Rule;
use crate::settings::Settings;
use crate::verdict::{Checked, Finding, Played, Verdict};
use crate::volume::{Standing, Volume};

/// The key of what attaching a volume tells.
pub(crate) const ATTACHMENT: &str = "judge.windlass.dev/attachment";

/// The key of what making a volume tells.
pub(crate) const MADE: &str = "judge.windlass.dev/volume";

/// How large a volume is if nobody said how large it is to be.
const BYTES_DEFAULT: i64 = 1 << 20;

/// So many calls are kept to be shown; older ones are shown by their number alone.
const CALLS_MAX: usize = 100_000;
/// So many breaches of a rule are shown, the rest is counted.
const FINDINGS_MAX: usize = 10;
/// So many tries of one call in so short a time are a loop.
const TRIES: usize = 4;
const TRIES_WITHIN: Duration = Duration::from_secs(1);
/// How long it must be quiet after the last volume has gone.
const QUIET: Duration = Duration::from_secs(2);
/// And if a call has failed that may be tried again.
const QUIET_AFTER_FAILURE: Duration = Duration::from_secs(30);
/// And if a volume is left that is in use nowhere any more: longer than a kubelet waits between two tries.
const QUIET_WHEN_FORGOTTEN: Duration = Duration::from_secs(180);

/// How a driver would answer a call that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// Why.
    pub text: String,
}

/// What is to be done with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its number.
    pub number: u64,
    /// It is to be refused.
    pub refusal: Option<Refusal>,
    /// It is to fail.
    pub fault: Option<FaultKind>,
    /// What attaching the volume tells.
    pub publish_context: BTreeMap<String, String>,
    /// What making the volume tells.
    pub volume_context: BTreeMap<String, String>,
    /// How large the volume is said to be, in calls that have a size.
    pub capacity_bytes: i64,
}

/// A breach, when it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The rule.
    pub rule: Rule,
    /// What is not as it says.
    pub text: String,
    /// The call that shows it.
    pub number: u64,
}

/// What was found about one rule.
#[derive(Clone, Debug, Default)]
struct Tally {
    seen: u64,
    broken: u64,
    findings: Vec<Noted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Noted {
    text: String,
    volume: String,
    calls: Vec<u64>,
}

/// A call that was begun.
#[derive(Clone, Debug)]
struct Record {
    asked: Asked,
    at: Duration,
    /// How large the volume is said to be.
    capacity_bytes: i64,
    answer: Option<Reply>,
}

/// Judges an orchestrator by its calls.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    settings: Settings,
    last: u64,
    calls: BTreeMap<u64, Record>,
    volumes: BTreeMap<String, Volume>,
    tallies: BTreeMap<Rule, Tally>,
    news: Vec<News>,
    /// The driver was asked who it is.
    introduced: bool,
    /// The last time that it was asked, until it is told what came of it.
    untold: Option<u64>,
    capabilities_asked: bool,
    /// How many outcomes were left open.
    opened: u64,
    /// It has ended: whatever it has not answered by now, it never will.
    stopped: bool,
    /// Calls that it broke off itself when it ended. What came of them is not the orchestrator's to settle.
    cut: BTreeSet<u64>,
    /// How many faults were played.
    played: BTreeMap<(Call, FaultKind), u32>,
}

impl Judge {
    /// A judge that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// What it pretends to be, and what it expects.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A call has come, so long after the start.
    pub fn begin(&mut self, at: Duration, asked: Asked) -> Begun {
        self.last += 1;
        let number = self.last;
        match &asked {
            Asked::RegistrationInfo => (self.introduced, self.untold) = (true, Some(number)),
            Asked::RegistrationStatus { registered, error } => {
                self.untold = None;
                let text = || format!("the driver is not registered: {}", crate::call::shown(error));
                let breach = (!registered).then(|| Breach { text: text(), calls: Vec::new() });
                self.take(Rule::Told, number, "", breach);
            }
            Asked::Question(Question::PluginInfo) => self.introduced = true,
            Asked::Question(Question::NodeCapabilities) => self.capabilities_asked = true,
            _ => {}
        }
        let mut begun = Begun {
            number,
            refusal: None,
            fault: None,
            publish_context: BTreeMap::new(),
            volume_context: BTreeMap::new(),
            capacity_bytes: 0,
        };
        if let Some(name) = asked.volume().map(str::to_owned) {
            self.hear(at, &asked, &name, &mut begun);
        }
        self.calls.insert(number, Record { asked, at, capacity_bytes: begun.capacity_bytes, answer: None });
        while self.calls.len() > CALLS_MAX {
            self.calls.pop_first();
        }
        begun
    }

    fn hear(&mut self, at: Duration, asked: &Asked, name: &str, begun: &mut Begun) {
        // Taken out while it is looked at, so that it is not its own neighbor.
        let mut volume = self.volumes.remove(name).unwrap_or_default();
        let scene = Scene {
            settings: &self.settings,
            volumes: &self.volumes,
            volume: &volume,
            introduced: self.introduced,
            capabilities_asked: self.capabilities_asked,
        };
        let hearing = check::hear(&scene, asked);
        for (rule, breach) in hearing.opinions {
            self.take(rule, begun.number, name, breach);
        }
        begun.refusal = hearing.refusal;
        if asked.is_change() {
            let under_way = volume.running.clone();
            let text = || format!("{} came while another call for the volume was under way", asked.method());
            let breach = (!under_way.is_empty()).then(|| Breach { text: text(), calls: under_way });
            self.take(Rule::NoOverlap, begun.number, name, breach);
            volume.running.push(begun.number);
        }
        if let Some(failures) = volume.failures.get(&(asked.method(), asked.place().to_owned())) {
            let recent = failures.iter().rev().take(TRIES - 1).collect::<Vec<_>>();
            let hasty = recent.len() == TRIES - 1 && recent.iter().all(|(_, tried)| at < *tried + TRIES_WITHIN);
            let text = || format!("{} was tried {TRIES} times within a second", asked.method());
            let calls = recent.iter().rev().map(|(number, _)| *number).collect();
            self.take(Rule::BackOff, begun.number, name, hasty.then(|| Breach { text: text(), calls }));
        }
        if let Asked::Stage(_) | Asked::Publish(_) = asked {
            volume.heard.insert(asked.place().to_owned());
        }
        if let Asked::Attach(_) = asked {
            if volume.attached.is_empty() {
                volume.publish_context = Context([(ATTACHMENT.to_owned(), begun.number.to_string())].into());
            }
            begun.publish_context = volume.publish_context.0.clone();
        }
        if let (Some(call), None) = (Call::of(asked), &begun.refusal) {
            let came = volume.came.entry(call).or_default();
            begun.fault = fault::due(&self.settings.faults, call, *came);
            *came = came.saturating_add(1);
            if let Some(kind) = begun.fault {
                *self.played.entry((call, kind)).or_default() += 1;
            }
        }
        if let Asked::Create(it) = asked {
            begun.volume_context = [(MADE.to_owned(), it.volume.clone())].into();
        }
        if let Asked::Create(Create { range, .. })
        | Asked::Grow(Grow { range, .. })
        | Asked::Expand(Expand { range, .. }) = asked
        {
            let asked = if range.required_bytes > 0 { range.required_bytes } else { BYTES_DEFAULT };
            // One that is larger already stays so.
            let bytes = volume.size.map_or(asked, |(bytes, _)| asked.max(bytes));
            begun.capacity_bytes = if begun.fault == Some(FaultKind::TooSmall) { asked / 2 } else { bytes };
        }
        self.volumes.insert(name.to_owned(), volume);
    }

    /// The judge ends. Calls that it holds without an answer end with it, and nobody can be blamed for that.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// A call has ended for whoever made it.
    pub fn end(&mut self, number: u64, answer: Reply) {
        if self.stopped && matches!(answer, Reply::Open(_) | Reply::Unheard) {
            self.cut.insert(number);
        }
        let Some(record) = self.calls.get_mut(&number) else { return };
        record.answer = Some(answer);
        let (asked, at, bytes) = (record.asked.clone(), record.at, record.capacity_bytes);
        let Some(volume) = asked.volume().and_then(|it| self.volumes.get_mut(it)) else { return };
        volume.running.retain(|it| *it != number);
        volume.ended(number, &asked, answer);
        if let (Asked::Create(_) | Asked::Grow(_), Reply::Done) = (&asked, answer) {
            volume.size = Some((bytes, number));
        }
        let tried = (asked.method(), asked.place().to_owned());
        match answer {
            Reply::Done => drop(volume.failures.remove(&tried)),
            Reply::Refused(_) | Reply::Open(_) | Reply::Unheard => {
                let failures = &mut volume.failures.entry(tried).or_default();
                failures.push_back((number, at));
                if failures.len() >= TRIES {
                    failures.pop_front();
                }
            }
        }
        if let (Reply::Open(_) | Reply::Unheard, true, false) = (answer, asked.is_change(), self.cut.contains(&number))
        {
            self.opened += 1;
        }
    }

    fn take(&mut self, rule: Rule, number: u64, volume: &str, breach: Option<Breach>) {
        let tally = self.tallies.entry(rule).or_default();
        tally.seen += 1;
        let Some(Breach { text, mut calls }) = breach else { return };
        calls.extend((number != 0).then_some(number));
        tally.broken += 1;
        self.news.push(News { rule, text: text.clone(), number });
        let known = tally.findings.iter().any(|it| it.text == text && it.volume == volume);
        if !known && tally.findings.len() < FINDINGS_MAX {
            tally.findings.push(Noted { text, volume: volume.to_owned(), calls });
        }
    }

    /// The breaches since this was asked last.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Whether volumes have come, and all of them are gone again, or are in use nowhere any more; then, how long it must be
    /// quiet until that counts. Who has failed with a call may come again, and who has forgotten a volume never does.
    pub fn idle_after(&self) -> Option<Duration> {
        if self.volumes.is_empty() || !self.volumes.values().all(|it| it.is_gone() || it.is_forgotten()) {
            return None;
        }
        if !self.volumes.values().all(Volume::is_gone) {
            return Some(QUIET_WHEN_FORGOTTEN);
        }
        let failed = self.volumes.values().any(|it| !it.failures.is_empty());
        Some(if failed { QUIET_AFTER_FAILURE } else { QUIET })
    }

    /// A call, to be shown.
    pub fn show(&self, number: u64) -> Shown {
        match self.calls.get(&number) {
            Some(Record { asked, at, answer, .. }) => Shown {
                number,
                at: *at,
                method: asked.method(),
                arguments: asked.arguments(),
                answer: answer.map(|it| it.to_string()),
            },
            None => Shown {
                number,
                at: Duration::ZERO,
                method: "",
                arguments: "(too long ago to be remembered)".into(),
                answer: None,
            },
        }
    }

    /// What is to be said in the end.
    pub fn verdict(&self) -> Verdict {
        let mut judge = self.clone();
        judge.conclude();
        judge.sum_up()
    }

    /// The rules that only the end can tell about.
    fn conclude(&mut self) {
        if let Some(asked) = self.untold {
            let text = "the driver was asked who it is, and was never told what came of it".into();
            self.take(Rule::Told, asked, "", Some(Breach { text, calls: Vec::new() }));
        }
        if self.opened > 0 {
            self.tallies.entry(Rule::NotAssumed).or_default().seen += self.opened;
        }
        let mut left = Vec::new();
        for (name, volume) in &self.volumes {
            left.extend(self.left(volume).into_iter().map(|(rule, breach)| (rule, name.clone(), breach)));
        }
        let settled = self.opened.saturating_sub(left.iter().filter(|it| it.0 == Rule::Settled).count() as u64);
        if settled > 0 {
            self.tallies.entry(Rule::Settled).or_default().seen += settled;
        }
        // Volumes of which nothing was ever made cannot be forgotten.
        let made = self.volumes.values().filter(|it| !it.heard.is_empty()).count() as u64;
        if made > 0 {
            self.tallies.entry(Rule::Forgotten).or_default().seen += made;
        }
        for (rule, name, breach) in left {
            self.take(rule, 0, &name, Some(breach));
        }
    }

    /// What is left of a volume.
    fn left(&self, volume: &Volume) -> Vec<(Rule, Breach)> {
        use crate::call::shown;
        let mut left = Vec::new();
        let mut say = |standing: Standing, text: String, open: String, calls: &[u64]| {
            let (rule, text) = match standing {
                Standing::Held => (Rule::Forgotten, text),
                Standing::Open if calls.last().is_some_and(|it| self.cut.contains(it)) => return,
                Standing::Open => (Rule::Settled, open),
            };
            left.push((rule, Breach { text, calls: calls.to_vec() }));
        };
        // What is below something else that is left is needed by it.
        for (path, step) in &volume.targets {
            if step.standing == Standing::Open || !self.settings.in_use_allowed {
                let path = shown(path);
                let open = format!("whether the volume is published at {path} is still open");
                say(step.standing, format!("the volume is still published at {path}"), open, &step.calls);
            }
        }
        for (path, step) in &volume.stages {
            if step.standing == Standing::Open || volume.targets.is_empty() {
                let path = shown(path);
                let open = format!("whether the volume is staged at {path} is still open");
                say(step.standing, format!("the volume is still staged at {path}"), open, &step.calls);
            }
        }
        if let Some(step) = volume.attachment()
            && (step.standing == Standing::Open || volume.targets.is_empty() && volume.stages.is_empty())
        {
            let open = "whether the volume is attached is still open".into();
            say(step.standing, "the volume is still attached".into(), open, &step.calls);
        }
        if let Some(step) = &volume.made
            && step.standing == Standing::Open
        {
            say(step.standing, String::new(), "whether there is the volume is still open".into(), &step.calls);
        }
        if !volume.enlarging.is_empty() {
            let text = "whether the controller has made the volume larger is still open".to_owned();
            say(Standing::Open, String::new(), text, &volume.enlarging);
        }
        if !volume.growing.is_empty() {
            let text = "whether the volume has grown is still open".to_owned();
            say(Standing::Open, String::new(), text, &volume.growing);
        }
        left
    }

    fn sum_up(&self) -> Verdict {
        let checks = Rule::ALL.iter().map(|rule| {
            let tally = self.tallies.get(rule).cloned().unwrap_or_default();
            let findings = tally
                .findings
                .iter()
                .map(|it| Finding { text: it.text.clone(), calls: it.calls.iter().map(|it| self.show(*it)).collect() });
            Checked::new(*rule, tally.seen, tally.broken, findings.collect())
        });
        let faults = self.settings.faults.iter().map(|it| Played {
            fault: it.to_string(),
            played: self.played.get(&(it.call, it.kind)).copied().unwrap_or_default(),
        });
        Verdict::new(self.last, self.volumes.len(), checks.collect(), faults.collect())
    }
}

#[cfg(test)]
mod tests;
