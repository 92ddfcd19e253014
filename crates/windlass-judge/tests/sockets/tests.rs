//! The tests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_csi::proto::csi;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;
use windlass_csi::registration::{self, News};
use windlass_csi::{Code, End, SocketError};
use windlass_judge::serve::{Bench, Error};
use windlass_judge::settings::Settings;
use windlass_judge::verdict::Outcome;
use windlass_linux::mount::{self, Extent, Options};
use windlass_linux::safe_path::Place;
use windlass_testing::directory::Directory;
use windlass_testing::disk::loop_devices;
use windlass_testing::namespace::privileged;
use windlass_testing::wait::PATIENCE;

use crate::court::{Court, block, broken, capability, faults, mounted, options, passed};

windlass_testing::tests![
    an_orchestrator_that_does_well_is_told_so,
    a_clumsy_orchestrator_is_told_what_it_broke,
    an_open_outcome_that_is_taken_for_success_is_noticed,
    a_connection_that_is_cut_leaves_the_outcome_open,
    calls_that_overlap_are_noticed,
    a_device_is_given_and_taken_away,
    volumes_are_attached_with_what_the_judge_has_told,
    volumes_are_made_grown_and_deleted,
    a_controller_is_what_it_was_told_to_be,
    codes_slow_answers_and_lies_are_played,
    a_judge_that_ends_takes_its_mounts_along,
    what_a_killed_judge_has_left_is_taken_away,
    a_judge_that_cannot_serve_leaves_nothing,
    it_is_idle_when_all_volumes_have_gone,
];

async fn an_orchestrator_that_does_well_is_told_so() {
    let court = Court::open("well", faults(&[]));
    // As windlass finds drivers.
    let mut news = registration::watch(registration::Settings::new(court.path("registry"))).unwrap();
    let told = tokio::time::timeout(PATIENCE, news.recv()).await.unwrap().unwrap();
    let News::Registered { driver, info, capabilities, .. } = told else { panic!("{told:?}") };
    assert_eq!((driver.name(), &*info.id), ("judge.example.com", "node-1"));
    assert!(capabilities.stage_unstage && capabilities.expand);
    court.directory("staging");
    court.stage("a", "staging").await.unwrap();
    court.publish("a", "staging", "targets/1").await.unwrap();
    court.publish_with("a", "staging", "targets/2", capability(Mode::SingleNodeWriter), true).await.unwrap();
    fs::write(court.path("targets/1/order"), "forty fathoms of rope").unwrap();
    assert_eq!(fs::read_to_string(court.path("targets/2/order")).unwrap(), "forty fathoms of rope");
    fs::write(court.path("targets/2/order"), "none").unwrap_err();
    let volume_path = court.path("targets/1").to_str().unwrap().to_owned();
    let request = csi::NodeGetVolumeStatsRequest {
        volume_id: "a".into(),
        volume_path: volume_path.clone(),
        ..Default::default()
    };
    let stats = court.driver.stats(request, PATIENCE).await.unwrap();
    assert!(stats.usage.len() == 2 && stats.usage[0].total > 0 && !stats.volume_condition.unwrap().abnormal);
    let capacity_range = Some(csi::CapacityRange { required_bytes: 1 << 30, limit_bytes: 0 });
    let request = csi::NodeExpandVolumeRequest {
        volume_id: "a".into(),
        volume_path,
        staging_target_path: court.path("staging").to_str().unwrap().to_owned(),
        capacity_range,
        ..Default::default()
    };
    assert_eq!(court.driver.expand(request, PATIENCE).await.unwrap().capacity_bytes, 1 << 30);
    for target in ["targets/1", "targets/2"] {
        court.unpublish("a", target).await.unwrap();
        assert!(!court.path(target).exists());
    }
    court.unstage("a", "staging").await.unwrap();
    assert!(court.path("staging").exists(), "it is the orchestrator's");
    drop((news, driver));
    let verdict = court.verdict().await;
    assert_eq!(verdict.outcome, Outcome::Passed, "{verdict}");
    let passed = passed(&verdict);
    for rule in
        ["asked-first", "told", "capabilities-first", "stage-first", "stats-place", "expand-place", "staging-path"]
    {
        assert!(passed.contains(&rule), "{rule}\n{verdict}");
    }
    assert_eq!((verdict.taken_away, verdict.troubles), (Vec::new(), Vec::new()));
}

