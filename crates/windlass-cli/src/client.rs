//! Asks the daemon: HTTP over its socket.

use std::path::PathBuf;

/// The daemon cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("no daemon answers at {}", socket.display())]
pub(crate) struct Unreachable {
    pub(crate) socket: PathBuf,
    #[source]
    pub(crate) source: std::io::Error,
}

impl Unreachable {
    /// What may help.
    pub(crate) fn hint(&self) -> Option<String> {
        None
    }
}
