//! A node as the server of [`windlass_api`] shows it: answers to what is asked, and a record of what happened.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//! use tokio::sync::watch;
//! use windlass::{Node, backend::{About, NodeBackend, Recorder}};
//! use windlass_api::server::{self, Limits};
//!
//! # async fn example(node: Node) -> Result<(), Box<dyn std::error::Error>> {
//! let about = About::new("/var/lib/example");
//! let recorder = Recorder::new(&about);
//! let record = recorder.record();
//! tokio::spawn(recorder.follow(node.changes()));
//!
//! let backend = Arc::new(NodeBackend::new(node, record.clone(), about));
//! let (listener, _file) = server::bind(Path::new("/run/example/api.sock"), None)?;
//! let (_stop, stopped) = watch::channel(false);
//! server::serve(listener, backend, record.journal.clone(), Limits::new(64), stopped).await;
//! # Ok(())
//! # }
//! ```

mod changes;
mod scrape;
mod statistics;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_api::server::{Backend, Journal, Pods, Readiness};
use windlass_core::ids::PodUid;

pub use windlass_api::server;

use crate::Node;
use crate::metrics::Metrics;
use crate::node::{Change, Changes, ClaimRefusal, DeleteError, Deleted, Ended};
use crate::source::directory::{Directory, Summaries, Summary};
use crate::view::{self, Condition, Counts, Metadata, NodeStatus, Object, RetryStatus, Severity, Status, containers};

use scrape::Scrape;

/// Why it is not known what was on disk, as a word and for people.
const NOT_SYNCED: (&str, &str) = ("DiskNotRead", "The disk has not been read to the end.");
/// How long a look at a pod's volumes may hold up an answer about the pod.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Whether what is below the root can be reached by its path.
const ROOT_REACHABLE: &str = "RootReachable";

/// Whether it is known what the manifests say, why it is as it is in a word, and for people.
fn completeness(summary: &Summary) -> (bool, &'static str, String) {
    match (&summary.lost, summary.complete) {
        (Some(why), _) => {
            // What has never been known to the end is not known now.
            let reason = if summary.was_complete { "SourceLost" } else { "SourceIncomplete" };
            (false, reason, format!("The manifests are lost, and what they said stays: {why}."))
        }
        (None, false) => {
            let why = "A manifest could not be read since the start, so nothing is taken away.";
            (false, "SourceIncomplete", why.into())
        }
        (None, true) => (true, "AllRead", "Every manifest has been read once.".into()),
    }
}

/// Answers what the API is asked, from a node.
pub struct NodeBackend {
    node: Node,
    /// Where its pods come from, if that is a directory.
    manifests: Option<Manifests>,
    record: Arc<Record>,
    about: About,
    scrape: Option<Scrape>,
}

/// A directory of manifests, what it gives at the moment, and how it lets pods go.
struct Manifests {
    path: PathBuf,
    summary: Summaries,
    let_go: Box<dyn Fn(PodUid) + Send + Sync>,
}

impl Manifests {
    /// What cannot be read any more, by its path.
    fn unread(&self) -> Vec<String> {
        let path = |it: &Arc<Path>| if it.as_os_str().is_empty() { self.path.clone() } else { self.path.join(it) };
        self.summary.now().unread.iter().map(|it| path(it).display().to_string()).collect()
    }
}

/// What does not change while the node runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct About {
    /// Where volumes are.
    pub root: PathBuf,
    /// It has a user and mount namespace of its own.
    pub rootless: bool,
    /// When it started.
    pub started: Timestamp,
}

impl About {
    /// Of a node whose volumes are below this directory, and that has started just now.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), rootless: false, started: Timestamp::now() }
    }
}

/// What happened to a node, as far as it is shown later.
#[derive(Debug)]
pub struct Record {
    /// Events, and what is on disk and not windlass's.
    pub journal: Arc<Journal>,
    transitions: Transitions,
}

