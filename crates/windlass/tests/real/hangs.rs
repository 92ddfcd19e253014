//! A file system that does not answer holds up its own volume and nothing else (I-6).
//!
//! It is FUSE without a server: the kernel waits for an answer to its first request for as long as the connection is open.

use std::{os::fd::AsRawFd, path::Path, time::Duration};

use k8s_openapi::serde_json::{Value, json};
use rustix::fs::{Mode, OFlags};
use windlass::node::Change;
use windlass_core::reason::Code;
use windlass_linux::{
    mount::{self, Options},
    safe_path::Place,
};

use super::node::{end, pod, ready, run, start};
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

fn healthy(case: &Case) -> Value {
    json!([
        {"name": "host", "hostPath": {"path": case.path("node"), "type": "Directory"}},
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
    let good = node.add_pod(pod("good", &healthy(case))).unwrap();
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

fn a_process_can_stop_and_start_while_something_hangs(case: &Case) {
    let Some(silent) = silent(case, "silent") else { return };
    let node = start(case);
    node.add_pod(pod("hung", &host(&case.path("silent")))).unwrap();
    let good = node.add_pod(pod("good", &healthy(case))).unwrap();
    let before = ready(&node, &good);
    let mut changes = node.changes();
    assert_eq!(run(node.stop(Duration::ZERO)), 1, "it says what still runs");
    while run(changes.next()).is_some() {}

    let node = start(case);
    node.add_pod(pod("hung", &host(&case.path("silent")))).unwrap();
    node.add_pod(pod("good", &healthy(case))).unwrap();
    node.complete();
    assert_eq!(ready(&node, &good), before);
    let uid = "hung".into();
    let mut changes = node.changes();
    drop(silent);
    // What hung in the life before has ended too by now, and nobody was told of it.
    while run(node.explain(&uid))[0].reasons.iter().all(|it| it.code != Code::FileSystemBroken) {
        match run(changes.next()) {
            Some(Change::Missed(_)) | None => break,
            Some(_) => {}
        }
    }
    end(node);
}
