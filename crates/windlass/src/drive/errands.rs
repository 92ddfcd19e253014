//! Operations of one pod that a worker does one after the other.
//!
//! What the engine gives out together for a pod goes to one worker as one errand, and the ends come back together: handing
//! each volume over to a thread of its own, and waking the drive for each, costs more than most volumes do. Only operations
//! that nothing holds up but the file system of the root go together; whatever waits for others has a thread, or a driver's
//! answer, to itself.
//!
//! One of them may take long all the same. Then what has ended is told and the rest is done by another worker at once, so
//! that a volume that hangs holds up no other (I-6).

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::ids::{OperationId, PodUid, Time};
use windlass_core::operation::{Cause, Trouble};
use windlass_linux::workers::{Job, Lane};

use super::alarms::Alarm;
use super::{Drive, Message};
use crate::executor::{Ended, Together};
use crate::plugin;

/// A step that takes longer waits for something.
const PATIENCE: Duration = Duration::from_millis(20);

/// What one worker is to do.
pub(super) struct Errand {
    inbox: Sender<Message>,
    /// The drive has nothing to look at until another errand begins, or is taken over.
    is_awaited: Arc<AtomicBool>,
    steps: Mutex<Steps>,
}

#[derive(Default)]
struct Steps {
    waiting: VecDeque<(OperationId, Job)>,
    /// When the last one began, if any has.
    began: Option<Instant>,
    /// How many workers are at it: more than one if one of them has met something slow.
    workers: usize,
    /// Another worker was asked for, and has not begun.
    is_offered: bool,
    /// What has not been told yet.
    ended: Vec<(OperationId, Ended)>,
}

impl Errand {
    fn new(inbox: Sender<Message>, is_awaited: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self { inbox, is_awaited, steps: Mutex::default() })
    }

    /// Adds an operation, before the errand is given to a worker.
    pub(super) fn add(&self, id: OperationId, job: Job) {
        self.steps().waiting.push_back((id, job));
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation of the errand came to its end. Whoever is at the errand tells of it with the others.
    pub(super) fn ended(&self, id: OperationId, ended: Ended) {
        let mut steps = self.steps();
        steps.ended.push((id, ended));
        if steps.workers == 0 {
            self.tell(steps);
        }
    }

    fn tell(&self, mut steps: MutexGuard<'_, Steps>) {
        let ended = mem::take(&mut steps.ended);
        drop(steps);
        if !ended.is_empty() {
            // After a stop nobody listens, and nothing is to be done.
            let _ = self.inbox.send(Message::OperationsEnded(ended));
        }
    }

    /// Does what nobody has begun yet, on the thread that calls this.
    fn run(&self) {
        let mut panicked = None;
        {
            let mut steps = self.steps();
            steps.workers += 1;
            (steps.is_offered, steps.began) = (false, Some(Instant::now()));
        }
        if self.is_awaited.swap(false, Ordering::AcqRel) {
            let _ = self.inbox.send(Message::ErrandBegan);
        }
        loop {
            let mut steps = self.steps();
            let Some((_, step)) = steps.waiting.pop_front() else {
                steps.workers -= 1;
                self.tell(steps);
                break;
            };
            steps.began = Some(Instant::now());
            drop(steps);
            // The others are done all the same.
            panicked = panic::catch_unwind(AssertUnwindSafe(step)).err().or(panicked);
        }
        if let Some(panic) = panicked {
            panic::resume_unwind(panic);
        }
    }

    /// Nobody will do what is left of it, for this reason.
    fn refuse(&self, trouble: &Trouble) {
        let mut steps = self.steps();
        let left = mem::take(&mut steps.waiting);
        steps.ended.extend(left.iter().map(|(id, _)| (*id, Ended::refused(trouble.clone()))));
        self.tell(steps);
        // Only now: what is dropped without having been done tells of that here.
        drop(left);
    }
}

/// How far an errand is that has begun.
enum Progress {
    AtWork,
    /// Somebody has met something slow, and there may be more to do.
    Slow {
        more: bool,
    },
    Over,
}

impl Steps {
    fn progress(&self, now: Instant) -> Progress {
        let is_slow = self.began.is_some_and(|it| now.saturating_duration_since(it) >= PATIENCE);
        match is_slow {
            _ if self.workers == 0 => Progress::Over,
            true => Progress::Slow { more: !self.waiting.is_empty() },
            false => Progress::AtWork,
        }
    }
}

