//! The door for the fuzzers of this workspace (`crates/windlass-fuzz`).
//!
//! What is here is no part of the library: nothing else may use it, and it changes whenever what is behind it does.

use std::sync::Arc;

use crate::table::{Error, Mount, parse};

/// The mounts in a text as `/proc/<pid>/mountinfo` has it.
pub fn mounts(text: &[u8]) -> Result<Vec<Arc<Mount>>, Error> {
    Ok(parse(text)?.iter().cloned().collect())
}
