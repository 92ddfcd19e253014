//! One file of manifests: bytes become items, or problems that keep it from coming into force.

use std::sync::Arc;

use windlass_core::ids::PodUid;
use windlass_linux::watched_files::Origin;

use super::{
    Key,
    loss::{self, Cut},
};
use crate::{
    manifest::{self, Document, Ending, Whole, Written},
    memory::Object,
    packed::Packed,
    validate::{self, Finding},
    view::{Problem, Severity},
};

/// More is not told of one object: whoever wrote it looks at the first, and each takes time to find the line of.
const FINDINGS_MAX: usize = 100;

/// A file, or a directory that cannot be read.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The last version that could be used.
    pub(super) good: Option<Version>,
    /// A later one that lacks something of it, which perhaps nobody means.
    pub(super) refused: Option<Box<Refused>>,
    /// When the newest version was found not to be usable, if it is not, as the ledger counts.
    pub(super) unused_since: Option<u64>,
    /// What is wrong with the newest version.
    pub(super) problems: Vec<Problem>,
}

/// One version of a file.
#[derive(Debug, Default)]
pub(super) struct Version {
    pub(super) items: Vec<Item>,
    /// Pods of other nodes.
    pub(super) elsewhere: Vec<Key>,
    /// What is not read, and the lines of that.
    pub(super) others: Vec<(Box<str>, u64)>,
    /// What the last document is.
    last: Box<str>,
    pub(super) ending: Ending,
}

/// A version that does not come into force unless what it lacks is found elsewhere.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) version: Version,
    pub(super) origin: Origin,
    pub(super) problems: Vec<Problem>,
}

/// What is known of the end of a file that was written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Its own text says that this is the end.
    Said,
    /// It ends as it ended before. So does one in another order whose writer was interrupted.
    AsBefore,
    /// It may have been cut.
    Unknown,
}

impl Version {
    /// Whether whoever wrote this version, in place, came to its end, though it has less than the one before.
    pub(super) fn end(&self, before: &Self) -> End {
        let (now, then) = (&self.ending, &before.ending);
        // Where documents are separated by marks, a mark is no end of the text.
        let marked = now.is_marked && !now.has_marks && !then.has_marks;
        // JSON ends with the brace that it begins with; but there may be more than one.
        let json = now.json.is_some() && now.json == then.json;
        if marked || json || now.is_empty_list {
            return End::Said;
        }
        let same = self.last == before.last && (!now.is_open || then.is_open) && self.lost(before).is_none();
        if same { End::AsBefore } else { End::Unknown }
    }

    /// What the last object of this version lacks that it had before: only that one can have been cut.
    pub(super) fn lost(&self, before: &Self) -> Option<String> {
        let item = self.items.last().filter(|it| *it.key.to_string() == *self.last)?;
        let then = before.items.iter().find(|it| it.key == item.key)?;
        let secret = matches!(&item.value, Value::Object(Object::Secret(_)));
        // Bytes have no lines, however many lines they are written in.
        let cut = if self.ending.is_line && !secret { Cut::BetweenLines } else { Cut::Anywhere };
        let field = match (&then.value, &item.value) {
            (then, now) if then == now => return None,
            // A cut may have taken the uid away, and then it is another pod.
            (Value::Pod(then, _), Value::Pod(now, _)) if then != now => ".metadata.uid".into(),
            (then, now) => loss::lost(&then.tree(), &now.tree(), cut)?,
        };
        let field = field.trim_start_matches('.');
        Some(match secret {
            true => format!("something of {}", item.key),
            false => format!("{field} of {}", item.key),
        })
    }
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
    /// A pod of another node, and what its manifest says.
    Elsewhere(Arc<str>),
}