/// The errands that were given out, and what more may be added to.
#[derive(Default)]
pub(super) struct Errands {
    /// The pod whose operation was given out last, while more of it may follow.
    open: Option<(PodUid, Together)>,
    /// What has been gathered for it.
    gathered: Option<(Lane, Arc<Errand>)>,
    /// See [`Errand::is_awaited`].
    is_awaited: Arc<AtomicBool>,
    /// Those of each lane in the order in which they begin.
    under_way: BTreeMap<Lane, VecDeque<Arc<Errand>>>,
    look_at: Option<Time>,
}

impl Drive {
    /// What operations of one pod that are given out together share.
    pub(super) fn together(&mut self, pod: Option<&PodUid>) -> Together {
        match (&self.operations.errands.open, pod) {
            (Some((last, together)), Some(pod)) if last == pod => together.clone(),
            (_, pod) => {
                self.send_errand();
                let together = Together::default();
                self.operations.errands.open = pod.map(|it| (it.clone(), together.clone()));
                together
            }
        }
    }

    /// The errand to which an operation of the pod belongs that [was named last](Self::together).
    pub(super) fn errand(&mut self, lane: &Lane) -> Arc<Errand> {
        if let Some((_, errand)) = self.operations.errands.gathered.as_ref().filter(|(it, _)| it == lane) {
            return errand.clone();
        }
        self.send_gathered();
        let errand = Errand::new(self.outside.inbox(), self.operations.errands.is_awaited.clone());
        self.operations.errands.gathered = Some((lane.clone(), errand.clone()));
        errand
    }

    /// Nothing more of the pod follows.
    pub(super) fn send_errand(&mut self) {
        self.send_gathered();
        self.operations.errands.open = None;
    }

    fn send_gathered(&mut self) {
        let Some((lane, errand)) = self.operations.errands.gathered.take() else { return };
        let steps = errand.steps().waiting.len();
        if steps > 0 {
            self.give_to_worker(&lane, &errand);
        }
        if steps > 1 {
            self.operations.errands.under_way.entry(lane).or_default().push_back(errand);
            self.look_at_errands_later();
        }
    }

    fn give_to_worker(&self, lane: &Lane, errand: &Arc<Errand>) {
        let worker = errand.clone();
        if let Err(error) = self.outside.workers.run(lane, move || worker.run()) {
            errand.refuse(&Trouble { cause: Cause::Other, text: plugin::chain(&error).into() });
        }
    }

    /// Looks at errands in a moment.
    pub(super) fn look_at_errands_later(&mut self) {
        if self.operations.errands.look_at.is_none() {
            let at = self.now() + PATIENCE;
            self.operations.errands.look_at = Some(at);
            self.alarms.set(at, Alarm::Errands);
        }
    }

    /// Sees that nothing waits for a step that is slow. Comes again only while that may be of use (I-8).
    pub(super) fn look_at_errands(&mut self) {
        self.operations.errands.look_at = None;
        let mut under_way = mem::take(&mut self.operations.errands.under_way);
        for errands in under_way.values_mut() {
            let begun = errands.iter().take_while(|it| it.steps().began.is_some()).count();
            let mut left: Vec<Arc<Errand>> = errands.drain(..begun).collect();
            left.retain(|errand| {
                let mut steps = errand.steps();
                match steps.progress(Instant::now()) {
                    Progress::Over => false,
                    Progress::AtWork => true,
                    Progress::Slow { more } => {
                        let is_offered = mem::replace(&mut steps.is_offered, more);
                        errand.tell(steps);
                        if more && !is_offered {
                            // Not in the lane of the others, where many may be waiting.
                            self.give_to_worker(&self.operations.lanes.taken_over, errand);
                        }
                        // Whoever is still at it has the last of it, and tells of that by itself.
                        more
                    }
                }
            });
            left.into_iter().rev().for_each(|it| errands.push_front(it));
        }
        under_way.retain(|_, errands| !errands.is_empty());
        // Before the last look, so that whatever begins after it is told.
        self.operations.errands.is_awaited.store(!under_way.is_empty(), Ordering::Release);
        let is_at_work = |it: &Arc<Errand>| {
            let steps = it.steps();
            steps.began.is_some() && matches!(steps.progress(Instant::now()), Progress::AtWork | Progress::Over)
        };
        let is_any = under_way.values().flatten().any(is_at_work);
        self.operations.errands.under_way = under_way;
        if is_any {
            self.look_at_errands_later();
        }
    }