/// Follows a node and notes in a [`Record`] what is shown later.
#[derive(Debug)]
pub struct Recorder {
    record: Arc<Record>,
    root: PathBuf,
    /// What pods are called, as `namespace/name`.
    titles: HashMap<PodUid, Arc<str>>,
}

impl Recorder {
    /// Of a node of which nothing is known yet.
    pub fn new(about: &About) -> Self {
        let record = Record { journal: Arc::new(Journal::new()), transitions: Transitions::new(about.started) };
        record.transitions.note(ROOT_REACHABLE, true);
        Self { record: Arc::new(record), root: about.root.clone(), titles: HashMap::new() }
    }

    /// Where it notes things.
    pub fn record(&self) -> Arc<Record> {
        self.record.clone()
    }

    /// Notes everything until the node ends. Whoever follows the changes anyway calls [`Recorder::note`] instead.
    pub async fn follow(mut self, mut changes: Changes) {
        while let Some(change) = changes.next().await {
            self.note(&change);
        }
    }

    /// Notes what a change means for what is shown later.
    pub fn note(&mut self, change: &Change) {
        let journal = &self.record.journal;
        match change {
            Change::Pod { pod, name, .. } => {
                self.titles.insert(pod.clone(), name.clone());
            }
            Change::Event(event) => {
                let title = self.titles.get(&event.pod).map_or(event.pod.as_str(), |it| it);
                journal.pod_event(title, event.pod.as_str(), &event.tone.to_string(), event.reason, &event.message);
            }
            Change::Claim { claim, tone, reason, text } => {
                journal.claim_event(claim, &tone.to_string(), reason, text);
            }
            Change::PodReleased(pod) => {
                self.titles.remove(pod);
                journal.cleared(|| self.directory(pod));
            }
            Change::Leftover { pod, text } => journal.found(&self.directory(pod), text),
            Change::Damaged { text } => journal.found(&self.root.display().to_string(), text),
            Change::Synced => {
                self.record.transitions.note("Synced", true);
            }
            Change::RootCovered { text } => {
                self.record.transitions.note(ROOT_REACHABLE, text.is_none());
            }
            Change::Volume { .. }
            | Change::PodMounted(_)
            | Change::VolumesReleased(_)
            | Change::Driver { .. }
            | Change::DriverBack { .. }
            | Change::DriverUnreachable { .. }
            | Change::DriverRefused { .. }
            | Change::TookOver { .. }
            | Change::ClaimChanged { .. }
            | Change::InUse { .. }
            | Change::Expansion { .. }
            | Change::SourceLost { .. }
            | Change::PodOfTwoSources { .. }
            | Change::OperationEnded(_)
            | Change::Oddity { .. }
            | Change::DiskUnreadable { .. }
            | Change::Missed(_) => {}
        }
    }

    fn directory(&self, pod: &PodUid) -> String {
        self.root.join("pods").join(pod.as_str()).display().to_string()
    }
}

/// When the node's conditions last changed. What they are made of is followed as it changes, so that the time is that of
/// the change and not that of a question.
#[derive(Debug)]
struct Transitions {
    started: Timestamp,
    known: Mutex<BTreeMap<&'static str, (bool, Timestamp)>>,
}

