//! A process that is killed at any instant, and the next one that finds what it left (I-11).

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use windlass::Node;
use windlass::node::Change;
use windlass_core::ids::PodUid;
use windlass_testing::process::{Process, copy_of_this_program, program};
use windlass_testing::wait::run;

use super::node::{all_kinds, config, end, pod, ready, secret, start_at};
use crate::case::Case;
use crate::giving::Giving as _;

crate::tests! {
    a_kill_at_any_instant_is_recovered_from,
    a_volume_that_no_record_tells_of_is_found_among_those_that_records_tell_of,
}

/// Set for the copy of this program that is killed: where its node is.
const NODE: &str = "WINDLASS_TEST_KILLED_NODE";

const PODS: usize = 6;

fn begin(root: &Path) -> Node {
    let node = start_at(root);
    node.update_object(config("settings", "one"));
    node.update_object(secret("one"));
    node
}

fn add(node: &Node, index: usize) -> PodUid {
    node.add_pod(pod(&format!("pod-{index}"), &all_kinds())).unwrap()
}

/// Lives the life that is cut short, if this process is the one to be killed: pods come, change and go without end.
pub(crate) fn lived() -> bool {
    let Some(root) = std::env::var_os(NODE).map(PathBuf::from) else { return false };
    let node = begin(&root);
    node.complete();
    let mut changes = node.changes();
    let mut out = std::io::stdout();
    for round in 0.. {
        let pods: Vec<PodUid> = (0..PODS).map(|it| add(&node, it)).collect();
        if round == 0 {
            // What comes and goes before the disk is looked at leaves no trace, and nothing would be told of it.
            ready(&node, &pods[0]);
        }
        node.update_object(config("settings", &format!("value {round}")));
        for pod in pods.iter().skip(round % PODS) {
            node.remove_pod(pod);
        }
        // Each change is a line, by which whoever kills this process counts the instants.
        loop {
            match run(changes.next()) {
                Some(change) => {
                    if writeln!(out, "{change:?}").and_then(|()| out.flush()).is_err() {
                        return true;
                    }
                    if matches!(change, Change::PodReleased(_)) {
                        break;
                    }
                }
                None => return true,
            }
        }
    }
    true
}

fn a_kill_at_any_instant_is_recovered_from(case: &Case) {
    let root = case.path("");
    for round in 0..25_usize {
        let (child, lines) = Process::start_for_lines(copy_of_this_program().env(NODE, &root));
        let instants = (round * 7) % 90;
        assert_eq!(lines.take(instants).count(), instants, "it lives until it is killed");
        drop(child);

        let node = begin(&root);
        let mut changes = node.changes();
        let keep: BTreeSet<PodUid> = (0..PODS / 2).map(|it| add(&node, it)).collect();
        node.complete();
        for pod in &keep {
            let volumes = ready(&node, pod);
            assert_eq!(volumes.len(), 5, "round {round}");
            let path =
                volumes.iter().find(|it| it.name.as_str() == "config").unwrap().path.clone().unwrap().join("key");
            // The content is that of this life's object, once what the life before wrote is brought up to date.
            while std::fs::read_to_string(&path).unwrap() != "one" {
                run(changes.next());
            }
        }
        for pod in &keep {
            node.remove_pod(pod);
            run(node.gone(pod)).unwrap();
        }
        while !run(node.snapshot()).unwrap().volumes.is_empty() {
            run(changes.next());
        }
        assert_eq!(case.mounts_below("node"), Vec::<PathBuf>::new(), "round {round}");
        end(node);
        while run(changes.next()).is_some() {}
        let left = std::fs::read_dir(root.join("node/pods")).unwrap().count();
        assert_eq!(left, 0, "round {round}: {left} pods' directories are left");
    }
}

/// A process that is killed while it publishes a volume may leave its directory, with a part of what is to be in it, and
/// nothing else.
fn a_volume_that_no_record_tells_of_is_found_among_those_that_records_tell_of(case: &Case) {
    let root = case.path("");
    for unrecorded in ["kubernetes.io~configmap/unrecorded", "kubernetes.io~downward-api/unrecorded"] {
        let node = begin(&root);
        let uid = add(&node, 0);
        node.complete();
        ready(&node, &uid);
        end(node);
        let volumes = root.join(format!("node/pods/{uid}/volumes"));
        std::fs::create_dir_all(volumes.join(unrecorded).parent().unwrap()).unwrap();
        let mut copy = program("cp");
        copy.arg("-a").arg(volumes.join("kubernetes.io~configmap/config")).arg(volumes.join(unrecorded));
        assert!(copy.status().unwrap().success());
        let node = begin(&root);
        let mut changes = node.changes();
        node.complete();
        run(node.gone(&uid)).unwrap();
        while !run(node.snapshot()).unwrap().volumes.is_empty() {
            run(changes.next());
        }
        end(node);
        while run(changes.next()).is_some() {}
        assert_eq!(std::fs::read_dir(root.join("node/pods")).unwrap().count(), 0, "{unrecorded}");
    }
}
