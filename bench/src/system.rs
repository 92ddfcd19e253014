//! The systems that are measured, each a child process that serves the protocol.

mod caller;
mod daemon;
mod embedded;
mod floor;

use std::path::PathBuf;
use std::{fmt, process};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use crate::pods;
use crate::protocol::serve;
use crate::volumes::Volumes;

/// A system that is measured. The names are those of the results.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// Bare system calls, and bare calls of drivers
    Floor,
    /// The daemon, asked through its API
    Windlass,
    /// The crate in a process
    #[value(name = "windlass-embedded", alias = "embedded")]
    Embedded,
    /// The kubelet's volume manager
    Kubelet,
}

impl System {
    /// What it is called in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Windlass => "windlass",
            Self::Embedded => "windlass-embedded",
            Self::Kubelet => "kubelet",
        }
    }

    /// What starts it.
    pub(crate) fn command(self, places: &Places, options: &[String]) -> anyhow::Result<process::Command> {
        let mut command = match self {
            Self::Kubelet => process::Command::new(kubelet()?),
            Self::Floor | Self::Windlass | Self::Embedded => {
                let mut command = process::Command::new(std::env::current_exe().context("find this program")?);
                command.args(["system", self.name(), "--run"]).arg(&places.run);
                command
            }
        };
        command.arg("--root").arg(&places.root).args(options);
        Ok(command)
    }

    /// Says what is missing to start it.
    pub(crate) fn check(self) -> anyhow::Result<()> {
        match self {
            Self::Floor | Self::Embedded => Ok(()),
            Self::Windlass => windlass().map(drop),
            Self::Kubelet => kubelet().map(drop),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The daemon's program, which is built beside this one.
pub(crate) fn windlass() -> anyhow::Result<PathBuf> {
    built(std::env::current_exe().context("find this program")?.with_file_name("windlass"))
}

/// The program of the CSI driver that has something to do, which is built beside this one too.
pub(crate) fn windlass_loop() -> anyhow::Result<PathBuf> {
    built(std::env::current_exe().context("find this program")?.with_file_name("windlass-loop"))
}

/// The kubelet's program, which is built where the results go.
fn kubelet() -> anyhow::Result<PathBuf> {
    built(output()?.join("kubelet"))
}

fn built(path: PathBuf) -> anyhow::Result<PathBuf> {
    ensure!(path.exists(), "{} is not there; `make bench` builds it", path.display());
    Ok(path)
}

/// Where results go, beside where cargo builds.
pub(crate) fn output() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    Ok(own.ancestors().nth(2).context("this program is not where cargo builds it")?.join("bench"))
}

/// Where a system has what it makes.
#[derive(Args, Debug, Clone)]
pub(crate) struct Places {
    /// The directory of everything that may be on a disk
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,

    /// The directory of what must be in memory
    #[arg(long, value_name = "DIR")]
    pub(crate) run: PathBuf,
}

impl Places {
    /// The root directory of the node.
    pub(crate) fn node(&self) -> PathBuf {
        self.root.join("node")
    }

    /// The directories of the pods.
    pub(crate) fn pods(&self) -> PathBuf {
        self.root.join("node/pods")
    }

    /// Where drivers register.
    pub(crate) fn registry(&self) -> PathBuf {
        self.root.join("node/plugins_registry")
    }

    /// The directories of a pod's volumes.
    pub(crate) fn volumes(&self, index: usize) -> PathBuf {
        self.pods().join(pods::uid(index)).join("volumes")
    }
}

/// Serves a system on the standard streams.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Which
    system: System,

    #[command(flatten)]
    places: Places,

    /// Let the daemon wait before it believes that a manifest is gone, as it does by default
    #[arg(long)]
    wait_before_removal: bool,

    /// Have the volumes of a CSI driver that this file tells of, and pods of one of them each
    #[arg(long, value_name = "FILE")]
    csi_volumes: Option<PathBuf>,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self { system, places, wait_before_removal, csi_volumes } = self;
        let volumes = csi_volumes.map(|it| Volumes::read(&it)).transpose()?;
        match (system, volumes) {
            (System::Floor, None) => serve(floor::Floor::new(&places)?),
            (System::Floor, Some(volumes)) => serve(caller::Caller::new(&places, volumes)?),
            (System::Windlass, volumes) => {
                let delay = if wait_before_removal { None } else { Some("0s") };
                serve(daemon::Daemon::new(places, windlass()?, delay, volumes)?)
            }
            (System::Embedded, volumes) => serve(embedded::Embedded::new(places, volumes)?),
            (System::Kubelet, _) => anyhow::bail!("the kubelet is a program of its own"),
        }
    }
}
