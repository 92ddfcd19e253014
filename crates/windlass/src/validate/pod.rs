//! Pods: their volumes, and what containers make of them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, PodSpec, Volume, VolumeDevice, VolumeMount};

use super::{Findings, is_dns};
use crate::objects::{ObjectKind, Reference};

/// How many volumes a pod may have. Each is looked at together with others, so very many take very long, and all pods would
/// wait for this one.
const VOLUMES_MAX: usize = 1000;
/// How many containers a pod may have, of all kinds together.
const CONTAINERS_MAX: usize = 1000;
/// In how many places its containers may want its volumes, and how many files and sources may be chosen in them.
const MOUNTS_MAX: usize = 10_000;

/// What a container says about volumes, whichever kind of container it is.
struct Container<'a> {
    field: String,
    mounts: &'a [VolumeMount],
    devices: &'a [VolumeDevice],
}

fn containers(spec: &PodSpec) -> Vec<Container<'_>> {
    macro_rules! of {
        ($list:expr, $name:literal) => {
            $list.iter().enumerate().map(|(index, it)| Container {
                field: format!("spec.{}[{index}]", $name),
                mounts: it.volume_mounts.as_deref().unwrap_or_default(),
                devices: it.volume_devices.as_deref().unwrap_or_default(),
            })
        };
    }
    let first = of!(spec.init_containers.as_deref().unwrap_or_default(), "initContainers");
    let last = of!(spec.ephemeral_containers.as_deref().unwrap_or_default(), "ephemeralContainers");
    first.chain(of!(&spec.containers, "containers")).chain(last).collect()
}

/// How many items and sources are chosen for a volume.
fn files_of(volume: &Volume) -> usize {
    fn count<T>(list: Option<&Vec<T>>) -> usize {
        list.map_or(0, Vec::len)
    }
    let sources = volume.projected.iter().filter_map(|it| it.sources.as_ref()).flatten().map(|it| {
        1 + count(it.config_map.as_ref().and_then(|it| it.items.as_ref()))
            + count(it.secret.as_ref().and_then(|it| it.items.as_ref()))
            + count(it.downward_api.as_ref().and_then(|it| it.items.as_ref()))
    });
    sources.sum::<usize>()
        + count(volume.config_map.as_ref().and_then(|it| it.items.as_ref()))
        + count(volume.secret.as_ref().and_then(|it| it.items.as_ref()))
        + count(volume.downward_api.as_ref().and_then(|it| it.items.as_ref()))
}

impl Findings {
    pub(super) fn pod(&mut self, pod: &Pod) {
        let Some(spec) = &pod.spec else { return self.error("spec", "it is missing") };
        let containers = containers(spec);
        if self.is_excessive(spec, &containers) {
            return;
        }
        if containers.is_empty() {
            self.warning("spec.containers", "there are none, so that no volume is used and none is mounted");
        }
        let volumes = spec.volumes.as_deref().unwrap_or_default();
        let mut names: BTreeMap<&str, (usize, &Volume)> = BTreeMap::new();
        for (index, volume) in volumes.iter().enumerate() {
            let field = format!("spec.volumes[{index}]");
            if volume.name.is_empty() {
                self.warning(format!("{field}.name"), "it is missing");
            } else if let Some((other, _)) = names.get(volume.name.as_str()) {
                let text = format!("{:?} is the name of spec.volumes[{other}] too; rename one of them", volume.name);
                self.error(format!("{field}.name"), text);
                continue;
            } else if !is_dns(&volume.name, 63, false) {
                let text = format!("{:?} is not as names of volumes are: lower case letters, digits, '-'", volume.name);
                self.warning(format!("{field}.name"), text);
            }
            names.insert(&volume.name, (index, volume));
            self.volume(&field, volume);
        }
        for container in &containers {
            self.container(container, &names);
        }
        let mut used = BTreeSet::new();
        for container in &containers {
            used.extend(container.mounts.iter().map(|it| it.name.as_str()));
            used.extend(container.devices.iter().map(|it| it.name.as_str()));
        }
        if !containers.is_empty() {
            for (name, (index, _)) in names.iter().filter(|(name, _)| !used.contains(*name)) {
                let text = format!("no container uses {name:?}, so it is not mounted");
                self.warning(format!("spec.volumes[{index}]"), text);
            }
        }
    }

