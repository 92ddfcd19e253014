//! A node's volumes, for a program that embeds windlass: give it pods and objects, await their volumes, get paths back.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1 as api;
use rustix::fd::OwnedFd;
use tokio::sync::{broadcast, oneshot, watch};
use windlass_core::event::{Goal, MountPlace};
use windlass_core::ids::{DriverName, OuterName, PodUid, SourceName, VolumeId, WaiterId};
use windlass_core::snapshot::Snapshot;
use windlass_linux::name::Name;
use windlass_linux::safe_path;
use windlass_linux::whole_file::{self, Survives};
use windlass_linux::workers::Workers;

use crate::catalogue::Attributes;
use crate::drive::{About, Drive, Message, Question};
use crate::executor::Executor;
use crate::measuring::{self, Asked, Questions};
use crate::memory::Object;
use crate::objects::{ObjectKind, Reference};
use crate::plugin::{self, Made, Want};
use crate::source::{Said, Source};
use crate::{csi, defaults, view};

mod change;
mod error;
mod lock;
mod start;
mod state_watch;

pub use change::{Change, Changes};
pub use error::{ClaimRefusal, DeleteError, Ended, PodError, WaitError};
pub use start::{Builder, DELETE_DELAY_DEFAULT, Holder, Report, StartError};

pub use crate::csi::{DEADLINE_DEFAULT, DriverSettings};
pub use crate::resolve::Error as IncompletePod;
pub use crate::tell::{Event, Tone};
pub(crate) use start::{random, said};
pub(crate) use state_watch::Loss;
pub use windlass_core::answer::{InUse, PodStatus, WaitError as VolumesError};
pub use windlass_core::notice::Verdict;
pub use windlass_core::oddity::Oddity;
pub use windlass_core::operation::{Cause, Obstacle, OperationKind, Proof, Trouble};
pub use windlass_core::reason::{Code, Reason, Urgency, WaitsOn};
pub use windlass_core::snapshot::{SourceState, SourceView};
pub use windlass_core::spec::Mode;
pub use windlass_core::tally::{OfType, Tally};
pub use windlass_csi::Called;
pub use windlass_linux::abilities::{Abilities, Ability};
pub use windlass_linux::name::{Error as NameError, Reason as NameReason};
pub use windlass_linux::workers::{Counts, Lane, LaneCounts, Limits};

pub use crate::observe::{Ending, Observed, Observer, OperationReport};

/// The volumes of one node. Cheap to clone; the last clone that goes ends the work and leaves the volumes mounted.
///
/// Nothing here blocks, and what is to be awaited can be awaited on any runtime. Once the node has [`Ended`], every question
/// is answered with that error, never as if nothing were here; what only tells it something, such as [`Source::gone`], is
/// without effect.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    inbox: Sender<Message>,
    next_waiter: AtomicU64,
    /// Weak: when the drive has ended, so have the streams of changes.
    changes: broadcast::WeakSender<Change>,
    /// How the drive ended, once it has.
    ended: watch::Receiver<Option<Ended>>,
    /// Has heard everything since the start, for the first who listens.
    first: Mutex<Option<broadcast::Receiver<Change>>>,
    workers: Workers,
    executor: Arc<Executor>,
    /// windlass's own directory.
    notes: safe_path::Place,
    /// How full volumes are, as far as that was asked and not answered yet.
    questions: Arc<Questions>,
    /// Written to when the node goes, to end the thread that waits for the kernel.
    wake: Arc<OwnedFd>,
}

/// A source keeps no more than this.
const NOTE_MAX: usize = 8 << 20;

/// A volume as a container may have it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Volume {
    /// What the pod calls it.
    pub name: OuterName,
    /// Its directory on the host, or for a device the device's path; none for an image, which the container runtime mounts.
    pub path: Option<PathBuf>,
    /// As a directory or as a device.
    pub mode: Mode,
    /// It must be given to containers read-only.
    pub read_only: bool,
    /// Its ownership is windlass's to change.
    pub managed: bool,
    /// The container runtime may relabel it for SELinux.
    pub relabel: bool,
    /// What identifies the mount that is there (I-4).
    pub proof: Proof,
}

