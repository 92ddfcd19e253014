//! Carries calls to drivers on the one thread that may not block. What is given to it together goes out together, so that
//! neither a wake-up of that thread nor a write to a driver's socket is made for each call.

use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use tokio::sync::{Notify, oneshot};

/// A call that is to be made.
type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(super) struct Carrier {
    waiting: Mutex<Vec<Call>>,
    is_given: Notify,
}

impl Carrier {
    /// Has a call made, from any thread. If nobody waits for the answer any more, the call is dropped.
    pub(super) fn carry<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (mut answer, answered) = oneshot::channel();
        let call = async move {
            let mut call = pin!(call);
            let said = poll_fn(|cx| match answer.poll_closed(cx) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => call.as_mut().poll(cx).map(Some),
            });
            if let Some(said) = said.await {
                let _ = answer.send(said);
            }
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Box::pin(call));
        let is_first = waiting.len() == 1;
        drop(waiting);
        if is_first {
            self.is_given.notify_one();
        }
        answered
    }

    /// Makes the calls that are given, on the runtime on which this runs, until it is dropped.
    pub(super) async fn run(&self) {
        loop {
            self.is_given.notified().await;
            let calls = mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            calls.into_iter().for_each(|it| drop(tokio::spawn(it)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime;

    use super::*;

    fn carrying<T>(body: impl AsyncFnOnce(Arc<Carrier>) -> T) -> T {
        let carrier = Arc::new(Carrier::default());
        runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            let carries = carrier.clone();
            tokio::spawn(async move { carries.run().await });
            body(carrier).await
        })
    }

    #[test]
    fn calls_that_are_given_together_are_all_made_before_the_first_is_answered() {
        carrying(async |carrier| {
            let made = Arc::new(AtomicUsize::new(0));
            let call = || {
                let made = made.clone();
                async move {
                    made.fetch_add(1, Ordering::Relaxed);
                    // Whatever answers comes to it after those that are ready now.
                    tokio::task::yield_now().await;
                    made.load(Ordering::Relaxed)
                }
            };
            let answered: Vec<_> = (0..100).map(|_| carrier.carry(call())).collect();
            for answer in answered {
                assert_eq!(answer.await.unwrap(), 100);
            }
        });
    }

    #[test]
    fn a_call_that_hangs_holds_up_no_other_and_is_dropped_if_nobody_waits() {
        carrying(async |carrier| {
            let (held, dropped) = oneshot::channel::<()>();
            let hangs = carrier.carry(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            assert_eq!(carrier.carry(async { 7 }).await.unwrap(), 7);
            drop(hangs);
            assert!(dropped.await.is_err());
        });
    }
}
