//! A driver that does as it is told. Its volumes are tmpfs mounts, bound into pods.

mod controller;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread::JoinHandle,
};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use tokio::{net::UnixListener, sync::watch};
use tonic::{
    Code, Request, Response, Status, async_trait, codegen::tokio_stream::wrappers::UnixListenerStream, service::Routes,
};
use windlass_csi::proto::{
    csi::{
        self,
        controller_server::ControllerServer,
        identity_server::IdentityServer,
        node_server::{Node, NodeServer},
    },
    registration::{
        InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
        registration_server::{Registration, RegistrationServer},
    },
};

use crate::host::{Host, NAME};

/// What goes wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The driver refuses, and has done nothing.
    Refusal,
    /// The driver does it, and nobody hears of it in time.
    DoneTooLate,
    /// The driver neither does it nor answers.
    NeverDone,
    /// The driver does it, and dies before it has answered.
    DoneAndDead,
    /// The driver dies before it has done it.
    Dead,
    /// The driver says that it is done, and has done nothing.
    Lie,
}

/// A call that is to go wrong, once.
type Plan = Option<(&'static str, Fault)>;

/// What is known of the driver, also after it died: its volumes are mounts, which stay.
#[derive(Default)]
pub(crate) struct Memory {
    plan: Mutex<Plan>,
    calls: Mutex<Vec<&'static str>>,
    /// What it was asked about itself.
    questions: Mutex<Vec<&'static str>>,
    /// The mounts that are its own; what it attached and made is noted here too.
    mounts: Mutex<BTreeSet<PathBuf>>,
    /// Whether volumes must be attached before they are staged.
    attaches: Mutex<bool>,
    /// The parameters with which volumes were made.
    requests: Mutex<Vec<BTreeMap<String, String>>>,
    /// Whether its controller service lets volumes grow, and if so whether the node has to grow them too.
    grows: Mutex<Option<bool>>,
    /// How large it was told last that the volume should be.
    size: Mutex<u64>,
    capabilities: Mutex<Vec<i32>>,
    arrived: Mutex<Option<Sender<&'static str>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// Stages, and grows volumes.
    pub(crate) fn new() -> Arc<Self> {
        use csi::node_service_capability::rpc::Type;
        let memory = Self::default();
        *lock(&memory.capabilities) = vec![Type::StageUnstageVolume.into(), Type::ExpandVolume.into()];
        Arc::new(memory)
    }

    /// Neither stages nor grows volumes.
    pub(crate) fn unstaged() -> Arc<Self> {
        Arc::default()
    }

    /// It is another version from now on, which stages nothing and grows nothing.
    pub(crate) fn can_nothing_more(&self) {
        lock(&self.capabilities).clear();
    }

    /// The next call of this name goes wrong.
    pub(crate) fn plan(&self, call: &'static str, fault: Fault) {
        *lock(&self.plan) = Some((call, fault));
    }

    /// What was called, in order, without questions.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        lock(&self.calls).clone()
    }

    /// Volumes must be attached before they are staged.
    pub(crate) fn attach(&self) {
        *lock(&self.attaches) = true;
    }

    /// Its controller service lets volumes grow, and says whether the node has to grow them too.
    pub(crate) fn grow_by_controller(&self, on_node_too: bool) {
        *lock(&self.grows) = Some(on_node_too);
    }

    /// The parameters with which volumes were made, in order.
    pub(crate) fn requests(&self) -> Vec<BTreeMap<String, String>> {
        lock(&self.requests).clone()
    }

    /// What it was asked about itself, in order.
    pub(crate) fn questions(&self) -> Vec<&'static str> {
        lock(&self.questions).clone()
    }

    /// What it has mounted.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        lock(&self.mounts).iter().cloned().collect()
    }

    /// How large its volume has grown, in bytes.
    pub(crate) fn size(&self) -> u64 {
        *lock(&self.size)
    }

    /// Tells of each call when it arrives.
    pub(crate) fn arrivals(&self) -> Receiver<&'static str> {
        let (sender, receiver) = mpsc::channel();
        *lock(&self.arrived) = Some(sender);
        receiver
    }
}

