//! The life of a driver's volume when nothing goes wrong, and of drivers that come, go and lie.

use serde_json::json;
use windlass::Node;
use windlass::node::{Change, Changes};
use windlass::view::PodPhase;
use windlass_core::reason::Code;
use windlass_core::snapshot::Snapshot;
use windlass_testing::scripted::Fault;
use windlass_testing::wait::run;

use crate::driver::{Driver, Memory};
use crate::giving::Giving as _;
use crate::host::{Host, NAME, bring_up, of, pod, pod_of_group, settle, take_down, uid};

crate::tests! {
    a_pod_is_released_once_its_volume_is_unstaged_and_detached,
    a_pod_is_not_released_while_another_volume_is_still_mounted,
    a_driver_that_dies_is_unreachable_and_is_asked_anew_when_it_is_back,
    a_driver_that_is_replaced_while_nobody_looks_is_asked_before_it_is_called,
    a_driver_that_does_not_answer_is_told_of_once,
    a_driver_that_does_not_come_is_told_of,
    a_driver_that_is_started_again_is_noticed_though_nobody_registers_it_anew,
    a_driver_that_says_it_is_done_and_is_not_is_named,
    another_driver_in_the_place_of_a_driver_is_sent_nothing,
    a_group_that_is_none_is_refused_before_the_driver_is_asked,
    a_handle_may_hold_anything,
    a_node_may_be_started_by_a_program_that_waits_for_many_things,
    a_volume_is_staged_published_and_taken_away_again,
    a_volume_waits_for_its_driver_and_comes_when_the_driver_does,
    a_new_process_calls_nobody_for_what_is_mounted,
    a_volume_is_not_staged_before_it_is_stored_that_it_is_in_use,
    a_volume_of_the_same_file_system_is_not_taken_from_its_pod,
    a_volume_whose_note_is_gone_is_taken_away_all_the_same,
    a_volume_that_is_staged_for_nobody_is_found_again_and_unstaged,
}

fn a_volume_is_staged_published_and_taken_away_again(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    let volumes = bring_up(&node);
    let path = host.path("node/pods/uid-1/volumes/kubernetes.io~csi/pv/mount");
    assert_eq!(volumes[0].path.as_deref(), Some(path.as_path()));
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    take_down(&node);
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]);
    host.end(node);
}

/// C-62, E-§6: at once, not with the next try.
fn a_volume_waits_for_its_driver_and_comes_when_the_driver_does(host: &Host) {
    let memory = Memory::new();
    let node = host.node();
    let mut listening = node.changes();
    node.complete();
    node.add_pod(pod()).unwrap();
    let mut changes = node.changes();
    wait_for_reason(&node, &mut changes, Code::DriverMissing);
    let explained = run(node.explain(&uid())).unwrap();
    assert!(explained[0].reasons.last().unwrap().text.contains(NAME), "{explained:?}");
    let _driver = Driver::start(host, &memory);
    run(node.ready(&uid())).unwrap();
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume"], "nothing was tried in vain");
    assert_eq!(warnings(&mut listening), [""; 0], "it was not away for long");
    take_down(&node);
}

fn a_driver_that_does_not_come_is_told_of(host: &Host) {
    let node = host.node();
    node.complete();
    let mut changes = node.changes();
    node.add_pod(pod()).unwrap();
    let event = run(async {
        loop {
            match changes.next().await.unwrap() {
                Change::Event(event) => break event,
                _ => continue,
            }
        }
    });
    let text = format!("for volume \"pv\" : driver name {NAME} not found in the list of registered CSI drivers");
    assert!(event.reason == "FailedMount" && event.message.ends_with(&text), "{event:?}");
    take_down(&node);
}

/// The bad news that pods' owners were told so far.
fn warnings(changes: &mut Changes) -> Vec<String> {
    let mut warnings = Vec::new();
    while !changes.is_empty() {
        if let Some(Change::Event(event)) = run(changes.next()) {
            warnings.push(format!("{} {}", event.reason, event.message));
        }
    }
    warnings
}

