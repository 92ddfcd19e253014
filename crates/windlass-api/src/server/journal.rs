//! What happened, as it is shown later: the newest events, those that say the same counted together, and what was found
//! on disk that is not windlass's. Whoever follows the node tells it; the server only reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::view::{self, EventStatus, Metadata, Problem, Severity};

/// How many different events are kept.
const EVENTS_MAX: usize = 1000;
/// How many things on disk that are not ours are kept.
const FOUND_MAX: usize = 200;

/// Keeps what happened.
#[derive(Debug)]
pub struct Journal {
    kept: Mutex<Kept>,
    /// Counts up with every event.
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first, by the number in their name.
    events: VecDeque<view::Event>,
    next: u64,
    found: BTreeMap<String, Problem>,
}

impl Default for Journal {
    fn default() -> Self {
        Self::new()
    }
}

impl Journal {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self { kept: Mutex::default(), version: watch::Sender::new(0) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event of a pod, which is called `title`, that is `namespace/name`. `tone` is `Normal` or `Warning`. One that says
    /// the same as an earlier one is counted with it.
    pub fn pod_event(&self, title: &str, uid: &str, tone: &str, reason: &str, message: &str) {
        let (namespace, pod) = view::split(title);
        let status = EventStatus { pod: pod.clone(), pod_uid: uid.into(), ..event(tone, reason, message) };
        self.keep(namespace, &pod, status);
    }

    /// The same of a claim.
    pub fn claim_event(&self, title: &str, tone: &str, reason: &str, message: &str) {
        let (namespace, claim) = view::split(title);
        let status = EventStatus { claim: Some(claim.clone()), ..event(tone, reason, message) };
        self.keep(namespace, &claim, status);
    }

    /// Keeps an event, or counts it with an earlier one.
    fn keep(&self, namespace: Option<String>, of: &str, status: EventStatus) {
        let mut kept = self.kept();
        let same = |it: &view::Event| {
            it.status.pod_uid == status.pod_uid
                && it.status.claim == status.claim
                && it.metadata.namespace == namespace
                && it.status.reason == status.reason
                && it.status.message == status.message
        };
        if let Some(index) = kept.events.iter().position(same)
            && let Some(mut earlier) = kept.events.remove(index)
        {
            earlier.status.count += 1;
            earlier.status.last_time = status.last_time;
            kept.events.push_back(earlier);
        } else {
            kept.next += 1;
            let metadata = Metadata { namespace, name: format!("{of}.{}", kept.next), uid: None };
            kept.events.push_back(view::Object::new(metadata, status));
            if kept.events.len() > EVENTS_MAX {
                kept.events.pop_front();
            }
        }
        drop(kept);
        self.version.send_modify(|it| *it += 1);
    }

    /// Something is on disk that is not windlass's, or makes no sense.
    pub fn found(&self, path: &str, message: &str) {
        let problem = Problem {
            severity: Severity::NotOurs,
            path: path.into(),
            line: None,
            object: None,
            message: message.into(),
        };
        let mut kept = self.kept();
        if kept.found.len() < FOUND_MAX {
            kept.found.insert(format!("{path}\0{message}"), problem);
        }
    }

    /// It is gone, or is not in the way any more.
    pub fn cleared(&self, path: impl FnOnce() -> String) {
        let mut kept = self.kept();
        if !kept.found.is_empty() {
            let path = path();
            kept.found.retain(|_, it| it.path != path);
        }
    }

    /// The events, oldest first.
    pub fn events(&self) -> Vec<view::Event> {
        self.kept().events.iter().cloned().collect()
    }

    /// What is on disk and not ours.
    pub fn not_ours(&self) -> Vec<Problem> {
        self.kept().found.values().cloned().collect()
    }

    /// Changes with every event.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

/// What happened just now, to nobody yet.
fn event(tone: &str, reason: &str, message: &str) -> EventStatus {
    let now = Timestamp::now();
    EventStatus {
        tone: tone.into(),
        reason: reason.into(),
        message: message.into(),
        pod: String::new(),
        pod_uid: String::new(),
        claim: None,
        count: 1,
        first_time: now,
        last_time: now,
    }
}
