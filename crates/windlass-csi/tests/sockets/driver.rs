//! A driver that does as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, async_trait};
use windlass_csi::proto::csi;
use windlass_csi::proto::csi::controller_server::{Controller, ControllerServer};
use windlass_csi::proto::csi::identity_server::{Identity, IdentityServer};
use windlass_csi::proto::csi::node_server::{Node, NodeServer};
use windlass_csi::{Driver, Limits};

use crate::server::Server;

/// Longer than anything takes, and short enough to be told of.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// A deadline that is meant to pass.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// What the driver does with one call.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Refuses.
    Refuse(Code, String),
    /// Does it and never answers.
    DoAndHang,
    /// Neither does it nor answers.
    Hang,
}

/// What is shared with the test.
#[derive(Default)]
pub(crate) struct Script {
    /// What is done with the next calls; when there is nothing, they succeed.
    pub(crate) acts: Mutex<VecDeque<Act>>,
    /// What was called, in order.
    pub(crate) calls: Mutex<Vec<&'static str>>,
    /// What took effect.
    pub(crate) effects: Mutex<Vec<&'static str>>,
    pub(crate) node: Mutex<csi::NodeGetInfoResponse>,
    pub(crate) capabilities: Mutex<Vec<i32>>,
    pub(crate) stats: Mutex<csi::NodeGetVolumeStatsResponse>,
    pub(crate) volume: Mutex<Option<csi::Volume>>,
    pub(crate) plugin: Mutex<csi::GetPluginInfoResponse>,
    /// Headers of the last call.
    pub(crate) headers: Mutex<MetadataMap>,
    arrived: Mutex<Option<mpsc::UnboundedSender<&'static str>>>,
}

impl Script {
    pub(crate) fn new() -> Arc<Self> {
        let script = Self::default();
        *script.node.lock().unwrap() = csi::NodeGetInfoResponse { node_id: "node-1".into(), ..Default::default() };
        Arc::new(script)
    }

    pub(crate) fn next(&self, act: Act) {
        self.acts.lock().unwrap().push_back(act);
    }

    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn effects(&self) -> Vec<&'static str> {
        self.effects.lock().unwrap().clone()
    }

    /// Tells of each call when it arrives.
    pub(crate) fn arrivals(&self) -> mpsc::UnboundedReceiver<&'static str> {
        let (tell, arrivals) = mpsc::unbounded_channel();
        *self.arrived.lock().unwrap() = Some(tell);
        arrivals
    }

    async fn act<Q>(&self, method: &'static str, request: &Request<Q>) -> Result<(), Status> {
        self.calls.lock().unwrap().push(method);
        *self.headers.lock().unwrap() = request.metadata().clone();
        let act = self.acts.lock().unwrap().pop_front();
        if let Some(tell) = &*self.arrived.lock().unwrap() {
            let _ = tell.send(method);
        }
        match act {
            None => self.effects.lock().unwrap().push(method),
            Some(Act::Refuse(code, message)) => return Err(Status::new(code, message)),
            Some(Act::DoAndHang) => {
                self.effects.lock().unwrap().push(method);
                std::future::pending::<()>().await;
            }
            Some(Act::Hang) => std::future::pending::<()>().await,
        }
        Ok(())
    }

    pub(crate) fn routes(self: &Arc<Self>) -> Routes {
        Routes::new(NodeServer::from_arc(self.clone()))
            .add_service(IdentityServer::from_arc(self.clone()))
            .add_service(ControllerServer::from_arc(self.clone()))
    }
}

/// A driver that is served, and somebody who calls it.
pub(crate) struct Served {
    pub(crate) script: Arc<Script>,
    pub(crate) server: Server,
    pub(crate) driver: Driver,
    _directory: TempDir,
}

pub(crate) fn serve() -> Served {
    serve_with(Limits::default())
}

pub(crate) fn serve_with(limits: Limits) -> Served {
    let directory = TempDir::new().unwrap();
    let script = Script::new();
    let server = Server::start(directory.path().join("csi.sock"), script.routes());
    let driver = Driver::new("disks.example.com", server.path.clone(), limits);
    Served { script, server, driver, _directory: directory }
}

pub(crate) fn driver_at(path: &Path) -> Driver {
    Driver::new("disks.example.com", path, Limits::default())
}

pub(crate) fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub(crate) fn stage() -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: "v".into(),
        staging_target_path: "/staging".into(),
        secrets: map(&[("password", "swordfish")]),
        ..Default::default()
    }
}

