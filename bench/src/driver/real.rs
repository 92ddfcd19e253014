//! `windlass-loop`, a driver that has something to do, as the one who measures has it: its volumes are ext4 on loop devices.
//!
//! Volumes are made and formatted before anything is measured, so that a stage is a loop device and a mount, and a publish
//! a bind. The driver is not ours to count the calls of, but it logs what it has done, and so tells when volumes are
//! unstaged.
//!
//! Its loop devices clear themselves with the last mount of them, so that they go with the namespace however this ends.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{self, ChildStderr, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use windlass_csi::proto::csi;
use windlass_csi::{Driver, Limits};

use crate::child::TooLong;
use crate::system;
use crate::times::PATIENCE;
use crate::volumes::{Volumes, capability};

/// What it is called.
const NAME: &str = "loop.bench.example.com";
/// How many volumes are made or deleted at a time.
const AT_ONCE: usize = 16;

/// A driver that runs, with its volumes. It is killed when this goes, and what it has mounted stays.
pub(crate) struct Real {
    process: process::Child,
    runtime: Runtime,
    driver: Driver,
    volumes: Volumes,
    log: Arc<Log>,
}

/// What is read in the driver's log.
#[derive(Default)]
struct Log {
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Default)]
struct Known {
    /// Volumes that were unstaged since somebody asked, and not staged again.
    unstaged: HashSet<String>,
    /// There is nothing more to come.
    ended: bool,
}

impl Real {
    /// Starts a driver that keeps its things in one directory and registers in another, and makes so many volumes.
    pub(crate) fn start(directory: &Path, registry: &Path, count: usize) -> anyhow::Result<Self> {
        for directory in [directory, registry] {
            fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        }
        let endpoint = directory.join("csi.sock");
        // Nothing that is measured outlives the one who measures.
        let mut command = process::Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(system::windlass_loop()?);
        command.arg("--endpoint").arg(&endpoint).arg("--registry").arg(registry);
        command.arg("--state").arg(directory.join("state"));
        command.args(["--name", NAME, "--node-id", "node-1", "--volumes-max", "0"]).env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let process = command.spawn().context("start windlass-loop by setpriv, which util-linux has")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let driver = Driver::new(NAME, endpoint, Limits::default());
        let volumes = Volumes { driver: NAME.into(), handles: Vec::new() };
        let mut real = Self { process, runtime, driver, volumes, log: Arc::default() };
        real.follow()?;
        real.volumes.handles = real.make(count).context("make volumes of windlass-loop")?;
        real.format(&directory.join("formatted")).context("format volumes of windlass-loop")?;
        real.log.forget();
        Ok(real)
    }

    /// Waits until it can be called, and reads its log from then on.
    fn follow(&mut self) -> anyhow::Result<()> {
        let log = self.log.clone();
        let lines = BufReader::new(self.process.stderr.take().context("no standard error")?);
        std::thread::Builder::new().name("log".into()).spawn(move || log.read(lines))?;
        let mut said = BufReader::new(self.process.stdout.take().context("no standard output")?);
        super::process::line(&mut said).context("start windlass-loop").map(drop)
    }

    /// Its volumes.
    pub(crate) fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    fn make(&self, count: usize) -> anyhow::Result<Vec<String>> {
        let make = |index: usize| {
            let driver = self.driver.clone();
            let request = csi::CreateVolumeRequest {
                name: format!("volume-{index}"),
                // The least that it makes.
                capacity_range: Some(csi::CapacityRange { required_bytes: 1, limit_bytes: 0 }),
                volume_capabilities: vec![capability()],
                ..Default::default()
            };
            async move { anyhow::Ok(driver.create_volume(request, PATIENCE).await?.volume_id) }
        };
        self.several(0..count, make)
    }

    /// A volume is formatted when it is staged first.
    fn format(&self, directory: &Path) -> anyhow::Result<()> {
        let format = |volume_id: String| {
            let (driver, path) = (self.driver.clone(), directory.join(&volume_id));
            async move {
                fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
                let staging_target_path = text(path)?;
                let stage = csi::NodeStageVolumeRequest {
                    volume_id: volume_id.clone(),
                    staging_target_path: staging_target_path.clone(),
                    volume_capability: Some(capability()),
                    ..Default::default()
                };
                driver.stage(stage, PATIENCE).await?;
                driver.unstage(csi::NodeUnstageVolumeRequest { volume_id, staging_target_path }, PATIENCE).await?;
                Ok(())
            }
        };
        self.several(self.volumes.handles.clone(), format).map(drop)
    }

