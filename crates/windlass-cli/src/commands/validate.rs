//! `windlass validate`.

use std::process::ExitCode;

pub(crate) fn run(_command: &crate::args::Validate, _look: &crate::args::Look) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not here yet")
}
