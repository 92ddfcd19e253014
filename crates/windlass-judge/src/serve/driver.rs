//! How a call is carried out: it is judged, may be refused or made to fail, and is done. What the caller hears is told to
//! the judge, also if the caller is gone before.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::place::Places;
use super::socket::Cut;
use super::{Listener, Told};
use crate::call::{Asked, Reply};
use crate::fault::FaultKind;
use crate::settings::Settings;
use crate::{Begun, Judge, Verdict};

/// The driver that all services are parts of.
pub(super) struct Driver {
    pub(super) name: String,
    pub(super) endpoint: PathBuf,
    settings: Settings,
    judge: Mutex<Judge>,
    places: Arc<Places>,
    listener: Listener,
    began: Instant,
    /// Told of every call that ends.
    changed: watch::Sender<()>,
    /// Ends calls that are not answered on purpose.
    stopped: watch::Sender<bool>,
}

impl Driver {
    pub(super) fn new(
        name: String,
        endpoint: PathBuf,
        settings: Settings,
        places: Places,
        listener: Listener,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            endpoint,
            judge: Mutex::new(Judge::new(settings.clone())),
            settings,
            places: Arc::new(places),
            listener,
            began: Instant::now(),
            changed: watch::Sender::new(()),
            stopped: watch::Sender::new(false),
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn idle_after(&self) -> Option<Duration> {
        self.judge().idle_after()
    }

    /// News of every call that ends.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn stop(&self) {
        self.judge().stop();
        self.stopped.send_replace(true);
    }

    /// Takes away what is left, and says what was found.
    pub(super) fn conclude(&self) -> Verdict {
        let mut verdict = self.judge().verdict();
        let (taken_away, troubles) = self.places.close();
        (verdict.taken_away, verdict.troubles) = (taken_away, troubles);
        verdict
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, asked: Asked) -> (Begun, Heard) {
        let mut judge = self.judge();
        let begun = judge.begin(self.began.elapsed(), asked);
        let (shown, news) = (judge.show(begun.number), judge.news());
        drop(judge);
        (self.listener)(Told::Begun(&shown));
        for it in &news {
            (self.listener)(Told::Breach(it));
        }
        let heard = Heard { driver: self.clone(), number: begun.number, at: shown.at, answer: Reply::Unheard };
        (begun, heard)
    }

    /// A question that always has an answer.
    pub(super) fn question<A>(self: &Arc<Self>, asked: Asked, answer: A) -> Result<Response<A>, Status> {
        let (_, mut heard) = self.begin(asked);
        heard.answer = Reply::Done;
        Ok(Response::new(answer))
    }

    /// Judges a call and carries it out, on a thread that may block. Work that has begun goes on to its end although the
    /// caller has gone.
    pub(super) async fn call<T: Send + 'static, A: Default + Send + 'static>(
        self: &Arc<Self>,
        request: Request<T>,
        read: impl FnOnce(&T) -> Asked,
        work: impl FnOnce(&Places, T, &Begun) -> Result<A, Status> + Send + 'static,
    ) -> Result<Response<A>, Status> {
        let cut = request.extensions().get::<Cut>().cloned();
        let request = request.into_inner();
        let (begun, mut heard) = self.begin(read(&request));
        let done = match (&begun.refusal, begun.fault) {
            (Some(refusal), _) => Err(Status::new(refusal.code, refusal.text.clone())),
            (None, Some(FaultKind::Lie)) => Ok(A::default()),
            (None, Some(kind)) if !kind.has_effect() => self.fail(kind, cut).await,
            (None, fault) => {
                let places = self.places.clone();
                let done = tokio::task::spawn_blocking(move || {
                    let done = work(&places, request, &begun);
                    if let Err(status) = &done {
                        places.trouble(status.message());
                    }
                    done
                });
                let done = done.await.unwrap_or_else(|_| Err(Status::internal("the judge itself failed")));
                match fault {
                    Some(FaultKind::Slow) => {
                        tokio::time::sleep(self.settings.slow_by).await;
                        done
                    }
                    Some(FaultKind::TooSmall) | None => done,
                    Some(kind) => self.fail(kind, cut).await,
                }
            }
        };
        heard.answer = match &done {
            Ok(_) => Reply::Done,
            Err(status) => Reply::of(status.code()),
        };
        done.map(Response::new)
    }

    /// Fails a call.
    async fn fail<A>(&self, kind: FaultKind, cut: Option<Cut>) -> Result<A, Status> {
        if let Some(code) = kind.code() {
            return Err(Status::new(code, "a fault that the judge was told to play"));
        }
        if let (FaultKind::ConnectionLostWithEffect | FaultKind::ConnectionLostWithoutEffect, Some(cut)) = (kind, cut) {
            cut.now();
        }
        // The call ends with its connection, or when its caller gives up.
        let _ = self.stopped.subscribe().wait_for(|it| *it).await;
        Err(Status::unavailable("the judge ends"))
    }
}

/// Tells the judge how a call ended, whichever way it does.
struct Heard {
    driver: Arc<Driver>,
    number: u64,
    at: Duration,
    answer: Reply,
}

impl Drop for Heard {
    fn drop(&mut self) {
        let mut judge = self.driver.judge();
        judge.end(self.number, self.answer);
        let shown = judge.show(self.number);
        drop(judge);
        (self.driver.listener)(Told::Ended(&shown, self.driver.began.elapsed().saturating_sub(self.at)));
        self.driver.changed.send_replace(());
    }
}
