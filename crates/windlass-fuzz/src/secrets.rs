//! Nothing that is said about a secret quotes it (I-12).

use windlass::manifest::{self, validate};

const CANARY: &str = "forty-fathoms-of-rope";

/// Whatever surrounds a secret in a manifest: no error, no finding and nothing that is printed has it.
pub(crate) fn target(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (before, after) = text.split_once('\0').unwrap_or(("", text));
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData:\n  password: {CANARY}\n  {before}: x{CANARY}\n{after}"
    );
    let shown = match manifest::read_written(secret.as_bytes()) {
        Ok(objects) => objects
            .iter()
            .map(|it| {
                format!("{it:?} {:?}", validate::written(it).iter().map(|it| (&it.field, &it.text)).collect::<Vec<_>>())
            })
            .collect(),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains(CANARY), "the secret is told: {shown}");
}