/// What becomes of the volume of a claim that is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deleted {
    /// Its driver is asked to delete it; [`Node::show_claim`] tells how that goes.
    Deleting {
        /// The volume; `None` if it may have been made, and is found out first.
        volume: Option<String>,
    },
    /// Its class keeps volumes (`reclaimPolicy: Retain`): it is forgotten, and stays with its driver.
    Released {
        /// The volume.
        volume: String,
    },
}

/// What is counted as it changes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Totals {
    /// Volumes and mounts.
    pub tally: Tally,
    /// Operations that were given out and have not ended.
    pub operations: usize,
    /// Pods that are gone, and of which something is left here.
    pub orphans: usize,
    /// Those of them whose directory could not be removed.
    pub leftovers: usize,
    /// Where CSI drivers register, and whether one has.
    pub sockets: BTreeMap<PathBuf, bool>,
    /// The threads that work.
    pub workers: Counts,
    /// Messages that the engine's thread has heard, by their kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// What was told and makes no sense.
    pub oddities: Vec<(Oddity, u64)>,
}

/// Why a volume of a pod is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// What the pod calls the volume.
    pub volume: OuterName,
    /// The reasons, deepest cause last; none if it is settled.
    pub reasons: Vec<Reason>,
}

/// A volume that is about to be handed out.
pub(crate) struct Handed {
    pub(crate) name: OuterName,
    pub(crate) mode: Mode,
    pub(crate) attributes: Attributes,
    pub(crate) proof: Proof,
    pub(crate) place: MountPlace,
    pub(crate) made: Made,
}

impl Node {
    /// A node whose volumes are below this directory, in the kubelet's layout.
    pub fn builder(root: impl Into<PathBuf>) -> Builder {
        Builder::new(root.into())
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.executor.scene.node
    }

    /// Somebody who has pods for this node, under this name: the way to give it pods. A name that is known already is the
    /// same source.
    pub fn source(&self, name: &str) -> Source {
        Source::announce(self, name)
    }

    /// Removes what windlass made of the directory of a pod that has gone: empty directories alone. Needed only with
    /// [`Builder::keep_pod_directories`].
    pub fn remove_pod_directory(&self, pod: &PodUid) {
        self.send(Message::RemoveDirectory(pod.clone()));
    }

    /// What a source has kept under this name; `None` if that is nothing, or cannot be read.
    pub(crate) fn kept(&self, name: &str) -> Option<Vec<u8>> {
        let name = Name::new("note", name).ok()?;
        whole_file::read(&self.0.notes, &name, NOTE_MAX).ok().flatten()
    }

    /// Keeps this for the next start, in place of what was kept under this name. This blocks.
    pub(crate) fn keep(&self, name: &str, contents: &[u8]) {
        let Ok(name) = Name::new("note", name) else { return };
        if let Err(error) = whole_file::write(&self.0.notes, &name, contents, Survives::PowerLoss) {
            let text = format!(
                "who is in force among manifests that are in conflict is not kept: {}",
                crate::plugin::chain(&error)
            );
            if let Some(changes) = self.0.changes.upgrade() {
                let _ = changes.send(Change::Damaged { text: text.into() });
            }
        }
    }

    /// Takes a pod away at once that nobody names and that is held because that may be an accident.
    pub async fn delete_pod(&self, pod: &PodUid) -> Result<(), DeleteError> {
        self.order(|answer| Message::DeletePod(pod.clone(), answer)).await?
    }

    /// Takes volumes of a pod away at once that it had before the start, does not name, and that are held because that may be
    /// an accident. `false` if there are none.
    pub async fn delete_orphans(&self, pod: &PodUid) -> Result<bool, Ended> {
        self.order(|answer| Message::DeleteOrphans(pod.clone(), answer)).await
    }

