//! What is shown and logged is true: times, stale content, what is in use, failures once each.

use std::fs;
use std::os::linux::fs::MetadataExt;

use serde_json::Value;
use windlass_testing::daemon::Case;
use windlass_testing::wait::until;

use crate::tests;

tests![
    the_age_of_a_pod_is_since_it_was_first_known_whatever_changes_and_restarts,
    content_that_cannot_be_brought_up_to_date_is_stale_wherever_it_is_shown,
    a_claim_that_cannot_be_looked_up_is_logged_once_again_when_it_changes_and_when_it_is_over,
    a_volume_that_cannot_be_looked_up_after_a_restart_counts_once,
    a_mount_that_fails_is_logged_once_however_often_it_is_tried,
];

const SETTINGS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: blue}}";

const WEB: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-1}
spec:
  containers: [{name: main, volumeMounts: [{name: settings, mountPath: /settings}, {name: data, mountPath: /data}]}]
  volumes: [{name: settings, configMap: {name: settings}}, {name: data, emptyDir: {}}]
";

/// The pod as it is shown.
fn web(case: &Case) -> Value {
    case.json(&["get", "pod", "web"])
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == kind).unwrap()
}

/// What a table says of something, column by column, after its name.
fn row(text: &str, name: &str) -> Vec<String> {
    let line = text.lines().find(|it| it.contains(name)).unwrap_or_else(|| panic!("{name} is not in\n{text}"));
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

fn time(text: &Value) -> jiff::Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

fn the_age_of_a_pod_is_since_it_was_first_known_whatever_changes_and_restarts(case: &Case) {
    case.manifest("settings.yaml", SETTINGS);
    case.manifest("web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    let before = web(case);
    let color = case.volume("web-1", "configmap", "settings").join("color");
    case.manifest("settings.yaml", &SETTINGS.replace("blue", "green"));
    let is_green = || fs::read_to_string(&color).is_ok_and(|it| it == "green");
    until("the content has changed", color.parent().unwrap(), is_green);
    case.until_pod("web", |it| {
        condition(it, "VolumesMounted")["status"] == "True" && it["status"]["volumes"][0]["state"] == "Mounted"
    });
    let after = web(case);
    assert_eq!(after["status"]["firstSeen"], before["status"]["firstSeen"]);
    for kind in ["VolumesMounted", "VolumesCurrent"] {
        assert_eq!(condition(&after, kind), condition(&before, kind), "{kind}");
    }
    daemon.kill();

    let started = jiff::Timestamp::now();
    let daemon = case.start_until_mounted(&["web"]);
    let again = time(&web(case)["status"]["firstSeen"]);
    let directory = fs::metadata(case.path("root/pods/web-1")).unwrap();
    match directory.created() {
        Ok(created) => assert_eq!(again, jiff::Timestamp::try_from(created).unwrap()),
        Err(error) => eprintln!("SKIPPED: inode {} does not tell when it was made: {error}", directory.st_ino()),
    }
    assert!(directory.created().is_err() || again < started, "{again} and {started}");
    assert!(daemon.stop().success());
}

fn content_that_cannot_be_brought_up_to_date_is_stale_wherever_it_is_shown(case: &Case) {
    case.manifest("settings.yaml", SETTINGS);
    case.manifest("web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    let volumes = case.ask(&["get", "volumes"]);
    assert_eq!(row(&volumes, "/web-1-data"), ["empty-dir", "Mounted", "-", "true", "1"]);
    assert_eq!(row(&volumes, "/web-1-settings"), ["configmap", "Mounted", "-", "true", "1"]);

    case.remove_manifest("settings.yaml");
    let mount = case.until_reason("web", "settings", |it| it["code"] == "ObjectMissing");
    assert_eq!((&mount["mounted"], &mount["stale"]), (&true.into(), &true.into()));
    assert_eq!(row(&case.ask(&["get", "pods"]), "web")[..2], ["2/2", "Stale"]);
    assert_eq!(row(&case.ask(&["get", "volumes"]), "/web-1-settings")[1], "Stale");
    let message = "configmap \"settings\" not found";
    for question in [
        &["get", "pods", "-o", "wide"][..],
        &["get", "volumes", "-o", "wide"],
        &["describe", "pod", "web"],
        &["explain"],
    ] {
        let said = case.ask(question);
        assert!(said.contains(message), "{question:?}: {said}");
    }
    let pod = web(case);
    assert_eq!(condition(&pod, "VolumesMounted")["status"], "True", "containers have it");
    assert_eq!(condition(&pod, "VolumesCurrent")["status"], "False");
    assert_eq!(condition(&pod, "VolumesCurrent")["reason"], "ObjectMissing");

    case.manifest("settings.yaml", SETTINGS);
    case.until_pod("web", |it| condition(it, "VolumesCurrent")["status"] == "True");
    assert_eq!(row(&case.ask(&["get", "pods"]), "web")[..2], ["2/2", "Mounted"]);
    assert!(case.ask(&["explain"]).starts_with("Nothing is wrong: 1 of 1 pod"), "{}", case.ask(&["explain"]));
    assert!(daemon.stop().success());
}

/// How many lines of the log have all of these.
fn lines(log: &str, parts: &[&str]) -> usize {
    log.lines().filter(|line| parts.iter().all(|it| line.contains(it))).count()
}

/// A pod with a claim, which is in this phase and is bound to a directory.
fn pod(label: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: web, uid: web-1, labels: {{app: {label}}}}}, spec: {{containers: \
         [{{name: main, volumeMounts: [{{name: data, mountPath: /data}}]}}], volumes: [{{name: data, \
         persistentVolumeClaim: {{claimName: data}}}}]}}}}"
    )
}

