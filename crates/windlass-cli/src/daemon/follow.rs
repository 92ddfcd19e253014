//! Follows what happens on the node: a line of the log when a pod has all its volumes, when something keeps it from them
//! and when nothing of it is left, and the journal for those who ask later. Each single volume is told at level debug.
//! What goes wrong is told once when it begins, again when its text changes, and when it is over; tries in between are not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass::Node;
use windlass::backend::{NodeBackend, Recorder};
use windlass::ids::{PodUid, VolumeId};
use windlass::node::{Change, Changes, Code, Tone, Urgency, Verdict};
use windlass::source::directory::Summaries;
use windlass::view::{Problem, Reason, Severity};

use crate::output::plain;

use super::config::{Config, LogFormat};

/// How long changes may gather when many come one after the other. There is room for many more than come in that time.
const REST: Duration = Duration::from_millis(1);

/// Follows the changes until the node ends.
pub(crate) async fn follow(mut changes: Changes, node: Node, recorder: Recorder, config: Config) {
    let troubles = Troubles::default();
    let mut follower = Follower { node, recorder, config, pods: HashMap::new(), troubles };
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
pub(crate) async fn follow_source(mut summary: Summaries, backend: Arc<NodeBackend>) {
    let mut told: BTreeSet<Problem> = BTreeSet::new();
    loop {
        let (problems, pods, objects) = {
            let summary = summary.now();
            backend.note_manifests(&summary);
            (summary.problems.clone(), summary.pods.len(), summary.objects)
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
        if summary.changed().await.is_none() {
            tracing::error!("the manifests are not followed any more; start windlass again");
            return;
        }
    }
}

struct Follower {
    node: Node,
    recorder: Recorder,
    config: Config,
    pods: HashMap<PodUid, Followed>,
    troubles: Troubles,
}

/// What was told to be wrong, so that it is told once, again when it is something else, and when it is over.
#[derive(Default)]
struct Troubles {
    /// Of pods' volumes, by what the pod calls them.
    pods: HashMap<PodUid, BTreeMap<String, String>>,
    /// Of volumes apart from any pod.
    volumes: HashMap<VolumeId, String>,
    /// What was said last of a claim.
    claims: HashMap<Arc<str>, Arc<str>>,
}

/// How many claims are remembered; when there are more, some may be told the same twice.
const CLAIMS_MAX: usize = 10_000;

impl Troubles {
    /// Whether this is something else than what was said last of the claim.
    fn is_news(&mut self, claim: &Arc<str>, text: &Arc<str>) -> bool {
        if self.claims.len() >= CLAIMS_MAX {
            self.claims.clear();
        }
        self.claims.insert(claim.clone(), text.clone()).is_none_or(|it| it != *text)
    }
}

/// How a line about trouble that is over begins.
const OVER: &str = "over: ";

/// What keeps something from being settled.
enum Trouble {
    None,
    /// An operation runs for it, which may end the trouble that there was.
    Tried,
    /// This, and something has to happen.
    Waits(String),
}

fn trouble(reasons: &[Reason]) -> Trouble {
    let (Some(first), Some(deepest)) = (reasons.first(), reasons.last()) else { return Trouble::None };
    let is = |code: &str, is: fn(Code) -> bool| Code::ALL.iter().any(|it| it.as_str() == code && is(*it));
    // What has failed before is tried again: that it runs is no news, and neither is that it ran.
    match is(&first.code, is_waiting) || is(&deepest.code, is_waiting) && deepest.attempts == 0 {
        true => Trouble::Waits(plain(&format!("{}: {}", deepest.code, deepest.message))),
        false => Trouble::Tried,
    }
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
        self.recorder.note(&change);
        match change {
            Change::Pod { pod, name, unresolved } => {
                let new = Followed { title: name.clone(), mounted: false };
                self.pods.entry(pod.clone()).or_insert(new).title = name;
                if unresolved || self.troubles.pods.contains_key(&pod) {
                    self.check_pod(&pod).await;
                }
            }
            Change::PodMounted(uid) => self.mounted(&uid),
            Change::Volume { volume, pod, code } => self.volume(&volume, pod.as_ref(), code).await,
            Change::Event(event) => {
                let title = self.title(&event.pod);
                // What went wrong with a volume is told by its state; `windlass events` has the kubelet's words for it.
                tracing::debug!(pod = &*title, reason = event.reason, tone = %event.tone, "{}", event.message);
            }
            Change::PodReleased(uid) => {
                let title = self.title(&uid);
                self.pods.remove(&uid);
                self.troubles.pods.remove(&uid);
                // What it alone wanted is forgotten with it.
                for volume in self.troubles.volumes.keys().cloned().collect::<Vec<_>>() {
                    self.check_volume(&volume).await;
                }
                let subject = self.subject(Some(&title), None);
                tracing::info!(pod = &*title, "{subject}nothing of the pod is left");
            }
            Change::VolumesReleased(pod) => tracing::debug!(%pod, "nothing of the pod's volumes is left"),
            Change::Driver { name, registered: true } => tracing::info!(driver = &*name, "the driver is registered"),
            Change::Driver { name, registered: false } => {
                tracing::warn!(driver = &*name, "the driver is gone; what it has mounted stays");
            }
            Change::DriverBack { name } => tracing::info!(driver = &*name, "the driver was started again"),
            Change::DriverUnreachable { name, refused: Some(text) } => {
                tracing::warn!(driver = &*name, "another driver is in the driver's place: {}", plain(&text));
            }
            Change::DriverUnreachable { name, refused: None } => {
                tracing::warn!(driver = &*name, "nobody takes calls at the driver's socket any more");
            }
            Change::RootCovered { text: Some(text) } => tracing::warn!("the root is covered: {}", plain(&text)),
            Change::RootCovered { text: None } => tracing::info!("nothing covers the root any more"),
            Change::DriverRefused { text } => tracing::warn!("a driver could not be registered: {}", plain(&text)),
            Change::ClaimChanged { .. } => {}
            Change::TookOver { process, places: 0 } => {
                tracing::warn!(process, "taken over from process {process}, which was killed and hangs in the kernel");
            }
            Change::TookOver { process, places } => {
                tracing::warn!(
                    process,
                    places,
                    "taken over from process {process}, which was killed and hangs in the kernel: the volumes that it \
                     was at wait until it is gone, all others do not"
                );
            }
            Change::Claim { claim, tone, reason, text } => {
                if self.troubles.is_news(&claim, &text) {
                    let subject = match self.config.log_format {
                        LogFormat::Text | LogFormat::Json => String::new(),
                        LogFormat::Journald => format!("claim {claim}: "),
                    };
                    match tone {
                        Tone::Normal => tracing::info!(claim = &*claim, reason, "{subject}{}", plain(&text)),
                        Tone::Warning => tracing::warn!(claim = &*claim, reason, "{subject}{}", plain(&text)),
                    }
                }
            }
            Change::SourceLost { source, text } => {
                tracing::error!(%source, "the source is lost, and what it gave stays as it is: {}", plain(&text));
            }
            Change::PodOfTwoSources { pod, owner, source } => {
                let title = self.title(&pod);
                tracing::warn!(pod = &*title, "{source} speaks of a pod that {owner} has, which is not heard");
            }
            Change::OperationEnded(report) => {
                let pod = report.pod.as_ref().map(|it| self.title(it));
                tracing::debug!(
                    operation = report.id.0,
                    kind = %report.kind,
                    volume = report.volume.as_str(),
                    pod = pod.as_deref(),
                    plugin = report.plugin.as_str(),
                    queued = ?report.queued,
                    took = ?report.took,
                    "an operation ended: {:?}",
                    report.ending
                );
            }
            Change::Oddity { oddity, text } => tracing::warn!("makes no sense ({oddity:?}): {}", plain(&text)),
            Change::Synced => tracing::info!("what was on disk is known"),
            Change::InUse { version } => tracing::debug!(version, "the set of volumes in use changed"),
            Change::Expansion { volume, verdict } => match verdict {
                Verdict::Grown { size_bytes } => tracing::info!(%volume, size_bytes, "the volume has grown"),
                // It is tried again, and the volume waits for that: see there.
                Verdict::Failed(_) => {}
                Verdict::Infeasible(trouble) | Verdict::InUse(trouble) => {
                    tracing::warn!(%volume, "the volume has not grown: {}", trouble.text);
                }
            },
            Change::Leftover { pod, text } => {
                let title = self.title(&pod);
                tracing::warn!(pod = &*title, "left alone: {}", plain(&text));
            }
            Change::Damaged { text } => {
                tracing::warn!("found on disk, and makes no sense: {}", plain(&text));
            }
            Change::DiskUnreadable { text } => {
                tracing::error!("the disk cannot be read, nothing is taken away: {text}")
            }
            Change::Missed(count) => tracing::warn!(count, "changes came faster than they could be logged"),
            // Told by a newer library than this program was written for.
            other => tracing::debug!("{other:?}"),
        }
    }

    async fn volume(&mut self, volume: &VolumeId, pod: Option<&PodUid>, code: Code) {
        if tracing::enabled!(tracing::Level::DEBUG) && !is_waiting(code) {
            let title = pod.map(|it| self.title(it));
            let subject = self.subject(title.as_deref(), Some(volume.as_str()));
            let (state, pod) = (code.as_str(), title.as_deref());
            tracing::debug!(pod, volume = volume.as_str(), state, "{subject}{}", code.meaning());
        }
        let Some(uid) = pod else {
            if is_waiting(code) || self.troubles.volumes.contains_key(volume) {
                self.check_volume(volume).await;
            }
            return;
        };
        let is_mounted = matches!(code, Code::Mounted | Code::Refreshing | Code::Expanding);
        if let Some(followed) = self.pods.get_mut(uid).filter(|_| !is_mounted) {
            followed.mounted = false;
        }
        if is_waiting(code) || self.troubles.pods.contains_key(uid) {
            self.check_pod(uid).await;
        }
    }

    /// Tells what keeps volumes from a pod, if that is news, and what does so no more.
    async fn check_pod(&mut self, uid: &PodUid) {
        let Ok(shown) = self.node.show_pod(uid).await else { return };
        let volumes = shown.map(|it| it.status.volumes).unwrap_or_default();
        let told = self.troubles.pods.remove(uid).unwrap_or_default();
        let title = self.title(uid);
        let mut now = BTreeMap::new();
        for mount in volumes {
            // What the volume itself waits for is told of the volume, however many pods wait for it.
            let is_behind = matches!(mount.state.as_str(), "NotStaged" | "NotAttached" | "VolumeBusy");
            let before = told.get(&mount.volume);
            let trouble = match trouble(&mount.reasons) {
                _ if is_behind => continue,
                Trouble::None => continue,
                Trouble::Tried => match before {
                    Some(before) => before.clone(),
                    None => continue,
                },
                Trouble::Waits(text) => text,
            };
            if before != Some(&trouble) {
                let volume = mount.volume_id.as_deref().unwrap_or(&mount.volume);
                let subject = self.subject(Some(&title), Some(volume));
                tracing::warn!(pod = &*title, volume, state = mount.state, "{subject}{trouble}");
            }
            now.insert(mount.volume, trouble);
        }
        for (volume, text) in told.iter().filter(|(it, _)| !now.contains_key(*it)) {
            let subject = self.subject(Some(&title), Some(volume));
            tracing::info!(pod = &*title, volume, "{subject}{OVER}{text}");
        }
        if !now.is_empty() {
            self.troubles.pods.insert(uid.clone(), now);
        }
    }

    /// The same of a volume apart from any pod: attaching, staging, growing.
    async fn check_volume(&mut self, id: &VolumeId) {
        let Ok(shown) = self.node.show_volume(id).await else { return };
        let before = self.troubles.volumes.get(id);
        let subject = self.subject(None, Some(id.as_str()));
        let volume = id.as_str();
        match shown.as_ref().map_or(Trouble::None, |it| trouble(&it.status.reasons)) {
            Trouble::Tried => {}
            Trouble::Waits(text) => {
                if before != Some(&text) {
                    let pods = shown.map(|it| it.status.pods).unwrap_or_default();
                    let pods: Vec<_> = pods.iter().map(|it| self.title(&it.uid.as_str().into())).collect();
                    tracing::warn!(volume, pods = pods.join(","), "{subject}{text}");
                    self.troubles.volumes.insert(id.clone(), text);
                }
            }
            Trouble::None => {
                if let Some(before) = before {
                    tracing::info!(volume, "{subject}{OVER}{before}");
                    self.troubles.volumes.remove(id);
                }
            }
        }
    }

    /// A pod has all its volumes: told once, until something happens to one of them.
    fn mounted(&mut self, uid: &PodUid) {
        let Some(followed) = self.pods.get_mut(uid).filter(|it| !it.mounted) else { return };
        followed.mounted = true;
        let title = self.title(uid);
        let subject = self.subject(Some(&title), None);
        tracing::info!(pod = &*title, state = Code::Mounted.as_str(), "{subject}all volumes of the pod are mounted");
    }

    /// What a line is about, in its text: whoever reads the journal does not see the fields.
    fn subject(&self, pod: Option<&str>, volume: Option<&str>) -> String {
        let about = match (pod, volume) {
            (None, None) => return String::new(),
            (Some(pod), None) => format!("pod {pod}: "),
            (None, Some(volume)) => format!("volume {volume}: "),
            (Some(pod), Some(volume)) => format!("pod {pod}, volume {volume}: "),
        };
        match self.config.log_format {
            LogFormat::Text | LogFormat::Json => String::new(),
            LogFormat::Journald => about,
        }
    }

    fn title(&self, uid: &PodUid) -> Arc<str> {
        self.pods.get(uid).map_or_else(|| uid.as_str().into(), |it| it.title.clone())
    }
}

/// Whether something has to happen before a volume that stands so is settled. Otherwise it is, or will be in a moment.
fn is_waiting(code: Code) -> bool {
    code.urgency() >= Urgency::Waiting
}