async fn a_clumsy_orchestrator_is_told_what_it_broke() {
    let court = Court::open("clumsy", Settings { secrets: vec!["stage=key".parse().unwrap()], ..faults(&[]) });
    court.directory("targets/ready");
    let early = court.publish("a", "staging", "targets/1").await.unwrap_err();
    assert_eq!((early.code, early.end), (Code::FailedPrecondition, End::Final));
    court.stage("a", "staging").await.unwrap_err();
    court.directory("staging");
    let secret = BTreeMap::from([("password".to_owned(), "hunter2".to_owned())]);
    let plain = capability(Mode::SingleNodeWriter);
    court.stage_with("a", "staging", plain.clone(), secret, PATIENCE).await.unwrap();
    let other = capability(Mode::MultiNodeMultiWriter);
    let refused = court.stage_with("a", "staging", other, BTreeMap::new(), PATIENCE).await.unwrap_err();
    assert_eq!(refused.code, Code::AlreadyExists);
    court.publish("a", "staging", "targets/ready").await.unwrap();
    court.publish("a", "staging", "nowhere/1").await.unwrap_err();
    court.publish("a", "staging", "../1").await.unwrap_err();
    court.unstage("a", "staging").await.unwrap_err();
    court.unpublish("a", "targets/other").await.unwrap();
    court.stage_with("a", "staging", Default::default(), BTreeMap::new(), PATIENCE).await.unwrap_err();
    assert_eq!(court.mounts_below("targets"), [court.path("targets/ready")]);
    let verdict = court.verdict().await;
    let expected = [
        "asked-first",
        "capabilities-first",
        "required-fields",
        "absolute-paths",
        "staging-directory",
        "target-parent",
        "target-free",
        "stage-first",
        "unpublish-first",
        "same-again",
        "known-place",
        "secrets",
        "nothing-forgotten",
    ];
    assert_eq!(broken(&verdict), expected, "{verdict}");
    assert_eq!(verdict.outcome, Outcome::Broken);
    let text = format!("{verdict}{}", serde_json::to_string(&verdict).unwrap());
    assert!(text.contains("secrets=[password]") && !text.contains("hunter2"), "{text}");
    assert_eq!(verdict.taken_away.len(), 2, "{verdict}");
}

async fn an_open_outcome_that_is_taken_for_success_is_noticed() {
    let court = Court::open("open", faults(&["stage=silence-with-effect", "publish=timeout-without-effect"]));
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    court.directory("staging");
    let plain = capability(Mode::SingleNodeWriter);
    let soon = Duration::from_secs(2);
    let open = court.stage_with("a", "staging", plain, BTreeMap::new(), soon).await.unwrap_err();
    assert_eq!(open.end, End::Unknown);
    assert_eq!(mounted(&court.path("staging")), 1, "it had its effect");
    court.publish("a", "staging", "targets/1").await.unwrap_err();
    // Now as it should be.
    court.stage("a", "staging").await.unwrap();
    assert_eq!(court.publish("a", "staging", "targets/1").await.unwrap_err().end, End::Unknown);
    court.unpublish("a", "targets/1").await.unwrap();
    court.unstage("a", "staging").await.unwrap();
    // And not at all.
    court.directory("other");
    let plain = capability(Mode::SingleNodeWriter);
    court.stage_with("b", "other", plain, BTreeMap::new(), soon).await.unwrap_err();
    // By the answer to this it has heard that nobody waits for the last one any more.
    court.driver.plugin_info().await.unwrap();
    let verdict = court.verdict().await;
    assert_eq!(broken(&verdict), ["not-assumed", "settled"], "{verdict}");
}

