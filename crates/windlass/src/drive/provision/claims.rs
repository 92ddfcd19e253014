//! What is shown of claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use windlass_core::ids::{PodUid, Time, VolumeId};
use windlass_core::notice::Verdict;
use windlass_core::reason::{Code, Reason, WaitsOn};

use super::Entry;
use crate::drive::Drive;
use crate::memory::Object;
use crate::objects::{Lookup, ObjectKind, Reference};
use crate::plugin::csi::names;
use crate::view::{self, ClaimPhase, ClaimStatus, Metadata};
use crate::{provision, quantity};

const STORAGE: &str = "storage";

impl Drive {
    /// All claims there are, and what was made for those that are gone, sorted by namespace and name.
    pub(crate) fn show_claims(&self) -> Vec<view::Claim> {
        let mut claims: BTreeSet<Reference> = self.provisions.claims.keys().cloned().collect();
        let memory = self.wishes.memory();
        claims.extend(memory.claims().map(|(claim, _)| claim.clone()));
        drop(memory);
        claims.iter().filter_map(|it| self.show_one_claim(it)).collect()
    }

    /// A claim as it is shown; `None` if it is not there and nothing was made for it.
    pub(crate) fn show_one_claim(&self, claim: &Reference) -> Option<view::Claim> {
        let (entry, clock) = (self.provisions.claims.get(claim), self.outside.clock());
        let memory = self.wishes.memory();
        let there = match memory.get(claim) {
            Lookup::Found(Object::Claim(it)) => Some(it.clone()),
            Lookup::Found(_) | Lookup::Absent | Lookup::Unavailable(_) => None,
        };
        let noted = entry.and_then(|it| it.noted.as_ref());
        let object = there.as_deref().or(noted.map(|it| &it.claim))?;
        let spec = object.spec.clone().unwrap_or_default();
        let named = there.as_ref().and(spec.volume_name.clone()).filter(|it| !it.is_empty());
        let volume = match &named {
            Some(name) => match memory.get(&Reference::new(ObjectKind::Volume, "", name)) {
                Lookup::Found(Object::Volume(volume)) => Some(volume.clone()),
                Lookup::Found(_) | Lookup::Absent | Lookup::Unavailable(_) => None,
            },
            None => noted.and_then(|it| it.volume.clone()).map(Arc::new),
        };
        let pods: Vec<PodUid> = memory.users(claim);
        drop(memory);
        let unbound = named.as_deref().and_then(|it| unbound(claim, it, volume.as_deref()));
        let persistent = volume.as_ref().and_then(|it| it.spec.as_ref());
        let source = persistent.and_then(|it| it.csi.as_ref());
        let bytes = |list| quantity::bytes_of(list, STORAGE).ok().flatten();
        let capacity = there.as_ref().and_then(|it| bytes(it.status.as_ref()?.capacity.as_ref()));
        let name = |uid: &PodUid| view::split(&self.engine.view_pod(uid)?.pod.name).1.into();
        let known = entry.map_or(Time::ZERO, |it| it.known);
        let stand = entry.and_then(|it| it.stand.as_ref());
        let status = ClaimStatus {
            phase: if unbound.is_some() { ClaimPhase::Pending } else { phase(there.as_deref(), entry) },
            since: noted.and_then(|it| it.since).unwrap_or_else(|| clock.wall(known)),
            volume: named.or_else(|| volume.as_ref()?.metadata.name.clone()),
            volume_id: source.map(|it| names::volume_id(&it.driver, &it.volume_handle).to_string()),
            volume_handle: source.map(|it| it.volume_handle.clone()),
            driver: source.map(|it| it.driver.clone()).or_else(|| noted.map(|it| it.driver().to_owned())),
            storage_class: spec.storage_class_name.filter(|it| !it.is_empty()),
            reclaim_policy: match noted
                .filter(|it| volume.as_ref().is_some_and(|made| made.metadata.name.as_ref() == Some(&it.name)))
            {
                Some(noted) if !self.is_deleted_with_claim(noted) => Some("Retain".into()),
                Some(_) | None => persistent.and_then(|it| it.persistent_volume_reclaim_policy.clone()),
            },
            access_modes: spec.access_modes.unwrap_or_default(),
            volume_mode: spec.volume_mode,
            requested_bytes: there.as_ref().and_then(|it| provision::wanted(it)),
            capacity_bytes: capacity.or_else(|| bytes(persistent?.capacity.as_ref())),
            gone_since: entry.and_then(|it| it.departure.as_ref()).map(|it| it.since),
            delete_at: entry.and_then(delete_at).filter(|it| *it > self.now()).map(|it| clock.wall(it)),
            pods: pods.iter().filter_map(name).collect(),
            reasons: stand.or(unbound.as_ref()).map(|it| clock.reason(it)).into_iter().collect(),
        };
        let metadata = Metadata {
            namespace: Some(claim.namespace().into()),
            name: claim.name().into(),
            uid: there.and_then(|it| it.metadata.uid.clone()).filter(|it| !it.is_empty()),
        };
        Some(view::Object::new(metadata, status))
    }

