//! What must hold of everything in windlass that parses, as functions of any bytes.
//!
//! Each target takes whatever it is given and panics if a promise is broken: not only that nothing panics, but that what
//! was written is read, that a cut is nothing or whole, that two ways of reading agree. The fuzzer in `fuzz/` calls them
//! with what it makes up (`make fuzz`); the test of this crate calls them with what the fuzzer found worth keeping
//! (`fuzz/corpus/`) and with changes of it, on any toolchain. See docs/fuzzing.md.

mod manifests;
mod mountinfo;
mod notes;
mod paths;
mod payloads;
mod provisions;
mod quantities;
mod records;
mod registration;
mod secrets;

/// A function that panics if what it is given breaks a promise.
pub type Target = fn(&[u8]);

/// All targets, by the name of their corpus.
pub const TARGETS: [(&str, Target); 10] = [
    ("manifests", manifests::target),
    ("mountinfo", mountinfo::target),
    ("notes", notes::target),
    ("paths", paths::target),
    ("payloads", payloads::target),
    ("provisions", provisions::target),
    ("quantities", quantities::target),
    ("records", records::target),
    ("registration", registration::target),
    ("secrets", secrets::target),
];

/// Calls a target by its name.
///
/// # Panics
///
/// If there is no such target, or if a promise is broken.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(it, _)| *it == name).expect("a target has this name");
    target(bytes);
}

/// The input in its parts, which a zero byte separates: at least this many, the last with the rest.
fn parts<const COUNT: usize>(bytes: &[u8]) -> [&[u8]; COUNT] {
    let mut parts = bytes.splitn(COUNT, |it| *it == 0);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
