//! The life of the daemon: start, follow the manifests, end, take over.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use windlass_testing::daemon::Case;
use windlass_testing::namespace::privileged;
use windlass_testing::wait::until;

use crate::tests;

tests![
    a_directory_of_manifests_becomes_mounted_volumes_that_follow_it,
    a_daemon_that_ends_leaves_the_volumes_and_the_next_one_takes_over,
    a_second_daemon_on_the_same_root_names_the_first,
    once_brings_up_what_is_there_and_ends,
    once_fails_if_not_all_is_mounted,
    once_finishes_what_an_earlier_life_left,
    a_manifest_that_is_broken_leaves_the_last_good_version_in_force,
    nothing_is_taken_away_while_a_manifest_of_the_start_cannot_be_read,
    what_is_not_ours_is_listed_and_left_alone,
    a_daemon_without_root_mounts_in_a_namespace_of_its_own,
    a_start_that_fails_leaves_no_root_behind,
    a_hangup_reads_everything_again,
    the_watchdog_is_told_that_the_daemon_lives,
    settings_come_from_the_file_and_the_command_line_comes_first,
    what_is_set_for_drivers_comes_from_the_file_and_the_command_line,
    settings_of_drivers_that_make_no_sense_are_refused,
    unknown_settings_are_refused_with_the_nearest_name,
    the_log_never_tells_a_secret,
    the_log_has_a_line_when_a_pod_is_mounted_and_one_when_it_is_gone,
];

/// A pod with five kinds of volumes.
const WEB: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: hunter2}
---
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-1, labels: {app: shop}}
spec:
  containers:
  - name: main
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: cache, mountPath: /cache}
    - {name: settings, mountPath: /settings}
    - {name: keys, mountPath: /keys}
    - {name: labels, mountPath: /labels}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: cache, emptyDir: {medium: Memory}}
  - {name: settings, configMap: {name: settings}}
  - {name: keys, secret: {secretName: keys}}
  - {name: labels, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
";

/// A pod with a volume on disk.
fn pod(name: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, uid: {name}-1}}, spec: {{containers: [{{name: main, \
         volumeMounts: [{{name: data, mountPath: /data}}]}}], volumes: [{{name: data, emptyDir: {{}}}}]}}}}"
    )
}

/// Waits until a file of a written volume reads like this.
fn until_reads(path: &Path, text: &str) {
    let is_so = || fs::read_to_string(path).is_ok_and(|it| it == text);
    until(&format!("{} reads {text:?}", path.display()), path.parent().unwrap(), is_so);
}

/// Waits until the directory of a pod is gone, which it is a moment after its volumes.
fn until_gone(case: &Case, uid: &str) {
    let pods = case.path("root/pods");
    until("the directory of the pod is gone", &pods, || !pods.join(uid).exists());
}

fn a_directory_of_manifests_becomes_mounted_volumes_that_follow_it(case: &Case) {
    case.manifest("web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    let color = case.volume("web-1", "configmap", "settings").join("color");
    assert_eq!(fs::read_to_string(&color).unwrap(), "blue");
    assert_eq!(
        fs::read_to_string(case.volume("web-1", "downward-api", "labels").join("labels")).unwrap(),
        "app=\"shop\""
    );
    assert_eq!(case.mounts().len(), 3, "cache, keys and labels");

    case.manifest("web.yaml", &WEB.replace("blue", "green").replace("app: shop", "app: store"));
    until_reads(&color, "green");
    until_reads(&case.volume("web-1", "downward-api", "labels").join("labels"), "app=\"store\"");

    case.manifest("more/other.json", &pod("other").replace('\n', " "));
    case.wait_mounted(&["web", "other"]);
    case.take_away("web.yaml", &["web"]);
    assert!(case.mounts().is_empty() && case.volume("other-1", "empty-dir", "data").exists());
    until_gone(case, "web-1");
    assert!(daemon.stop().success());
}

fn a_daemon_that_ends_leaves_the_volumes_and_the_next_one_takes_over(case: &Case) {
    case.manifest("web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    let scratch = case.volume("web-1", "empty-dir", "cache").join("canary");
    fs::write(&scratch, "alive").unwrap();
    let before = case.mounts();
    assert!(daemon.stop().success());
    assert!(!case.path("run/api.sock").exists(), "the socket goes with the daemon");
    assert_eq!((case.mounts(), fs::read_to_string(&scratch).unwrap()), (before.clone(), "alive".into()));

    let daemon = case.start_until_mounted(&["web"]);
    assert_eq!((case.mounts(), fs::read_to_string(&scratch).unwrap()), (before, "alive".into()));
    daemon.kill();

    // A socket that a killed daemon left is no obstacle.
    case.remove_manifest("web.yaml");
    let daemon = case.start_without_orphans();
    case.wait_unmounted(&["web"]);
    assert!(case.mounts().is_empty());
    assert!(daemon.stop().success());
}

fn a_start_that_fails_leaves_no_root_behind(case: &Case) {
    let fails = |command: &mut std::process::Command, said: &str| {
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.contains(said), "{error}");
        assert!(!case.path("root").exists(), "{error}");
    };
    fs::write(case.path("file"), "").unwrap();
    fails(case.run().arg("--socket").arg(case.path("file")), "is there and is no socket");
    fails(case.run().args(["--socket-group", "no-such-group"]), "there is no group no-such-group");
    fs::remove_dir(case.path("manifests")).unwrap();
    fails(&mut case.run(), "read manifests in");
    fs::write(case.path("manifests"), "").unwrap();
    fails(&mut case.run(), "read manifests in");
}

fn a_second_daemon_on_the_same_root_names_the_first(case: &Case) {
    let daemon = case.start();
    let second = case.run().output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("is in use by process {}", daemon.id())), "{said}");
    assert!(daemon.stop().success());
}

