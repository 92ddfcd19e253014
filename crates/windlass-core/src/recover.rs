//! Start: turns what was found on disk and in the mount table into state (E-193..E-199).
//!
//! Nothing found is trusted without proof, and nothing found is forgotten: a mount counts as made only if its record is
//! proof for this boot and the mount is there; everything else is uncertain, which means that it is made again if it is
//! wanted and taken away if it is known not to be (I-4, I-11).

use crate::actual::{PodKey, Published, Volume, VolumeKey};
use crate::engine::Engine;
use crate::event::{Found, Record};
use crate::ids::{InnerName, PluginName, PodUid, VolumeId};
use crate::oddity::Oddity;
use crate::operation::Proof;
use crate::plan::same_place;
use crate::spec::{Capabilities, Identity, Life, Mode, Sharing, VolumeSpec};
use crate::step::{Doubt, Step};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Engine {
    pub(crate) fn found_attached(&mut self, spec: &Arc<VolumeSpec>, device: Option<Arc<str>>) {
        let Some(key) = self.found_volume(spec) else {
            return;
        };
        let found = match device {
            Some(device) => Step::Held(Some(device)),
            None => Step::Uncertain(Doubt::Found),
        };
        merge(&mut self.volumes[key].attach, found);
    }

    pub(crate) fn found_staged(&mut self, found: Found) {
        let Some(key) = self.found_volume(&found.spec) else {
            return;
        };
        let proven = self.proven(&found).map(|(proof, _)| proof);
        let volume = &mut self.volumes[key];
        volume.label.get_or_insert(found.label);
        merge(&mut volume.stage, proven.map_or(Step::Uncertain(Doubt::Found), Step::Held));
    }

    pub(crate) fn found_published(&mut self, uid: &PodUid, found: Found) {
        if uid.as_str().is_empty() {
            self.odd(Oddity::EmptyName, format!("found {} published to a pod without a uid", found.spec.id));
            return;
        }
        let Some(key) = self.found_volume(&found.spec) else {
            return;
        };
        let at = self.world.now;
        let proven = self.proven(&found);
        let step = match proven {
            Some((proof, revision)) => Step::Held(Published { proof, revision, at, awaits_growth: false }),
            None => Step::Uncertain(Doubt::Found),
        };
        let pod = self.pod_entry(uid);
        self.add_mount(key, pod);
        let volume = &mut self.volumes[key];
        volume.label.get_or_insert(found.label);
        if let Some(mount) = volume.mount_mut(pod) {
            merge(&mut mount.step, step);
            mount.unclaimed = mount.used.is_none() && !matches!(found.record, Record::Leaving { .. });
        }
        self.world.pods[pod].had_gone |= matches!(found.record, Record::Leaving { with_pod: true });
        self.touch_pod(pod);
        self.touch_rivals(Some(pod));
        self.judge_found(pod);
    }

    pub(crate) fn found_unreadable(&mut self, uid: &PodUid, plugin: PluginName, inner_name: InnerName, mode: Mode) {
        if uid.as_str().is_empty() {
            self.odd(Oddity::EmptyName, format!("found {plugin} {inner_name} of a pod without a uid"));
            return;
        }
        self.note_if_late(|| format!("{plugin} {inner_name} of pod {uid}"));
        let pod = self.pod_entry(uid);
        let here = |it: &&VolumeKey| {
            let spec = &self.volumes[**it].spec;
            spec.plugin == plugin && spec.inner_name == inner_name && spec.mode == mode
        };
        // The pod names a volume of this place: it will be set up again, and is known to have been there (E-199).
        if let Some(key) = self.world.pods[pod].mounts.iter().find(here).copied() {
            if let Some(mount) = self.volumes[key].mount_mut(pod) {
                merge(&mut mount.step, Step::Uncertain(Doubt::Found));
            }
            self.touch(key);
            self.touch_rivals(Some(pod));
            return;
        }
        let spec = Arc::new(VolumeSpec {
            id: VolumeId::from(format!("unreadable/{mode:?}/{plugin}/{uid}/{inner_name}").as_str()),
            plugin,
            driver: None,
            inner_name,
            capabilities: Capabilities::default(),
            mode,
            sharing: Sharing::Shared,
            group: None,
            size: Default::default(),
        });
        let mut volume = Volume::new(spec, self.world.now);
        volume.unreadable = true;
        let key = match self.volumes.find(volume.id().as_str()) {
            Some(key) => key,
            None => self.volumes.insert(volume),
        };
        self.add_mount(key, pod);
        if let Some(mount) = self.volumes[key].mount_mut(pod) {
            merge(&mut mount.step, Step::Uncertain(Doubt::Found));
            mount.unclaimed = true;
        }
        self.touch(key);
        self.judge_found(pod);
    }

    pub(crate) fn found_pod(&mut self, uid: &PodUid, name: Option<Arc<str>>) {
        if uid.as_str().is_empty() {
            self.odd(Oddity::EmptyName, String::from("found a pod without a uid"));
            return;
        }
        self.note_if_late(|| format!("pod {uid}"));
        let pod = self.pod_entry(uid);
        if let (Life::Found | Life::Gone, Some(name)) = (self.world.pods[pod].life, name) {
            self.world.set_title(pod, name);
        }
        self.judge_found(pod);
    }

    pub(crate) fn disk_read(&mut self) {
        let synced_before = self.states_synced();
        self.world.start.disk_read = true;
        self.recognise_unreadable();
        self.synced_now(synced_before);
        self.open_the_gate();
        let pods: Vec<PodKey> = self.world.pods.keys().collect();
        for pod in pods {
            self.drop_pod_if_over(pod);
        }
        // Whoever waits for a pod that nobody knows can now be told that it is gone.
        self.touched_pods.extend(self.waiters.keys().cloned());
    }

    /// A directory without a record is named like the volume it is of. If a volume of that name was found to be staged, it
    /// is that one: it must not be taken down under the pod.
    fn recognise_unreadable(&mut self) {
        let unreadable: Vec<VolumeKey> = self.volumes.keys().filter(|it| self.volumes[*it].unreadable).collect();
        for nameless in unreadable {
            let is_it = |it: &VolumeKey| {
                let volume = &self.volumes[*it];
                let shared = volume.spec.capabilities.identity == Identity::Shared;
                shared && !volume.unreadable && same_place(volume, &self.volumes[nameless])
            };
            let Some(volume) = self.volumes.keys().find(is_it) else { continue };
            let pods: Vec<PodKey> = self.volumes[nameless].mounts.iter().map(|it| it.pod).collect();
            for pod in pods {
                self.add_mount(volume, pod);
            }
        }
    }

    fn found_volume(&mut self, spec: &Arc<VolumeSpec>) -> Option<VolumeKey> {
        if spec.id.as_str().is_empty() {
            self.odd(Oddity::EmptyName, String::from("found a volume without an identity"));
            return None;
        }
        self.note_if_late(|| format!("volume {}", spec.id));
        // What a source says of a volume is newer than what a record says.
        let key = match self.volumes.find(spec.id.as_str()) {
            Some(key) => key,
            None => self.volumes.insert(Volume::new(spec.clone(), self.world.now)),
        };
        self.touch(key);
        Some(key)
    }

    fn note_if_late(&mut self, what: impl FnOnce() -> String) {
        if self.world.start.disk_read {
            self.odd(Oddity::FoundLate, what());
        }
    }

    /// The mount, if its record proves it for this boot and it is there (I-4).
    fn proven(&self, found: &Found) -> Option<(Proof, u64)> {
        match &found.record {
            Record::Proven { boot, proof, revision } if *boot == self.boot => {
                found.seen.filter(|seen| proof.holds_for(seen)).map(|_| (*proof, *revision))
            }
            Record::Proven { .. } | Record::Intent | Record::Leaving { .. } => None,
        }
    }
}

/// What this life of the process has done itself it knows better than the disk; but a first call that runs is no first.
fn merge<T>(step: &mut Step<T>, found: Step<T>) {
    match step {
        Step::Absent => *step = found,
        Step::Doing { doubt, .. } => *doubt = doubt.or(Some(Doubt::Found)),
        Step::Held(_) | Step::Uncertain(_) | Step::Undoing { .. } => {}
    }
}
