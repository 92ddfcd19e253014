//! What is shown of the node's state.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use windlass_core::event::MountPlace;
use windlass_core::ids::{OuterName, PodUid, Time, VolumeId};
use windlass_core::reason::Reason;
use windlass_core::snapshot::{PodDetail, PodView, PodVolumeView, VolumeView};
use windlass_core::spec::Life;

use windlass_linux::workers::Counts;

use super::Drive;
use crate::csi::Registered;
use crate::node::Totals;
use crate::objects::Reference;
use crate::plugin::{Made, Want};
use crate::view::{self, Clock, PodPhase};

impl Drive {
    /// The drivers that are registered, those that volumes of this node want, and those that something is set for; if a
    /// name is given only the one of that name.
    pub(crate) fn show_drivers(&self, only: Option<&str>) -> Vec<view::Driver> {
        let drivers = &self.outside.executor.scene.drivers;
        let is_asked_for = |name: &str| only.is_none_or(|it| it == name);
        let registered = drivers.all().into_iter().map(|it| (it.driver.name().to_owned(), it));
        let registered: BTreeMap<String, Registered> = registered.collect();
        let known = registered.keys().chain(drivers.settings().keys()).filter(|it| is_asked_for(it));
        let mut volumes: BTreeMap<&str, Vec<String>> = known.map(|it| (it.as_str(), Vec::new())).collect();
        for (driver, volume) in self.engine.volumes_of_drivers().filter(|(it, _)| is_asked_for(it.as_str())) {
            volumes.entry(driver.as_str()).or_default().push(volume.to_string());
        }
        let shown = volumes.into_iter().map(|(name, mut volumes)| {
            volumes.sort();
            let (registered, settings) = (registered.get(name), drivers.settings().get(name));
            let (refused, operations) = (drivers.refused(name), self.operations.lanes.operations(name));
            view::driver(name, registered, refused, settings, operations, volumes)
        });
        shown.collect()
    }

    /// What a pod has mounted, with all that is needed to ask how full it is.
    pub(crate) fn measurable(&self, uid: &PodUid) -> Vec<(OuterName, Want, Made)> {
        let handed = self.hand_out(uid);
        let Some(given) = self.wishes.pods.get(uid) else { return Vec::new() };
        let Some(pod) = given.pod.open() else { return Vec::new() };
        let memory = self.wishes.memory();
        let wants = handed.into_iter().filter_map(|it| {
            let MountPlace::Publish(volume, _) = &it.place else { return None };
            let want = Want::new(&pod, given.detail(volume)?, &memory, &self.wishes.settings.node);
            Some((it.name, want, it.made))
        });
        let wants = wants.collect();
        given.pod.rest();
        wants
    }

    /// What can be measured of the volumes of claims: each claim by namespace and name, with one pod that has it mounted.
    pub(crate) fn measurable_claims(&self) -> Vec<((String, String), PodUid, Want, Made)> {
        let memory = self.wishes.memory();
        let users: Vec<(Reference, Vec<PodUid>)> =
            memory.claims().map(|(claim, _)| (claim.clone(), memory.users(claim))).collect();
        drop(memory);
        let one = users.into_iter().filter_map(|(claim, users)| {
            let of_claim = |want: &Want| {
                let metadata = want.detail.claim.as_ref().map(|it| &it.metadata);
                metadata.is_some_and(|it| it.name.as_deref() == Some(claim.name()))
            };
            users.into_iter().find_map(|pod| {
                let (_, want, made) = self.measurable(&pod).into_iter().find(|(_, want, _)| of_claim(want))?;
                Some(((claim.namespace().to_string(), claim.name().to_string()), pod, want, made))
            })
        });
        one.collect()
    }

    /// What is counted as it changes.
    pub(crate) fn totals(&self, workers: Counts) -> Totals {
        let (orphans, leftovers) = self.holdings.departures.counts();
        Totals {
            tally: self.engine.tally().clone(),
            operations: self.operations.running.len(),
            orphans,
            leftovers,
            sockets: self.outside.executor.scene.drivers.sockets(),
            workers,
            messages: self.messages().clone(),
            oddities: self.engine.oddity_counts().collect(),
        }
    }

    /// A pod as it was given.
    pub(crate) fn pod(&self, uid: &PodUid) -> Option<Arc<api::Pod>> {
        self.wishes.pods.get(uid)?.pod.open()
    }

