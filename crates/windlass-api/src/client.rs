//! Asks the daemon: HTTP/1.1 over its socket, JSON in the types of [`crate::view`].
//!
//! Nothing here waits for ever, except a watch for its next line: connecting and answers have a deadline, and answers a
//! size. Everything runs on the caller's tokio runtime.
//!
//! ```no_run
//! use windlass_api::{client::Client, paths, view::{Pod, WatchKind}};
//!
//! # async fn example() -> Result<(), windlass_api::client::Error> {
//! let client = Client::new("/run/windlass/api.sock");
//! match client.find::<Pod>(&paths::pod("default", "web")).await? {
//!     Some(pod) => println!("{} has {} volumes", pod.metadata.name, pod.status.volumes.len()),
//!     None => println!("there is no such pod"),
//! }
//! // All pods, and what becomes of them.
//! let mut watch = client.watch::<Pod>(&paths::list(None, "pods")).await?;
//! loop {
//!     let event = watch.next().await?;
//!     match (event.kind, event.object) {
//!         (WatchKind::Bookmark, _) => println!("that was all there is; now come the changes"),
//!         (kind, Some(pod)) => println!("{kind:?} {}", pod.metadata.name),
//!         (_, None) => {}
//!     }
//! }
//! # }
//! ```

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use crate::view::WatchEvent;

