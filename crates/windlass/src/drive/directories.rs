//! The directories of pods, which workers make and remove.

use std::sync::Arc;

use windlass_core::event::MountPlace;
use windlass_core::ids::{PodUid, VolumeId};

use super::outside::Owed;
use super::{Drive, Message};
use crate::executor::Executor;
use crate::node::Change;
use crate::plugin::Failure;

impl Drive {
    /// Removes the directory of a pod, if the pod has gone.
    pub(super) fn remove_directory(&mut self, pod: &PodUid) {
        self.holdings.whole.remove(pod);
        let _ = self.begin_chore(pod.clone(), Executor::remove_pod);
    }

    /// Makes the directory of a pod that was told, unless one of its volumes is being made, which makes it first.
    pub(super) fn make_directory(&mut self, pod: PodUid) {
        let Some(given) = self.wishes.pods.get(&pod).filter(|_| !self.holdings.whole.remove(&pod)) else { return };
        let is_busy = |it: &VolumeId| self.operations.busy.contains_key(&MountPlace::Publish(it.clone(), pod.clone()));
        if !given.volumes().any(is_busy) {
            let _ = self.begin_chore(pod, Executor::make_pod);
        }
    }

    /// Makes or removes a pod's directory, elsewhere; says whether that was begun.
    pub(super) fn begin_chore(&mut self, pod: PodUid, work: fn(&Executor, &PodUid) -> Result<(), Failure>) -> bool {
        let executor = self.outside.executor.clone();
        let answer = self.outside.owe(Owed::Directory(pod.clone()));
        let started = self.outside.workers.run(&self.operations.lanes.pods, move || {
            let done = work(&executor, &pod);
            answer.give(Message::DirectoryDone(pod, done));
        });
        // Without any thread it waits for the next start, which finds what was left.
        if started.is_ok() {
            self.operations.chores += 1;
        }
        started.is_ok()
    }

    /// The directory of a pod was made or removed, or could not be.
    pub(super) fn directory_done(&mut self, pod: &PodUid, done: Result<(), Failure>) {
        self.operations.chores = self.operations.chores.saturating_sub(1);
        let done = done.map_err(|failure| Arc::from(failure.text));
        if self.holdings.departures.get(pod).is_some_and(|it| it.has_directory) {
            return self.directory_is_gone(pod, done);
        }
        if let Err(text) = done {
            self.outside.say(Change::Leftover { pod: pod.clone(), text });
        }
    }
}
