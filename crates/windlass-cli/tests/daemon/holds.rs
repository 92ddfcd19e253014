//! What a start must not take for a wish (I-1): manifests that are not there, or say less than before. Each case has a canary in
//! scratch space, which nothing can bring back.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use windlass_testing::daemon::Case;
use windlass_testing::wait::until;

use crate::tests;

tests![
    a_start_without_the_manifests_keeps_what_they_named_until_they_are_back,
    a_volume_that_a_manifest_has_lost_before_the_start_stays,
    a_pod_that_no_manifest_names_is_deleted_on_request,
    a_pod_that_a_manifest_names_is_not_deleted,
    what_was_being_taken_away_when_the_daemon_was_killed_goes_on,
    a_pod_of_which_a_part_was_removed_says_so_when_it_comes_back,
    a_host_that_was_renamed_keeps_its_pods,
    a_pod_that_is_edited_to_be_on_another_node_stays_for_a_while,
    a_removed_pod_that_stays_for_an_unreadable_manifest_names_it,
    manifests_that_are_lost_are_told_and_what_they_hold_stays,
    manifests_that_are_lost_before_all_were_read_leave_it_unknown_what_is_unmounted,
    a_conflict_keeps_its_winner_over_a_kill,
    a_conflict_that_came_before_the_start_keeps_what_is_here,
];

fn pod(name: &str, spec: &str) -> String {
    let mounts = "[{name: data, mountPath: /data}, {name: logs, mountPath: /logs}]";
    let volumes = "[{name: data, emptyDir: {}}, {name: logs, emptyDir: {}}]";
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}-1}}\n\
         spec: {{{spec}containers: [{{name: c, volumeMounts: {mounts}}}], volumes: {volumes}}}\n"
    )
}

/// A daemon was there, with the pods web and db, and is gone. Returns the canaries in the data and logs of web.
fn earlier_life(case: &Case) -> (PathBuf, PathBuf) {
    case.manifest("web.yaml", &pod("web", ""));
    case.manifest("db.yaml", &pod("db", ""));
    let daemon = case.start_until_mounted(&["web", "db"]);
    let canary = |volume: &str| {
        let canary = case.volume("web-1", "empty-dir", volume).join("canary");
        fs::write(&canary, "alive").unwrap();
        canary
    };
    let canaries = (canary("data"), canary("logs"));
    daemon.kill();
    canaries
}

fn is_alive(canary: &PathBuf) -> bool {
    fs::read_to_string(canary).is_ok_and(|it| it == "alive")
}

/// Whatever is to be taken away without a delay has been, once a pod has come and gone.
fn something_else_comes_and_goes(case: &Case) {
    case.manifest("other.yaml", &pod("other", ""));
    case.wait_mounted(&["other"]);
    case.take_away("other.yaml", &["other"]);
}

fn a_start_without_the_manifests_keeps_what_they_named_until_they_are_back(case: &Case) {
    let (data, _) = earlier_life(case);
    case.remove_manifest("web.yaml");
    let daemon = case.start_until_mounted(&["db"]);
    something_else_comes_and_goes(case);
    assert!(is_alive(&data));
    let shown = case.ask(&["get", "pods"]);
    assert!(shown.contains("web") && shown.contains("Held (goes in "), "{shown}");
    let explained = case.ask(&["explain", "web"]);
    for said in
        ["pod default/web is Held: 2 volumes are still here", "NotInManifests", "goes in ", "put its manifest back"]
    {
        assert!(explained.contains(said), "{said} in {explained}");
    }
    let described = case.ask(&["describe", "pod", "web"]);
    assert!(described.contains("Goes:"), "{described}");
    let shown = case.json(&["get", "pod", "web"]);
    assert_eq!(shown["status"]["phase"], "Held", "{shown}");
    assert!(shown["status"]["goesAt"].is_string(), "{shown}");
    let late = case.output(&["wait", "--for=unmounted", "--timeout", "0", "web"]);
    assert!(String::from_utf8_lossy(&late.stderr).contains("NotInManifests"), "{late:?}");

    case.manifest("web.yaml", &pod("web", ""));
    case.wait_mounted(&["web"]);
    assert!(is_alive(&data));
    assert!(daemon.stop().success());
}

