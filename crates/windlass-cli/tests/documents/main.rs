//! The documents name what there is: every file, option, command, reason and target in them exists, and the arrows between
//! crates and modules are those of `ARCHITECTURE.md`.

mod arrows;
mod names;
mod text;

use std::path::{Path, PathBuf};

/// The top of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a crate of a workspace").to_owned()
}

/// A file of the repository.
fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a directory of the repository with this ending, whatever was built left out.
fn files(below: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join(below)];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && entry.file_name() != "target" {
                left.push(path);
            } else if path.to_str().is_some_and(|it| it.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found
}
