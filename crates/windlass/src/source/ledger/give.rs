//! What a node is told of manifests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use windlass_core::ids::PodUid;

use super::Holders;
use crate::memory::Object;
use crate::objects::Reference;
use crate::packed::Packed;

/// What to tell the node, in this order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Give {
    /// An object appeared or changed.
    Object(Object),
    /// A pod appeared or changed.
    Pod(Arc<Pod>, Packed),
    /// A pod is not in force any more.
    PodGone(PodUid, Departed),
    /// A pod is not in force any more, because the file that named it names another one in its place.
    PodReplaced(PodUid),
    /// Whether a pod is this node's cannot be told: what is there of it stays (I-1).
    PodHeld(PodUid, Holding),
    /// An object is not in force any more; and why it may be that nobody took it away.
    ObjectGone(Reference, Option<Arc<str>>),
    /// All there is has been given, but for what cannot be read, if anything: it may say more. Given again when that is
    /// another thing.
    Complete(Option<Arc<str>>),
    /// The directory itself cannot be read, for this reason. Once it can, all pods are given again, and then `Complete`.
    Lost(Arc<str>),
    /// Others than before are in force where several files say what something is: to be kept for the next start.
    Holders(Holders),
    /// Other files than before are read, in which nothing is missing that was in force; and whether somebody meant that.
    Replaced { meant: bool },
    /// Everything has been read again, so many times with this.
    Read(u64),
    /// Nobody reads the files any more, because of a defect: nothing that follows is known.
    BrokenOff(Arc<str>),
}

/// Why it cannot be told whether a pod is this node's. The texts name the files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Holding {
    /// Its manifest is for another node.
    OtherNode(Arc<str>),
    /// Its manifest is not in force, because another pod of its name is.
    Conflict(Arc<str>),
    /// Its manifest was in conflict and is gone.
    ConflictOver,
    /// Its manifest was removed, and it may be in a file that cannot be read, or has an error.
    Removed,
    /// A file that named it was written in place without it, and nothing tells that its writer came to the end; or it
    /// vanished while its newest version had an error.
    Rewritten(Arc<str>),
}

/// What is to be known of a pod that is not in force any more, to tell whether that is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Departed {
    /// Since when it was in force, as the ledger counts.
    pub(super) since: u64,
    /// Why it may be that nobody took it away.
    pub(in crate::source) rewritten: Option<Arc<str>>,
}

impl Give {
    /// Whether it need not wait until something is known of every file: a pod is only held then, and the doubt is told along.
    pub(crate) fn is_told_in_doubt(&self) -> bool {
        matches!(self, Self::PodGone(..) | Self::Complete(_))
    }

    /// Whether what waits to be given is overtaken by what is given now.
    pub(crate) fn is_undone_by(&self, given: &Self) -> bool {
        match (self, given) {
            (Self::PodGone(uid, _), Self::Pod(pod, _)) => pod.metadata.uid.as_deref() == Some(uid.as_str()),
            (Self::PodGone(uid, _), Self::PodHeld(held, _)) => uid == held,
            (Self::ObjectGone(reference, _), Self::Object(object)) => object.reference() == *reference,
            (Self::Complete(_), Self::Complete(_) | Self::Lost(_)) => true,
            _ => false,
        }
    }
}
