//! A scripted driver whose volumes are tmpfs mounts, bound into pods. It makes volumes and attaches them, too: a volume is
//! staged only with what attaching it gave.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use tonic::Status;
use tonic::service::Routes;
use windlass_csi::proto::csi;
use windlass_csi::proto::registration::registration_server::RegistrationServer;
use windlass_testing::scripted::{self, Registrar, Script, Volumes, lock, node_capabilities};
use windlass_testing::server::{Death, Server};

use crate::host::{Host, NAME};

/// What is handed over when a volume is attached.
const SLOT: (&str, &str) = ("slot", "7");

/// What is known of the driver, also after it died: its volumes are mounts, which stay.
#[derive(Default)]
pub(crate) struct Memory {
    script: Script,
    mounts: Mutex<BTreeSet<PathBuf>>,
    attached: Mutex<BTreeSet<String>>,
    made: Mutex<BTreeSet<String>>,
    answers_with_one: Mutex<bool>,
    answers_with_none: Mutex<bool>,
    /// Whether volumes must be attached before they are staged.
    attaches: Mutex<bool>,
    /// The parameters with which volumes were made.
    requests: Mutex<Vec<BTreeMap<String, String>>>,
    /// Whether its controller service lets volumes grow, and if so whether the node has to grow them too.
    grows: Mutex<Option<bool>>,
    /// How large it was told last that the volume should be.
    size: Mutex<u64>,
    capabilities: Mutex<Vec<i32>>,
    /// What it says it is called, if not [`NAME`].
    name: Mutex<Option<&'static str>>,
}

impl Deref for Memory {
    type Target = Script;

    fn deref(&self) -> &Script {
        &self.script
    }
}

/// Whether a call asks the driver about itself.
fn is_question(call: &str) -> bool {
    matches!(
        call,
        "NodeGetInfo" | "NodeGetCapabilities" | "GetPluginInfo" | "GetPluginCapabilities" | "ControllerGetCapabilities"
    )
}

impl Memory {
    /// Stages, and grows volumes.
    pub(crate) fn new() -> Arc<Self> {
        use csi::node_service_capability::rpc::Type;
        let capabilities = vec![Type::StageUnstageVolume.into(), Type::ExpandVolume.into()];
        Arc::new(Self { capabilities: Mutex::new(capabilities), ..Self::default() })
    }

    /// The same of another driver, which serves where this one should.
    pub(crate) fn of_another_driver() -> Arc<Self> {
        let memory = Self::new();
        *lock(&memory.name) = Some("other.example.com");
        memory
    }

    /// Neither stages nor grows volumes.
    pub(crate) fn unstaged() -> Arc<Self> {
        Arc::default()
    }

    /// It is another version from now on, which stages nothing and grows nothing.
    pub(crate) fn can_nothing_more(&self) {
        lock(&self.capabilities).clear();
    }

    /// What was called, in order, without questions.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.script.calls().into_iter().filter(|it| !is_question(it)).collect()
    }

    /// What it was asked about itself, in order.
    pub(crate) fn questions(&self) -> Vec<&'static str> {
        self.script.calls().into_iter().filter(|it| is_question(it)).collect()
    }

    /// Tells of each call when it arrives, without questions.
    pub(crate) fn arrivals(&self) -> Arrivals {
        Arrivals(self.script.arrivals())
    }

    /// Volumes must be attached before they are staged.
    pub(crate) fn attach(&self) {
        *lock(&self.attaches) = true;
    }

    /// Its controller service lets volumes grow, and says whether the node has to grow them too.
    pub(crate) fn grow_by_controller(&self, on_node_too: bool) {
        *lock(&self.grows) = Some(on_node_too);
    }

    /// From now on it answers with the first volume that it has made, whatever it is asked for.
    pub(crate) fn answer_with_one(&self) {
        *lock(&self.answers_with_one) = true;
    }

    /// Whether it says from now on that it has made a volume, without any.
    pub(crate) fn answer_with_none(&self, none: bool) {
        *lock(&self.answers_with_none) = none;
    }

    /// The parameters with which volumes were made, in order.
    pub(crate) fn requests(&self) -> Vec<BTreeMap<String, String>> {
        lock(&self.requests).clone()
    }

    /// What it has mounted, and what it holds attached or made.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let noted = |what: &str, volumes: &Mutex<BTreeSet<String>>| -> Vec<PathBuf> {
            lock(volumes).iter().map(|it| Path::new(what).join(it)).collect()
        };
        let mounts = lock(&self.mounts).iter().cloned().collect();
        [mounts, noted("attached", &self.attached), noted("made", &self.made)].concat()
    }

    /// How large its volume has grown, in bytes.
    pub(crate) fn size(&self) -> u64 {
        *lock(&self.size)
    }

    /// Whether a volume that must be attached is, and that was told.
    fn check_attached(&self, volume: &str, context: &BTreeMap<String, String>) -> Result<(), Status> {
        let is_told = context.get(SLOT.0).is_some_and(|it| it == SLOT.1);
        match *lock(&self.attaches) && !(is_told && lock(&self.attached).contains(volume)) {
            true => Err(Status::failed_precondition("it is not attached, or nobody said where")),
            false => Ok(()),
        }
    }

    fn check_unmounted(&self) -> Result<(), Status> {
        match lock(&self.mounts).is_empty() {
            true => Ok(()),
            false => Err(Status::failed_precondition("it is staged or published")),
        }
    }

    /// Mounts something by `mount`, unless that is done already.
    fn mount(&self, path: &str, mount: impl FnOnce() -> Result<(), Errno>) -> Result<(), Status> {
        let mut mounts = lock(&self.mounts);
        if !mounts.contains(Path::new(path)) {
            mount().map_err(|errno| Status::internal(format!("mount {path}: {errno}")))?;
            mounts.insert(path.into());
        }
        Ok(())
    }

    fn unmount(&self, path: &str) -> Result<(), Status> {
        if lock(&self.mounts).remove(Path::new(path)) {
            let unmounted = unmount(path, UnmountFlags::empty());
            unmounted.map_err(|errno| Status::internal(format!("unmount {path}: {errno}")))?;
        }
        Ok(())
    }
}

