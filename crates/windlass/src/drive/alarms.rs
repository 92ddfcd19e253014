//! The one alarm clock of the drive: what is to be done at a time that the engine does not know of.

use std::collections::BTreeSet;

use windlass_core::ids::{PodUid, Time, VolumeId};

use crate::objects::Reference;

/// Something to be done at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Alarm {
    /// Read the disk again.
    ReadDisk,
    /// Look whether something waits for a step of an errand that is slow.
    Errands,
    /// Look at operations that were given out a while ago.
    Review,
    /// Look whether drivers say anything of which operations wait.
    Listen,
    /// The content of a volume is to be renewed though nothing changed.
    Renew(PodUid, VolumeId),
    /// A claim's volume is to be made or deleted, once more.
    Provision(Reference),
    /// If the driver is still not there for which a volume, or a pod's mount of it, waits, the pod's owner is to know.
    DriverMissing(VolumeId, Option<PodUid>),
}

/// Alarms that are set, the next one first.
#[derive(Default)]
pub(super) struct Alarms(BTreeSet<(Time, Alarm)>);

impl Alarms {
    pub(super) fn set(&mut self, at: Time, alarm: Alarm) {
        self.0.insert((at, alarm));
    }

    pub(super) fn cancel(&mut self, at: Time, alarm: Alarm) {
        self.0.remove(&(at, alarm));
    }

    /// When the next one is due (I-8: not at all if none is set).
    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes one that is due by now.
    pub(super) fn due(&mut self, now: Time) -> Option<Alarm> {
        self.next().filter(|it| *it <= now)?;
        self.0.pop_first().map(|(_, alarm)| alarm)
    }
}
