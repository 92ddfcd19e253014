//! Volumes that are made for claims, where no cluster does it: what a driver is asked for, and what becomes of its answer.
//!
//! A claim that names no volume and a storage class whose driver has a controller service gets a volume of its own. What
//! was going to be asked for is noted before it is asked ([`store`]), under a name that nobody else has, so that whatever
//! is interrupted is gone on with and never made twice. `drive/provision.rs` says when; this says what, and does nothing.

pub(crate) mod next;
pub(crate) mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, PersistentVolumeSpec, PersistentVolumeStatus,
    SecretReference, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use windlass_core::ids::VolumeId;
use windlass_csi::proto::csi::{self, VolumeCapability, volume_capability as capability};

use crate::objects::{self, Reference};
use crate::plugin::csi::names::volume_id;
use crate::quantity;

/// The class that claims have which name none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// Parameters that are for whoever asks, and not for the driver.
const OURS: &str = "csi.storage.k8s.io/";
const STORAGE: &str = "storage";
/// On a claim: no node has to grow its volume.
pub(crate) const NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";

/// A claim whose volume was made, or was going to be.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Provision {
    version: u32,
    /// What the volume is called: by this name a driver knows one that it was asked for before.
    pub(crate) name: String,
    /// The claim as it was, so that the same is asked for again.
    pub(crate) claim: PersistentVolumeClaim,
    /// The class as it was.
    pub(crate) class: StorageClass,
    /// Where this node is, in the driver's words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) topology: BTreeMap<String, String>,
    /// The volume; `None` if it is not known to have been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) volume: Option<PersistentVolume>,
    /// How large the claim shows it to be, while this node has yet to grow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shown_bytes: Option<u64>,
    /// The driver grew it alone, and no node has anything to do about that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    grown_by_controller: bool,
    /// When it was asked for first, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    /// Its claim was seen to go, and has not come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) departure: Option<Departure>,
    /// Whether it was begun to be deleted: from then on nobody gets it any more.
    #[serde(default, rename = "released")]
    pub(crate) is_released: bool,
}

/// A claim was seen to go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Departure {
    /// When, by the clock on the wall.
    pub(crate) since: Timestamp,
    /// How long its volume stays once nothing else keeps it. What was said then counts, whatever is set by now.
    delay_milliseconds: u64,
    /// Somebody has said that its volume goes without that delay (`windlass delete claim`).
    #[serde(default, rename = "ordered", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_ordered: bool,
}

impl Departure {
    /// A claim has gone just now, and its volume stays for so long.
    pub(crate) fn now(delay: Duration) -> Self {
        let delay_milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Self { since: Timestamp::now(), delay_milliseconds, is_ordered: false }
    }

    /// How long its volume stays.
    pub(crate) fn delay(&self) -> Duration {
        if self.is_ordered { Duration::ZERO } else { Duration::from_millis(self.delay_milliseconds) }
    }
}

impl Provision {
    /// A volume that is going to be made.
    pub(crate) fn new(
        number: [u8; 16],
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        topology: BTreeMap<String, String>,
        now: Timestamp,
    ) -> Self {
        Self {
            version: 1,
            name: format!("pvc-{}", uuid(number)),
            claim: claim.clone(),
            class: class.clone(),
            topology,
            volume: None,
            shown_bytes: None,
            grown_by_controller: false,
            since: Some(now),
            departure: None,
            is_released: false,
        }
    }

    /// The same, with the volume that was made.
    pub(crate) fn with_volume(self, volume: PersistentVolume) -> Self {
        Self { volume: Some(volume), ..self }
    }

    /// How large the volume is, as far as its driver is concerned.
    pub(crate) fn size(&self) -> Option<u64> {
        let capacity = self.volume.as_ref()?.spec.as_ref()?.capacity.as_ref();
        quantity::bytes_of(capacity, STORAGE).ok().flatten()
    }

    /// Whether its class lets it grow.
    pub(crate) fn may_grow(&self) -> bool {
        self.class.allow_volume_expansion == Some(true)
    }

    /// The same, after the driver made the volume larger. The claim shows that when this node has grown it too, if it has to.
    pub(crate) fn grown(mut self, bytes: u64, grows_here: bool) -> Self {
        self.shown_bytes = self.shown_bytes.or(self.size()).filter(|_| grows_here);
        self.grown_by_controller = !grows_here;
        if let Some(spec) = self.volume.as_mut().and_then(|it| it.spec.as_mut()) {
            spec.capacity.get_or_insert_default().insert(STORAGE.into(), Quantity(bytes.to_string()));
        }
        self
    }

