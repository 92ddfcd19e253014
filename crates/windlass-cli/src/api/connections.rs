//! Connections: how many, for how long, and how they end.
//!
//! Whoever finds no place waits for one for a moment, because most requests are short; then it is told so. Those who wait
//! have places of their own, and when these are taken too, connections stay in the kernel's queue. So there are never more
//! descriptors or more memory than the limits allow, whatever clients do.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    routes::{self, Api},
    stall::Impatient,
};
use crate::daemon::shared::Shared;

/// How long a request may be without its body, in bytes.
const HEAD_MAX: usize = 16 * 1024;
/// How many may wait for a place, or be told that there is none.
const WAITING_MAX: usize = 32;
/// How long to leave new connections alone when the system has no room for them.
const PAUSE: Duration = Duration::from_millis(500);

/// What clients may use up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How many connections are served at a time.
    pub(crate) connections_max: usize,
    /// How long one more waits for a place before it is told that there is none.
    pub(crate) patience: Duration,
    /// How long a client may take to send the head of a request, and how long a connection may be idle.
    pub(crate) head_timeout: Duration,
    /// How long a client may take nothing of what it is sent.
    pub(crate) stall_timeout: Duration,
    /// How long answers that are under way may take when the daemon stops.
    pub(crate) end_timeout: Duration,
}

impl Limits {
    /// So many connections, and what suits everybody else.
    pub(crate) fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            patience: Duration::from_secs(1),
            head_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            end_timeout: Duration::from_secs(2),
        }
    }
}

/// Serves until `stop` is told; returns when the listener is closed and connections have ended or been dropped.
pub(crate) async fn serve(
    listener: UnixListener,
    shared: Arc<Shared>,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let api = Api { shared, stop: stop.clone() };
    let server = Server { router: routes::router(api), limits, stop: stop.clone() };
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = told(&mut stop) => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &waiting) => accepted,
        };
        match accepted {
            Ok((stream, turn)) => {
                let (server, places) = (server.clone(), places.clone());
                connections.spawn(async move { server.welcome(stream, turn, places).await });
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a client of the API could not be accepted");
                tokio::select! {
                    () = told(&mut stop) => break,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.end_timeout, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// The next client, once there is room for one who waits.
async fn accept(listener: &UnixListener, waiting: &Arc<Semaphore>) -> io::Result<(UnixStream, OwnedSemaphorePermit)> {
    let turn = waiting.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, turn))
}

/// Waits until it is told to stop. If whoever would tell is gone, that is the end too.
pub(super) async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}

#[derive(Clone)]
struct Server {
    router: Router,
    limits: Limits,
    stop: watch::Receiver<bool>,
}

impl Server {
    /// Serves a client, or tells it that there is no place.
    async fn welcome(self, stream: UnixStream, turn: OwnedSemaphorePermit, places: Arc<Semaphore>) {
        match timeout(self.limits.patience, places.acquire_owned()).await {
            Ok(Ok(_place)) => {
                drop(turn);
                let router = self.router.clone();
                self.serve(stream, router).await;
            }
            Ok(Err(_)) | Err(_) => {
                let refused = self.serve(stream, routes::refusing());
                // One that does not even take the refusal must not keep others from theirs.
                let _ = timeout(Duration::from_secs(1), refused).await;
            }
        }
    }

    async fn serve(mut self, stream: UnixStream, router: Router) {
        let io = TokioIo::new(Impatient::new(stream, self.limits.stall_timeout));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_buf_size(HEAD_MAX)
            .serve_connection(io, TowerToHyperService::new(router));
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = told(&mut self.stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = &error as &dyn std::error::Error, "a client of the API went away");
        }
    }
}
