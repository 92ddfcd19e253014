//! The controller service: what a cluster's controllers call, and windlass where there is no cluster.

use std::time::Duration;

use super::Driver;
use crate::proto::csi;
use crate::text::Secrets;
use crate::{CallError, ControllerCapabilities};

const GET_CAPABILITIES: &str = "/csi.v1.Controller/ControllerGetCapabilities";
const CREATE: &str = "/csi.v1.Controller/CreateVolume";
const DELETE: &str = "/csi.v1.Controller/DeleteVolume";
const PUBLISH: &str = "/csi.v1.Controller/ControllerPublishVolume";
const UNPUBLISH: &str = "/csi.v1.Controller/ControllerUnpublishVolume";
const EXPAND: &str = "/csi.v1.Controller/ControllerExpandVolume";
const LIST: &str = "/csi.v1.Controller/ListVolumes";
const GET_CAPACITY: &str = "/csi.v1.Controller/GetCapacity";
const GET: &str = "/csi.v1.Controller/ControllerGetVolume";

impl Driver {
    /// What the controller service can do; asked once, like [`Driver::node_capabilities`].
    pub async fn controller_capabilities(&self) -> Result<ControllerCapabilities, CallError> {
        let ask = async {
            let answer: csi::ControllerGetCapabilitiesResponse =
                self.ask(GET_CAPABILITIES, csi::ControllerGetCapabilitiesRequest::default()).await?;
            Ok(ControllerCapabilities::from(&answer))
        };
        self.0.controller.get_or_ask(ask).await
    }

    /// Makes a volume, or finds the one of this name. A volume without an id is a lie, and so is one that is smaller than
    /// was asked for.
    pub async fn create_volume(
        &self,
        request: csi::CreateVolumeRequest,
        deadline: Duration,
    ) -> Result<csi::Volume, CallError> {
        self.require(CREATE, &[("name", &*request.name)])?;
        self.require_size(CREATE, request.capacity_range.as_ref())?;
        let secrets = Secrets::of(&request.secrets);
        let wanted_bytes = request.capacity_range.as_ref().map_or(0, |it| it.required_bytes);
        let answer: csi::CreateVolumeResponse = self.call(CREATE, request, &secrets, deadline).await?;
        let volume = self.checked(CREATE, answer.volume)?;
        // Zero: it does not say.
        if volume.capacity_bytes != 0 && volume.capacity_bytes < wanted_bytes {
            return Err(self.lied(CREATE, "the volume is smaller than was asked for"));
        }
        Ok(volume)
    }

    /// Deletes a volume.
    pub async fn delete_volume(&self, request: csi::DeleteVolumeRequest, deadline: Duration) -> Result<(), CallError> {
        self.require(DELETE, &[("volume id", &*request.volume_id)])?;
        let secrets = Secrets::of(&request.secrets);
        let csi::DeleteVolumeResponse {} = self.call(DELETE, request, &secrets, deadline).await?;
        Ok(())
    }

    /// Attaches a volume to a node.
    pub async fn controller_publish(
        &self,
        request: csi::ControllerPublishVolumeRequest,
        deadline: Duration,
    ) -> Result<csi::ControllerPublishVolumeResponse, CallError> {
        self.require(PUBLISH, &[("volume id", &*request.volume_id), ("node id", &request.node_id)])?;
        let secrets = Secrets::of(&request.secrets);
        self.call(PUBLISH, request, &secrets, deadline).await
    }

    /// Detaches a volume from a node. Without a node it would be detached from all of them, so one must be named.
    pub async fn controller_unpublish(
        &self,
        request: csi::ControllerUnpublishVolumeRequest,
        deadline: Duration,
    ) -> Result<(), CallError> {
        self.require(UNPUBLISH, &[("volume id", &*request.volume_id), ("node id", &request.node_id)])?;
        let secrets = Secrets::of(&request.secrets);
        let csi::ControllerUnpublishVolumeResponse {} = self.call(UNPUBLISH, request, &secrets, deadline).await?;
        Ok(())
    }

    /// Makes a volume larger.
    pub async fn controller_expand(
        &self,
        request: csi::ControllerExpandVolumeRequest,
        deadline: Duration,
    ) -> Result<csi::ControllerExpandVolumeResponse, CallError> {
        self.require(EXPAND, &[("volume id", &*request.volume_id)])?;
        self.require_size(EXPAND, request.capacity_range.as_ref())?;
        let secrets = Secrets::of(&request.secrets);
        let answer: csi::ControllerExpandVolumeResponse = self.call(EXPAND, request, &secrets, deadline).await?;
        if answer.capacity_bytes < 0 {
            return Err(self.lied(EXPAND, "its size of the volume is below zero"));
        }
        Ok(answer)
    }

    /// A page of the list of volumes.
    pub async fn list_volumes(
        &self,
        request: csi::ListVolumesRequest,
        deadline: Duration,
    ) -> Result<csi::ListVolumesResponse, CallError> {
        let answer: csi::ListVolumesResponse = self.call(LIST, request, &Secrets::default(), deadline).await?;
        for entry in &answer.entries {
            self.checked(LIST, entry.volume.as_ref())?;
        }
        Ok(answer)
    }

    /// How much room there is.
    pub async fn get_capacity(
        &self,
        request: csi::GetCapacityRequest,
        deadline: Duration,
    ) -> Result<csi::GetCapacityResponse, CallError> {
        let answer: csi::GetCapacityResponse = self.call(GET_CAPACITY, request, &Secrets::default(), deadline).await?;
        if answer.available_capacity < 0 {
            return Err(self.lied(GET_CAPACITY, "its room is below zero"));
        }
        Ok(answer)
    }

    /// One volume, and where it is attached.
    pub async fn controller_get_volume(
        &self,
        request: csi::ControllerGetVolumeRequest,
        deadline: Duration,
    ) -> Result<csi::ControllerGetVolumeResponse, CallError> {
        self.require(GET, &[("volume id", &*request.volume_id)])?;
        let answer: csi::ControllerGetVolumeResponse = self.call(GET, request, &Secrets::default(), deadline).await?;
        self.checked(GET, answer.volume.as_ref())?;
        Ok(answer)
    }

    fn checked<V: std::borrow::Borrow<csi::Volume>>(
        &self,
        path: &'static str,
        volume: Option<V>,
    ) -> Result<V, CallError> {
        let volume = volume.ok_or_else(|| self.lied(path, "there is no volume in its answer"))?;
        let csi::Volume { volume_id, capacity_bytes, .. } = volume.borrow();
        if volume_id.is_empty() {
            return Err(self.lied(path, "its volume has no id"));
        }
        if *capacity_bytes < 0 {
            return Err(self.lied(path, "the size of its volume is below zero"));
        }
        Ok(volume)
    }
}
