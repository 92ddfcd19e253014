//! Makes the snapshot, and explains.

use crate::actual::{Mount, PodKey, Turn, VolumeKey};
use crate::desired::NamedVolume;
use crate::engine::Engine;
use crate::explain::Explainer;
use crate::ids::{DriverName, OuterName, PodUid, SourceName, Time, VolumeId};
use crate::operation::OperationKind;
use crate::reason::{Code, Reason};
use crate::snapshot::{
    MountView, OperationView, PodDetail, PodMountView, PodStanding, PodView, PodVolumeView, Snapshot, SourceView,
    StepView, TurnView, VolumeView,
};
use crate::spec::Attach;
use crate::step::Step;
use crate::world::Source;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Engine {
    /// The sources of pods, in the order of their names.
    pub fn sources(&self) -> Vec<SourceView> {
        let view = |(name, source): (&SourceName, &Source)| {
            let Source { state, since, .. } = source;
            SourceView { name: name.clone(), state: state.clone(), since: *since }
        };
        self.world.sources.iter().map(view).collect()
    }

    /// Everything the engine knows, at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut volumes: Vec<VolumeView> = self.volumes.keys().map(|it| self.volume_view(it)).collect();
        volumes.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let mut pods: Vec<PodView> = self.world.pods.keys().map(|it| self.pod_view(it)).collect();
        pods.sort_unstable_by(|one, other| one.uid.cmp(&other.uid));
        let registered = self.world.drivers.iter().filter(|(_, driver)| driver.registered);
        Snapshot {
            now: self.world.now,
            may_take_away: self.world.start.may_take_away,
            synced: self.states_synced(),
            volumes,
            pods,
            operations: self.running_operations(),
            sources: self.sources(),
            drivers: registered.map(|(name, _)| name.clone()).collect(),
            oddities: self.oddities.counts().collect(),
        }
    }

    /// The operations that run, oldest first.
    pub fn running_operations(&self) -> Vec<OperationView> {
        let operations = self.world.operations.iter().map(|(id, running)| OperationView {
            id: *id,
            volume: self.volumes[running.volume].id().clone(),
            pod: running.pod.map(|it| self.world.pods[it].uid.clone()),
            kind: running.kind,
            since: running.since,
            turn: match &running.turn {
                Turn::Queued { ahead } => TurnView::Queued { ahead: *ahead },
                Turn::Blocked { .. } | Turn::Hung => TurnView::Hung,
                Turn::Runs { .. } => TurnView::Runs,
            },
        });
        operations.collect()
    }

    /// `namespace/name` of a pod that is known or of which something is here.
    pub fn pod_name(&self, uid: &PodUid) -> Option<Arc<str>> {
        Some(self.world.pods[self.world.pod(uid)?].title.clone())
    }

    /// The pods of this `namespace/name` that are known or of which something is here, in the order of their uids: there may
    /// be another while an earlier one goes. Costs what those cost (I-9).
    pub fn pods_named(&self, name: &str) -> Vec<PodUid> {
        let found = self.world.titles.find(&self.world.pods, name);
        let mut uids: Vec<PodUid> = found.map(|it| self.world.pods[it].uid.clone()).collect();
        uids.sort_unstable();
        uids
    }

    /// The pods that are known or of which something is here, in no particular order.
    pub fn pod_uids(&self) -> Vec<PodUid> {
        self.world.pods.keys().map(|it| self.world.pods[it].uid.clone()).collect()
    }

    /// One volume; `None` if nobody wants it and nothing of it is here. Costs what the volume costs (I-9).
    pub fn view_volume(&self, id: &VolumeId) -> Option<VolumeView> {
        Some(self.volume_view(self.volumes.find(id.as_str())?))
    }

    /// The driver that a volume is of; `None` if it is of none, or not here.
    pub fn driver_of(&self, id: &VolumeId) -> Option<&DriverName> {
        self.volumes[self.volumes.find(id.as_str())?].spec.driver.as_ref()
    }

    /// Since when a pod wants a volume as it does now; `None` if it has no mount of it.
    pub fn wanted_since(&self, volume: &VolumeId, pod: &PodUid) -> Option<Time> {
        let volume = &self.volumes[self.volumes.find(volume.as_str())?];
        Some(volume.mount(self.world.pod(pod)?)?.used_since)
    }

    /// The volumes that are of a driver, each with its driver, in no particular order.
    pub fn volumes_of_drivers(&self) -> impl Iterator<Item = (&DriverName, &VolumeId)> {
        self.volumes.keys().filter_map(|it| Some((self.volumes[it].spec.driver.as_ref()?, self.volumes[it].id())))
    }

    /// One pod with its volumes; `None` if it is not known and nothing of it is here. Costs what the pod costs (I-9).
    pub fn view_pod(&self, uid: &PodUid) -> Option<PodDetail> {
        let key = self.world.pod(uid)?;
        let pod = &self.world.pods[key];
        let mut volumes: Vec<PodVolumeView> = pod.volumes.iter().map(|it| self.named_view(key, it)).collect();
        let unnamed = pod.mounts.iter().filter(|it| pod.names_of(**it).next().is_none());
        volumes.extend(unnamed.filter_map(|it| self.pod_mount_view(key, *it)));
        Some(PodDetail { pod: self.pod_view(key), volumes })
    }

    fn named_view(&self, pod: PodKey, named: &NamedVolume) -> PodVolumeView {
        let trouble = named.trouble.as_deref().cloned();
        let view = named.volume.and_then(|it| self.pod_mount_view(pod, it)).unwrap_or_else(|| PodVolumeView {
            name: None,
            volume: None,
            code: trouble.as_ref().map_or(Code::Idle, |it| it.code),
            since: trouble.as_ref().map_or(self.world.now, |it| it.since),
            current: true,
            reasons: Vec::new(),
        });
        let is_mounted = view.volume.as_ref().is_some_and(|it| it.mounted);
        let current = view.current && !(is_mounted && trouble.is_some());
        let mut view = PodVolumeView { name: Some(named.name.clone()), current, ..view };
        view.reasons.extend(trouble);
        view
    }

    fn pod_mount_view(&self, pod: PodKey, key: VolumeKey) -> Option<PodVolumeView> {
        let volume = &self.volumes[key];
        let index = volume.mounts.iter().position(|it| it.pod == pod)?;
        let (mount, rest) = (&volume.mounts[index], self.rest(key));
        let what = PodMountView {
            id: volume.id().clone(),
            plugin: volume.spec.plugin.clone(),
            inner_name: volume.spec.inner_name.clone(),
            mode: volume.spec.mode,
            publish: step_view(&mount.step),
            mounted: self.is_mounted(mount),
        };
        Some(PodVolumeView {
            name: None,
            volume: Some(what),
            code: mount.standing.code,
            since: mount.backoff.as_ref().map_or(mount.standing.since, |it| it.since.min(mount.standing.since)),
            current: self.is_current(mount),
            reasons: self.explainer(key).mount_chain(mount, rest.mounts[index], rest.volume),
        })
    }

    /// How the volumes of a pod stand, all together; `None` if it is not known and nothing of it is here. It makes nothing,
    /// so it can be asked after every change of the pod.
    pub fn pod_standing(&self, uid: &PodUid) -> Option<PodStanding> {
        let key = self.world.pod(uid)?;
        let mut standing = PodStanding { mounted: true, current: true };
        for named in &self.world.pods[key].volumes {
            let mount = named.volume.and_then(|it| self.volumes[it].mount(key));
            let is_mounted = mount.is_some_and(|it| self.is_mounted(it));
            let is_current = named.trouble.is_none() && mount.is_none_or(|it| self.is_current(it));
            standing.mounted &= is_mounted;
            standing.current &= is_current || !is_mounted;
        }
        Some(standing)
    }

    /// Whether nothing keeps a mount that is handed out from being brought up to date.
    fn is_current(&self, mount: &Mount) -> bool {
        let runs = matches!(
            mount.standing.code,
            Code::Mounted | Code::Refreshing | Code::Queued | Code::Expanding | Code::VolumeBusy
        );
        !self.is_mounted(mount) || (runs && mount.backoff.is_none())
    }

    /// Why this volume of this pod is not as it should be, deepest cause last; empty if it is, or if nobody knows the pod.
    pub fn explain(&self, uid: &PodUid, name: &OuterName) -> Vec<Reason> {
        let Some(pod) = self.world.pod(uid) else {
            return Vec::new();
        };
        let Some(named) = self.world.pods[pod].volumes.iter().find(|it| it.name == *name) else {
            return Vec::new();
        };
        let mut chain = named.volume.map_or_else(Vec::new, |it| self.explain_mount(it, pod));
        chain.extend(named.trouble.as_deref().cloned());
        chain
    }

    fn explain_mount(&self, key: VolumeKey, pod: PodKey) -> Vec<Reason> {
        let rest = self.rest(key);
        let volume = &self.volumes[key];
        let Some(index) = volume.mounts.iter().position(|it| it.pod == pod) else { return Vec::new() };
        self.explainer(key).mount_chain(&volume.mounts[index], rest.mounts[index], rest.volume)
    }

    /// Why this volume is not settled, apart from any pod.
    pub fn explain_volume(&self, id: &VolumeId) -> Vec<Reason> {
        let Some(key) = self.volumes.find(id.as_str()) else {
            return Vec::new();
        };
        self.explainer(key).volume_chain(self.rest(key).volume)
    }

    /// Why a volume has not grown though that was tried, deepest cause last; empty if no attempt failed. Pods that have the
    /// volume are settled meanwhile, and their mounts say nothing of it.
    pub fn explain_growth(&self, id: &VolumeId) -> Vec<Reason> {
        let key = self.volumes.find(id.as_str());
        let is_failing =
            |it: &VolumeKey| self.volumes[*it].backoff.as_ref().is_some_and(|it| it.kind == OperationKind::Expand);
        key.filter(is_failing).map_or_else(Vec::new, |it| self.explainer(it).volume_chain(self.rest(it).volume))
    }

    fn explainer(&self, key: VolumeKey) -> Explainer<'_> {
        Explainer { volumes: &self.volumes, world: &self.world, key }
    }

    fn volume_view(&self, key: VolumeKey) -> VolumeView {
        let volume = &self.volumes[key];
        let rest = self.rest(key);
        let explainer = self.explainer(key);
        let mounts = volume.mounts.iter().zip(&rest.mounts);
        let mut mounts: Vec<MountView> = mounts
            .map(|(mount, status)| self.mount_view(key, mount, explainer.mount_chain(mount, *status, rest.volume)))
            .collect();
        mounts.sort_unstable_by(|one, other| one.pod.cmp(&other.pod));
        VolumeView {
            id: volume.id().clone(),
            plugin: volume.spec.plugin.clone(),
            driver: volume.spec.driver.clone(),
            needs_attach: volume.spec.capabilities.attach != Attach::NotNeeded,
            attach: step_view(&volume.attach),
            needs_stage: volume.spec.capabilities.stage,
            stage: step_view(&volume.stage),
            size_bytes: volume.size_bytes,
            in_use: volume.in_use_since.is_some(),
            reasons: explainer.volume_chain(rest.volume),
            mounts,
        }
    }

    fn mount_view(&self, key: VolumeKey, mount: &Mount, reasons: Vec<Reason>) -> MountView {
        let pod = &self.world.pods[mount.pod];
        MountView {
            pod: pod.uid.clone(),
            names: pod.names_of(key).cloned().collect(),
            publish: step_view(&mount.step),
            mounted: self.is_mounted(mount),
            current: self.is_current(mount)
                && !(self.is_mounted(mount)
                    && pod.volumes.iter().any(|it| it.volume == Some(key) && it.trouble.is_some())),
            reasons,
        }
    }

    fn pod_view(&self, key: PodKey) -> PodView {
        let pod = &self.world.pods[key];
        let unresolved = pod.volumes.iter().filter_map(|it| Some((it.name.clone(), it.trouble.as_deref()?.clone())));
        PodView {
            uid: pod.uid.clone(),
            name: pod.title.clone(),
            life: pod.life,
            ready: self.pod_status(&pod.uid).is_some_and(|it| it.unmounted.is_empty()),
            unresolved: unresolved.collect(),
        }
    }
}

fn step_view<T>(step: &Step<T>) -> StepView {
    match step {
        Step::Absent => StepView::Absent,
        Step::Doing { .. } => StepView::Doing,
        Step::Held(_) => StepView::Held,
        Step::Uncertain(doubt) => StepView::Uncertain(*doubt),
        Step::Undoing { .. } => StepView::Undoing,
    }
}
