//! What failed on which path: the error of everything that is one system call on one path.

use std::path::PathBuf;

use rustix::io::Errno;

/// A system call on a path failed. The errors of modules have it as one of theirs, beside what they alone can tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{attempt} {}", path.display())]
pub struct PathError {
    /// What was attempted, for example `look at`.
    pub attempt: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub source: Errno,
}

impl PathError {
    /// This was attempted on this path, and failed for this reason.
    pub fn new(attempt: &'static str, path: impl Into<PathBuf>, source: Errno) -> Self {
        Self { attempt, path: path.into(), source }
    }
}
