//! What the parts of the daemon have in common, and what the API shows.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use windlass::{
    Node,
    node::Ended,
    source::directory::{Directory, Summary},
    view::{self, Condition, Counts, Metadata, NodeStatus, Severity},
};

use super::journal::Journal;

/// Why it is not known what was on disk, as a word and for people.
pub(crate) const NOT_SYNCED: (&str, &str) = ("DiskNotRead", "The disk has not been read to the end.");
/// Why nothing is taken away, as a word and for people.
pub(crate) const NOT_COMPLETE: (&str, &str) =
    ("SourceIncomplete", "A manifest could not be read since the start, so nothing is taken away.");

/// The running daemon.
pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) source: Directory,
    pub(crate) journal: Arc<Journal>,
    pub(crate) about: About,
    pub(crate) transitions: Arc<Transitions>,
}

/// When the node's conditions last changed. What they are made of is followed as it changes, so that the time is that of
/// the change and not that of a question.
#[derive(Debug)]
pub(crate) struct Transitions {
    started: Timestamp,
    known: Mutex<BTreeMap<&'static str, (bool, Timestamp)>>,
}

impl Transitions {
    pub(crate) fn new(started: Timestamp) -> Self {
        Self { started, known: Mutex::default() }
    }

    /// What was on disk is known.
    pub(crate) fn synced(&self) {
        self.note("Synced", true);
    }

    /// A condition is so now. Returns since when.
    fn note(&self, kind: &'static str, is: bool) -> Timestamp {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // At the start nothing has been read, and nothing is true of it.
        let (was, since) = known.entry(kind).or_insert((false, self.started));
        if *was != is {
            (*was, *since) = (is, Timestamp::now());
        }
        *since
    }
}

/// What does not change while it runs.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) node_name: String,
    pub(crate) root: PathBuf,
    pub(crate) manifests: PathBuf,
    pub(crate) rootless: bool,
    pub(crate) started: Timestamp,
}

impl Shared {
    /// The source may say something else than before.
    pub(crate) fn note_source(&self) {
        let summary = self.source.summary();
        let Summary { complete, problems, .. } = &*summary.borrow();
        let valid = !problems.iter().any(|it| it.severity == Severity::Error);
        self.transitions.note("SourceComplete", *complete);
        self.transitions.note("ManifestsValid", valid);
    }

    /// The daemon and its node as they are shown.
    pub(crate) async fn show_node(&self) -> Result<view::Node, Ended> {
        let summary = self.source.summary().borrow().clone();
        let pods = self.node.show_pods().await?;
        let operations = self.node.show_operations().await?;
        let snapshot = self.node.snapshot().await?;
        let counts = Counts {
            pods: pods.len() as u64,
            ready_pods: pods.iter().filter(|it| is_ready(it)).count() as u64,
            volumes: snapshot.volumes.len() as u64,
            operations: operations.len() as u64,
            hung_operations: operations.iter().filter(|it| it.status.hung).count() as u64,
            threads: self.node.workers().threads as u64,
        };
        let mut problems = summary.problems;
        let errors = problems.iter().filter(|it| it.severity == Severity::Error).count();
        problems.extend(self.journal.not_ours());
        let synced = snapshot.synced;
        let condition = |kind: &'static str, is: bool, reason: &str, message: &str| Condition {
            kind: kind.into(),
            status: is.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: self.transitions.note(kind, is),
        };
        let conditions = vec![
            match synced {
                true => condition("Synced", true, "DiskRead", "What was on disk at the start is known."),
                false => condition("Synced", false, NOT_SYNCED.0, NOT_SYNCED.1),
            },
            match summary.complete {
                true => condition("SourceComplete", true, "AllRead", "Every manifest has been read once."),
                false => condition("SourceComplete", false, NOT_COMPLETE.0, NOT_COMPLETE.1),
            },
            match errors {
                0 => condition("ManifestsValid", true, "Valid", "All manifests are in force."),
                1 => condition("ManifestsValid", false, "Invalid", "1 problem keeps manifests from being in force."),
                _ => {
                    let why = format!("{errors} problems keep manifests from being in force.");
                    condition("ManifestsValid", false, "Invalid", &why)
                }
            },
        ];
        let status = NodeStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            started: self.about.started,
            root: self.about.root.display().to_string(),
            manifests: self.about.manifests.display().to_string(),
            manifests_as_of: summary.as_of,
            rootless: self.about.rootless,
            mount_namespace: mount_namespace(),
            conditions,
            problems,
            counts,
        };
        let metadata = Metadata { name: self.about.node_name.clone(), ..Metadata::default() };
        Ok(view::Object::new(metadata, status))
    }
}

/// The mount namespace of this process, as it is compared with others; empty if it cannot be read.
pub(crate) fn mount_namespace() -> String {
    std::fs::read_link("/proc/self/ns/mnt").map(|it| it.display().to_string()).unwrap_or_default()
}

/// Whether all volumes of a pod are mounted.
pub(crate) fn is_ready(pod: &view::Pod) -> bool {
    pod.status.conditions.iter().any(|it| it.kind == "VolumesMounted" && it.status == view::ConditionStatus::True)
}
