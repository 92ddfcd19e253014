//! `windlass explain`.

use std::{path::Path, process::ExitCode};

pub(crate) async fn run(
    _command: &crate::args::Explain,
    _socket: Option<&Path>,
    _look: &crate::args::Look,
) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not here yet")
}
