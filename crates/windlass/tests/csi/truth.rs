//! The truth table of unknown outcomes (I-10, C-61..C-65): each call of the driver, each way in which it can go wrong, and a
//! pod that stays or goes meanwhile.
//!
//! Whatever happened, what is wanted ends mounted, and what is not wanted ends with no mount and no staged volume. Where the
//! outcome of a call was not known, the driver's log shows that the volume was undone or the call made again.

use libtest_mimic::Trial;
use windlass::Node;

use crate::{
    driver::{Driver, Fault, Memory},
    host::{Host, pod, run, settle, uid},
};

const FAULTS: [Fault; 5] = [Fault::Refusal, Fault::DoneTooLate, Fault::NeverDone, Fault::DoneAndDead, Fault::Dead];

/// What becomes of the pod while the call is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    /// It is wanted in the end.
    Kept,
    /// It is not wanted in the end.
    Gone,
}

pub(crate) fn tests(tests: &mut Vec<Trial>) {
    // A driver that lies is caught where a mount is missing, or is left; what a stage does is its own business.
    for (call, wish) in [
        ("NodePublishVolume", Wish::Kept),
        ("NodePublishVolume", Wish::Gone),
        ("NodeUnpublishVolume", Wish::Kept),
        ("NodeUnpublishVolume", Wish::Gone),
        ("NodeUnstageVolume", Wish::Gone),
    ] {
        let name = format!("truth_{call}_lie_{wish:?}").to_lowercase();
        crate::add(tests, &name, move |host| row(host, call, Fault::Lie, wish));
    }
    for call in [
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
    ] {
        for fault in FAULTS {
            for wish in [Wish::Kept, Wish::Gone] {
                let name = format!("truth_{call}_{fault:?}_{wish:?}").to_lowercase();
                crate::add(tests, &name, move |host| row(host, call, fault, wish));
            }
        }
    }
}

fn row(host: &Host, call: &'static str, fault: Fault, wish: Wish) {
    let memory = Memory::new();
    let driver = Driver::start(host, &memory);
    let node = match call {
        "ControllerPublishVolume" | "ControllerUnpublishVolume" => {
            memory.attach();
            host.attaching_node()
        }
        _ => host.node(),
    };
    node.complete();
    let goes_up = matches!(call, "ControllerPublishVolume" | "NodeStageVolume" | "NodePublishVolume");
    if !goes_up {
        node.add_pod(pod()).expect("a pod");
        run(node.ready(&uid())).expect("a volume that is mounted");
    }
    memory.plan(call, fault);
    let arrivals = memory.arrivals();
    match goes_up {
        true => drop(node.add_pod(pod()).expect("a pod")),
        false => node.remove_pod(&uid()),
    }
    while arrivals.recv().expect("the call") != call {}
    // Now the call is under way, or has just failed.
    match (goes_up, wish) {
        (true, Wish::Gone) => node.remove_pod(&uid()),
        (false, Wish::Kept) => drop(node.add_pod(pod()).expect("a pod")),
        (true, Wish::Kept) | (false, Wish::Gone) => {}
    }
    let driver = match fault {
        Fault::DoneAndDead | Fault::Dead => {
            driver.wait_for_death();
            drop(driver);
            Driver::start(host, &memory)
        }
        Fault::Refusal | Fault::DoneTooLate | Fault::NeverDone | Fault::Lie => driver,
    };
    match wish {
        Wish::Kept => {
            let volumes = run(node.ready(&uid())).expect("a volume that is mounted");
            let path = volumes[0].path.clone().expect("a path");
            assert!(memory.mounts().contains(&path), "{path:?} is the driver's: {:?}", memory.mounts());
            std::fs::write(path.join("written"), "by the pod").expect("a volume that can be written");
            node.remove_pod(&uid());
            empty(&node, &memory);
        }
        Wish::Gone => empty(&node, &memory),
    }
    let calls = memory.calls();
    let after = |call: &str| calls.iter().rposition(|it| *it == call);
    if fault != Fault::Refusal {
        // What may have been done was undone, after the last time that it was tried.
        match call {
            "NodePublishVolume" => assert!(after("NodeUnpublishVolume") > after(call), "{calls:?}"),
            "NodeStageVolume" => assert!(after("NodeUnstageVolume") > after(call), "{calls:?}"),
            "ControllerPublishVolume" => assert!(after("ControllerUnpublishVolume") > after(call), "{calls:?}"),
            // What may not have been undone was undone again.
            _ => assert!(calls.iter().filter(|it| **it == call).count() >= 2, "{calls:?}"),
        }
    }
    host.end(node);
    drop(driver);
}

/// Nothing is held, neither by our account nor by the driver's.
fn empty(node: &Node, memory: &Memory) {
    settle(node);
    run(node.gone(&uid())).expect("nothing of the pod");
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new(), "{:?}", memory.calls());
}
