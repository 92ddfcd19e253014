//! Sources of pods: what is true, and what of it sets out to the process, how late, how often and in which order.
//!
//! Each source keeps the whole history of its pods, one version for each change, so that what the engine does can be
//! judged by what it could know, and old things can be told again.

use crate::delivery::{Delivery, Nature, Parcel};
use crate::faults::Fault;
use crate::life::Sabotage;
use crate::script::List;
use crate::setting::Setting;
use crate::world::{Happening, World};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_core::Event;
use windlass_core::ids::Time;
use windlass_core::spec::{Phase, VolumeSpec};

/// A position in the history of a source; larger is newer. Sources that do not count do not show it.
pub type LogVersion = u64;

/// From how many milliseconds on a source counts as incomplete rather than just starting.
const LONG: u64 = 1_000;

/// All sources.
#[derive(Clone, Debug)]
pub struct Sources {
    sources: Vec<Source>,
    /// For each pod its states, oldest first, each with the version since which it holds.
    histories: Vec<Vec<(LogVersion, PodState)>>,
    /// The volumes as they are described at the moment, by plan, pod and how they should be sized.
    pub(crate) specs: BTreeMap<(usize, usize), Arc<VolumeSpec>>,
}

/// One source.
#[derive(Clone, Debug, Default)]
struct Source {
    newest: LogVersion,
    /// Which pod each version is about.
    changes: Vec<usize>,
    connected: bool,
    /// Counts connections; what was on its way over an earlier one is lost.
    connection: u64,
    unruly_until: Time,
    /// Nothing of this connection may arrive before.
    in_order: Time,
    /// Nothing of this connection about this pod may arrive before.
    pod_in_order: BTreeMap<usize, Time>,
}

/// What a source truly has of a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PodState {
    /// It does not have it, and nothing of it runs.
    Absent,
    /// It has it, in this phase, and the pod names these of its volumes, as a set of bits.
    Present(Phase, u8),
    /// It no longer has it, but containers of it run, with these volumes.
    Leaving(u8),
}

impl Source {
    /// A new connection, over which nothing has come yet.
    fn connect(&mut self) {
        self.connection += 1;
        self.in_order = Time::ZERO;
        self.pod_in_order.clear();
    }
}

impl PodState {
    /// Does the pod want the volume that it names with this index (I-1)?
    pub fn wants(self, index: usize, keep_terminated: bool) -> bool {
        let named = match self {
            Self::Absent => 0,
            Self::Present(Phase::Running | Phase::Stopping, named) | Self::Leaving(named) => named,
            Self::Present(Phase::Finished, named) if keep_terminated => named,
            Self::Present(Phase::Finished, _) => 0,
        };
        named & (1 << index) != 0
    }

    /// Does the pod name the volume with this index?
    pub fn names(self, index: usize) -> bool {
        match self {
            Self::Absent => false,
            Self::Present(_, named) | Self::Leaving(named) => named & (1 << index) != 0,
        }
    }
}

impl Sources {
    /// Sources without pods, which nobody reads yet.
    pub fn new(setting: &Setting) -> Self {
        Self {
            sources: vec![Source { connected: true, ..Source::default() }; setting.sources.len()],
            histories: vec![Vec::new(); setting.pods.len()],
            specs: BTreeMap::new(),
        }
    }

    /// What is true of a pod now.
    pub fn state(&self, pod: usize) -> PodState {
        self.histories[pod].last().map_or(PodState::Absent, |(_, state)| *state)
    }

    /// What was true of a pod at a version, and since which.
    pub fn state_at(&self, pod: usize, version: LogVersion) -> (LogVersion, PodState) {
        let history = &self.histories[pod];
        let later = history.partition_point(|(since, _)| *since <= version);
        later.checked_sub(1).map_or((0, PodState::Absent), |it| history[it])
    }

    /// The connection over which a source is read.
    pub(crate) fn connection(&self, source: usize) -> u64 {
        self.sources[source].connection
    }

    /// Notes what is true of a pod from now on; says which version that makes.
    pub(crate) fn change(&mut self, setting: &Setting, pod: usize, state: PodState) -> LogVersion {
        let source = &mut self.sources[setting.pods[pod].source];
        source.newest += 1;
        source.changes.push(pod);
        self.histories[pod].push((source.newest, state));
        source.newest
    }

    /// Forgets how volumes of a plan are described, because that changes.
    pub(crate) fn forget_specs(&mut self, plan: usize) {
        self.specs.retain(|(it, _), _| *it != plan);
    }
}

