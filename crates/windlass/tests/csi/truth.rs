//! The truth table of unknown outcomes (I-10, C-61..C-65): each call of the driver, each way in which it can go wrong, and a
//! pod that stays or goes meanwhile.
//!
//! Whatever happened, what is wanted ends mounted and with the size that it should have, and what is not wanted ends with no
//! mount and no staged volume. Where the outcome of a call was not known, the driver's log shows that the volume was undone or
//! the call made again.

use windlass::Node;
use windlass::node::{Change, Changes};
use windlass_core::notice::Verdict;
use windlass_testing::harness::Tests;
use windlass_testing::scripted::Fault;
use windlass_testing::wait::run;

use crate::driver::{Driver, Memory};
use crate::giving::Giving as _;
use crate::host::{GROWN, Host, bring_up, pod, settle, uid};

const FAULTS: [Fault; 5] = [Fault::Refusal, Fault::DoneTooLate, Fault::NeverDone, Fault::DoneAndDead, Fault::Dead];

/// What becomes of the pod while the call is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    /// It is wanted in the end.
    Kept,
    /// It is not wanted in the end.
    Gone,
}

/// What brings a call about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// The pod comes.
    Comes,
    /// The pod has the volume, which should be larger.
    Grows,
    /// The pod goes.
    Goes,
}

pub(crate) fn tests(tests: &mut Tests) {
    // A driver that lies is caught where a mount is missing, or is left; what a stage does is its own business.
    for (call, when, wish) in [
        ("NodePublishVolume", When::Comes, Wish::Kept),
        ("NodePublishVolume", When::Comes, Wish::Gone),
        ("NodeUnpublishVolume", When::Goes, Wish::Kept),
        ("NodeUnpublishVolume", When::Goes, Wish::Gone),
        ("NodeUnstageVolume", When::Goes, Wish::Gone),
    ] {
        add(tests, call, when, Fault::Lie, wish);
    }
    for (call, when) in [
        ("ControllerPublishVolume", When::Comes),
        ("NodeStageVolume", When::Comes),
        ("NodePublishVolume", When::Comes),
        ("NodeExpandVolume", When::Comes),
        ("NodeExpandVolume", When::Grows),
        ("NodeUnpublishVolume", When::Goes),
        ("NodeUnstageVolume", When::Goes),
        ("ControllerUnpublishVolume", When::Goes),
    ] {
        for fault in FAULTS {
            for wish in [Wish::Kept, Wish::Gone] {
                add(tests, call, when, fault, wish);
            }
        }
    }
}

fn add(tests: &mut Tests, call: &'static str, when: When, fault: Fault, wish: Wish) {
    let name = format!("truth_{call}_when_it_{when:?}_{fault:?}_{wish:?}").to_lowercase();
    crate::add(tests, &name, &[], move |host| row(host, call, when, fault, wish));
}

fn row(host: &Host, call: &'static str, when: When, fault: Fault, wish: Wish) {
    let (memory, mut driver) = Driver::of(host);
    let node = match call {
        "ControllerPublishVolume" | "ControllerUnpublishVolume" => {
            memory.attach();
            host.attaching_node()
        }
        _ => host.node(),
    };
    node.complete();
    let grows = call == "NodeExpandVolume";
    let mut changes = node.changes();
    if when != When::Comes {
        bring_up(&node);
    }
    memory.plan(call, fault);
    let mut arrivals = memory.arrivals();
    if grows {
        host.grow(&node);
    }
    match when {
        When::Comes => drop(node.add_pod(pod()).expect("a pod")),
        When::Grows => {}
        When::Goes => node.remove_pod(&uid()),
    }
    while arrivals.wait() != call {}
    // Now the call is under way, or has just failed.
    match (when, wish) {
        (When::Comes | When::Grows, Wish::Gone) => node.remove_pod(&uid()),
        (When::Goes, Wish::Kept) => drop(node.add_pod(pod()).expect("a pod")),
        (When::Comes | When::Grows, Wish::Kept) | (When::Goes, Wish::Gone) => {}
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
            if grows {
                wait_until_grown(&mut changes);
                assert_eq!(memory.size(), GROWN);
            }
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
            // A volume that is let go need not grow first.
            "NodeExpandVolume" if wish == Wish::Gone => {
                assert!(after("NodeUnstageVolume") > after(call), "{calls:?}");
            }
            // What may not have been undone was undone again.
            _ => assert!(calls.iter().filter(|it| **it == call).count() >= 2, "{calls:?}"),
        }
    }
    host.end(node);
    drop(driver);
}

/// The node says that the volume has the size that it should have.
fn wait_until_grown(changes: &mut Changes) {
    run(async {
        loop {
            match changes.next().await.expect("a node that runs") {
                Change::Expansion { verdict: Verdict::Grown { size_bytes }, .. } => {
                    break assert_eq!(size_bytes, GROWN);
                }
                _ => continue,
            }
        }
    });
}

/// Nothing is held, neither by our account nor by the driver's.
fn empty(node: &Node, memory: &Memory) {
    settle(node);
    run(node.gone(&uid())).expect("nothing of the pod");
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new(), "{:?}", memory.calls());
}