/// How long connecting may take, and how long an answer.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Between two tries to connect to a daemon before which too many wait.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// No answer, and no line of a watch, is larger.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon could not be connected to.
    #[error("no daemon answers at {}", socket.display())]
    Connect {
        /// Where it was looked for.
        socket: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It took the question and did not answer in time.
    #[error("the daemon at {} did not answer in {} seconds", socket.display(), DEADLINE.as_secs())]
    Silent {
        /// Where it was asked.
        socket: PathBuf,
    },
    /// It hung up before the end of an answer.
    #[error("the answer of the daemon at {} broke off", socket.display())]
    BrokeOff {
        /// Where it was asked.
        socket: PathBuf,
        /// What went wrong; none if it ended in the middle of a line.
        #[source]
        source: Option<hyper::Error>,
    },
    /// A watch that was to go on ended in order.
    #[error("the daemon at {} has ended the watch", socket.display())]
    Ended {
        /// Where it was asked.
        socket: PathBuf,
    },
    /// It has too much to do, or is not ready.
    #[error("the daemon at {} cannot take more questions: {message}", socket.display())]
    Busy {
        /// Where it was asked.
        socket: PathBuf,
        /// What it says.
        message: String,
    },
    /// It answered, and the answer is no.
    #[error("the daemon says: {message} ({reason})")]
    Refused {
        /// The status code of HTTP.
        code: u16,
        /// What is wrong, as a word.
        reason: String,
        /// What is wrong, for people.
        message: String,
    },
    /// What was asked for cannot be a path.
    #[error("{path} is no path")]
    Path {
        /// What was asked for.
        path: String,
        /// What is wrong with it.
        #[source]
        source: hyper::http::Error,
    },
    /// The answer is not what the API promises.
    #[error("the daemon's answer to {path} makes no sense")]
    Answer {
        /// What was asked for.
        path: String,
        /// What is wrong with it, if it can be told.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// A line of a watch is not what the API promises.
    #[error("a line of the daemon's watch makes no sense")]
    Line {
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The answer is larger than any that makes sense.
    #[error("the daemon's answer is larger than {} MiB", BYTES_MAX >> 20)]
    TooLarge,
}

impl Error {
    /// The daemon cannot be reached, stopped talking, or has too much to do: it said nothing of what was asked.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Silent { .. }
            | Self::BrokeOff { .. }
            | Self::Ended { .. }
            | Self::Busy { .. } => true,
            Self::Refused { .. } | Self::Path { .. } | Self::Answer { .. } | Self::Line { .. } | Self::TooLarge => {
                false
            }
        }
    }

    /// The same question may be answered another time, without anybody changing anything about it.
    pub fn is_retryable(&self) -> bool {
        match self {
            // Rights do not come by themselves.
            Self::Connect { source, .. } => source.kind() != io::ErrorKind::PermissionDenied,
            Self::Refused { code, .. } => matches!(*code, 408 | 504),
            Self::Silent { .. } | Self::BrokeOff { .. } | Self::Ended { .. } | Self::Busy { .. } => true,
            Self::Path { .. } | Self::Answer { .. } | Self::Line { .. } | Self::TooLarge => false,
        }
    }

    /// The daemon says that there is no such thing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// The daemon understood and said no.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// An error as the API spells it.
#[derive(Deserialize)]
struct Status {
    reason: String,
    message: String,
}

type Result<T> = std::result::Result<T, Error>;

/// Asks one daemon. Cheap to clone; each question has a connection of its own.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// The daemon at this socket. Nothing is connected before something is asked.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Where it is asked.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The object at this path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::GET, path).await
    }

    /// The object at this path; `None` if there is none.
    pub async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>> {
        match self.get(path).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes away what is at this path, and answers what becomes of it.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::DELETE, path).await
    }

    /// Does what is at this path, and answers what came of it.
    pub async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask(Method::POST, path).await
    }

    /// Everything at this path, and what changes from now on.
    pub async fn watch<T: DeserializeOwned>(&self, path: &str) -> Result<Watch<T>> {
        let path = format!("{path}?watch=true");
        let answer = self.in_time(self.send(Method::GET, &path)).await?;
        if answer.status() != StatusCode::OK {
            self.in_time(self.read(answer)).await?;
            return Err(Error::Answer { path, source: None });
        }
        Ok(Watch { client: self.clone(), body: answer.into_body(), unread: Vec::new(), searched: 0, kind: PhantomData })
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T> {
        let bytes = self.in_time(async { self.read(self.send(method, path).await?).await }).await?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Answer { path: path.into(), source: Some(error) })
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let silent = || Error::Silent { socket: self.socket.clone() };
        timeout(DEADLINE, answer).await.unwrap_or_else(|_| Err(silent()))
    }

    /// A connection for each question: there are few, and a watch keeps its own.
    async fn send(&self, method: Method, path: &str) -> Result<Response<Incoming>> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broke_off(Some(error)))?;
        // Its errors come out of the answer too.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "windlass")
            .header(header::ACCEPT, "application/json")
            .body(Empty::<Bytes>::new())
            .map_err(|error| Error::Path { path: path.into(), source: error })?;
        sender.send_request(request).await.map_err(|error| self.broke_off(Some(error)))
    }

    /// A full queue before the socket empties as the daemon takes what is in it, and nothing tells when it has: so this
    /// tries again, for as long as connecting may take.
    async fn connect(&self) -> Result<UnixStream> {
        let deadline = Instant::now() + DEADLINE - CONNECT_PAUSE * 2;
        loop {
            let source = match UnixStream::connect(&self.socket).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let socket = self.socket.clone();
            match source.kind() {
                io::ErrorKind::WouldBlock if Instant::now() < deadline => sleep(CONNECT_PAUSE).await,
                io::ErrorKind::WouldBlock => {
                    return Err(Error::Busy { socket, message: "too many wait to be let in".into() });
                }
                _ => return Err(Error::Connect { socket, source }),
            }
        }
    }

    /// The whole answer, unless it is an error.
    async fn read(&self, answer: Response<Incoming>) -> Result<Vec<u8>> {
        let code = answer.status();
        let mut body = answer.into_body();
        let mut bytes = Vec::new();
        while self.more(&mut body, &mut bytes).await? {}
        if code == StatusCode::OK {
            return Ok(bytes);
        }
        let Status { reason, message } = serde_json::from_slice(&bytes).unwrap_or_else(|_| Status {
            reason: code.to_string(),
            message: "it does not say why; is this the socket of a windlass daemon?".into(),
        });
        if code == StatusCode::SERVICE_UNAVAILABLE {
            return Err(Error::Busy { socket: self.socket.clone(), message });
        }
        Err(Error::Refused { code: code.as_u16(), reason, message })
    }

    /// Reads on; false at the end.
    async fn more(&self, body: &mut Incoming, bytes: &mut Vec<u8>) -> Result<bool> {
        let Some(frame) = body.frame().await else { return Ok(false) };
        let frame = frame.map_err(|error| self.broke_off(Some(error)))?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() > BYTES_MAX { Err(Error::TooLarge) } else { Ok(true) }
    }

    fn broke_off(&self, source: Option<hyper::Error>) -> Error {
        Error::BrokeOff { socket: self.socket.clone(), source }
    }
}

/// Objects as they are and as they change.
#[derive(Debug)]
pub struct Watch<T> {
    client: Client,
    body: Incoming,
    /// What was read and not yet returned.
    unread: Vec<u8>,
    /// So much of it holds no end of a line.
    searched: usize,
    kind: PhantomData<T>,
}

impl<T: DeserializeOwned> Watch<T> {
    /// The next step. A watch has no end of its own, so its end is an error.
    pub async fn next(&mut self) -> Result<WatchEvent<T>> {
        loop {
            if let Some(end) = self.unread[self.searched..].iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=self.searched + end).collect();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line).map_err(|error| Error::Line { source: error });
            }
            self.searched = self.unread.len();
            if !self.client.more(&mut self.body, &mut self.unread).await? {
                return Err(match self.unread.trim_ascii() {
                    [] => Error::Ended { socket: self.client.socket.clone() },
                    _ => self.client.broke_off(None),
                });
            }
        }
    }
}
