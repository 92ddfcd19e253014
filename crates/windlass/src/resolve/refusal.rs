//! What the kubelet refuses when it mounts, known beforehand (P-48).
//!
//! In the kubelet these are failures of a mount that was begun: the volume counts as wanted, is attached and reported in
//! use, and is tried again. So they say nothing about whether a volume is wanted, and a volume that a pod has stays.

use super::{Definition, Task, affinity};
use crate::catalogue::{Origin, VolumeType};
use crate::objects::{Lookup, ObjectKind, Objects, Reference};
use k8s_openapi::api::storage::v1::CSIDriver;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use windlass_core::ids::{InnerName, ObjectName};
use windlass_core::spec::{Capabilities, Mode};

/// Why a mount is refused before it is tried, in the kubelet's words (P-48).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason of the kubelet's event.
    pub event: &'static str,
    /// The step that refuses, for example `MountVolume.NodeAffinity check failed`.
    pub step: &'static str,
    /// What the directory of the volume would be called.
    pub volume: InnerName,
    /// Why; empty if the step says it.
    pub text: Arc<str>,
    /// What the kubelet's words leave out; empty if that is nothing.
    pub note: Arc<str>,
    /// The object by which it may come right, if there is one.
    pub waits_on: Option<ObjectName>,
}

impl fmt::Display for Refusal {
    /// The text of the kubelet's event (E-231).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.text.is_empty() { "" } else { ": " };
        write!(f, "{} for volume \"{}\" {separator}{}", self.step, self.volume, self.text)
    }
}

impl<O: Objects + ?Sized> Task<'_, O> {
    /// What the kubelet would say when it mounts, in the order in which it checks (E-250 steps 2 to 4, P-247).
    pub(super) fn refusal(
        &mut self,
        definition: &Definition<'_>,
        volume_type: &VolumeType,
        capabilities: &Capabilities,
        object: Option<&CSIDriver>,
        mount_options: &[String],
    ) -> Option<Refusal> {
        let origin = &definition.origin;
        let refusal = |step, text: &str, waits_on: Option<&Reference>| Refusal {
            event: "FailedMount",
            step,
            volume: origin.name().into(),
            text: text.into(),
            note: Arc::default(),
            waits_on: waits_on.map(Into::into),
        };
        if definition.mode == Mode::Block {
            if !capabilities.block {
                let step =
                    "MapVolume.FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume plugin is nil.";
                return Some(Refusal { event: "FailedMapVolume", ..refusal(step, "", None) });
            }
            // The kubelet says `FailedMount` of a device on the wrong node too (E-268).
            let Elsewhere { node, text, note } = self.elsewhere(origin)?;
            return Some(refusal("MapVolume.NodeAffinity check failed", &text, Some(&node)).noting(&note));
        }
        if let Some(Elsewhere { node, text, note }) = self.elsewhere(origin) {
            return Some(refusal("MountVolume.NodeAffinity check failed", &text, Some(&node)).noting(&note));
        }
        if !mount_options.is_empty() && !volume_type.mount_options {
            let text = "mount options are not supported for this volume type";
            let note = format!("{} takes no {}", volume_type.name, mount_options.join(", "));
            return Some(refusal("MountVolume.MountOptionSupport check failed", text, None).noting(&note));
        }
        let set_up = "MountVolume.SetUp failed";
        if let Some(refused) = volume_type.refusal {
            return Some(refusal(set_up, refused.text, None).noting(refused.note));
        }
        let (driver, text) = unsupported_life(origin, object)?;
        Some(refusal(set_up, &text, Some(&driver)))
    }

    /// Why the volume cannot be used on this node.
    fn elsewhere(&mut self, origin: &Origin<'_>) -> Option<Elsewhere> {
        let selector = origin.persistent()?.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
        let (reference, node) = self.view.node(&self.resolver.settings.node);
        // What drivers say of the node counts as its labels (C-25), unless the node says otherwise.
        let topologies = self.resolver.drivers.values().flat_map(|it| it.topology.clone());
        let mut labels: BTreeMap<String, String> = topologies.collect();
        if let Lookup::Found(node) = &node {
            labels.extend(node.metadata.labels.clone().unwrap_or_default());
        }
        let wanted = affinity::wanted(selector);
        let (text, note) = match &node {
            Lookup::Found(_) => {
                let text = affinity::check(selector, &labels).err()?;
                let (name, has) = (&self.resolver.settings.node, affinity::relevant(selector, &labels));
                (text, format!("it is for nodes with {wanted}, and node {name} has {has}"))
            }
            Lookup::Absent if affinity::check(selector, &labels).is_ok() => return None,
            Lookup::Absent => {
                let text = format!("error retrieving node: {}", reference.not_found());
                (text, format!("it is for nodes with {wanted}, and no object tells the labels of this one"))
            }
            Lookup::Unavailable(text) => (format!("error retrieving node: {text}"), String::new()),
        };
        Some(Elsewhere { node: reference, text, note })
    }
}

/// Why a volume cannot be used on this node.
struct Elsewhere {
    node: Reference,
    /// In the kubelet's words.
    text: String,
    /// What these leave out.
    note: String,
}

impl Refusal {
    fn noting(self, note: &str) -> Self {
        Self { note: note.into(), ..self }
    }
}

/// Why the driver does not take volumes of this life time (C-36, C-101).
fn unsupported_life(origin: &Origin<'_>, object: Option<&CSIDriver>) -> Option<(Reference, String)> {
    let driver = origin.driver()?;
    let mode = if origin.persistent().is_some() { "Persistent" } else { "Ephemeral" };
    let modes = object.map(|it| it.spec.volume_lifecycle_modes.as_deref().unwrap_or_default());
    let reason = match modes {
        None if mode == "Persistent" => return None,
        None => "no CSIDriver object".to_string(),
        Some([]) if mode == "Persistent" => return None,
        Some(modes) if modes.iter().any(|it| it == mode) => return None,
        Some(modes) => {
            let modes: Vec<String> = modes.iter().map(|it| format!("\"{it}\"")).collect();
            format!("only supports [{}]", modes.join(" "))
        }
    };
    let text = format!(
        "kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode \"{mode}\" not supported \
         by driver {driver} ({reason})"
    );
    Some((Reference::new(ObjectKind::Driver, "", driver), text))
}
