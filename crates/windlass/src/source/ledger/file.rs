//! One file of manifests: bytes become items, or problems that keep it from coming into force.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use ring::digest;
use windlass_core::ids::PodUid;

use super::Key;
use crate::{
    manifest::{self, Document, Written},
    memory::Object,
    packed::Packed,
    validate,
    view::{Problem, Severity},
};

/// A file, or a directory that cannot be read.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The last version that could be used.
    pub(super) good: Option<Vec<Item>>,
    /// What is wrong with the newest version.
    pub(super) problems: Vec<Problem>,
}

/// One object of a file.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) line: u64,
    pub(super) value: Value,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Object(Object),
    Pod(PodUid, Packed),
}

/// Reads a file that is called `path`, for this node. Without items it cannot come into force. Its pods are left open.
pub(super) fn read(path: &str, node: Option<&str>, bytes: &[u8]) -> (Option<Vec<Item>>, Vec<Problem>) {
    let problem = |severity, line, object, message| {
        let path = path.into();
        Problem { severity, path, line: Some(line), object, message }
    };
    let documents = match manifest::read_written(bytes) {
        Ok(documents) => documents,
        Err(error) => {
            let message = error.problem.to_string();
            return (None, vec![problem(Severity::Error, error.line, error.kind, message)]);
        }
    };
    let (mut items, mut problems) = (Vec::new(), Vec::new());
    for mut written in documents {
        if let Document::Other(other) = &written.document {
            let message =
                format!("a {} of {} is nothing that volumes need: it is not read", other.kind, other.api_version);
            let object = format!("{} {}", other.kind, other.name.as_deref().unwrap_or("without a name"));
            problems.push(problem(Severity::Warning, other.line, Some(object), message));
            continue;
        }
        if let Document::Pod(pod) = &mut written.document {
            identify(pod);
        }
        let findings = validate::written(&written);
        let Written { document, line, shape, .. } = written;
        let other_node = node.and_then(|node| elsewhere(&document, node));
        let Some(item) = item(document, line) else { continue };
        let object = item.key.to_string();
        let line_of = |field: &str| shape.line_of(field).unwrap_or(line);
        for finding in findings {
            let message = format!("{}: {}", finding.field, finding.text);
            problems.push(problem(finding.severity, line_of(&finding.field), Some(object.clone()), message));
        }
        match other_node {
            Some(message) => {
                problems.push(problem(Severity::Warning, line_of("spec.nodeName"), Some(object), message));
            }
            None => items.push(item),
        }
    }
    let usable = !problems.iter().any(|it| it.severity == Severity::Error);
    (usable.then_some(items), problems)
}

/// Gives a pod that has no uid one that follows from its name alone, so that it stays the same pod through edits and
/// restarts: a UUID of version 8 (RFC 9562).
pub(super) fn identify(pod: &mut Pod) {
    if pod.metadata.uid.as_ref().is_some_and(|it| !it.is_empty()) {
        return;
    }
    let mut name = digest::Context::new(&digest::SHA256);
    // No name contains NUL.
    for part in ["windlass pod", text(pod.metadata.namespace.as_ref()), text(pod.metadata.name.as_ref())] {
        name.update(part.as_bytes());
        name.update(b"\0");
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&name.finish().as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    pod.metadata.uid = Some(parts.join("-"));
}

/// Why a pod is not this node's, if it is not.
fn elsewhere(document: &Document, node: &str) -> Option<String> {
    let Document::Pod(pod) = document else { return None };
    let named = pod.spec.as_ref()?.node_name.as_deref()?;
    let other = !named.is_empty() && named != node;
    other.then(|| format!("spec.nodeName: it is for the node {named:?}; this is {node:?}, so it is not in force"))
}

fn item(document: Document, line: u64) -> Option<Item> {
    let (key, value) = match document {
        Document::Pod(pod) => {
            let name = format!("{}/{}", text(pod.metadata.namespace.as_ref()), text(pod.metadata.name.as_ref()));
            let uid = PodUid::from(text(pod.metadata.uid.as_ref()));
            (Key::Pod(name.into()), Value::Pod(uid, Packed::new(Arc::from(pod))))
        }
        Document::Object(object) => (Key::Object(object.reference()), Value::Object(object)),
        Document::Other(_) => return None,
    };
    Some(Item { key, line, value })
}

fn text(value: Option<&String>) -> &str {
    value.map(String::as_str).unwrap_or_default()
}
