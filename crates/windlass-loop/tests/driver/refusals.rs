//! What is refused, and with which code: orchestrators go by it.

use tonic::Code;
use windlass_csi::proto::csi::volume_capability::AccessType;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;
use windlass_csi::proto::csi::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, CreateVolumeRequest, ListVolumesRequest,
    Topology, TopologyRequirement,
};

use crate::case::{self, Case, MEBIBYTE, as_block, as_mount, publish, with_mode};

crate::tests!(
    a_volume_is_staged_by_the_attachment_it_has(),
    a_volume_for_one_is_published_once(),
    names_may_hold_anything(),
    what_is_asked_for_twice_must_be_the_same(),
    calls_at_once_are_done_one_by_one("mkfs.ext4"),
    a_path_that_is_not_ours_is_not_touched(),
    a_list_comes_in_pages(),
    a_second_driver_is_refused(),
);

fn code<Answer: std::fmt::Debug>(done: Result<Answer, tonic::Status>) -> Code {
    done.unwrap_err().code()
}

fn a_volume_is_staged_by_the_attachment_it_has(case: &mut Case) {
    case.start(&["--attach", "--volumes-max", "1"]);
    let how = as_block();
    let id = case.create("a", 16 * MEBIBYTE, &how).volume_id;
    let other = case.create("b", 16 * MEBIBYTE, &how).volume_id;
    let staging = case.staging("a");
    assert_eq!(code(case.stage(&id, &staging, &how)), Code::FailedPrecondition, "it is not attached");
    let attach = |id: &str, node: &str, readonly| {
        let request = ControllerPublishVolumeRequest {
            volume_id: id.into(),
            node_id: node.into(),
            volume_capability: Some(how.clone()),
            readonly,
            ..ControllerPublishVolumeRequest::default()
        };
        case.controller(async |it| it.controller_publish_volume(request).await).map(|it| it.publish_context)
    };
    let detach = |id: &str| {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: id.into(),
            node_id: "node-a".into(),
            ..ControllerUnpublishVolumeRequest::default()
        };
        case.controller(async |it| it.controller_unpublish_volume(request).await)
    };
    assert_eq!(code(attach(&id, "node-b", false)), Code::NotFound);
    assert_eq!(code(attach("none", "node-a", false)), Code::NotFound);
    let stale = attach(&id, "node-a", false).unwrap();
    detach(&id).unwrap();
    let context = attach(&id, "node-a", false).unwrap();
    assert_eq!(attach(&id, "node-a", false).unwrap(), context);
    assert_eq!(code(attach(&id, "node-a", true)), Code::AlreadyExists);
    assert_eq!(code(attach(&other, "node-a", false)), Code::ResourceExhausted);
    assert_eq!(case.list().iter().filter(|it| it.status.as_ref().unwrap().published_node_ids == ["node-a"]).count(), 1);
    let stage = |context| {
        let mut request = case::stage(&id, &staging, &how);
        request.publish_context = context;
        case.node(async |it| it.node_stage_volume(request).await)
    };
    assert_eq!(code(stage(stale)), Code::FailedPrecondition);
    stage(context).unwrap();
    assert_eq!(code(detach(&id)), Code::FailedPrecondition, "it is staged");
    assert_eq!(code(case.delete(&id)), Code::FailedPrecondition);
    case.unstage(&id, &staging).unwrap();
    assert_eq!(code(case.delete(&id)), Code::FailedPrecondition, "it is attached");
    for id in [&id, &id, &other] {
        detach(id).unwrap();
    }
    detach("none").unwrap();
    case.delete(&id).unwrap();
    case.delete(&other).unwrap();
}