    /// The same, after this node has grown the volume; `None` if it has not to.
    pub(crate) fn grown_here(mut self) -> Option<Self> {
        self.shown_bytes.take().map(|_| self)
    }

    /// Whether this node has yet to grow it.
    pub(crate) fn is_left_to_node(&self) -> bool {
        self.shown_bytes.is_some()
    }

    /// The same, with that its claim was seen to go, or that it is there.
    pub(crate) fn departed(self, departure: Option<Departure>) -> Self {
        Self { departure, ..self }
    }

    /// The same, with that the volume stays whatever becomes of its claim.
    pub(crate) fn retained(mut self) -> Self {
        if let Some(spec) = self.volume.as_mut().and_then(|it| it.spec.as_mut()) {
            spec.persistent_volume_reclaim_policy = Some("Retain".into());
        }
        self
    }

    /// The same, with whether it was begun to be deleted.
    pub(crate) fn released(self, released: bool) -> Self {
        Self { is_released: released, ..self }
    }

    /// Which claim it is for.
    pub(crate) fn reference(&self) -> Reference {
        let ObjectMeta { namespace, name, .. } = &self.claim.metadata;
        let (namespace, name) = (namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default());
        Reference::new(objects::ObjectKind::Claim, namespace, name)
    }

    /// The driver that makes it.
    pub(crate) fn driver(&self) -> &str {
        &self.class.provisioner
    }

    /// What the engine calls the volume, once it is made.
    pub(crate) fn volume_id(&self) -> Option<VolumeId> {
        let source = self.volume.as_ref()?.spec.as_ref()?.csi.as_ref()?;
        Some(volume_id(&source.driver, &source.volume_handle))
    }

    /// Whether it goes with its claim: as its class said when it was made, unless a persistent volume said otherwise since.
    pub(crate) fn is_deleted_with_claim(&self) -> bool {
        let made = self.volume.as_ref().and_then(|it| it.spec.as_ref());
        let policy = made.map_or(&self.class.reclaim_policy, |it| &it.persistent_volume_reclaim_policy);
        policy.as_deref() == Some("Delete")
    }

    /// Whether its class said, when it was asked for, that it goes with its claim.
    pub(crate) fn class_says_delete(&self) -> bool {
        self.class.reclaim_policy.as_deref() == Some("Delete")
    }

    /// Whether it was begun to be deleted, or is going to be: nobody can tell what is left of it.
    pub(crate) fn is_doomed(&self) -> bool {
        self.is_released && self.is_deleted_with_claim()
    }

    /// What the driver is asked for.
    pub(crate) fn request(
        &self,
        mode: impl Fn(Option<&str>) -> capability::access_mode::Mode,
        has_topology: bool,
        secrets: BTreeMap<String, String>,
    ) -> csi::CreateVolumeRequest {
        let spec = self.claim.spec.clone().unwrap_or_default();
        let access_type = match spec.volume_mode.as_deref() {
            Some("Block") => capability::AccessType::Block(capability::BlockVolume {}),
            Some(_) | None => capability::AccessType::Mount(capability::MountVolume {
                fs_type: self.fs_type(),
                mount_flags: self.class.mount_options.clone().unwrap_or_default(),
                volume_mount_group: String::new(),
            }),
        };
        let capability = |it: &String| VolumeCapability {
            access_type: Some(access_type.clone()),
            access_mode: Some(capability::AccessMode { mode: mode(Some(it)).into() }),
        };
        let here = csi::Topology { segments: self.topology.clone() };
        let is_somewhere = has_topology && !self.topology.is_empty();
        let parameters = self.class.parameters.iter().flatten().filter(|(key, _)| !key.starts_with(OURS));
        csi::CreateVolumeRequest {
            name: self.name.clone(),
            capacity_range: Some(csi::CapacityRange { required_bytes: self.bytes(), limit_bytes: 0 }),
            volume_capabilities: spec.access_modes.iter().flatten().map(capability).collect(),
            parameters: parameters.map(|(key, value)| (key.clone(), value.clone())).collect(),
            secrets,
            volume_content_source: None,
            accessibility_requirements: is_somewhere
                .then(|| csi::TopologyRequirement { requisite: vec![here.clone()], preferred: vec![here] }),
            mutable_parameters: Default::default(),
        }
    }

    /// How large it must be at least.
    fn bytes(&self) -> i64 {
        i64::try_from(wanted(&self.claim).unwrap_or(0)).unwrap_or(i64::MAX)
    }

