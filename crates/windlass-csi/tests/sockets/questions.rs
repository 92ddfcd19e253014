//! What is asked once, and answers that cannot be.

use windlass_csi::proto::csi;
use windlass_csi::{Code, End, Limits, NodeCapabilities};
use windlass_testing::scripted::Fault;

use crate::driver::{LONG, serve, serve_with};

#[tokio::test]
async fn what_a_driver_can_do_is_asked_once_however_many_ask() {
    let it = serve();
    *it.script.capabilities.lock().unwrap() = vec![1, 3];
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let driver = it.driver.clone();
            tokio::spawn(async move { driver.node_capabilities().await })
        })
        .collect();
    let wanted = NodeCapabilities { stage_unstage: true, expand: true, ..Default::default() };
    for answer in asking {
        assert_eq!(answer.await.unwrap().unwrap(), wanted);
    }
    // A driver that changes its mind is not asked again before it registers again.
    it.script.capabilities.lock().unwrap().clear();
    assert_eq!(it.driver.node_capabilities().await.unwrap(), wanted);
    assert_eq!(it.script.calls(), ["NodeGetCapabilities"]);
}

#[tokio::test]
async fn a_failure_is_shared_by_those_who_wait_and_then_forgotten() {
    let it = serve();
    it.script.refuse(Code::Unavailable, "not yet");
    let (one, other) = tokio::join!(it.driver.node_capabilities(), it.driver.node_capabilities());
    assert_eq!(one.unwrap_err(), other.unwrap_err());
    it.driver.node_capabilities().await.unwrap();
    assert_eq!(it.script.calls(), ["NodeGetCapabilities"; 2]);
}

#[tokio::test]
async fn when_the_one_who_asks_gives_up_another_asks() {
    let it = serve();
    let mut arrivals = it.script.arrivals();
    it.script.next(Fault::NeverDone);
    let first = tokio::spawn({
        let driver = it.driver.clone();
        async move { driver.node_capabilities().await }
    });
    arrivals.next().await;
    let driver = it.driver.clone();
    let second = tokio::spawn(async move { driver.node_capabilities().await });
    // It is waiting by the time that the first is stopped, or asks afterwards: either way it must get an answer.
    tokio::task::yield_now().await;
    first.abort();
    second.await.unwrap().unwrap();
    assert_eq!(it.script.calls(), ["NodeGetCapabilities"; 2]);
}

#[tokio::test]
async fn what_a_driver_says_of_the_node_is_believed_if_it_can_be() {
    let it = serve();
    let segments = [("zone".to_string(), "a".to_string())].into();
    *it.script.node.lock().unwrap() = csi::NodeGetInfoResponse {
        node_id: "n".repeat(256),
        max_volumes_per_node: 1 << 40,
        accessible_topology: Some(csi::Topology { segments }),
    };
    let info = it.driver.node_info().await.unwrap();
    assert_eq!((info.id.len(), info.limit, info.topology["zone"].as_str()), (256, Some(0x7fff_ffff), "a"));
    for id in [String::new(), "n".repeat(257), "n\n".into()] {
        it.script.node.lock().unwrap().node_id = id;
        let error = it.driver.node_info().await.unwrap_err();
        assert!(error.lied && error.method == "NodeGetInfo", "{error}");
    }
}

#[tokio::test]
async fn a_driver_with_a_name_that_leads_elsewhere_has_lied() {
    let it = serve();
    for name in ["", "../../etc", "a/b", &"x".repeat(64)] {
        it.script.plugin.lock().unwrap().name = name.into();
        let error = it.driver.plugin_info().await.unwrap_err();
        assert!(error.lied, "{error}");
    }
    it.script.plugin.lock().unwrap().name = "disks.example.com".into();
    assert_eq!(it.driver.plugin_info().await.unwrap().name, "disks.example.com");
}

#[tokio::test]
async fn volumes_that_cannot_be_are_lies_and_may_exist() {
    let it = serve();
    let request = || csi::CreateVolumeRequest {
        name: "n".into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 100, limit_bytes: 0 }),
        ..Default::default()
    };
    let small = csi::Volume { volume_id: "v".into(), capacity_bytes: 99, ..Default::default() };
    for volume in [None, Some(csi::Volume::default()), Some(small)] {
        *it.script.volume.lock().unwrap() = volume;
        let error = it.driver.create_volume(request(), LONG).await.unwrap_err();
        assert!(error.lied && error.end == End::Unknown, "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_a_lie() {
    let it = serve_with(Limits { message_bytes: 64 << 10, ..Limits::default() });
    let condition = csi::VolumeCondition { abnormal: true, message: "x".repeat(64 << 10) };
    *it.script.stats.lock().unwrap() =
        csi::NodeGetVolumeStatsResponse { usage: Vec::new(), volume_condition: Some(condition) };
    let request =
        || csi::NodeGetVolumeStatsRequest { volume_id: "v".into(), volume_path: "/p".into(), ..Default::default() };
    let error = it.driver.stats(request(), LONG).await.unwrap_err();
    assert_eq!((error.end, error.lied), (End::Unknown, true), "{error}");
    let usage = csi::VolumeUsage { used: -1, ..Default::default() };
    *it.script.stats.lock().unwrap() = csi::NodeGetVolumeStatsResponse { usage: vec![usage], volume_condition: None };
    assert!(it.driver.stats(request(), LONG).await.unwrap_err().lied);
}
