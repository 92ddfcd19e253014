//! The whole life of volumes of a real driver, `windlass-loop`: file systems and devices on loop devices.
//!
//! The driver is the program that the workspace builds beside `windlass`. Both are killed on the way, and what the pod wrote
//! is read back at the end.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use windlass_csi::proto::csi;
use windlass_csi::{Driver, Limits};
use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::disk::loop_devices;
use windlass_testing::namespace::privileged;
use windlass_testing::process::Process;
use windlass_testing::wait::until;

use crate::tests;

tests![
    a_watch_of_drivers_tells_of_those_that_come_and_go_and_of_their_volumes,
    a_claim_gets_a_volume_that_is_attached_grows_and_goes_with_it,
    a_volume_of_a_driver_lives_through_growth_and_kills_and_keeps_its_bytes,
    a_volume_of_a_pods_own_is_made_and_deleted_with_the_pod,
    a_device_of_a_driver_is_given_to_a_pod_as_it_is,
    a_driver_that_hangs_is_told_of_beside_the_usage_of_other_volumes,
];

pub(crate) const DRIVER: &str = "loop.csi.windlass.dev";
const MIB: i64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

const OBJECT: &str = "
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: loop.csi.windlass.dev}
spec: {attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral]}
";

pub(crate) const CLASS: &str = "
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: loop.csi.windlass.dev}
spec: {attachRequired: true}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
provisioner: loop.csi.windlass.dev
allowVolumeExpansion: true
parameters: {csi.storage.k8s.io/fstype: xfs}
";

/// Whether this machine can have the driver; if not, says what is skipped.
pub(crate) fn can_run(what: &str) -> bool {
    if !privileged(what) {
        return false;
    }
    let missing = ["/dev/loop-control"].iter().find(|it| !Path::new(it).exists());
    if let Some(missing) = missing {
        eprintln!("there is no {missing}: skipped {what}");
    }
    missing.is_none()
}

/// Starts the daemon, which looks for drivers there.
fn start_daemon(case: &Case) -> Daemon {
    let mut command = case.run();
    command.arg("--driver-registry").arg(case.sockets().join("registry"));
    case.start_as(command)
}

/// Waits until a volume is not staged any more, by the directory that its own is in.
pub(crate) fn until_unstaged(case: &Case, below: &str) {
    let directory = case.path("root/plugins/kubernetes.io/csi").join(below);
    until("the volume is unstaged", &directory, || {
        let left = fs::read_dir(&directory).unwrap().flatten().map(|it| it.file_name());
        left.filter(|it| it != "staging" && it != "publish").count() == 0
    });
}

/// The same, and it makes and attaches volumes itself.
pub(crate) fn start_controlling_daemon(case: &Case, delete_delay: &str) -> Daemon {
    let mut command = case.run();
    command.args(["--delete-delay", delete_delay]);
    command.arg("--driver-registry").arg(case.sockets().join("registry"));
    command.arg(format!("--controller={DRIVER}={}", case.sockets().join("csi.sock").display()));
    case.start_as(command)
}

/// Starts the driver, and waits until it can be called.
pub(crate) fn start_driver(case: &Case) -> Process {
    case.start_loop_driver(&case.sockets(), &[])
}

/// Takes the socket of a driver away by which it has registered, as one that ends in order does itself.
fn forget_driver(case: &Case) {
    fs::remove_file(case.sockets().join("registry").join(windlass_csi::registration_socket(DRIVER))).unwrap();
}

/// What a cluster's controllers would do, by the driver's controller service.
struct Controller {
    runtime: tokio::runtime::Runtime,
    driver: Driver,
}

impl Controller {
    fn of(case: &Case) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, driver: Driver::new(DRIVER, case.sockets().join("csi.sock"), Limits::default()) }
    }

    fn create(&self, name: &str, megabytes: i64, kind: Option<&str>) -> String {
        use csi::volume_capability::access_mode::Mode;
        use csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
        let access_type = match kind {
            Some(kind) => AccessType::Mount(MountVolume { fs_type: kind.into(), ..Default::default() }),
            None => AccessType::Block(BlockVolume {}),
        };
        let capability = csi::VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        };
        let request = csi::CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(csi::CapacityRange { required_bytes: megabytes * MIB, limit_bytes: 0 }),
            volume_capabilities: vec![capability],
            parameters: kind.map(|it| ("fsType".to_string(), it.to_string())).into_iter().collect(),
            ..Default::default()
        };
        self.runtime.block_on(self.driver.create_volume(request, LONG)).unwrap().volume_id
    }

    fn expand(&self, volume: &str, megabytes: i64) {
        let request = csi::ControllerExpandVolumeRequest {
            volume_id: volume.into(),
            capacity_range: Some(csi::CapacityRange { required_bytes: megabytes * MIB, limit_bytes: 0 }),
            ..Default::default()
        };
        self.runtime.block_on(self.driver.controller_expand(request, LONG)).unwrap();
    }

    fn delete(&self, volume: &str) {
        let request = csi::DeleteVolumeRequest { volume_id: volume.into(), ..Default::default() };
        self.runtime.block_on(self.driver.delete_volume(request, LONG)).unwrap();
    }
}