async fn a_connection_that_is_cut_leaves_the_outcome_open() {
    let court =
        Court::open("cut", faults(&["stage=connection-lost-with-effect", "unstage=connection-lost-without-effect"]));
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    court.directory("staging");
    assert_eq!(court.stage("a", "staging").await.unwrap_err().end, End::Unknown);
    court.stage("a", "staging").await.unwrap();
    assert_eq!(court.unstage("a", "staging").await.unwrap_err().end, End::Unknown);
    assert_eq!(mounted(&court.path("staging")), 1, "it had no effect");
    court.unstage("a", "staging").await.unwrap();
    let verdict = court.verdict().await;
    assert_eq!(verdict.outcome, Outcome::Passed, "{verdict}");
    assert!(passed(&verdict).contains(&"settled"), "{verdict}");
    assert_eq!(verdict.faults.iter().map(|it| it.played).collect::<Vec<_>>(), [1, 1]);
}

async fn calls_that_overlap_are_noticed() {
    let court = Court::open("overlap", faults(&["stage=silence-without-effect"]));
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    court.directory("staging");
    // Whichever comes first is not answered, and so is under way when the other comes.
    tokio::select! {
        done = court.stage("a", "staging") => done.unwrap(),
        done = court.stage("a", "staging") => done.unwrap(),
    }
    court.unstage("a", "staging").await.unwrap();
    let verdict = court.verdict().await;
    assert_eq!(broken(&verdict), ["no-overlap"], "{verdict}");
    assert_eq!(verdict.outcome, Outcome::Unwise);
}

async fn a_device_is_given_and_taken_away() {
    if !privileged("a raw device of the judge") {
        return;
    }
    if !Path::new("/dev/loop-control").exists() {
        eprintln!("there is no /dev/loop-control: skipped a raw device of the judge");
        return;
    }
    let court = Court::open("device", faults(&[]));
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    court.directory("staging");
    court.stage_with("a", "staging", block(), BTreeMap::new(), PATIENCE).await.unwrap();
    for target in ["targets/1", "targets/2"] {
        court.publish_with("a", "staging", target, block(), false).await.unwrap();
        assert!(fs::metadata(court.path(target)).unwrap().file_type().is_block_device());
    }
    court.unpublish("a", "targets/1").await.unwrap();
    assert!(!court.path("targets/1").exists() && court.path("targets/2").exists());
    court.unpublish("a", "targets/2").await.unwrap();
    court.unstage("a", "staging").await.unwrap();
    let state = court.path("state");
    let verdict = court.verdict().await;
    assert_eq!(verdict.outcome, Outcome::Passed, "{verdict}");
    assert_eq!(loop_devices(&state), Vec::<PathBuf>::new());
}

async fn volumes_are_attached_with_what_the_judge_has_told() {
    let court = Court::open("attach", Settings { attach: true, ..faults(&[]) });
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    assert!(court.driver.plugin_capabilities().await.unwrap().controller_service);
    assert!(court.driver.controller_capabilities().await.unwrap().publish_unpublish);
    let plain = Some(capability(Mode::SingleNodeWriter));
    let request = csi::ControllerPublishVolumeRequest {
        volume_id: "a".into(),
        node_id: "node-1".into(),
        volume_capability: plain.clone(),
        ..Default::default()
    };
    let attached = court.driver.controller_publish(request.clone(), PATIENCE).await.unwrap();
    assert_eq!(court.driver.controller_publish(request, PATIENCE).await.unwrap(), attached);
    court.directory("staging");
    let request = csi::NodeStageVolumeRequest {
        volume_id: "a".into(),
        staging_target_path: court.path("staging").to_str().unwrap().into(),
        volume_capability: plain,
        publish_context: attached.publish_context,
        ..Default::default()
    };
    court.driver.stage(request, PATIENCE).await.unwrap();
    court.unstage("a", "staging").await.unwrap();
    let request =
        csi::ControllerUnpublishVolumeRequest { volume_id: "a".into(), node_id: "node-1".into(), ..Default::default() };
    court.driver.controller_unpublish(request, PATIENCE).await.unwrap();
    court.stage("b", "staging").await.unwrap_err();
    let request = csi::DeleteVolumeRequest { volume_id: "a".into(), ..Default::default() };
    assert_eq!(court.driver.delete_volume(request, PATIENCE).await.unwrap_err().code, Code::Unimplemented);
    let verdict = court.verdict().await;
    assert_eq!(broken(&verdict), ["attach-first", "can-controller"], "{verdict}");
    assert!(passed(&verdict).contains(&"publish-context"), "{verdict}");
}