impl World {
    /// Something becomes true of a pod, and its source sets out to tell.
    pub(crate) fn pod_becomes(&mut self, pod: usize, state: PodState) {
        if self.sources.state(pod) == state {
            return;
        }
        let setting = self.setting.clone();
        let version = self.sources.change(&setting, pod, state);
        let source = setting.pods[pod].source;
        self.note(|| format!("true: pod {} {}", setting.pods[pod].uid, state_words(state, version)));
        for index in 0..setting.pods[pod].uses.len() {
            self.attacher_soon(setting.id(pod, index));
        }
        self.send(source, pod, version);
        let unruly = setting.sources[source].counted && self.sources.sources[source].unruly_until > self.now;
        if unruly {
            self.send_again(source, pod, version);
        }
    }

    /// Sends a pod's version on its way: in order, unless the source is unruly and counts.
    fn send(&mut self, source: usize, pod: usize, version: LogVersion) {
        let counted = self.setting.sources[source].counted;
        let mut rng = self.luck(&[20, source as u64, version]);
        let state = &mut self.sources.sources[source];
        if !state.connected {
            return;
        }
        let unruly = counted && state.unruly_until > self.now;
        let delay = if unruly { rng.spread(1, 20_000) } else { rng.between(1, 300) };
        let mut at = Time(self.now.0 + delay).max(state.in_order);
        if let Some(before) = state.pod_in_order.get(&pod) {
            at = at.max(*before);
        }
        state.pod_in_order.insert(pod, at);
        if !unruly {
            state.in_order = at;
        }
        self.dispatch(at, source, Parcel::Pod { pod, version, nature: Nature::News });
    }

    /// An unruly source tells things more than once, also old ones.
    fn send_again(&mut self, source: usize, pod: usize, version: LogVersion) {
        let mut rng = self.luck(&[21, source as u64, version]);
        if !self.sources.sources[source].connected {
            return;
        }
        if rng.chance(400) {
            let at = Time(self.now.0 + rng.spread(20_000, 120_000));
            self.dispatch(at, source, Parcel::Pod { pod, version, nature: Nature::Repeated });
        }
        let history = &self.sources.histories[pod];
        if rng.chance(400) && history.len() > 1 {
            let (version, _) = history[rng.index(history.len() - 1)];
            let at = Time(self.now.0 + rng.spread(20_000, 600_000));
            self.dispatch(at, source, Parcel::Pod { pod, version, nature: Nature::Old });
        }
    }

    fn dispatch(&mut self, at: Time, source: usize, what: Parcel) {
        let (life, connection) = (self.life, self.sources.sources[source].connection);
        let delivery = Delivery { source, connection, what };
        self.schedule(at, Happening::Delivered { life, delivery });
    }

    /// A process starts to read a source: it gets a list, after a while.
    pub(crate) fn connect(&mut self, source: usize, after: u64) {
        let state = &mut self.sources.sources[source];
        state.connect();
        if state.connected {
            let (life, connection) = (self.life, state.connection);
            if after >= LONG {
                self.faults.add(Fault::SourceIncomplete);
            }
            self.schedule_in(after, Happening::ListRuns { life, source, connection });
        }
    }

    /// The source gives its list: what it has now, or had a while ago.
    pub(crate) fn list_runs(&mut self, source: usize, connection: u64) {
        if self.sources.sources[source].connection == connection {
            self.list(source, List::Fresh);
        }
    }

