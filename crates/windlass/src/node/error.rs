//! Why a node does not do what it is asked for. Each answers whether to try again is of use.

use std::path::PathBuf;
use std::sync::Arc;

use super::{IncompletePod, NameError, VolumesError};

/// Why a node answers nothing any more. Its volumes stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// Somebody stopped it.
    #[error("the node was stopped and answers nothing any more; its volumes stay as they are")]
    Stopped,
    /// Somebody removed the directory in which it keeps what it knows of volumes, so it cannot go on.
    #[error(
        "the state directory {} was removed, moved or emptied while the node ran. {text}. Volumes stay as they are, and the next \
         start takes them over", path.display()
    )]
    StateLost {
        /// The directory.
        path: PathBuf,
        /// What became of the notes of volumes that were made for claims, which nothing else tells.
        text: Arc<str>,
    },
    /// The thread that decides broke off.
    #[error(
        "the engine of the node broke off: {text}; this is a defect of windlass. Volumes stay as they are, and the next \
         start takes them over"
    )]
    Broken {
        /// What it said last.
        text: Arc<str>,
    },
}

/// Why a wait did not end well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The volumes are not as they were waited for, in the kubelet's words.
    #[error(transparent)]
    Volumes(#[from] VolumesError),
    /// The node has ended, so nothing is known any more.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// No volume of the pod is left, but something in its directory is in the way that is not windlass's to remove.
    #[error("the pod's volumes are gone, but not its directory: {text}")]
    Leftover {
        /// What is in the way.
        text: Arc<str>,
    },
}

impl WaitError {
    /// Whether to wait again is of no use: the node has ended, or the pod or what is on disk has to be another first. Where
    /// it is not, more time may help, and [`Node::explain`](super::Node::explain) tells what is waited for.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Ended(_) | Self::Leftover { .. } | Self::Volumes(VolumesError::Pod(_)) => true,
            Self::Volumes(
                VolumesError::TimedOut(_) | VolumesError::LimitReached(_) | VolumesError::StillMounted(_),
            ) => false,
        }
    }
}

/// Why a pod was not taken. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodError {
    /// The node has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// It lacks what every pod has.
    #[error(transparent)]
    Incomplete(#[from] IncompletePod),
    /// Its UID cannot be the name of a directory.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl PodError {
    /// Whether the pod is at fault: no node takes it as it is.
    pub fn is_of_pod(&self) -> bool {
        match self {
            Self::Incomplete(_) | Self::Name(_) => true,
            Self::Ended(_) => false,
        }
    }
}

/// Why a pod was not deleted. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// Nobody knows it, and nothing of it is here.
    #[error("there is no such pod")]
    Unknown,
    /// It is to be on this node.
    #[error("the pod is wanted: it goes when its manifest is removed")]
    Wanted,
    /// It is not known yet whether it is.
    #[error("it is not known yet whether the pod is wanted: not everything has been read since the start")]
    NotReady,
    /// The node has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl DeleteError {
    /// Whether to try again is of no use. Where it is not, the node comes to know more.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Unknown | Self::Wanted | Self::Ended(_) => true,
            Self::NotReady => false,
        }
    }
}

/// Why the volume of a claim is not deleted. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimRefusal {
    /// There is nothing to delete.
    #[error("there is no claim {claim}, and no volume is kept that was made for it")]
    Unknown {
        /// `namespace/name`.
        claim: String,
    },
    /// Somebody wants it.
    #[error("claim {claim} is still there: take its manifest away first")]
    StillThere {
        /// `namespace/name`.
        claim: String,
    },
    /// Something has it.
    #[error("volume {volume} of claim {claim} is still in use by {}: remove what uses it first", users(pods))]
    InUse {
        /// `namespace/name`.
        claim: String,
        /// The volume.
        volume: String,
        /// The pods that have it, or may have it.
        pods: Vec<String>,
    },
    /// Somebody else names it.
    #[error("volume {volume} of claim {claim} stays, because {other}: remove that first")]
    Named {
        /// `namespace/name`.
        claim: String,
        /// The volume.
        volume: String,
        /// Who, and how.
        other: String,
    },
    /// Whether the claim is there is not known.
    #[error(
        "not all manifests could be read as they are now, so whether claim {claim} is there is not known: mend them first"
    )]
    SourceIncomplete {
        /// `namespace/name`.
        claim: String,
    },
    /// It could not be written down, and would be forgotten at the next start.
    #[error("that claim {claim} is to be deleted could not be noted: {text}")]
    NotNoted {
        /// `namespace/name`.
        claim: String,
        /// What went wrong.
        text: String,
    },
    /// Something else is being done about it.
    #[error("something is being done about the volume of claim {claim}: try again in a moment")]
    Busy {
        /// `namespace/name`.
        claim: String,
    },
    /// Nobody is there to do it.
    #[error(transparent)]
    Ended(#[from] Ended),
}

impl ClaimRefusal {
    /// Whether to try again is of no use as long as nobody changes what the node is given. Where it is not, what is in the
    /// way goes by itself.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Unknown { .. }
            | Self::StillThere { .. }
            | Self::Named { .. }
            | Self::SourceIncomplete { .. }
            | Self::Ended(_) => true,
            Self::InUse { .. } | Self::NotNoted { .. } | Self::Busy { .. } => false,
        }
    }
}

fn users(pods: &[String]) -> String {
    match pods {
        [] => "this node".into(),
        [pod] => format!("pod {pod}"),
        pods => format!("pods {}", pods.join(", ")),
    }
}
