//! From a pod's claim to its persistent volume (E-150..E-155), with the kubelet's checks in the kubelet's order.

use super::Trouble;
use super::usage::Usage;
use crate::objects::{Lookup, Objects, Reference, View};
use crate::provision::NOT_REQUIRED;
use crate::quantity;
use k8s_openapi::api::core::v1::{
    self as api, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_core::expand;
use windlass_core::spec::Mode;

const PROTECTION: &str = "kubernetes.io/pvc-protection";
const GROUP: &str = "pv.beta.kubernetes.io/gid";
const STORAGE: &str = "storage";

/// Where a claim led.
pub(super) struct Claimed {
    pub(super) claim: Arc<PersistentVolumeClaim>,
    pub(super) volume: Arc<PersistentVolume>,
    pub(super) read_only: bool,
}

/// The persistent volume behind a pod's volume; `None` if there is no claim to follow.
///
/// Whatever is wrong on the way may come right, by another state of the claim or of the volume.
pub(super) fn follow<O: Objects + ?Sized>(
    view: &mut View<'_, O>,
    pod: &api::Pod,
    namespace: &str,
    volume: &Volume,
) -> Option<Result<Claimed, Trouble>> {
    let (name, read_only, of_pod) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => (source.claim_name.clone(), source.read_only.unwrap_or(false), false),
        (None, Some(_)) => {
            (format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name), false, true)
        }
        (None, None) => return None,
    };
    let prefixed = |trouble: Trouble| match trouble {
        Trouble::Unknown { text, waits_on } => {
            Trouble::Unknown { text: format!("error processing PVC {namespace}/{name}: {text}"), waits_on }
        }
        Trouble::Pending(mut why) => {
            why.text.insert_str(0, &format!("error processing PVC {namespace}/{name}: "));
            Trouble::Pending(why)
        }
        Trouble::Invalid { text } => {
            Trouble::Invalid { text: format!("error processing PVC {namespace}/{name}: {text}") }
        }
    };
    let (reference, claim) = match bound(view, namespace, &name) {
        Ok(found) => found,
        Err(trouble) => return Some(Err(prefixed(trouble))),
    };
    if of_pod && !is_controlled_by(&claim, pod) {
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        let text = format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)");
        return Some(Err(Trouble::waiting_for(&reference, text)));
    }
    Some(volume_of(view, &claim).map_err(prefixed).map(|volume| Claimed { claim, volume, read_only }))
}

/// The claim, if it is bound and there to stay (E-152a..E-152d, E-153).
fn bound<O: Objects + ?Sized>(
    view: &mut View<'_, O>,
    namespace: &str,
    name: &str,
) -> Result<(Reference, Arc<PersistentVolumeClaim>), Trouble> {
    let (reference, claim) = view.claim(namespace, name);
    let unfetched = |error: &str| format!("failed to fetch PVC from API server: {error}");
    let claim = match claim {
        Lookup::Found(claim) => claim,
        Lookup::Absent => return Err(Trouble::waiting_for(&reference, unfetched(&reference.not_found()))),
        Lookup::Unavailable(error) => return Err(Trouble::waiting_for(&reference, unfetched(&error))),
    };
    let protected = claim.metadata.finalizers.iter().flatten().any(|it| it == PROTECTION);
    let phase = claim.status.as_ref().and_then(|it| it.phase.as_deref());
    let text = if claim.metadata.deletion_timestamp.is_some() && !protected {
        "PVC is being deleted"
    } else if phase != Some("Bound") {
        // Whoever makes its volume may say what that waits for. What the claim's writer says of it is nothing to go by.
        if let Some(mut why) = view.pending(&reference) {
            why.text.insert_str(0, "PVC is not bound: ");
            return Err(Trouble::Pending(Box::new(why)));
        }
        "PVC is not bound"
    } else if volume_name(&claim).is_empty() {
        "PVC has empty pvc.Spec.VolumeName"
    } else {
        return Ok((reference, claim));
    };
    Err(Trouble::waiting_for(&reference, text.into()))
}

