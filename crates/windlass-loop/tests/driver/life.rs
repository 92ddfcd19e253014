//! What a volume goes through.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use tokio::task::JoinSet;
use tonic::Code;
use windlass_csi::proto::csi::node_client::NodeClient;
use windlass_csi::proto::csi::volume_capability::AccessType;
use windlass_csi::proto::csi::volume_usage::Unit;
use windlass_csi::proto::csi::{
    GetCapacityRequest, GetPluginInfoRequest, NodeGetInfoRequest, NodeUnstageVolumeRequest, VolumeCapability,
};
use windlass_csi::proto::registration::{InfoRequest, RegistrationStatus};

use crate::case::{Case, MEBIBYTE, as_block, as_mount, inline, publish, stage};

crate::tests!(
    an_ext4_lives_from_create_to_delete("mkfs.ext4", "resize2fs"),
    an_xfs_lives_from_create_to_delete("mkfs.xfs", "xfs_growfs"),
    a_raw_device_lives_from_create_to_delete(),
    who_may_only_read_a_raw_device_cannot_write_it(),
    an_inline_volume_lives_with_its_pod("mkfs.ext4"),
    a_raw_device_that_was_written_is_not_formatted("mkfs.xfs", "mkfs.ext4"),
    a_volume_is_given_to_a_group("mkfs.ext4"),
    many_volumes_come_and_go_at_once("mkfs.ext4"),
    volumes_outlive_the_driver("mkfs.ext4"),
    what_is_wrong_with_a_volume_is_told("mkfs.ext4"),
    the_driver_introduces_itself(),
);

fn an_ext4_lives_from_create_to_delete(case: &mut Case) {
    lives(case, "ext4", 64 * MEBIBYTE);
}

fn an_xfs_lives_from_create_to_delete(case: &mut Case) {
    lives(case, "xfs", 320 * MEBIBYTE);
}

fn lives(case: &mut Case, kind: &str, bytes: i64) {
    case.start(&[]);
    let how = as_mount(kind);
    let volume = case.create("a volume", bytes, &how);
    assert_eq!(volume.capacity_bytes, bytes);
    let id = volume.volume_id;
    assert_eq!(case.create("a volume", bytes, &how).volume_id, id, "the same name is the same volume");
    let (staging, one, two) = (case.staging("a"), case.target("one"), case.target("two"));
    for _ in 0..2 {
        case.stage(&id, &staging, &how).unwrap();
    }
    assert_eq!(case.loops().len(), 1);
    for _ in 0..2 {
        case.publish(publish(&id, &staging, &one, &how)).unwrap();
    }
    std::fs::write(case.path("pods/one/file"), "contents").unwrap();
    let mut read_only = publish(&id, &staging, &two, &how);
    read_only.readonly = true;
    case.publish(read_only).unwrap();
    assert_eq!(std::fs::read_to_string(case.path("pods/two/file")).unwrap(), "contents");
    let error = std::fs::write(case.path("pods/two/file"), "other").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

    let usage = |path: &str| {
        let stats = case.stats(&id, path).unwrap();
        assert!(!stats.volume_condition.as_ref().unwrap().abnormal);
        let units: Vec<_> = stats.usage.iter().map(|it| it.unit()).collect();
        assert_eq!(units, [Unit::Bytes, Unit::Inodes]);
        assert!(stats.usage.iter().all(|it| it.total > 0 && it.available > 0 && it.used > 0), "{stats:?}");
        stats.usage[0].total
    };
    let before = usage(&one);
    let grown = case.expand(&id, &one, 2 * bytes);
    if kind == "ext4" && !windlass_loop::grow::may_resize() {
        let status = grown.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("CAP_SYS_RESOURCE"), "{status}");
    } else {
        assert_eq!(grown.unwrap(), 2 * bytes);
        assert!(usage(&one) > before + bytes / 2);
    }

    for target in [&one, &one, &two] {
        case.unpublish(&id, target).unwrap();
    }
    for _ in 0..2 {
        case.unstage(&id, &staging).unwrap();
    }
    assert_eq!(case.loops(), []);
    case.stage(&id, &staging, &as_mount("")).unwrap();
    case.publish(publish(&id, &staging, &one, &as_mount(""))).unwrap();
    assert_eq!(case.expand(&id, &one, 2 * bytes).unwrap(), 2 * bytes);
    assert!(usage(&one) > before + bytes / 2, "it has grown by now, in whatever way");
    assert_eq!(std::fs::read_to_string(case.path("pods/one/file")).unwrap(), "contents");
    assert_eq!(case.delete(&id).unwrap_err().code(), Code::FailedPrecondition);
    case.unpublish(&id, &one).unwrap();
    case.unstage(&id, &staging).unwrap();
    for _ in 0..2 {
        case.delete(&id).unwrap();
    }
    assert!(case.list().is_empty());
}

