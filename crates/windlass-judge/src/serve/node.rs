//! The node service.

use std::path::Path;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::node_server::Node;
use windlass_csi::proto::csi::node_service_capability::{Rpc, Type, rpc};
use windlass_csi::proto::csi::volume_usage::Unit;
use windlass_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse, VolumeCondition, VolumeUsage,
};

use super::driver::Driver;
use super::place::IMAGE_BYTES;
use super::read;
use crate::call::{Asked, Question};

pub(super) struct NodeService(pub(super) Arc<Driver>);

/// How full a volume is. A raw device is as large as it is.
fn usage(path: &str) -> Result<Vec<VolumeUsage>, Status> {
    let signed = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    if !Path::new(path).is_dir() {
        let total = signed(IMAGE_BYTES);
        return Ok(vec![VolumeUsage { total, unit: Unit::Bytes.into(), ..VolumeUsage::default() }]);
    }
    let status = rustix::fs::statvfs(path).map_err(|errno| Status::internal(format!("look at {path}: {errno}")))?;
    let figures = |total: u64, free: u64, each: u64, unit: Unit| VolumeUsage {
        available: signed(free.saturating_mul(each)),
        total: signed(total.saturating_mul(each)),
        used: signed(total.saturating_sub(free).saturating_mul(each)),
        unit: unit.into(),
    };
    Ok(vec![
        figures(status.f_blocks, status.f_bfree, status.f_frsize, Unit::Bytes),
        figures(status.f_files, status.f_ffree, 1, Unit::Inodes),
    ])
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let work = |places: &super::Places, it: NodeStageVolumeRequest, _: &crate::Begun| {
            let Asked::Stage(it) = read::stage(&it) else { return Ok(NodeStageVolumeResponse {}) };
            places.stage(&it.volume, &it.staging, &it.capability).map(|()| NodeStageVolumeResponse {})
        };
        self.0.call(request, read::stage, work).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let work = |places: &super::Places, it: NodeUnstageVolumeRequest, _: &crate::Begun| {
            places.unstage(&it.staging_target_path).map(|()| NodeUnstageVolumeResponse {})
        };
        self.0.call(request, read::unstage, work).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let work = |places: &super::Places, it: NodePublishVolumeRequest, _: &crate::Begun| {
            let Asked::Publish(it) = read::publish(&it) else { return Ok(NodePublishVolumeResponse {}) };
            places.publish(&it).map(|()| NodePublishVolumeResponse {})
        };
        self.0.call(request, read::publish, work).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let work = |places: &super::Places, it: NodeUnpublishVolumeRequest, _: &crate::Begun| {
            places.unpublish(&it.target_path).map(|()| NodeUnpublishVolumeResponse {})
        };
        self.0.call(request, read::unpublish, work).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let condition = self.0.settings().capabilities.volume_condition;
        let work = move |_: &super::Places, it: NodeGetVolumeStatsRequest, _: &crate::Begun| {
            let well = VolumeCondition { abnormal: false, message: "as it should be".into() };
            let usage = usage(&it.volume_path)?;
            Ok(NodeGetVolumeStatsResponse { usage, volume_condition: condition.then_some(well) })
        };
        self.0.call(request, read::stats, work).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        // Nobody counts what a volume of the judge holds, so it is as large as one likes.
        let work = |_: &super::Places, _: NodeExpandVolumeRequest, begun: &crate::Begun| {
            Ok(NodeExpandVolumeResponse { capacity_bytes: begun.capacity_bytes })
        };
        self.0.call(request, read::expand, work).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let can = &self.0.settings().capabilities;
        let types = [
            (can.stage_unstage, rpc::Type::StageUnstageVolume),
            (can.volume_stats, rpc::Type::GetVolumeStats),
            (can.expand, rpc::Type::ExpandVolume),
            (can.volume_condition, rpc::Type::VolumeCondition),
            (can.single_node_multi_writer, rpc::Type::SingleNodeMultiWriter),
            (can.volume_mount_group, rpc::Type::VolumeMountGroup),
        ];
        let types = types.into_iter().filter(|(can, _)| *can);
        let capabilities =
            types.map(|(_, it)| NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) });
        let answer = NodeGetCapabilitiesResponse { capabilities: capabilities.collect() };
        self.0.question(Asked::Question(Question::NodeCapabilities), answer)
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Result<Response<NodeGetInfoResponse>, Status> {
        // No topology: a kubelet would make labels of it, and never remove them.
        let answer = NodeGetInfoResponse {
            node_id: self.0.settings().node_id.clone(),
            max_volumes_per_node: 0,
            accessible_topology: None,
        };
        self.0.question(Asked::Question(Question::NodeInfo), answer)
    }
}
