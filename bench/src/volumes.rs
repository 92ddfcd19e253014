//! The volumes of a CSI driver that pods have, each with a claim that is bound to it. The kubelet's program makes the same
//! ones. Pods are for `pods.rs`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::CSIDriver;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json};
use windlass::manifest::Object;
use windlass_csi::proto::csi;

/// What volumes are said to have: the least that `windlass-loop` makes.
const CAPACITY: &str = "8Mi";

/// The volumes, by number. Systems find them in a file that they are told of when they are started.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub(crate) struct Volumes {
    /// The driver's name.
    pub(crate) driver: String,
    /// What the driver calls each.
    pub(crate) handles: Vec<String>,
}

impl Volumes {
    /// So many of a driver that takes whatever name it is given.
    pub(crate) fn of_any_name(driver: &str, count: usize) -> Self {
        Self { driver: driver.into(), handles: (0..count).map(|it| format!("volume-{it}")).collect() }
    }

    /// Those that a file tells of.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} tells of no volumes", path.display()))
    }

    /// Has a file tell of them.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        fs::write(path, serde_json::to_vec(self)?).with_context(|| format!("write {}", path.display()))
    }

    /// Everything that pods name, as manifests, each with a name of its own for its file.
    pub(crate) fn manifests(&self) -> Vec<(String, Value)> {
        let count = self.handles.len();
        let volumes = (0..count).map(|it| (format!("volume-{it}"), self.volume(it)));
        let claims = (0..count).map(|it| (format!("claim-{it}"), claim(it)));
        [("driver".to_owned(), self.driver())].into_iter().chain(volumes).chain(claims).collect()
    }

    /// The same, as the crate takes them.
    pub(crate) fn objects(&self) -> serde_json::Result<Vec<Object>> {
        let mut objects = vec![from_value::<CSIDriver>(self.driver())?.into()];
        for index in 0..self.handles.len() {
            objects.push(from_value::<PersistentVolume>(self.volume(index))?.into());
            objects.push(from_value::<PersistentVolumeClaim>(claim(index))?.into());
        }
        Ok(objects)
    }

    /// Nothing of it need be attached.
    fn driver(&self) -> Value {
        let metadata = json!({"name": self.driver});
        let spec = json!({"attachRequired": false});
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata, "spec": spec})
    }

    fn volume(&self, index: usize) -> Value {
        let claim = format!("claim-{index}");
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": format!("volume-{index}")},
            "spec": {
                "capacity": {"storage": CAPACITY},
                "volumeMode": "Filesystem",
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": self.driver, "volumeHandle": self.handles[index]},
                "claimRef": {"namespace": "default", "name": claim, "uid": claim},
            },
        })
    }
}

fn claim(index: usize) -> Value {
    let name = format!("claim-{index}");
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "volumeName": format!("volume-{index}"),
            "volumeMode": "Filesystem",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": CAPACITY}},
        },
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": CAPACITY}},
    })
}

/// A directory for one node, as everybody else asks for it.
pub(crate) fn capability() -> csi::VolumeCapability {
    use csi::volume_capability::access_mode::Mode;
    use csi::volume_capability::{AccessMode, AccessType, MountVolume};
    csi::VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}