fn a_raw_device_lives_from_create_to_delete(case: &mut Case) {
    case.start(&[]);
    let how = as_block();
    let id = case.create("raw", 16 * MEBIBYTE, &how).volume_id;
    let (staging, one, two) = (case.staging("a"), case.target("one"), case.target("two"));
    for _ in 0..2 {
        case.stage(&id, &staging, &how).unwrap();
        case.publish(publish(&id, &staging, &one, &how)).unwrap();
    }
    case.publish(publish(&id, &staging, &two, &how)).unwrap();
    assert_eq!(case.loops().len(), 1);
    let rdev = |path: &str| std::fs::metadata(path).unwrap().rdev();
    assert_eq!(rdev(&one), rdev(&two));
    let mut device = OpenOptions::new().read(true).write(true).open(&one).unwrap();
    device.write_all(b"raw bytes").unwrap();
    device.sync_all().unwrap();
    assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), 16 << 20);
    drop(device);
    let stats = case.stats(&id, &one).unwrap();
    assert_eq!(stats.usage[0].total, 16 * MEBIBYTE);
    assert_eq!(case.expand(&id, &one, 24 * MEBIBYTE).unwrap(), 24 * MEBIBYTE);
    assert_eq!(File::open(&one).unwrap().seek(SeekFrom::End(0)).unwrap(), 24 << 20);
    for target in [&one, &two, &two] {
        case.unpublish(&id, target).unwrap();
    }
    for _ in 0..2 {
        case.unstage(&id, &staging).unwrap();
    }
    assert_eq!(case.loops(), []);
    case.stage(&id, &staging, &how).unwrap();
    case.publish(publish(&id, &staging, &one, &how)).unwrap();
    let mut bytes = [0; 9];
    File::open(&one).unwrap().read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"raw bytes");
    case.unpublish(&id, &one).unwrap();
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

fn who_may_only_read_a_raw_device_cannot_write_it(case: &mut Case) {
    case.start(&[]);
    let how = as_block();
    let id = case.create("raw", 16 * MEBIBYTE, &how).volume_id;
    let (staging, writer, reader) = (case.staging("a"), case.target("writer"), case.target("reader"));
    case.stage(&id, &staging, &how).unwrap();
    case.publish(publish(&id, &staging, &writer, &how)).unwrap();
    let mut request = publish(&id, &staging, &reader, &how);
    request.readonly = true;
    for _ in 0..2 {
        case.publish(request.clone()).unwrap();
    }
    // Old kernels open it and refuse the write.
    let written = OpenOptions::new().write(true).open(&reader).and_then(|mut it| {
        it.write_all(b"x")?;
        it.sync_all()
    });
    assert!(written.is_err());
    let mut file = OpenOptions::new().write(true).open(&writer).unwrap();
    file.write_all(b"seen").unwrap();
    file.sync_all().unwrap();
    let mut bytes = [0; 4];
    File::open(&reader).unwrap().read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"seen");
    drop(file);
    case.expand(&id, &reader, 24 * MEBIBYTE).unwrap();
    assert_eq!(File::open(&reader).unwrap().seek(SeekFrom::End(0)).unwrap(), 24 << 20);
    case.unpublish(&id, &reader).unwrap();
    assert_eq!(case.loops().len(), 1);
    case.unpublish(&id, &writer).unwrap();
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