    pub(crate) fn show_pod(&self, uid: &PodUid) -> Option<view::Pod> {
        let departing = self.holdings.departures.get(uid);
        let clock = self.outside.clock();
        let pod = self.wishes.pods.get(uid);
        let given = pod.map_or(Time::ZERO, |it| it.given);
        // Its directory was made when it was first given to an earlier life of this node, or to this one.
        let given_wall = clock.wall(given);
        let first_seen = self.holdings.born.get(uid).copied().map_or(given_wall, |it| it.min(given_wall));
        let since = view::Since { given, first_seen, standing: pod.map(|it| it.standing) };
        let mut detail = self.engine.view_pod(uid);
        for volume in detail.iter_mut().flat_map(|it| &mut it.volumes) {
            // A volume that waits for its growth has that among its own reasons already.
            if let Some(mounted) = volume.volume.as_ref().filter(|_| volume.reasons.is_empty()) {
                volume.reasons = self.explain_growth(&mounted.id);
            }
        }
        let mut shown = match (detail, departing) {
            (Some(detail), _) => view::pod(clock, &detail, since, |it| self.path(uid, it)),
            // Nothing of it is mounted any more, and it is not gone all the same.
            (None, Some(departing)) => {
                let name = departing.name.clone().unwrap_or_else(|| uid.as_str().into());
                let (life, ready, unresolved) = (Life::Gone, false, Vec::new());
                let pod = PodView { uid: uid.clone(), name, life, ready, unresolved };
                view::pod(clock, &PodDetail { pod, volumes: Vec::new() }, since, |_| None)
            }
            (None, None) => return None,
        };
        if let Some(departing) = departing {
            let is_unmounted = shown.status.volumes.is_empty() && !departing.has_directory;
            if shown.status.phase == PodPhase::Leaving && is_unmounted {
                shown.status.phase = PodPhase::Releasing;
            }
            shown.status.releasing = departing.volumes.iter().map(ToString::to_string).collect();
        }
        for volume in &mut shown.status.volumes {
            let place = volume.volume_id.as_deref().map(|it| MountPlace::Publish(it.into(), uid.clone()));
            if let Some(at) = place.and_then(|it| self.holdings.held.lost_at(&it)) {
                view::content_was_lost(volume, at);
            }
        }
        shown.status.conditions.extend(view::content_lost(&shown.status.volumes));
        Some(shown)
    }

    /// Why a volume of a pod is not settled, or does not grow.
    pub(crate) fn explain(&self, uid: &PodUid, name: &OuterName) -> Vec<Reason> {
        let mut reasons = self.engine.explain(uid, name);
        let detail = self.wishes.pods.get(uid).and_then(|it| it.details.iter().rfind(|it| it.name == *name));
        if let Some(detail) = detail.filter(|_| reasons.is_empty()) {
            reasons = self.explain_growth(&detail.volume);
        }
        reasons
    }

    pub(crate) fn show_pods(&self) -> Vec<view::Pod> {
        let mut uids = self.engine.pod_uids();
        uids.extend(self.holdings.departures.uids().filter(|it| self.engine.pod_name(it).is_none()).cloned());
        let mut pods: Vec<_> = uids.iter().filter_map(|it| self.show_pod(it)).collect();
        pods.sort_by(|one, other| one.metadata.cmp(&other.metadata));
        pods
    }

    /// The pods of this `namespace/name`.
    pub(crate) fn pods_named(&self, name: &str) -> Vec<PodUid> {
        let mut uids = self.engine.pods_named(name);
        uids.extend(self.holdings.departures.named(name).filter(|it| self.engine.pod_name(it).is_none()).cloned());
        uids
    }

    pub(crate) fn show_volume(&self, id: &VolumeId) -> Option<view::Volume> {
        Some(self.shown_volume(self.outside.clock(), self.engine.view_volume(id)?))
    }

    fn shown_volume(&self, clock: Clock, mut volume: VolumeView) -> view::Volume {
        if volume.reasons.is_empty() {
            volume.reasons = self.explain_growth(&volume.id);
        }
        view::volume(clock, &volume)
    }

    pub(crate) fn show_volumes(&self) -> Vec<view::Volume> {
        let clock = self.outside.clock();
        self.engine.snapshot().volumes.into_iter().map(|it| self.shown_volume(clock, it)).collect()
    }

    pub(crate) fn show_operations(&self) -> Vec<view::Operation> {
        let clock = self.outside.clock();
        self.engine.running_operations().iter().map(|it| view::operation(clock, it)).collect()
    }

    /// Where a pod's volume is, once it is made.
    fn path(&self, uid: &PodUid, volume: &PodVolumeView) -> Option<String> {
        let id = volume.volume.as_ref()?.id.clone();
        let path = self.holdings.held.path(&MountPlace::Publish(id, uid.clone()))?;
        Some(path.to_str()?.to_owned()).filter(|it| !it.is_empty())
    }
}
