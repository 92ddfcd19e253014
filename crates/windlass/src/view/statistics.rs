//! How full the volumes of a pod are, and how they are doing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MountStatus, Object, Pod};
use crate::plugin::{Condition, Measure, Statistics};

/// How full the volumes of a pod are.
pub type PodStatistics = Object<PodStatisticsStatus>;

/// How full the volumes of a pod are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatisticsStatus {
    /// Its volumes, each as it was just now.
    pub volumes: Vec<VolumeStatistics>,
}

/// How full a volume is and how it is doing, or why that is not known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase")]
pub struct VolumeCondition {
    /// Something is wrong with it.
    pub abnormal: bool,
    /// What, in the driver's words.
    pub message: String,
}

impl From<Measure> for Usage {
    fn from(measure: Measure) -> Self {
        let Measure { total, available, used } = measure;
        Self { total, available, used }
    }
}

impl From<Condition> for VolumeCondition {
    fn from(condition: Condition) -> Self {
        let Condition { abnormal, message } = condition;
        Self { abnormal, message }
    }
}

/// What became of asking how full the volumes of this pod are; `answers` are by what the pod calls them.
pub fn statistics(pod: &Pod, mut answers: BTreeMap<String, Result<Statistics, String>>) -> PodStatistics {
    let one = |mount: &MountStatus| {
        let answer = if mount.mounted { answers.remove(&mount.volume) } else { None };
        let named = VolumeStatistics {
            volume: mount.volume.clone(),
            volume_id: mount.volume_id.clone(),
            plugin: mount.plugin.clone(),
            ..VolumeStatistics::default()
        };
        match answer.unwrap_or_else(|| Err(unasked(mount))) {
            Ok(Statistics { bytes, inodes, condition }) => VolumeStatistics {
                bytes: bytes.map(Usage::from),
                inodes: inodes.map(Usage::from),
                condition: condition.map(VolumeCondition::from),
                ..named
            },
            Err(error) => VolumeStatistics { error: Some(error), ..named },
        }
    };
    let volumes = pod.status.volumes.iter().map(one).collect();
    Object::new("PodStatistics", pod.metadata.clone(), PodStatisticsStatus { volumes })
}

/// Why a volume was not asked.
fn unasked(mount: &MountStatus) -> String {
    match mount.reasons.last() {
        _ if mount.mounted => "only volumes of pods whose manifest is in force are measured".into(),
        Some(deepest) => format!("the volume is not mounted: {}", deepest.message),
        None => "the volume is not mounted".into(),
    }
}
