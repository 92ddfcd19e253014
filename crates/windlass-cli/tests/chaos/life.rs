//! Plays a schedule against the real daemon, and judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::time::Instant;
use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::wait::{PATIENCE, Stir};

use crate::schedule::{Action, End, Moment, Round, STEADY, Schedule};
use crate::truth::{Seen, Truth};
use crate::witness::Witness;
use crate::world::{LOCALS, World};

/// Files that nobody but a container or the owner of the host writes.
const CANARY: &str = "deep/down/canary";

/// When nothing has happened for so long, nothing will: a manifest that is removed takes effect after a fifth of a second.
const IDLE: Duration = Duration::from_millis(300);

/// What a schedule came to.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) kills: usize,
    /// How many of them hit it when it had begun something and not ended it.
    pub(crate) in_the_middle: usize,
    pub(crate) starts: usize,
    pub(crate) actions: usize,
    /// How often everything had come right, and how long that took at most.
    pub(crate) settled: usize,
    pub(crate) slowest: Duration,
    /// How often the container looked at its volumes.
    pub(crate) looks: u64,
}

/// Something is not as it should be.
pub(crate) struct Trouble(pub(crate) String);

/// A node in trouble.
pub(crate) struct Life<'case> {
    case: &'case Case,
    truth: Truth,
    pub(crate) world: World,
    /// Pods that were removed since all had come right.
    leaving: BTreeSet<String>,
    seen: Seen,
    /// Files in volumes, by path, with what is in them.
    canaries: BTreeMap<PathBuf, String>,
    witness: Option<Witness>,
    /// Whether the daemon said that it was ready.
    ready: bool,
    figures: Figures,
}

/// Plays it to its end, when nothing is left. `tell` is told of each step before it begins.
pub(crate) fn play(case: &Case, schedule: Schedule, tell: impl Fn(String)) -> Result<Figures, Trouble> {
    let Schedule { world, rounds } = schedule;
    let (mut life, mut daemon) = Life::begin(case, world)?;
    life.witness = Some(Witness::start(&life.truth.root, &life.world.pods[STEADY]));
    for (index, round) in rounds.iter().enumerate() {
        tell(format!("in round {} of {}:\n{round}", index + 1, rounds.len()));
        daemon = life.round(daemon, round)?;
    }
    tell("at the end, when all manifests are removed".into());
    life.finish(daemon)
}

impl<'case> Life<'case> {
    /// A daemon runs, and all is as this world says.
    pub(crate) fn begin(case: &'case Case, world: World) -> Result<(Self, Daemon), Trouble> {
        let mut life = Self {
            case,
            truth: Truth { root: case.path("root") },
            world,
            leaving: BTreeSet::new(),
            seen: Seen::default(),
            canaries: BTreeMap::new(),
            witness: None,
            ready: true,
            figures: Figures::default(),
        };
        life.prepare();
        let mut daemon = life.start();
        life.settle(&mut daemon)?;
        Ok((life, daemon))
    }

    /// What is there before the daemon is.
    fn prepare(&mut self) {
        let hosts = self.hosts();
        let directories = (0..LOCALS).map(|it| format!("local-{it}")).chain(["host".into()]);
        for directory in directories {
            self.canary(hosts.join(&directory).join(CANARY), format!("of the host, in {directory}"));
        }
        fs::write(self.case.path("token.pem"), token_key()).expect("write the key of tokens");
        for file in self.world.files() {
            self.write(&file);
        }
    }

    /// Directories of the host that pods are given.
    fn hosts(&self) -> PathBuf {
        self.case.path("hosts")
    }

    fn canary(&mut self, path: PathBuf, text: String) {
        fs::create_dir_all(path.parent().expect("a path below a directory")).expect("make a directory");
        fs::write(&path, &text).expect("write a canary");
        self.canaries.insert(path, text);
    }

