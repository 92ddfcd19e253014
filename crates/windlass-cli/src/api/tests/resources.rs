//! What can be asked, and how the answer is no.

use serde_json::{Value, json};

use super::{super::BASE, client, contract, with_server};

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
        let below = format!("{}/root/pods/{uid}/volumes/kubernetes.io~empty-dir", super::BASE);
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
        case.shared.node.pod_is_ending(&uid);
        case.add_mounted("b-new", "web").await;
        assert_eq!(case.get(&format!("{BASE}/pods")).await.names(), ["web", "web"]);
        let pod = case.get(&format!("{BASE}/namespaces/default/pods/web")).await.json();
        assert_eq!(pod["metadata"]["uid"], "b-new");
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