fn once_brings_up_what_is_there_and_ends(case: &Case) {
    case.manifest("web.yaml", WEB);
    let output = case.run().arg("--once").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(printed.lines().count(), 5, "{printed}");
    assert!(printed.lines().all(|it| it.contains("Mounted")), "{printed}");
    assert_eq!(fs::read_to_string(case.volume("web-1", "secret", "keys").join("password")).unwrap(), "hunter2");
}

fn once_fails_if_not_all_is_mounted(case: &Case) {
    case.manifest("web.yaml", &WEB.replace("{name: settings}}", "{name: absent}}"));
    let output = case.run().arg("--once").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{printed}");
    assert!(printed.contains("ObjectMissing") && printed.contains("configmap \"absent\" not found"), "{printed}");

    case.manifest("broken.yaml", "kind: [");
    let output = case.run().arg("--once").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("broken.yaml:"), "{said}");
}

fn once_finishes_what_an_earlier_life_left(case: &Case) {
    case.manifest("web.yaml", WEB);
    assert!(case.run().arg("--once").output().unwrap().status.success());
    case.remove_manifest("web.yaml");
    let output = case.run().arg("--once").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(4) && said.contains("NotInManifests: "), "{said}");
    assert!(case.path("root/pods/web-1").exists());
    assert!(case.run().args(["--once", "--orphan-delay", "0"]).output().unwrap().status.success());
    assert!(case.mounts().is_empty() && !case.path("root/pods/web-1").exists());
}

