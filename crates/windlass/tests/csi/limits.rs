//! What may be set for a driver or a volume: how long a call may take, and how many run at a time.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::serde_json::json;
use windlass::node::DriverSettings;
use windlass_core::ids::PodUid;
use windlass_core::reason::Code;
use windlass_testing::scripted::Fault;
use windlass_testing::wait::run;

use crate::driver::Driver;
use crate::giving::Giving as _;
use crate::host::{Host, NAME, bring_up, give_as, of, pod, pod_as, settle, take_down, uid};

const SHORT: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(60);

crate::tests! {
    a_call_takes_no_longer_than_is_set_for_its_driver,
    a_call_takes_no_longer_than_its_volume_says,
    no_more_calls_of_a_driver_run_at_a_time_than_is_set,
    calls_that_hang_have_no_thread_and_nothing_open,
    calls_that_hang_hold_up_no_others_however_many_are_made_at_a_time,
    how_many_calls_are_made_at_a_time_is_shown,
    a_driver_that_mounts_nothing_is_believed_only_if_that_is_set,
    a_record_that_tells_of_another_volume_than_its_note_is_written_anew,
    what_is_mounted_at_a_volumes_place_before_the_driver_was_asked_is_not_the_volume,
}

fn a_call_takes_no_longer_than_is_set_for_its_driver(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node_set(DriverSettings { deadline: Some(SHORT), ..DriverSettings::default() });
    node.complete();
    memory.plan("NodeStageVolume", Fault::NeverDone);
    bring_up(&node);
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodeStageVolume", "NodePublishVolume"]);
    take_down(&node);
    host.end(node);
}

fn a_call_takes_no_longer_than_its_volume_says(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node_set(DriverSettings::default());
    let volume = json!({
        "metadata": {"name": "pv", "annotations": {"windlass.dev/driver-timeout": "100ms"}},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": NAME, "volumeHandle": "vol-1"},
            "claimRef": {"namespace": "default", "name": "claim", "uid": "claim"},
        },
    });
    node.update_object(of::<PersistentVolume>(&volume));
    node.complete();
    memory.plan("NodePublishVolume", Fault::NeverDone);
    bring_up(&node);
    assert_eq!(memory.calls(), ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]);
    take_down(&node);
    host.end(node);
}

fn no_more_calls_of_a_driver_run_at_a_time_than_is_set(host: &Host) {
    let (memory, driver) = Driver::of(host);
    let settings = DriverSettings { calls_at_once: Some(NonZeroUsize::MIN), ..DriverSettings::default() };
    let node = host.node_set(settings);
    give_as(&node, "-2", "vol-2", "1Gi");
    node.complete();
    memory.plan("NodeStageVolume", Fault::NeverDone);
    let (mut arrivals, mut changes) = (memory.arrivals(), node.changes());
    node.add_pod(pod()).unwrap();
    assert_eq!(arrivals.wait(), "NodeStageVolume");
    let other = PodUid::from("uid-2");
    node.add_pod(pod_as("-2", "uid-2")).unwrap();
    run(async {
        loop {
            let status = node.show_driver(NAME).await.unwrap().unwrap().status;
            if (status.operations_under_way, status.operations_waiting) == (1, 1) {
                break;
            }
            changes.next().await;
        }
    });
    assert_eq!(memory.calls(), ["NodeStageVolume"], "the other waits for its turn");
    // The connection ends, and with it the call that hangs.
    drop(driver);
    let _driver = Driver::start(host, &memory);
    for pod in [&uid(), &other] {
        run(node.ready(pod)).unwrap();
        node.remove_pod(pod);
    }
    settle(&node);
    host.end(node);
}

fn a_driver_that_mounts_nothing_is_believed_only_if_that_is_set(host: &Host) {
    for unmounted_publish in [false, true] {
        let (memory, _driver) = Driver::of(host);
        let node = host.node_set(DriverSettings { unmounted_publish, ..DriverSettings::default() });
        node.complete();
        memory.plan("NodePublishVolume", Fault::Lie);
        let volumes = bring_up(&node);
        let path = volumes[0].path.clone().unwrap();
        let tries = memory.calls().iter().filter(|it| **it == "NodePublishVolume").count();
        assert_eq!((tries, path.is_dir()), (if unmounted_publish { 1 } else { 2 }, true));
        take_down(&node);
        assert!(!path.exists());
        host.end(node);
    }
}

fn a_record_that_tells_of_another_volume_than_its_note_is_written_anew(host: &Host) {
    let (_, _driver) = Driver::of(host);
    let node = host.node_set(DriverSettings::default());
    node.complete();
    bring_up(&node);
    run(node.stop(PATIENCE)).unwrap();
    let records = host.path("node/windlass/records");
    let names = std::fs::read_dir(&records).unwrap().map(|it| it.unwrap().path());
    let record = names.filter(|it| it.is_file()).find(|it| it.display().to_string().contains("kubernetes.io~csi"));
    let record = record.unwrap();
    let text = std::fs::read_to_string(&record).unwrap();
    let changed = text.replace(&format!("{NAME}^"), &format!("{NAME}^other-"));
    assert_ne!(changed, text);
    std::fs::write(&record, changed).unwrap();

    let node = host.node_set(DriverSettings::default());
    node.add_pod(pod()).unwrap();
    node.complete();
    run(node.ready(&uid())).unwrap();
    let ids = |text: &str| text.contains(&format!("{NAME}^other-"));
    assert!(!ids(&std::fs::read_to_string(&record).unwrap()));
    take_down(&node);
    assert!(!record.exists());
    host.end(node);
}

