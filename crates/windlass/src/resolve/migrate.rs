//! Volumes of in-tree kinds that CSI drivers have taken over (E-154, C-150..C-163).
//!
//! Seven kinds are always translated; the rest of windlass sees only CSI. What is given is not changed.

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, CSIPersistentVolumeSource, NodeSelectorRequirement,
    NodeSelectorTerm, PersistentVolume, PersistentVolumeSpec, SecretReference, Volume, VsphereVirtualDiskVolumeSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

const EBS: &str = "ebs.csi.aws.com";
const GCE: &str = "pd.csi.storage.gke.io";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Several zones in one label.
const SEPARATOR: &str = "__";

/// The CSI volume that a persistent volume is today; `None` if it is of no such kind.
pub(super) fn persistent(volume: &PersistentVolume) -> Option<Result<PersistentVolume, String>> {
    let spec = volume.spec.as_ref()?;
    let mut target = spec.clone();
    let translated = if let Some(source) = &spec.aws_elastic_block_store {
        target.aws_elastic_block_store = None;
        zoned(&mut target, volume, "topology.ebs.csi.aws.com/zone");
        ebs(source)
    } else if let Some(source) = &spec.gce_persistent_disk {
        target.gce_persistent_disk = None;
        zoned(&mut target, volume, "topology.gke.io/zone");
        target.access_modes = spec.access_modes.as_deref().map(gce_access_modes);
        let zones = label(volume, OLD_ZONE).or_else(|| label(volume, ZONE));
        gce_place(zones).map(|place| CSIPersistentVolumeSource {
            volume_handle: format!("projects/UNSPECIFIED/{place}/disks/{}", source.pd_name),
            volume_attributes: Some(attributes([("partition", gce_partition(source.partition))])),
            ..csi(GCE, source.fs_type.as_ref(), source.read_only)
        })
    } else if let Some(source) = &spec.azure_disk {
        target.azure_disk = None;
        azure_disk(source, source.caching_mode.as_deref())
    } else if let Some(source) = &spec.azure_file {
        target.azure_file = None;
        let namespace = source.secret_namespace.as_deref();
        let claim = spec.claim_ref.as_ref().and_then(|it| it.namespace.as_deref());
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        let group = annotation(volume, "kubernetes.io/azure-file-resource-group").unwrap_or_default();
        match namespace.or(claim).filter(|it| !it.is_empty()) {
            Some(namespace) => {
                Ok(azure_file(group, &source.secret_name, &source.share_name, name, namespace, source.read_only))
            }
            None => Err(format!("could not find a namespace for the secret of Azure File volume {name}")),
        }
    } else if let Some(source) = &spec.cinder {
        target.cinder = None;
        zoned(&mut target, volume, "topology.cinder.csi.openstack.org/zone");
        Ok(handle(CINDER, &source.volume_id, source.fs_type.as_ref(), source.read_only))
    } else if let Some(source) = &spec.vsphere_volume {
        target.vsphere_volume = None;
        vsphere_topology(&mut target, volume);
        Ok(vsphere(source))
    } else if let Some(source) = &spec.portworx_volume {
        target.portworx_volume = None;
        Ok(portworx(&source.volume_id, source.fs_type.as_ref(), portworx_secret(volume)))
    } else {
        return None;
    };
    Some(untranslated(translated).map(|source| PersistentVolume {
        spec: Some(PersistentVolumeSpec { csi: Some(source), ..target }),
        ..volume.clone()
    }))
}