impl Transitions {
    fn new(started: Timestamp) -> Self {
        Self { started, known: Mutex::default() }
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

impl NodeBackend {
    /// Of this node, with what is recorded of it.
    pub fn new(node: Node, record: Arc<Record>, about: About) -> Self {
        Self { node, manifests: None, record, about, scrape: None }
    }

    /// Whose pods come from the manifests at this path.
    #[must_use]
    pub fn with_manifests(mut self, path: impl Into<PathBuf>, directory: &Directory) -> Self {
        let (summary, let_go) = (directory.summary(), Box::new(directory.letting_go()));
        self.manifests = Some(Manifests { path: path.into(), summary, let_go });
        self
    }

    /// Which has been counted from its start on ([`Builder::observe`](crate::node::Builder::observe)).
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.scrape = Some(Scrape::new(metrics));
        self
    }

    /// The manifests may be others than before: notes since when they are complete and valid. Called as they change, so that
    /// the time is not that of a question.
    pub fn note_manifests(&self, summary: &Summary) {
        let valid = !summary.problems.iter().any(|it| it.severity == Severity::Error);
        self.record.transitions.note("SourceComplete", summary.complete);
        self.record.transitions.note("ManifestsValid", valid);
    }

    /// The daemon and its node as they are shown.
    async fn show_node(&self) -> Result<view::Node, Ended> {
        let summary = self.manifests.as_ref().map(|it| {
            let summary = it.summary.now();
            (completeness(&summary), summary.problems.clone(), summary.as_of)
        });
        let pods = self.node.show_pods().await?;
        let operations = self.node.show_operations().await?;
        let snapshot = self.node.snapshot().await?;
        let counts = Counts {
            pods: pods.len() as u64,
            ready_pods: pods.iter().filter(|it| it.is_mounted()).count() as u64,
            volumes: snapshot.volumes.len() as u64,
            operations: operations.len() as u64,
            hung_operations: operations.iter().filter(|it| it.status.hung).count() as u64,
            threads: self.node.workers().threads as u64,
        };
        let synced = snapshot.synced;
        let condition = |kind: &'static str, is: bool, reason: &str, message: &str| Condition {
            kind: kind.into(),
            status: is.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: self.record.transitions.note(kind, is),
        };
        let mut conditions = vec![match synced {
            true => condition("Synced", true, "DiskRead", "What was on disk at the start is known."),
            false => condition("Synced", false, NOT_SYNCED.0, NOT_SYNCED.1),
        }];
        conditions.push(match self.node.root_cover() {
            None => condition(ROOT_REACHABLE, true, "Reachable", "The root directory can be reached by its path."),
            Some(cover) => condition(ROOT_REACHABLE, false, "Covered", &cover),
        });
        if let Some(((is_complete, reason, message), problems, _)) = &summary {
            conditions.push(condition("SourceComplete", *is_complete, reason, message));
            conditions.push(match problems.iter().filter(|it| it.severity == Severity::Error).count() {
                0 => condition("ManifestsValid", true, "Valid", "All manifests are in force."),
                1 => condition("ManifestsValid", false, "Invalid", "1 problem keeps manifests from being in force."),
                errors => {
                    let why = format!("{errors} problems keep manifests from being in force.");
                    condition("ManifestsValid", false, "Invalid", &why)
                }
            });
        }
        // What is given by hand is in force at once.
        let (mut problems, as_of) =
            summary.map_or_else(|| (Vec::new(), Timestamp::now()), |(_, problems, as_of)| (problems, as_of));
        problems.extend(self.record.journal.not_ours());
        let status = NodeStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            process: std::process::id(),
            started: self.about.started,
            root: self.about.root.display().to_string(),
            manifests: self.manifests.as_ref().map(|it| it.path.display().to_string()).unwrap_or_default(),
            manifests_as_of: as_of,
            rootless: self.about.rootless,
            mount_namespace: mount_namespace(),
            conditions,
            problems,
            counts,
        };
        let metadata = Metadata { name: self.node.name().into(), ..Metadata::default() };
        Ok(Object::new(metadata, status))
    }
}

/// The UID of a pod that is shown.
fn uid(pod: &view::Pod) -> PodUid {
    PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default())
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        Self::unavailable(ended.to_string())
    }
}

impl From<ClaimRefusal> for Status {
    fn from(refusal: ClaimRefusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            ClaimRefusal::Unknown { .. } => Self::not_found(text),
            ClaimRefusal::StillThere { .. }
            | ClaimRefusal::InUse { .. }
            | ClaimRefusal::Named { .. }
            | ClaimRefusal::SourceIncomplete { .. }
            | ClaimRefusal::NotNoted { .. }
            | ClaimRefusal::Busy { .. } => Self::conflict(text),
            ClaimRefusal::Ended(ended) => ended.into(),
        }
    }
}

