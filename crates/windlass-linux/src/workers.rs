//! Threads for calls that may never return (promise I-6).
//!
//! A call on a dead server holds its thread for as long as it likes, and nothing can take the thread away from it. So
//! each call is a job with a thread to itself, and jobs are kept apart by *lanes*: one for each plugin, driver or
//! server, whatever can hang as one. A lane never waits for another, unless all threads together become too many.
//!
//! Within a lane the number of jobs at a time is limited, because work wants a limit: more of it at once is no faster.
//! A job that has run for long no longer works, it waits. It is counted as slow, it keeps its thread, and its lane
//! goes on without it. Whoever starts a job keeps its deadline and shows that it hangs; here nothing is given up.
//!
//! With nothing to do nothing wakes up (promise I-8). A few idle threads wait without a time-out; those that many jobs at once
//! have left over wait for a moment and end. While jobs are queued in a lane that is full, and only then, one thread waits for
//! the moment when the lane's oldest job becomes slow.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

mod lanes;

use lanes::Lanes;

use crate::working_directory;

/// What a thread is to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// Why a job was not accepted. It holds the job, which did not run and will not.
#[derive(thiserror::Error)]
pub enum Error {
    /// The workers were stopped before.
    #[error("start a job: the workers were stopped")]
    Stopped {
        /// The job.
        job: Job,
    },
    /// There is no thread, and none can be started.
    #[error("start a thread for a job")]
    NoThread {
        /// The job.
        job: Job,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// The job, to do something else with it.
    #[must_use]
    pub fn into_job(self) -> Job {
        match self {
            Self::Stopped { job } | Self::NoThread { job, .. } => job,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { .. } => formatter.write_str("Stopped"),
            Self::NoThread { source, .. } => write!(formatter, "NoThread({source:?})"),
        }
    }
}

/// What jobs are kept apart by: those of one lane can make each other wait, those of different lanes cannot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    name: Arc<str>,
    width: Width,
}

/// How many jobs of a lane run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Width {
    /// As many as [`Limits::at_once`] says.
    Usual,
    /// As many, but not more than this.
    Narrow(NonZeroUsize),
    /// This many, and not more than `most` with those that are slow.
    Wide { at_once: NonZeroUsize, most: NonZeroUsize },
    /// As many as `Narrow`, not counting those that have run for this long.
    Brief { at_once: NonZeroUsize, patience: Duration },
}

impl Lane {
    /// A lane of which fewer jobs run at a time than [`Limits::at_once`] says: for work that keeps a processor busy, of
    /// which more threads than processors do not do more.
    #[must_use]
    pub fn narrow(name: &str, at_once: NonZeroUsize) -> Self {
        Self { name: name.into(), width: Width::Narrow(at_once) }
    }

    /// A lane of which more jobs run at a time than [`Limits::at_once`] says: for calls that mostly wait for somebody else.
    /// Those that are slow are counted too, in `most`, so that one lane cannot take all threads.
    #[must_use]
    pub fn wide(name: &str, at_once: NonZeroUsize, most: NonZeroUsize) -> Self {
        Self { name: name.into(), width: Width::Wide { at_once, most } }
    }

    /// A [narrow](Self::narrow) lane for work that takes longer than `patience` only if it waits for something: a disk, a
    /// lock. What waits is not counted, as others are not that are slow, so as much of it runs at a time as there is to wait
    /// for; and while nothing waits, few threads do all of it one after the other.
    #[must_use]
    pub fn brief(name: &str, at_once: NonZeroUsize, patience: Duration) -> Self {
        Self { name: name.into(), width: Width::Brief { at_once, patience } }
    }

    /// The name that it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl From<&str> for Lane {
    fn from(name: &str) -> Self {
        Self { name: name.into(), width: Width::Usual }
    }
}

impl From<Arc<str>> for Lane {
    fn from(name: Arc<str>) -> Self {
        Self { name, width: Width::Usual }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// Which job: no two of the same workers have the same, and later ones have greater ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// How much may happen at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many jobs of a lane run at a time, those that are slow not counted, unless the lane is
    /// [narrow](Lane::narrow) or [wide](Lane::wide). At least one, whatever is said here.
    pub at_once: usize,
    /// After which time a running job is slow: it waits for something.
    pub slow_after: Duration,
    /// How many threads there are at most, for all lanes together. At least one, whatever is said here.
    pub threads_max: usize,
}

impl Default for Limits {
    /// An unmount waits for a grace period of the kernel; sixteen at once hide most of that. A call that takes longer
    /// than a second is waiting for something. Each thread that hangs costs little but a number and some memory.
    fn default() -> Self {
        Self { at_once: 16, slow_after: Duration::from_secs(1), threads_max: 512 }
    }
}

/// How many jobs and threads there are, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The lanes that have any jobs.
    pub lanes: BTreeMap<Lane, LaneCounts>,
    /// All threads. As many as [`Limits::threads_max`] with jobs queued: hung calls have taken all there are.
    pub threads: usize,
    /// The threads that wait for a job.
    pub idle: usize,
    /// How many jobs have panicked so far.
    pub panicked: u64,
}

