//! The identity service: who the driver is, and what it can do.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::identity_server::Identity;
use windlass_csi::proto::csi::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use windlass_csi::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};

use crate::driver::Driver;

/// The identity service.
pub struct IdentityService(pub Arc<Driver>);

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.0.settings.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").into(),
            manifest: [].into(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let service = |it: service::Type| Type::Service(Service { r#type: it.into() });
        let types = [
            service(service::Type::ControllerService),
            service(service::Type::VolumeAccessibilityConstraints),
            Type::VolumeExpansion(VolumeExpansion { r#type: volume_expansion::Type::Online.into() }),
        ];
        let capabilities = types.into_iter().map(|it| PluginCapability { r#type: Some(it) }).collect();
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}
