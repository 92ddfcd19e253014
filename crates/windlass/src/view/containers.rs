//! What the containers of a pod are to be given of its volumes, for whoever starts them (E-396, P-225..P-231).
//!
//! Pure: the volumes were looked at by whoever calls this (I-4). How a container runtime is told is left to others.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1 as api;
use windlass_core::spec::Mode;

use super::{
    ContainerDevice, ContainerMount, ContainerMounts, Containers, ContainersStatus, GivenVolume, Metadata, MissingMount,
};
use crate::node::Volume;

/// What each container of this pod is to be given: init containers first, then the others, then ephemeral ones.
///
/// `volumes` are those that are mounted, `groups` those that they bring, and `why` says why a volume is not mounted.
pub(crate) fn containers(
    pod: &api::Pod,
    volumes: &[Volume],
    groups: Vec<i64>,
    why: impl Fn(&str) -> Option<String>,
) -> Containers {
    let given = Given { pod, volumes, why };
    let metadata = Metadata {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone(),
    };
    let mut containers = Vec::new();
    if let Some(spec) = &pod.spec {
        for it in spec.init_containers.iter().flatten().chain(&spec.containers) {
            containers.push(given.container(&it.name, it.volume_mounts.as_deref(), it.volume_devices.as_deref()));
        }
        for it in spec.ephemeral_containers.iter().flatten() {
            containers.push(given.container(&it.name, it.volume_mounts.as_deref(), it.volume_devices.as_deref()));
        }
    }
    let volumes = volumes.iter().map(|it| GivenVolume {
        name: it.name.to_string(),
        path: it.path.as_ref().and_then(|it| Some(it.to_str()?.to_owned())),
        mode: super::mode(it.mode).into(),
        read_only: it.read_only,
        managed: it.managed,
        relabel: it.relabel,
    });
    Containers::new(metadata, ContainersStatus { containers, groups, volumes: volumes.collect() })
}

/// What there is to give.
struct Given<'a, W> {
    pod: &'a api::Pod,
    volumes: &'a [Volume],
    why: W,
}

impl<W: Fn(&str) -> Option<String>> Given<'_, W> {
    fn container(
        &self,
        name: &str,
        mounts: Option<&[api::VolumeMount]>,
        devices: Option<&[api::VolumeDevice]>,
    ) -> ContainerMounts {
        let mut given =
            ContainerMounts { name: name.into(), mounts: Vec::new(), devices: Vec::new(), missing: Vec::new() };
        for mount in mounts.unwrap_or_default() {
            match self.mount(name, mount) {
                Ok(mount) => given.mounts.push(mount),
                Err(message) => given.missing.push(missing(&mount.name, &mount.mount_path, message)),
            }
        }
        for device in devices.unwrap_or_default() {
            match self.device(name, device) {
                Ok(device) => given.devices.push(device),
                Err(message) => given.missing.push(missing(&device.name, &device.device_path, message)),
            }
        }
        given
    }

    fn mount(&self, container: &str, mount: &api::VolumeMount) -> Result<ContainerMount, String> {
        let container_path = container_path("mountPath", &mount.mount_path)?;
        for (field, value) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
            if value.as_ref().is_some_and(|it| !it.is_empty()) {
                return Err(format!("{field} is not supported yet; mount the whole volume instead"));
            }
        }
        let (volume, host_path) = self.volume(container, &mount.name)?;
        if volume.mode != Mode::Filesystem {
            return Err("the volume is a device: name it in volumeDevices instead of volumeMounts".into());
        }
        let propagation = match mount.mount_propagation.as_deref() {
            None => "None",
            Some(known @ ("None" | "HostToContainer" | "Bidirectional")) => known,
            Some(other) => return Err(format!("there is no mountPropagation {other}")),
        };
        Ok(ContainerMount {
            volume: mount.name.clone(),
            host_path,
            container_path,
            read_only: mount.read_only == Some(true) || volume.read_only,
            recursive_read_only: recursive(mount, propagation)?,
            propagation: propagation.into(),
            relabel: volume.managed && volume.relabel,
        })
    }

    fn device(&self, container: &str, device: &api::VolumeDevice) -> Result<ContainerDevice, String> {
        let container_path = container_path("devicePath", &device.device_path)?;
        let (volume, host_path) = self.volume(container, &device.name)?;
        if volume.mode != Mode::Block {
            return Err("the volume is no device: name it in volumeMounts instead of volumeDevices".into());
        }
        let permissions = if volume.read_only { "r" } else { "rwm" };
        Ok(ContainerDevice { volume: device.name.clone(), host_path, container_path, permissions: permissions.into() })
    }

    /// A volume that is mounted, and where.
    fn volume(&self, container: &str, name: &str) -> Result<(&Volume, String), String> {
        let spec = self.pod.spec.as_ref().and_then(|it| it.volumes.as_ref()?.iter().find(|it| it.name == name));
        let Some(spec) = spec else {
            return Err(format!("cannot find volume {name:?} to mount into container {container:?}"));
        };
        if spec.image.is_some() {
            return Err("the container runtime mounts images itself".into());
        }
        let mounted = self.volumes.iter().find(|it| it.name.as_str() == name);
        let path = mounted.and_then(|it| Some((it, it.path.as_ref()?.to_str()?.to_owned())));
        path.ok_or_else(|| (self.why)(name).unwrap_or_else(|| "the volume is not mounted".into()))
    }
}