/// Waits until this is among the reasons why the pod does not have its volume.
fn wait_for_reason(node: &Node, changes: &mut Changes, code: Code) {
    run(async {
        while !node.explain(&uid()).await.unwrap().iter().any(|it| it.reasons.iter().any(|it| it.code == code)) {
            changes.next().await;
        }
    });
}

/// At most once in five minutes, though each try fails: the driver hangs, hangs again, dies, and is gone.
fn a_driver_that_does_not_answer_is_told_of_once(host: &Host) {
    let (memory, mut driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    let (mut listening, mut changes) = (node.changes(), node.changes());
    let mut arrivals = memory.arrivals();
    memory.plan("NodeStageVolume", Fault::NeverDone);
    node.add_pod(pod()).unwrap();
    for next in [Fault::NeverDone, Fault::Dead] {
        assert_eq!(arrivals.wait(), "NodeStageVolume");
        memory.plan("NodeStageVolume", next);
    }
    driver.wait_for_death();
    wait_for_reason(&node, &mut changes, Code::DriverUnreachable);
    drop(driver);
    wait_for_reason(&node, &mut changes, Code::DriverMissing);
    let _driver = Driver::start(host, &memory);
    run(node.ready(&uid())).unwrap();
    let told = warnings(&mut listening);
    // Either side may be the first to notice that the time is up.
    let is_late = |it: &str| it.contains("DeadlineExceeded") || it.contains("Timeout expired");
    assert!(told.len() == 1 && is_late(&told[0]), "{told:?}");
    take_down(&node);
    host.end(node);
}

/// I-11: the kubelet stages and publishes everything again.
fn a_new_process_calls_nobody_for_what_is_mounted(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    bring_up(&node);
    assert_eq!(run(node.stop(std::time::Duration::from_secs(30))), Ok(0));
    let node = host.node();
    node.add_pod(pod()).unwrap();
    node.complete();
    run(node.ready(&uid())).unwrap();
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    take_down(&node);
    host.end(node);
}

/// W-1: with the records gone, the notes beside the volume tell.
fn a_volume_that_is_staged_for_nobody_is_found_again_and_unstaged(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    bring_up(&node);
    assert_eq!(run(node.stop(std::time::Duration::from_secs(30))), Ok(0));
    std::fs::remove_dir_all(host.path("node/windlass")).unwrap();
    let node = host.node();
    node.complete();
    settle(&node);
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]);
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new());
    host.end(node);
}

fn a_driver_that_says_it_is_done_and_is_not_is_named(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    memory.plan("NodePublishVolume", Fault::Lie);
    let node = host.node();
    node.complete();
    let mut changes = node.changes();
    node.add_pod(pod()).unwrap();
    let reason = run(async {
        loop {
            let explained = node.explain(&uid()).await.unwrap();
            let reason = explained.iter().flat_map(|it| &it.reasons).find(|it| it.code == Code::DriverLied).cloned();
            match reason {
                Some(reason) => break reason,
                None => drop(changes.next().await),
            }
        }
    });
    assert!(reason.text.contains(NAME) && reason.text.contains("nothing is mounted at"), "{}", reason.text);
    run(node.ready(&uid())).unwrap();
    take_down(&node);
    host.end(node);
}

/// C-67, C-71.
fn a_handle_may_hold_anything(host: &Host) {
    let (_, _driver) = Driver::of(host);
    for handle in ["a/b^c", "../..", "größe 1\n", &"x".repeat(1024)] {
        let node = host.node_with(handle);
        node.complete();
        bring_up(&node);
        // A new process knows it by what is on disk.
        assert_eq!(run(node.stop(std::time::Duration::from_secs(30))), Ok(0));
        let node = host.node_with(handle);
        node.complete();
        settle(&node);
        host.end(node);
    }
}

