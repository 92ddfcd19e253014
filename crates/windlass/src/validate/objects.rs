//! The objects that volumes need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::volume::fields_of;
use super::{DRIVER_TIMEOUT, Findings};
use crate::catalogue::Origin;
use crate::memory::Object;
use crate::quantity;

/// What an API server keeps of one config map or secret.
const BYTES_MAX: usize = 1 << 20;

/// The fields of a persistent volume that say what it is.
const SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// What a key of a ConfigMap or a Secret is made of.
const KEYS: &str = "letters, digits, '-', '_' and '.' can, without \"..\" at the beginning";

fn is_key(text: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-._".contains(&it);
    !text.is_empty() && text.len() <= 253 && text != "." && !text.starts_with("..") && text.bytes().all(plain)
}

impl Findings {
    pub(super) fn object(&mut self, object: &Object) {
        match object {
            Object::Claim(it) => self.claim(it),
            Object::Volume(it) => self.persistent(it),
            Object::ConfigMap(it) => {
                let texts = it.data.iter().flatten().map(|(key, value)| (key.as_str(), value.len()));
                let bytes = it.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.len()));
                self.keys("data", texts.clone());
                self.keys("binaryData", bytes.clone());
                for (key, _) in
                    bytes.clone().filter(|(key, _)| it.data.as_ref().is_some_and(|it| it.contains_key(*key)))
                {
                    self.warning(format!("binaryData.{key}"), "data has this key too; remove one of them");
                }
                self.size("data", texts.chain(bytes));
            }
            Object::Secret(it) => {
                let bytes = it.data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.len()));
                // Where key and value were exchanged, the key is the secret (I-12).
                if bytes.clone().any(|(key, _)| !is_key(key)) {
                    self.warning("data", format!("a name in it, which is not shown, cannot be a key: {KEYS}"));
                }
                self.size("data", bytes);
            }
            Object::Node(it) => {
                for (name, quantity) in it.status.iter().filter_map(|it| it.allocatable.as_ref()).flatten() {
                    if let Err(error) = quantity::thousandths(&quantity.0) {
                        self.warning(format!("status.allocatable.{name}"), error.to_string());
                    }
                }
            }
            Object::Class(it) => {
                if it.provisioner.is_empty() {
                    self.warning("provisioner", "it is missing");
                }
            }
            Object::Attachment(it) => {
                for (field, value) in [("spec.attacher", &it.spec.attacher), ("spec.nodeName", &it.spec.node_name)] {
                    if value.is_empty() {
                        self.warning(field, "it is missing");
                    }
                }
            }
            Object::Driver(_) => {}
        }
    }

    fn keys<'a>(&mut self, field: &str, keys: impl Iterator<Item = (&'a str, usize)>) {
        for (key, _) in keys.filter(|(key, _)| !is_key(key)) {
            self.warning(format!("{field}.{key}"), format!("this cannot be a key: {KEYS}"));
        }
    }

    fn size<'a>(&mut self, field: &str, values: impl Iterator<Item = (&'a str, usize)>) {
        let bytes: usize = values.map(|(key, value)| key.len() + value).sum();
        if bytes > BYTES_MAX {
            self.warning(field, format!("it has {bytes} bytes; an API server takes no more than {BYTES_MAX}"));
        }
    }

    fn storage(&mut self, field: &str, list: Option<&BTreeMap<String, Quantity>>) {
        match list.and_then(|it| it.get("storage")) {
            Some(quantity) => self.quantity(format!("{field}.storage"), Some(quantity)),
            None => self.warning(field, "it says nothing of storage"),
        }
    }

    fn volume_mode(&mut self, mode: Option<&String>) {
        if let Some(mode) = mode.filter(|it| !["Filesystem", "Block"].contains(&it.as_str())) {
            self.warning("spec.volumeMode", format!("{mode:?} is neither Filesystem nor Block"));
        }
    }

    fn access_modes(&mut self, modes: Option<&[String]>) {
        const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
        if modes.is_none_or(<[String]>::is_empty) {
            self.warning("spec.accessModes", "it is missing");
        }
        for (index, mode) in modes.unwrap_or_default().iter().enumerate() {
            if !MODES.contains(&mode.as_str()) {
                self.warning(format!("spec.accessModes[{index}]"), format!("{mode:?} is none of {}", MODES.join(", ")));
            }
        }
    }

    fn persistent(&mut self, volume: &PersistentVolume) {
        let Some(spec) = &volume.spec else { return self.warning("spec", "it is missing") };
        let mut sources = fields_of(spec);
        sources.retain(|it| SOURCES.contains(&it.as_str()));
        match sources.as_slice() {
            [] => self.warning("spec", "it has no source, such as local, hostPath or csi"),
            [_] => self.mountable("spec", &sources, &Origin::Persistent(volume.clone().into())),
            _ => self.warning("spec", format!("it has {} sources, {}; keep one", sources.len(), sources.join(", "))),
        }
        if let Some(Err(error)) = super::driver_timeout(&volume.metadata) {
            self.warning(format!("metadata.annotations.{DRIVER_TIMEOUT}"), format!("{error}; write it as 30s or 5m"));
        }
        self.storage("spec.capacity", spec.capacity.as_ref());
        self.access_modes(spec.access_modes.as_deref());
        self.volume_mode(spec.volume_mode.as_ref());
        if let Some(it) = &spec.host_path {
            self.host_path("spec.hostPath", it);
        }
        if let Some(it) = &spec.local {
            self.host_file("spec.local.path".into(), &it.path);
            if spec.node_affinity.as_ref().and_then(|it| it.required.as_ref()).is_none() {
                self.warning("spec.nodeAffinity", "it is missing, and a local volume is on some node");
            }
        }
    }

    fn claim(&mut self, claim: &PersistentVolumeClaim) {
        let Some(spec) = &claim.spec else { return self.warning("spec", "it is missing") };
        self.access_modes(spec.access_modes.as_deref());
        self.storage("spec.resources.requests", spec.resources.as_ref().and_then(|it| it.requests.as_ref()));
        self.volume_mode(spec.volume_mode.as_ref());
        let phase = claim.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or_default();
        // Where there is no cluster, nobody binds claims, but for those whose volumes a driver makes.
        let names_class = spec.storage_class_name.as_ref().is_some_and(|it| !it.is_empty());
        if spec.volume_name.as_ref().is_none_or(String::is_empty) {
            if !names_class {
                self.warning(
                    "spec.volumeName",
                    "it is missing: name the persistent volume that is claimed, or a storage class whose driver makes one",
                );
            }
        } else if phase != "Bound" {
            self.warning("status.phase", "it is not Bound, and pods wait until it is: write status: {phase: Bound}");
        }
    }
}
