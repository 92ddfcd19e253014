//! A file system that does not answer holds up its own volume and nothing else (I-6).
//!
//! The kernel waits for an answer for as long as the connection to the server is open.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::serde_json::{Value, json};
use windlass::Node;
use windlass::node::{Change, StartError};
use windlass_core::reason::Code;
use windlass_linux::workers::Limits;
use windlass_testing::process::{Process, copy_of_this_program};
use windlass_testing::silent::Silent;
use windlass_testing::wait::{run, until_exists};

use super::node::{end, pod, ready, start, start_at};
use crate::case::Case;
use crate::giving::Giving as _;

crate::tests! {
    a_hung_host_path_holds_up_nobody_else_and_its_late_end_is_used,
    a_process_can_stop_and_start_while_something_hangs,
    an_operation_that_waits_for_its_turn_is_queued_and_says_behind_how_many,
    a_process_that_was_killed_while_it_hangs_does_not_keep_the_next_out,
    a_process_that_ended_while_it_hangs_does_not_keep_the_next_out,
}

/// More than a lane runs at a time.
const HUNG: usize = 20;

fn silent(case: &Case) -> Option<Silent> {
    Silent::mount_or_skip(&case.path("silent"))
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
    let Some(silent) = silent(case) else { return };
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
        let codes: Vec<Code> = run(node.explain(uid)).unwrap()[0].reasons.iter().map(|it| it.code).collect();
        assert!(codes == [Code::Publishing] || codes == [Code::Queued], "{uid}: {codes:?}");
    }
    node.remove_pod(&good);
    run(node.gone(&good)).unwrap();
    // The server ends: all calls fail, late, and their results are used.
    drop(silent);
    while !hung.is_empty() {
        hung.retain(|uid| {
            !run(node.explain(uid)).unwrap()[0].reasons.iter().any(|it| it.code == Code::FileSystemBroken)
        });
        if !hung.is_empty() {
            run(changes.next());
        }
    }
    end(node);
}

/// Set for the copy of this program that ends while something hangs: where its node is, and what hangs.
const NODE: &str = "WINDLASS_TEST_HUNG_NODE";

/// How it is to end, if not by itself.
const END: &str = "WINDLASS_TEST_HUNG_END";

/// Made once somebody waits in the kernel for the file system: a thread that has not come so far ends with its process.
const ASKED: &str = "asked";

/// Lives the life that ends while something hangs, if this process is the one.
pub(crate) fn lived() -> bool {
    let Some(root) = std::env::var_os(NODE).map(PathBuf::from) else { return false };
    let end = std::env::var(END).unwrap_or_default();
    let node = start_at(&root);
    let hung = node.add_pod(pod("hung", &host(&root.join("silent")))).unwrap();
    let good = node.add_pod(pod("good", &healthy(&root))).unwrap();
    ready(&node, &good);
    let mut changes = node.changes();
    while run(node.explain(&hung)).unwrap().is_empty() {
        run(changes.next());
    }
    match end.as_str() {
        "kill" => loop {
            std::thread::park();
        },
        "stop" => {
            until_exists(&root.join(ASKED));
            assert_eq!(run(node.stop(Duration::ZERO)), Ok(1), "it says what still runs");
            return true;
        }
        _ => {}
    }
    assert_eq!(run(node.stop(Duration::ZERO)), Ok(1), "it says what still runs");
    let again = Node::builder(root.join("node")).runtime_directory(root.join("run")).start();
    assert!(matches!(again, Err(StartError::InUse { .. })), "not in this process, where the call still works on it");
    true
}

fn a_process_can_stop_and_start_while_something_hangs(case: &Case) {
    let Some(silent) = silent(case) else { return };
    let root = case.path("");
    assert!(copy_of_this_program().env(NODE, &root).status().unwrap().success(), "it could end");
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
    while run(node.explain(&hung)).unwrap()[0].reasons.iter().all(|it| it.code != Code::FileSystemBroken) {
        run(changes.next());
    }
    end(node);
}