    fn fs_type(&self) -> String {
        let parameter = |key: &str| self.class.parameters.as_ref()?.get(key).cloned();
        parameter("csi.storage.k8s.io/fstype").unwrap_or_default()
    }

    /// The secret that the class names for a step, such as `provisioner`.
    pub(crate) fn secret(&self, step: &str) -> Option<SecretReference> {
        let parameter = |what: &str| self.class.parameters.as_ref()?.get(&format!("{OURS}{step}-secret-{what}"));
        let ObjectMeta { namespace, name, .. } = &self.claim.metadata;
        let filled = |text: &String| {
            text.replace("${pv.name}", &self.name)
                .replace("${pvc.namespace}", namespace.as_deref().unwrap_or_default())
                .replace("${pvc.name}", name.as_deref().unwrap_or_default())
        };
        let (name, namespace) = (parameter("name").map(filled)?, parameter("namespace").map(filled)?);
        Some(SecretReference { name: Some(name), namespace: Some(namespace) })
    }

    /// The object of a volume that the driver made.
    pub(crate) fn made(&self, volume: csi::Volume) -> PersistentVolume {
        let spec = self.claim.spec.clone().unwrap_or_default();
        let bytes = if volume.capacity_bytes > 0 { volume.capacity_bytes } else { self.bytes() };
        let is_block = spec.volume_mode.as_deref() == Some("Block");
        let source = CSIPersistentVolumeSource {
            driver: self.driver().into(),
            volume_handle: volume.volume_id,
            fs_type: Some(self.fs_type()).filter(|it| !is_block && !it.is_empty()),
            volume_attributes: Some(volume.volume_context).filter(|it| !it.is_empty()),
            controller_publish_secret_ref: self.secret("controller-publish"),
            controller_expand_secret_ref: self.secret("controller-expand"),
            node_stage_secret_ref: self.secret("node-stage"),
            node_publish_secret_ref: self.secret("node-publish"),
            node_expand_secret_ref: self.secret("node-expand"),
            read_only: None,
        };
        let term = |it: &csi::Topology| {
            let requirement = |(key, value): (&String, &String)| NodeSelectorRequirement {
                key: key.clone(),
                operator: "In".into(),
                values: Some(vec![value.clone()]),
            };
            let expressions = it.segments.iter().map(requirement).collect();
            NodeSelectorTerm { match_expressions: Some(expressions), match_fields: None }
        };
        let terms: Vec<NodeSelectorTerm> = volume.accessible_topology.iter().map(term).collect();
        let affinity = VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms: terms.clone() }) };
        let ObjectMeta { namespace, name, uid, .. } = self.claim.metadata.clone();
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                annotations: Some([("pv.kubernetes.io/provisioned-by".into(), self.driver().into())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                access_modes: spec.access_modes,
                capacity: Some([(STORAGE.into(), Quantity(bytes.to_string()))].into()),
                claim_ref: Some(ObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("PersistentVolumeClaim".into()),
                    namespace,
                    name,
                    uid,
                    ..ObjectReference::default()
                }),
                csi: Some(source),
                mount_options: self.class.mount_options.clone(),
                node_affinity: Some(affinity).filter(|_| !terms.is_empty()),
                persistent_volume_reclaim_policy: self.class.reclaim_policy.clone(),
                storage_class_name: self.class.metadata.name.clone(),
                volume_mode: spec.volume_mode.or_else(|| Some("Filesystem".into())),
                ..PersistentVolumeSpec::default()
            }),
            status: Some(PersistentVolumeStatus { phase: Some("Bound".into()), ..Default::default() }),
        }
    }

    /// The claim as it is once its volume is there: bound. `None` while there is no volume, or if it names another one.
    pub(crate) fn bound(&self, claim: &PersistentVolumeClaim) -> Option<(PersistentVolumeClaim, PersistentVolume)> {
        let named = claim.spec.as_ref().and_then(|it| it.volume_name.as_deref()).unwrap_or_default();
        if !named.is_empty() && named != self.name {
            return None;
        }
        let mut volume = self.volume.clone()?;
        let spec = volume.spec.get_or_insert_default();
        // A claim of the same name is the same claim, whatever else it is called.
        spec.claim_ref.get_or_insert_default().uid = claim.metadata.uid.clone();
        let mut claim = claim.clone();
        claim.spec.get_or_insert_default().volume_name = Some(self.name.clone());
        let before = claim.status.take().unwrap_or_default();
        let shown = self.shown_bytes.map(|it| [(STORAGE.into(), Quantity(it.to_string()))].into());
        claim.status = Some(PersistentVolumeClaimStatus {
            phase: Some("Bound".into()),
            capacity: shown.or_else(|| spec.capacity.clone()),
            access_modes: before.access_modes.or_else(|| spec.access_modes.clone()),
            // As a resizer says that no node is to grow it (E-283, E-284).
            allocated_resources: match self.grown_by_controller {
                true => spec.capacity.clone(),
                false => before.allocated_resources,
            },
            ..before
        });
        if self.grown_by_controller {
            claim.metadata.annotations.get_or_insert_default().insert(NOT_REQUIRED.into(), "true".into());
        }
        Some((claim, volume))
    }
}

