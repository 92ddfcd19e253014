//! A CSI driver as it is shown: what Kubernetes keeps in a `CSINode`, and who uses it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{API_VERSION, Metadata, Object};
use crate::csi::{self, Registered};

/// A driver that is registered, that volumes wait for, or that something is set for.
pub type Driver = Object<DriverStatus>;

/// How a driver stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverStatus {
    /// Whether it is registered.
    pub registered: bool,
    /// Since when it is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Since when nobody takes calls at its socket, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Timestamp>,
    /// The socket on which it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// What it calls this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// How many volumes this node can take at most, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_max: Option<u64>,
    /// Where this node is, as the driver sees it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub topology: BTreeMap<String, String>,
    /// What it can do on this node, in CSI's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// How many of its operations are under way.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operations_under_way: u64,
    /// How many of its operations wait until others have ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operations_waiting: u64,
    /// What is set for it, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<DriverSettings>,
    /// The volumes of this node that are its own, sorted.
    pub volumes: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How many operations of a driver there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Operations {
    pub(crate) under_way: usize,
    /// Those that wait until others have ended.
    pub(crate) waiting: usize,
}

/// What is set for a driver on this node; what is not is as for all drivers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverSettings {
    /// The socket of its controller service, by which this node makes, attaches, grows and deletes its volumes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// How long a call of it may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<u64>,
    /// How many of its calls are made at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_at_once: Option<u64>,
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

impl Driver {
    /// A driver of this name, with what is set for it, what it is asked to do and the volumes that are its own.
    pub(crate) fn of(
        name: &str,
        registered: Option<&Registered>,
        settings: Option<&csi::DriverSettings>,
        operations: Operations,
        volumes: Vec<String>,
    ) -> Self {
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
            endpoint: registered.map(|it| it.driver.endpoint().display().to_string()),
            node_id: info.map(|it| it.id.clone()),
            volumes_max: info.and_then(|it| it.limit).map(u64::from),
            topology: info.map(|it| it.topology.clone()).unwrap_or_default(),
            capabilities: words.iter().filter(|(has, _)| *has).map(|(_, word)| (*word).to_owned()).collect(),
            operations_under_way: operations.under_way as u64,
            operations_waiting: operations.waiting as u64,
            settings: settings.map(DriverSettings::from),
            volumes,
        };
        let metadata = Metadata { name: name.into(), ..Metadata::default() };
        Self { api_version: API_VERSION.into(), kind: "Driver".into(), metadata, status }
    }
}
