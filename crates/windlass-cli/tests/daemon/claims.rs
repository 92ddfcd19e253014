//! Claims whose volumes a real driver makes, `windlass-loop`: what becomes of the volume when the claim goes, and what is
//! said of it (I-15).

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, mount_bind, unmount};
use serde_json::Value;
use windlass_testing::daemon::Case;
use windlass_testing::process::Process;

use crate::csi::{CLASS, DRIVER, POD, can_run, start_controlling_daemon, start_driver, until_unstaged};
use crate::tests;

tests![
    the_volume_of_a_claim_that_went_outlives_a_kill_and_comes_back_with_it,
    the_volume_of_a_claim_is_deleted_at_once_if_somebody_says_so_and_not_while_it_is_wanted,
    a_manifest_that_is_cut_or_a_directory_that_is_unmounted_deletes_no_volume,
    claims_are_listed_watched_and_explained,
    what_failed_for_a_claim_is_tried_at_once_if_somebody_says_so,
    a_claim_whose_manifest_is_lost_says_how_to_be_rid_of_its_volume,
];

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: disks
  resources: {requests: {storage: 320Mi}}
";
/// What the class says, without that volumes must be attached.
fn class() -> String {
    CLASS.replace("attachRequired: true", "attachRequired: false")
}

/// Waits until the claim is so, by a watch.
fn until_claim(case: &Case, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut command = case.windlass();
    command.args(["get", "claims", "--watch", "--output-watch-events", "-o", "json"]);
    let (_watch, lines) = Process::start_for_lines(&mut command);
    let mut last = Value::Null;
    for line in lines {
        let event: Value = serde_json::from_str(&line).unwrap();
        let gone = event["type"] == "DELETED";
        last = if gone { Value::Null } else { event["object"]["status"].clone() };
        if (gone || !last.is_null()) && is_so(&last) {
            return last;
        }
    }
    panic!("the claim is last seen as {last:#}");
}

fn until_phase(case: &Case, phase: &str) -> Value {
    until_claim(case, |it| it["phase"] == phase)
}

/// How many volumes the driver has.
fn images(case: &Case) -> usize {
    fs::read_dir(case.path("state/images")).map_or(0, Iterator::count)
}

/// Where the pod has the volume of this claim.
fn mounted(case: &Case, claim: &Value) -> PathBuf {
    case.volume("app-1", "csi", claim["volume"].as_str().unwrap()).join("mount")
}

fn the_volume_of_a_claim_that_went_outlives_a_kill_and_comes_back_with_it(case: &Case) {
    if !can_run("a claim that goes and comes back") {
        return;
    }
    let daemon = start_controlling_daemon(case, "10m");
    let driver = start_driver(case);
    case.manifest("class.yaml", &class());
    case.manifest("data.yaml", CLAIM);
    case.manifest("app.yaml", POD);
    case.wait_mounted(&["app"]);
    let bound = until_phase(case, "Bound");
    let order = mounted(case, &bound).join("order");
    fs::write(&order, "forty fathoms of rope").unwrap();

    case.remove_manifest("data.yaml");
    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, DRIVER);
    let going = until_phase(case, "DeletePending");
    let at = going["deleteAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(case.ask(&["get", "claims"]).contains(&format!("Deleting at {at:.0}")));
    let explained = case.ask(&["explain", "claim/data"]);
    assert!(explained.contains("DeletePending") && explained.contains("Put the claim back"), "{explained}");
    let events = case.ask(&["events"]);
    assert!(events.contains("DeletePending") && events.contains("claim/data"), "{events}");
    daemon.kill();

    let daemon = start_controlling_daemon(case, "10m");
    let going = until_phase(case, "DeletePending");
    let again = going["deleteAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(again.duration_since(at).abs() < jiff::SignedDuration::from_secs(2), "{at} is not {again}");
    assert_eq!(images(case), 1);

    case.manifest("data.yaml", CLAIM);
    case.manifest("app.yaml", POD);
    case.wait_mounted(&["app"]);
    assert_eq!(fs::read_to_string(&order).unwrap(), "forty fathoms of rope");
    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, DRIVER);
    case.remove_manifest("data.yaml");
    until_phase(case, "DeletePending");
    case.ask(&["delete", "claim", "data"]);
    daemon.until_logged("was deleted");
    assert_eq!(images(case), 0);
    assert!(daemon.stop().success());
    drop(driver);
}

