//! The whole of it: pods and objects in, mounted volumes out.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{self as api, ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::serde_json::{self, Value, json};
use windlass::manifest::{ObjectKind, Reference};
use windlass::node::{Change, Ended, PodError, StartError, Volume, WaitError};
use windlass::view::PodPhase;
use windlass::{Node, token};
use windlass_core::Engine;
use windlass_core::ids::{PodUid, Time};
use windlass_core::reason::Code;
use windlass_core::recording::{Entry, Replay};
use windlass_testing::directory::mounted;
use windlass_testing::process::Process;
use windlass_testing::wait::run;

use crate::case::Case;
use crate::giving::Giving as _;

crate::tests! {
    a_node_that_has_ended_says_so_to_everybody,
    gone_is_after_the_last_directory,
    what_failed_is_tried_at_once_when_somebody_says_so,
    an_object_that_may_still_come_is_no_news_for_the_pods_owner,
    what_was_in_the_way_and_is_unmounted_by_hand_is_tried_at_once,
    a_pod_whose_directory_cannot_go_is_not_gone,
    an_object_that_was_corrected_is_tried_at_once,
    the_volumes_of_a_pod_appear_and_go,
    a_changed_object_touches_exactly_the_volumes_that_use_it,
    a_missing_object_is_waited_for_and_then_used_at_once,
    an_optional_object_that_is_given_late_after_a_restart_takes_nothing_away,
    a_volume_that_is_unmounted_by_hand_is_mounted_again,
    what_is_mounted_over_a_volume_is_not_handed_out,
    a_root_that_is_covered_hands_out_nothing_until_it_is_not,
    a_directory_of_pods_that_is_a_mount_is_refused_at_the_start,
    a_mount_over_the_directory_of_pods_is_noticed_and_its_end_too,
    a_directory_in_the_place_of_scratch_space_is_neither_handed_out_nor_emptied,
    another_file_system_of_the_same_kind_is_not_taken_for_the_volume,
    a_foreign_tmpfs_over_a_secret_is_neither_written_to_nor_handed_out,
    scratch_space_whose_content_is_lost_says_so_over_a_restart,
    scratch_space_whose_medium_changes_stays_as_it_is_and_says_so,
    a_path_of_the_host_follows_its_manifest,
    a_claim_that_cannot_be_looked_up_leaves_the_pod_its_volume,
    a_volume_that_is_named_twice_is_read_only_by_the_name_that_says_so,
    strange_things_in_the_directory_of_pods_are_told_and_left_alone,
    a_new_process_finds_everything_as_it_was,
    a_new_process_takes_away_what_nobody_wants_any_more,
    a_record_of_another_boot_proves_nothing,
    a_torn_record_is_told_and_the_volume_comes_right,
    a_damaged_record_of_what_has_no_directory_heals,
    a_record_that_tells_of_another_volume_heals,
    what_somebody_still_has_is_held_back_if_that_is_wanted,
    an_object_of_a_projected_volume_that_is_gone_keeps_all_of_it_as_it_is,
    two_processes_cannot_have_the_same_root,
    a_pod_that_cannot_be_is_refused_with_the_field_named,
    a_volume_whose_name_leads_elsewhere_is_refused_and_the_others_come,
    a_token_waits_for_a_provider_with_its_own_reason,
    a_token_is_renewed_when_it_is_time,
    a_file_of_a_user_below_an_unmounted_volume_survives_and_is_named,
    a_node_that_is_dropped_leaves_everything_mounted,
    a_pod_that_goes_as_soon_as_it_comes_leaves_nothing,
    a_pods_directory_stays_if_that_is_wanted_until_it_is_told_to_go,
    a_key_that_cannot_be_seen_is_told,
    what_was_recorded_is_played_again_to_the_same_end,
}

pub(crate) fn start(case: &Case) -> Node {
    start_with(case, token::NoProvider)
}

fn start_with(case: &Case, provider: impl token::Provider + 'static) -> Node {
    let builder = Node::builder(case.path("node")).runtime_directory(case.path("run"));
    builder.node_name("node-1").token_provider(provider).start().unwrap()
}

pub(crate) fn start_at(directory: &Path) -> Node {
    Node::builder(directory.join("node")).runtime_directory(directory.join("run")).start().unwrap()
}

/// A pod whose only container mounts all its volumes.
pub(crate) fn pod(uid: &str, volumes: &Value) -> Pod {
    let mounts: Vec<Value> = volumes
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!({"name": it["name"], "mountPath": format!("/{}", it["name"].as_str().unwrap().len())}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": uid, "uid": uid},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
    }))
    .unwrap()
}

pub(crate) fn config(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name}, "data": {"key": value}})).unwrap()
}

pub(crate) fn secret(value: &str) -> Secret {
    let object = json!({"metadata": {"namespace": "default", "name": "keys"}, "stringData": {"key": value}});
    serde_json::from_value(object).unwrap()
}

/// One volume of each kind that needs nothing from outside.
pub(crate) fn all_kinds() -> Value {
    json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "keys"}},
        {"name": "host", "hostPath": {"path": "/", "type": "Directory"}},
    ])
}

pub(crate) fn ready(node: &Node, pod: &PodUid) -> Vec<Volume> {
    run(node.ready(pod)).unwrap()
}

fn path(volumes: &[Volume], name: &str) -> PathBuf {
    volumes.iter().find(|it| it.name.as_str() == name).unwrap().path.clone().unwrap()
}

pub(crate) fn end(node: Node) {
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0), "nothing runs any more");
}

fn the_volumes_of_a_pod_appear_and_go(case: &Case) {
    let node = start(case);
    node.update_object(config("settings", "one"));
    node.update_object(secret("hunter2"));
    let uid = node.add_pod(pod("a", &all_kinds())).unwrap();
    let volumes = ready(&node, &uid);
    assert_eq!(volumes.len(), 5);
    assert_eq!(std::fs::read_to_string(path(&volumes, "config").join("key")).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(path(&volumes, "secret").join("key")).unwrap(), "hunter2");
    let kind = |name: &str| mounted(&path(&volumes, name)).map(|it| it.kind.to_string_lossy().into_owned());
    assert_eq!(kind("memory").as_deref(), Some("tmpfs"));
    assert_eq!(kind("secret").as_deref(), Some("tmpfs"), "I-12");
    assert_eq!(kind("disk"), None);
    assert_eq!(path(&volumes, "host"), PathBuf::from("/"));
    node.complete();
    node.remove_pod(&uid);
    run(node.gone(&uid)).unwrap();
    assert_eq!(case.mounts_below("node"), Vec::<PathBuf>::new());
    end(node);
    assert!(!case.path("node/pods/a/volumes/kubernetes.io~secret/secret").exists());
}

