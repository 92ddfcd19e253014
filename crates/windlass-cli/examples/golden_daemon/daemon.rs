//! The daemon, and questions to it.

#![expect(clippy::disallowed_methods, reason = "it stands outside of the daemon: it starts it and waits for it")]

use std::error::Error;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use windlass_api::view::{self, MountStatus, WatchEvent, WatchKind};

use crate::manifests::Manifests;
use crate::protocol::{self, Answer, Command as Told};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A volume that failed this often in a row is not expected to come up any more.
const TRIES: u32 = 3;

/// How long the daemon may take to say that it is ready, and to read a manifest.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers as the golden cases expect it of whoever gives tokens.
const TOKENS: &str = r#"#!/usr/bin/env python3
import datetime, json, sys
request = json.load(sys.stdin)
spec, meta = request["spec"], request["metadata"]
expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=spec["expirationSeconds"])
token = f'token/{meta["namespace"]}/{meta["name"]}/[{",".join(spec["audiences"])}]'
print(json.dumps({"status": {"token": token, "expirationTimestamp": expires.isoformat()}}))
"#;

/// A daemon that runs on a directory of manifests of its own.
pub(crate) struct Daemon {
    windlass: PathBuf,
    root: PathBuf,
    child: Child,
    world: Manifests,
    /// The pods that are wanted.
    pods: Vec<String>,
}