#[async_trait]
impl Backend for NodeBackend {
    async fn node(&self) -> Result<view::Node, Status> {
        Ok(self.show_node().await?)
    }

    async fn pods(&self, which: Pods<'_>) -> Result<Vec<view::Pod>, Status> {
        Ok(match which {
            Pods::All => self.node.show_pods().await?,
            Pods::Named { namespace, name } => {
                let pods = self.node.show_pods_named(namespace, name).await?;
                // No event tells that a directory was moved or replaced, so whoever asks about one pod has it looked at; a
                // file system that hangs holds up no answer (I-6).
                for pod in &pods {
                    let _ = tokio::time::timeout(LOOK_MAX, self.node.volumes(&uid(pod))).await;
                }
                self.node.show_pods_named(namespace, name).await?
            }
            Pods::Uids(uids) => {
                let uids = uids.iter().map(|it| it.as_str().into()).collect();
                self.node.show_each(uids).await?.into_iter().flatten().collect()
            }
        })
    }

    async fn volumes(&self, only: Option<&str>) -> Result<Vec<view::Volume>, Status> {
        Ok(match only {
            None => self.node.show_volumes().await?,
            Some(name) => self.node.show_volume(&name.into()).await?.into_iter().collect(),
        })
    }

    async fn drivers(&self, only: Option<&str>) -> Result<Vec<view::Driver>, Status> {
        Ok(match only {
            None => self.node.show_drivers().await?,
            Some(name) => self.node.show_driver(name).await?.into_iter().collect(),
        })
    }

    async fn drivers_of(&self, volumes: &[String]) -> Result<Vec<Option<String>>, Status> {
        let drivers = self.node.drivers_of(volumes.iter().map(|it| it.as_str().into()).collect()).await?;
        Ok(drivers.into_iter().map(|it| it.map(|it| it.to_string())).collect())
    }

    async fn claims(&self, only: Option<(&str, &str)>) -> Result<Vec<view::Claim>, Status> {
        Ok(match only {
            None => self.node.show_claims().await?,
            Some((namespace, name)) => self.node.show_claim(namespace, name).await?.into_iter().collect(),
        })
    }

    async fn operations(&self) -> Result<Vec<view::Operation>, Status> {
        Ok(self.node.show_operations().await?)
    }

    async fn containers(&self, pod: &view::Pod) -> Result<view::Containers, Status> {
        let (uid, name) = (uid(pod), &pod.metadata.name);
        let Some(manifest) = self.node.pod(&uid).await? else {
            let gone = format!("no manifest of pod {name:?} is in force any more, so its containers are not known");
            return Err(Status::not_found(gone));
        };
        let (volumes, groups) = (self.node.volumes(&uid).await?, self.node.groups(&uid).await?);
        let why = |name: &str| {
            let volume = pod.status.volumes.iter().find(|it| it.volume == name)?;
            volume.reasons.last().map(|it| format!("the volume is not mounted: {}", it.message))
        };
        Ok(containers::containers(&manifest, &volumes, groups, why))
    }

    async fn statistics(&self, pod: &view::Pod) -> Result<view::PodStatistics, Status> {
        let asked = self.node.ask_statistics(&uid(pod)).await?;
        let questions = asked.into_iter().map(|(name, asked)| (name.to_string(), asked.answer()));
        Ok(view::statistics(pod, statistics::answers(questions, statistics::TIMEOUT).await))
    }

    async fn delete_pod(&self, pod: &view::Pod) -> Result<(), Status> {
        let uid = uid(pod);
        if let Some(manifests) = self.manifests.as_ref().filter(|it| it.summary.now().is_lost(&uid)) {
            (manifests.let_go)(uid);
            return Ok(());
        }
        self.node.delete_pod(&uid).await.map_err(|error| {
            if let DeleteError::Ended(ended) = error {
                return ended.into();
            }
            let file = |it: &Manifests| it.summary.now().manifest_of(&uid).map(|file| it.path.join(file));
            let name = &pod.metadata.name;
            Status::conflict(match (error, self.manifests.as_ref().and_then(file)) {
                (DeleteError::Wanted, Some(file)) => {
                    format!("pod {name:?} is in the manifest {}, and goes when it is removed there", file.display())
                }
                (error, _) => format!("pod {name:?} cannot be deleted: {error}"),
            })
        })
    }

