//! Those who wait for a pod's volumes, and the kubelet's questions (E-§1).

use crate::actual::{Mount, PodKey, Volume, VolumeKey};
use crate::answer::{InUse, MountedVolume, PodStatus, WaitError};
use crate::desired::{Pod, Wanting, wanting};
use crate::engine::{Engine, Timer};
use crate::event::{Attachment, Goal, Wait};
use crate::explain;
use crate::ids::{OuterName, PodUid, VolumeId, WaiterId};
use crate::notice::Notice;
use crate::oddity::Oddity;
use crate::plan::{self, Plan, Rest};
use crate::spec::{Attach, Life};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

impl Engine {
    pub(crate) fn wait_started(&mut self, wait: Wait) {
        if self.waits.contains_key(&wait.waiter) {
            self.odd(Oddity::UnknownWaiter, format!("{:?} waits already", wait.waiter));
            return;
        }
        let (waiter, pod, until) = (wait.waiter, wait.pod.clone(), wait.until);
        self.waiters.entry(pod.clone()).or_default().push(waiter);
        self.waits.insert(waiter, wait);
        self.touched_pods.push(pod);
        self.timers.insert((until, Timer::Wait(waiter)));
    }

    pub(crate) fn wait_cancelled(&mut self, waiter: WaiterId) {
        if self.take_wait(waiter).is_none() {
            self.odd(Oddity::UnknownWaiter, format!("{waiter:?} does not wait"));
        }
    }

    fn take_wait(&mut self, waiter: WaiterId) -> Option<Wait> {
        let wait = self.waits.remove(&waiter)?;
        self.timers.remove(&(wait.until, Timer::Wait(waiter)));
        if let Some(waiters) = self.waiters.get_mut(&wait.pod) {
            waiters.retain(|it| *it != waiter);
            if waiters.is_empty() {
                self.waiters.remove(&wait.pod);
            }
        }
        Some(wait)
    }

    fn end_wait(&mut self, waiter: WaiterId, result: Result<(), WaitError>) {
        if self.take_wait(waiter).is_some() {
            self.notices.push_back(Notice::WaitEnded { waiter, result });
        }
    }

    /// Time is up. What is true at this very moment still counts (E-24, E-29).
    pub(crate) fn wait_is_over(&mut self, waiter: WaiterId) {
        let Some(wait) = self.waits.get(&waiter).cloned() else {
            return;
        };
        let result = self.reached(&wait).unwrap_or_else(|| {
            Err(match wait.goal {
                Goal::Mounted | Goal::MountedAtLast => {
                    let status = self.pod_status(&wait.pod).unwrap_or_default();
                    if status.limit_reached { WaitError::LimitReached(status) } else { WaitError::TimedOut(status) }
                }
                Goal::Unmounted => WaitError::StillMounted(self.volumes_of(&wait.pod, |it| it.step.is_still_here())),
                Goal::Gone => WaitError::StillMounted(self.volumes_of(&wait.pod, |_| true)),
            })
        });
        self.end_wait(waiter, result);
    }

    /// Answers those whose pods were touched.
    pub(crate) fn answer_waiters(&mut self) {
        if self.waits.is_empty() {
            self.touched_pods.clear();
            return;
        }
        let mut pods = mem::take(&mut self.touched_pods);
        pods.sort_unstable();
        pods.dedup();
        for pod in &pods {
            for waiter in self.waiters.get(pod).cloned().unwrap_or_default() {
                if let Some(result) = self.waits.get(&waiter).and_then(|it| self.reached(it)) {
                    self.end_wait(waiter, result);
                }
            }
        }
    }