fn a_changed_object_touches_exactly_the_volumes_that_use_it(case: &Case) {
    let node = start(case);
    node.update_object(config("settings", "one"));
    node.update_object(config("other", "one"));
    let volume = |name: &str| json!([{"name": "config", "configMap": {"name": name}}]);
    let (a, b) =
        (node.add_pod(pod("a", &volume("settings"))).unwrap(), node.add_pod(pod("b", &volume("other"))).unwrap());
    let (in_a, in_b) = (path(&ready(&node, &a), "config"), path(&ready(&node, &b), "config"));
    let version = |path: &PathBuf| std::fs::read_link(path.join("..data")).unwrap();
    let before = version(&in_b);
    let mut changes = node.changes();
    node.update_object(config("settings", "two"));
    let mut touched = Vec::new();
    while std::fs::read_to_string(in_a.join("key")).unwrap() != "two" {
        if let Some(Change::Volume { pod: Some(pod), .. }) = run(changes.next()) {
            touched.push(pod);
        }
    }
    assert!(touched.iter().all(|it| *it == a), "{touched:?}");
    assert_eq!(version(&in_b), before);
    end(node);
}

fn a_missing_object_is_waited_for_and_then_used_at_once(case: &Case) {
    let node = start(case);
    let uid = node.add_pod(pod("a", &json!([{"name": "config", "configMap": {"name": "settings"}}]))).unwrap();
    let error = run(node.sync(&uid, Duration::from_millis(50))).unwrap_err();
    assert!(error.to_string().starts_with("unmounted volumes=[config], unattached volumes=[]"), "{error}");
    let explained = run(node.explain(&uid)).unwrap();
    let codes: Vec<Code> = explained[0].reasons.iter().map(|it| it.code).collect();
    assert!(codes.contains(&Code::ObjectMissing), "{codes:?}");
    node.update_object(config("settings", "here"));
    let volumes = ready(&node, &uid);
    assert_eq!(std::fs::read_to_string(path(&volumes, "config").join("key")).unwrap(), "here");
    end(node);
}

