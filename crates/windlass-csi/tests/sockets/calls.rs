//! What the driver says, and what it means.

use std::time::Duration;

use windlass_csi::proto::csi;
use windlass_csi::{CallError, Code, End};
use windlass_testing::scripted::Fault;

use crate::driver::{LONG, SHORT, but_for_questions, map, publish, serve, stage};

#[tokio::test]
async fn every_call_arrives_as_itself_and_succeeds() {
    let it = serve();
    let id = || "v".to_string();
    *it.script.volume.lock().unwrap() = Some(csi::Volume { volume_id: id(), ..Default::default() });
    it.driver.stage(stage(), LONG).await.unwrap();
    it.driver.publish(publish(), LONG).await.unwrap();
    let stats = csi::NodeGetVolumeStatsRequest { volume_id: id(), volume_path: "/p".into(), ..Default::default() };
    it.driver.stats(stats, LONG).await.unwrap();
    let expand = csi::NodeExpandVolumeRequest { volume_id: id(), volume_path: "/p".into(), ..Default::default() };
    it.driver.expand(expand, LONG).await.unwrap();
    let unpublish = csi::NodeUnpublishVolumeRequest { volume_id: id(), target_path: "/t".into() };
    it.driver.unpublish(unpublish, LONG).await.unwrap();
    let unstage = csi::NodeUnstageVolumeRequest { volume_id: id(), staging_target_path: "/s".into() };
    it.driver.unstage(unstage, LONG).await.unwrap();
    assert!(it.driver.probe().await.unwrap());
    it.driver.plugin_capabilities().await.unwrap();
    it.driver.controller_capabilities().await.unwrap();
    let create = csi::CreateVolumeRequest { name: "n".into(), ..Default::default() };
    assert_eq!(it.driver.create_volume(create, LONG).await.unwrap().volume_id, "v");
    let attach =
        csi::ControllerPublishVolumeRequest { volume_id: id(), node_id: "node-1".into(), ..Default::default() };
    it.driver.controller_publish(attach, LONG).await.unwrap();
    let expand = csi::ControllerExpandVolumeRequest { volume_id: id(), ..Default::default() };
    it.driver.controller_expand(expand, LONG).await.unwrap();
    it.driver.list_volumes(csi::ListVolumesRequest::default(), LONG).await.unwrap();
    it.driver.get_capacity(csi::GetCapacityRequest::default(), LONG).await.unwrap();
    it.driver.controller_get_volume(csi::ControllerGetVolumeRequest { volume_id: id() }, LONG).await.unwrap();
    let detach =
        csi::ControllerUnpublishVolumeRequest { volume_id: id(), node_id: "node-1".into(), ..Default::default() };
    it.driver.controller_unpublish(detach, LONG).await.unwrap();
    it.driver.delete_volume(csi::DeleteVolumeRequest { volume_id: id(), ..Default::default() }, LONG).await.unwrap();
    let wanted = [
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeGetVolumeStats",
        "NodeExpandVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "Probe",
        "GetPluginCapabilities",
        "ControllerGetCapabilities",
        "CreateVolume",
        "ControllerPublishVolume",
        "ControllerExpandVolume",
        "ListVolumes",
        "GetCapacity",
        "ControllerGetVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
    ];
    assert_eq!(it.script.calls(), wanted);
}

/// C-61, row by row.
#[tokio::test]
async fn each_code_of_the_driver_is_final_or_unknown_as_the_kubelet_has_it() {
    let it = serve();
    let rows = [
        (Code::Cancelled, End::Unknown),
        (Code::Unknown, End::Final),
        (Code::InvalidArgument, End::Final),
        (Code::DeadlineExceeded, End::Unknown),
        (Code::NotFound, End::Final),
        (Code::AlreadyExists, End::Final),
        (Code::PermissionDenied, End::Final),
        (Code::ResourceExhausted, End::Unknown),
        (Code::FailedPrecondition, End::Final),
        (Code::Aborted, End::Unknown),
        (Code::OutOfRange, End::Final),
        (Code::Unimplemented, End::Final),
        (Code::Internal, End::Final),
        (Code::Unavailable, End::Unknown),
        (Code::DataLoss, End::Final),
        (Code::Unauthenticated, End::Final),
    ];
    for (code, end) in rows {
        it.script.refuse(code, "no");
        let wanted = CallError {
            method: "NodeStageVolume",
            driver: "disks.example.com".into(),
            code,
            end,
            message: "no".into(),
            lied: false,
        };
        assert_eq!(it.driver.stage(stage(), LONG).await.unwrap_err(), wanted);
    }
    assert_eq!(it.script.effects(), [""; 0]);
    it.driver.stage(stage(), LONG).await.unwrap();
}

