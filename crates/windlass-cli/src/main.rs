//! The `windlass` command: `run` is the daemon, the other verbs ask it or look at the disk.

use std::process::ExitCode;

use clap::Parser;

mod args;
mod client;
mod commands;
mod daemon;
mod exit;
mod output;
mod paths;

use args::{Arguments, Command, Csi, CsiCommand};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Run(settings) => daemon::run(settings, arguments.socket),
        Command::Validate(command) => commands::validate::run(&command, &arguments.look),
        Command::Csi(Csi { command: CsiCommand::Judge(command) }) => commands::judge::run(*command),
        Command::Completion(command) => commands::completion::run(&command),
        Command::Man(command) => commands::man::run(&command),
        Command::Version(command) => ask(commands::version::run(&command, arguments.socket.as_deref())),
        Command::Get(command) => ask(commands::get::run(&command, arguments.socket.as_deref(), &arguments.look)),
        Command::Describe(command) => {
            ask(commands::describe::run(&command, arguments.socket.as_deref(), &arguments.look))
        }
        Command::Explain(command) => {
            ask(commands::explain::run(&command, arguments.socket.as_deref(), &arguments.look))
        }
        Command::Wait(command) => ask(commands::wait::run(&command, arguments.socket.as_deref(), &arguments.look)),
        Command::Retry(command) => ask(commands::retry::run(&command, arguments.socket.as_deref())),
        Command::Delete(command) => ask(commands::delete::run(&command, arguments.socket.as_deref())),
        Command::Tree(command) => ask(commands::tree::run(&command, arguments.socket.as_deref(), &arguments.look)),
        Command::Events(command) => ask(commands::events::run(&command, arguments.socket.as_deref(), &arguments.look)),
        Command::Mounts(command) => ask(commands::mounts::run(&command, arguments.socket.as_deref())),
        Command::Usage(command) => ask(commands::usage::run(&command, arguments.socket.as_deref(), &arguments.look)),
    };
    exit::code(done)
}

/// Runs a verb that talks to the daemon.
fn ask(verb: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(verb)
}
