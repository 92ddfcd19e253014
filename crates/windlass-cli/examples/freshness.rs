//! How fresh files are: the time from the rename of a manifest until every pod that shows it shows the new bytes.
//!
//! Starts the real daemon on a root in memory, in a mount namespace of its own, so nothing is left behind. Each volume's
//! directory is watched by inotify; nothing is polled. `make freshness` runs it and prints the table of
//! docs/performance.md.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::inotify::{self, CreateFlags, WatchFlags},
    process::{Pid, Signal},
};

#[expect(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../../windlass/tests/real/enter.rs"]
mod enter;

/// 99 of 100 files must be new by then.
const GOAL: Duration = Duration::from_millis(500);
/// Long enough for any machine that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures how long changed manifests take to reach the files of pods.
#[derive(Parser)]
struct Arguments {
    /// How many pods show what changes
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    pods: usize,

    /// How often each thing is changed
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    rounds: u32,
}

/// What changes, each in a file of its own.
#[derive(Clone, Copy)]
enum Change {
    ConfigMap,
    Secret,
    Labels,
}

impl Change {
    const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::Labels];

    fn title(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Labels => "label of every pod",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::ConfigMap => "config.yaml",
            Self::Secret => "secret.yaml",
            Self::Labels => "pods.yaml",
        }
    }

    /// The file's text in a round.
    fn manifest(self, pods: usize, round: u32) -> String {
        match self {
            Self::ConfigMap => object("ConfigMap", "data", round),
            Self::Secret => object("Secret", "stringData", round),
            Self::Labels => {
                let mut text = String::new();
                for pod in 0..pods {
                    let _ = write!(text, "{}", self::pod(pod, round));
                }
                text
            }
        }
    }

    /// Where a pod shows it, below the pod's volumes, and what is to be read there.
    fn shown(self, round: u32) -> (&'static str, &'static str, String) {
        match self {
            Self::ConfigMap => ("kubernetes.io~configmap/config", "round", round.to_string()),
            Self::Secret => ("kubernetes.io~secret/secret", "round", round.to_string()),
            Self::Labels => ("kubernetes.io~downward-api/labels", "labels", format!("round=\"{round}\"")),
        }
    }
}

fn object(kind: &str, data: &str, round: u32) -> String {
    format!(
        "apiVersion: v1\nkind: {kind}\nmetadata: {{name: shared}}\n{data}: {{round: \"{round}\", more: {}}}\n",
        "x".repeat(1000)
    )
}

fn pod(index: usize, round: u32) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: pod-{index}, uid: pod-{index}, labels: {{round: \"{round}\"}}}}
spec:
  containers:
  - name: main
    image: busybox
    volumeMounts:
    - {{name: config, mountPath: /config}}
    - {{name: secret, mountPath: /secret}}
    - {{name: labels, mountPath: /labels}}
  volumes:
  - {{name: config, configMap: {{name: shared}}}}
  - {{name: secret, secret: {{secretName: shared}}}}
  - {{name: labels, downwardAPI: {{items: [{{path: labels, fieldRef: {{fieldPath: metadata.labels}}}}]}}}}
"
    )
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // While there is one thread.
    enter::enter().map_err(anyhow::Error::msg)?;
    ensure!(arguments.pods > 0 && arguments.rounds > 0, "there must be a pod and a round");
    let scene = Scene { base: Path::new(enter::BASE).into(), program: program()?, pods: arguments.pods };
    let daemon = scene.start()?;
    println!(
        "| Changed | Pods | Changes | p50 | p90 | p99 | max | CPU per volume |\n|---|---|---|---|---|---|---|---|"
    );
    let mut fresh = true;
    for change in Change::ALL {
        let before = daemon.processor_time()?;
        let mut times = scene.measure(change, arguments.rounds)?;
        let cost = (daemon.processor_time()? - before).as_secs_f64() * 1000.0 / times.len() as f64;
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let text = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
        let columns = [at(50), at(90), at(99), at(100)].map(text);
        let (title, columns) = (change.title(), columns.join(" | "));
        println!("| {title} | {} | {} | {columns} | {cost:.2} ms |", scene.pods, arguments.rounds);
        fresh &= at(99) <= GOAL;
    }
    daemon.stop()?;
    if fresh {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("a p99 is over the goal of {GOAL:?}");
    Ok(ExitCode::FAILURE)
}

/// The program beside this one: examples are in a directory below it.
fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let path = own.ancestors().nth(2).context("this program is in no directory")?.join("windlass");
    ensure!(path.exists(), "{} is not there; `make freshness` builds it", path.display());
    Ok(path)
}

