//! What others do where the volumes are: things put in the way, mounts put over them or taken away, mounts held.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::{Value, json};
use windlass_testing::daemon::Case;
use windlass_testing::process::Process;
use windlass_testing::wait::until;

use super::{Fault, claim, claimed, put, settings, web};

super::faults![
    a_file_in_the_place_of_a_volume,
    a_file_where_only_volumes_belong,
    a_file_that_somebody_put_into_a_written_volume,
    a_mount_over_a_volume,
    a_mount_over_a_claimed_volume,
    a_mount_that_was_taken_away_and_cannot_be_made_again,
    a_process_that_stands_in_a_volume,
    a_process_that_has_a_file_of_a_volume_open,
    a_mount_in_a_volume,
    a_volume_in_memory_that_somebody_unmounted,
    a_pod_that_no_manifest_names_at_the_start,
    a_pod_that_was_taken_out_of_a_manifest_that_was_written_in_place,
    a_pod_whose_manifest_is_for_another_node,
    a_manifest_that_could_not_be_read_at_the_start,
    records_that_cannot_be_read,
];

fn scratch(medium: &str) -> Value {
    web(json!({"emptyDir": {"medium": medium}}))
}

/// A file system on a directory, until this is dropped.
struct Foreign<'a>(&'a Path);

impl<'a> Foreign<'a> {
    fn new(path: &'a Path) -> Self {
        rustix::mount::mount("foreign", path, "tmpfs", MountFlags::empty(), None).unwrap();
        Self(path)
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, UnmountFlags::empty());
    }
}