fn missing(volume: &str, container_path: &str, message: String) -> MissingMount {
    MissingMount { volume: volume.into(), container_path: container_path.into(), message }
}

/// Whether what is mounted below is to be read-only too: only what is read-only itself and gets no mounts from outside can
/// be (P-231).
fn recursive(mount: &api::VolumeMount, propagation: &str) -> Result<bool, String> {
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => Ok(false),
        Some("Enabled" | "IfPossible") if mount.read_only != Some(true) => {
            Err("recursiveReadOnly needs readOnly: true".into())
        }
        Some("Enabled" | "IfPossible") if propagation != "None" => {
            Err(format!("recursiveReadOnly cannot be had together with mountPropagation {propagation}"))
        }
        Some("Enabled" | "IfPossible") => Ok(true),
        Some(other) => Err(format!("there is no recursiveReadOnly {other}")),
    }
}

/// Where the container wants it. A path that is not absolute is taken from the root, as the kubelet does (P-229).
fn container_path(field: &str, path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err(format!("{field} is empty"));
    }
    if path.contains(':') {
        return Err(format!("{field} must not contain ':'"));
    }
    if path.starts_with('/') {
        return Ok(path.into());
    }
    let mut clean = PathBuf::from("/");
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(clean.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::serde_json::{Value, from_value, json};
    use windlass_core::operation::Proof;

    use super::*;

    fn volume(name: &str, path: Option<&str>) -> Volume {
        Volume {
            name: name.into(),
            path: path.map(PathBuf::from),
            mode: Mode::Filesystem,
            read_only: false,
            managed: true,
            relabel: true,
            proof: Proof { mount_id: 1, device: 1, root: 1, kind: 1 },
        }
    }

    fn given(mounts: &Value, devices: &Value) -> ContainerMounts {
        let pod: api::Pod = from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u"},
            "spec": {
                "containers": [{"name": "main", "volumeMounts": mounts, "volumeDevices": devices}],
                "volumes": [
                    {"name": "data"}, {"name": "fixed"}, {"name": "slow"}, {"name": "disk"}, {"name": "fixed-disk"},
                    {"name": "picture", "image": {"reference": "example.com/picture"}},
                ],
            },
        }))
        .unwrap();
        let volumes = [
            volume("data", Some("/pods/u/data")),
            Volume { read_only: true, managed: false, ..volume("fixed", Some("/pods/u/fixed")) },
            Volume { mode: Mode::Block, ..volume("disk", Some("/dev/loop7")) },
            Volume { mode: Mode::Block, read_only: true, ..volume("fixed-disk", Some("/dev/loop8")) },
            volume("picture", None),
        ];
        let why = |name: &str| (name == "slow").then(|| "the disk is slow".to_owned());
        let Containers { metadata, status, .. } = containers(&pod, &volumes, vec![7], why);
        assert_eq!((metadata.namespace.as_deref(), metadata.name.as_str()), (Some("shop"), "web"));
        assert_eq!(status.groups, [7]);
        status.containers.into_iter().next().unwrap()
    }

    fn message(mount: &Value) -> String {
        let given = given(&json!([mount]), &json!([]));
        assert_eq!(given.mounts, []);
        given.missing.into_iter().next().unwrap().message
    }

    #[test]
    fn a_mount_is_read_only_if_the_container_or_the_volume_says_so() {
        let given = given(
            &json!([
                {"name": "data", "mountPath": "/a"},
                {"name": "data", "mountPath": "/b", "readOnly": true, "recursiveReadOnly": "IfPossible"},
                {"name": "fixed", "mountPath": "/c", "mountPropagation": "HostToContainer"},
            ]),
            &json!([]),
        );
        let seen: Vec<_> = given
            .mounts
            .iter()
            .map(|it| (it.container_path.as_str(), it.read_only, it.recursive_read_only, it.propagation.as_str()))
            .collect();
        assert_eq!(
            seen,
            [("/a", false, false, "None"), ("/b", true, true, "None"), ("/c", true, false, "HostToContainer")]
        );
        assert_eq!(given.mounts[0].host_path, "/pods/u/data");
        assert_eq!(given.mounts.iter().map(|it| it.relabel).collect::<Vec<_>>(), [true, true, false], "E-396");
        assert_eq!(given.missing, []);
    }

    #[test]
    fn a_device_that_is_read_only_may_only_be_read() {
        let devices =
            json!([{"name": "disk", "devicePath": "/dev/xvda"}, {"name": "fixed-disk", "devicePath": "/dev/xvdb"}]);
        let given = given(&json!([]), &devices);
        let seen: Vec<_> = given.devices.iter().map(|it| (it.host_path.as_str(), it.permissions.as_str())).collect();
        assert_eq!(seen, [("/dev/loop7", "rwm"), ("/dev/loop8", "r")]);
    }

    #[test]
    fn what_cannot_be_given_says_why() {
        let cases = [
            (json!({"name": "slow", "mountPath": "/a"}), "the disk is slow"),
            (
                json!({"name": "data", "mountPath": "/a", "subPath": "b"}),
                "subPath is not supported yet; mount the whole volume instead",
            ),
            (json!({"name": "picture", "mountPath": "/a"}), "the container runtime mounts images itself"),
            (
                json!({"name": "else", "mountPath": "/a"}),
                "cannot find volume \"else\" to mount into container \"main\"",
            ),
            (json!({"name": "data", "mountPath": ""}), "mountPath is empty"),
            (json!({"name": "data", "mountPath": "/a:b"}), "mountPath must not contain ':'"),
            (
                json!({"name": "data", "mountPath": "/a", "recursiveReadOnly": "Enabled"}),
                "recursiveReadOnly needs readOnly: true",
            ),
            (
                json!({"name": "disk", "mountPath": "/a"}),
                "the volume is a device: name it in volumeDevices instead of volumeMounts",
            ),
        ];
        for (mount, expected) in cases {
            assert_eq!(message(&mount), expected, "{mount}");
        }
    }

    #[test]
    fn a_path_that_is_not_absolute_is_taken_from_the_root() {
        assert_eq!(container_path("mountPath", "a/./b/../c").unwrap(), "/a/c");
        assert_eq!(container_path("mountPath", "../a").unwrap(), "/a");
        assert_eq!(container_path("mountPath", "/a/../b").unwrap(), "/a/../b", "as it is written");
    }
}
