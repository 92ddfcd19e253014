//! A node's volumes, for a program that embeds windlass: give it pods and objects, await their volumes, get paths back.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1 as api;
use rustix::fd::OwnedFd;
use tokio::sync::{broadcast, oneshot};
use windlass_core::{
    answer::{InUse, PodStatus},
    event::{Containers, Goal, Place},
    ids::{DriverName, OuterName, PodUid, VolumeId, WaiterId},
    notice::Verdict,
    operation::Proof,
    reason::{Code, Reason},
    snapshot::Snapshot,
    spec,
};
use windlass_linux::{
    abilities::Abilities,
    name::{self, Name},
    workers::{Counts, Lane, Workers},
};

use crate::{
    csi::{self},
    defaults,
    drive::{Drive, Message},
    executor::Executor,
    measuring::{self, Asked, Questions},
    memory::Object,
    objects::Reference,
    packed::Packed,
    plugin::{Attributes, Made},
    resolve::{self},
    tell::{self},
    view,
};

mod start;

pub(crate) use start::random;
pub use start::{Builder, Holder, Report, StartError};
pub use windlass_core::answer::WaitError;

/// The volumes of one node. Cheap to clone; the last clone that goes ends the work and leaves the volumes mounted.
///
/// Nothing here blocks, and what is to be awaited can be awaited on any runtime.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    inbox: Sender<Message>,
    changes: broadcast::Sender<Change>,
    /// Has heard everything since the start, for the first who listens.
    first: Mutex<Option<broadcast::Receiver<Change>>>,
    workers: Workers,
    executor: Arc<Executor>,
    /// How full volumes are, as far as that was asked and not answered yet.
    questions: Arc<Questions>,
    /// Written to when the node goes, to end the thread that waits for the kernel.
    wake: Arc<OwnedFd>,
}

/// Why a pod was not taken. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// It lacks what every pod has.
    #[error(transparent)]
    Incomplete(#[from] resolve::Error),
    /// Its UID cannot be the name of a directory.
    #[error(transparent)]
    Name(#[from] name::Error),
}

/// A volume as a container may have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// What the pod calls it.
    pub name: OuterName,
    /// Its directory on the host, or for a device the device's path; none for an image, which the container runtime mounts.
    pub path: Option<PathBuf>,
    /// As a directory or as a device.
    pub mode: spec::Mode,
    /// It must be given to containers read-only.
    pub read_only: bool,
    /// Its ownership is windlass's to change.
    pub managed: bool,
    /// The container runtime may relabel it for SELinux.
    pub relabel: bool,
    /// What identifies the mount that is there (I-4).
    pub proof: Proof,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A volume, or a pod's mount of it, stands differently than before.
    Volume {
        /// The volume.
        volume: VolumeId,
        /// The pod, if it is about a pod's mount.
        pod: Option<PodUid>,
        /// How it stands now.
        code: Code,
    },
    /// A pod was given, changed or removed, or what it names was looked up again.
    Pod {
        /// The pod.
        pod: PodUid,
        /// `namespace/name`; its UID, if that is all that is known of it.
        name: Arc<str>,
    },
    /// A volume was mounted, and with it all that the pod has.
    PodMounted(PodUid),
    /// What a pod's owner should know, in the kubelet's words.
    Event(tell::Event),
    /// Nothing of this pod is left.
    PodReleased(PodUid),
    /// A CSI driver came, came again, or went.
    Driver {
        /// Its name.
        name: Arc<str>,
        /// Whether it is registered now.
        registered: bool,
    },
    /// A CSI driver that is registered was started again: whatever waits for it is tried at once.
    DriverBack {
        /// Its name.
        name: Arc<str>,
    },
    /// A CSI driver could not be registered, or something that is none is where drivers register. It is tried again.
    DriverRefused {
        /// What is wrong.
        text: Arc<str>,
    },
    /// Something became of the volume that this node has made for a claim, or is to make.
    Claim {
        /// `namespace/name`.
        claim: Arc<str>,
        /// Whether somebody should look.
        tone: tell::Tone,
        /// What became of it.
        text: Arc<str>,
    },
    /// What was found at start is known.
    Synced,
    /// The set of volumes in use changed.
    InUse {
        /// Its version now.
        version: u64,
    },
    /// Growing a volume came to an end that its claim should show.
    Expansion {
        /// The volume.
        volume: VolumeId,
        /// How it ended.
        verdict: Verdict,
    },
    /// A pod's directory could not be made, or not be removed. It is tried again at the next start.
    Leftover {
        /// The pod.
        pod: PodUid,
        /// What is in the way.
        text: Arc<str>,
    },
    /// A record or a directory of an earlier life makes no sense; what it is about is treated as uncertain.
    Damaged {
        /// What is wrong.
        text: Arc<str>,
    },
    /// The disk could not be read. It is tried again; until then nothing is taken away.
    DiskUnreadable {
        /// Why.
        text: Arc<str>,
    },
    /// The listener was too slow, and this many changes are lost to it.
    Missed(u64),
}