/// I-1: that an object has not been given yet does not say that it is gone.
fn an_optional_object_that_is_given_late_after_a_restart_takes_nothing_away(case: &Case) {
    let volumes = json!([{"name": "config", "configMap": {"name": "settings", "optional": true}}]);
    let node = start(case);
    node.update_object(config("settings", "one"));
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let file = path(&ready(&node, &uid), "config").join("key");
    end(node);

    let node = start(case);
    let mut changes = node.changes();
    node.add_pod(pod("a", &volumes)).unwrap();
    ready(&node, &uid);
    // The refresh that the missing object asks for is tried, and refused.
    let refused = |it: &windlass::node::Explanation| {
        it.reasons.iter().any(|it| it.attempts > 0 && it.text.contains("has not been told of yet"))
    };
    while !run(node.explain(&uid)).unwrap().iter().any(refused) {
        run(changes.next());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    node.complete();
    while file.exists() {
        run(changes.next());
    }
    end(node);
}

fn a_volume_that_is_unmounted_by_hand_is_mounted_again(case: &Case) {
    let node = start(case);
    node.update_object(secret("one"));
    let uid = node.add_pod(pod("a", &json!([{"name": "secret", "secret": {"secretName": "keys"}}]))).unwrap();
    let volumes = ready(&node, &uid);
    let at = path(&volumes, "secret");
    let mut changes = node.changes();
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
    let mut seen = Vec::new();
    loop {
        if let Some(Change::Volume { code, .. }) = run(changes.next()) {
            seen.push(code);
            if code == Code::Mounted {
                break;
            }
        }
    }
    assert!(seen.len() > 1, "{seen:?}");
    assert_eq!(std::fs::read_to_string(at.join("key")).unwrap(), "one");
    let again = ready(&node, &uid);
    assert_ne!(again[0].proof, volumes[0].proof);
    end(node);
}

fn what_is_mounted_over_a_volume_is_not_handed_out(case: &Case) {
    let node = start(case);
    let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    let at = path(&ready(&node, &uid), "disk");
    let mut changes = node.changes();
    case.tmpfs_at(&at);
    while !matches!(run(changes.next()), Some(Change::Volume { code, .. }) if code != Code::Mounted) {}
    assert_eq!(run(node.volumes(&uid)).unwrap(), [], "I-4");
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
    assert_eq!(path(&ready(&node, &uid), "disk"), at);
    end(node);
}

/// I-4: a path is given to containers and drivers, who come from `/` and not from the root that is held open.
fn a_root_that_is_covered_hands_out_nothing_until_it_is_not(case: &Case) {
    let node = start(case);
    node.complete();
    node.update_object(secret("one"));
    let volumes = json!([{"name": "disk", "emptyDir": {}}, {"name": "secret", "secret": {"secretName": "keys"}}]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let at = path(&ready(&node, &uid), "disk");
    std::fs::write(at.join("file"), "precious").unwrap();
    let root = case.path("node");
    for above in [&*root, root.parent().unwrap()] {
        let mut changes = node.changes();
        case.tmpfs_at(above);
        while !matches!(run(changes.next()), Some(Change::RootCovered { text: Some(_) })) {}
        assert_eq!(run(node.volumes(&uid)).unwrap(), []);
        await_code(&node, &uid, Code::InTheWay);
        let late = node.add_pod(pod("late", &volumes)).unwrap();
        await_code(&node, &late, Code::InTheWay);
        assert_eq!(run(node.volumes(&late)).unwrap(), []);
        assert!(node.root_cover().unwrap().contains(&format!("is mounted at {} and covers", above.display())));
        assert!(!case.path("node/pods").exists(), "nothing is written into what covers it");
        rustix::mount::unmount(above, rustix::mount::UnmountFlags::empty()).unwrap();
        ready(&node, &late);
        node.remove_pod(&late);
        run(node.gone(&late)).unwrap();
        assert_eq!(path(&ready(&node, &uid), "disk"), at);
        assert_eq!((std::fs::read_to_string(at.join("file")).unwrap(), node.root_cover()), ("precious".into(), None));
    }
    node.remove_pod(&uid);
    run(node.gone(&uid)).unwrap();
    end(node);
}

fn a_directory_of_pods_that_is_a_mount_is_refused_at_the_start(case: &Case) {
    case.directory("node/pods");
    case.tmpfs_at(&case.path("node/pods"));
    let error = Node::builder(case.path("node")).runtime_directory(case.path("run")).start().unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |it| it.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(text.contains("node/pods is a mount of its own, which is not supported: unmount it"), "{text}");
}

fn a_mount_over_the_directory_of_pods_is_noticed_and_its_end_too(case: &Case) {
    let node = start(case);
    let volumes = json!([{"name": "disk", "emptyDir": {}}]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let at = path(&ready(&node, &uid), "disk");
    case.tmpfs_at(&case.path("node/pods"));
    await_code(&node, &uid, Code::InTheWay);
    let late = node.add_pod(pod("late", &volumes)).unwrap();
    await_code(&node, &late, Code::InTheWay);
    rustix::mount::unmount(case.path("node/pods"), rustix::mount::UnmountFlags::empty()).unwrap();
    ready(&node, &late);
    assert_eq!(path(&ready(&node, &uid), "disk"), at);
    end(node);
}

/// I-4, I-5: what windlass made is known by its inode.
fn a_directory_in_the_place_of_scratch_space_is_neither_handed_out_nor_emptied(case: &Case) {
    for is_asked_first in [true, false] {
        let node = start(case);
        let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
        node.complete();
        let at = path(&ready(&node, &uid), "disk");
        std::fs::rename(&at, case.path("moved")).unwrap();
        case.file("users/file", "precious");
        std::fs::rename(case.path("users"), &at).unwrap();
        if is_asked_first {
            assert_eq!(run(node.volumes(&uid)).unwrap(), []);
            await_code(&node, &uid, Code::InTheWay);
        }
        let mut changes = node.changes();
        node.remove_pod(&uid);
        let is_told = || {
            let shown = run(node.show_pod(&uid)).unwrap().expect("a pod that is not gone");
            let reasons = shown.status.volumes.iter().flat_map(|it| &it.reasons);
            shown.status.phase == PodPhase::Leaving && reasons.into_iter().any(|it| it.code == "InTheWay")
        };
        while !is_told() {
            run(changes.next());
        }
        assert_eq!(std::fs::read_to_string(at.join("file")).unwrap(), "precious");
        std::fs::rename(&at, case.path("users")).unwrap();
        run(node.retry(None, None)).unwrap();
        run(node.gone(&uid)).unwrap();
        end(node);
        for moved in ["users", "moved"] {
            std::fs::remove_dir_all(case.path(moved)).unwrap();
        }
    }
}

/// I-4: the kernel gives the number of a tmpfs to the next one.
fn another_file_system_of_the_same_kind_is_not_taken_for_the_volume(case: &Case) {
    let node = start(case);
    node.update_object(secret("one"));
    let volumes = json!([{"name": "secret", "secret": {"secretName": "keys"}}]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let at = path(&ready(&node, &uid), "secret");
    end(node);
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
    case.tmpfs_at(&at);

    let node = start(case);
    node.update_object(secret("one"));
    node.add_pod(pod("a", &volumes)).unwrap();
    await_code(&node, &uid, Code::InTheWay);
    assert_eq!(run(node.volumes(&uid)).unwrap(), [], "it is not handed out");
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0, "nor written to (I-12)");
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
    ready(&node, &uid);
    assert_eq!(std::fs::read_to_string(at.join("key")).unwrap(), "one");
    end(node);
}

/// I-4, I-12.
fn a_foreign_tmpfs_over_a_secret_is_neither_written_to_nor_handed_out(case: &Case) {
    let node = start(case);
    node.update_object(secret("one"));
    let uid = node.add_pod(pod("a", &json!([{"name": "secret", "secret": {"secretName": "keys"}}]))).unwrap();
    let before = ready(&node, &uid);
    let at = path(&before, "secret");
    case.tmpfs_at(&at);
    await_code(&node, &uid, Code::InTheWay);
    // Nor when the secret changes.
    node.update_object(secret("two"));
    await_code(&node, &uid, Code::InTheWay);
    assert_eq!(run(node.volumes(&uid)).unwrap(), []);
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
    let after = ready(&node, &uid);
    assert_eq!(after[0].proof, before[0].proof, "what lay below is the volume");
    assert_eq!(std::fs::read_to_string(at.join("key")).unwrap(), "two");
    end(node);
}

/// Waits until a pod's volume says this.
fn await_code(node: &Node, uid: &PodUid, code: Code) {
    let mut changes = node.changes();
    let says = || run(node.explain(uid)).unwrap().iter().flat_map(|it| &it.reasons).any(|it| it.code == code);
    while !says() {
        run(changes.next());
    }
}

/// I-7: what is lost is told, and is told for as long as the pod is here.
fn scratch_space_whose_content_is_lost_says_so_over_a_restart(case: &Case) {
    let volumes = json!([{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]);
    let node = start(case);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let had = ready(&node, &uid);
    let (disk, memory) = (path(&had, "disk"), path(&had, "memory"));
    let lost = |node: &Node| -> Vec<String> {
        let shown = run(node.show_pod(&uid)).unwrap().unwrap();
        let conditions = shown.status.conditions.iter().filter(|it| it.kind == "VolumeContentLost").count();
        let is_lost = |it: &&windlass::view::MountStatus| it.reasons.iter().any(|it| it.code == "ContentLost");
        let names: Vec<_> = shown.status.volumes.iter().filter(is_lost).map(|it| it.volume.clone()).collect();
        assert_eq!(conditions, usize::from(!names.is_empty()));
        names
    };
    assert_eq!(lost(&node), [""; 0]);
    let mut changes = node.changes();
    let mut await_lost = |name: &str| loop {
        match run(changes.next()) {
            Some(Change::Event(event)) if event.reason == "VolumeContentLost" && event.message.contains(name) => break,
            _ => {}
        }
    };
    std::fs::write(memory.join("file"), "precious").unwrap();
    rustix::mount::unmount(&memory, rustix::mount::UnmountFlags::DETACH).unwrap();
    await_lost("\"memory\"");
    ready(&node, &uid);
    assert_eq!(lost(&node), ["memory"]);
    end(node);
    std::fs::remove_dir_all(&disk).unwrap();

    let node = start(case);
    node.add_pod(pod("a", &volumes)).unwrap();
    node.complete();
    ready(&node, &uid);
    assert_eq!(lost(&node), ["disk", "memory"]);
    end(node);
    // As after a reboot, by which what was in memory is lost as it must be.
    rustix::mount::unmount(&memory, rustix::mount::UnmountFlags::DETACH).unwrap();
    change_records(case, |record| {
        record["boot"] = "another".into();
        record["made"].as_object_mut().unwrap().remove("lost_at_seconds");
    });

    let node = start(case);
    node.add_pod(pod("a", &volumes)).unwrap();
    node.complete();
    ready(&node, &uid);
    assert_eq!(lost(&node), [""; 0]);
    end(node);
}

/// I-1, I-7: who puts a secret where memory is asked for must know that it is on disk.
fn scratch_space_whose_medium_changes_stays_as_it_is_and_says_so(case: &Case) {
    for (medium, other) in [("", "Memory"), ("Memory", ""), ("Memory", "HugePages-2Mi")] {
        let given = |medium: &str, limit: &str| {
            pod("a", &json!([{"name": "scratch", "emptyDir": {"medium": medium, "sizeLimit": limit}}]))
        };
        let node = start(case);
        node.complete();
        let uid = node.add_pod(given(medium, "1Mi")).unwrap();
        let file = path(&ready(&node, &uid), "scratch").join("file");
        std::fs::write(&file, "precious").unwrap();
        // Its limit is nothing that tells it from another.
        node.add_pod(given(medium, "2Mi")).unwrap();
        assert_eq!(ready(&node, &uid).len(), 1);
        assert!(run(node.explain(&uid)).unwrap().is_empty());
        let paths =
            |node: &Node| -> Vec<_> { run(node.volumes(&uid)).unwrap().iter().map(|it| it.path.clone()).collect() };
        node.add_pod(given(other, "1Mi")).unwrap();
        await_code(&node, &uid, Code::IdentityChanged);
        let live = paths(&node);
        end(node);

        let node = start(case);
        node.add_pod(given(other, "1Mi")).unwrap();
        node.complete();
        await_code(&node, &uid, Code::IdentityChanged);
        assert_eq!(paths(&node), live, "a restart changes nothing");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        node.add_pod(given(medium, "1Mi")).unwrap();
        assert_eq!(path(&ready(&node, &uid), "scratch").join("file"), file);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        node.remove_pod(&uid);
        run(node.gone(&uid)).unwrap();
        end(node);
    }
}

/// Nothing is done to it, so nothing is lost by it.
fn a_path_of_the_host_follows_its_manifest(case: &Case) {
    let given = |name: &str| pod("a", &json!([{"name": "host", "hostPath": {"path": case.directory(name)}}]));
    let is_at = |node: &Node, name: &str| {
        let mut changes = node.changes();
        while run(node.volumes(&"a".into())).unwrap().first().and_then(|it| it.path.clone()) != Some(case.path(name)) {
            run(changes.next());
        }
    };
    let node = start(case);
    node.complete();
    for name in ["one", "two"] {
        node.add_pod(given(name)).unwrap();
        is_at(&node, name);
    }
    end(node);
    let node = start(case);
    node.add_pod(given("three")).unwrap();
    is_at(&node, "three");
    end(node);
}

/// A claim `data` to a directory of the host.
fn give_claim(case: &Case, node: &Node) {
    let claim = json!({
        "metadata": {"namespace": "default", "name": "data", "uid": "c"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    });
    let volume = json!({"metadata": {"name": "pv"}, "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data", "uid": "c"},
        "hostPath": {"path": case.path("node")},
    }});
    node.update_object(serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap());
    node.update_object(serde_json::from_value::<PersistentVolume>(volume).unwrap());
}

/// I-1.
fn a_claim_that_cannot_be_looked_up_leaves_the_pod_its_volume(case: &Case) {
    let node = start(case);
    give_claim(case, &node);
    let uid = node.add_pod(pod("a", &json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))).unwrap();
    let before = ready(&node, &uid);
    assert_eq!(before.len(), 1);
    node.object_unavailable(&Reference::new(ObjectKind::Claim, "default", "data"), "the API server is away");
    assert_eq!(run(node.volumes(&uid)).unwrap(), before);
    end(node);
}

fn a_volume_that_is_named_twice_is_read_only_by_the_name_that_says_so(case: &Case) {
    let node = start(case);
    give_claim(case, &node);
    let volumes = json!([
        {"name": "writes", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "reads", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}},
    ]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let volumes = ready(&node, &uid);
    let read_only: Vec<(&str, bool)> = volumes.iter().map(|it| (it.name.as_str(), it.read_only)).collect();
    assert_eq!(read_only, [("reads", true), ("writes", false)]);
    end(node);
}

fn strange_things_in_the_directory_of_pods_are_told_and_left_alone(case: &Case) {
    let node = start(case);
    let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    ready(&node, &uid);
    end(node);
    case.file("node/pods/a-file", "not ours");
    case.file("node/pods/strange/volumes/a-file", "not ours");
    std::os::unix::fs::symlink("/", case.path("node/pods/a-link")).unwrap();

    let node = start(case);
    let mut changes = node.changes_since_start().unwrap();
    node.complete();
    run(node.gone(&uid)).unwrap();
    end(node);
    let mut told = Vec::new();
    while let Some(change) = run(changes.next()) {
        if let Change::Damaged { text } | Change::Leftover { text, .. } = change {
            told.push(text.to_string());
        }
    }
    for strange in ["a-file", "a-link", "strange"] {
        assert!(told.iter().any(|it| it.contains(strange)), "{strange}: {told:?}");
    }
    assert_eq!(case.read("node/pods/strange/volumes/a-file"), "not ours");
    assert!(!case.path("node/pods/a").exists());
}

fn a_new_process_finds_everything_as_it_was(case: &Case) {
    let uid = PodUid::from("a");
    let objects = |node: &Node| {
        node.update_object(config("settings", "one"));
        node.update_object(secret("one"));
    };
    let node = start(case);
    objects(&node);
    node.add_pod(pod("a", &all_kinds())).unwrap();
    let before = ready(&node, &uid);
    let version = std::fs::read_link(path(&before, "config").join("..data")).unwrap();
    end(node);
    assert_eq!(case.mounts_below("node").len(), 2, "a stop leaves volumes mounted");

    let node = start(case);
    let mut changes = node.changes_since_start().unwrap();
    objects(&node);
    node.add_pod(pod("a", &all_kinds())).unwrap();
    node.complete();
    let after = ready(&node, &uid);
    assert_eq!(after, before, "the same mounts, with the same proof (I-11)");
    assert_eq!(std::fs::read_link(path(&after, "config").join("..data")).unwrap(), version);
    end(node);
    let mut all = Vec::new();
    while let Some(change) = run(changes.next()) {
        all.push(change);
    }
    let calls = |it: &Change| matches!(it, Change::Volume { code: Code::Publishing | Code::Unpublishing, .. });
    assert!(!all.iter().any(calls), "no call is made that the state did not need: {all:?}");
}

fn a_new_process_takes_away_what_nobody_wants_any_more(case: &Case) {
    let node = start(case);
    node.update_object(config("settings", "one"));
    node.update_object(secret("one"));
    let uid = node.add_pod(pod("a", &all_kinds())).unwrap();
    ready(&node, &uid);
    end(node);
    // A pod that a kubelet left: directories without records.
    case.directory("node/pods/kubelets/volumes/kubernetes.io~empty-dir/old");
    case.file("node/pods/kubelets/volumes/kubernetes.io~empty-dir/old/data", "scratch");
    case.file("node/pods/kubelets/plugins/kubernetes.io~empty-dir/old/ready", "");

    let node = start(case);
    let mut changes = node.changes_since_start().unwrap();
    run(node.snapshot()).unwrap();
    assert_eq!(case.mounts_below("node").len(), 2, "nothing is taken away before the pods are known (I-1)");
    node.complete();
    let mut released = Vec::new();
    while released.len() < 2 {
        if let Some(Change::PodReleased(pod)) = run(changes.next()) {
            released.push(pod.to_string());
        }
    }
    released.sort();
    assert_eq!(released, ["a", "kubelets"]);
    assert_eq!(case.mounts_below("node"), Vec::<PathBuf>::new());
    assert!(!case.path("node/pods/kubelets/volumes/kubernetes.io~empty-dir/old").exists());
    end(node);
}

fn a_record_of_another_boot_proves_nothing(case: &Case) {
    let node = start(case);
    let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    ready(&node, &uid);
    end(node);
    change_records(case, |record| record["boot"] = "another".into());
    let node = start(case);
    while !run(node.snapshot()).unwrap().synced {}
    assert_eq!(run(node.volumes(&uid)).unwrap(), [], "it is uncertain");
    node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    assert_eq!(ready(&node, &uid).len(), 1);
    end(node);
}

/// Changes what is recorded of the volumes that the pod `a` has in directories.
fn change_records(case: &Case, change: impl Fn(&mut Value)) {
    let file = case.path("node/windlass/records/pods/a");
    let lines = std::fs::read_to_string(&file).unwrap();
    let changed = lines.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        change(&mut record);
        format!("{record}\n")
    });
    let changed: String = changed.collect();
    assert_ne!(changed, lines);
    std::fs::write(&file, changed).unwrap();
}

