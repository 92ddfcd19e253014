//! The controller service: volumes made, listed, attached, grown and deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tonic::{Request, Response, Status};
use windlass_csi::proto::csi::controller_server::Controller;
use windlass_csi::proto::csi::controller_service_capability::{Rpc, Type, rpc};
use windlass_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, ControllerGetVolumeRequest, ControllerGetVolumeResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, ControllerPublishVolumeRequest,
    ControllerPublishVolumeResponse, ControllerServiceCapability, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest,
    DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse, ListVolumesRequest, ListVolumesResponse, Topology,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse, Volume, VolumeCapability,
    controller_get_volume_response, list_volumes_response, validate_volume_capabilities_response,
};

use crate::capability::{self, BLOCK_BYTES, DEFAULT_BYTES};
use crate::driver::{CallKind, Driver, given};
use crate::record::{Attachment, Life, Record, Use};
use crate::store::random;
use crate::{health, publish};

/// The parameter that names a file system, as people write it in a StorageClass.
pub const FILESYSTEM: &str = "fsType";

/// What orchestrators add for their own use begins with this.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";

/// How our ids begin.
const ID_PREFIX: &str = "vol-";

/// The longest name that is remembered. CSI says 128 bytes; more does no harm.
const NAME_BYTES_MAX: usize = 1024;

/// The controller service.
pub struct ControllerService(pub Arc<Driver>);

impl Driver {
    /// The key in the publish context under which an attachment is proven.
    #[must_use]
    pub fn attachment_key(&self) -> String {
        format!("{}/attachment", self.settings.name)
    }

    fn topology(&self) -> Topology {
        Topology { segments: [(self.settings.topology_key(), self.settings.node_id.clone())].into() }
    }

    /// What CSI is told of a volume.
    fn told(&self, record: &Record) -> Volume {
        Volume {
            capacity_bytes: signed(record.capacity_bytes),
            volume_id: record.id.clone(),
            accessible_topology: vec![self.topology()],
            ..Volume::default()
        }
    }

    fn create(&self, request: &CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        given("name", &request.name)?;
        if request.name.len() > NAME_BYTES_MAX {
            return Err(Status::invalid_argument(format!("the name is longer than {NAME_BYTES_MAX} bytes")));
        }
        let uses = uses(&request.volume_capabilities)?;
        let filesystem = parameters(&request.parameters)?;
        if request.volume_content_source.is_some() {
            return Err(Status::invalid_argument("volumes cannot be made from snapshots or other volumes"));
        }
        if let Some(name) = request.mutable_parameters.keys().next() {
            return Err(Status::invalid_argument(format!(
                "the mutable parameter \"{}\" is not known",
                name.escape_debug()
            )));
        }
        if let Some(wanted) = &request.accessibility_requirements
            && !wanted.requisite.is_empty()
            && !wanted.requisite.iter().any(|it| self.is_here(it))
        {
            return Err(Status::resource_exhausted("the volume is wanted on other nodes than this one"));
        }
        let range = request.capacity_range.as_ref();
        let bytes = capability::fit(range, DEFAULT_BYTES, capability::least_bytes(&uses, &filesystem))?;
        let _turn = self.store.turn(&format!("the name {}", request.name))?;
        if let Some(record) = self.store.named(&request.name) {
            same(&record, range, &filesystem)?;
            return Ok(CreateVolumeResponse { volume: Some(self.told(&record)) });
        }
        let claim = self.store.claim(bytes)?;
        let id = format!("{ID_PREFIX}{}", random()?);
        let record = Record::new(id, request.name.clone(), Life::Persistent, bytes, filesystem);
        self.store.create(&record)?;
        drop(claim);
        Ok(CreateVolumeResponse { volume: Some(self.told(&record)) })
    }

    /// Whether all that is asked of a place is true here.
    fn is_here(&self, wanted: &Topology) -> bool {
        wanted
            .segments
            .iter()
            .all(|(key, value)| *key == self.settings.topology_key() && *value == self.settings.node_id)
    }

