//! Only windlass's own mounts are taken for its own, and what is handed out is what was made (I-4, I-12).

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use serde_json::Value;
use windlass_testing::daemon::Case;

use crate::attacks;
use crate::victim::{CANARY, SECRET, WEB, canaries_live, log, pass_the_delay, pass_the_delay_blindly, start};

attacks!["adoption":
    a_foreign_file_system_covers_a_mounted_secret,
    a_foreign_file_system_covers_a_secret_over_a_restart,
    a_foreign_file_system_waits_where_a_secret_will_be,
    a_foreign_file_system_takes_the_place_of_scratch_space,
    scratch_space_is_unmounted_by_hand,
    links_wait_where_volumes_will_be,
    volumes_are_exchanged_with_links_while_they_are_updated,
    paths_of_items_lead_outside,
    a_uid_is_a_path,
    a_socket_is_in_the_way,
];

/// The files below a directory, with what is in them.
fn files(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into())),
        }
    }
    found
}

/// A file system of somebody else's, which shows what is written into it at a second place.
fn foreign(case: &Case) -> PathBuf {
    let foreign = case.path("foreign");
    fs::create_dir_all(&foreign).unwrap();
    mount("foreign", &foreign, "tmpfs", MountFlags::empty(), None).unwrap();
    foreign
}

/// Nothing was written into what is not ours, and it is not handed out.
fn nothing_is_told(case: &Case, foreign: &Path, after: &str) {
    let told: Vec<_> = files(foreign).into_iter().filter(|(_, text)| text.contains(SECRET)).collect();
    assert!(told.is_empty(), "after {after} the secret is in a foreign file system: {told:?}\n{}", log(case));
    let keys = case.volume("web-1", "secret", "keys");
    assert!(!handed_out(case).contains(&keys), "after {after} a foreign file system is handed out\n{}", log(case));
}

/// The paths that are given to containers of the pod `web`.
fn handed_out(case: &Case) -> Vec<PathBuf> {
    let output = case.output(&["mounts", "web", "-o", "json"]);
    let handed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let status = &handed["status"];
    let mounts =
        list(status, "containers").into_iter().flat_map(|it| list(&it, "mounts")).map(|it| it["hostPath"].clone());
    let volumes = list(status, "volumes").into_iter().map(|it| it["path"].clone());
    mounts.chain(volumes).filter_map(|it| it.as_str().map(PathBuf::from)).collect()
}

fn a_foreign_file_system_covers_a_mounted_secret(case: &Case) {
    let daemon = start(case);
    let foreign = foreign(case);
    let keys = case.volume("web-1", "secret", "keys");
    mount_bind(&foreign, &keys).unwrap();
    for number in 0..2 {
        case.manifest("web.yaml", &WEB.replace("stringData: {", &format!("stringData: {{n: \"{number}\", ")));
        pass_the_delay(case, &case.path("manifests"));
        nothing_is_told(case, &foreign, "a change of the secret");
    }
    canaries_live(case, "a foreign file system");
    assert!(daemon.stop().success());
}

fn a_foreign_file_system_covers_a_secret_over_a_restart(case: &Case) {
    let daemon = start(case);
    daemon.kill();
    let foreign = foreign(case);
    let keys = case.volume("web-1", "secret", "keys");
    // Both: over our own, and in its place.
    for (what, first) in [("over ours", false), ("in the place of ours", true)] {
        if first {
            while unmount(&keys, UnmountFlags::DETACH).is_ok() {}
        }
        mount_bind(&foreign, &keys).unwrap();
        let daemon = case.start();
        pass_the_delay_blindly(case);
        nothing_is_told(case, &foreign, what);
        daemon.kill();
    }
    canaries_live(case, "a foreign file system and restarts");
}

fn a_foreign_file_system_waits_where_a_secret_will_be(case: &Case) {
    let foreign = foreign(case);
    let keys = case.volume("web-1", "secret", "keys");
    fs::create_dir_all(&keys).unwrap();
    mount_bind(&foreign, &keys).unwrap();
    case.manifest("web.yaml", WEB);
    let daemon = case.start();
    pass_the_delay_blindly(case);
    nothing_is_told(case, &foreign, "the first publish");
    daemon.kill();
}

/// Scratch space in memory that somebody covered is not shown as what it was.
fn a_foreign_file_system_takes_the_place_of_scratch_space(case: &Case) {
    let daemon = start(case);
    let foreign = foreign(case);
    fs::write(foreign.join("mine"), CANARY).unwrap();
    let cache = case.volume("web-1", "empty-dir", "cache");
    mount_bind(&foreign, &cache).unwrap();
    pass_the_delay(case, &case.path("manifests"));
    assert!(!handed_out(case).contains(&cache), "it is handed out\n{}", log(case));
    // And it is not emptied with the pod.
    case.remove_manifest("web.yaml");
    case.output(&["wait", "--for", "unmounted", "--timeout", "3s", "web"]);
    assert_eq!(fs::read_to_string(foreign.join("mine")).unwrap(), CANARY);
    daemon.kill();
}