    /// An object appeared or changed. Exactly the volumes that use it are looked at. The API server's defaults are filled
    /// in. Where `metadata.resourceVersion` is that of before, so is the content; leave it out if no API server counts it.
    pub fn update_object(&self, object: impl Into<Object>) {
        self.send(Message::ObjectGiven(defaults::object(object.into())));
    }

    /// An object is known not to exist any more.
    pub fn remove_object(&self, reference: &Reference) {
        self.send(Message::ObjectGone(reference.clone()));
    }

    /// An object cannot be looked up, which says nothing about it: what uses it stays as it is.
    pub fn object_unavailable(&self, reference: &Reference, reason: &str) {
        self.send(Message::ObjectUnavailable { reference: reference.clone(), why: reason.into() });
    }

    /// Waits until all volumes of the pod are mounted, through any trouble, and returns them. [`Node::explain`] tells what
    /// it waits for; a pod that is not added is waited for too.
    pub async fn ready(&self, pod: &PodUid) -> Result<Vec<Volume>, WaitError> {
        loop {
            self.wait(pod, Goal::MountedAtLast, None).await?;
            if let Ok(volumes) = self.look(pod).await? {
                return Ok(volumes);
            }
        }
    }

    /// Waits at most this long until all volumes of the pod are mounted, as one pod sync of the kubelet does: what the pod
    /// says wrongly ends the wait at once (E-20..E-27).
    pub async fn sync(&self, pod: &PodUid, within: Duration) -> Result<Vec<Volume>, WaitError> {
        let began = Instant::now();
        loop {
            self.wait(pod, Goal::Mounted, Some(within.saturating_sub(began.elapsed()))).await?;
            if let Ok(volumes) = self.look(pod).await? {
                return Ok(volumes);
            }
        }
    }

    /// Waits until nothing of the pod is left here, not even in doubt: no volume, no record, no directory. A volume that it
    /// shared, or that has to be unstaged, detached or deleted, may still be on this node ([`Node::released`]).
    pub async fn gone(&self, pod: &PodUid) -> Result<(), WaitError> {
        self.wait(pod, Goal::Gone, None).await
    }

    /// Waits until nothing of the pod is left here, nor of the volumes that it alone had: they are unstaged, detached by this
    /// node if it attached them, and deleted if they are to be.
    pub async fn released(&self, pod: &PodUid) -> Result<(), WaitError> {
        self.gone(pod).await?;
        self.order(|answer| Message::ReleaseAwaited(pod.clone(), answer)).await?
    }

    /// The volumes of the pod that are mounted now. Each was looked at: the mount that is there is the one that windlass
    /// made (I-4), and one that is not is left out and mounted again.
    pub async fn volumes(&self, pod: &PodUid) -> Result<Vec<Volume>, Ended> {
        Ok(self.look(pod).await?.unwrap_or_else(|proven| proven))
    }

