//! The language of the scenarios: facts in, a trace out. Only this file knows the engine's API.
//!
//! ```text
//! volume disk: attach=controller stage driver=ebs      declares a volume; see `declare`
//! pod a wants disk, logs=other                         a pod with its volumes, by outer name where it differs
//! pod a wants disk unknown "PVC is not bound"          a volume that could not be looked up (or: invalid "…")
//! pod a stopping | finished | running | gone | gone but may run
//! source s complete | lost                             disk read        attachments complete
//! driver ebs registered | unregistered                 object Secret/x changed
//! attached disk | detached disk | attach of disk failed "…" [exhausted]
//! reported                                             the set of volumes in use, as it is now
//! mount of disk in a vanished | replaced | seen        stage of disk vanished | replaced
//! found disk in a proven | intent | other boot | vanished       found stage of disk …
//! found attached disk | found intent to attach disk | found unreadable disk in a | found pod a
//! #1 done | refused "…" | lost "…"                     how an operation ended, with [for want of Secret/x]
//! #1 grown to 20 | in use | infeasible | unsupported   how an expansion ended
//! wait 1 for a mounted | at last | unmounted | gone, 2m
//! after 500ms                                          time passes
//! ? mounted a | status a | explain disk in a | why disk | in use | attached disk | groups a | possibly a | synced | odd | deadline
//! ```

use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};
use windlass_core::{
    Config, Engine, Event,
    event::{Attachment, Containers, Found, Goal, Place, Record, Wait},
    expand::Size,
    ids::{OperationId, PodUid, Time, Version, VolumeId, WaiterId},
    label::Wish,
    notice::{Notice, Verdict},
    operation::{Action, Cause, Done, Earlier, Kind, Operation, Outcome, Proof, Trouble},
    reason::Reason,
    spec::{
        Access, Attach, Capabilities, Concurrency, Identity, Mode, Phase, Pod, PodVolume, Refresh,
        Sharing, Use, VolumeSpec, Want,
    },
};

/// Tells the facts to an engine whose start is over, and returns what it asked for and answered.
pub(crate) fn run(script: &str) -> String {
    let mut told = Told::new(Config {
        sources: vec!["s".into()],
        ..config()
    });
    for line in ["disk read", "source s complete"] {
        told.line(line);
    }
    told.trace.clear();
    told.tell(script)
}

/// Tells the facts to an engine that has just started, with one source and an attacher.
pub(crate) fn start(script: &str) -> String {
    Told::new(Config {
        sources: vec!["s".into()],
        attacher: true,
        ..config()
    })
    .tell(script)
}

/// As [`run`], with finished pods keeping their volumes.
pub(crate) fn run_keeping_terminated(script: &str) -> String {
    let config = Config {
        sources: vec![],
        keep_terminated: true,
        ..config()
    };
    Told::new(config).tell(&format!("disk read\nsource s complete\n{script}"))
}

fn config() -> Config {
    Config {
        sources: vec![],
        boot: "this boot".into(),
        attacher: false,
        keep_terminated: false,
        planning: Default::default(),
        seed: 0,
    }
}

struct Told {
    engine: Engine,
    now: Time,
    volumes: BTreeMap<String, Arc<VolumeSpec>>,
    uses: BTreeMap<String, (Access, u64, Wish)>,
    pods: BTreeMap<String, Pod>,
    running: BTreeMap<u64, Operation>,
    mounts: u64,
    proofs: BTreeMap<Place, Proof>,
    trace: String,
}