fn a_volume_that_a_manifest_has_lost_before_the_start_stays(case: &Case) {
    let (data, logs) = earlier_life(case);
    let cut =
        pod("web", "").replace(", {name: logs, emptyDir: {}}", "").replace(", {name: logs, mountPath: /logs}", "");
    case.manifest("web.yaml", &cut);
    let daemon = case.start_until_mounted(&["web", "db"]);
    something_else_comes_and_goes(case);
    assert!(is_alive(&data) && is_alive(&logs));
    let explained = case.ask(&["explain", "web"]);
    assert!(explained.contains("NotInManifests: the pod had this volume before the start"), "{explained}");
    assert!(case.output(&["delete", "pod", "db", "--orphaned-volumes"]).status.code() == Some(1));
    case.ask(&["delete", "pod", "web", "--orphaned-volumes"]);
    until("the volume to go", logs.parent().unwrap().parent().unwrap(), || !logs.exists());
    assert!(is_alive(&data));
    assert!(daemon.stop().success());
}

fn a_pod_that_no_manifest_names_is_deleted_on_request(case: &Case) {
    let (data, _) = earlier_life(case);
    case.remove_manifest("web.yaml");
    case.remove_manifest("db.yaml");
    let daemon = case.start();
    something_else_comes_and_goes(case);
    assert!(is_alive(&data));
    assert_eq!(case.output(&["delete", "pod", ""]).status.code(), Some(2), "a name that is empty by mistake");
    // By its UID, which tells it from another of its name.
    case.ask(&["delete", "pod", "web-1"]);
    case.wait_unmounted(&["web"]);
    assert!(!data.exists() && case.volume("db-1", "empty-dir", "data").exists());
    case.ask(&["delete", "pod", "--all-orphans"]);
    case.wait_unmounted(&["db"]);
    assert!(daemon.stop().success());
}

fn a_pod_that_a_manifest_names_is_not_deleted(case: &Case) {
    let (data, _) = earlier_life(case);
    let daemon = case.start_until_mounted(&["web"]);
    let refused = case.output(&["delete", "pod", "web"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&case.path("manifests/web.yaml").display().to_string()), "{said}");
    something_else_comes_and_goes(case);
    assert!(is_alive(&data));
    assert!(daemon.stop().success());
}

/// I-10: what is left of a volume must not look like the volume.
fn a_pod_of_which_a_part_was_removed_says_so_when_it_comes_back(case: &Case) {
    case.manifest("web.yaml", &pod("web", ""));
    let daemon = case.start_until_mounted(&["web"]);
    // What is mounted in it keeps its removal from coming to an end.
    let data = case.volume("web-1", "empty-dir", "data");
    let inside = data.join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(data.join("file"), "").unwrap();
    rustix::mount::mount_bind(case.path("manifests"), &inside).unwrap();
    case.remove_manifest("web.yaml");
    case.until_reason("web", "data", |it| it["attempts"].as_u64() > Some(0));
    daemon.kill();
    rustix::mount::unmount(&inside, rustix::mount::UnmountFlags::empty()).unwrap();
    case.manifest("web.yaml", &pod("web", ""));
    let daemon = case.start_until_mounted(&["web"]);
    case.until_reason("web", "data", |it| it["code"] == "ContentLost");
    let events = case.ask(&["events", "web"]);
    assert!(events.contains("was being removed when the pod came back"), "{events}");
    assert!(daemon.stop().success());
}

