//! A CSI driver as it is shown: what Kubernetes keeps in a `CSINode`, and who uses it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a driver stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DriverStatus {
    /// Whether it is registered.
    pub registered: bool,
    /// Since when it is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Since when nobody takes calls at its socket, or nobody to whom any may be sent, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Timestamp>,
    /// Why nothing is sent to those who serve at its sockets, where that is another driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
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
    /// How many of its calls are made at a time: more while its answers do not take longer for it, fewer when they do.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_at_once: u64,
    /// How many of its calls are made at a time at most.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calls_at_once_max: u64,
    /// What is set for it, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<DriverSettings>,
    /// The volumes of this node that are its own, sorted.
    pub volumes: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is set for a driver on this node; what is not is as for all drivers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DriverSettings {
    /// The socket of its controller service, by which this node makes, attaches, grows and deletes its volumes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// How long a call of it may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub timeout_milliseconds: Option<u64>,
    /// How many of its calls are made at a time at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub calls_at_once: Option<u64>,
}
