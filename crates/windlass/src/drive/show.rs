//! What is shown of the node's state.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use windlass_core::{
    event::Place,
    ids::{PodUid, Time, VolumeId},
    snapshot::PodVolumeView,
};

use super::Drive;
use crate::view::{self, Clock};

impl Drive {
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