/// A persistent volume and its claim.
fn claimed(volume: &str, megabytes: i64, mode: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv}}
spec:
  capacity: {{storage: {megabytes}Mi}}
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  csi: {{driver: {DRIVER}, volumeHandle: {volume}, fsType: xfs}}
  claimRef: {{namespace: default, name: data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  resources: {{requests: {{storage: 320Mi}}}}
  volumeName: pv
status: {{phase: Bound, capacity: {{storage: 320Mi}}}}
"
    )
}

pub(crate) const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: app, uid: app-1}
spec:
  securityContext: {fsGroup: 4711}
  containers: [{name: main, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

/// How large a file system is.
fn size(path: &Path) -> u64 {
    let status = rustix::fs::statvfs(path).unwrap();
    status.f_blocks * status.f_frsize
}

/// What is told next of drivers, but for those that are about to be gone: whether that is noticed by the end of the
/// connection or by that of the socket is chance.
fn next_driver(lines: &mut impl Iterator<Item = String>) -> (String, bool, usize) {
    let mut events = lines.map(|it| serde_json::from_str::<Value>(&it).unwrap());
    let is_dying = |it: &Value| it["type"] == "MODIFIED" && !it["object"]["status"]["unreachableSince"].is_null();
    let event = events.find(|it| !is_dying(it)).expect("the watch goes on");
    let status = &event["object"]["status"];
    let volumes = status["volumes"].as_array().map_or(0, Vec::len);
    (event["type"].as_str().unwrap().into(), status["registered"] == true, volumes)
}

fn a_watch_of_drivers_tells_of_those_that_come_and_go_and_of_their_volumes(case: &Case) {
    if !can_run("a watch of drivers") {
        return;
    }
    let daemon = start_daemon(case);
    let mut command = case.windlass();
    command.args(["get", "drivers", "--watch", "--output-watch-events", "-o", "json"]);
    let (watch, mut lines) = Process::start_for_lines(&mut command);
    let told = |kind: &str, registered, volumes| (kind.to_owned(), registered, volumes);
    assert_eq!(next_driver(&mut lines), told("BOOKMARK", false, 0));

    let driver = start_driver(case);
    assert_eq!(next_driver(&mut lines), told("ADDED", true, 0));
    // A pod without a volume of the driver is nothing to it.
    case.manifest(
        "other.yaml",
        &POD.replace("app", "other").replace("persistentVolumeClaim: {claimName: data}", "emptyDir: {}"),
    );
    case.wait_mounted(&["other"]);
    let volume = Controller::of(case).create("data", 320, Some("xfs"));
    case.manifest("driver.yaml", OBJECT);
    case.manifest("data.yaml", &claimed(&volume, 320, "Filesystem"));
    case.manifest("app.yaml", POD);
    assert_eq!(next_driver(&mut lines), told("MODIFIED", true, 1));
    case.wait_mounted(&["app"]);
    drop(driver);
    forget_driver(case);
    assert_eq!(next_driver(&mut lines), told("MODIFIED", false, 1));
    let driver = start_driver(case);
    assert_eq!(next_driver(&mut lines), told("MODIFIED", true, 1));
    case.remove_manifest("app.yaml");
    assert_eq!(next_driver(&mut lines), told("MODIFIED", true, 0));
    Controller::of(case).delete(&volume);
    drop(driver);
    forget_driver(case);
    assert_eq!(next_driver(&mut lines), told("DELETED", true, 0));
    drop(watch);
    assert!(daemon.stop().success());
}

fn a_volume_of_a_driver_lives_through_growth_and_kills_and_keeps_its_bytes(case: &Case) {
    if !can_run("the life of a driver's volume") {
        return;
    }
    let mut daemon = start_daemon(case);
    let driver = start_driver(case);
    let controller = Controller::of(case);
    let volume = controller.create("data", 320, Some("xfs"));
    case.manifest("driver.yaml", OBJECT);
    case.manifest("data.yaml", &claimed(&volume, 320, "Filesystem"));
    case.manifest("app.yaml", POD);
    case.wait_mounted(&["app"]);
    let path = case.volume("app-1", "csi", "pv").join("mount");
    fs::write(path.join("order"), "forty fathoms of rope").unwrap();
    let before = size(&path);

    // It grows while the pod has it.
    controller.expand(&volume, 512);
    case.manifest("data.yaml", &claimed(&volume, 512, "Filesystem"));
    daemon.until_logged("the volume has grown");
    assert!(size(&path) > before, "{} is not more than {before}", size(&path));

    // How full it is the driver tells, and that it is well.
    let told = &case.json(&["usage", "app"])["status"]["volumes"][0];
    assert_eq!(told["bytes"]["total"], size(&path), "{told}");
    assert!(told["bytes"]["used"].as_u64().unwrap() > 0 && told["inodes"]["used"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(told["condition"]["abnormal"], false, "{told}");
    assert!(case.ask(&["usage"]).contains("%     Normal"), "{told}");

    // Neither the death of the driver nor that of the daemon is anything to the pod.
    drop(driver);
    assert_eq!(fs::read_to_string(path.join("order")).unwrap(), "forty fathoms of rope");
    let driver = start_driver(case);
    daemon.kill();
    assert_eq!(fs::read_to_string(path.join("order")).unwrap(), "forty fathoms of rope");
    daemon = start_daemon(case);
    case.wait_mounted(&["app"]);

    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, DRIVER);
    assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());

    // The bytes are the volume's.
    case.manifest("app.yaml", POD);
    case.wait_mounted(&["app"]);
    assert_eq!(fs::read_to_string(path.join("order")).unwrap(), "forty fathoms of rope");
    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, DRIVER);
    controller.delete(&volume);
    assert_eq!(fs::read_dir(case.path("state/images")).unwrap().count(), 0);
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
    drop(driver);
}

fn a_claim_gets_a_volume_that_is_attached_grows_and_goes_with_it(case: &Case) {
    if !can_run("the life of a volume that is made for a claim") {
        return;
    }
    let claim = |megabytes: u32| {
        format!(
            "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: disks
  resources: {{requests: {{storage: {megabytes}Mi}}}}
"
        )
    };
    let mut daemon = start_controlling_daemon(case, "0s");
    case.manifest("class.yaml", CLASS);
    case.manifest("data.yaml", &claim(320));
    case.manifest("app.yaml", POD);
    case.until_reason("app", "data", |it| it["message"].as_str().unwrap().contains("PVC is not bound: driver name"));
    let driver = case.start_loop_driver(&case.sockets(), &["--attach"]);
    case.wait_mounted(&["app"]);
    let volumes = case.path("root/pods/app-1/volumes/kubernetes.io~csi");
    let name = fs::read_dir(&volumes).unwrap().next().unwrap().unwrap().file_name();
    let path = volumes.join(name).join("mount");
    fs::write(path.join("order"), "forty fathoms of rope").unwrap();
    let before = size(&path);

    // Whoever asks for more gets it.
    case.manifest("data.yaml", &claim(512));
    daemon.until_logged("the volume has grown");
    assert!(size(&path) > before, "{} is not more than {before}", size(&path));

    // A manifest that cannot be read deletes nothing, not even if windlass starts with it.
    case.manifest("data.yaml", "kind: PersistentVolumeClaim\nmetadata: [");
    daemon.until_logged("data.yaml");
    drop(driver);
    daemon.kill();
    daemon = start_controlling_daemon(case, "0s");
    let driver = case.start_loop_driver(&case.sockets(), &["--attach"]);
    daemon.until_logged("the driver is registered");
    assert_eq!(fs::read_to_string(path.join("order")).unwrap(), "forty fathoms of rope");
    case.manifest("data.yaml", &claim(512));
    case.wait_mounted(&["app"]);

    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, DRIVER);
    until("the volume is detached", &case.path("root/windlass/records/attachments"), || {
        fs::read_dir(case.path("root/windlass/records/attachments")).unwrap().count() == 0
    });
    case.manifest("app.yaml", POD);
    case.wait_mounted(&["app"]);
    assert_eq!(fs::read_to_string(path.join("order")).unwrap(), "forty fathoms of rope");

    // The claim goes first, and its volume when nobody has it any more.
    case.remove_manifest("data.yaml");
    case.take_away("app.yaml", &["app"]);
    daemon.until_logged("was deleted");
    assert_eq!(fs::read_dir(case.path("state/images")).unwrap().count(), 0);
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
    assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
    drop(driver);
}

