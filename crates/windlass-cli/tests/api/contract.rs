//! The contract: `docs/openapi.json` is what is served, and what is served is as it says.
//!
//! The checker knows as much of JSON Schema as the document uses, and refuses what it does not know.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass::node::Code;
use windlass_api::view::{
    self, Awaited, ClaimDeletionStatus, ClaimPhase, ClaimStatus, Condition, ConditionStatus, ContainerDevice,
    ContainerMount, ContainerMounts, ContainersStatus, Counts, DriverSettings, DriverStatus, EventStatus, GivenVolume,
    List, Metadata, MissingMount, MountStatus, NodeStatus, Object, OperationStatus, PodPhase, PodStatisticsStatus,
    PodStatus, Problem, Reason, Severity, Status, Urgency, Usage, VolumeCondition, VolumeStatistics, VolumeStatus,
    VolumeUser, WatchEvent, WatchKind,
};
use windlass_api::{BASE, OPENAPI};

use super::client::Answer;
use super::with_server;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// The operation that answers at this path.
fn operation(document: &Value, path: &str) -> Value {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template
                .iter()
                .zip(&path)
                .all(|(one, other)| one == other || (one.starts_with('{') && !other.is_empty()))
    };
    let paths = document["paths"].as_object().unwrap();
    paths.iter().find(|(template, _)| fits(template)).map(|(_, it)| it["get"].clone()).unwrap_or_default()
}

/// Checks an answer to `GET path` against the document. Where nothing is, only the form of the refusal is checked.
pub(crate) fn check(path: &str, answer: &Answer) {
    let document = document();
    let operation = operation(&document, path);
    assert_eq!(answer.headers["content-type"], "application/json", "{path}");
    let response = match &operation {
        Value::Null => json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}}),
        known => resolve(&document, &known["responses"][answer.code.as_str()]),
    };
    assert!(response.is_object(), "{path}: {} is not documented", answer.code);
    conforms(&document, &response["content"]["application/json"]["schema"], &answer.json(), path);
}

fn resolve(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).expect(reference).clone(),
        None => schema.clone(),
    }
}

/// Panics if the value is not as the schema says.
fn conforms(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Err(wrong) = fits(document, schema, value, place) {
        panic!("{wrong}\n{value:#}");
    }
}

fn fits(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let schema = resolve(document, schema);
    for (word, rule) in schema.as_object().ok_or(format!("{place}: no schema"))? {
        let holds = match word.as_str() {
            "description" | "additionalProperties" => true,
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                other => return Err(format!("{place}: the checker does not know the type {other}")),
            },
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_i64() >= rule.as_i64(),
            "maximum" => value.as_i64() <= rule.as_i64(),
            "format" => rule == "date-time" && value.as_str().is_some_and(|it| it.parse::<Timestamp>().is_ok()),
            "required" => rule.as_array().unwrap().iter().all(|it| !value[it.as_str().unwrap()].is_null()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(document, rule, item, &format!("{place}[{index}]"))?;
                }
                true
            }
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(rule) => fits(document, rule, property, &format!("{place}.{name}"))?,
                        None => return Err(format!("{place}: {name} is not documented")),
                    }
                }
                true
            }
            "oneOf" => {
                rule.as_array().unwrap().iter().filter(|it| fits(document, it, value, place).is_ok()).count() == 1
            }
            other => return Err(format!("{place}: the checker does not know {other}")),
        };
        if !holds {
            return Err(format!("{place}: {word} {rule} does not hold"));
        }
    }
    Ok(())
}

/// The names of all properties of a schema and of what it refers to are in the value: nothing is documented that is not
/// there.
fn is_complete(document: &Value, schema: &Value, value: &Value, place: &str) {
    let schema = resolve(document, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let inner = value.get(name).unwrap_or_else(|| panic!("{place}.{name} is documented and not there"));
        is_complete(document, property, inner, &format!("{place}.{name}"));
    }
    if let (Some(items), Some(first)) = (schema.get("items"), value.get(0)) {
        is_complete(document, items, first, &format!("{place}[0]"));
    }
}

#[test]
fn the_document_that_is_served_is_the_one_that_is_checked_in() {
    with_server(async |case| {
        let answer = case.get("/openapi.json").await;
        assert_eq!(
            answer.text,
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json")).unwrap()
        );
    });
}

#[test]
fn the_codes_of_the_document_are_those_of_the_engine() {
    let codes: Vec<&str> = Code::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(document()["components"]["schemas"]["Code"]["enum"], json!(codes));
}

