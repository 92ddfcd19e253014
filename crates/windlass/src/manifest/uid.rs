//! The UID of a pod whose manifest gives it none.

use k8s_openapi::api::core::v1::Pod;
use ring::digest;

/// Gives a pod that has no UID one that follows from its namespace and name alone, so that it stays the same pod through edits
/// and restarts: a UUID of version 8 (RFC 9562). The same that a directory of manifests gives it.
///
/// ```
/// use windlass::manifest::{self, Document};
///
/// let text = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main}]}}";
/// let Document::Pod(mut pod) = manifest::read(text.as_bytes())?.remove(0) else { unreachable!() };
/// assert_eq!(pod.metadata.uid, None);
/// manifest::give_uid(&mut pod);
/// assert_eq!(pod.metadata.uid.as_deref(), Some("965ecbee-30fe-8e80-afd2-ea1dfcd02a45"));
/// # Ok::<(), manifest::Error>(())
/// ```
pub fn give_uid(pod: &mut Pod) {
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    if !text(&pod.metadata.uid).is_empty() {
        return;
    }
    let mut name = digest::Context::new(&digest::SHA256);
    // No name contains NUL.
    for part in ["windlass pod", &text(&pod.metadata.namespace), &text(&pod.metadata.name)] {
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
