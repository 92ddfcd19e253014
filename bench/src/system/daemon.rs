//! windlass as the daemon: manifests are renamed into its directory, and its API tells how their pods stand.
//!
//! The daemon is a process of its own, and what it takes is told without what this one takes to ask it.

mod running;
mod watch;

use std::path::PathBuf;
use std::time::Instant;
use std::{fs, io};

use anyhow::Context;
use serde_json::Value;

use super::Places;
use crate::emptied::Emptied;
use crate::pods;
use crate::process::Process;
use crate::protocol::{Answer, Changed, Command, Figures, Serves};
use crate::times::{self, Alone, Stretch, milliseconds, percentiles};
use crate::volumes::Volumes;

use self::running::Running;

pub(crate) struct Daemon {
    places: Places,
    program: PathBuf,
    removal_delay: Option<&'static str>,
    /// The volumes of a CSI driver, if pods have those.
    volumes: Option<Volumes>,
    running: Option<Running>,
    pods: usize,
    prepared: Option<Changed>,
}

/// The files of the objects.
const SETTINGS: &str = "settings.json";
const KEYS: &str = "keys.json";

impl Daemon {
    /// A daemon that believes a manifest gone after so long; after its default if nothing is said.
    pub(crate) fn new(
        places: Places,
        program: PathBuf,
        removal_delay: Option<&'static str>,
        volumes: Option<Volumes>,
    ) -> anyhow::Result<Self> {
        for directory in ["manifests", "prepared"] {
            let path = places.root.join(directory);
            fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        }
        Ok(Self { places, program, removal_delay, volumes, running: None, pods: 0, prepared: None })
    }

    fn start(&mut self) -> anyhow::Result<&mut Running> {
        let running = Running::start(&self.program, &self.places, self.removal_delay)?;
        Ok(self.running.insert(running))
    }

    fn running(&mut self) -> anyhow::Result<&mut Running> {
        self.running.as_mut().context("it was not started")
    }

    fn process(&self) -> anyhow::Result<Process> {
        Ok(Process::Other(self.running.as_ref().context("it was not started")?.id()))
    }

    /// Writes a manifest to where the daemon does not look.
    fn prepare(&self, name: &str, manifest: &Value) -> anyhow::Result<()> {
        let path = self.places.root.join("prepared").join(name);
        fs::write(&path, serde_json::to_vec(manifest)?).with_context(|| format!("write {}", path.display()))
    }

    fn prepare_pod(&self, index: usize, labels: Option<u32>) -> anyhow::Result<()> {
        let pod = if self.volumes.is_some() { pods::pod_with_claim(index) } else { pods::pod(index, labels) };
        self.prepare(&file(index), &pod)
    }

    fn prepare_pods(&self, count: usize, labels: Option<u32>) -> anyhow::Result<()> {
        (0..count).try_for_each(|it| self.prepare_pod(it, labels))
    }

    /// Puts everything into force that pods name.
    fn put_objects(&self) -> anyhow::Result<()> {
        let mut objects = vec![(SETTINGS.to_owned(), pods::config_map(0)), (KEYS.to_owned(), pods::secret(0))];
        if let Some(volumes) = &self.volumes {
            objects.extend(volumes.manifests().into_iter().map(|(name, it)| (name + ".json", it)));
        }
        for (name, object) in objects {
            self.prepare(&name, &object)?;
            self.put(&name)?;
        }
        Ok(())
    }

    /// Puts a prepared manifest into force, in one step.
    fn put(&self, name: &str) -> io::Result<()> {
        fs::rename(self.places.root.join("prepared").join(name), self.places.root.join("manifests").join(name))
    }

    fn put_all(&self, count: usize) -> io::Result<()> {
        (0..count).try_for_each(|it| self.put(&file(it)))
    }

    fn remove(&self, index: usize) -> io::Result<()> {
        fs::remove_file(self.places.root.join("manifests").join(file(index)))
    }

    fn one(&mut self, first: usize, count: usize) -> anyhow::Result<Answer> {
        let mut alone = Alone::default();
        for index in pods::ALONE + first..pods::ALONE + first + count {
            self.prepare_pod(index, None)?;
            let began = Instant::now();
            self.put(&file(index))?;
            self.running()?.watch.until_ready(index)?;
            let ready = began.elapsed();
            let began = Instant::now();
            self.remove(index)?;
            self.running()?.watch.until_gone(index)?;
            alone.note(ready, began.elapsed());
        }
        Ok(Answer::parts(alone.figures()))
    }