fn scratch_space_is_unmounted_by_hand(case: &Case) {
    let daemon = start(case);
    unmount(case.volume("web-1", "empty-dir", "cache"), UnmountFlags::DETACH).unwrap();
    pass_the_delay(case, &case.path("manifests"));
    let events = case.ask(&["events", "--all-namespaces"]);
    assert!(
        events.contains("VolumeContentLost"),
        "the content is lost and no event tells of it: {events}\n{}",
        log(case)
    );
    let shown = case.output(&["explain", "web"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("lost"), "nor does explain: {shown}");
    assert!(daemon.stop().success());
}

fn links_wait_where_volumes_will_be(case: &Case) {
    let outside = case.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), CANARY).unwrap();
    let pods = case.path("root/pods");
    for (what, path) in [
        ("the pod's directory", pods.join("web-1")),
        ("the volumes", pods.join("web-1/volumes")),
        ("a plugin's directory", pods.join("web-1/volumes/kubernetes.io~secret")),
        ("the volume", pods.join("web-1/volumes/kubernetes.io~secret/keys")),
    ] {
        let _ = fs::remove_dir_all(&pods);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(&outside, &path).unwrap();
        case.manifest("web.yaml", WEB);
        let daemon = case.start();
        case.output(&["wait", "--timeout", "1s", "web"]);
        case.remove_manifest("web.yaml");
        case.output(&["wait", "--for", "unmounted", "--timeout", "2s", "web"]);
        daemon.kill();
        let found = files(&outside);
        assert!(found.len() == 1 && found[0].1 == CANARY, "a link at {what} was followed: {found:?}\n{}", log(case));
        for mount in case.mounts() {
            let _ = unmount(mount, UnmountFlags::DETACH);
        }
    }
}

fn volumes_are_exchanged_with_links_while_they_are_updated(case: &Case) {
    use rustix::fs::{CWD, RenameFlags};
    let daemon = start(case);
    let outside = case.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), CANARY).unwrap();
    let settings = case.volume("web-1", "configmap", "settings");
    let link = case.path("root/pods/web-1/volumes/link");
    symlink(&outside, &link).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &link, CWD, &settings, RenameFlags::EXCHANGE);
            }
        });
        for number in 0..crate::rounds() * 20 {
            case.manifest("web.yaml", &WEB.replace("color: blue", &format!("color: blue-{number}")));
        }
        pass_the_delay(case, &case.path("manifests"));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let found = files(&outside);
    assert!(found.len() == 1 && found[0].1 == CANARY, "a link was followed: {found:?}\n{}", log(case));
    daemon.kill();
}

fn paths_of_items_lead_outside(case: &Case) {
    let daemon = start(case);
    for (number, path) in
        ["../x", "a/../../x", "/x", "..data", "..data/x", "..2026/x", "a/..", ".", "", "..", "x\\0y"].iter().enumerate()
    {
        let text = format!(
            "{}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: odd-{number}, uid: odd-{number}-1}}\nspec:\n  containers: \
             [{{name: main, volumeMounts: [{{name: v, mountPath: /v}}]}}]\n  volumes: [{{name: v, configMap: {{name: odd, \
             items: [{{key: color, path: \"{path}\"}}]}}}}]\n",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\ndata: {color: canary-of-an-item}\n"
        );
        case.manifest("odd.yaml", &text);
        case.output(&["wait", "--timeout", "300ms", &format!("odd-{number}")]);
        let volume = case.volume(&format!("odd-{number}-1"), "configmap", "v");
        let outside: Vec<_> = files(&case.path("root/pods"))
            .into_iter()
            .filter(|(path, text)| text.contains("canary-of-an-item") && !path.starts_with(&volume))
            .collect();
        assert!(outside.is_empty(), "path {path:?} leads outside: {outside:?}");
    }
    canaries_live(case, "paths that lead outside");
    assert!(daemon.stop().success());
}

fn a_uid_is_a_path(case: &Case) {
    let daemon = start(case);
    let outside = case.path("outside");
    fs::create_dir(&outside).unwrap();
    for uid in ["../../outside", "..", ".", "a/b", "/mnt/a/outside", "web-1/volumes", "a\\nb", ""] {
        let text = crate::victim::pod("odd").replace("odd-1", &format!("\"{uid}\""));
        case.manifest("odd.yaml", &text);
        case.output(&["wait", "--timeout", "300ms", "odd"]);
        case.remove_manifest("odd.yaml");
        case.output(&["wait", "--for", "unmounted", "--timeout", "1s", "odd"]);
        assert!(outside.exists() && fs::read_dir(&outside).unwrap().count() == 0, "uid {uid:?} leads outside");
        canaries_live(case, &format!("uid {uid:?}"));
    }
    assert!(daemon.stop().success());
}

fn a_socket_is_in_the_way(case: &Case) {
    // Where the API's socket will be, and in the registry of drivers.
    let registry = case.path("root/plugins_registry");
    fs::create_dir_all(&registry).unwrap();
    let nobody = UnixListener::bind(registry.join("nobody.sock")).unwrap();
    fs::write(registry.join("plain.sock"), CANARY).unwrap();
    fs::write(case.path("run/api.sock"), CANARY).unwrap();
    case.manifest("web.yaml", WEB);
    let mut daemon = case.spawn(case.run());
    // It refuses, or takes the place of the file.
    if !daemon.says("READY=1") {
        assert_eq!(
            fs::read_to_string(case.path("run/api.sock")).unwrap(),
            CANARY,
            "a file of somebody's is left alone"
        );
        fs::remove_file(case.path("run/api.sock")).unwrap();
        daemon = case.start();
    }
    case.wait_mounted(&["web"]);
    assert_eq!(fs::read_to_string(registry.join("plain.sock")).unwrap(), CANARY);
    drop(nobody);
    assert!(daemon.stop().success());
}
