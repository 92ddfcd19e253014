//! `windlass wait`: until the volumes of pods are mounted, or gone. It follows a watch and asks nothing twice, once the
//! daemon knows all there is.

mod ready;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Duration, Instant, timeout_at};
use windlass_api::view::{self, Metadata, PodPhase, WatchEvent, WatchKind};

use super::lookup;
use crate::args::{self, Goal, Look, Wait};
use crate::client::{self, Client};
use crate::exit::{self, Failure};
use crate::output::columns::mount_status;
use crate::output::lines::Lines;
use crate::output::{self, plain};

pub(crate) async fn run(command: &Wait, socket: Option<&Path>, _look: &Look) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let namespace = command.namespaces.one();
    if namespace.is_none() && !command.all {
        return Err(
            Failure::usage("--all-namespaces goes with --all: a pod's name says nothing of its namespace").into()
        );
    }
    // Whatever is no pod's name is never there, so it would be called unmounted, and released.
    if let Some(name) = command.pods.iter().find(|it| args::bare(it).contains('/')) {
        let hint = "`windlass get claims` shows what becomes of the volume of a claim";
        return Err(Failure::usage(format!("{:?} is no pod: only pods are waited for", plain(name)))
            .hints([hint.into()])
            .into());
    }
    // None is so far ahead that it never comes.
    let deadline = Instant::now().checked_add(command.timeout);
    // That a pod is not there, and which are all, is only known to a daemon that knows everything.
    if command.all || command.goal != Goal::Mounted {
        ready::all_known(&client, deadline).await?;
    }
    // A pod of which only its directory was found is in no namespace, and may be the one that is to go.
    let place = namespace.filter(|_| command.goal == Goal::Mounted);
    let mut watch = client.watch::<view::Pod>(&client::list(place, "pods")).await?;
    let mut waiting = Waiting::new(command.goal);
    // What is there has its own time: even a wait of no time at all looks.
    let looked = deadline.map(|it| it.max(Instant::now() + client::DEADLINE));
    loop {
        let Some(event) = in_time(looked, watch.next()).await else {
            return Err(client::Error::Silent { socket: client.socket().into() }.into());
        };
        let event = event?;
        if event.kind == WatchKind::Bookmark {
            break;
        }
        waiting.pods.take(event);
    }
    match namespace.filter(|_| !command.all) {
        Some(namespace) => {
            for name in &command.pods {
                waiting.add(Target::new(Some(namespace), args::bare(name), false));
            }
        }
        None => waiting.add_all(namespace),
    }
    if waiting.targets.is_empty() {
        let place = namespace.map(|it| format!(" in {it} namespace")).unwrap_or_default();
        return match command.goal {
            Goal::Mounted => Err(Failure::new(format!("no pods found{place}")).into()),
            Goal::Unmounted | Goal::Released => {
                output::note(&format!("No pods found{place}."));
                Ok(ExitCode::SUCCESS)
            }
        };
    }
    let progress = Progress::new();
    let mut named: Vec<usize> = (0..waiting.targets.len()).collect();
    loop {
        waiting.judge(&named, &progress)?;
        if waiting.late == 0 {
            progress.end();
            return Ok(ExitCode::SUCCESS);
        }
        progress.show(&waiting);
        let Some(event) = in_time(deadline, watch.next()).await else { break };
        named = waiting.take(event.inspect_err(|_| progress.end())?);
    }
    progress.end();
    waiting.tell_late(&client).await;
    Ok(ExitCode::from(exit::NOT_YET))
}

/// `None` if it takes longer.
async fn in_time<T>(deadline: Option<Instant>, what: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, what).await.ok(),
        None => Some(what.await),
    }
}

/// The pods of the daemon as they are now. Two can have one name for a while: one that comes, and one that goes.
#[derive(Default)]
struct Pods(BTreeMap<Metadata, view::Pod>);

impl Pods {
    fn take(&mut self, event: WatchEvent<view::Pod>) {
        let Some(pod) = event.object else { return };
        match event.kind {
            WatchKind::Added | WatchKind::Modified => {
                if let (Some(_), Some(uid)) = (&pod.metadata.namespace, &pod.metadata.uid) {
                    // It has got a name, and was called by its UID before.
                    self.0.remove(&Metadata { namespace: None, name: uid.clone(), uid: Some(uid.clone()) });
                }
                self.0.insert(pod.metadata.clone(), pod);
            }
            WatchKind::Deleted => drop(self.0.remove(&pod.metadata)),
            WatchKind::Bookmark => {}
        }
    }

    /// Those of this name; also one of which only its directory was found, and which is called by its UID.
    fn of<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a view::Pod> {
        let nameless = self.called(None, &target.name).filter(|_| target.namespace.is_some());
        self.called(target.namespace.as_deref(), &target.name).chain(nameless)
    }

    fn called(&self, namespace: Option<&str>, name: &str) -> impl Iterator<Item = &view::Pod> {
        let first = Metadata { namespace: namespace.map(Into::into), name: name.into(), uid: None };
        let after = self.0.range(first.clone()..).map(|(_, pod)| pod);
        after.take_while(move |it| it.metadata.name == first.name && it.metadata.namespace == first.namespace)
    }

    /// One of which only its directory was found, and of which something is left. It may be of any name.
    fn nameless(&self) -> Option<&view::Pod> {
        let named = Metadata { namespace: Some(String::new()), ..Metadata::default() };
        self.0.range(..named).map(|(_, pod)| pod).find(|it| !has_nothing(it))
    }
}

