//! One file of manifests: bytes become items, or problems that keep it from coming into force.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::ids::PodUid;
use windlass_linux::watched_files::Origin;

use super::Key;
use super::loss::{self, Cut};
use crate::manifest::{self, Document, Ending, Whole, Written};
use crate::memory::Object;
use crate::packed::Packed;
use crate::validate::{self, Finding};
use crate::view::{Problem, Severity};

/// More is not told of one object: whoever wrote it looks at the first, and each takes time to find the line of.
const FINDINGS_MAX: usize = 100;

/// More fields that are misspelt are not looked at: whoever wrote that many sees what is said of the first.
const MISSPELT_MAX: usize = 100;

/// A file, or a directory that cannot be read.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The last version that could be used.
    pub(super) good: Option<Version>,
    /// A later one that lacks something of it, which perhaps nobody means: it does not come into force unless that is found
    /// elsewhere.
    pub(super) refused: Option<Box<Version>>,
    /// When the newest version was found not to be usable, if it is not, as the ledger counts.
    pub(super) unused_since: Option<u64>,
    /// What is wrong with the newest version.
    pub(super) problems: Vec<Problem>,
}

/// One version of a file.
#[derive(Debug, Default)]
pub(crate) struct Version {
    /// What there is to say of it, though it can be used.
    pub(super) problems: Vec<Problem>,
    pub(super) items: Vec<Item>,
    /// Pods of other nodes.
    pub(super) elsewhere: Vec<Key>,
    /// What is not read, and the lines of that.
    pub(super) others: Vec<(Box<str>, u64)>,
    /// Fields that are not there, and nearly are.
    pub(super) misspelt: Vec<Misspelt>,
    /// What the last document is.
    pub(super) last: Box<str>,
    pub(super) ending: Ending,
    /// Where it was read.
    pub(super) origin: Origin,
}

/// A field that is not there, of an object, and its name if it was meant to be another.
#[derive(Debug)]
pub(super) struct Misspelt {
    pub(super) key: Key,
    pub(super) line: u64,
    pub(super) field: String,
    pub(super) nearest: String,
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
        let then = before.item(&item.key)?;
        // Bytes have no lines, however many lines they are written in.
        let cut = if self.ending.is_line && !item.is_secret() { Cut::BetweenLines } else { Cut::Anywhere };
        item.lost(then, cut)
    }

    /// The first object that is called so.
    fn item(&self, key: &Key) -> Option<&Item> {
        self.items.iter().find(|it| it.key == *key)
    }

    /// A field that was not misspelt before and seems to be now, and what is lost with it; `gone` are objects that are.
    pub(super) fn misspelt<'a>(&'a self, before: &Self, gone: &[&Key]) -> Option<(&'a Misspelt, String)> {
        let was_there: BTreeSet<(&Key, &str)> = before.misspelt.iter().map(|it| (&it.key, &*it.field)).collect();
        let new = self.misspelt.iter().filter(|it| !was_there.contains(&(&it.key, &*it.field)));
        new.take(MISSPELT_MAX).find_map(|it| {
            let lost = match (self.item(&it.key), before.item(&it.key)) {
                (Some(now), Some(then)) => now.lost(then, Cut::BetweenLines),
                // Its name or namespace may be what is misspelt.
                _ => gone.first().map(ToString::to_string),
            };
            Some((it, lost?))
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

impl Item {
    fn is_secret(&self) -> bool {
        matches!(&self.value, Value::Object(Object::Secret(_)))
    }

    /// Whether both are pods of one uid.
    pub(super) fn is_same_pod(&self, other: &Self) -> bool {
        matches!((&self.value, &other.value), (Value::Pod(now, _), Value::Pod(then, _)) if now == then)
    }

    /// Whether both are pods, and not the same one.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        matches!((&self.value, &other.value), (Value::Pod(now, _), Value::Pod(then, _)) if now != then)
    }

    /// What this lacks that it had before.
    pub(super) fn lost(&self, before: &Self, cut: Cut) -> Option<String> {
        let field = match (&before.value, &self.value) {
            (then, now) if then == now => return None,
            // A cut may have taken the uid away, and then it is another pod.
            _ if self.replaces(before) => ".metadata.uid".into(),
            (then, now) => loss::lost(&then.tree(), &now.tree(), cut)?,
        };
        let field = field.trim_start_matches('.');
        Some(match self.is_secret() {
            true => format!("something of {}", self.key),
            false => format!("{field} of {}", self.key),
        })
    }

    /// Whether this is the same object, and nothing goes if it takes the place of the other: of a pod, no volume.
    pub(super) fn keeps(&self, other: &Self) -> bool {
        match (&other.value, &self.value) {
            (then, now) if then == now => true,
            _ if self.replaces(other) => false,
            (then @ Value::Pod(..), now) => {
                let volumes = |it: &Value| it.tree()["spec"]["volumes"].take();
                loss::lost(&volumes(then), &volumes(now), Cut::Anywhere).is_none()
            }
            (then, now) => loss::lost(&then.tree(), &now.tree(), Cut::Anywhere).is_none(),
        }
    }
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

/// Reads a file that is called `path`, for this node; or says why it cannot come into force. Its pods are left open.
pub(super) fn read(path: &str, node: Option<&str>, bytes: &[u8], origin: Origin) -> Result<Version, Vec<Problem>> {
    let problem = |severity, line, object, message| {
        let path = path.into();
        Problem { severity, path, line: Some(line), object, message }
    };
    let Whole { documents, ending } = match manifest::read_whole(bytes) {
        Ok(whole) => whole,
        Err(error) => {
            let message = error.problem.to_string();
            return Err(vec![problem(Severity::Error, error.line, error.kind, message)]);
        }
    };
    let (mut version, mut problems) = (Version { ending, origin, ..Version::default() }, Vec::new());
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
        let Written { document, line, shape, unknown, .. } = written;
        let other_node = node.and_then(|node| elsewhere(&document, node));
        let Some(item) = item(document, line) else { continue };
        let object = item.key.to_string();
        version.last = object.clone().into();
        let line_of = |field: &str| shape.line_of(field).unwrap_or(line);
        version.misspelt.extend(unknown.into_iter().filter_map(|it| {
            let (line, key) = (line_of(&it.field), item.key.clone());
            Some(Misspelt { key, line, nearest: it.nearest?.to_string(), field: it.field })
        }));
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
    match problems.iter().any(|it| it.severity == Severity::Error) {
        true => Err(problems),
        false => Ok(Version { problems, ..version }),
    }
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
