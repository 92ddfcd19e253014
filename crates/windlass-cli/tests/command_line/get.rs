//! `get`: every kind in every format.

use serde_json::{Value, json};

use crate::daemon::{Daemon, list, object};
use crate::objects::*;
use crate::program::lines;

fn daemon() -> Daemon {
    let mounts = windlass_api::view::mounts(&stuck_web());
    Daemon::new([
        ("/namespaces/default/pods", list("Pod", &[stuck_web()])),
        ("/namespaces/empty/pods", list::<Value>("Pod", &[])),
        ("/pods", list("Pod", &[db(), stuck_web()])),
        ("/volumes", list("Volume", &[volume()])),
        ("/namespaces/default/mounts", list("Mount", &mounts)),
        ("/drivers", list("Driver", &[missing_driver(), driver()])),
        ("/operations", list("Operation", &[operation()])),
        ("/namespaces/default/events", list("Event", &[event(5)])),
        ("/node", object(&node())),
    ])
}

#[test]
fn pods_are_listed_as_kubectl_lists_them() {
    let daemon = daemon();
    let table = lines(&["NAME   READY   STATUS          AGE", "web    1/2     ObjectMissing   2d"]);
    assert_eq!(daemon.print(&["get", "pods"]), table);
    for words in [&["get", "pod"][..], &["get", "po", "web"], &["get", "pod/web"], &["get", "pods", "-n", "default"]] {
        assert_eq!(daemon.print(words), table, "{words:?}");
    }
    assert_eq!(daemon.print(&["get", "pods", "--no-headers"]), "web   1/2   ObjectMissing   2d\n");
    assert_eq!(
        daemon.print(&["get", "pods", "-A"]),
        lines(&[
            "NAMESPACE   NAME   READY   STATUS          AGE",
            "default     web    1/2     ObjectMissing   2d",
            "shop        db     1/1     Leaving         2d",
        ])
    );
    assert_eq!(
        daemon.print(&["get", "pods", "-o", "wide"]),
        lines(&[
            "NAME   READY   STATUS          AGE   UID       MESSAGE",
            "web    1/2     ObjectMissing   2d    uid-web   configmap \"settings\" not found",
        ])
    );
}

#[test]
fn what_is_mounted_and_cannot_be_brought_up_to_date_is_stale() {
    let mut disk = volume();
    disk.status.staged = "NotNeeded".into();
    disk.status.pods[0] = windlass_api::view::VolumeUser {
        stale: true,
        reasons: vec![reason("NoSpace", "no room on /")],
        ..disk.status.pods[0].clone()
    };
    let daemon = Daemon::new([
        ("/namespaces/default/pods", list("Pod", &[stale_web()])),
        ("/namespaces/default/mounts", list("Mount", &windlass_api::view::mounts(&stale_web()))),
        ("/volumes", list("Volume", &[disk])),
    ]);
    assert_eq!(
        daemon.print(&["get", "pods", "-o", "wide"]),
        lines(&[
            "NAME   READY   STATUS   AGE   UID       MESSAGE",
            "web    2/2     Stale    2d    uid-web   configmap \"settings\" not found",
        ])
    );
    assert!(daemon.print(&["get", "mounts"]).contains("web   settings   configmap   Stale     2d\n"));
    assert_eq!(
        daemon.print(&["get", "volumes", "-o", "wide"]),
        lines(&[
            "NAME                              TYPE           STATUS   STAGED   IN-USE   PODS   ATTACHED   SIZE   MESSAGE",
            "kubernetes.io/local-volume/disk   local-volume   Stale    -        true     1      -          10Gi   no room on /",
        ])
    );
}