/// I-4: a driver would take it for its own work.
fn what_is_mounted_at_a_volumes_place_before_the_driver_was_asked_is_not_the_volume(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = host.node_set(DriverSettings::default());
    node.complete();
    while !run(node.snapshot()).unwrap().synced {}
    let target = host.path("node/pods/uid-1/volumes/kubernetes.io~csi/pv/mount");
    std::fs::create_dir_all(&target).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("foreign", &target, "tmpfs", flags, None).unwrap();
    let mut changes = node.changes();
    node.add_pod(pod()).unwrap();
    run(async {
        loop {
            let explained = node.explain(&uid()).await.unwrap();
            if explained.iter().flat_map(|it| &it.reasons).any(|it| it.code == Code::InTheWay) {
                break;
            }
            changes.next().await;
        }
    });
    assert!(!memory.calls().contains(&"NodePublishVolume"));
    rustix::mount::unmount(&target, rustix::mount::UnmountFlags::empty()).unwrap();
    run(node.ready(&uid())).unwrap();
    take_down(&node);
    host.end(node);
}

/// I-6: it begins with 64 at a time. If none of these is ever answered, another is made all the same.
fn calls_that_hang_hold_up_no_others_however_many_are_made_at_a_time(host: &Host) {
    const COUNT: usize = 65;
    let (memory, driver) = Driver::of(host);
    let node = host.node_set(DriverSettings::default());
    node.complete();
    // So that it is registered, and is asked nothing else.
    bring_up(&node);
    take_down(&node);
    let mut arrivals = memory.arrivals();
    (1..COUNT).for_each(|_| memory.next(Fault::NeverDone));
    let mut pods = Vec::new();
    for number in 0..COUNT {
        let (suffix, uid) = (format!("-{number}"), format!("hangs-{number}"));
        give_as(&node, &suffix, &format!("vol{suffix}"), "1Gi");
        node.add_pod(pod_as(&suffix, &uid)).unwrap();
        pods.push(PodUid::from(uid.as_str()));
    }
    let mut calls: Vec<_> = (0..=COUNT).map(|_| arrivals.wait()).collect();
    assert_eq!(calls.pop(), Some("NodePublishVolume"), "the last of them is answered");
    assert_eq!(calls, ["NodeStageVolume"; COUNT]);
    let status = run(node.show_driver(NAME)).unwrap().unwrap().status;
    assert_eq!((status.calls_at_once, status.calls_at_once_max), (128, 256));
    // The connection ends, and with it the calls that hang.
    drop(driver);
    let _driver = Driver::start(host, &memory);
    for pod in &pods {
        run(node.ready(pod)).unwrap();
        node.remove_pod(pod);
    }
    settle(&node);
    host.end(node);
}

fn how_many_calls_are_made_at_a_time_is_shown(host: &Host) {
    let (_, _driver) = Driver::of(host);
    for (calls_at_once, shown) in [(None, (64, 256)), (NonZeroUsize::new(3), (3, 3))] {
        let node = host.node_set(DriverSettings { calls_at_once, ..DriverSettings::default() });
        node.complete();
        bring_up(&node);
        let status = run(node.show_driver(NAME)).unwrap().unwrap().status;
        assert_eq!((status.calls_at_once, status.calls_at_once_max), shown);
        take_down(&node);
        host.end(node);
    }
}

/// I-6: however many calls a driver lets hang, threads are left for everything else.
fn calls_that_hang_have_no_thread_and_nothing_open(host: &Host) {
    const COUNT: usize = 40;
    let (memory, driver) = Driver::of(host);
    let node = host.node_set(DriverSettings::default());
    node.complete();
    let mut arrivals = memory.arrivals();
    let mut pods = Vec::new();
    for number in 0..COUNT {
        let (suffix, uid) = (format!("-{number}"), format!("uid-{number}"));
        // Those of one half hang when they are staged, those of the other when they are given to their pods.
        let calls: &[_] =
            if number % 2 == 0 { &["NodeStageVolume"] } else { &["NodeStageVolume", "NodePublishVolume"] };
        memory.plan(calls[calls.len() - 1], Fault::NeverDone);
        give_as(&node, &suffix, &format!("hangs-{number}"), "1Gi");
        node.add_pod(pod_as(&suffix, &uid)).unwrap();
        for call in calls {
            assert_eq!(arrivals.wait(), *call);
        }
        pods.push(PodUid::from(uid.as_str()));
    }
    let status = run(node.show_driver(NAME)).unwrap().unwrap().status;
    assert_eq!((status.operations_under_way, status.operations_waiting), (COUNT as u64, 0));
    // A thread that has sent a call lets go of it a moment later.
    let began = Instant::now();
    while node.workers().lanes.keys().any(|it| it.as_str().ends_with(NAME)) {
        assert!(began.elapsed() < PATIENCE, "{:?}", node.workers());
        std::thread::yield_now();
    }
    let all = std::fs::read_dir("/proc/thread-self/fd").unwrap().filter_map(|it| it.unwrap().path().read_link().ok());
    let volumes = [host.path("node/pods"), host.path("node/plugins")];
    let open: Vec<_> = all.filter(|it| volumes.iter().any(|above| it.starts_with(above) && it != above)).collect();
    assert_eq!(open, [] as [std::path::PathBuf; 0], "nothing of a volume is held open");
    // The connection ends, and with it the calls that hang.
    drop(driver);
    let _driver = Driver::start(host, &memory);
    for pod in &pods {
        run(node.ready(pod)).unwrap();
        node.remove_pod(pod);
    }
    settle(&node);
    host.end(node);
}
