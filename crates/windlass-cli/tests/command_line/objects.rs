//! Objects as a daemon shows them. Everything happened two days ago, so that ages are the same however slow a test is.

use jiff::{SignedDuration, Timestamp};
use windlass_api::view::*;

pub(crate) fn two_days_ago() -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(48) - SignedDuration::from_mins(20)
}

pub(crate) fn in_two_days() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(48) + SignedDuration::from_mins(20)
}

pub(crate) fn reason(code: &str, message: &str) -> Reason {
    Reason {
        code: code.into(),
        urgency: Urgency::Trouble,
        message: message.into(),
        remedy: format!("Do something about {code}."),
        since: two_days_ago(),
        attempts: 0,
        next_try: None,
        goes_at: None,
        waits_on: None,
    }
}

/// A volume of the pod `web`, mounted.
pub(crate) fn mounted(volume: &str, plugin: &str) -> MountStatus {
    MountStatus {
        pod: "web".into(),
        pod_uid: "uid-web".into(),
        volume: volume.into(),
        unnamed: false,
        volume_id: Some(format!("kubernetes.io/{plugin}/uid-web-{volume}")),
        plugin: Some(format!("kubernetes.io/{plugin}")),
        mode: Some("Filesystem".into()),
        state: "Mounted".into(),
        since: two_days_ago(),
        mounted: true,
        stale: false,
        path: Some(format!("/var/lib/windlass/pods/uid-web/volumes/kubernetes.io~{plugin}/{volume}")),
        reasons: Vec::new(),
    }
}

/// One that is not, because an object is missing.
pub(crate) fn stuck(volume: &str) -> MountStatus {
    let waits_on = Some(Awaited { kind: "Object".into(), name: Some("ConfigMap default/settings".into()) });
    MountStatus {
        state: "BackingOff".into(),
        mounted: false,
        path: None,
        reasons: vec![
            Reason { attempts: 4, next_try: Some(in_two_days()), ..reason("BackingOff", "publish failed") },
            Reason { waits_on, ..reason("ObjectMissing", "configmap \"settings\" not found") },
        ],
        ..mounted(volume, "configmap")
    }
}

pub(crate) fn pod(namespace: &str, name: &str, phase: PodPhase, volumes: Vec<MountStatus>) -> Pod {
    let uid = format!("uid-{name}");
    let volumes: Vec<_> =
        volumes.into_iter().map(|it| MountStatus { pod: name.into(), pod_uid: uid.clone(), ..it }).collect();
    let stuck = volumes.iter().find(|it| !it.mounted);
    let deepest = stuck.and_then(|it| it.reasons.last());
    let ready = phase == PodPhase::Wanted && stuck.is_none();
    let condition = Condition {
        kind: "VolumesMounted".into(),
        status: ready.into(),
        reason: deepest.map_or(if ready { "Mounted" } else { "Idle" }, |it| it.code.as_str()).into(),
        message: deepest.map_or("", |it| it.message.as_str()).into(),
        last_transition_time: two_days_ago(),
    };
    let metadata = Metadata { namespace: Some(namespace.into()), name: name.into(), uid: Some(uid) };
    let stale = volumes.iter().find(|it| it.stale);
    let why = stale.and_then(|it| it.reasons.last());
    let current = Condition {
        kind: "VolumesCurrent".into(),
        status: stale.is_none().into(),
        reason: why.map_or("Current", |it| it.code.as_str()).into(),
        message: why.map_or("", |it| it.message.as_str()).into(),
        last_transition_time: two_days_ago(),
    };
    let status = PodStatus {
        phase,
        releasing: Vec::new(),
        first_seen: Some(two_days_ago()),
        conditions: vec![condition, current],
        goes_at: None,
        volumes,
    };
    Object::new(metadata, status)
}

/// With all its volumes.
pub(crate) fn web() -> Pod {
    pod("default", "web", PodPhase::Wanted, vec![mounted("data", "empty-dir"), mounted("settings", "configmap")])
}

/// With one of them missing.
pub(crate) fn stuck_web() -> Pod {
    pod("default", "web", PodPhase::Wanted, vec![mounted("data", "empty-dir"), stuck("settings")])
}

/// One that is mounted, and cannot be brought up to date.
pub(crate) fn stale(volume: &str) -> MountStatus {
    MountStatus { mounted: true, stale: true, path: mounted(volume, "configmap").path, ..stuck(volume) }
}

/// With all its volumes, one of them stale.
pub(crate) fn stale_web() -> Pod {
    pod("default", "web", PodPhase::Wanted, vec![mounted("data", "empty-dir"), stale("settings")])
}

pub(crate) fn db() -> Pod {
    pod("shop", "db", PodPhase::Leaving, vec![mounted("disk", "local-volume")])
}

