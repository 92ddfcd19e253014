//! The language of the scenarios: facts in, a trace out. Only this file knows the engine's API.
//!
//! ```text
//! volume disk: attach=controller stage driver=ebs      declares a volume; see `declare`
//! pod a wants disk, logs=other                         a pod with its volumes, by outer name where it differs
//! pod a of t wants disk | pod a in 5 wants disk        the same, from another source than `s`, in this version
//! pod a wants disk unknown "PVC is not bound"          a volume that could not be looked up (or: invalid "…")
//! pod a wants disk unknown for want of PVC/x "…"       the same, and the object that would help
//! pod a wants disk pending 3 times "…"                 a volume that is yet to be made, which failed so often; next in 8 s
//! pod a stopping | finished | running | gone [in 5] | gone but may run
//! pod a version 5 | has group 777                      applied again with this
//! source s announced | complete [in 5 | but may run | orphans stay 10m] | lost      disk read        attachments complete
//! source s cannot read all "…" | can read all          pod a held for 10m | ever "…"
//! driver ebs registered | unregistered                 object Secret/x changed
//! attached disk | detached disk | attach of disk failed "…" [exhausted]
//! reported [version 5]                                 the set of volumes in use, as it is now
//! mount of disk in a vanished | replaced | seen        stage of disk vanished | replaced
//! found disk in a proven | intent | other boot [but alike] | vanished | replaced       found stage of disk …
//! found disk in a leaving [with its pod]               a record says that it was being taken away
//! found attached disk | found intent to attach disk | found unreadable disk in a | found pod a [named ns/x]
//! #1 done | refused "…" | lost "…"                     how an operation ended, with [for want of Secret/x]
//! #1 refused as NoSpace "…" | lost as NoSpace "…"      the same, with what on the node was in the way, by its code
//! #1 gone | attached | grown to 20 | in use | infeasible | unsupported      the same, whatever the operation was
//! wait 1 for a mounted | at last | unmounted | gone, 2m                     wait 1 cancelled
//! after 500ms                                          time passes
//! time goes back 5s                                    a fact comes with an older time
//! ? mounted a | status a | explain disk in a | why disk | in use | attached disk | groups a | possibly a | synced
//! ? pod a                                              what it is called, and how far its life has gone
//! ? state disk | size disk | deadline | odd | odd in words
//! ? reasons of disk | reasons of disk in a             each link of the chain with all it holds, by outer name
//! ? reasons of mounts of disk                          the same for every mount, also those that no pod names any more
//! ```
//!
//! `_` stands for an empty name.
//!
//! In a trace `again` says that an earlier attempt left doubt, `refreshing` that the pod has the volume already, and
//! `try 2` that the same failed once before. `in use [disk]` is the set that wants to be reported, whenever it changed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::event::{Attachment, Containers, Found, Goal, Hold, MountPlace, Record, Wait};
use windlass_core::expand::Size;
use windlass_core::ids::{OperationId, PodUid, Time, Version, VolumeId, WaiterId};
use windlass_core::label::Wish;
use windlass_core::notice::{Notice, Verdict};
use windlass_core::operation::{
    Action, Cause, Done, Earlier, Obstacle, Operation, OperationKind, Outcome, Proof, Trouble,
};
use windlass_core::reason::{Code, Reason, WaitsOn};
use windlass_core::spec::{
    Access, Attach, Capabilities, Concurrency, Identity, Mode, Phase, Pod, PodVolume, Refresh, Sharing, Use,
    VolumeSpec, Want,
};
use windlass_core::{Config, Engine, Event, Planning};

/// Tells the facts to an engine whose start is over, and returns what it asked for and answered.
pub(crate) fn run(script: &str) -> String {
    told(&config(), &START, script)
}

/// As [`run`], with a line in the trace for every change of how a volume or a mount stands.
pub(crate) fn run_telling_changes(script: &str) -> String {
    let mut told = Told::new(config());
    for line in START {
        told.line(line);
    }
    told.trace.clear();
    told.tells_changes = true;
    told.tell(script)
}

/// Tells the facts to an engine that has just started and was told of no source.
pub(crate) fn start_without_sources(script: &str) -> String {
    told(&Config { sources: vec![], ..config() }, &[], script)
}

/// As [`run`], with finished pods keeping their volumes.
pub(crate) fn run_keeping_terminated(script: &str) -> String {
    told(&Config { keep_terminated: true, ..config() }, &START, script)
}