/// Why a volume of a pod is not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What the pod calls the volume.
    pub volume: OuterName,
    /// The reasons, deepest cause last; none if it is settled.
    pub reasons: Vec<Reason>,
}

/// A stream of changes.
#[derive(Debug)]
pub struct Changes(broadcast::Receiver<Change>);

impl Changes {
    /// Whether the next change has not happened yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next change; `None` once the node has ended.
    pub async fn next(&mut self) -> Option<Change> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Change::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// A volume that is about to be handed out.
pub(crate) struct Handed {
    pub(crate) name: OuterName,
    pub(crate) mode: spec::Mode,
    pub(crate) attributes: Attributes,
    pub(crate) proof: Proof,
    pub(crate) place: Place,
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

    /// Adds a pod, or changes one that is there. The API server's defaults are filled in; a pod that is shared and has them
    /// stays shared.
    ///
    /// The objects that it uses may be given before or after it. Only the `Node` is better given first: the size of a volume
    /// in memory follows from what the node allots to pods, and stays as it was when it was mounted (P-64).
    pub fn add_pod(&self, pod: impl Into<Arc<api::Pod>>) -> Result<PodUid, PodError> {
        let pod = defaults::shared(pod.into(), defaults::pod);
        let packed = Packed::new(pod.clone());
        packed.lend();
        self.add_packed(pod, packed)
    }

    /// Adds a pod that is packed already and has the API server's defaults.
    pub(crate) fn add_packed(&self, pod: Arc<api::Pod>, packed: Packed) -> Result<PodUid, PodError> {
        let (uid, _, _) = resolve::identify(&pod)?;
        Name::new("metadata.uid", uid.as_str())?;
        let added = uid.clone();
        self.send(move |drive| drive.add_pod(&added, packed, &pod));
        Ok(uid)
    }

    /// The pod is gone and nothing of it runs: its volumes are taken away, once [`Node::complete`] has been called.
    pub fn remove_pod(&self, pod: &PodUid) {
        let pod = pod.clone();
        self.send(move |drive| drive.remove_pod(&pod, Containers::Stopped));
    }

    /// The pod is gone but its containers may still run: it keeps its volumes until [`Node::remove_pod`].
    pub fn pod_is_ending(&self, pod: &PodUid) {
        let pod = pod.clone();
        self.send(move |drive| drive.remove_pod(&pod, Containers::MayRun));
    }

    /// Removes what windlass made of the directory of a pod that has gone: empty directories alone. Needed only with
    /// [`Builder::keep_pod_directories`].
    pub fn remove_pod_directory(&self, pod: &PodUid) {
        let pod = pod.clone();
        self.send(move |drive| drive.remove_directory(&pod));
    }