/// Whether a persistent volume says that its volume stays, which one that somebody writes does unless it says otherwise.
pub(crate) fn retains(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().is_some_and(|it| it.persistent_volume_reclaim_policy.as_deref() != Some("Delete"))
}

/// How much a claim asks for.
pub(crate) fn wanted(claim: &PersistentVolumeClaim) -> Option<u64> {
    let requests = claim.spec.as_ref().and_then(|it| it.resources.as_ref()?.requests.as_ref());
    quantity::bytes_of(requests, STORAGE).ok().flatten()
}

/// Whether a claim asks for a volume to be made: it names none, and does not say that nobody is to make one.
pub(crate) fn asks(claim: &PersistentVolumeClaim) -> bool {
    let Some(spec) = &claim.spec else { return false };
    let is_named = spec.volume_name.as_ref().is_some_and(|it| !it.is_empty());
    !is_named && spec.storage_class_name.as_deref() != Some("")
}

/// What stands in the way of making a volume for a claim, of this class.
pub(crate) fn obstacle(claim: &PersistentVolumeClaim) -> Option<String> {
    let spec = claim.spec.as_ref()?;
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return Some("spec.dataSource is set, and volumes are made empty".into());
    }
    if spec.access_modes.as_ref().is_none_or(Vec::is_empty) {
        return Some("spec.accessModes is missing".into());
    }
    let requests = spec.resources.as_ref().and_then(|it| it.requests.as_ref());
    match quantity::bytes_of(requests, STORAGE) {
        Ok(Some(_)) => None,
        Ok(None) => Some("spec.resources.requests says nothing of storage".into()),
        Err(error) => Some(format!("spec.resources.requests.storage: {error}")),
    }
}

/// The class of a claim that names none, if there is one.
pub(crate) fn is_default(class: &StorageClass) -> bool {
    class.metadata.annotations.as_ref().and_then(|it| it.get(IS_DEFAULT)).is_some_and(|it| it == "true")
}

