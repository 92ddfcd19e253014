//! A CSI driver as it is shown: what Kubernetes keeps in a `CSINode`, and who uses it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{API_VERSION, Metadata, Object};
use crate::csi::Registered;

/// A driver that is registered, or that volumes wait for.
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
    /// The volumes of this node that are its own, sorted.
    pub volumes: Vec<String>,
}

impl Driver {
    /// A driver of this name, with the volumes that are its own.
    pub(crate) fn of(name: &str, registered: Option<&Registered>, volumes: Vec<String>) -> Self {
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
            endpoint: registered.map(|it| it.driver.endpoint().display().to_string()),
            node_id: info.map(|it| it.id.clone()),
            volumes_max: info.and_then(|it| it.limit).map(u64::from),
            topology: info.map(|it| it.topology.clone()).unwrap_or_default(),
            capabilities: words.iter().filter(|(has, _)| *has).map(|(_, word)| (*word).to_owned()).collect(),
            volumes,
        };
        let metadata = Metadata { name: name.into(), ..Metadata::default() };
        Self { api_version: API_VERSION.into(), kind: "Driver".into(), metadata, status }
    }
}
