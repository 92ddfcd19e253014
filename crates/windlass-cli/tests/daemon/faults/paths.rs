//! Paths of the host: missing, of another type, gone with their server, silent.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::mount::UnmountFlags;
use serde_json::{Value, json};
use windlass_linux::mount::{self, Options};
use windlass_linux::safe_path::Place;
use windlass_testing::daemon::Case;
use windlass_testing::namespace::privileged;

use super::{Fault, claim, claimed, put, web};

super::faults![
    a_host_path_that_is_missing,
    a_host_path_of_another_type,
    a_host_path_that_leads_up,
    a_type_of_host_path_that_there_is_not,
    a_host_path_whose_server_is_gone,
    a_host_path_that_does_not_answer,
    a_host_path_that_may_not_be_made,
    a_group_that_nothing_can_be_given_to,
    a_local_path_that_is_missing,
    a_local_path_that_is_a_file,
    a_local_directory_that_should_be_a_device,
];

fn host(path: &Path, kind: &str) -> Value {
    web(json!({"hostPath": {"path": path, "type": kind}}))
}

fn a_host_path_that_is_missing(case: &Case, fault: &Fault) {
    let path = case.path("data");
    put(case, "pod.yaml", &[&host(&path, "Directory")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    fs::create_dir(&path).unwrap();
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_host_path_of_another_type(case: &Case, fault: &Fault) {
    let path = case.path("data");
    fs::write(&path, "").unwrap();
    put(case, "pod.yaml", &[&host(&path, "Socket")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    put(case, "pod.yaml", &[&host(&path, "File")]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_host_path_that_leads_up(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&host(&case.path("run/../data"), "DirectoryOrCreate")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &["run/../data"]);
    put(case, "pod.yaml", &[&host(&case.path("data"), "DirectoryOrCreate")]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_type_of_host_path_that_there_is_not(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&host(&case.path("run"), "Folder")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[&host(&case.path("run"), "Directory")]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// A file system of a server that answers nothing while this lives; afterwards there is no server. It is FUSE: the kernel
/// waits for the answer to its first request for as long as the connection is open.
struct Silent {
    path: PathBuf,
    server: Option<OwnedFd>,
}

impl Silent {
    fn new(case: &Case) -> Option<Self> {
        let server = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let server = server.inspect_err(|errno| eprintln!("skipped, there is no FUSE here: {errno}")).ok()?;
        let path = case.path("served");
        fs::create_dir(&path).unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
        let target = Place::root(&path).unwrap();
        mount::filesystem("fuse", "silent", &Options::parse(options.split(','))).unwrap().attach(&target).unwrap();
        Some(Self { path, server: Some(server) })
    }

    fn end(&mut self) {
        self.server = None;
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.end();
        let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn a_host_path_whose_server_is_gone(case: &Case, fault: &Fault) {
    let Some(mut silent) = Silent::new(case) else { return };
    silent.end();
    put(case, "pod.yaml", &[&host(&silent.path, "Directory")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[silent.path.to_str().unwrap()]);
    drop(silent);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-6, I-7: that it is `Hung` is said after the operation's time, which is long; until then its age tells.
fn a_host_path_that_does_not_answer(case: &Case, fault: &Fault) {
    let Some(silent) = Silent::new(case) else { return };
    put(case, "pod.yaml", &[&host(&silent.path, "Directory")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    let operations = case.json(&["get", "operations"]);
    let running = &operations["items"][0]["status"];
    assert_eq!((&running["operation"], &running["podUid"]), (&json!("publish"), &json!("web-1")), "{operations:#}");
    let text = case.ask(&["explain", "web/data"]);
    assert!(text.contains("(for "), "its age: {text}");
    drop(silent);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_host_path_that_may_not_be_made(case: &Case, fault: &Fault) {
    if !privileged("the test as another user") {
        return;
    }
    let above = case.path("closed");
    fs::create_dir(&above).unwrap();
    put(case, "pod.yaml", &[&host(&above.join("data"), "DirectoryOrCreate")]);
    let daemon = case.start_as_nobody();
    fault.is_named(case, "web", "data", &[above.to_str().unwrap()]);
    fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).unwrap();
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_group_that_nothing_can_be_given_to(case: &Case, fault: &Fault) {
    if !privileged("the test as another user") {
        return;
    }
    let right = web(json!({"emptyDir": {}}));
    let mut wrong = right.clone();
    wrong["spec"]["securityContext"] = json!({"fsGroup": 2000});
    put(case, "pod.yaml", &[&wrong]);
    let daemon = case.start_as_nobody();
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[&right]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// A claimed volume at a path of this test, which is put right by `mend`.
fn local(case: &Case, fault: &Fault, mode: &str, mend: impl Fn(&Path)) {
    let path = case.path("disk");
    let mut pod = web(claim());
    if mode == "Block" {
        pod["spec"]["containers"][0] =
            json!({"name": "main", "volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]});
    }
    let [volume, claimed] = claimed(json!({"local": {"path": path}, "volumeMode": mode}));
    put(case, "disk.yaml", &[&volume, &claimed, &pod]);
    let daemon = case.start();
    let codes = fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    assert_eq!(codes[0], "NotStaged", "it is the volume that waits, and the pod's mount for it: {codes:?}");
    mend(&path);
    if path.exists() {
        case.wait_mounted(&["web"]);
    }
    assert!(daemon.stop().success());
}

fn a_local_path_that_is_missing(case: &Case, fault: &Fault) {
    local(case, fault, "Filesystem", |path| fs::create_dir(path).unwrap());
}

fn a_local_path_that_is_a_file(case: &Case, fault: &Fault) {
    fs::write(case.path("disk"), "").unwrap();
    local(case, fault, "Filesystem", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    });
}

fn a_local_directory_that_should_be_a_device(case: &Case, fault: &Fault) {
    fs::create_dir(case.path("disk")).unwrap();
    local(case, fault, "Block", |path| fs::remove_dir(path).unwrap());
}
