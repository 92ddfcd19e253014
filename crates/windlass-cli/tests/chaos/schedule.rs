//! What happens, in which order and after how many microseconds: all of it follows from a seed, and nothing from the
//! daemon or the clock.

use std::collections::BTreeMap;
use std::fmt;

use crate::chance::Chance;
use crate::world::{CONFIGS, Kind, Pod, SECRETS, SECRETS_FILE, World, config_file};

/// Pods that come and go have these names.
const NAMES: [&str; 7] = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu"];
/// The pod that stays.
pub(crate) const STEADY: &str = "steady";

/// A change of the manifests, each in one step of the file system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// A manifest with this pod is put there, in place of what was there.
    Put(Pod),
    /// A pod's manifest is removed.
    Remove(String),
    /// A pod's manifest gets another name.
    Move { pod: String, file: String },
    /// A pod's manifest is away for a moment in which nobody looks.
    Blink(String),
    /// The next version of a config map.
    Config(usize),
    /// The next version of a secret.
    Secret(usize),
    /// A manifest is replaced by one that makes no sense.
    Break(String),
    /// It is put right.
    Mend,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(Pod { uid, file, label, volumes, choice, .. }) => {
                write!(f, "put {uid} in {file}: turn {label}, objects {choice},")?;
                volumes.keys().try_for_each(|it| write!(f, " {}", it.name()))
            }
            Self::Remove(pod) => write!(f, "remove {pod}"),
            Self::Move { pod, file } => write!(f, "move {pod} to {file}"),
            Self::Blink(pod) => write!(f, "blink {pod}"),
            Self::Config(index) => write!(f, "change config map {index}"),
            Self::Secret(index) => write!(f, "change secret {index}"),
            Self::Break(file) => write!(f, "break {file}"),
            Self::Mend => write!(f, "mend what is broken"),
        }
    }
}

/// When a kill comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    /// This many microseconds after whatever was last.
    After(u64),
    /// When so many things have happened in the volumes, one of which is then hardly over; or soon, if nothing happens.
    AtWork(u64),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(time) => write!(f, "{time} µs"),
            Self::AtWork(count) => write!(f, "{count} things happen"),
        }
    }
}

/// How a daemon's life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It is killed, counted from the last action.
    Killed(Moment),
    /// It is told to end, and killed this many microseconds later.
    KilledWhileItEnds { after: u64 },
    /// It is told to end, and does.
    Ended,
}

/// One life of the daemon, from where it runs, and the time until the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Round {
    /// What happens while it runs, each after this many microseconds.
    pub(crate) alive: Vec<(u64, Action)>,
    pub(crate) end: End,
    /// What happens while none runs.
    pub(crate) dead: Vec<Action>,
    /// Lives that are cut off, counted from when the process was started.
    pub(crate) cut_off: Vec<Moment>,
    /// Whether everything must come right before it goes on.
    pub(crate) settles: bool,
}

impl Round {
    pub(crate) fn kills(&self) -> usize {
        self.cut_off.len() + usize::from(self.end != End::Ended)
    }

    pub(crate) fn actions(&self) -> usize {
        self.alive.len() + self.dead.len()
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (after, action) in &self.alive {
            writeln!(f, "  {after} µs: {action}")?;
        }
        match self.end {
            End::Killed(moment) => writeln!(f, "  {moment}: kill")?,
            End::KilledWhileItEnds { after } => writeln!(f, "  told to end, {after} µs: kill")?,
            End::Ended => writeln!(f, "  told to end")?,
        }
        for action in &self.dead {
            writeln!(f, "  while none runs: {action}")?;
        }
        for moment in &self.cut_off {
            writeln!(f, "  start, {moment}: kill")?;
        }
        write!(f, "  start{}", if self.settles { ", and all comes right" } else { "" })
    }
}

/// The beginning, and everything that follows.
pub(crate) struct Schedule {
    pub(crate) world: World,
    pub(crate) rounds: Vec<Round>,
}

impl Schedule {
    /// With at least so many kills.
    pub(crate) fn new(seed: u64, kills: usize) -> Self {
        let mut author = Author { chance: Chance::new(seed), world: empty(), made: 0 };
        let steady = author.pod(STEADY, &Kind::ALL);
        author.world.take(&Action::Put(steady));
        for name in &NAMES[..3] {
            let kinds = author.kinds();
            let pod = author.pod(name, &kinds);
            author.world.take(&Action::Put(pod));
        }
        let world = author.world.clone();
        let mut rounds: Vec<Round> = Vec::new();
        while rounds.iter().map(Round::kills).sum::<usize>() < kills {
            rounds.push(author.round());
        }
        // The end is checked in every respect.
        if let Some(last) = rounds.last_mut() {
            last.dead.extend(author.world.broken.is_some().then_some(Action::Mend));
            last.settles = true;
        }
        Self { world, rounds }
    }
}

fn empty() -> World {
    World { pods: BTreeMap::new(), configs: [1; CONFIGS], secrets: [1; SECRETS], broken: None }
}

impl World {
    /// What the manifests say after this.
    pub(crate) fn take(&mut self, action: &Action) {
        match action {
            Action::Put(pod) => drop(self.pods.insert(pod.name.clone(), pod.clone())),
            Action::Remove(pod) => drop(self.pods.remove(pod)),
            Action::Move { pod, file } => {
                if let Some(pod) = self.pods.get_mut(pod) {
                    pod.file.clone_from(file);
                }
            }
            Action::Blink(_) => {}
            Action::Config(index) => self.configs[*index] += 1,
            Action::Secret(index) => self.secrets[*index] += 1,
            Action::Break(file) => self.broken = Some(file.clone()),
            Action::Mend => self.broken = None,
        }
    }
}

