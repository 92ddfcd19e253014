//! The floor where volumes of a driver are measured: somebody who makes the calls that make and remove them, and does
//! nothing else. Directories are there before. As many calls are under way at a time as are fastest here, on one
//! connection: sooner the driver cannot be done.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use windlass_csi::proto::csi;
use windlass_csi::{Driver, registration};

use super::Places;
use crate::pods;
use crate::process::Process;
use crate::protocol::{Answer, Command, Serves};
use crate::times::{self, Alone, PATIENCE, Stretch, percentiles};
use crate::volumes::{Volumes, capability};

/// Numbers of volumes at a time to choose from.
const AT_ONCE: [usize; 4] = [4, 16, 64, 256];
/// How many volumes the choice is made with, and how often.
const SAMPLE: usize = 100;
const TRIALS: usize = 2;

pub(crate) struct Caller {
    places: Places,
    runtime: Runtime,
    volumes: Volumes,
    /// Set by the first volume.
    ready: Option<Ready>,
    pods: usize,
}

/// A driver that is known.
struct Ready {
    calls: Arc<Calls>,
    /// The best numbers of volumes to make and to remove at a time.
    best: (usize, usize),
}

/// The calls of volumes.
struct Calls {
    driver: Driver,
    stages: bool,
    volumes: Vec<Volume>,
}

/// What its calls name.
struct Volume {
    id: String,
    staging: String,
    target: String,
}

#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

impl Calls {
    async fn make(&self, index: usize, way: Way) -> anyhow::Result<()> {
        let Volume { id, staging, target } = self.volumes.get(index).context("there are fewer volumes")?;
        let (driver, id, staging, target) = (&self.driver, id.clone(), staging.clone(), target.clone());
        let staging = if self.stages { staging } else { String::new() };
        match way {
            Way::Up => {
                if self.stages {
                    let request = csi::NodeStageVolumeRequest {
                        volume_id: id.clone(),
                        staging_target_path: staging.clone(),
                        volume_capability: Some(capability()),
                        ..Default::default()
                    };
                    driver.stage(request, PATIENCE).await?;
                }
                let request = csi::NodePublishVolumeRequest {
                    volume_id: id,
                    staging_target_path: staging,
                    target_path: target,
                    volume_capability: Some(capability()),
                    ..Default::default()
                };
                driver.publish(request, PATIENCE).await?;
            }
            Way::Down => {
                let request = csi::NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: target };
                driver.unpublish(request, PATIENCE).await?;
                if self.stages {
                    let request = csi::NodeUnstageVolumeRequest { volume_id: id, staging_target_path: staging };
                    driver.unstage(request, PATIENCE).await?;
                }
            }
        }
        Ok(())
    }
}

impl Caller {
    pub(crate) fn new(places: &Places, volumes: Volumes) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { places: places.clone(), runtime, volumes, ready: None, pods: 0 })
    }

    /// Takes the driver in, makes the directories, and finds out how many volumes at a time are best.
    fn get_ready(&mut self) -> anyhow::Result<()> {
        if self.ready.is_some() {
            return Ok(());
        }
        let handles = self.volumes.handles.iter().enumerate();
        let volumes = handles.map(|(index, it)| self.volume(index, it)).collect::<anyhow::Result<_>>()?;
        let settings = registration::Settings::new(self.places.registry());
        let (driver, stages) = self.runtime.block_on(async {
            let mut news = registration::watch(settings).context("watch for the driver")?;
            match news.recv().await {
                Some(registration::News::Registered { driver, capabilities, .. }) => {
                    anyhow::Ok((driver, capabilities.stage_unstage))
                }
                other => bail!("the driver does not register: {other:?}"),
            }
        })?;
        let calls = Arc::new(Calls { driver, stages, volumes });
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let sample = SAMPLE.min(self.volumes.handles.len());
        for at_once in AT_ONCE.repeat(TRIALS) {
            let began = Instant::now();
            self.each(&calls, sample, at_once, Way::Up)?;
            let made = Instant::now();
            self.each(&calls, sample, at_once, Way::Down)?;
            up.push((made - began, at_once));
            down.push((made.elapsed(), at_once));
        }
        let best = |all: Vec<(Duration, usize)>| all.into_iter().min().map_or(1, |it| it.1);
        self.ready = Some(Ready { calls, best: (best(up), best(down)) });
        Ok(())
    }

    /// Makes the directories that an orchestrator makes for a volume.
    fn volume(&self, index: usize, handle: &str) -> anyhow::Result<Volume> {
        let name = format!("volume-{index}");
        let staging = self.places.node().join("staged").join(&name);
        let pod = self.places.volumes(index).join("kubernetes.io~csi").join(&name);
        for path in [&staging, &pod] {
            fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
        }
        let text = |path: PathBuf| path.into_os_string().into_string().ok().context("a path that is not text");
        Ok(Volume { id: handle.into(), staging: text(staging)?, target: text(pod.join("mount"))? })
    }

    /// Makes or removes so many volumes; how long each took from the beginning.
    fn each(&self, calls: &Arc<Calls>, count: usize, at_once: usize, way: Way) -> anyhow::Result<Vec<Duration>> {
        let next = Arc::new(AtomicUsize::new(0));
        let began = Instant::now();
        self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..at_once.min(count) {
                let (calls, next) = (calls.clone(), next.clone());
                tasks.spawn(async move {
                    let mut times = Vec::new();
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= count {
                            return anyhow::Ok(times);
                        }
                        calls.make(index, way).await?;
                        times.push(began.elapsed());
                    }
                });
            }
            let mut all = Vec::with_capacity(count);
            while let Some(times) = tasks.join_next().await {
                all.extend(times??);
            }
            Ok(all)
        })
    }

    fn ready(&self) -> anyhow::Result<&Ready> {
        self.ready.as_ref().context("it has had no volume yet")
    }

    fn measure(&self, count: usize, at_once: usize, way: Way) -> anyhow::Result<Answer> {
        let calls = &self.ready()?.calls;
        let stretch = Stretch::begin(Process::Own)?;
        let times = self.each(calls, count, at_once, way)?;
        let mut figures = stretch.end()?;
        percentiles(&mut figures, times);
        Ok(Answer::all(figures))
    }

    fn one(&self, first: usize, count: usize) -> anyhow::Result<Answer> {
        let calls = &self.ready()?.calls;
        let mut alone = Alone::default();
        for index in first..first + count {
            let index = pods::volume(pods::ALONE + index);
            let began = Instant::now();
            self.runtime.block_on(calls.make(index, Way::Up))?;
            let made = Instant::now();
            self.runtime.block_on(calls.make(index, Way::Down))?;
            alone.note(made - began, made.elapsed());
        }
        Ok(Answer::parts(alone.figures()))
    }
}

impl Serves for Caller {
    fn handle(&mut self, command: Command) -> anyhow::Result<Answer> {
        match command {
            Command::One { count, first } => {
                self.get_ready()?;
                self.one(first, count)
            }
            Command::Up { pods, labels: false } => {
                self.pods = pods;
                self.measure(pods, self.ready()?.best.0, Way::Up)
            }
            Command::Down => self.measure(self.pods, self.ready()?.best.1, Way::Down),
            Command::Cost => Ok(Answer::all(times::cost(Process::Own)?)),
            Command::Start | Command::Leave => Ok(Answer::nothing()),
            Command::Up { labels: true, .. }
            | Command::Want { .. }
            | Command::Await { .. }
            | Command::Restart { .. }
            | Command::Idle { .. }
            | Command::Prepare { .. }
            | Command::Change => bail!("the floor only makes and removes volumes"),
        }
    }
}
