//! `windlass man`.

use std::process::ExitCode;

pub(crate) fn run(_command: &crate::args::Man) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not here yet")
}
