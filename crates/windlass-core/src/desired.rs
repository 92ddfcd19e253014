//! What pods want: each pod as its source gave it, and whether one of its mounts is wanted, not wanted, or not known to be either.

use crate::{
    actual::{Mount, VolumeKey},
    ids::{ObjectName, OuterName, PodUid, SourceName, Time, Version},
    label,
    reason::Code,
    spec::{Access, Life, Phase},
    world::World,
};
use alloc::{boxed::Box, sync::Arc};
use smallvec::SmallVec;

/// A pod that a source has, or that was found on disk.
#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) uid: PodUid,
    pub(crate) title: Arc<str>,
    pub(crate) source: Option<SourceName>,
    pub(crate) version: Version,
    pub(crate) life: Life,
    /// In which life of its source it was given last; see [`crate::world::Source::life`].
    pub(crate) confirmed: u64,
    pub(crate) groups: Box<[i64]>,
    pub(crate) volumes: Box<[NamedVolume]>,
    /// The volumes of which it has a mount, named or not.
    pub(crate) mounts: SmallVec<[VolumeKey; 4]>,
    /// Whether two of its mounts are at one place (E-417).
    pub(crate) contested: bool,
}

/// A volume as the pod names it.
#[derive(Clone)]
pub(crate) struct NamedVolume {
    pub(crate) name: OuterName,
    /// The volume that it is. A name that was one keeps it while its look-up fails: the pod may run with it (I-1).
    pub(crate) volume: Option<VolumeKey>,
    /// Why the last look-up gave no volume. Boxed because most do.
    pub(crate) trouble: Option<Box<Unresolved>>,
}

/// Why a name could not be made into a volume.
#[derive(Clone)]
pub(crate) struct Unresolved {
    /// [`Code::LookupFailed`] if it may be any volume, [`Code::Invalid`] if it is none, [`Code::IdentityChanged`] if it
    /// is another than the one that the pod has.
    pub(crate) code: Code,
    pub(crate) text: Arc<str>,
    pub(crate) waits_on: Option<ObjectName>,
    pub(crate) since: Time,
}

/// How a pod uses a volume that it names, under however many names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) access: Access,
    pub(crate) revision: u64,
    pub(crate) label: label::Wish,
}

/// Whether a mount is wanted (I-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanting {
    Wanted,
    /// Positively known. Only this takes anything away.
    NotWanted,
    Unknown(Ignorance),
}

/// Why it is not known whether a mount is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ignorance {
    /// Not every source has spoken, or not all is read.
    Start,
    /// A volume of the pod could not be looked up, and it may be this one.
    Lookup,
    /// The pod has another volume at the same place; this one is older and stays.
    Identity,
    /// The pod does not name it, but its containers may run.
    Containers,
}

impl Pod {
    pub(crate) fn new(uid: PodUid) -> Self {
        Self {
            title: Arc::from(uid.as_str()),
            uid,
            source: None,
            version: Version::NONE,
            life: Life::Found,
            confirmed: 0,
            groups: Box::default(),
            volumes: Box::default(),
            mounts: SmallVec::new(),
            contested: false,
        }
    }

    /// Has it a name that is no volume, so that any volume of it may be the one that is meant?
    fn has_unknown_volume(&self) -> bool {
        self.volumes.iter().any(|it| it.volume.is_none())
    }

    /// What it calls this volume; it may have several names for it (E-59).
    pub(crate) fn names_of(&self, volume: VolumeKey) -> impl Iterator<Item = &OuterName> {
        self.volumes.iter().filter(move |it| it.volume == Some(volume)).map(|it| &it.name)
    }
}

/// Whether this mount is wanted, from what its pod is and says.
pub(crate) fn wanting(mount: &Mount, world: &World) -> Wanting {
    let pod = &world.pods[mount.pod];
    let keeps = mount.step.may_be_here();
    match (pod.life, &mount.used) {
        (Life::Found, _) => Wanting::Unknown(Ignorance::Start),
        (Life::Gone, _) => Wanting::NotWanted,
        (Life::Known(Phase::Finished), _) if !world.keep_terminated => Wanting::NotWanted,
        (Life::Known(Phase::Running), Some(_)) => Wanting::Wanted,
        (Life::Known(Phase::Stopping | Phase::Finished) | Life::Leaving, Some(_)) => {
            if keeps {
                Wanting::Wanted
            } else {
                Wanting::NotWanted
            }
        }
        (Life::Leaving, None) => Wanting::Unknown(Ignorance::Containers),
        (Life::Known(_), None) => {
            if pod.has_unknown_volume() {
                Wanting::Unknown(Ignorance::Lookup)
            } else if pod.contested {
                Wanting::Unknown(Ignorance::Identity)
            } else {
                Wanting::NotWanted
            }
        }
    }
}
