//! windlass before the judge: pods come and go with volumes of a driver that checks every call, with every fault that it
//! can play, and nothing is broken, not even what is only advised.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::namespace::privileged;
use windlass_testing::process::Process;

use crate::tests;

tests![
    the_judge_finds_nothing_wrong_with_windlass,
    the_judge_finds_nothing_wrong_when_calls_are_refused,
    the_judge_finds_nothing_wrong_when_answers_are_late_and_the_work_is_done,
    the_judge_finds_nothing_wrong_when_answers_are_late_and_the_work_is_not_done,
    the_judge_finds_nothing_wrong_when_connections_are_lost,
    the_judge_finds_nothing_wrong_when_pods_go_while_outcomes_are_open,
    the_judge_finds_nothing_wrong_after_a_kill,
    the_judge_finds_nothing_wrong_when_volumes_are_attached,
    the_judge_finds_nothing_wrong_when_volumes_are_made_for_claims,
    the_judge_finds_nothing_wrong_when_its_controller_fails,
    the_judge_finds_nothing_wrong_when_it_is_slow_and_lies,
    the_judge_finds_nothing_wrong_without_staging,
    the_judge_finds_nothing_wrong_with_devices,
    the_judge_says_that_nothing_came_and_what_is_still_in_use,
];

const OBJECTS: &str = "
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: judge.csi.windlass.dev}
spec: {attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral]}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: hunter2}
";

/// A persistent volume and its claim, of a size that it has grown to from 1Gi.
fn claimed(size: &str, volume_mode: &str, access_mode: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv}}
spec:
  capacity: {{storage: {size}}}
  accessModes: [{access_mode}]
  volumeMode: {volume_mode}
  mountOptions: [noatime]
  csi:
    driver: judge.csi.windlass.dev
    volumeHandle: rope
    volumeAttributes: {{length: forty-fathoms}}
    nodeStageSecretRef: {{name: keys, namespace: default}}
    nodePublishSecretRef: {{name: keys, namespace: default}}
    nodeExpandSecretRef: {{name: keys, namespace: default}}
  claimRef: {{namespace: default, name: data}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [{access_mode}]
  volumeMode: {volume_mode}
  resources: {{requests: {{storage: 1Gi}}}}
  volumeName: pv
status: {{phase: Bound, capacity: {{storage: 1Gi}}}}
"
    )
}

/// A class whose volumes the judge makes, and a claim of it.
fn of_class(size: &str) -> String {
    let secret = |step: &str| {
        let prefix = format!("csi.storage.k8s.io/{step}-secret");
        format!("{prefix}-name: keys, {prefix}-namespace: default")
    };
    let secrets = ["provisioner", "controller-expand", "node-stage", "node-publish", "node-expand"].map(secret);
    format!(
        "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: ropes}}
provisioner: judge.csi.windlass.dev
allowVolumeExpansion: true
parameters: {{material: hemp, {}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ropes
  resources: {{requests: {{storage: {size}}}}}
",
        secrets.join(", ")
    )
}

/// A pod with the claim, and with a volume of its own.
fn pod(name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, uid: {name}-1}}
spec:
  containers:
  - name: main
    volumeMounts: [{{name: data, mountPath: /data}}, {{name: scratch, mountPath: /scratch}}]
  volumes:
  - {{name: data, persistentVolumeClaim: {{claimName: data}}}}
  - {{name: scratch, csi: {{driver: judge.csi.windlass.dev, nodePublishSecretRef: {{name: keys}}}}}}
"
    )
}

fn start_daemon(case: &Case) -> Daemon {
    let mut command = case.run();
    // What goes while the daemon is down is gone, and what was made for a claim goes with it.
    command.args(["--delete-delay", "0s", "--orphan-delay", "0"]);
    command.arg("--driver-registry").arg(case.sockets().join("registry")).args(["--driver-timeout", "1s"]);
    // Of use only to volumes that must be attached.
    command.arg(format!("--controller=judge.csi.windlass.dev={}", case.sockets().join("csi.sock").display()));
    case.start_as(command)
}

/// A judge that runs.
struct Judge {
    process: Process,
    log: PathBuf,
}

impl Judge {
    /// Starts it, and waits until it can be found.
    fn start(case: &Case, arguments: &[&str]) -> Self {
        let at = case.sockets();
        let mut command: Command = case.windlass();
        command.args(["csi", "judge", "--node-id", "node-1", "--strict", "--log", "-o", "json"]);
        command.args(["--require-secret", "stage=key,publish"]);
        for (option, below) in [("--registry", "registry"), ("--endpoint", "csi.sock"), ("--state", "state")] {
            command.arg(option).arg(at.join(below));
        }
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let log = case.path("judge.log");
        let mut messages = BufReader::new(process.0.stderr.take().unwrap());
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        let mut copy = File::create(&log).unwrap();
        // Ends with the program.
        std::thread::spawn(move || std::io::copy(&mut messages, &mut copy));
        assert!(line.contains("serves on"), "the judge ended: {line}");
        Self { process, log }
    }

