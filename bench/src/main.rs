//! Measures windlass, the kubelet's volume manager and the bare system calls on the same work, on the same machine.

mod child;
mod emptied;
mod inotify;
mod namespace;
mod pods;
mod process;
mod protocol;
mod quick;
mod system;
mod times;

use clap::{Parser, Subcommand};

/// Measures windlass beside the kubelet and the bare system calls.
#[derive(Parser, Debug)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print a few figures of a few systems, for those who work on them
    Quick(quick::Quick),
    /// Serve one of the systems on the standard streams
    #[command(hide = true)]
    System(system::Serve),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Quick(quick) => quick.run(),
        Command::System(serve) => serve.run(),
    }
}
