//! One test: a directory with manifests and a root, daemons that are started on it, and questions to them.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, net::UnixDatagram, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::inotify::{self, WatchFlags},
    process::{Pid, Signal},
};
use serde_json::Value;

use crate::enter::BASE;

/// Long enough for any machine that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of its own for a test.
pub(crate) struct Case {
    directory: PathBuf,
}

impl Case {
    pub(crate) fn new(name: &str) -> Self {
        let directory = Path::new(BASE).join(name);
        for below in ["manifests", "run"] {
            fs::create_dir_all(directory.join(below)).unwrap();
        }
        Self { directory }
    }

    /// A path of this test.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.join(below)
    }

    /// Puts a manifest there in one step, as a careful program does.
    pub(crate) fn manifest(&self, file: &str, text: &str) {
        let (temporary, path) = (self.path("manifest.tmp"), self.path("manifests").join(file));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, path).unwrap();
    }

    /// Takes a manifest away.
    pub(crate) fn remove_manifest(&self, file: &str) {
        fs::remove_file(self.path("manifests").join(file)).unwrap();
    }

    /// The directory of a pod's volume, for example `configmap`.
    pub(crate) fn volume(&self, uid: &str, plugin: &str, name: &str) -> PathBuf {
        self.path("root/pods").join(uid).join(format!("volumes/kubernetes.io~{plugin}")).join(name)
    }

    /// The program, with nothing of the surroundings that could change what it does.
    pub(crate) fn windlass(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
        command.env("WINDLASS_SOCKET", self.path("run/api.sock")).env("WINDLASS_CONFIG", "/dev/null");
        command
    }

    /// `windlass run` on this directory, not started yet.
    pub(crate) fn run(&self) -> Command {
        let mut command = self.windlass();
        command.arg("run").args(["--node-name", "node-1", "--log-format", "text"]);
        for (option, below) in [("--manifests", "manifests"), ("--root", "root"), ("--runtime-directory", "run")] {
            command.arg(option).arg(self.path(below));
        }
        command
    }

    /// Starts the daemon and waits until it says that it is ready.
    pub(crate) fn start(&self) -> Daemon {
        self.start_as(self.run())
    }

    /// The same, by a daemon for which a pod that no manifest names at its start is gone.
    pub(crate) fn start_without_orphans(&self) -> Daemon {
        let mut command = self.run();
        command.args(["--orphan-delay", "0"]);
        self.start_as(command)
    }

    /// Starts this command, which is a daemon's, and waits until it says that it is ready.
    pub(crate) fn start_as(&self, command: Command) -> Daemon {
        let mut daemon = self.spawn(command);
        daemon.until("READY=1");
        daemon
    }

    /// Starts this command, which is a daemon's.
    pub(crate) fn spawn(&self, mut command: Command) -> Daemon {
        let notify = self.path("notify.sock");
        let _ = fs::remove_file(&notify);
        let socket = UnixDatagram::bind(&notify).unwrap();
        // The daemon may be another user.
        fs::set_permissions(&notify, fs::Permissions::from_mode(0o777)).unwrap();
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        command.env("NOTIFY_SOCKET", &notify).stderr(log).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap();
        Daemon { child, socket, log: self.path("log") }
    }

    /// Starts the daemon as the user nobody, who may not mount. For this the test must be root.
    pub(crate) fn start_as_nobody(&self) -> Daemon {
        const NOBODY: u32 = 65534;
        fs::create_dir_all(self.path("root")).unwrap();
        for below in ["", "manifests", "run", "root"] {
            let path = self.path(below);
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // The program may lie where another user cannot reach it. Copied by another process: a program that this one has
        // open for writing cannot be run, and another test may fork while it is.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_windlass")).arg(self.path("windlass")).status();
        assert!(copied.unwrap().success());
        let run = self.run();
        let mut command = Command::new(self.path("windlass"));
        command.args(run.get_args()).env_clear().uid(NOBODY).gid(NOBODY);
        for (name, value) in run.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        self.start_as(command)
    }

    /// Asks, and expects an answer.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
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

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.windlass().args(arguments).output().unwrap()
    }

    /// Asks with `-o json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ask(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    /// Waits until all volumes of these pods are mounted.
    pub(crate) fn wait_mounted(&self, pods: &[&str]) {
        self.ask(&[&["wait", "--timeout", "60s"], pods].concat());
    }

    /// Waits until nothing of these pods is left.
    pub(crate) fn wait_unmounted(&self, pods: &[&str]) {
        self.ask(&[&["wait", "--for", "unmounted", "--timeout", "60s"], pods].concat());
    }

    /// Waits until the deepest reason of a pod's volume is one that `is_so`, and gives the mount as it is shown then.
    pub(crate) fn until_reason(&self, pod: &str, volume: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until_mount(pod, volume, |it| it["reasons"].as_array().and_then(|it| it.last()).is_some_and(&is_so))
    }

    /// Waits until a pod's volume is as `is_so` says, and gives the mount as it is shown then.
    pub(crate) fn until_mount(&self, pod: &str, volume: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let shown = self.until_shown("mounts", |it| {
            it["status"]["pod"] == pod && it["status"]["volume"] == volume && is_so(&it["status"])
        });
        shown["status"].clone()
    }

    /// Waits until a pod is as `is_so` says.
    pub(crate) fn until_pod(&self, pod: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until_shown("pods", |it| it["metadata"]["name"] == pod && is_so(it))
    }

    /// Waits until an object of this kind is as `is_so` says.
    fn until_shown(&self, kind: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut command = self.windlass();
        command
            .args(["get", kind, "--all-namespaces", "--watch", "-o", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut watch = Ended(command.spawn().unwrap());
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(watch.0.stdout.take().unwrap());
        // Ends with the program.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
        let deadline = Instant::now() + PATIENCE;
        let mut last = Value::Null;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = lines.recv_timeout(left) else {
                let log = fs::read_to_string(self.path("log")).unwrap_or_default();
                panic!("of {kind}, this is the last that was seen: {last:#}\n{log}");
            };
            let shown: Value = serde_json::from_str(&line).unwrap();
            if is_so(&shown) {
                return shown;
            }
            last = shown;
        }
    }

    /// Where something is mounted below the root.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let table = windlass_linux::table::Reader::best().read().unwrap();
        table.below(&self.path("root")).map(|it| it.mount_point.clone()).collect()
    }
}