/// The CSI volume that a volume of a pod is today, as the persistent volume it counts as (C-160, C-163).
pub(super) fn pod_volume(volume: &Volume, namespace: &str) -> Option<Result<PersistentVolume, String>> {
    let once = "ReadWriteOnce";
    let by_flag = |it: Option<bool>| if it == Some(true) { "ReadOnlyMany" } else { once };
    let named = |driver: &str, id: &str| format!("{driver}-{id}");
    let translated = if let Some(source) = &volume.aws_elastic_block_store {
        ebs(source).map(|it| (named(EBS, &it.volume_handle), once, it))
    } else if let Some(source) = &volume.gce_persistent_disk {
        let translated = CSIPersistentVolumeSource {
            volume_handle: format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{}", source.pd_name),
            volume_attributes: Some(attributes([("partition", gce_partition(source.partition))])),
            ..csi(GCE, source.fs_type.as_ref(), source.read_only)
        };
        Ok((named(GCE, &source.pd_name), by_flag(source.read_only), translated))
    } else if let Some(source) = &volume.azure_disk {
        let caching = source.caching_mode.as_deref().filter(|it| !it.is_empty());
        azure_disk(source, caching).map(|it| (source.disk_uri.clone(), once, it))
    } else if let Some(source) = &volume.azure_file {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let it = azure_file("", &source.secret_name, &source.share_name, &volume.name, namespace, source.read_only);
        Ok((it.volume_handle.clone(), "ReadWriteMany", it))
    } else if let Some(source) = &volume.cinder {
        let it = handle(CINDER, &source.volume_id, source.fs_type.as_ref(), source.read_only);
        Ok((named(CINDER, &source.volume_id), once, it))
    } else if let Some(source) = &volume.vsphere_volume {
        Ok((named(VSPHERE, &source.volume_path), once, vsphere(source)))
    } else if let Some(source) = &volume.portworx_volume {
        let it = portworx(&source.volume_id, source.fs_type.as_ref(), None);
        Ok((named(PORTWORX, &source.volume_id), by_flag(source.read_only), it))
    } else {
        return None;
    };
    Some(untranslated(translated).map(|(name, access_mode, source)| PersistentVolume {
        metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
        spec: Some(PersistentVolumeSpec {
            csi: Some(source),
            access_modes: Some(vec![access_mode.into()]),
            volume_mode: Some("Filesystem".into()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }))
}

fn untranslated<T>(result: Result<T, String>) -> Result<T, String> {
    result.map_err(|error| format!("failed to translate in-tree pv to CSI: {error}"))
}

fn csi(driver: &str, fs_type: Option<&String>, read_only: Option<bool>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        driver: driver.into(),
        fs_type: fs_type.cloned(),
        read_only,
        ..CSIPersistentVolumeSource::default()
    }
}

fn handle(driver: &str, id: &str, fs_type: Option<&String>, read_only: Option<bool>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        volume_handle: id.into(),
        volume_attributes: Some(BTreeMap::new()),
        ..csi(driver, fs_type, read_only)
    }
}

fn attributes<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

/// C-153.
fn ebs(source: &AWSElasticBlockStoreVolumeSource) -> Result<CSIPersistentVolumeSource, String> {
    let id = match source.volume_id.strip_prefix("aws://") {
        None => source.volume_id.as_str(),
        Some(rest) => {
            let path = rest.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
            if !path.starts_with("vol-") || path.contains('/') {
                return Err(format!("invalid format for AWS volume ({})", source.volume_id));
            }
            path
        }
    };
    Ok(CSIPersistentVolumeSource {
        volume_handle: id.into(),
        volume_attributes: Some(attributes([("partition", source.partition.unwrap_or(0).to_string())])),
        ..csi(EBS, source.fs_type.as_ref(), source.read_only)
    })
}

/// Where a disk is, from the zones in the volume's label (C-154).
fn gce_place(zones: Option<&str>) -> Result<String, String> {
    let Some(label) = zones else { return Ok("zones/UNSPECIFIED".into()) };
    let zones: BTreeSet<&str> = label.split(SEPARATOR).map(str::trim).collect();
    if zones.len() < 2 {
        return Ok(format!("zones/{label}"));
    }
    let mut regions = BTreeSet::new();
    for zone in zones {
        let [locale, region, _] = zone.split('-').collect::<Vec<_>>()[..] else {
            return Err(format!("zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"));
        };
        regions.insert(format!("{locale}-{region}"));
    }
    match regions.into_iter().collect::<Vec<_>>().as_slice() {
        [region] => Ok(format!("regions/{region}")),
        regions => Err(format!("multiple or no regions gotten from zones, got: {}", regions.join(" "))),
    }
}

fn gce_partition(partition: Option<i32>) -> String {
    partition.filter(|it| *it != 0).map(|it| it.to_string()).unwrap_or_default()
}

/// Volumes for many writers existed when they meant one writer and readers (C-154).
fn gce_access_modes(modes: &[String]) -> Vec<String> {
    let only_readers = !modes.is_empty() && modes.iter().all(|it| it == "ReadOnlyMany");
    vec![if only_readers { "ReadOnlyMany" } else { "ReadWriteOnce" }.into()]
}

/// C-155.
fn azure_disk(source: &AzureDiskVolumeSource, caching: Option<&str>) -> Result<CSIPersistentVolumeSource, String> {
    if let Some(kind) = source.kind.as_deref().filter(|it| *it != "Managed") {
        return Err(format!("kind({kind}) is not supported in csi migration"));
    }
    let mut all = attributes([("kind", "Managed".into())]);
    all.extend(caching.map(|it| ("cachingmode".into(), it.into())));
    all.extend(source.fs_type.as_ref().map(|it| ("fstype".into(), it.clone())));
    Ok(CSIPersistentVolumeSource {
        volume_handle: source.disk_uri.clone(),
        volume_attributes: Some(all),
        ..csi(AZURE_DISK, source.fs_type.as_ref(), source.read_only)
    })
}

/// C-156.
fn azure_file(
    group: &str,
    secret: &str,
    share: &str,
    name: &str,
    namespace: &str,
    read_only: Option<bool>,
) -> CSIPersistentVolumeSource {
    let account = secret.strip_prefix("azure-storage-account-").and_then(|it| it.strip_suffix("-secret"));
    let account = account.filter(|it| !it.is_empty()).unwrap_or(secret);
    CSIPersistentVolumeSource {
        volume_handle: format!("{group}#{account}#{share}#{name}#{namespace}"),
        volume_attributes: Some(attributes([("sharename", share.into())])),
        node_stage_secret_ref: Some(SecretReference { name: Some(secret.into()), namespace: Some(namespace.into()) }),
        ..csi(AZURE_FILE, None, read_only)
    }
}

/// C-158.
fn vsphere(source: &VsphereVirtualDiskVolumeSource) -> CSIPersistentVolumeSource {
    let policy = source.storage_policy_name.as_ref().filter(|it| !it.is_empty());
    CSIPersistentVolumeSource {
        volume_attributes: Some(policy.map(|it| ("storagepolicyname".into(), it.clone())).into_iter().collect()),
        ..handle(VSPHERE, &source.volume_path, source.fs_type.as_ref(), None)
    }
}

/// C-159.
fn portworx(id: &str, fs_type: Option<&String>, secret: Option<SecretReference>) -> CSIPersistentVolumeSource {
    CSIPersistentVolumeSource {
        controller_expand_secret_ref: secret.clone(),
        controller_publish_secret_ref: secret.clone(),
        node_expand_secret_ref: secret.clone(),
        node_publish_secret_ref: secret.clone(),
        node_stage_secret_ref: secret,
        ..handle(PORTWORX, id, fs_type, None)
    }
}

fn portworx_secret(volume: &PersistentVolume) -> Option<SecretReference> {
    let part = |it| annotation(volume, it).filter(|it| !it.is_empty()).map(Into::into);
    let name = part("openstorage.io/auth-secret-name")?;
    let namespace = part("openstorage.io/auth-secret-namespace")?;
    Some(SecretReference { name: Some(name), namespace: Some(namespace) })
}

fn label<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(volume: &'a PersistentVolume, key: &str) -> Option<&'a str> {
    volume.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The pair of labels for zone and region that the volume uses: affinity before labels, new before old (C-161).
fn topology_labels(spec: &PersistentVolumeSpec, volume: &PersistentVolume) -> (&'static str, &'static str) {
    let labelled_old = label(volume, ZONE).is_none() && label(volume, OLD_ZONE).is_some();
    let old = !has_key(spec, ZONE) && (has_key(spec, OLD_ZONE) || labelled_old);
    if old { (OLD_ZONE, OLD_REGION) } else { (ZONE, REGION) }
}

/// The volume's zone, under the name that the driver gives it on nodes (C-161).
fn zoned(spec: &mut PersistentVolumeSpec, volume: &PersistentVolume, driver_key: &str) {
    let (zone, region) = topology_labels(spec, volume);
    if has_key(spec, zone) {
        rename_key(spec, zone, driver_key);
    } else if let Some(label) = label(volume, zone) {
        require(spec, driver_key, label.split(SEPARATOR));
    }
    if region == OLD_REGION {
        rename_key(spec, OLD_REGION, REGION);
    }
}

fn vsphere_topology(spec: &mut PersistentVolumeSpec, volume: &PersistentVolume) {
    let (zone, region) = topology_labels(spec, volume);
    for (key, driver_key) in [(zone, "topology.csi.vmware.com/zone"), (region, "topology.csi.vmware.com/region")] {
        if has_key(spec, key) {
            rename_key(spec, key, driver_key);
        } else if let Some(label) = label(volume, key) {
            require(spec, driver_key, [label]);
        }
    }
}

fn terms(spec: &PersistentVolumeSpec) -> &[NodeSelectorTerm] {
    let required = spec.node_affinity.as_ref().and_then(|it| it.required.as_ref());
    required.map(|it| it.node_selector_terms.as_slice()).unwrap_or_default()
}

fn has_key(spec: &PersistentVolumeSpec, key: &str) -> bool {
    terms(spec).iter().filter_map(|it| it.match_expressions.as_ref()).flatten().any(|it| it.key == key)
}

fn rename_key(spec: &mut PersistentVolumeSpec, from: &str, to: &str) {
    let required = spec.node_affinity.as_mut().and_then(|it| it.required.as_mut());
    let terms = required.into_iter().flat_map(|it| it.node_selector_terms.iter_mut());
    for expression in terms.filter_map(|it| it.match_expressions.as_mut()).flatten().filter(|it| it.key == from) {
        expression.key = to.into();
    }
}

/// Adds to every term that the node's label has one of the values.
fn require<'a>(spec: &mut PersistentVolumeSpec, key: &str, values: impl IntoIterator<Item = &'a str>) {
    let values: BTreeSet<&str> = values.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect();
    if values.is_empty() {
        return;
    }
    let terms = &mut spec.node_affinity.get_or_insert_default().required.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    let requirement = NodeSelectorRequirement {
        key: key.into(),
        operator: "In".into(),
        values: Some(values.into_iter().map(Into::into).collect()),
    };
    for term in terms {
        term.match_expressions.get_or_insert_default().push(requirement.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{self, Value, json};

    fn translated(volume: Value) -> Result<Value, String> {
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        persistent(&volume).unwrap().map(|it| serde_json::to_value(it).unwrap()["spec"].take())
    }

    fn inline(source: Value) -> Result<(String, Value), String> {
        let mut source = source;
        source["name"] = "v".into();
        let volume: Volume = serde_json::from_value(source).unwrap();
        let persistent = pod_volume(&volume, "apps").unwrap()?;
        Ok((persistent.metadata.name.unwrap(), serde_json::to_value(persistent.spec.unwrap()).unwrap()))
    }

    fn zone_terms(key: &str, values: &[&str]) -> Value {
        json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": key, "operator": "In", "values": values}]}]}})
    }

    /// C-153, C-161; the golden case migrated-ebs.
    #[test]
    fn an_ebs_volume_keeps_its_id_partition_and_zone() {
        let spec = translated(json!({
            "metadata": {"name": "pv-ebs", "labels": {"topology.kubernetes.io/zone": "us-east-1a"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime"], "awsElasticBlockStore":
                {"volumeID": "aws://us-east-1a/vol-0123456789abcdef0", "fsType": "ext4", "partition": 2}}
        }));
        assert_eq!(
            spec.unwrap(),
            json!({
                "accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime"],
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0", "fsType": "ext4",
                    "volumeAttributes": {"partition": "2"}},
                "nodeAffinity": zone_terms("topology.ebs.csi.aws.com/zone", &["us-east-1a"]),
            })
        );
    }

    #[test]
    fn an_ebs_id_is_taken_from_its_url_or_as_it_is() {
        let id = |id: &str| {
            let (name, spec) = inline(json!({"awsElasticBlockStore": {"volumeID": id}}))?;
            assert_eq!(spec["csi"]["volumeAttributes"], json!({"partition": "0"}));
            assert_eq!((&spec["volumeMode"], &spec["accessModes"]), (&json!("Filesystem"), &json!(["ReadWriteOnce"])));
            Ok::<_, String>(name)
        };
        assert_eq!(id("vol-1").as_deref(), Ok("ebs.csi.aws.com-vol-1"));
        assert_eq!(id("aws:///vol-1").as_deref(), Ok("ebs.csi.aws.com-vol-1"));
        assert_eq!(id("anything/else").as_deref(), Ok("ebs.csi.aws.com-anything/else"));
        for bad in ["aws://zone/disk-1", "aws://zone/vol-1/2", "aws://", "aws://zone"] {
            let text = format!("failed to translate in-tree pv to CSI: invalid format for AWS volume ({bad})");
            assert_eq!(id(bad), Err(text));
        }
    }

    /// C-154.
    #[test]
    fn a_gce_disk_is_in_a_zone_or_a_region() {
        let place = |zones: Option<&str>| {
            let labels = zones.map(|it| json!({"topology.kubernetes.io/zone": it}));
            let disk = json!({"pdName": "d"});
            let spec = translated(json!({"metadata": {"labels": labels}, "spec": {"gcePersistentDisk": disk}}))?;
            Ok::<_, String>(spec["csi"]["volumeHandle"].as_str().unwrap().to_string())
        };
        assert_eq!(place(None).as_deref(), Ok("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"));
        assert_eq!(place(Some("us-east1-b")).as_deref(), Ok("projects/UNSPECIFIED/zones/us-east1-b/disks/d"));
        assert_eq!(
            place(Some("us-east1-b__us-east1-c")).as_deref(),
            Ok("projects/UNSPECIFIED/regions/us-east1/disks/d")
        );
        assert!(place(Some("us-east1-b__us-west1-c")).unwrap_err().contains("multiple or no regions"));
        assert!(place(Some("a__b")).unwrap_err().contains("zone in unexpected format"));
    }

    /// C-154.
    #[test]
    fn a_gce_disk_has_one_writer_unless_it_has_only_readers() {
        let modes = |modes: Value| {
            translated(json!({"spec": {"accessModes": modes, "gcePersistentDisk": {"pdName": "d", "partition": 3}}}))
                .unwrap()["accessModes"]
                .take()
        };
        assert_eq!(modes(json!(["ReadOnlyMany"])), json!(["ReadOnlyMany"]));
        assert_eq!(modes(json!(["ReadWriteMany"])), json!(["ReadWriteOnce"]));
        assert_eq!(modes(json!(["ReadOnlyMany", "ReadWriteOnce"])), json!(["ReadWriteOnce"]));
        assert_eq!(modes(json!([])), json!(["ReadWriteOnce"]));
        assert_eq!(modes(Value::Null), Value::Null);
        let (name, spec) = inline(json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}})).unwrap();
        assert_eq!((name.as_str(), &spec["accessModes"]), ("pd.csi.storage.gke.io-d", &json!(["ReadOnlyMany"])));
    }

    /// C-155.
    #[test]
    fn an_azure_disk_must_be_managed() {
        let disk = |kind: &str| json!({"azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": kind, "cachingMode": "", "fsType": "xfs"}});
        let (name, spec) = inline(disk("Managed")).unwrap();
        assert_eq!((name.as_str(), &spec["csi"]["volumeHandle"]), ("/uri", &json!("/uri")));
        assert_eq!(spec["csi"]["volumeAttributes"], json!({"kind": "Managed", "fstype": "xfs"}));
        let spec = translated(json!({ "spec": disk("Managed") })).unwrap();
        assert_eq!(spec["csi"]["volumeAttributes"], json!({"kind": "Managed", "cachingmode": "", "fstype": "xfs"}));
        assert!(inline(disk("Dedicated")).unwrap_err().contains("kind(Dedicated)"));
    }

    /// C-156.
    #[test]
    fn an_azure_share_is_named_by_all_that_tells_it_from_others() {
        let share = json!({"shareName": "s", "secretName": "azure-storage-account-acc-secret"});
        let annotations = json!({"kubernetes.io/azure-file-resource-group": "rg"});
        let metadata = json!({"name": "pv", "annotations": annotations});
        let claim = json!({"namespace": "ns"});
        let spec = translated(json!({"metadata": metadata, "spec": {"azureFile": share, "claimRef": claim}})).unwrap();
        assert_eq!(spec["csi"]["volumeHandle"], "rg#acc#s#pv#ns");
        let secret = json!({"name": "azure-storage-account-acc-secret", "namespace": "ns"});
        assert_eq!(spec["csi"]["nodeStageSecretRef"], secret);
        assert!(translated(json!({"spec": {"azureFile": share}})).unwrap_err().contains("could not find a namespace"));
        let (name, spec) = inline(json!({"azureFile": {"shareName": "s", "secretName": "mine"}})).unwrap();
        assert_eq!((name.as_str(), &spec["accessModes"]), ("#mine#s#v#apps", &json!(["ReadWriteMany"])));
    }

    /// C-157, C-158, C-159.
    #[test]
    fn the_others_keep_their_handle() {
        let (name, spec) = inline(json!({"cinder": {"volumeID": "c", "readOnly": true}})).unwrap();
        assert_eq!((name.as_str(), &spec["csi"]["readOnly"]), ("cinder.csi.openstack.org-c", &json!(true)));
        let (name, spec) =
            inline(json!({"vsphereVolume": {"volumePath": "[ds] p", "storagePolicyName": "gold"}})).unwrap();
        assert_eq!(name, "csi.vsphere.vmware.com-[ds] p");
        assert_eq!(spec["csi"]["volumeAttributes"], json!({"storagepolicyname": "gold"}));
        let annotations = json!({"openstorage.io/auth-secret-name": "n", "openstorage.io/auth-secret-namespace": "ns"});
        let portworx = json!({"volumeID": "p", "readOnly": true});
        let spec = translated(json!({"metadata": {"annotations": annotations}, "spec": {"portworxVolume": portworx}}));
        let csi = spec.unwrap()["csi"].take();
        assert_eq!((&csi["volumeHandle"], &csi["readOnly"]), (&json!("p"), &Value::Null));
        for reference in ["controllerExpand", "controllerPublish", "nodeExpand", "nodePublish", "nodeStage"] {
            assert_eq!(csi[format!("{reference}SecretRef")], json!({"name": "n", "namespace": "ns"}));
        }
    }

    /// C-161.
    #[test]
    fn zones_come_from_the_affinity_before_the_labels() {
        let driver = "topology.cinder.csi.openstack.org/zone";
        let affinity = |labels: Value, affinity: Value| {
            let spec = json!({"cinder": {"volumeID": "c"}, "nodeAffinity": affinity});
            translated(json!({"metadata": {"labels": labels}, "spec": spec})).unwrap()["nodeAffinity"].take()
        };
        assert_eq!(affinity(json!({ZONE: "x"}), zone_terms(ZONE, &["a"])), zone_terms(driver, &["a"]));
        assert_eq!(affinity(json!({}), zone_terms(OLD_ZONE, &["a"])), zone_terms(driver, &["a"]));
        assert_eq!(affinity(json!({OLD_ZONE: "b__a__ b "}), Value::Null), zone_terms(driver, &["a", "b"]));
        assert_eq!(affinity(json!({}), Value::Null), Value::Null);
        let both = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": OLD_ZONE, "operator": "In", "values": ["a"]},
            {"key": OLD_REGION, "operator": "In", "values": ["r"]}]}]}});
        let renamed = affinity(json!({}), both);
        assert_eq!(renamed.pointer("/required/nodeSelectorTerms/0/matchExpressions/1/key"), Some(&json!(REGION)));
    }

    #[test]
    fn what_is_of_no_such_kind_is_left_alone() {
        let volume: PersistentVolume = serde_json::from_value(json!({"spec": {"local": {"path": "/x"}}})).unwrap();
        assert_eq!(persistent(&volume), None);
        assert_eq!(persistent(&PersistentVolume::default()), None);
        let volume: Volume =
            serde_json::from_value(json!({"name": "v", "rbd": {"image": "i", "monitors": []}})).unwrap();
        assert_eq!(pod_volume(&volume, "apps"), None);
    }
}
