//! Volumes that this node makes and attaches by itself, with the driver's controller service: where there is no cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::serde_json::{Value, json};
use windlass::Node;
use windlass::manifest::{ObjectKind, Reference};
use windlass::node::Change;
use windlass_core::reason::Code;
use windlass_testing::scripted::Fault;
use windlass_testing::wait::run;

use crate::driver::{Driver, Memory};
use crate::giving::Giving as _;
use crate::host::{Host, NAME, bring_up, of, pod, settle, take_down, uid};

crate::tests! {
    a_claim_gets_a_volume_that_goes_with_it,
    a_claim_that_comes_back_while_its_volume_is_deleted_gets_another,
    a_claim_that_is_not_seen_to_go_keeps_its_volume,
    a_claim_waits_and_says_for_what,
    a_new_process_attaches_nothing_that_is_attached,
    a_volume_for_the_first_pod_is_not_made_before_there_is_one,
    a_volume_in_use_is_not_deleted,
    a_volume_is_kept_if_its_class_says_so,
    a_volume_that_is_attached_for_nobody_is_found_again_and_detached,
    a_volume_that_may_have_been_made_is_made_once,
    a_volume_that_may_have_been_made_goes_with_its_claim,
}

const UP: [&str; 3] = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"];
const DOWN: [&str; 3] = ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"];