/// I-10, C-90: what was published must not be forgotten because something else is wrong.
fn a_group_that_is_none_is_refused_before_the_driver_is_asked(host: &Host) {
    for group in [i64::from(u32::MAX), i64::from(u32::MAX) + 1, -1] {
        let (memory, driver) = Driver::of(host);
        let node = host.node();
        node.complete();
        let mut changes = node.changes();
        node.add_pod(pod_of_group(group)).unwrap();
        run(async {
            let told = |it: &windlass::node::Explanation| it.reasons.iter().any(|it| it.text.contains("is no group"));
            while !node.explain(&uid()).await.unwrap().iter().any(told) {
                changes.next().await;
            }
        });
        take_down(&node);
        assert_eq!(memory.calls(), ["NodeStageVolume", "NodeUnstageVolume"], "{group}");
        host.end(node);
        drop(driver);
    }
}

/// I-1, C-93: two volumes may be of one file system, as two directories of one share are.
fn a_volume_of_the_same_file_system_is_not_taken_from_its_pod(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    bring_up(&node);
    let other = host.path("node/pods/other/volumes/kubernetes.io~csi/pv-2");
    let (point, staged) = (other.join("mount"), memory.mounts().remove(0));
    std::fs::create_dir_all(&point).unwrap();
    let note = format!(r#"{{"driverName": "{NAME}", "volumeHandle": "vol-2"}}"#);
    std::fs::write(other.join("vol_data.json"), note).unwrap();
    rustix::mount::mount_bind(&staged, &point).unwrap();
    let mut changes = node.changes();
    node.remove_pod(&uid());
    run(async {
        let waits = |now: &Snapshot| format!("{:?}", now.volumes).contains("still mounted by other references");
        while !node.snapshot().await.is_ok_and(|now| waits(&now)) {
            changes.next().await;
        }
    });
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume"]);
    rustix::mount::unmount(&point, rustix::mount::UnmountFlags::empty()).expect("it is still mounted");
    std::fs::remove_dir_all(host.path("node/pods/other")).unwrap();
    settle(&node);
    assert_eq!(memory.calls().last(), Some(&"NodeUnstageVolume"));
    host.end(node);
}

/// Programs that embed windlass have a runtime, and start it from there.
fn a_node_may_be_started_by_a_program_that_waits_for_many_things(host: &Host) {
    run(async {
        let node = host.node();
        assert_eq!(node.stop(std::time::Duration::from_secs(30)).await, Ok(0));
    });
}

/// I-3: a controller that reads what is stored must not take the volume away meanwhile.
fn a_volume_is_not_staged_before_it_is_stored_that_it_is_in_use(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.reporting_node();
    node.complete();
    let mut changes = node.changes();
    node.add_pod(pod()).unwrap();
    let waits = |it: &windlass::node::Explanation| it.reasons.iter().any(|it| it.code == Code::NotReported);
    run(async {
        while !node.explain(&uid()).await.unwrap().iter().any(waits) {
            changes.next().await;
        }
    });
    let in_use = run(node.volumes_in_use()).unwrap().unwrap();
    assert_eq!(in_use.volumes.len(), 1);
    assert_eq!(memory.calls(), [""; 0]);
    node.in_use_reported(in_use.version);
    run(node.ready(&uid())).unwrap();
    take_down(&node);
    host.end(node);
}

/// W-5: the kubelet tries in vain, ten times a second.
fn a_volume_whose_note_is_gone_is_taken_away_all_the_same(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    bring_up(&node);
    std::fs::remove_file(host.path("node/pods/uid-1/volumes/kubernetes.io~csi/pv/vol_data.json")).unwrap();
    take_down(&node);
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]);
    host.end(node);
}

/// A registrar beside the driver may outlive it.
fn a_driver_that_is_started_again_is_noticed_though_nobody_registers_it_anew(host: &Host) {
    let memory = Memory::new();
    let services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    let _registrar = Driver::start_at(host, &memory, ["other.sock", "registry/scripted.sock"]);
    let node = host.node();
    node.complete();
    let mut changes = node.changes_since_start().unwrap();
    run(async { while !matches!(changes.next().await, Some(Change::Driver { registered: true, .. })) {} });
    drop(services);
    node.add_pod(pod()).unwrap();
    wait_for_reason(&node, &mut node.changes(), Code::DriverUnreachable);
    let _services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    run(async { while !matches!(changes.next().await, Some(Change::DriverBack { .. })) {} });
    run(node.ready(&uid())).unwrap();
    take_down(&node);
    host.end(node);
}