fn an_inline_volume_lives_with_its_pod(case: &mut Case) {
    case.start(&["--attach"]);
    // Whatever an orchestrator makes up.
    let id = format!("csi-../ä^\n{}", "x".repeat(1000));
    let target = case.target("pod");
    for _ in 0..2 {
        case.publish(inline(&id, &target, "32Mi")).unwrap();
    }
    std::fs::write(case.path("pods/pod/file"), "contents").unwrap();
    let stats = case.stats(&id, &target).unwrap();
    assert!((20 * MEBIBYTE..=32 * MEBIBYTE).contains(&stats.usage[0].total), "{stats:?}");
    assert!(case.list().is_empty(), "nobody created it");
    let other = case.publish(inline(&id, &case.target("other"), "32Mi")).unwrap_err();
    assert_eq!(other.code(), Code::FailedPrecondition);
    case.kill();
    case.restart();
    assert_eq!(std::fs::read_to_string(case.path("pods/pod/file")).unwrap(), "contents");
    for _ in 0..2 {
        case.unpublish(&id, &target).unwrap();
    }
    for size in ["much", "1", "999Ti"] {
        let done = case.publish(inline("another", &target, size));
        match size {
            "1" => {
                done.unwrap();
                case.unpublish("another", &target).unwrap();
            }
            _ => assert!(matches!(done.unwrap_err().code(), Code::InvalidArgument | Code::OutOfRange)),
        }
    }
}

