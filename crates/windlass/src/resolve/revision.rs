//! A number that changes when a volume that follows its description is to be another: what is to be in a written volume, or
//! which path of the host it is.
//!
//! It is made of how the volume is described, of the versions of the objects it shows, and of what it shows of the pod
//! itself. It is kept on disk beside the volume, so it is the same after a restart. Tokens are not in it: they expire
//! rather than change, and their plugin knows when.

use crate::fingerprint::Fingerprint;
use crate::objects::{Lookup, ObjectKind, Objects, View};
use k8s_openapi::api::core::v1::{self as api, DownwardAPIVolumeFile, PersistentVolume, Volume};
use k8s_openapi::{serde, serde_json};
use std::collections::BTreeMap;

/// The revision of a volume that a pod describes itself.
pub(super) fn of<O: Objects + ?Sized>(
    view: &mut View<'_, O>,
    pod: &api::Pod,
    namespace: &str,
    node: &str,
    volume: &Volume,
) -> u64 {
    // The number tells nothing that the volume's description does not; versions of secrets are keyed where they are made.
    let mut sum = Sum { view, pod, namespace, node, fingerprint: Fingerprint::new([0, 0]) };
    sum.json(volume);
    if let Some(source) = &volume.config_map {
        sum.object(ObjectKind::ConfigMap, &source.name);
    }
    if let Some(source) = &volume.secret {
        sum.object(ObjectKind::Secret, source.secret_name.as_deref().unwrap_or_default());
    }
    if let Some(source) = &volume.downward_api {
        sum.downward(source.items.as_deref());
    }
    let projections = volume.projected.iter().filter_map(|it| it.sources.as_ref()).flatten();
    for projection in projections {
        if let Some(source) = &projection.config_map {
            sum.object(ObjectKind::ConfigMap, &source.name);
        }
        if let Some(source) = &projection.secret {
            sum.object(ObjectKind::Secret, &source.name);
        }
        if let Some(source) = &projection.downward_api {
            sum.downward(source.items.as_deref());
        }
        if let Some(name) = projection.cluster_trust_bundle.as_ref().and_then(|it| it.name.as_ref()) {
            sum.object(ObjectKind::TrustBundle, name);
        }
        if projection.service_account_token.is_some() {
            sum.text(pod.spec.as_ref().and_then(|it| it.service_account_name.as_deref()));
        }
    }
    sum.fingerprint.finish()
}

/// The revision of a persistent volume that is used as it is described.
pub(super) fn of_persistent(volume: &PersistentVolume) -> u64 {
    let mut fingerprint = Fingerprint::new([0, 0]);
    fingerprint.field(&serde_json::to_vec(&volume.spec).unwrap_or_default());
    fingerprint.finish()
}

struct Sum<'a, 'b, O: ?Sized> {
    view: &'a mut View<'b, O>,
    pod: &'a api::Pod,
    namespace: &'a str,
    node: &'a str,
    fingerprint: Fingerprint,
}

impl<O: Objects + ?Sized> Sum<'_, '_, O> {
    fn object(&mut self, kind: ObjectKind, name: &str) {
        let (_, version) = self.view.version(kind, self.namespace, name);
        match version {
            Lookup::Found(version) => {
                self.fingerprint.number(1);
                self.fingerprint.number(version);
            }
            Lookup::Absent => self.fingerprint.number(2),
            // Never read: whoever writes the volume will say so.
            Lookup::Unavailable(_) => self.fingerprint.number(3),
        }
    }

    /// What the items show of the pod (P-115, P-117).
    fn downward(&mut self, items: Option<&[DownwardAPIVolumeFile]>) {
        let metadata = &self.pod.metadata;
        for item in items.unwrap_or_default() {
            match item.field_ref.as_ref().map(|it| it.field_path.as_str()) {
                Some(path) if path.starts_with("metadata.labels") => self.map(metadata.labels.as_ref()),
                Some(path) if path.starts_with("metadata.annotations") => self.map(metadata.annotations.as_ref()),
                Some("metadata.name") => self.text(metadata.name.as_deref()),
                Some("metadata.namespace") => self.text(metadata.namespace.as_deref()),
                Some("metadata.uid") => self.text(metadata.uid.as_deref()),
                Some(_) | None => {}
            }
            if let Some(field) = &item.resource_field_ref {
                self.resources(field.container_name.as_deref().unwrap_or_default());
                if field.resource.starts_with("limits.") {
                    self.allocatable();
                }
            }
        }
    }

    fn resources(&mut self, container: &str) {
        let spec = self.pod.spec.iter();
        let containers = spec.flat_map(|it| it.containers.iter().chain(it.init_containers.iter().flatten()));
        for it in containers.filter(|it| it.name == container) {
            self.json(&it.resources);
        }
    }

    /// What stands in for a missing limit (P-118).
    fn allocatable(&mut self) {
        match self.view.node(self.node).1 {
            Lookup::Found(node) => self.json(&node.status.as_ref().and_then(|it| it.allocatable.as_ref())),
            Lookup::Absent | Lookup::Unavailable(_) => self.fingerprint.number(2),
        }
    }

    fn map(&mut self, map: Option<&BTreeMap<String, String>>) {
        self.json(&map);
    }

    fn text(&mut self, text: Option<&str>) {
        self.fingerprint.field(text.unwrap_or_default().as_bytes());
    }

    /// Objects of the API are written in one way only: fields and keys in order.
    fn json(&mut self, value: &impl serde::Serialize) {
        self.fingerprint.field(&serde_json::to_vec(value).unwrap_or_default());
    }
}
