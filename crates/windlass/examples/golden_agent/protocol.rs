//! What is asked and what is answered: one JSON object per line.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Command {
    /// This pod of the manifests is wanted.
    Run { pod: String },
    /// One sync of this pod: wait for its volumes, at most this long.
    Wait { pod: String, seconds: f64 },
    /// The manifests of this directory are the whole world now.
    Replace { dir: PathBuf },
    /// This pod is gone.
    Remove { pod: String },
    /// Wait until nothing is wanted or here, at most this long.
    Settle { seconds: f64 },
}

/// How long that is; nonsense is no time at all.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// What came of it.
#[derive(Default, Serialize)]
pub(crate) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Pod>,
}

impl Answer {
    pub(crate) fn failed(error: &impl Display) -> Self {
        Self { error: Some(error.to_string()), pod: None }
    }

    /// How a pod fares, and what its sync failed with.
    pub(crate) fn pod(pod: Pod, error: Option<impl Display>) -> Self {
        Self { error: error.map(|it| it.to_string()), pod: Some(pod) }
    }
}

/// How a pod fares.
#[derive(Serialize)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) volumes: Vec<Volume>,
}

/// A volume that is ready.
#[derive(Serialize)]
pub(crate) struct Volume {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
    pub(crate) readonly: bool,
    pub(crate) managed: bool,
    pub(crate) relabel: bool,
}
