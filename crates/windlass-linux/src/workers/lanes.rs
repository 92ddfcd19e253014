//! Which job may begin when. Told the time, and knows nothing of threads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::{Job, JobId, Lane, LaneCounts, Width};

/// The jobs of one lane.
#[derive(Default)]
struct Jobs {
    queued: VecDeque<(JobId, Job)>,
    /// Jobs that run and count, oldest first, each with when it began. Not more than may run at once.
    working: VecDeque<(JobId, Instant)>,
    /// The others that run, each with when it began: they wait for something.
    waiting: Vec<(JobId, Instant)>,
}

impl Jobs {
    /// How many could begin now.
    fn startable(&self, room: Room) -> usize {
        let free = room.at_once.saturating_sub(self.working.len()).min(room.most.saturating_sub(self.running()));
        self.queued.len().min(free)
    }

    /// When another could begin although none ends.
    fn due(&self, room: Room) -> Option<Instant> {
        let full = !self.queued.is_empty() && self.working.len() >= room.at_once;
        // One that waits makes room for another only where such do not count.
        let may_grow = self.running() < room.most;
        self.working.front().filter(|_| full && may_grow)?.1.checked_add(room.patience)
    }

    fn age(&mut self, room: Room, now: Instant) {
        let counts = |(_, began): &(JobId, Instant)| !has_run_for(room.patience, *began, now);
        let aged = self.working.iter().position(counts).unwrap_or(self.working.len());
        self.waiting.extend(self.working.drain(..aged));
    }

    fn running(&self) -> usize {
        self.working.len() + self.waiting.len()
    }

    fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.running() == 0
    }
}

fn has_run_for(time: Duration, began: Instant, now: Instant) -> bool {
    began.checked_add(time).is_some_and(|it| it <= now)
}

/// How many jobs of a lane may run.
#[derive(Clone, Copy)]
struct Room {
    /// Of those that count.
    at_once: usize,
    /// Of all.
    most: usize,
    /// After this time a job does not count any more.
    patience: Duration,
}

/// The jobs of all lanes. What is asked about all of them is kept up to date with each change of one, so nothing
/// costs more because there are more lanes (promise I-9).
#[derive(Default)]
pub(super) struct Lanes {
    at_once: usize,
    slow_after: Duration,
    next_id: u64,
    /// Lanes without a job are not kept.
    lanes: BTreeMap<Lane, Jobs>,
    /// Lanes that have a job which can begin, each once, in turn.
    ready: VecDeque<Lane>,
    /// How many jobs can begin, in all lanes.
    startable: usize,
    /// Lanes that have a job queued and no room for it, by the moment at which there will be.
    full: BTreeSet<(Instant, Lane)>,
}

impl Lanes {
    pub(super) fn new(at_once: usize, slow_after: Duration) -> Self {
        Self { at_once, slow_after, ..Self::default() }
    }

    /// How many jobs can begin.
    pub(super) fn startable(&self) -> usize {
        self.startable
    }

    /// When a job could begin that cannot now, although none ends: then somebody should let them [age](Self::age).
    pub(super) fn due(&self) -> Option<Instant> {
        self.full.first().map(|(due, _)| *due)
    }

    /// How many jobs of a lane may run.
    fn room(&self, lane: &Lane) -> Room {
        let usual = Room { at_once: self.at_once, most: usize::MAX, patience: self.slow_after };
        match lane.width {
            Width::Usual => usual,
            Width::Narrow(at_once) => Room { at_once: at_once.get().min(self.at_once), ..usual },
            Width::Wide { at_once, most } => Room { at_once: at_once.get(), most: most.get(), ..usual },
            Width::Brief { at_once, patience } => {
                Room { at_once: at_once.get().min(self.at_once), patience: patience.min(self.slow_after), ..usual }
            }
        }
    }

    /// Changes a lane, and what is known of all lanes with it.
    fn change<T>(&mut self, lane: &Lane, now: Instant, change: impl FnOnce(&mut Jobs) -> T) -> T {
        let room = self.room(lane);
        let jobs = self.lanes.entry(lane.clone()).or_default();
        let before = (jobs.startable(room), jobs.due(room));
        jobs.age(room, now);
        let result = change(jobs);
        let after = (jobs.startable(room), jobs.due(room));
        if jobs.is_empty() {
            self.lanes.remove(lane);
        }
        self.startable = self.startable + after.0 - before.0;
        if before.0 == 0 && after.0 > 0 {
            self.ready.push_back(lane.clone());
        }
        if before.1 != after.1 {
            if let Some(due) = before.1 {
                self.full.remove(&(due, lane.clone()));
            }
            if let Some(due) = after.1 {
                self.full.insert((due, lane.clone()));
            }
        }
        result
    }

    /// Queues a job.
    pub(super) fn push(&mut self, lane: &Lane, job: Job, now: Instant) -> JobId {
        let id = JobId(self.next_id);
        self.next_id += 1;
        self.change(lane, now, |jobs| jobs.queued.push_back((id, job)));
        id
    }