    fn round(&mut self, daemon: Daemon, round: &Round) -> Result<Daemon, Trouble> {
        let mut daemon = daemon;
        // From before the first action, so that nothing of what follows is missed.
        let stir = self.stir();
        for (after, action) in &round.alive {
            sleep(*after);
            self.act(action);
        }
        let process = daemon.id();
        match round.end {
            End::Killed(moment) => {
                await_moment(&stir, moment);
                self.kill(daemon)?;
            }
            End::KilledWhileItEnds { after } => {
                daemon.signal(Signal::TERM);
                sleep(after);
                self.bury(daemon);
            }
            End::Ended => {
                let status = daemon.stop();
                // One that has only just been started does not listen for signals yet.
                let is_early = !self.ready && status.signal() == Some(Signal::TERM.as_raw());
                check(is_early || status.success(), || format!("the daemon that was told to end ended with {status}"))?;
                // One that ends before it has a socket of its own leaves that of a killed one.
                let left = self.ready && self.case.path("run/api.sock").exists();
                check(!left, || "a daemon that ended left its socket".into())?;
            }
        }
        check(!group_is_there(process), || format!("process {process} ended, and its children did not"))?;
        for action in &round.dead {
            self.act(action);
        }
        for moment in &round.cut_off {
            let (stir, daemon) = (self.stir(), self.spawn());
            await_moment(&stir, *moment);
            self.kill(daemon)?;
        }
        self.figures.actions += round.actions();
        self.ready = round.settles;
        if round.settles {
            daemon = self.start();
            self.settle(&mut daemon)?;
        } else {
            daemon = self.spawn();
        }
        self.ask_witness()?;
        Ok(daemon)
    }

    /// Wakes whenever something happens in the volumes.
    fn stir(&self) -> Stir {
        let stir = Stir::new();
        self.cover(&stir);
        stir
    }

    fn cover(&self, stir: &Stir) {
        self.truth.places().iter().for_each(|it| stir.cover(it));
    }

    /// Kills a daemon that has no reason to have ended.
    fn kill(&mut self, mut daemon: Daemon) -> Result<(), Trouble> {
        let ended = daemon.ended();
        check(ended.is_none(), || format!("the daemon ended by itself: {ended:?}"))?;
        self.bury(daemon);
        Ok(())
    }

    fn bury(&mut self, daemon: Daemon) {
        daemon.kill();
        self.figures.kills += 1;
        self.figures.in_the_middle += usize::from(self.truth.is_in_the_middle());
    }

    /// Takes everything away, and sees that it goes.
    fn finish(mut self, mut daemon: Daemon) -> Result<Figures, Trouble> {
        self.ask_witness()?;
        // The container ends before its pod does.
        self.figures.looks = self.witness.take().map(|it| it.looks()).unwrap_or_default();
        for file in self.world.files() {
            self.case.remove_manifest(&file);
        }
        self.world.pods.clear();
        self.forget_canaries();
        self.await_none("nothing is left", &mut daemon, |life| life.truth.remains())?;
        let process = daemon.id();
        let status = daemon.stop();
        check(status.success(), || format!("the last daemon ended with {status}"))?;
        check(!group_is_there(process), || format!("process {process} ended, and its children did not"))?;
        check(!self.case.path("run/api.sock").exists(), || "the last daemon left its socket".into())?;
        let damage = self.damage();
        check(damage.is_empty(), || damage.join("\n"))?;
        let remains = self.truth.remains();
        check(remains.is_empty(), || format!("after the last daemon there is\n{}", remains.join("\n")))?;
        Ok(self.figures)
    }