fn a_volume_of_a_pods_own_is_made_and_deleted_with_the_pod(case: &Case) {
    if !can_run("a volume of a pod's own") {
        return;
    }
    let daemon = start_daemon(case);
    let pod = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: app, uid: app-1}}
spec:
  containers: [{{name: main, volumeMounts: [{{name: scratch, mountPath: /scratch}}]}}]
  volumes: [{{name: scratch, csi: {{driver: {DRIVER}, fsType: ext4, volumeAttributes: {{size: 32Mi}}}}}}]
"
    );
    case.manifest("app.yaml", &pod);
    // Without the driver nobody can make such a volume, and without its object a driver cannot have any.
    case.until_reason("app", "scratch", |it| it["code"] == "DriverMissing");
    let _driver = start_driver(case);
    case.until_reason("app", "scratch", |it| it["message"].as_str().unwrap().contains("no CSIDriver object"));
    case.manifest("driver.yaml", OBJECT);
    case.wait_mounted(&["app"]);
    let drivers = case.json(&["get", "drivers"]);
    assert_eq!(drivers["items"][0]["metadata"]["name"], DRIVER);
    assert_eq!(drivers["items"][0]["status"]["nodeId"], "node-1");
    let path = case.volume("app-1", "csi", "scratch").join("mount");
    fs::write(path.join("note"), "mine").unwrap();
    assert_eq!(fs::read_dir(case.path("state/images")).unwrap().count(), 1);
    case.take_away("app.yaml", &["app"]);
    assert_eq!(fs::read_dir(case.path("state/images")).unwrap().count(), 0);
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
}

