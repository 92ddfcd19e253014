//! What volumes show: config maps, secrets, and what pods know of themselves.

use serde_json::{Value, json};
use windlass_testing::daemon::Case;

use super::{Fault, put, settings, web};

super::faults![
    a_config_map_that_is_missing,
    a_secret_that_is_missing,
    a_key_that_a_config_map_lacks,
    a_key_that_a_secret_lacks,
    a_source_of_a_projected_volume_that_is_missing,
    a_key_that_cannot_be_a_file,
    an_item_path_that_leads_out_of_its_volume,
    a_mode_that_is_none,
    a_field_that_files_cannot_show,
    a_resource_of_a_container_that_is_missing,
];

/// The pod is there, and then what it lacks; its volume comes at once.
fn is_made_good(case: &Case, fault: &Fault, pod: &Value, names: &[&str], missing: &Value) {
    put(case, "pod.yaml", &[pod]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", names);
    put(case, "missing.yaml", &[missing]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// The pod is as the first, and then as the second, with which nothing is wrong.
fn is_corrected(case: &Case, fault: &Fault, wrong: &Value, right: &Value) {
    put(case, "pod.yaml", &[wrong]);
    put(case, "settings.yaml", &[&settings(&json!({"color": "blue"}))]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[right]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn secret(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": data})
}

fn a_config_map_that_is_missing(case: &Case, fault: &Fault) {
    let pod = web(json!({"configMap": {"name": "settings"}}));
    is_made_good(case, fault, &pod, &["settings"], &settings(&json!({"color": "blue"})));
}

fn a_secret_that_is_missing(case: &Case, fault: &Fault) {
    let pod = web(json!({"secret": {"secretName": "keys"}}));
    is_made_good(case, fault, &pod, &["keys"], &secret(&json!({"password": "hunter2"})));
}

fn a_key_that_a_config_map_lacks(case: &Case, fault: &Fault) {
    let items = json!([{"key": "color", "path": "color"}]);
    put(case, "missing.yaml", &[&settings(&json!({"size": "large"}))]);
    let pod = web(json!({"configMap": {"name": "settings", "items": items}}));
    is_made_good(case, fault, &pod, &["color", "settings"], &settings(&json!({"color": "blue"})));
}

/// I-12: what is named is the key, and never what is in the others.
fn a_key_that_a_secret_lacks(case: &Case, fault: &Fault) {
    let items = json!([{"key": "token", "path": "token"}]);
    put(case, "missing.yaml", &[&secret(&json!({"password": "hunter2"}))]);
    put(case, "pod.yaml", &[&web(json!({"secret": {"secretName": "keys", "items": items}}))]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &["token", "keys"]);
    let told = case.ask(&["explain", "web"]) + &case.ask(&["events", "-o", "json"]) + &daemon.log();
    assert!(!told.contains("hunter2"), "{told}");
    put(case, "missing.yaml", &[&secret(&json!({"token": "hunter3"}))]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_source_of_a_projected_volume_that_is_missing(case: &Case, fault: &Fault) {
    let sources = json!([
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"configMap": {"name": "settings"}},
        {"secret": {"name": "optional", "optional": true}},
    ]);
    let pod = web(json!({"projected": {"sources": sources}}));
    is_made_good(case, fault, &pod, &["settings"], &settings(&json!({"color": "blue"})));
}

fn a_key_that_cannot_be_a_file(case: &Case, fault: &Fault) {
    put(case, "missing.yaml", &[&settings(&json!({"color/dark": "blue"}))]);
    let pod = web(json!({"configMap": {"name": "settings"}}));
    is_made_good(case, fault, &pod, &["settings"], &settings(&json!({"color": "blue"})));
}

fn an_item_path_that_leads_out_of_its_volume(case: &Case, fault: &Fault) {
    let with = |path: &str| web(json!({"configMap": {"name": "settings", "items": [{"key": "color", "path": path}]}}));
    is_corrected(case, fault, &with("../color"), &with("colors/color"));
}

fn a_mode_that_is_none(case: &Case, fault: &Fault) {
    let with = |mode: u32| web(json!({"configMap": {"name": "settings", "defaultMode": mode}}));
    is_corrected(case, fault, &with(0o4755), &with(0o755));
}

fn a_field_that_files_cannot_show(case: &Case, fault: &Fault) {
    let with =
        |field: &str| web(json!({"downwardAPI": {"items": [{"path": "file", "fieldRef": {"fieldPath": field}}]}}));
    is_corrected(case, fault, &with("spec.volumes"), &with("metadata.name"));
}

fn a_resource_of_a_container_that_is_missing(case: &Case, fault: &Fault) {
    let with = |container: &str| {
        let of = json!({"containerName": container, "resource": "limits.memory"});
        let mut pod = web(json!({"downwardAPI": {"items": [{"path": "file", "resourceFieldRef": of}]}}));
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "64Mi"}});
        pod
    };
    is_corrected(case, fault, &with("sidecar"), &with("main"));
}
