//! What can be asked, and how the answer is no.

use k8s_openapi::api::core::v1 as api;
use rustix::mount::MountFlags;
use serde_json::{Value, json};
use windlass::source::Containers;
use windlass_api::BASE;
use windlass_api::server::Limits;

use super::{Case, client, contract, in_namespace, run, with_server};

#[test]
fn lists_and_objects_are_answered() {
    with_server(async |case| {
        case.add_mounted("u1", "web").await;
        let empty = json!([{"name": "keys", "secret": {"secretName": "absent"}}]);
        case.add("u2", "stuck", &empty);
        let path = |below: &str| format!("{BASE}{below}");

        assert_eq!(case.get(&path("/pods")).await.names(), ["stuck", "web"]);
        assert_eq!(case.get(&path("/namespaces/default/pods")).await.names(), ["stuck", "web"]);
        assert_eq!(case.get(&path("/namespaces/other/pods")).await.names(), [""; 0]);
        assert_eq!(case.get(&path("/mounts")).await.names(), ["stuck/keys", "web/data"]);
        assert_eq!(case.get(&path("/namespaces/default/mounts")).await.names().len(), 2);
        assert_eq!(case.get(&path("/volumes")).await.names().len(), 2);
        assert_eq!(case.get(&path("/operations")).await.code, 200);
        assert_eq!(case.get(&path("/events")).await.code, 200);
        assert_eq!(case.get(&path("/namespaces/default/events")).await.code, 200);
        assert_eq!(case.get(&path("/node")).await.json()["status"]["counts"]["pods"], 2);

        assert_eq!(case.get(&path("/claims")).await.names(), [""; 0]);
        assert_eq!(case.get(&path("/namespaces/default/claims")).await.code, 200);
        assert_eq!(case.get(&path("/namespaces/default/claims/data")).await.code, 404);

        let pod = case.get(&path("/namespaces/default/pods/web")).await.json();
        assert_eq!(pod["metadata"]["uid"], "u1");
        assert_eq!(pod["status"]["conditions"][0]["status"], "True");
        assert_eq!(case.get("/healthz").await.json(), json!({"status": "ok"}));
        assert_eq!(case.get("/readyz").await.json(), json!({"status": "ok"}));
        assert_eq!(case.get("/version").await.json()["version"], env!("CARGO_PKG_VERSION"));
    });
}

#[test]
fn containers_are_told_what_they_get_and_what_they_do_not() {
    with_server(async |case| {
        let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "absent"}}]);
        let uid = case.add("u1", "web", &volumes);
        let mut watch = client::Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        watch.until(|it| it["object"]["status"]["volumes"][0]["mounted"] == true).await;
        watch.until(|it| it["object"]["status"]["volumes"][1]["reasons"][1]["code"] == "ObjectMissing").await;
        let answer = case.get(&format!("{BASE}/namespaces/default/pods/web/containers")).await.json();
        let container = &answer["status"]["containers"][0];
        assert_eq!(container["mounts"][0]["containerPath"], "/data");
        let host = container["mounts"][0]["hostPath"].as_str().unwrap();
        assert!(host.ends_with(&format!("pods/{uid}/volumes/kubernetes.io~empty-dir/data")), "{host}");
        let why = container["missing"][0]["message"].as_str().unwrap();
        assert!(why.contains("absent"), "the cause is named: {why}");
    });
}

