use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Long enough for any machine; only a test that fails waits for it.
const LONG: Duration = Duration::from_secs(20);

/// Passes only when a test says so.
const HOUR: Duration = Duration::from_secs(3600);

/// Workers whose clock and threads are in a test's hands.
struct Case {
    workers: Workers,
    minutes: Arc<AtomicU64>,
    refuse_threads: Arc<AtomicBool>,
    /// Closed when the last thread is gone.
    threads_gone: Receiver<()>,
    started: Receiver<u32>,
    tell_started: Sender<u32>,
}

impl Case {
    fn new(limits: Limits) -> Self {
        let minutes = Arc::new(AtomicU64::new(0));
        let refuse_threads = Arc::new(AtomicBool::new(false));
        let (alive, threads_gone) = channel();
        let (tell_started, started) = channel();
        let now = {
            let minutes = Arc::clone(&minutes);
            move || Instant::now() + Duration::from_secs(60 * minutes.load(Ordering::SeqCst))
        };
        let spawn = {
            let refuse_threads = Arc::clone(&refuse_threads);
            move |body: Job| {
                if refuse_threads.load(Ordering::SeqCst) {
                    return Err(io::Error::from_raw_os_error(libc::EAGAIN));
                }
                let alive: Sender<()> = alive.clone();
                std::thread::Builder::new().spawn(move || (body(), drop(alive)).0).map(drop)
            }
        };
        let workers = Workers::within(limits, Surroundings { now: Box::new(now), spawn: Box::new(spawn) });
        Self { workers, minutes, refuse_threads, threads_gone, started, tell_started }
    }

    /// A job that says that it began and then hangs until what is returned is dropped.
    fn hang(&self, lane: &str, number: u32) -> Sender<()> {
        let (release, released) = channel::<()>();
        let tell = self.tell_started.clone();
        let job = move || {
            tell.send(number).unwrap();
            assert!(released.recv().is_err());
        };
        self.workers.run(&lane.into(), job).unwrap();
        release
    }

    /// A job that says that it ran.
    fn tell(&self, lane: &str, number: u32) {
        drop(self.hang(lane, number));
    }

    /// The next job that begins.
    fn next(&self) -> u32 {
        self.started.recv_timeout(LONG).expect("a job that begins")
    }

    /// The next jobs that begin, in any order.
    fn next_of(&self, count: usize) -> Vec<u32> {
        let mut all: Vec<_> = (0..count).map(|_| self.next()).collect();
        all.sort_unstable();
        all
    }

    /// Lets time pass.
    fn pass(&self, minutes: u64) {
        self.minutes.fetch_add(minutes, Ordering::SeqCst);
        // Whoever asked for the time before holds the lock until it waits.
        drop(self.workers.0.0.lock());
        self.workers.0.0.time.notify_all();
    }

    /// Running, slow and queued jobs of a lane.
    fn counts(&self, lane: &str) -> (usize, usize, usize) {
        let counts = self.workers.counts().lanes.get(&lane.into()).copied().unwrap_or_default();
        (counts.running, counts.slow, counts.queued)
    }

    /// Waits until what threads do after a job is done.
    fn wait_until(&self, holds: impl Fn(&Counts) -> bool) {
        let begun = Instant::now();
        while !holds(&self.workers.counts()) {
            assert!(begun.elapsed() < LONG, "{:?}", self.workers);
            std::thread::yield_now();
        }
    }

