//! `usage`: how full volumes are.

use serde_json::{Value, json};
use windlass_api::view::{
    Metadata, Object, PodPhase, PodStatistics, PodStatisticsStatus, Usage, VolumeCondition, VolumeStatistics,
};

use crate::daemon::{Answer, Daemon, list, object};
use crate::objects::*;
use crate::program::lines;

const MIB: u64 = 1 << 20;

fn volume(name: &str, total: Option<u64>, used: u64) -> VolumeStatistics {
    let usage = |total: Option<u64>, used| Usage { total, available: total.map(|it| it - used), used };
    VolumeStatistics {
        volume: name.into(),
        bytes: Some(usage(total.map(|it| it * MIB), used * MIB)),
        inodes: Some(usage(total.map(|_| 1000), 10)),
        ..VolumeStatistics::default()
    }
}

fn statistics(namespace: &str, name: &str, volumes: Vec<VolumeStatistics>) -> PodStatistics {
    let uid = Some(format!("uid-{name}"));
    let metadata = Metadata { namespace: Some(namespace.into()), name: name.into(), uid };
    Object::new(metadata, PodStatisticsStatus { volumes })
}

fn daemon() -> Daemon {
    let condition = |abnormal, message: &str| Some(VolumeCondition { abnormal, message: message.into() });
    let disk = VolumeStatistics { condition: condition(false, "it is well"), ..volume("disk", Some(320), 32) };
    let worn = VolumeStatistics { condition: condition(true, "a disk is\nbroken"), ..volume("worn", Some(10), 10) };
    let stuck = VolumeStatistics {
        volume: "settings".into(),
        error: Some("the volume is not mounted: configmap \"settings\" not found".into()),
        ..VolumeStatistics::default()
    };
    let web_statistics = statistics("default", "web", vec![volume("data", None, 7), stuck]);
    let db_statistics = statistics("shop", "db", vec![disk, worn]);
    // Of this one only a directory was found, and that one goes while the others are asked.
    let found = pod("", "uid-found", PodPhase::Found, vec![mounted("data", "empty-dir")]);
    let found = windlass_api::view::Pod { metadata: Metadata { namespace: None, ..found.metadata.clone() }, ..found };
    let gone = pod("shop", "gone", PodPhase::Leaving, Vec::new());
    Daemon::new([
        ("/namespaces/default/pods", list("Pod", &[stuck_web()])),
        ("/namespaces/empty/pods", list::<Value>("Pod", &[])),
        ("/namespaces/broken/pods", list("Pod", &[pod("broken", "torn", PodPhase::Wanted, Vec::new())])),
        ("/namespaces/broken/pods/torn/statistics", Answer::HangUp),
        // While an earlier pod of the same name goes there are two.
        ("/pods", list("Pod", &[stuck_web(), db(), db(), gone, found])),
        ("/namespaces/default/pods/web/statistics", object(&web_statistics)),
        ("/namespaces/shop/pods/db/statistics", object(&db_statistics)),
        ("/node", object(&node())),
    ])
}

#[test]
fn volumes_are_listed_as_df_lists_them() {
    let daemon = daemon();
    let table = lines(&[
        "POD   VOLUME     SIZE   USED    AVAIL   USE%   CONDITION",
        "web   data       -      7.0Mi   -       -      -",
        "web   settings   -      -       -       -      Unknown: the volume is not mounted: configmap \"settings\" not found",
    ]);
    for words in [&["usage"][..], &["usage", "web"], &["usage", "pod/web"], &["df", "-n", "default"]] {
        assert_eq!(daemon.print(words), table, "{words:?}");
    }
    assert_eq!(
        daemon.print(&["usage", "db", "-A", "-o", "wide"]),
        lines(&[
            "NAMESPACE   POD   VOLUME   SIZE    USED   AVAIL   USE%   INODES   IUSED   IFREE   IUSE%   CONDITION",
            "shop        db    disk     320Mi   32Mi   288Mi   10%    1000     10      990     1%      Normal",
            "shop        db    worn     10Mi    10Mi   0       100%   1000     10      990     1%      Abnormal: a disk is broken",
        ])
    );
    assert_eq!(daemon.print(&["usage", "-A", "--no-headers"]).lines().count(), 4);
    let painted = daemon.print(&["usage", "db", "-A", "--color", "always"]);
    assert!(painted.contains("\u{1b}[31m100%\u{1b}[0m") && painted.contains("\u{1b}[32mNormal"), "{painted:?}");
}

#[test]
fn programs_get_how_full_volumes_are_as_data() {
    let daemon = daemon();
    let json = |words: &[&str]| serde_json::from_str::<Value>(&daemon.print(words)).unwrap();
    let all = json(&["usage", "-A", "-o", "json"]);
    assert_eq!((&all["kind"], all["items"].as_array().unwrap().len()), (&json!("PodStatisticsList"), 2));
    let one = json(&["usage", "web", "-o", "json"]);
    assert_eq!(one["kind"], "PodStatistics");
    assert_eq!(one["status"]["volumes"][0]["bytes"], json!({"used": 7 * MIB}));
    let yaml: Value = serde_saphyr::from_str(&daemon.print(&["usage", "web", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, one);
}

#[test]
fn nothing_to_measure_is_no_failure_and_a_pod_that_is_missing_is_one() {
    let daemon = daemon();
    let run = daemon.run(&["usage", "-n", "empty"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), "No volumes found in empty namespace.\n"));
    daemon.run(&["usage", "wep"]).failed(1, &["pod \"wep\" not found in default namespace", "did you mean web?"]);
    daemon.run(&["usage", "wep", "-A"]).failed(1, &["pod \"wep\" not found in any namespace"]);
    daemon.run(&["usage", "-n", "broken"]).failed(3, &["broke off"]);
}
