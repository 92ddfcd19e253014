//! A daemon that answers what it is told to, on a socket of its own.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const BASE: &str = "/apis/windlass/v1alpha1";

/// How the daemon answers a question.
#[derive(Clone)]
pub(crate) enum Answer {
    /// With this object.
    Object(Value),
    /// With an error.
    Status(u16, &'static str, &'static str),
    /// With a stream of these lines.
    Watch(Vec<String>, Ending),
    /// By hanging up.
    HangUp,
    /// With the first of these, the next time with the next, and with the last from then on.
    InTurn(Arc<Mutex<VecDeque<Answer>>>),
}

/// What follows the last line of a watch.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Ending {
    /// Nothing, until the client goes.
    Hold,
    /// The end, in order.
    End,
    /// Half a line, and then the connection breaks.
    Torn,
}

/// It ends, with everything it has made, when it is dropped.
pub(crate) struct Daemon {
    directory: TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Answers these paths below the API's, or from the root if they begin with two slashes; all others are not found.
    pub(crate) fn new(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> Self {
        let path = |it: &str| match it.strip_prefix("//") {
            Some(path) => format!("/{path}"),
            None => format!("{BASE}{it}"),
        };
        let answers: HashMap<_, _> = answers.into_iter().map(|(it, answer)| (path(it), answer)).collect();
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("api.sock")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let answers = &answers;
            std::thread::scope(|scope| {
                for connection in listener.incoming() {
                    if stopped.load(Ordering::SeqCst) {
                        break;
                    }
                    // A client that goes early is nothing to the daemon.
                    scope.spawn(move || drop(serve(connection.unwrap(), answers)));
                }
            });
        });
        Self { directory, stop, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("api.sock")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes it.
        drop(UnixStream::connect(self.socket()));
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the fake daemon failed");
        }
    }
}

fn serve(mut connection: UnixStream, answers: &HashMap<String, Answer>) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let missing = Answer::Status(404, "NotFound", "there is no such thing");
    let mut answer = answers.get(path).unwrap_or(&missing).clone();
    while let Answer::InTurn(turns) = answer {
        let mut turns = turns.lock().unwrap();
        answer = if turns.len() > 1 { turns.pop_front().unwrap() } else { turns[0].clone() };
    }
    match &answer {
        Answer::Object(object) => whole(&mut connection, 200, object),
        Answer::Status(code, reason, message) => {
            let status = json!({"apiVersion": "windlass/v1alpha1", "kind": "Status", "status": "Failure", "code": code,
                "reason": reason, "message": message});
            whole(&mut connection, *code, &status)
        }
        Answer::HangUp | Answer::InTurn(_) => Ok(()),
        Answer::Watch(lines, ending) => {
            write!(connection, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for line in lines {
                write!(connection, "{:x}\r\n{line}\n\r\n", line.len() + 1)?;
            }
            match ending {
                Ending::End => write!(connection, "0\r\n\r\n"),
                Ending::Torn => write!(connection, "5\r\n{{\"ty\r\n0\r\n\r\n"),
                // The client sends nothing more, so this ends when it goes.
                Ending::Hold => reader.read_to_end(&mut Vec::new()).map(drop),
            }
        }
    }
}

fn whole(connection: &mut UnixStream, code: u16, object: &Value) -> std::io::Result<()> {
    let text = object.to_string();
    let length = text.len();
    write!(connection, "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{text}")
}

pub(crate) fn in_turn(answers: impl IntoIterator<Item = Answer>) -> Answer {
    Answer::InTurn(Arc::new(Mutex::new(answers.into_iter().collect())))
}

pub(crate) fn object(object: &impl Serialize) -> Answer {
    Answer::Object(serde_json::to_value(object).unwrap())
}

/// A list of objects of this kind.
pub(crate) fn list<T: Serialize>(kind: &str, items: &[T]) -> Answer {
    Answer::Object(json!({"apiVersion": "windlass/v1alpha1", "kind": format!("{kind}List"), "items": items}))
}

/// A line of a watch.
pub(crate) fn line(kind: &str, object: &impl Serialize) -> String {
    json!({"type": kind, "object": object}).to_string()
}

pub(crate) fn bookmark() -> String {
    json!({"type": "BOOKMARK"}).to_string()
}
