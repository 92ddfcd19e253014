//! Objects as they are given: the pods that use one are looked at again.

use std::collections::BTreeSet;

use windlass_core::Event;
use windlass_core::ids::PodUid;

use super::Drive;
use super::provision::names;
use crate::memory::Object;
use crate::objects::{Lookup, ObjectKind, Reference};

impl Drive {
    pub(super) fn object_given(&mut self, object: Object) {
        match object {
            Object::Claim(claim) => {
                let named = self.named_by(&Object::Claim(claim.clone()).reference());
                let now = names(&claim).cloned();
                self.claim_is_given(claim);
                for volume in named.into_iter().chain(now) {
                    self.look_at_claim_named(&volume);
                }
            }
            Object::Class(_) => {
                self.put(object);
                self.provision_for_class();
            }
            Object::Volume(volume) => {
                if let Some(claim) = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref()) {
                    let (namespace, name) = (claim.namespace.as_deref(), claim.name.as_deref());
                    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
                    self.claim_has_changed(&Reference::new(ObjectKind::Claim, namespace, name));
                }
                self.put(Object::Volume(volume.clone()));
                self.look_at_claim_of(&volume);
            }
            other => self.put(other),
        }
    }

    pub(super) fn put(&mut self, object: Object) {
        self.put_together([object]);
    }

    /// Objects that belong together: no pod sees one of them without the others.
    pub(super) fn put_together<const N: usize>(&mut self, objects: [Object; N]) {
        let references = objects.each_ref().map(Object::reference);
        let mut memory = self.wishes.memory_mut();
        let pods: BTreeSet<PodUid> = objects.into_iter().flat_map(|it| memory.put(it)).collect();
        drop(memory);
        for pod in pods {
            self.apply_after(&pod, references.first());
        }
        for reference in &references {
            self.tell(Event::ObjectChanged(reference.into()));
        }
    }

    pub(super) fn object_gone(&mut self, reference: &Reference) {
        let volume = match self.wishes.memory().get(reference) {
            Lookup::Found(Object::Volume(volume)) => Some(volume.clone()),
            Lookup::Found(_) | Lookup::Absent | Lookup::Unavailable(_) => None,
        };
        let named = self.named_by(reference);
        let pods = self.wishes.memory_mut().remove(reference);
        self.apply_all(pods);
        self.tell(Event::ObjectChanged(reference.into()));
        if reference.kind() == ObjectKind::Claim {
            self.claim_has_changed(reference);
            self.claim_is_gone(reference);
        }
        if reference.kind() == ObjectKind::Class {
            self.provision_for_class();
        }
        if let Some(volume) = named {
            self.look_at_claim_named(&volume);
        }
        if let Some(volume) = volume {
            self.look_at_claim_of(&volume);
        }
    }

    /// The volume that a claim names as it is.
    fn named_by(&self, claim: &Reference) -> Option<String> {
        match self.wishes.memory().get(claim) {
            Lookup::Found(Object::Claim(claim)) => names(claim).cloned(),
            Lookup::Found(_) | Lookup::Absent | Lookup::Unavailable(_) => None,
        }
    }

    /// That an object cannot be looked up says nothing about it: what uses it stays as it is.
    pub(super) fn object_unavailable(&mut self, reference: &Reference, why: &str) {
        let pods = self.wishes.memory_mut().fail(reference, why);
        self.apply_all(pods);
    }
}
