//! The life of a driver's volume when nothing goes wrong, and of drivers that come, go and lie.

use libtest_mimic::Trial;
use windlass::{
    Node,
    node::{Change, Changes},
};
use windlass_core::{reason::Code, snapshot::Snapshot};

use crate::{
    driver::{Driver, Fault, Memory},
    host::{Host, NAME, pod, pod_of_group, run, settle, uid},
};

/// The tests of this file, each by the name of its function.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        pub(crate) fn tests(tests: &mut Vec<Trial>) {
            $(crate::add(tests, stringify!($test), $test);)*
        }
    };
}

tests! {
    a_driver_that_does_not_answer_is_told_of_once,
    a_driver_that_does_not_come_is_told_of,
    a_driver_that_is_started_again_is_noticed_though_nobody_registers_it_anew,
    a_driver_that_says_it_is_done_and_is_not_is_named,
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
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = host.node();
    node.complete();
    node.add_pod(pod()).unwrap();
    let volumes = run(node.ready(&uid())).unwrap();
    let path = host.path("node/pods/uid-1/volumes/kubernetes.io~csi/pv/mount");
    assert_eq!(volumes[0].path.as_deref(), Some(path.as_path()));
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    node.remove_pod(&uid());
    settle(&node);
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
    let explained = run(node.explain(&uid()));
    assert!(explained[0].reasons.last().unwrap().text.contains(NAME), "{explained:?}");
    let _driver = Driver::start(host, &memory);
    run(node.ready(&uid())).unwrap();
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume"], "nothing was tried in vain");
    assert_eq!(warnings(&mut listening), [""; 0], "it was not away for long");
    node.remove_pod(&uid());
    settle(&node);
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
    node.remove_pod(&uid());
    settle(&node);
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
        while !node.explain(&uid()).await.iter().any(|it| it.reasons.iter().any(|it| it.code == code)) {
            changes.next().await;
        }
    });
}

/// At most once in five minutes, though each try fails: the driver hangs, hangs again, dies, and is gone.
fn a_driver_that_does_not_answer_is_told_of_once(host: &Host) {
    let memory = Memory::new();
    let driver = Driver::start(host, &memory);
    let node = host.node();
    node.complete();
    let (mut listening, mut changes) = (node.changes(), node.changes());
    let arrivals = memory.arrivals();
    memory.plan("NodeStageVolume", Fault::NeverDone);
    node.add_pod(pod()).unwrap();
    for next in [Fault::NeverDone, Fault::Dead] {
        assert_eq!(arrivals.recv(), Ok("NodeStageVolume"));
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
    node.remove_pod(&uid());
    settle(&node);
    host.end(node);
}

/// I-11: the kubelet stages and publishes everything again.
fn a_new_process_calls_nobody_for_what_is_mounted(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = host.node();
    node.complete();
    node.add_pod(pod()).unwrap();
    run(node.ready(&uid())).unwrap();
    assert_eq!(run(node.stop(std::time::Duration::from_secs(30))), 0);
    let node = host.node();
    node.add_pod(pod()).unwrap();
    node.complete();
    run(node.ready(&uid())).unwrap();
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume"]);
    node.remove_pod(&uid());
    settle(&node);
    host.end(node);
}

/// W-1: with the records gone, the notes beside the volume tell.
fn a_volume_that_is_staged_for_nobody_is_found_again_and_unstaged(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = host.node();
    node.complete();
    node.add_pod(pod()).unwrap();
    run(node.ready(&uid())).unwrap();
    assert_eq!(run(node.stop(std::time::Duration::from_secs(30))), 0);
    std::fs::remove_dir_all(host.path("node/windlass")).unwrap();
    let node = host.node();
    node.complete();
    settle(&node);
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]);
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new());
    host.end(node);
}

fn a_driver_that_says_it_is_done_and_is_not_is_named(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    memory.plan("NodePublishVolume", Fault::Lie);
    let node = host.node();
    node.complete();
    let mut changes = node.changes();
    node.add_pod(pod()).unwrap();
    let reason = run(async {
        loop {
            let explained = node.explain(&uid()).await;
            let reason = explained.iter().flat_map(|it| &it.reasons).find(|it| it.code == Code::DriverLied).cloned();
            match reason {
                Some(reason) => break reason,
                None => drop(changes.next().await),
            }
        }
    });
    assert!(reason.text.contains(NAME) && reason.text.contains("nothing is mounted at"), "{}", reason.text);
    run(node.ready(&uid())).unwrap();
    node.remove_pod(&uid());
    settle(&node);
    host.end(node);
}