impl Told {
    fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config),
            now: Time(0),
            volumes: BTreeMap::new(),
            uses: BTreeMap::new(),
            pods: BTreeMap::new(),
            running: BTreeMap::new(),
            mounts: 0,
            proofs: BTreeMap::new(),
            trace: String::new(),
        }
    }

    fn tell(mut self, script: &str) -> String {
        for line in script
            .lines()
            .map(str::trim)
            .filter(|it| !it.is_empty() && !it.starts_with("--"))
        {
            self.line(line);
        }
        self.trace
    }

    fn line(&mut self, line: &str) {
        let (line, text) = match line.split_once('"') {
            Some((before, rest)) => {
                let (text, after) = rest.split_once('"').expect("a closing quote");
                (format!("{before}{after}"), text)
            }
            None => (line.to_owned(), "it failed"),
        };
        if let Some(question) = line.strip_prefix("? ") {
            let answer = self.answer(question.trim());
            writeln!(self.trace, "{}: {answer}", question.trim()).unwrap();
            return;
        }
        if let Some((name, words)) = line
            .strip_prefix("volume ")
            .and_then(|it| it.split_once(':'))
        {
            self.declare(name.trim(), words);
            return;
        }
        if let Some(time) = line.strip_prefix("after ") {
            self.now = self.now + duration(time);
            return self.event(Event::TimePassed);
        }
        let event = self.fact(&line, text);
        self.event(event);
    }

    fn event(&mut self, event: Event) {
        self.engine.handle(self.now, event);
        while let Some(operation) = self.engine.next_operation() {
            writeln!(self.trace, "{} {}", operation.id, describe(&operation)).unwrap();
            self.running.insert(operation.id.0, operation);
        }
        while let Some(notice) = self.engine.next_notice() {
            match notice {
                Notice::WaitEnded {
                    waiter,
                    result: Ok(()),
                } => {
                    writeln!(self.trace, "wait {} ended well", waiter.0).unwrap();
                }
                Notice::WaitEnded {
                    waiter,
                    result: Err(error),
                } => {
                    writeln!(self.trace, "wait {} failed: {error}", waiter.0).unwrap();
                }
                Notice::PodReleased(uid) => writeln!(self.trace, "pod {uid} released").unwrap(),
                Notice::Synced => writeln!(self.trace, "synced").unwrap(),
                Notice::ExpansionEnded { volume, verdict } => {
                    let verdict = match verdict {
                        Verdict::Grown { size_bytes } => format!("grown to {size_bytes}"),
                        Verdict::Failed(it) => format!("failed: {}", it.text),
                        Verdict::Infeasible(it) => format!("infeasible: {}", it.text),
                        Verdict::InUse(it) => format!("in use: {}", it.text),
                    };
                    writeln!(self.trace, "expansion of {volume} {verdict}").unwrap();
                }
                Notice::InUseChanged { .. } | Notice::VolumeChanged { .. } => {}
            }
        }
    }

    /// `attach=node|controller stage own driver=d plugin=p name=inner block device expand size=HAS/WANTED refresh
    /// every=1m overlap=releases|pods rwop ro revision=N label=L unenforced gid=G patience=1m`
    fn declare(&mut self, name: &str, words: &str) {
        let mut spec = VolumeSpec {
            id: name.into(),
            plugin: "test/plugin".into(),
            driver: None,
            inner_name: name.into(),
            capabilities: Capabilities {
                identity: Identity::Shared,
                ..Capabilities::default()
            },
            mode: Mode::Filesystem,
            sharing: Sharing::Shared,
            group: None,
            size: Size::default(),
        };
        let mut access = Access::ReadWrite;
        let mut revision = 0;
        let mut label = Wish {
            original: None,
            enforced: true,
        };
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let capabilities = &mut spec.capabilities;
            match (key, value) {
                ("attach", "node") => capabilities.attach = Attach::ByNode,
                ("attach", "controller") => capabilities.attach = Attach::ByController,
                ("stage", _) => capabilities.stage = true,
                ("own", _) => capabilities.identity = Identity::PerPod,
                ("driver", driver) => spec.driver = Some(driver.into()),
                ("plugin", plugin) => spec.plugin = plugin.into(),
                ("name", inner) => spec.inner_name = inner.into(),
                ("block", _) => capabilities.block = true,
                ("device", _) => spec.mode = Mode::Block,
                ("expand", _) => capabilities.expand = true,
                ("size", sizes) => {
                    let (has, wanted) = sizes.split_once('/').expect("size=HAS/WANTED");
                    spec.size = Size {
                        recorded_bytes: has.parse().ok(),
                        wanted_bytes: wanted.parse().ok(),
                    };
                }
                ("refresh", _) => capabilities.refresh = Refresh::OnChange,
                ("every", period) => capabilities.refresh = Refresh::Every(duration(period)),
                ("overlap", "releases") => capabilities.concurrency = Concurrency::ReleasesOverlap,
                ("overlap", "pods") => capabilities.concurrency = Concurrency::PodsOverlap,
                ("rwop", _) => spec.sharing = Sharing::OnePod,
                ("ro", _) => access = Access::ReadOnly,
                ("revision", number) => revision = number.parse().expect("a number"),
                ("label", text) => label.original = Some(text.into()),
                ("unenforced", _) => label.enforced = false,
                ("gid", text) => spec.group = Some(text.into()),
                ("patience", time) => capabilities.patience = duration(time),
                _ => panic!("no such word for a volume: {word}"),
            }
        }
        self.volumes.insert(name.to_owned(), Arc::new(spec));
        self.uses.insert(name.to_owned(), (access, revision, label));
    }

    fn fact(&mut self, line: &str, text: &str) -> Event {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["pod", pod, "wants", ..] => {
                let wants = line.split_once(" wants").expect("wants").1;
                self.wants(pod, wants, text)
            }
            ["pod", pod, "gone"] => gone(pod, Containers::Stopped),
            ["pod", pod, "gone", "but", "may", "run"] => gone(pod, Containers::MayRun),
            ["pod", pod, phase] => {
                let phase = match phase {
                    "running" => Phase::Running,
                    "stopping" => Phase::Stopping,
                    "finished" => Phase::Finished,
                    _ => panic!("no such phase: {phase}"),
                };
                let pod = self
                    .pods
                    .entry(pod.to_owned())
                    .or_insert_with(|| empty_pod(pod));
                pod.phase = phase;
                Event::PodApplied(pod.clone())
            }
            ["pod", pod, "version", version] => {
                let pod = self.pods.get_mut(pod).expect("a pod");
                pod.version = Version(version.parse().expect("a number"));
                Event::PodApplied(pod.clone())
            }
            ["pod", pod, "has", "group", group] => {
                let pod = self
                    .pods
                    .entry(pod.to_owned())
                    .or_insert_with(|| empty_pod(pod));
                pod.groups.push(group.parse().expect("a number"));
                Event::PodApplied(pod.clone())
            }
            ["source", source, "complete"] => Event::SourceComplete {
                source: source.into(),
                version: Version::NONE,
                containers: Containers::Stopped,
            },
            ["source", source, "complete", "in", version] => Event::SourceComplete {
                source: source.into(),
                version: Version(version.parse().expect("a number")),
                containers: Containers::Stopped,
            },
            ["source", source, "lost"] => Event::SourceLost {
                source: source.into(),
                text: text.into(),
            },
            ["disk", "read"] => Event::DiskRead,
            ["attachments", "complete"] => Event::AttachmentsComplete,
            ["driver", driver, "registered"] => Event::DriverRegistered(driver.into()),
            ["driver", driver, "unregistered"] => Event::DriverUnregistered(driver.into()),
            ["object", object, "changed"] => Event::ObjectChanged(object.into()),
            ["attached", volume] => attachment(
                volume,
                Attachment::Attached {
                    device: Some("/dev/x".into()),
                },
            ),
            ["detached", volume] => attachment(volume, Attachment::Detached),
            ["attach", "of", volume, "failed"] => attachment(
                volume,
                Attachment::Failed {
                    text: text.into(),
                    exhausted: false,
                },
            ),
            ["attach", "of", volume, "failed", "exhausted"] => attachment(
                volume,
                Attachment::Failed {
                    text: text.into(),
                    exhausted: true,
                },
            ),
            ["reported"] => {
                let version = self.engine.volumes_in_use().map_or(0, |it| it.version);
                Event::InUseReported { version }
            }
            ["reported", "version", version] => Event::InUseReported {
                version: version.parse().expect("a number"),
            },
            ["mount", "of", volume, "in", pod, change] => {
                self.mount(Place::Publish(volume.into(), pod.into()), change)
            }
            ["stage", "of", volume, change] => self.mount(Place::Stage(volume.into()), change),
            ["found", "attached", volume] => Event::FoundAttached {
                spec: self.spec(volume),
                device: Some("/dev/x".into()),
            },
            ["found", "intent", "to", "attach", volume] => Event::FoundAttached {
                spec: self.spec(volume),
                device: None,
            },
            ["found", "unreadable", volume, "in", pod] => {
                let spec = self.spec(volume);
                Event::FoundUnreadable {
                    pod: pod.into(),
                    plugin: spec.plugin.clone(),
                    inner_name: spec.inner_name.clone(),
                }
            }
            ["found", "pod", pod] => Event::FoundPod(pod.into()),
            ["found", "stage", "of", volume, ref how @ ..] => {
                let place = Place::Stage(volume.into());
                Event::FoundStaged(self.found(volume, place, &how.join(" ")))
            }
            ["found", volume, "in", pod, ref how @ ..] => {
                let place = Place::Publish(volume.into(), pod.into());
                Event::FoundPublished {
                    pod: pod.into(),
                    found: self.found(volume, place, &how.join(" ")),
                }
            }
            ["wait", waiter, "for", pod, ref goal @ .., until] => Event::WaitStarted(Wait {
                waiter: WaiterId(waiter.parse().expect("a number")),
                pod: pod.into(),
                goal: match goal.join(" ").trim_end_matches(',') {
                    "mounted" => Goal::Mounted,
                    "at last" => Goal::MountedAtLast,
                    "unmounted" => Goal::Unmounted,
                    "gone" => Goal::Gone,
                    other => panic!("no such goal: {other}"),
                },
                until: self.now + duration(until),
            }),
            ["wait", waiter, "cancelled"] => {
                Event::WaitCancelled(WaiterId(waiter.parse().expect("a number")))
            }
            [number, ref how @ ..] if number.starts_with('#') => {
                let id = number[1..].parse().expect("a number");
                Event::OperationEnded {
                    id: OperationId(id),
                    outcome: self.outcome(id, &how.join(" "), text),
                }
            }
            _ => panic!("no such fact: {line}"),
        }
    }

    /// `disk, logs=other` or `disk unknown` or `disk invalid`; the text comes from the line's quotes.
    fn wants(&mut self, name: &str, wants: &str, text: &str) -> Event {
        let mut volumes = Vec::new();
        for want in wants.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let words: Vec<&str> = want.split_whitespace().collect();
            let (outer, volume) = words[0].split_once('=').unwrap_or((words[0], words[0]));
            let want = match words.get(1) {
                Some(&"unknown") => Want::Unknown {
                    text: text.into(),
                    waits_on: None,
                },
                Some(&"invalid") => Want::Invalid { text: text.into() },
                Some(other) => panic!("no such look-up: {other}"),
                None => {
                    let (access, revision, label) = self.uses[volume].clone();
                    Want::Volume(Use {
                        spec: self.spec(volume),
                        access,
                        revision,
                        label,
                    })
                }
            };
            volumes.push(PodVolume {
                name: outer.into(),
                want,
            });
        }
        let pod = self
            .pods
            .entry(name.to_owned())
            .or_insert_with(|| empty_pod(name));
        pod.volumes = volumes;
        Event::PodApplied(pod.clone())
    }

    fn spec(&self, volume: &str) -> Arc<VolumeSpec> {
        self.volumes
            .get(volume)
            .unwrap_or_else(|| panic!("volume {volume} is not declared"))
            .clone()
    }

    fn new_proof(&mut self) -> Proof {
        self.mounts += 1;
        Proof {
            mount_id: self.mounts,
            device: self.mounts,
            root: 1,
            kind: 1,
        }
    }

    fn mount(&mut self, place: Place, change: &str) -> Event {
        let proof = match change {
            "vanished" => None,
            "replaced" => Some(self.new_proof()),
            "seen" => self.proofs.get(&place).copied(),
            other => panic!("no such change: {other}"),
        };
        Event::MountSeen { place, proof }
    }

    fn found(&mut self, volume: &str, place: Place, how: &str) -> Found {
        let proof = self.new_proof();
        self.proofs.insert(place, proof);
        let revision = self.uses[volume].1;
        let (boot, seen) = match how {
            "proven" => ("this boot", Some(proof)),
            "other boot" => ("another boot", None),
            "vanished" => ("this boot", None),
            "intent" => ("", None),
            other => panic!("no such find: {other}"),
        };
        let record = match boot {
            "" => Record::Intent,
            boot => Record::Proven {
                boot: boot.into(),
                proof,
                revision,
            },
        };
        let label = self.uses[volume].2.effective().cloned();
        Found {
            spec: self.spec(volume),
            record,
            seen,
            label,
        }
    }

    fn outcome(&mut self, id: u64, how: &str, text: &str) -> Outcome {
        let (how, cause) = match how.split_once(" for want of ") {
            Some((how, object)) => (how, Cause::Object(object.into())),
            None => (how, Cause::Other),
        };
        let trouble = |cause| Trouble {
            cause,
            text: text.into(),
        };
        match how {
            "done" => Outcome::Done(self.done(id)),
            "refused" => Outcome::Refused(trouble(cause)),
            "lost" => Outcome::Unknown(trouble(cause)),
            "refused without driver" => Outcome::Refused(trouble(Cause::Driver)),
            "in use" => Outcome::Refused(trouble(Cause::InUse)),
            "infeasible" => Outcome::Refused(trouble(Cause::Infeasible)),
            "unsupported" => Outcome::Refused(trouble(Cause::NotSupported)),
            "gone" => Outcome::Done(Done::Gone),
            other => match other.strip_prefix("grown to ") {
                Some(size) => Outcome::Done(Done::Expanded {
                    size_bytes: size.parse().expect("a number"),
                }),
                None => panic!("no such outcome: {other}"),
            },
        }
    }

    fn done(&mut self, id: u64) -> Done {
        let Some(operation) = self.running.remove(&id) else {
            return Done::Gone;
        };
        match &operation.action {
            Action::Attach => Done::Attached {
                device: Some("/dev/x".into()),
            },
            Action::Stage { .. } => {
                let proof = self.new_proof();
                self.proofs
                    .insert(Place::Stage(operation.volume().clone()), proof);
                Done::Mounted(proof)
            }
            Action::Publish { pod, .. } => {
                let proof = self.new_proof();
                self.proofs.insert(
                    Place::Publish(operation.volume().clone(), pod.clone()),
                    proof,
                );
                Done::Mounted(proof)
            }
            Action::Expand { to_bytes, .. } => Done::Expanded {
                size_bytes: *to_bytes,
            },
            Action::Unpublish { .. } | Action::Unstage | Action::Detach => Done::Gone,
        }
    }

    fn answer(&self, question: &str) -> String {
        let words: Vec<&str> = question.split_whitespace().collect();
        match words[..] {
            ["mounted", pod] => {
                let mounted = self.engine.mounted_volumes(&pod.into());
                let one = |(name, it): (_, &windlass_core::answer::MountedVolume)| {
                    let access = if it.access == Access::ReadOnly {
                        " read-only"
                    } else {
                        ""
                    };
                    format!("{name}={}{access}", it.volume)
                };
                list(mounted.iter().map(one))
            }
            ["status", pod] => match self.engine.pod_status(&pod.into()) {
                None => "not known".to_owned(),
                Some(it) => format!(
                    "unmounted [{}], unattached [{}], unprocessed [{}], errors [{}]",
                    list(it.unmounted),
                    list(it.unattached),
                    list(it.unprocessed),
                    it.errors.join("; ")
                ),
            },
            ["explain", volume, "in", pod] => {
                chain(&self.engine.explain(&pod.into(), &volume.into()))
            }
            ["why", volume] => chain(&self.engine.explain_volume(&volume.into())),
            ["in", "use"] => match self.engine.volumes_in_use() {
                None => "not to be reported yet".to_owned(),
                Some(it) => list(it.volumes),
            },
            ["attached", volume] => self.engine.volume_attached(&volume.into()).to_string(),
            ["groups", pod] => list(self.engine.extra_groups(&pod.into())),
            ["possibly", pod] => self
                .engine
                .has_possibly_mounted_volumes(&pod.into())
                .to_string(),
            ["synced"] => self.engine.states_synced().to_string(),
            ["odd"] => list(
                self.engine
                    .oddities()
                    .iter()
                    .map(|(it, _)| format!("{it:?}")),
            ),
            ["deadline"] => match self.engine.deadline() {
                None => "none".to_owned(),
                Some(at) => format!("in {:?}", at.since(self.now)),
            },
            ["state", volume] => self.state(&volume.into()),
            _ => panic!("no such question: {question}"),
        }
    }

    fn state(&self, volume: &VolumeId) -> String {
        let snapshot = self.engine.snapshot();
        let Some(it) = snapshot.volumes.iter().find(|it| it.id == *volume) else {
            return "not here".to_owned();
        };
        let mounts = it
            .mounts
            .iter()
            .map(|it| format!("{} {:?}", it.pod, it.publish));
        format!(
            "attach {:?}, stage {:?}, {}",
            it.attach,
            it.stage,
            list(mounts)
        )
    }
}