    async fn delete_orphans(&self, pod: &view::Pod) -> Result<(), Status> {
        if !self.node.delete_orphans(&uid(pod)).await? {
            let name = &pod.metadata.name;
            return Err(Status::conflict(format!(
                "pod {name:?} has no volume that is held because it does not name it"
            )));
        }
        Ok(())
    }

    async fn delete_claim(&self, namespace: &str, name: &str) -> Result<view::ClaimDeletion, Status> {
        let deleted = self.node.delete_claim(namespace, name).await.map_err(|refusal| {
            let unread = match (&refusal, &self.manifests) {
                (ClaimRefusal::StillThere { .. }, Some(manifests)) => manifests.unread(),
                (_, _) => Vec::new(),
            };
            match unread.is_empty() {
                true => refusal.into(),
                false => Status::conflict(format!(
                    "{refusal}. If it is in {}, which cannot be read any more, put that back and take the manifest away there; \
                     if it is lost for good, start windlass anew, which keeps the volume, and say this again",
                    unread.join(" or ")
                )),
            }
        })?;
        let (outcome, volume) = match deleted {
            Deleted::Deleting { volume } => ("Deleting", volume),
            Deleted::Released { volume } => ("Released", Some(volume)),
        };
        let metadata = Metadata { namespace: Some(namespace.into()), name: name.into(), uid: None };
        Ok(Object::new(metadata, view::ClaimDeletionStatus { outcome: outcome.into(), volume }))
    }

    async fn retry(&self, pod: Option<&view::Pod>, volume: Option<&str>) -> Result<view::Retry, Status> {
        let retried = self.node.retry(pod.map(uid).as_ref(), volume).await?;
        let metadata = match pod {
            Some(pod) => pod.metadata.clone(),
            None => Metadata { name: self.node.name().into(), ..Metadata::default() },
        };
        Ok(Object::new(metadata, RetryStatus { retried }))
    }

    async fn retry_claim(&self, claim: &view::Claim) -> Result<view::Retry, Status> {
        let Metadata { namespace, name, .. } = &claim.metadata;
        let retried = self.node.retry_claim(namespace.as_deref().unwrap_or_default(), name).await?;
        Ok(Object::new(claim.metadata.clone(), RetryStatus { retried: retried.into_iter().collect() }))
    }

    async fn readiness(&self) -> Result<Readiness, Status> {
        // Not by showing all there is: this is asked often, whatever the number of pods (I-9).
        let is_synced = self.node.is_synced().await?;
        let complete = self.manifests.as_ref().map(|it| completeness(&it.summary.now()));
        Ok(match complete {
            _ if !is_synced => Readiness::NotReady { why: format!("{}: {}", NOT_SYNCED.0, NOT_SYNCED.1) },
            Some((false, reason, message)) => Readiness::NotReady { why: format!("{reason}: {message}") },
            Some((true, ..)) | None => Readiness::Ready,
        })
    }

    async fn metrics(&self) -> Result<String, Status> {
        match &self.scrape {
            Some(scrape) => Ok(scrape.text(&self.node).await?),
            None => Err(Status::not_found("nothing is counted on this node")),
        }
    }

    fn changes(&self) -> Box<dyn server::Changes> {
        Box::new(changes::NodeChanges(self.node.changes()))
    }
}

/// The mount namespace of this process, as it is compared with others; empty if it cannot be read.
pub fn mount_namespace() -> String {
    std::fs::read_link("/proc/self/ns/mnt").map(|it| it.display().to_string()).unwrap_or_default()
}
