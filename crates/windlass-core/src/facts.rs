//! Facts about the surroundings: drivers, objects, the attacher, the report, the mount table.

use crate::engine::Engine;
use crate::event::{Attachment, MountPlace};
use crate::ids::{DriverName, ObjectName, PodUid, VolumeId};
use crate::notice::Notice;
use crate::oddity::Oddity;
use crate::operation::Proof;
use crate::step::{Doubt, Step};
use crate::world::Attached;
use alloc::format;
use alloc::vec::Vec;
use core::mem;

impl Engine {
    pub(crate) fn driver_changed(&mut self, name: &DriverName, registered: bool) {
        if name.as_str().is_empty() {
            self.odd(Oddity::EmptyName, format!("a driver without a name, registered: {registered}"));
            return;
        }
        let driver = self.world.drivers.entry(name.clone()).or_default();
        driver.registered = registered;
        let parked = driver.parked.clone();
        if parked.is_empty() && !registered {
            self.world.drivers.remove(name);
        }
        for volume in parked {
            // A driver that registers may have mended whatever failed with the one before.
            if registered {
                self.clear_backoffs(volume);
            }
            self.touch(volume);
        }
    }

    pub(crate) fn object_changed(&mut self, object: &ObjectName) {
        let from = (object.clone(), self.volumes.first_key(), None);
        let waiting = self.missing_objects.range(from..).take_while(|(name, ..)| name == object);
        let waiting: Vec<_> = waiting.map(|(_, volume, pod)| (*volume, *pod)).collect();
        for (volume, pod) in waiting {
            self.clear_backoff(volume, pod);
            self.touch(volume);
        }
    }

    pub(crate) fn retry_wanted(&mut self, volume: &VolumeId, pod: Option<&PodUid>) {
        // The volume may have gone meanwhile, and with it all that failed of it.
        let Some(key) = self.volumes.find(volume.as_str()) else { return };
        match pod {
            None => self.clear_backoffs(key),
            Some(uid) => {
                self.clear_backoff(key, None);
                if let Some(pod) = self.world.pod(uid) {
                    self.clear_backoff(key, Some(pod));
                }
            }
        }
        self.touch(key);
    }

    pub(crate) fn attachment_changed(&mut self, volume: &VolumeId, attachment: Attachment) {
        if volume.as_str().is_empty() {
            self.odd(Oddity::EmptyName, format!("an attachment of a volume without a name: {attachment:?}"));
            return;
        }
        match (self.world.attachments.find(volume.as_str()), attachment) {
            (Some(key), Attachment::Detached) => {
                self.world.attachments.remove(key);
            }
            (None, Attachment::Detached) => {}
            (Some(key), attachment) => self.world.attachments[key].attachment = attachment,
            (None, attachment) => {
                self.world.attachments.insert(Attached { volume: volume.clone(), attachment });
            }
        }
        if let Some(key) = self.volumes.find(volume.as_str()) {
            self.clear_backoffs(key);
            self.touch(key);
            for index in 0..self.volumes[key].mounts.len() {
                self.touch_pod(self.volumes[key].mounts[index].pod);
            }
        }
    }

    pub(crate) fn attachments_complete(&mut self) {
        let synced_before = self.states_synced();
        self.world.start.attachments_complete = true;
        self.synced_now(synced_before);
        self.open_the_gate();
        self.touch_all();
    }

    pub(crate) fn synced_now(&mut self, before: bool) {
        if !before && self.states_synced() {
            self.notices.push_back(Notice::Synced);
        }
    }

    pub(crate) fn in_use_reported(&mut self, version: u64) {
        if version > self.in_use_version {
            let text = format!("version {version} was reported, the newest is {}", self.in_use_version);
            self.odd(Oddity::UnknownReport, text);
            return;
        }
        self.world.reported_version = self.world.reported_version.max(version);
        while let Some(first) = self.unreported.first_entry().filter(|it| *it.key() <= version) {
            self.touched.insert(first.remove());
        }
    }

    pub(crate) fn mount_seen(&mut self, place: &MountPlace, proof: Option<Proof>) {
        let (volume, pod) = match place {
            MountPlace::Stage(volume) => (volume, None),
            MountPlace::Publish(volume, pod) => (volume, Some(pod)),
        };
        let Some(key) = self.volumes.find(volume.as_str()) else {
            return self.unknown_place(place, proof);
        };
        let volume = &mut self.volumes[key];
        let changed = match pod {
            None => look(&mut volume.stage, proof, |it| it),
            Some(uid) => {
                let pod = self.world.pods.find(uid.as_str());
                let mount = pod.and_then(|it| volume.mounts.iter_mut().find(|mount| mount.pod == it));
                match mount {
                    Some(mount) => look(&mut mount.step, proof, |it| &it.proof),
                    None => return self.unknown_place(place, proof),
                }
            }
        };
        if changed {
            self.touch(key);
        }
    }

    /// Something appeared where nothing of ours is: it is not ours, and is left alone.
    fn unknown_place(&mut self, place: &MountPlace, proof: Option<Proof>) {
        if let Some(proof) = proof {
            self.odd(Oddity::UnknownPlace, format!("{proof:?} is mounted at {place:?}, which is not ours"));
        }
    }
}

/// Compares what should be mounted with what is; says whether that changed anything.
fn look<T>(step: &mut Step<T>, seen: Option<Proof>, proof: impl Fn(&T) -> &Proof) -> bool {
    let Step::Held(held) = step else { return false };
    let doubt = match seen {
        Some(seen) if proof(held).holds_for(&seen) => return false,
        Some(_) => Doubt::Replaced,
        None => Doubt::Vanished,
    };
    drop(mem::replace(step, Step::Uncertain(doubt)));
    true
}
