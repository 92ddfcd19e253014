//! Claims, the volumes they are bound to, and who may have them.

use std::fs;

use serde_json::{Value, json};
use windlass_testing::daemon::Case;

use super::{Fault, claim, claimed, pod, put, web};

super::faults![
    a_claim_that_is_missing,
    a_claim_that_is_not_bound,
    a_claim_that_is_lost,
    a_claim_that_is_being_deleted,
    a_claim_of_a_volume_that_is_missing,
    a_volume_of_another_claim,
    a_volume_that_nobody_has_claimed,
    a_device_that_is_taken_for_a_directory,
    a_directory_that_is_taken_for_a_device,
    a_volume_of_another_node,
    a_node_that_nobody_describes,
    mount_options_that_a_volume_does_not_take,
    a_volume_for_one_pod_that_another_pod_has,
    a_claim_that_became_another_volume,
];

/// A directory of this test as a persistent volume, and its claim.
fn directory(case: &Case, more: &Value) -> [Value; 2] {
    let path = case.path("disk");
    fs::create_dir_all(&path).unwrap();
    let mut volume = json!({"local": {"path": path}, "volumeMode": "Filesystem"});
    for (field, value) in more.as_object().unwrap() {
        volume[field] = value.clone();
    }
    claimed(volume)
}

/// The objects are as the first, and then as the second, with which nothing is wrong. The pod stays the same.
fn is_corrected(case: &Case, fault: &Fault, wrong: &[&Value], right: &[&Value]) {
    put(case, "pod.yaml", &[&web(claim())]);
    put(case, "disk.yaml", wrong);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    put(case, "disk.yaml", right);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// The claim is another first.
fn claim_is_corrected(case: &Case, fault: &Fault, change: impl Fn(&mut Value)) {
    let [volume, right] = directory(case, &json!({}));
    let mut wrong = right.clone();
    change(&mut wrong);
    is_corrected(case, fault, &[&volume, &wrong], &[&volume, &right]);
}

/// The volume is another first.
fn volume_is_corrected(case: &Case, fault: &Fault, change: impl Fn(&mut Value)) {
    let [right, claim] = directory(case, &json!({}));
    let mut wrong = right.clone();
    change(&mut wrong);
    is_corrected(case, fault, &[&wrong, &claim], &[&right, &claim]);
}

fn a_claim_that_is_missing(case: &Case, fault: &Fault) {
    let [volume, claim] = directory(case, &json!({}));
    is_corrected(case, fault, &[&volume], &[&volume, &claim]);
}

fn a_claim_that_is_not_bound(case: &Case, fault: &Fault) {
    claim_is_corrected(case, fault, |it| it["status"]["phase"] = "Pending".into());
}

fn a_claim_that_is_lost(case: &Case, fault: &Fault) {
    claim_is_corrected(case, fault, |it| it["status"]["phase"] = "Lost".into());
}

fn a_claim_that_is_being_deleted(case: &Case, fault: &Fault) {
    claim_is_corrected(case, fault, |it| it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
}

fn a_claim_of_a_volume_that_is_missing(case: &Case, fault: &Fault) {
    claim_is_corrected(case, fault, |it| it["spec"]["volumeName"] = "absent".into());
}

fn a_volume_of_another_claim(case: &Case, fault: &Fault) {
    volume_is_corrected(case, fault, |it| it["spec"]["claimRef"]["uid"] = "claim-2".into());
}

fn a_volume_that_nobody_has_claimed(case: &Case, fault: &Fault) {
    volume_is_corrected(case, fault, |it| drop(it["spec"].as_object_mut().unwrap().remove("claimRef")));
}

fn a_device_that_is_taken_for_a_directory(case: &Case, fault: &Fault) {
    volume_is_corrected(case, fault, |it| it["spec"]["volumeMode"] = "Block".into());
}

fn a_directory_that_is_taken_for_a_device(case: &Case, fault: &Fault) {
    let [volume, claimed] = directory(case, &json!({}));
    let right = web(claim());
    let mut wrong = right.clone();
    wrong["spec"]["containers"][0] =
        json!({"name": "main", "volumeDevices": [{"name": "data", "devicePath": "/dev/data"}]});
    put(case, "disk.yaml", &[&volume, &claimed]);
    put(case, "pod.yaml", &[&wrong]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[&right]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn affinity(name: &str) -> Value {
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [name]});
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}})
}

fn node(label: &str) -> Value {
    let labels = json!({"kubernetes.io/hostname": label});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": labels}})
}

fn a_volume_of_another_node(case: &Case, fault: &Fault) {
    let [volume, claim] = directory(case, &affinity("elsewhere"));
    is_corrected(case, fault, &[&node("node-1"), &volume, &claim], &[&node("elsewhere"), &volume, &claim]);
}

fn a_node_that_nobody_describes(case: &Case, fault: &Fault) {
    let [volume, claim] = directory(case, &affinity("node-1"));
    is_corrected(case, fault, &[&volume, &claim], &[&node("node-1"), &volume, &claim]);
}

fn mount_options_that_a_volume_does_not_take(case: &Case, fault: &Fault) {
    let host = json!({"hostPath": {"path": case.path("")}, "volumeMode": "Filesystem"});
    let [right, claim] = claimed(host);
    let mut wrong = right.clone();
    wrong["spec"]["mountOptions"] = json!(["noexec"]);
    is_corrected(case, fault, &[&wrong, &claim], &[&right, &claim]);
}

fn a_volume_for_one_pod_that_another_pod_has(case: &Case, fault: &Fault) {
    let [volume, claimed] = directory(case, &json!({"accessModes": ["ReadWriteOncePod"]}));
    put(case, "disk.yaml", &[&volume, &claimed]);
    let mut source = claim();
    source["name"] = "data".into();
    put(case, "first.yaml", &[&pod("first", &json!([source]))]);
    let daemon = case.start_until_mounted(&["first"]);
    put(case, "pod.yaml", &[&web(claim())]);
    fault.is_named(case, "web", "data", &[]);
    case.remove_manifest("first.yaml");
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-1: the pod keeps what it has.
fn a_claim_that_became_another_volume(case: &Case, fault: &Fault) {
    let [volume, mut claimed] = directory(case, &json!({}));
    put(case, "disk.yaml", &[&volume, &claimed]);
    put(case, "pod.yaml", &[&web(claim())]);
    let daemon = case.start_until_mounted(&["web"]);
    let before = case.mounts();
    let mut other = volume;
    other["metadata"]["name"] = "other".into();
    claimed["spec"]["volumeName"] = "other".into();
    put(case, "disk.yaml", &[&other, &claimed]);
    fault.is_named(case, "web", "data", &[]);
    assert_eq!(case.mounts(), before);
    case.take_away("pod.yaml", &["web"]);
    put(case, "pod.yaml", &[&web(claim())]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}