impl Value {
    /// All of it, as a tree of values. Nothing that was read here fails to be written.
    pub(super) fn tree(&self) -> serde_json::Value {
        let tree = match self {
            Self::Pod(_, packed) => serde_json::from_slice(packed.text()),
            // Nothing of it is in force that could be lost.
            Self::Elsewhere(_) => Ok(serde_json::Value::Null),
            Self::Object(Object::Claim(it)) => serde_json::to_value(&**it),
            Self::Object(Object::Volume(it)) => serde_json::to_value(&**it),
            Self::Object(Object::Driver(it)) => serde_json::to_value(&**it),
            Self::Object(Object::Node(it)) => serde_json::to_value(&**it),
            Self::Object(Object::ConfigMap(it)) => serde_json::to_value(&**it),
            Self::Object(Object::Secret(it)) => serde_json::to_value(&**it),
            Self::Object(Object::Class(it)) => serde_json::to_value(&**it),
            Self::Object(Object::Attachment(it)) => serde_json::to_value(&**it),
        };
        tree.unwrap_or_default()
    }
}

/// Reads a file that is called `path`, for this node. Without a version it cannot come into force. Its pods are left open.
pub(super) fn read(path: &str, node: Option<&str>, bytes: &[u8]) -> (Option<Version>, Vec<Problem>) {
    let problem = |severity, line, object, message| {
        let path = path.into();
        Problem { severity, path, line: Some(line), object, message }
    };
    let Whole { documents, ending } = match manifest::read_whole(bytes) {
        Ok(whole) => whole,
        Err(error) => {
            let message = error.problem.to_string();
            return (None, vec![problem(Severity::Error, error.line, error.kind, message)]);
        }
    };
    let (mut version, mut problems) = (Version { ending, ..Version::default() }, Vec::new());
    for mut written in documents {
        if let Document::Other(other) = &written.document {
            let object = format!("{} {}", other.kind, other.name.as_deref().unwrap_or("without a name"));
            let (severity, message) = match manifest::nearly(&other.api_version, &other.kind) {
                Some(hint) => {
                    (Severity::Error, format!("there is no {:?} of {:?}: {hint}", other.kind, other.api_version))
                }
                None => {
                    let kind = format!("a {} of {}", other.kind, other.api_version);
                    (Severity::Warning, format!("{kind} is nothing that volumes need: it is not read"))
                }
            };
            version.last = object.clone().into();
            version.others.push((version.last.clone(), other.line));
            problems.push(problem(severity, other.line, Some(object), message));
            continue;
        }
        if let Document::Pod(pod) = &mut written.document {
            manifest::give_uid(pod);
        }
        let findings = validate::written(&written);
        let Written { document, line, shape, .. } = written;
        let other_node = node.and_then(|node| elsewhere(&document, node));
        let Some(item) = item(document, line) else { continue };
        let object = item.key.to_string();
        version.last = object.clone().into();
        let line_of = |field: &str| shape.line_of(field).unwrap_or(line);
        for finding in first(findings) {
            let message = format!("{}: {}", finding.field, finding.text);
            problems.push(problem(finding.severity, line_of(&finding.field), Some(object.clone()), message));
        }
        match other_node {
            Some(message) => {
                let line = line_of("spec.nodeName");
                problems.push(problem(Severity::Warning, line, Some(object), message.clone()));
                if let Value::Pod(uid, _) = item.value {
                    let value = Value::Elsewhere(format!("{path}:{line}: {message}").into());
                    version.items.push(Item { key: Key::Elsewhere(uid), line, value });
                }
                version.elsewhere.push(item.key);
            }
            None => version.items.push(item),
        }
    }
    let usable = !problems.iter().any(|it| it.severity == Severity::Error);
    (usable.then_some(version), problems)
}

/// The first of many findings, errors before warnings.
fn first(mut findings: Vec<Finding>) -> Vec<Finding> {
    if findings.len() > FINDINGS_MAX {
        findings.sort_by_key(|it| it.severity != Severity::Error);
        let left = findings.len() - FINDINGS_MAX;
        findings.truncate(FINDINGS_MAX);
        let text = format!("there are {left} more such findings, which are not told");
        findings.push(Finding { severity: Severity::Warning, field: "metadata".into(), text });
    }
    findings
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
