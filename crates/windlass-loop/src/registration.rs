//! The registration service: how the driver introduces itself to the node, on a socket of its own.

use std::path::PathBuf;

use tonic::{Request, Response, Status};
use windlass_csi::proto::registration::registration_server::Registration;
use windlass_csi::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

/// The registration service.
pub struct RegistrationService {
    /// The driver's name.
    pub name: String,
    /// Where the driver serves.
    pub endpoint: PathBuf,
}

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        let endpoint = self.endpoint.to_str();
        let endpoint = endpoint.ok_or_else(|| Status::internal("the endpoint's path is not text"))?;
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".into(),
            name: self.name.clone(),
            endpoint: endpoint.into(),
            supported_versions: vec!["1.0.0".into()],
        }))
    }

    /// A driver that is refused goes on: what it has mounted is still to be taken away, and whoever refused it may ask again.
    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        if status.plugin_registered {
            tracing::info!(name = self.name, "registered");
        } else {
            tracing::error!(name = self.name, error = status.error, "the node refuses to register this driver");
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