    /// All volumes of a pod that should be mounted; as the inner error only some of them, if the others are not what they
    /// were. The engine knows of those by then.
    async fn look(&self, pod: &PodUid) -> Result<Result<Vec<Volume>, Vec<Volume>>, Ended> {
        let uid = pod.clone();
        let handed = self.ask(About::Nothing, move |drive| drive.hand_out(&uid)).await?;
        let count = handed.len();
        let (executor, inbox) = (self.0.executor.clone(), self.0.inbox.clone());
        let (sender, receiver) = oneshot::channel();
        let looked = self.0.workers.run(&Lane::from("hand-out"), move || {
            let proven: Vec<Volume> = handed.into_iter().filter_map(|it| look(&executor, &inbox, it)).collect();
            let _ = sender.send(proven);
        });
        let proven: Vec<Volume> = match looked {
            Ok(_) => receiver.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        Ok(if proven.len() == count { Ok(proven) } else { Err(proven) })
    }

    /// How full the volumes of the pod are that are mounted now, by name; as an error why that is not known. Waits for
    /// all of them, and for one that hangs for as long as it does: [`Node::ask_statistics`] leaves that to the caller.
    pub async fn statistics(&self, pod: &PodUid) -> Result<Vec<(OuterName, measuring::Answer)>, Ended> {
        let mut all = Vec::new();
        for (name, asked) in self.ask_statistics(pod).await? {
            all.push((name, asked.answer().await));
        }
        Ok(all)
    }

    /// Asks how full the volumes of the pod are that are mounted now. Each is asked on a thread of its own, so that one
    /// that hangs holds up no other, and the answers can be awaited for as long as the caller likes.
    pub async fn ask_statistics(&self, pod: &PodUid) -> Result<Vec<(OuterName, Asked)>, Ended> {
        let uid = pod.clone();
        let mounted = self.ask(About::Nothing, move |drive| drive.measurable(&uid)).await?;
        let asked = mounted.into_iter().map(|(name, want, made)| (name, self.measure(pod, want, made)));
        Ok(asked.collect())
    }

    /// The CSI drivers that are registered, by name, with how they are called: for tests. Others ask
    /// [`Node::show_drivers`].
    #[doc(hidden)]
    pub fn drivers(&self) -> Vec<csi::Registered> {
        self.0.executor.scene.drivers.all()
    }

    /// Publishes volumes of the pod again whose drivers ask for that (`requiresRepublish`), as the kubelet does with each
    /// sync of a pod (C-121): they bring tokens and the like up to date. It is done once in a while in any case.
    pub fn republish(&self, pod: &PodUid) {
        self.send(Message::Republish(pod.clone()));
    }

    /// Tries at once what failed and waits for its next try: of a pod, or of one volume of it by the pod's name for it; of
    /// everything if no pod is given. Says what that is.
    pub async fn retry(&self, pod: Option<&PodUid>, volume: Option<&str>) -> Result<Vec<view::Retried>, Ended> {
        let (pod, volume) = (pod.cloned(), volume.map(ToOwned::to_owned));
        self.order(|answer| Message::Retry { pod, volume, answer }).await
    }

    /// Tries at once what failed for a claim and waits for its next try: to make its volume, to grow it or to delete it. Says
    /// what that is; `None` if nothing of it waits.
    pub async fn retry_claim(&self, namespace: &str, name: &str) -> Result<Option<view::Retried>, Ended> {
        let claim = Reference::new(ObjectKind::Claim, namespace, name);
        self.order(|answer| Message::RetryClaim(claim, answer)).await
    }

    /// The sources of pods, in the order of their names.
    pub async fn sources(&self) -> Result<Vec<SourceView>, Ended> {
        self.ask(About::Nothing, |drive| drive.engine().sources()).await
    }

    /// Whether there are sources and all of them have told all they have (the kubelet's `sourcesReady`).
    pub async fn sources_ready(&self) -> Result<bool, Ended> {
        let sources = self.sources().await?;
        Ok(!sources.is_empty() && sources.iter().all(|it| it.state.is_complete()))
    }

    /// How many messages of each kind the engine's thread has heard.
    pub async fn messages(&self) -> Result<BTreeMap<&'static str, u64>, Ended> {
        self.ask(About::Nothing, |drive| drive.messages().clone()).await
    }

    /// What is counted as it changes, at this moment. Asking walks nothing (I-9).
    pub async fn totals(&self) -> Result<Totals, Ended> {
        let workers = self.0.workers.counts();
        self.ask(About::Nothing, move |drive| drive.totals(workers)).await
    }

    /// Asks how full the volumes of claims are that pods have mounted, each by namespace and name of its claim once, as
    /// [`Node::ask_statistics`] does. Looks at the pods that use claims and at no others.
    pub async fn ask_claims(&self) -> Result<Vec<((String, String), Asked)>, Ended> {
        let claimed = self.ask(About::Nothing, |drive| drive.measurable_claims()).await?;
        let asked = claimed.into_iter().map(|(claim, pod, want, made)| (claim, self.measure(&pod, want, made)));
        Ok(asked.collect())
    }

