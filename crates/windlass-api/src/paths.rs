//! Where things are asked for: the paths of the API. Whatever somebody typed as a name stays one part of a path.

use crate::view::API_VERSION;

/// The path of a list, of one namespace or of all.
pub fn list(namespace: Option<&str>, plural: &str) -> String {
    match namespace {
        Some(namespace) => format!("/apis/{API_VERSION}/namespaces/{}/{plural}", segment(namespace)),
        None => format!("/apis/{API_VERSION}/{plural}"),
    }
}

/// The path of a pod.
pub fn pod(namespace: &str, name: &str) -> String {
    format!("{}/{}", list(Some(namespace), "pods"), segment(name))
}

/// The path of a pod by its UID, whatever it is called.
pub fn pod_by_uid(uid: &str) -> String {
    format!("{}/{}", list(None, "pods"), segment(uid))
}

/// The path of the volumes that a pod has and does not name.
pub fn orphans(uid: &str) -> String {
    format!("{}/orphans", pod_by_uid(uid))
}

/// The path by which what failed is tried at once: of a pod, of one volume of it, or of everything.
pub fn retry(pod: Option<(&str, &str)>, volume: Option<&str>) -> String {
    match (pod, volume) {
        (None, _) => list(None, "retry"),
        (Some((namespace, name)), None) => format!("{}/retry", self::pod(namespace, name)),
        (Some((namespace, name)), Some(volume)) => {
            format!("{}/retry?volume={}", self::pod(namespace, name), segment(volume))
        }
    }
}

/// The path of a claim.
pub fn claim(namespace: &str, name: &str) -> String {
    format!("{}/{}", list(Some(namespace), "claims"), segment(name))
}

/// The path by which what failed for a claim is tried at once.
pub fn retry_claim(namespace: &str, name: &str) -> String {
    format!("{}/retry", claim(namespace, name))
}

/// The path of what a pod's containers are to be given.
pub fn containers(namespace: &str, name: &str) -> String {
    format!("{}/containers", pod(namespace, name))
}

/// The path of how full a pod's volumes are.
pub fn statistics(namespace: &str, name: &str) -> String {
    format!("{}/statistics", pod(namespace, name))
}

/// The path of the node.
pub fn node() -> String {
    format!("/apis/{API_VERSION}/node")
}

/// What somebody typed as one part of a path, whatever it is.
fn segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => segment.push(char::from(byte)),
            // A dot too: `..` alone would lead elsewhere.
            b'.' if text.bytes().any(|it| it != b'.') => segment.push('.'),
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_stays_one_part_of_a_path() {
        for (text, expected) in
            [("web-1.a", "web-1.a"), ("..", "%2E%2E"), ("a/b?c", "a%2Fb%3Fc"), ("ü", "%C3%BC"), ("", "")]
        {
            assert_eq!(segment(text), expected);
        }
        assert_eq!(pod("default", "web"), "/apis/windlass/v1alpha1/namespaces/default/pods/web");
    }
}