    fn list(&mut self, source: usize, list: List) {
        let setting = self.setting.clone();
        let newest = self.sources.sources[source].newest;
        let mut rng = self.luck(&[22, source as u64, self.sources.sources[source].connection]);
        let known = self.process.as_ref().is_some_and(|it| it.complete_once[source]);
        // A process that knows nothing has nothing to compare a list with: its first one must be fresh.
        let list = if known && setting.sources[source].counted { list } else { List::Fresh };
        let version = match list {
            List::Fresh => newest,
            List::Stale => newest.saturating_sub(rng.between(1, 6)),
        };
        let mut at = self.now;
        // At start somebody may find less than there is, as where manifests are on a file system that is mounted later.
        let missing = !known && setting.orphan_delay > 0 && rng.chance(400);
        let mut late = Vec::new();
        for pod in 0..setting.pods.len() {
            let (since, state) = self.sources.state_at(pod, version);
            // A source that forgets pods; only to see that it is noticed.
            if self.sabotage == Some(Sabotage::ForgetsPods) && pod % 3 == 0 {
                continue;
            }
            // Of what it has told itself in this life a source knows better.
            let untold = self.process.as_ref().is_some_and(|it| !it.told.contains_key(&pod));
            let is_there = setting.pods[pod].source == source && state != PodState::Absent;
            if missing && is_there && untold && rng.chance(500) {
                late.push((pod, since));
                continue;
            }
            if setting.pods[pod].source == source && state != PodState::Absent {
                at = Time(at.0 + rng.below(20));
                let what = Parcel::Pod { pod, version: since, nature: Nature::Listed };
                self.dispatch(at, source, what);
            }
        }
        at = Time(at.0 + 1 + rng.below(200));
        self.dispatch(at, source, Parcel::Complete { version, list });
        if let Some(process) = &mut self.process {
            process.missing.retain(|it| setting.pods[*it].source != source);
            process.missing.extend(late.iter().map(|(pod, _)| *pod));
        }
        for (pod, version) in late {
            self.faults.add(Fault::MissingAtStart);
            // In time: what holds up the start of anything else holds up what is held too.
            let at = Time(at.0 + rng.between(1, setting.orphan_delay - 1));
            self.sources.sources[source].pod_in_order.insert(pod, at);
            self.dispatch(at, source, Parcel::Pod { pod, version, nature: Nature::Listed });
        }
        // What happened since follows in its order.
        for later in version..newest {
            let pod = self.sources.sources[source].changes[later as usize];
            at = Time(at.0 + 1 + rng.below(50));
            let what = Parcel::Pod { pod, version: later + 1, nature: Nature::News };
            self.dispatch(at, source, what);
        }
        self.sources.sources[source].in_order = at;
    }

    /// A source cannot be read any more.
    pub(crate) fn source_lost(&mut self, source: usize) {
        let state = &mut self.sources.sources[source];
        if !state.connected {
            return;
        }
        state.connected = false;
        state.connection += 1;
        self.faults.add(Fault::SourceLost);
        if let Some(process) = &mut self.process {
            process.complete[source] = false;
            let source = self.setting.sources[source].name.clone();
            self.tell(Event::SourceLost { source, text: "the connection was closed".into() });
        }
    }

    /// A source can be read again, and gives a list.
    pub(crate) fn source_back(&mut self, source: usize, list: List) {
        if self.sources.sources[source].connected {
            return;
        }
        self.sources.sources[source].connected = true;
        if self.process.is_some() {
            self.sources.sources[source].connect();
            self.list(source, list);
        }
    }

    /// For a while, a source delivers as it pleases.
    pub(crate) fn source_unruly(&mut self, source: usize, until: Time) {
        self.sources.sources[source].unruly_until = until;
    }

    /// All sources can be read, and whatever was on its way comes at once.
    pub(crate) fn heal_sources(&mut self) {
        for source in 0..self.setting.sources.len() {
            self.sources.sources[source].unruly_until = Time::ZERO;
            if !self.sources.sources[source].connected {
                self.source_back(source, List::Fresh);
            } else if self.process.as_ref().is_some_and(|it| !it.complete[source]) {
                self.connect(source, 0);
            }
        }
    }
}

fn state_words(state: PodState, version: LogVersion) -> String {
    match state {
        PodState::Absent => format!("is gone (change {version})"),
        PodState::Leaving(_) => format!("is gone but its containers run (change {version})"),
        PodState::Present(phase, _) => format!("is {phase:?} (change {version})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_tells_what_was_true_at_any_version() {
        let mut setting = Setting::from_seed(1);
        crate::script::Script::from_seed(&mut setting, 1);
        let mut sources = Sources::new(&setting);
        let running = PodState::Present(Phase::Running, 1);
        let one = sources.change(&setting, 0, running);
        let two = sources.change(&setting, 0, PodState::Absent);
        assert_eq!(sources.state_at(0, one - 1), (0, PodState::Absent));
        assert_eq!(sources.state_at(0, one), (one, running));
        assert_eq!(sources.state_at(0, two + 5), (two, PodState::Absent));
    }

    #[test]
    fn finished_pods_want_nothing_unless_they_keep_it() {
        let state = PodState::Present(Phase::Finished, 0b10);
        assert!(!state.wants(1, false));
        assert!(state.wants(1, true));
        assert!(!state.wants(0, true));
        assert!(PodState::Leaving(1).wants(0, false));
    }
}