fn a_volume_for_one_is_published_once(case: &mut Case) {
    case.start(&[]);
    let block = || as_block().access_type.unwrap();
    let (alone, many) =
        (with_mode(block(), Mode::SingleNodeSingleWriter), with_mode(block(), Mode::SingleNodeMultiWriter));
    let id = case.create("a", 16 * MEBIBYTE, &alone).volume_id;
    let (staging, one, two) = (case.staging("a"), case.target("one"), case.target("two"));
    assert_eq!(code(case.publish(publish(&id, &staging, &one, &alone))), Code::FailedPrecondition, "it is not staged");
    case.stage(&id, &staging, &alone).unwrap();
    case.publish(publish(&id, &staging, &one, &alone)).unwrap();
    case.publish(publish(&id, &staging, &one, &alone)).unwrap();
    assert_eq!(code(case.publish(publish(&id, &staging, &two, &alone))), Code::FailedPrecondition);
    assert_eq!(code(case.publish(publish(&id, &staging, &two, &many))), Code::FailedPrecondition);
    let mut read_only = publish(&id, &staging, &one, &alone);
    read_only.readonly = true;
    assert_eq!(code(case.publish(read_only)), Code::AlreadyExists);
    assert_eq!(code(case.unstage(&id, &staging)), Code::FailedPrecondition, "it is published");
    case.unpublish(&id, &one).unwrap();
    case.publish(publish(&id, &staging, &one, &many)).unwrap();
    case.publish(publish(&id, &staging, &two, &many)).unwrap();
    for target in [&one, &two] {
        case.unpublish(&id, target).unwrap();
    }
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

fn names_may_hold_anything(case: &mut Case) {
    case.start(&[]);
    let long = "ü".repeat(512);
    for name in ["..", "a/b", "\n", "../../etc/passwd", "^'\"\\ $(x)", &long] {
        let id = case.create(name, MEBIBYTE, &as_block()).volume_id;
        assert_eq!(case.create(name, MEBIBYTE, &as_block()).volume_id, id);
        case.delete(&id).unwrap();
    }
    let create = |request: CreateVolumeRequest| code(case.controller(async |it| it.create_volume(request).await));
    assert_eq!(create(case::create("", MEBIBYTE, &as_block())), Code::InvalidArgument);
    assert_eq!(create(case::create(&"x".repeat(2000), MEBIBYTE, &as_block())), Code::InvalidArgument);
    for id in ["..", "vol-x", "../records/x", "\0"] {
        case.delete(id).unwrap();
        case.unpublish(id, "/nowhere/x").unwrap();
        case.unstage(id, "/nowhere").unwrap();
        assert_eq!(code(case.stage(id, &case.staging("a"), &as_block())), Code::NotFound);
        assert_eq!(code(case.stats(id, "/nowhere")), Code::NotFound);
    }
}

fn what_is_asked_for_twice_must_be_the_same(case: &mut Case) {
    case.start(&[]);
    let id = case.create("a", 64 * MEBIBYTE, &as_mount("")).volume_id;
    let create = |request: CreateVolumeRequest| code(case.controller(async |it| it.create_volume(request).await));
    assert_eq!(create(case::create("a", 128 * MEBIBYTE, &as_mount(""))), Code::AlreadyExists);
    assert_eq!(case.create("a", 32 * MEBIBYTE, &as_mount("")).volume_id, id, "it may be larger");
    let mut request = case::create("a", 16 * MEBIBYTE, &as_mount(""));
    request.capacity_range.as_mut().unwrap().limit_bytes = 32 * MEBIBYTE;
    assert_eq!(create(request), Code::AlreadyExists);
    let mut request = case::create("a", 64 * MEBIBYTE, &as_mount(""));
    request.parameters = [("fsType".to_owned(), "ext4".to_owned())].into();
    assert_eq!(create(request), Code::AlreadyExists);
    assert_eq!(create(case::create("b", 1 << 60, &as_mount(""))), Code::OutOfRange);
    let mut request = case::create("b", 8 * MEBIBYTE, &as_mount("xfs"));
    request.capacity_range.as_mut().unwrap().limit_bytes = 16 * MEBIBYTE;
    assert_eq!(create(request), Code::OutOfRange, "too small for an xfs");
    let multi = with_mode(as_block().access_type.unwrap(), Mode::MultiNodeMultiWriter);
    assert_eq!(create(case::create("b", MEBIBYTE, &multi)), Code::InvalidArgument);
    let mut request = case::create("b", MEBIBYTE, &as_block());
    let elsewhere = [("topology.loop.csi.windlass.dev/node".to_owned(), "node-b".to_owned())];
    request.accessibility_requirements =
        Some(TopologyRequirement { requisite: vec![Topology { segments: elsewhere.into() }], preferred: Vec::new() });
    assert_eq!(create(request), Code::ResourceExhausted);
    let (staging, other) = (case.staging("a"), case.staging("b"));
    case.stage(&id, &staging, &as_block()).unwrap();
    assert_eq!(code(case.stage(&id, &staging, &as_mount(""))), Code::AlreadyExists);
    assert_eq!(code(case.stage(&id, &other, &as_block())), Code::FailedPrecondition);
    assert_eq!(code(case.stage(&id, "relative", &as_block())), Code::InvalidArgument);
    assert_eq!(code(case.stage(&id, "/does/not/exist", &as_block())), Code::FailedPrecondition);
    case.unstage(&id, &staging).unwrap();
    let mut odd = as_mount("ext4");
    if let Some(AccessType::Mount(mount)) = &mut odd.access_type {
        mount.mount_flags = vec!["no-such-option".into()];
    }
    assert_eq!(code(case.stage(&id, &staging, &odd)), Code::InvalidArgument);
    assert_eq!(case.loops(), [], "a refusal leaves nothing behind");
    case.delete(&id).unwrap();
}

fn calls_at_once_are_done_one_by_one(case: &mut Case) {
    case.start(&[]);
    let how = as_mount("ext4");
    let id = case.create("a", 64 * MEBIBYTE, &how).volume_id;
    let (staging, target) = (case.staging("a"), case.target("pod"));
    let mut node = windlass_csi::proto::csi::node_client::NodeClient::new(case.channel());
    let codes = case.run(async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (mut node, request) = (node.clone(), case::stage(&id, &staging, &how));
            calls.spawn(async move { node.node_stage_volume(request).await.map_or_else(|it| it.code(), |_| Code::Ok) });
        }
        calls.join_all().await
    });
    assert!(codes.contains(&Code::Ok), "{codes:?}");
    assert!(codes.contains(&Code::Aborted), "{codes:?}");
    assert!(codes.iter().all(|it| matches!(it, Code::Ok | Code::Aborted)), "{codes:?}");
    assert_eq!(case.loops().len(), 1);
    case.run(node.node_publish_volume(publish(&id, &staging, &target, &how))).unwrap();
    case.unpublish(&id, &target).unwrap();
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