/// Tells the facts to an engine that has just started, with one source and an attacher.
pub(crate) fn start(script: &str) -> String {
    told(&Config { attacher: true, ..config() }, &[], script)
}

/// Tells the facts to an engine that has just started, with sources `s` and `t` and no attacher.
pub(crate) fn start_with_two_sources(script: &str) -> String {
    told(&Config { sources: vec!["s".into(), "t".into()], ..config() }, &[], script)
}

/// Planning what an event touched must decide the same as planning everything, so each scenario shows both.
fn told(config: &Config, before: &[&str], script: &str) -> String {
    let trace = |planning| {
        let mut told = Told::new(Config { planning, ..config.clone() });
        for line in before {
            told.line(line);
        }
        told.trace.clear();
        told.tell(script)
    };
    let touched = trace(Planning::Touched);
    assert_eq!(touched, trace(Planning::Everything), "planning everything decides otherwise");
    touched
}

/// What ends a start without an attacher.
const START: [&str; 2] = ["disk read", "source s complete"];

fn config() -> Config {
    Config {
        sources: vec!["s".into()],
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
    proofs: BTreeMap<MountPlace, Proof>,
    tells_changes: bool,
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
            tells_changes: false,
            trace: String::new(),
        }
    }

    fn tell(mut self, script: &str) -> String {
        for line in script.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with("--")) {
            self.line(line);
        }
        self.trace
    }

    fn line(&mut self, line: &str) {
        // Every other part is between quotes.
        let texts: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let line: String = line.split('"').step_by(2).collect();
        if let Some(question) = line.strip_prefix("? ") {
            let answer = self.answer(question.trim());
            let answer = answer.trim_start_matches(' ');
            let space = if answer.is_empty() || answer.starts_with('\n') { "" } else { " " };
            writeln!(self.trace, "{}:{space}{answer}", question.trim()).unwrap();
            return;
        }
        if let Some((name, words)) = line.strip_prefix("volume ").and_then(|it| it.split_once(':')) {
            self.declare(name.trim(), words);
            return;
        }
        if let Some(time) = line.strip_prefix("after ") {
            self.now = self.now + duration(time);
            return self.event(Event::TimePassed);
        }
        if let Some(time) = line.strip_prefix("time goes back ") {
            let now = self.now;
            self.now = Time(now.0 - u64::try_from(duration(time).as_millis()).expect("a time"));
            self.event(Event::TimePassed);
            self.now = now;
            return;
        }
        let event = self.fact(&line, &texts);
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
                Notice::WaitEnded { waiter, result: Ok(()) } => {
                    writeln!(self.trace, "wait {} ended well", waiter.0).unwrap();
                }
                Notice::WaitEnded { waiter, result: Err(error) } => {
                    writeln!(self.trace, "wait {} failed: {error}", waiter.0).unwrap();
                }
                Notice::PodReleased(uid) => writeln!(self.trace, "pod {uid} released").unwrap(),
                Notice::RereadWanted { .. } => writeln!(self.trace, "sources are to be read again").unwrap(),
                Notice::HoldEnded(uid) => writeln!(self.trace, "pod {uid} is held no longer").unwrap(),
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
                Notice::InUseChanged { .. } => {
                    writeln!(self.trace, "in use [{}]", self.in_use()).unwrap();
                }
                Notice::VolumeChanged { volume, pod, code } if self.tells_changes => {
                    let pod = pod.map_or(String::new(), |it| format!(" in {it}"));
                    writeln!(self.trace, "{volume}{pod} is {code}").unwrap();
                }
                Notice::VolumeChanged { .. } => {}
            }
        }
    }

    /// `attach=node|controller stage own driver=d plugin=p id=identity name=inner block device expand size=HAS/WANTED
    /// refresh every=1m overlap=releases|pods rwop ro revision=N label=L enforced unenforced gid=G patience=1m`
    fn declare(&mut self, name: &str, words: &str) {
        let mut spec = VolumeSpec {
            id: name.into(),
            plugin: "test/plugin".into(),
            driver: None,
            inner_name: name.into(),
            capabilities: Capabilities { identity: Identity::Shared, ..Capabilities::default() },
            mode: Mode::Filesystem,
            sharing: Sharing::Shared,
            group: None,
            size: Size::default(),
        };
        let mut access = Access::ReadWrite;
        let mut revision = 0;
        let mut label = Wish { original: None, enforced: false };
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
                ("id", id) => spec.id = id.into(),
                ("name", inner) => spec.inner_name = inner.into(),
                ("block", _) => capabilities.block = true,
                ("device", _) => spec.mode = Mode::Block,
                ("expand", _) => capabilities.expand = true,
                ("size", sizes) => {
                    let (has, wanted) = sizes.split_once('/').expect("size=HAS/WANTED");
                    spec.size = Size { recorded_bytes: has.parse().ok(), wanted_bytes: wanted.parse().ok() };
                }
                ("refresh", _) => capabilities.refresh = Refresh::OnChange,
                ("every", period) => capabilities.refresh = Refresh::Every(duration(period)),
                ("overlap", "releases") => capabilities.concurrency = Concurrency::ReleasesOverlap,
                ("overlap", "pods") => capabilities.concurrency = Concurrency::PodsOverlap,
                ("rwop", _) => spec.sharing = Sharing::OnePod,
                ("ro", _) => access = Access::ReadOnly,
                ("revision", number) => revision = number.parse().expect("a number"),
                ("label", text) => label = Wish { original: Some(text.into()), enforced: true },
                ("enforced", _) => label.enforced = true,
                ("unenforced", _) => label.enforced = false,
                ("gid", text) => spec.group = Some(text.into()),
                ("patience", time) => capabilities.patience = duration(time),
                _ => panic!("no such word for a volume: {word}"),
            }
        }
        self.volumes.insert(name.to_owned(), Arc::new(spec));
        self.uses.insert(name.to_owned(), (access, revision, label));
    }

    fn fact(&mut self, line: &str, texts: &[&str]) -> Event {
        let text = texts.first().copied().unwrap_or("it failed");
        let words = line.split_whitespace();
        let words: Vec<&str> = words.map(|it| if it == "_" { "" } else { it }).collect();
        match words[..] {
            ["pod", pod, "wants", ..] => {
                let wants = line.split_once(" wants").expect("wants").1;
                self.wants(pod, wants, texts)
            }
            ["pod", pod, "of", source, "wants", ..] => {
                self.pod(pod).source = source.into();
                let wants = line.split_once(" wants").expect("wants").1;
                self.wants(pod, wants, texts)
            }
            ["pod", pod, "in", version, "wants", ..] => {
                self.pod(pod).version = Version(version.parse().expect("a number"));
                let wants = line.split_once(" wants").expect("wants").1;
                self.wants(pod, wants, texts)
            }
            ["pod", pod, "gone"] => gone(pod, "0", Containers::Stopped),
            ["pod", pod, "gone", "in", version] => gone(pod, version, Containers::Stopped),
            ["pod", pod, "gone", "but", "may", "run"] => gone(pod, "0", Containers::MayRun),
            ["pod", pod, phase] => {
                let phase = match phase {
                    "running" => Phase::Running,
                    "stopping" => Phase::Stopping,
                    "finished" => Phase::Finished,
                    _ => panic!("no such phase: {phase}"),
                };
                let pod = self.pod(pod);
                pod.phase = phase;
                Event::PodApplied(pod.clone())
            }
            ["pod", pod, "version", version] => {
                let pod = self.pod(pod);
                pod.version = Version(version.parse().expect("a number"));
                Event::PodApplied(pod.clone())
            }
            ["pod", pod, "has", "group", group] => {
                let pod = self.pod(pod);
                pod.groups.push(group.parse().expect("a number"));
                Event::PodApplied(pod.clone())
            }
            ["source", source, "complete"] => complete(source, "0", Containers::Stopped, Duration::ZERO),
            ["source", source, "complete", "but", "may", "run"] => {
                complete(source, "0", Containers::MayRun, Duration::ZERO)
            }
            ["source", source, "complete", "in", version] => {
                complete(source, version, Containers::Stopped, Duration::ZERO)
            }
            ["source", source, "complete", "orphans", "stay", delay] => {
                complete(source, "0", Containers::Stopped, duration(delay))
            }
            ["source", source, "complete", "with", "doubt"] => Event::SourceComplete {
                source: source.into(),
                version: Version::NONE,
                containers: Containers::Stopped,
                orphan_delay: Duration::from_secs(600),
                doubt: Some(text.into()),
            },
            ["source", source, "was", "read"] => Event::SourceRead { source: source.into(), as_of: self.now },
            ["pod", pod, "held", "for", ref delay @ ..] => {
                let delay = match delay {
                    ["ever"] => None,
                    delay => Some(duration(&delay.join(" "))),
                };
                Event::PodHeld { uid: pod.into(), hold: Hold { code: Code::OtherNode, text: text.into(), delay } }
            }
            ["source", source, "announced"] => Event::SourceAnnounced(source.into()),
            ["source", source, "lost"] => Event::SourceLost { source: source.into(), text: text.into() },
            ["disk", "read"] => Event::DiskRead,
            ["attachments", "complete"] => Event::AttachmentsComplete,
            ["driver", driver, "registered"] => Event::DriverRegistered(driver.into()),
            ["driver", driver, "unregistered"] => Event::DriverUnregistered(driver.into()),
            ["object", object, "changed"] => Event::ObjectChanged(object.into()),
            ["attached", volume] => attachment(volume, Attachment::Attached { device: Some("/dev/x".into()) }),
            ["detached", volume] => attachment(volume, Attachment::Detached),
            ["attach", "of", volume, "failed"] => {
                attachment(volume, Attachment::Failed { text: text.into(), exhausted: false })
            }
            ["attach", "of", volume, "failed", "exhausted"] => {
                attachment(volume, Attachment::Failed { text: text.into(), exhausted: true })
            }
            ["reported"] => {
                let version = self.engine.volumes_in_use().map_or(0, |it| it.version);
                Event::InUseReported { version }
            }
            ["reported", "version", version] => Event::InUseReported { version: version.parse().expect("a number") },
            ["mount", "of", volume, "in", pod, change] => {
                self.mount(MountPlace::Publish(volume.into(), pod.into()), change)
            }
            ["stage", "of", volume, change] => self.mount(MountPlace::Stage(volume.into()), change),
            ["found", "attached", volume] => {
                Event::FoundAttached { spec: self.spec(volume), device: Some("/dev/x".into()) }
            }
            ["found", "intent", "to", "attach", volume] => {
                Event::FoundAttached { spec: self.spec(volume), device: None }
            }
            ["found", "unreadable", volume, "in", pod] => {
                let spec = self.spec(volume);
                Event::FoundUnreadable {
                    pod: pod.into(),
                    plugin: spec.plugin.clone(),
                    inner_name: spec.inner_name.clone(),
                    mode: spec.mode,
                }
            }
            ["found", "pod", pod] => Event::FoundPod { uid: pod.into(), name: None },
            ["found", "pod", pod, "named", name] => Event::FoundPod { uid: pod.into(), name: Some(name.into()) },
            ["found", "stage", "of", volume, ref how @ ..] => {
                let place = MountPlace::Stage(volume.into());
                Event::FoundStaged(self.found(volume, place, &how.join(" ")))
            }
            ["found", volume, "in", pod, ref how @ ..] => {
                let place = MountPlace::Publish(volume.into(), pod.into());
                Event::FoundPublished { pod: pod.into(), found: self.found(volume, place, &how.join(" ")) }
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
            ["wait", waiter, "cancelled"] => Event::WaitCancelled(WaiterId(waiter.parse().expect("a number"))),
            ["retry", volume] => Event::RetryWanted { volume: volume.into(), pod: None },
            ["retry", volume, "in", pod] => Event::RetryWanted { volume: volume.into(), pod: Some(pod.into()) },
            [number, "queued", "behind", ahead] => {
                Event::OperationQueued { id: operation(number), ahead: ahead.parse().expect("a number") }
            }
            [number, "blocked"] => {
                Event::OperationBlocked { id: operation(number), by: "process 7 hangs in it".into() }
            }
            [number, "started"] => Event::OperationStarted { id: operation(number) },
            [number, ref how @ ..] if number.starts_with('#') => {
                let id = number[1..].parse().expect("a number");
                Event::OperationEnded { id: OperationId(id), outcome: self.outcome(id, &how.join(" "), text) }
            }
            _ => panic!("no such fact: {line}"),
        }
    }

    /// `disk, logs=other` or `disk unknown` or `disk invalid`; each text is for the next of those without a volume.
    fn wants(&mut self, name: &str, wants: &str, texts: &[&str]) -> Event {
        let mut texts = texts.iter();
        let mut text = || Arc::from(*texts.next().unwrap_or(&"it failed"));
        let mut volumes = Vec::new();
        for want in wants.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let words: Vec<&str> = want.split_whitespace().collect();
            let (outer, volume) = words[0].split_once('=').unwrap_or((words[0], words[0]));
            let want = match words[1..] {
                ["unknown"] => Want::Unknown { text: text(), waits_on: None },
                ["unknown", "for", "want", "of", object] => {
                    Want::Unknown { text: text(), waits_on: Some(object.into()) }
                }
                ["pending", attempts, "times"] => Want::Pending(Box::new(Reason {
                    code: Code::ProvisioningFailed,
                    text: text().as_ref().into(),
                    since: self.now,
                    attempts: attempts.parse().expect("a number"),
                    next_try: Some(self.now + Duration::from_secs(8)),
                    goes_at: None,
                    waits_on: WaitsOn::Time,
                })),
                ["invalid"] => Want::Invalid { text: text() },
                [] => {
                    let (access, revision, label) = self.uses[volume].clone();
                    Want::Volume(Use { spec: self.spec(volume), access, revision, label })
                }
                _ => panic!("no such look-up: {want}"),
            };
            volumes.push(PodVolume { name: outer.into(), want });
        }
        let pod = self.pod(name);
        pod.volumes = volumes;
        Event::PodApplied(pod.clone())
    }

    fn pod(&mut self, name: &str) -> &mut Pod {
        self.pods.entry(name.to_owned()).or_insert_with(|| empty_pod(name))
    }

    fn spec(&self, volume: &str) -> Arc<VolumeSpec> {
        self.volumes.get(volume).unwrap_or_else(|| panic!("volume {volume} is not declared")).clone()
    }

    fn new_proof(&mut self) -> Proof {
        self.mounts += 1;
        Proof { mount_id: self.mounts, device: self.mounts, root: 1, kind: 1 }
    }

    fn mount(&mut self, place: MountPlace, change: &str) -> Event {
        let proof = match change {
            "vanished" => None,
            "replaced" => Some(self.new_proof()),
            "seen" => self.proofs.get(&place).copied(),
            other => panic!("no such change: {other}"),
        };
        Event::MountSeen { place, proof }
    }

    fn found(&mut self, volume: &str, place: MountPlace, how: &str) -> Found {
        let proof = self.new_proof();
        self.proofs.insert(place, proof);
        let revision = self.uses[volume].1;
        let (boot, seen) = match how {
            "proven" => ("this boot", Some(proof)),
            "other boot" => ("another boot", None),
            "other boot but alike" => ("another boot", Some(proof)),
            "vanished" => ("this boot", None),
            "replaced" => ("this boot", Some(self.new_proof())),
            "intent" | "leaving" | "leaving with its pod" => ("", None),
            other => panic!("no such find: {other}"),
        };
        let record = match boot {
            "" if how == "intent" => Record::Intent,
            "" => Record::Leaving { with_pod: how == "leaving with its pod" },
            boot => Record::Proven { boot: boot.into(), proof, revision },
        };
        let label = self.uses[volume].2.effective().cloned();
        Found { spec: self.spec(volume), record, seen, label }
    }

    fn outcome(&mut self, id: u64, how: &str, text: &str) -> Outcome {
        let (how, cause) = match how.split_once(" for want of ") {
            Some((how, object)) => (how, Cause::Object(object.into())),
            None => match how.split_once(" as ") {
                Some((how, code)) => (how, Cause::Node(obstacle(code))),
                None => (how, Cause::Other),
            },
        };
        let trouble = |cause| Trouble { cause, text: text.into() };
        match how {
            "done" => Outcome::Done(self.done(id)),
            "refused" => Outcome::Refused(trouble(cause)),
            "lost" => Outcome::Unknown(trouble(cause)),
            "refused without driver" => Outcome::Refused(trouble(Cause::Driver)),
            "in use" => Outcome::Refused(trouble(Cause::InUse)),
            "infeasible" => Outcome::Refused(trouble(Cause::Infeasible)),
            "unsupported" => Outcome::Refused(trouble(Cause::NotSupported)),
            "gone" => Outcome::Done(Done::Gone),
            "attached" => Outcome::Done(Done::Attached { device: None }),
            other => match other.strip_prefix("grown to ") {
                Some(size) => Outcome::Done(Done::Expanded { size_bytes: size.parse().expect("a number") }),
                None => panic!("no such outcome: {other}"),
            },
        }
    }

    fn done(&mut self, id: u64) -> Done {
        let Some(operation) = self.running.remove(&id) else {
            return Done::Gone;
        };
        match &operation.action {
            Action::Attach => Done::Attached { device: Some("/dev/x".into()) },
            Action::Stage { .. } => {
                let proof = self.new_proof();
                self.proofs.insert(MountPlace::Stage(operation.volume().clone()), proof);
                Done::Mounted(proof)
            }
            Action::Publish { pod, .. } => {
                let proof = self.new_proof();
                self.proofs.insert(MountPlace::Publish(operation.volume().clone(), pod.clone()), proof);
                Done::Mounted(proof)
            }
            Action::Expand { to_bytes, .. } => Done::Expanded { size_bytes: *to_bytes },
            Action::Unpublish { .. } | Action::Unstage | Action::Detach => Done::Gone,
        }
    }

    fn answer(&self, question: &str) -> String {
        let words: Vec<&str> = question.split_whitespace().collect();
        match words[..] {
            ["mounted", pod] => {
                let mounted = self.engine.mounted_volumes(&pod.into());
                let one = |(name, it): (_, &windlass_core::answer::MountedVolume)| {
                    let access = match it.access {
                        Access::ReadOnly => " read-only",
                        Access::ReadWrite => "",
                    };
                    let mode = match it.mode {
                        Mode::Block => " as a device",
                        Mode::Filesystem => "",
                    };
                    format!("{name}={}{access}{mode}", it.volume)
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
            ["explain", volume, "in", pod] => chain(&self.engine.explain(&pod.into(), &volume.into())),
            ["why", volume] => chain(&self.engine.explain_volume(&volume.into())),
            ["reasons", "of", volume, "in", pod] => self.links(&self.engine.explain(&pod.into(), &volume.into())),
            ["reasons", "of", "mounts", "of", volume] => {
                let snapshot = self.engine.snapshot();
                let volume = snapshot.volumes.iter().find(|it| it.id.as_str() == volume);
                let mounts = volume.iter().flat_map(|it| &it.mounts);
                mounts.map(|it| format!("\n{}:{}", it.pod, self.links(&it.reasons))).collect()
            }
            ["pod", pod] => match self.engine.view_pod(&pod.into()) {
                None => "not here".to_owned(),
                Some(it) => format!("{} is {:?}", it.pod.name, it.pod.life),
            },
            ["reasons", "of", volume] => self.links(&self.engine.explain_volume(&volume.into())),
            ["in", "use"] => self.in_use(),
            ["attached", volume] => self.engine.volume_attached(&volume.into()).to_string(),
            ["groups", pod] => list(self.engine.extra_groups(&pod.into())),
            ["possibly", pod] => self.engine.has_possibly_mounted_volumes(&pod.into()).to_string(),
            ["synced"] => self.engine.states_synced().to_string(),
            ["odd"] => {
                let counts = self.engine.snapshot().oddities;
                list(counts.iter().map(|(it, count)| format!("{it:?}={count}")))
            }
            ["odd", "in", "words"] => {
                let oddities = self.engine.oddities();
                oddities.iter().map(|(it, text)| format!("\n{it:?}: {text}")).collect()
            }
            ["deadline"] => match self.engine.deadline() {
                None => "none".to_owned(),
                Some(at) => format!("in {}", span(at.since(self.now))),
            },
            ["size", volume] => {
                let snapshot = self.engine.snapshot();
                let volume = snapshot.volumes.iter().find(|it| it.id.as_str() == volume);
                let size = volume.and_then(|it| it.size_bytes);
                size.map_or("not known".to_owned(), |it| it.to_string())
            }
            ["state", volume] => self.state(&volume.into()),
            _ => panic!("no such question: {question}"),
        }
    }

    fn state(&self, volume: &VolumeId) -> String {
        let snapshot = self.engine.snapshot();
        let Some(it) = snapshot.volumes.iter().find(|it| it.id == *volume) else {
            return "not here".to_owned();
        };
        let mounts = it.mounts.iter();
        let mounts = mounts.map(|it| format!(", {} {:?}", it.pod, it.publish));
        let (attach, stage) = (it.attach, it.stage);
        let mounts: String = mounts.collect();
        format!("attach {attach:?}, stage {stage:?}{mounts}")
    }

    fn in_use(&self) -> String {
        match self.engine.volumes_in_use() {
            None => "not to be reported yet".to_owned(),
            Some(it) => list(it.volumes),
        }
    }

    /// Each link of a chain with all it holds.
    fn links(&self, reasons: &[Reason]) -> String {
        if reasons.is_empty() {
            return " settled".to_owned();
        }
        let one = |it: &Reason| {
            let mut line = format!("\n- {}: {}", it.code, it.text);
            let since = self.now.since(it.since);
            write!(line, "; for {}", span(since)).unwrap();
            if it.attempts > 0 {
                write!(line, "; failures {}", it.attempts).unwrap();
            }
            if let Some(at) = it.next_try {
                write!(line, "; next in {}", span(at.since(self.now))).unwrap();
            }
            if let Some(at) = it.goes_at {
                write!(line, "; goes in {}", span(at.since(self.now))).unwrap();
            }
            line.push_str(&waits_on(&it.waits_on));
            line
        };
        reasons.iter().map(one).collect()
    }
}

fn describe(operation: &Operation) -> String {
    let volume = operation.volume();
    let again = |after: &Earlier| match after {
        Earlier::Nothing => "",
        Earlier::Unknown => " again",
        Earlier::Success => " refreshing",
    };
    let with = |label: &Option<Arc<str>>| label.as_ref().map_or(String::new(), |it| format!(" with label {it}"));
    let tries = match operation.failures {
        0 => String::new(),
        failures => format!(", try {}", failures + 1),
    };
    let what = match &operation.action {
        Action::Stage { after, label } => format!("stage {volume}{}{}", again(after), with(label)),
        Action::Publish { pod, after, access, label, .. } => {
            let access = if *access == Access::ReadOnly { " read-only" } else { "" };
            format!("publish {volume} to {pod}{access}{}{}", again(after), with(label))
        }
        Action::Unpublish { pod, .. } => format!("unpublish {volume} from {pod}"),
        Action::Expand { from_bytes, to_bytes, .. } => format!("expand {volume} from {from_bytes} to {to_bytes}"),
        Action::Attach | Action::Unstage | Action::Detach => {
            let kind: OperationKind = operation.action.kind();
            format!("{kind} {volume}")
        }
    };
    format!("{what}{tries}")
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

fn obstacle(code: &str) -> Obstacle {
    let found = Obstacle::ALL.iter().find(|it| it.code().as_str() == code);
    *found.unwrap_or_else(|| panic!("no such obstacle: {code}"))
}

fn gone(pod: &str, version: &str, containers: Containers) -> Event {
    Event::PodGone { uid: PodUid::from(pod), version: Version(version.parse().expect("a number")), containers }
}

fn complete(source: &str, version: &str, containers: Containers, orphan_delay: Duration) -> Event {
    let version = Version(version.parse().expect("a number"));
    Event::SourceComplete { source: source.into(), version, containers, orphan_delay, doubt: None }
}

fn attachment(volume: &str, attachment: Attachment) -> Event {
    Event::AttachmentChanged { volume: volume.into(), attachment }
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

fn waits_on(it: &WaitsOn) -> String {
    let what = match it {
        WaitsOn::Nothing => return String::new(),
        WaitsOn::Time => "time".to_owned(),
        WaitsOn::Operation(id) => format!("operation {id}"),
        WaitsOn::Driver(name) => format!("driver {name}"),
        WaitsOn::Object(name) => format!("object {name}"),
        WaitsOn::Attacher => "the attacher".to_owned(),
        WaitsOn::Report => "the report".to_owned(),
        WaitsOn::Pod(uid) => format!("pod {uid}"),
        WaitsOn::Volume(id) => format!("volume {id}"),
        WaitsOn::Source(name) => format!("source {name}"),
        WaitsOn::Disk => "the disk".to_owned(),
    };
    format!("; waits on {what}")
}

fn span(time: Duration) -> String {
    if time.is_zero() {
        return "0s".to_owned();
    }
    format!("{time:?}")
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|it| it.to_string()).collect::<Vec<_>>().join(" ")
}

fn chain(reasons: &[Reason]) -> String {
    if reasons.is_empty() {
        return "settled".to_owned();
    }
    let one = |it: &Reason| format!("{} ({})", it.code, it.text);
    reasons.iter().map(one).collect::<Vec<_>>().join(" <- ")
}

/// `#3`.
fn operation(number: &str) -> OperationId {
    OperationId(number.trim_start_matches('#').parse().expect("a number"))
}
