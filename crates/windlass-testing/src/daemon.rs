//! The program `windlass`: daemons that are started on a directory of manifests, and questions to them.

use std::fs::{self, File};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde_json::Value;

use crate::directory::{Directory, short};
use crate::namespace::BASE;
use crate::process::{Process, program};
use crate::wait::{PATIENCE, until};

/// One test: a directory with manifests and a root.
pub struct Case {
    directory: Directory,
    /// `windlass`; the other programs lie beside it.
    program: PathBuf,
}

impl Deref for Case {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

impl Case {
    /// For the test of this name, with the program at this path.
    pub fn new(program: &str, name: &str) -> Self {
        let directory = Directory::new(name);
        for below in ["manifests", "run"] {
            directory.directory(below);
        }
        Self { directory, program: program.into() }
    }

    /// Where a driver has its sockets: their paths must be short, and the names of tests are not.
    pub fn sockets(&self) -> PathBuf {
        Path::new(BASE).join(short(&self.text("")))
    }

    /// Starts the driver `windlass-loop` with its sockets in this directory, and waits until it can be called. Its volumes
    /// are in `state`, and what it says is in `driver.log`.
    pub fn start_loop_driver(&self, sockets: &Path, options: &[&str]) -> Process {
        let path = self.program.with_file_name("windlass-loop");
        assert!(path.exists(), "{} is missing: cargo build --package windlass-loop", path.display());
        let log = File::options().create(true).append(true).open(self.path("driver.log")).unwrap();
        let mut command = program(path);
        command.arg("--endpoint").arg(sockets.join("csi.sock")).arg("--state").arg(self.path("state"));
        command.arg("--registry").arg(sockets.join("registry")).args(["--node-id", "node-1"]).args(options);
        let (driver, line) = Process::start_until_it_speaks(command.stdin(Stdio::null()).stderr(log));
        assert!(!line.is_empty(), "the driver ended: {}", self.read("driver.log"));
        driver
    }

    /// Puts a manifest there in one step, as a careful program does.
    pub fn manifest(&self, file: &str, text: &str) {
        let (temporary, path) = (self.path("manifest.tmp"), self.path("manifests").join(file));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, path).unwrap();
    }

    /// Takes a manifest away.
    pub fn remove_manifest(&self, file: &str) {
        fs::remove_file(self.path("manifests").join(file)).unwrap();
    }

    /// Takes a manifest away, and waits until nothing of these pods is left.
    pub fn take_away(&self, file: &str, pods: &[&str]) {
        self.remove_manifest(file);
        self.wait_unmounted(pods);
    }

