//! What the engine tells without being asked, for whoever waits, reports or logs.

use crate::answer::WaitError;
use crate::ids::{PodUid, Time, VolumeId, WaiterId};
use crate::operation::Trouble;
use crate::reason::Code;

/// Something that others may want to know. Take them with [`Engine::next_notice`](crate::Engine::next_notice) after each event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A wait is over.
    WaitEnded {
        /// Whose.
        waiter: WaiterId,
        /// Whether what it waited for is true.
        result: Result<(), WaitError>,
    },
    /// The set of volumes in use changed and wants to be reported.
    InUseChanged {
        /// Its version now.
        version: u64,
    },
    /// What was found at start is merged with what the attacher says: the set of volumes in use may be reported (E-39).
    Synced,
    /// A volume, or a pod's mount of it, stands differently than before.
    VolumeChanged {
        /// The volume.
        volume: VolumeId,
        /// The pod, if it is about a pod's mount.
        pod: Option<PodUid>,
        /// How it stands now.
        code: Code,
    },
    /// Nothing of this pod is left here, and nobody wants anything for it: its directory may go (E-530).
    PodReleased(PodUid),
    /// The time is over for which this pod was held, and it is gone: as if its source had said so.
    HoldEnded(PodUid),
    /// The time is over for which something is held: it goes if it still is once the sources that can have read all they have
    /// again ([`Event::SourceRead`](crate::Event::SourceRead)).
    RereadWanted {
        /// When it was over: what they have at this moment, or later, is to be told.
        as_of: Time,
    },
    /// Growing a volume came to an end that its claim should show (E-286, E-287).
    ExpansionEnded {
        /// The volume.
        volume: VolumeId,
        /// How it ended.
        verdict: Verdict,
    },
}

/// How growing a volume ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The volume has this size now.
    Grown {
        /// The size.
        size_bytes: u64,
    },
    /// Growing failed and is tried again.
    Failed(Trouble),
    /// The volume can never have this size; not tried again until another size is wanted.
    Infeasible(Trouble),
    /// The volume cannot grow while it is in use; not tried again while it is here.
    InUse(Trouble),
}