#[test]
fn volumes_are_told_with_how_full_they_are_or_why_that_is_not_known() {
    with_server(async |case| {
        let volumes = json!([
            {"name": "data", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "keys", "secret": {"secretName": "absent"}},
        ]);
        let uid = case.add("u1", "web", &volumes);
        let mut watch = client::Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        let is_so = |it: &Value| {
            let volumes = &it["object"]["status"]["volumes"];
            [0, 1].iter().all(|at| volumes[*at]["mounted"] == true)
                && volumes[2]["reasons"][1]["code"] == "ObjectMissing"
        };
        watch.until(is_so).await;
        let below = format!("{}/root/pods/{uid}/volumes/kubernetes.io~empty-dir", super::HERE);
        std::fs::write(format!("{below}/data/file"), [1; 5000]).unwrap();
        std::fs::write(format!("{below}/memory/file"), [1; 4096]).unwrap();
        let answer = case.get(&format!("{BASE}/namespaces/default/pods/web/statistics")).await.json();
        assert_eq!((&answer["kind"], &answer["metadata"]["uid"]), (&json!("PodStatistics"), &json!("u1")));
        let volumes = &answer["status"]["volumes"];
        // A directory among others has no size of its own; a file system has.
        assert!(volumes[0]["bytes"]["used"].as_u64().unwrap() >= 5000 && volumes[0]["bytes"]["total"].is_null());
        assert_eq!(volumes[1]["bytes"], json!({"total": 1 << 20, "available": (1 << 20) - 4096, "used": 4096}));
        assert_eq!(volumes[1]["inodes"]["used"], 2);
        assert!(volumes[2]["bytes"].is_null());
        let why = volumes[2]["error"].as_str().unwrap();
        assert!(why.starts_with("the volume is not mounted") && why.contains("absent"), "{why}");
        assert_eq!(case.get(&format!("{BASE}/namespaces/default/pods/none/statistics")).await.code, 404);
    });
}

#[test]
fn of_two_pods_of_one_name_the_wanted_one_is_given() {
    with_server(async |case| {
        let uid = case.add_mounted("a-old", "web").await;
        // It may still run, so it stays for a while.
        case.node.source("test").gone(&uid, Containers::MayRun);
        case.add_mounted("b-new", "web").await;
        assert_eq!(case.get(&format!("{BASE}/pods")).await.names(), ["web", "web"]);
        let pod = case.get(&format!("{BASE}/namespaces/default/pods/web")).await.json();
        assert_eq!(pod["metadata"]["uid"], "b-new");
    });
}

/// What stays of a pod is found by its name until it is gone, whatever has come in its place.
#[test]
fn a_pod_that_leaves_is_given_until_another_of_its_name_comes() {
    with_server(async |case| {
        let path = format!("{BASE}/namespaces/default/pods/web");
        let shown = async || {
            let pod = case.get(&path).await.json();
            (pod["metadata"]["uid"].clone(), pod["status"]["phase"].clone())
        };
        let old = case.add_mounted("b-old", "web").await;
        // Somebody has mounted something in it, so it cannot be taken away.
        let data = format!("{}/root/pods/b-old/volumes/kubernetes.io~empty-dir/data/inside", super::HERE);
        std::fs::create_dir(&data).unwrap();
        rustix::mount::mount("foreign", &data, "tmpfs", MountFlags::empty(), None).unwrap();
        case.node.source("test").gone(&old, Containers::Stopped);
        assert_eq!(shown().await, (json!("b-old"), json!("Leaving")));
        let new = case.add_mounted("c-new", "web").await;
        assert_eq!(shown().await, (json!("c-new"), json!("Wanted")));
        assert_eq!(case.get(&format!("{BASE}/pods/b-old")).await.json()["status"]["phase"], "Leaving");
        assert_eq!(case.get(&format!("{BASE}/namespaces/other/pods/web")).await.code, 404);
        case.node.source("test").gone(&new, Containers::Stopped);
        case.node.gone(&new).await.unwrap();
        assert_eq!(shown().await, (json!("b-old"), json!("Leaving")));
        rustix::mount::unmount(&data, rustix::mount::UnmountFlags::empty()).unwrap();
        case.node.gone(&old).await.unwrap();
        assert_eq!(case.get(&path).await.code, 404);
        assert_eq!(case.get(&format!("{BASE}/pods/b-old")).await.code, 404);
    });
}