/// A process hangs in the kernel, and ends in this way: the next one comes up at once (I-6, I-11).
fn taken_over(case: &Case, how: &str) {
    // Whoever asks waits in the kernel, and cannot even be killed.
    let Some(silent) = silent(case).map(Silent::greeted) else { return };
    // The file system goes first, also when this fails: nobody can wait for a process that hangs in it.
    let mut scene = (silent, Process::start(copy_of_this_program().env(NODE, case.path("")).env(END, how)));
    let child = &mut scene.1.0;
    scene.0.until_asked();
    fs::write(case.path(ASKED), "").unwrap();
    // What hangs is noted after a moment, or when the process gives it up.
    until_exists(&case.path("node/windlass/under-way.json"));
    if how == "kill" {
        child.kill().unwrap();
    }
    let builder = || Node::builder(case.path("node")).runtime_directory(case.path("run")).node_name("node-1");
    let node = loop {
        // The one before may be about to end by itself.
        match builder().start() {
            Ok(node) => break node,
            Err(StartError::InUse { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(child.try_wait().unwrap().is_none(), "it is still there");
    let mut changes = node.changes_since_start().unwrap();
    let told = Change::TookOver { process: child.id(), places: 1 };
    run(async { while changes.next().await.unwrap() != told {} });
    let third = builder().start();
    assert!(matches!(third, Err(StartError::InUse { .. })), "two that live cannot both have it");

    let mounts = case.mounts_below("node");
    assert_eq!(mounts.len(), 1);
    let hung = node.add_pod(pod("hung", &host(&case.path("silent")))).unwrap();
    let good = node.add_pod(pod("good", &healthy(&case.path("")))).unwrap();
    let new = node.add_pod(pod("new", &healthy(&case.path("")))).unwrap();
    node.complete();
    ready(&node, &good);
    ready(&node, &new);
    assert!(mounts.iter().all(|it| case.mounts_below("node").contains(it)), "running pods notice nothing");
    let explained = run(node.explain(&hung)).unwrap();
    let reason = explained[0].reasons.last().unwrap();
    assert_eq!(reason.code, Code::Hung, "{explained:?}");
    let by = format!("process {} of before still hangs in it", child.id());
    assert!(reason.text.contains(&by), "{explained:?}");

    // The server ends, so the call does, and the process with it: the volume's turn comes by itself.
    let (silent, mut child) = scene;
    drop(silent);
    child.0.wait().unwrap();
    while run(node.explain(&hung)).unwrap()[0].reasons.iter().all(|it| it.code != Code::FileSystemBroken) {
        run(changes.next());
    }
    end(node);
}

fn a_process_that_was_killed_while_it_hangs_does_not_keep_the_next_out(case: &Case) {
    taken_over(case, "kill");
}

fn a_process_that_ended_while_it_hangs_does_not_keep_the_next_out(case: &Case) {
    taken_over(case, "stop");
}

fn an_operation_that_waits_for_its_turn_is_queued_and_says_behind_how_many(case: &Case) {
    let Some(silent) = silent(case) else { return };
    let limits = Limits { at_once: 2, slow_after: Duration::MAX, ..Limits::default() };
    let builder = Node::builder(case.path("node")).runtime_directory(case.path("run")).limits(limits);
    let node = builder.start().unwrap();
    node.complete();
    let pods: Vec<_> =
        (0..5).map(|it| node.add_pod(pod(&format!("hung-{it}"), &host(&case.path("silent")))).unwrap()).collect();
    let mut changes = node.changes();
    let first = |index: usize| run(node.explain(&pods[index])).unwrap().first().map(|it| it.reasons[0].clone());
    // A thread takes a moment to begin.
    while (0..5).any(|it| first(it).is_none_or(|first| it < 2 && first.code != Code::Publishing)) {
        run(changes.next());
    }
    let reason = |index: usize| first(index).unwrap();
    for (index, text) in [(2, "is the next to begin"), (3, "behind 1 other"), (4, "behind 2 others")] {
        let reason = reason(index);
        assert_eq!(reason.code, Code::Queued, "{reason:?}");
        assert!(reason.text.ends_with(text), "{reason:?}");
    }
    let queued: Vec<_> = run(node.show_operations()).unwrap().iter().map(|it| it.status.queued_behind).collect();
    assert_eq!(queued, [None, None, Some(0), Some(1), Some(2)]);
    drop(silent);
    let broken = |index: usize| {
        run(node.explain(&pods[index])).unwrap()[0].reasons.iter().any(|it| it.code == Code::FileSystemBroken)
    };
    while !(0..5).all(broken) {
        run(changes.next());
    }
    end(node);
}
