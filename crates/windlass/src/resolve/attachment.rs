//! What the attacher says of a volume, by the object that it keeps for a volume and a node (C-69, C-79).
//!
//! In a cluster the node's own status counts as well (C-78): a volume that is about to be detached goes from there first,
//! while its attachment still stands. A node without a UID is nobody's but whoever wrote it down, and is not asked.

use super::{Origin, Task};
use crate::objects::{Lookup, Objects};
use crate::plugin::csi::names;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use std::collections::BTreeMap;
use windlass_core::event::Attachment;
use windlass_core::spec::{Attach, Capabilities};

/// The code with which a driver says that a node can take no more volumes (C-32).
const EXHAUSTED: i32 = 8;

/// A volume's attachment to this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The name of the object.
    pub name: String,
    /// How it stands; `None` if the object cannot be read, which says nothing.
    pub state: Option<Attachment>,
    /// What the attacher handed over for the driver; why there is nothing, in the kubelet's words.
    pub metadata: Result<BTreeMap<String, String>, String>,
}

impl<O: Objects + ?Sized> Task<'_, O> {
    /// The attachment of a volume that somebody else attaches.
    pub(super) fn attachment(&mut self, origin: &Origin<'_>, capabilities: &Capabilities) -> Option<Attached> {
        if capabilities.attach != Attach::ByController {
            return None;
        }
        let source = origin.persistent()?.spec.as_ref()?.csi.as_ref()?;
        let id = names::volume_id(&source.driver, &source.volume_handle);
        let name = names::attachment(&source.volume_handle, &source.driver, &self.resolver.settings.node);
        let (reference, found) = self.view.attachment(&name);
        let none = |state, text| Attached { name: name.clone(), state, metadata: Err(text) };
        Some(match found {
            Lookup::Found(object) => {
                let read = read(name.clone(), &object);
                match (&read.state, self.view.node(&self.resolver.settings.node).1) {
                    (Some(Attachment::Attached { .. }), Lookup::Found(node)) if !lists(&node, id.as_str()) => none(
                        Some(Attachment::Detached),
                        "volume is not attached yet according to the node's status".into(),
                    ),
                    _ => read,
                }
            }
            Lookup::Absent => none(Some(Attachment::Detached), reference.not_found()),
            Lookup::Unavailable(text) => none(None, text.to_string()),
        })
    }
}

/// Whether a node lists a volume as attached, if a cluster keeps that list.
fn lists(node: &Node, volume: &str) -> bool {
    let attached = node.status.as_ref().and_then(|it| it.volumes_attached.as_ref());
    node.metadata.uid.is_none() || attached.into_iter().flatten().any(|it| it.name == volume)
}

fn read(name: String, object: &VolumeAttachment) -> Attached {
    let status = object.status.as_ref();
    let attached = status.is_some_and(|it| it.attached);
    let error = status.and_then(|it| it.attach_error.as_ref());
    let detached = |text: &str| (Attachment::Detached, Err(text.to_owned()));
    let (state, metadata) = if object.metadata.deletion_timestamp.is_some() {
        detached("volume attachment is being deleted")
    } else if attached {
        let device = Some(name.as_str().into());
        let metadata = status.and_then(|it| it.attachment_metadata.clone()).unwrap_or_default();
        (Attachment::Attached { device }, Ok(metadata))
    } else if let Some(error) = error {
        let text = error.message.clone().unwrap_or_default();
        let exhausted = error.error_code == Some(EXHAUSTED);
        (Attachment::Failed { text: text.as_str().into(), exhausted }, Err(text))
    } else {
        detached("volume is not attached yet")
    };
    Attached { name, state: Some(state), metadata }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(object: serde_json::Value) -> Attached {
        read("csi-x".into(), &serde_json::from_value(object).unwrap())
    }

    fn object(status: &serde_json::Value) -> serde_json::Value {
        json!({"metadata": {"name": "csi-x"}, "spec": {"attacher": "d", "nodeName": "n", "source": {}}, "status": status})
    }

    /// C-79.
    #[test]
    fn what_is_attached_counts_whatever_went_wrong_before() {
        let attached = of(object(&json!({
            "attached": true, "attachError": {"message": "old"}, "attachmentMetadata": {"slot": "3"},
        })));
        assert_eq!(attached.state, Some(Attachment::Attached { device: Some("csi-x".into()) }));
        assert_eq!(attached.metadata.unwrap()["slot"], "3");
    }

    /// C-78.
    #[test]
    fn a_node_of_a_cluster_lists_what_is_attached() {
        let of = |node| lists(&serde_json::from_value(node).unwrap(), "kubernetes.io/csi/d^v");
        assert!(of(json!({"metadata": {"name": "n"}})), "nobody keeps the list");
        assert!(!of(json!({"metadata": {"name": "n", "uid": "u"}})));
        let listing = |name| {
            let attached = json!([{"name": name, "devicePath": ""}]);
            json!({"metadata": {"name": "n", "uid": "u"}, "status": {"volumesAttached": attached}})
        };
        assert!(of(listing("kubernetes.io/csi/d^v")));
        assert!(!of(listing("kubernetes.io/csi/d^w")));
    }

    /// C-32, C-79.
    #[test]
    fn what_is_not_attached_says_why() {
        let failed = of(object(&json!({"attached": false, "attachError": {"message": "no slot", "errorCode": 8}})));
        assert_eq!(failed.state, Some(Attachment::Failed { text: "no slot".into(), exhausted: true }));
        assert_eq!(failed.metadata, Err("no slot".into()));
        assert_eq!(of(object(&json!({"attached": false}))).state, Some(Attachment::Detached));
        let mut leaving = object(&json!({"attached": true}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(of(leaving).state, Some(Attachment::Detached));
    }
}
