//! The door for the fuzzers of this workspace (`crates/windlass-fuzz`): what a plugin's introduction is judged by.
//!
//! What is here is no part of the library: nothing else may use it, and it changes whenever what is behind it does.

use std::path::{Path, PathBuf};

use crate::registration::{introduction, version};

/// Whether one of these versions of CSI is one that we speak.
#[must_use]
pub fn speaks(versions: &[String]) -> bool {
    version::check(versions).is_ok()
}

/// Where a driver serves that registered at this socket and names this endpoint, or why it cannot be there.
pub fn endpoint(socket: &Path, endpoint: &str) -> Result<PathBuf, String> {
    introduction::checked_endpoint(socket, endpoint)
}
