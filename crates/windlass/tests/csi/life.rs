//! The life of a driver's volume when nothing goes wrong, and of drivers that come, go and lie.

use libtest_mimic::Trial;
use windlass::{
    Node,
    node::{Change, Changes},
};
use windlass_core::reason::Code;

use crate::{
    driver::{Driver, Fault, Memory},
    host::{Host, NAME, pod, run, settle, uid},
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
    a_driver_that_says_it_is_done_and_is_not_is_named,
    a_handle_may_hold_anything,
    a_volume_is_staged_published_and_taken_away_again,
    a_volume_waits_for_its_driver_and_comes_when_the_driver_does,
    a_new_process_calls_nobody_for_what_is_mounted,
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
    assert!(told.len() == 1 && told[0].contains("DeadlineExceeded"), "{told:?}");
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
