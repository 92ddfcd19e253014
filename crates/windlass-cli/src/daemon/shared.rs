//! What the parts of the daemon have in common, and what the API shows.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;
use windlass::{
    Node,
    source::directory::Directory,
    view::{self, Condition, Counts, Metadata, NodeStatus, Severity},
};

use super::journal::Journal;

/// The running daemon.
pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) source: Directory,
    pub(crate) journal: Arc<Journal>,
    pub(crate) about: About,
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
    /// The daemon and its node as they are shown.
    pub(crate) async fn show_node(&self) -> view::Node {
        let summary = self.source.summary().borrow().clone();
        let pods = self.node.show_pods().await;
        let operations = self.node.show_operations().await;
        let snapshot = self.node.snapshot().await;
        let counts = Counts {
            pods: pods.len() as u64,
            ready_pods: pods.iter().filter(|it| is_ready(it)).count() as u64,
            volumes: snapshot.as_ref().map_or(0, |it| it.volumes.len()) as u64,
            operations: operations.len() as u64,
            hung_operations: operations.iter().filter(|it| it.status.hung).count() as u64,
            threads: self.node.workers().threads as u64,
        };
        let mut problems = summary.problems;
        let errors = problems.iter().filter(|it| it.severity == Severity::Error).count();
        problems.extend(self.journal.not_ours());
        let synced = snapshot.is_some_and(|it| it.synced);
        let condition = |kind: &str, is: bool, reason: &str, message: &str| Condition {
            kind: kind.into(),
            status: is.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: self.about.started,
        };
        let conditions = vec![
            match synced {
                true => condition("Synced", true, "DiskRead", "What was on disk at the start is known."),
                false => condition("Synced", false, "DiskNotRead", "The disk has not been read to the end."),
            },
            match summary.complete {
                true => condition("SourceComplete", true, "AllRead", "Every manifest has been read once."),
                false => {
                    let why = "A manifest could not be read since the start, so nothing is taken away.";
                    condition("SourceComplete", false, "SourceIncomplete", why)
                }
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
        view::Object::new("Node", Metadata { name: self.about.node_name.clone(), ..Metadata::default() }, status)
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
