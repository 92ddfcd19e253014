//! Everything that wakes the drive. What is not here, it does not hear of.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass_core::event::{Goal, MountPlace};
use windlass_core::ids::{OperationId, PodUid, SourceName, WaiterId};
use windlass_core::operation::Proof;
use windlass_linux::process::Process;
use windlass_linux::table;

use super::Drive;
use super::departing::Waiter;
use super::provision::Worked;
use crate::csi::News;
use crate::executor::Ended;
use crate::memory::Object;
use crate::node::{ClaimRefusal, DeleteError, Deleted, Loss};
use crate::objects::Reference;
use crate::plugin::Failure;
use crate::reconstruct::Remains;
use crate::source::Said;
use crate::view::Retried;

/// A fact for the drive, something that somebody wants of it, or a question.
pub(crate) enum Message {
    /// What a source says of its pods.
    Source(SourceName, Said),

    /// An object appeared or changed.
    ObjectGiven(Object),
    /// An object is known not to exist any more.
    ObjectGone(Reference),
    /// An object cannot be looked up, which says nothing about it.
    ObjectUnavailable { reference: Reference, why: Arc<str> },

    /// A driver came, came again or went.
    Driver(News),
    /// The mount table changed.
    MountsChanged(Vec<table::Change>),
    /// The mount table cannot be read: what is held may not be what it was.
    MountsUnreadable(String),
    /// A volume was looked at before it was handed out, and is not what it should be.
    MountSeen { place: MountPlace, expected: Proof, proof: Option<Proof> },
    /// What was on disk at the start, or why it cannot be read.
    DiskRead(Result<Box<Remains>, Failure>),
    /// Nothing is left of a process of before.
    ProcessEnded(Process),
    /// Something was removed that this node keeps for itself.
    StateLost(Loss),
    /// What the next start needs was written anew, or could not be.
    StateRenewed(Result<(), Failure>),
    /// The set of volumes in use of this version is stored where the attacher reads it.
    InUseReported(u64),

    /// Operations have begun of which the engine was told that they wait.
    OperationsBegan,
    /// An errand has begun, or was taken over, while nothing else was to be looked at.
    ErrandBegan,
    /// An operation came to its end.
    OperationEnded(OperationId, Ended),
    /// Operations of an errand came to their ends.
    OperationsEnded(Vec<(OperationId, Ended)>),
    /// The directory of a pod was made or removed, or could not be.
    DirectoryDone(PodUid, Result<(), Failure>),
    /// What was to be done about the volume of a claim was done, or failed.
    ClaimWorked(Reference, Box<Worked>),

    /// Somebody waits for a pod.
    WaitBegan { waiter: WaiterId, pod: PodUid, goal: Goal, within: Option<Duration>, answer: Waiter },
    /// Whoever began this wait does not wait any more.
    WaitCancelled(WaiterId),
    /// Somebody waits until nothing is left of the volumes of a pod that is gone.
    ReleaseAwaited(PodUid, Waiter),

    /// What failed is to be tried at once: of a pod's volume, of a pod, or everything.
    Retry { pod: Option<PodUid>, volume: Option<String>, answer: oneshot::Sender<Vec<Retried>> },
    /// What failed for a claim is to be tried at once.
    RetryClaim(Reference, oneshot::Sender<Option<Retried>>),
    /// Volumes of a pod are to be published again whose drivers ask for that.
    Republish(PodUid),
    /// The directory of a pod that has gone is to be removed.
    RemoveDirectory(PodUid),
    /// A pod that is held may go.
    DeletePod(PodUid, oneshot::Sender<Result<(), DeleteError>>),
    /// Volumes may go that are held because their pod does not name them.
    DeleteOrphans(PodUid, oneshot::Sender<bool>),
    /// The volume that was made for a claim may go.
    DeleteClaim(Reference, oneshot::Sender<Result<Deleted, ClaimRefusal>>),
    /// Somebody wants to know something.
    Question(Question),

    /// A part of the node broke off without which it would look well and not be so.
    BrokeOff(Arc<str>),
    /// Nothing more is to be begun, and after this time nothing more is waited for.
    Stop { within: Duration, done: Option<oneshot::Sender<usize>> },
}

/// A look at the drive. It changes nothing, so it need not be told apart from others.
pub(crate) struct Question {
    /// Whose operations are to be known as they are at this moment.
    pub(crate) about: About,
    pub(crate) look: Box<dyn FnOnce(&Drive) + Send>,
}

