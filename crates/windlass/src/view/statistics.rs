//! How full the volumes of a pod are, and how they are doing.

use std::collections::BTreeMap;

use super::{MountStatus, Object, Pod, PodStatistics, PodStatisticsStatus, Usage, VolumeCondition, VolumeStatistics};
use crate::plugin::{Condition, Measure, Statistics};

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
pub(crate) fn statistics(pod: &Pod, mut answers: BTreeMap<String, Result<Statistics, String>>) -> PodStatistics {
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
    Object::new(pod.metadata.clone(), PodStatisticsStatus { volumes })
}

/// Why a volume was not asked.
fn unasked(mount: &MountStatus) -> String {
    match mount.reasons.last() {
        _ if mount.mounted => "only volumes of pods whose manifest is in force are measured".into(),
        Some(deepest) => format!("the volume is not mounted: {}", deepest.message),
        None => "the volume is not mounted".into(),
    }
}
