//! The daemon's process.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use rustix::fs::inotify::WatchFlags;
use rustix::process::{Pid, Signal};

use super::super::Places;
use super::watch::{self, Watch};
use crate::inotify::Directories;
use crate::times::PATIENCE;

/// A daemon that runs. It is killed if nobody ends it, and with this process.
pub(super) struct Running {
    process: Process,
    pub(super) watch: Watch,
}

impl Running {
    /// Starts it and waits until it knows its disk and its manifests.
    pub(super) fn start(program: &Path, places: &Places, removal_delay: Option<&str>) -> anyhow::Result<Self> {
        let socket = places.run.join("api.sock");
        // What it logs goes where a service manager would have it: into a file.
        let log = places.root.join("log");
        let file = fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command.args(["run", "--node-name", "node-1", "--log-format", "text", "--config", "/dev/null"]);
        command.arg("--socket").arg(&socket).arg("--runtime-directory").arg(&places.run);
        command.arg("--root").arg(places.node()).arg("--manifests").arg(places.root.join("manifests"));
        if let Some(delay) = removal_delay {
            command.args(["--removal-delay", delay]);
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let notify = places.run.join("notify.sock");
        match fs::remove_file(&notify) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).context("remove an old socket"),
            _ => {}
        }
        let told = UnixDatagram::bind(&notify).with_context(|| format!("bind {}", notify.display()))?;
        told.set_read_timeout(Some(PATIENCE))?;
        command.env("NOTIFY_SOCKET", &notify).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let changes = Directories::new()?;
        changes.add(&log, WatchFlags::MODIFY)?;
        let process = Process(command.spawn().context("start the daemon by setpriv, which util-linux has")?);
        let ready = || -> anyhow::Result<()> {
            until_told(&told)?;
            // Its disk may still be read. Whatever becomes known is logged.
            while !watch::is_ready(&socket)? {
                ensure!(!changes.wait(PATIENCE)?.is_empty(), "it does nothing");
            }
            Ok(())
        };
        ready().with_context(|| {
            let text = fs::read_to_string(&log).unwrap_or_default();
            format!("the daemon does not become ready; its log:\n{text}")
        })?;
        let watch = Watch::open(&socket)?;
        Ok(Self { process, watch })
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Has it end in order; the volumes stay mounted.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        rustix::process::kill_process(Pid::from_child(&self.process.0), Signal::TERM)?;
        let status = self.process.0.wait()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }
}

/// The process, which is killed if nobody ends it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the daemon tells its service manager, which we are, that it is ready.
fn until_told(socket: &UnixDatagram) -> anyhow::Result<()> {
    let mut text = [0; 4096];
    loop {
        let count = socket.recv(&mut text).context("wait for it to say that it is ready")?;
        if text[..count].split(|it| *it == b'\n').any(|it| it == b"READY=1") {
            return Ok(());
        }
    }
}
