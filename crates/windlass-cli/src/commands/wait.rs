//! `windlass wait`: until the volumes of pods are mounted, or gone. It follows a watch and asks nothing twice.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    path::Path,
    process::ExitCode,
};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Duration, Instant, timeout_at};
use windlass::view::{self, Metadata, PodPhase, WatchEvent, WatchKind};

use super::lookup;
use crate::{
    args::{self, Goal, Look, Wait},
    client::{self, Client},
    exit::{self, Failure},
    output::{
        self,
        columns::{is_mounted, mount_status},
        lines::Lines,
        plain,
    },
};

pub(crate) async fn run(command: &Wait, socket: Option<&Path>, _look: &Look) -> anyhow::Result<ExitCode> {
    let client = Client::new(socket);
    let namespace = command.namespaces.one();
    if namespace.is_none() && !command.all {
        return Err(
            Failure::usage("--all-namespaces goes with --all: a pod's name says nothing of its namespace").into()
        );
    }
    let started = Instant::now();
    let deadline = started.checked_add(command.timeout);
    let mut watch = client.watch::<view::Pod>(&client::list(namespace, "pods")).await?;
    let mut waiting = Waiting { goal: command.goal, pods: Pods::default(), targets: Vec::new() };
    // What is there has its own time: even a wait of no time at all looks.
    let looked = started + command.timeout.max(client::DEADLINE);
    loop {
        let Ok(event) = timeout_at(looked, watch.next()).await else { return Err(client.silent().into()) };
        if !waiting.pods.take(event?) {
            break;
        }
    }
    waiting.targets = match namespace.filter(|_| !command.all) {
        Some(namespace) => {
            let target = |it: &String| Target::new(Some(namespace), args::bare(it), false);
            command.pods.iter().map(target).collect()
        }
        None => waiting.all(),
    };
    if waiting.targets.is_empty() {
        let place = namespace.map(|it| format!(" in {it} namespace")).unwrap_or_default();
        return match command.goal {
            Goal::Mounted => Err(Failure::new(format!("no pods found{place}")).into()),
            Goal::Unmounted => {
                output::note(&format!("No pods found{place}."));
                Ok(ExitCode::SUCCESS)
            }
        };
    }
    let progress = Progress::new();
    loop {
        waiting.look(&progress)?;
        if waiting.targets.iter().all(|it| it.met) {
            progress.end();
            return Ok(ExitCode::SUCCESS);
        }
        progress.show(&waiting);
        let event = match deadline {
            Some(deadline) => match timeout_at(deadline, watch.next()).await {
                Ok(event) => event,
                Err(_) => break,
            },
            // So far ahead that it never comes.
            None => watch.next().await,
        };
        waiting.pods.take(event.inspect_err(|_| progress.end())?);
    }
    progress.end();
    waiting.tell_late(&client).await;
    Ok(ExitCode::from(exit::NOT_YET))
}

/// The pods of the daemon as they are now. Two can have one name for a while: one that comes, and one that goes.
#[derive(Default)]
struct Pods(BTreeMap<Metadata, view::Pod>);

impl Pods {
    /// False when all that was there at the beginning is known.
    fn take(&mut self, event: WatchEvent<view::Pod>) -> bool {
        match (event.kind, event.object) {
            (WatchKind::Bookmark, _) => return false,
            (WatchKind::Added | WatchKind::Modified, Some(pod)) => drop(self.0.insert(pod.metadata.clone(), pod)),
            (WatchKind::Deleted, Some(pod)) => drop(self.0.remove(&pod.metadata)),
            (WatchKind::Added | WatchKind::Modified | WatchKind::Deleted, None) => {}
        }
        true
    }

    fn of<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a view::Pod> {
        self.0.values().filter(|it| it.metadata.name == target.name && it.metadata.namespace == target.namespace)
    }
}

/// A pod that is waited for.
struct Target {
    namespace: Option<String>,
    name: String,
    /// It is one of all pods, so one that goes is not waited for any more.
    may_go: bool,
    met: bool,
}

impl Target {
    fn new(namespace: Option<&str>, name: &str, may_go: bool) -> Self {
        Self { namespace: namespace.map(Into::into), name: name.into(), may_go, met: false }
    }
}

struct Waiting {
    goal: Goal,
    pods: Pods,
    targets: Vec<Target>,
}

impl Waiting {
    /// All pods for which the goal makes sense.
    fn all(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = Vec::new();
        for pod in self.pods.0.values() {
            let Metadata { namespace, name, .. } = &pod.metadata;
            let known = targets.iter().any(|it| it.name == *name && it.namespace == *namespace);
            if !known && (self.goal == Goal::Unmounted || is_mounted(pod) || is_coming(pod)) {
                targets.push(Target::new(namespace.as_deref(), name, true));
            }
        }
        targets
    }