    /// The answer, if there is one before time is up.
    fn reached(&self, wait: &Wait) -> Option<Result<(), WaitError>> {
        match wait.goal {
            Goal::Mounted | Goal::MountedAtLast => {
                let status = self.pod_status(&wait.pod)?;
                if status.unmounted.is_empty() {
                    Some(Ok(()))
                } else if wait.goal == Goal::Mounted && !status.errors.is_empty() {
                    Some(Err(WaitError::Pod(status)))
                } else {
                    None
                }
            }
            Goal::Unmounted => {
                let mounted = |it: &Mount| it.step.is_still_here();
                (self.world.start.disk_read && self.volumes_of(&wait.pod, mounted).is_empty()).then_some(Ok(()))
            }
            Goal::Gone => {
                (self.world.start.disk_read && self.volumes_of(&wait.pod, |_| true).is_empty()).then_some(Ok(()))
            }
        }
    }

    /// The volumes of which a pod has, or may have, a mount of this kind, sorted.
    fn volumes_of(&self, uid: &PodUid, is: impl Fn(&Mount) -> bool) -> Vec<VolumeId> {
        let mut volumes: Vec<VolumeId> = self
            .mounts_of(uid)
            .filter(|(_, mount)| mount.step.may_be_here() && is(mount))
            .map(|(volume, _)| volume.id().clone())
            .collect();
        volumes.sort_unstable();
        volumes
    }

    fn mounts_of(&self, uid: &PodUid) -> impl Iterator<Item = (&Volume, &Mount)> {
        let pod = self.world.pod(uid);
        pod.into_iter().flat_map(|key| {
            let volumes = self.world.pods[key].mounts.iter().map(|it| &self.volumes[*it]);
            volumes.filter_map(move |volume| Some((volume, volume.mount(key)?)))
        })
    }

    /// A pod that a source has, or had.
    fn known_pod(&self, uid: &PodUid) -> Option<(PodKey, &Pod)> {
        let key = self.world.pod(uid)?;
        let pod = &self.world.pods[key];
        match pod.life {
            Life::Known(_) | Life::Leaving => Some((key, pod)),
            Life::Found | Life::Held | Life::Gone => None,
        }
    }

    /// How a volume stands. After an event nothing can begin any more, so there is always an answer.
    pub(crate) fn rest(&self, key: VolumeKey) -> Rest {
        match plan::plan(key, &self.volumes, &self.world) {
            Plan::Rest(rest) => rest,
            Plan::Run(_) => {
                let mounts = self.volumes[key].mounts.iter().map(|_| None).collect();
                Rest { volume: None, mounts, in_use: true, wake_at: None }
            }
        }
    }

    /// May this mount be handed out?
    pub(crate) fn is_mounted(&self, mount: &Mount) -> bool {
        let there = mount.step.held().is_some_and(|it| !it.awaits_growth);
        there && mount.used.is_some() && wanting(mount, &self.world) == Wanting::Wanted
    }

    /// How a pod's volumes stand; `None` if no source has the pod.
    pub fn pod_status(&self, uid: &PodUid) -> Option<PodStatus> {
        let (key, pod) = self.known_pod(uid)?;
        let mut status = PodStatus::default();
        for named in &pod.volumes {
            status.errors.extend(named.trouble.iter().map(|it| it.text.as_str().into()));
            match named.volume {
                Some(volume) => self.add_status(&mut status, &named.name, volume, key),
                None => {
                    status.unprocessed.push(named.name.clone());
                    status.unmounted.push(named.name.clone());
                }
            }
        }
        status.unmounted.sort_unstable();
        status.unattached.sort_unstable();
        status.unprocessed.sort_unstable();
        status.errors.sort_unstable();
        status.errors.dedup();
        Some(status)
    }

