//! What was on disk at start, and the directories of pods.

use super::*;

impl Drive {
    pub(super) fn release(&mut self, pod: &PodUid) {
        if self.pods.contains_key(pod) {
            return;
        }
        self.whole.remove(pod);
        self.executor.live.lock().unwrap_or_else(PoisonError::into_inner).remove(pod);
        if !self.keep_directories {
            self.chore(pod.clone(), Executor::remove_pod);
        }
    }

    /// Removes the directory of a pod, if the pod has gone.
    pub(crate) fn remove_directory(&mut self, pod: &PodUid) {
        self.whole.remove(pod);
        self.chore(pod.clone(), Executor::remove_pod);
    }

    /// Makes the directory of a pod that was told, unless one of its volumes is being made, which makes it first.
    pub(super) fn make_directory(&mut self, pod: PodUid) {
        let Some(known) = self.pods.get(&pod).filter(|_| !self.whole.remove(&pod)) else { return };
        let is_busy = |it: &VolumeId| self.busy.contains(&Place::Publish(it.clone(), pod.clone()));
        if !known.volumes().any(is_busy) {
            self.chore(pod, Executor::make_pod);
        }
    }

    /// Makes or removes a pod's directory, elsewhere.
    pub(super) fn chore(&mut self, pod: PodUid, work: fn(&Executor, &PodUid) -> Result<(), Failure>) {
        let (executor, inbox, locks) = (self.executor.clone(), self.inbox.clone(), Some(self.locks.clone()));
        let started = self.workers.run(&self.lanes.pods, move || {
            let mut chore = Chore { inbox, locks, trouble: None };
            if let Err(failure) = work(&executor, &pod) {
                chore.trouble = Some(Change::Leftover { pod, text: failure.text.into() });
            }
        });
        // Without any thread it waits for the next start, which finds what was left.
        if started.is_ok() {
            self.chores += 1;
        }
    }

    pub(super) fn read_disk(&mut self) {
        let (executor, inbox, store) = (self.executor.clone(), self.inbox.clone(), self.provisions.store());
        let started = self.workers.run(&self.lanes.start, move || {
            let remains = reconstruct::read(&executor).and_then(|mut remains| {
                let (provisions, troubles) = store.all()?;
                remains.provisions = provisions;
                remains.troubles.extend(troubles);
                Ok(remains)
            });
            let _ = inbox.send(Box::new(move |drive| match remains {
                Ok(remains) => drive.disk_was_read(remains),
                Err(failure) => drive.disk_is_unreadable(&failure.text),
            }));
        });
        if let Err(error) = started {
            self.disk_is_unreadable(&plugin::chain(&error));
        }
    }

    pub(super) fn disk_is_unreadable(&mut self, text: &str) {
        let _ = self.changes.send(Change::DiskUnreadable { text: text.into() });
        let again = READ_AGAIN * 2_u32.pow(self.unreadable.min(5));
        self.unreadable += 1;
        self.alarms.insert((self.now() + again, Alarm::ReadDisk));
        // Mounts do not wait for a disk that cannot be read.
        self.begin();
    }

    pub(super) fn disk_was_read(&mut self, remains: Remains) {
        let mut taken_over = Vec::new();
        for text in remains.troubles {
            let _ = self.changes.send(Change::Damaged { text: text.into() });
        }
        for it in remains.made {
            // What this life has made since is newer.
            if self.held.contains(&it.place) || self.busy.contains(&it.place) {
                continue;
            }
            if let (Place::Publish(volume, pod), 1..) = (&it.place, it.epoch) {
                self.renewals.entry((pod.clone(), volume.clone())).or_default().epoch = it.epoch;
            }
            taken_over.push(it.place.clone());
            self.hold(it.place, &it.made);
        }
        {
            let mut live = self.executor.live.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &remains.events {
                if let Event::FoundPod(pod) | Event::FoundPublished { pod, .. } = event {
                    live.insert(pod.clone());
                }
            }
        }
        if !self.looked {
            self.whole = remains.whole;
        }
        for event in remains.events {
            self.tell(event);
        }
        self.tell(Event::DiskRead);
        self.disk_read = true;
        self.provisions_were_read(remains.provisions);
        // What changed while the disk was read was nobody's place then.
        for place in taken_over {
            self.look_at(&place);
        }
        self.begin();
    }

    /// Tells of the pods that were given so far.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.looked, true) {
            return;
        }
        let completed = std::mem::take(&mut self.completed);
        if completed {
            // No pod has been told anything, so none need be told twice.
            self.memory.write().unwrap_or_else(PoisonError::into_inner).end_partial();
        }
        let mut pods: Vec<PodUid> = self.pods.keys().cloned().collect();
        pods.sort();
        for pod in &pods {
            self.tell_pod(pod);
            if let Some(known) = self.pods.get(pod) {
                known.pod.lend();
            }
        }
        if completed {
            self.complete();
        }
    }
}

/// Tells of the end of a chore, also if it broke off.
struct Chore {
    inbox: Sender<Message>,
    locks: Option<Locks>,
    trouble: Option<Change>,
}

impl Drop for Chore {
    fn drop(&mut self) {
        let trouble = self.trouble.take();
        drop(self.locks.take());
        let _ = self.inbox.send(Box::new(move |drive| {
            drive.chores = drive.chores.saturating_sub(1);
            if let Some(trouble) = trouble {
                let _ = drive.changes.send(trouble);
            }
        }));
    }
}