    /// Waits until so many volumes are unstaged that were staged since the last time.
    pub(crate) fn unstaged(&self, count: usize) -> anyhow::Result<()> {
        self.log.until_unstaged(count).context("windlass-loop")
    }

    /// Has it delete its volumes, which it refuses if something is still mounted of one.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        let delete = |volume_id: String| {
            let driver = self.driver.clone();
            let request = csi::DeleteVolumeRequest { volume_id, ..Default::default() };
            async move { Ok(driver.delete_volume(request, PATIENCE).await?) }
        };
        let deleted = self.several(self.volumes.handles.clone(), delete);
        deleted.context("delete the volumes of windlass-loop").map(drop)
    }

    /// Does something with each, several at a time, and tells what came of it, in whatever order.
    fn several<It, Answer: Send + 'static, Future>(
        &self,
        all: impl IntoIterator<Item = It>,
        work: impl Fn(It) -> Future,
    ) -> anyhow::Result<Vec<Answer>>
    where
        Future: std::future::Future<Output = anyhow::Result<Answer>> + Send + 'static,
    {
        self.runtime.block_on(async {
            let (mut tasks, mut answers) = (JoinSet::new(), Vec::new());
            for it in all {
                if tasks.len() >= AT_ONCE
                    && let Some(answer) = tasks.join_next().await
                {
                    answers.push(answer??);
                }
                tasks.spawn(work(it));
            }
            while let Some(answer) = tasks.join_next().await {
                answers.push(answer??);
            }
            Ok(answers)
        })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(path: PathBuf) -> anyhow::Result<String> {
    path.into_os_string().into_string().ok().context("a path that is not text")
}

impl Log {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads to the end. What the driver refuses is for whoever watches.
    fn read(&self, lines: BufReader<ChildStderr>) {
        for line in lines.lines().map_while(Result::ok) {
            if let Some(call) = done(&line) {
                self.note(call);
            } else if line.contains(" refused ") || line.contains("ERROR") || line.starts_with("Error") {
                eprintln!("windlass-loop: {line}");
            }
        }
        self.known().ended = true;
        self.changed.notify_all();
    }

    fn note(&self, (method, volume): (&str, &str)) {
        let mut known = self.known();
        match method {
            "NodeStageVolume" => _ = known.unstaged.remove(volume),
            "NodeUnstageVolume" => _ = known.unstaged.insert(volume.into()),
            _ => {}
        }
        self.changed.notify_all();
    }

    fn forget(&self) {
        self.known().unstaged.clear();
    }

    fn until_unstaged(&self, count: usize) -> anyhow::Result<()> {
        let wait = |known: &mut Known| known.unstaged.len() < count && !known.ended;
        let waited = self.changed.wait_timeout_while(self.known(), PATIENCE, wait);
        let (mut known, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(TooLong(PATIENCE).into());
        }
        ensure!(!known.ended, "it has ended");
        known.unstaged.clear();
        Ok(())
    }
}

/// The call that a line of the log says is done, and its volume.
fn done(line: &str) -> Option<(&str, &str)> {
    let (method, rest) = line.split_once(" done method=\"")?.1.split_once("\" volume=\"")?;
    Some((method, rest.split_once('"')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_has_done_is_read_in_its_log() {
        let line = r#"2026-01-01T00:00:00.000000Z  INFO done method="NodeStageVolume" volume="vol-1" took=1.25ms"#;
        assert_eq!(done(line), Some(("NodeStageVolume", "vol-1")));
        let line = r#"2026-01-01T00:00:00.000000Z  INFO registered name="loop.bench.example.com""#;
        assert_eq!(done(line), None);
        let line = r#"2026-01-01T00:00:00.000000Z  WARN refused method="NodeStageVolume" volume="vol-1" code=Aborted"#;
        assert_eq!(done(line), None);
    }

    #[test]
    fn a_volume_that_is_staged_again_is_not_unstaged() -> anyhow::Result<()> {
        let log = Log::default();
        for method in ["NodeStageVolume", "NodeUnstageVolume"] {
            log.note((method, "a"));
            log.note((method, "b"));
        }
        log.note(("NodeStageVolume", "b"));
        log.until_unstaged(1)?;
        log.note(("NodeUnstageVolume", "b"));
        log.note(("NodeUnstageVolume", "b"));
        assert_eq!(log.known().unstaged.len(), 1);
        log.known().ended = true;
        assert!(log.until_unstaged(2).is_err());
        Ok(())
    }
}
