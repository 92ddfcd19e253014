//! What keeps a volume that was made for a claim when the claim is not there: who else names it, and what was said of it
//! (I-15).

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use windlass_core::ids::VolumeId;

use super::Entry;
use crate::drive::Drive;
use crate::memory::Object;
use crate::objects::{Lookup, ObjectKind, Reference};
use crate::plugin::csi::names::volume_id;
use crate::provision::next::Kept;
use crate::provision::{self, Provision};

impl Drive {
    /// Who else names a volume that this node has made.
    pub(super) fn naming(&self, noted: &Provision) -> Option<Naming> {
        let (made, own) = (noted.volume.as_ref()?, noted.reference());
        let id = noted.volume_id();
        let is_same = |it: &&Arc<PersistentVolume>| it.metadata.name != made.metadata.name && id_of(it) == id;
        let memory = self.wishes.memory();
        if let Some(volume) = memory.volumes().find(is_same) {
            return Some(Naming::Volume(volume.metadata.name.clone().unwrap_or_default()));
        }
        if let Some((claim, _)) = memory.claims().find(|(it, given)| **it != own && names(given) == Some(&noted.name)) {
            return Some(Naming::Claim(claim.clone()));
        }
        let has = |it: &Entry| it.noted.as_ref().is_some_and(|it| it.volume_id() == id);
        let other = self.provisions.claims.iter().find(|(claim, it)| **claim != own && has(it));
        other.map(|(claim, _)| Naming::Record(claim.clone()))
    }

    /// Why a volume stays whose claim is not there or names another, and what lets go of it.
    pub(super) fn explain_keeping(&self, claim: &Reference, noted: &Provision, why: Kept) -> String {
        let naming = self.naming(noted);
        let is_class = noted.is_deleted_with_claim() || !noted.class_says_delete();
        let why = match (why, &naming) {
            (Kept::Retained, _) if is_class => "its class says reclaimPolicy: Retain".into(),
            (Kept::Retained, _) => "a PersistentVolume of it said persistentVolumeReclaimPolicy: Retain".into(),
            (Kept::NamesAnother, _) => "the claim names another volume".into(),
            (Kept::Named, Some(other)) => other.to_string(),
            (Kept::NotSeen | Kept::Named, _) => "nobody saw that the claim went".into(),
        };
        let is_shared = matches!(naming, Some(Naming::Record(_)));
        let aim = match noted.volume.is_some() && (is_shared || !self.is_deleted_with_claim(noted)) {
            true => "to forget it and leave it with its driver",
            false => "to have it deleted",
        };
        let is_given = self.provisions.claims.get(claim).is_some_and(|it| it.given.is_some());
        let named = match naming {
            Some(Naming::Volume(name)) => Some(format!("the PersistentVolume {name}")),
            Some(Naming::Claim(claim)) => Some(format!("claim {}/{}", claim.namespace(), claim.name())),
            Some(Naming::Record(_)) | None => None,
        };
        let first: Vec<String> = is_given.then(|| "the claim".into()).into_iter().chain(named).collect();
        let first =
            if first.is_empty() { String::new() } else { format!(", remove {} first, then", first.join(" and ")) };
        format!("{why}; {aim}{first}: windlass delete claim {}/{}", claim.namespace(), claim.name())
    }

    /// Whether a volume goes with its claim. Its class may say by now that it stays.
    pub(in crate::drive) fn is_deleted_with_claim(&self, noted: &Provision) -> bool {
        let class = Reference::new(ObjectKind::Class, "", noted.class.metadata.name.as_deref().unwrap_or_default());
        let retains = |it: &StorageClass| it.reclaim_policy.as_deref() == Some("Retain");
        let is_retained = matches!(self.wishes.memory().get(&class), Lookup::Found(Object::Class(it)) if retains(it));
        noted.is_deleted_with_claim() && !is_retained
    }

    /// A persistent volume came or went: it may be the same volume of a driver as this node has made for a claim. If it says
    /// that the volume stays, that is the word of whoever wrote it, and outlives it (I-15).
    pub(in crate::drive) fn look_at_claim_of(&mut self, volume: &PersistentVolume) {
        let claim = id_of(volume).and_then(|it| self.provisions.volumes.get(&it).cloned());
        let Some(claim) = claim else { return };
        if let Some(entry) = self.provisions.claims.get_mut(&claim) {
            entry.says_retain |= provision::retains(volume);
        }
        // It may have been called as what this node shows of it, and have taken its place.
        self.show_claim(&claim);
        self.look_at_claim(&claim);
    }

    /// A claim came, went or changed that names this volume: it may be one that was made for another claim.
    pub(in crate::drive) fn look_at_claim_named(&mut self, volume: &str) {
        self.look_at_claims(|it| it.noted.as_ref().is_some_and(|it| it.name == volume));
    }
}

/// Who names a volume that was made for another claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Naming {
    /// A persistent volume that somebody wrote.
    Volume(String),
    /// A claim.
    Claim(Reference),
    /// What this node has noted for a claim: a driver gave both the same.
    Record(Reference),
}

impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(name) => write!(f, "the PersistentVolume {name} is the same volume of the driver"),
            Self::Claim(claim) => write!(f, "claim {}/{} names it", claim.namespace(), claim.name()),
            Self::Record(claim) => write!(f, "claim {}/{} has the same", claim.namespace(), claim.name()),
        }
    }
}

/// The volume that a claim names.
pub(in crate::drive) fn names(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.spec.as_ref()?.volume_name.as_ref().filter(|it| !it.is_empty())
}

/// What the engine calls the volume of a driver that a persistent volume is.
pub(super) fn id_of(volume: &PersistentVolume) -> Option<VolumeId> {
    let source = volume.spec.as_ref()?.csi.as_ref()?;
    Some(volume_id(&source.driver, &source.volume_handle))
}
