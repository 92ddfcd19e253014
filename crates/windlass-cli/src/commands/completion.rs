//! `windlass completion`: a script that lets a shell complete what is typed.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Arguments, Completion};
use crate::output;

pub(crate) fn run(command: &Completion) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Arguments::command(), "windlass", &mut script);
    output::data(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
