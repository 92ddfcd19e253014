//! Faults that are not of a volume: the daemon's own, its manifests', and what containers cannot be given.

use std::fs;

use serde_json::json;
use windlass_testing::daemon::Case;

use super::{Fault, put, settings, web};

super::faults![
    a_manifest_that_makes_no_sense,
    a_directory_of_manifests_that_is_away,
    two_objects_of_one_name,
    a_record_that_is_damaged,
    a_directory_of_a_pod_that_holds_more_than_volumes,
    a_root_that_another_daemon_has,
    a_root_that_is_a_file,
    a_file_in_the_place_of_the_socket,
    a_key_for_tokens_that_is_none,
    a_part_of_a_volume_that_a_container_wants,
    a_manifest_whose_name_has_capitals_at_its_end,
    a_kernel_without_any_more_watches,
    a_kernel_in_which_nobody_else_may_watch,
    a_kernel_with_one_watcher_too_few,
];

/// What `windlass describe node` says must become this.
fn is_described(case: &Case, fault: &Fault) {
    fault.is_in(&case.ask(&["describe", "node"]));
}

/// What a second daemon, or one that cannot start, says.
fn is_refused(fault: &Fault, command: &mut std::process::Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    fault.is_in(&said);
}

fn a_manifest_that_makes_no_sense(case: &Case, fault: &Fault) {
    let daemon = case.start();
    case.manifest("broken.yaml", "apiVersion: v1\nkind: [\n");
    daemon.until_logged("broken.yaml");
    is_described(case, fault);
    case.manifest("broken.yaml", &settings(&json!({})).to_string());
    daemon.until_logged("all manifests are in force");
    assert!(daemon.stop().success());
}

fn a_directory_of_manifests_that_is_away(case: &Case, fault: &Fault) {
    let daemon = case.start();
    let (manifests, aside) = (case.path("manifests"), case.path("aside"));
    fs::rename(&manifests, &aside).unwrap();
    daemon.until_logged("the source is lost");
    is_described(case, fault);
    fs::rename(&aside, &manifests).unwrap();
    daemon.until_logged("all manifests are in force");
    assert!(daemon.stop().success());
}

fn two_objects_of_one_name(case: &Case, fault: &Fault) {
    for file in ["one.yaml", "two.yaml"] {
        put(case, file, &[&settings(&json!({"file": file}))]);
    }
    let daemon = case.start();
    daemon.until_logged("two.yaml");
    is_described(case, fault);
    case.remove_manifest("two.yaml");
    daemon.until_logged("all manifests are in force");
    assert!(daemon.stop().success());
}

/// I-11: the volume is made again, and nothing is lost.
fn a_record_that_is_damaged(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&web(json!({"emptyDir": {}}))]);
    assert!(case.run().arg("--once").output().unwrap().status.success());
    let canary = case.volume("web-1", "empty-dir", "data").join("canary");
    fs::write(&canary, "alive").unwrap();
    let record = case.path("root/windlass/records/pods/web-1");
    fs::write(&record, "{").unwrap();
    let daemon = case.start_until_mounted(&["web"]);
    is_described(case, fault);
    assert_eq!(fs::read_to_string(&canary).unwrap(), "alive");
    case.take_away("pod.yaml", &["web"]);
    assert!(daemon.stop().success());
}

/// I-5.
fn a_directory_of_a_pod_that_holds_more_than_volumes(case: &Case, fault: &Fault) {
    let foreign = case.path("root/pods/old-1/etc");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("precious"), "data").unwrap();
    let daemon = case.start();
    daemon.until_logged("left alone");
    is_described(case, fault);
    assert_eq!(fs::read_to_string(foreign.join("precious")).unwrap(), "data");
    assert!(daemon.stop().success());
}

fn a_root_that_another_daemon_has(case: &Case, fault: &Fault) {
    let daemon = case.start();
    is_refused(fault, &mut case.run());
    assert!(daemon.stop().success());
    assert!(case.start().stop().success());
}

fn a_root_that_is_a_file(case: &Case, fault: &Fault) {
    fs::write(case.path("root"), "").unwrap();
    is_refused(fault, &mut case.run());
    fs::remove_file(case.path("root")).unwrap();
    assert!(case.start().stop().success());
}

fn a_file_in_the_place_of_the_socket(case: &Case, fault: &Fault) {
    let socket = case.path("run/api.sock");
    fs::write(&socket, "precious").unwrap();
    is_refused(fault, &mut case.run());
    assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
    fs::remove_file(&socket).unwrap();
    assert!(case.start().stop().success());
}

fn a_key_for_tokens_that_is_none(case: &Case, fault: &Fault) {
    let key = case.path("key.pem");
    fs::write(&key, "hunter2").unwrap();
    is_refused(fault, case.run().arg("--token-key").arg(&key));
}

fn a_part_of_a_volume_that_a_container_wants(case: &Case, fault: &Fault) {
    let mut pod = web(json!({"emptyDir": {}}));
    pod["spec"]["containers"][0]["volumeMounts"][0]["subPath"] = "part".into();
    put(case, "pod.yaml", &[&pod]);
    let daemon = case.start_until_mounted(&["web"]);
    let output = case.output(&["mounts", "web"]);
    fault.is_in(&[output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat());
    assert!(daemon.stop().success());
}

fn a_manifest_whose_name_has_capitals_at_its_end(case: &Case, fault: &Fault) {
    put(case, "web.yaml", &[&web(json!({"emptyDir": {}}))]);
    let daemon = case.start_until_mounted(&["web"]);
    fs::rename(case.path("manifests/web.yaml"), case.path("manifests/WEB.YAML")).unwrap();
    case.wait_unmounted(&["web"]);
    is_described(case, fault);
    assert!(daemon.log().contains("WEB.YAML"), "{}", daemon.log());
    assert!(daemon.stop().success());
}

fn a_kernel_without_any_more_watches(case: &Case, fault: &Fault) {
    is_refused(fault, &mut limited(case, "max_inotify_watches", 0));
}

fn a_kernel_in_which_nobody_else_may_watch(case: &Case, fault: &Fault) {
    is_refused(fault, &mut limited(case, "max_inotify_instances", 0));
}

/// The manifests, the registry of drivers and the state directory are watched, and whichever comes last is refused.
fn a_kernel_with_one_watcher_too_few(case: &Case, fault: &Fault) {
    is_refused(fault, &mut limited(case, "max_inotify_instances", 2));
}

/// `windlass run` in a user namespace in which there may be only so many of these (namespaces(7)).
fn limited(case: &Case, limit: &str, count: u32) -> std::process::Command {
    let run = case.run();
    let mut command = windlass_testing::process::program("unshare");
    let script = format!("echo {count} >/proc/sys/user/{limit} && exec \"$@\"");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.arg(run.get_program()).args(run.get_args());
    command
}