/// A pod is gone before the volume that it alone had is; and another that uses the volume is nothing to wait for.
fn a_pod_is_released_once_its_volume_is_unstaged_and_detached(host: &Host) {
    let memory = Memory::new();
    memory.attach();
    let _driver = Driver::start(host, &memory);
    let node = host.attaching_node();
    node.complete();
    bring_up(&node);
    memory.plan("NodeUnstageVolume", Fault::Refusal);
    let mut changes = node.changes();
    node.remove_pod(&uid());
    run(node.gone(&uid())).unwrap();
    let shown = run(node.show_pod(&uid())).unwrap();
    let shown = shown.expect("its volume is still here, and so it is shown").status;
    assert_eq!((shown.phase, shown.releasing.len()), (PodPhase::Releasing, 1));
    let named = || {
        let metadata = pod().metadata;
        let shown =
            run(node.show_pods_named(metadata.namespace.as_deref().unwrap(), metadata.name.as_deref().unwrap()));
        shown.unwrap().into_iter().map(|it| it.status.phase).collect::<Vec<_>>()
    };
    assert_eq!(named(), [PodPhase::Releasing], "it is found by its name");
    run(node.released(&uid())).unwrap();
    assert_eq!(named(), []);
    let calls = memory.calls();
    assert_eq!(calls.last(), Some(&"ControllerUnpublishVolume"), "{calls:?}");
    assert_eq!(run(node.show_pod(&uid())).unwrap(), None);
    run(async { while changes.next().await.unwrap() != Change::VolumesReleased(uid()) {} });
    host.end(node);
}

fn a_pod_is_not_released_while_another_volume_is_still_mounted(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node();
    node.complete();
    let mut pod = pod();
    let spec = pod.spec.as_mut().unwrap();
    spec.volumes.as_mut().unwrap().push(of(&json!({"name": "memory", "emptyDir": {"medium": "Memory"}})));
    let mounts = spec.containers[0].volume_mounts.as_mut().unwrap();
    mounts.push(of(&json!({"name": "memory", "mountPath": "/memory"})));
    node.add_pod(pod).unwrap();
    let volumes = run(node.ready(&uid())).unwrap();
    let memory_path = volumes.into_iter().find(|it| it.name.as_str() == "memory").unwrap().path.unwrap();
    let open = std::fs::File::create(memory_path.join("open")).unwrap();
    let mut changes = node.changes();
    node.remove_pod(&uid());
    // The other volume is unstaged, and nothing is known of it any more.
    run(async {
        while !memory.calls().contains(&"NodeUnstageVolume") || !volumes_of_driver(&node).await.is_empty() {
            changes.next().await;
        }
    });
    let shown = run(node.show_pod(&uid())).unwrap().expect("a volume of it is mounted").metadata;
    assert_eq!((shown.namespace.as_deref(), shown.name.as_str()), (Some("default"), "app"));
    drop(open);
    run(node.retry(None, None)).unwrap();
    run(async {
        loop {
            let change = changes.next().await.unwrap();
            let shown = node.show_pod(&uid()).await.unwrap();
            let name = shown.map(|it| it.metadata.name);
            assert!(name.is_none_or(|it| it == "app"), "it keeps its name to the end");
            if change == Change::VolumesReleased(uid()) {
                break;
            }
        }
    });
    assert_eq!(run(node.show_pod(&uid())).unwrap(), None, "it is released when it is gone");
    host.end(node);
}

async fn volumes_of_driver(node: &Node) -> Vec<String> {
    node.show_driver(NAME).await.unwrap().map(|it| it.status.volumes).unwrap_or_default()
}