impl Daemon {
    pub(crate) fn start(
        windlass: PathBuf,
        root: PathBuf,
        registry: Option<PathBuf>,
        world: Manifests,
        pods: Vec<String>,
    ) -> Result<Self> {
        let beside = |name: &str| root.parent().unwrap_or(&root).join(name);
        for directory in ["daemon-manifests", "run"] {
            fs::create_dir_all(beside(directory))?;
        }
        let program = beside("token");
        fs::write(&program, TOKENS)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        write(&beside("daemon-manifests"), &world.with(&pods))?;
        let notify = UnixDatagram::bind(beside("run/notify.sock"))?;
        notify.set_read_timeout(Some(PATIENCE))?;
        // Whoever ends this agent ends the daemon too, however that is done.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&windlass).args([
            "run",
            "--node-name",
            "node-1",
            "--log-format",
            "text",
            "--config",
            "/dev/null",
        ]);
        command.arg("--manifests").arg(beside("daemon-manifests"));
        command.arg("--root").arg(&root).arg("--state-directory").arg(beside("state"));
        command.arg("--runtime-directory").arg(beside("run")).arg("--token-command").arg(program);
        command.arg("--driver-registry").arg(registry.unwrap_or_else(|| beside("registry")));
        command.arg("--socket").arg(beside("run/api.sock")).env("NOTIFY_SOCKET", beside("run/notify.sock"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let daemon = Self { windlass, root, child, world, pods };
        let mut told = [0; 256];
        while !told.starts_with(b"READY=1") {
            notify.recv(&mut told)?;
        }
        Ok(daemon)
    }

    /// Leaves all as it is.
    pub(crate) fn stop(mut self) -> Result<()> {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)?;
        match self.child.wait()?.success() {
            true => Ok(()),
            false => Err("the daemon failed".into()),
        }
    }

    pub(crate) fn obey(&mut self, command: Told) -> Answer {
        let done = match command {
            Told::Run { pod } => {
                self.pods.push(pod);
                self.give()
            }
            Told::Wait { pod, seconds } => self.wait(&pod, protocol::seconds(seconds)),
            Told::Replace { dir } => self.replace(&dir),
            Told::Remove { pod } => {
                self.pods.retain(|it| *it != pod);
                self.give()
            }
            Told::Settle { seconds } => self.settle(protocol::seconds(seconds)),
        };
        done.unwrap_or_else(|error| Answer::failed(&error))
    }

    fn replace(&mut self, directory: &Path) -> Result<Answer> {
        self.world = Manifests::read(directory)?;
        self.pods = self.world.pods();
        self.give()
    }

    /// Replaces the manifests in one step, and waits until the daemon has read them.
    fn give(&self) -> Result<Answer> {
        let changed = write(&self.beside("daemon-manifests"), &self.world.with(&self.pods))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let node: view::Node = serde_json::from_slice(&self.ask(&["get", "node", "-o", "json"])?)?;
            if node.status.manifests_as_of.as_nanosecond() > changed {
                return Ok(Answer::default());
            }
            if Instant::now() > deadline {
                return Err("the daemon does not read its manifests".into());
            }
        }
    }

    /// One sync of a pod. It ends as soon as nothing more is to be expected, whether good or bad.
    fn wait(&self, pod: &str, within: Duration) -> Result<Answer> {
        let (namespace, name) = pod.split_once('/').ok_or("a pod is NAMESPACE/NAME")?;
        let uid = self.world.uid(pod);
        let mut last: Option<view::Pod> = None;
        self.watch::<view::Pod>(&["pods", name, "-n", namespace], within, |event| {
            let Some(pod) = event.object.filter(|_| event.kind != WatchKind::Deleted) else { return false };
            if uid.is_some() && pod.metadata.uid.as_deref() != uid {
                return false;
            }
            let rests = pod.status.volumes.iter().all(is_at_rest);
            last = Some(pod);
            rests
        })?;
        let Some(pod) = last else { return Err(format!("there is no pod {name}").into()) };
        let containers = self.ask(&["mounts", name, "-n", namespace, "-o", "json"])?;
        let containers: view::Containers = serde_json::from_slice(&containers)?;
        let volumes = containers.status.volumes.into_iter().map(|it| self.volume(it)).collect();
        let condition = pod.status.conditions.into_iter().find(|it| it.kind == "VolumesMounted");
        let error = condition.filter(|it| it.status != view::ConditionStatus::True).map(|it| it.message);
        let uid = pod.metadata.uid.unwrap_or_default();
        Ok(Answer::pod(protocol::Pod { uid, groups: containers.status.groups, volumes }, error))
    }

    /// Waits until nothing is wanted or here.
    fn settle(&self, within: Duration) -> Result<Answer> {
        let mut left = std::collections::BTreeSet::new();
        let mut known = false;
        self.watch::<view::Pod>(&["pods", "-A"], within, |event| {
            match (event.kind, event.object) {
                (WatchKind::Bookmark, _) => known = true,
                (WatchKind::Deleted, Some(pod)) => _ = left.remove(&pod.metadata),
                (_, Some(pod)) => _ = left.insert(pod.metadata),
                (_, None) => {}
            }
            known && left.is_empty()
        })?;
        match left.is_empty() {
            true => Ok(Answer::default()),
            false => Err(format!("after {within:?} there is still {left:?}").into()),
        }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.root.parent().unwrap_or(&self.root).join(name)
    }

    fn windlass(&self) -> Command {
        let mut command = Command::new(&self.windlass);
        command.arg("--socket").arg(self.beside("run/api.sock")).stdin(Stdio::null());
        command
    }

    fn ask(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = self.windlass().args(arguments).output()?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        }
    }

    /// Follows `get -w`, for so long or until it is enough.
    fn watch<T>(&self, what: &[&str], within: Duration, mut enough: impl FnMut(WatchEvent<T>) -> bool) -> Result<()>
    where
        T: serde::de::DeserializeOwned + Send + 'static,
    {
        let mut child = self
            .windlass()
            .arg("get")
            .args(what)
            .args(["-w", "-o", "json", "--output-watch-events"])
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, events) = mpsc::channel();
        let stdout = child.stdout.take().ok_or("no output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if sender.send(serde_json::from_str::<WatchEvent<T>>(&line)).is_err() {
                    return;
                }
            }
        });
        let deadline = Instant::now() + within;
        while let Ok(event) = events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if enough(event?) {
                break;
            }
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// A volume as `expected.json` has it.
    fn volume(&self, volume: view::GivenVolume) -> protocol::Volume {
        let path = volume.path.map(|path| match Path::new(&path).strip_prefix(&self.root) {
            Ok(below) => format!("ROOT/{}", below.display()),
            Err(_) => path,
        });
        let (path, device) = if volume.mode == "Block" { (None, path) } else { (path, None) };
        let view::GivenVolume { name, read_only, managed, relabel, .. } = volume;
        protocol::Volume { name, path, device, readonly: read_only, managed, relabel }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether what keeps a volume from being settled will not go away by itself: nobody changes anything meanwhile.
fn is_at_rest(volume: &MountStatus) -> bool {
    let tried = volume.reasons.iter().any(|it| it.attempts >= TRIES);
    let stuck = volume.reasons.iter().all(|it| it.waits_on.as_ref().is_none_or(|it| it.kind == "Object"));
    tried || stuck
}

/// Puts the file of all manifests there in one step, and tells when that was, in nanoseconds.
fn write(directory: &Path, text: &str) -> Result<i128> {
    let (temporary, path) = (directory.join(".new"), directory.join("all.yaml"));
    fs::write(&temporary, text)?;
    fs::rename(temporary, &path)?;
    let status = fs::metadata(path)?;
    Ok(i128::from(status.ctime()) * 1_000_000_000 + i128::from(status.ctime_nsec()))
}
