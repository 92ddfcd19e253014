//! A CSI driver as it is shown: what Kubernetes keeps in a `CSINode`, and who uses it.

use jiff::Timestamp;

use super::{Driver, DriverSettings, DriverStatus, Metadata, Object};
use crate::csi::{self, Registered};

/// How many operations of a driver there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) under_way: usize,
    /// Those that wait until others have ended.
    pub(crate) waiting: usize,
    /// How many are under way at a time now.
    pub(crate) at_once: usize,
    /// How many there may be.
    pub(crate) at_once_max: usize,
}

impl From<&csi::DriverSettings> for DriverSettings {
    fn from(settings: &csi::DriverSettings) -> Self {
        let number = |it: u128| u64::try_from(it).unwrap_or(u64::MAX);
        Self {
            controller: settings.controller.as_ref().map(|it| it.display().to_string()),
            timeout_milliseconds: settings.deadline.map(|it| number(it.as_millis())),
            calls_at_once: settings.calls_at_once.map(|it| number(it.get() as u128)),
        }
    }
}

/// A driver of this name, with what is set for it, what it is asked to do and the volumes that are its own.
pub(crate) fn driver(
    name: &str,
    registered: Option<&Registered>,
    refused: Vec<String>,
    settings: Option<&csi::DriverSettings>,
    operations: Operations,
    volumes: Vec<String>,
) -> Driver {
    let can = registered.map(|it| it.capabilities).unwrap_or_default();
    let words = [
        (can.stage_unstage, "STAGE_UNSTAGE_VOLUME"),
        (can.volume_stats, "GET_VOLUME_STATS"),
        (can.expand, "EXPAND_VOLUME"),
        (can.volume_condition, "VOLUME_CONDITION"),
        (can.single_node_multi_writer, "SINGLE_NODE_MULTI_WRITER"),
        (can.volume_mount_group, "VOLUME_MOUNT_GROUP"),
    ];
    let info = registered.map(|it| &it.info);
    let status = DriverStatus {
        registered: registered.is_some(),
        since: registered.and_then(|it| Timestamp::try_from(it.since).ok()),
        unreachable_since: registered.and_then(|it| Timestamp::try_from(it.unreachable?).ok()),
        refused,
        endpoint: registered.map(|it| it.driver.endpoint().display().to_string()),
        node_id: info.map(|it| it.id.clone()),
        volumes_max: info.and_then(|it| it.limit).map(u64::from),
        topology: info.map(|it| it.topology.clone()).unwrap_or_default(),
        capabilities: words.iter().filter(|(has, _)| *has).map(|(_, word)| (*word).to_owned()).collect(),
        operations_under_way: operations.under_way as u64,
        operations_waiting: operations.waiting as u64,
        calls_at_once: operations.at_once as u64,
        calls_at_once_max: operations.at_once_max as u64,
        settings: settings.map(DriverSettings::from),
        volumes,
    };
    let metadata = Metadata { name: name.into(), ..Metadata::default() };
    Object::new(metadata, status)
}
