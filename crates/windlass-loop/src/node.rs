//! The node service: volumes staged, published, looked at and grown.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::node_server::Node;
use windlass_csi::proto::csi::node_service_capability::{Rpc, Type, rpc};
use windlass_csi::proto::csi::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse, Topology,
};

use crate::capability::{self, Wish};
use crate::controller::FILESYSTEM;
use crate::driver::{CallKind, Driver, given};
use crate::record::{Life, Record, Use};
use crate::{disk, grow, health, publish, size, stage};

/// Says in the volume context that a volume lives with its pod.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// The attribute that says how large such a volume is.
const SIZE: &str = "size";

/// What it is where none is given.
const EPHEMERAL_BYTES: u64 = 64 << 20;

/// The node service.
pub struct NodeService(pub Arc<Driver>);

impl Driver {
    fn stage(&self, request: &NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        given("volume id", &request.volume_id)?;
        given("staging path", &request.staging_target_path)?;
        let mut wish = self.wish(request.volume_capability.as_ref())?;
        let _turn = self.store.turn(&request.volume_id)?;
        let mut record = self.store.expect(&request.volume_id)?;
        if record.life == Life::Ephemeral {
            return Err(Status::invalid_argument("a volume that lives with a pod is not staged"));
        }
        wish.read_only |= self.check_attachment(&record, &request.publish_context)?;
        stage::stage(&self.store, &mut record, &request.staging_target_path, wish)?;
        Ok(NodeStageVolumeResponse {})
    }

    fn wish(&self, capability: Option<&windlass_csi::proto::csi::VolumeCapability>) -> Result<Wish, Status> {
        let wish = capability::read(capability)?;
        match &wish.usage {
            Use::Mount { group: Some(_), .. } if !self.settings.mount_group => Err(Status::invalid_argument(
                "this driver gives volumes to no group; it was started without --mount-group",
            )),
            Use::Mount { .. } | Use::Block => Ok(wish),
        }
    }

    /// Whether a volume is attached to this node by the attachment that is shown; whether it must not be written.
    fn check_attachment(&self, record: &Record, context: &BTreeMap<String, String>) -> Result<bool, Status> {
        if !self.settings.attach {
            return Ok(false);
        }
        let Some(attached) = record.attached.as_ref().filter(|it| it.node == self.settings.node_id) else {
            return Err(Status::failed_precondition("the volume is not attached to this node"));
        };
        match context.get(&self.attachment_key()) {
            Some(token) if *token == attached.token => Ok(attached.read_only),
            Some(_) => Err(Status::failed_precondition("the publish context is of another attachment")),
            None => Err(Status::failed_precondition(format!("the publish context lacks {}", self.attachment_key()))),
        }
    }

    fn unstage(&self, request: &NodeUnstageVolumeRequest) -> Result<NodeUnstageVolumeResponse, Status> {
        given("volume id", &request.volume_id)?;
        given("staging path", &request.staging_target_path)?;
        let _turn = self.store.turn(&request.volume_id)?;
        if let Some(mut record) = self.store.volume(&request.volume_id) {
            stage::unstage(&self.store, &mut record, &request.staging_target_path)?;
        }
        Ok(NodeUnstageVolumeResponse {})
    }

    fn publish(&self, request: &NodePublishVolumeRequest) -> Result<NodePublishVolumeResponse, Status> {
        given("volume id", &request.volume_id)?;
        given("target path", &request.target_path)?;
        let mut wish = self.wish(request.volume_capability.as_ref())?;
        wish.read_only |= request.readonly;
        let _turn = self.store.turn(&request.volume_id)?;
        let ephemeral = request.volume_context.get(EPHEMERAL).is_some_and(|it| it == "true");
        let there = self.store.volume(&request.volume_id);
        let (mut record, new) = match there {
            Some(record) if ephemeral == (record.life == Life::Ephemeral) => (record, false),
            Some(_) => {
                let text = format!("the volume is there, and {EPHEMERAL} says that it is of another kind");
                return Err(Status::invalid_argument(text));
            }
            None if ephemeral => (self.create_for_pod(request, &wish)?, true),
            None => (self.store.expect(&request.volume_id)?, false),
        };
        if !ephemeral {
            wish.read_only |= self.check_attachment(&record, &request.publish_context)?;
        }
        let (staging, target) = (&request.staging_target_path, &request.target_path);
        let done = publish::publish(&self.store, &mut record, staging, target, wish);
        if done.is_err() && new && record.published.is_empty() {
            publish::end(&self.store, &record)?;
        }
        done.map(|()| NodePublishVolumeResponse {})
    }