/// I-5.
fn a_file_in_the_place_of_a_volume(case: &Case, fault: &Fault) {
    let path = case.volume("web-1", "empty-dir", "data");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "precious").unwrap();
    put(case, "pod.yaml", &[&scratch("")]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[path.parent().unwrap().to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::rename(&path, case.path("precious")).unwrap();
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-5. The pod is one that nobody knows, so it has no name but its UID.
fn a_file_where_only_volumes_belong(case: &Case, fault: &Fault) {
    let path = case.volume("old-1", "empty-dir", "precious");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "data").unwrap();
    let daemon = case.start_without_orphans();
    fault.is_named(case, "old-1", "precious", &[path.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    fs::rename(&path, case.path("precious")).unwrap();
    until("the directory of the pod is gone", &case.path("root/pods"), || !case.path("root/pods/old-1").exists());
    assert!(daemon.stop().success());
}

/// I-5.
fn a_file_that_somebody_put_into_a_written_volume(case: &Case, fault: &Fault) {
    put(case, "settings.yaml", &[&settings(&json!({"color": "blue"}))]);
    put(case, "pod.yaml", &[&web(json!({"configMap": {"name": "settings"}}))]);
    let daemon = case.start_until_mounted(&["web"]);
    let path = case.volume("web-1", "configmap", "data").join("precious");
    fs::write(&path, "data").unwrap();
    case.remove_manifest("pod.yaml");
    fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    fs::rename(&path, case.path("precious")).unwrap();
    case.wait_unmounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-4.
fn a_mount_over_a_volume(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&scratch("")]);
    let daemon = case.start_until_mounted(&["web"]);
    let path = case.volume("web-1", "empty-dir", "data");
    let foreign = Foreign::new(&path);
    let codes = fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    assert!(codes.contains(&"MountReplaced".into()), "{codes:?}");
    drop(foreign);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn local(case: &Case) -> [Value; 3] {
    let path = case.path("disk");
    fs::create_dir(&path).unwrap();
    let [volume, claimed] = claimed(json!({"local": {"path": path}, "volumeMode": "Filesystem"}));
    [volume, claimed, web(claim())]
}

fn a_mount_over_a_claimed_volume(case: &Case, fault: &Fault) {
    let [volume, claimed, pod] = local(case);
    put(case, "pod.yaml", &[&volume, &claimed, &pod]);
    let daemon = case.start_until_mounted(&["web"]);
    let path = case.volume("web-1", "local-volume", "disk");
    let foreign = Foreign::new(&path);
    let codes = fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    assert!(codes.contains(&"MountReplaced".into()), "{codes:?}");
    drop(foreign);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// Where nothing is in the way it is mounted again at once, too quickly to be explained.
fn a_mount_that_was_taken_away_and_cannot_be_made_again(case: &Case, fault: &Fault) {
    let [volume, claimed, pod] = local(case);
    put(case, "pod.yaml", &[&volume, &claimed, &pod]);
    let daemon = case.start_until_mounted(&["web"]);
    let source = case.path("disk");
    fs::rename(&source, case.path("elsewhere")).unwrap();
    rustix::mount::unmount(case.volume("web-1", "local-volume", "disk"), UnmountFlags::empty()).unwrap();
    let codes = fault.is_named(case, "web", "data", &[source.to_str().unwrap()]);
    assert!(codes.contains(&"MountVanished".into()), "{codes:?}");
    fs::rename(case.path("elsewhere"), &source).unwrap();
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn sleeper(change: impl FnOnce(&mut Command) -> &mut Command) -> Process {
    let mut command = windlass_testing::process::program("sleep");
    Process::start(change(command.arg("600").stdout(Stdio::null())))
}

/// The pod has a volume in memory that somebody holds when the pod goes.
fn is_held(case: &Case, fault: &Fault, hold: impl FnOnce(&Path) -> Process) {
    put(case, "pod.yaml", &[&scratch("Memory")]);
    let daemon = case.start_until_mounted(&["web"]);
    let path = case.volume("web-1", "empty-dir", "data");
    let holder = hold(&path);
    case.remove_manifest("pod.yaml");
    fault.is_named(case, "web", "data", &[path.to_str().unwrap(), &format!("process {} (sleep)", holder.0.id())]);
    drop(holder);
    case.wait_unmounted(&["web"]);
    assert!(daemon.stop().success());
    assert!(case.mounts().is_empty());
}

fn a_process_that_stands_in_a_volume(case: &Case, fault: &Fault) {
    is_held(case, fault, |path| sleeper(|it| it.current_dir(path)));
}

fn a_process_that_has_a_file_of_a_volume_open(case: &Case, fault: &Fault) {
    is_held(case, fault, |path| {
        let file = fs::File::create(path.join("log")).unwrap();
        sleeper(|it| it.stdout(file))
    });
}

fn a_mount_in_a_volume(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&scratch("Memory")]);
    let daemon = case.start_until_mounted(&["web"]);
    let path = case.volume("web-1", "empty-dir", "data").join("inside");
    fs::create_dir(&path).unwrap();
    let foreign = Foreign::new(&path);
    case.remove_manifest("pod.yaml");
    fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    drop(foreign);
    case.wait_unmounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-4.
fn a_volume_in_memory_that_somebody_unmounted(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&scratch("Memory")]);
    let daemon = case.start_until_mounted(&["web"]);
    rustix::mount::unmount(case.volume("web-1", "empty-dir", "data"), UnmountFlags::empty()).unwrap();
    fault.is_named(case, "web", "data", &[]);
    case.wait_mounted(&["web"]);
    case.take_away("pod.yaml", &["web"]);
    put(case, "pod.yaml", &[&scratch("Memory")]);
    case.wait_mounted(&["web"]);
    let shown = case.json(&["get", "pod", "web"]);
    assert!(!shown.to_string().contains("ContentLost"), "{shown}");
    case.take_away("pod.yaml", &["web"]);
    assert!(daemon.stop().success());
}

/// I-1.
fn a_pod_that_no_manifest_names_at_the_start(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&scratch("")]);
    let daemon = case.start_until_mounted(&["web"]);
    assert!(daemon.stop().success());
    case.remove_manifest("pod.yaml");
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[&scratch("")]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-1: what the writer would have written next is not known.
fn a_pod_that_was_taken_out_of_a_manifest_that_was_written_in_place(case: &Case, fault: &Fault) {
    let mut last = scratch("");
    last["metadata"] = json!({"name": "last", "uid": "last-1"});
    put(case, "web.yaml", &[&scratch(""), &last]);
    let daemon = case.start_until_mounted(&["web", "last"]);
    fs::write(case.path("manifests/web.yaml"), last.to_string()).unwrap();
    fault.is_named(case, "web", "data", &[]);
    case.ask(&["delete", "pod", "web"]);
    case.wait_unmounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-1.
fn a_pod_whose_manifest_is_for_another_node(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&scratch("")]);
    let daemon = case.start_until_mounted(&["web"]);
    let mut moved = scratch("");
    moved["spec"]["nodeName"] = "node-2".into();
    put(case, "pod.yaml", &[&moved]);
    fault.is_named(case, "web", "data", &[case.path("manifests/pod.yaml").to_str().unwrap()]);
    put(case, "pod.yaml", &[&scratch("")]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-1.
fn a_manifest_that_could_not_be_read_at_the_start(case: &Case, fault: &Fault) {
    case.manifest("broken.yaml", "kind: [");
    put(case, "pod.yaml", &[&scratch("")]);
    let daemon = case.start_until_mounted(&["web"]);
    case.remove_manifest("pod.yaml");
    fault.is_named(case, "web", "data", &[case.path("manifests").to_str().unwrap()]);
    assert!(case.volume("web-1", "empty-dir", "data").exists());
    case.take_away("broken.yaml", &["web"]);
    assert!(daemon.stop().success());
}

/// I-1, I-11.
fn records_that_cannot_be_read(case: &Case, fault: &Fault) {
    let stages = case.path("root/windlass/records/stages");
    fs::create_dir_all(&stages).unwrap();
    let foreign = Foreign::new(&stages);
    put(case, "pod.yaml", &[&scratch("")]);
    let daemon = case.start_until_mounted(&["web"]);
    case.remove_manifest("pod.yaml");
    fault.is_named(case, "web", "data", &[]);
    daemon.until_logged("the disk cannot be read");
    assert!(daemon.log().contains("stages"), "{}", daemon.log());
    drop(foreign);
    case.wait_unmounted(&["web"]);
    assert!(daemon.stop().success());
}
