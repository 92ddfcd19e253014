//! The controller service, with which the judge makes, grows, attaches and deletes volumes. All of that is words: a volume
//! is there as soon as a node names it.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::controller_server::Controller;
use windlass_csi::proto::csi::controller_service_capability::{Rpc, Type, rpc};
use windlass_csi::proto::csi::*;

use super::driver::Driver;
use super::{Places, read};
use crate::Begun;
use crate::call::{Asked, Create, Question};

pub(super) struct ControllerService(pub(super) Arc<Driver>);

impl ControllerService {
    /// A call that the judge refuses to know.
    async fn unsupported<T: Send + 'static, A: Default + Send + 'static>(
        &self,
        method: &'static str,
        volume: String,
        request: Request<T>,
    ) -> Result<Response<A>, Status> {
        let work = |_: &Places, _: T, _: &Begun| Err(Status::unimplemented("the judge does not know this call"));
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
        let settings = self.0.settings();
        let types = [
            (settings.create, rpc::Type::CreateDeleteVolume),
            (settings.attach, rpc::Type::PublishUnpublishVolume),
            (settings.attach, rpc::Type::PublishReadonly),
            (settings.grow, rpc::Type::ExpandVolume),
            (settings.capabilities.single_node_multi_writer, rpc::Type::SingleNodeMultiWriter),
        ];
        let types = types.into_iter().filter(|(can, _)| *can);
        let capabilities =
            types.map(|(_, it)| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) });
        let answer = ControllerGetCapabilitiesResponse { capabilities: capabilities.collect() };
        self.0.question(Asked::Question(Question::ControllerCapabilities), answer)
    }

    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let work = |_: &Places, it: CreateVolumeRequest, begun: &Begun| {
            let volume = Volume {
                capacity_bytes: begun.capacity_bytes,
                volume_id: Create::volume_of(&it.name),
                volume_context: begun.volume_context.clone(),
                ..Volume::default()
            };
            Ok(CreateVolumeResponse { volume: Some(volume) })
        };
        self.0.call(request, read::create, work).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let work = |_: &Places, _: DeleteVolumeRequest, _: &Begun| Ok(DeleteVolumeResponse {});
        self.0.call(request, read::delete, work).await
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
        let node_expansion_required = self.0.settings().capabilities.expand;
        let work = move |_: &Places, _: ControllerExpandVolumeRequest, begun: &Begun| {
            Ok(ControllerExpandVolumeResponse { capacity_bytes: begun.capacity_bytes, node_expansion_required })
        };
        self.0.call(request, read::grow, work).await
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
