//! Asks the daemon: HTTP/1.1 over its socket, JSON in the types of [`windlass_api::view`].
//!
//! Nothing here waits for ever, except a watch for its next line: connecting and answers have a deadline, and answers a
//! size. What becomes of an answer is the verbs' business.

use std::{
    env, io,
    marker::PhantomData,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{
    net::UnixStream,
    time::{Instant, sleep, timeout},
};
use windlass_api::view::{API_VERSION, WatchEvent};

use crate::{daemon::config::Settings, paths::Paths};

/// How long connecting may take, and how long an answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// Between two tries to connect to a daemon before which too many wait.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
/// No answer, and no line of a watch, is larger.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The daemon cannot be reached, or stopped talking.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    /// It could not be connected to.
    #[error("no daemon answers at {}", socket.display())]
    Connect {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    /// It took the question and did not answer in time.
    #[error("the daemon at {} did not answer in {} seconds", socket.display(), DEADLINE.as_secs())]
    Silent { socket: PathBuf },
    /// It hung up before the end of an answer.
    #[error("the answer of the daemon at {} broke off", socket.display())]
    BrokeOff {
        socket: PathBuf,
        #[source]
        source: Option<hyper::Error>,
    },
    /// A watch that was to go on ended in order.
    #[error("the daemon at {} has ended the watch", socket.display())]
    Ended { socket: PathBuf },
    /// It has too much to do.
    #[error("the daemon at {} cannot take more questions: {message}", socket.display())]
    Busy { socket: PathBuf, message: String },
}

impl Unreachable {
    /// What may help.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Connect { socket, .. } if std::fs::metadata(socket).is_ok_and(|it| !it.file_type().is_socket()) => {
                "that is no socket: see that --socket names the socket of a windlass daemon"
            }
            Self::Connect { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "start it with `windlass run`, or name its socket with --socket",
                io::ErrorKind::PermissionDenied => {
                    "the socket belongs to root and its group: use sudo, or join the group"
                }
                io::ErrorKind::ConnectionRefused => {
                    "it has ended without removing its socket: start it again with `windlass run`"
                }
                _ => "see that --socket names the socket of a windlass daemon",
            },
            Self::Silent { .. } => "see whether it is stopped or overloaded, and what its log says",
            Self::BrokeOff { .. } => "see whether it still runs, and what its log says",
            Self::Ended { .. } => "it is stopping or starting anew: ask again once it runs",
            Self::Busy { .. } => "end some of its clients, or start it with a higher --connections-max",
        }
    }
}

/// The daemon answered, and the answer is no.
#[derive(Debug, thiserror::Error)]
#[error("the daemon says: {message} ({reason})")]
pub(crate) struct Refused {
    code: StatusCode,
    reason: String,
    message: String,
}

/// Whether the daemon says that there is no such thing.
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|it| it.code == StatusCode::NOT_FOUND)
}

/// Whether the daemon understood and said no.
pub(crate) fn is_refused(error: &anyhow::Error) -> bool {
    error.is::<Refused>()
}

/// An error as the API spells it.
#[derive(Deserialize)]
struct Status {
    reason: String,
    message: String,
}

/// Asks one daemon.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    /// The daemon at this socket; without one the user's own if it is there, else the system's. Each is where its
    /// configuration file says.
    pub(crate) fn new(socket: Option<&Path>) -> Self {
        let own = || Some(configured(&Paths::own())).filter(|it| it.exists());
        let socket = socket.map(Path::to_owned).or_else(own).unwrap_or_else(|| configured(&Paths::system()));
        Self { socket }
    }

    /// Where it is asked.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The object at this path.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let bytes = self.in_time(async { self.read(self.ask(path).await?).await }).await?;
        serde_json::from_slice(&bytes).with_context(|| format!("the daemon's answer to {path} makes no sense"))
    }

    /// The object at this path; `None` if there is none.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Option<T>> {
        match self.get(path).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes away what is at this path, and answers what becomes of it.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let bytes = self.in_time(async { self.read(self.send(Method::DELETE, path).await?).await }).await?;
        serde_json::from_slice(&bytes).with_context(|| format!("the daemon's answer to {path} makes no sense"))
    }

    /// Does what is at this path, and answers what came of it.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let bytes = self.in_time(async { self.read(self.send(Method::POST, path).await?).await }).await?;
        serde_json::from_slice(&bytes).with_context(|| format!("the daemon's answer to {path} makes no sense"))
    }

    /// Everything at this path, and what changes from now on.
    pub(crate) async fn watch<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Watch<T>> {
        let path = format!("{path}?watch=true");
        let answer = self.in_time(self.ask(&path)).await?;
        if answer.status() != StatusCode::OK {
            self.in_time(self.read(answer)).await?;
            anyhow::bail!("the daemon's answer to {path} makes no sense");
        }
        Ok(Watch { client: self.clone(), body: answer.into_body(), unread: Vec::new(), searched: 0, kind: PhantomData })
    }

    async fn in_time<T>(&self, answer: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        match timeout(DEADLINE, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.silent().into()),
        }
    }

    /// That it takes too long.
    pub(crate) fn silent(&self) -> Unreachable {
        Unreachable::Silent { socket: self.socket.clone() }
    }

    /// A connection for each question: there are few, and a watch keeps its own.
    async fn ask(&self, path: &str) -> anyhow::Result<Response<Incoming>> {
        self.send(Method::GET, path).await
    }

    async fn send(&self, method: Method, path: &str) -> anyhow::Result<Response<Incoming>> {
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
            .with_context(|| format!("{path} is no path"))?;
        Ok(sender.send_request(request).await.map_err(|error| self.broke_off(Some(error)))?)
    }

    /// A full queue before the socket empties as the daemon takes what is in it, and nothing tells when it has: so this
    /// tries again, for as long as connecting may take.
    async fn connect(&self) -> Result<UnixStream, Unreachable> {
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
                    return Err(Unreachable::Busy { socket, message: "too many wait to be let in".into() });
                }
                _ => return Err(Unreachable::Connect { socket, source }),
            }
        }
    }

    /// The whole answer, unless it is an error.
    async fn read(&self, answer: Response<Incoming>) -> anyhow::Result<Vec<u8>> {
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
            return Err(Unreachable::Busy { socket: self.socket.clone(), message }.into());
        }
        Err(Refused { code, reason, message }.into())
    }

    /// Reads on; false at the end.
    async fn more(&self, body: &mut Incoming, bytes: &mut Vec<u8>) -> anyhow::Result<bool> {
        let Some(frame) = body.frame().await else { return Ok(false) };
        let frame = frame.map_err(|error| self.broke_off(Some(error)))?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
        anyhow::ensure!(bytes.len() <= BYTES_MAX, "the daemon's answer is larger than {} MiB", BYTES_MAX >> 20);
        Ok(true)
    }

    fn broke_off(&self, source: Option<hyper::Error>) -> Unreachable {
        Unreachable::BrokeOff { socket: self.socket.clone(), source }
    }
}

