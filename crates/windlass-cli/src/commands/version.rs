//! `windlass version`.

use std::{path::Path, process::ExitCode};

pub(crate) async fn run(_command: &crate::args::Version, _socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not here yet")
}