/// The claim's volume, if it knows of the claim (E-152e..E-152g).
fn volume_of<O: Objects + ?Sized>(
    view: &mut View<'_, O>,
    claim: &PersistentVolumeClaim,
) -> Result<Arc<PersistentVolume>, Trouble> {
    let name = volume_name(claim);
    let (reference, volume) = view.volume(name);
    let unfetched = |error: &str| format!("failed to fetch PV {name} from API server: {error}");
    let volume = match volume {
        Lookup::Found(volume) => volume,
        Lookup::Absent => return Err(Trouble::waiting_for(&reference, unfetched(&reference.not_found()))),
        Lookup::Unavailable(error) => return Err(Trouble::waiting_for(&reference, unfetched(&error))),
    };
    let owner = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref());
    let text = match owner.map(|it| it.uid.as_deref().unwrap_or_default()) {
        None => format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ),
        Some(uid) if uid != claim.metadata.uid.as_deref().unwrap_or_default() => format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {uid} does not point to claim.UID {}",
            claim.metadata.uid.as_deref().unwrap_or_default()
        ),
        Some(_) => return Ok(volume),
    };
    Err(Trouble::waiting_for(&reference, text))
}

fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|it| it.volume_name.as_deref()).unwrap_or_default()
}

fn is_controlled_by(claim: &PersistentVolumeClaim, pod: &api::Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let controller = owners.find(|it| it.controller == Some(true));
    controller.is_some_and(|it| Some(&it.uid) == pod.metadata.uid.as_ref())
}

/// As a directory or as a device: what the volume is must be what all containers take it for (E-155).
pub(super) fn mode(volume: &PersistentVolume, name: &str, usage: &Usage<'_>) -> Result<Mode, Trouble> {
    let mode = volume.spec.as_ref().and_then(|it| it.volume_mode.as_deref());
    let Some(mode) = mode.filter(|it| !it.is_empty()) else {
        let name = volume.metadata.name.as_deref().unwrap_or_default();
        return Err(Trouble::invalid(format!("cannot get volumeMode for volume: {name}")));
    };
    let misused =
        |place| Err(Trouble::invalid(format!("volume {name} has volumeMode {mode}, but is specified in {place}")));
    if usage.mounts.contains(name) && mode != "Filesystem" {
        return misused("volumeMounts");
    }
    if usage.devices.contains(name) && mode != "Block" {
        return misused("volumeDevices");
    }
    Ok(if mode == "Block" { Mode::Block } else { Mode::Filesystem })
}

/// The group that comes with the volume (P-216), as it was written.
pub(super) fn group(volume: &PersistentVolume) -> Option<Arc<str>> {
    let group = volume.metadata.annotations.as_ref()?.get(GROUP)?;
    (!group.is_empty()).then(|| group.as_str().into())
}

/// How large the volume should be and is (E-158, E-283, C-110). A size that cannot be read is not known.
pub(super) fn size(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> expand::Size {
    sizes(claim, volume).map(|it| expand::Size::of(&it)).unwrap_or_default()
}

/// Whether the claim says that a node has nothing to grow.
pub(super) fn is_grown(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    sizes(claim, volume).is_some_and(|it| it.is_done())
}

fn sizes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<expand::Claim> {
    let storage = |list: Option<&BTreeMap<String, Quantity>>| quantity::bytes_of(list, STORAGE).ok().flatten();
    let capacity = volume.spec.as_ref().and_then(|it| it.capacity.as_ref());
    let none = PersistentVolumeClaimStatus::default();
    let status = claim.status.as_ref().unwrap_or(&none);
    let (volume_bytes, capacity_bytes) = (storage(capacity)?, storage(status.capacity.as_ref())?);
    let resize = match status.allocated_resource_statuses.as_ref().and_then(|it| it.get(STORAGE)).map(String::as_str) {
        None => expand::Resize::None,
        Some("NodeResizePending" | "NodeResizeInProgress") => expand::Resize::Node,
        Some(_) => expand::Resize::Other,
    };
    let modes = claim.spec.as_ref().and_then(|it| it.access_modes.as_deref()).unwrap_or_default();
    Some(expand::Claim {
        volume_bytes,
        capacity_bytes,
        allocated_bytes: storage(status.allocated_resources.as_ref()),
        resize,
        many_writers: modes.iter().any(|it| it == "ReadWriteMany"),
        not_required: claim.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(NOT_REQUIRED)),
    })
}
