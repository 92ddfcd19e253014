//! `windlass version`: of this program, and of the daemon that answers.

use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::args::{TextFormat, Version};
use crate::{client, output};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: Build,
    #[serde(skip_serializing_if = "Option::is_none")]
    daemon_version: Option<Build>,
}

/// What `/version` answers, as far as it matters here.
#[derive(Serialize, Deserialize)]
struct Build {
    version: String,
}

pub(crate) async fn run(command: &Version, socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    let daemon = match command.client {
        true => None,
        false => Some(client::connect(socket).get("/version").await),
    };
    let (daemon_version, failure) = match daemon {
        None => (None, None),
        Some(Ok(version)) => (Some(version), None),
        // The version of this program is known all the same.
        Some(Err(error)) => (None, Some(error)),
    };
    let versions = Versions { client_version: Build { version: env!("CARGO_PKG_VERSION").into() }, daemon_version };
    output::data(&match command.output {
        TextFormat::Json => output::json(&versions)?,
        TextFormat::Yaml => output::yaml(&versions)?,
        TextFormat::Text => {
            let daemon = versions.daemon_version.as_ref();
            let daemon = daemon.map(|it| format!("Daemon Version: {}\n", output::plain(&it.version)));
            format!("Client Version: {}\n{}", versions.client_version.version, daemon.unwrap_or_default())
        }
    })?;
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}