/// I-6.
fn a_driver_that_hangs_is_told_of_beside_the_usage_of_other_volumes(case: &Case) {
    if !can_run("a driver that hangs") {
        return;
    }
    let daemon = start_daemon(case);
    let driver = start_driver(case);
    let pod = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: app, uid: app-1}}
spec:
  containers: [{{name: main, volumeMounts: [{{name: disk, mountPath: /disk}}, {{name: scratch, mountPath: /scratch}}]}}]
  volumes:
  - {{name: disk, csi: {{driver: {DRIVER}, fsType: ext4, volumeAttributes: {{size: 32Mi}}}}}}
  - {{name: scratch, emptyDir: {{}}}}
"
    );
    case.manifest("driver.yaml", OBJECT);
    case.manifest("app.yaml", &pod);
    case.wait_mounted(&["app"]);
    let signal = |signal| driver.signal(signal);
    signal(Signal::STOP);
    let volumes = &case.json(&["usage", "app"])["status"]["volumes"];
    assert!(volumes[0]["error"].as_str().unwrap().starts_with("there is no answer after 5 s"), "{volumes}");
    assert!(volumes[1]["bytes"]["used"].is_u64(), "{volumes}");
    signal(Signal::CONT);
    let volumes = &case.json(&["usage", "app"])["status"]["volumes"];
    assert!(volumes[0]["bytes"]["total"].as_u64().unwrap() > 0, "{volumes}");
    case.take_away("app.yaml", &["app"]);
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
}

fn a_device_of_a_driver_is_given_to_a_pod_as_it_is(case: &Case) {
    if !can_run("a device of a driver") {
        return;
    }
    let daemon = start_daemon(case);
    let _driver = start_driver(case);
    let controller = Controller::of(case);
    let volume = controller.create("raw", 16, None);
    let pod = POD.replace(
        "volumeMounts: [{name: data, mountPath: /data}]",
        "volumeDevices: [{name: data, devicePath: /dev/xvda}]",
    );
    case.manifest("driver.yaml", OBJECT);
    case.manifest("data.yaml", &claimed(&volume, 320, "Block"));
    case.manifest("app.yaml", &pod);
    case.wait_mounted(&["app"]);
    let path = case.path("root/pods/app-1/volumeDevices/kubernetes.io~csi/pv");
    assert!(fs::metadata(&path).unwrap().file_type().is_block_device());
    File::options().write(true).open(&path).unwrap().write_all(b"forty fathoms").unwrap();
    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, "volumeDevices");
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
    case.manifest("app.yaml", &pod);
    case.wait_mounted(&["app"]);
    let mut bytes = [0; 13];
    File::open(&path).unwrap().read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"forty fathoms");
    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, "volumeDevices");
    controller.delete(&volume);
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
    assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
}