/// How many jobs a lane has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Jobs that run, slow ones among them.
    pub running: usize,
    /// Jobs that have run for longer than [`Limits::slow_after`].
    pub slow: usize,
    /// Jobs that have not begun.
    pub queued: usize,
}

/// How many idle threads are kept. Each costs memory for as long as there is nothing to do, and starting another costs less
/// than a mount, so this is few: what one pod needs.
const IDLE_MAX: usize = 4;

/// How long other threads wait for more to do before they end.
const LINGER: Duration = Duration::from_millis(50);

/// Threads that do jobs. Clones are handles to the same threads; without a handle they are [stopped](Self::stop).
///
/// ```
/// use windlass_linux::workers::{Lane, Limits, Workers};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workers = Workers::new("example", Limits::default());
/// let (tell, told) = std::sync::mpsc::channel();
/// workers.run(&Lane::from("nfs server:/export"), move || drop(tell.send("unmounted")))?;
/// assert_eq!(told.recv()?, "unmounted");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Workers(Arc<Handle>);

impl Workers {
    /// Workers that have no thread yet. Threads get this name, of which the kernel shows 15 bytes.
    #[must_use]
    pub fn new(name: &'static str, limits: Limits) -> Self {
        let spawn = move |body: Job| {
            let thread = std::thread::Builder::new().name(name.into());
            let started = thread.spawn(move || {
                working_directory::make_own();
                body();
            });
            started.map(drop)
        };
        Self::within(limits, Surroundings { now: Box::new(Instant::now), spawn: Box::new(spawn) })
    }

    fn within(limits: Limits, surroundings: Surroundings) -> Self {
        let shared = Shared {
            surroundings,
            threads_max: limits.threads_max.max(1),
            state: Mutex::new(State::new(&limits)),
            work: Condvar::new(),
            time: Condvar::new(),
        };
        Self(Arc::new(Handle(Arc::new(shared))))
    }

    /// Runs a job on a thread, as soon as its lane and the number of threads allow it. Jobs of a lane begin in the
    /// order in which they came. Never waits, and never runs the job on the calling thread.
    ///
    /// When the kernel has no thread to give, the job stays queued: it begins when a running job ends, or when a later
    /// call gets a thread. If there is no running job either, the error gives the job back.
    ///
    /// A job that panics is counted, and that is all. Whoever waits for its result notices by what it dropped.
    pub fn run(&self, lane: &Lane, job: impl FnOnce() + Send + 'static) -> Result<JobId, Error> {
        self.run_job(lane, Box::new(job))
    }

    /// As [`Workers::run`], of a job that is in a box already.
    pub fn run_job(&self, lane: &Lane, job: Job) -> Result<JobId, Error> {
        let shared = &self.0.0;
        let mut state = shared.lock();
        if state.stopped {
            return Err(Error::Stopped { job });
        }
        let id = state.lanes.push(lane, job, shared.now());
        match shared.provide_threads(&mut state) {
            // Without any thread nothing else is queued either: threads end only when there is nothing to do.
            Err(source) if state.threads == 0 => match state.lanes.take_back(lane, shared.now()) {
                Some(job) => Err(Error::NoThread { job, source }),
                None => Ok(id),
            },
            _ => Ok(id),
        }
    }

    /// How many jobs and threads there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let shared = &self.0.0;
        let state = shared.lock();
        Counts {
            lanes: state.lanes.counts(shared.now()),
            threads: state.threads,
            idle: state.idle,
            panicked: state.panicked,
        }
    }

    /// Starts no more jobs, lets idle threads end, and leaves those alone that run: their threads end when they do.
    /// Does not wait. Returns which jobs were still queued; these are dropped.
    pub fn stop(&self) -> Vec<JobId> {
        self.0.stop()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Workers").field(&self.counts()).finish()
    }
}

/// What all clones of [`Workers`] share and threads do not have: when it goes, nobody can ask for anything any more.
struct Handle(Arc<Shared>);

