//! The objects that one volume shows, as they were at one moment.

use super::{Sources, config_map, node, picked, secret};
use crate::memory::{Memory, Object};
use crate::objects::{Lookup, ObjectKind, Reference};
use k8s_openapi::api::core::v1::{ConfigMap, DownwardAPIVolumeFile, Node, Secret, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects that one volume shows. Cheap to make and to keep: contents are made of it where waiting does no harm,
/// and nobody is kept from the [`Memory`] meanwhile.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    objects: BTreeMap<Reference, Lookup<Object>>,
}

impl Snapshot {
    /// What is known now of all that a volume of a pod in this namespace, on this node, may show.
    pub fn of(memory: &Memory, namespace: &str, node: &str, volume: &Volume) -> Self {
        let taken = |reference: Reference| {
            let found = match memory.get(&reference) {
                Lookup::Found(object) => Lookup::Found(object.clone()),
                Lookup::Absent => Lookup::Absent,
                Lookup::Unavailable(text) => Lookup::Unavailable(text),
            };
            (reference, found)
        };
        Self { objects: references(namespace, node, volume).into_iter().map(taken).collect() }
    }

    fn get(&self, kind: ObjectKind, namespace: &str, name: &str) -> Lookup<&Object> {
        match self.objects.get(&Reference::new(kind, namespace, name)) {
            Some(Lookup::Found(object)) => Lookup::Found(object),
            Some(Lookup::Unavailable(text)) => Lookup::Unavailable(text.clone()),
            Some(Lookup::Absent) => Lookup::Absent,
            // Of what was not asked for it cannot be said that it does not exist.
            None => Lookup::Unavailable("it was not looked up for this volume".into()),
        }
    }
}

impl Sources for Snapshot {
    fn config_map(&self, namespace: &str, name: &str) -> Lookup<Arc<ConfigMap>> {
        picked(self.get(ObjectKind::ConfigMap, namespace, name), config_map)
    }

    fn secret(&self, namespace: &str, name: &str) -> Lookup<Arc<Secret>> {
        picked(self.get(ObjectKind::Secret, namespace, name), secret)
    }

    fn node(&self, name: &str) -> Lookup<Arc<Node>> {
        picked(self.get(ObjectKind::Node, "", name), node)
    }
}

/// All objects that a volume may show.
fn references(namespace: &str, node: &str, volume: &Volume) -> Vec<Reference> {
    let config_map = |name: &str| Reference::new(ObjectKind::ConfigMap, namespace, name);
    let secret = |name: &str| Reference::new(ObjectKind::Secret, namespace, name);
    let downward = |items: Option<&Vec<DownwardAPIVolumeFile>>| {
        let resource = items.into_iter().flatten().any(|it| it.resource_field_ref.is_some());
        resource.then(|| Reference::new(ObjectKind::Node, "", node))
    };
    let mut references = Vec::new();
    references.extend(volume.config_map.as_ref().map(|it| config_map(&it.name)));
    references.extend(volume.secret.as_ref().map(|it| secret(it.secret_name.as_deref().unwrap_or_default())));
    references.extend(volume.downward_api.as_ref().and_then(|it| downward(it.items.as_ref())));
    for projection in volume.projected.iter().filter_map(|it| it.sources.as_ref()).flatten() {
        references.extend(projection.config_map.as_ref().map(|it| config_map(&it.name)));
        references.extend(projection.secret.as_ref().map(|it| secret(&it.name)));
        references.extend(projection.downward_api.as_ref().and_then(|it| downward(it.items.as_ref())));
    }
    references
}
