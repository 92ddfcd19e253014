//! The questions of the kubelet's volume manager (E-§1), answered from the state as it is now.

use crate::ids::{InnerName, OuterName, PluginName, VolumeId};
use crate::operation::Proof;
use crate::spec::{Access, Mode};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// How a pod's volumes stand.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PodStatus {
    /// Outer names of volumes that are not mounted, sorted (E-23).
    pub unmounted: Vec<OuterName>,
    /// Outer names of volumes that need attaching and are not attached, sorted (E-24).
    pub unattached: Vec<OuterName>,
    /// Outer names that could not be made into a volume, sorted (E-24).
    pub unprocessed: Vec<OuterName>,
    /// What is wrong with the pod's volumes as the pod states them, sorted, each once (E-22).
    pub errors: Vec<Arc<str>>,
    /// Whether attaching failed because the node can take no more volumes (E-26).
    pub limit_reached: bool,
}

/// A volume that a pod may be given (E-35), with the proof of its mount (I-4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountedVolume {
    /// The volume.
    pub volume: VolumeId,
    /// Whose volume it is.
    pub plugin: PluginName,
    /// What its directory below the pod is called.
    pub inner_name: InnerName,
    /// Whether the pod may write.
    pub access: Access,
    /// As a directory or as a device.
    pub mode: Mode,
    /// The mount that was made. Whoever hands out the path checks that it is still there.
    pub proof: Proof,
}

/// The volumes that are in use on this node (E-38).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InUse {
    /// Quoted by [`Event::InUseReported`](crate::Event::InUseReported).
    pub version: u64,
    /// The volumes that need attaching and are wanted or here, sorted.
    pub volumes: Vec<VolumeId>,
}

/// Why a wait did not end well. Its text is the kubelet's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WaitError {
    /// The pod's volumes cannot be what the pod says, or cannot be looked up (E-22).
    #[error("{}: {}", Lists(.0), Joined(&.0.errors))]
    Pod(PodStatus),
    /// Time is up (E-25).
    #[error("{}: context deadline exceeded", Lists(.0))]
    TimedOut(PodStatus),
    /// Time is up, and the node can take no more volumes (E-26).
    #[error("Node has reached its volume attachment limit, rejecting pod. {}: context deadline exceeded", Lists(.0))]
    LimitReached(PodStatus),
    /// Time is up and these volumes are still there (E-29).
    #[error("mounted volumes=[{}]: context deadline exceeded", Spaced(.0))]
    StillMounted(Vec<VolumeId>),
}

/// The three lists, as the kubelet writes them.
struct Lists<'a>(&'a PodStatus);

impl fmt::Display for Lists<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unmounted volumes=[{}], unattached volumes=[{}], failed to process volumes=[{}]",
            Spaced(&self.0.unmounted),
            Spaced(&self.0.unattached),
            Spaced(&self.0.unprocessed)
        )
    }
}

/// Names with a space between them.
struct Spaced<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Spaced<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, self.0, " ")
    }
}

/// Errors with a semicolon between them.
struct Joined<'a>(&'a [Arc<str>]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, self.0, "; ")
    }
}

fn separated<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], separator: &str) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
