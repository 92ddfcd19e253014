//! One kept connection to a socket: made when it is first needed, made anew when it has died, silent when idle (I-8).
//!
//! Whoever is at the other end of a driver's socket is asked for its name before anything else is sent, unless it has just
//! introduced itself: another driver may have taken the place of the one that was there, and would say yes to much
//! (`DeleteVolume` of what it does not know).
//!
//! Tells for certain whether a request can have left, which a general HTTP client does not: so much depends on it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::Service;
use tonic_prost::ProstCodec;

use crate::client::GET_PLUGIN_INFO;
use crate::proto::csi::{GetPluginInfoRequest, GetPluginInfoResponse};
use crate::text::{self, Secrets};

/// The longest path that fits into the address of a socket.
const ADDRESS_BYTES_MAX: usize = 107;

/// The words of a driver that refuses come in a header, and some talk a lot. What is larger breaks the call, and it would be
/// unknown what a refusal is.
const HEADERS_BYTES_MAX: u32 = 1 << 20;

/// Where to connect to.
pub(crate) enum Target {
    /// Whatever is at this path at the time.
    Path(PathBuf),
    /// This file, wherever it is: held open, so that it cannot become another.
    File(Arc<OwnedFd>),
}

/// Whether whoever is at the other end of a new connection is asked for its name.
pub(crate) enum Asks {
    /// No: it is to introduce itself.
    Never,
    /// It must be this driver. On the first connection it has just introduced itself, and is not asked.
    AgainFor(Arc<str>),
    /// It must be this driver.
    AlwaysFor(Arc<str>),
}

/// A connection, or the way to one.
pub(crate) struct Connection {
    target: Target,
    asks: Asks,
    connect_max: Duration,
    kept: Mutex<Kept>,
    /// Held by the one who connects; the others wait, and use what it has made.
    connecting: tokio::sync::Mutex<()>,
    /// How many connections have ended.
    ended: tokio::sync::watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    link: Option<Link>,
    made: u64,
    /// Why nothing was sent to whoever was there last, if it is not the driver.
    refused: Option<String>,
}

/// A connection that was made.
#[derive(Clone)]
struct Link {
    number: u64,
    sender: SendRequest<Body>,
    /// Whoever reads and writes owns it; when that ends, it is closed.
    socket: Weak<UnixStream>,
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) message: String,
    /// Somebody is there, and is not who it should be.
    pub(crate) stranger: bool,
}

impl Broken {
    fn new(message: String) -> Self {
        Self { message, stranger: false }
    }
}

/// How far a request has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing of it has left.
    NotSent,
    /// It may have left, on the connection with this number.
    Sent(u64),
}

impl Connection {
    pub(crate) fn new(target: Target, asks: Asks, connect_max: Duration) -> Self {
        let kept = Mutex::default();
        let ended = tokio::sync::watch::Sender::new(0);
        Self { target, asks, connect_max, kept, connecting: tokio::sync::Mutex::default(), ended }
    }