    /// Takes the youngest job of a lane out of its queue.
    pub(super) fn take_back(&mut self, lane: &Lane, now: Instant) -> Option<Job> {
        let (_, job) = self.change(lane, now, |jobs| jobs.queued.pop_back())?;
        if !self.is_ready(lane) {
            self.ready.retain(|it| it != lane);
        }
        Some(job)
    }

    fn is_ready(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_some_and(|it| it.startable(self.room(lane)) > 0)
    }

    /// Begins a job, if one can begin: the oldest of the lane whose turn it is.
    pub(super) fn take(&mut self, now: Instant) -> Option<(Lane, JobId, Job)> {
        let lane = self.ready.pop_front()?;
        let (id, job) = self.change(&lane, now, |jobs| {
            let (id, job) = jobs.queued.pop_front()?;
            jobs.working.push_back((id, now));
            Some((id, job))
        })?;
        if self.is_ready(&lane) {
            self.ready.push_back(lane.clone());
        }
        Some((lane, id, job))
    }

    /// A job that was begun has ended.
    pub(super) fn end(&mut self, lane: &Lane, id: JobId, now: Instant) {
        self.change(lane, now, |jobs| match jobs.working.iter().position(|(it, _)| *it == id) {
            Some(position) => drop(jobs.working.remove(position)),
            None => jobs.waiting.retain(|(it, _)| *it != id),
        });
    }

    /// Makes room in full lanes whose oldest job waits for something.
    pub(super) fn age(&mut self, now: Instant) {
        while let Some((due, lane)) = self.full.first().cloned()
            && due <= now
        {
            self.change(&lane, now, |_| {});
        }
    }

    /// Takes all jobs that have not begun, oldest first.
    pub(super) fn empty_queues(&mut self) -> Vec<(JobId, Job)> {
        let mut queued: Vec<_> = self.lanes.values_mut().flat_map(|it| std::mem::take(&mut it.queued)).collect();
        queued.sort_unstable_by_key(|(id, _)| *id);
        self.lanes.retain(|_, jobs| !jobs.is_empty());
        self.ready.clear();
        self.startable = 0;
        self.full.clear();
        queued
    }

