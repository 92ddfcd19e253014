//! `mounts`: what container runtimes are told.

use serde_json::{Value, json};
use windlass_api::view::{
    ContainerDevice, ContainerMount, ContainerMounts, ContainersStatus, Metadata, MissingMount, Node, Object,
};

use crate::daemon::{Answer, Daemon, list, object};
use crate::objects::*;
use crate::program::lines;

fn container(name: &str, mounts: Vec<ContainerMount>) -> ContainerMounts {
    ContainerMounts { name: name.into(), mounts, devices: Vec::new(), missing: Vec::new() }
}

fn mount(volume: &str, container_path: &str, read_only: bool, propagation: &str) -> ContainerMount {
    ContainerMount {
        volume: volume.into(),
        host_path: format!("/var/lib/windlass/{volume}"),
        container_path: container_path.into(),
        read_only,
        recursive_read_only: false,
        propagation: propagation.into(),
        relabel: false,
    }
}

fn app() -> ContainerMounts {
    container(
        "app",
        vec![mount("data", "/data", false, "HostToContainer"), mount("settings", "/etc/app", true, "None")],
    )
}

fn daemon(containers: Vec<ContainerMounts>, groups: Vec<i64>) -> Daemon {
    daemon_at(&node(), containers, groups)
}

fn daemon_at(node: &Node, containers: Vec<ContainerMounts>, groups: Vec<i64>) -> Daemon {
    let metadata = Metadata { namespace: Some("default".into()), name: "web".into(), uid: Some("uid-web".into()) };
    let containers = Object::new(metadata, ContainersStatus { containers, groups, volumes: Vec::new() });
    Daemon::new([
        ("/namespaces/default/pods/web/containers", object(&containers)),
        ("/namespaces/default/pods/web", object(&stuck_web())),
        ("/pods", list("Pod", &[stuck_web()])),
        ("/node", object(node)),
    ])
}

#[test]
fn a_runtime_gets_its_part_of_the_configuration() {
    let daemon = daemon(vec![app()], vec![2000]);
    let config: Value = serde_json::from_str(&daemon.print(&["mounts", "web", "-o", "oci"])).unwrap();
    let expected = json!({
        "mounts": [
            {"destination": "/data", "type": "bind", "source": "/var/lib/windlass/data", "options": ["rbind", "rw", "rslave"]},
            {"destination": "/etc/app", "type": "bind", "source": "/var/lib/windlass/settings", "options": ["rbind", "ro", "rprivate"]},
        ],
        "process": {"user": {"additionalGids": [2000]}},
    });
    assert_eq!(config, expected);
}

#[test]
fn podman_and_docker_get_an_argument_a_line() {
    let daemon = daemon(vec![app()], vec![2000]);
    let arguments = lines(&[
        "--mount=type=bind,source=/var/lib/windlass/data,target=/data,bind-propagation=rslave",
        "--mount=type=bind,source=/var/lib/windlass/settings,target=/etc/app,readonly,bind-propagation=rprivate",
        "--group-add=2000",
    ]);
    assert_eq!(daemon.print(&["mounts", "pod/web", "-o", "podman"]), arguments);
    assert_eq!(daemon.print(&["mounts", "web", "-o", "docker"]), arguments);
}

#[test]
fn people_get_a_table_and_programs_the_object() {
    let sidecar = container("sidecar", vec![mount("data", "/cache", true, "None")]);
    let daemon = daemon(vec![app(), sidecar], Vec::new());
    assert_eq!(
        daemon.print(&["mounts", "web"]),
        lines(&[
            "CONTAINER   VOLUME     CONTAINER PATH   ACCESS   PROPAGATION       HOST PATH",
            "app         data       /data            rw       HostToContainer   /var/lib/windlass/data",
            "app         settings   /etc/app         ro       None              /var/lib/windlass/settings",
            "sidecar     data       /cache           ro       None              /var/lib/windlass/data",
        ])
    );
    let object: Value = serde_json::from_str(&daemon.print(&["mounts", "web", "-o", "json", "-c", "sidecar"])).unwrap();
    assert_eq!(object["kind"], "Containers");
    assert_eq!(object["status"]["containers"].as_array().unwrap().len(), 1);
}

#[test]
fn of_several_containers_one_must_be_named() {
    let daemon = daemon(vec![app(), container("sidecar", Vec::new())], Vec::new());
    for format in ["oci", "podman", "docker"] {
        let run = daemon.run(&["mounts", "web", "-o", format]);
        run.failed(2, &["pod default/web has several containers", "--container: app, sidecar"]);
    }
    assert_eq!(daemon.print(&["mounts", "web", "-o", "oci", "-c", "sidecar"]), "{}\n");
    daemon.run(&["mounts", "web", "-c", "other"]).failed(1, &["no container \"other\"", "it has app, sidecar"]);
    daemon.run(&["mounts", "wep"]).failed(1, &["pod \"wep\" not found", "did you mean web?"]);
}