#[test]
fn the_other_kinds_have_tables_too() {
    let daemon = daemon();
    assert_eq!(
        daemon.print(&["get", "mounts"]),
        lines(&[
            "POD   VOLUME     TYPE        STATUS          AGE",
            "web   data       empty-dir   Mounted         2d",
            "web   settings   configmap   ObjectMissing   2d",
        ])
    );
    assert_eq!(
        daemon.print(&["get", "volumes", "-o", "wide"]),
        lines(&[
            "NAME                              TYPE           STATUS    STAGED   IN-USE   PODS   ATTACHED   SIZE   MESSAGE",
            "kubernetes.io/local-volume/disk   local-volume   Mounted   Held     true     1      -          10Gi",
        ])
    );
    assert_eq!(
        daemon.print(&["get", "drivers"]),
        lines(&[
            "NAME                STATUS       VOLUMES   NODE ID   AGE",
            "away.example.com    Missing      1         <none>    <none>",
            "disks.example.com   Registered   1         node-1    2d",
        ])
    );
    assert_eq!(
        daemon.print(&["get", "driver", "disks.example.com", "-o", "wide", "--no-headers"]),
        "disks.example.com   Registered   1   node-1   2d   8   STAGE_UNSTAGE_VOLUME,EXPAND_VOLUME   \
            /run/disks/csi.sock   /run/disks/csi.sock\n"
    );
    // The pod of an operation is known by its UID; people know it by its name.
    assert_eq!(
        daemon.print(&["get", "operations"]),
        lines(&[
            "ID   OPERATION   STATUS   VOLUME                            POD       AGE",
            "7    publish     Hung     kubernetes.io/local-volume/disk   shop/db   2d",
        ])
    );
    let events = lines(&[
        "LAST SEEN         TYPE      REASON        OBJECT    MESSAGE",
        "2d (x5 over 2d)   Warning   FailedMount   pod/web   MountVolume.SetUp failed for volume \"settings\"",
    ]);
    for words in [&["get", "events"][..], &["events"], &["events", "web"], &["events", "pod/web"]] {
        assert_eq!(daemon.print(words), events, "{words:?}");
    }
    assert_eq!(
        daemon.print(&["get", "node"]),
        lines(&[
            "NAME     STATUS    PODS   VOLUMES   VERSION   AGE",
            "node-1   Invalid   1/2    3         9.9.9     2d",
        ])
    );
}

#[test]
fn programs_get_the_objects_themselves() {
    let daemon = daemon();
    let json = |words: &[&str]| serde_json::from_str::<Value>(&daemon.print(words)).unwrap();
    let all = json(&["get", "pods", "-A", "-o", "json"]);
    assert_eq!((&all["kind"], all["items"].as_array().unwrap().len()), (&json!("PodList"), 2));
    assert_eq!(all["items"][0]["metadata"], json!({"namespace": "default", "name": "web", "uid": "uid-web"}));
    assert_eq!(all["items"][0]["status"]["volumes"][1]["reasons"][1]["code"], "ObjectMissing");
    // One that is asked for by name is not in a list.
    assert_eq!(json(&["get", "pod", "web", "-o", "json"])["kind"], "Pod");
    assert_eq!(json(&["get", "node", "-o", "json"])["status"]["version"], "9.9.9");
    assert_eq!(json(&["get", "pods", "-n", "empty", "-o", "json"])["items"], json!([]));
    let yaml = daemon.print(&["get", "pod", "web", "-o", "yaml"]);
    let from_yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(from_yaml, json(&["get", "pod", "web", "-o", "json"]));
    assert_eq!(daemon.print(&["get", "pods", "-A", "-o", "name"]), "pod/web\npod/db\n");
    assert_eq!(daemon.print(&["get", "mounts", "-o", "name"]), "mount/web/data\nmount/web/settings\n");
}

#[test]
fn nothing_is_no_failure_and_a_name_that_is_missing_is_one() {
    let daemon = daemon();
    let run = daemon.run(&["get", "pods", "-n", "empty"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), ""));
    assert_eq!(run.stderr, "No pods found in empty namespace.\n");
    daemon.run(&["get", "pods", "nobody"]).failed(1, &["error: pod \"nobody\" not found in default namespace\n"]);
    daemon.run(&["get", "volumes", "nothing", "-o", "json"]).failed(1, &["error: volume \"nothing\" not found\n"]);
    // Those that are there are printed all the same.
    let run = daemon.run(&["get", "pods", "web", "nobody", "-o", "name"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(1), "pod/web\n"));
    // A pod to which nothing happened is nothing bad.
    let run = daemon.run(&["events", "nobody"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), "No events found in default namespace.\n"));
}

#[test]
fn color_is_for_terminals_and_for_those_who_ask() {
    let daemon = daemon();
    let painted = daemon.print(&["get", "pods", "--color", "always"]);
    assert!(painted.contains("\u{1b}[31mObjectMissing\u{1b}[0m   2d"), "{painted:?}");
    assert!(!daemon.print(&["get", "pods"]).contains('\u{1b}'));
}