/// The driver's process, as it were.
pub(crate) struct Driver {
    sockets: [PathBuf; 2],
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    died: Receiver<()>,
}

impl Driver {
    /// Starts it, in place of one that died.
    pub(crate) fn start(host: &Host, memory: &Arc<Memory>) -> Self {
        Self::start_at(host, memory, ["csi.sock", "registry/scripted.sock"])
    }

    /// Starts it with its services and its registration at these sockets. Whoever registers is told of `csi.sock`.
    pub(crate) fn start_at(host: &Host, memory: &Arc<Memory>, sockets: [&str; 2]) -> Self {
        std::fs::create_dir_all(host.path("registry")).expect("the registry");
        let sockets = sockets.map(|it| host.path(it));
        let listeners = sockets.clone().map(|path| {
            let _ = std::fs::remove_file(&path);
            let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
            listener.set_nonblocking(true).expect("a socket that does not block");
            listener
        });
        let (stop, stopped) = watch::channel(false);
        let (dead, died) = mpsc::channel();
        let served = Served { memory: memory.clone(), stop: stop.clone(), endpoint: host.path("csi.sock") };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(served, listeners, stopped));
            let _ = dead.send(());
        });
        Self { sockets, stop, thread: Some(thread), died }
    }

    /// Waits until it has died of a fault.
    pub(crate) fn wait_for_death(&self) {
        self.died.recv().expect("a driver that dies");
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}

async fn serve(served: Served, listeners: [std::os::unix::net::UnixListener; 2], mut stopped: watch::Receiver<bool>) {
    let [driver, registration] = listeners;
    let serve = |listener, routes: Routes| {
        let listener = UnixListener::from_std(listener).expect("a listener");
        tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(UnixListenerStream::new(listener))
    };
    let routes = Routes::new(NodeServer::new(served.clone()))
        .add_service(ControllerServer::new(served.clone()))
        .add_service(IdentityServer::new(served.clone()));
    let driver = serve(driver, routes);
    let registration = serve(registration, Routes::new(RegistrationServer::new(served)));
    // The kernel closes all connections when this ends, as when a process dies.
    tokio::select! {
        _ = driver => {}
        _ = registration => {}
        _ = stopped.wait_for(|it| *it) => {}
    }
}

#[derive(Clone)]
struct Served {
    memory: Arc<Memory>,
    stop: watch::Sender<bool>,
    endpoint: PathBuf,
}

impl Served {
    /// Does the work as the plan says, and answers if it does.
    async fn act<A: Default>(
        &self,
        call: &'static str,
        work: impl FnOnce(&mut BTreeSet<PathBuf>) -> rustix::io::Result<()>,
    ) -> Result<Response<A>, Status> {
        lock(&self.memory.calls).push(call);
        let fault = {
            let mut plan = lock(&self.memory.plan);
            plan.take_if(|it| it.0 == call).map(|it| it.1)
        };
        if fault == Some(Fault::Refusal) {
            self.arrived(call);
            return Err(Status::new(Code::Internal, "as the test wants it"));
        }
        if !matches!(fault, Some(Fault::NeverDone | Fault::Dead | Fault::Lie)) {
            work(&mut lock(&self.memory.mounts)).map_err(|errno| Status::internal(format!("{call}: {errno}")))?;
        }
        self.arrived(call);
        match fault {
            None | Some(Fault::Refusal | Fault::Lie) => Ok(Response::new(A::default())),
            Some(Fault::DoneAndDead | Fault::Dead) => {
                let _ = self.stop.send(true);
                std::future::pending().await
            }
            Some(Fault::DoneTooLate | Fault::NeverDone) => std::future::pending().await,
        }
    }

