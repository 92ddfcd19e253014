//! `windlass completion`.

use std::process::ExitCode;

pub(crate) fn run(_command: &crate::args::Completion) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not here yet")
}