    /// Tells of the pods that have reached the goal now.
    fn look(&mut self, progress: &Progress) -> io::Result<()> {
        for target in self.targets.iter_mut().filter(|it| !it.met) {
            let met = match self.goal {
                Goal::Mounted => self.pods.of(target).any(is_mounted),
                Goal::Unmounted => self.pods.of(target).all(has_nothing),
            };
            let left = self.goal == Goal::Mounted && target.may_go && !self.pods.of(target).any(is_coming);
            if met {
                target.met = true;
                let word = match self.goal {
                    Goal::Mounted => "mounted",
                    Goal::Unmounted => "unmounted",
                };
                progress.around(|| output::data(&format!("pod/{} {word}\n", plain(&target.name))))?;
            } else if left {
                target.met = true;
                progress.around(|| output::note(&format!("pod/{} goes, and is not waited for", plain(&target.name))));
            }
        }
        Ok(())
    }

    /// The pods that are not there yet, each with the deepest reason.
    async fn tell_late(&self, client: &Client) {
        let late = self.targets.iter().filter(|it| !it.met);
        for target in late {
            let (goal, why) = match self.goal {
                Goal::Mounted => ("mounted", self.why_not_mounted(target)),
                Goal::Unmounted => ("unmounted", self.why_not_gone(target)),
            };
            let name = plain(&target.name);
            let Some(why) = why else {
                output::note(&format!("error: timed out waiting for pod/{name} to be {goal}: there is no such pod"));
                let namespace = target.namespace.as_deref().unwrap_or_default();
                if let Ok(unknown) = lookup::unknown(client, namespace, &target.name).await {
                    unknown.tell_hints();
                }
                continue;
            };
            output::note(&format!("error: timed out waiting for pod/{name} to be {goal}: {why}"));
        }
    }

    /// `None` if there is no such pod.
    fn why_not_mounted(&self, target: &Target) -> Option<String> {
        let pod = self.pods.of(target).max_by_key(|it| is_coming(it))?;
        let stuck = pod.status.volumes.iter().find(|it| !it.mounted);
        Some(stuck.map_or_else(|| format!("it is {:?}", pod.status.phase), reason))
    }

    fn why_not_gone(&self, target: &Target) -> Option<String> {
        let pod = self.pods.of(target).next()?;
        if is_coming(pod) {
            return Some("it is still wanted: take its manifest away".into());
        }
        // What is stuck tells more than what is mounted because of it.
        let stuck = pod.status.volumes.iter().find(|it| !it.reasons.is_empty()).or(pod.status.volumes.first());
        Some(stuck.map_or_else(|| format!("it is {:?}", pod.status.phase), reason))
    }

    /// The first pod that is not there yet, and why, in a few words.
    fn first_late(&self) -> Option<String> {
        let target = self.targets.iter().find(|it| !it.met)?;
        let stuck = |pod: &view::Pod| {
            let volumes = &pod.status.volumes;
            let volume = volumes.iter().find(|it| self.goal == Goal::Unmounted || !it.mounted)?;
            Some(format!("{} {}", plain(&volume.volume), plain(mount_status(volume))))
        };
        let why = match self.pods.of(target).max_by_key(|it| is_coming(it)) {
            Some(pod) => stuck(pod).unwrap_or_else(|| format!("{:?}", pod.status.phase)),
            None => "not there yet".into(),
        };
        Some(format!("{}: {why}", plain(&target.name)))
    }
}

fn reason(volume: &view::MountStatus) -> String {
    let name = plain(&volume.volume);
    match volume.reasons.last() {
        Some(deepest) => format!("volume {name}: {}: {}", plain(&deepest.code), plain(&deepest.message)),
        None => format!("volume {name}: {}", plain(&volume.state)),
    }
}

/// It is to have its volumes, or may be.
fn is_coming(pod: &view::Pod) -> bool {
    match pod.status.phase {
        PodPhase::Found | PodPhase::Wanted => true,
        PodPhase::Ending | PodPhase::Finished | PodPhase::Leaving => false,
    }
}

/// It has run to its end or is gone, and nothing of it is left but its name.
fn has_nothing(pod: &view::Pod) -> bool {
    matches!(pod.status.phase, PodPhase::Finished | PodPhase::Leaving) && pod.status.volumes.is_empty()
}

/// How far it is, for a person who waits at a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(match Lines::of_locale() {
                Lines::Unicode => style,
                Lines::Ascii => style.tick_chars("-\\|/ "),
            });
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    fn show(&self, waiting: &Waiting) {
        let met = waiting.targets.iter().filter(|it| it.met).count();
        let late = waiting.first_late().unwrap_or_default();
        self.0.set_message(format!("{met}/{} pods; {late}", waiting.targets.len()));
    }

    /// Prints something without tearing the line.
    fn around<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    fn end(&self) {
        self.0.finish_and_clear();
    }
}