struct Scene {
    base: PathBuf,
    program: PathBuf,
    pods: usize,
}

/// The daemon, which is killed if nobody ends it.
struct Daemon(Child);

impl Daemon {
    /// How long processors have worked for it, whatever else they had to do: a measure that a busy machine blurs less.
    fn processor_time(&self) -> anyhow::Result<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // See proc_pid_stat(5): the name may hold anything, so it is counted from behind it.
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        // A tick is a hundredth of a second wherever this runs (USER_HZ).
        Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
    }

    fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scene {
    fn windlass(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("WINDLASS_SOCKET", self.base.join("run/api.sock")).env("WINDLASS_CONFIG", "/dev/null");
        command.stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until all pods have their volumes.
    fn start(&self) -> anyhow::Result<Daemon> {
        for directory in ["manifests", "run"] {
            fs::create_dir_all(self.base.join(directory))?;
        }
        for change in Change::ALL {
            self.put(change, 0)?;
        }
        // What it logs is not measured by us, so it goes where a service manager would have it: into a file.
        let log = fs::File::create(self.base.join("log"))?;
        let mut command = self.windlass();
        command.args(["run", "--node-name", "node-1", "--log-format", "text"]).stderr(log).stdout(Stdio::null());
        for (option, below) in [("--manifests", "manifests"), ("--root", "root"), ("--runtime-directory", "run")] {
            command.arg(option).arg(self.base.join(below));
        }
        let notify = self.base.join("notify.sock");
        let socket = std::os::unix::net::UnixDatagram::bind(&notify)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let daemon = Daemon(command.env("NOTIFY_SOCKET", &notify).spawn().context("start the daemon")?);
        let mut told = [0; 4096];
        loop {
            let count = socket.recv(&mut told).with_context(|| format!("the daemon is not ready: {}", self.log()))?;
            if told[..count].split(|it| *it == b'\n').any(|it| it == b"READY=1") {
                break;
            }
        }
        let waited = self.windlass().args(["wait", "--all", "--timeout", "60s"]).output()?;
        ensure!(waited.status.success(), "wait: {}", String::from_utf8_lossy(&waited.stderr));
        Ok(daemon)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.base.join("log")).unwrap_or_default()
    }

    /// Puts a manifest there in one step. The time is that just before the step.
    fn put(&self, change: Change, round: u32) -> anyhow::Result<Instant> {
        let temporary = self.base.join("manifest.tmp");
        fs::write(&temporary, change.manifest(self.pods, round))?;
        let began = Instant::now();
        fs::rename(temporary, self.base.join("manifests").join(change.file()))?;
        Ok(began)
    }

    /// How long each pod took in each round.
    fn measure(&self, change: Change, rounds: u32) -> anyhow::Result<Vec<Duration>> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut volumes = HashMap::new();
        let (volume, file, _) = change.shown(0);
        for pod in 0..self.pods {
            let directory = self.base.join(format!("root/pods/pod-{pod}/volumes")).join(volume);
            // A new version comes into use by the rename of a link.
            let watch = inotify::add_watch(&events, &directory, WatchFlags::MOVED_TO)
                .with_context(|| format!("watch {}", directory.display()))?;
            volumes.insert(watch, directory.join(file));
        }
        let mut times = Vec::new();
        for round in 1..=rounds {
            let (_, _, wanted) = change.shown(round);
            let began = self.put(change, round)?;
            let mut waiting = volumes.clone();
            while !waiting.is_empty() {
                for watch in moved(&events)? {
                    let Some(path) = waiting.get(&watch) else { continue };
                    if fs::read(path).is_ok_and(|it| it == wanted.as_bytes()) {
                        times.push(began.elapsed());
                        waiting.remove(&watch);
                    }
                }
            }
        }
        Ok(times)
    }
}

/// Sleeps until something was renamed, and tells in which directories.
fn moved(events: &OwnedFd) -> anyhow::Result<Vec<i32>> {
    let patience = Timespec::try_from(PATIENCE)?;
    if rustix::event::poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&patience))? == 0 {
        bail!("nothing changed for {PATIENCE:?}");
    }
    let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    let mut watches = Vec::new();
    // An event at a time, so that each is looked at before the next is waited for.
    watches.push(reader.next()?.wd());
    while !reader.is_buffer_empty() {
        watches.push(reader.next()?.wd());
    }
    Ok(watches)
}