    fn delete(&self, id: &str) -> Result<DeleteVolumeResponse, Status> {
        given("volume id", id)?;
        let _turn = self.store.turn(id)?;
        let Some(record) = self.store.volume(id) else { return Ok(DeleteVolumeResponse {}) };
        if record.life == Life::Ephemeral {
            return Err(Status::failed_precondition("the volume lives with a pod, and ends when it is unpublished"));
        }
        let staged = record.staged.iter().map(|it| &it.spot.path);
        if let Some(path) = staged.chain(record.published.iter().map(|it| &it.spot.path)).next() {
            return Err(Status::failed_precondition(format!("the volume is in use at {}", path.display())));
        }
        if let Some(Attachment { node, .. }) = &record.attached {
            return Err(Status::failed_precondition(format!("the volume is attached to {node}")));
        }
        publish::end(&self.store, &record)?;
        Ok(DeleteVolumeResponse {})
    }

    fn attach(&self, request: &ControllerPublishVolumeRequest) -> Result<ControllerPublishVolumeResponse, Status> {
        self.may_attach()?;
        given("volume id", &request.volume_id)?;
        given("node id", &request.node_id)?;
        let wish = capability::read(request.volume_capability.as_ref())?;
        let read_only = request.readonly || wish.read_only;
        let _turn = self.store.turn(&request.volume_id)?;
        let mut record = self.store.expect(&request.volume_id)?;
        if request.node_id != self.settings.node_id {
            return Err(Status::not_found(format!("there is no node \"{}\"", request.node_id.escape_debug())));
        }
        let attachment = match &record.attached {
            Some(there) if there.read_only == read_only => there.clone(),
            Some(_) => return Err(Status::already_exists("the volume is attached in another way: read-only or not")),
            None => {
                // Two volumes at once could pass one limit.
                let _alone = self.attaching.lock().unwrap_or_else(PoisonError::into_inner);
                let max = self.settings.volumes_max;
                if max != 0 && self.store.attached() >= max as usize {
                    return Err(Status::resource_exhausted(format!("{max} volumes are attached, which is the limit")));
                }
                let attachment = Attachment { node: request.node_id.clone(), read_only, token: random()? };
                record.attached = Some(attachment.clone());
                self.store.save(&record)?;
                attachment
            }
        };
        Ok(ControllerPublishVolumeResponse { publish_context: [(self.attachment_key(), attachment.token)].into() })
    }

    fn detach(&self, request: &ControllerUnpublishVolumeRequest) -> Result<ControllerUnpublishVolumeResponse, Status> {
        self.may_attach()?;
        given("volume id", &request.volume_id)?;
        let _turn = self.store.turn(&request.volume_id)?;
        if let Some(mut record) = self.store.volume(&request.volume_id)
            && let Some(attached) = &record.attached
            && (request.node_id.is_empty() || request.node_id == attached.node)
        {
            if let Some(staged) = &record.staged {
                let path = staged.spot.path.display();
                return Err(Status::failed_precondition(format!("the volume is still staged at {path}")));
            }
            record.attached = None;
            self.store.save(&record)?;
        }
        Ok(ControllerUnpublishVolumeResponse {})
    }

    fn may_attach(&self) -> Result<(), Status> {
        if self.settings.attach {
            return Ok(());
        }
        Err(Status::unimplemented("volumes of this driver need not be attached; it was started without --attach"))
    }

    fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        given("volume id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("the volume capabilities are missing"));
        }
        let record = self.store.expect(&request.volume_id)?;
        let refused = |message| ValidateVolumeCapabilitiesResponse { confirmed: None, message };
        let uses = match uses(&request.volume_capabilities) {
            Ok(uses) => uses,
            Err(status) => return Ok(refused(status.message().to_owned())),
        };
        if let Err(status) = parameters(&request.parameters) {
            return Ok(refused(status.message().to_owned()));
        }
        let least = capability::least_bytes(&uses, &record.filesystem);
        if record.capacity_bytes < least {
            return Ok(refused(format!("the volume is too small for that: it has to have {least} bytes")));
        }
        let confirmed = validate_volume_capabilities_response::Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        };
        Ok(ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
    }

    fn list(&self, request: &ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        const COUNT_MAX: usize = 1000;
        let count = usize::try_from(request.max_entries);
        let count = count.map_err(|_| Status::invalid_argument("the number of entries is negative"))?;
        let count = if count == 0 { COUNT_MAX } else { count.min(COUNT_MAX) };
        let after = &request.starting_token;
        if !after.is_empty() && !is_id(after) {
            return Err(Status::aborted("the starting token is none of this driver: begin without one"));
        }
        let (page, more) = self.store.page(after, count);
        let next_token = page.last().filter(|_| more).map_or_else(String::new, |it| it.id.clone());
        let entry = |record: &Record| {
            let status = list_volumes_response::VolumeStatus {
                published_node_ids: nodes(record),
                volume_condition: Some(health::condition(&self.store, record)?),
            };
            Ok(list_volumes_response::Entry { volume: Some(self.told(record)), status: Some(status) })
        };
        let entries = page.iter().map(entry).collect::<Result<_, Status>>()?;
        Ok(ListVolumesResponse { entries, next_token })
    }

    fn look(&self, id: &str) -> Result<ControllerGetVolumeResponse, Status> {
        given("volume id", id)?;
        let record = self.store.expect(id)?;
        let status = controller_get_volume_response::VolumeStatus {
            published_node_ids: nodes(&record),
            volume_condition: Some(health::condition(&self.store, &record)?),
        };
        Ok(ControllerGetVolumeResponse { volume: Some(self.told(&record)), status: Some(status) })
    }

    fn capacity(&self, request: &GetCapacityRequest) -> Result<GetCapacityResponse, Status> {
        let uses =
            if request.volume_capabilities.is_empty() { Vec::new() } else { uses(&request.volume_capabilities)? };
        let filesystem = parameters(&request.parameters)?;
        let elsewhere = request.accessible_topology.as_ref().is_some_and(|it| !self.is_here(it));
        let free = if elsewhere { 0 } else { self.store.free_bytes()? };
        Ok(GetCapacityResponse {
            available_capacity: signed(free),
            maximum_volume_size: Some(signed(free - free % BLOCK_BYTES)),
            minimum_volume_size: Some(signed(capability::least_bytes(&uses, &filesystem))),
        })
    }

    fn expand(&self, request: &ControllerExpandVolumeRequest) -> Result<ControllerExpandVolumeResponse, Status> {
        given("volume id", &request.volume_id)?;
        let range = request.capacity_range.as_ref();
        let range = range.ok_or_else(|| Status::invalid_argument("the capacity range is missing"))?;
        if request.volume_capability.is_some() {
            capability::read(request.volume_capability.as_ref())?;
        }
        let _turn = self.store.turn(&request.volume_id)?;
        let mut record = self.store.expect(&request.volume_id)?;
        if record.life == Life::Ephemeral {
            return Err(Status::invalid_argument("a volume that lives with a pod does not grow"));
        }
        let now = record.capacity_bytes;
        let bytes = capability::fit(Some(range), now, now)?;
        if bytes > now {
            let claim = self.store.claim(bytes - now)?;
            self.store.grow_image(&record, bytes)?;
            record.capacity_bytes = bytes;
            self.store.save(&record)?;
            drop(claim);
        }
        Ok(ControllerExpandVolumeResponse { capacity_bytes: signed(bytes), node_expansion_required: true })
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn nodes(record: &Record) -> Vec<String> {
    record.attached.iter().map(|it| it.node.clone()).collect()
}

fn is_id(text: &str) -> bool {
    text.strip_prefix(ID_PREFIX).is_some_and(|it| it.len() == 32 && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

fn uses(capabilities: &[VolumeCapability]) -> Result<Vec<Use>, Status> {
    if capabilities.is_empty() {
        return Err(Status::invalid_argument("the volume capabilities are missing"));
    }
    capabilities.iter().map(|it| Ok(capability::read(Some(it))?.usage)).collect()
}

/// The file system that parameters name; empty if they name none. One that is not known is refused, for it may be mistyped.
fn parameters(parameters: &BTreeMap<String, String>) -> Result<String, Status> {
    let unknown = parameters.keys().find(|it| *it != FILESYSTEM && !it.starts_with(OF_KUBERNETES));
    if let Some(name) = unknown {
        let name = name.escape_debug();
        return Err(Status::invalid_argument(format!("the parameter \"{name}\" is not known; there is {FILESYSTEM}")));
    }
    capability::filesystem(parameters.get(FILESYSTEM).map_or("", String::as_str))
}

/// Whether a volume that is there is what is asked for by its name.
fn same(
    record: &Record,
    range: Option<&windlass_csi::proto::csi::CapacityRange>,
    filesystem: &str,
) -> Result<(), Status> {
    let has = record.capacity_bytes;
    let differs = |what: String| Err(Status::already_exists(format!("a volume of this name is there, and {what}")));
    if let Some(range) = range {
        let limit = range.limit_bytes;
        if signed(has) < range.required_bytes || limit > 0 && signed(has) > limit {
            return differs(format!("has {has} bytes"));
        }
    }
    if record.filesystem != filesystem {
        return differs(format!("is for \"{}\"", record.filesystem));
    }
    Ok(())
}

#[tonic::async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        self.0.call((CallKind::Change, "CreateVolume"), request.name.clone(), move |it| it.create(&request)).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        self.0.call((CallKind::Change, "DeleteVolume"), id.clone(), move |it| it.delete(&id)).await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<ControllerPublishVolumeRequest>,
    ) -> Result<Response<ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "ControllerPublishVolume"), id, move |it| it.attach(&request)).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<ControllerUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "ControllerUnpublishVolume"), id, move |it| it.detach(&request)).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Question, "ValidateVolumeCapabilities"), id, move |it| it.validate(request)).await
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let request = request.into_inner();
        self.0.call((CallKind::Question, "ListVolumes"), String::new(), move |it| it.list(&request)).await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        let request = request.into_inner();
        self.0.call((CallKind::Question, "GetCapacity"), String::new(), move |it| it.capacity(&request)).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let mut types = vec![
            rpc::Type::CreateDeleteVolume,
            rpc::Type::ListVolumes,
            rpc::Type::GetCapacity,
            rpc::Type::ExpandVolume,
            rpc::Type::GetVolume,
            rpc::Type::VolumeCondition,
            rpc::Type::SingleNodeMultiWriter,
        ];
        if self.0.settings.attach {
            types.extend([
                rpc::Type::PublishUnpublishVolume,
                rpc::Type::PublishReadonly,
                rpc::Type::ListVolumesPublishedNodes,
            ]);
        }
        let capability =
            |it: rpc::Type| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: it.into() })) };
        let capabilities = types.into_iter().map(capability).collect();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        self.0.call((CallKind::Change, "ControllerExpandVolume"), id, move |it| it.expand(&request)).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let id = request.into_inner().volume_id;
        self.0.call((CallKind::Question, "ControllerGetVolume"), id.clone(), move |it| it.look(&id)).await
    }

    async fn controller_modify_volume(
        &self,
        _: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        Err(Status::unimplemented("volumes of this driver have nothing that could be modified"))
    }
}

