//! Every fact that can reach the engine from outside. What is not here, the engine does not know.

use crate::ids::{
    BootId, DriverName, InnerName, ObjectName, OperationId, PluginName, PodUid, SourceName, Time, Version, VolumeId,
    WaiterId,
};
use crate::operation::{Outcome, Proof};
use crate::reason::Code;
use crate::spec::{Mode, Pod, VolumeSpec};
use alloc::sync::Arc;
use core::time::Duration;

/// A fact from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// A source has this pod, for the first time or again. Its volumes may have been looked up anew.
    ///
    /// It counts as given by its source as the source is now: a pod that is only looked up anew while its source is lost is
    /// confirmed by that, and must be told gone by [`PodGone`](Self::PodGone) if the source turns out not to have it. Nothing
    /// is kept of a pod that has gone; a stale word of it after that must be followed by another `PodGone`.
    PodApplied(Pod),
    /// A source no longer has this pod.
    PodGone {
        /// The pod.
        uid: PodUid,
        /// How new this is.
        version: Version,
        /// Whether something of it may still run. If so its volumes stay until this event comes again with `Stopped`.
        containers: Containers,
    },
    /// There is another source. Until it is complete nothing that was found on disk, and that it may have, is taken away. One
    /// that is known already is as it was.
    SourceAnnounced(SourceName),
    /// A source has given everything it has since it started or was lost: what it had before and did not give again is gone.
    ///
    /// Once every source has been complete, pods that were found on disk and that none has are gone too, after a delay. Pods without a source
    /// whose containers still run are told before that, by [`PodGone`](Self::PodGone) with [`Containers::MayRun`].
    SourceComplete {
        /// The source.
        source: SourceName,
        /// How new its list is. A pod that is known in a newer version than this is not judged by it.
        version: Version,
        /// What to assume of the containers of pods that are gone.
        containers: Containers,
        /// How long what was found on disk stays if no source has named it since the start: a source can look shorter than
        /// it is, and at the start nobody knows how long it was (I-1). With zero its word is final.
        orphan_delay: Duration,
        /// What it cannot read all the same, for people: what it gives counts, but what it does not name may be there, so no
        /// [`Hold`] ends. This is told again when it is another thing, or nothing any more.
        doubt: Option<Arc<str>>,
    },
    /// A source that can be asked to read all it has again ([`Notice::RereadWanted`](crate::notice::Notice::RereadWanted)) has
    /// told all that it had at this moment. Once it has said so, be it of the beginning of time, no [`Hold`] ends that is due
    /// at a later moment than the last one that it told of: what it does not name may be back, and the clock knows first.
    SourceRead {
        /// The source.
        source: SourceName,
        /// The moment.
        as_of: Time,
    },
    /// A source cannot tell whether it has this pod: what is there of it stays as it is, and it gets nothing new (I-1). Of a
    /// pod that is not known, and of which nothing is here, there is nothing to keep.
    PodHeld {
        /// The pod.
        uid: PodUid,
        /// Why, and for how long.
        hold: Hold,
    },
    /// Somebody says that what is held of this pod may go: the pod, or the volumes that it does not name.
    HoldReleased(PodUid),
    /// A source cannot be read any more. What it gave stays wanted; what it has now is not known.
    SourceLost {
        /// The source.
        source: SourceName,
        /// Why, for people.
        text: Arc<str>,
    },

    /// This object appeared or changed: whatever failed for want of it is tried again at once.
    ObjectChanged(ObjectName),
    /// This driver registered, for the first time or anew.
    DriverRegistered(DriverName),
    /// This driver is gone.
    DriverUnregistered(DriverName),

    /// What the attacher says of a volume.
    AttachmentChanged {
        /// The volume.
        volume: VolumeId,
        /// Its attachment to this node.
        attachment: Attachment,
    },
    /// The attacher has told all it knows (E-196).
    AttachmentsComplete,
    /// The set of volumes in use, in this version or a newer one, stands where the attacher reads it (E-41).
    ///
    /// Whoever gives this event first gives the attachments as they were *after* the report was stored, for example from
    /// the answer to the write. Else a volume could be staged while the attacher, who looked just before, takes it away.
    InUseReported {
        /// The version that was given out by [`Engine::volumes_in_use`](crate::Engine::volumes_in_use).
        version: u64,
    },

    /// What is mounted at a place now, read when this event is made: something changed there behind our back or by our hand.
    MountSeen {
        /// The place.
        place: MountPlace,
        /// What is mounted there; nothing if `None`.
        proof: Option<Proof>,
    },

    /// Start: a record says that this node attached the volume itself.
    FoundAttached {
        /// The volume as the record has it.
        spec: Arc<VolumeSpec>,
        /// Whether attach is known to have finished, and as which device; `None` if only the intent was recorded.
        device: Option<Arc<str>>,
    },
    /// Start: a volume may be staged here.
    FoundStaged(Found),
    /// Start: a volume may be published to a pod.
    FoundPublished {
        /// The pod.
        pod: PodUid,
        /// What was found.
        found: Found,
    },
    /// Start: something is there that has no readable record; only the names of its directories are known (E-199).
    FoundUnreadable {
        /// The pod in whose directory it is.
        pod: PodUid,
        /// The plugin whose directory it is in.
        plugin: PluginName,
        /// Its own directory's name.
        inner_name: InnerName,
        /// Whether that directory is where directories or where devices are (E-193).
        mode: Mode,
    },
    /// Start: this pod has a directory, or records.
    FoundPod {
        /// The pod.
        uid: PodUid,
        /// `namespace/name`, if that is written down.
        name: Option<Arc<str>>,
    },
    /// Start: all that was on disk has been told.
    DiskRead,

    /// An operation that was given out waits for its turn. Unless this is told, it runs since it was given out; while it is
    /// queued no time of its own passes. Told again when the number changes.
    OperationQueued {
        /// Which.
        id: OperationId,
        /// How many others go first.
        ahead: u32,
    },
    /// An operation that was given out is held back, because somebody of before may still be at its place (I-2).
    OperationBlocked {
        /// Which.
        id: OperationId,
        /// By whom, for people.
        by: Arc<str>,
    },
    /// An operation that was queued or held back runs from now on.
    OperationStarted {
        /// Which.
        id: OperationId,
    },
    /// An operation ended, however late.
    OperationEnded {
        /// Which.
        id: OperationId,
        /// How.
        outcome: Outcome,
    },

    /// What kept a volume from being settled may be gone, or a person wants it: what failed is tried at once.
    RetryWanted {
        /// The volume.
        volume: VolumeId,
        /// The pod whose mount is meant besides the volume itself; `None` for all pods.
        pod: Option<PodUid>,
    },

    /// Somebody wants to know when a pod's volumes are there, or gone.
    WaitStarted(Wait),
    /// Whoever began this wait does not want to know any more.
    WaitCancelled(WaiterId),

    /// Nothing but time passed. Sent when [`Engine::deadline`](crate::Engine::deadline) is reached.
    TimePassed,
}

