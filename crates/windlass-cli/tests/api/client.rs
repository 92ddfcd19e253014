//! A client that says what it gets, and some that misbehave.

use std::path::Path;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The names of the objects of a list.
    pub(crate) fn names(&self) -> Vec<String> {
        let items = self.json()["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn open(socket: &Path, method: &str, path: &str) -> Response<Incoming> {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap()
}

pub(crate) async fn ask(socket: &Path, method: &str, path: &str) -> Answer {
    let (parts, body) = open(socket, method, path).await.into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    Answer { code: parts.status, headers: parts.headers, text: String::from_utf8(text.into()).unwrap() }
}

/// How a request that may have no end is answered.
pub(crate) async fn status(socket: &Path, path: &str) -> StatusCode {
    open(socket, "GET", path).await.status()
}

/// A watch that is read line by line.
pub(crate) struct Watch {
    body: Incoming,
    text: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(socket: &Path, path: &str) -> Self {
        let response = open(socket, "GET", path).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/json;stream=watch");
        Self { body: response.into_body(), text: Vec::new() }
    }

    /// The next step; `None` once the watch has ended in order.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match self.body.frame().await {
                Some(frame) => self.text.extend_from_slice(&frame.unwrap().into_data().unwrap()),
                None => {
                    assert!(self.text.is_empty(), "it ended in the middle of a line");
                    return None;
                }
            }
        }
    }

    /// The first step that is so.
    pub(crate) async fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let step = self.next().await.expect("the watch has ended");
            if is(&step) {
                return step;
            }
        }
    }
}

/// What the server says to these bytes before it closes the connection.
pub(crate) async fn say(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    // The server may close before it has read all.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
