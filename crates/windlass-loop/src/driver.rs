//! The driver that all services are parts of: its settings, its volumes, and how a call is carried out.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::{Code, Response, Status};

use crate::store::Store;

/// What the driver is told when it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The driver's name: `loop.csi.windlass.dev`.
    pub name: String,
    /// The name of the node, which is its id too.
    pub node_id: String,
    /// Volumes must be attached before they are staged.
    pub attach: bool,
    /// How many volumes may be attached, or are said to be possible; 0 for no limit.
    pub volumes_max: u32,
    /// The driver gives volumes to a group itself.
    pub mount_group: bool,
}

impl Settings {
    /// The key of the one thing that tells where a volume can be used.
    #[must_use]
    pub fn topology_key(&self) -> String {
        format!("topology.{}/node", self.name)
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{value}\" cannot be used: it must have 1 to 63 letters, digits, \"-\" and \".\"{}, and begin and end with a letter or a digit", if *underscore { " and \"_\"" } else { "" })]
pub struct NameError {
    what: &'static str,
    value: String,
    underscore: bool,
}

/// Checks the name of a driver: it becomes part of paths and of labels.
pub fn check_name(value: &str) -> Result<String, NameError> {
    checked("the driver's name", value, false)
}

/// Checks the name of a node: it becomes the value of a label.
pub fn check_node_id(value: &str) -> Result<String, NameError> {
    checked("the node's name", value, true)
}

fn checked(what: &'static str, value: &str, underscore: bool) -> Result<String, NameError> {
    let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'.' || underscore && it == b'_';
    let edge = |it: Option<&u8>| it.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    if bytes.len() <= 63 && bytes.iter().copied().all(plain) && edge(bytes.first()) && edge(bytes.last()) {
        return Ok(value.to_owned());
    }
    let value = value.chars().take(80).collect::<String>().escape_debug().to_string();
    Err(NameError { what, value, underscore })
}

/// The driver.
pub struct Driver {
    /// What it was told.
    pub settings: Settings,
    /// Its volumes.
    pub store: Arc<Store>,
    /// Held while it is counted how many volumes are attached.
    pub(crate) attaching: Mutex<()>,
    /// One for each call that may change something at a time.
    turns: Arc<Semaphore>,
}

/// How many calls change something at a time, for each processor. They start programs that keep one busy: more at a time
/// take longer together.
const AT_ONCE: usize = 4;

/// How a call is told in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// It looks.
    Question,
    /// It changes something.
    Change,
}

impl Driver {
    /// A driver of these volumes.
    #[must_use]
    pub fn new(settings: Settings, store: Arc<Store>) -> Arc<Self> {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let turns = Arc::new(Semaphore::new(AT_ONCE * processors));
        Arc::new(Self { settings, store, attaching: Mutex::default(), turns })
    }

    /// Carries out a call on a thread that may block, once its turn comes. What was begun goes on to its end although the
    /// caller has gone.
    pub(crate) async fn call<Answer: Send + 'static>(
        self: &Arc<Self>,
        (kind, method): (CallKind, &'static str),
        volume: String,
        work: impl FnOnce(&Self) -> Result<Answer, Status> + Send + 'static,
    ) -> Result<Response<Answer>, Status> {
        let driver = self.clone();
        let turn = match kind {
            CallKind::Change => self.turns.clone().acquire_owned().await.ok(),
            CallKind::Question => None,
        };
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let begun = Instant::now();
            let done = work(&driver);
            let took = begun.elapsed();
            match (&done, kind) {
                (Ok(_), CallKind::Change) => tracing::info!(method, volume, ?took, "done"),
                (Ok(_), CallKind::Question) => tracing::debug!(method, volume, ?took, "answered"),
                (Err(status), _) => {
                    tracing::warn!(method, volume, ?took, code = ?status.code(), error = status.message(), "refused");
                }
            }
            done
        });
        match done.await {
            Ok(done) => done.map(Response::new),
            Err(_) => Err(Status::new(Code::Internal, format!("{method} ended in a panic; the log tells of it"))),
        }
    }
}

/// An argument that must not be empty.
pub(crate) fn given(what: &str, value: &str) -> Result<(), Status> {
    if value.is_empty() { Err(Status::invalid_argument(format!("the {what} is missing"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["loop.csi.windlass.dev", "a", "A-1"] {
            check_name(name).unwrap();
        }
        for name in ["", ".", "a/b", "-a", "a-", "a_b", "ä", &"a".repeat(64)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_node_id("node_1").unwrap();
        let error = check_name("a/b").unwrap_err().to_string();
        assert!(error.starts_with("the driver's name \"a/b\" cannot be used: it must have"), "{error}");
    }
}