#[test]
fn what_is_not_there_is_not_found() {
    with_server(async |case| {
        let answer = case.get(&format!("{BASE}/namespaces/default/pods/none")).await;
        assert_eq!((answer.code.as_u16(), answer.json()["reason"].clone()), (404, json!("NotFound")));
        assert_eq!(answer.message(), "there is no pod \"none\" in namespace \"default\"");
        assert_eq!(case.get(&format!("{BASE}/namespaces/default/pods/none/containers")).await.code, 404);
        for path in ["/", "/pods", &format!("{BASE}/"), &format!("{BASE}/pods/"), &format!("{BASE}/namespaces//pods")] {
            assert_eq!(case.get(path).await.code, 404, "{path}");
        }
    });
}

#[test]
fn what_is_asked_wrongly_is_named() {
    with_server(async |case| {
        for (path, message) in [
            (
                format!("{BASE}/pods?wach=true"),
                "the query parameter \"wach\" is not known here; watch and timeoutSeconds are",
            ),
            (format!("{BASE}/pods?watch=1"), "the query parameter watch is \"1\"; it must be true or false"),
            (format!("{BASE}/node?watch=true"), "the query parameter \"watch\" is not known here; none is"),
            ("/healthz?a=b".into(), "the query parameter \"a\" is not known here; none is"),
        ] {
            let answer = case.get(&path).await;
            assert_eq!((answer.code.as_u16(), answer.message()), (400, message.to_owned()), "{path}");
        }
        assert_eq!(case.get(&format!("{BASE}/namespaces/%FF/pods")).await.code, 400);
    });
}

#[test]
fn everything_can_only_be_read() {
    with_server(async |case| {
        for (method, path) in [("POST", format!("{BASE}/pods")), ("DELETE", "/healthz".into()), ("PUT", BASE.into())] {
            let answer = client::ask(&case.socket, method, &path).await;
            assert_eq!(answer.code, 405, "{method} {path}");
            assert_eq!(answer.headers["allow"], "GET,HEAD");
            contract::check("/nowhere", &answer);
        }
        let head = client::ask(&case.socket, "HEAD", &format!("{BASE}/pods")).await;
        assert_eq!((head.code.as_u16(), head.text.as_str()), (200, ""));
        let head = client::ask(&case.socket, "HEAD", &format!("{BASE}/pods?watch=true")).await;
        assert_eq!((head.code.as_u16(), head.text.as_str()), (200, ""));
    });
}

/// An engine that broke off must not look like an empty node that is well.
#[test]
fn a_dead_engine_is_told_everywhere_and_is_never_healthy() {
    in_namespace(|| {
        run(async {
            let case = Case::start(Limits::new(64));
            case.add_mounted("u1", "web").await;
            let mut watch = client::Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
            watch.until(|it| it["type"] == "BOOKMARK").await;
            case.node.break_engine("on purpose");
            assert!(case.node.ended().await.to_string().contains("on purpose"));
            let below =
                ["/node", "/pods", "/mounts", "/volumes", "/drivers", "/operations", "/namespaces/default/pods/web"];
            let paths = below.iter().map(|it| format!("{BASE}{it}"));
            for path in paths.chain(["/healthz".into(), "/readyz".into()]) {
                let answer = case.get(&path).await;
                assert_eq!(answer.code, 503, "{path}");
                let message = answer.json()["message"].as_str().unwrap().to_owned();
                assert!(message.contains("broke off: on purpose"), "{path}: {message}");
            }
            assert_eq!(watch.next().await, None, "the watch ends, and does not tell that all is gone");
        });
    });
}

