//! `explain`: the chain of reasons, and what is said of a pod that is not there.

use serde_json::Value;
use windlass_api::view::PodPhase;

use crate::daemon::{Daemon, list, object};
use crate::objects::*;
use crate::program::{Run, lines, windlass};

fn daemon() -> Daemon {
    let named_pod = pod("default", "pod", PodPhase::Wanted, vec![mounted("data", "empty-dir")]);
    let refreshing =
        windlass_api::view::MountStatus { reasons: vec![reason("NoSpace", "disk full")], ..mounted("data", "x") };
    let unwell = pod("default", "unwell", PodPhase::Wanted, vec![refreshing]);
    Daemon::new([
        ("/namespaces/default/pods/web", object(&stuck_web())),
        ("/namespaces/default/pods/good", object(&web())),
        ("/namespaces/default/pods/pod", object(&named_pod)),
        ("/namespaces/default/pods/unwell", object(&unwell)),
        ("/namespaces/shop/pods/db", object(&db())),
        ("/pods", list("Pod", &[stuck_web(), db()])),
        ("/node", object(&node())),
    ])
}

#[test]
fn the_deepest_cause_comes_last_with_what_to_do() {
    let daemon = daemon();
    let text = lines(&[
        "pod default/web: 1 of 2 volumes is not mounted",
        "",
        "settings (configmap): ObjectMissing for 2d",
        "  BackingOff: publish failed",
        "  (for 2d, failed 4 times, next try in 2d)",
        "  └─> ObjectMissing: configmap \"settings\" not found",
        "      (for 2d, waits for object ConfigMap default/settings)",
        "  What to do: Do something about ObjectMissing.",
    ]);
    assert_eq!(daemon.print(&["explain", "web"]), text);
    assert_eq!(daemon.print(&["explain", "pod/web"]), text);
    let ascii = windlass().env("LANG", "C").arg("--socket").arg(daemon.socket()).args(["explain", "web"]).output();
    assert!(Run::of(ascii.unwrap()).stdout.contains("  `-> ObjectMissing"));
}

#[test]
fn one_volume_can_be_asked_for() {
    let daemon = daemon();
    assert_eq!(daemon.print(&["explain", "web/data"]), "pod default/web: volume data is mounted\n");
    let text = daemon.print(&["explain", "pod/web/settings"]);
    assert!(text.starts_with("pod default/web: volume settings is not mounted\n"), "{text}");
    daemon.run(&["explain", "web/dat"]).failed(1, &["has no volume \"dat\"", "hint: it has data, settings"]);
    // A pod may be called `pod`.
    assert_eq!(daemon.print(&["explain", "pod/data"]), "pod default/pod: volume data is mounted\n");
}

#[test]
fn what_is_settled_is_said_in_a_line() {
    let daemon = daemon();
    assert_eq!(daemon.print(&["explain", "good"]), "pod default/web: all 2 volumes are mounted\n");
    let text = daemon.print(&["explain", "unwell"]);
    assert!(text.starts_with("pod default/unwell: its only volume is mounted, with trouble\n"));
    assert!(text.contains("  NoSpace: disk full\n"), "{text}");
}

#[test]
fn of_a_pod_that_goes_it_is_said_what_is_still_here() {
    let text = daemon().print(&["explain", "db", "-n", "shop"]);
    assert!(text.starts_with("pod shop/db is Leaving: 1 volume is still here\n\ndisk (local-volume): "), "{text}");
    assert!(!text.contains("not mounted"), "{text}");
}

#[test]
fn programs_get_the_volumes() {
    let daemon = daemon();
    let volumes: Value = serde_json::from_str(&daemon.print(&["explain", "web/settings", "-o", "json"])).unwrap();
    assert_eq!(volumes[0]["reasons"][1]["code"], "ObjectMissing");
    assert_eq!(volumes.as_array().unwrap().len(), 1);
    assert!(daemon.print(&["explain", "web", "-o", "yaml"]).contains("code: ObjectMissing"));
}

#[test]
fn who_is_perhaps_meant_is_said() {
    let daemon = daemon();
    daemon.run(&["explain", "wep"]).failed(1, &["pod \"wep\" not found in default namespace", "did you mean web?"]);
    daemon.run(&["explain", "db"]).failed(1, &["hint: there is one in another namespace: use --namespace shop"]);
    daemon.run(&["explain", "shop"]).failed(
        1,
        &["hint: its manifest has a problem: /etc/windlass/manifests/shop.yaml:7: Pod default/shop: spec.volumes[0]: no name"],
    );
    daemon.run(&["explain", "unknown"]).failed(
        1,
        &["hint: a manifest that cannot be read may be its own: /etc/windlass/manifests/torn.yaml:3: this is no YAML"],
    );
}

#[test]
fn without_a_name_all_that_is_not_well_is_told_by_its_cause() {
    let other = pod("shop", "api", PodPhase::Wanted, vec![stale("settings"), mounted("data", "empty-dir")]);
    let mut disk = volume();
    disk.status.reasons = vec![reason("BackingOff", "stage failed"), reason("Failed", "no such device")];
    let daemon = Daemon::new([
        ("/pods", list("Pod", &[stuck_web(), other.clone()])),
        ("/volumes", list("Volume", &[disk.clone()])),
        ("/node", object(&node())),
    ]);
    let text = daemon.print(&["explain"]);
    let causes: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(
        causes[1],
        [
            "ObjectMissing: configmap \"settings\" not found",
            "  (for 2d, waits for object ConfigMap default/settings)",
            "  Pods: default/web/settings, shop/api/settings",
            "  What to do: Do something about ObjectMissing.",
        ]
        .join("\n")
    );
    assert!(causes[2].starts_with("Failed: no such device\n"), "{text}");
    assert!(causes[2].contains("  Volumes: kubernetes.io/local-volume/disk\n"), "{text}");
    let causes: Value = serde_json::from_str(&daemon.print(&["explain", "-o", "json"])).unwrap();
    assert_eq!(causes[0]["code"], "ObjectMissing");
    assert_eq!(causes[0]["pods"], serde_json::json!(["default/web/settings", "shop/api/settings"]));
    for problem in node().status.problems {
        assert!(text.contains(&problem.message), "{text}");
    }

    let mut well = node();
    well.status.problems.clear();
    well.status.conditions.retain(|it| it.status == windlass_api::view::ConditionStatus::True);
    let daemon = Daemon::new([
        ("/pods", list("Pod", &[web()])),
        ("/volumes", list("Volume", &[volume()])),
        ("/node", object(&well)),
    ]);
    assert_eq!(daemon.print(&["explain"]), "Nothing is wrong: 1 of 1 pod have all their volumes.\n");
    assert_eq!(daemon.print(&["explain", "-o", "json"]), "[]\n");
}
