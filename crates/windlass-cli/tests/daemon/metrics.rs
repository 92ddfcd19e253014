//! What is counted: by a daemon whose pods come, change, fail and go, and by the kubelet's own volume manager with the same
//! pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_testing::daemon::Case;
use windlass_testing::disk::loop_devices;
use windlass_testing::process::program;
use windlass_testing::wait::{PATIENCE, until};

use super::csi::{CLASS, DRIVER, can_run, start_controlling_daemon, start_driver};
use super::tests;

tests![
    what_pods_do_is_counted_and_nothing_is_left_when_they_are_gone,
    metrics_are_served_on_a_loopback_port_and_nothing_else_is,
    what_drivers_do_is_counted_and_how_full_claims_are,
    promtool_finds_nothing_wrong("promtool"),
    the_kubelet_counts_the_same,
];

/// One scrape: values by name and labels, and what is said of each name.
#[derive(Debug, Default)]
struct Scrape {
    values: BTreeMap<(String, BTreeMap<String, String>), f64>,
    types: BTreeMap<String, String>,
}

impl Scrape {
    fn read(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            if let Some(about) = line.strip_prefix("# TYPE ") {
                let (name, kind) = about.split_once(' ').unwrap();
                scrape.types.insert(name.into(), kind.into());
            }
            if line.starts_with('#') {
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            // None of these values has a comma or a quotation mark in it.
            let labels = labels.trim_end_matches('}').split(',').filter(|it| !it.is_empty());
            let labels = labels.map(|it| it.split_once('=').unwrap());
            let labels = labels.map(|(label, value)| (label.to_owned(), value.trim_matches('"').to_owned())).collect();
            let before = scrape.values.insert((name.into(), labels), value.parse().unwrap());
            assert!(before.is_none(), "twice the same: {line}");
        }
        scrape
    }

    /// The one value of this name whose labels have these values, in any order; 0 if there is none.
    fn value(&self, name: &str, labels: &[&str]) -> f64 {
        let has = |of: &BTreeMap<String, String>| labels.iter().all(|it| of.values().any(|value| value == it));
        let mut values = self.values.iter().filter(|((it, of), _)| it == name && has(of)).map(|(_, value)| *value);
        let value = values.next().unwrap_or(0.0);
        assert_eq!(values.next(), None, "{name} {labels:?} is not the only one");
        value
    }

    /// All values of this name, by their labels.
    fn all(&self, name: &str) -> BTreeMap<&BTreeMap<String, String>, f64> {
        self.values.iter().filter(|((it, _), _)| it == name).map(|((_, labels), value)| (labels, *value)).collect()
    }

    /// What the labels of this family are called, without the bound of a bucket.
    fn labels(&self, family: &str) -> BTreeSet<&str> {
        let of_family = |name: &str| name.strip_prefix(family).is_some_and(|it| ["", "_count"].contains(&it));
        let labels = self.values.keys().filter(|(name, _)| of_family(name)).flat_map(|(_, labels)| labels.keys());
        labels.map(String::as_str).collect()
    }

    /// The bounds of the buckets of this histogram.
    fn bounds(&self, family: &str) -> BTreeSet<u64> {
        let buckets = self.values.keys().filter(|(name, _)| *name == format!("{family}_bucket"));
        let bounds = buckets.map(|(_, labels)| labels["le"].parse::<f64>().unwrap());
        bounds.filter(|it| it.is_finite()).map(|it| (it * 10_000.0).round() as u64).collect()
    }
}

/// What is answered at this path, head and all.
fn get(mut stream: impl Read + Write, path: &str) -> (String, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: windlass\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.into(), body.into())
}

fn text(case: &Case) -> String {
    let (head, body) = get(UnixStream::connect(case.path("run/api.sock")).unwrap(), "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    body
}

fn scrape(case: &Case) -> Scrape {
    Scrape::read(&text(case))
}

/// Scrapes until it is so: nothing tells when a number changes, and each scrape waits for its answer.
fn until_scraped(case: &Case, is_so: impl Fn(&Scrape) -> bool) -> Scrape {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let scraped = scrape(case);
        if is_so(&scraped) {
            return scraped;
        }
        assert!(Instant::now() < deadline, "after {PATIENCE:?} it is still not so: {scraped:#?}");
    }
}

