//! Does what it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::{runtime, time};
use windlass::node::{self, StartError};
use windlass::source::{Containers, Source};
use windlass::{Node, token};
use windlass_core::ids::PodUid;
use windlass_core::reason::{Reason, WaitsOn};
use windlass_core::snapshot::Snapshot;
use windlass_core::spec::Mode;

use crate::inspect::Events;
use crate::manifests::Manifests;
use crate::protocol::{self, Answer, Command};

/// A volume that failed this often in a row is not expected to come up any more.
const TRIES: u32 = 3;

/// How long an operation that runs may take to end when the agent does.
const PATIENCE: Duration = Duration::from_secs(5);

/// The directories of a run.
pub(crate) struct Place {
    root: PathBuf,
    state: PathBuf,
    runtime: PathBuf,
}

impl Place {
    /// Below the root there is nothing but volumes, so that trees can be compared; the rest is beside it.
    pub(crate) fn around(root: PathBuf) -> Self {
        let beside = |name| root.parent().unwrap_or(&root).join(name);
        Self { state: beside("state"), runtime: beside("run"), root }
    }
}

/// A node, and what it was told of so far.
pub(crate) struct Agent {
    pub(crate) node: Node,
    source: Source,
    pub(crate) root: PathBuf,
    pub(crate) world: Manifests,
    /// Pods that are wanted, by `namespace/name`.
    pub(crate) running: BTreeMap<String, PodUid>,
    /// Those among them that have been waited for.
    synced: BTreeSet<PodUid>,
    pub(crate) events: Events,
}

impl Agent {
    /// Starts a node that has the objects of these manifests, and no pods yet.
    pub(crate) fn start(place: &Place, registry: Option<PathBuf>, world: Manifests) -> Result<Self, StartError> {
        let builder = Node::builder(&place.root)
            .node_name("node-1")
            .state_directory(&place.state)
            .runtime_directory(&place.runtime)
            .token_provider(Tokens)
            // As with the kubelet, where another part removes them later.
            .keep_pod_directories();
        let node = match registry {
            Some(registry) => builder.driver_registry(registry),
            None => builder,
        }
        .start()?;
        let events = Events::default();
        log(&node, events.clone());
        for object in world.objects.values() {
            node.update_object(object.clone());
        }
        let (running, synced) = Default::default();
        let source = node.source("golden cases");
        Ok(Self { node, source, root: place.root.clone(), world, running, synced, events })
    }

    /// This pod is wanted.
    pub(crate) fn run(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        let pod = self.world.pods.get(name).ok_or_else(|| format!("no pod {name:?}"))?;
        let uid = self.source.apply(pod.clone())?;
        self.running.insert(name.into(), uid);
        Ok(())
    }

    /// Pods that are on disk and not wanted by now are gone.
    pub(crate) fn complete(&self) {
        self.source.complete();
    }

    /// Leaves all as it is.
    pub(crate) async fn stop(self) {
        if let Err(ended) = self.node.stop(PATIENCE).await {
            eprintln!("{ended}");
        }
    }

    pub(crate) async fn obey(&mut self, command: Command) -> Answer {
        let done = match command {
            Command::Run { pod } => self.run(&pod),
            Command::Wait { pod, seconds } => return self.wait(&pod, protocol::seconds(seconds)).await,
            Command::Replace { dir } => self.replace(&dir),
            Command::Remove { pod } => self.remove(&pod),
            Command::Settle { seconds } => self.settle(protocol::seconds(seconds)).await,
        };
        done.map_or_else(|error| Answer::failed(&error), |()| Answer::default())
    }