/// What a question is about: the engine is told first which of these operations wait for their turn.
pub(crate) enum About {
    /// Nothing that operations change.
    Nothing,
    Pods(Vec<PodUid>),
    /// The pods of this `namespace/name`.
    Named(String),
    Everything,
}

impl Message {
    /// What kind of message it is, as it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Source(_, said) => said.kind(),
            Self::ObjectGiven(_) => "object given",
            Self::ObjectGone(_) => "object gone",
            Self::ObjectUnavailable { .. } => "object unavailable",
            Self::Driver(_) => "driver",
            Self::MountsChanged(_) => "mounts changed",
            Self::MountsUnreadable(_) => "mounts unreadable",
            Self::MountSeen { .. } => "mount seen",
            Self::DiskRead(_) => "disk read",
            Self::ProcessEnded(_) => "process ended",
            Self::StateLost(_) => "state lost",
            Self::StateRenewed(_) => "state renewed",
            Self::InUseReported(_) => "in use reported",
            Self::OperationsBegan => "operations began",
            Self::ErrandBegan => "errand began",
            Self::OperationEnded(..) => "operation ended",
            Self::OperationsEnded(_) => "operations ended",
            Self::DirectoryDone(..) => "directory done",
            Self::ClaimWorked(..) => "claim worked",
            Self::WaitBegan { .. } => "wait began",
            Self::WaitCancelled(_) => "wait cancelled",
            Self::ReleaseAwaited(..) => "release awaited",
            Self::Retry { .. } => "retry",
            Self::RetryClaim(..) => "retry claim",
            Self::Republish(_) => "republish",
            Self::RemoveDirectory(_) => "remove directory",
            Self::DeletePod(..) => "delete pod",
            Self::DeleteOrphans(..) => "delete orphans",
            Self::DeleteClaim(..) => "delete claim",
            Self::Question(_) => "question",
            Self::BrokeOff(_) => "broke off",
            Self::Stop { .. } => "stop",
        }
    }
}

impl fmt::Debug for Message {
    /// The kind and what it is about, in one line; never the content of an object (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Source(source, said) => match said {
                Said::Pod { uid, .. } | Said::PodGone { uid, .. } | Said::PodHeld { uid, .. } => {
                    write!(f, " {uid} of {source}")
                }
                Said::Complete { doubt: Some(text), .. } | Said::Lost(text) => write!(f, " {source}: {text}"),
                Said::Announced
                | Said::Rereads(_)
                | Said::Read(_)
                | Said::Replaced { .. }
                | Said::Complete { doubt: None, .. } => write!(f, " {source}"),
            },
            Self::ObjectGiven(object) => write!(f, " {}", object.reference()),
            Self::ObjectGone(it) | Self::ObjectUnavailable { reference: it, .. } => write!(f, " {it}"),
            Self::ClaimWorked(claim, _) | Self::DeleteClaim(claim, _) | Self::RetryClaim(claim, _) => {
                write!(f, " {claim}")
            }
            Self::Driver(news) => write!(f, " {news:?}"),
            Self::MountSeen { place, .. } => write!(f, " {place:?}"),
            Self::OperationEnded(id, ended) => write!(f, " {id:?}: {:?}", ended.outcome),
            Self::OperationsEnded(ended) => {
                ended.iter().try_for_each(|(id, ended)| write!(f, " {id:?}: {:?}", ended.outcome))
            }
            Self::DirectoryDone(pod, _)
            | Self::WaitBegan { pod, .. }
            | Self::ReleaseAwaited(pod, _)
            | Self::Republish(pod)
            | Self::RemoveDirectory(pod)
            | Self::DeletePod(pod, _)
            | Self::DeleteOrphans(pod, _) => write!(f, " {pod}"),
            Self::MountsUnreadable(text) => write!(f, " {text}"),
            Self::BrokeOff(text) => write!(f, " {text}"),
            Self::MountsChanged(changes) => write!(f, " {}", changes.len()),
            Self::StateLost(loss) => write!(f, " {loss:?}"),
            Self::DiskRead(_)
            | Self::StateRenewed(_)
            | Self::ProcessEnded(_)
            | Self::InUseReported(_)
            | Self::OperationsBegan
            | Self::ErrandBegan
            | Self::WaitCancelled(_)
            | Self::Retry { .. }
            | Self::Question(_)
            | Self::Stop { .. } => Ok(()),
        }
    }
}
