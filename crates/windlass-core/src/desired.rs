//! What pods want: each pod as its source gave it, and whether one of its mounts is wanted, not wanted, or not known to be either.

use crate::actual::{Mount, VolumeKey};
use crate::ids::{OuterName, PodUid, SourceName, Time, Version};
use crate::label;
use crate::reason::{Code, Reason};
use crate::spec::{Access, Life, Phase};
use crate::world::World;
use alloc::boxed::Box;
use alloc::sync::Arc;
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
    /// Why it stays, or volumes that it does not name, though nobody can tell whether they are wanted. Boxed because most
    /// are not held.
    pub(crate) hold: Option<Box<Held>>,
    /// A record says that it had gone and was being taken away.
    pub(crate) had_gone: bool,
    /// The volumes of which it has a mount, named or not.
    pub(crate) mounts: SmallVec<[VolumeKey; 4]>,
    /// Whether two of its mounts are at one place (E-417).
    pub(crate) contested: bool,
}

/// Why a pod, or a part of it, is held.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) code: Code,
    pub(crate) text: Arc<str>,
    pub(crate) since: Time,
    /// When that is over.
    pub(crate) until: Option<Time>,
}

impl Held {
    /// Only a source that cannot be read whole keeps it any longer.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.until.is_some_and(|it| it <= now)
    }

    /// Why it is here now: once its time is over, because what is not known may name it.
    pub(crate) fn shown(&self, world: &World) -> Code {
        if self.is_due(world.now) && !world.all_is_known() { Code::SourceIncomplete } else { self.code }
    }
}

/// A volume as the pod names it.
#[derive(Clone)]
pub(crate) struct NamedVolume {
    pub(crate) name: OuterName,
    /// The volume that it is. A name that was one keeps it while its look-up fails: the pod may run with it (I-1).
    pub(crate) volume: Option<VolumeKey>,
    /// Why the last look-up gave no volume. Boxed because most do.
    ///
    /// [`Code::LookupFailed`] if it may be any volume, [`Code::Invalid`] if it is none, [`Code::IdentityChanged`] if it is
    /// another than the one that the pod has; of one that is yet to be made, whatever its maker says.
    ///
    /// [`Code::LookupFailed`]: crate::reason::Code::LookupFailed
    /// [`Code::Invalid`]: crate::reason::Code::Invalid
    /// [`Code::IdentityChanged`]: crate::reason::Code::IdentityChanged
    pub(crate) trouble: Option<Box<Reason>>,
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
    /// It is held, for this reason.
    Held(Code),
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
            hold: None,
            had_gone: false,
            mounts: SmallVec::new(),
            contested: false,
        }
    }

    /// Has it a name that is no volume, so that any volume of it may be the one that is meant?
    fn has_unknown_volume(&self) -> bool {
        self.volumes.iter().any(|it| it.volume.is_none())
    }

    /// Why it is held, if it is.
    fn held(&self, world: &World) -> Option<Ignorance> {
        let hold = self.hold.as_ref()?;
        // What should have gone by now stays for another reason.
        Some(Ignorance::Held(hold.shown(world)))
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
        (Life::Held, used) => match pod.held(world) {
            Some(why) if used.is_some() || mount.unclaimed => Wanting::Unknown(why),
            // It was not wanted before the pod was held.
            Some(_) | None => Wanting::NotWanted,
        },
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
            } else if let Some(why) = pod.held(world).filter(|_| mount.unclaimed) {
                Wanting::Unknown(why)
            } else {
                Wanting::NotWanted
            }
        }
    }
}