#[cfg(test)]
mod tests {
    use windlass_csi::proto::csi::CapacityRange;

    use super::*;

    #[test]
    fn a_token_is_the_id_of_a_volume_that_may_be_gone() {
        assert!(is_id("vol-0123456789abcdef0123456789abcdef"));
        for text in
            ["invalid-token", "vol-", "vol-0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef"]
        {
            assert!(!is_id(text), "{text}");
        }
    }

    #[test]
    fn a_parameter_that_is_not_known_is_refused() {
        let of = |key: &str, value: &str| parameters(&[(key.to_owned(), value.to_owned())].into());
        assert_eq!(of("fsType", "xfs").unwrap(), "xfs");
        assert_eq!(of("csi.storage.k8s.io/pvc/name", "x").unwrap(), "");
        assert_eq!(of("fstype", "xfs").unwrap_err().code(), tonic::Code::InvalidArgument);
        assert_eq!(of("fsType", "btrfs").unwrap_err().code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn the_same_name_means_the_same_volume() {
        let record = Record::new("vol-1".into(), "a".into(), Life::Persistent, 8 << 20, "ext4".into());
        let range = |required_bytes, limit_bytes| CapacityRange { required_bytes, limit_bytes };
        let same =
            |range: Option<CapacityRange>, filesystem: &str| super::same(&record, range.as_ref(), filesystem).is_ok();
        assert!(same(None, "ext4"));
        assert!(same(Some(range(8 << 20, 0)), "ext4"));
        assert!(same(Some(range(1, 0)), "ext4"), "it may be larger");
        assert!(same(Some(range(1 << 20, 16 << 20)), "ext4"), "within what was asked for");
        assert!(!same(Some(range(9 << 20, 0)), "ext4"));
        assert!(!same(Some(range(1 << 20, 2 << 20)), "ext4"));
        assert!(!same(None, "xfs"));
    }
}