    /// No operation is under way, so nobody is to wake for one (I-8).
    pub(super) fn errands_are_over(&mut self) {
        self.operations.errands.under_way.clear();
        if let Some(at) = self.operations.errands.look_at.take() {
            self.alarms.cancel(at, Alarm::Errands);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn step(errand: &Arc<Errand>, id: u64, work: impl FnOnce() + Send + 'static) {
        let tells = Arc::downgrade(errand);
        let job = move || {
            work();
            tells.upgrade().unwrap().ended(OperationId(id), Ended::broke_off());
        };
        errand.add(OperationId(id), Box::new(job));
    }

    fn ids(message: Message) -> Vec<u64> {
        let Message::OperationsEnded(ended) = message else { panic!("{message:?}") };
        ended.into_iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn ends_come_together() {
        let (inbox, told) = channel();
        let errand = Errand::new(inbox, Arc::default());
        (1..=4).for_each(|it| step(&errand, it, || {}));
        errand.run();
        assert_eq!(told.try_iter().map(ids).collect::<Vec<_>>(), [[1, 2, 3, 4]]);
    }

    /// I-6
    #[test]
    fn a_step_that_hangs_among_eight_holds_up_no_other() {
        let (inbox, told) = channel();
        let errand = Errand::new(inbox, Arc::default());
        let ((hangs, is_hung), (release, released)) = (channel(), channel());
        step(&errand, 1, || {});
        step(&errand, 2, move || {
            hangs.send(()).unwrap();
            let () = released.recv().unwrap_or_default();
        });
        (3..=8).for_each(|it| step(&errand, it, || {}));
        let worker = {
            let errand = errand.clone();
            thread::spawn(move || errand.run())
        };
        is_hung.recv().unwrap();
        let later = Instant::now() + PATIENCE;
        assert!(matches!(errand.steps().progress(later), Progress::Slow { more: true }));
        errand.tell(errand.steps());
        assert_eq!(ids(told.recv().unwrap()), [1]);
        errand.run();
        assert_eq!(ids(told.recv().unwrap()), [3, 4, 5, 6, 7, 8]);
        release.send(()).unwrap();
        assert_eq!(ids(told.recv().unwrap()), [2], "its late end is used");
        worker.join().unwrap();
        assert!(matches!(errand.steps().progress(Instant::now()), Progress::Over));
    }

    /// I-8: the drive looks at nothing until then.
    #[test]
    fn an_errand_that_is_awaited_tells_once_that_it_begins() {
        let ((inbox, told), is_awaited) = (channel(), Arc::new(AtomicBool::new(true)));
        for has_told in [false, true] {
            let errand = Errand::new(inbox.clone(), is_awaited.clone());
            step(&errand, 1, || {});
            errand.run();
            let is_told = matches!(told.try_recv().unwrap(), Message::ErrandBegan);
            assert_eq!(is_told, !has_told);
            if is_told {
                assert_eq!(ids(told.try_recv().unwrap()), [1]);
            }
        }
    }

    #[test]
    fn a_step_that_panics_holds_up_no_other() {
        let (inbox, told) = channel();
        let errand = Errand::new(inbox, Arc::default());
        step(&errand, 1, || panic::resume_unwind(Box::new("on purpose")));
        step(&errand, 2, || {});
        assert!(panic::catch_unwind(AssertUnwindSafe(|| errand.run())).is_err(), "it is counted");
        assert_eq!(ids(told.try_recv().unwrap()), [2]);
    }

    #[test]
    fn what_nobody_does_is_refused() {
        let (inbox, told) = channel();
        let errand = Errand::new(inbox, Arc::default());
        (1..=2).for_each(|it| step(&errand, it, || {}));
        errand.refuse(&Trouble { cause: Cause::Other, text: "there is no thread".into() });
        assert_eq!(ids(told.try_recv().unwrap()), [1, 2]);
    }
}
