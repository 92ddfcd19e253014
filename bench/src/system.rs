//! The systems that are measured, each a child process that serves the protocol.

mod embedded;
mod floor;

use std::{
    fmt,
    path::{Path, PathBuf},
    process,
};

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::protocol::serve;

/// A system that is measured. The names are those of the results.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    /// Bare system calls
    Floor,
    /// The crate in a process
    #[value(name = "windlass-embedded", alias = "embedded")]
    Embedded,
}

impl System {
    /// What it is called in the results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Embedded => "windlass-embedded",
        }
    }

    /// What starts it.
    pub(crate) fn command(self, root: &Path) -> anyhow::Result<process::Command> {
        let own = std::env::current_exe().context("find this program")?;
        let mut command = process::Command::new(own);
        command.args(["system", self.name(), "--root"]).arg(root);
        Ok(command)
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Serves a system on the standard streams.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Which
    system: System,

    /// The directory of everything that it makes
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.system {
            System::Floor => serve(floor::Floor::new(&self.root)?),
            System::Embedded => serve(embedded::Embedded::new(self.root)?),
        }
    }
}
