//! Which volumes a pod's containers use, and how (E-146).

use k8s_openapi::api::core::v1::{PodSpec, SELinuxOptions, SecurityContext, VolumeDevice, VolumeMount};
use std::collections::{BTreeMap, BTreeSet};

/// What the containers of a pod do with its volumes, by the pod's names for them.
#[derive(Default)]
pub(super) struct Usage<'a> {
    /// The volumes that some container sees as a directory.
    pub(super) mounts: BTreeSet<&'a str>,
    /// The volumes that some container sees as a device.
    pub(super) devices: BTreeSet<&'a str>,
    /// The SELinux options of the containers that mount a volume and have any (E-80).
    pub(super) labels: BTreeMap<&'a str, Vec<&'a SELinuxOptions>>,
}

impl<'a> Usage<'a> {
    /// What init, regular and ephemeral containers do. References in the environment do not count.
    pub(super) fn of(spec: &'a PodSpec) -> Self {
        let pod = spec.security_context.as_ref().and_then(|it| it.se_linux_options.as_ref());
        let mut usage = Self::default();
        for it in spec.init_containers.iter().flatten().chain(&spec.containers) {
            usage.add(it.volume_mounts.as_ref(), it.volume_devices.as_ref(), it.security_context.as_ref(), pod);
        }
        for it in spec.ephemeral_containers.iter().flatten() {
            usage.add(it.volume_mounts.as_ref(), it.volume_devices.as_ref(), it.security_context.as_ref(), pod);
        }
        usage
    }

    /// Does any container use it?
    pub(super) fn uses(&self, name: &str) -> bool {
        self.mounts.contains(name) || self.devices.contains(name)
    }

    fn add(
        &mut self,
        mounts: Option<&'a Vec<VolumeMount>>,
        devices: Option<&'a Vec<VolumeDevice>>,
        container: Option<&'a SecurityContext>,
        pod: Option<&'a SELinuxOptions>,
    ) {
        let options = container.and_then(|it| it.se_linux_options.as_ref()).or(pod);
        for mount in mounts.into_iter().flatten() {
            self.mounts.insert(&mount.name);
            self.labels.entry(&mount.name).or_default().extend(options);
        }
        self.devices.extend(devices.into_iter().flatten().map(|it| it.name.as_str()));
    }
}
