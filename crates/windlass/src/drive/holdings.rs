//! What is here: what was made, when it is to be made anew, and the pods that go.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use windlass_core::ids::{PodUid, Time, VolumeId};

use super::departing::Departures;
use super::held::Held;

/// What this node has.
#[derive(Default)]
pub(super) struct Holdings {
    pub(super) held: Held,
    pub(super) renewals: Renewals,
    pub(super) departures: Departures,
    /// Pods whose directories were found at start and need not be made.
    pub(super) whole: HashSet<PodUid>,
    /// Since when pods are known here that were found at start, by when their directories were made, or that are leaving.
    pub(super) born: HashMap<PodUid, Timestamp>,
    /// Something lies over the root, so that nothing of this can be reached by its path.
    pub(super) covered: bool,
    /// Directories of pods that have gone stay until somebody says that they may go.
    pub(super) keep_directories: bool,
}

impl Holdings {
    pub(super) fn new(keep_directories: bool) -> Self {
        Self { keep_directories, ..Self::default() }
    }
}

/// Content that expires rather than changes, by pod and volume.
#[derive(Default)]
pub(super) struct Renewals(HashMap<(PodUid, VolumeId), Renewal>);

#[derive(Default)]
struct Renewal {
    /// How often it was renewed.
    epoch: u64,
    /// When it is to be renewed next.
    at: Option<Time>,
}

impl Renewals {
    /// How often content was renewed though nothing changed; mostly never.
    pub(super) fn epoch(&self, pod: &PodUid, volume: &VolumeId) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&(pod.clone(), volume.clone())).map_or(0, |it| it.epoch)
    }

    /// Content is to be made anew though nothing changed.
    pub(super) fn raise_epoch(&mut self, pod: &PodUid, volume: &VolumeId) {
        let renewal = self.entry(pod, volume);
        renewal.epoch = renewal.epoch.wrapping_add(1).max(1);
    }

    /// The time has come to make content anew.
    pub(super) fn is_due(&mut self, pod: &PodUid, volume: &VolumeId) {
        self.raise_epoch(pod, volume);
        self.entry(pod, volume).at = None;
    }

    /// An earlier life of this node renewed the content so often.
    pub(super) fn set_epoch(&mut self, pod: &PodUid, volume: &VolumeId, epoch: u64) {
        self.entry(pod, volume).epoch = epoch;
    }

    /// Content is to be renewed at this moment. Answers when it was to be renewed before.
    pub(super) fn set_at(&mut self, pod: &PodUid, volume: &VolumeId, at: Time) -> Option<Time> {
        self.entry(pod, volume).at.replace(at)
    }

    /// The volume is not here any more. Answers when its content was to be renewed.
    pub(super) fn remove(&mut self, pod: &PodUid, volume: &VolumeId) -> Option<Time> {
        self.0.remove(&(pod.clone(), volume.clone()))?.at
    }

    fn entry(&mut self, pod: &PodUid, volume: &VolumeId) -> &mut Renewal {
        self.0.entry((pod.clone(), volume.clone())).or_default()
    }
}