    fn measure(&self, pod: &PodUid, want: Want, made: Made) -> Asked {
        let (executor, volume) = (self.0.executor.clone(), want.detail.volume.clone());
        let question = async move { executor.statistics(&want, &made).await.map_err(|failure| failure.to_string()) };
        self.0.questions.ask(&self.0.workers, &volume, pod, question)
    }

    /// Whether what was on disk at the start is known.
    pub async fn is_synced(&self) -> Result<bool, Ended> {
        self.ask(About::Nothing, |drive| drive.engine().states_synced()).await
    }

    /// The groups that the pod's volumes bring besides its own (E-37).
    pub async fn groups(&self, pod: &PodUid) -> Result<Vec<i64>, Ended> {
        let uid = pod.clone();
        self.ask(About::Nothing, move |drive| drive.engine().extra_groups(&uid)).await
    }

    /// How the pod's volumes stand; `None` if the pod is not known.
    pub async fn status(&self, pod: &PodUid) -> Result<Option<PodStatus>, Ended> {
        let uid = pod.clone();
        self.ask(About::Nothing, move |drive| drive.engine().pod_status(&uid)).await
    }

    /// Why volumes of the pod are not settled, those that are left out (I-7).
    pub async fn explain(&self, pod: &PodUid) -> Result<Vec<Explanation>, Ended> {
        let uid = pod.clone();
        let explained = self.ask(About::Pods(vec![uid.clone()]), move |drive| {
            let names = drive.volume_names(&uid).into_iter();
            let all = names.map(|volume| Explanation { reasons: drive.explain(&uid, &volume), volume });
            all.filter(|it| !it.reasons.is_empty()).collect()
        });
        explained.await
    }

    /// A pod as it was given, with the API server's defaults; `None` if it is not known.
    pub async fn pod(&self, pod: &PodUid) -> Result<Option<Arc<api::Pod>>, Ended> {
        let uid = pod.clone();
        self.ask(About::Nothing, move |drive| drive.pod(&uid)).await
    }

    /// A pod and its volumes as they are shown; `None` if it is not known and nothing of it is here.
    pub async fn show_pod(&self, pod: &PodUid) -> Result<Option<view::Pod>, Ended> {
        let uid = pod.clone();
        self.ask(About::Pods(vec![uid.clone()]), move |drive| drive.show_pod(&uid)).await
    }

    /// The pods of this name as they are shown: mostly one, and more while an earlier one of the same name goes. Costs what
    /// those cost, however many others there are (I-9).
    pub async fn show_pods_named(&self, namespace: &str, name: &str) -> Result<Vec<view::Pod>, Ended> {
        let name = format!("{namespace}/{name}");
        self.ask(About::Named(name.clone()), move |drive| {
            drive.pods_named(&name).iter().filter_map(|it| drive.show_pod(it)).collect()
        })
        .await
    }

    /// All pods as they are shown, sorted by namespace and name.
    pub async fn show_pods(&self) -> Result<Vec<view::Pod>, Ended> {
        self.ask(About::Everything, |drive| drive.show_pods()).await
    }

    /// These pods as they are shown, in this order, each as by [`Node::show_pod`]: many cost little more than one.
    pub async fn show_each(&self, pods: Vec<PodUid>) -> Result<Vec<Option<view::Pod>>, Ended> {
        self.ask(About::Pods(pods.clone()), move |drive| pods.iter().map(|it| drive.show_pod(it)).collect()).await
    }

    /// A volume as it is shown; `None` if nobody wants it and nothing of it is here.
    pub async fn show_volume(&self, volume: &VolumeId) -> Result<Option<view::Volume>, Ended> {
        let id = volume.clone();
        self.ask(About::Nothing, move |drive| drive.show_volume(&id)).await
    }

    /// All volumes as they are shown, sorted by name.
    pub async fn show_volumes(&self) -> Result<Vec<view::Volume>, Ended> {
        self.ask(About::Everything, |drive| drive.show_volumes()).await
    }