async fn volumes_are_made_grown_and_deleted() {
    let settings = Settings { create: true, grow: true, ..faults(&["create=timeout-with-effect", "grow=too-small"]) };
    let court = Court::open("make", settings);
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    assert!(court.driver.plugin_capabilities().await.unwrap().controller_service);
    let can = court.driver.controller_capabilities().await.unwrap();
    assert!(can.create_delete && can.expand && !can.publish_unpublish);
    let size = |required_bytes| Some(csi::CapacityRange { required_bytes, limit_bytes: 0 });
    let wish = csi::CreateVolumeRequest {
        name: "pvc-1".into(),
        capacity_range: size(1 << 20),
        volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
        ..Default::default()
    };
    let open = court.driver.create_volume(wish.clone(), PATIENCE).await.unwrap_err();
    assert_eq!((open.code, open.end), (Code::DeadlineExceeded, End::Unknown));
    let volume = court.driver.create_volume(wish.clone(), PATIENCE).await.unwrap();
    assert_eq!((volume.capacity_bytes, volume.volume_id == "pvc-1"), (1 << 20, false));
    assert_eq!(court.driver.create_volume(wish.clone(), PATIENCE).await.unwrap(), volume);
    let grow = csi::ControllerExpandVolumeRequest {
        volume_id: volume.volume_id.clone(),
        capacity_range: size(4 << 20),
        ..Default::default()
    };
    let small = court.driver.controller_expand(grow.clone(), PATIENCE).await.unwrap();
    assert_eq!(small.capacity_bytes, 2 << 20, "half of it is a lie");
    let large = court.driver.controller_expand(grow, PATIENCE).await.unwrap();
    assert_eq!((large.capacity_bytes, large.node_expansion_required), (4 << 20, true));
    court.directory("staging");
    let request = csi::DeleteVolumeRequest { volume_id: volume.volume_id.clone(), ..Default::default() };
    court.driver.delete_volume(request.clone(), PATIENCE).await.unwrap();
    court.driver.delete_volume(request, PATIENCE).await.unwrap();
    let late = court.stage(&volume.volume_id, "staging").await.unwrap_err();
    assert_eq!(late.code, Code::NotFound);
    let verdict = court.verdict().await;
    assert_eq!(broken(&verdict), ["not-deleted"], "{verdict}");
    for rule in ["one-request", "delete-last", "never-smaller", "can-controller", "settled"] {
        assert!(passed(&verdict).contains(&rule), "{rule}\n{verdict}");
    }
}

async fn a_controller_is_what_it_was_told_to_be() {
    let court = Court::open("grows", Settings { grow: true, ..faults(&[]) });
    court.driver.plugin_info().await.unwrap();
    let can = court.driver.controller_capabilities().await.unwrap();
    assert!(can.expand && !can.create_delete && !can.publish_unpublish);
    let request = csi::DeleteVolumeRequest { volume_id: "a".into(), ..Default::default() };
    let refused = court.driver.delete_volume(request, PATIENCE).await.unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
    let verdict = court.verdict().await;
    assert_eq!(broken(&verdict), ["can-controller"], "{verdict}");
}

async fn codes_slow_answers_and_lies_are_played() {
    let played = ["stage=not-found", "stage=aborted", "stage=slow", "publish=lie", "unstage=slow"];
    let slow_by = Duration::from_millis(50);
    let court = Court::open("lies", Settings { slow_by, ..faults(&played) });
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    court.directory("staging");
    let refused = court.stage("a", "staging").await.unwrap_err();
    assert_eq!((refused.code, refused.end), (Code::NotFound, End::Final));
    let open = court.stage("a", "staging").await.unwrap_err();
    assert_eq!((open.code, open.end), (Code::Aborted, End::Unknown));
    assert_eq!(mounted(&court.path("staging")), 0);
    let began = tokio::time::Instant::now();
    court.stage("a", "staging").await.unwrap();
    assert!(began.elapsed() >= slow_by);
    assert_eq!(mounted(&court.path("staging")), 1);
    court.publish("a", "staging", "targets/1").await.unwrap();
    assert!(!court.path("targets/1").exists(), "nothing was done");
    court.publish("a", "staging", "targets/1").await.unwrap();
    assert_eq!(mounted(&court.path("targets/1")), 1);
    court.unpublish("a", "targets/1").await.unwrap();
    court.unstage("a", "staging").await.unwrap();
    let verdict = court.verdict().await;
    assert_eq!(broken(&verdict), Vec::<&str>::new(), "{verdict}");
    assert!(verdict.faults.iter().all(|it| it.played == 1), "{verdict}");
}