pub(crate) fn publish() -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest { volume_id: "v".into(), target_path: "/target".into(), ..Default::default() }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send + 'a>>;

// Written as `async_trait` would, which does not see what a macro makes.
macro_rules! simply {
    ($($method:ident $name:literal $request:ident $response:ident;)*) => {
        $(fn $method<'a, 'b>(&'a self, request: Request<csi::$request>) -> Answer<'b, csi::$response>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async move {
                self.act($name, &request).await?;
                Ok(Response::new(csi::$response::default()))
            })
        })*
    };
}

#[async_trait]
impl Node for Script {
    simply! {
        node_stage_volume "NodeStageVolume" NodeStageVolumeRequest NodeStageVolumeResponse;
        node_unstage_volume "NodeUnstageVolume" NodeUnstageVolumeRequest NodeUnstageVolumeResponse;
        node_publish_volume "NodePublishVolume" NodePublishVolumeRequest NodePublishVolumeResponse;
        node_unpublish_volume "NodeUnpublishVolume" NodeUnpublishVolumeRequest NodeUnpublishVolumeResponse;
        node_expand_volume "NodeExpandVolume" NodeExpandVolumeRequest NodeExpandVolumeResponse;
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<csi::NodeGetVolumeStatsResponse>, Status> {
        self.act("NodeGetVolumeStats", &request).await?;
        Ok(Response::new(self.stats.lock().unwrap().clone()))
    }

    async fn node_get_capabilities(
        &self,
        request: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<csi::NodeGetCapabilitiesResponse>, Status> {
        self.act("NodeGetCapabilities", &request).await?;
        let one = |number: &i32| csi::NodeServiceCapability {
            r#type: Some(csi::node_service_capability::Type::Rpc(csi::node_service_capability::Rpc {
                r#type: *number,
            })),
        };
        let capabilities = self.capabilities.lock().unwrap().iter().map(one).collect();
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        request: Request<csi::NodeGetInfoRequest>,
    ) -> Result<Response<csi::NodeGetInfoResponse>, Status> {
        self.act("NodeGetInfo", &request).await?;
        Ok(Response::new(self.node.lock().unwrap().clone()))
    }
}

#[async_trait]
impl Identity for Script {
    simply! {
        get_plugin_capabilities "GetPluginCapabilities" GetPluginCapabilitiesRequest GetPluginCapabilitiesResponse;
        probe "Probe" ProbeRequest ProbeResponse;
    }

    async fn get_plugin_info(
        &self,
        request: Request<csi::GetPluginInfoRequest>,
    ) -> Result<Response<csi::GetPluginInfoResponse>, Status> {
        self.act("GetPluginInfo", &request).await?;
        Ok(Response::new(self.plugin.lock().unwrap().clone()))
    }
}

#[async_trait]
impl Controller for Script {
    simply! {
        delete_volume "DeleteVolume" DeleteVolumeRequest DeleteVolumeResponse;
        controller_publish_volume "ControllerPublishVolume" ControllerPublishVolumeRequest ControllerPublishVolumeResponse;
        controller_unpublish_volume "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest ControllerUnpublishVolumeResponse;
        validate_volume_capabilities "ValidateVolumeCapabilities" ValidateVolumeCapabilitiesRequest ValidateVolumeCapabilitiesResponse;
        list_volumes "ListVolumes" ListVolumesRequest ListVolumesResponse;
        get_capacity "GetCapacity" GetCapacityRequest GetCapacityResponse;
        controller_get_capabilities "ControllerGetCapabilities" ControllerGetCapabilitiesRequest ControllerGetCapabilitiesResponse;
        controller_expand_volume "ControllerExpandVolume" ControllerExpandVolumeRequest ControllerExpandVolumeResponse;
        controller_modify_volume "ControllerModifyVolume" ControllerModifyVolumeRequest ControllerModifyVolumeResponse;
    }

    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Result<Response<csi::CreateVolumeResponse>, Status> {
        self.act("CreateVolume", &request).await?;
        Ok(Response::new(csi::CreateVolumeResponse { volume: self.volume.lock().unwrap().clone() }))
    }

    async fn controller_get_volume(
        &self,
        request: Request<csi::ControllerGetVolumeRequest>,
    ) -> Result<Response<csi::ControllerGetVolumeResponse>, Status> {
        self.act("ControllerGetVolume", &request).await?;
        let volume = self.volume.lock().unwrap().clone();
        Ok(Response::new(csi::ControllerGetVolumeResponse { volume, ..Default::default() }))
    }
}