    /// Whether there is more of something than can be looked at; that is said.
    fn is_excessive(&mut self, spec: &PodSpec, containers: &[Container<'_>]) -> bool {
        let volumes = spec.volumes.as_deref().unwrap_or_default();
        let mounts = containers.iter().map(|it| it.mounts.len() + it.devices.len()).sum();
        let files = volumes.iter().map(files_of).sum();
        let before = self.0.len();
        for (field, count, max, what) in [
            ("spec.volumes", volumes.len(), VOLUMES_MAX, "volumes"),
            ("spec.containers", containers.len(), CONTAINERS_MAX, "containers"),
            ("spec.containers", mounts, MOUNTS_MAX, "mounts of volumes"),
            ("spec.volumes", files, MOUNTS_MAX, "items and sources in volumes"),
        ] {
            if count > max {
                self.error(
                    field,
                    format!("there are {count} {what}, and a pod may have {max}: make several pods of it"),
                );
            }
        }
        self.0.len() > before
    }

    fn container(&mut self, container: &Container<'_>, volumes: &BTreeMap<&str, (usize, &Volume)>) {
        let mut paths = BTreeSet::new();
        for (index, mount) in container.mounts.iter().enumerate() {
            let field = format!("{}.volumeMounts[{index}]", container.field);
            if !volumes.contains_key(mount.name.as_str()) {
                self.no_such_volume(&field, &mount.name);
            }
            self.container_path(format!("{field}.mountPath"), &mount.mount_path, &mut paths);
            for (name, value) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
                if value.as_ref().is_some_and(|it| !it.is_empty()) {
                    let text = "it is not supported yet: mount the whole volume, or name the file with items";
                    self.warning(format!("{field}.{name}"), text);
                }
            }
            let propagation = mount.mount_propagation.as_deref().unwrap_or("None");
            if !["None", "HostToContainer", "Bidirectional"].contains(&propagation) {
                let text = format!("{propagation:?} is none of None, HostToContainer and Bidirectional");
                self.warning(format!("{field}.mountPropagation"), text);
            }
        }
        for (index, device) in container.devices.iter().enumerate() {
            let field = format!("{}.volumeDevices[{index}]", container.field);
            match volumes.get(device.name.as_str()) {
                None => self.no_such_volume(&field, &device.name),
                Some((_, volume)) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
                    let text = format!("{:?} is no claim, and only a claimed volume can be a device", device.name);
                    self.warning(format!("{field}.name"), text);
                }
                Some(_) => {}
            }
            self.container_path(format!("{field}.devicePath"), &device.device_path, &mut paths);
        }
    }

    fn no_such_volume(&mut self, field: &str, name: &str) {
        let text = match name {
            "" => "it is missing".into(),
            _ => format!("the pod has no volume {name:?}; add one to spec.volumes"),
        };
        self.warning(format!("{field}.name"), text);
    }

    fn container_path<'a>(&mut self, field: String, path: &'a str, paths: &mut BTreeSet<&'a str>) {
        if path.is_empty() {
            self.warning(field, "it is missing");
        } else if !paths.insert(path) {
            self.warning(field, format!("{path:?} is where the container has something else already"));
        } else if !path.starts_with('/') {
            self.warning(field, format!("{path:?} does not begin with a slash"));
        } else if path.contains(':') {
            self.warning(field, format!("{path:?} contains a colon, which container runtimes do not take"));
        }
    }
}

/// The objects that a pod cannot do without, and the fields that name them.
pub fn references(pod: &Pod) -> Vec<(Reference, String)> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|it| it.volumes.as_deref()).unwrap_or_default();
    let mut all = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = format!("spec.volumes[{index}]");
        let mut needs = |kind, optional: Option<bool>, name: &str, field: String| {
            if optional != Some(true) && !name.is_empty() {
                all.push((Reference::new(kind, namespace, name), field));
            }
        };
        if let Some(it) = &volume.config_map {
            needs(ObjectKind::ConfigMap, it.optional, &it.name, format!("{field}.configMap.name"));
        }
        if let Some(it) = &volume.secret {
            let name = it.secret_name.as_deref().unwrap_or_default();
            needs(ObjectKind::Secret, it.optional, name, format!("{field}.secret.secretName"));
        }
        let sources = volume.projected.as_ref().and_then(|it| it.sources.as_deref()).unwrap_or_default();
        for (index, source) in sources.iter().enumerate() {
            let field = format!("{field}.projected.sources[{index}]");
            if let Some(it) = &source.config_map {
                needs(ObjectKind::ConfigMap, it.optional, &it.name, format!("{field}.configMap.name"));
            }
            if let Some(it) = &source.secret {
                needs(ObjectKind::Secret, it.optional, &it.name, format!("{field}.secret.name"));
            }
        }
        if let Some(it) = &volume.persistent_volume_claim {
            needs(ObjectKind::Claim, None, &it.claim_name, format!("{field}.persistentVolumeClaim.claimName"));
        }
        if volume.ephemeral.is_some() {
            // Nobody makes it of the template where there is no controller.
            let name = format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
            needs(ObjectKind::Claim, None, &name, format!("{field}.ephemeral"));
        }
    }
    all
}