fn a_raw_device_that_was_written_is_not_formatted(case: &mut Case) {
    case.start(&[]);
    let id = case.create("raw", 400 * MEBIBYTE, &as_block()).volume_id;
    let (staging, target) = (case.staging("a"), case.target("pod"));
    case.stage(&id, &staging, &as_block()).unwrap();
    case.publish(publish(&id, &staging, &target, &as_block())).unwrap();
    windlass_linux::format::make(target.as_ref(), "xfs", windlass_linux::format::Patience::default()).unwrap();
    case.unpublish(&id, &target).unwrap();
    case.unstage(&id, &staging).unwrap();
    let status = case.stage(&id, &staging, &as_mount("ext4")).unwrap_err();
    assert!(status.message().contains("xfs"), "{status}");
    assert_eq!(case.loops(), [], "a refusal leaves nothing behind");
    case.stage(&id, &staging, &as_mount("xfs")).unwrap();
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

fn a_volume_is_given_to_a_group(case: &mut Case) {
    case.start(&["--mount-group"]);
    let mut how = as_mount("ext4");
    if let Some(AccessType::Mount(mount)) = &mut how.access_type {
        mount.volume_mount_group = "4711".into();
    }
    let id = case.create("shared", 64 * MEBIBYTE, &how).volume_id;
    let (staging, target) = (case.staging("a"), case.target("pod"));
    case.stage(&id, &staging, &how).unwrap();
    case.publish(publish(&id, &staging, &target, &how)).unwrap();
    let root = std::fs::metadata(&target).unwrap();
    assert_eq!((root.gid(), root.mode() & 0o2070), (4711, 0o2070));
    case.unpublish(&id, &target).unwrap();
    case.unstage(&id, &staging).unwrap();
    case.delete(&id).unwrap();
}

/// Numbers of loop devices go from one to the other all the time.
fn many_volumes_come_and_go_at_once(case: &mut Case) {
    case.start(&["--volumes-max", "0"]);
    let how = as_mount("ext4");
    let volumes: Vec<(String, String)> = (0..32)
        .map(|it| (case.create(&format!("volume {it}"), 8 * MEBIBYTE, &how).volume_id, case.staging(&it.to_string())))
        .collect();
    let done = case.run(async {
        let mut tasks = JoinSet::new();
        for (id, path) in volumes.clone() {
            let (mut node, how) = (NodeClient::new(case.channel()), how.clone());
            tasks.spawn(async move {
                for _ in 0..4 {
                    node.node_stage_volume(stage(&id, &path, &how)).await?;
                    let request = NodeUnstageVolumeRequest { volume_id: id.clone(), staging_target_path: path.clone() };
                    node.node_unstage_volume(request).await?;
                }
                Ok::<(), tonic::Status>(())
            });
        }
        tasks.join_all().await
    });
    assert_eq!(done.into_iter().filter_map(Result::err).map(|it| it.message().to_owned()).collect::<Vec<_>>(), [""; 0]);
    for (id, _) in volumes {
        case.delete(&id).unwrap();
    }
}

fn volumes_outlive_the_driver(case: &mut Case) {
    case.start(&[]);
    let capabilities: [(&str, VolumeCapability); 2] = [("ext4", as_mount("ext4")), ("block", as_block())];
    let mut ids = Vec::new();
    for (name, how) in &capabilities {
        let id = case.create(name, 64 * MEBIBYTE, how).volume_id;
        case.stage(&id, &case.staging(name), how).unwrap();
        case.publish(publish(&id, &case.staging(name), &case.target(name), how)).unwrap();
        ids.push(id);
    }
    std::fs::write(case.path("pods/ext4/file"), "contents").unwrap();
    std::fs::write(case.path("pods/block"), "raw bytes").unwrap();
    assert!(case.end(), "it ends in order: {}", case.log());
    assert!(!case.path("csi.sock").exists());
    assert_eq!(case.names("registry"), Vec::<String>::new());
    let loops = case.loops();
    assert_eq!(loops.len(), 2);
    for killed in [false, true] {
        if killed {
            case.kill();
        }
        case.restart();
        assert_eq!(case.loops(), loops, "nothing that is used was touched");
        assert_eq!(std::fs::read_to_string(case.path("pods/ext4/file")).unwrap(), "contents");
        for ((name, how), id) in capabilities.iter().zip(&ids) {
            case.stage(id, &case.staging(name), how).unwrap();
            case.publish(publish(id, &case.staging(name), &case.target(name), how)).unwrap();
            assert!(!case.stats(id, &case.target(name)).unwrap().volume_condition.unwrap().abnormal);
        }
    }
    for ((name, _), id) in capabilities.iter().zip(&ids) {
        case.unpublish(id, &case.target(name)).unwrap();
        case.unstage(id, &case.staging(name)).unwrap();
        case.delete(id).unwrap();
    }
}

fn what_is_wrong_with_a_volume_is_told(case: &mut Case) {
    case.start(&[]);
    let how = as_mount("ext4");
    let id = case.create("sick", 64 * MEBIBYTE, &how).volume_id;
    let (staging, target) = (case.staging("a"), case.target("pod"));
    case.stage(&id, &staging, &how).unwrap();
    case.publish(publish(&id, &staging, &target, &how)).unwrap();
    let condition = || case.list().pop().unwrap().status.unwrap().volume_condition.unwrap();
    assert!(!condition().abnormal);
    rustix::mount::unmount(target.as_str(), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(condition().message.contains("not mounted at"), "{}", condition().message);
    assert!(case.stats(&id, &target).unwrap().volume_condition.unwrap().abnormal);
    case.publish(publish(&id, &staging, &target, &how)).unwrap();
    assert!(!condition().abnormal, "published again, it is there again");
    case.unpublish(&id, &target).unwrap();
    case.unstage(&id, &staging).unwrap();
    let image = case.path(&format!("state/images/{id}.img"));
    File::options().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
    assert!(condition().message.contains("should have"), "{}", condition().message);
    std::fs::remove_file(image).unwrap();
    assert_eq!(condition().message, "the image is gone");
    case.delete(&id).unwrap();
}

fn the_driver_introduces_itself(case: &mut Case) {
    case.start(&[]);
    let mut registration = case.registration();
    let info = case.run(registration.get_info(InfoRequest {})).unwrap().into_inner();
    assert_eq!((info.r#type.as_str(), info.name.as_str()), ("CSIPlugin", "loop.csi.windlass.dev"));
    assert_eq!((info.endpoint, info.supported_versions), (case.text("csi.sock"), vec!["1.0.0".to_owned()]));
    let refused = RegistrationStatus { plugin_registered: false, error: "a reason to refuse".into() };
    case.run(registration.notify_registration_status(refused)).unwrap();
    assert!(case.log().contains("a reason to refuse"));
    let info = case.run(case.identity().get_plugin_info(GetPluginInfoRequest {})).unwrap().into_inner();
    assert_eq!(info.name, "loop.csi.windlass.dev", "it goes on");
    let node = case.node(async |it| it.node_get_info(NodeGetInfoRequest {}).await).unwrap();
    assert_eq!((node.node_id.as_str(), node.max_volumes_per_node), ("node-a", 128));
    let segments = node.accessible_topology.unwrap().segments;
    assert_eq!(segments["topology.loop.csi.windlass.dev/node"], "node-a");
    let free = case.controller(async |it| it.get_capacity(GetCapacityRequest::default()).await).unwrap();
    assert_eq!(free.available_capacity, 20 << 30);
    drop(registration);
    assert!(case.end());
}