fn empty(path: &str) -> Result<(), Errno> {
    mount("scripted", path, "tmpfs", MountFlags::empty(), None)
}

fn bytes(range: Option<csi::CapacityRange>) -> i64 {
    range.map_or(0, |it| it.required_bytes)
}

type Answer<A> = Result<A, Status>;

impl Volumes for Memory {
    fn script(&self) -> &Script {
        &self.script
    }

    fn node_stage_volume(&self, request: csi::NodeStageVolumeRequest) -> Answer<csi::NodeStageVolumeResponse> {
        self.check_attached(&request.volume_id, &request.publish_context)?;
        self.mount(&request.staging_target_path, || empty(&request.staging_target_path))?;
        Ok(Default::default())
    }

    fn node_unstage_volume(&self, request: csi::NodeUnstageVolumeRequest) -> Answer<csi::NodeUnstageVolumeResponse> {
        self.unmount(&request.staging_target_path)?;
        Ok(Default::default())
    }

    fn node_publish_volume(&self, request: csi::NodePublishVolumeRequest) -> Answer<csi::NodePublishVolumeResponse> {
        let (from, path) = (&request.staging_target_path, &request.target_path);
        self.mount(path, || {
            // That it is there already is fine; anything else shows when it is mounted.
            let _ = std::fs::create_dir(path);
            // Without a path to stage at, it is not staged.
            if from.is_empty() { empty(path) } else { mount_bind(from, path) }
        })?;
        Ok(Default::default())
    }

    fn node_unpublish_volume(
        &self,
        request: csi::NodeUnpublishVolumeRequest,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        self.unmount(&request.target_path)?;
        let _ = std::fs::remove_dir(&request.target_path);
        Ok(Default::default())
    }

    fn node_get_volume_stats(&self, _: csi::NodeGetVolumeStatsRequest) -> Answer<csi::NodeGetVolumeStatsResponse> {
        Err(Status::unimplemented("it has no figures"))
    }

    fn node_expand_volume(&self, request: csi::NodeExpandVolumeRequest) -> Answer<csi::NodeExpandVolumeResponse> {
        *lock(&self.size) = u64::try_from(bytes(request.capacity_range)).unwrap_or(0);
        Ok(Default::default())
    }

    fn node_get_capabilities(&self, _: csi::NodeGetCapabilitiesRequest) -> Answer<csi::NodeGetCapabilitiesResponse> {
        Ok(node_capabilities(&lock(&self.capabilities)))
    }

    fn node_get_info(&self, _: csi::NodeGetInfoRequest) -> Answer<csi::NodeGetInfoResponse> {
        Ok(csi::NodeGetInfoResponse { node_id: "node-1".into(), ..Default::default() })
    }

    fn get_plugin_info(&self, _: csi::GetPluginInfoRequest) -> Answer<csi::GetPluginInfoResponse> {
        Ok(csi::GetPluginInfoResponse { name: lock(&self.name).unwrap_or(NAME).into(), ..Default::default() })
    }

