//! The driver's services. Mounts are made where the call is read, for they take microseconds; an unmount waits for the
//! kernel for longer than everything else takes, so many of them wait at a time.

use std::fs;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Request, Response, Status, async_trait};
use windlass_csi::proto::csi::node_server::{Node, NodeServer};
use windlass_csi::proto::csi::node_service_capability::{Rpc, Type, rpc};
use windlass_csi::proto::csi::{self};
use windlass_csi::proto::registration::registration_server::{Registration, RegistrationServer};
use windlass_csi::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

use super::state::State;
use super::{Manner, NAME, Staging};

/// Unmounts at a time.
const UNMOUNTS: usize = 64;

#[derive(Clone)]
pub(super) struct Service {
    pub(super) state: Arc<State>,
    /// Where the volumes are.
    pub(super) volumes: Arc<Path>,
    pub(super) endpoint: PathBuf,
    pub(super) manner: Manner,
}

type Answer<A> = Result<Response<A>, Status>;

impl Service {
    /// Answers calls at the driver's socket and at the one where it registers.
    pub(super) fn serve(self, [driver, registration]: [net::UnixListener; 2]) -> anyhow::Result<()> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(UNMOUNTS).build().context("start a runtime")?;
        runtime.block_on(async {
            let serve = |listener, routes: Routes| {
                let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
                anyhow::Ok(Server::builder().add_routes(routes).serve_with_incoming(incoming))
            };
            let driver = serve(driver, Routes::new(NodeServer::new(self.clone())))?;
            let registration = serve(registration, Routes::new(RegistrationServer::new(self)))?;
            tokio::try_join!(driver, registration).context("serve")?;
            Ok(())
        })
    }

    /// Ends a call with an answer that says nothing.
    fn end<A: Default>(&self, method: &str, began: Instant, done: Result<(), String>) -> Answer<A> {
        self.state.end(method, began);
        match done {
            Ok(()) => Ok(Response::new(A::default())),
            Err(text) => Err(Status::internal(text)),
        }
    }

    /// As long as a driver would that has something to do.
    async fn wait(&self) {
        if !self.manner.delay.is_zero() {
            tokio::time::sleep(self.manner.delay).await;
        }
    }

    /// Binds what is at one place to another, unless that is done already.
    fn bind(&self, from: &Path, to: &Path) -> Result<(), String> {
        if self.state.is_mounted(to) {
            return Ok(());
        }
        mount_bind(from, to).map_err(|errno| format!("bind {} to {}: {errno}", from.display(), to.display()))?;
        self.state.mounted(to.into());
        Ok(())
    }

    /// The directory that a volume is.
    fn volume(&self, id: &str) -> Result<PathBuf, String> {
        let path = self.volumes.join(id);
        make(&path)?;
        Ok(path)
    }

    /// Unmounts what is mounted there, and does something more, without holding up other calls.
    async fn unbind(&self, path: String, and: fn(&Path) -> Result<(), String>) -> Result<(), String> {
        let state = self.state.clone();
        let work = move || {
            let path = Path::new(&path);
            if state.is_mounted(path) {
                unmount(path, UnmountFlags::NOFOLLOW)
                    .map_err(|errno| format!("unmount {}: {errno}", path.display()))?;
            }
            and(path)?;
            state.unmounted(path);
            Ok(())
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// Makes a directory, unless it is there.
fn make(path: &Path) -> Result<(), String> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("make {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// CSI: what a driver made at a pod's path it takes away again.
fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

#[async_trait]
impl Node for Service {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        let began = self.state.begin();
        let request = request.into_inner();
        let to = Path::new(&request.staging_target_path);
        self.wait().await;
        let done = self.volume(&request.volume_id).and_then(|from| self.bind(&from, to));
        self.end("NodeStageVolume", began, done)
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        let began = self.state.begin();
        let done = self.unbind(request.into_inner().staging_target_path, |_| Ok(())).await;
        self.end("NodeUnstageVolume", began, done)
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let began = self.state.begin();
        let request = request.into_inner();
        let to = Path::new(&request.target_path);
        self.wait().await;
        let from = match self.manner.staging {
            Staging::Staged => Ok(PathBuf::from(request.staging_target_path)),
            Staging::Unstaged => self.volume(&request.volume_id),
        };
        let done = from.and_then(|from| make(to).and_then(|()| self.bind(&from, to)));
        self.end("NodePublishVolume", began, done)
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let began = self.state.begin();
        let done = self.unbind(request.into_inner().target_path, remove).await;
        self.end("NodeUnpublishVolume", began, done)
    }

    async fn node_get_volume_stats(
        &self,
        _: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        Err(Status::unimplemented("it has no figures"))
    }

    async fn node_expand_volume(
        &self,
        _: Request<csi::NodeExpandVolumeRequest>,
    ) -> Answer<csi::NodeExpandVolumeResponse> {
        Err(Status::unimplemented("its volumes have no size"))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        let began = self.state.begin();
        let stages = (self.manner.staging == Staging::Staged).then(|| rpc::Type::StageUnstageVolume.into());
        let capability = |it| csi::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it })) };
        let capabilities = stages.into_iter().map(capability).collect();
        self.state.end("NodeGetCapabilities", began);
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<csi::NodeGetInfoRequest>) -> Answer<csi::NodeGetInfoResponse> {
        let began = self.state.begin();
        self.state.end("NodeGetInfo", began);
        Ok(Response::new(csi::NodeGetInfoResponse { node_id: "node-1".into(), ..Default::default() }))
    }
}

#[async_trait]
impl Registration for Service {
    async fn get_info(&self, _: Request<InfoRequest>) -> Answer<PluginInfo> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".into(),
            name: NAME.into(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: vec!["1.0.0".into()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Answer<RegistrationStatusResponse> {
        let status = request.into_inner();
        if !status.plugin_registered {
            eprintln!("the driver is refused: {}", status.error);
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