fn config_map(value: &str) -> Value {
    let metadata = json!({"name": "settings", "namespace": "default"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"color": value}})
}

/// A pod with these volumes.
fn pod(name: &str, volumes: &[Value]) -> Value {
    let mount = |it: &Value| json!({"name": it["name"], "mountPath": format!("/{}", it["name"].as_str().unwrap())});
    let mounts: Vec<Value> = volumes.iter().map(mount).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("{name}-1")},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
    })
}

fn settings(name: &str) -> Value {
    json!({"name": "settings", "configMap": {"name": name, "defaultMode": 420}})
}

const EMPTY_DIR: &str = "kubernetes.io/empty-dir";
const CONFIG_MAP: &str = "kubernetes.io/configmap";
const OPERATIONS: &str = "storage_operation_duration_seconds_count";

fn what_pods_do_is_counted_and_nothing_is_left_when_they_are_gone(case: &Case) {
    case.manifest("settings.json", &config_map("blue").to_string());
    let scratch = json!({"name": "scratch", "emptyDir": {}});
    case.manifest("web.json", &pod("web", &[scratch, settings("settings")]).to_string());
    let daemon = case.start_until_mounted(&["web"]);
    let up = scrape(case);
    for plugin in [EMPTY_DIR, CONFIG_MAP] {
        for state in ["actual_state_of_world", "desired_state_of_world"] {
            assert_eq!(up.value("volume_manager_total_volumes", &[plugin, state]), 1.0, "{plugin} {state}");
        }
        assert_eq!(up.value(OPERATIONS, &[plugin, "volume_mount", "success"]), 1.0);
        assert_eq!(up.value("volume_operation_total_seconds_count", &[plugin]), 1.0);
        assert_eq!(up.value("windlass_operation_duration_seconds_count", &["publish", plugin, "done"]), 1.0);
    }
    assert_eq!(up.value("windlass_volumes", &["Settled"]), 2.0);
    assert_eq!(up.value("windlass_operation_queued_seconds_count", &["publish"]), 2.0);
    assert_eq!(up.value("reconstruct_volume_operations_total", &[]), 0.0);

    // It changes.
    case.manifest("settings.json", &config_map("green").to_string());
    let shown = case.volume("web-1", "configmap", "settings").join("color");
    until("the new value", &shown, || fs::read_to_string(&shown).is_ok_and(|it| it == "green"));
    case.until_mount("web", "settings", |it| it["state"] == "Mounted");
    assert_eq!(scrape(case).value(OPERATIONS, &[CONFIG_MAP, "volume_mount", "success"]), 2.0);

    // Another fails.
    case.manifest("late.json", &pod("late", &[settings("missing")]).to_string());
    let failed = case.until_reason("late", "settings", |it| it["code"] == "ObjectMissing");
    assert_eq!(failed["reasons"][0]["urgency"], "Trouble", "{failed:#}");
    // While it is tried again it is no trouble, for a moment.
    let failing = until_scraped(case, |it| it.value("windlass_volumes", &["Trouble"]) == 1.0);
    assert!(failing.value(OPERATIONS, &[CONFIG_MAP, "volume_mount", "fail-unknown"]) >= 1.0);
    assert_eq!(failing.value("volume_manager_total_volumes", &[CONFIG_MAP, "actual_state_of_world"]), 1.0);
    assert_eq!(failing.value("volume_manager_total_volumes", &[CONFIG_MAP, "desired_state_of_world"]), 2.0);

    // A daemon that comes after this one finds what is there.
    daemon.stop();
    let daemon = case.start_until_mounted(&["web"]);
    let found = scrape(case);
    assert_eq!(found.value("reconstruct_volume_operations_total", &[]), 2.0);
    assert_eq!(found.value("reconstruct_volume_operations_errors_total", &[]), 0.0);
    assert_eq!(found.value(OPERATIONS, &["volume_mount", "success", CONFIG_MAP]), 0.0, "nothing is made again");
    assert_eq!(found.value("volume_manager_total_volumes", &[EMPTY_DIR, "actual_state_of_world"]), 1.0);

    // All go.
    case.remove_manifest("late.json");
    case.take_away("web.json", &["web", "late"]);
    let gone = scrape(case);
    assert_eq!(gone.all("volume_manager_total_volumes"), BTreeMap::new());
    for urgency in ["Settled", "Working", "Waiting", "Trouble"] {
        assert_eq!(gone.value("windlass_volumes", &[urgency]), 0.0, "{urgency}");
    }
    assert_eq!(gone.value("kubelet_orphan_pod_cleaned_volumes", &[]), 0.0);
    assert_eq!(gone.value(OPERATIONS, &[EMPTY_DIR, "volume_unmount", "success"]), 1.0);
    assert!(gone.value("windlass_messages_total", &["operations ended"]) >= 2.0);
    daemon.stop();
}

