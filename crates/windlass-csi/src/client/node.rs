//! The node service (C-53..C-60).

use std::collections::BTreeMap;
use std::time::Duration;

use super::Driver;
use crate::proto::csi;
use crate::text::{self, Secrets};
use crate::{CallError, NodeCapabilities};

const GET_INFO: &str = "/csi.v1.Node/NodeGetInfo";
const GET_CAPABILITIES: &str = "/csi.v1.Node/NodeGetCapabilities";
const STAGE: &str = "/csi.v1.Node/NodeStageVolume";
const UNSTAGE: &str = "/csi.v1.Node/NodeUnstageVolume";
const PUBLISH: &str = "/csi.v1.Node/NodePublishVolume";
const UNPUBLISH: &str = "/csi.v1.Node/NodeUnpublishVolume";
const STATS: &str = "/csi.v1.Node/NodeGetVolumeStats";
const EXPAND: &str = "/csi.v1.Node/NodeExpandVolume";

/// The longest name that a driver may have for a node (C-28).
const NODE_ID_BYTES_MAX: usize = 256;
/// Where tokens are in a volume's context (C-87).
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// What a driver says about this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// What the driver calls this node: not empty, at most 256 bytes.
    pub id: String,
    /// How many volumes the node can have; none if the driver does not know (C-27).
    pub limit: Option<u32>,
    /// Where the node is.
    pub topology: BTreeMap<String, String>,
}

impl NodeInfo {
    fn read(answer: csi::NodeGetInfoResponse) -> Result<Self, String> {
        let csi::NodeGetInfoResponse { node_id: id, max_volumes_per_node, accessible_topology } = answer;
        if id.is_empty() {
            return Err("its id of this node is empty".to_string());
        }
        if id.len() > NODE_ID_BYTES_MAX {
            return Err(format!("its id of this node is longer than {NODE_ID_BYTES_MAX} bytes"));
        }
        if id.chars().any(text::is_unshowable) {
            return Err("its id of this node has control characters".to_string());
        }
        let topology = accessible_topology.map(|it| it.segments).unwrap_or_default();
        if topology.iter().any(|(key, value)| key.is_empty() || value.is_empty()) {
            return Err("its topology has an empty key or value".to_string());
        }
        // Zero and less say nothing; more than can be told is as much as can be told.
        let limit = match max_volumes_per_node {
            ..=0 => None,
            limit => Some(i32::try_from(limit).unwrap_or(i32::MAX).unsigned_abs()),
        };
        Ok(Self { id, limit, topology })
    }
}

impl Driver {
    /// What the driver says about this node.
    pub async fn node_info(&self) -> Result<NodeInfo, CallError> {
        let answer = self.ask(GET_INFO, csi::NodeGetInfoRequest::default()).await?;
        NodeInfo::read(answer).map_err(|nonsense| self.lied(GET_INFO, nonsense))
    }

    /// What the node service can do. It is asked once, and remembered (W-2); who asks meanwhile gets the same answer. A
    /// failure is not remembered.
    pub async fn node_capabilities(&self) -> Result<NodeCapabilities, CallError> {
        let ask = async {
            let answer: csi::NodeGetCapabilitiesResponse =
                self.ask(GET_CAPABILITIES, csi::NodeGetCapabilitiesRequest::default()).await?;
            Ok(NodeCapabilities::from(&answer))
        };
        self.0.node.get_or_ask(ask).await
    }

    /// Makes a volume ready for the pods of this node.
    pub async fn stage(&self, request: csi::NodeStageVolumeRequest, deadline: Duration) -> Result<(), CallError> {
        let fields = [("volume id", &*request.volume_id), ("staging path", &request.staging_target_path)];
        self.require(STAGE, &fields)?;
        let secrets = Secrets::of(&request.secrets);
        let csi::NodeStageVolumeResponse {} = self.call(STAGE, request, &secrets, deadline).await?;
        Ok(())
    }

    /// Undoes [`Driver::stage`].
    pub async fn unstage(&self, request: csi::NodeUnstageVolumeRequest, deadline: Duration) -> Result<(), CallError> {
        let fields = [("volume id", &*request.volume_id), ("staging path", &request.staging_target_path)];
        self.require(UNSTAGE, &fields)?;
        let csi::NodeUnstageVolumeResponse {} = self.call(UNSTAGE, request, &Secrets::default(), deadline).await?;
        Ok(())
    }

    /// Makes a volume appear at a pod's path.
    pub async fn publish(&self, request: csi::NodePublishVolumeRequest, deadline: Duration) -> Result<(), CallError> {
        let fields = [("volume id", &*request.volume_id), ("target path", &request.target_path)];
        self.require(PUBLISH, &fields)?;
        let secrets = Secrets::of(&request.secrets).and(request.volume_context.get(TOKENS));
        let csi::NodePublishVolumeResponse {} = self.call(PUBLISH, request, &secrets, deadline).await?;
        Ok(())
    }

    /// Undoes [`Driver::publish`].
    pub async fn unpublish(
        &self,
        request: csi::NodeUnpublishVolumeRequest,
        deadline: Duration,
    ) -> Result<(), CallError> {
        let fields = [("volume id", &*request.volume_id), ("target path", &request.target_path)];
        self.require(UNPUBLISH, &fields)?;
        let csi::NodeUnpublishVolumeResponse {} = self.call(UNPUBLISH, request, &Secrets::default(), deadline).await?;
        Ok(())
    }

    /// How full a volume is, and whether it is well. Numbers below zero are a lie.
    pub async fn stats(
        &self,
        request: csi::NodeGetVolumeStatsRequest,
        deadline: Duration,
    ) -> Result<csi::NodeGetVolumeStatsResponse, CallError> {
        self.require(STATS, &[("volume id", &*request.volume_id), ("volume path", &request.volume_path)])?;
        let answer: csi::NodeGetVolumeStatsResponse = self.call(STATS, request, &Secrets::default(), deadline).await?;
        if answer.usage.iter().any(|it| it.available < 0 || it.total < 0 || it.used < 0) {
            return Err(self.lied(STATS, "its numbers are below zero"));
        }
        Ok(answer)
    }

    /// Makes what is on a volume as large as the volume.
    pub async fn expand(
        &self,
        request: csi::NodeExpandVolumeRequest,
        deadline: Duration,
    ) -> Result<csi::NodeExpandVolumeResponse, CallError> {
        self.require(EXPAND, &[("volume id", &*request.volume_id), ("volume path", &request.volume_path)])?;
        self.require_size(EXPAND, request.capacity_range.as_ref())?;
        let secrets = Secrets::of(&request.secrets);
        let answer: csi::NodeExpandVolumeResponse = self.call(EXPAND, request, &secrets, deadline).await?;
        if answer.capacity_bytes < 0 {
            return Err(self.lied(EXPAND, "its size of the volume is below zero"));
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit_of(max_volumes_per_node: i64) -> Option<u32> {
        let answer = csi::NodeGetInfoResponse { node_id: "n".into(), max_volumes_per_node, ..Default::default() };
        NodeInfo::read(answer).unwrap().limit
    }

    #[test]
    fn a_limit_that_says_nothing_is_none_and_one_beyond_telling_is_cut() {
        assert_eq!([0, -1, i64::MIN].map(limit_of), [None; 3]);
        assert_eq!(limit_of(39), Some(39));
        assert_eq!([1 << 31, i64::MAX].map(limit_of), [Some(0x7fff_ffff); 2]);
    }
}
