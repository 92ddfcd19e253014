//! `describe`: everything about one thing.

use crate::daemon::{Daemon, list, object};
use crate::objects::*;
use crate::program::lines;

fn daemon() -> Daemon {
    Daemon::new([
        ("/namespaces/default/pods/web", object(&stuck_web())),
        ("/namespaces/default/pods", list("Pod", &[stuck_web()])),
        ("/namespaces/default/events", list("Event", &[event(5)])),
        ("/pods", list("Pod", &[stuck_web(), db()])),
        ("/events", list("Event", &[event(5)])),
        ("/volumes", list("Volume", &[volume()])),
        ("/drivers", list("Driver", &[driver(), missing_driver()])),
        ("/node", object(&node())),
    ])
}

#[test]
fn a_pod_is_described_with_its_volumes_and_events() {
    let daemon = daemon();
    let text = lines(&[
        "Name:       web",
        "Namespace:  default",
        "UID:        uid-web",
        "Phase:      Wanted",
        "Age:        2d",
        "Conditions:",
        "  TYPE             STATUS   AGE   REASON          MESSAGE",
        "  VolumesMounted   False    2d    ObjectMissing   configmap \"settings\" not found",
        "  VolumesCurrent   True     2d    Current",
        "Volumes:",
        "  data:",
        "    Type:    empty-dir",
        "    Volume:  kubernetes.io/empty-dir/uid-web-data",
        "    Mode:    Filesystem",
        "    Status:  Mounted for 2d",
        "    Path:    /var/lib/windlass/pods/uid-web/volumes/kubernetes.io~empty-dir/data",
        "  settings:",
        "    Type:    configmap",
        "    Volume:  kubernetes.io/configmap/uid-web-settings",
        "    Mode:    Filesystem",
        "    Status:  ObjectMissing for 2d",
        "    Path:    <none>",
        "    Reasons:",
        "      BackingOff: publish failed",
        "      (for 2d, failed 4 times, next try in 2d)",
        "      └─> ObjectMissing: configmap \"settings\" not found",
        "          (for 2d, waits for object ConfigMap default/settings)",
        "    What to do:  Do something about ObjectMissing.",
        "Events:",
        "  TYPE      REASON        AGE               MESSAGE",
        "  Warning   FailedMount   2d (x5 over 2d)   MountVolume.SetUp failed for volume \"settings\"",
    ]);
    for words in [&["describe", "pod", "web"][..], &["describe", "pod/web"], &["describe", "pods"]] {
        assert_eq!(daemon.print(words), text, "{words:?}");
    }
    let both = daemon.print(&["describe", "pods", "-A"]);
    assert!(both.starts_with(&format!("{text}\n\nName:       db\n")), "{both}");
    daemon.run(&["describe", "pod", "wep"]).failed(1, &["not found in default namespace", "did you mean web?"]);
    daemon.run(&["describe", "pod", "web", "nosuch", "-A"]).failed(1, &["pod \"nosuch\" not found in any namespace"]);
    daemon.run(&["describe", "pod", "wep", "-A"]).failed(1, &["pod \"wep\" not found in any namespace"]);
}

#[test]
fn a_volume_is_described_with_its_pods() {
    let daemon = daemon();
    let text = lines(&[
        "Name:      kubernetes.io/local-volume/disk",
        "Type:      local-volume",
        "Status:    Mounted",
        "Attached:  NotNeeded",
        "Staged:    Held",
        "In Use:    true",
        "Size:      10Gi",
        "Pods:",
        "  POD       AS     PUBLISHED   UID",
        "  shop/db   disk   Held        uid-db",
    ]);
    assert_eq!(daemon.print(&["describe", "volume", "kubernetes.io/local-volume/disk"]), text);
    assert_eq!(daemon.print(&["describe", "volumes"]), text);
    daemon.run(&["describe", "volume", "other"]).failed(1, &["volume \"other\" not found", "get volumes"]);
}

#[test]
fn a_driver_is_described_with_what_is_set_for_it() {
    let daemon = daemon();
    let text = lines(&[
        "Name:           disks.example.com",
        "Registered:     yes, for 2d",
        "Endpoint:       /run/disks/csi.sock",
        "Controller:     /run/disks/csi.sock",
        "Node ID:        node-1",
        "Volume Limit:   8",
        "Timeout:        1m 30s",
        "Calls At Once:  3, at most 4",
        "Operations:     4 under way, 2 wait for those to end",
        "Topology:",
        "  zone=a",
        "Capabilities:",
        "  STAGE_UNSTAGE_VOLUME",
        "  EXPAND_VOLUME",
        "Volumes:  <none>",
    ]);
    assert_eq!(daemon.print(&["describe", "driver", "disks.example.com"]), text);
    let missing = daemon.print(&["describe", "driver/away.example.com"]);
    assert!(missing.contains("Registered:    no: start the driver;"), "{missing}");
    assert!(["Timeout", "Calls", "Operations"].iter().all(|it| !missing.contains(it)), "{missing}");
    daemon.run(&["describe", "driver", "other"]).failed(1, &["driver \"other\" not found", "get drivers"]);
}

#[test]
fn the_node_is_described_with_what_is_wrong() {
    let daemon = daemon();
    let text = daemon.print(&["describe", "node"]);
    for line in [
        "Name:       node-1\n",
        "Version:    9.9.9\n",
        "Root:       /var/lib/windlass\n",
        "  ManifestsValid   False    2d    Invalid    2 problems keep manifests from being in force.\n",
        "  Pods:        2 (1 ready)\n",
        "  error: /etc/windlass/manifests/shop.yaml:7: Pod default/shop: spec.volumes[0]: no name\n",
    ] {
        assert!(text.contains(line), "{line:?} is missing:\n{text}");
    }
    daemon.run(&["describe", "node", "node-2"]).failed(1, &["the node of this daemon is node-1"]);
}