    /// Changes the manifests. Whatever a careful program does is one rename.
    fn act(&mut self, action: &Action) {
        let before = self.world.clone();
        self.world.take(action);
        match action {
            Action::Put(pod) => {
                let old = before.pods.get(&pod.name).filter(|it| it.uid != pod.uid);
                self.leaving.extend(old.map(|it| it.uid.clone()));
                self.write(&pod.file);
            }
            Action::Remove(pod) => {
                let pod = &before.pods[pod];
                self.leaving.insert(pod.uid.clone());
                self.case.remove_manifest(&pod.file);
            }
            Action::Move { pod, file } => {
                let (from, to) = (self.manifest(&before.pods[pod].file), self.manifest(file));
                fs::create_dir_all(to.parent().expect("a path below a directory")).expect("make a directory");
                fs::rename(from, to).expect("rename a manifest");
            }
            Action::Blink(pod) => {
                let (here, away) = (self.manifest(&before.pods[pod].file), self.case.path("away"));
                fs::rename(&here, &away).expect("move a manifest away");
                fs::rename(&away, &here).expect("move a manifest back");
            }
            Action::Config(index) => self.write(&crate::world::config_file(*index)),
            Action::Secret(_) => self.write(crate::world::SECRETS_FILE),
            Action::Break(file) => self.write(file),
            Action::Mend => drop(before.broken.map(|it| self.write(&it))),
        }
        self.forget_canaries();
    }

    /// What volumes held that nobody wants any more goes with them.
    fn forget_canaries(&mut self) {
        let wanted = self.scratch();
        let pods = self.truth.root.join("pods");
        self.canaries.retain(|path, text| !path.starts_with(&pods) || wanted.get(path) == Some(text));
    }

    /// The canaries that volumes should hold: one for each volume that containers write to.
    fn scratch(&self) -> BTreeMap<PathBuf, String> {
        let pods = self.world.pods.values();
        let volumes = pods.flat_map(|pod| {
            let kinds = pod.volumes.iter().filter(|(kind, _)| kind.is_scratch());
            kinds.filter_map(|(kind, number)| Some((self.place(pod.place(*kind)?), format!("{} {number}", pod.uid))))
        });
        volumes.collect()
    }

    fn place(&self, below: PathBuf) -> PathBuf {
        self.truth.root.join(below).join(CANARY)
    }

    fn manifest(&self, file: &str) -> PathBuf {
        self.case.path("manifests").join(file)
    }

    fn write(&self, file: &str) {
        self.case.manifest(file, &self.world.text(file, &self.hosts()));
    }

    fn spawn(&mut self) -> Daemon {
        self.figures.starts += 1;
        let mut command = self.case.run();
        command.arg("--token-key").arg(self.case.path("token.pem"));
        // Manifests are removed while no daemon runs, and what they named is to go soon.
        command.args(["--orphan-delay", "0"]);
        self.case.spawn(command)
    }

    fn start(&mut self) -> Daemon {
        let mut daemon = self.spawn();
        daemon.until("READY=1");
        daemon
    }

    /// Waits until all has come right, and sees that nothing went wrong on the way.
    fn settle(&mut self, daemon: &mut Daemon) -> Result<(), Trouble> {
        let began = Instant::now();
        self.await_none("all is as the manifests say", daemon, Self::differences)?;
        if self.world.broken.is_none() {
            self.ask()?;
            self.leaving.clear();
        }
        let damage = self.damage();
        check(damage.is_empty(), || damage.join("\n"))?;
        self.seen.merge(self.truth.look(&self.world));
        let new: Vec<_> = self.scratch().into_iter().filter(|(path, _)| !self.canaries.contains_key(path)).collect();
        for (path, text) in new {
            // While a manifest makes no sense, not all volumes need be there.
            let volume = path.ancestors().nth(Path::new(CANARY).components().count());
            if volume.is_some_and(Path::exists) {
                self.canary(path, text);
            }
        }
        self.figures.settled += 1;
        self.figures.slowest = self.figures.slowest.max(began.elapsed());
        Ok(())
    }

    /// What has not come about yet.
    pub(crate) fn differences(&self) -> Vec<String> {
        self.truth.differences(&self.world, &self.leaving)
    }

