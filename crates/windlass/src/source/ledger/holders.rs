//! Who is in force where several manifests say what something is, as it is kept over restarts: names alone, nothing that is in
//! them. Without it the file that sorts first would win at the next start, and what the other had would be nobody's (I-1).

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The winners of conflicts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Holders {
    /// The directory of manifests that they are in.
    directory: Box<str>,
    /// The file that is in force, below the directory, by the object.
    pub(super) files: BTreeMap<String, String>,
    /// The pod that is in force, by the uid that several have.
    pub(super) uids: BTreeMap<String, String>,
}

impl Holders {
    /// None yet, of this directory.
    pub(super) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_string_lossy().into(), ..Self::default() }
    }

    /// What was kept of this directory. What makes no sense tells nothing.
    pub(crate) fn parse(directory: &Path, text: &[u8]) -> Self {
        let kept: Self = serde_json::from_slice(text).unwrap_or_default();
        let none = Self::of(directory);
        if kept.directory == none.directory { kept } else { none }
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
