//! The identity service, and how the driver introduces itself to the node, on a socket of its own.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::identity_server::Identity;
use windlass_csi::proto::csi::plugin_capability::{Service, Type, service};
use windlass_csi::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    PluginCapability, ProbeRequest, ProbeResponse,
};
use windlass_csi::proto::registration::registration_server::Registration;
use windlass_csi::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

use super::driver::Driver;
use crate::call::{Asked, Question};

pub(super) struct IdentityService(pub(super) Arc<Driver>);

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let answer = GetPluginInfoResponse {
            name: self.0.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").into(),
            manifest: [].into(),
        };
        self.0.question(Asked::Question(Question::PluginInfo), answer)
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let controller = Type::Service(Service { r#type: service::Type::ControllerService.into() });
        let capabilities = self.0.settings().has_controller().then(|| PluginCapability { r#type: Some(controller) });
        let answer = GetPluginCapabilitiesResponse { capabilities: capabilities.into_iter().collect() };
        self.0.question(Asked::Question(Question::PluginCapabilities), answer)
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.0.question(Asked::Question(Question::Probe), ProbeResponse { ready: Some(true) })
    }
}

pub(super) struct RegistrationService(pub(super) Arc<Driver>);

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        let endpoint = self.0.endpoint.to_str();
        let endpoint = endpoint.ok_or_else(|| Status::internal("the endpoint's path is not text"))?;
        let answer = PluginInfo {
            r#type: "CSIPlugin".into(),
            name: self.0.name.clone(),
            endpoint: endpoint.into(),
            supported_versions: vec!["1.0.0".into()],
        };
        self.0.question(Asked::RegistrationInfo, answer)
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered: registered, error } = request.into_inner();
        self.0.question(Asked::RegistrationStatus { registered, error }, RegistrationStatusResponse {})
    }
}
