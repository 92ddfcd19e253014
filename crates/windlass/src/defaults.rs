//! What the API server fills in where a manifest says nothing, for the kinds that volumes depend on.
//!
//! Objects from an API server have all of this already; manifests from a directory or an embedding program do not. Only
//! fields that windlass reads are filled. Filling twice is the same as filling once.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, ConfigMap, Container, DownwardAPIVolumeFile, EmptyDirVolumeSource, HostPathVolumeSource,
    PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, ProjectedVolumeSource, ResourceRequirements, Secret, Volume,
};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

use crate::memory::Object;

/// Files of written volumes are 0644 (P-99).
const FILE_MODE: i32 = 0o644;

/// Fills a pod: its volumes, and the resources that the downward API shows.
pub fn pod(pod: &mut Pod) {
    namespace(&mut pod.metadata);
    without_managers(&mut pod.metadata);
    let Some(spec) = &mut pod.spec else { return };
    let PodSpec { containers, init_containers, volumes, restart_policy, security_context, .. } = spec;
    for container in containers.iter_mut().chain(init_containers.iter_mut().flatten()) {
        requests(container);
    }
    volumes.iter_mut().flatten().for_each(volume);
    restart_policy.get_or_insert_with(|| "Always".into());
    security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(30);
    // Two names of one field: the old one follows the new one, or gives it its value.
    if spec.service_account_name.is_none() {
        spec.service_account_name.clone_from(&spec.service_account);
    }
    spec.service_account.clone_from(&spec.service_account_name);
}

