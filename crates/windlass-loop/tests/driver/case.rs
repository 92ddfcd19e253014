//! Where the tests run: a directory, a driver, and what is asked of it.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Signal, WaitOptions};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};
use windlass_csi::proto::csi::controller_client::ControllerClient;
use windlass_csi::proto::csi::identity_client::IdentityClient;
use windlass_csi::proto::csi::node_client::NodeClient;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;
use windlass_csi::proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use windlass_csi::proto::csi::*;
use windlass_csi::proto::registration::registration_client::RegistrationClient;
use windlass_linux::loop_device::{self, LoopDevice};
use windlass_testing::directory::Directory;
use windlass_testing::disk::{self, loop_devices};
use windlass_testing::namespace;
use windlass_testing::process::Process;

pub(crate) const MEBIBYTE: i64 = 1 << 20;

/// A driver that runs.
struct Running {
    process: Process,
    channel: Channel,
}

/// One test.
pub(crate) struct Case {
    /// No other test has this path, in whatever namespace: of a loop device's file the kernel tells little more.
    directory: Directory,
    runtime: tokio::runtime::Runtime,
    running: Option<Running>,
    arguments: Vec<String>,
}

impl Deref for Case {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        namespace::separate_with_base();
        let directory = Directory::new(&format!("{name}-{}", std::process::id()));
        for below in ["registry", "pods"] {
            directory.directory(below);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { directory, runtime, running: None, arguments: Vec::new() }
    }

    /// A directory to stage in, as an orchestrator makes it.
    pub(crate) fn staging(&self, name: &str) -> String {
        let below = format!("staging/{name}");
        self.directory(&below);
        self.text(&below)
    }

    /// Where a pod wants a volume; the last part is the driver's to make.
    pub(crate) fn target(&self, name: &str) -> String {
        self.text(&format!("pods/{name}"))
    }