    /// What keeps a volume that a pod has from growing (I-7): its driver's controller, this node, or what this node was told
    /// for good.
    pub(crate) fn explain_growth(&self, volume: &VolumeId) -> Vec<Reason> {
        let stand = self.provisions.volumes.get(volume).and_then(|it| self.provisions.claims.get(it)?.stand.clone());
        let stand = stand.filter(|it| matches!(it.code, Code::Resizing | Code::ResizeFailed));
        let refused = self.provisions.refused_growth.get(volume).cloned();
        let mut reasons = self.engine.explain_growth(volume);
        reasons.extend(stand.or(refused));
        reasons
    }

    /// An attempt of this node to grow a volume came to an end that others should know.
    pub(in crate::drive) fn expansion_has_ended(&mut self, volume: &VolumeId, verdict: &Verdict) {
        match verdict {
            Verdict::Grown { .. } => {
                self.provisions.refused_growth.remove(volume);
                self.volume_has_grown(volume);
                let (name, node) = (self.name_of(volume), &self.outside.executor.scene.node);
                let text: Arc<str> =
                    format!("MountVolume.NodeExpandVolume succeeded for volume \"{name}\" {node}").into();
                for pod in self.wishes.users.get(volume).into_iter().flatten() {
                    self.outside.executor.scene.tell.normal(pod, "FileSystemResizeSuccessful", text.clone());
                }
            }
            // It is tried again, and told of like an attempt without an answer.
            Verdict::Failed(_) => {}
            // Nobody tries that again before something else is asked for, so it is kept in mind here.
            Verdict::Infeasible(trouble) | Verdict::InUse(trouble) => {
                let reason = Reason {
                    code: Code::ResizeFailed,
                    text: trouble.text.to_string(),
                    since: self.now(),
                    attempts: 1,
                    next_try: None,
                    goes_at: None,
                    waits_on: WaitsOn::Nothing,
                };
                self.provisions.refused_growth.insert(volume.clone(), reason);
                self.tell_of_failed_growth(volume, &trouble.text);
            }
        }
    }

    /// What a volume's object is called, as those call it who use it.
    fn name_of(&self, volume: &VolumeId) -> String {
        let mut users = self.wishes.users.get(volume).into_iter().flatten();
        let detail = users.find_map(|it| self.wishes.pods.get(it)?.detail(volume));
        let name = detail.and_then(|it| it.persistent.as_ref()?.metadata.name.clone());
        name.unwrap_or_else(|| volume.to_string())
    }

    /// Tells the owners of the pods that have a volume that it does not grow (E-306).
    pub(in crate::drive) fn tell_of_failed_growth(&self, volume: &VolumeId, text: &str) {
        let name = self.name_of(volume);
        let text: Arc<str> = format!("NodeExpandVolume.NodeExpandVolume failed for volume \"{name}\" : {text}").into();
        for pod in self.wishes.users.get(volume).into_iter().flatten() {
            self.outside.executor.scene.tell.warning(pod, "VolumeResizeFailed", text.clone());
        }
    }
}

/// When the volume of a claim that went is deleted, if nothing keeps it and that has not begun.
fn delete_at(entry: &Entry) -> Option<Time> {
    let noted = entry.noted.as_ref().filter(|it| entry.given.is_none() && !it.is_doomed());
    noted.and(entry.due).map(|(due, _)| due)
}

/// Why a claim does not have the volume that it names, if that is not there or another's.
fn unbound(claim: &Reference, named: &str, volume: Option<&api::PersistentVolume>) -> Option<Reason> {
    let reference = Reference::new(ObjectKind::Volume, "", named);
    let text = match volume {
        None => format!("spec.volumeName: {}", reference.not_found()),
        Some(volume) => {
            let owner = volume.spec.as_ref()?.claim_ref.as_ref()?;
            let (namespace, name) = (owner.namespace.as_deref().unwrap_or_default(), owner.name.as_deref()?);
            if (namespace, name) == (claim.namespace(), claim.name()) {
                return None;
            }
            format!("spec.volumeName: volume {named} is bound to claim {namespace}/{name}")
        }
    };
    let waits_on = WaitsOn::Object((&reference).into());
    Some(Reason {
        code: Code::ObjectMissing,
        text,
        since: Time::ZERO,
        attempts: 0,
        next_try: None,
        goes_at: None,
        waits_on,
    })
}

/// How far a claim has come. `there` is the claim as pods see it, if it is there.
fn phase(there: Option<&api::PersistentVolumeClaim>, entry: Option<&Entry>) -> ClaimPhase {
    let code = entry.and_then(|it| it.stand.as_ref()).map(|it| it.code);
    match (there, code) {
        (Some(claim), _) if claim.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Bound") => {
            ClaimPhase::Bound
        }
        (_, Some(Code::ProvisioningFailed | Code::DriverLied | Code::DeletionFailed)) => ClaimPhase::Failed,
        (Some(_), _) => ClaimPhase::Pending,
        (None, Some(Code::VolumeKept)) => ClaimPhase::Kept,
        (None, Some(Code::DeletingVolume)) => ClaimPhase::Deleting,
        (None, Some(Code::DeletePending)) => ClaimPhase::DeletePending,
        (None, _) => match entry.and_then(|it| Some((it.noted.as_ref()?, it.departure.is_some()))) {
            Some((noted, _)) if noted.is_doomed() => ClaimPhase::Deleting,
            Some((noted, true)) if noted.is_deleted_with_claim() => ClaimPhase::DeletePending,
            Some(_) | None => ClaimPhase::Kept,
        },
    }
}