async fn a_judge_that_ends_takes_its_mounts_along() {
    let settings = Settings { in_use_allowed: true, ..faults(&["unpublish=silence-without-effect"]) };
    let court = Court::open("ends", settings);
    court.driver.plugin_info().await.unwrap();
    court.driver.node_capabilities().await.unwrap();
    court.directory("staging");
    court.stage("a", "staging").await.unwrap();
    court.publish("a", "staging", "targets/1").await.unwrap();
    let (staging, target) = (court.path("staging"), court.path("targets/1"));
    let verdict = court.verdict().await;
    assert_eq!(verdict.outcome, Outcome::Passed, "{verdict}");
    let taken = [format!("a at {}", target.display()), format!("a at {}", staging.display())];
    assert_eq!(verdict.taken_away, taken);
    assert!(staging.exists() && !target.exists());
}

async fn what_a_killed_judge_has_left_is_taken_away() {
    let directory = Directory::new("killed");
    for below in ["state/volumes", "targets/1", "staging"] {
        directory.directory(below);
    }
    let base = directory.path("state/volumes");
    let tmpfs = mount::filesystem("tmpfs", "windlass-judge", &Options::default()).unwrap();
    tmpfs.attach(&Place::root(&base).unwrap()).unwrap();
    for below in ["targets/1", "staging"] {
        let bound = mount::bind(&Place::root(&base).unwrap(), Extent::One).unwrap();
        bound.attach(&Place::root(directory.path(below)).unwrap()).unwrap();
    }
    let court = Court::open("killed", faults(&[]));
    court.unpublish("a", "targets/1").await.unwrap();
    assert!(!court.path("targets/1").exists());
    court.stage("a", "staging").await.unwrap();
    assert_eq!(mounted(&court.path("staging")), 1, "not over the old one");
    court.unstage("a", "staging").await.unwrap();
    let verdict = court.verdict().await;
    assert!(broken(&verdict).contains(&"known-place"), "{verdict}");
}

async fn a_judge_that_cannot_serve_leaves_nothing() {
    let directory = Directory::new("cannot");
    fs::write(directory.path("csi.sock"), "data").unwrap();
    let bound = Bench::bind(options(&directory, faults(&[])), Box::new(|_| {}));
    assert!(matches!(bound, Err(Error::Socket(SocketError::InTheWay { .. }))));
    assert_eq!(directory.mounts_below(""), Vec::<PathBuf>::new());
    assert_eq!(fs::read(directory.path("csi.sock")).unwrap(), b"data");
}

async fn it_is_idle_when_all_volumes_have_gone() {
    let directory = Directory::new("idle");
    directory.directory("staging");
    let bench = Bench::bind(options(&directory, faults(&[])), Box::new(|_| {})).unwrap();
    let idle = bench.idle();
    let served = tokio::spawn(bench.serve(idle));
    let driver = windlass_csi::Driver::new("judge.example.com", directory.path("csi.sock"), Default::default());
    let staging_target_path = directory.text("staging");
    let request = csi::NodeStageVolumeRequest {
        volume_id: "a".into(),
        staging_target_path: staging_target_path.clone(),
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    driver.stage(request, PATIENCE).await.unwrap();
    let request = csi::NodeUnstageVolumeRequest { volume_id: "a".into(), staging_target_path };
    driver.unstage(request, PATIENCE).await.unwrap();
    let verdict = tokio::time::timeout(PATIENCE, served).await.unwrap().unwrap().unwrap();
    assert_eq!(verdict.volumes, 1);
    assert_eq!(directory.mounts_below(""), Vec::<PathBuf>::new());
}
