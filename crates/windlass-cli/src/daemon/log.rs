//! Where the log goes, and in which form.

use std::io::{self, IsTerminal};

use anyhow::Context;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::{EnvFilter, fmt};

use super::config::{Config, LogFormat};

/// Begins to log. Called once.
pub(crate) fn begin(config: &Config) -> anyhow::Result<()> {
    let level = config.log_level.trim();
    let hint = || format!("log-level {level:?} is none; write error, warn, info, debug or trace, or windlass=debug");
    // A word alone is taken for the name of a part, and all others would be silent.
    anyhow::ensure!(level.contains('=') || !level.is_empty() && level.parse::<LevelFilter>().is_ok(), hint());
    let filter = EnvFilter::try_new(level).with_context(hint)?;
    let registry = Registry::default().with(filter);
    match config.log_format {
        LogFormat::Text => {
            let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let layer = fmt::layer().with_writer(io::stderr).with_ansi(color).with_target(false);
            tracing::subscriber::set_global_default(registry.with(layer))
        }
        LogFormat::Json => {
            let layer = fmt::layer().json().flatten_event(true).with_writer(io::stderr).with_target(false);
            tracing::subscriber::set_global_default(registry.with(layer))
        }
        LogFormat::Journald => {
            let layer = tracing_journald::layer()
                .context("reach journald; write log-format: text if there is none")?
                .with_field_prefix(Some("WINDLASS".into()))
                .with_syslog_identifier("windlass".into());
            tracing::subscriber::set_global_default(registry.with(layer))
        }
    }
    .context("begin to log")
}