/// I-11.
fn what_was_being_taken_away_when_the_daemon_was_killed_goes_on(case: &Case) {
    case.manifest("web.yaml", &pod("web", ""));
    let daemon = case.start_until_mounted(&["web"]);
    // Somebody has put something into it that is not to be lost, so it cannot be taken away.
    let data = case.volume("web-1", "empty-dir", "data");
    fs::create_dir(data.join("inside")).unwrap();
    let inside = data.join("inside");
    rustix::mount::mount_bind(case.path("manifests"), &inside).unwrap();
    case.remove_manifest("web.yaml");
    case.until_reason("web", "data", |it| it["attempts"].as_u64() > Some(0));
    daemon.kill();
    rustix::mount::unmount(&inside, rustix::mount::UnmountFlags::empty()).unwrap();
    let daemon = case.start();
    case.wait_unmounted(&["web"]);
    assert!(!data.exists());
    assert!(daemon.stop().success());
}

fn a_host_that_was_renamed_keeps_its_pods(case: &Case) {
    let (data, _) = earlier_life(case);
    // As if it had been called so when the manifest was written.
    case.manifest("web.yaml", &pod("web", "nodeName: node-0, "));
    let daemon = case.start_until_mounted(&["db"]);
    something_else_comes_and_goes(case);
    assert!(is_alive(&data));
    let explained = case.ask(&["explain", "web"]);
    for said in ["OtherNode", "web.yaml", "node-0", "node-1", "--node-name", "goes in "] {
        assert!(explained.contains(said), "{said} in {explained}");
    }
    case.manifest("web.yaml", &pod("web", "nodeName: node-1, "));
    case.wait_mounted(&["web"]);
    assert!(is_alive(&data));
    assert!(daemon.stop().success());
}

fn a_pod_that_is_edited_to_be_on_another_node_stays_for_a_while(case: &Case) {
    let (data, _) = earlier_life(case);
    let daemon = case.start_until_mounted(&["web"]);
    case.manifest("web.yaml", &pod("web", "nodeName: node-2, "));
    case.until_reason("web", "data", |it| it["code"] == "OtherNode" && it["goesAt"].is_string());
    something_else_comes_and_goes(case);
    assert!(is_alive(&data));
    case.ask(&["delete", "pod", "web"]);
    case.wait_unmounted(&["web"]);
    assert!(!data.exists());
    assert!(daemon.stop().success());
}

fn a_removed_pod_that_stays_for_an_unreadable_manifest_names_it(case: &Case) {
    let (data, _) = earlier_life(case);
    let daemon = case.start_until_mounted(&["web", "db"]);
    case.manifest("broken.yaml", "kind: [");
    case.remove_manifest("web.yaml");
    let names_it = |it: &Value| it["message"].as_str().is_some_and(|it| it.contains("broken.yaml"));
    case.until_reason("web", "data", |it| it["code"] == "SourceIncomplete" && names_it(it));
    assert!(is_alive(&data));
    let late = case.output(&["wait", "--for=unmounted", "--timeout", "0", "web"]);
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(said.contains("broken.yaml") && !said.contains("still wanted"), "{said}");
    case.take_away("broken.yaml", &["web"]);
    assert!(!data.exists());
    assert!(daemon.stop().success());
}