/// C-67, C-71.
fn a_handle_may_hold_anything(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    for handle in ["a/b^c", "../..", "größe 1\n", &"x".repeat(1024)] {
        let node = host.node_with(handle);
        node.complete();
        node.add_pod(pod()).unwrap();
        run(node.ready(&uid())).unwrap();
        // A new process knows it by what is on disk.
        assert_eq!(run(node.stop(std::time::Duration::from_secs(30))), 0);
        let node = host.node_with(handle);
        node.complete();
        settle(&node);
        host.end(node);
    }
}

/// I-10, C-90: what was published must not be forgotten because something else is wrong.
fn a_group_that_is_none_is_refused_before_the_driver_is_asked(host: &Host) {
    for group in [i64::from(u32::MAX), i64::from(u32::MAX) + 1, -1] {
        let memory = Memory::new();
        let driver = Driver::start(host, &memory);
        let node = host.node();
        node.complete();
        let mut changes = node.changes();
        node.add_pod(pod_of_group(group)).unwrap();
        run(async {
            let told = |it: &windlass::node::Explanation| it.reasons.iter().any(|it| it.text.contains("is no group"));
            while !node.explain(&uid()).await.iter().any(told) {
                changes.next().await;
            }
        });
        node.remove_pod(&uid());
        settle(&node);
        assert_eq!(memory.calls(), ["NodeStageVolume", "NodeUnstageVolume"], "{group}");
        host.end(node);
        drop(driver);
    }
}

/// I-1, C-93: two volumes may be of one file system, as two directories of one share are.
fn a_volume_of_the_same_file_system_is_not_taken_from_its_pod(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = host.node();
    node.complete();
    node.add_pod(pod()).unwrap();
    run(node.ready(&uid())).unwrap();
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
        while !node.snapshot().await.is_some_and(|now| waits(&now)) {
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
        assert_eq!(node.stop(std::time::Duration::from_secs(30)).await, 0);
    });
}

/// I-3: a controller that reads what is stored must not take the volume away meanwhile.
fn a_volume_is_not_staged_before_it_is_stored_that_it_is_in_use(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = host.reporting_node();
    node.complete();
    let mut changes = node.changes();
    node.add_pod(pod()).unwrap();
    let waits = |it: &windlass::node::Explanation| it.reasons.iter().any(|it| it.code == Code::NotReported);
    run(async {
        while !node.explain(&uid()).await.iter().any(waits) {
            changes.next().await;
        }
    });
    let in_use = run(node.volumes_in_use()).unwrap();
    assert_eq!(in_use.volumes.len(), 1);
    assert_eq!(memory.calls(), [""; 0]);
    node.in_use_reported(in_use.version);
    run(node.ready(&uid())).unwrap();
    node.remove_pod(&uid());
    settle(&node);
    host.end(node);
}

/// W-5: the kubelet tries in vain, ten times a second.
fn a_volume_whose_note_is_gone_is_taken_away_all_the_same(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = host.node();
    node.complete();
    node.add_pod(pod()).unwrap();
    run(node.ready(&uid())).unwrap();
    std::fs::remove_file(host.path("node/pods/uid-1/volumes/kubernetes.io~csi/pv/vol_data.json")).unwrap();
    node.remove_pod(&uid());
    settle(&node);
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
    let mut changes = node.changes();
    run(async { while !matches!(changes.next().await, Some(Change::Driver { registered: true, .. })) {} });
    drop(services);
    node.add_pod(pod()).unwrap();
    wait_for_reason(&node, &mut node.changes(), Code::DriverUnreachable);
    let _services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    run(async { while !matches!(changes.next().await, Some(Change::DriverBack { .. })) {} });
    run(node.ready(&uid())).unwrap();
    node.remove_pod(&uid());
    settle(&node);
    host.end(node);
}