    /// What went wrong since all had come right.
    pub(crate) fn damage(&self) -> Vec<String> {
        let again = self.seen.damage(&self.world, &self.truth.look(&self.world));
        let lost = self.canaries.iter().filter_map(|(path, text)| {
            let found = fs::read_to_string(path);
            let told = || format!("what was written to {} is lost: {found:?}, not {text:?}", path.display());
            (found.as_ref().ok() != Some(text)).then(told)
        });
        again.into_iter().chain(lost).collect()
    }

    /// Sleeps until nothing is wrong any more.
    fn await_none(&self, what: &str, daemon: &mut Daemon, wrong: impl Fn(&Self) -> Vec<String>) -> Result<(), Trouble> {
        let stir = self.stir();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wrong = wrong(self);
            if wrong.is_empty() {
                return Ok(());
            }
            check(Instant::now() < deadline, || {
                format!("after {PATIENCE:?} it is not so that {what}:\n{}\n{}", wrong.join("\n"), self.explain())
            })?;
            // A daemon that has ended changes nothing more, so it is looked after now and then.
            stir.wait(Duration::from_secs(1));
            self.cover(&stir);
            let ended = daemon.ended();
            check(ended.is_none(), || format!("the daemon ended by itself: {ended:?}"))?;
        }
    }

    /// The daemon says the same as the disk.
    fn ask(&self) -> Result<(), Trouble> {
        let waited = self.case.output(&["wait", "--all", "-A", "--timeout", "60s"]);
        check(waited.status.success(), || {
            format!("windlass wait: {}\n{}", waited.status, String::from_utf8_lossy(&waited.stderr))
        })?;
        let pods = self.case.json(&["get", "pods", "-A"]);
        let items = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let told: BTreeMap<&str, bool> = items
            .iter()
            .map(|it| {
                let conditions = it["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
                let mounted = conditions.iter().any(|it| it["type"] == "VolumesMounted" && it["status"] == "True");
                (it["metadata"]["uid"].as_str().unwrap_or_default(), mounted)
            })
            .collect();
        let wanted = self.world.pods.values().map(|it| (it.uid.as_str(), true)).collect();
        check(told == wanted, || format!("windlass get pods says {told:?}, and there are {wanted:?}"))
    }

    fn ask_witness(&self) -> Result<(), Trouble> {
        match self.witness.as_ref().and_then(Witness::noticed) {
            Some(noticed) => Err(Trouble(format!("a container noticed: {noticed}"))),
            None => Ok(()),
        }
    }

    /// What the daemon says of what it waits for, if it says anything.
    fn explain(&self) -> String {
        let output = self.case.output(&["get", "mounts", "-A", "-o", "wide"]);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

fn check(is_so: bool, otherwise: impl FnOnce() -> String) -> Result<(), Trouble> {
    if is_so { Ok(()) } else { Err(Trouble(otherwise())) }
}

fn await_moment(stir: &Stir, moment: Moment) {
    match moment {
        Moment::After(time) => sleep(time),
        // What comes into being meanwhile is not covered: that would take as long as the work does.
        Moment::AtWork(count) => drop((0..count).all(|_| stir.wait(IDLE))),
    }
}

#[expect(clippy::disallowed_methods, reason = "when things happen is what a schedule is about; nothing is waited for")]
fn sleep(microseconds: u64) {
    std::thread::sleep(Duration::from_micros(microseconds));
}

/// Whether a process of this group is there: a daemon leads a group of its own.
fn group_is_there(leader: u32) -> bool {
    let group = i32::try_from(leader).ok().and_then(Pid::from_raw).expect("the id of a process");
    rustix::process::test_kill_process_group(group).is_ok()
}

/// A new key to sign tokens with: ECDSA P-256 as PKCS#8 in PEM.
fn token_key() -> String {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).expect("make a key");
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(key.as_ref()))
}