pub(crate) fn volume() -> Volume {
    let metadata = Metadata { name: "kubernetes.io/local-volume/disk".into(), ..Metadata::default() };
    let user = VolumeUser {
        uid: "uid-db".into(),
        names: vec!["disk".into()],
        published: "Held".into(),
        mounted: true,
        stale: false,
        reasons: Vec::new(),
    };
    let status = VolumeStatus {
        plugin: "kubernetes.io/local-volume".into(),
        attached: "NotNeeded".into(),
        staged: "Held".into(),
        size_bytes: Some(10 << 30),
        in_use: true,
        reasons: Vec::new(),
        pods: vec![user],
    };
    Object::new(metadata, status)
}

/// A driver that makes and attaches volumes by its controller service.
pub(crate) fn driver() -> Driver {
    let settings = DriverSettings {
        controller: Some("/run/disks/csi.sock".into()),
        timeout_milliseconds: Some(90_000),
        calls_at_once: Some(4),
    };
    let status = DriverStatus {
        unreachable_since: None,
        refused: Vec::new(),
        registered: true,
        since: Some(two_days_ago()),
        endpoint: Some("/run/disks/csi.sock".into()),
        node_id: Some("node-1".into()),
        volumes_max: Some(8),
        topology: [("zone".to_owned(), "a".to_owned())].into(),
        capabilities: vec!["STAGE_UNSTAGE_VOLUME".into(), "EXPAND_VOLUME".into()],
        operations_under_way: 4,
        operations_waiting: 2,
        calls_at_once: 3,
        calls_at_once_max: 4,
        settings: Some(settings),
        volumes: vec!["kubernetes.io/csi/disks.example.com^1".into()],
    };
    Object::new(Metadata { name: "disks.example.com".into(), ..Metadata::default() }, status)
}

/// One that a volume waits for, and nothing is set for.
pub(crate) fn missing_driver() -> Driver {
    let status = DriverStatus {
        unreachable_since: None,
        refused: Vec::new(),
        registered: false,
        since: None,
        endpoint: None,
        node_id: None,
        volumes_max: None,
        topology: [].into(),
        capabilities: Vec::new(),
        operations_under_way: 0,
        operations_waiting: 0,
        calls_at_once: 0,
        calls_at_once_max: 0,
        settings: None,
        volumes: vec!["kubernetes.io/csi/away.example.com^1".into()],
    };
    Object::new(Metadata { name: "away.example.com".into(), ..Metadata::default() }, status)
}

pub(crate) fn operation() -> Operation {
    let status = OperationStatus {
        operation: "publish".into(),
        volume_id: "kubernetes.io/local-volume/disk".into(),
        pod_uid: Some("uid-db".into()),
        since: two_days_ago(),
        hung: true,
        queued_behind: None,
    };
    Object::new(Metadata { name: "7".into(), ..Metadata::default() }, status)
}

pub(crate) fn event(count: u64) -> Event {
    let metadata = Metadata { namespace: Some("default".into()), name: "web.1".into(), uid: None };
    let status = EventStatus {
        tone: "Warning".into(),
        reason: "FailedMount".into(),
        message: "MountVolume.SetUp failed for volume \"settings\"".into(),
        pod: "web".into(),
        pod_uid: "uid-web".into(),
        claim: None,
        count,
        first_time: two_days_ago(),
        last_time: two_days_ago(),
    };
    Object::new(metadata, status)
}

pub(crate) fn node() -> Node {
    let condition = |kind: &str, status: bool, reason: &str, message: &str| Condition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        last_transition_time: two_days_ago(),
    };
    let problem = |path: &str, line, object: Option<&str>, message: &str| Problem {
        severity: Severity::Error,
        path: path.into(),
        line,
        object: object.map(Into::into),
        message: message.into(),
    };
    let status = NodeStatus {
        version: "9.9.9".into(),
        process: 42,
        started: two_days_ago(),
        root: "/var/lib/windlass".into(),
        manifests: "/etc/windlass/manifests".into(),
        manifests_as_of: jiff::Timestamp::UNIX_EPOCH,
        rootless: false,
        mount_namespace: String::new(),
        conditions: vec![
            condition("Synced", true, "DiskRead", "What was on disk at the start is known."),
            condition("SourceComplete", true, "AllRead", "Every manifest has been read once."),
            condition("ManifestsValid", false, "Invalid", "2 problems keep manifests from being in force."),
        ],
        problems: vec![
            problem("/etc/windlass/manifests/shop.yaml", Some(7), Some("Pod default/shop"), "spec.volumes[0]: no name"),
            problem("/etc/windlass/manifests/torn.yaml", Some(3), None, "this is no YAML"),
        ],
        counts: Counts { pods: 2, ready_pods: 1, volumes: 3, operations: 1, hung_operations: 1, threads: 4 },
    };
    Object::new(Metadata { name: "node-1".into(), ..Metadata::default() }, status)
}