    /// Drops the last handle, and waits until no thread is left.
    fn end(self) {
        drop(self.workers);
        assert!(
            self.threads_gone.recv_timeout(LONG).is_err_and(|it| it == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}

fn limits(at_once: usize, slow_after: Duration) -> Limits {
    Limits { at_once, slow_after, ..Limits::default() }
}

#[test]
fn jobs_of_a_lane_begin_in_order() {
    let case = Case::new(limits(1, HOUR));
    for number in 0..200 {
        case.tell("a", number);
    }
    for number in 0..200 {
        assert_eq!(case.next(), number);
    }
    case.end();
}

#[test]
fn no_more_jobs_work_at_once_than_may() {
    let case = Case::new(limits(2, HOUR));
    let mut held: Vec<_> = (0..5).map(|it| case.hang("a", it)).collect();
    assert_eq!(case.next_of(2), [0, 1]);
    assert_eq!(case.counts("a"), (2, 0, 3));
    held.remove(1);
    assert_eq!(case.next(), 2);
    assert_eq!(case.counts("a"), (2, 0, 2));
    held.clear();
    assert_eq!(case.next_of(2), [3, 4]);
    case.end();
}

#[test]
fn jobs_that_hang_do_not_stop_their_lane() {
    let case = Case::new(limits(2, HOUR));
    let mut held = Vec::new();
    for round in 0..5 {
        held.extend([case.hang("a", 2 * round), case.hang("a", 2 * round + 1)]);
        if round > 0 {
            let before = usize::try_from(2 * round).unwrap();
            assert_eq!(case.counts("a"), (before, before - 2, 2));
            case.pass(60);
        }
        assert_eq!(case.next_of(2), [2 * round, 2 * round + 1]);
    }
    assert_eq!(case.counts("a"), (10, 8, 0));
    // A slow job that ends makes no room: it took none.
    case.tell("a", 10);
    held.remove(0);
    case.wait_until(|it| it.lanes[&"a".into()].running == 9);
    assert_eq!(case.counts("a"), (9, 7, 1));
    case.pass(60);
    assert_eq!(case.next(), 10);
    drop(held);
    case.end();
}

#[test]
fn a_full_lane_goes_on_when_its_oldest_job_becomes_slow_by_itself() {
    let case = Case::new(limits(1, Duration::from_millis(1)));
    let held: Vec<_> = (0..20).map(|it| case.hang("a", it)).collect();
    assert_eq!(case.next_of(20).len(), 20);
    drop(held);
    case.end();
}

#[test]
fn a_full_lane_is_not_kept_waiting_by_one_that_is_due_later() {
    let case = Case::new(limits(1, HOUR));
    let mut held = vec![case.hang("early", 0)];
    assert_eq!(case.next(), 0);
    case.pass(30);
    held.extend([case.hang("late", 1), case.hang("late", 2)]);
    assert_eq!(case.next(), 1);
    let timekeeper = || case.workers.0.0.lock().timekeeper;
    case.wait_until(|_| timekeeper().is_some());
    let late = timekeeper();
    held.push(case.hang("early", 3));
    case.wait_until(|_| timekeeper().is_some_and(|it| Some(it) < late));
    case.pass(30);
    assert_eq!(case.next(), 3);
    case.pass(30);
    assert_eq!(case.next(), 2);
    drop(held);
    case.end();
}

#[test]
fn other_lanes_do_not_notice() {
    let case = Case::new(limits(2, HOUR));
    let held: Vec<_> = (0..8).map(|it| case.hang("hung", it)).collect();
    assert_eq!(case.next_of(2), [0, 1]);
    for number in 100..200 {
        case.tell("other", number);
        assert_eq!(case.next(), number);
    }
    assert_eq!(case.counts("hung"), (2, 0, 6));
    drop(held);
    case.end();
}

#[test]
fn a_panic_costs_nothing_but_its_job() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on being dropped"));
        }
    }
    let case = Case::new(limits(1, HOUR));
    let lane = Lane::from("a");
    // Without a message on standard error.
    case.workers.run(&lane, || std::panic::resume_unwind(Box::new("text"))).unwrap();
    case.workers.run(&lane, || std::panic::resume_unwind(Box::new(Bomb))).unwrap();
    case.tell("a", 1);
    assert_eq!(case.next(), 1);
    case.wait_until(|it| it.lanes.is_empty());
    assert_eq!(case.workers.counts().panicked, 2);
    case.end();
}

#[test]
fn threads_are_never_more_than_may_be() {
    let case = Case::new(Limits { threads_max: 3, ..limits(2, Duration::ZERO) });
    let mut held: Vec<_> = (0..6).map(|it| case.hang(&format!("lane {it}"), it)).collect();
    assert_eq!(case.next_of(3), [0, 1, 2]);
    let counts = case.workers.counts();
    assert_eq!((counts.threads, counts.idle), (3, 0));
    assert_eq!(counts.lanes.values().map(|it| it.queued).sum::<usize>(), 3);
    held.remove(0);
    assert_eq!(case.next(), 3);
    held.clear();
    assert_eq!(case.next_of(2), [4, 5]);
    case.end();
}

#[test]
fn the_last_thread_does_work_instead_of_waiting_for_a_full_lane() {
    let case = Case::new(Limits { threads_max: 2, ..limits(1, HOUR) });
    let held = [case.hang("full", 0), case.hang("full", 1)];
    assert_eq!(case.next(), 0);
    case.wait_until(|it| it.threads == 2);
    case.tell("other", 2);
    assert_eq!(case.next(), 2);
    case.pass(60);
    assert_eq!(case.next(), 1);
    drop(held);
    case.end();
}