#[test]
fn conditions_of_the_node_say_when_they_changed() {
    with_server(async |case| {
        let conditions = async || case.get(&format!("{BASE}/node")).await.json()["status"]["conditions"].clone();
        let find = |all: &Value, kind: &str| {
            let found = all.as_array().unwrap().iter().find(|it| it["type"] == kind).cloned().unwrap();
            let since: jiff::Timestamp = found["lastTransitionTime"].as_str().unwrap().parse().unwrap();
            (found["status"].as_str().unwrap().to_owned(), since)
        };
        let (node, mut changes) = (&case.node, case.node.changes());
        while !node.is_synced().await.unwrap() {
            changes.next().await;
        }
        let before = conditions().await;
        assert_eq!(find(&before, "ManifestsValid").0, "True");
        let asked = jiff::Timestamp::now();
        let mut summary = case.source.summary();
        std::fs::write(std::path::Path::new(super::HERE).join("manifests").join("web.yaml"), "kind: {").unwrap();
        summary.wait_for(|it| !it.problems.is_empty()).await.unwrap();
        let after = conditions().await;
        let (valid, since) = find(&after, "ManifestsValid");
        assert_eq!(valid, "False");
        assert!(since >= asked, "{since} and {asked}");
        assert_eq!(conditions().await, after, "a question changes nothing");
        assert_eq!(find(&after, "Synced"), find(&before, "Synced"));
    });
}

/// Whoever may open the socket may read; only root and the daemon's own user may change something.
#[test]
fn what_failed_is_tried_at_once_by_whoever_may_change_something() {
    with_server(async |case| {
        case.add_mounted("u1", "web").await;
        case.add("u2", "stuck", &json!([{"name": "host", "hostPath": {"path": "/mnt/nowhere", "type": "Directory"}}]));
        let mut watch = client::Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        watch.until(|it| it["object"]["status"]["volumes"][0]["reasons"][0]["attempts"].as_u64() > Some(2)).await;
        let post = async |below: &str| client::ask(&case.socket, "POST", &format!("{BASE}{below}")).await;
        let retried = post("/namespaces/default/pods/stuck/retry?volume=host").await;
        assert_eq!(retried.code, 200, "{}", retried.text);
        assert_eq!(retried.json()["status"]["retried"][0]["what"], "pod default/stuck, volume host");
        assert_eq!(post("/namespaces/default/pods/web/retry").await.json()["status"]["retried"], json!([]));
        assert_eq!(post("/retry").await.code, 200);
        assert_eq!(post("/namespaces/default/pods/stuck/retry?volume=none").await.code, 404);
        assert_eq!(post("/namespaces/default/pods/absent/retry").await.code, 404);
        assert_eq!(post("/retry?other=1").await.code, 400);
        let claim: api::PersistentVolumeClaim =
            serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "data"}, "spec": {}})).unwrap();
        case.node.update_object(claim);
        let retried = post("/namespaces/shop/claims/data/retry").await;
        assert_eq!(retried.json()["status"]["retried"], json!([]), "nothing of it has failed");
        assert_eq!(post("/namespaces/default/claims/data/retry").await.code, 404);
        assert_eq!(client::ask(&case.socket, "GET", &format!("{BASE}/retry")).await.code, 405);
    });
}

#[test]
fn a_claim_is_shown_and_not_deleted_while_it_is_there() {
    with_server(async |case| {
        let claim: api::PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }))
        .unwrap();
        let mut watch = client::Watch::open(&case.socket, &format!("{BASE}/claims?watch=true")).await;
        case.node.update_object(claim);
        let step = watch.until(|it| it["object"]["status"]["reasons"][0]["code"] == "ControllerMissing").await;
        contract::check_step("Claim", &step);
        let path = format!("{BASE}/namespaces/default/claims/data");
        let shown = case.get(&path).await.json();
        assert_eq!(
            (&shown["status"]["phase"], &shown["status"]["requestedBytes"]),
            (&json!("Pending"), &json!(1 << 30))
        );
        assert_eq!(client::ask(&case.socket, "DELETE", &path).await.code, 409);
        let absent = format!("{BASE}/namespaces/default/claims/absent");
        assert_eq!(client::ask(&case.socket, "DELETE", &absent).await.code, 404);
        assert_eq!(client::ask(&case.socket, "DELETE", &format!("{BASE}/claims")).await.code, 405);
    });
}
