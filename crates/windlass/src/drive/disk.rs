//! What was on disk at start, and the directories of pods.

use super::*;

impl Drive {
    /// Removes the directory of a pod, if the pod has gone.
    pub(crate) fn remove_directory(&mut self, pod: &PodUid) {
        self.whole.remove(pod);
        let _ = self.chore(pod.clone(), Executor::remove_pod);
    }

    /// Makes the directory of a pod that was told, unless one of its volumes is being made, which makes it first.
    pub(super) fn make_directory(&mut self, pod: PodUid) {
        let Some(known) = self.pods.get(&pod).filter(|_| !self.whole.remove(&pod)) else { return };
        let is_busy = |it: &VolumeId| self.busy.contains_key(&Place::Publish(it.clone(), pod.clone()));
        if !known.volumes().any(is_busy) {
            let _ = self.chore(pod, Executor::make_pod);
        }
    }

    /// Makes or removes a pod's directory, elsewhere; says whether that was begun.
    pub(super) fn chore(&mut self, pod: PodUid, work: fn(&Executor, &PodUid) -> Result<(), Failure>) -> bool {
        let (executor, inbox, locks) = (self.executor.clone(), self.inbox.clone(), Some(self.locks.clone()));
        let started = self.workers.run(&self.lanes.pods, move || {
            let mut chore = Chore { pod, inbox, locks, done: None };
            chore.done = Some(work(&executor, &chore.pod));
        });
        // Without any thread it waits for the next start, which finds what was left.
        if started.is_ok() {
            self.chores += 1;
        }
        started.is_ok()
    }

    fn chore_ended(&mut self, pod: &PodUid, done: Result<(), Failure>) {
        let done = done.map_err(|failure| Arc::from(failure.text));
        if self.departures.get(pod).is_some_and(|it| it.has_directory) {
            return self.directory_is_gone(pod, done);
        }
        if let Err(text) = done {
            let _ = self.changes.send(Change::Leftover { pod: pod.clone(), text });
        }
    }

    pub(super) fn read_disk(&mut self) {
        let (executor, inbox, store) = (self.executor.clone(), self.inbox.clone(), self.provisions.store());
        let started = self.workers.run(&self.lanes.start, move || {
            let mut reading = Reading { inbox, remains: None };
            reading.remains = Some(reconstruct::read(&executor).and_then(|mut remains| {
                let (provisions, troubles) = store.all()?;
                remains.provisions = provisions;
                remains.troubles.extend(troubles);
                Ok(remains)
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
            if self.held.contains(&it.place) || self.busy.contains_key(&it.place) {
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
                if let Event::FoundPod { uid: pod, .. } | Event::FoundPublished { pod, .. } = event {
                    live.insert(pod.clone());
                }
            }
        }
        let born = remains.born.into_iter();
        self.born.extend(born.filter_map(|(pod, at)| Some((pod, Timestamp::try_from(at).ok()?))));
        if !self.looked {
            self.whole = remains.whole;
        }
        for event in remains.events {
            // Whoever follows the changes knows from now on what it is called.
            if let Event::FoundPod { uid, name: Some(name) } = &event {
                let _ = self.changes.send(Change::Pod { pod: uid.clone(), name: name.clone(), unresolved: false });
            }
            self.tell(event);
        }
        for (uid, hold) in mem::take(&mut self.holds) {
            self.tell(Event::PodHeld { uid, hold });
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
        if completed.is_some() {
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
        if let Some(orphan_delay) = completed {
            self.complete(orphan_delay);
        }
    }
}

/// What is said of work that broke off: it must not look like success.
const BROKE_OFF: &str = "the work broke off; this is a defect of windlass";

/// Tells of the end of a chore, also if it broke off.
struct Chore {
    pod: PodUid,
    inbox: Sender<Message>,
    locks: Option<Locks>,
    done: Option<Result<(), Failure>>,
}

impl Drop for Chore {
    fn drop(&mut self) {
        let done = self.done.take().unwrap_or_else(|| Err(Failure::refused(Cause::Other, BROKE_OFF)));
        let pod = self.pod.clone();
        drop(self.locks.take());
        let _ = self.inbox.send(Box::new(move |drive| {
            drive.chores = drive.chores.saturating_sub(1);
            drive.chore_ended(&pod, done);
        }));
    }
}

/// Tells what was on disk, also if reading it broke off: otherwise everybody would wait for it for ever.
struct Reading {
    inbox: Sender<Message>,
    remains: Option<Result<Remains, Failure>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let remains = self.remains.take().unwrap_or_else(|| Err(Failure::refused(Cause::Other, BROKE_OFF)));
        let _ = self.inbox.send(Box::new(move |drive| match remains {
            Ok(remains) => drive.disk_was_read(remains),
            Err(failure) => drive.disk_is_unreadable(&failure.text),
        }));
    }
}
