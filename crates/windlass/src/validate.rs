//! What is wrong with pods and objects as somebody wrote them: a pure function of one object.
//!
//! An *error* is what cannot be used at all, and such an object must not come into force. A *warning* is what an API
//! server would have refused or what the author surely did not mean; the object is used as far as it can be. Nothing here
//! quotes a value of a secret (I-12).

mod objects;
mod pod;
mod volume;

pub use pod::references;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_linux::name::Name;

use crate::manifest::{Document, Unknown, Written};
use crate::memory::Object;
use crate::view::Severity;

/// How long a call of a driver may take for this volume, as people write it: `30s`.
pub const DRIVER_TIMEOUT: &str = "windlass.dev/driver-timeout";

/// How long a call may take for a volume, if its object says; an error if it says so in no known way.
pub(crate) fn driver_timeout(metadata: &ObjectMeta) -> Option<Result<Duration, String>> {
    let text = metadata.annotations.as_ref()?.get(DRIVER_TIMEOUT)?;
    let parsed = text.parse::<jiff::SignedDuration>().map_err(|error| error.to_string());
    Some(parsed.and_then(|it| match Duration::try_from(it) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) | Err(_) => Err(format!("{text:?} is not more than nothing")),
    }))
}

/// Something that is wrong with an object.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The field, for example `spec.volumes[0].configMap.defaultMode`.
    pub field: String,
    /// What is wrong with it, and what to do.
    pub text: String,
}

/// What is wrong with an object that was read from a manifest, in the order of its fields.
pub fn written(written: &Written<'_>) -> Vec<Finding> {
    let mut findings = match &written.document {
        Document::Pod(it) => pod(it),
        Document::Object(it) => object(it),
        Document::Other(_) => return Vec::new(),
    };
    // A secret that is indented wrongly can become the name of a field (I-12).
    let may_be_secret = matches!(&written.document, Document::Object(Object::Secret(_)));
    findings.extend(written.unknown.iter().map(|Unknown { field, nearest }| Finding {
        severity: Severity::Warning,
        field: match may_be_secret && nearest.is_none() {
            true => "a field that is not named here, for it may be secret".into(),
            false => field.clone(),
        },
        text: match nearest {
            Some(nearest) => format!("there is no such field, so it is ignored; did you mean {nearest}?"),
            None => "there is no such field, so it is ignored".into(),
        },
    }));
    findings
}

/// What is wrong with a pod, defaults filled in.
pub fn pod(pod: &Pod) -> Vec<Finding> {
    let mut findings = Findings::default();
    findings.metadata(&pod.metadata, true);
    findings.pod(pod);
    findings.0
}

/// What is wrong with an object, defaults filled in.
pub fn object(object: &Object) -> Vec<Finding> {
    let mut findings = Findings::default();
    findings.metadata(object.metadata(), object.reference().kind().is_namespaced());
    findings.object(object);
    findings.0
}

/// Findings as they are collected.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, field: impl Into<String>, text: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Error, field: field.into(), text: text.into() });
    }

    fn warning(&mut self, field: impl Into<String>, text: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Warning, field: field.into(), text: text.into() });
    }

    fn metadata(&mut self, metadata: &ObjectMeta, namespaced: bool) {
        let name = metadata.name.as_deref().unwrap_or_default();
        self.name("metadata.name", name, 253, true);
        if namespaced {
            self.name("metadata.namespace", metadata.namespace.as_deref().unwrap_or_default(), 63, false);
        }
        // Without one the object is told apart by its name.
        if let Some(uid) = metadata.uid.as_deref().filter(|it| !it.is_empty()) {
            self.component("metadata.uid", uid);
        }
    }

    /// A name that people, paths and an API server can live with.
    fn name(&mut self, field: &'static str, name: &str, length_max: usize, dots: bool) {
        if name.is_empty() {
            self.error(field, "it is missing");
        } else if self.component(field, name) && !is_dns(name, length_max, dots) {
            let dots = if dots { ", '-' and '.'" } else { " and '-'" };
            let text = format!(
                "{name:?} is not as names are: at most {length_max} lower case letters, digits{dots}, beginning and \
                 ending with a letter or digit"
            );
            self.warning(field, text);
        }
    }

    /// A text that becomes part of a path and of lines that people read.
    fn component(&mut self, field: &'static str, text: &str) -> bool {
        if let Err(error) = Name::new(field, text) {
            self.error(field, format!("{:?} cannot be used: {}", error.value, error.reason));
        } else if text.contains(char::is_control) {
            self.error(field, format!("{text:?} cannot be used: it contains characters that cannot be printed"));
        } else {
            return true;
        }
        false
    }
}

/// Whether a name is one of RFC 1123: of labels that are separated by dots, or one label.
fn is_dns(name: &str, length_max: usize, dots: bool) -> bool {
    let plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let label = |it: &str| {
        let bytes = it.as_bytes();
        bytes.iter().all(|it| plain(*it) || *it == b'-')
            && bytes.first().is_some_and(|it| plain(*it))
            && bytes.last().is_some_and(|it| plain(*it))
    };
    name.len() <= length_max && if dots { name.split('.').all(label) } else { label(name) }
}

#[cfg(test)]
mod tests;
