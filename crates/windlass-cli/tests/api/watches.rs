//! Watches: what is there, what changes, and how they end.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, from_value, json};
use windlass::Node;
use windlass::ids::PodUid;
use windlass::source::Containers;
use windlass_api::BASE;

use super::client::Watch;
use super::contract::check_step;
use super::{limits, pod, with_limits, with_server};

/// What happened to what.
fn step(event: &Value) -> (String, String) {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.into(), name.into())
}

#[test]
fn a_watch_tells_what_is_there_and_then_what_comes_changes_and_goes() {
    with_server(async |case| {
        case.add_mounted("u1", "old").await;
        let mut watch = Watch::open(&case.socket, &format!("{BASE}/namespaces/default/pods?watch=true")).await;
        assert_eq!(step(&watch.next().await.unwrap()), pair("ADDED", "old"));
        assert_eq!(watch.next().await.unwrap(), json!({"type": "BOOKMARK"}));

        let uid = case.add("u2", "new", &json!([{"name": "data", "emptyDir": {}}]));
        let added = watch.next().await.unwrap();
        check_step("Pod", &added);
        assert_eq!(step(&added), pair("ADDED", "new"));
        // It may have been mounted by the time that it was first told of.
        let mounted = |it: &Value| it["object"]["status"]["conditions"][0]["status"] == "True";
        if !mounted(&added) {
            watch.until(mounted).await;
        }

        case.node.source("test").gone(&uid, Containers::Stopped);
        let gone = watch.until(|it| it["type"] == "DELETED").await;
        assert_eq!(step(&gone), pair("DELETED", "new"), "it is told as it last was");
        check_step("Pod", &gone);
    });
}

#[test]
fn a_change_that_leaves_a_pod_as_it_was_is_not_told() {
    with_server(async |case| {
        case.add_mounted("u1", "same").await;
        let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        watch.until(|it| it["type"] == "BOOKMARK").await;
        // The same pod once more, and then something else, which is the next that is told.
        case.add("u1", "same", &json!([{"name": "data", "emptyDir": {}}]));
        case.add("u2", "other", &json!([{"name": "data", "emptyDir": {}}]));
        assert_eq!(step(&watch.next().await.unwrap()), pair("ADDED", "other"));
    });
}

#[test]
fn every_kind_that_can_be_watched_tells_of_changes() {
    with_server(async |case| {
        let open = async |path: &str| {
            let mut watch = Watch::open(&case.socket, &format!("{BASE}/{path}?watch=true")).await;
            assert_eq!(watch.next().await.unwrap(), json!({"type": "BOOKMARK"}), "{path} is empty");
            watch
        };
        let (mut mounts, mut volumes) = (open("mounts").await, open("volumes").await);
        let (mut operations, mut events) = (open("operations").await, open("namespaces/default/events").await);
        let mut elsewhere = open("namespaces/other/mounts").await;

        let volumes_of_it = json!([{"name": "keys", "secret": {"secretName": "keys"}}]);
        let uid = case.add("u1", "web", &volumes_of_it);
        let waiting = mounts.until(|it| it["object"]["status"]["reasons"][1]["code"] == "ObjectMissing").await;
        check_step("Mount", &waiting);
        let secret: Secret = from_value(json!({"metadata": {"namespace": "default", "name": "keys"}})).unwrap();
        case.node.update_object(secret);
        let mounted = mounts.until(|it| it["object"]["status"]["mounted"] == true).await;
        assert_eq!(step(&mounted).1, "web/keys");
        let held = volumes.until(|it| it["object"]["status"]["pods"][0]["published"] == "Held").await;
        check_step("Volume", &held);

        let token = json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
        case.add("u3", "slow", &token);
        let is_slow = |it: &Value| it["object"]["status"]["podUid"] == "u3";
        let running = operations.until(is_slow).await;
        check_step("Operation", &running);
        assert_eq!((step(&running).0, &running["object"]["status"]["hung"]), ("ADDED".into(), &json!(false)));
        case.tokens.send(()).unwrap();
        operations.until(|it| is_slow(it) && it["type"] == "DELETED").await;

        let event = |title, uid| case.journal.pod_event(title, uid, "Warning", "FailedMount", "it failed");
        event("other/away", "u4");
        event("default/web", "u1");
        let told = events.next().await.unwrap();
        check_step("Event", &told);
        assert_eq!((step(&told).0, &told["object"]["status"]["count"]), ("ADDED".into(), &json!(1)));
        event("default/web", "u1");
        let again = events.next().await.unwrap();
        assert_eq!((step(&again).0, &again["object"]["status"]["count"]), ("MODIFIED".into(), &json!(2)));

        case.node.source("test").gone(&uid, Containers::Stopped);
        assert_eq!(step(&mounts.until(|it| it["type"] == "DELETED").await).1, "web/keys");
        volumes.until(|it| it["type"] == "DELETED").await;

        let node = &case.node;
        let mut other = pod("u2", "away", &json!([{"name": "data", "emptyDir": {}}]));
        other.metadata.namespace = Some("other".into());
        node.source("test").apply(other).unwrap();
        assert_eq!(step(&elsewhere.next().await.unwrap()), pair("ADDED", "away/data"), "nothing of other namespaces");
    });
}

#[test]
fn a_watch_ends_in_order_when_its_time_is_over() {
    with_server(async |case| {
        let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true&timeoutSeconds=1")).await;
        assert_eq!(watch.next().await.unwrap(), json!({"type": "BOOKMARK"}));
        assert_eq!(watch.next().await, None);
    });
}

#[test]
fn watches_end_in_order_when_the_daemon_stops() {
    with_server(async |case| {
        let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        assert_eq!(watch.next().await.unwrap(), json!({"type": "BOOKMARK"}));
        case.stop.send_replace(true);
        assert_eq!(watch.next().await, None);
    });
}

#[test]
fn a_watch_that_falls_behind_still_ends_up_with_what_there_is() {
    with_server(async |case| {
        case.add_mounted("u0", "first").await;
        let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        watch.until(|it| it["type"] == "BOOKMARK").await;
        // More changes than are kept for a slow listener. Nothing here gives the server its turn, so it is one.
        let volumes = json!([{"name": "data", "emptyDir": {}}]);
        for _ in 0..5000 {
            case.add("u0", "first", &volumes);
        }
        let last = case.add("u9", "last", &volumes);
        wait_elsewhere(case.node.clone(), last);
        assert_eq!(step(&watch.next().await.unwrap()), pair("ADDED", "last"));
    });
}

/// Waits for a pod on another thread, so that this one does nothing meanwhile.
fn wait_elsewhere(node: Node, uid: PodUid) {
    let waiting = std::thread::spawn(move || super::run(async { node.ready(&uid).await.map(|_| ()) }));
    assert!(waiting.join().unwrap().is_ok());
}

#[test]
fn a_client_that_goes_away_leaves_nothing_running() {
    with_limits(
        limits(1, |it| {
            it.patience = Duration::from_secs(30);
        }),
        async |case| {
            let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
            watch.next().await.unwrap();
            drop(watch);
            // Nothing changes, and yet the only place is free again.
            assert_eq!(case.get("/healthz").await.code, 200);
        },
    );
}