    /// Starts the driver, and waits until it answers.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        let mut command = windlass_testing::process::program(env!("CARGO_BIN_EXE_windlass-loop"));
        command.args(["--endpoint", &self.text("csi.sock"), "--registry", &self.text("registry")]);
        command.args(["--state", &self.text("state"), "--node-id", "node-a", "--capacity", "20Gi"]);
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let (process, line) = Process::start_until_it_speaks(command.args(arguments).stderr(log));
        assert!(line.ends_with("csi.sock\n"), "{line:?}, and the log says: {}", self.log());
        let endpoint = Endpoint::try_from(format!("unix://{}", self.text("csi.sock"))).unwrap();
        let channel = self.runtime.block_on(endpoint.connect()).unwrap();
        self.running = Some(Running { process, channel });
    }

    /// Starts the driver as it was started before.
    pub(crate) fn restart(&mut self) {
        let arguments = self.arguments.clone();
        self.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Kills the driver, and waits until all that it started has ended.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        // Its children are ours by now.
        while let Ok(Some(_)) | Err(rustix::io::Errno::INTR) = rustix::process::wait(WaitOptions::empty()) {}
    }

    /// Asks the driver to end, and says whether it ended in order.
    pub(crate) fn end(&mut self) -> bool {
        self.signal(Signal::TERM)
    }

    fn signal(&mut self, signal: Signal) -> bool {
        let Some(Running { mut process, channel }) = self.running.take() else { return true };
        // It waits for connections to close.
        drop(channel);
        self.runtime.block_on(tokio::task::yield_now());
        process.signal(signal);
        process.0.wait().unwrap().success()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn channel(&self) -> Channel {
        self.running.as_ref().unwrap().channel.clone()
    }

    pub(crate) fn run<Future: std::future::Future>(&self, future: Future) -> Future::Output {
        // Far more than anything takes: a driver that hangs must not hang the tests.
        const DEADLINE: Duration = Duration::from_secs(120);
        let done = self.runtime.block_on(async { tokio::time::timeout(DEADLINE, future).await });
        done.unwrap_or_else(|_| panic!("the driver did not answer; the log says: {}", self.log()))
    }

    pub(crate) fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel())
    }

    pub(crate) fn registration(&self) -> RegistrationClient<Channel> {
        let socket = self.text("registry/@loop.csi.windlass.dev-reg.sock");
        let endpoint = Endpoint::try_from(format!("unix://{socket}")).unwrap();
        RegistrationClient::new(self.run(endpoint.connect()).unwrap())
    }

    /// A call to the controller service.
    pub(crate) fn controller<Answer>(
        &self,
        call: impl AsyncFnOnce(&mut ControllerClient<Channel>) -> Result<Response<Answer>, Status>,
    ) -> Result<Answer, Status> {
        self.run(call(&mut ControllerClient::new(self.channel()))).map(Response::into_inner)
    }

    /// A call to the node service.
    pub(crate) fn node<Answer>(
        &self,
        call: impl AsyncFnOnce(&mut NodeClient<Channel>) -> Result<Response<Answer>, Status>,
    ) -> Result<Answer, Status> {
        self.run(call(&mut NodeClient::new(self.channel()))).map(Response::into_inner)
    }

    pub(crate) fn create(&self, name: &str, bytes: i64, how: &VolumeCapability) -> Volume {
        let request = create(name, bytes, how);
        self.controller(async |it| it.create_volume(request).await).unwrap().volume.unwrap()
    }

    pub(crate) fn delete(&self, id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest { volume_id: id.into(), ..DeleteVolumeRequest::default() };
        self.controller(async |it| it.delete_volume(request).await).map(drop)
    }

    pub(crate) fn stage(&self, id: &str, path: &str, how: &VolumeCapability) -> Result<(), Status> {
        let request = stage(id, path, how);
        self.node(async |it| it.node_stage_volume(request).await).map(drop)
    }

    pub(crate) fn unstage(&self, id: &str, path: &str) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest { volume_id: id.into(), staging_target_path: path.into() };
        self.node(async |it| it.node_unstage_volume(request).await).map(drop)
    }

    pub(crate) fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.node(async |it| it.node_publish_volume(request).await).map(drop)
    }

    pub(crate) fn unpublish(&self, id: &str, path: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest { volume_id: id.into(), target_path: path.into() };
        self.node(async |it| it.node_unpublish_volume(request).await).map(drop)
    }

    pub(crate) fn stats(&self, id: &str, path: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: id.into(),
            volume_path: path.into(),
            ..NodeGetVolumeStatsRequest::default()
        };
        self.node(async |it| it.node_get_volume_stats(request).await)
    }

    /// Grows a volume: the controller's part and the node's.
    pub(crate) fn expand(&self, id: &str, path: &str, bytes: i64) -> Result<i64, Status> {
        let capacity_range = Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 });
        let request = ControllerExpandVolumeRequest {
            volume_id: id.into(),
            capacity_range,
            ..ControllerExpandVolumeRequest::default()
        };
        let expanded = self.controller(async |it| it.controller_expand_volume(request).await)?;
        assert!(expanded.node_expansion_required);
        let request = NodeExpandVolumeRequest {
            volume_id: id.into(),
            volume_path: path.into(),
            capacity_range,
            ..NodeExpandVolumeRequest::default()
        };
        Ok(self.node(async |it| it.node_expand_volume(request).await)?.capacity_bytes)
    }

    pub(crate) fn list(&self) -> Vec<list_volumes_response::Entry> {
        let request = ListVolumesRequest::default();
        self.controller(async |it| it.list_volumes(request).await).unwrap().entries
    }

    /// The loop devices of all images.
    pub(crate) fn loops(&self) -> Vec<LoopDevice> {
        let images = self.names("state/images").into_iter().map(|it| disk::hold(&self.path("state/images").join(it)));
        images.flat_map(|it| loop_device::of_file(&it).unwrap()).collect()
    }

    /// The loop devices on files in this test's directory, also on those that are gone.
    pub(crate) fn backing_files(&self) -> Vec<PathBuf> {
        loop_devices(&self.path(""))
    }

    /// What is mounted below the directory.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        self.mounts_below("")
    }

    /// Everything that a driver makes is gone.
    pub(crate) fn check_nothing_is_left(&self) {
        assert_eq!(self.mounts(), Vec::<PathBuf>::new(), "mounts are left; the log says: {}", self.log());
        assert_eq!(self.backing_files(), Vec::<PathBuf>::new(), "loop devices are left; the log says: {}", self.log());
        for below in ["state/images", "state/records", "pods"] {
            assert_eq!(self.names(below), Vec::<String>::new(), "{below}; the log says: {}", self.log());
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        self.kill();
        // Those of file systems go with the namespace.
        for device in self.loops() {
            if let Err(error) = loop_device::detach(&device) {
                eprintln!("{error}");
            }
        }
    }
}

/// How a volume is used as a file system.
pub(crate) fn as_mount(kind: &str) -> VolumeCapability {
    let mount = MountVolume { fs_type: kind.into(), ..MountVolume::default() };
    with_mode(AccessType::Mount(mount), Mode::SingleNodeWriter)
}

/// How a volume is used as a raw device.
pub(crate) fn as_block() -> VolumeCapability {
    with_mode(AccessType::Block(BlockVolume {}), Mode::SingleNodeWriter)
}

pub(crate) fn with_mode(access_type: AccessType, mode: Mode) -> VolumeCapability {
    VolumeCapability { access_type: Some(access_type), access_mode: Some(AccessMode { mode: mode.into() }) }
}

pub(crate) fn create(name: &str, bytes: i64, how: &VolumeCapability) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
        volume_capabilities: vec![how.clone()],
        ..CreateVolumeRequest::default()
    }
}

pub(crate) fn stage(id: &str, path: &str, how: &VolumeCapability) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: id.into(),
        staging_target_path: path.into(),
        volume_capability: Some(how.clone()),
        ..NodeStageVolumeRequest::default()
    }
}

pub(crate) fn publish(id: &str, staging: &str, target: &str, how: &VolumeCapability) -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: id.into(),
        staging_target_path: staging.into(),
        target_path: target.into(),
        volume_capability: Some(how.clone()),
        ..NodePublishVolumeRequest::default()
    }
}

/// A volume that lives with its pod.
pub(crate) fn inline(id: &str, target: &str, size: &str) -> NodePublishVolumeRequest {
    let mut request = publish(id, "", target, &as_mount(""));
    let context = [("csi.storage.k8s.io/ephemeral", "true"), ("size", size)];
    request.volume_context = context.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    request
}