    /// Waits until it ends by itself, and gives its verdict and its exit status.
    fn end(mut self) -> (Value, i32, String) {
        let mut text = String::new();
        self.process.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.process.0.wait().unwrap().code().unwrap();
        let log = fs::read_to_string(&self.log).unwrap();
        (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{log}")), status, log)
    }

    fn interrupt(&self) {
        self.process.signal(Signal::INT);
    }

    /// Waits until it ends by itself, and expects praise. Gives the rules that were held against something.
    fn expect_praise(self) -> Vec<String> {
        let (verdict, status, log) = self.end();
        let checks = verdict["checks"].as_array().unwrap();
        let bad = checks.iter().filter(|it| it["broken"] != 0).collect::<Vec<_>>();
        assert!(status == 0 && verdict["outcome"] == "passed", "{status} {bad:#?}\n{log}");
        assert!(!verdict.to_string().contains("hunter2") && !log.contains("hunter2"), "a secret is shown");
        for fault in verdict["faults"].as_array().unwrap() {
            assert_ne!(fault["played"], 0, "{fault}\n{log}");
        }
        assert_eq!(verdict["takenAway"], Value::Array(Vec::new()));
        let seen = checks.iter().filter(|it| it["outcome"] == "passed");
        seen.map(|it| it["rule"].as_str().unwrap().to_owned()).collect()
    }
}

fn expect_seen(seen: &[String], rules: &[&str]) {
    for rule in rules {
        assert!(seen.iter().any(|it| it == rule), "{rule} was not seen, but {seen:?}");
    }
}

/// Two pods with one claim, one after the other and at once, that come and go before a judge with these faults.
fn live(case: &Case, arguments: &[&str]) -> Option<Vec<String>> {
    live_with(case, OBJECTS, arguments)
}

/// The same, with these objects.
fn live_with(case: &Case, objects: &str, arguments: &[&str]) -> Option<Vec<String>> {
    if !privileged("windlass before the judge") {
        return None;
    }
    let daemon = start_daemon(case);
    let judge = Judge::start(case, &[&["--until", "idle"], arguments].concat());
    case.manifest("objects.yaml", objects);
    case.manifest("data.yaml", &claimed("2Gi", "Filesystem", "ReadWriteOnce"));
    case.manifest("a.yaml", &pod("a"));
    case.manifest("b.yaml", &pod("b"));
    case.wait_mounted(&["a", "b"]);
    case.take_away("a.yaml", &["a"]);
    case.take_away("b.yaml", &["b"]);
    let seen = judge.expect_praise();
    assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
    Some(seen)
}

fn the_judge_finds_nothing_wrong_with_windlass(case: &Case) {
    let Some(seen) = live(case, &[]) else { return };
    expect_seen(&seen, &["told", "stage-first", "unpublish-first", "secrets", "volume-context", "agreement"]);
    expect_seen(&seen, &["target-free", "staging-directory", "expand-place", "no-overlap", "nothing-forgotten"]);
}

fn the_judge_finds_nothing_wrong_when_calls_are_refused(case: &Case) {
    let faults = "stage=refused:2,publish=refused:2,expand=refused,unpublish=refused:2,unstage=refused:2";
    let Some(seen) = live(case, &["--fault", faults]) else { return };
    expect_seen(&seen, &["back-off", "nothing-forgotten"]);
}

fn the_judge_finds_nothing_wrong_when_answers_are_late_and_the_work_is_done(case: &Case) {
    let faults = "stage=timeout-with-effect:2,stage=silence-with-effect,publish=silence-with-effect,\
        unpublish=timeout-with-effect,unstage=silence-with-effect,expand=timeout-with-effect";
    let Some(seen) = live(case, &["--fault", faults]) else { return };
    expect_seen(&seen, &["same-again", "not-assumed", "settled"]);
}

fn the_judge_finds_nothing_wrong_when_answers_are_late_and_the_work_is_not_done(case: &Case) {
    let faults = "stage=silence-without-effect,publish=timeout-without-effect:2,publish=refused,\
        unpublish=silence-without-effect,unstage=timeout-without-effect:2,expand=silence-without-effect";
    let Some(seen) = live(case, &["--fault", faults]) else { return };
    expect_seen(&seen, &["not-assumed", "settled"]);
}

fn the_judge_finds_nothing_wrong_when_connections_are_lost(case: &Case) {
    let faults = "stage=connection-lost-with-effect,stage=connection-lost-without-effect,\
        publish=connection-lost-with-effect,unpublish=connection-lost-without-effect,\
        unstage=connection-lost-with-effect,expand=connection-lost-with-effect";
    let Some(seen) = live(case, &["--fault", faults]) else { return };
    expect_seen(&seen, &["not-assumed", "settled"]);
}

/// The pod is not mounted when it goes: what may have been done must be undone.
fn the_judge_finds_nothing_wrong_when_pods_go_while_outcomes_are_open(case: &Case) {
    if !privileged("windlass before the judge, with pods that go early") {
        return;
    }
    let daemon = start_daemon(case);
    // The last was open once, and is refused ever after: that does not make it undone.
    let faults = [
        ("stage=timeout-with-effect:1000", "NodeStageVolume"),
        ("publish=timeout-with-effect:1000", "NodePublishVolume"),
        ("stage=timeout-with-effect,stage=refused:1000", "Internal"),
    ];
    for (fault, reason) in faults {
        let judge = Judge::start(case, &["--until", "idle", "--fault", fault]);
        case.manifest("objects.yaml", OBJECTS);
        case.manifest("data.yaml", &claimed("1Gi", "Filesystem", "ReadWriteOnce"));
        case.manifest("a.yaml", &pod("a"));
        case.until_reason("a", "data", |it| it["message"].as_str().is_some_and(|it| it.contains(reason)));
        case.take_away("a.yaml", &["a"]);
        expect_seen(&judge.expect_praise(), &["not-assumed", "settled"]);
        assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    }
    assert!(daemon.stop().success());
}

fn the_judge_finds_nothing_wrong_after_a_kill(case: &Case) {
    if !privileged("windlass before the judge, killed on the way") {
        return;
    }
    let mut daemon = start_daemon(case);
    let judge = Judge::start(case, &["--until", "idle", "--fault", "unpublish=silence-with-effect"]);
    case.manifest("objects.yaml", OBJECTS);
    case.manifest("data.yaml", &claimed("1Gi", "Filesystem", "ReadWriteOnce"));
    case.manifest("a.yaml", &pod("a"));
    case.wait_mounted(&["a"]);
    daemon.kill();
    daemon = start_daemon(case);
    case.wait_mounted(&["a"]);
    daemon.kill();
    case.remove_manifest("a.yaml");
    daemon = start_daemon(case);
    // Nobody saw that its manifest was removed. Until all of them are read it may still be in one.
    case.until_pod("a", |it| it["status"]["phase"] == "Held");
    assert!(case.windlass().args(["delete", "pod", "a"]).output().unwrap().status.success());
    case.wait_unmounted(&["a"]);
    expect_seen(&judge.expect_praise(), &["settled", "nothing-forgotten", "known-place"]);
    assert!(daemon.stop().success());
}

fn the_judge_finds_nothing_wrong_when_volumes_are_attached(case: &Case) {
    let objects = OBJECTS.replace("attachRequired: false", "attachRequired: true");
    let faults = "attach=refused,attach=timeout-with-effect,attach=silence-without-effect,\
        attach=connection-lost-with-effect,detach=refused,detach=timeout-with-effect,detach=silence-without-effect";
    let Some(seen) = live_with(case, &objects, &["--attach", "--fault", faults]) else { return };
    expect_seen(&seen, &["attach-first", "detach-last", "publish-context", "node-id", "not-assumed", "settled"]);
}

/// A claim gets a volume that is attached, grows while a pod has it, and is deleted with the claim.
fn live_with_claim(case: &Case, arguments: &[&str]) -> Option<Vec<String>> {
    if !privileged("windlass before a judge that makes volumes") {
        return None;
    }
    let daemon = start_daemon(case);
    let controller = ["--until", "idle", "--attach", "--create", "--grow"];
    let secrets = ["--require-secret", "create=key,delete=key,grow=key,expand=key"];
    let judge = Judge::start(case, &[&controller[..], &secrets, arguments].concat());
    case.manifest("objects.yaml", &OBJECTS.replace("attachRequired: false", "attachRequired: true"));
    case.manifest("data.yaml", &of_class("1Gi"));
    case.manifest("a.yaml", &pod("a"));
    case.wait_mounted(&["a"]);
    case.manifest("data.yaml", &of_class("2Gi"));
    daemon.until_logged("the volume has grown");
    // The claim goes first, and its volume when nobody has it any more.
    case.remove_manifest("data.yaml");
    case.take_away("a.yaml", &["a"]);
    let seen = judge.expect_praise();
    assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
    Some(seen)
}

fn the_judge_finds_nothing_wrong_when_volumes_are_made_for_claims(case: &Case) {
    let Some(seen) = live_with_claim(case, &[]) else { return };
    expect_seen(&seen, &["not-deleted", "delete-last", "grow-first", "never-smaller", "staging-path", "secrets"]);
    expect_seen(&seen, &["attach-first", "detach-last", "volume-context", "can-controller", "no-overlap"]);
}

fn the_judge_finds_nothing_wrong_when_its_controller_fails(case: &Case) {
    let faults = "create=timeout-with-effect,create=refused,create=connection-lost-with-effect,grow=silence-with-effect,\
        grow=too-small,delete=internal,delete=timeout-with-effect";
    let Some(seen) = live_with_claim(case, &["--fault", faults]) else { return };
    expect_seen(&seen, &["one-request", "delete-last", "grow-first", "never-smaller", "not-assumed", "settled"]);
}

fn the_judge_finds_nothing_wrong_when_it_is_slow_and_lies(case: &Case) {
    // Twice as slow as anybody waits.
    let faults = "stage=aborted,stage=not-found,stage=lie,publish=lie,publish=slow,publish=already-exists,\
        unpublish=lie,unpublish=slow,unpublish=permission-denied,unstage=slow,unstage=data-loss,expand=unavailable";
    let Some(seen) = live(case, &["--slow-by", "2s", "--fault", faults]) else { return };
    expect_seen(&seen, &["not-assumed", "settled", "nothing-forgotten"]);
}

fn the_judge_finds_nothing_wrong_without_staging(case: &Case) {
    let arguments = ["--capabilities", "stats,mount-group", "--fault", "publish=timeout-with-effect"];
    let Some(seen) = live(case, &arguments) else { return };
    expect_seen(&seen, &["can-mount-group", "can-writer-modes", "settled"]);
    assert!(!seen.iter().any(|it| ["can-stage", "can-expand", "stage-first"].contains(&it.as_str())), "{seen:?}");
}

fn the_judge_finds_nothing_wrong_with_devices(case: &Case) {
    if !privileged("windlass before the judge, with devices") {
        return;
    }
    if !Path::new("/dev/loop-control").exists() {
        eprintln!("there is no /dev/loop-control: skipped windlass before the judge, with devices");
        return;
    }
    let daemon = start_daemon(case);
    let faults = "stage=timeout-with-effect,publish=connection-lost-with-effect,unpublish=refused,unstage=refused";
    let judge = Judge::start(case, &["--until", "idle", "--fault", faults]);
    case.manifest("objects.yaml", OBJECTS);
    case.manifest("data.yaml", &claimed("1Gi", "Block", "ReadWriteOncePod"));
    let device = pod("a").replace(
        "volumeMounts: [{name: data, mountPath: /data}, ",
        "volumeDevices: [{name: data, devicePath: /dev/xvda}]\n    volumeMounts: [",
    );
    case.manifest("a.yaml", &device);
    case.wait_mounted(&["a"]);
    case.take_away("a.yaml", &["a"]);
    expect_seen(&judge.expect_praise(), &["one-writer", "settled", "staging-directory"]);
    assert_eq!(case.mounts(), Vec::<PathBuf>::new());
    assert!(daemon.stop().success());
}

fn the_judge_says_that_nothing_came_and_what_is_still_in_use(case: &Case) {
    if !privileged("a judge that is interrupted") {
        return;
    }
    let judge = Judge::start(case, &["--for", "1s"]);
    let (verdict, status, _) = judge.end();
    assert_eq!((verdict["outcome"].as_str(), status), (Some("not-seen"), 4));

    let daemon = start_daemon(case);
    case.manifest("objects.yaml", OBJECTS);
    case.manifest("data.yaml", &claimed("1Gi", "Filesystem", "ReadWriteOnce"));
    let judge = Judge::start(case, &[]);
    case.manifest("a.yaml", &pod("a"));
    case.wait_mounted(&["a"]);
    judge.interrupt();
    let (verdict, status, log) = judge.end();
    assert_eq!((verdict["outcome"].as_str(), status), (Some("broken"), 1), "{log}");
    let left = verdict["takenAway"].as_array().unwrap();
    assert_eq!(left.len(), 3, "{left:?}");
    let forgotten = verdict["checks"].as_array().unwrap().iter().find(|it| it["rule"] == "nothing-forgotten").unwrap();
    assert_eq!((&forgotten["outcome"], &forgotten["broken"]), (&"broken".into(), &2.into()));
    assert!(daemon.stop().success());
}
