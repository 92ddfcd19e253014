//! skeleton
use crate::{
    answer::{InUse, MountedVolume, PodStatus},
    event::Event,
    ids::{BootId, OuterName, PodUid, SourceName, Time, VolumeId},
    notice::Notice,
    oddity::Oddity,
    operation::Operation,
    reason::Reason,
    snapshot::Snapshot,
};
use alloc::{collections::BTreeMap, vec::Vec};

/// What an engine is told once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Where pods come from. Nothing is taken away before each has been complete (I-1).
    pub sources: Vec<SourceName>,
    /// This boot.
    pub boot: BootId,
    /// Whether somebody outside attaches volumes and tells of it; if so, start waits for `AttachmentsComplete`.
    pub attacher: bool,
    /// Whether finished pods keep their volumes until they are gone.
    pub keep_terminated: bool,
    /// Where planning looks after an event.
    pub planning: Planning,
    /// Varies where names lie in memory, so that nobody can choose names that collide. It changes no decision.
    pub seed: u64,
}

/// Where planning looks after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Planning {
    /// At the volumes that the event touched.
    #[default]
    Touched,
    /// At all volumes. Decides the same, only slower; for tests of just that.
    Everything,
}

/// skeleton
#[derive(Clone, Debug)]
pub struct Engine {}
#[allow(missing_docs, unused_variables)]
impl Engine {
    pub fn new(config: Config) -> Self {
        Self {}
    }
    pub fn handle(&mut self, now: Time, event: Event) {}
    pub fn next_operation(&mut self) -> Option<Operation> {
        None
    }
    pub fn next_notice(&mut self) -> Option<Notice> {
        None
    }
    pub fn deadline(&self) -> Option<Time> {
        None
    }
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
    pub fn pod_status(&self, uid: &PodUid) -> Option<PodStatus> {
        None
    }
    pub fn mounted_volumes(&self, uid: &PodUid) -> BTreeMap<OuterName, MountedVolume> {
        BTreeMap::new()
    }
    pub fn has_possibly_mounted_volumes(&self, uid: &PodUid) -> bool {
        false
    }
    pub fn extra_groups(&self, uid: &PodUid) -> Vec<i64> {
        Vec::new()
    }
    pub fn volumes_in_use(&self) -> Option<InUse> {
        None
    }
    pub fn volume_attached(&self, id: &VolumeId) -> bool {
        false
    }
    pub fn states_synced(&self) -> bool {
        false
    }
    pub fn explain(&self, uid: &PodUid, name: &OuterName) -> Vec<Reason> {
        Vec::new()
    }
    pub fn oddities(&self) -> Vec<(Oddity, &str)> {
        Vec::new()
    }
}
