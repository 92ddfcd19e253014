//! A file system that does not answer holds up its own volume and nothing else (I-6).
//!
//! It is FUSE without a server: the kernel waits for an answer to its first request for as long as the connection is open.

use std::{
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use k8s_openapi::serde_json::{Value, json};
use rustix::fs::{Mode, OFlags};
use windlass::{Node, node::StartError};
use windlass_core::reason::Code;
use windlass_linux::{
    mount::{self, Options},
    safe_path::Place,
};

use super::node::{end, pod, ready, run, start, start_at};
use crate::namespace::Case;

crate::tests! {
    a_hung_host_path_holds_up_nobody_else_and_its_late_end_is_used,
    a_process_can_stop_and_start_while_something_hangs,
}

/// More than a lane runs at a time.
const HUNG: usize = 20;

/// A file system that answers nothing while the value lives, and only errors afterwards.
struct Silent(#[expect(dead_code, reason = "held open")] rustix::fd::OwnedFd);

fn silent(case: &Case, below: &str) -> Option<Silent> {
    let device = match rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(device) => device,
        Err(errno) => {
            eprintln!("skipped, there is no FUSE here: {errno}");
            return None;
        }
    };
    let options =
        [format!("fd={}", device.as_raw_fd()), "rootmode=40000".into(), "user_id=0".into(), "group_id=0".into()];
    let target = Place::root(case.directory(below)).unwrap();
    mount::filesystem("fuse", "silent", &Options::parse(options)).unwrap().attach(&target).unwrap();
    Some(Silent(device))
}

fn host(path: &Path) -> Value {
    json!([{"name": "host", "hostPath": {"path": path, "type": "Directory"}}])
}

fn healthy(root: &Path) -> Value {
    json!([
        {"name": "host", "hostPath": {"path": root.join("node"), "type": "Directory"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ])
}

fn a_hung_host_path_holds_up_nobody_else_and_its_late_end_is_used(case: &Case) {
    let Some(silent) = silent(case, "silent") else { return };
    let node = start(case);
    node.complete();
    let mut changes = node.changes();
    let mut hung: Vec<_> =
        (0..HUNG).map(|it| node.add_pod(pod(&format!("hung-{it}"), &host(&case.path("silent")))).unwrap()).collect();
    let good = node.add_pod(pod("good", &healthy(&case.path("")))).unwrap();
    assert_eq!(ready(&node, &good).len(), 3, "more calls hang than run at a time, and it does not wait for them");
    let counts = node.workers();
    assert!(
        counts.lanes.values().map(|it| it.running + it.queued).sum::<usize>() >= HUNG,
        "they are counted: {counts:?}"
    );
    for uid in &hung {
        let codes: Vec<Code> = run(node.explain(uid))[0].reasons.iter().map(|it| it.code).collect();
        assert_eq!(codes, [Code::Publishing], "{uid}");
    }
    node.remove_pod(&good);
    run(node.gone(&good)).unwrap();
    // The server ends: all calls fail, late, and their results are used.
    drop(silent);
    while !hung.is_empty() {
        hung.retain(|uid| !run(node.explain(uid))[0].reasons.iter().any(|it| it.code == Code::FileSystemBroken));
        if !hung.is_empty() {
            run(changes.next());
        }
    }
    end(node);
}

/// Set for the copy of this program that ends while something hangs: where its node is, and what hangs.
const NODE: &str = "WINDLASS_TEST_HUNG_NODE";

/// Lives the life that ends while something hangs, if this process is the one.
pub(crate) fn lived() -> bool {
    let Some(root) = std::env::var_os(NODE).map(PathBuf::from) else { return false };
    let node = start_at(&root);
    let hung = node.add_pod(pod("hung", &host(&root.join("silent")))).unwrap();
    let good = node.add_pod(pod("good", &healthy(&root))).unwrap();
    ready(&node, &good);
    let mut changes = node.changes();
    while run(node.explain(&hung)).is_empty() {
        run(changes.next());
    }
    assert_eq!(run(node.stop(Duration::ZERO)), 1, "it says what still runs");
    let again = Node::builder(root.join("node")).runtime_directory(root.join("run")).start();
    assert!(matches!(again, Err(StartError::InUse { .. })), "not in this process, where the call still works on it");
    true
}

fn a_process_can_stop_and_start_while_something_hangs(case: &Case) {
    let Some(silent) = silent(case, "silent") else { return };
    let root = case.path("");
    let mut first = Command::new("/proc/self/exe").env(NODE, &root).spawn().expect("start a copy of this program");
    assert!(first.wait().unwrap().success(), "it could end");
    let mounts = case.mounts_below("node");
    assert_eq!(mounts.len(), 1);

    let node = start(case);
    let hung = node.add_pod(pod("hung", &host(&case.path("silent")))).unwrap();
    let good = node.add_pod(pod("good", &healthy(&root))).unwrap();
    node.complete();
    ready(&node, &good);
    assert_eq!(case.mounts_below("node"), mounts);
    let mut changes = node.changes();
    drop(silent);
    while run(node.explain(&hung))[0].reasons.iter().all(|it| it.code != Code::FileSystemBroken) {
        run(changes.next());
    }
    end(node);
}