/// I-1, I-7.
fn manifests_that_are_lost_are_told_and_what_they_hold_stays(case: &Case) {
    let (data, _) = earlier_life(case);
    let daemon = case.start_until_mounted(&["web", "db"]);
    case.manifest("broken.yaml", "kind: [");
    case.remove_manifest("web.yaml");
    case.until_reason("web", "data", |it| it["code"] == "SourceIncomplete");
    let complete = || {
        let node = case.json(&["get", "node"]);
        let conditions = node["status"]["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|it| it["type"] == "SourceComplete").unwrap()
    };
    let before = complete();
    assert_eq!(before["status"], "True", "{before}");

    let (manifests, aside) = (case.path("manifests"), case.path("aside"));
    fs::rename(&manifests, &aside).unwrap();
    let is_lost =
        |it: &Value| it["message"].as_str().is_some_and(|it| it.contains("manifests is lost: it cannot be read"));
    case.until_reason("web", "data", |it| it["code"] == "SourceIncomplete" && is_lost(it));
    let lost = complete();
    assert_eq!((&lost["status"], &lost["reason"]), (&"False".into(), &"SourceLost".into()), "{lost}");
    assert!(lost["lastTransitionTime"].as_str() > before["lastTransitionTime"].as_str(), "{lost} {before}");
    let explained = case.ask(&["explain", "web"]);
    assert!(explained.contains("manifests is lost"), "{explained}");
    assert!(is_alive(&data));

    // It is back, and all in it can be read.
    fs::remove_file(aside.join("broken.yaml")).unwrap();
    fs::rename(&aside, &manifests).unwrap();
    case.wait_unmounted(&["web"]);
    case.wait_mounted(&["db"]);
    assert_eq!(complete()["status"], "True");
    assert!(!data.exists());
    assert!(daemon.stop().success());
}

/// What nobody has read may name any pod.
fn manifests_that_are_lost_before_all_were_read_leave_it_unknown_what_is_unmounted(case: &Case) {
    case.manifest("broken.yaml", "kind: [");
    let daemon = case.start();
    fs::rename(case.path("manifests"), case.path("aside")).unwrap();
    daemon.until_logged("the source is lost");
    let late = case.output(&["wait", "--for=unmounted", "--timeout", "0s", "web"]);
    let said = String::from_utf8_lossy(&late.stderr).into_owned();
    assert_eq!(late.status.code(), Some(4), "{said}");
    assert!(said.contains("SourceIncomplete: The manifests are lost"), "{said}");
    assert!(daemon.stop().success());
}

fn a_conflict_keeps_its_winner_over_a_kill(case: &Case) {
    let (data, logs) = earlier_life(case);
    let daemon = case.start_until_mounted(&["web"]);
    // It sorts before the one in force, and has another uid and other volumes.
    let other = pod("web", "").replace("web-1", "web-2").replace("logs", "others");
    case.manifest("a.yaml", &other);
    let is_told = || case.json(&["get", "node"])["status"]["problems"].to_string().contains("a.yaml");
    until("the conflict to be told", &case.path("root/windlass"), is_told);
    daemon.kill();
    let daemon = case.start_until_mounted(&["web", "db"]);
    something_else_comes_and_goes(case);
    assert!(is_alive(&data) && is_alive(&logs) && is_told());
    assert!(!case.path("root/pods/web-2").exists());
    case.remove_manifest("a.yaml");
    something_else_comes_and_goes(case);
    assert!(is_alive(&data) && is_alive(&logs) && !is_told());
    assert!(daemon.stop().success());
}

/// Nobody has seen which of the two was there first.
fn a_conflict_that_came_before_the_start_keeps_what_is_here(case: &Case) {
    let (data, _) = earlier_life(case);
    // It sorts before the other, so it is in force.
    case.manifest("a.yaml", &pod("web", "").replace("web-1", "web-2"));
    let daemon = case.start_without_orphans();
    case.wait_mounted(&["web", "db"]);
    something_else_comes_and_goes(case);
    assert!(is_alive(&data));
    let shown = case.json(&["get", "pods"]);
    let held = shown["items"].as_array().unwrap().iter().find(|it| it["metadata"]["uid"] == "web-1").unwrap();
    let reason = &held["status"]["volumes"][0]["reasons"][0];
    assert_eq!((&held["status"]["phase"], &reason["code"]), (&"Held".into(), &"ManifestConflict".into()), "{held}");
    let message = reason["message"].as_str().unwrap();
    assert!(message.contains("web.yaml:1 names it, and ") && message.contains("a.yaml:1 another Pod"), "{message}");
    let explained = case.ask(&["explain"]);
    assert!(explained.contains("ManifestConflict") && explained.contains("Remove all but one"), "{explained}");
    case.remove_manifest("a.yaml");
    case.wait_mounted(&["web"]);
    assert!(is_alive(&data));
    assert!(daemon.stop().success());
}
