//! Pods that go: when nothing of them is left, and when nothing is left of the volumes that they alone had.
//!
//! The engine is done with a pod once no volume of it is mounted any more. Its directory goes after that, on a worker, and
//! volumes that it shared with nobody are unstaged, detached and perhaps deleted: whoever waits is told when that is true.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;
use windlass_core::ids::{PodUid, VolumeId};

use super::Drive;
use crate::executor::Executor;
use crate::node::{Change, WaitError as Unmet};

/// Whoever waits for a pod to go.
pub(crate) type Waiter = oneshot::Sender<Result<(), Unmet>>;

/// What is left of a pod that the engine is done with.
#[derive(Default)]
pub(super) struct Departing {
    /// `namespace/name`, if that is known.
    pub(super) name: Option<Arc<str>>,
    /// Its directory is being removed.
    pub(super) has_directory: bool,
    /// Volumes that it had, which are here for nobody else.
    pub(super) volumes: BTreeSet<VolumeId>,
    /// Told when its directory is gone.
    gone: Vec<Waiter>,
    /// Told when nothing of its volumes is left either.
    released: Vec<Waiter>,
}

/// Pods that go, and the way back to them from the volumes that they had.
#[derive(Default)]
pub(super) struct Departures {
    pods: HashMap<PodUid, Departing>,
    /// Those pods by their names, as far as these are known.
    named: HashMap<Arc<str>, BTreeSet<PodUid>>,
    volumes: HashMap<VolumeId, BTreeSet<PodUid>>,
    /// What pods are called that were removed and are not gone.
    names: HashMap<PodUid, Arc<str>>,
    /// Pods whose directory could not be removed.
    leftovers: BTreeSet<PodUid>,
}

impl Departures {
    /// The pods of which the engine knows nothing any more, and of which something is left.
    pub(super) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.pods.keys()
    }

    /// How many pods are gone of which something is left, and how many of them for good, as far as can be told.
    pub(super) fn counts(&self) -> (usize, usize) {
        let others = self.leftovers.iter().filter(|it| !self.pods.contains_key(*it)).count();
        (self.pods.len() + others, self.leftovers.len())
    }

    pub(super) fn get(&self, pod: &PodUid) -> Option<&Departing> {
        self.pods.get(pod)
    }

    /// The pods of [`Departures::uids`] that have this name.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &PodUid> {
        self.named.get(name).into_iter().flatten()
    }

    /// What is left of a pod, under the name that it has.
    fn entry(&mut self, pod: &PodUid) -> &mut Departing {
        let departing = self.pods.entry(pod.clone()).or_default();
        if let Some(name) = self.names.get(pod)
            && departing.name.as_ref() != Some(name)
        {
            if let Some(before) = departing.name.replace(name.clone()) {
                forget(&mut self.named, &before, pod);
            }
            self.named.entry(name.clone()).or_default().insert(pod.clone());
        }
        departing
    }

    /// Nothing is left of a pod.
    fn remove(&mut self, pod: &PodUid) -> Option<Departing> {
        self.names.remove(pod);
        let departing = self.pods.remove(pod)?;
        if let Some(name) = &departing.name {
            forget(&mut self.named, name, pod);
        }
        Some(departing)
    }
}

fn forget(named: &mut HashMap<Arc<str>, BTreeSet<PodUid>>, name: &str, pod: &PodUid) {
    if let Some(pods) = named.get_mut(name) {
        pods.remove(pod);
        if pods.is_empty() {
            named.remove(name);
        }
    }
}

impl Drive {
    pub(super) fn note_name(&mut self, pod: &PodUid, name: &Arc<str>) {
        self.holdings.departures.names.insert(pod.clone(), name.clone());
    }

    /// A pod is here, again or for the first time.
    pub(super) fn is_back(&mut self, pod: &PodUid) {
        self.holdings.departures.names.remove(pod);
        self.holdings.departures.leftovers.remove(pod);
    }

    /// The engine is done with a pod.
    pub(super) fn release(&mut self, pod: &PodUid) {
        let removes = !self.wishes.pods.contains_key(pod) && !self.holdings.keep_directories;
        if !self.wishes.pods.contains_key(pod) {
            self.holdings.whole.remove(pod);
            self.outside.executor.live.lock().unwrap_or_else(PoisonError::into_inner).remove(pod);
        }
        if !removes || !self.begin_chore(pod.clone(), Executor::remove_pod) {
            self.directory_is_gone(pod, Ok(()));
            return;
        }
        self.holdings.departures.entry(pod).has_directory = true;
    }