fn all(parts: &[&[&'static str]]) -> Vec<&'static str> {
    parts.concat()
}

/// I-11.
fn a_new_process_attaches_nothing_that_is_attached(host: &Host) {
    let memory = Memory::new();
    memory.attach();
    let _driver = Driver::start(host, &memory);
    let node = host.attaching_node();
    node.complete();
    bring_up(&node);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    let node = host.attaching_node();
    node.add_pod(pod()).unwrap();
    node.complete();
    run(node.ready(&uid())).unwrap();
    assert_eq!(memory.calls(), UP);
    take_down(&node);
    assert_eq!(memory.calls(), all(&[&UP, &DOWN]));
    host.end(node);
}

/// Nothing on this node tells of what is attached, but for the record.
fn a_volume_that_is_attached_for_nobody_is_found_again_and_detached(host: &Host) {
    let memory = Memory::new();
    memory.attach();
    let driver = Driver::start(host, &memory);
    let node = host.attaching_node();
    node.complete();
    memory.plan("NodeStageVolume", Fault::Refusal);
    let mut arrivals = memory.arrivals();
    node.add_pod(pod()).unwrap();
    while arrivals.wait() != "NodeStageVolume" {}
    let _ = run(node.stop(Duration::from_secs(30)));
    let node = host.attaching_node();
    node.complete();
    settle(&node);
    assert_eq!(memory.calls().last(), Some(&"ControllerUnpublishVolume"));
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new());
    host.end(node);
    drop(driver);
}

fn a_claim_gets_a_volume_that_goes_with_it(host: &Host) {
    let memory = Memory::new();
    memory.attach();
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    bring_up(&node);
    assert_eq!(memory.calls(), all(&[&["CreateVolume"], &UP]));
    assert_eq!(
        memory.requests(),
        [[("tier".to_owned(), "gold".to_owned())].into()],
        "what is not the driver's is kept"
    );
    take_down(&node);
    assert_eq!(memory.calls(), all(&[&["CreateVolume"], &UP, &DOWN]), "the claim is still there");
    delete(&node);
    assert_eq!(memory.calls(), all(&[&["CreateVolume"], &UP, &DOWN, &["DeleteVolume"]]));
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new());
    host.end(node);
}

/// I-10: nobody knows what is left of a volume that is being deleted.
fn a_claim_that_comes_back_while_its_volume_is_deleted_gets_another(host: &Host) {
    for fault in [Fault::DoneTooLate, Fault::NeverDone, Fault::Refusal] {
        let (memory, driver) = Driver::of(host);
        let node = start(host);
        let changes = node.changes();
        give(&node, &class("Delete", "Immediate"), &claim());
        node.complete();
        until(changes, "was made");
        let first = memory.mounts();
        memory.plan("DeleteVolume", fault);
        let (mut arrivals, changes) = (memory.arrivals(), node.changes());
        node.remove_object(&reference());
        assert_eq!(arrivals.wait(), "DeleteVolume");
        node.update_object(of::<PersistentVolumeClaim>(&claim()));
        node.add_pod(pod()).unwrap();
        until(changes, "was deleted");
        run(node.ready(&uid())).unwrap();
        assert!(!memory.mounts().contains(&first[0]), "{fault:?}: it is another volume");
        let made = ["CreateVolume", "DeleteVolume", "DeleteVolume", "CreateVolume"];
        assert_eq!(memory.calls(), all(&[&made, &UP]), "{fault:?}");
        take_down(&node);
        delete(&node);
        host.end(node);
        drop(driver);
    }
}

/// A start with other manifests than before, or with none, deletes nothing.
fn a_claim_that_is_not_seen_to_go_keeps_its_volume(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    let changes = node.changes();
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until(changes, "was made");
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    let node = start(host);
    let changes = node.changes();
    node.complete();
    until(changes, "is kept");
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    // And here it is again.
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    bring_up(&node);
    assert_eq!(memory.calls().iter().filter(|it| **it == "CreateVolume").count(), 1);
    take_down(&node);
    delete(&node);
    host.end(node);
}

fn a_claim_waits_and_says_for_what(host: &Host) {
    let memory = Memory::new();
    let node = start(host);
    node.update_object(of::<PersistentVolumeClaim>(&claim()));
    node.complete();
    node.add_pod(pod()).unwrap();
    explained(&node, "PVC is not bound: storageclasses.storage.k8s.io \"fast\" not found");
    assert_eq!(codes(&node), [Code::ClassMissing]);
    let mut foreign = class("Delete", "Immediate");
    foreign["provisioner"] = json!("other.example.com");
    node.update_object(of::<StorageClass>(&foreign));
    explained(&node, "nothing is set for driver other.example.com");
    assert_eq!(codes(&node), [Code::ControllerMissing]);
    node.update_object(of::<StorageClass>(&class("Delete", "Immediate")));
    explained(&node, &format!("driver name {NAME} not found"));
    assert_eq!(codes(&node), [Code::DriverMissing]);
    memory.plan("CreateVolume", Fault::Refusal);
    let _driver = Driver::start(host, &memory);
    explained(&node, "as the test wants it");
    run(node.ready(&uid())).unwrap();
    take_down(&node);
    delete(&node);
    host.end(node);
}

fn a_volume_for_the_first_pod_is_not_made_before_there_is_one(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Delete", "WaitForFirstConsumer"), &claim());
    node.complete();
    wait_for_driver(&node);
    assert_eq!(memory.calls(), [""; 0]);
    bring_up(&node);
    assert_eq!(memory.calls()[0], "CreateVolume");
    take_down(&node);
    delete(&node);
    host.end(node);
}

/// I-1.
fn a_volume_in_use_is_not_deleted(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    bring_up(&node);
    let changes = node.changes();
    node.remove_object(&reference());
    assert_eq!(run(node.volumes(&uid())).unwrap().len(), 1);
    assert!(!memory.calls().contains(&"DeleteVolume"));
    node.remove_pod(&uid());
    until(changes, "was deleted");
    assert_eq!(memory.calls(), all(&[&["CreateVolume"], &UP, &DOWN, &["DeleteVolume"]]));
    host.end(node);
}

fn a_volume_is_kept_if_its_class_says_so(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    let changes = node.changes();
    give(&node, &class("Retain", "Immediate"), &claim());
    node.complete();
    until(changes, "was made");
    node.remove_object(&reference());
    // The claim is back, and with it its volume.
    node.update_object(of::<PersistentVolumeClaim>(&claim()));
    bring_up(&node);
    take_down(&node);
    node.remove_object(&reference());
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    assert_eq!(memory.calls(), all(&[&["CreateVolume"], &UP, &DOWN]));
}

/// I-10.
fn a_volume_that_may_have_been_made_is_made_once(host: &Host) {
    for fault in [Fault::Refusal, Fault::DoneTooLate, Fault::NeverDone] {
        let (memory, driver) = Driver::of(host);
        let node = start(host);
        memory.plan("CreateVolume", fault);
        give(&node, &class("Delete", "Immediate"), &claim());
        node.complete();
        bring_up(&node);
        let made = memory.mounts().iter().filter(|it| it.starts_with("made")).count();
        assert_eq!((made, memory.calls()[1]), (1, "CreateVolume"), "{fault:?}");
        node.remove_pod(&uid());
        delete(&node);
        assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new(), "{fault:?}");
        host.end(node);
        drop(driver);
    }
}

