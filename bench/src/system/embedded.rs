//! windlass as a program has it that embeds the crate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use windlass::Node;
use windlass::ids::PodUid;
use windlass::manifest::Object;
use windlass::node::Change;
use windlass::source::{Containers, Source};

use super::Places;
use crate::emptied::Emptied;
use crate::pods;
use crate::process::Process;
use crate::protocol::{Answer, Changed, Command, Figures, Serves};
use crate::times::{self, Alone, Stretch, milliseconds, percentiles};
use crate::volumes::Volumes;

/// Where its pods come from.
const SOURCE: &str = "bench";

pub(crate) struct Embedded {
    places: Places,
    /// The volumes of a CSI driver, if pods have those.
    volumes: Option<Volumes>,
    runtime: Runtime,
    node: Option<Node>,
    pods: Vec<PodUid>,
    prepared: Option<Prepared>,
}

/// A change to come.
enum Prepared {
    Object(Object),
    Pods(Vec<Arc<Pod>>),
}

/// What is waited for.
#[derive(Clone, Copy)]
enum Goal {
    Ready,
    Gone,
}

impl Embedded {
    pub(crate) fn new(places: Places, volumes: Option<Volumes>) -> anyhow::Result<Self> {
        // The node works on threads of its own; this runtime only waits for it.
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self { places, volumes, runtime, node: None, pods: Vec::new(), prepared: None })
    }

    fn start(&mut self) -> anyhow::Result<Node> {
        let mut builder = Node::builder(self.places.node()).runtime_directory(&self.places.run).give_memory_back();
        if self.volumes.is_some() {
            builder = builder.driver_registry(self.places.registry());
        }
        let node = builder.node_name("node-1").start().context("start the node")?;
        self.node = Some(node.clone());
        Ok(node)
    }

    fn node(&self) -> anyhow::Result<&Node> {
        self.node.as_ref().context("it was not started")
    }

    fn source(&self) -> anyhow::Result<Source> {
        Ok(self.node()?.source(SOURCE))
    }

    /// Gives a node all that pods name.
    fn give_objects(&self, node: &Node) -> anyhow::Result<()> {
        node.update_object(pods::config_map_object(0)?);
        node.update_object(pods::secret_object(0)?);
        for object in self.volumes.iter().map(Volumes::objects).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            node.update_object(object);
        }
        Ok(())
    }

    fn pod(&self, index: usize, labels: Option<u32>) -> serde_json::Result<Pod> {
        if self.volumes.is_some() { pods::pod_with_claim_object(index) } else { pods::pod_object(index, labels) }
    }

    /// The pods of a burst, made before anything is measured.
    fn wanted(&self, count: usize, labels: Option<u32>) -> anyhow::Result<Vec<Arc<Pod>>> {
        (0..count).map(|it| Ok(Arc::new(self.pod(it, labels)?))).collect()
    }

    /// Waits until disk and sources are known.
    fn synced(&self, node: &Node) -> anyhow::Result<()> {
        let mut changes = node.changes_since_start().context("somebody else listens")?;
        self.runtime.block_on(async {
            loop {
                match changes.next().await {
                    Some(Change::Synced) => return Ok(()),
                    // It may have been among them.
                    Some(Change::Missed(_)) if node.volumes_in_use().await?.is_some() => return Ok(()),
                    Some(_) => {}
                    None => bail!("the node has ended"),
                }
            }
        })
    }

    /// How long each takes, from a moment on.
    fn wait(&self, goal: Goal, began: Instant) -> anyhow::Result<Vec<Duration>> {
        let node = self.node()?;
        self.runtime.block_on(async {
            let mut waiting = JoinSet::new();
            for uid in &self.pods {
                let (node, uid) = (node.clone(), uid.clone());
                waiting.spawn(async move {
                    reach(&node, &uid, goal).await?;
                    anyhow::Ok(began.elapsed())
                });
            }
            let mut times = Vec::new();
            while let Some(time) = waiting.join_next().await {
                times.push(time??);
            }
            Ok(times)
        })
    }

    fn one(&self, first: usize, count: usize) -> anyhow::Result<Answer> {
        let node = self.node()?;
        let mut alone = Alone::default();
        for index in first..first + count {
            let pod = self.pod(pods::ALONE + index, None)?;
            let began = Instant::now();
            let uid = self.source()?.apply(pod)?;
            self.runtime.block_on(reach(node, &uid, Goal::Ready))?;
            let ready = began.elapsed();
            let began = Instant::now();
            self.source()?.gone(&uid, Containers::Stopped);
            self.runtime.block_on(reach(node, &uid, Goal::Gone))?;
            alone.note(ready, began.elapsed());
        }
        Ok(Answer::parts(alone.figures()))
    }

    fn up(&mut self, count: usize, labels: bool) -> anyhow::Result<Answer> {
        let wanted = self.wanted(count, labels.then_some(0))?;
        let source = self.source()?;
        let stretch = Stretch::begin(Process::Own)?;
        self.pods = wanted.into_iter().map(|it| source.apply(it)).collect::<Result<_, _>>()?;
        let times = self.wait(Goal::Ready, stretch.began)?;
        let mut figures = stretch.end()?;
        percentiles(&mut figures, times);
        Process::Own.memory(&mut figures)?;
        Ok(Answer::all(figures))
    }

    fn want(&mut self, count: usize) -> anyhow::Result<Answer> {
        let wanted = self.wanted(count, None)?;
        let source = self.source()?;
        self.pods = wanted.into_iter().map(|it| source.apply(it)).collect::<Result<_, _>>()?;
        Ok(Answer::nothing())
    }

    fn awaited(&self, began: Instant) -> anyhow::Result<Answer> {
        let times = self.wait(Goal::Ready, began)?;
        let mut figures = Figures { wall_ms: Some(milliseconds(began.elapsed())), ..Figures::default() };
        percentiles(&mut figures, times);
        Process::Own.memory(&mut figures)?;
        Ok(Answer::all(figures))
    }

    fn down(&mut self) -> anyhow::Result<Answer> {
        let source = self.source()?;
        let emptied = Emptied::watch(&self.places.pods())?;
        let stretch = Stretch::begin(Process::Own)?;
        for uid in &self.pods {
            source.gone(uid, Containers::Stopped);
        }
        let times = self.wait(Goal::Gone, stretch.began)?;
        emptied.wait()?;
        let mut figures = stretch.end()?;
        percentiles(&mut figures, times);
        self.pods.clear();
        Ok(Answer::all(figures))
    }

    fn restart(&mut self, count: usize) -> anyhow::Result<Answer> {
        let wanted = self.wanted(count, None)?;
        let stretch = Stretch::begin(Process::Own)?;
        let node = self.start()?;
        self.give_objects(&node)?;
        let source = self.source()?;
        self.pods = wanted.into_iter().map(|it| source.apply(it)).collect::<Result<_, _>>()?;
        source.complete();
        self.synced(&node)?;
        let synced = stretch.end()?;
        let times = self.wait(Goal::Ready, stretch.began)?;
        let mut verified = stretch.end()?;
        percentiles(&mut verified, times);
        Process::Own.memory(&mut verified)?;
        Ok(Answer::parts([("synced", synced), ("verified", verified)]))
    }

    fn prepare(&self, what: Changed, round: u32) -> anyhow::Result<Prepared> {
        Ok(match what {
            Changed::ConfigMap => Prepared::Object(pods::config_map_object(round)?.into()),
            Changed::Secret => Prepared::Object(pods::secret_object(round)?.into()),
            Changed::Labels => Prepared::Pods(self.wanted(self.pods.len(), Some(round))?),
        })
    }

    fn change(&mut self) -> anyhow::Result<Answer> {
        let node = self.node.as_ref().context("it was not started")?;
        match self.prepared.take().context("nothing was prepared")? {
            Prepared::Object(object) => node.update_object(object),
            Prepared::Pods(pods) => {
                let source = node.source(SOURCE);
                for pod in pods {
                    source.apply(pod)?;
                }
            }
        }
        Ok(Answer::nothing())
    }
}