fn a_torn_record_is_told_and_the_volume_comes_right(case: &Case) {
    let node = start(case);
    node.update_object(secret("one"));
    let volumes = json!([{"name": "secret", "secret": {"secretName": "keys"}}]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let before = ready(&node, &uid);
    end(node);
    let record = case.path("node/windlass/records/pods/a");
    let text = std::fs::read(&record).unwrap();
    // The first line tells what was going to be mounted, and without the second it is still told.
    let first = text.iter().position(|it| *it == b'\n').unwrap();
    assert!(first + 1 < text.len());
    std::fs::write(&record, &text[..first / 2]).unwrap();
    let node = start(case);
    let mut changes = node.changes_since_start().unwrap();
    node.update_object(secret("one"));
    node.add_pod(pod("a", &volumes)).unwrap();
    node.complete();
    let after = ready(&node, &uid);
    assert_eq!(after[0].proof, before[0].proof, "the mount that is there is used");
    node.remove_pod(&uid);
    run(node.gone(&uid)).unwrap();
    assert_eq!(case.mounts_below("node"), Vec::<PathBuf>::new());
    end(node);
    let mut told = false;
    while let Some(change) = run(changes.next()) {
        told |= matches!(&change, Change::Damaged { text } if text.contains("cannot be read"));
    }
    assert!(told);
}

fn a_damaged_record_of_what_has_no_directory_heals(case: &Case) {
    let volumes = json!([{"name": "host", "hostPath": {"path": "/"}}]);
    let record = case.path("node/windlass/records/a:volumes:kubernetes.io~host-path:host");
    let node = start(case);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    ready(&node, &uid);
    end(node);
    let good = std::fs::read(&record).unwrap();
    for damage in [&good[..good.len() / 2], b"{}", b"[1, 2]", b"\xff\xfe", b"\n\n"] {
        // The pod is still wanted: it is made again, and its record with it.
        std::fs::write(&record, damage).unwrap();
        let node = start(case);
        node.add_pod(pod("a", &volumes)).unwrap();
        node.complete();
        ready(&node, &uid);
        end(node);
        assert_eq!(std::fs::read(&record).unwrap(), good);
        // It is not: its record goes with it.
        std::fs::write(&record, damage).unwrap();
        let node = start(case);
        node.complete();
        run(node.gone(&uid)).unwrap();
        end(node);
        assert!(!record.exists(), "{damage:?}");
    }
}

fn a_record_that_tells_of_another_volume_heals(case: &Case) {
    let volumes = json!([{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]);
    let node = start(case);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let had = ready(&node, &uid);
    for name in ["disk", "memory"] {
        std::fs::write(path(&had, name).join("file"), "precious").unwrap();
    }
    end(node);
    change_records(case, |record| record["volume"]["id"] = "kubernetes.io/empty-dir/b-other".into());
    let node = start(case);
    let mut changes = node.changes_since_start().unwrap();
    node.add_pod(pod("a", &volumes)).unwrap();
    node.complete();
    let has = ready(&node, &uid);
    for name in ["disk", "memory"] {
        assert_eq!(std::fs::read_to_string(path(&has, name).join("file")).unwrap(), "precious");
    }
    end(node);
    let mut told = 0;
    while let Some(change) = run(changes.next()) {
        told += usize::from(matches!(&change, Change::Damaged { text } if text.contains("does not belong there")));
    }
    assert_eq!(told, 3, "one for each line: of what is in memory the intent is a line too");
}

/// P-123: all sources are there, or nothing is written.
fn an_object_of_a_projected_volume_that_is_gone_keeps_all_of_it_as_it_is(case: &Case) {
    let node = start(case);
    node.update_object(config("one", "1"));
    node.update_object(config("two", "1"));
    let source = |name: &str| json!({"configMap": {"name": name, "items": [{"key": "key", "path": name}]}});
    let volumes = json!([{"name": "all", "projected": {"sources": [source("one"), source("two")]}}]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let at = path(&ready(&node, &uid), "all");
    node.complete();
    node.remove_object(&Reference::new(ObjectKind::ConfigMap, "default", "one"));
    node.update_object(config("two", "2"));
    await_code(&node, &uid, Code::ObjectMissing);
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    assert_eq!((read("one"), read("two")), ("1".into(), "1".into()));
    node.update_object(config("one", "2"));
    let mut changes = node.changes();
    while (read("one"), read("two")) != ("2".into(), "2".into()) {
        run(changes.next());
    }
    end(node);
}

/// I-1: what a container has is not emptied under it.
fn what_somebody_still_has_is_held_back_if_that_is_wanted(case: &Case) {
    let builder = Node::builder(case.path("node")).runtime_directory(case.path("run"));
    let node = builder.hold_while_in_use(true).start().unwrap();
    node.complete();
    let volumes = json!([{"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]);
    for name in ["disk", "memory"] {
        let uid = node.add_pod(pod(name, &volumes)).unwrap();
        let at = path(&ready(&node, &uid), name);
        std::fs::write(at.join("file"), "precious").unwrap();
        let inside = case.directory("inside");
        // As a container: in a mount namespace of its own, under another name.
        let script = r#"mount --bind "$1" "$2" && echo ready && read end"#;
        let mut container = windlass_testing::process::program("unshare");
        container.args(["--mount", "sh", "-c", script, "sh"]).args([&at, &inside]);
        let (mut container, line) = Process::start_until_it_speaks(container.stdin(Stdio::piped()));
        assert_eq!(line, "ready\n");
        let mut changes = node.changes();
        node.remove_pod(&uid);
        let named = format!("process {} (sh) has {}", container.0.id(), inside.display());
        let is_held = || {
            let snapshot = run(node.snapshot()).unwrap();
            let mut reasons = snapshot.volumes.iter().flat_map(|it| it.mounts.iter().flat_map(|it| &it.reasons));
            reasons.any(|it| it.code == Code::HeldOpen && it.text.contains(&named))
        };
        while !is_held() {
            run(changes.next());
        }
        assert_eq!(std::fs::read_to_string(at.join("file")).unwrap(), "precious");
        drop(container.0.stdin.take());
        container.0.wait().unwrap();
        run(node.gone(&uid)).unwrap();
        assert!(!at.exists());
    }
    end(node);
}

fn two_processes_cannot_have_the_same_root(case: &Case) {
    let node = start(case);
    let second = Node::builder(case.path("node")).runtime_directory(case.path("run")).start();
    assert!(matches!(second, Err(StartError::InUse { .. })));
    let elsewhere = Node::builder(case.path("node")).state_directory(case.path("elsewhere")).start();
    assert!(matches!(elsewhere, Err(StartError::InUse { .. })), "whatever state it would keep");
    end(node);
    // The lock goes with the last handle.
    end(start(case));
}

fn a_pod_that_cannot_be_is_refused_with_the_field_named(case: &Case) {
    let node = start(case);
    for uid in ["..", "a/b", "a\0b", &"x".repeat(300)] {
        let mut bad = pod("a", &json!([]));
        bad.metadata.uid = Some(uid.to_owned());
        let error = node.add_pod(bad).unwrap_err().to_string();
        assert!(error.starts_with("metadata.uid"), "{error}");
    }
    let error = node.add_pod(Pod::default()).unwrap_err().to_string();
    assert_eq!(error, "pod default/ has no uid");
    assert_eq!(std::fs::read_dir(case.path("node/pods")).unwrap().count(), 0, "nothing was changed");
    end(node);
}

fn a_volume_whose_name_leads_elsewhere_is_refused_and_the_others_come(case: &Case) {
    let node = start(case);
    node.update_object(config("settings", "one"));
    let mut volumes = json!([{"name": "good", "emptyDir": {}}]);
    for (index, name) in ["..", "../../../etc", "a\0b", &"x".repeat(300)].iter().enumerate() {
        volumes.as_array_mut().unwrap().push(json!({"name": name, "emptyDir": {}}));
        let path = ["..data", "./..data", "../x", "a/../../b"][index];
        let items = json!([{"key": "key", "path": path}]);
        volumes
            .as_array_mut()
            .unwrap()
            .push(json!({"name": format!("item-{index}"), "configMap": {"name": "settings", "items": items}}));
    }
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let mut changes = node.changes();
    let mut refused = std::collections::BTreeSet::new();
    while refused.len() < 8 {
        for it in run(node.explain(&uid)).unwrap() {
            if it.reasons.iter().any(|it| it.code == Code::InputInvalid) {
                refused.insert(it.volume.to_string());
            }
        }
        if refused.len() < 8 {
            run(changes.next());
        }
    }
    let names: Vec<String> = run(node.volumes(&uid)).unwrap().iter().map(|it| it.name.to_string()).collect();
    assert!(names.is_empty() || names == ["good"], "{names:?}");
    end(node);
}

/// P-125: whoever has no provider says so, with a code of its own.
fn a_token_waits_for_a_provider_with_its_own_reason(case: &Case) {
    let node = start(case);
    let token = json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    let uid = node.add_pod(pod("a", &token)).unwrap();
    let mut changes = node.changes();
    loop {
        let explained = run(node.explain(&uid)).unwrap();
        if explained.iter().flat_map(|it| &it.reasons).any(|it| it.code == Code::TokenMissing) {
            break;
        }
        run(changes.next());
    }
    end(node);
}

/// Gives tokens that have to be renewed soon.
struct Short(std::sync::atomic::AtomicU64);

impl token::Provider for Short {
    fn token(&self, _: &token::Request, now: SystemTime) -> Result<token::Token, token::Error> {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // The first is as good as expired, the others live long.
        let life = if count == 0 { Duration::from_millis(1) } else { Duration::from_secs(36_000) };
        Ok(token::Token::new(&format!("token {count}"), now, now + life))
    }
}

fn a_token_is_renewed_when_it_is_time(case: &Case) {
    let node = start_with(case, Short(0.into()));
    let token = json!([{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]);
    let uid = node.add_pod(pod("a", &token)).unwrap();
    let file = path(&ready(&node, &uid), "token").join("token");
    let mut changes = node.changes();
    while std::fs::read_to_string(&file).unwrap() != "token 1" {
        run(changes.next());
    }
    end(node);
}

fn a_file_of_a_user_below_an_unmounted_volume_survives_and_is_named(case: &Case) {
    let node = start(case);
    node.update_object(secret("one"));
    let uid = node.add_pod(pod("a", &json!([{"name": "secret", "secret": {"secretName": "keys"}}]))).unwrap();
    let at = path(&ready(&node, &uid), "secret");
    end(node);
    rustix::mount::unmount(&at, rustix::mount::UnmountFlags::empty()).unwrap();
    std::fs::write(at.join("precious"), "data").unwrap();

    let node = start(case);
    node.complete();
    let mut changes = node.changes();
    let mut named = false;
    while !named {
        let snapshot = run(node.snapshot()).unwrap();
        let reasons = snapshot.volumes.iter().flat_map(|it| it.mounts.iter().flat_map(|it| &it.reasons));
        named = reasons.into_iter().any(|it| it.code == Code::InTheWay && it.text.contains("precious"));
        if !named {
            run(changes.next());
        }
    }
    assert_eq!(std::fs::read_to_string(at.join("precious")).unwrap(), "data", "I-5");
    end(node);
}

fn a_node_that_is_dropped_leaves_everything_mounted(case: &Case) {
    let node = start(case);
    node.update_object(secret("one"));
    let uid = node.add_pod(pod("a", &json!([{"name": "secret", "secret": {"secretName": "keys"}}]))).unwrap();
    ready(&node, &uid);
    let mut changes = node.changes();
    node.remove_object(&Reference::new(ObjectKind::Node, "", "none"));
    drop(node);
    while run(changes.next()).is_some() {}
    assert_eq!(case.mounts_below("node").len(), 1);
}

fn a_pod_that_goes_as_soon_as_it_comes_leaves_nothing(case: &Case) {
    for _ in 0..20 {
        let node = start(case);
        node.complete();
        // Before the disk is looked at, and after.
        for index in 0..20 {
            let uid = node.add_pod(pod(&format!("pod-{index}"), &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
            node.remove_pod(&uid);
            run(node.gone(&uid)).unwrap();
        }
        end(node);
        assert_eq!(std::fs::read_dir(case.path("node/pods")).unwrap().count(), 0);
    }
}

fn a_pods_directory_stays_if_that_is_wanted_until_it_is_told_to_go(case: &Case) {
    let builder = Node::builder(case.path("node")).runtime_directory(case.path("run"));
    let node = builder.keep_pod_directories().start().unwrap();
    node.complete();
    let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    ready(&node, &uid);
    case.file("node/pods/a/etc-hosts", "of the embedding program");
    node.remove_pod(&uid);
    run(node.gone(&uid)).unwrap();
    assert!(case.path("node/pods/a/volumes/kubernetes.io~empty-dir").exists());
    node.remove_pod_directory(&uid);
    end(node);
    let left: Vec<_> = std::fs::read_dir(case.path("node/pods/a")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["etc-hosts"]);
}

/// Two lives in one file, the second of which finds what the first has mounted; no secret is in it (I-12).
fn what_was_recorded_is_played_again_to_the_same_end(case: &Case) {
    let file = case.path("events");
    let builder = || Node::builder(case.path("node")).runtime_directory(case.path("run")).record_events(&file);
    let volumes = json!([{"name": "secret", "secret": {"secretName": "keys"}}, {"name": "disk", "emptyDir": {}}]);
    let mut ends = Vec::new();
    for pods in [["a", "b"], ["b", "c"]] {
        let node = builder().start().unwrap();
        node.update_object(secret("hunter2"));
        let uids = pods.map(|it| node.add_pod(pod(it, &volumes)).unwrap());
        node.complete();
        uids.iter().for_each(|it| drop(ready(&node, it)));
        if !pods.contains(&"a") {
            run(node.gone(&"a".into())).unwrap();
        }
        ends.push(run(node.snapshot()).unwrap());
        end(node);
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2"));
    let mut replay = Replay::default();
    let mut played = Vec::new();
    for line in text.lines().filter(|it| !it.is_empty()) {
        let entry: Entry = serde_json::from_str(line).unwrap();
        if matches!(entry, Entry::Began(_)) {
            played.extend(replay.engine().map(Engine::snapshot));
        }
        replay.play(entry).unwrap();
    }
    played.extend(replay.engine().map(Engine::snapshot));
    for (end, played) in ends.iter_mut().zip(&mut played) {
        // What came later changed nothing.
        end.now = played.now;
        assert_eq!(end, played);
    }
    assert_eq!(played.len(), 2);
}

/// P-92, P-112: a mount point for another volume takes the place of a key.
fn a_key_that_cannot_be_seen_is_told(case: &Case) {
    let node = start(case);
    let mut changes = node.changes();
    node.update_object(config("settings", "one"));
    let mut both =
        pod("a", &json!([{"name": "config", "configMap": {"name": "settings"}}, {"name": "other", "emptyDir": {}}]));
    let mounts = json!([{"name": "config", "mountPath": "/config"}, {"name": "other", "mountPath": "/config/key"}]);
    both.spec.as_mut().unwrap().containers[0].volume_mounts = serde_json::from_value(mounts).unwrap();
    let uid = node.add_pod(both).unwrap();
    ready(&node, &uid);
    loop {
        match run(changes.next()) {
            Some(Change::Event(event)) if event.reason == "HiddenVolumeFiles" => {
                break assert!(event.message.contains("key"));
            }
            other => assert!(other.is_some()),
        }
    }
    end(node);
}

/// Neither an engine that broke off nor one that was stopped looks like an empty node.
fn a_node_that_has_ended_says_so_to_everybody(case: &Case) {
    let node = start(case);
    node.complete();
    let uid = node.add_pod(pod("a", &json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]))).unwrap();
    ready(&node, &uid);
    let mounts = case.mounts_below("node");
    let (mut changes, waiting) = (node.changes(), node.clone());
    let waits = std::thread::spawn(move || run(waiting.gone(&uid)));
    node.break_engine("on purpose");
    let ended = Ended::Broken { text: "on purpose".into() };
    assert_eq!(run(node.ended()), ended);
    assert_eq!(waits.join().unwrap(), Err(WaitError::Ended(ended.clone())));
    run(async { while changes.next().await.is_some() {} });
    everybody_is_told(&node, &ended);
    assert_eq!(run(node.clone().stop(Duration::from_secs(30))), Err(ended));
    drop(node);
    assert_eq!(case.mounts_below("node"), mounts, "volumes stay mounted");

    let node = start(case);
    let uid = node.add_pod(pod("a", &json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}]))).unwrap();
    ready(&node, &uid);
    assert_eq!(case.mounts_below("node"), mounts, "and are taken over");
    assert_eq!(run(node.clone().stop(Duration::from_secs(30))), Ok(0));
    everybody_is_told(&node, &Ended::Stopped);
}

fn everybody_is_told(node: &Node, ended: &Ended) {
    let uid = PodUid::from("pod-a");
    assert_eq!(node.check().as_ref(), Err(ended));
    assert_eq!(run(node.ping()).as_ref(), Err(ended));
    assert_eq!(node.add_pod(pod("b", &json!([]))), Err(PodError::Ended(ended.clone())));
    let waited = Err(WaitError::Ended(ended.clone()));
    assert_eq!(run(node.ready(&uid)), waited);
    assert_eq!(run(node.sync(&uid, Duration::ZERO)), waited);
    assert_eq!(run(node.gone(&uid)), Err(WaitError::Ended(ended.clone())));
    assert_eq!(run(node.volumes(&uid)).as_ref(), Err(ended));
    assert_eq!(run(node.groups(&uid)).as_ref(), Err(ended));
    assert_eq!(run(node.status(&uid)).as_ref(), Err(ended));
    assert_eq!(run(node.explain(&uid)).as_ref(), Err(ended));
    assert_eq!(run(node.statistics(&uid)).as_ref(), Err(ended));
    assert_eq!(run(node.show_pods()).as_ref(), Err(ended));
    assert_eq!(run(node.show_volumes()).as_ref(), Err(ended));
    assert_eq!(run(node.show_drivers()).as_ref(), Err(ended));
    assert_eq!(run(node.show_operations()).as_ref(), Err(ended));
    assert_eq!(run(node.volumes_in_use()).as_ref(), Err(ended));
    assert_eq!(run(node.snapshot()).as_ref().err(), Some(ended));
    assert_eq!(run(node.changes().next()), None);
}

/// What failed with the old object does not wait for the end of its back-off.
fn an_object_that_was_corrected_is_tried_at_once(case: &Case) {
    let node = start(case);
    node.complete();
    let volume = |path: &Path| -> PersistentVolume {
        let claim = json!({"namespace": "default", "name": "data", "uid": "c"});
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}]}});
        let spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": claim,
            "local": {"path": path}, "nodeAffinity": affinity,
        });
        serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap()
    };
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "data", "uid": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    }))
    .unwrap();
    let labels = json!({"kubernetes.io/hostname": "node-1"});
    let this: api::Node = serde_json::from_value(json!({"metadata": {"name": "node-1", "labels": labels}})).unwrap();
    node.update_object(this);
    node.update_object(claim);
    node.update_object(volume(&case.path("typo")));
    case.directory("right");
    let uid =
        node.add_pod(pod("a", &json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))).unwrap();
    let next_try = backing_off(&node, &uid);
    node.update_object(volume(&case.path("right")));
    ready(&node, &uid);
    let now = run(node.snapshot()).unwrap().now;
    assert!(now < next_try, "it was {now:?} when it was there, and would have been tried at {next_try:?}");
    end(node);
}