    fn create_volume(&self, request: csi::CreateVolumeRequest) -> Answer<csi::CreateVolumeResponse> {
        if *lock(&self.answers_with_none) {
            return Ok(Default::default());
        }
        let first = lock(&self.made).first().cloned().filter(|_| *lock(&self.answers_with_one));
        let volume_id = first.unwrap_or_else(|| format!("id of {}", request.name));
        lock(&self.made).insert(volume_id.clone());
        lock(&self.requests).push(request.parameters);
        let volume = csi::Volume { volume_id, capacity_bytes: bytes(request.capacity_range), ..Default::default() };
        Ok(csi::CreateVolumeResponse { volume: Some(volume) })
    }

    fn delete_volume(&self, request: csi::DeleteVolumeRequest) -> Answer<csi::DeleteVolumeResponse> {
        self.check_unmounted()?;
        if !lock(&self.attached).is_empty() {
            return Err(Status::failed_precondition("it is attached"));
        }
        lock(&self.made).remove(&request.volume_id);
        Ok(Default::default())
    }

    fn controller_publish_volume(
        &self,
        request: csi::ControllerPublishVolumeRequest,
    ) -> Answer<csi::ControllerPublishVolumeResponse> {
        if request.node_id != "node-1" {
            return Err(Status::not_found("there is no such node"));
        }
        lock(&self.attached).insert(request.volume_id);
        let publish_context = BTreeMap::from([(SLOT.0.to_owned(), SLOT.1.to_owned())]);
        Ok(csi::ControllerPublishVolumeResponse { publish_context })
    }

    fn controller_unpublish_volume(
        &self,
        request: csi::ControllerUnpublishVolumeRequest,
    ) -> Answer<csi::ControllerUnpublishVolumeResponse> {
        self.check_unmounted()?;
        lock(&self.attached).remove(&request.volume_id);
        Ok(Default::default())
    }

    fn controller_get_capabilities(
        &self,
        _: csi::ControllerGetCapabilitiesRequest,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        use csi::controller_service_capability::{Rpc, Type, rpc};
        let capability =
            |it: rpc::Type| csi::ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) };
        let grows = lock(&self.grows).map(|_| rpc::Type::ExpandVolume);
        let all = [rpc::Type::CreateDeleteVolume, rpc::Type::PublishUnpublishVolume].into_iter().chain(grows);
        Ok(csi::ControllerGetCapabilitiesResponse { capabilities: all.map(capability).collect() })
    }

    fn controller_expand_volume(
        &self,
        request: csi::ControllerExpandVolumeRequest,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let (capacity_bytes, node_expansion_required) =
            (bytes(request.capacity_range), *lock(&self.grows) == Some(true));
        Ok(csi::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required })
    }
}

/// Calls as they arrive, without questions.
pub(crate) struct Arrivals(scripted::Arrivals);

impl Arrivals {
    /// Waits for the next.
    pub(crate) fn wait(&mut self) -> &'static str {
        loop {
            match self.0.wait() {
                call if is_question(call) => {}
                call => break call,
            }
        }
    }
}

/// The driver's process, as it were.
pub(crate) struct Driver {
    server: Server,
    sockets: [PathBuf; 2],
}

impl Driver {
    /// Starts one that stages and grows volumes, and of which nothing is known yet.
    pub(crate) fn of(host: &Host) -> (Arc<Memory>, Self) {
        let memory = Memory::new();
        let driver = Self::start(host, &memory);
        (memory, driver)
    }

    /// Starts it, in place of one that died.
    pub(crate) fn start(host: &Host, memory: &Arc<Memory>) -> Self {
        Self::start_at(host, memory, ["csi.sock", "registry/scripted.sock"])
    }

    /// Starts it with its services and its registration at these sockets. Whoever registers is told of `csi.sock`.
    pub(crate) fn start_at(host: &Host, memory: &Arc<Memory>, sockets: [&str; 2]) -> Self {
        host.directory("registry");
        let sockets = sockets.map(|it| host.path(it));
        let (registrar, _) = Registrar::new(scripted::info(NAME, &host.text("csi.sock")), false);
        let registration = Routes::new(RegistrationServer::from_arc(registrar));
        let death = Death::default();
        memory.live_until(death.clone());
        let [driver, registry] = sockets.clone();
        let server = Server::start_all(death, [(driver, scripted::routes(memory)), (registry, registration)]);
        Self { server, sockets }
    }

    /// Waits until it has died of a fault.
    pub(crate) fn wait_for_death(&mut self) {
        self.server.wait();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It dies before its sockets go.
        self.server.kill();
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
    }
}
