//! A judge that serves, and an orchestrator that calls it as it likes.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_csi::proto::csi;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;
use windlass_csi::proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use windlass_csi::{CallError, Driver, Limits, NodeCapabilities};
use windlass_judge::Verdict;
use windlass_judge::serve::{Bench, Error, Options};
use windlass_judge::settings::Settings;
use windlass_judge::verdict::Outcome;
use windlass_testing::directory::Directory;
use windlass_testing::wait::PATIENCE;

pub(crate) struct Court {
    pub(crate) directory: Directory,
    pub(crate) driver: Driver,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<Verdict, Error>>,
}

/// What a driver can do that can do everything.
pub(crate) fn everything() -> NodeCapabilities {
    NodeCapabilities {
        stage_unstage: true,
        volume_stats: true,
        expand: true,
        volume_condition: true,
        single_node_multi_writer: true,
        volume_mount_group: true,
    }
}

/// With these faults.
pub(crate) fn faults(texts: &[&str]) -> Settings {
    let faults = texts.iter().map(|it| it.parse().unwrap()).collect();
    Settings { capabilities: everything(), node_id: "node-1".into(), faults, ..Settings::default() }
}

pub(crate) fn options(directory: &Directory, settings: Settings) -> Options {
    Options {
        name: "judge.example.com".into(),
        endpoint: directory.path("csi.sock"),
        registry: Some(directory.path("registry")),
        state: directory.path("state"),
        settings,
    }
}

impl Deref for Court {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Court {
    /// A judge in a directory of its own. Paths of sockets must be short.
    pub(crate) fn open(name: &str, settings: Settings) -> Self {
        let directory = Directory::new(name);
        directory.directory("targets");
        let bench = Bench::bind(options(&directory, settings), Box::new(|_| {})).unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(bench.serve(async {
            let _ = stopped.await;
        }));
        let driver = Driver::new("judge.example.com", directory.path("csi.sock"), Limits::default());
        Self { directory, driver, stop, served }
    }

    /// Ends the judge, and looks whether anything is left.
    pub(crate) async fn verdict(self) -> Verdict {
        self.stop.send(()).unwrap();
        let verdict = self.served.await.unwrap().unwrap();
        assert_eq!(self.directory.mounts_below(""), Vec::<PathBuf>::new());
        for socket in ["csi.sock", "registry/@judge.example.com-reg.sock"] {
            assert!(!self.directory.path(socket).exists(), "{socket}");
        }
        verdict
    }

    pub(crate) async fn stage(&self, volume: &str, staging: &str) -> Result<(), CallError> {
        self.stage_with(volume, staging, capability(Mode::SingleNodeWriter), BTreeMap::new(), PATIENCE).await
    }

    pub(crate) async fn stage_with(
        &self,
        volume: &str,
        staging: &str,
        capability: csi::VolumeCapability,
        secrets: BTreeMap<String, String>,
        deadline: Duration,
    ) -> Result<(), CallError> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.text(staging),
            volume_capability: Some(capability),
            secrets,
            ..Default::default()
        };
        self.driver.stage(request, deadline).await
    }

    pub(crate) async fn unstage(&self, volume: &str, staging: &str) -> Result<(), CallError> {
        let staging_target_path = self.text(staging);
        let request = csi::NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path };
        self.driver.unstage(request, PATIENCE).await
    }

    pub(crate) async fn publish(&self, volume: &str, staging: &str, target: &str) -> Result<(), CallError> {
        self.publish_with(volume, staging, target, capability(Mode::SingleNodeWriter), false).await
    }

    pub(crate) async fn publish_with(
        &self,
        volume: &str,
        staging: &str,
        target: &str,
        capability: csi::VolumeCapability,
        readonly: bool,
    ) -> Result<(), CallError> {
        let request = csi::NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.text(staging),
            target_path: self.text(target),
            volume_capability: Some(capability),
            readonly,
            ..Default::default()
        };
        self.driver.publish(request, PATIENCE).await
    }

    pub(crate) async fn unpublish(&self, volume: &str, target: &str) -> Result<(), CallError> {
        let target_path = self.text(target);
        let request = csi::NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path };
        self.driver.unpublish(request, PATIENCE).await
    }
}

pub(crate) fn capability(mode: Mode) -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

pub(crate) fn block() -> csi::VolumeCapability {
    csi::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
    }
}

/// How many things are mounted at a path.
pub(crate) fn mounted(path: &Path) -> usize {
    windlass_linux::table::Reader::best().read().unwrap().at(path).count()
}

/// The rules that were not kept.
pub(crate) fn broken(verdict: &Verdict) -> Vec<&'static str> {
    let bad = |it: Outcome| matches!(it, Outcome::Broken | Outcome::Unwise);
    verdict.checks.iter().filter(|it| bad(it.outcome)).map(|it| it.rule).collect()
}

/// The rules that were kept.
pub(crate) fn passed(verdict: &Verdict) -> Vec<&'static str> {
    verdict.checks.iter().filter(|it| it.outcome == Outcome::Passed).map(|it| it.rule).collect()
}