impl Handle {
    fn stop(&self) -> Vec<JobId> {
        let mut state = self.0.lock();
        state.stopped = true;
        let queued = state.lanes.empty_queues();
        drop(state);
        self.0.work.notify_all();
        self.0.time.notify_all();
        // Jobs are dropped here, without the lock: what they hold may do anything when it goes.
        queued.into_iter().map(|(id, _)| id).collect()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The clock, and how threads come to be. Tests have their own.
struct Surroundings {
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    spawn: Box<dyn Fn(Job) -> io::Result<()> + Send + Sync>,
}

struct Shared {
    surroundings: Surroundings,
    threads_max: usize,
    state: Mutex<State>,
    /// Idle threads wait here.
    work: Condvar,
    /// The timekeeper waits here.
    time: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing of others' runs while it is held, so a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        (self.surroundings.now)()
    }

    /// Makes sure that as many threads are on their way as there are jobs that can begin, and that there is a
    /// timekeeper if one is needed. Whoever changes the state for more to do calls this before it turns to anything
    /// that may take long. An error is the kernel's refusal of another thread.
    fn provide_threads(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let mut result = Ok(());
        while state.woken + state.starting < state.threads_wanted() {
            if state.idle > 0 {
                state.idle -= 1;
                state.woken += 1;
                self.work.notify_one();
                continue;
            }
            if state.threads < self.threads_max {
                let shared = Arc::clone(self);
                result = (self.surroundings.spawn)(Box::new(move || shared.work()));
                if result.is_ok() {
                    state.threads += 1;
                    state.starting += 1;
                    continue;
                }
            }
            // The last thread that does no work.
            if state.lanes.startable() > 0 {
                self.time.notify_one();
            }
            break;
        }
        if let (Some(until), Some(first)) = (state.timekeeper, state.lanes.due())
            && first < until
        {
            self.time.notify_one();
        }
        result
    }

    /// What each thread does.
    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        state.starting -= 1;
        loop {
            let now = self.now();
            state.lanes.age(now);
            if let Some((lane, id, job)) = state.lanes.take(now) {
                // Refused threads do not stop this one; it asks again when it is done.
                let _ = self.provide_threads(&mut state);
                if state.timekeeper.is_some() && state.lanes.due().is_none() {
                    // Nothing waits any more, so nobody is to wake for it later (I-8).
                    self.time.notify_one();
                }
                drop(state);
                let panicked = !survives(job);
                state = self.lock();
                state.panicked += u64::from(panicked);
                state.lanes.end(&lane, id, self.now());
            } else if state.stopped {
                break;
            } else if let (None, Some(until)) = (state.timekeeper, state.lanes.due()) {
                state.timekeeper = Some(until);
                let timeout = until.saturating_duration_since(now);
                (state, _) = self.time.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner);
                // Whatever it was woken for, it is seen from the beginning of the loop.
                state.timekeeper = None;
            } else if state.idle < IDLE_MAX {
                state.idle += 1;
                let wait = |state: &mut State| state.woken == 0 && !state.stopped;
                state = self.work.wait_while(state, wait).unwrap_or_else(PoisonError::into_inner);
                match state.woken.checked_sub(1) {
                    Some(left) => state.woken = left,
                    None => state.idle -= 1,
                }
            } else {
                // Many came at once, and more may: starting threads for them anew costs as much as what they do.
                state.idle += 1;
                let wait = |state: &mut State| state.woken == 0 && !state.stopped;
                let waited = self.work.wait_timeout_while(state, LINGER, wait);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                match state.woken.checked_sub(1) {
                    Some(left) => state.woken = left,
                    None => {
                        state.idle -= 1;
                        break;
                    }
                }
            }
        }
        state.threads -= 1;
    }
}

/// Runs a job. Returns whether it did not panic.
fn survives(job: Job) -> bool {
    match catch_unwind(AssertUnwindSafe(job)) {
        Ok(()) => true,
        Err(payload) => {
            // The payload is the job's own too, and may panic when it is dropped.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(payload);
            }
            false
        }
    }
}

/// What threads share.
struct State {
    lanes: Lanes,
    panicked: u64,
    stopped: bool,
    /// All threads: those that run a job, and those below.
    threads: usize,
    /// Threads that were started and have not come here yet.
    starting: usize,
    /// Threads that wait for work and were not called.
    idle: usize,
    /// Threads that waited for work, were called and have not come back yet.
    woken: usize,
    /// Until when the thread waits that waits for a full lane, if there is one.
    timekeeper: Option<Instant>,
}

impl State {
    fn new(limits: &Limits) -> Self {
        let lanes = Lanes::new(limits.at_once.max(1), limits.slow_after);
        Self { lanes, panicked: 0, stopped: false, threads: 0, starting: 0, idle: 0, woken: 0, timekeeper: None }
    }

    /// How many threads should be on their way here.
    fn threads_wanted(&self) -> usize {
        let timekeepers = usize::from(self.timekeeper.is_none() && self.lanes.due().is_some());
        self.lanes.startable().max(timekeepers)
    }
}

#[cfg(test)]
mod tests;