    /// Sends a request and waits for the beginning of its answer. `stage` is told of each change before it takes effect, so
    /// that it is right whenever this is dropped. A request that comes back unsent from a connection that has died is
    /// sent once more.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        stage: impl Fn(Stage),
    ) -> Result<Response<Incoming>, Broken> {
        let mut tries_left = 2;
        loop {
            let mut link = self.link().await?;
            stage(Stage::Sent(link.number));
            tries_left -= 1;
            match link.sender.try_send_request(request).await {
                Ok(answer) => return Ok(answer),
                Err(mut error) => {
                    self.give_up(link.number);
                    match error.take_message() {
                        Some(back) => {
                            stage(Stage::NotSent);
                            if tries_left == 0 {
                                let why = chain(error.error());
                                return Err(Broken::new(format!("the connection closes as soon as it is made: {why}")));
                            }
                            request = back;
                        }
                        None => {
                            return Err(Broken::new(format!("the connection was lost: {}", chain(error.error()))));
                        }
                    }
                }
            }
        }
    }

    /// Whether the first connection that was made still stands: whoever answered on it is the one that is there.
    pub(crate) fn is_first(&self) -> bool {
        self.live().is_some_and(|it| it.number == 1)
    }

    /// Waits until a connection has ended.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The other end is this value's own, so it does not go before.
        let _ = ended.wait_for(|it| *it > 0).await;
    }

    /// Why nothing was sent to whoever was there last, if it is not the driver.
    pub(crate) fn refused(&self) -> Option<String> {
        self.kept().refused.clone()
    }

    /// No new request goes to the connection with this number. Those under way go on.
    pub(crate) fn give_up(&self, number: u64) {
        let mut kept = self.kept();
        if kept.link.as_ref().is_some_and(|it| it.number == number) {
            kept.link = None;
        }
    }

    async fn link(&self) -> Result<Link, Broken> {
        if let Some(link) = self.live() {
            return Ok(link);
        }
        let _turn = self.connecting.lock().await;
        if let Some(link) = self.live() {
            return Ok(link);
        }
        let connected = match tokio::time::timeout(self.connect_max, self.connect_to_driver()).await {
            Ok(connected) => connected,
            Err(_) => Err(Broken::new(format!("no connection in {:?}", self.connect_max))),
        };
        let connected = connected.map_err(|broken| match broken.stranger {
            true => broken,
            false => Broken::new(format!("{} does not take calls: {}", self.place(), broken.message)),
        });
        let mut kept = self.kept();
        kept.refused = connected.as_ref().err().filter(|it| it.stranger).map(|it| it.message.clone());
        let (sender, socket) = connected?;
        kept.made += 1;
        let link = Link { number: kept.made, sender, socket };
        kept.link = Some(link.clone());
        Ok(link)
    }

    /// The kept connection, if nobody has closed it. The kernel is asked, for it knows of the end of a process before
    /// whoever reads the connection comes to it.
    fn live(&self) -> Option<Link> {
        let mut kept = self.kept();
        let live = kept.link.as_ref().is_some_and(|it| !it.sender.is_closed() && is_open(&it.socket));
        if !live {
            kept.link = None;
        }
        kept.link.clone()
    }

    /// Connects, and asks whoever is there who it is, where that is to be asked.
    async fn connect_to_driver(&self) -> Result<(SendRequest<Body>, Weak<UnixStream>), Broken> {
        let (sender, socket) = self.connect().await.map_err(|error| Broken::new(error.to_string()))?;
        let driver = match &self.asks {
            Asks::Never => return Ok((sender, socket)),
            Asks::AgainFor(_) if self.kept().made == 0 => return Ok((sender, socket)),
            Asks::AgainFor(driver) | Asks::AlwaysFor(driver) => driver,
        };
        let name = name_of(sender.clone()).await.map_err(Broken::new)?;
        if name == **driver {
            return Ok((sender, socket));
        }
        let (place, name) = (self.place(), text::shown(&name, &Secrets::default()));
        let message = format!("{place} is served by driver {name:?}, and not by {driver}: nothing is sent to it");
        Err(Broken { message, stranger: true })
    }

    async fn connect(&self) -> io::Result<(SendRequest<Body>, Weak<UnixStream>)> {
        let stream = Arc::new(match &self.target {
            Target::Path(path) if path.as_os_str().len() <= ADDRESS_BYTES_MAX => UnixStream::connect(path).await?,
            Target::Path(path) => {
                let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                UnixStream::connect(by_descriptor(&file)).await?
            }
            Target::File(file) => UnixStream::connect(by_descriptor(file)).await?,
        });
        let socket = Arc::downgrade(&stream);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .max_header_list_size(HEADERS_BYTES_MAX)
            .handshake(TokioIo::new(Shared(stream)))
            .await
            .map_err(io::Error::other)?;
        // Ends with the connection. What went wrong is told to the calls that it went wrong for.
        let ended = self.ended.clone();
        tokio::spawn(async move {
            let _ = connection.await;
            ended.send_modify(|it| *it += 1);
        });
        Ok((sender, socket))
    }

    fn place(&self) -> String {
        match &self.target {
            Target::Path(path) => path.display().to_string(),
            Target::File(_) => "the socket".to_string(),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is at the other end of a connection that was made just now.
async fn name_of(sender: SendRequest<Body>) -> Result<String, String> {
    let mut grpc = Grpc::with_origin(Alone(sender), Uri::from_static("http://localhost"));
    let (request, path) =
        (tonic::Request::new(GetPluginInfoRequest::default()), PathAndQuery::from_static(GET_PLUGIN_INFO));
    let codec = ProstCodec::<GetPluginInfoRequest, GetPluginInfoResponse>::default();
    let answer = grpc.unary(request, path, codec).await;
    answer.map(|it| it.into_inner().name).map_err(|status| format!("it does not say who it is: {status}"))
}

/// Makes calls on one connection and no other.
struct Alone(SendRequest<Body>);

impl Service<Request<Body>> for Alone {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// A path to an open file, however long its own path is, and whatever is there by now.
fn by_descriptor(file: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(OsStr::from_bytes(file.as_raw_fd().to_string().as_bytes()))
}

fn is_open(socket: &Weak<UnixStream>) -> bool {
    let Some(stream) = socket.upgrade() else { return false };
    let mut polled = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().is_empty()
}

/// An error with what is behind it, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(it) = next {
        text.push_str(": ");
        text.push_str(&it.to_string());
        next = it.source();
    }
    text
}

/// A stream that can be looked at while it is in use.
struct Shared(Arc<UnixStream>);

impl AsyncRead for Shared {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Shared {
    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&UnixStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for Shared {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |it| it.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |it| it.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whoever shuts it down drops it next, and that closes it.
        Poll::Ready(Ok(()))
    }
}
