//! A directory of manifests in, mounted volumes out.

use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use windlass::Node;
use windlass::node::Change;
use windlass::source::directory::{Config, Directory, Summary};
use windlass::view::Severity;
use windlass_core::ids::PodUid;
use windlass_testing::wait::run;

use super::node::{end, ready, start};
use crate::case::Case;

crate::tests! {
    volumes_follow_the_manifests_of_a_directory,
    a_manifest_that_is_broken_at_the_start_keeps_what_an_earlier_life_mounted,
    manifests_that_are_unmounted_or_covered_take_no_volume_away,
    manifests_that_are_cut_take_no_volume_away,
}

fn settings(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{key: {value}}}\n")
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: main\n    volumeMounts:\n    \
         - {{name: config, mountPath: /config}}\n    - {{name: memory, mountPath: /memory}}\n  volumes:\n  \
         - name: config\n    configMap: {{name: settings}}\n  - name: memory\n    emptyDir: {{medium: Memory}}\n"
    )
}

fn uid(source: &Directory, name: &str) -> PodUid {
    let summary = source.summary().now().clone();
    summary.pods.iter().find(|it| it.name == name).unwrap().uid.clone()
}

fn watch(case: &Case, node: &Node) -> Directory {
    Directory::watch(&case.path("manifests"), node).unwrap()
}

fn volumes_follow_the_manifests_of_a_directory(case: &Case) {
    case.file("manifests/settings.yaml", &settings("one"));
    case.file("manifests/pods/web.yaml", &pod("web"));
    let node = start(case);
    let source = watch(case, &node);
    let web = uid(&source, "default/web");
    let volumes = ready(&node, &web);
    let config = volumes.iter().find(|it| it.name.as_str() == "config").unwrap().path.clone().unwrap();
    assert_eq!(std::fs::read_to_string(config.join("key")).unwrap(), "one");

    let mut changes = node.changes();
    case.file("manifests/settings.yaml", &settings("two"));
    while std::fs::read_to_string(config.join("key")).unwrap() != "two" {
        run(changes.next()).unwrap();
    }
    // A torn manifest takes nothing away; the next change that is whole is taken.
    case.file("manifests/pods/web.yaml", &pod("web")[..60]);
    let mut summary = source.summary();
    run(summary.wait_for(|it| !it.problems.is_empty())).unwrap();
    assert_eq!(run(node.volumes(&web)).unwrap().len(), 2);
    case.file("manifests/pods/web.yaml", &pod("web"));
    run(summary.wait_for(|it| it.problems.is_empty())).unwrap();

    std::fs::remove_file(case.path("manifests/pods/web.yaml")).unwrap();
    run(node.gone(&web)).unwrap();
    assert!(case.mounts_below("node").is_empty());
    drop(source);
    end(node);
}

/// I-1.
fn a_manifest_that_is_broken_at_the_start_keeps_what_an_earlier_life_mounted(case: &Case) {
    case.file("manifests/settings.yaml", &settings("one"));
    case.file("manifests/web.yaml", &pod("web"));
    case.file("manifests/old.yaml", &pod("old"));
    let node = start(case);
    let source = watch(case, &node);
    let (web, old) = (uid(&source, "default/web"), uid(&source, "default/old"));
    ready(&node, &web);
    ready(&node, &old);
    drop(source);
    end(node);

    std::fs::remove_file(case.path("manifests/old.yaml")).unwrap();
    case.file("manifests/web.yaml", "kind: [");
    let node = start(case);
    let mut changes = node.changes_since_start().unwrap();
    let config = Config { orphan_delay: Duration::ZERO, ..Config::default() };
    let source = Directory::watch_with(&case.path("manifests"), &node, config).unwrap();
    run(node.snapshot()).unwrap();
    assert_eq!(case.mounts_below("node").len(), 2, "whose they are is not known");
    case.file("manifests/web.yaml", &pod("web"));
    loop {
        if let Some(Change::PodReleased(pod)) = run(changes.next()) {
            assert_eq!(pod, old);
            break;
        }
    }
    assert_eq!(uid(&source, "default/web"), web, "it is still the same pod");
    assert_eq!(ready(&node, &web).len(), 2);
    assert_eq!(case.mounts_below("node").len(), 1);
    drop(source);
    end(node);
}

/// I-1. Neither when something happens at their source, nor when somebody has all read again.
fn manifests_that_are_unmounted_or_covered_take_no_volume_away(case: &Case) {
    case.file("source/settings.yaml", &settings("one"));
    case.file("source/pods/web.yaml", &pod("web"));
    std::fs::create_dir(case.path("manifests")).unwrap();
    mount_bind(case.path("source"), case.path("manifests")).unwrap();
    let node = start(case);
    let source = watch(case, &node);
    let web = uid(&source, "default/web");
    let memory = ready(&node, &web).into_iter().find(|it| it.name.as_str() == "memory").unwrap().path.unwrap();
    std::fs::write(memory.join("canary"), "alive").unwrap();
    let mut summary = source.summary();
    let lost = |it: &Summary| it.problems.iter().any(|it| it.message.starts_with("another file system is there"));

    unmount(case.path("manifests"), UnmountFlags::DETACH).unwrap();
    case.file("source/pods/other.yaml", &pod("other"));
    run(summary.wait_for(lost)).unwrap();
    source.reread();
    mount("tests", case.path("manifests"), "tmpfs", MountFlags::empty(), None).unwrap();
    source.reread();
    case.file("manifests/last.yaml", &settings("two").replace("settings", "last"));
    source.reread();
    unmount(case.path("manifests"), UnmountFlags::DETACH).unwrap();
    mount_bind(case.path("source"), case.path("manifests")).unwrap();
    run(summary.wait_for(|it| it.problems.is_empty())).unwrap();
    ready(&node, &uid(&source, "default/other"));
    assert_eq!(std::fs::read_to_string(memory.join("canary")).unwrap(), "alive");
    assert_eq!(uid(&source, "default/web"), web);
    drop(source);
    end(node);
}

/// I-1.
fn manifests_that_are_cut_take_no_volume_away(case: &Case) {
    let whole = format!("{}---\n{}", settings("one"), pod("web"));
    case.file("manifests/all.yaml", &whole);
    let node = start(case);
    let source = watch(case, &node);
    let web = uid(&source, "default/web");
    let memory = ready(&node, &web).into_iter().find(|it| it.name.as_str() == "memory").unwrap().path.unwrap();
    std::fs::write(memory.join("canary"), "alive").unwrap();
    let mut summary = source.summary();
    let cut = whole.find("  - name: memory").unwrap();
    for text in ["", &settings("one"), &whole[..cut], &whole.replace("kind: Pod", "kind: Pods")] {
        case.file("manifests/all.yaml", text);
        run(summary.wait_for(|it| it.problems.iter().any(|it| it.severity == Severity::Error))).unwrap();
        case.file("manifests/all.yaml", &whole);
        run(summary.wait_for(|it| it.problems.is_empty())).unwrap();
        assert_eq!(std::fs::read_to_string(memory.join("canary")).unwrap(), "alive", "{text}");
    }
    drop(source);
    end(node);
}