fn the_volume_of_a_claim_is_deleted_at_once_if_somebody_says_so_and_not_while_it_is_wanted(case: &Case) {
    if !can_run("a claim that is deleted") {
        return;
    }
    let daemon = start_controlling_daemon(case, "10m");
    let driver = start_driver(case);
    case.manifest("class.yaml", &class());
    case.manifest("data.yaml", CLAIM);
    case.manifest("app.yaml", POD);
    case.wait_mounted(&["app"]);
    let refused = |what: &str| {
        for name in ["data", "default/data", "claim/data", "pvc/default/data"] {
            let output = case.output(&["delete", "claim", name]);
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains(what), "{text}");
        }
    };
    refused("take its manifest away first");
    case.remove_manifest("data.yaml");
    until_claim(case, |it| it["goneSince"].is_string());
    refused("is still in use by pod default/app");
    case.take_away("app.yaml", &["app"]);
    until_unstaged(case, DRIVER);
    assert_eq!(images(case), 1);
    // However a claim is named elsewhere, it is named here.
    let told = case.ask(&["delete", "claim", "claim/default/data"]);
    assert!(told.starts_with("claim default/data: volume pvc-") && told.contains("is being deleted"), "{told}");
    daemon.until_logged("was deleted");
    assert_eq!(images(case), 0);
    refused("there is no claim default/data");
    assert!(daemon.stop().success());
    drop(driver);
}

/// I-1, I-15: whatever becomes of the manifests by accident, nobody has said that the volume may go.
fn a_manifest_that_is_cut_or_a_directory_that_is_unmounted_deletes_no_volume(case: &Case) {
    if !can_run("manifests that are cut") {
        return;
    }
    let (manifests, source) = (case.path("manifests"), case.path("source"));
    fs::create_dir(&source).unwrap();
    mount_bind(&source, &manifests).unwrap();
    let daemon = start_controlling_daemon(case, "10m");
    let driver = start_driver(case);
    fs::write(source.join("class.yaml"), class()).unwrap();
    fs::write(source.join("data.yaml"), CLAIM).unwrap();
    until_phase(case, "Bound");
    let is_there = || {
        let claims = case.json(&["get", "claims"]);
        let phase = claims["items"][0]["status"]["phase"].as_str().unwrap_or_default().to_owned();
        assert!(matches!(phase.as_str(), "Bound" | "DeletePending"), "{claims:#}");
        assert_eq!(images(case), 1);
    };
    // In place, as an editor or a full disk leaves it: empty, and at every place where a write may end.
    for end in [0, 1, CLAIM.len() / 4, CLAIM.len() / 2, CLAIM.len() - 2] {
        fs::write(manifests.join("data.yaml"), &CLAIM[..end]).unwrap();
        daemon.signal(rustix::process::Signal::HUP);
        is_there();
        fs::write(manifests.join("data.yaml"), CLAIM).unwrap();
        until_phase(case, "Bound");
    }
    unmount(&manifests, UnmountFlags::DETACH).unwrap();
    fs::write(source.join("touched.yaml"), "").unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    is_there();
    daemon.kill();
    // Started on the bare mount point.
    let daemon = start_controlling_daemon(case, "0s");
    let kept = until_claim(case, |it| !it.is_null());
    assert!(matches!(kept["phase"].as_str(), Some("Kept" | "DeletePending")), "{kept:#}");
    assert_eq!(images(case), 1);
    fs::remove_file(source.join("touched.yaml")).unwrap();
    mount_bind(&source, &manifests).unwrap();
    daemon.kill();
    let daemon = start_controlling_daemon(case, "10m");
    until_phase(case, "Bound");
    case.remove_manifest("data.yaml");
    until_phase(case, "DeletePending");
    case.ask(&["delete", "claim", "data"]);
    daemon.until_logged("was deleted");
    assert!(daemon.stop().success());
    unmount(Path::new(&manifests), UnmountFlags::DETACH).unwrap();
    drop(driver);
}

