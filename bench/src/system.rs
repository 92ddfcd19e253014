//! The systems that are measured, each a child process that serves the protocol.

mod daemon;
mod embedded;
mod floor;

use std::{fmt, path::PathBuf, process};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use crate::{pods, protocol::serve};

/// A system that is measured. The names are those of the results.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// Bare system calls
    Floor,
    /// The daemon, asked through its API
    Windlass,
    /// The crate in a process
    #[value(name = "windlass-embedded", alias = "embedded")]
    Embedded,
}

impl System {
    /// What it is called in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Windlass => "windlass",
            Self::Embedded => "windlass-embedded",
        }
    }

    /// What starts it.
    pub(crate) fn command(self, places: &Places) -> anyhow::Result<process::Command> {
        let own = std::env::current_exe().context("find this program")?;
        let mut command = process::Command::new(own);
        command.args(["system", self.name(), "--root"]).arg(&places.root).arg("--run").arg(&places.run);
        Ok(command)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self { system, places } = self;
        match system {
            System::Floor => serve(floor::Floor::new(&places)?),
            System::Windlass => serve(daemon::Daemon::new(places, beside("windlass")?, None)?),
            System::Embedded => serve(embedded::Embedded::new(places)?),
        }
    }
}

/// A program that was built with this one.
fn beside(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("find this program")?.with_file_name(name);
    ensure!(path.exists(), "{} is not there; `make bench` builds it", path.display());
    Ok(path)
}