#[test]
fn half_of_a_containers_volumes_is_nothing() {
    let missing = |volume: &str, message: &str| MissingMount {
        volume: volume.into(),
        container_path: format!("/{volume}"),
        message: message.into(),
    };
    let app = |missing| ContainerMounts { missing, ..app() };
    // `settings` is not mounted yet, `data` is and cannot be given all the same.
    let late = daemon(vec![app(vec![missing("settings", "the volume is not mounted: no such object")])], Vec::new());
    let never = daemon(
        vec![app(vec![
            missing("settings", "the volume is not mounted: no such object"),
            missing("data", "subPath is not supported yet"),
        ])],
        Vec::new(),
    );
    for format in ["oci", "podman", "docker"] {
        let said =
            ["settings at /settings: the volume is not mounted: no such object", "hint: `windlass wait web` waits"];
        late.run(&["mounts", "web", "-o", format]).failed(4, &said);
        let said = [
            "settings at /settings: the volume is not mounted: no such object",
            "data at /data: subPath is not supported yet",
        ];
        never.run(&["mounts", "web", "-o", format]).failed(1, &said);
    }
    let unknown = daemon(vec![app(vec![missing("typo", "cannot find volume \"typo\"")])], Vec::new());
    unknown.run(&["mounts", "web", "-o", "oci"]).failed(1, &["typo at /typo: cannot find volume"]);
    assert!(never.print(&["mounts", "web"]).contains("<missing: subPath is not supported yet>"));
}

#[test]
fn what_cannot_be_given_at_all_is_not_waited_for() {
    let message = "subPath is not supported yet; mount the whole volume instead";
    let missing =
        vec![MissingMount { volume: "settings".into(), container_path: "/etc/app".into(), message: message.into() }];
    let daemon = daemon(vec![ContainerMounts { missing, ..app() }], Vec::new());
    daemon.run(&["mounts", "web", "-o", "oci"]).failed(1, &[message]);
}

#[test]
fn paths_of_another_mount_namespace_are_not_handed_out() {
    let elsewhere = |rootless| {
        let mut node = node();
        node.status.mount_namespace = "mnt:[1]".into();
        node.status.rootless = rootless;
        daemon_at(&node, vec![app()], Vec::new())
    };
    let own = elsewhere(true);
    let said = format!(
        "hint: run it, and the container, where they are: `nsenter --preserve-credentials --user --mount --target 42 \
            -- windlass --socket {} mounts web -n default",
        own.socket().display()
    );
    for format in ["oci", "podman", "docker"] {
        let words = ["mounts", "web", "-o", format];
        own.run(&words).failed(1, &["cannot be seen from here", &format!("{said} -o {format}`")]);
    }
    for format in ["table", "json"] {
        let run = own.run(&["mounts", "web", "-c", "app", "-o", format]);
        assert!(run.status == Some(0) && run.stdout.contains("/var/lib/windlass/data"), "{run:?}");
        assert!(run.stderr.contains("note: the mounts are in") && run.stderr.contains(" -c app -o "), "{run:?}");
    }
    elsewhere(false).run(&["mounts", "web", "-o", "oci"]).failed(1, &["`nsenter --mount --target 42 -- windlass"]);
    let mut here = node();
    here.status.mount_namespace = std::fs::read_link("/proc/self/ns/mnt").unwrap().display().to_string();
    daemon_at(&here, vec![app()], Vec::new()).print(&["mounts", "web", "-o", "oci"]);
}

#[test]
fn of_a_pod_that_goes_the_daemon_says_why_it_has_no_containers() {
    let gone = "no manifest of pod \"db\" is in force any more, so its containers are not known";
    let daemon = Daemon::new([
        ("/namespaces/shop/pods/db/containers", Answer::Status(404, "NotFound", gone)),
        ("/namespaces/shop/pods/db", object(&db())),
    ]);
    let run = daemon.run(&["mounts", "db", "-n", "shop"]);
    run.failed(1, &[gone]);
    assert!(!run.stderr.contains("hint"), "{}", run.stderr);
}

#[test]
fn a_device_that_cannot_be_seen_is_told() {
    let device = ContainerDevice {
        volume: "disk".into(),
        host_path: "/dev/there-is-none".into(),
        container_path: "/dev/disk".into(),
        permissions: "r".into(),
    };
    let daemon = daemon(vec![ContainerMounts { devices: vec![device], ..app() }], Vec::new());
    let run = daemon.run(&["mounts", "web", "-o", "oci"]);
    run.failed(1, &["look at the device /dev/there-is-none, which must be visible from here: No such file"]);
    let arguments = daemon.print(&["mounts", "web", "-o", "podman"]);
    assert!(arguments.ends_with("--device=/dev/there-is-none:/dev/disk:r\n"), "{arguments}");
}