fn what_failed_for_a_claim_is_tried_at_once_if_somebody_says_so(case: &Case) {
    if !can_run("a claim that is tried again") {
        return;
    }
    let daemon = start_controlling_daemon(case, "10m");
    let driver = start_driver(case);
    case.manifest("class.yaml", &class());
    case.manifest("data.yaml", &CLAIM.replace("ReadWriteOnce", "ReadWriteMany"));
    for (what, attempts) in [("claim/data", 2), ("pvc/default/data", 1)] {
        until_claim(case, |it| it["phase"] == "Failed" && it["reasons"][0]["attempts"].as_u64() >= Some(attempts));
        let told = case.ask(&["retry", what]);
        assert!(told.starts_with("claim default/data is tried again, after it failed "), "{told}");
    }
    for absent in ["claim/none", "claim/shop/data"] {
        let output = case.output(&["retry", absent]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && text.contains("there is no claim"), "{text}");
    }
    case.remove_manifest("data.yaml");
    until_claim(case, Value::is_null);
    assert!(daemon.stop().success());
    drop(driver);
}

/// The file system that its manifest is on is gone for good.
fn a_claim_whose_manifest_is_lost_says_how_to_be_rid_of_its_volume(case: &Case) {
    if !can_run("a claim whose manifest is lost") {
        return;
    }
    let (below, source) = (case.path("manifests/below"), case.path("source"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&below).unwrap();
    mount_bind(&source, &below).unwrap();
    let daemon = start_controlling_daemon(case, "10m");
    let driver = start_driver(case);
    case.manifest("class.yaml", &class());
    fs::write(below.join("data.yaml"), CLAIM).unwrap();
    until_phase(case, "Bound");
    unmount(&below, UnmountFlags::DETACH).unwrap();
    fs::remove_dir(&below).unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged("below");
    let output = case.output(&["delete", "claim", "data"]);
    let text = String::from_utf8(output.stderr).unwrap();
    let advice = format!(
        "If it is in {}, which cannot be read any more, put that back and take the manifest away there; if it is lost for \
         good, start windlass anew, which keeps the volume, and say this again",
        below.display()
    );
    assert!(output.status.code() == Some(1) && text.contains(&advice), "{text}");
    assert_eq!(images(case), 1);
    daemon.kill();

    let daemon = start_controlling_daemon(case, "10m");
    until_phase(case, "Kept");
    case.ask(&["delete", "claim", "data"]);
    daemon.until_logged("was deleted");
    assert_eq!(images(case), 0);
    assert!(daemon.stop().success());
    drop(driver);
}

fn claims_are_listed_watched_and_explained(case: &Case) {
    let daemon = case.start();
    case.manifest("data.yaml", CLAIM);
    let waiting = until_phase(case, "Pending");
    assert_eq!(waiting["reasons"][0]["code"], "ControllerMissing");
    assert!(waiting["reasons"][0]["remedy"].as_str().unwrap().contains("--controller"));
    let table = case.ask(&["get", "claims"]);
    assert!(table.contains("Pending:ControllerMissing") && table.contains("disks"), "{table}");
    assert_eq!(case.ask(&["get", "pvc", "-o", "name"]), "claim/data\n");
    assert!(case.ask(&["describe", "claim", "data"]).contains("ControllerMissing"));
    assert!(case.ask(&["explain", "claim/data"]).contains("claim default/data: Pending:ControllerMissing"));
    case.manifest("app.yaml", POD);
    let status = case.until_reason("app", "data", |it| it["code"] == "ControllerMissing");
    assert!(
        status["reasons"][0]["message"]
            .as_str()
            .unwrap()
            .contains("error processing PVC default/data: PVC is not bound")
    );
    case.take_away("app.yaml", &["app"]);
    case.remove_manifest("data.yaml");
    until_claim(case, Value::is_null);
    assert_eq!(case.output(&["explain", "claim/data"]).status.code(), Some(1));
    assert!(daemon.stop().success());
}
