//! Measures windlass, the kubelet's volume manager and the bare system calls on the same work, on the same machine.
//!
//! `run` plays scenes (`scene.rs`) as a plan says (`plan.rs`). Each system (`system/`, and `kubelet/` in Go) is a child
//! process that serves one protocol (`protocol.rs`), all in a mount namespace of their own (`namespace.rs`) and watched over
//! by a process that cleans up (`supervise.rs`). Where volumes of a CSI driver are measured, the driver is one more
//! (`driver.rs`), the same for all systems.

mod child;
mod driver;
mod emptied;
mod foreign;
mod goals;
mod inotify;
mod namespace;
mod plan;
mod pods;
mod process;
mod protocol;
mod quick;
mod records;
mod report;
mod results;
mod run;
mod scene;
mod supervise;
mod system;
mod times;
mod volumes;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures windlass beside the kubelet and the bare system calls.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Measure everything and print a table
    Run(run::Run),
    /// Print a few figures of a few systems, for those who work on them
    Quick(quick::Quick),
    /// Measure forms that records could have side by side, and print a table
    Records(records::Compare),
    /// Serve one of the systems on the standard streams
    #[command(hide = true)]
    System(system::Serve),
    /// Serve a CSI driver that does next to nothing
    #[command(hide = true)]
    Driver(driver::Serve),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(run) => run.run(),
        Command::Quick(quick) => quick.run(),
        Command::Records(compare) => compare.run(),
        Command::System(serve) => serve.run(),
        Command::Driver(serve) => serve.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