/// A pod that is waited for.
struct Target {
    namespace: Option<String>,
    name: String,
    /// It is one of all pods, so one that goes is not waited for any more.
    may_go: bool,
    /// It was here by its name, so it is none of those of which only their directory was found.
    seen: bool,
    met: bool,
}

impl Target {
    fn new(namespace: Option<&str>, name: &str, may_go: bool) -> Self {
        Self { namespace: namespace.map(Into::into), name: name.into(), may_go, seen: false, met: false }
    }
}

struct Waiting {
    goal: Goal,
    pods: Pods,
    targets: Vec<Target>,
    /// The targets of each name, in whatever namespace.
    by_name: HashMap<String, Vec<usize>>,
    /// So many targets are not met.
    late: usize,
}

impl Waiting {
    fn new(goal: Goal) -> Self {
        Self { goal, pods: Pods::default(), targets: Vec::new(), by_name: HashMap::new(), late: 0 }
    }

    fn add(&mut self, mut target: Target) {
        let seen = self.pods.of(&target).next().is_some();
        target.seen = seen;
        self.by_name.entry(target.name.clone()).or_default().push(self.targets.len());
        self.targets.push(target);
        self.late += 1;
    }

    /// All pods of the namespace for which the goal makes sense, and those that may be of any.
    fn add_all(&mut self, namespace: Option<&str>) {
        let mut names: Vec<(Option<String>, String)> = Vec::new();
        for pod in self.pods.0.values() {
            let Metadata { namespace: of, name, .. } = &pod.metadata;
            let here = namespace.is_none() || of.is_none() || of.as_deref() == namespace;
            if here && (self.goal != Goal::Mounted || pod.is_mounted() || is_coming(pod)) {
                names.push((of.clone(), name.clone()));
            }
        }
        // They are in order.
        names.dedup();
        for (namespace, name) in names {
            self.add(Target::new(namespace.as_deref(), &name, true));
        }
    }

    /// The targets that may be met by this step.
    fn take(&mut self, event: WatchEvent<view::Pod>) -> Vec<usize> {
        let Some(Metadata { namespace, name, .. }) = event.object.as_ref().map(|it| it.metadata.clone()) else {
            return Vec::new();
        };
        let some_nameless = self.pods.nameless().is_some();
        self.pods.take(event);
        let mut named = self.by_name.get(&name).cloned().unwrap_or_default();
        named.retain(|it| namespace.is_none() || self.targets[*it].namespace == namespace);
        for target in &named {
            self.targets[*target].seen = true;
        }
        match some_nameless && self.pods.nameless().is_none() {
            true => (0..self.targets.len()).collect(),
            false => named,
        }
    }

    /// Tells of those of these targets that have reached the goal now.
    fn judge(&mut self, targets: &[usize], progress: &Progress) -> io::Result<()> {
        for index in targets {
            let target = &mut self.targets[*index];
            if target.met {
                continue;
            }
            let met = match self.goal {
                Goal::Mounted => self.pods.of(target).any(view::Pod::is_mounted),
                Goal::Unmounted => {
                    self.pods.of(target).all(has_nothing) && (target.seen || self.pods.nameless().is_none())
                }
                Goal::Released => {
                    self.pods.of(target).all(is_released) && (target.seen || self.pods.nameless().is_none())
                }
            };
            let left = self.goal == Goal::Mounted && target.may_go && !self.pods.of(target).any(is_coming);
            if !met && !left {
                continue;
            }
            target.met = true;
            self.late -= 1;
            let name = plain(&target.name);
            match (met, self.goal) {
                (true, Goal::Mounted) => progress.around(|| output::data(&format!("pod/{name} mounted\n")))?,
                (true, Goal::Unmounted) => progress.around(|| output::data(&format!("pod/{name} unmounted\n")))?,
                (true, Goal::Released) => progress.around(|| output::data(&format!("pod/{name} released\n")))?,
                (false, _) => progress.around(|| output::note(&format!("pod/{name} goes, and is not waited for"))),
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
                Goal::Released => ("released", self.why_not_gone(target)),
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
        let is_left = |it: &&view::Pod| if self.goal == Goal::Released { !is_released(it) } else { !has_nothing(it) };
        let Some(pod) = self.pods.of(target).find(is_left) else {
            let other = plain(&self.pods.nameless()?.metadata.name);
            return Some(format!("it may be pod {other}, of which only the directory is known and which is not gone"));
        };
        if is_coming(pod) {
            return Some(match pod.status.phase {
                PodPhase::Found => "whether it is wanted is not known yet: not everything has been read".into(),
                _ => "it is still wanted: take its manifest away".into(),
            });
        }
        if let (true, Some(volume)) = (has_nothing(pod), pod.status.releasing.first()) {
            let volume = plain(volume);
            return Some(format!(
                "volume {volume} is still on this node: `windlass describe volume {volume}` says why"
            ));
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
            let volume = volumes.iter().find(|it| self.goal != Goal::Mounted || !it.mounted)?;
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
        PodPhase::Held | PodPhase::Ending | PodPhase::Finished | PodPhase::Leaving | PodPhase::Releasing => false,
    }
}

/// It has run to its end or is gone, and nothing of it is left but its name. One that leaves has its directory at least.
fn has_nothing(pod: &view::Pod) -> bool {
    matches!(pod.status.phase, PodPhase::Finished | PodPhase::Releasing) && pod.status.volumes.is_empty()
}

/// The same, and so it is with the volumes that it alone had.
fn is_released(pod: &view::Pod) -> bool {
    has_nothing(pod) && pod.status.releasing.is_empty()
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
        if self.0.is_hidden() {
            return;
        }
        let met = waiting.targets.len() - waiting.late;
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