    fn arrived(&self, call: &'static str) {
        if let Some(sender) = lock(&self.memory.arrived).as_ref() {
            let _ = sender.send(call);
        }
    }
}

/// Mounts an empty file system, unless that is done already.
fn stage(mounts: &mut BTreeSet<PathBuf>, path: &Path) -> rustix::io::Result<()> {
    if !mounts.contains(path) {
        mount("scripted", path, "tmpfs", MountFlags::empty(), None)?;
        mounts.insert(path.into());
    }
    Ok(())
}

fn publish(mounts: &mut BTreeSet<PathBuf>, from: &Path, path: &Path) -> rustix::io::Result<()> {
    if !mounts.contains(path) {
        // That it is there already is fine; anything else shows when it is mounted.
        let _ = std::fs::create_dir(path);
        match from.as_os_str().is_empty() {
            // It is not staged.
            true => mount("scripted", path, "tmpfs", MountFlags::empty(), None)?,
            false => mount_bind(from, path)?,
        }
        mounts.insert(path.into());
    }
    Ok(())
}

fn take_away(mounts: &mut BTreeSet<PathBuf>, path: &Path) -> rustix::io::Result<()> {
    if mounts.remove(path) {
        unmount(path, UnmountFlags::empty())?;
    }
    Ok(())
}

type Answer<A> = Result<Response<A>, Status>;

#[async_trait]
impl Node for Served {
    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        let request = request.into_inner();
        self.check_attached(&request.volume_id, &request.publish_context)?;
        let path = PathBuf::from(request.staging_target_path);
        self.act("NodeStageVolume", |mounts| stage(mounts, &path)).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        let path = PathBuf::from(request.into_inner().staging_target_path);
        self.act("NodeUnstageVolume", |mounts| take_away(mounts, &path)).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let request = request.into_inner();
        let (from, path) = (PathBuf::from(request.staging_target_path), PathBuf::from(request.target_path));
        self.act("NodePublishVolume", |mounts| publish(mounts, &from, &path)).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let path = PathBuf::from(request.into_inner().target_path);
        let work = |mounts: &mut BTreeSet<PathBuf>| {
            take_away(mounts, &path)?;
            let _ = std::fs::remove_dir(&path);
            Ok(())
        };
        self.act("NodeUnpublishVolume", work).await
    }

    async fn node_get_volume_stats(
        &self,
        _: Request<csi::NodeGetVolumeStatsRequest>,
    ) -> Answer<csi::NodeGetVolumeStatsResponse> {
        Err(Status::unimplemented("it has no figures"))
    }

    async fn node_expand_volume(
        &self,
        request: Request<csi::NodeExpandVolumeRequest>,
    ) -> Answer<csi::NodeExpandVolumeResponse> {
        let wanted = request.into_inner().capacity_range.map_or(0, |it| it.required_bytes);
        let work = |_: &mut BTreeSet<PathBuf>| {
            *lock(&self.memory.size) = u64::try_from(wanted).unwrap_or(0);
            Ok(())
        };
        self.act("NodeExpandVolume", work).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        use csi::node_service_capability::{Rpc, Type};
        lock(&self.memory.questions).push("NodeGetCapabilities");
        let capability = |number: &i32| csi::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: *number })) };
        let capabilities = lock(&self.memory.capabilities).iter().map(capability).collect();
        Ok(Response::new(csi::NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<csi::NodeGetInfoRequest>) -> Answer<csi::NodeGetInfoResponse> {
        lock(&self.memory.questions).push("NodeGetInfo");
        Ok(Response::new(csi::NodeGetInfoResponse { node_id: "node-1".into(), ..Default::default() }))
    }
}

#[async_trait]
impl Registration for Served {
    async fn get_info(&self, _: Request<InfoRequest>) -> Answer<PluginInfo> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".into(),
            name: NAME.into(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: vec!["1.0.0".into()],
        }))
    }

    async fn notify_registration_status(&self, _: Request<RegistrationStatus>) -> Answer<RegistrationStatusResponse> {
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