    fn up(&mut self, count: usize, labels: bool) -> anyhow::Result<Answer> {
        self.prepare_pods(count, labels.then_some(0))?;
        self.pods = count;
        let stretch = Stretch::begin(self.process()?)?;
        self.put_all(count)?;
        let times = self.running()?.watch.all_ready(count, stretch.began)?;
        let mut figures = stretch.end()?;
        percentiles(&mut figures, times);
        self.process()?.memory(&mut figures)?;
        Ok(Answer::all(figures))
    }

    fn want(&mut self, count: usize) -> anyhow::Result<Answer> {
        self.prepare_pods(count, None)?;
        self.pods = count;
        self.put_all(count)?;
        Ok(Answer::nothing())
    }

    fn awaited(&mut self, began: Instant) -> anyhow::Result<Answer> {
        let count = self.pods;
        let times = self.running()?.watch.all_ready(count, began)?;
        let mut figures = Figures { wall_ms: Some(milliseconds(began.elapsed())), ..Figures::default() };
        percentiles(&mut figures, times);
        self.process()?.memory(&mut figures)?;
        Ok(Answer::all(figures))
    }

    fn down(&mut self) -> anyhow::Result<Answer> {
        let emptied = Emptied::watch(&self.places.pods())?;
        let stretch = Stretch::begin(self.process()?)?;
        (0..self.pods).try_for_each(|it| self.remove(it))?;
        let count = self.pods;
        let times = self.running()?.watch.all_gone(count, stretch.began)?;
        emptied.wait()?;
        let mut figures = stretch.end()?;
        percentiles(&mut figures, times);
        self.pods = 0;
        Ok(Answer::all(figures))
    }

    /// From the start of the program, which the others have behind them.
    fn restart(&mut self, count: usize) -> anyhow::Result<Answer> {
        self.pods = count;
        let began = Instant::now();
        let figures = |process: Process| -> anyhow::Result<Figures> {
            Ok(Figures { wall_ms: Some(milliseconds(began.elapsed())), ..times::cost(process)? })
        };
        self.start()?;
        let process = self.process()?;
        let synced = figures(process)?;
        let times = self.running()?.watch.all_ready(count, began)?;
        let mut verified = figures(process)?;
        percentiles(&mut verified, times);
        process.memory(&mut verified)?;
        Ok(Answer::parts([("synced", synced), ("verified", verified)]))
    }

    fn prepare_change(&mut self, what: Changed, round: u32) -> anyhow::Result<Answer> {
        match what {
            Changed::ConfigMap => self.prepare(SETTINGS, &pods::config_map(round))?,
            Changed::Secret => self.prepare(KEYS, &pods::secret(round))?,
            Changed::Labels => self.prepare_pods(self.pods, Some(round))?,
        }
        self.prepared = Some(what);
        Ok(Answer::nothing())
    }

    fn change(&mut self) -> anyhow::Result<Answer> {
        match self.prepared.take().context("nothing was prepared")? {
            Changed::ConfigMap => self.put(SETTINGS)?,
            Changed::Secret => self.put(KEYS)?,
            Changed::Labels => self.put_all(self.pods)?,
        }
        Ok(Answer::nothing())
    }
}

impl Serves for Daemon {
    fn handle(&mut self, command: Command) -> anyhow::Result<Answer> {
        match command {
            Command::Start => {
                self.put_objects()?;
                self.start()?;
                Ok(Answer::nothing())
            }
            Command::Restart { pods } => self.restart(pods),
            Command::One { count, first } => self.one(first, count),
            Command::Up { pods, labels } => self.up(pods, labels),
            Command::Want { pods } => self.want(pods),
            Command::Await { since } => self.awaited(since.instant()?),
            Command::Down => self.down(),
            Command::Idle { rest, seconds } => Ok(Answer::all(times::idle(self.process()?, rest, seconds)?)),
            Command::Cost => Ok(Answer::all(times::cost(self.process()?)?)),
            Command::Prepare { what, round } => self.prepare_change(what, round),
            Command::Change => self.change(),
            Command::Leave => {
                self.running.take().context("it was not started")?.stop()?;
                Ok(Answer::nothing())
            }
        }
    }
}

/// The file of a pod.
fn file(index: usize) -> String {
    format!("pod-{index}.json")
}
