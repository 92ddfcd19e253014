//! What things of CSI are called: by handles, which may be any text, made into names (C-67..C-71).

use ring::digest::{Context, SHA256};
use windlass_core::ids::VolumeId;
use windlass_core::spec::{Identity, VolumeSpec};

use super::CSI;
use crate::layout::Slot;

/// The name of the object that says whether a volume is attached to a node (C-69).
pub fn attachment(handle: &str, driver: &str, node: &str) -> String {
    format!("csi-{}", digest([handle, driver, node]))
}

/// The handle of a volume that a pod describes itself (C-70): another for every pod.
pub(crate) fn inline_handle(pod: &str, name: &str) -> String {
    format!("csi-{}", digest([pod, name]))
}

/// The directory of a volume among those of its driver (C-71).
pub(crate) fn directory(handle: &str) -> String {
    digest([handle])
}

fn digest<const N: usize>(parts: [&str; N]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part.as_bytes());
    }
    let digest = context.finish();
    let digits = digest.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|it| char::from_digit(it.into(), 16)).collect()
}

/// What tells a driver's volume from all others of drivers (C-67).
pub(crate) fn own_name(driver: &str, handle: &str) -> String {
    format!("{driver}^{handle}")
}

/// What the engine calls a driver's volume.
pub(crate) fn volume_id(driver: &str, handle: &str) -> VolumeId {
    format!("{}/{}", CSI.name, own_name(driver, handle)).as_str().into()
}

/// The driver of a volume and what the driver calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identified {
    /// The driver's name.
    pub driver: String,
    /// The volume's handle.
    pub handle: String,
}

impl Identified {
    /// As a persistent volume's identity tells it (C-67).
    pub(crate) fn of_volume(volume: &VolumeId) -> Option<Self> {
        let own = volume.as_str().strip_prefix(CSI.name)?.strip_prefix('/')?;
        // A driver's name has no such character, a handle may have many.
        let (driver, handle) = own.split_once('^')?;
        (!driver.is_empty() && !handle.is_empty()).then(|| Self { driver: driver.into(), handle: handle.into() })
    }

    /// As far as what the engine knows tells it: also of a volume whose pod and whose notes are gone.
    pub(crate) fn of_spec(spec: &VolumeSpec, slot: Option<&Slot>) -> Option<Self> {
        match (spec.capabilities.identity, slot) {
            (Identity::Shared, _) => Self::of_volume(&spec.id),
            (Identity::PerPod, Some(slot)) => {
                let driver = spec.driver.as_ref()?.as_str().into();
                let handle = inline_handle(&slot.pod.to_string(), spec.inner_name.as_str());
                Some(Self { driver, handle })
            }
            (Identity::PerPod, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-69, C-70, C-71: the vectors of the specification.
    #[test]
    fn names_are_those_that_the_kubelet_computes() {
        assert_eq!(
            attachment("vol-1", "hostpath.csi.k8s.io", "node-a"),
            "csi-5a70c5de395ccad5e79daeb27c7c4f2634b675e6e1bb2a397999a016143bc9fb"
        );
        assert_eq!(
            inline_handle("uid-1", "data"),
            "csi-d6e418cffb6079f9b02d83af7dffbf3511ed5a26b3f106f1f3ca764ed6505c9c"
        );
        let directory = directory("vol-1");
        assert!(directory.starts_with("d2e8363f") && directory.ends_with("8731cc49"), "{directory}");
    }

    /// C-67.
    #[test]
    fn a_handle_may_hold_anything() {
        for handle in ["v", "a^b", "projects/x/disks/y", "ö ü", &"x".repeat(1024)] {
            let id = VolumeId::from(format!("kubernetes.io/csi/d.example^{handle}").as_str());
            let found = Identified::of_volume(&id).expect(handle);
            assert_eq!((found.driver.as_str(), found.handle.as_str()), ("d.example", handle));
        }
        for other in
            ["kubernetes.io/csi/uid-data", "kubernetes.io/csi/^h", "kubernetes.io/csi/d^", "kubernetes.io/nfs/a^b"]
        {
            assert_eq!(Identified::of_volume(&other.into()), None, "{other}");
        }
    }
}
