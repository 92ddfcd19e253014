//! `vol_data.json`, which a kubelet may have written too.

use windlass::inner;

/// A note that is read can be written and is the same then; a part of one is none.
pub(crate) fn target(bytes: &[u8]) {
    let Some(text) = inner::rewrite_note(bytes) else { return };
    assert_eq!(inner::rewrite_note(&text).as_ref(), Some(&text), "what was written is read");
    let brace = text.len() - 1;
    for cut in 0..brace {
        assert_eq!(inner::rewrite_note(&text[..cut]), None, "half a note at {cut}");
    }
    assert_eq!(inner::rewrite_note(&text[..brace]).as_ref(), Some(&text), "without the end of its line it is whole");
}