    fn create_for_pod(&self, request: &NodePublishVolumeRequest, wish: &Wish) -> Result<Record, Status> {
        if wish.usage == Use::Block {
            return Err(Status::invalid_argument("a volume that lives with a pod cannot be a raw device"));
        }
        let attribute = |name: &str| request.volume_context.get(name).map(String::as_str);
        let filesystem = capability::filesystem(attribute(FILESYSTEM).unwrap_or(""))?;
        let least = capability::least_bytes([&wish.usage], &filesystem);
        let bytes = match attribute(SIZE) {
            Some(text) => size::parse(text).map_err(|error| Status::invalid_argument(error.to_string()))?,
            None => EPHEMERAL_BYTES.max(least),
        };
        let range = windlass_csi::proto::csi::CapacityRange {
            required_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            limit_bytes: 0,
        };
        let bytes = capability::fit(Some(&range), EPHEMERAL_BYTES, least)?;
        let claim = self.store.claim(bytes)?;
        let record = Record::new(request.volume_id.clone(), String::new(), Life::Ephemeral, bytes, filesystem);
        self.store.create(&record)?;
        drop(claim);
        Ok(record)
    }

    fn unpublish(&self, request: &NodeUnpublishVolumeRequest) -> Result<NodeUnpublishVolumeResponse, Status> {
        given("volume id", &request.volume_id)?;
        given("target path", &request.target_path)?;
        let _turn = self.store.turn(&request.volume_id)?;
        // One that lived with its pod is gone after the first call, and there may be a second.
        if let Some(mut record) = self.store.volume(&request.volume_id) {
            publish::unpublish(&self.store, &mut record, &request.target_path)?;
        }
        Ok(NodeUnpublishVolumeResponse {})
    }

    fn stats(&self, request: &NodeGetVolumeStatsRequest) -> Result<NodeGetVolumeStatsResponse, Status> {
        given("volume id", &request.volume_id)?;
        given("volume path", &request.volume_path)?;
        let record = self.store.expect(&request.volume_id)?;
        let (at, usage) = place(&record, &request.volume_path)?;
        let condition = health::condition(&self.store, &record)?;
        let usage = match health::usage(&record, &at, &usage) {
            Ok(usage) => usage,
            // What is wrong with it says more.
            Err(_) if condition.abnormal => Vec::new(),
            Err(status) => return Err(status),
        };
        Ok(NodeGetVolumeStatsResponse { usage, volume_condition: Some(condition) })
    }

    fn expand_here(&self, request: &NodeExpandVolumeRequest) -> Result<NodeExpandVolumeResponse, Status> {
        given("volume id", &request.volume_id)?;
        given("volume path", &request.volume_path)?;
        let _turn = self.store.turn(&request.volume_id)?;
        let mut record = self.store.expect(&request.volume_id)?;
        place(&record, &request.volume_path)?;
        if let Some(range) = &request.capacity_range {
            let has = i64::try_from(record.capacity_bytes).unwrap_or(i64::MAX);
            if range.required_bytes > has {
                let text = format!("the volume has {has} bytes; ControllerExpandVolume makes it larger");
                return Err(Status::out_of_range(text));
            }
            if range.limit_bytes > 0 && range.limit_bytes < has {
                return Err(Status::out_of_range(format!("the volume has {has} bytes already")));
            }
        }
        let bytes = grow::online(&self.store, &mut record)?;
        Ok(NodeExpandVolumeResponse { capacity_bytes: i64::try_from(bytes).unwrap_or(i64::MAX) })
    }
}

/// Where a volume is that is staged or published at this path, and as what.
fn place(record: &Record, asked: &str) -> Result<(PathBuf, Use), Status> {
    let path = disk::entry(asked).ok().map(|it| it.path);
    let staged = record.staged.iter().map(|it| (&it.spot, &it.usage));
    let mut places = staged.chain(record.published.iter().map(|it| (&it.spot, &it.usage)));
    let found = places.find(|(spot, _)| spot.is(asked, path.as_deref()));
    let found = found.map(|(spot, usage)| (spot.path.clone(), usage.clone()));
    found.ok_or_else(|| Status::not_found(format!("the volume is not at \"{}\"", asked.escape_debug())))
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "NodeStageVolume"), id, move |it| it.stage(&request)).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "NodeUnstageVolume"), id, move |it| it.unstage(&request)).await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "NodePublishVolume"), id, move |it| it.publish(&request)).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "NodeUnpublishVolume"), id, move |it| it.unpublish(&request)).await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Question, "NodeGetVolumeStats"), id, move |it| it.stats(&request)).await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "NodeExpandVolume"), id, move |it| it.expand_here(&request)).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let mut types = vec![
            rpc::Type::StageUnstageVolume,
            rpc::Type::GetVolumeStats,
            rpc::Type::ExpandVolume,
            rpc::Type::VolumeCondition,
            rpc::Type::SingleNodeMultiWriter,
        ];
        if self.0.settings.mount_group {
            types.push(rpc::Type::VolumeMountGroup);
        }
        let capability = |it: rpc::Type| NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) };
        let capabilities = types.into_iter().map(capability).collect();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Result<Response<NodeGetInfoResponse>, Status> {
        let settings = &self.0.settings;
        Ok(Response::new(NodeGetInfoResponse {
            node_id: settings.node_id.clone(),
            max_volumes_per_node: settings.volumes_max.into(),
            accessible_topology: Some(Topology {
                segments: [(settings.topology_key(), settings.node_id.clone())].into(),
            }),
        }))
    }
}
