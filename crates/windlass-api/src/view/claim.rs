//! A claim as it is shown, with what was made for it: also a volume that is kept though its claim is not there.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Reason;

/// How a claim stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClaimStatus {
    /// How far it has come.
    pub phase: ClaimPhase,
    /// Since when it is known; of a volume that was made for it, since when that was asked for.
    pub since: Timestamp,
    /// The name of its persistent volume, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The volume's id on this node, by which `volumes` lists it while it is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_id: Option<String>,
    /// What its driver calls the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_handle: Option<String>,
    /// Its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Its storage class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// What becomes of the volume when the claim goes: `Delete` or `Retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<String>,
    /// How it may be used, for example `ReadWriteOnce`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// How large the claim wants the volume to be, if the claim is there and says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// How large the volume is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// When the claim was seen to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Timestamp>,
    /// When the volume is deleted, if the claim does not come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_at: Option<Timestamp>,
    /// The pods that use it or wait for it, by name.
    pub pods: Vec<String>,
    /// Why it is not as it should be, deepest cause last; empty if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
}

/// How far a claim has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(inline))]
pub enum ClaimPhase {
    /// It has no volume yet.
    Pending,
    /// It has its volume.
    Bound,
    /// The last attempt to make its volume, or to delete it, failed; it is tried again.
    Failed,
    /// The claim is gone, and its volume is deleted when the time has come.
    DeletePending,
    /// The claim is gone, and its volume is being deleted.
    Deleting,
    /// The claim is not there, and its volume is kept.
    Kept,
}

/// What becomes of the volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClaimDeletionStatus {
    /// `Deleting`: its driver is asked to delete it. `Released`: its class keeps volumes, so it is forgotten here and stays
    /// with its driver.
    #[cfg_attr(test, schemars(extend("enum" = ["Deleting", "Released"])))]
    pub outcome: String,
    /// The volume, for people; none if it may have been made, and is found out first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}
