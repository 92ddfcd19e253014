//! What is shown of the node's state.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use k8s_openapi::api::core::v1 as api;
use windlass_core::{
    event::Place,
    ids::{OuterName, PodUid, Time, VolumeId},
    snapshot::PodVolumeView,
};

use super::Drive;
use crate::{
    csi::Registered,
    plugin::{Made, Want},
    view::{self, Clock},
};

impl Drive {
    /// The drivers that are registered, those that volumes of this node want, and those that something is set for; if a
    /// name is given only the one of that name.
    pub(crate) fn show_drivers(&self, only: Option<&str>) -> Vec<view::Driver> {
        let drivers = &self.executor.scene.drivers;
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
            view::Driver::of(name, registered, settings, self.lanes.operations(name), volumes)
        });
        shown.collect()
    }

    /// What a pod has mounted, with all that is needed to ask how full it is.
    pub(crate) fn measurable(&mut self, uid: &PodUid) -> Vec<(OuterName, Want, Made)> {
        let handed = self.hand_out(uid);
        let Some(known) = self.pods.get_mut(uid) else { return Vec::new() };
        let Some(pod) = known.pod.open() else { return Vec::new() };
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let wants = handed.into_iter().filter_map(|it| {
            let Place::Publish(volume, _) = &it.place else { return None };
            let want = Want::new(&pod, known.detail(volume)?, &memory, &self.settings.node);
            Some((it.name, want, it.made))
        });
        let wants = wants.collect();
        known.pod.rest();
        wants
    }

    /// A pod as it was given.
    pub(crate) fn pod(&self, uid: &PodUid) -> Option<Arc<api::Pod>> {
        self.pods.get(uid)?.pod.open()
    }

    pub(crate) fn show_pod(&self, uid: &PodUid) -> Option<view::Pod> {
        let detail = self.engine.view_pod(uid)?;
        let given = self.pods.get(uid).map_or(Time::ZERO, |it| it.given);
        Some(view::pod(self.clock(), &detail, given, |it| self.path(uid, it)))
    }

    pub(crate) fn show_pods(&self) -> Vec<view::Pod> {
        let mut pods: Vec<_> = self.engine.pod_uids().iter().filter_map(|it| self.show_pod(it)).collect();
        pods.sort_by(|one, other| one.metadata.cmp(&other.metadata));
        pods
    }

    pub(crate) fn show_volume(&self, id: &VolumeId) -> Option<view::Volume> {
        Some(view::volume(self.clock(), &self.engine.view_volume(id)?))
    }

    pub(crate) fn show_volumes(&self) -> Vec<view::Volume> {
        let clock = self.clock();
        self.engine.snapshot().volumes.iter().map(|it| view::volume(clock, it)).collect()
    }

    pub(crate) fn show_operations(&self) -> Vec<view::Operation> {
        let clock = self.clock();
        self.engine.running_operations().iter().map(|it| view::operation(clock, it)).collect()
    }

    fn clock(&self) -> Clock {
        let clock = Clock::at(self.now()).or_earlier(self.clock.get());
        self.clock.set(clock);
        clock
    }

    /// Where a pod's volume is, once it is made.
    fn path(&self, uid: &PodUid, volume: &PodVolumeView) -> Option<String> {
        let id = volume.volume.as_ref()?.id.clone();
        let path = self.held.path(&Place::Publish(id, uid.clone()))?;
        Some(path.to_str()?.to_owned()).filter(|it| !it.is_empty())
    }
}
