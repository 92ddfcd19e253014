//! The controller service, with which the judge attaches volumes and does nothing else.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::controller_server::Controller;
use windlass_csi::proto::csi::controller_service_capability::{Rpc, Type, rpc};
use windlass_csi::proto::csi::*;

use super::driver::Driver;
use super::{Places, read};
use crate::Begun;
use crate::call::{Asked, Question};

pub(super) struct ControllerService(pub(super) Arc<Driver>);

impl ControllerService {
    /// A call that the judge refuses to know.
    async fn unsupported<T: Send + 'static, A: Send + 'static>(
        &self,
        method: &'static str,
        volume: String,
        request: Request<T>,
    ) -> Result<Response<A>, Status> {
        let work = |_: &Places, _: T, _: &Begun| Err(Status::unimplemented("the judge makes no volumes"));
        self.0.call(request, |_| Asked::Unsupported { method, volume }, work).await
    }
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let work = |_: &Places, _: ControllerPublishVolumeRequest, begun: &Begun| {
            Ok(ControllerPublishVolumeResponse { publish_context: begun.publish_context.clone() })
        };
        self.0.call(request, read::attach, work).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let work =
            |_: &Places, _: ControllerUnpublishVolumeRequest, _: &Begun| Ok(ControllerUnpublishVolumeResponse {});
        self.0.call(request, read::detach, work).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let types = [rpc::Type::PublishUnpublishVolume, rpc::Type::PublishReadonly];
        let capability =
            |it: rpc::Type| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) };
        let answer = ControllerGetCapabilitiesResponse { capabilities: types.map(capability).into() };
        self.0.question(Asked::Question(Question::ControllerCapabilities), answer)
    }

    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let name = request.get_ref().name.clone();
        self.unsupported("CreateVolume", name, request).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let volume = request.get_ref().volume_id.clone();
        self.unsupported("DeleteVolume", volume, request).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let volume = request.get_ref().volume_id.clone();
        self.unsupported("ValidateVolumeCapabilities", volume, request).await
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        self.unsupported("ListVolumes", String::new(), request).await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        self.unsupported("GetCapacity", String::new(), request).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let volume = request.get_ref().volume_id.clone();
        self.unsupported("ControllerExpandVolume", volume, request).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let volume = request.get_ref().volume_id.clone();
        self.unsupported("ControllerGetVolume", volume, request).await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        let volume = request.get_ref().volume_id.clone();
        self.unsupported("ControllerModifyVolume", volume, request).await
    }
}