    fn add_status(&self, status: &mut PodStatus, name: &OuterName, volume: VolumeKey, pod: PodKey) {
        let entry = &self.volumes[volume];
        let Some(index) = entry.mounts.iter().position(|it| it.pod == pod) else {
            return;
        };
        let mount = &entry.mounts[index];
        if !self.is_mounted(mount) {
            status.unmounted.push(name.clone());
            if let Some(wait) = self.rest(volume).mounts[index] {
                let error = explain::sharing_error(wait, mount, entry, &self.world);
                status.errors.extend(error.map(|it| Arc::<str>::from(it.as_str())));
                // The pod is not admitted to the volume, so for the kubelet it has none (E-67).
                if matches!(wait, plan::Wait::LabelConflict(_) | plan::Wait::Identity(_)) {
                    status.unprocessed.push(name.clone());
                    return;
                }
            }
        }
        if entry.spec.capabilities.attach != Attach::NotNeeded && !self.volume_attached(entry.id()) {
            status.unattached.push(name.clone());
            if let Some(Attachment::Failed { exhausted, .. }) = self.world.attachment(entry.id()) {
                status.limit_reached |= exhausted;
            }
        }
    }

    /// The volumes a pod may be given, by outer name: wanted and certainly there (E-35).
    pub fn mounted_volumes(&self, uid: &PodUid) -> BTreeMap<OuterName, MountedVolume> {
        let mut mounted = BTreeMap::new();
        let Some((key, pod)) = self.known_pod(uid) else {
            return mounted;
        };
        for named in &pod.volumes {
            let Some(volume) = named.volume else { continue };
            let volume = &self.volumes[volume];
            let Some(mount) = volume.mount(key).filter(|it| self.is_mounted(it)) else {
                continue;
            };
            let (Some(used), Some(published)) = (&mount.used, mount.step.held()) else {
                continue;
            };
            let volume = MountedVolume {
                volume: volume.id().clone(),
                plugin: volume.spec.plugin.clone(),
                inner_name: volume.spec.inner_name.clone(),
                access: used.access,
                mode: volume.spec.mode,
                proof: published.proof,
            };
            mounted.insert(named.name.clone(), volume);
        }
        mounted
    }

    /// May anything still be mounted for this pod, wanted or not (E-36)?
    pub fn has_possibly_mounted_volumes(&self, uid: &PodUid) -> bool {
        self.mounts_of(uid).any(|(_, mount)| mount.step.may_be_here())
    }

    /// Groups that a pod's containers need for its volumes besides those it asks for itself, each once, sorted (E-37).
    pub fn extra_groups(&self, uid: &PodUid) -> Vec<i64> {
        let Some((_, pod)) = self.known_pod(uid) else {
            return Vec::new();
        };
        let mounted = self.mounts_of(uid).filter(|(_, mount)| mount.step.held().is_some());
        let groups = mounted.filter_map(|(volume, _)| volume.spec.group.as_deref()?.parse().ok());
        let mut groups: Vec<i64> = groups.filter(|it| !pod.groups.contains(it)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The set of volumes in use (E-38); `None` until [`Engine::states_synced`], when a report must be left as it is.
    pub fn volumes_in_use(&self) -> Option<InUse> {
        let in_use = self.volumes.values().filter(|it| it.in_use_since.is_some());
        let mut volumes: Vec<VolumeId> = in_use.map(|it| it.id().clone()).collect();
        volumes.sort_unstable();
        self.states_synced().then_some(InUse { version: self.in_use_version, volumes })
    }

    /// Is the volume attached, or here without having to be (E-40)?
    pub fn volume_attached(&self, id: &VolumeId) -> bool {
        let Some(volume) = self.volumes.find(id.as_str()).map(|it| &self.volumes[it]) else {
            return false;
        };
        match volume.spec.capabilities.attach {
            Attach::NotNeeded => true,
            Attach::ByNode => volume.attach.held().is_some(),
            Attach::ByController => {
                matches!(self.world.attachment(id), Some(Attachment::Attached { .. }))
            }
        }
    }

    /// Is something of the volume here, and no pod has or wants it?
    pub fn is_unused(&self, id: &VolumeId) -> bool {
        self.volumes.find(id.as_str()).is_some_and(|it| self.volumes[it].mounts.is_empty())
    }

    /// Has what was found at start been merged with what the attacher says (E-39)?
    pub fn states_synced(&self) -> bool {
        self.world.start.disk_read && self.world.start.attachments_complete
    }
}
