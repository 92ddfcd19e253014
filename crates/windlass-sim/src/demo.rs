//! A short story of one node, told by hand.

/// Tells the story; says whether all promises were kept.
pub fn tell() -> (String, bool) {
    (String::new(), true)
}