fn a_path_that_is_not_ours_is_not_touched(case: &mut Case) {
    case.start(&[]);
    let id = case.create("a", 16 * MEBIBYTE, &as_block()).volume_id;
    let (staging, target) = (case.staging("a"), case.target("pod"));
    std::fs::write(case.path("pods/pod"), "data").unwrap();
    case.unpublish(&id, &target).unwrap();
    assert_eq!(std::fs::read(case.path("pods/pod")).unwrap(), b"data");
    case.stage(&id, &staging, &as_block()).unwrap();
    assert_eq!(code(case.publish(publish(&id, &staging, &target, &as_block()))), Code::Internal);
    assert_eq!(std::fs::read(case.path("pods/pod")).unwrap(), b"data");
    std::fs::remove_file(case.path("pods/pod")).unwrap();
    case.unpublish(&id, &target).unwrap();
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

fn a_list_comes_in_pages(case: &mut Case) {
    case.start(&[]);
    let mut ids: Vec<_> = ["a", "b", "c"].map(|it| case.create(it, MEBIBYTE, &as_block()).volume_id).into();
    ids.sort();
    let list = |token: &str, max_entries| {
        let request = ListVolumesRequest { starting_token: token.into(), max_entries };
        let list = case.controller(async |it| it.list_volumes(request).await)?;
        let ids: Vec<_> = list.entries.into_iter().map(|it| it.volume.unwrap().volume_id).collect();
        Ok::<_, tonic::Status>((ids, list.next_token))
    };
    let (first, token) = list("", 2).unwrap();
    assert_eq!(first, ids[..2]);
    case.delete(&ids[1]).unwrap();
    let (second, end) = list(&token, 2).unwrap();
    assert_eq!((second.as_slice(), end.as_str()), (&ids[2..], ""));
    assert_eq!(code(list("invalid-token", 0)), Code::Aborted);
    assert_eq!(code(list("", -1)), Code::InvalidArgument);
    for id in &ids {
        case.delete(id).unwrap();
    }
}

fn a_second_driver_is_refused(case: &mut Case) {
    case.start(&[]);
    let second = windlass_testing::process::program(env!("CARGO_BIN_EXE_windlass-loop"))
        .args(["--endpoint", &case.text("other.sock"), "--state", &case.text("state"), "--node-id", "node-a"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another windlass-loop has it"), "{said}");
    assert!(!case.path("other.sock").exists());
}
