//! A question that is asked once: whoever asks meanwhile waits for the same answer, good or bad; a good one is kept.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The answer to one question.
pub(crate) struct SharedAnswer<T, E>(Mutex<State<T, E>>);

type Pending<T, E> = watch::Receiver<Option<Result<T, E>>>;

enum State<T, E> {
    Unasked,
    /// Somebody asks.
    Asking(Pending<T, E>),
    Known(T),
}

enum Turn<T, E> {
    Ask(watch::Sender<Option<Result<T, E>>>),
    Wait(Pending<T, E>),
    Known(T),
}

impl<T: Clone, E: Clone> SharedAnswer<T, E> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Unasked))
    }

    /// The answer. A failure goes to all who wait for it and is then forgotten, so that nobody waits for the failures of
    /// others one after the other.
    pub(crate) async fn get_or_ask(&self, ask: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        loop {
            match self.turn() {
                Turn::Known(answer) => return Ok(answer),
                Turn::Ask(tell) => {
                    let answer = ask.await;
                    self.set(match &answer {
                        Ok(it) => State::Known(it.clone()),
                        Err(_) => State::Unasked,
                    });
                    // Without anybody who waits, nobody is told.
                    let _ = tell.send(Some(answer.clone()));
                    return answer;
                }
                Turn::Wait(mut pending) => {
                    // Whoever asked may have given up; then it is somebody else's turn.
                    if let Ok(answer) = pending.wait_for(Option::is_some).await
                        && let Some(answer) = answer.clone()
                    {
                        return answer;
                    }
                }
            }
        }
    }

    fn turn(&self) -> Turn<T, E> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Known(answer) => Turn::Known(answer.clone()),
            // An error here: the one who asked is gone and has left no answer.
            State::Asking(pending) if pending.has_changed().is_ok() => Turn::Wait(pending.clone()),
            State::Asking(_) | State::Unasked => {
                let (tell, pending) = watch::channel(None);
                *state = State::Asking(pending);
                Turn::Ask(tell)
            }
        }
    }

    fn set(&self, state: State<T, E>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}
