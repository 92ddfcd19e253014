//! Follows what happens on the node: a line of the log when a pod has all its volumes, when something keeps it from them
//! and when nothing of it is left, and the journal for those who ask later. Each single volume is told at level debug.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use windlass::{
    Node,
    node::{Change, Changes},
    source::directory::Summary,
    tell::Tone,
    view::{Problem, Severity},
};
use windlass_core::{
    ids::{PodUid, VolumeId},
    notice::Verdict,
    reason::Code,
};

use crate::output::plain;

use super::{
    config::{Config, LogFormat},
    journal::Journal,
    shared::Shared,
};

/// How long changes may gather when many come one after the other. There is room for many more than come in that time.
const REST: Duration = Duration::from_millis(1);

/// Follows the changes until the node ends.
pub(crate) async fn follow(mut changes: Changes, node: Node, journal: Arc<Journal>, config: Config) {
    let mut follower = Follower { node, journal, config, pods: HashMap::new() };
    let mut rested = Instant::now();
    loop {
        if changes.is_empty() && rested.elapsed() < REST {
            // So that a burst does not wake this thread for every change.
            tokio::time::sleep(REST).await;
        }
        if changes.is_empty() {
            rested = Instant::now();
        }
        let Some(change) = changes.next().await else { return };
        follower.note(change).await;
    }
}

/// Follows what is wrong with the manifests: a line when something is found, and one when all is well again.
pub(crate) async fn follow_source(shared: Arc<Shared>) {
    let mut summary = shared.source.summary();
    let mut told: BTreeSet<Problem> = BTreeSet::new();
    loop {
        let (problems, pods, objects) = {
            let Summary { problems, pods, objects, .. } = &*summary.borrow_and_update();
            (problems.clone(), pods.len(), *objects)
        };
        for problem in problems.iter().filter(|it| !told.contains(*it)) {
            match problem.severity {
                Severity::Error => tracing::error!("{}", plain(&problem.to_string())),
                Severity::Warning | Severity::NotOurs => tracing::warn!("{}", plain(&problem.to_string())),
            }
        }
        if problems.is_empty() && !told.is_empty() {
            tracing::info!(pods, objects, "all manifests are in force");
        }
        told = problems.into_iter().collect();
        if summary.changed().await.is_err() {
            tracing::error!("the manifests are not followed any more; start windlass again");
            return;
        }
    }
}

struct Follower {
    node: Node,
    journal: Arc<Journal>,
    config: Config,
    pods: HashMap<PodUid, Followed>,
}

/// What is known of a pod.
struct Followed {
    /// What it is called.
    title: Arc<str>,
    /// It was told that it has all its volumes, and nothing has happened to them since.
    mounted: bool,
}

impl Follower {
    async fn note(&mut self, change: Change) {
        match change {
            Change::Pod { pod, name } => {
                let followed = self.pods.entry(pod).or_insert(Followed { title: name.clone(), mounted: false });
                followed.title = name;
            }
            Change::PodMounted(uid) => self.mounted(&uid),
            Change::Volume { volume, pod, code } => self.volume(&volume, pod.as_ref(), code).await,
            Change::Event(event) => {
                let title = self.title(&event.pod);
                self.journal.event(&title, &event);
                // What went wrong with a volume is told by its state; `windlass events` has the kubelet's words for it.
                tracing::debug!(pod = &*title, reason = event.reason, tone = %event.tone, "{}", event.message);
            }
            Change::PodReleased(uid) => {
                let title = self.title(&uid);
                self.pods.remove(&uid);
                self.journal.cleared(|| self.directory(&uid));
                let subject = self.subject(&title, None);
                tracing::info!(pod = &*title, "{subject}nothing of the pod is left");
            }
            Change::Driver { name, registered: true } => tracing::info!(driver = &*name, "the driver is registered"),
            Change::Driver { name, registered: false } => {
                tracing::warn!(driver = &*name, "the driver is gone; what it has mounted stays");
            }
            Change::DriverBack { name } => tracing::info!(driver = &*name, "the driver was started again"),
            Change::DriverRefused { text } => tracing::warn!("a driver could not be registered: {}", plain(&text)),
            Change::Claim { claim, tone: Tone::Normal, text } => tracing::info!(claim = &*claim, "{}", plain(&text)),
            Change::Claim { claim, tone: Tone::Warning, text } => tracing::warn!(claim = &*claim, "{}", plain(&text)),
            Change::Synced => tracing::info!("what was on disk is known"),
            Change::InUse { version } => tracing::debug!(version, "the set of volumes in use changed"),
            Change::Expansion { volume, verdict } => match verdict {
                Verdict::Grown { size_bytes } => tracing::info!(%volume, size_bytes, "the volume has grown"),
                Verdict::Failed(trouble) | Verdict::Infeasible(trouble) | Verdict::InUse(trouble) => {
                    tracing::warn!(%volume, "the volume has not grown: {}", trouble.text);
                }
            },
            Change::Leftover { pod, text } => {
                self.journal.found(&self.directory(&pod), &text);
                let title = self.title(&pod);
                tracing::warn!(pod = &*title, "left alone: {}", plain(&text));
            }
            Change::Damaged { text } => {
                self.journal.found(&self.config.root.display().to_string(), &text);
                tracing::warn!("found on disk, and makes no sense: {}", plain(&text));
            }
            Change::DiskUnreadable { text } => {
                tracing::error!("the disk cannot be read, nothing is taken away: {text}")
            }
            Change::Missed(count) => tracing::warn!(count, "changes came faster than they could be logged"),
        }
    }