/// The socket of a daemon with these paths. What is wrong with its configuration is the daemon's to tell: here it counts
/// as none.
fn configured(paths: &Paths) -> PathBuf {
    let named = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(Into::into);
    let settings = Settings { config: named("WINDLASS_CONFIG"), ..Settings::default() };
    let settings = settings.with_file(paths).unwrap_or_default();
    let below = |it: PathBuf| it.join("api.sock");
    settings.socket.or(settings.runtime_directory.map(below)).unwrap_or_else(|| paths.socket())
}

/// Objects as they are and as they change.
pub(crate) struct Watch<T> {
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
    pub(crate) async fn next(&mut self) -> anyhow::Result<WatchEvent<T>> {
        loop {
            if let Some(end) = self.unread[self.searched..].iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=self.searched + end).collect();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line).context("a line of the daemon's watch makes no sense");
            }
            self.searched = self.unread.len();
            if !self.client.more(&mut self.body, &mut self.unread).await? {
                return Err(match self.unread.trim_ascii() {
                    [] => Unreachable::Ended { socket: self.client.socket.clone() },
                    _ => self.client.broke_off(None),
                }
                .into());
            }
        }
    }
}

/// The path of a list, of one namespace or of all.
pub(crate) fn list(namespace: Option<&str>, plural: &str) -> String {
    match namespace {
        Some(namespace) => format!("/apis/{API_VERSION}/namespaces/{}/{plural}", segment(namespace)),
        None => format!("/apis/{API_VERSION}/{plural}"),
    }
}

/// The path of a pod.
pub(crate) fn pod(namespace: &str, name: &str) -> String {
    format!("{}/{}", list(Some(namespace), "pods"), segment(name))
}

/// The path of a pod by its UID, whatever it is called.
pub(crate) fn pod_by_uid(uid: &str) -> String {
    format!("{}/{}", list(None, "pods"), segment(uid))
}

/// The path of the volumes that a pod has and does not name.
pub(crate) fn orphans(uid: &str) -> String {
    format!("{}/orphans", pod_by_uid(uid))
}

/// The path by which what failed is tried at once: of a pod, of one volume of it, or of everything.
pub(crate) fn retry(pod: Option<(&str, &str)>, volume: Option<&str>) -> String {
    match (pod, volume) {
        (None, _) => list(None, "retry"),
        (Some((namespace, name)), None) => format!("{}/retry", self::pod(namespace, name)),
        (Some((namespace, name)), Some(volume)) => {
            format!("{}/retry?volume={}", self::pod(namespace, name), segment(volume))
        }
    }
}

/// The path of a claim.
pub(crate) fn claim(namespace: &str, name: &str) -> String {
    format!("{}/{}", list(Some(namespace), "claims"), segment(name))
}

/// The path of what a pod's containers are to be given.
pub(crate) fn containers(namespace: &str, name: &str) -> String {
    format!("{}/containers", pod(namespace, name))
}

/// The path of how full a pod's volumes are.
pub(crate) fn statistics(namespace: &str, name: &str) -> String {
    format!("{}/statistics", pod(namespace, name))
}

/// The path of the node.
pub(crate) fn node() -> String {
    format!("/apis/{API_VERSION}/node")
}

/// What somebody typed as one part of a path, whatever it is.
fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => segment.push(char::from(byte)),
            // A dot too: `..` alone would lead elsewhere.
            b'.' if text.bytes().any(|it| it != b'.') => segment.push('.'),
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_stays_one_part_of_a_path() {
        for (text, expected) in
            [("web-1.a", "web-1.a"), ("..", "%2E%2E"), ("a/b?c", "a%2Fb%3Fc"), ("ü", "%C3%BC"), ("", "")]
        {
            assert_eq!(segment(text), expected);
        }
        assert_eq!(pod("default", "web"), "/apis/windlass/v1alpha1/namespaces/default/pods/web");
    }
}