fn describe(operation: &Operation) -> String {
    let volume = operation.volume();
    let again = |after: &Earlier| match after {
        Earlier::Nothing => "",
        Earlier::Unknown => " again",
        Earlier::Success => " refreshing",
    };
    let with = |label: &Option<Arc<str>>| {
        label
            .as_ref()
            .map_or(String::new(), |it| format!(" with label {it}"))
    };
    match &operation.action {
        Action::Stage { after, label } => format!("stage {volume}{}{}", again(after), with(label)),
        Action::Publish {
            pod,
            after,
            access,
            label,
            ..
        } => {
            let access = if *access == Access::ReadOnly {
                " read-only"
            } else {
                ""
            };
            format!(
                "publish {volume} to {pod}{access}{}{}",
                again(after),
                with(label)
            )
        }
        Action::Unpublish { pod } => format!("unpublish {volume} from {pod}"),
        Action::Expand {
            from_bytes,
            to_bytes,
            ..
        } => format!("expand {volume} from {from_bytes} to {to_bytes}"),
        Action::Attach | Action::Unstage | Action::Detach => {
            let kind: Kind = operation.action.kind();
            format!("{kind} {volume}")
        }
    }
}

fn empty_pod(name: &str) -> Pod {
    Pod {
        uid: name.into(),
        name: format!("default/{name}").as_str().into(),
        source: "s".into(),
        version: Version::NONE,
        phase: Phase::Running,
        groups: vec![],
        volumes: vec![],
    }
}

fn gone(pod: &str, containers: Containers) -> Event {
    Event::PodGone {
        uid: PodUid::from(pod),
        version: Version::NONE,
        containers,
    }
}

fn attachment(volume: &str, attachment: Attachment) -> Event {
    Event::AttachmentChanged {
        volume: volume.into(),
        attachment,
    }
}

fn duration(text: &str) -> Duration {
    let split = text.find(|it: char| it.is_alphabetic()).expect("a unit");
    let number: u64 = text[..split].parse().expect("a number");
    match &text[split..] {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(60 * number),
        other => panic!("no such unit: {other}"),
    }
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items
        .into_iter()
        .map(|it| it.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

fn chain(reasons: &[Reason]) -> String {
    if reasons.is_empty() {
        return "settled".to_owned();
    }
    let one = |it: &Reason| format!("{} ({})", it.code, it.text);
    reasons.iter().map(one).collect::<Vec<_>>().join(" <- ")
}