    /// The CSI drivers that are registered, those that volumes wait for, and those that something is set for, as they are
    /// shown, sorted by name.
    pub async fn show_drivers(&self) -> Result<Vec<view::Driver>, Ended> {
        self.ask(About::Nothing, |drive| drive.show_drivers(None)).await
    }

    /// One driver as it is shown; `None` if [`Node::show_drivers`] would leave it out.
    pub async fn show_driver(&self, name: &str) -> Result<Option<view::Driver>, Ended> {
        let name = name.to_owned();
        self.ask(About::Nothing, move |drive| drive.show_drivers(Some(&name)).pop()).await
    }

    /// The CSI drivers that these volumes are of, in this order; `None` for a volume that is of none, or is not here.
    pub async fn drivers_of(&self, volumes: Vec<VolumeId>) -> Result<Vec<Option<DriverName>>, Ended> {
        self.ask(About::Nothing, move |drive| volumes.iter().map(|it| drive.engine().driver_of(it).cloned()).collect())
            .await
    }

    /// All claims as they are shown, also what was made for those that are gone, sorted by namespace and name.
    pub async fn show_claims(&self) -> Result<Vec<view::Claim>, Ended> {
        self.ask(About::Nothing, |drive| drive.show_claims()).await
    }

    /// A claim as it is shown; `None` if it is not there and nothing is kept that was made for it.
    pub async fn show_claim(&self, namespace: &str, name: &str) -> Result<Option<view::Claim>, Ended> {
        let claim = Reference::new(ObjectKind::Claim, namespace, name);
        self.ask(About::Nothing, move |drive| drive.show_one_claim(&claim)).await
    }

    /// Has the volume deleted now that was made for a claim that is gone: without waiting until its time has come
    /// ([`Builder::delete_delay`]), and also if nobody saw that the claim went.
    pub async fn delete_claim(&self, namespace: &str, name: &str) -> Result<Deleted, ClaimRefusal> {
        let claim = Reference::new(ObjectKind::Claim, namespace, name);
        self.order(|answer| Message::DeleteClaim(claim, answer)).await?
    }

    /// The operations that run, oldest first, as they are shown.
    pub async fn show_operations(&self) -> Result<Vec<view::Operation>, Ended> {
        self.ask(About::Everything, |drive| drive.show_operations()).await
    }

    /// Everything that the engine knows at one moment, as it knows it: for tests. Others ask what is shown.
    #[doc(hidden)]
    pub async fn snapshot(&self) -> Result<Snapshot, Ended> {
        self.ask(About::Everything, |drive| drive.engine().snapshot()).await
    }

    /// The volumes in use on this node; `None` while that is not known yet.
    pub async fn volumes_in_use(&self) -> Result<Option<InUse>, Ended> {
        self.ask(About::Nothing, |drive| drive.engine().volumes_in_use()).await
    }

    /// The set of volumes in use of this version, or a later one, is stored where whoever attaches volumes reads it
    /// ([`Report::Stored`]).
    pub fn in_use_reported(&self, version: u64) {
        self.send(Message::InUseReported(version));
    }

    /// What covers the root directory, so that nothing below it can be reached by its path; `None` if nothing does.
    pub fn root_cover(&self) -> Option<String> {
        self.0.executor.cover().map(|it| plugin::covered(&self.0.executor.scene, &it).text)
    }