#[tokio::test]
async fn a_call_without_an_answer_is_unknown_whether_it_took_effect_or_not() {
    let it = serve();
    for (act, effects) in [(Fault::NeverDone, 0), (Fault::DoneTooLate, 1)] {
        it.script.plan("NodeStageVolume", act);
        let error = it.driver.stage(stage(), SHORT).await.unwrap_err();
        assert_eq!((error.code, error.end, error.lied), (Code::DeadlineExceeded, End::Unknown, false));
        assert_eq!(error.message, "no answer in 1s");
        assert_eq!(but_for_questions(it.script.effects()), vec!["NodeStageVolume"; effects]);
    }
    // And the driver is as good as before.
    it.driver.stage(stage(), LONG).await.unwrap();
}

#[tokio::test]
async fn the_driver_is_told_how_long_the_caller_waits_and_whom_it_calls() {
    let it = serve();
    it.driver.stage(stage(), Duration::from_secs(7)).await.unwrap();
    let headers = it.script.headers();
    assert_eq!(headers.get("grpc-timeout").unwrap(), "7000000u");
    assert!(headers.get("user-agent").unwrap().to_str().unwrap().starts_with("windlass/"));
}

#[tokio::test]
async fn a_request_that_lacks_something_or_has_a_negative_size_is_refused_before_it_is_sent() {
    let it = serve();
    let mut refused = Vec::new();
    let nowhere = csi::NodeStageVolumeRequest { staging_target_path: String::new(), ..stage() };
    refused.push(it.driver.stage(nowhere, LONG).await.unwrap_err());
    let nothing = csi::NodeStageVolumeRequest { volume_id: String::new(), ..stage() };
    refused.push(it.driver.stage(nothing, LONG).await.unwrap_err());
    refused.push(it.driver.unstage(csi::NodeUnstageVolumeRequest::default(), LONG).await.unwrap_err());
    let nowhere = csi::NodePublishVolumeRequest { target_path: String::new(), ..publish() };
    refused.push(it.driver.publish(nowhere, LONG).await.unwrap_err());
    let nowhere = csi::NodeUnpublishVolumeRequest { volume_id: "v".into(), target_path: String::new() };
    refused.push(it.driver.unpublish(nowhere, LONG).await.unwrap_err());
    refused.push(it.driver.stats(csi::NodeGetVolumeStatsRequest::default(), LONG).await.unwrap_err());
    let smaller = csi::NodeExpandVolumeRequest {
        volume_id: "v".into(),
        volume_path: "/p".into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: -1, limit_bytes: 0 }),
        ..Default::default()
    };
    refused.push(it.driver.expand(smaller, LONG).await.unwrap_err());
    let everywhere = csi::ControllerUnpublishVolumeRequest { volume_id: "v".into(), ..Default::default() };
    refused.push(it.driver.controller_unpublish(everywhere, LONG).await.unwrap_err());
    for error in refused {
        assert_eq!((error.code, error.end, error.lied), (Code::InvalidArgument, End::Final, false), "{error}");
    }
    assert_eq!(it.script.calls(), [""; 0]);
}

#[tokio::test]
async fn a_driver_that_repeats_a_secret_does_not_get_it_into_an_error() {
    let it = serve();
    it.script.refuse(Code::Internal, "mount -o user=a,password=swordfish\nfailed\u{1b}[1m");
    let error = it.driver.stage(stage(), LONG).await.unwrap_err();
    assert_eq!(error.message, "mount -o user=a,password=… failed\u{fffd}[1m");
    let token = r#"{"a":{"token":"eyJhbGciOiJSUzI1NiIsImtpZCI6Ijk0"}}"#;
    let context = map(&[("csi.storage.k8s.io/serviceAccount.tokens", token), ("path", "exports")]);
    let request = csi::NodePublishVolumeRequest { volume_context: context, ..publish() };
    it.script.refuse(Code::Internal, "exports: bad eyJhbGciOiJSUzI1NiIsImtpZCI6Ijk0");
    let error = it.driver.publish(request, LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "driver disks.example.com: NodePublishVolume: Internal: exports: bad …");
}

#[tokio::test]
async fn a_long_story_is_cut() {
    let it = serve();
    it.script.refuse(Code::Internal, "é".repeat(4000));
    let error = it.driver.stage(stage(), LONG).await.unwrap_err();
    assert!(error.message.len() <= 1024 && error.message.ends_with('…') && error.end == End::Final, "{error}");
}
