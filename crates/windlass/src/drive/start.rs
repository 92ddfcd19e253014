//! The start: what is on disk is read once, and pods are told after that.

use std::collections::BTreeMap;
use std::mem;
use std::sync::PoisonError;

use jiff::Timestamp;
use windlass_core::event::{Hold, MountPlace};
use windlass_core::ids::{PodUid, SourceName};
use windlass_core::{Event, backoff};

use super::alarms::Alarm;
use super::outside::Owed;
use super::pods::Completed;
use super::{Drive, Message};
use crate::node::Change;
use crate::observe::Observed;
use crate::plugin;
use crate::reconstruct::{self, Remains};

/// How far the start has come.
#[derive(Default)]
pub(super) struct Start {
    /// The disk was looked at. Before that pods are not told: what they want may be there already, and no call is to be made
    /// that the state does not need (I-11).
    pub(super) looked: bool,
    /// The disk could be read, so the engine was told of every record.
    pub(super) disk_read: bool,
    /// How often the disk could not be read.
    failures: u32,
    /// Pods that are held, until the disk has been read: what is on it of them is told then.
    pub(super) holds: BTreeMap<PodUid, Hold>,
    /// Sources that were complete before the disk was looked at.
    pub(super) completed: BTreeMap<SourceName, Completed>,
}

impl Drive {
    pub(super) fn read_disk(&mut self) {
        let (executor, store) = (self.outside.executor.clone(), self.provisions.store());
        // Otherwise everybody would wait for it for ever.
        let answer = self.outside.owe(Owed::Disk);
        let started = self.outside.workers.run(&self.operations.lanes.start, move || {
            let remains = reconstruct::read(&executor).and_then(|mut remains| {
                let (provisions, troubles) = store.all()?;
                remains.provisions = provisions;
                remains.troubles.extend(troubles);
                Ok(Box::new(remains))
            });
            answer.give(Message::DiskRead(remains));
        });
        if let Err(error) = started {
            self.disk_is_unreadable(&plugin::chain(&error));
        }
    }

    pub(super) fn disk_is_unreadable(&mut self, text: &str) {
        self.outside.say(Change::DiskUnreadable { text: text.into() });
        self.start.failures = self.start.failures.saturating_add(1);
        self.alarms.set(self.now() + backoff::delay(self.start.failures), Alarm::ReadDisk);
        // Mounts do not wait for a disk that cannot be read.
        self.tell_pods();
    }

    pub(super) fn disk_was_read(&mut self, remains: Remains) {
        let mut taken_over = Vec::new();
        for text in remains.troubles {
            self.outside.say(Change::Damaged { text: text.into() });
        }
        for it in remains.made {
            // What this life has made since is newer.
            if self.holdings.held.contains(&it.place) || self.operations.busy.contains_key(&it.place) {
                continue;
            }
            if let (MountPlace::Publish(volume, pod), 1..) = (&it.place, it.epoch) {
                self.holdings.renewals.set_epoch(pod, volume, it.epoch);
            }
            taken_over.push(it.place.clone());
            self.hold(it.place, &it.made);
        }
        {
            let mut live = self.outside.executor.live.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &remains.events {
                if let Event::FoundPod { uid: pod, .. } | Event::FoundPublished { pod, .. } = event {
                    live.insert(pod.clone());
                }
            }
        }
        let unreadable = |it: &&Event| matches!(it, Event::FoundUnreadable { .. });
        let unreadable = remains.events.iter().filter(unreadable).count();
        let read = |it: &&Event| matches!(it, Event::FoundPublished { .. });
        let found = remains.events.iter().filter(read).count() + unreadable;
        self.outside.executor.scene.observer.tell(&Observed::DiskRead { found, unreadable });
        let born = remains.born.into_iter();
        self.holdings.born.extend(born.filter_map(|(pod, at)| Some((pod, Timestamp::try_from(at).ok()?))));
        if !self.start.looked {
            self.holdings.whole = remains.whole;
        }
        for event in remains.events {
            // Whoever follows the changes knows from now on what it is called.
            if let Event::FoundPod { uid, name: Some(name) } = &event {
                self.outside.say(Change::Pod { pod: uid.clone(), name: name.clone(), unresolved: false });
            }
            self.tell(event);
        }
        for (uid, hold) in mem::take(&mut self.start.holds) {
            self.tell(Event::PodHeld { uid, hold });
        }
        self.tell(Event::DiskRead);
        self.start.disk_read = true;
        self.provisions_were_read(remains.provisions);
        // What changed while the disk was read was nobody's place then; and what lies over a directory was not looked for.
        for place in taken_over {
            self.look_at(&place);
        }
        self.tell_pods();
    }

    /// Tells of the pods that were given so far.
    fn tell_pods(&mut self) {
        if mem::replace(&mut self.start.looked, true) {
            return;
        }
        let completed = mem::take(&mut self.start.completed);
        if self.wishes.are_complete() {
            // No pod has been told anything, so none need be told twice.
            self.wishes.memory_mut().end_partial();
        }
        let mut pods: Vec<PodUid> = self.wishes.pods.keys().cloned().collect();
        pods.sort();
        for pod in &pods {
            self.tell_pod(pod);
            // While the pod is open.
            self.settle();
            if let Some(given) = self.wishes.pods.get(pod) {
                given.pod.lend();
            }
        }
        for (source, completed) in completed {
            self.source_is_complete(&source, completed);
        }
    }
}
