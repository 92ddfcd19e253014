//! What is wanted here: pods as their sources gave them, and what their volumes are made from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::api::core::v1 as api;
use windlass_core::ids::{OuterName, PodUid, SourceName, Time, Version, VolumeId};
use windlass_core::snapshot::PodStanding;
use windlass_core::spec::{Access, Phase};

use crate::catalogue::RegisteredDrivers;
use crate::memory::Memory;
use crate::packed::Packed;
use crate::resolve::{Detail, Settings};

/// The pods that are to be here, and the objects they name.
pub(crate) struct Wishes {
    memory: Arc<RwLock<Memory>>,
    pub(super) settings: Settings,
    /// What drivers can do.
    pub(super) drivers: RegisteredDrivers,
    pub(super) pods: HashMap<PodUid, GivenPod>,
    /// The pods that name a persistent volume.
    pub(super) users: HashMap<VolumeId, BTreeSet<PodUid>>,
    /// The sources of pods, and whether each has told all it has.
    pub(super) sources: BTreeMap<SourceName, bool>,
    /// Pods that were told since the engine was last asked what to start.
    pub(super) fresh: Vec<PodUid>,
}

impl Wishes {
    pub(crate) fn new(memory: Arc<RwLock<Memory>>, settings: Settings) -> Self {
        Self {
            memory,
            settings,
            drivers: RegisteredDrivers::new(),
            pods: HashMap::new(),
            users: HashMap::new(),
            sources: BTreeMap::new(),
            fresh: Vec::new(),
        }
    }

    pub(super) fn memory(&self) -> RwLockReadGuard<'_, Memory> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn memory_mut(&self) -> RwLockWriteGuard<'_, Memory> {
        self.memory.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every source has told all it has.
    pub(super) fn are_complete(&self) -> bool {
        !self.sources.is_empty() && self.sources.values().all(|it| *it)
    }

    /// The source that has a pod, if it is another than this one.
    pub(super) fn other_source(&self, uid: &PodUid, source: &SourceName) -> Option<&SourceName> {
        self.pods.get(uid).map(|it| &it.source).filter(|it| *it != source)
    }

    /// The pod for whom a volume is made ready: one that is to run, and one that may write if there is one.
    pub(super) fn user_of(&self, volume: &VolumeId) -> Option<PodUid> {
        let users = self.users.get(volume)?.iter().filter_map(|it| Some((it, self.pods.get(it)?)));
        let mut running = users.filter(|(_, it)| it.is_to_run());
        let writes = |pod: &GivenPod| {
            let detail = pod.detail(volume);
            detail.is_some_and(|it| pod.access(&it.name) == Access::ReadWrite)
        };
        let first = running.next()?;
        let chosen = if writes(first.1) { first } else { running.find(|(_, it)| writes(it)).unwrap_or(first) };
        Some(chosen.0.clone())
    }

    pub(super) fn forget_users<'a>(&mut self, uid: &PodUid, volumes: impl Iterator<Item = &'a VolumeId>) {
        for volume in volumes {
            if let Some(users) = self.users.get_mut(volume) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(volume);
                }
            }
        }
    }
}

/// A pod as its source gave it.
pub(super) struct GivenPod {
    pub(super) source: SourceName,
    pub(super) version: Version,
    pub(super) pod: Packed,
    pub(super) phase: Phase,
    /// The names of volumes that the pod may only read, by its references to claims (P-219).
    pub(super) read_only: BTreeSet<OuterName>,
    /// Of its volumes: a few, so they are looked through. Of a volume that it names twice the last counts.
    pub(super) details: Box<[Arc<Detail>]>,
    /// When it was given first.
    pub(super) given: Time,
    /// How its volumes stand, and since when.
    pub(super) standing: Standing,
    /// It has left and its containers may still run, or it is held: it keeps what it has and gets nothing new.
    pub(super) ending: bool,
}

impl GivenPod {
    pub(super) fn detail(&self, volume: &VolumeId) -> Option<&Arc<Detail>> {
        self.details.iter().rfind(|it| it.volume == *volume)
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &VolumeId> {
        self.details.iter().map(|it| &it.volume)
    }

    /// Whether the pod may write what it calls by this name.
    pub(super) fn access(&self, name: &OuterName) -> Access {
        if self.read_only.contains(name) { Access::ReadOnly } else { Access::ReadWrite }
    }

    /// Whether it is to get what it has not got.
    pub(super) fn is_to_run(&self) -> bool {
        !self.ending && self.phase == Phase::Running
    }
}

/// How the volumes of a pod stand, and since when.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) now: PodStanding,
    pub(crate) mounted_since: Time,
    pub(crate) current_since: Time,
}

impl Standing {
    /// A pod that was given just now: nothing of it is mounted.
    pub(super) fn new(now: Time) -> Self {
        Self { now: PodStanding { mounted: false, current: true }, mounted_since: now, current_since: now }
    }

    pub(super) fn note(&mut self, standing: PodStanding, now: Time) {
        if self.now.mounted != standing.mounted {
            self.mounted_since = now;
        }
        if self.now.current != standing.current {
            self.current_since = now;
        }
        self.now = standing;
    }
}

/// How far a pod's life has gone, by what its object says (E-141).
pub(super) fn phase(pod: &api::Pod) -> Phase {
    let finished = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    match finished {
        Some("Succeeded" | "Failed") => Phase::Finished,
        _ if pod.metadata.deletion_timestamp.is_some() => Phase::Stopping,
        _ => Phase::Running,
    }
}