fn a_manifest_that_is_broken_leaves_the_last_good_version_in_force(case: &Case) {
    case.manifest("web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    case.manifest("web.yaml", &format!("{WEB}---\nkind: [\n"));
    case.manifest("other.yaml", &pod("other"));
    case.wait_mounted(&["other"]);
    let node = case.json(&["get", "node"]);
    let problem = &node["status"]["problems"][0];
    assert!(problem["path"].as_str().unwrap().ends_with("web.yaml") && problem["line"].is_number(), "{node}");
    case.wait_mounted(&["web"]);
    assert_eq!(fs::read_to_string(case.volume("web-1", "configmap", "settings").join("color")).unwrap(), "blue");
    assert!(daemon.stop().success());
}

/// I-1.
fn nothing_is_taken_away_while_a_manifest_of_the_start_cannot_be_read(case: &Case) {
    case.manifest("web.yaml", WEB);
    case.manifest("other.yaml", &pod("other"));
    assert!(case.run().arg("--once").output().unwrap().status.success());
    case.manifest("web.yaml", "kind: [");
    case.remove_manifest("other.yaml");
    let daemon = case.start_without_orphans();
    case.manifest("third.yaml", &pod("third"));
    case.wait_mounted(&["third"]);
    assert!(case.volume("other-1", "empty-dir", "data").exists() && case.mounts().len() == 3);
    let node = case.json(&["get", "node"]);
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let complete = conditions.iter().find(|it| it["type"] == "SourceComplete").unwrap();
    assert_eq!(complete["status"], "False", "{node}");

    case.manifest("web.yaml", WEB);
    case.wait_mounted(&["web"]);
    case.wait_unmounted(&["other"]);
    until_gone(case, "other-1");
    assert!(daemon.stop().success());
}

/// I-5.
fn what_is_not_ours_is_listed_and_left_alone(case: &Case) {
    let foreign = case.path("root/pods/old-1/volumes/kubernetes.io~empty-dir");
    fs::create_dir_all(&foreign).unwrap();
    // It looks like scratch space, but neither a record nor a note tells that a pod was ever given it.
    let unknown = case.volume("old-2", "empty-dir", "scratch");
    fs::create_dir_all(&unknown).unwrap();
    fs::write(unknown.join("precious"), "data").unwrap();
    fs::create_dir_all(case.path("root/pods/old-1/etc")).unwrap();
    fs::write(case.path("root/pods/old-1/etc/precious"), "data").unwrap();
    let daemon = case.start_without_orphans();
    daemon.until_logged("left alone");
    let node = case.json(&["get", "node"]);
    let problems = node["status"]["problems"].as_array().unwrap();
    assert!(problems.iter().any(|it| it["severity"] == "NotOurs" && it.to_string().contains("old-1")), "{node}");
    assert_eq!(fs::read_to_string(case.path("root/pods/old-1/etc/precious")).unwrap(), "data");
    case.until_reason("old-2", "scratch", |it| it["code"] == "InTheWay");
    assert_eq!(fs::read_to_string(unknown.join("precious")).unwrap(), "data");
    assert!(daemon.stop().success());
}

fn a_daemon_without_root_mounts_in_a_namespace_of_its_own(case: &Case) {
    if !privileged("the test as another user") {
        return;
    }
    case.manifest("web.yaml", WEB);
    case.manifest("group.yaml", &pod("group").replace("spec: {", "spec: {securityContext: {fsGroup: 2000}, "));
    let notify = case.path("notify.sock");
    let daemon = case.start_as_nobody();
    case.wait_mounted(&["web"]);
    assert!(case.mounts().is_empty(), "nobody else sees the mounts");
    let explained = case.ask(&["explain", "group"]);
    assert!(explained.contains("NotPermitted") && explained.contains("fsGroup 2000"), "{explained}");
    let color =
        format!("/proc/{}/root{}", daemon.id(), case.volume("web-1", "secret", "keys").join("password").display());
    assert_eq!(fs::read_to_string(color).unwrap(), "hunter2");
    assert!(case.json(&["get", "node"])["status"]["rootless"].as_bool().unwrap());
    assert!(daemon.stop().success());
    assert!(notify.exists());
}

fn a_hangup_reads_everything_again(case: &Case) {
    case.manifest("web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    daemon.signal(Signal::HUP);
    daemon.until_logged("reading all manifests again");
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn the_watchdog_is_told_that_the_daemon_lives(case: &Case) {
    let mut command = case.run();
    command.env("WATCHDOG_USEC", "200000");
    let mut daemon = case.start_as(command);
    daemon.until("WATCHDOG=1");
    daemon.until("WATCHDOG=1");
    daemon.signal(Signal::TERM);
    daemon.until("STOPPING=1");
}

fn settings_come_from_the_file_and_the_command_line_comes_first(case: &Case) {
    let file = case.path("config.yaml");
    fs::write(&file, "node-name: of-the-file\nthreads-max: 7\nstop-timeout: 1m30s\nremoval-delay: 0s\n").unwrap();
    let mut command = case.windlass();
    command.args(["run", "--print-config", "--node-name", "of-the-line", "--config"]).arg(&file);
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let has = |line: &str| assert!(printed.lines().any(|it| it == line), "{line}:\n{printed}");
    has("node-name: of-the-line");
    has("threads-max: 7");
    has("stop-timeout: 1m 30s");
    has("removal-delay: 0s");
    // What is printed is a file that says the same.
    fs::write(&file, &printed).unwrap();
    let mut command = case.windlass();
    command.args(["run", "--print-config", "--config"]).arg(&file);
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap(), printed);
}

fn what_is_set_for_drivers_comes_from_the_file_and_the_command_line(case: &Case) {
    let file = case.path("config.yaml");
    let text = "driver-registry: /srv/registry\ndriver-timeout: 30s\ndrivers:\n  a.example.com: {controller: \
        /run/a.sock, timeout: 1m30s, calls-at-once: 4}\n  b.example.com: {controller: /run/b.sock}\n";
    fs::write(&file, text).unwrap();
    let print = |options: &[&str]| {
        let output = case.windlass().args(["run", "--print-config", "--config"]).arg(&file).args(options).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let options = ["--controller=b.example.com=/run/b2.sock", "--controller", "c.example.com=/run/c=1.sock"];
    let printed = print(&options);
    let settings: Value = serde_saphyr::from_str(&printed).unwrap();
    assert_eq!((&settings["driver-registry"], &settings["driver-timeout"]), (&json!("/srv/registry"), &json!("30s")));
    let expected = json!({
        "a.example.com": {"controller": "/run/a.sock", "timeout": "1m 30s", "calls-at-once": 4},
        "b.example.com": {"controller": "/run/b2.sock"},
        "c.example.com": {"controller": "/run/c=1.sock"},
    });
    assert_eq!(settings["drivers"], expected);
    // What is printed is a file that says the same.
    fs::write(&file, &printed).unwrap();
    assert_eq!(print(&[]), printed);
    // What the file that is installed shows, switched on.
    let shown = include_str!("../../../../deploy/config.yaml").lines().skip_while(|it| *it != "#drivers:");
    let shown: Vec<&str> = shown.map_while(|it| it.strip_prefix('#')).collect();
    fs::write(&file, shown.join("\n")).unwrap();
    let settings: Value = serde_saphyr::from_str(&print(&[])).unwrap();
    let expected = json!({"controller": "/run/disks/csi.sock", "timeout": "30s", "calls-at-once": 4});
    assert_eq!(settings["drivers"], json!({"disks.example.com": expected}));
}

fn settings_of_drivers_that_make_no_sense_are_refused(case: &Case) {
    let file = case.path("config.yaml");
    let refused = |text: &str, status: i32, options: &[&str], said: &str| {
        fs::write(&file, text).unwrap();
        let output = case.windlass().args(["run", "--print-config", "--config"]).arg(&file).args(options).output();
        let output = output.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(status) && error.contains(said), "{text:?} {options:?}: {error}");
    };
    refused(
        "drivers: {a: {controler: /run/a.sock}}\n",
        1,
        &[],
        "unknown key \"controler\" of driver \"a\"; did you mean \"controller\"?",
    );
    refused(
        "drivers: {a: {size: 7}}\n",
        1,
        &[],
        "unknown key \"size\" of driver \"a\"; there are calls-at-once, controller, timeout",
    );
    refused("drivers: {a: {timeout: 0s}}\n", 1, &[], "drivers.a.timeout must be more than nothing");
    refused("drivers: {a: {timeout: soon}}\n", 1, &[], "\"soon\" is no time");
    refused("drivers: {a: {calls-at-once: 0}}\n", 1, &[], "nonzero");
    refused("drivers: {a: /run/a.sock}\n", 1, &[], "driver \"a\"");
    refused("drivers: [a]\n", 1, &[], "drivers");
    refused("driver-timeout: 0s\n", 1, &[], "driver-timeout must be more than nothing");
    for wrong in ["x", "=/run/a.sock", "x="] {
        refused("", 2, &["--controller", wrong], "it is not like name.of.driver=/path/of/socket");
    }
}

fn unknown_settings_are_refused_with_the_nearest_name(case: &Case) {
    let file = case.path("config.yaml");
    let said = |text: &str| {
        fs::write(&file, text).unwrap();
        let output = case.windlass().args(["run", "--print-config", "--config"]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said("manifest: /etc/x\n").contains("unknown key \"manifest\"; did you mean \"manifests\"?"));
    assert!(said("node_name: x\n").contains("did you mean \"node-name\"?"));
    assert!(said("colour: red\n").contains("unknown key \"colour\"; there are "));
    assert!(said("threads-max: many\n").contains("cannot be used"));
    assert!(said("removal-delay: soon\n").contains("\"soon\" is no time; write for example 30s"));
    assert!(said("removal-delay: 2h\n").contains("removal-delay must be at most 1h"));
    assert!(said("- a\n").contains("it is no list of names and values"));
    let torn = said("node-name: a\nroot: [\n");
    assert!(torn.contains("cannot be used: line 2: ") && torn.lines().count() == 1, "{torn}");
    let output = case.windlass().args(["run", "--print-config", "--config", "/nonexistent"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("read the configuration /nonexistent"));
}

/// I-12.
fn the_log_never_tells_a_secret(case: &Case) {
    case.manifest("web.yaml", WEB);
    let mut command = case.run();
    command.args(["--log-level", "trace"]);
    let daemon = case.start_as(command);
    case.wait_mounted(&["web"]);
    case.manifest("web.yaml", &WEB.replace("password: hunter2", "password: hunter2: x"));
    daemon.until_logged("web.yaml:");
    case.manifest("web.yaml", &WEB.replace("hunter2", "hunter22"));
    let password = case.volume("web-1", "secret", "keys").join("password");
    until_reads(&password, "hunter22");
    let told = [daemon.log(), case.ask(&["get", "pods", "-o", "json"]), case.ask(&["describe", "node"])].concat();
    assert!(!told.contains("hunter2"), "{told}");
    assert!(daemon.stop().success());
}

fn the_log_has_a_line_when_a_pod_is_mounted_and_one_when_it_is_gone(case: &Case) {
    case.manifest("web.yaml", WEB);
    let daemon = case.start();
    daemon.until_logged("all volumes of the pod are mounted");
    // What is refreshed stays mounted.
    case.manifest("web.yaml", &WEB.replace("hunter2", "hunter22"));
    until_reads(&case.volume("web-1", "secret", "keys").join("password"), "hunter22");
    case.remove_manifest("web.yaml");
    daemon.until_logged("nothing of the pod is left");
    let log = daemon.log();
    let lines: Vec<&str> = log.lines().filter(|it| it.contains("default/web")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(daemon.stop().success());
}