/// A daemon that runs. It is killed at the end of the test if nobody ended it.
pub(crate) struct Daemon {
    child: Child,
    socket: UnixDatagram,
    log: PathBuf,
}

impl Daemon {
    /// Waits until it tells the service manager this.
    pub(crate) fn until(&mut self, state: &str) {
        let mut buffer = [0; 4096];
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "after {PATIENCE:?} it has not said {state}:\n{}", self.log());
            // A daemon that ends says nothing more, so it is looked after now and then.
            self.socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            match self.socket.recv(&mut buffer) {
                Ok(count) => {
                    let told = String::from_utf8_lossy(&buffer[..count]);
                    if told.lines().any(|it| it == state) {
                        return;
                    }
                }
                Err(_) => {
                    let ended = self.ended();
                    assert!(ended.is_none(), "the daemon ended ({ended:?}) before it said {state}:\n{}", self.log());
                }
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// What it has logged, and those before it.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has logged this.
    pub(crate) fn until_logged(&self, text: &str) {
        until(&format!("the log has {text:?}"), &self.log, || self.log().contains(text));
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().unwrap()
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that ends with this, if it has not ended before.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so, which may become so whenever something happens in this directory or to this file.
pub(crate) fn until(what: &str, watched: &Path, is_so: impl Fn() -> bool) {
    let events = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let kinds =
        WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::MODIFY;
    inotify::add_watch(&events, watched, kinds).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    while !is_so() {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "after {PATIENCE:?} it is still not so that {what}");
        let left = Timespec::try_from(left).unwrap();
        let count = rustix::event::poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&left)).unwrap();
        if count > 0 {
            inotify::Reader::new(&events, &mut buffer).next().unwrap();
        }
    }
}