    /// The directory of a pod's volume, for example `configmap`.
    pub fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.path("root/pods").join(uid).join(format!("volumes/kubernetes.io~{plugin}")).join(name)
    }

    /// The program, with nothing of the surroundings that could change what it does.
    pub fn windlass(&self) -> Command {
        let mut command = program(&self.program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
        command.env("WINDLASS_SOCKET", self.path("run/api.sock")).env("WINDLASS_CONFIG", "/dev/null");
        command
    }

    /// `windlass run` on this directory, not started yet.
    pub fn run(&self) -> Command {
        let mut command = self.windlass();
        command.arg("run").args(["--node-name", "node-1", "--log-format", "text"]);
        for (option, below) in [("--manifests", "manifests"), ("--root", "root"), ("--runtime-directory", "run")] {
            command.arg(option).arg(self.path(below));
        }
        command
    }

    /// Starts the daemon and waits until it says that it is ready.
    pub fn start(&self) -> Daemon {
        self.start_as(self.run())
    }

    /// The same, and until all volumes of these pods are mounted.
    pub fn start_until_mounted(&self, pods: &[&str]) -> Daemon {
        let daemon = self.start();
        self.wait_mounted(pods);
        daemon
    }

    /// Starts a daemon for which a pod that no manifest names at its start is gone.
    pub fn start_without_orphans(&self) -> Daemon {
        let mut command = self.run();
        command.args(["--orphan-delay", "0"]);
        self.start_as(command)
    }

    /// Starts this command, which is a daemon's, and waits until it says that it is ready.
    pub fn start_as(&self, command: Command) -> Daemon {
        let mut daemon = self.spawn(command);
        daemon.until("READY=1");
        daemon
    }

    /// Starts this command, which is a daemon's.
    pub fn spawn(&self, mut command: Command) -> Daemon {
        let notify = self.path("notify.sock");
        let _ = fs::remove_file(&notify);
        let socket = UnixDatagram::bind(&notify).unwrap();
        // The daemon may be another user.
        fs::set_permissions(&notify, fs::Permissions::from_mode(0o777)).unwrap();
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        command.env("NOTIFY_SOCKET", &notify).stderr(log).stdout(Stdio::null()).process_group(0);
        let process = Process::start(&mut command);
        let pid = Pid::from_child(&process.0);
        let end = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a descriptor of the process");
        Daemon { process, end, socket, log: self.path("log") }
    }

    /// Starts the daemon as the user nobody, who may not mount. For this the test must be root.
    pub fn start_as_nobody(&self) -> Daemon {
        const NOBODY: u32 = 65534;
        fs::create_dir_all(self.path("root")).unwrap();
        for below in ["", "manifests", "run", "root"] {
            let path = self.path(below);
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // The program may lie where another user cannot reach it. Copied by another process: a program that this one has
        // open for writing cannot be run, and another test may fork while it is.
        let copied = program("cp").arg(&self.program).arg(self.path("windlass")).status();
        assert!(copied.unwrap().success());
        let run = self.run();
        let mut command = program(self.path("windlass"));
        command.args(run.get_args()).env_clear().uid(NOBODY).gid(NOBODY);
        for (name, value) in run.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        self.start_as(command)
    }

    /// Asks, and expects an answer.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "windlass {arguments:?}: {}\n{}\n{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Asks, and gives whatever comes of it.
    pub fn output(&self, arguments: &[&str]) -> Output {
        self.windlass().args(arguments).output().unwrap()
    }

    /// Asks with `-o json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ask(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    /// Waits until all volumes of these pods are mounted.
    pub fn wait_mounted(&self, pods: &[&str]) {
        self.ask(&[&["wait", "--timeout", "60s"], pods].concat());
    }

    /// Waits until nothing of these pods is left.
    pub fn wait_unmounted(&self, pods: &[&str]) {
        self.ask(&[&["wait", "--for", "unmounted", "--timeout", "60s"], pods].concat());
    }

    /// Waits until the deepest reason of a pod's volume is one that `is_so`, and gives the mount as it is shown then.
    pub fn until_reason(&self, pod: &str, volume: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until_mount(pod, volume, |it| it["reasons"].as_array().and_then(|it| it.last()).is_some_and(&is_so))
    }

    /// Waits until a pod's volume is as `is_so` says, and gives the mount as it is shown then.
    pub fn until_mount(&self, pod: &str, volume: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let shown = self.until_shown("mounts", |it| {
            it["status"]["pod"] == pod && it["status"]["volume"] == volume && is_so(&it["status"])
        });
        shown["status"].clone()
    }

    /// Waits until a pod is as `is_so` says.
    pub fn until_pod(&self, pod: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until_shown("pods", |it| it["metadata"]["name"] == pod && is_so(it))
    }

    /// Waits until an object of this kind is as `is_so` says.
    fn until_shown(&self, kind: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut command = self.windlass();
        command.args(["get", kind, "--all-namespaces", "--watch", "-o", "json"]);
        let (_watch, lines) = Process::start_for_lines(&mut command);
        let mut last = Value::Null;
        for line in lines {
            let shown: Value = serde_json::from_str(&line).unwrap();
            if is_so(&shown) {
                return shown;
            }
            last = shown;
        }
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        panic!("of {kind}, this is the last that was seen: {last:#}\n{log}");
    }

    /// Where something is mounted below the root.
    pub fn mounts(&self) -> Vec<PathBuf> {
        self.mounts_below("root")
    }
}

/// A daemon that runs. It is killed at the end of the test if nobody ended it.
pub struct Daemon {
    process: Process,
    /// Can be read once the process has ended.
    end: OwnedFd,
    socket: UnixDatagram,
    log: PathBuf,
}

impl Daemon {
    /// Waits until it tells the service manager this.
    #[track_caller]
    pub fn until(&mut self, state: &str) {
        if !self.says(state) {
            let ended = self.process.0.wait();
            panic!("the daemon ended ({ended:?}) before it said {state}:\n{}", self.log());
        }
    }

    /// The same, or until it has ended. Whether it said it.
    #[track_caller]
    pub fn says(&mut self, state: &str) -> bool {
        let mut buffer = [0; 4096];
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).expect("a short time");
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
            let count = rustix::event::poll(&mut polled, Some(&left)).expect("poll");
            assert!(count > 0, "after {PATIENCE:?} it has not said {state}:\n{}", self.log());
            // What it said before it ended counts.
            if polled[0].revents().is_empty() {
                return false;
            }
            let count = self.socket.recv(&mut buffer).expect("what it says");
            if String::from_utf8_lossy(&buffer[..count]).lines().any(|it| it == state) {
                return true;
            }
        }
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.0.try_wait().unwrap()
    }

    /// What it has logged, and those before it.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has logged this.
    pub fn until_logged(&self, text: &str) {
        until(&format!("the log has {text:?}"), &self.log, || self.log().contains(text));
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Ends it in order.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.process.0.wait().unwrap()
    }

    /// Ends it at once.
    pub fn kill(self) {
        drop(self);
    }
}
