//! A driver whose answers a test chooses, and somebody who calls it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tonic::Status;
use tonic::service::Routes;
use windlass_csi::proto::csi;
use windlass_csi::{Driver, Limits};
use windlass_testing::scripted::{self, Script, Volumes, node_capabilities};
use windlass_testing::server::Server;

/// Longer than anything takes, and short enough to be told of.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// A deadline that is meant to pass.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// What the driver answers. It has no volumes: that a call is done shows in the script's effects alone.
#[derive(Default)]
pub(crate) struct Answers {
    script: Script,
    pub(crate) node: Mutex<csi::NodeGetInfoResponse>,
    pub(crate) capabilities: Mutex<Vec<i32>>,
    pub(crate) stats: Mutex<csi::NodeGetVolumeStatsResponse>,
    pub(crate) volume: Mutex<Option<csi::Volume>>,
    pub(crate) plugin: Mutex<csi::GetPluginInfoResponse>,
}

impl Deref for Answers {
    type Target = Script;

    fn deref(&self) -> &Script {
        &self.script
    }
}

impl Answers {
    pub(crate) fn new() -> Arc<Self> {
        let node = csi::NodeGetInfoResponse { node_id: "node-1".into(), ..Default::default() };
        let plugin = csi::GetPluginInfoResponse { name: "disks.example.com".into(), ..Default::default() };
        Arc::new(Self { node: Mutex::new(node), plugin: Mutex::new(plugin), ..Self::default() })
    }

    pub(crate) fn routes(self: &Arc<Self>) -> Routes {
        scripted::routes(self)
    }
}

impl Volumes for Answers {
    fn script(&self) -> &Script {
        &self.script
    }

    fn node_get_info(&self, _: csi::NodeGetInfoRequest) -> Result<csi::NodeGetInfoResponse, Status> {
        Ok(self.node.lock().unwrap().clone())
    }

    fn node_get_capabilities(
        &self,
        _: csi::NodeGetCapabilitiesRequest,
    ) -> Result<csi::NodeGetCapabilitiesResponse, Status> {
        Ok(node_capabilities(&self.capabilities.lock().unwrap()))
    }

    fn node_get_volume_stats(
        &self,
        _: csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        Ok(self.stats.lock().unwrap().clone())
    }

    fn get_plugin_info(&self, _: csi::GetPluginInfoRequest) -> Result<csi::GetPluginInfoResponse, Status> {
        Ok(self.plugin.lock().unwrap().clone())
    }

    fn create_volume(&self, _: csi::CreateVolumeRequest) -> Result<csi::CreateVolumeResponse, Status> {
        Ok(csi::CreateVolumeResponse { volume: self.volume.lock().unwrap().clone() })
    }

    fn controller_get_volume(
        &self,
        _: csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Status> {
        Ok(csi::ControllerGetVolumeResponse { volume: self.volume.lock().unwrap().clone(), ..Default::default() })
    }
}

/// A driver that is served, and somebody who calls it.
pub(crate) struct Served {
    pub(crate) script: Arc<Answers>,
    pub(crate) server: Server,
    pub(crate) driver: Driver,
    _directory: TempDir,
}

pub(crate) fn serve() -> Served {
    serve_with(Limits::default())
}

pub(crate) fn serve_with(limits: Limits) -> Served {
    let directory = TempDir::new().unwrap();
    let script = Answers::new();
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

/// Calls without those by which a driver is asked who it is and whether it is well: they change nothing, and come before the
/// first call of a connection.
pub(crate) fn but_for_questions(mut calls: Vec<&'static str>) -> Vec<&'static str> {
    calls.retain(|it| !["GetPluginInfo", "Probe"].contains(it));
    calls
}