struct Author {
    chance: Chance,
    /// What the manifests say by now.
    world: World,
    /// How many pods and volumes there were.
    made: u64,
}

impl Author {
    fn round(&mut self) -> Round {
        // Now and then nothing happens but the kill: what is settled must then stay as it is (I-11).
        let alive = if self.chance.percent(20) { 0 } else { 1 + self.chance.below(5) };
        let alive = (0..alive).map(|_| (self.chance.spread(16, 16_384), self.action(false))).collect();
        let end = match self.chance.below(10) {
            0 => End::Ended,
            1 | 2 => End::KilledWhileItEnds { after: self.chance.spread(16, 8192) },
            _ => End::Killed(self.moment(16, 65_536)),
        };
        let dead = if self.chance.percent(60) { 0 } else { 1 + self.chance.below(3) };
        let dead = (0..dead).map(|_| self.action(true)).collect();
        let cut_off = if self.chance.percent(60) { 0 } else { 1 + self.chance.below(2) };
        let cut_off = (0..cut_off).map(|_| self.moment(512, 131_072)).collect();
        Round { alive, end, dead, cut_off, settles: self.chance.percent(70) }
    }

    fn moment(&mut self, low: u64, high: u64) -> Moment {
        match self.chance.percent(50) {
            true => Moment::AtWork(1 + self.chance.below(12)),
            false => Moment::After(self.chance.spread(low, high)),
        }
    }

    fn action(&mut self, nobody_looks: bool) -> Action {
        let action = self.choose(nobody_looks);
        self.world.take(&action);
        action
    }

    fn choose(&mut self, nobody_looks: bool) -> Action {
        if self.world.broken.is_some() && self.chance.percent(50) {
            return Action::Mend;
        }
        let touchable = |file: &str| self.world.broken.as_deref() != Some(file);
        let pods: Vec<Pod> = self.world.pods.values().filter(|it| touchable(&it.file)).cloned().collect();
        let others: Vec<&Pod> = pods.iter().filter(|it| it.name != STEADY).collect();
        let free: Vec<&str> = NAMES.into_iter().filter(|it| !self.world.pods.contains_key(*it)).collect();
        let secrets = touchable(SECRETS_FILE);
        match self.chance.below(100) {
            0..20 if !free.is_empty() => {
                let (name, kinds) = (*self.chance.pick(&free), self.kinds());
                Action::Put(self.pod(name, &kinds))
            }
            20..34 if !others.is_empty() => Action::Remove(self.chance.pick(&others).name.clone()),
            34..40 if !others.is_empty() => {
                // Another pod of the same name, as when somebody edits the uid.
                let (pod, kinds) = ((*self.chance.pick(&others)).clone(), self.kinds());
                Action::Put(Pod { file: pod.file, ..self.pod(&pod.name, &kinds) })
            }
            40..46 if !others.is_empty() => {
                let mut pod = (*self.chance.pick(&others)).clone();
                let kind = *self.chance.pick(&Kind::ALL[1..]);
                self.made += 1;
                if pod.volumes.remove(&kind).is_none() {
                    pod.volumes.insert(kind, self.made);
                }
                Action::Put(pod)
            }
            46..52 if !pods.is_empty() => {
                let pod = self.chance.pick(&pods).clone();
                Action::Move { file: self.file(&pod.name), pod: pod.name }
            }
            52..58 if nobody_looks && !pods.is_empty() => Action::Blink(self.chance.pick(&pods).name.clone()),
            58..70 if !pods.is_empty() => {
                let pod = self.chance.pick(&pods).clone();
                Action::Put(Pod { label: pod.label + 1, ..pod })
            }
            70..76 if self.world.broken.is_none() => {
                let mut files = vec![SECRETS_FILE.to_owned(), config_file(self.chance.index(CONFIGS))];
                files.extend(pods.iter().map(|it| it.file.clone()));
                Action::Break(self.chance.pick(&files).clone())
            }
            76..86 if secrets => Action::Secret(self.chance.index(SECRETS)),
            _ => {
                let makes_sense = |it: &usize| self.world.broken.as_deref() != Some(&config_file(*it));
                let whole: Vec<usize> = (0..CONFIGS).filter(makes_sense).collect();
                Action::Config(*self.chance.pick(&whole))
            }
        }
    }

    /// Some kinds. What is on disk is always among them, so every pod has a directory.
    fn kinds(&mut self) -> Vec<Kind> {
        let some = Kind::ALL.into_iter().filter(|it| *it == Kind::Disk || self.chance.percent(60));
        some.collect()
    }

    fn pod(&mut self, name: &str, kinds: &[Kind]) -> Pod {
        self.made += 1;
        Pod {
            name: name.into(),
            uid: format!("{name}-{}", self.made),
            file: self.file(name),
            label: 1,
            volumes: kinds.iter().map(|it| (*it, self.made)).collect(),
            choice: self.chance.index(CONFIGS * SECRETS),
        }
    }

    /// A name for a pod's manifest that nothing has.
    fn file(&mut self, name: &str) -> String {
        self.made += 1;
        let directory = self.chance.pick(&["", "pods/", "pods/more/"]);
        let ending = self.chance.pick(&["json", "yaml", "yml"]);
        format!("{directory}{name}-{}.{ending}", self.made)
    }
}
