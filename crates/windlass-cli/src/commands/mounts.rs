//! `windlass mounts`.

use std::{path::Path, process::ExitCode};

pub(crate) async fn run(_command: &crate::args::Mounts, _socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not here yet")
}