/// Waits until a volume of the pod has failed so often that the next try is some seconds away; says when that is.
fn backing_off(node: &Node, uid: &PodUid) -> Time {
    let mut changes = node.changes();
    loop {
        let explained = run(node.explain(uid)).unwrap();
        let mut reasons = explained.iter().flat_map(|it| &it.reasons);
        match reasons.find(|it| it.attempts >= 4 && it.next_try.is_some()) {
            Some(reason) => return reason.next_try.unwrap(),
            None => drop(run(changes.next())),
        }
    }
}

/// The kernel tells of it, so nobody need wait for the end of a back-off.
fn what_was_in_the_way_and_is_unmounted_by_hand_is_tried_at_once(case: &Case) {
    let place = case.directory("node/pods/a/volumes/kubernetes.io~empty-dir/disk");
    case.tmpfs_at(&place);
    let node = start(case);
    let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    let next_try = backing_off(&node, &uid);
    unmount(&place);
    ready(&node, &uid);
    let now = run(node.snapshot()).unwrap().now;
    assert!(now < next_try, "it was {now:?} when it was there, and would have been tried at {next_try:?}");
    end(node);
}

fn unmount(path: &Path) {
    rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty()).unwrap();
}

/// Whoever is told that a pod is gone may make another one there, or hand the disk on.
fn gone_is_after_the_last_directory(case: &Case) {
    let node = start(case);
    node.complete();
    node.update_object(config("settings", "one"));
    node.update_object(secret("hunter2"));
    for round in 0..20 {
        let uid = node.add_pod(pod(&format!("pod-{round}"), &all_kinds())).unwrap();
        ready(&node, &uid);
        let mut changes = node.changes();
        node.remove_pod(&uid);
        if round % 2 == 0 {
            run(node.gone(&uid)).unwrap();
        } else {
            run(async { while changes.next().await.unwrap() != Change::PodReleased(uid.clone()) {} });
        }
        assert!(!case.path(&format!("node/pods/{uid}")).exists(), "{uid} is gone, and its directory is not");
        assert_eq!(run(node.show_pod(&uid)).unwrap(), None);
        run(node.released(&uid)).unwrap();
    }
    let entries = |path: &str| std::fs::read_dir(case.path(path)).unwrap().map(|it| it.unwrap().path());
    let records = entries("node/windlass/records").chain(entries("node/windlass/records/pods"));
    let records: Vec<PathBuf> = records.filter(|it| it.is_file()).collect();
    assert!(records.is_empty(), "nor is any record left: {records:?}");
    end(node);
}

