//! Connections: how many, for how long, and how they end.
//!
//! Whoever finds no place waits for one for a moment, because most requests are short; then it is told so. Those who wait
//! have places of their own, and who finds none of these either is told at once. So there are never more descriptors or more
//! memory than the limits allow, whatever clients do. Watches, which last, may not take all places, and no user may take
//! those of the others or of root: see [`Places`].

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::backend::Backend;
use super::journal::Journal;
use super::places::{Places, Seat};
use super::routes::{self, Api};
use super::stall::Impatient;
use crate::view::Status;

/// How long a request may be without its body, in bytes.
const HEAD_MAX: usize = 16 * 1024;
/// How many may wait for a place, or be told that there is none.
const WAITING_MAX: usize = 128;
/// How long to leave new connections alone when the system has no room for them.
const PAUSE: Duration = Duration::from_millis(500);

/// What clients may use up.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// How many connections are served at a time.
    pub connections_max: usize,
    /// How many of them may be watches.
    pub watches_max: usize,
    /// How long one more waits for a place before it is told that there is none.
    pub patience: Duration,
    /// How long a client may take to send the head of a request, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long a client may take nothing of what it is sent.
    pub stall_timeout: Duration,
    /// How long answers that are under way may take when the daemon stops.
    pub end_timeout: Duration,
}

impl Limits {
    /// So many connections, of which a quarter is kept for requests that are no watches, and what suits everybody else.
    pub fn new(connections_max: usize) -> Self {
        Self {
            connections_max,
            watches_max: (connections_max - connections_max / 4).max(1),
            patience: Duration::from_secs(1),
            head_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            end_timeout: Duration::from_secs(2),
        }
    }
}

/// Serves until `stop` is told; returns when the listener is closed and connections have ended or been dropped.
///
/// ```no_run
/// use std::{path::Path, sync::Arc};
/// use tokio::sync::watch;
/// use windlass_api::server::{self, Backend, Journal, Limits};
///
/// # async fn example(backend: Arc<dyn Backend>) -> Result<(), server::Error> {
/// // The file of the socket goes with `file`.
/// let (listener, file) = server::bind(Path::new("/run/example/api.sock"), None)?;
/// let (stop, stopped) = watch::channel(false);
/// let serving = tokio::spawn(server::serve(listener, backend, Arc::new(Journal::new()), Limits::new(64), stopped));
/// // Until somebody wants it to end.
/// stop.send_replace(true);
/// let _ = serving.await;
/// # Ok(())
/// # }
/// ```
pub async fn serve(
    listener: UnixListener,
    backend: Arc<dyn Backend>,
    journal: Arc<Journal>,
    limits: Limits,
    stop: watch::Receiver<bool>,
) {
    let router = routes::router(Api { backend, journal, stop: stop.clone() });
    serve_all(async move || Ok(listener.accept().await?.0), router, limits, stop).await;
}

/// Serves metrics and nothing else, on a port: whoever can reach it may read them. Otherwise as [`serve`].
pub async fn serve_metrics(
    listener: TcpListener,
    backend: Arc<dyn Backend>,
    limits: Limits,
    stop: watch::Receiver<bool>,
) {
    let router = routes::metrics_router(backend);
    serve_all(async move || Ok(listener.accept().await?.0), router, limits, stop).await;
}

/// A connection to a client.
trait Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static {
    /// Who is at the other end, as far as this daemon's user namespace knows them; nobody in particular if the kernel does
    /// not say.
    fn user(&self) -> u32;

    /// Writes as much as can be written without waiting.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl Stream for UnixStream {
    fn user(&self) -> u32 {
        self.peer_cred().map_or(u32::MAX, |it| it.uid())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }
}

impl Stream for TcpStream {
    fn user(&self) -> u32 {
        u32::MAX
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }
}

async fn serve_all<S: Stream>(
    accept: impl AsyncFn() -> io::Result<S>,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let server = Server {
        router,
        limits,
        places: Places::new(limits.connections_max),
        watches: Places::new(limits.watches_max),
        stop: stop.clone(),
    };
    let waiting = Places::new(WAITING_MAX);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = told(&mut stop) => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept() => accepted,
        };
        match accepted {
            Ok(stream) => {
                let user = stream.user();
                match waiting.take(user) {
                    Some(turn) => {
                        let server = server.clone();
                        connections.spawn(async move { server.welcome(stream, user, turn).await });
                    }
                    // As far as that can be said without waiting.
                    None => _ = stream.try_write(routes::refusal().as_bytes()),
                }
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
    drop(accept);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.end_timeout, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

/// Waits until it is told to stop. If whoever would tell is gone, that is the end too.
pub(super) async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}

#[derive(Clone)]
struct Server {
    router: Router,
    limits: Limits,
    places: Places,
    watches: Places,
    stop: watch::Receiver<bool>,
}

/// Who asks, and what it may still have.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    user: u32,
    watches: Places,
}

impl Asker {
    /// Whose process it is, as the kernel says.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    /// A place for one more watch.
    pub(super) fn watch(&self) -> Result<Seat, Status> {
        self.watches.take(self.user).ok_or_else(|| {
            let (all, own) = (self.watches.max(), self.watches.max_of(self.user));
            Status::unavailable(format!(
                "there is no place for one more watch: {all} may be open at a time, and {own} of one user; \
                 everything else is still answered"
            ))
        })
    }
}

impl Server {
    /// Serves a client, or tells it that there is no place.
    async fn welcome(self, stream: impl Stream, user: u32, turn: Seat) {
        match self.places.wait(user, self.limits.patience).await {
            Some(_place) => {
                drop(turn);
                let router = self.router.clone();
                self.serve(stream, user, router).await;
            }
            None => {
                let refused = self.serve(stream, user, routes::refusing());
                // One that does not even take the refusal must not keep others from theirs.
                let _ = timeout(Duration::from_secs(1), refused).await;
            }
        }
    }

    async fn serve(mut self, stream: impl Stream, user: u32, router: Router) {
        let asker = Asker { user, watches: self.watches.clone() };
        let routes = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(asker.clone());
            routes.call(request)
        });
        let io = TokioIo::new(Impatient::new(stream, self.limits.stall_timeout));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_buf_size(HEAD_MAX)
            .serve_connection(io, service);
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