/// Why a pod stays though nobody can tell whether it is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Hold {
    /// What kind of reason; see [`crate::reason`].
    pub code: Code,
    /// The reason in words.
    pub text: Arc<str>,
    /// When it is over, and the pod gone, if nothing happens before; `None` if it is not a matter of time.
    pub delay: Option<Duration>,
}

/// Whether something of a pod that left its source may still run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Containers {
    /// It may (E-162).
    MayRun,
    /// Nothing runs.
    Stopped,
}

/// The attacher's view of one volume on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Attachment {
    /// It is attached.
    Attached {
        /// As which device, if that is known.
        device: Option<Arc<str>>,
    },
    /// It is not attached.
    Detached,
    /// Attaching failed.
    Failed {
        /// Why, for people.
        text: Arc<str>,
        /// Whether it failed because this node can take no more volumes (E-26).
        exhausted: bool,
    },
}

/// Where a mount is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum MountPlace {
    /// The volume's own place on this node.
    Stage(VolumeId),
    /// The volume's place in a pod.
    Publish(VolumeId, PodUid),
}

/// What was found of a volume at start.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Found {
    /// The volume as its record has it. What its source says later replaces this.
    pub spec: Arc<VolumeSpec>,
    /// What the record says of the mount.
    pub record: Record,
    /// What is mounted there now.
    pub seen: Option<Proof>,
    /// The SELinux label it is mounted with.
    pub label: Option<Arc<str>>,
}

/// What a record says of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Record {
    /// It was going to be made.
    Intent,
    /// It was being taken away.
    Leaving {
        /// Because its pod had gone, with all it has.
        with_pod: bool,
    },
    /// It was made.
    Proven {
        /// In this boot.
        boot: BootId,
        /// And this is it.
        proof: Proof,
        /// With this content; see [`Use::revision`](crate::spec::Use::revision).
        revision: u64,
    },
}

/// Somebody waits for a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Wait {
    /// Who.
    pub waiter: WaiterId,
    /// For which pod. It need not be known yet.
    pub pod: PodUid,
    /// For what.
    pub goal: Goal,
    /// Until when.
    pub until: Time,
}

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Goal {
    /// All volumes are mounted; an error of the pod ends the wait at once, as in the kubelet (E-20..E-27).
    Mounted,
    /// All volumes are mounted, through any error until the time is up.
    MountedAtLast,
    /// No volume is known to be mounted; uncertain ones do not count (E-28).
    Unmounted,
    /// Nothing of the pod is left, not even in doubt (E-33).
    Gone,
}