    /// The directory of a pod is gone, or cannot be removed.
    pub(super) fn directory_is_gone(&mut self, pod: &PodUid, done: Result<(), Arc<str>>) {
        let waiters = self.holdings.departures.pods.get_mut(pod).map(|it| {
            it.has_directory = false;
            mem::take(&mut it.gone)
        });
        for waiter in waiters.into_iter().flatten() {
            let _ = waiter.send(done.clone().map_err(|text| Unmet::Leftover { text }));
        }
        match done {
            Ok(()) => {
                self.holdings.departures.leftovers.remove(pod);
                self.outside.say(Change::PodReleased(pod.clone()));
            }
            Err(text) => {
                self.holdings.departures.leftovers.insert(pod.clone());
                self.outside.say(Change::Leftover { pod: pod.clone(), text });
            }
        }
        self.depart(pod);
        if !self.wishes.pods.contains_key(pod) && !self.holdings.departures.pods.contains_key(pod) {
            self.holdings.born.remove(pod);
        }
    }

    /// A pod has given a volume back, which is still here or is to be deleted.
    pub(super) fn volume_outlives_pod(&mut self, volume: &VolumeId, pod: &PodUid) {
        if !self.is_left(volume) {
            return;
        }
        self.holdings.departures.entry(pod).volumes.insert(volume.clone());
        self.holdings.departures.volumes.entry(volume.clone()).or_default().insert(pod.clone());
    }

    /// Whether a volume is here for nobody, or is to be deleted.
    fn is_left(&self, volume: &VolumeId) -> bool {
        self.engine.is_unused(volume) || self.is_to_be_deleted(volume)
    }

    /// Something happened to a volume: if nothing of it is left, or others use it, pods that had it need not wait for it.
    pub(super) fn look_after(&mut self, volume: &VolumeId) {
        if !self.holdings.departures.volumes.contains_key(volume) || self.is_left(volume) {
            return;
        }
        for pod in self.holdings.departures.volumes.remove(volume).into_iter().flatten() {
            if let Some(departing) = self.holdings.departures.pods.get_mut(&pod) {
                departing.volumes.remove(volume);
            }
            self.depart(&pod);
        }
    }

    /// Forgets a pod of which nothing is left, and tells whoever waits for that.
    fn depart(&mut self, pod: &PodUid) {
        let is_over = |it: &Departing| !it.has_directory && it.volumes.is_empty();
        // A volume of the pod may be gone from this node before another one is unmounted.
        if !self.holdings.departures.pods.get(pod).is_some_and(is_over) || self.engine.view_pod(pod).is_some() {
            return;
        }
        for waiter in self.holdings.departures.remove(pod).into_iter().flat_map(|it| it.released) {
            let _ = waiter.send(Ok(()));
        }
        self.outside.say(Change::VolumesReleased(pod.clone()));
    }

    /// Nothing of the pod is mounted any more; whoever waits is told once its directory is gone too.
    pub(super) fn gone_but_for_directory(&mut self, pod: &PodUid, waiter: Waiter) {
        match self.holdings.departures.pods.get_mut(pod).filter(|it| it.has_directory) {
            Some(departing) => departing.gone.push(waiter),
            None => _ = waiter.send(Ok(())),
        }
    }

    /// Somebody waits until nothing of the volumes is left that a pod had, which is gone.
    pub(super) fn release_awaited(&mut self, pod: &PodUid, waiter: Waiter) {
        match self.holdings.departures.pods.get_mut(pod) {
            Some(departing) => departing.released.push(waiter),
            None => _ = waiter.send(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_whose_directory_stays_and_whose_volume_is_left_counts_once() {
        let (both, directory) = (PodUid::from("both"), PodUid::from("directory"));
        let mut departures = Departures::default();
        departures.entry(&both).volumes.insert("disk".into());
        departures.entry(&"volume".into()).volumes.insert("disk".into());
        departures.leftovers.extend([both, directory]);
        assert_eq!(departures.counts(), (3, 2));
    }
}