/// What a container asks for is what it is limited to, unless it says otherwise.
fn requests(container: &mut Container) {
    let Some(ResourceRequirements { limits: Some(limits), requests, .. }) = &mut container.resources else { return };
    if limits.is_empty() {
        return;
    }
    let requests = requests.get_or_insert_default();
    for (name, quantity) in limits {
        requests.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}

/// Fills one volume of a pod.
fn volume(volume: &mut Volume) {
    if has_no_source(volume) {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(source) = &mut volume.config_map {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.secret {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        source.default_mode.get_or_insert(FILE_MODE);
        downward_items(source.items.as_mut());
    }
    if let Some(source) = &mut volume.projected {
        projected(source);
    }
    if let Some(source) = &mut volume.host_path {
        host_path(source);
    }
    if let Some(source) = &mut volume.azure_disk {
        azure_disk(source);
    }
    if let Some(template) = volume.ephemeral.as_mut().and_then(|it| it.volume_claim_template.as_mut()) {
        template.spec.volume_mode.get_or_insert_with(|| "Filesystem".into());
    }
    if let Some(source) = &mut volume.image
        && source.pull_policy.is_none()
    {
        source.pull_policy = Some(pull_policy(source.reference.as_deref().unwrap_or_default()).into());
    }
}

/// Without a tag an image is the latest one, which may be another tomorrow (P-184).
fn pull_policy(reference: &str) -> &'static str {
    let name = reference.rsplit('/').next().unwrap_or_default();
    let latest = !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if latest { "Always" } else { "IfNotPresent" }
}

fn has_no_source(volume: &Volume) -> bool {
    *volume == Volume { name: volume.name.clone(), ..Volume::default() }
}

fn projected(source: &mut ProjectedVolumeSource) {
    source.default_mode.get_or_insert(FILE_MODE);
    for projection in source.sources.iter_mut().flatten() {
        if let Some(token) = &mut projection.service_account_token {
            token.expiration_seconds.get_or_insert(3600);
        }
        if let Some(downward) = &mut projection.downward_api {
            downward_items(downward.items.as_mut());
        }
    }
}

fn downward_items(items: Option<&mut Vec<DownwardAPIVolumeFile>>) {
    for field in items.into_iter().flatten().filter_map(|it| it.field_ref.as_mut()) {
        field.api_version.get_or_insert_with(|| "v1".into());
    }
}

fn host_path(source: &mut HostPathVolumeSource) {
    source.type_.get_or_insert_default();
}

fn azure_disk(source: &mut AzureDiskVolumeSource) {
    source.caching_mode.get_or_insert_with(|| "ReadWrite".into());
    source.kind.get_or_insert_with(|| "Shared".into());
    source.fs_type.get_or_insert_with(|| "ext4".into());
    source.read_only.get_or_insert(false);
}

/// Fills a persistent volume.
pub(crate) fn persistent_volume(volume: &mut PersistentVolume) {
    without_managers(&mut volume.metadata);
    volume.status.get_or_insert_default().phase.get_or_insert_with(|| "Pending".into());
    let Some(spec) = &mut volume.spec else { return };
    spec.persistent_volume_reclaim_policy.get_or_insert_with(|| "Retain".into());
    spec.volume_mode.get_or_insert_with(|| "Filesystem".into());
    if let Some(source) = &mut spec.host_path {
        host_path(source);
    }
    if let Some(source) = &mut spec.azure_disk {
        azure_disk(source);
    }
}

/// Fills a claim.
pub(crate) fn claim(claim: &mut PersistentVolumeClaim) {
    namespace(&mut claim.metadata);
    without_managers(&mut claim.metadata);
    claim.status.get_or_insert_default().phase.get_or_insert_with(|| "Pending".into());
    if let Some(spec) = &mut claim.spec {
        spec.volume_mode.get_or_insert_with(|| "Filesystem".into());
    }
}

/// Fills a CSI driver's object (C-34..C-43).
pub(crate) fn csi_driver(driver: &mut CSIDriver) {
    without_managers(&mut driver.metadata);
    let spec = &mut driver.spec;
    spec.attach_required.get_or_insert(true);
    spec.pod_info_on_mount.get_or_insert(false);
    spec.storage_capacity.get_or_insert(false);
    spec.fs_group_policy.get_or_insert_with(|| "ReadWriteOnceWithFSType".into());
    spec.requires_republish.get_or_insert(false);
    spec.se_linux_mount.get_or_insert(false);
    let modes = spec.volume_lifecycle_modes.get_or_insert_default();
    if modes.is_empty() {
        modes.push("Persistent".into());
    }
}

/// Fills a storage class.
pub(crate) fn storage_class(class: &mut StorageClass) {
    without_managers(&mut class.metadata);
    class.reclaim_policy.get_or_insert_with(|| "Delete".into());
    class.volume_binding_mode.get_or_insert_with(|| "Immediate".into());
}

/// Fills a secret: what was written as text becomes data, over what was there.
pub(crate) fn secret(secret: &mut Secret) {
    namespace(&mut secret.metadata);
    without_managers(&mut secret.metadata);
    if secret.type_.as_ref().is_none_or(String::is_empty) {
        secret.type_ = Some("Opaque".into());
    }
    if let Some(texts) = secret.string_data.take().filter(|it| !it.is_empty()) {
        let data = secret.data.get_or_insert_default();
        data.extend(texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
    }
}

pub(crate) fn config_map(map: &mut ConfigMap) {
    without_managers(&mut map.metadata);
    namespace(&mut map.metadata);
}

/// Fills in what the API server would fill in for an object of any kind.
pub(crate) fn object(object: Object) -> Object {
    match object {
        Object::Claim(it) => Object::Claim(shared(it, claim)),
        Object::Volume(it) => Object::Volume(shared(it, persistent_volume)),
        Object::Driver(it) => Object::Driver(shared(it, csi_driver)),
        Object::Secret(it) => Object::Secret(shared(it, secret)),
        Object::Class(it) => Object::Class(shared(it, storage_class)),
        Object::Node(it) => Object::Node(match it.metadata.managed_fields {
            Some(_) => shared(it, |it| without_managers(&mut it.metadata)),
            None => it,
        }),
        Object::ConfigMap(it) => Object::ConfigMap(match &it.metadata {
            // What many pods share is not copied for nothing.
            ObjectMeta { managed_fields: None, namespace: Some(namespace), .. } if !namespace.is_empty() => it,
            _ => shared(it, config_map),
        }),
        Object::Attachment(it) => Object::Attachment(match it.metadata.managed_fields {
            Some(_) => shared(it, |it| without_managers(&mut it.metadata)),
            None => it,
        }),
    }
}

/// Drops who wrote which field. Nobody asks for that here, it is larger than many objects, and it is the one field whose
/// values may lie within each other as deep as somebody likes: what is to be done with them needs a stack.
fn without_managers(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
}

/// Fills something that others may have too. If there is nothing to fill, it stays theirs, and is not in memory twice.
pub(crate) fn shared<T: Clone + PartialEq>(mut object: Arc<T>, fill: fn(&mut T)) -> Arc<T> {
    if let Some(own) = Arc::get_mut(&mut object) {
        fill(own);
        return object;
    }
    let mut filled = T::clone(&object);
    fill(&mut filled);
    if filled == *object { object } else { Arc::new(filled) }
}

/// Fills the namespace, for kinds that live in one: what `kubectl` does when it is told nothing.
pub(crate) fn namespace(metadata: &mut ObjectMeta) {
    if metadata.namespace.as_ref().is_none_or(String::is_empty) {
        metadata.namespace = Some("default".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{self, Value, json};
    use proptest::prelude::*;

    /// Filled once; fails if filling once more changes anything.
    fn filled<T>(value: &Value, fill: fn(&mut T)) -> Value
    where
        T: k8s_openapi::serde::de::DeserializeOwned
            + k8s_openapi::serde::Serialize
            + Clone
            + PartialEq
            + std::fmt::Debug,
    {
        let mut object: T = serde_json::from_value(value.clone()).unwrap();
        fill(&mut object);
        let mut again = object.clone();
        fill(&mut again);
        assert_eq!(again, object, "twice is once");
        serde_json::to_value(object).unwrap()
    }

    /// The volumes of a pod that has these, after filling.
    fn volumes(volumes: &Value) -> Value {
        filled(&json!({"spec": {"containers": [], "volumes": volumes}}), pod)["spec"]["volumes"].take()
    }

    #[test]
    fn objects_that_have_a_namespace_get_one_whatever_they_are() {
        for it in [
            Object::from(ConfigMap::default()),
            Object::from(Secret::default()),
            Object::from(PersistentVolumeClaim::default()),
        ] {
            assert_eq!(object(it).metadata().namespace.as_deref(), Some("default"));
        }
    }

    /// P-59, P-99, P-114, P-121, P-125, P-130.
    #[test]
    fn volumes_of_a_pod_are_filled() {
        for (written, meant) in [
            (json!({}), json!({"emptyDir": {}})),
            (json!({"configMap": {"name": "c"}}), json!({"configMap": {"name": "c", "defaultMode": 420}})),
            (
                json!({"configMap": {"name": "c", "defaultMode": 256}}),
                json!({"configMap": {"name": "c", "defaultMode": 256}}),
            ),
            (json!({"secret": {"secretName": "s"}}), json!({"secret": {"secretName": "s", "defaultMode": 420}})),
            (
                json!({"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
                json!({"downwardAPI": {"defaultMode": 420, "items": [
                    {"path": "n", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}}),
            ),
            (
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
                json!({"projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}}),
            ),
            (json!({"hostPath": {"path": "/x"}}), json!({"hostPath": {"path": "/x", "type": ""}})),
            (
                json!({"image": {"reference": "r:5000/a"}}),
                json!({"image": {"reference": "r:5000/a", "pullPolicy": "Always"}}),
            ),
            (
                json!({"image": {"reference": "r/a:1"}}),
                json!({"image": {"reference": "r/a:1", "pullPolicy": "IfNotPresent"}}),
            ),
            (json!({"nfs": {"server": "s", "path": "/"}}), json!({"nfs": {"server": "s", "path": "/"}})),
        ] {
            let named = |mut it: Value| {
                it["name"] = "v".into();
                it
            };
            assert_eq!(volumes(&json!([named(written.clone())])), json!([named(meant)]), "{written}");
        }
    }

    #[test]
    fn an_image_is_pulled_anew_only_if_its_name_can_come_to_mean_another() {
        for (reference, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("busybox:1", "IfNotPresent"),
            ("host:5000/busybox", "Always"),
            ("host:5000/busybox:2", "IfNotPresent"),
            ("busybox@sha256:00", "IfNotPresent"),
            ("", "Always"),
        ] {
            assert_eq!(pull_policy(reference), policy, "{reference}");
        }
    }

    #[test]
    fn requests_are_limits_where_they_are_not_given() {
        let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        let container = json!({"name": "c", "resources": resources});
        let filled = filled(&json!({"spec": {"containers": [container], "initContainers": [container]}}), pod);
        for place in ["/spec/containers/0", "/spec/initContainers/0"] {
            let requests = filled.pointer(&format!("{place}/resources/requests"));
            assert_eq!(requests, Some(&json!({"cpu": "1", "memory": "1Gi"})));
        }
    }

    #[test]
    fn a_pod_without_a_specification_is_left_alone() {
        assert_eq!(filled(&json!({}), pod)["metadata"], json!({"namespace": "default"}));
    }

    #[test]
    fn persistent_volumes_and_claims_are_filled() {
        let volume = filled(&json!({"spec": {"hostPath": {"path": "/x"}}}), persistent_volume);
        assert_eq!(
            volume["spec"],
            json!({"hostPath": {"path": "/x", "type": ""}, "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem"})
        );
        assert_eq!(volume["status"], json!({"phase": "Pending"}));
        let block = filled(&json!({"spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}}), claim);
        assert_eq!((&block["spec"]["volumeMode"], &block["status"]["phase"]), (&json!("Block"), &json!("Bound")));
        let plain = filled(&json!({"spec": {}}), claim);
        assert_eq!(
            (&plain["spec"]["volumeMode"], &plain["status"]["phase"]),
            (&json!("Filesystem"), &json!("Pending"))
        );
    }

    /// C-34..C-41.
    #[test]
    fn a_csi_driver_is_filled() {
        assert_eq!(
            filled(&json!({"spec": {}}), csi_driver)["spec"],
            json!({"attachRequired": true, "podInfoOnMount": false, "volumeLifecycleModes": ["Persistent"],
                "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false, "seLinuxMount": false,
                "storageCapacity": false})
        );
        let own = json!({"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "None"});
        let spec = filled(&json!({"spec": own}), csi_driver)["spec"].take();
        own.as_object().unwrap().iter().for_each(|(key, value)| assert_eq!(&spec[key], value));
    }

    #[test]
    fn what_others_have_too_is_copied_only_if_something_is_to_be_filled() {
        let class = Arc::new(StorageClass::default());
        let filled = shared(class.clone(), storage_class);
        assert!(class.reclaim_policy.is_none() && filled.reclaim_policy.is_some());
        assert!(Arc::ptr_eq(&shared(filled.clone(), storage_class), &filled));
        let place = Arc::as_ptr(&filled);
        assert_eq!(Arc::as_ptr(&shared(filled, storage_class)), place);
    }

    #[test]
    fn a_storage_class_is_filled() {
        let class = filled(&json!({"provisioner": "p"}), storage_class);
        assert_eq!((&class["reclaimPolicy"], &class["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
    }

    #[test]
    fn text_of_a_secret_becomes_data_over_what_was_there() {
        let secret =
            filled(&json!({"data": {"a": "b2xk", "b": "b2xk"}, "stringData": {"b": "new"}, "type": ""}), super::secret);
        assert_eq!(secret["data"], json!({"a": "b2xk", "b": "bmV3"}));
        assert_eq!((&secret["type"], &secret["stringData"]), (&json!("Opaque"), &Value::Null));
    }

    /// Any volume source a pod can have, in any number, with or without the fields that are filled.
    fn any_volume() -> impl Strategy<Value = Value> {
        let mode = proptest::option::of(0..0o777_i32);
        (proptest::collection::vec(0..10_u8, 0..3), mode, proptest::option::of("[a-z]{0,3}")).prop_map(
            |(kinds, mode, text)| {
                let mut volume = json!({"name": "v"});
                for kind in kinds {
                    let (name, source) = match kind {
                        0 => ("emptyDir", json!({"medium": text})),
                        1 => ("configMap", json!({"name": "c", "defaultMode": mode})),
                        2 => ("secret", json!({"secretName": text, "defaultMode": mode})),
                        3 => (
                            "downwardAPI",
                            json!({"defaultMode": mode, "items": [
                        {"path": "p", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": text}}]}),
                        ),
                        4 => (
                            "projected",
                            json!({"defaultMode": mode, "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": mode}}, {}]}),
                        ),
                        5 => ("hostPath", json!({"path": "/x", "type": text})),
                        6 => ("image", json!({"reference": text})),
                        7 => ("azureDisk", json!({"diskName": "d", "diskURI": "u", "kind": text})),
                        8 => ("ephemeral", json!({"volumeClaimTemplate": {"spec": {"volumeMode": text}}})),
                        _ => ("persistentVolumeClaim", json!({"claimName": "c"})),
                    };
                    volume[name] = source;
                }
                volume
            },
        )
    }

    proptest! {
        #[test]
        fn filling_a_pod_twice_is_filling_it_once(all in proptest::collection::vec(any_volume(), 0..4), account in proptest::option::of("[a-z]{1,3}"), old in proptest::option::of("[a-z]{1,3}")) {
            filled(&json!({"spec": {"containers": [], "volumes": all, "serviceAccount": old, "serviceAccountName": account}}), pod);
        }

        #[test]
        fn filling_anything_else_twice_is_filling_it_once(text in proptest::option::of("[a-zA-Z]{0,8}"), flag in proptest::option::of(any::<bool>())) {
            filled(&json!({"spec": {"volumeMode": text, "hostPath": {"path": "/", "type": text}}}), persistent_volume);
            filled(&json!({"spec": {"volumeMode": text}, "status": {"phase": text}}), claim);
            let driver = json!({"attachRequired": flag, "fsGroupPolicy": text, "volumeLifecycleModes": flag.map(|_| json!([]))});
            filled(&json!({"spec": driver}), csi_driver);
            filled(&json!({"provisioner": "p", "reclaimPolicy": text}), storage_class);
            filled(&json!({"type": text, "stringData": text.as_ref().map(|it| json!({"k": it}))}), secret);
        }
    }
    #[test]
    fn who_wrote_which_field_is_dropped_however_deep_it_is() {
        use k8s_openapi::api::core::v1::ConfigMap;
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
        let deep = (0..200).fold(json!({}), |inner, _| json!({"f": inner}));
        let fields = vec![ManagedFieldsEntry { fields_v1: Some(FieldsV1(deep)), ..ManagedFieldsEntry::default() }];
        let metadata = ObjectMeta { managed_fields: Some(fields), ..ObjectMeta::default() };
        let mut given = Pod { metadata: metadata.clone(), ..Pod::default() };
        pod(&mut given);
        assert_eq!(given.metadata.managed_fields, None);
        let map = Arc::new(ConfigMap { metadata, ..ConfigMap::default() });
        let Object::ConfigMap(taken) = object(Object::ConfigMap(map.clone())) else { panic!("a config map") };
        assert_eq!(taken.metadata.managed_fields, None);
        assert!(map.metadata.managed_fields.is_some(), "it is the caller's");
    }
}