impl Serves for Embedded {
    fn handle(&mut self, command: Command) -> anyhow::Result<Answer> {
        match command {
            Command::Start => {
                let node = self.start()?;
                self.give_objects(&node)?;
                self.source()?.complete();
                self.synced(&node)?;
                Ok(Answer::nothing())
            }
            Command::Restart { pods } => self.restart(pods),
            Command::One { count, first } => self.one(first, count),
            Command::Up { pods, labels } => self.up(pods, labels),
            Command::Want { pods } => self.want(pods),
            Command::Await { since } => self.awaited(since.instant()?),
            Command::Down => self.down(),
            Command::Idle { rest, seconds } => Ok(Answer::all(times::idle(Process::Own, rest, seconds)?)),
            Command::Cost => Ok(Answer::all(times::cost(Process::Own)?)),
            Command::Prepare { what, round } => {
                self.prepared = Some(self.prepare(what, round)?);
                Ok(Answer::nothing())
            }
            Command::Change => self.change(),
            Command::Leave => {
                let node = self.node.take().context("it was not started")?;
                self.runtime.block_on(node.stop(Duration::from_secs(60)))?;
                Ok(Answer::nothing())
            }
        }
    }
}

async fn reach(node: &Node, uid: &PodUid, goal: Goal) -> anyhow::Result<()> {
    match goal {
        Goal::Ready => drop(node.ready(uid).await?),
        Goal::Gone => node.gone(uid).await?,
    }
    Ok(())
}