    async fn volume(&mut self, volume: &VolumeId, pod: Option<&PodUid>, code: Code) {
        let (state, volume) = (code.as_str(), volume.as_str());
        let Some(uid) = pod else {
            // Volumes that only pods have say nothing by themselves.
            tracing::debug!(volume, state, "{}", code.meaning());
            return;
        };
        let is_mounted = matches!(code, Code::Mounted | Code::Refreshing | Code::Expanding);
        if let Some(followed) = self.pods.get_mut(uid).filter(|_| !is_mounted) {
            followed.mounted = false;
        }
        if !is_waiting(code) {
            if tracing::enabled!(tracing::Level::DEBUG) {
                let title = self.title(uid);
                let subject = self.subject(&title, Some(volume));
                tracing::debug!(pod = &*title, volume, state, "{subject}{}", code.meaning());
            }
            return;
        }
        let why = self.why(uid, volume).await;
        let title = self.title(uid);
        let subject = self.subject(&title, Some(volume));
        tracing::warn!(pod = &*title, volume, state, "{subject}{}", why.as_deref().unwrap_or(code.meaning()));
    }

    /// A pod has all its volumes: told once, until something happens to one of them.
    fn mounted(&mut self, uid: &PodUid) {
        let Some(followed) = self.pods.get_mut(uid).filter(|it| !it.mounted) else { return };
        followed.mounted = true;
        let title = self.title(uid);
        let subject = self.subject(&title, None);
        tracing::info!(pod = &*title, state = Code::Mounted.as_str(), "{subject}all volumes of the pod are mounted");
    }

    /// What a line is about, in its text: whoever reads the journal does not see the fields.
    fn subject(&self, pod: &str, volume: Option<&str>) -> String {
        match (self.config.log_format, volume) {
            (LogFormat::Text | LogFormat::Json, _) => String::new(),
            (LogFormat::Journald, None) => format!("pod {pod}: "),
            (LogFormat::Journald, Some(volume)) => format!("pod {pod}, volume {volume}: "),
        }
    }

    /// The deepest cause of a volume that waits.
    async fn why(&self, pod: &PodUid, volume: &str) -> Option<String> {
        let shown = self.node.show_pod(pod).await?;
        let mount = shown.status.volumes.into_iter().find(|it| it.volume_id.as_deref() == Some(volume))?;
        let deepest = mount.reasons.into_iter().next_back()?;
        Some(plain(&format!("{}: {}", deepest.code, deepest.message)))
    }

    fn title(&self, uid: &PodUid) -> Arc<str> {
        self.pods.get(uid).map_or_else(|| uid.as_str().into(), |it| it.title.clone())
    }

    fn directory(&self, pod: &PodUid) -> String {
        self.config.root.join("pods").join(pod.as_str()).display().to_string()
    }
}

/// Whether something has to happen before a volume that stands so is settled. Otherwise it is, or will be in a moment.
fn is_waiting(code: Code) -> bool {
    !matches!(
        code,
        Code::Mounted
            | Code::Idle
            | Code::Attaching
            | Code::Staging
            | Code::Publishing
            | Code::Refreshing
            | Code::Expanding
            | Code::Unpublishing
            | Code::Unstaging
            | Code::Detaching
            | Code::VolumeBusy
            | Code::NotStaged
            | Code::NotAttached
            | Code::DiskNotRead
            | Code::SourceIncomplete
            | Code::AttachmentsUnknown
    )
}
