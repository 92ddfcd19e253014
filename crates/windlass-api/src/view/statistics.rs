//! How full the volumes of a pod are, and how they are doing.

use serde::{Deserialize, Serialize};

/// How full the volumes of a pod are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PodStatisticsStatus {
    /// Its volumes, each as it was just now.
    pub volumes: Vec<VolumeStatistics>,
}

/// How full a volume is and how it is doing, or why that is not known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatistics {
    /// What the pod calls the volume.
    pub volume: String,
    /// The volume that it is, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// Its kind, for example `kubernetes.io/csi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// In bytes, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Usage>,
    /// In files and directories, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<Usage>,
    /// What its driver says of its health, if it says anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<VolumeCondition>,
    /// Why none of this is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How much there is of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Altogether; a volume that is a directory among others has no size of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// That is left, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    /// That is used.
    pub used: u64,
}

/// What a driver says of a volume's health.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct VolumeCondition {
    /// Something is wrong with it.
    pub abnormal: bool,
    /// What, in the driver's words.
    pub message: String,
}