fn metrics_are_served_on_a_loopback_port_and_nothing_else_is(case: &Case) {
    let mut command = case.run();
    command.args(["--metrics-address", "127.0.0.1:0"]);
    let daemon = case.start_as(command);
    daemon.until_logged("metrics are served at ");
    let log = daemon.log();
    let address = log.split("metrics are served at ").nth(1).unwrap().split_whitespace().next().unwrap();
    let (head, body) = get(TcpStream::connect(address).unwrap(), "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(Scrape::read(&body).types.contains_key("windlass_volumes"), "{body}");
    let (head, body) = get(TcpStream::connect(address).unwrap(), "/apis/windlass/v1alpha1/pods");
    assert!(head.starts_with("HTTP/1.1 404") && body.contains("only /metrics"), "{head}\n{body}");
    daemon.stop();
    let output = case.run().args(["--metrics-address", "0.0.0.0:9750"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("must be a loopback address, such as 127.0.0.1:9750"), "{said}");
}

fn what_drivers_do_is_counted_and_how_full_claims_are(case: &Case) {
    if !can_run("metrics of a driver") {
        return;
    }
    let driver = start_driver(case);
    let daemon = start_controlling_daemon(case, "0");
    let claim = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: disks, accessModes: [ReadWriteOnce], resources: {requests: {storage: 320Mi}}}
";
    case.manifest("class.yaml", CLASS);
    case.manifest("claim.yaml", claim);
    let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    case.manifest("web.json", &pod("web", &[volume]).to_string());
    case.wait_mounted(&["web"]);
    let plugin = format!("kubernetes.io/csi:{DRIVER}");
    let up = scrape(case);
    for state in ["actual_state_of_world", "desired_state_of_world"] {
        assert_eq!(up.value("volume_manager_total_volumes", &[&plugin, state]), 1.0, "{state}");
        let socket = case.sockets().join("registry").join(windlass_csi::registration_socket(DRIVER));
        assert_eq!(up.value("plugin_manager_total_plugins", &[&socket.display().to_string(), state]), 1.0, "{state}");
    }
    for (operation, count) in [("volume_attach", 1.0), ("volume_mount", 1.0), ("unmount_device", 0.0)] {
        assert_eq!(up.value(OPERATIONS, &[&plugin, operation, "success"]), count, "{operation}");
    }
    for method in ["/csi.v1.Node/NodeGetInfo", "/csi.v1.Node/NodeStageVolume", "/csi.v1.Node/NodePublishVolume"] {
        assert_eq!(up.value("csi_operations_seconds_count", &[DRIVER, method, "OK", "false"]), 1.0, "{method}");
    }
    // The first scrape has asked.
    let full = until_scraped(case, |it| it.value("kubelet_volume_stats_capacity_bytes", &["default", "data"]) > 0.0);
    assert!(full.value("kubelet_volume_stats_available_bytes", &["data"]) > 0.0);
    assert!(full.value("kubelet_volume_stats_inodes", &["data"]) > 0.0);
    let source = "kubelet_volume_metric_collection_duration_seconds_count";
    assert_eq!(full.value(source, &[DRIVER]), 1.0, "once in a minute, however often somebody scrapes");

    case.take_away("web.json", &["web"]);
    let gone = until_scraped(case, |it| it.value(OPERATIONS, &[&plugin, "volume_detach", "success"]) == 1.0);
    for operation in ["volume_unmount", "unmount_device"] {
        assert_eq!(gone.value(OPERATIONS, &[&plugin, operation, "success"]), 1.0, "{operation}");
    }
    case.remove_manifest("claim.yaml");
    let delete = "/csi.v1.Controller/DeleteVolume";
    until_scraped(case, |it| it.value("csi_operations_seconds_count", &[delete, "OK"]) == 1.0);
    daemon.stop();
    drop(driver);
    assert_eq!(loop_devices(&case.path("state")), Vec::<PathBuf>::new());
}

fn promtool_finds_nothing_wrong(case: &Case) {
    case.manifest("settings.json", &config_map("blue").to_string());
    case.manifest("web.json", &pod("web", &[settings("settings")]).to_string());
    case.manifest("late.json", &pod("late", &[settings("missing")]).to_string());
    let daemon = case.start_until_mounted(&["web"]);
    fs::write(case.path("scrape"), text(case)).unwrap();
    let scraped = fs::File::open(case.path("scrape")).unwrap();
    let output = program("promtool").args(["check", "metrics"]).stdin(Stdio::from(scraped)).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    daemon.stop();
}

/// What the kubelet counts and windlass does not, each of them in docs/kubelet-parity.md: looking whether volumes are
/// attached, which windlass is told.
const NOT_DONE: &str = "verify_controller_attached_volume";

fn the_kubelet_counts_the_same(case: &Case) {
    let Some(kubelet) = std::env::var_os("WINDLASS_KUBELET") else {
        eprintln!(
            "WINDLASS_KUBELET does not name the kubelet of bench/: skipped the comparison of metrics (make metrics)"
        );
        return;
    };
    let labels = json!([{"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]);
    let secret = json!({"name": "keys", "namespace": "default"});
    let objects = [
        config_map("blue"),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": {"password": "aHVudGVyMg=="}}),
        pod(
            "web",
            &[
                json!({"name": "disk", "emptyDir": {}}),
                json!({"name": "memory", "emptyDir": {"medium": "Memory"}}),
                json!({"name": "host", "hostPath": {"path": "/tmp", "type": ""}}),
                json!({"name": "keys", "secret": {"secretName": "keys", "defaultMode": 420}}),
                json!({"name": "labels", "downwardAPI": {"items": labels, "defaultMode": 420}}),
                settings("settings"),
            ],
        ),
        pod("shop", &[settings("settings"), json!({"name": "disk", "emptyDir": {}})]),
    ];
    for (index, object) in objects.iter().enumerate() {
        case.manifest(&format!("{index}.json"), &object.to_string());
    }
    let daemon = case.start_until_mounted(&["web", "shop"]);
    let up = scrape(case);
    case.remove_manifest("2.json");
    case.take_away("3.json", &["web", "shop"]);
    let down = scrape(case);
    daemon.stop();

    let lines: Vec<String> = objects.iter().map(Value::to_string).collect();
    fs::write(case.path("objects"), lines.join("\n")).unwrap();
    let mut command = program(kubelet);
    command.arg("--root").arg(case.path("kubelet")).arg("--scrape").arg(case.path("objects"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kubelet: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kubelet = |when: &str| Scrape::read(kubelet[when].as_str().unwrap());
    compare(&up, &kubelet("up"));
    compare(&down, &kubelet("down"));
}

/// Names, types, labels, and the numbers that do not depend on how long something took.
fn compare(ours: &Scrape, kubelet: &Scrape) {
    // What every program of Kubernetes counts of itself.
    let of_itself = |name: &str| {
        ["apiserver_", "registered_", "disabled_", "hidden_", "cardinality_"].iter().any(|it| name.starts_with(it))
    };
    let mut compared = 0;
    for (family, kind) in kubelet.types.iter().filter(|(name, _)| !of_itself(name)) {
        assert_eq!(ours.types.get(family), Some(kind), "the type of {family}");
        assert_eq!(ours.labels(family), kubelet.labels(family), "the labels of {family}");
        let value = if kind == "histogram" { format!("{family}_count") } else { family.clone() };
        let mut expected = kubelet.all(&value);
        expected.retain(|labels, _| labels.get("operation_name").is_none_or(|it| it != NOT_DONE));
        assert_eq!(ours.all(&value), expected, "{value}");
        assert!(kubelet.bounds(family).is_subset(&ours.bounds(family)), "the buckets of {family}");
        compared += 1;
    }
    assert!(compared >= 8, "only {compared} are compared: {:?}", kubelet.types);
}