    /// Makes the manifests of a directory the whole world.
    fn replace(&mut self, directory: &Path) -> Result<(), Box<dyn Error>> {
        let next = Manifests::read(directory)?;
        let before = std::mem::replace(&mut self.world, next);
        // What pods need is there before them and goes after them, so that none sees a world that never was.
        for object in self.world.objects.values() {
            self.node.update_object(object.clone());
        }
        let mut running = BTreeMap::new();
        for (name, pod) in &self.world.pods {
            running.insert(name.clone(), self.source.apply(pod.clone())?);
        }
        for uid in self.running.values().filter(|it| !running.values().any(|other| other == *it)) {
            self.source.gone(uid, Containers::Stopped);
        }
        self.running = running;
        for reference in before.objects.keys().filter(|it| !self.world.objects.contains_key(it)) {
            self.node.remove_object(reference);
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        let uid = self.running.remove(name).ok_or_else(|| format!("pod {name:?} does not run"))?;
        self.source.gone(&uid, Containers::Stopped);
        self.synced.remove(&uid);
        Ok(())
    }

    /// One sync of a pod. It ends as soon as nothing more is to be expected, whether good or bad.
    async fn wait(&mut self, name: &str, within: Duration) -> Answer {
        let Some(uid) = self.running.get(name) else {
            return Answer::failed(&format!("pod {name:?} does not run"));
        };
        // With each later sync the kubelet calls drivers again that ask for it (C-121).
        if !self.synced.insert(uid.clone()) {
            self.node.republish(uid);
        }
        // A driver may think better of it at any time; others do not, and need not be waited for to the end.
        let error = if self.node.drivers().is_empty() {
            // That time is up shows in what is true then.
            let _ = time::timeout(within, self.rest(uid)).await;
            self.node.sync(uid, Duration::ZERO).await.err()
        } else {
            self.node.sync(uid, within).await.err()
        };
        let mut volumes: Vec<_> =
            self.node.volumes(uid).await.unwrap_or_default().into_iter().map(|it| self.volume(it)).collect();
        volumes.sort_by(|one, other| one.name.cmp(&other.name));
        let groups = self.node.groups(uid).await.unwrap_or_default();
        Answer::pod(protocol::Pod { uid: uid.to_string(), groups, volumes }, error)
    }

    /// Waits until each volume of a pod is settled, or nothing will change that by itself.
    async fn rest(&self, pod: &PodUid) {
        let mut changes = self.node.changes();
        // A pod that was just told of is not looked at yet.
        while self.node.status(pod).await.is_ok_and(|it| it.is_none())
            || self.node.explain(pod).await.is_ok_and(|it| !it.iter().all(|it| is_at_rest(&it.reasons)))
        {
            if changes.next().await.is_none() {
                return;
            }
        }
    }

    /// Waits until nothing is wanted or here.
    async fn settle(&self, within: Duration) -> Result<(), Box<dyn Error>> {
        let mut changes = self.node.changes();
        let empty = async {
            while self.node.snapshot().await.is_ok_and(|it| !is_empty(&it)) {
                changes.next().await;
            }
        };
        if time::timeout(within, empty).await.is_ok() {
            return Ok(());
        }
        let left = self.node.snapshot().await.map_or_else(|ended| ended.to_string(), |it| left(&it));
        Err(format!("after {within:?} there is still {left}").into())
    }

    /// A volume as `expected.json` has it.
    fn volume(&self, volume: node::Volume) -> protocol::Volume {
        let node::Volume { name, path, mode, read_only, managed, relabel, .. } = volume;
        let path = path.map(|path| match path.strip_prefix(&self.root) {
            Ok(below) => format!("ROOT/{}", below.display()),
            Err(_) => path.display().to_string(),
        });
        let (path, device) = match mode {
            Mode::Filesystem => (path, None),
            Mode::Block => (None, path),
        };
        protocol::Volume { name: name.to_string(), path, device, readonly: read_only, managed, relabel }
    }
}

/// Whether what keeps a volume from being settled will not go away by itself: nobody tells the agent anything while it
/// waits.
fn is_at_rest(reasons: &[Reason]) -> bool {
    let tried = reasons.iter().any(|it| it.attempts >= TRIES);
    let stuck = reasons.iter().all(|it| matches!(it.waits_on, WaitsOn::Nothing | WaitsOn::Object(_)));
    tried || stuck
}

/// Whether nothing is here. Before all is known that was left by an earlier life, that is not known.
fn is_empty(snapshot: &Snapshot) -> bool {
    snapshot.synced && snapshot.volumes.is_empty() && snapshot.pods.is_empty() && snapshot.operations.is_empty()
}

/// What is left, and why.
fn left(snapshot: &Snapshot) -> String {
    let pods = snapshot.pods.iter().map(|it| format!("pod {}", it.name));
    let volumes = snapshot.volumes.iter().map(|it| {
        let reasons = it.reasons.iter().chain(it.mounts.iter().flat_map(|it| &it.reasons));
        let reasons: Vec<_> = reasons.map(|it| format!("{}: {}", it.code, it.text)).collect();
        format!("volume {} ({})", it.id, reasons.join("; "))
    });
    pods.chain(volumes).collect::<Vec<_>>().join(", ")
}

/// Gives tokens whose text tells what was asked for.
struct Tokens;

impl token::Provider for Tokens {
    fn token(&self, request: &token::Request, now: SystemTime) -> Result<token::Token, token::Error> {
        let token::Request { namespace, service_account, audiences, expiration_seconds, .. } = request;
        let text = format!("token/{namespace}/{service_account}/[{}]", audiences.join(","));
        let life = Duration::from_secs(u64::try_from(*expiration_seconds).unwrap_or_default());
        let expires = now.checked_add(life).unwrap_or(now);
        Ok(token::Token::new(&text, now, expires))
    }
}

/// Writes what happens to standard error, for whoever wonders why a case differs.
fn log(node: &Node, events: Events) {
    let mut changes = node.changes();
    std::thread::spawn(move || {
        let Ok(runtime) = runtime::Builder::new_current_thread().build() else { return };
        runtime.block_on(async {
            while let Some(change) = changes.next().await {
                events.note(&change);
                eprintln!("{change:?}");
            }
        });
    });
}
