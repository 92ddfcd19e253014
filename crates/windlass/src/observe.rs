//! What is told as it happens, to whoever counts ([`Builder::observe`](crate::node::Builder::observe)).
//!
//! A stream of changes ([`Node::changes`](crate::Node::changes)) can be read too slowly, and then changes are missed. This is
//! called on the thread on which something happens, so nothing is; in return, whoever is called must not block.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::ids::{DriverName, OperationId, PluginName, PodUid, VolumeId};
use windlass_core::{operation, spec};
use windlass_csi::Called;

/// Something that happened and is worth counting.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// An operation came to its end.
    OperationEnded(&'a OperationReport),
    /// A call of a CSI driver came to its end.
    DriverCalled(&'a Called<'a>),
    /// A volume was given to a pod's group, or could not be.
    OwnershipApplied {
        /// The volume's type.
        plugin: &'a PluginName,
        /// The volume's CSI driver, if it has one.
        driver: Option<&'a DriverName>,
        /// It was described as an in-tree volume.
        migrated: bool,
        /// Whether it went well.
        done: bool,
        /// How long it took.
        took: Duration,
    },
    /// It was found out how full a volume is.
    Measured {
        /// By whom: the name of its CSI driver, or `du` if its files were counted.
        source: &'a str,
        /// How long it took.
        took: Duration,
    },
    /// What earlier lives of the node left was read.
    DiskRead {
        /// Mounts of pods that were found.
        found: usize,
        /// Those of them that no record tells of, or none that can be read.
        unreadable: usize,
    },
}

/// An operation that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationReport {
    /// Its number.
    pub id: OperationId,
    /// What it was.
    pub kind: operation::OperationKind,
    /// The volume's type.
    pub plugin: PluginName,
    /// The volume's CSI driver, if it has one.
    pub driver: Option<DriverName>,
    /// The volume.
    pub volume: VolumeId,
    /// As a directory or as a device.
    pub mode: spec::Mode,
    /// It makes a volume that was described as an in-tree volume.
    pub migrated: bool,
    /// The pod, if it is about a pod's mount.
    pub pod: Option<PodUid>,
    /// How it ended.
    pub ending: Ending,
    /// How long it waited for its turn.
    pub queued: Duration,
    /// How long it took after that.
    pub took: Duration,
    /// Of a publish: how long the pod had wanted the volume as it has it now.
    pub wanted: Option<Duration>,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was done.
    Done,
    /// It was refused, and nothing was left behind.
    Refused,
    /// Something may be left behind.
    Unknown,
}

/// Who is told; by default nobody.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Told>>);

type Told = dyn Fn(&Observed<'_>) + Send + Sync;

impl Observer {
    /// Somebody who does this with all that happens.
    pub fn new(told: impl Fn(&Observed<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }

    pub(crate) fn tell(&self, observed: &Observed<'_>) {
        if let Some(told) = &self.0 {
            told(observed);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").finish_non_exhaustive()
    }
}
