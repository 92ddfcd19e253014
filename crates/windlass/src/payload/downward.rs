//! What a pod tells its containers about itself, as the text of a file (P-115..P-119).

use super::error::Flaw;
use super::quote::quote;
use crate::quantity;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A field of the pod's metadata (P-115, P-116).
pub(super) fn field(pod: &Pod, path: &str) -> Result<String, Flaw> {
    let metadata = &pod.metadata;
    let text = |it: &Option<String>| Ok(it.clone().unwrap_or_default());
    if let Some((map, key)) = subscript(path) {
        let (map, name) = match map {
            "metadata.labels" => (&metadata.labels, key.to_owned()),
            // Names of annotations do not tell large letters from small ones when they are checked.
            "metadata.annotations" => (&metadata.annotations, key.to_lowercase()),
            _ => return Err(Flaw::NoSubscript { path: path.into() }),
        };
        if !is_qualified_name(&name) {
            return Err(Flaw::Subscript { path: path.into() });
        }
        return text(&map.as_ref().and_then(|it| it.get(key)).cloned());
    }
    match path {
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        "metadata.labels" => Ok(lines(metadata.labels.as_ref())),
        "metadata.annotations" => Ok(lines(metadata.annotations.as_ref())),
        _ => Err(Flaw::Field { path: path.into() }),
    }
}

/// `map['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

/// A line `key="value"` for each entry, in order, and no line end after the last.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quote(value))).collect();
    lines.join("\n")
}

/// A name of letters, digits, `-`, `_` and `.`, at most 63, with letters or digits at its ends; before it perhaps a DNS
/// name and `/`.
fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let ends = |it: &str, rule: fn(&u8) -> bool| {
        it.as_bytes().first().is_some_and(rule) && it.as_bytes().last().is_some_and(rule)
    };
    let lower = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_label = |it: &str| ends(it, lower) && it.bytes().all(|it| lower(&it) || it == b'-');
    prefix.is_none_or(|it| it.len() <= 253 && it.split('.').all(is_label))
        && name.len() <= 63
        && ends(name, u8::is_ascii_alphanumeric)
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

/// What a number of a resource is counted in while it is divided.
type Count = fn(&str) -> Result<u64, quantity::Error>;

/// A limit or request of one container, divided and rounded up (P-117..P-119). `node` is asked only where its
/// allocatable resources stand in for a limit.
pub(super) fn resource(
    at: &str,
    spec: &PodSpec,
    selector: &ResourceFieldSelector,
    node: impl Fn() -> Result<Option<Arc<Node>>, Flaw>,
) -> Result<String, Flaw> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let container = containers.find(|it| it.name == name).ok_or_else(|| Flaw::Container { name: name.to_owned() })?;
    let unsupported = || Flaw::Resource { resource: selector.resource.clone() };
    let (of, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let (count, has_stand_in): (Count, bool) = match resource {
        "cpu" => (quantity::thousandths, true),
        "memory" | "ephemeral-storage" => (quantity::bytes, true),
        _ if resource.starts_with("hugepages-") => (quantity::bytes, false),
        _ => return Err(unsupported()),
    };
    let resources = container.resources.as_ref();
    let list = match of {
        "limits" => resources.and_then(|it| it.limits.as_ref()),
        "requests" => resources.and_then(|it| it.requests.as_ref()),
        _ => return Err(unsupported()),
    };
    let counted = |field: String, text: &str| count(text).map_err(|cause| Flaw::Quantity { field, cause });
    let of_list = |list: Option<&BTreeMap<String, Quantity>>, field: String| {
        list.and_then(|it| it.get(resource)).map_or(Ok(0), |it| counted(field, &it.0))
    };
    let mut value = of_list(list, format!("spec.containers[{name}].resources.{}", selector.resource))?;
    // A limit of zero is none (P-118).
    if value == 0 && of == "limits" && has_stand_in {
        let node = node()?;
        let allocatable = node.as_ref().and_then(|it| it.status.as_ref()).and_then(|it| it.allocatable.as_ref());
        value = of_list(allocatable, format!("status.allocatable.{resource} of the node"))?;
    }
    let divisor = selector.divisor.as_ref().map_or("0", |it| &it.0);
    let divisor = match counted(format!("{at}.resourceFieldRef.divisor"), divisor)? {
        0 => counted(String::new(), "1")?,
        divisor => divisor,
    };
    Ok(value.div_ceil(divisor).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscript_is_split_at_its_first_bracket() {
        assert_eq!(subscript("metadata.labels['a']"), Some(("metadata.labels", "a")));
        assert_eq!(subscript("metadata.labels['a['b']"), Some(("metadata.labels", "a['b")));
        assert_eq!(subscript("metadata.labels['']"), Some(("metadata.labels", "")));
        for path in ["metadata.labels", "['a']", "metadata.labels['a", "metadata.labels[a]", ""] {
            assert_eq!(subscript(path), None, "{path}");
        }
    }

    /// P-116.
    #[test]
    fn a_qualified_name_is_a_name_with_perhaps_a_domain() {
        for name in ["a", "A-b_c.9", "app.kubernetes.io/name", "a-b.c/D", &"x".repeat(63)] {
            assert!(is_qualified_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "/a", "a/", "a/b/c", "A/b", "-a/b", "a..b/c", "ä", "a b", &"x".repeat(64)] {
            assert!(!is_qualified_name(name), "{name}");
        }
    }
}