fn a_pod_whose_directory_cannot_go_is_not_gone(case: &Case) {
    let node = start(case);
    node.complete();
    let uid = node.add_pod(pod("a", &json!([{"name": "disk", "emptyDir": {}}]))).unwrap();
    ready(&node, &uid);
    case.file(&format!("node/pods/{uid}/of-somebody-else"), "kept");
    node.remove_pod(&uid);
    let gone = run(node.gone(&uid));
    let Err(WaitError::Leftover { text }) = &gone else { panic!("{gone:?}") };
    assert!(text.contains("of-somebody-else"), "{text}");
    end(node);
}

fn what_failed_is_tried_at_once_when_somebody_says_so(case: &Case) {
    let node = start(case);
    node.complete();
    let host = |name: &str| json!({"name": name, "hostPath": {"path": case.path(name), "type": "Directory"}});
    let uid = node.add_pod(pod("a", &json!([host("one"), host("two"), {"name": "disk", "emptyDir": {}}]))).unwrap();
    let next_try = backing_off(&node, &uid);
    case.directory("one");
    let retried = run(node.retry(Some(&uid), Some("one"))).unwrap();
    assert_eq!(retried.iter().map(|it| it.what.as_str()).collect::<Vec<_>>(), ["pod default/a, volume one"]);
    assert!(retried[0].attempts >= 3, "{retried:?}");
    assert_eq!(run(node.retry(Some(&uid), Some("disk"))).unwrap(), [], "nothing of it failed");
    assert_eq!(run(node.retry(Some(&"nobody".into()), None)).unwrap(), []);
    case.directory("two");
    let retried = run(node.retry(None, None)).unwrap();
    assert!(retried.iter().any(|it| it.what == "pod default/a, volume two"), "{retried:?}");
    assert_eq!(ready(&node, &uid).len(), 3);
    let now = run(node.snapshot()).unwrap().now;
    assert!(now < next_try, "it was {now:?} when it was there, and would have been tried at {next_try:?}");
    end(node);
}

/// An embedding program gives objects one by one; that one is not there yet is nobody's concern before all were given.
fn an_object_that_may_still_come_is_no_news_for_the_pods_owner(case: &Case) {
    let node = start(case);
    let mut changes = node.changes();
    let volumes =
        json!([{"name": "late", "configMap": {"name": "late"}}, {"name": "absent", "configMap": {"name": "no"}}]);
    let uid = node.add_pod(pod("a", &volumes)).unwrap();
    let mut told = Vec::new();
    // Both have failed.
    while run(node.explain(&uid)).unwrap().iter().filter(|it| it.reasons.iter().any(|it| it.attempts > 0)).count() < 2 {
        told.extend(run(changes.next()));
    }
    node.update_object(config("late", "one"));
    node.complete();
    let warning = loop {
        match run(changes.next()).unwrap() {
            Change::Event(event) => break event,
            other => told.push(other),
        }
    };
    assert!(!told.iter().any(|it| matches!(it, Change::Event(_))), "{told:?}");
    assert!(warning.message.contains("\"no\" not found"), "{}", warning.message);
    end(node);
}