    /// What this kernel can do for it.
    pub fn abilities(&self) -> &'static Abilities {
        Abilities::of_this_kernel()
    }

    /// The threads that work and hang.
    pub fn workers(&self) -> Counts {
        self.0.workers.counts()
    }

    /// All that happens from now on.
    pub fn changes(&self) -> Changes {
        // Of a node that has ended nothing is to be heard.
        let changes = self.0.changes.upgrade().unwrap_or_else(|| broadcast::Sender::new(1));
        Changes(changes.subscribe())
    }

    /// All that has happened since the start, and happens from now on. Only for the first who asks.
    pub fn changes_since_start(&self) -> Option<Changes> {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Changes)
    }

    /// Ends in order: begins nothing more, waits at most this long for what runs, and leaves all volumes mounted. Returns
    /// how many operations still ran; the next start recovers from them.
    pub async fn stop(self, within: Duration) -> Result<usize, Ended> {
        self.order(|done| Message::Stop { within, done: Some(done) }).await
    }

    /// Waits until the node has ended, and says how.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.0.ended.clone();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(ended)) => ended.clone(),
            // Whoever would say it says it last of all, so this does not happen.
            Ok(None) | Err(_) => Ended::Broken { text: "its thread is gone".into() },
        }
    }

    /// Whether the node has ended; it does not ask whether it answers ([`Node::ping`]).
    pub fn check(&self) -> Result<(), Ended> {
        self.0.ended.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits until the node answers, whatever it knows.
    pub async fn ping(&self) -> Result<(), Ended> {
        self.ask(About::Nothing, |_| ()).await
    }

    /// Breaks the engine off as a defect would, to see that nobody takes that for health.
    #[doc(hidden)]
    pub fn break_engine(&self, text: &'static str) {
        self.break_off(text.into());
    }

    /// A part of the node without which it would look well and not be so broke off: the rest ends with it.
    pub(crate) fn break_off(&self, text: Arc<str>) {
        self.send(Message::BrokeOff(text));
    }

    /// A source says something of its pods.
    pub(crate) fn hear(&self, source: SourceName, said: Said) {
        self.send(Message::Source(source, said));
    }

    fn send(&self, message: Message) {
        // After a stop nobody listens, and nothing is to be done.
        let _ = self.0.inbox.send(message);
    }

    /// Sends something that is answered.
    async fn order<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, Ended> {
        let (sender, receiver) = oneshot::channel();
        self.send(message(sender));
        match receiver.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.ended().await),
        }
    }

    /// Looks at the drive.
    async fn ask<T: Send + 'static>(
        &self,
        about: About,
        look: impl FnOnce(&Drive) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let question = |answer: oneshot::Sender<T>| {
            let look = Box::new(move |drive: &Drive| _ = answer.send(look(drive)));
            Message::Question(Question { about, look })
        };
        self.order(question).await
    }

    async fn wait(&self, pod: &PodUid, goal: Goal, within: Option<Duration>) -> Result<(), WaitError> {
        let waiter = WaiterId(self.0.next_waiter.fetch_add(1, Ordering::Relaxed));
        let mut waiting = Waiting { inbox: &self.0.inbox, waiter: Some(waiter) };
        let pod = pod.clone();
        let result = self.order(|answer| Message::WaitBegan { waiter, pod, goal, within, answer }).await;
        waiting.waiter = None;
        result?
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.executor.scene.layout.path()).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.inbox.send(Message::Stop { within: Duration::ZERO, done: None });
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        self.workers.stop();
    }
}

/// Takes a wait back when whoever waits goes away.
struct Waiting<'a> {
    inbox: &'a Sender<Message>,
    waiter: Option<WaiterId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            let _ = self.inbox.send(Message::WaitCancelled(waiter));
        }
    }
}

/// Looks at a volume once more before it is handed out.
fn look(executor: &Executor, inbox: &Sender<Message>, handed: Handed) -> Option<Volume> {
    let Handed { name, mode, attributes, proof, place, made, .. } = handed;
    // What cannot be looked at is not handed out, and is made again.
    let looked = panic::catch_unwind(AssertUnwindSafe(|| executor.look(&made)));
    match looked.ok().and_then(Result::ok).flatten() {
        Some(seen) if proof.holds_for(&seen) => Some(Volume {
            name,
            path: Some(made.path).filter(|it| !it.as_os_str().is_empty()),
            mode,
            read_only: attributes.read_only,
            managed: attributes.managed,
            relabel: attributes.relabel,
            proof,
        }),
        seen => {
            let _ = inbox.send(Message::MountSeen { place, expected: proof, proof: seen });
            None
        }
    }
}
