//! `windlass run`: the daemon.

pub(crate) mod config;
pub(crate) mod journal;
pub(crate) mod shared;

use std::{path::PathBuf, process::ExitCode};

use config::Settings;

use crate::paths::Paths;

/// Runs the daemon until it is told to end.
pub(crate) fn run(settings: Box<Settings>, socket: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let paths = Paths::own();
    let print = settings.print_config;
    let config = Settings { socket, ..*settings }.with_file(&paths)?.mean(&paths)?;
    if print {
        print!("{}", serde_saphyr::to_string(&config.to_settings())?);
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::bail!("not here yet")
}