/// A dead driver is not taken for one that is well, and the one that takes its place is not taken for the dead one.
fn a_driver_that_dies_is_unreachable_and_is_asked_anew_when_it_is_back(host: &Host) {
    let memory = Memory::new();
    let services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    let _registrar = Driver::start_at(host, &memory, ["other.sock", "registry/scripted.sock"]);
    let node = host.node();
    node.complete();
    let mut changes = node.changes_since_start().unwrap();
    run(async { while !matches!(changes.next().await, Some(Change::Driver { registered: true, .. })) {} });
    let status = || run(node.show_driver(NAME)).unwrap().unwrap().status;
    assert_eq!((status().unreachable_since, status().capabilities.len()), (None, 2));
    drop(services);
    run(async { while !matches!(changes.next().await, Some(Change::DriverUnreachable { .. })) {} });
    assert!(status().registered && status().unreachable_since.is_some());
    memory.can_nothing_more();
    let _services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    run(async { while !matches!(changes.next().await, Some(Change::DriverBack { .. })) {} });
    assert_eq!((status().unreachable_since, status().capabilities), (None, Vec::new()));
    bring_up(&node);
    assert_eq!(memory.calls(), ["NodePublishVolume"], "nothing is staged that it does not stage");
    node.remove_pod(&uid());
    run(node.released(&uid())).unwrap();
    host.end(node);
}

/// The name at a socket is that of a process that may be another one after a restart.
fn another_driver_in_the_place_of_a_driver_is_sent_nothing(host: &Host) {
    let memory = Memory::new();
    let services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    let _registrar = Driver::start_at(host, &memory, ["other.sock", "registry/scripted.sock"]);
    let node = host.node();
    node.complete();
    bring_up(&node);
    drop(services);
    let mut changes = node.changes();
    let stranger = Memory::of_another_driver();
    let other = Driver::start_at(host, &stranger, ["csi.sock", "unused.sock"]);
    let told = |change| matches!(change, Some(Change::DriverUnreachable { refused: Some(_), .. }));
    run(async { while !told(changes.next().await) {} });
    let status = run(node.show_driver(NAME)).unwrap().unwrap().status;
    let socket = host.text("csi.sock");
    let why = format!(r#"{socket} is served by driver "other.example.com", and not by {NAME}: nothing is sent to it"#);
    assert_eq!((status.unreachable_since.is_some(), status.refused), (true, vec![why.clone()]));
    node.remove_pod(&uid());
    run(async {
        while !node
            .show_pod(&uid())
            .await
            .unwrap()
            .is_some_and(|it| it.status.volumes.iter().flat_map(|it| &it.reasons).any(|it| it.message.contains(&why)))
        {
            changes.next().await;
        }
    });
    assert_eq!(stranger.calls(), Vec::<&str>::new());
    drop(other);
    let _services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    run(node.released(&uid())).unwrap();
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new(), "the right one was asked as soon as it was back");
    host.end(node);
}

/// The socket stays what it is where somebody else holds it, and nothing tells that another process is behind it.
fn a_driver_that_is_replaced_while_nobody_looks_is_asked_before_it_is_called(host: &Host) {
    let memory = Memory::new();
    let services = Driver::start_at(host, &memory, ["real.sock", "unused.sock"]);
    std::os::unix::fs::symlink(host.path("real.sock"), host.path("csi.sock")).unwrap();
    let _registrar = Driver::start_at(host, &memory, ["other.sock", "registry/scripted.sock"]);
    let node = host.node();
    node.complete();
    let mut changes = node.changes_since_start().unwrap();
    run(async { while !matches!(changes.next().await, Some(Change::Driver { registered: true, .. })) {} });
    let asked = memory.questions().len();
    drop(services);
    memory.can_nothing_more();
    let _services = Driver::start_at(host, &memory, ["real.sock", "unused.sock"]);
    bring_up(&node);
    assert_eq!(memory.calls(), ["NodePublishVolume"], "it was asked before it was called");
    assert!(memory.questions().len() > asked);
    node.remove_pod(&uid());
    run(node.released(&uid())).unwrap();
    host.end(node);
}