#[test]
fn the_guide_has_every_path_and_what_can_be_done_there() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    for (path, methods) in document()["paths"].as_object().unwrap() {
        // What is not below a namespace is found by its UID.
        let path = path.strip_prefix(BASE).unwrap_or(path).replacen("/pods/{name}", "/pods/{uid}", 1);
        let path = path.replace("{namespace}/pods/{uid}", "{namespace}/pods/{name}");
        for method in methods.as_object().unwrap().keys().map(|it| it.to_uppercase()) {
            let told = if method == "GET" { format!("`{path}`") } else { format!("`{method} {path}`") };
            assert!(path.is_empty() || guide.contains(&told), "{told}");
        }
    }
}

#[test]
fn what_discovery_tells_is_in_the_document() {
    let document = document();
    with_server(async move |case| {
        for resource in case.get(BASE).await.json()["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let path = match name.split_once('/') {
                Some((resource, below)) => format!("{BASE}/namespaces/a/{resource}/b/{below}"),
                None => format!("{BASE}/{name}"),
            };
            assert!(operation(&document, &path).is_object(), "{path}");
        }
    });
}

#[test]
fn objects_with_everything_in_them_are_as_the_document_says() {
    let document = document();
    let metadata = || Metadata { namespace: Some("default".into()), name: "web".into(), uid: Some("u".into()) };
    let now = Timestamp::now();
    let conditions = || {
        vec![Condition {
            kind: "VolumesMounted".into(),
            status: ConditionStatus::False,
            reason: "Failed".into(),
            message: "it failed".into(),
            last_transition_time: now,
        }]
    };
    let reasons = || {
        vec![Reason {
            code: Code::BackingOff.to_string(),
            urgency: Urgency::Trouble,
            message: "it failed".into(),
            remedy: "wait".into(),
            since: now,
            attempts: 3,
            next_try: Some(now),
            goes_at: Some(now),
            waits_on: Some(Awaited { kind: "Object".into(), name: Some("Secret default/keys".into()) }),
        }]
    };
    let mount = || MountStatus {
        pod: "web".into(),
        pod_uid: "u".into(),
        volume: "data".into(),
        unnamed: true,
        volume_id: Some("v".into()),
        plugin: Some("kubernetes.io/empty-dir".into()),
        mode: Some("Filesystem".into()),
        state: Code::BackingOff.to_string(),
        since: now,
        mounted: false,
        stale: true,
        path: Some("/pods".into()),
        reasons: reasons(),
    };
    let pod = || {
        let status = PodStatus {
            phase: PodPhase::Wanted,
            releasing: vec!["v".into()],
            first_seen: Some(now),
            conditions: conditions(),
            goes_at: Some(now),
            volumes: vec![mount()],
        };
        Object::new(metadata(), status)
    };
    let problem = Problem {
        severity: Severity::NotOurs,
        path: "/a".into(),
        line: Some(1),
        object: Some("Pod".into()),
        message: "m".into(),
    };
    let node = NodeStatus {
        version: "1".into(),
        process: 1,
        started: now,
        root: "/root".into(),
        manifests: "/manifests".into(),
        manifests_as_of: Timestamp::UNIX_EPOCH,
        rootless: true,
        mount_namespace: "mnt:[4026531841]".into(),
        conditions: conditions(),
        problems: vec![problem],
        counts: Counts::default(),
    };
    let volume = VolumeStatus {
        plugin: "kubernetes.io/empty-dir".into(),
        attached: "Absent".into(),
        staged: "Held".into(),
        size_bytes: Some(1),
        in_use: true,
        reasons: reasons(),
        pods: vec![VolumeUser {
            uid: "u".into(),
            names: vec!["data".into()],
            published: "Doing".into(),
            mounted: true,
            stale: true,
            reasons: reasons(),
        }],
    };
    let driver = DriverStatus {
        unreachable_since: Some(now),
        refused: vec!["/run/driver/csi.sock is served by another".into()],
        registered: true,
        since: Some(now),
        endpoint: Some("/run/driver/csi.sock".into()),
        node_id: Some("node-1".into()),
        volumes_max: Some(8),
        topology: [("zone".to_owned(), "a".to_owned())].into(),
        capabilities: vec!["GET_VOLUME_STATS".into()],
        operations_under_way: 3,
        operations_waiting: 1,
        calls_at_once: 3,
        calls_at_once_max: 4,
        settings: Some(DriverSettings {
            controller: Some("/run/driver/controller.sock".into()),
            timeout_milliseconds: Some(30_000),
            calls_at_once: Some(4),
        }),
        volumes: vec!["kubernetes.io/csi/driver^1".into()],
    };
    let claim = ClaimStatus {
        phase: ClaimPhase::DeletePending,
        since: now,
        volume: Some("pvc-1".into()),
        volume_id: Some("kubernetes.io/csi/driver^1".into()),
        volume_handle: Some("1".into()),
        driver: Some("driver".into()),
        storage_class: Some("disks".into()),
        reclaim_policy: Some("Delete".into()),
        access_modes: vec!["ReadWriteOnce".into()],
        volume_mode: Some("Filesystem".into()),
        requested_bytes: Some(2),
        capacity_bytes: Some(1),
        gone_since: Some(now),
        delete_at: Some(now),
        pods: vec!["web".into()],
        reasons: reasons(),
    };
    let deletion = ClaimDeletionStatus { outcome: "Deleting".into(), volume: Some("pvc-1".into()) };
    let operation = OperationStatus {
        operation: "publish".into(),
        volume_id: "v".into(),
        pod_uid: Some("u".into()),
        since: now,
        hung: false,
        queued_behind: Some(3),
    };
    let event = EventStatus {
        tone: "Warning".into(),
        reason: "FailedMount".into(),
        message: "it failed".into(),
        pod: "web".into(),
        pod_uid: "u".into(),
        claim: Some("data".into()),
        count: 1,
        first_time: now,
        last_time: now,
    };
    let (volume_name, host_path, container_path) = ("data".to_owned(), "/a".to_owned(), "/b".to_owned());
    let container = ContainerMounts {
        name: "main".into(),
        mounts: vec![ContainerMount {
            volume: volume_name.clone(),
            host_path: host_path.clone(),
            container_path: container_path.clone(),
            read_only: true,
            recursive_read_only: true,
            propagation: "Bidirectional".into(),
            relabel: true,
        }],
        devices: vec![ContainerDevice {
            volume: volume_name.clone(),
            host_path,
            container_path: container_path.clone(),
            permissions: "rwm".into(),
        }],
        missing: vec![MissingMount { volume: volume_name, container_path, message: "why".into() }],
    };
    let given = GivenVolume {
        name: "data".into(),
        path: Some("/var/lib/windlass/pods/1/volumes/x/data".into()),
        mode: "Filesystem".into(),
        read_only: false,
        managed: true,
        relabel: true,
    };
    let containers = ContainersStatus { containers: vec![container], groups: vec![1], volumes: vec![given] };
    let usage = Some(Usage { total: Some(3), available: Some(2), used: 1 });
    let measured = VolumeStatistics {
        volume: "data".into(),
        volume_id: Some("v".into()),
        plugin: Some("kubernetes.io/csi".into()),
        bytes: usage,
        inodes: usage,
        condition: Some(VolumeCondition { abnormal: true, message: "it is worn out".into() }),
        error: Some("it does not answer".into()),
    };
    let statistics = PodStatisticsStatus { volumes: vec![measured] };
    let examples: [(&str, Value); 13] = [
        ("Node", json!(Object::new(metadata(), node))),
        ("Pod", json!(pod())),
        ("PodList", json!(List::new(vec![pod()]))),
        ("Mount", json!(view::mounts(&pod())[0])),
        ("Volume", json!(Object::new(metadata(), volume))),
        ("Driver", json!(Object::new(metadata(), driver))),
        ("Claim", json!(Object::new(metadata(), claim))),
        ("ClaimDeletion", json!(Object::new(metadata(), deletion))),
        ("Operation", json!(Object::new(metadata(), operation))),
        ("Event", json!(Object::new(metadata(), event))),
        ("Containers", json!(Object::new(metadata(), containers))),
        ("PodStatistics", json!(Object::new(metadata(), statistics))),
        ("Status", json!(Status::not_found("nothing"))),
    ];
    for (kind, value) in &examples {
        let schema = json!({"$ref": format!("#/components/schemas/{kind}")});
        conforms(&document, &schema, value, kind);
        is_complete(&document, &schema, value, kind);
    }
    let step = json!({"$ref": "#/components/schemas/PodWatchEvent"});
    conforms(&document, &step, &json!(WatchEvent { kind: WatchKind::Deleted, object: Some(pod()) }), "watch");
    conforms(&document, &step, &json!(WatchEvent::<view::Pod> { kind: WatchKind::Bookmark, object: None }), "watch");
}

/// A step of a watch is as the document says.
pub(crate) fn check_step(kind: &str, step: &Value) {
    conforms(&document(), &json!({"$ref": format!("#/components/schemas/{kind}WatchEvent")}), step, kind);
}