#[test]
fn what_is_idle_waits_and_is_used_again() {
    let case = Case::new(limits(16, HOUR));
    let held: Vec<_> = (0..40).map(|it| case.hang(&format!("lane {it}"), it)).collect();
    case.next_of(40);
    assert_eq!(case.workers.counts().threads, 40);
    drop(held);
    case.wait_until(|it| it.threads == IDLE_MAX && it.idle == IDLE_MAX);
    assert!(case.workers.counts().lanes.is_empty(), "lanes without jobs are forgotten");
    case.refuse_threads.store(true, Ordering::SeqCst);
    let held: Vec<_> = (0..4).map(|it| case.hang("a", it)).collect();
    assert_eq!(case.next_of(4).len(), IDLE_MAX, "without a new thread");
    drop(held);
    case.end();
}

#[test]
fn without_any_thread_the_job_is_given_back() {
    let case = Case::new(Limits::default());
    case.refuse_threads.store(true, Ordering::SeqCst);
    let (tell, told) = channel();
    let error = case.workers.run(&"a".into(), move || tell.send(()).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "start a thread for a job");
    assert_eq!(case.workers.counts(), Counts::default());
    error.into_job()();
    told.recv().unwrap();
    case.refuse_threads.store(false, Ordering::SeqCst);
    case.tell("a", 1);
    assert_eq!(case.next(), 1);
    case.end();
}

#[test]
fn a_job_that_gets_no_thread_waits_for_one_that_ends() {
    let case = Case::new(Limits::default());
    let held = case.hang("a", 0);
    assert_eq!(case.next(), 0);
    case.refuse_threads.store(true, Ordering::SeqCst);
    case.tell("a", 1);
    case.tell("b", 2);
    assert_eq!((case.counts("a"), case.counts("b")), ((1, 0, 1), (0, 0, 1)));
    drop(held);
    assert_eq!(case.next_of(2), [1, 2]);
    case.end();
}

#[test]
fn a_job_that_gets_no_thread_begins_with_the_next_that_does() {
    let case = Case::new(Limits::default());
    let held = case.hang("a", 0);
    assert_eq!(case.next(), 0);
    case.refuse_threads.store(true, Ordering::SeqCst);
    case.tell("b", 1);
    case.refuse_threads.store(false, Ordering::SeqCst);
    case.tell("c", 2);
    assert_eq!(case.next_of(2), [1, 2]);
    drop(held);
    case.end();
}

#[test]
fn after_a_stop_nothing_begins_and_what_runs_ends_in_its_own_time() {
    let case = Case::new(limits(1, HOUR));
    let (held, queued) = (case.hang("a", 0), case.hang("a", 1));
    let (dropped, when_dropped) = channel::<()>();
    let id = case.workers.run(&"a".into(), move || drop(dropped)).unwrap();
    assert_eq!(case.next(), 0);
    assert_eq!(case.workers.stop().last(), Some(&id));
    assert!(when_dropped.recv().is_err(), "what was queued is dropped");
    assert_eq!(case.counts("a"), (1, 0, 0));
    let error = case.workers.run(&"b".into(), || {}).unwrap_err();
    assert_eq!(error.to_string(), "start a job: the workers were stopped");
    assert!(case.workers.stop().is_empty());
    drop((held, queued));
    case.wait_until(|it| it.threads == 0 && it.lanes.is_empty());
    assert!(case.started.try_recv().is_err());
    case.end();
}

#[test]
fn threads_end_with_the_last_handle_even_if_a_job_has_it() {
    let Case { workers, threads_gone, .. } = Case::new(Limits::default());
    let (other, lane) = (workers.clone(), Lane::from("a"));
    let inner = lane.clone();
    let (pass_on, passed_on) = channel::<Workers>();
    let job = move || drop(passed_on.recv().unwrap().run(&inner, || {}));
    workers.run(&lane, job).unwrap();
    drop(workers);
    pass_on.send(other).unwrap();
    assert_eq!(threads_gone.recv_timeout(LONG), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn threads_have_the_name_they_were_given() {
    let workers = Workers::new("volume calls", Limits::default());
    let (tell, told) = channel();
    let job = move || tell.send(std::thread::current().name().map(String::from)).unwrap();
    workers.run(&"a".into(), job).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap().as_deref(), Some("volume calls"));
}
