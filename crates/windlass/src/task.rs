//! Work on worker threads that waits for others now and then, and has a thread only while it does not.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use windlass_linux::workers::{Error, Job, Lane, Workers};

/// What is to be done.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A job for a lane of workers that begins work. Whenever that can go on after it waited, it does so on a thread of the same
/// lane. What was begun is brought to its end, also if the workers are stopped meanwhile.
pub(crate) fn begins(workers: &Workers, lane: &Lane, start: impl FnOnce() -> Work + Send + 'static) -> Job {
    let (workers, lane) = (workers.clone(), lane.clone());
    // Until it begins it takes less memory than the work itself.
    Box::new(move || {
        let mut work = start();
        // Most work waits for nobody, and need not be woken. What does wait is asked once more, with somebody to wake.
        if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            Arc::new(Task { workers, lane, progress: Mutex::new(Progress::Queued(work)) }).run();
        }
    })
}

struct Task {
    workers: Workers,
    lane: Lane,
    progress: Mutex<Progress>,
}

/// How far it is.
enum Progress {
    /// It waits for others.
    Waiting(Work),
    /// It waits for a thread.
    Queued(Work),
    /// It has a thread, and has perhaps something to go on with already.
    Running { woken: bool },
    /// It is done, or broke off.
    Ended,
}

impl Task {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(self: Arc<Self>) -> Result<(), Error> {
        let (workers, lane) = (self.workers.clone(), self.lane.clone());
        workers.run(&lane, move || self.run()).map(drop)
    }

    fn run(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut progress = self.progress();
        let Progress::Queued(mut work) = mem::replace(&mut *progress, Progress::Running { woken: false }) else {
            return;
        };
        loop {
            drop(progress);
            // If it panics it is dropped here, and whoever waits for it notices by that.
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            progress = self.progress();
            if polled.is_ready() {
                return *progress = Progress::Ended;
            }
            if !matches!(*progress, Progress::Running { woken: true }) {
                return *progress = Progress::Waiting(work);
            }
            *progress = Progress::Running { woken: false };
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut progress = self.progress();
        match mem::replace(&mut *progress, Progress::Ended) {
            Progress::Waiting(work) => *progress = Progress::Queued(work),
            Progress::Running { .. } => return *progress = Progress::Running { woken: true },
            other => return *progress = other,
        }
        drop(progress);
        if let Err(error) = self.clone().queue() {
            // There are no workers any more, or no thread for them, and somebody may wait for the end.
            let thread = std::thread::Builder::new().name("windlass-work".into());
            if thread.spawn(error.into_job()).is_err() {
                *self.progress() = Progress::Ended;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::{Receiver, channel};
    use std::task::Poll;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use windlass_linux::workers::{Counts, Limits};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn workers() -> Workers {
        Workers::new("task-test", Limits::default())
    }

    fn begin(workers: &Workers, work: Work) -> Result<(), Error> {
        let lane = Lane::from("driver");
        workers.run_job(&lane, begins(workers, &lane, || work)).map(drop)
    }

    /// Work that tells when it begins to wait for an answer, and which it got.
    fn waits(answer: oneshot::Receiver<u32>) -> (Work, Receiver<Option<u32>>) {
        let (tell, told) = channel();
        let work = async move {
            tell.send(None).unwrap();
            tell.send(answer.await.ok()).unwrap();
        };
        (Box::pin(work), told)
    }

    /// Waits until no thread does anything.
    fn until_idle(workers: &Workers) {
        while matches!(workers.counts(), Counts { threads, idle, .. } if threads > idle) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_that_waits_has_no_thread() {
        let workers = workers();
        let (answer, answered) = oneshot::channel();
        let (work, told) = waits(answered);
        begin(&workers, work).unwrap();
        told.recv_timeout(PATIENCE).unwrap();
        until_idle(&workers);
        assert!(workers.counts().lanes.is_empty(), "{workers:?}");
        answer.send(7).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Some(7));
    }

    #[test]
    fn work_that_is_woken_while_it_runs_goes_on() {
        let workers = workers();
        let (tell, told) = channel();
        let mut left = 1000;
        let work = poll_fn(move |cx| {
            if left == 0 {
                tell.send(()).unwrap();
                return Poll::Ready(());
            }
            left -= 1;
            let waker = cx.waker().clone();
            match left % 2 {
                0 => waker.wake(),
                _ => drop(std::thread::spawn(move || waker.wake())),
            }
            Poll::Pending
        });
        begin(&workers, Box::pin(work)).unwrap();
        told.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn what_was_begun_ends_though_the_workers_are_stopped() {
        let workers = workers();
        let (answer, answered) = oneshot::channel();
        let (work, told) = waits(answered);
        begin(&workers, work).unwrap();
        told.recv_timeout(PATIENCE).unwrap();
        workers.stop();
        let (late, _) = waits(oneshot::channel().1);
        assert!(begin(&workers, late).is_err());
        answer.send(7).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Some(7));
    }

    #[test]
    fn work_that_panics_is_dropped() {
        let workers = workers();
        let (answer, answered) = oneshot::channel::<()>();
        let (held, dropped) = channel::<()>();
        let work = async move {
            let _held = held;
            let _ = answered.await;
            std::panic::resume_unwind(Box::new("on purpose"));
        };
        begin(&workers, Box::pin(work)).unwrap();
        answer.send(()).unwrap();
        assert!(dropped.recv_timeout(PATIENCE).is_err_and(|it| it == std::sync::mpsc::RecvTimeoutError::Disconnected));
    }
}