/// I-10: what it is called is known only by making it once more.
fn a_volume_that_may_have_been_made_goes_with_its_claim(host: &Host) {
    for fault in [Fault::DoneTooLate, Fault::NeverDone] {
        let (memory, driver) = Driver::of(host);
        let node = start(host);
        memory.plan("CreateVolume", fault);
        let mut arrivals = memory.arrivals();
        let changes = node.changes();
        give(&node, &class("Delete", "Immediate"), &claim());
        node.complete();
        assert_eq!(arrivals.wait(), "CreateVolume");
        node.remove_object(&reference());
        until(changes, "was deleted");
        assert_eq!(memory.calls(), ["CreateVolume", "CreateVolume", "DeleteVolume"], "{fault:?}");
        assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new(), "{fault:?}");
        host.end(node);
        drop(driver);
    }
}

/// Why the pod's volume is not there.
fn codes(node: &Node) -> Vec<Code> {
    run(node.explain(&uid())).unwrap().iter().flat_map(|it| &it.reasons).map(|it| it.code).collect()
}

pub(crate) fn start(host: &Host) -> Node {
    host.controlling().start().expect("a node")
}

pub(crate) fn class(reclaim: &str, binding: &str) -> Value {
    json!({
        "metadata": {"name": "fast"}, "provisioner": NAME, "reclaimPolicy": reclaim, "volumeBindingMode": binding,
        "parameters": {"tier": "gold", "csi.storage.k8s.io/fstype": "tmpfs"},
    })
}

pub(crate) fn claim() -> Value {
    json!({
        "metadata": {"namespace": "default", "name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

pub(crate) fn reference() -> Reference {
    Reference::new(ObjectKind::Claim, "default", "claim")
}

pub(crate) fn give(node: &Node, class: &Value, claim: &Value) {
    node.update_object(of::<StorageClass>(class));
    node.update_object(of::<PersistentVolumeClaim>(claim));
}

/// Removes the claim, and waits until its volume is gone too.
pub(crate) fn delete(node: &Node) {
    let changes = node.changes();
    node.remove_object(&reference());
    until(changes, "was deleted");
}

/// Waits until something with these words is told of the claim.
pub(crate) fn until(mut changes: windlass::node::Changes, words: &str) {
    run(async {
        while let Some(change) = changes.next().await {
            if matches!(change, Change::Claim { text, .. } if text.contains(words)) {
                return;
            }
        }
        panic!("the node ended before {words:?} was told");
    });
}

/// Waits until the pod says that it waits for this.
pub(crate) fn explained(node: &Node, words: &str) {
    let mut changes = node.changes();
    run(async {
        let says = |it: &windlass::node::Explanation| it.reasons.iter().any(|it| it.text.contains(words));
        while !node.explain(&uid()).await.unwrap().iter().any(says) {
            changes.next().await;
        }
    });
}

fn wait_for_driver(node: &Node) {
    let mut changes = node.changes();
    run(async {
        while node.drivers().is_empty() {
            changes.next().await;
        }
    });
}
