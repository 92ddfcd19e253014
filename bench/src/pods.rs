//! The pods that everything is measured with, and what they name. The kubelet's program makes the same ones.
//!
//! Most are of an emptyDir on the disk, one in memory, a ConfigMap and a Secret of four keys each. Where drivers are
//! measured, each has a claim instead, which is bound to a volume of the driver (`volumes.rs`).

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};

/// How many keys the ConfigMap has, and the Secret.
pub(crate) const KEYS: usize = 4;
/// The number of the first pod that is measured alone, far from those of a burst.
pub(crate) const ALONE: usize = 1_000_000;

/// The UID of a pod.
pub(crate) fn uid(index: usize) -> String {
    format!("{index:08}-0000-4000-8000-000000000000")
}

/// What is in the files: as many bytes in every round.
pub(crate) fn content(round: u32) -> String {
    if round == 0 { "v".repeat(256) } else { format!("{round:0>256}") }
}

/// A pod as a manifest. One with labels shows them in a fifth volume.
pub(crate) fn pod(index: usize, labels: Option<u32>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("pod-{index}"), "namespace": "default", "uid": uid(index)},
        "spec": {
            "containers": [{
                "name": "main",
                "volumeMounts": [
                    {"name": "disk", "mountPath": "/disk"},
                    {"name": "memory", "mountPath": "/memory"},
                    {"name": "config", "mountPath": "/config"},
                    {"name": "secret", "mountPath": "/secret"},
                ],
            }],
            "volumes": [
                {"name": "disk", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "config", "configMap": {"name": "settings", "defaultMode": 0o644}},
                {"name": "secret", "secret": {"secretName": "keys", "defaultMode": 0o644}},
            ],
        },
    });
    if let Some(round) = labels {
        pod["metadata"]["labels"] = json!({"round": round.to_string()});
        push(&mut pod["spec"]["containers"][0]["volumeMounts"], json!({"name": "labels", "mountPath": "/labels"}));
        let items = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
        push(&mut pod["spec"]["volumes"], json!({"name": "labels", "downwardAPI": {"items": items}}));
    }
    pod
}

fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    }
}

/// The ConfigMap as a manifest.
pub(crate) fn config_map(round: u32) -> Value {
    object("ConfigMap", "settings", "data", round)
}

/// The Secret as a manifest.
pub(crate) fn secret(round: u32) -> Value {
    object("Secret", "keys", "stringData", round)
}

fn object(kind: &str, name: &str, data: &str, round: u32) -> Value {
    let keys: serde_json::Map<_, _> = (0..KEYS).map(|it| (format!("key-{it}"), content(round).into())).collect();
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, data: keys})
}

/// The number of the volume that a pod has: those that are measured alone have the volumes of a burst.
pub(crate) fn volume(pod: usize) -> usize {
    pod % ALONE
}

/// A pod of one claim, as a manifest.
pub(crate) fn pod_with_claim(index: usize) -> Value {
    let claim = format!("claim-{}", volume(index));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("pod-{index}"), "namespace": "default", "uid": uid(index)},
        "spec": {
            "containers": [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

/// A pod as the crate takes it.
pub(crate) fn pod_object(index: usize, labels: Option<u32>) -> serde_json::Result<Pod> {
    serde_json::from_value(pod(index, labels))
}

/// A pod of one claim, as the crate takes it.
pub(crate) fn pod_with_claim_object(index: usize) -> serde_json::Result<Pod> {
    serde_json::from_value(pod_with_claim(index))
}

/// The ConfigMap as the crate takes it.
pub(crate) fn config_map_object(round: u32) -> serde_json::Result<ConfigMap> {
    serde_json::from_value(config_map(round))
}

/// The Secret as the crate takes it.
pub(crate) fn secret_object(round: u32) -> serde_json::Result<Secret> {
    serde_json::from_value(secret(round))
}
