//! The file system that holds the root directory: full, without inodes, read-only.

use std::ffi::CString;
use std::fs;

use rustix::mount::MountFlags;
use serde_json::{Map, Value, json};
use windlass_testing::daemon::Case;

use super::{Fault, put, settings, web};

super::faults![a_root_without_room, a_root_without_inodes, a_root_that_can_only_be_read];

/// The root on a file system of its own, with these options.
fn root(case: &Case, options: &str) {
    let path = case.path("root");
    fs::create_dir(&path).unwrap();
    let options = CString::new(options).unwrap();
    rustix::mount::mount("small", &path, "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
}

fn remount(case: &Case, flags: MountFlags, options: &str) {
    rustix::mount::mount_remount(case.path("root"), flags, options).unwrap();
}

/// A pod whose config map the root has no room for, until it gets these options.
fn is_full(case: &Case, fault: &Fault, before: &str, content: &Value, after: &str) {
    root(case, before);
    put(case, "settings.yaml", &[&settings(content)]);
    put(case, "pod.yaml", &[&web(json!({"configMap": {"name": "settings"}}))]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[case.path("root").to_str().unwrap()]);
    remount(case, MountFlags::empty(), after);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_root_without_room(case: &Case, fault: &Fault) {
    is_full(case, fault, "size=512k", &json!({"large": "x".repeat(900 << 10)}), "size=64m");
}

fn a_root_without_inodes(case: &Case, fault: &Fault) {
    let keys: Map<String, Value> = (0..100).map(|it| (format!("key-{it}"), "x".into())).collect();
    is_full(case, fault, "nr_inodes=64", &keys.into(), "nr_inodes=4096");
}

fn a_root_that_can_only_be_read(case: &Case, fault: &Fault) {
    root(case, "size=64m");
    let daemon = case.start();
    remount(case, MountFlags::RDONLY, "");
    put(case, "pod.yaml", &[&web(json!({"emptyDir": {}}))]);
    fault.is_named(case, "web", "data", &[case.path("root").to_str().unwrap()]);
    remount(case, MountFlags::empty(), "");
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}