fn claim(phase: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data, uid: claim-1}}, spec: {{volumeName: disk, \
         accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}, status: {{phase: {phase}}}}}"
    )
}

fn disk(case: &Case) -> String {
    let path = case.path("disk");
    fs::create_dir_all(&path).unwrap();
    format!(
        "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: disk}}, spec: {{capacity: {{storage: 1Gi}}, accessModes: \
         [ReadWriteOnce], local: {{path: {}}}, claimRef: {{namespace: default, name: data, uid: claim-1}}}}}}",
        path.display()
    )
}

/// It is on disk, and nobody knows by which name the pod calls it.
fn a_volume_that_cannot_be_looked_up_after_a_restart_counts_once(case: &Case) {
    case.manifest("disk.yaml", &disk(case));
    case.manifest("claim.yaml", &claim("Bound"));
    case.manifest("pod.yaml", &pod("one"));
    let daemon = case.start_until_mounted(&["web"]);
    assert_eq!(row(&case.ask(&["get", "pods"]), "web")[0], "1/1");
    daemon.kill();
    case.remove_manifest("claim.yaml");
    let daemon = case.start();
    case.until_reason("web", "data", |it| it["message"].as_str().unwrap().contains("not found"));
    let shown = web(case);
    assert_eq!(shown["status"]["volumes"].as_array().unwrap().len(), 2, "both are shown: {shown}");
    assert_eq!(row(&case.ask(&["get", "pods"]), "web")[0], "0/1");
    case.manifest("claim.yaml", &claim("Bound"));
    case.wait_mounted(&["web"]);
    assert_eq!(row(&case.ask(&["get", "pods"]), "web")[0], "1/1");
    assert!(daemon.stop().success());
}

fn a_claim_that_cannot_be_looked_up_is_logged_once_again_when_it_changes_and_when_it_is_over(case: &Case) {
    case.manifest("disk.yaml", &disk(case));
    case.manifest("pod.yaml", &pod("one"));
    let daemon = case.start();
    let missing = "persistentvolumeclaims \"data\" not found";
    daemon.until_logged(missing);
    // It is looked up again, and that is no news.
    case.manifest("pod.yaml", &pod("two"));
    case.manifest("claim.yaml", &claim("Lost"));
    case.until_reason("web", "data", |it| !it["message"].as_str().unwrap().contains("not found"));
    case.manifest("claim.yaml", &claim("Bound"));
    case.wait_mounted(&["web"]);
    daemon.until_logged("over: ");
    daemon.until_logged("all volumes of the pod are mounted");
    let log = daemon.log();
    assert_eq!(lines(&log, &["WARN", missing]), 1, "{log}");
    assert_eq!(lines(&log, &["WARN", "default/web", "PVC is not bound"]), 1, "{log}");
    assert_eq!(lines(&log, &["INFO", "over: "]), 1, "{log}");
    assert!(daemon.stop().success());
}

fn a_mount_that_fails_is_logged_once_however_often_it_is_tried(case: &Case) {
    case.manifest("web.yaml", WEB);
    let daemon = case.start();
    case.until_mount("web", "settings", |it| it["reasons"][0]["attempts"].as_u64() >= Some(4));
    case.manifest("settings.yaml", SETTINGS);
    case.wait_mounted(&["web"]);
    daemon.until_logged("over: ");
    let log = daemon.log();
    assert_eq!(lines(&log, &["WARN", "configmap \"settings\" not found"]), 1, "{log}");
    assert_eq!(lines(&log, &["over: ", "configmap \"settings\" not found"]), 1, "{log}");
    assert!(daemon.stop().success());
}