    /// All pods that are to be on this node, and the objects they name, have been given once since it was started. What is
    /// found on disk of other pods is taken away from now on, and nothing is before (I-1); a config map or secret that was
    /// not given does not exist.
    pub fn complete(&self) {
        self.send(Drive::complete);
    }

    /// An object appeared or changed. Exactly the volumes that use it are looked at. The API server's defaults are filled
    /// in.
    pub fn update_object(&self, object: impl Into<Object>) {
        let object = defaults::object(object.into());
        self.send(move |drive| drive.update_object(object));
    }

    /// An object is known not to exist any more.
    pub fn remove_object(&self, reference: &Reference) {
        let reference = reference.clone();
        self.send(move |drive| drive.remove_object(&reference));
    }

    /// An object cannot be looked up, which says nothing about it: what uses it stays as it is.
    pub fn object_unavailable(&self, reference: &Reference, reason: &str) {
        let (reference, reason) = (reference.clone(), reason.to_owned());
        self.send(move |drive| drive.fail_object(&reference, &reason));
    }

    /// Waits until all volumes of the pod are mounted, through any trouble, and returns them. [`Node::explain`] tells what
    /// it waits for; a pod that is not added is waited for too.
    pub async fn ready(&self, pod: &PodUid) -> Result<Vec<Volume>, WaitError> {
        loop {
            self.wait(pod, Goal::MountedAtLast, None).await?;
            if let Ok(volumes) = self.look(pod).await {
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
            if let Ok(volumes) = self.look(pod).await {
                return Ok(volumes);
            }
        }
    }

    /// Waits until no volume of the pod is left here, not even in doubt. The pod's empty directory goes a moment later.
    pub async fn gone(&self, pod: &PodUid) -> Result<(), WaitError> {
        self.wait(pod, Goal::Gone, None).await
    }

    /// The volumes of the pod that are mounted now. Each was looked at: the mount that is there is the one that windlass
    /// made (I-4), and one that is not is left out and mounted again.
    pub async fn volumes(&self, pod: &PodUid) -> Vec<Volume> {
        self.look(pod).await.unwrap_or_else(|proven| proven)
    }

    /// All volumes of a pod that should be mounted; as an error only some of them, if the others are not what they were.
    /// The engine knows of those by then.
    async fn look(&self, pod: &PodUid) -> Result<Vec<Volume>, Vec<Volume>> {
        let uid = pod.clone();
        let Some(handed) = self.ask(move |drive| drive.hand_out(&uid)).await else { return Err(Vec::new()) };
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
        if proven.len() == count { Ok(proven) } else { Err(proven) }
    }

    /// How full the volumes of the pod are that are mounted now, by name; as an error why that is not known. Waits for
    /// all of them, and for one that hangs for as long as it does: [`Node::ask_statistics`] leaves that to the caller.
    pub async fn statistics(&self, pod: &PodUid) -> Vec<(OuterName, measuring::Answer)> {
        let mut all = Vec::new();
        for (name, asked) in self.ask_statistics(pod).await {
            all.push((name, asked.answer().await));
        }
        all
    }

    /// Asks how full the volumes of the pod are that are mounted now. Each is asked on a thread of its own, so that one
    /// that hangs holds up no other, and the answers can be awaited for as long as the caller likes.
    pub async fn ask_statistics(&self, pod: &PodUid) -> Vec<(OuterName, Asked)> {
        let uid = pod.clone();
        let mounted = self.ask(move |drive| drive.measurable(&uid)).await.unwrap_or_default();
        let asked = mounted.into_iter().map(|(name, want, made)| {
            let (executor, volume) = (self.0.executor.clone(), want.detail.volume.clone());
            let question = move || executor.statistics(&want, &made).map_err(|failure| failure.to_string());
            (name, self.0.questions.ask(&self.0.workers, &volume, pod, question))
        });
        asked.collect()
    }

    /// The CSI drivers that are registered, by name.
    pub fn drivers(&self) -> Vec<csi::Registered> {
        self.0.executor.scene.drivers.all()
    }

    /// Publishes volumes of the pod again whose drivers ask for that (`requiresRepublish`), as the kubelet does with each
    /// sync of a pod (C-121): they bring tokens and the like up to date. It is done once in a while in any case.
    pub fn republish(&self, pod: &PodUid) {
        let pod = pod.clone();
        self.send(move |drive| drive.republish(&pod));
    }

    /// The groups that the pod's volumes bring besides its own (E-37).
    pub async fn groups(&self, pod: &PodUid) -> Vec<i64> {
        let uid = pod.clone();
        self.ask(move |drive| drive.engine.extra_groups(&uid)).await.unwrap_or_default()
    }

    /// How the pod's volumes stand; `None` if the pod is not known.
    pub async fn status(&self, pod: &PodUid) -> Option<PodStatus> {
        let uid = pod.clone();
        self.ask(move |drive| drive.engine.pod_status(&uid)).await.flatten()
    }

    /// Why volumes of the pod are not settled, those that are left out (I-7).
    pub async fn explain(&self, pod: &PodUid) -> Vec<Explanation> {
        let uid = pod.clone();
        let explained = self.ask(move |drive| {
            let names = drive.volume_names(&uid).into_iter();
            let all = names.map(|volume| Explanation { reasons: drive.engine.explain(&uid, &volume), volume });
            all.filter(|it| !it.reasons.is_empty()).collect()
        });
        explained.await.unwrap_or_default()
    }

    /// A pod as it was given, with the API server's defaults; `None` if it is not known.
    pub async fn pod(&self, pod: &PodUid) -> Option<Arc<api::Pod>> {
        let uid = pod.clone();
        self.ask(move |drive| drive.pod(&uid)).await.flatten()
    }

    /// A pod and its volumes as they are shown; `None` if it is not known and nothing of it is here.
    pub async fn show_pod(&self, pod: &PodUid) -> Option<view::Pod> {
        let uid = pod.clone();
        self.ask(move |drive| drive.show_pod(&uid)).await.flatten()
    }

    /// All pods as they are shown, sorted by namespace and name.
    pub async fn show_pods(&self) -> Vec<view::Pod> {
        self.ask(|drive| drive.show_pods()).await.unwrap_or_default()
    }

    /// These pods as they are shown, in this order, each as by [`Node::show_pod`]: many cost little more than one.
    pub async fn show_each(&self, pods: Vec<PodUid>) -> Vec<Option<view::Pod>> {
        let count = pods.len();
        let shown = self.ask(move |drive| pods.iter().map(|it| drive.show_pod(it)).collect::<Vec<_>>()).await;
        shown.unwrap_or_else(|| vec![None; count])
    }

    /// A volume as it is shown; `None` if nobody wants it and nothing of it is here.
    pub async fn show_volume(&self, volume: &VolumeId) -> Option<view::Volume> {
        let id = volume.clone();
        self.ask(move |drive| drive.show_volume(&id)).await.flatten()
    }

    /// All volumes as they are shown, sorted by name.
    pub async fn show_volumes(&self) -> Vec<view::Volume> {
        self.ask(|drive| drive.show_volumes()).await.unwrap_or_default()
    }

    /// The CSI drivers that are registered, those that volumes wait for, and those that something is set for, as they are
    /// shown, sorted by name.
    pub async fn show_drivers(&self) -> Vec<view::Driver> {
        self.ask(|drive| drive.show_drivers(None)).await.unwrap_or_default()
    }

    /// One driver as it is shown; `None` if [`Node::show_drivers`] would leave it out.
    pub async fn show_driver(&self, name: &str) -> Option<view::Driver> {
        let name = name.to_owned();
        self.ask(move |drive| drive.show_drivers(Some(&name)).pop()).await.flatten()
    }

    /// The CSI drivers that these volumes are of, in this order; `None` for a volume that is of none, or is not here.
    pub async fn drivers_of(&self, volumes: Vec<VolumeId>) -> Vec<Option<DriverName>> {
        let count = volumes.len();
        let drivers = self.ask(move |drive| volumes.iter().map(|it| drive.engine.driver_of(it).cloned()).collect());
        drivers.await.unwrap_or_else(|| vec![None; count])
    }

    /// The operations that run, oldest first, as they are shown.
    pub async fn show_operations(&self) -> Vec<view::Operation> {
        self.ask(|drive| drive.show_operations()).await.unwrap_or_default()
    }

    /// Everything, at one moment; `None` once the node has stopped.
    pub async fn snapshot(&self) -> Option<Snapshot> {
        self.ask(|drive| drive.engine.snapshot()).await
    }

    /// The volumes in use on this node; `None` while that is not known yet.
    pub async fn volumes_in_use(&self) -> Option<InUse> {
        self.ask(|drive| drive.engine.volumes_in_use()).await.flatten()
    }

    /// The set of volumes in use of this version, or a later one, is stored where whoever attaches volumes reads it
    /// ([`Report::Stored`]).
    pub fn in_use_reported(&self, version: u64) {
        self.send(move |drive| drive.tell(windlass_core::Event::InUseReported { version }));
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
        Changes(self.0.changes.subscribe())
    }

    /// All that has happened since the start, and happens from now on. Only for the first who asks.
    pub fn changes_since_start(&self) -> Option<Changes> {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Changes)
    }

