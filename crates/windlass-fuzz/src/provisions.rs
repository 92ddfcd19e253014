//! What was made for claims, as it is on disk.

use windlass::inner;

/// One that is read can be written, and says the same when it is read again; a part of one is none.
pub(crate) fn target(bytes: &[u8]) {
    let Ok(text) = inner::rewrite_provision(bytes) else { return };
    assert_eq!(inner::rewrite_provision(&text).as_ref(), Ok(&text), "what was written is read");
    // Reading costs some microseconds: the cuts are spread.
    let step = (text.len() / 64).max(1);
    for cut in (0..text.len()).step_by(step) {
        assert!(inner::rewrite_provision(&text[..cut]).is_err(), "half a provision at {cut}");
    }
}
