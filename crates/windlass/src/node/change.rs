//! What a node tells of what happens, as a stream.

use std::sync::Arc;

use tokio::sync::broadcast;
use windlass_core::ids::{PodUid, SourceName, VolumeId};

use super::{Code, Event, Oddity, OperationReport, Tone, Verdict};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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
        /// One of its volumes could not be looked up, or cannot be what the pod says.
        unresolved: bool,
    },
    /// A volume was mounted, and with it all that the pod has.
    PodMounted(PodUid),
    /// What a pod's owner should know, in the kubelet's words.
    Event(Event),
    /// Nothing of this pod is left: no volume, no record, no directory.
    PodReleased(PodUid),
    /// Nothing is left either of the volumes that this pod alone had.
    VolumesReleased(PodUid),
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
    /// Nobody takes calls any more at the socket of a CSI driver that is registered, or nobody to whom any may be sent.
    DriverUnreachable {
        /// Its name.
        name: Arc<str>,
        /// Why nothing is sent to whoever serves there, if that is another driver.
        refused: Option<Arc<str>>,
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
        tone: Tone,
        /// What Kubernetes' controllers call it, for example `ProvisioningFailed`.
        reason: &'static str,
        /// What became of it.
        text: Arc<str>,
    },
    /// A process that had this node's directories was killed and hangs in the kernel, so they were taken over from it.
    TookOver {
        /// Its number.
        process: u32,
        /// At how many places it may still be at work. They are left alone until it is gone; everything else goes on.
        places: usize,
    },
    /// A claim, what was made for it, or how that stands is another than before.
    ClaimChanged {
        /// `namespace/name`.
        claim: Arc<str>,
    },
    /// A source of pods cannot be read any more. What it gave stays as it is.
    SourceLost {
        /// Its name.
        source: SourceName,
        /// Why.
        text: Arc<str>,
    },
    /// A source speaks of a pod that another source has given, which is not heard.
    PodOfTwoSources {
        /// The pod.
        pod: PodUid,
        /// The source that has it.
        owner: SourceName,
        /// The other.
        source: SourceName,
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
    /// Something was mounted over the root directory, or above it, and covers all that is there; or that is over.
    RootCovered {
        /// What covers it; `None` if nothing does any more.
        text: Option<Arc<str>>,
    },
    /// The disk could not be read. It is tried again; until then nothing is taken away.
    DiskUnreadable {
        /// Why.
        text: Arc<str>,
    },
    /// An operation came to its end.
    OperationEnded(Arc<OperationReport>),
    /// Something was told that makes no sense, and had no effect. Whoever told it has a defect.
    Oddity {
        /// What kind of nonsense.
        oddity: Oddity,
        /// What it was.
        text: Arc<str>,
    },
    /// The listener was too slow, and this many changes are lost to it.
    Missed(u64),
}

/// A stream of changes.
#[derive(Debug)]
pub struct Changes(pub(super) broadcast::Receiver<Change>);

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