/// A number as the others write theirs, so that drivers that look at names find nothing unusual.
fn uuid(mut number: [u8; 16]) -> String {
    number[6] = number[6] & 0x0f | 0x40;
    number[8] = number[8] & 0x3f | 0x80;
    let hex: String = number.iter().map(|it| format!("{it:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{from_value, json};

    fn provision() -> Provision {
        let claim = from_value(json!({
            "metadata": {"namespace": "default", "name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "fast", "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }));
        let class = from_value(json!({
            "metadata": {"name": "fast"}, "provisioner": "d", "reclaimPolicy": "Delete", "mountOptions": ["noatime"],
            "parameters": {
                "tier": "gold", "csi.storage.k8s.io/fstype": "xfs",
                "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}-${pv.name}",
                "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
            },
        }));
        Provision::new(
            [0xff; 16],
            &claim.unwrap(),
            &class.unwrap(),
            [("zone".into(), "a".into())].into(),
            Timestamp::UNIX_EPOCH,
        )
    }

    fn mode(mode: Option<&str>) -> capability::access_mode::Mode {
        match mode {
            Some("ReadWriteOnce") => capability::access_mode::Mode::SingleNodeWriter,
            _ => capability::access_mode::Mode::MultiNodeReaderOnly,
        }
    }

    #[test]
    fn a_driver_is_asked_for_what_the_claim_and_its_class_say() {
        let it = provision();
        let request = it.request(mode, true, BTreeMap::new());
        assert_eq!(request.name, "pvc-ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(request.capacity_range.unwrap().required_bytes, 1 << 30);
        assert_eq!(request.parameters, [("tier".into(), "gold".into())].into(), "the others are ours");
        assert_eq!(request.volume_capabilities.len(), 2);
        let Some(capability::AccessType::Mount(mount)) = &request.volume_capabilities[0].access_type else { panic!() };
        assert_eq!((mount.fs_type.as_str(), &mount.mount_flags[..]), ("xfs", &["noatime".to_owned()][..]));
        assert_eq!(request.accessibility_requirements.unwrap().requisite[0].segments["zone"], "a");
        assert!(it.request(mode, false, BTreeMap::new()).accessibility_requirements.is_none());
        let secret = it.secret("provisioner").unwrap();
        assert_eq!(secret.namespace.as_deref(), Some("default"));
        assert_eq!(secret.name.unwrap(), format!("data-{}", it.name));
        assert!(it.secret("node-stage").is_none());
    }

    #[test]
    fn what_a_driver_made_becomes_a_volume_of_the_claim() {
        let mut it = provision();
        assert!(it.bound(&it.claim).is_none() && it.volume_id().is_none());
        let topology = csi::Topology { segments: [("zone".into(), "a".into())].into() };
        let volume = csi::Volume {
            volume_id: "v".into(),
            capacity_bytes: 2 << 30,
            volume_context: [("a".into(), "b".into())].into(),
            accessible_topology: vec![topology],
            ..Default::default()
        };
        it.volume = Some(it.made(volume));
        assert_eq!(it.volume_id().unwrap().as_str(), "kubernetes.io/csi/d^v");
        let (claim, volume) = it.bound(&it.claim).unwrap();
        let status = claim.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Bound"));
        assert_eq!(status.capacity.unwrap()["storage"].0, (2_u64 << 30).to_string());
        assert_eq!(claim.spec.unwrap().volume_name, volume.metadata.name);
        let spec = volume.spec.unwrap();
        assert_eq!(spec.claim_ref.unwrap().name.as_deref(), Some("data"));
        let terms = spec.node_affinity.unwrap().required.unwrap().node_selector_terms;
        assert_eq!(terms[0].match_expressions.as_ref().unwrap()[0].key, "zone");
        assert_eq!(spec.csi.unwrap().volume_attributes.unwrap()["a"], "b");
    }

    #[test]
    fn a_claim_shows_growth_when_the_node_has_grown_the_volume_too() {
        let mut it = provision();
        it.volume = Some(it.made(csi::Volume { volume_id: "v".into(), ..Default::default() }));
        let shown = |it: &Provision| {
            let (claim, volume) = it.bound(&it.claim).unwrap();
            let capacity = |list: Option<BTreeMap<String, Quantity>>| list.unwrap()[STORAGE].0.clone();
            (capacity(claim.status.unwrap().capacity), capacity(volume.spec.unwrap().capacity))
        };
        let (one, two) = ((1_u64 << 30).to_string(), (2_u64 << 30).to_string());
        assert_eq!(shown(&it), (one.clone(), one.clone()));
        let alone = it.clone().grown(2 << 30, false);
        assert_eq!(shown(&alone), (two.clone(), two.clone()));
        let (claim, _) = alone.bound(&alone.claim).unwrap();
        assert_eq!(claim.status.unwrap().allocated_resources.unwrap()[STORAGE].0, two, "no node has to grow it");
        assert!(claim.metadata.annotations.unwrap().contains_key(NOT_REQUIRED));
        let grown = it.grown(2 << 30, true);
        assert_eq!((grown.size(), shown(&grown)), (Some(2 << 30), (one, two.clone())));
        let grown = grown.grown_here().unwrap();
        assert_eq!(shown(&grown), (two.clone(), two));
        assert_eq!(grown.grown_here(), None);
    }

    #[test]
    fn a_claim_that_names_a_volume_or_wants_none_made_asks_for_nothing() {
        let claim = |spec| from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        assert!(asks(&claim(json!({}))));
        assert!(asks(&claim(json!({"storageClassName": "fast", "volumeName": ""}))));
        assert!(!asks(&claim(json!({"storageClassName": ""}))));
        assert!(!asks(&claim(json!({"storageClassName": "fast", "volumeName": "pv"}))));
    }

    #[test]
    fn what_cannot_be_asked_for_is_told() {
        let told = |spec| obstacle(&from_value(json!({"metadata": {}, "spec": spec})).unwrap()).unwrap_or_default();
        let size = json!({"requests": {"storage": "1Gi"}});
        assert_eq!(told(json!({"accessModes": ["ReadWriteOnce"], "resources": size})), "");
        assert!(told(json!({"resources": size})).contains("accessModes"));
        assert!(told(json!({"accessModes": ["ReadWriteOnce"]})).contains("storage"));
        let much = json!({"requests": {"storage": "much"}});
        assert!(told(json!({"accessModes": ["ReadWriteOnce"], "resources": much})).contains("requests.storage: "));
        let source = json!({"kind": "PersistentVolumeClaim", "name": "other"});
        assert!(told(json!({"accessModes": [], "dataSource": source})).contains("dataSource"));
    }
}
