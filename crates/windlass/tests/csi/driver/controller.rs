//! The driver's controller service: makes volumes, and attaches them. A volume is staged only with what attaching it gave.

use std::{collections::BTreeMap, path::PathBuf};

use tonic::{Request, Response, Status, async_trait};
use windlass_csi::proto::csi::{self, controller_server::Controller, identity_server::Identity};

use super::{Answer, Served, lock};
use crate::host::NAME;

/// What is handed over when a volume is attached.
const SLOT: (&str, &str) = ("slot", "7");

/// A volume that is attached, among what the driver has mounted.
fn attached(volume: &str) -> PathBuf {
    PathBuf::from(format!("attached/{volume}"))
}

/// A volume that was made.
fn made(volume: &str) -> PathBuf {
    PathBuf::from(format!("made/{volume}"))
}

impl Served {
    /// Whether a volume that must be attached is, and that was told.
    pub(super) fn check_attached(&self, volume: &str, context: &BTreeMap<String, String>) -> Result<(), Status> {
        let is_attached = lock(&self.memory.mounts).contains(&attached(volume));
        let is_told = context.get(SLOT.0).is_some_and(|it| it == SLOT.1);
        match *lock(&self.memory.attaches) && !(is_attached && is_told) {
            true => Err(Status::failed_precondition("it is not attached, or nobody said where")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Controller for Served {
    async fn create_volume(&self, request: Request<csi::CreateVolumeRequest>) -> Answer<csi::CreateVolumeResponse> {
        let request = request.into_inner();
        let id = format!("id of {}", request.name);
        let path = made(&id);
        let bytes = request.capacity_range.map_or(0, |it| it.required_bytes);
        lock(&self.memory.requests).push(request.parameters);
        let done: Response<csi::CreateVolumeResponse> = self
            .act("CreateVolume", |mounts| {
                mounts.insert(path);
                Ok(())
            })
            .await?;
        drop(done);
        let volume = csi::Volume { volume_id: id, capacity_bytes: bytes, ..Default::default() };
        Ok(Response::new(csi::CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(&self, request: Request<csi::DeleteVolumeRequest>) -> Answer<csi::DeleteVolumeResponse> {
        let id = request.into_inner().volume_id;
        let in_use = lock(&self.memory.mounts).iter().any(|it| !it.starts_with("made"));
        if in_use {
            return Err(Status::failed_precondition("it is in use"));
        }
        self.act("DeleteVolume", |mounts| {
            mounts.remove(&made(&id));
            Ok(())
        })
        .await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Answer<csi::ControllerPublishVolumeResponse> {
        let request = request.into_inner();
        if request.node_id != "node-1" {
            return Err(Status::not_found("there is no such node"));
        }
        let path = attached(&request.volume_id);
        let done: Response<csi::ControllerPublishVolumeResponse> = self
            .act("ControllerPublishVolume", |mounts| {
                mounts.insert(path);
                Ok(())
            })
            .await?;
        drop(done);
        let publish_context = BTreeMap::from([(SLOT.0.to_owned(), SLOT.1.to_owned())]);
        Ok(Response::new(csi::ControllerPublishVolumeResponse { publish_context }))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Answer<csi::ControllerUnpublishVolumeResponse> {
        let path = attached(&request.into_inner().volume_id);
        let in_use = lock(&self.memory.mounts).iter().any(|it| it.is_absolute());
        if in_use {
            return Err(Status::failed_precondition("it is staged or published"));
        }
        self.act("ControllerUnpublishVolume", |mounts| {
            mounts.remove(&path);
            Ok(())
        })
        .await
    }

    async fn validate_volume_capabilities(
        &self,
        _: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn list_volumes(&self, _: Request<csi::ListVolumesRequest>) -> Answer<csi::ListVolumesResponse> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get_capacity(&self, _: Request<csi::GetCapacityRequest>) -> Answer<csi::GetCapacityResponse> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        use csi::controller_service_capability::{Rpc, Type, rpc};
        let capability =
            |it: rpc::Type| csi::ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) };
        let grows = lock(&self.memory.grows).map(|_| rpc::Type::ExpandVolume);
        let all = [rpc::Type::CreateDeleteVolume, rpc::Type::PublishUnpublishVolume].into_iter().chain(grows);
        let capabilities = all.map(capability).collect();
        Ok(Response::new(csi::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let capacity_bytes = request.into_inner().capacity_range.map_or(0, |it| it.required_bytes);
        let done: Response<csi::ControllerExpandVolumeResponse> =
            self.act("ControllerExpandVolume", |_| Ok(())).await?;
        drop(done);
        let node_expansion_required = lock(&self.memory.grows).unwrap_or(false);
        Ok(Response::new(csi::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required }))
    }

    async fn controller_get_volume(
        &self,
        _: Request<csi::ControllerGetVolumeRequest>,
    ) -> Answer<csi::ControllerGetVolumeResponse> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn controller_modify_volume(
        &self,
        _: Request<csi::ControllerModifyVolumeRequest>,
    ) -> Answer<csi::ControllerModifyVolumeResponse> {
        Err(Status::unimplemented("nobody asks"))
    }
}

#[async_trait]
impl Identity for Served {
    async fn get_plugin_info(&self, _: Request<csi::GetPluginInfoRequest>) -> Answer<csi::GetPluginInfoResponse> {
        Ok(Response::new(csi::GetPluginInfoResponse { name: NAME.into(), ..Default::default() }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Answer<csi::GetPluginCapabilitiesResponse> {
        lock(&self.memory.questions).push("GetPluginCapabilities");
        Ok(Response::new(csi::GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<csi::ProbeRequest>) -> Answer<csi::ProbeResponse> {
        Ok(Response::new(csi::ProbeResponse::default()))
    }
}