    /// How many jobs each lane has.
    pub(super) fn counts(&self, now: Instant) -> BTreeMap<Lane, LaneCounts> {
        let count = |jobs: &Jobs| {
            let running = jobs.waiting.iter().chain(&jobs.working);
            LaneCounts {
                running: jobs.running(),
                slow: running.filter(|(_, began)| has_run_for(self.slow_after, *began, now)).count(),
                queued: jobs.queued.len(),
            }
        };
        self.lanes.iter().map(|(lane, jobs)| (lane.clone(), count(jobs))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;

    /// What can happen, in which lane.
    #[derive(Debug, Clone)]
    enum Happening {
        Push(usize),
        TakeBack(usize),
        Take,
        End(prop::sample::Index),
        Pass(u64),
        Age,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            4 => (0usize..3).prop_map(Happening::Push),
            1 => (0usize..3).prop_map(Happening::TakeBack),
            4 => Just(Happening::Take),
            2 => any::<prop::sample::Index>().prop_map(Happening::End),
            1 => (0u64..15).prop_map(Happening::Pass),
            1 => Just(Happening::Age),
        ]
    }

    /// What is kept up to date equals what a look at all lanes gives.
    fn assert_consistent(lanes: &Lanes) {
        let startable = |(lane, jobs): (&Lane, &Jobs)| jobs.startable(lanes.room(lane));
        assert_eq!(lanes.startable, lanes.lanes.iter().map(startable).sum::<usize>());
        let mut ready: Vec<_> = lanes.ready.iter().collect();
        ready.sort_unstable();
        let expected: Vec<_> = lanes.lanes.iter().filter(|it| startable(*it) > 0).map(|(lane, _)| lane).collect();
        assert_eq!(ready, expected);
        let full = lanes.lanes.iter().filter_map(|(lane, jobs)| Some((jobs.due(lanes.room(lane))?, lane.clone())));
        assert_eq!(lanes.full, full.collect());
        for (lane, jobs) in &lanes.lanes {
            let room = lanes.room(lane);
            assert!(!jobs.is_empty() && jobs.working.len() <= room.at_once);
            assert!(jobs.running() <= room.most);
        }
    }

    proptest! {
        #[test]
        fn every_job_begins_once_in_its_turn_and_never_too_many_work(
            at_once in 1usize..4,
            history in prop::collection::vec(happening(), 0..200),
        ) {
            let slow_after = Duration::from_secs(10);
            let count = |it| NonZeroUsize::new(it).unwrap();
            let names = [Lane::from("a"), Lane::wide("b", count(2), count(5)), Lane::narrow("c", count(1))];
            let mut lanes = Lanes::new(at_once, slow_after);
            let mut now = Instant::now();
            // By lane, what is queued; and what runs, with when it began.
            let mut queued: BTreeMap<Lane, VecDeque<JobId>> = BTreeMap::new();
            let mut running: Vec<(Lane, JobId, Instant)> = Vec::new();
            for happening in history {
                match happening {
                    Happening::Push(lane) => {
                        let id = lanes.push(&names[lane], Box::new(|| {}), now);
                        queued.entry(names[lane].clone()).or_default().push_back(id);
                    }
                    Happening::TakeBack(lane) => {
                        let youngest = queued.get_mut(&names[lane]).and_then(VecDeque::pop_back);
                        prop_assert_eq!(lanes.take_back(&names[lane], now).is_some(), youngest.is_some());
                    }
                    Happening::Take => {
                        let can_begin = lanes.startable();
                        let taken = lanes.take(now);
                        prop_assert_eq!(taken.is_some(), can_begin > 0);
                        if let Some((lane, id, _)) = taken {
                            prop_assert_eq!(queued.get_mut(&lane).and_then(VecDeque::pop_front), Some(id));
                            let working = running.iter().filter(|it| it.0 == lane && now < it.2 + slow_after).count();
                            prop_assert!(working < lanes.room(&lane).at_once);
                            running.push((lane, id, now));
                        }
                    }
                    Happening::End(which) => {
                        if !running.is_empty() {
                            let (lane, id, _) = running.swap_remove(which.index(running.len()));
                            lanes.end(&lane, id, now);
                        }
                    }
                    Happening::Pass(seconds) => now += Duration::from_secs(seconds),
                    Happening::Age => {
                        lanes.age(now);
                        // Whoever is queued now waits for jobs that work.
                        for (lane, queue) in queued.iter().filter(|(_, queue)| !queue.is_empty()) {
                            let working = running.iter().filter(|it| it.0 == *lane && now < it.2 + slow_after).count();
                            let all = running.iter().filter(|it| it.0 == *lane).count();
                            let room = lanes.room(lane);
                            let is_full = working == room.at_once || all == room.most;
                            prop_assert!(is_full || lanes.is_ready(lane), "{} of {} wait", queue.len(), lane);
                        }
                    }
                }
                assert_consistent(&lanes);
                let counts = lanes.counts(now);
                for lane in &names {
                    let counts = counts.get(lane).copied().unwrap_or_default();
                    let here = running.iter().filter(|it| it.0 == *lane);
                    prop_assert_eq!(counts.slow, here.clone().filter(|it| it.2 + slow_after <= now).count());
                    prop_assert_eq!(counts.running, here.count());
                    prop_assert_eq!(counts.queued, queued.get(lane).map_or(0, VecDeque::len));
                }
            }
            let left: BTreeSet<_> = queued.into_values().flatten().collect();
            let emptied = lanes.empty_queues().into_iter().map(|(id, _)| id);
            prop_assert!(emptied.eq(left));
            assert_consistent(&lanes);
        }
    }

    #[test]
    fn a_wide_lane_does_not_grow_without_end() {
        let count = |it| NonZeroUsize::new(it).unwrap();
        let lane = Lane::wide("driver", count(2), count(3));
        let mut lanes = Lanes::new(1, Duration::from_secs(1));
        let mut now = Instant::now();
        for _ in 0..5 {
            lanes.push(&lane, Box::new(|| {}), now);
        }
        let mut begin = |now| std::iter::from_fn(|| lanes.take(now)).map(|it| it.1).collect::<Vec<_>>();
        let first = begin(now);
        assert_eq!(first.len(), 2);
        now += Duration::from_secs(1);
        lanes.age(now);
        assert_eq!(std::iter::from_fn(|| lanes.take(now)).count(), 1, "two are slow");
        now += Duration::from_secs(1);
        lanes.age(now);
        assert_eq!((lanes.startable(), lanes.due()), (0, None), "slow ones count");
        lanes.end(&lane, first[0], now);
        assert_eq!(lanes.startable(), 1);
    }

    #[test]
    fn lanes_take_turns() {
        let mut lanes = Lanes::new(4, Duration::MAX);
        let now = Instant::now();
        for lane in ["a", "a", "a", "b", "c", "c"] {
            lanes.push(&lane.into(), Box::new(|| {}), now);
        }
        let order: Vec<_> = std::iter::from_fn(|| lanes.take(now)).map(|(lane, _, _)| lane.to_string()).collect();
        assert_eq!(order, ["a", "b", "c", "a", "c", "a"]);
        assert_eq!(lanes.due(), None, "a time without end never comes");
    }

    #[test]
    fn what_waits_in_a_brief_lane_makes_room_at_once_and_is_slow_as_others_are() {
        let (brief, slow_after, now) = (Duration::from_millis(1), Duration::from_secs(1), Instant::now());
        let lane = Lane::brief("d", NonZeroUsize::MIN, brief);
        let mut lanes = Lanes::new(16, slow_after);
        (0..2).for_each(|_| _ = lanes.push(&lane, Box::new(|| {}), now));
        assert!(lanes.take(now).is_some() && lanes.take(now).is_none());
        assert_eq!(lanes.due(), Some(now + brief));
        lanes.age(now + brief);
        assert!(lanes.take(now + brief).is_some());
        assert_consistent(&lanes);
        let slow = |at| lanes.counts(at)[&lane].slow;
        assert_eq!([now + brief, now + slow_after, now + brief + slow_after].map(slow), [0, 1, 2]);
    }
}
