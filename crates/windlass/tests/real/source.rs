//! A directory of manifests in, mounted volumes out.

use windlass::{Node, node::Change, source::directory::Directory};
use windlass_core::ids::PodUid;

use super::node::{end, ready, run, start};
use crate::namespace::Case;

crate::tests! {
    volumes_follow_the_manifests_of_a_directory,
    a_manifest_that_is_broken_at_the_start_keeps_what_an_earlier_life_mounted,
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
    let summary = source.summary().borrow().clone();
    summary.pods.iter().find(|(pod, _)| pod == name).unwrap().1.clone()
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
    assert_eq!(run(node.volumes(&web)).len(), 2);

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
    let source = watch(case, &node);
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