    /// Ends in order: begins nothing more, waits at most this long for what runs, and leaves all volumes mounted. Returns
    /// how many operations still ran; the next start recovers from them.
    pub async fn stop(self, within: Duration) -> usize {
        let (sender, receiver) = oneshot::channel();
        self.send(move |drive| drive.stop(within, Some(sender)));
        receiver.await.unwrap_or_default()
    }

    fn send(&self, message: impl FnOnce(&mut Drive) + Send + 'static) {
        // After a stop nobody listens, and nothing is to be done.
        let _ = self.0.inbox.send(Box::new(message));
    }

    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&mut Drive) -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.send(move |drive| {
            let _ = sender.send(question(drive));
        });
        receiver.await.ok()
    }

    async fn wait(&self, pod: &PodUid, goal: Goal, within: Option<Duration>) -> Result<(), WaitError> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = Waiting { inbox: self.0.inbox.clone(), waiter: Arc::default() };
        let (uid, waiter) = (pod.clone(), waiting.waiter.clone());
        self.send(move |drive| {
            let id = drive.wait(uid, goal, within, sender);
            *waiter.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
        });
        let result = receiver.await;
        waiting.waiter = Arc::default();
        // The node has stopped: nothing is known any more.
        result.unwrap_or_else(|_| Err(WaitError::TimedOut(PodStatus::default())))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.executor.scene.layout.path()).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.inbox.send(Box::new(|drive| drive.stop(Duration::ZERO, None)));
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        self.workers.stop();
    }
}

/// Takes a wait back when whoever waits goes away.
struct Waiting {
    inbox: Sender<Message>,
    waiter: Arc<Mutex<Option<WaiterId>>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // The wait may not have begun; messages keep their order, so it has by the time this one is read.
        let waiter = self.waiter.clone();
        let _ = self.inbox.send(Box::new(move |drive| {
            let id = waiter.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(id) = id {
                drive.cancel(id);
            }
        }));
    }
}

/// Looks at a volume once more before it is handed out.
fn look(executor: &Executor, inbox: &Sender<Message>, handed: Handed) -> Option<Volume> {
    let Handed { name, mode, attributes, proof, place, made, .. } = handed;
    // What cannot be looked at is not handed out, and is made again.
    match executor.look(&made).unwrap_or(None) {
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
            let _ = inbox.send(Box::new(move |drive| drive.seen(place, proof, seen)));
            None
        }
    }
}
