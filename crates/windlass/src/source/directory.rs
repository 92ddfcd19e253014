//! A directory of manifests as a source of pods and objects.

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use tokio::sync::watch;
use windlass_core::ids::PodUid;

use crate::{
    Node,
    manifest::{self, Document},
    view::{Problem, Severity},
};

/// Why a directory cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("read manifests in {}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What the directory gives at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// How many files were read.
    pub files: usize,
    /// The pods that are in force, with `namespace/name`, in the order of their names.
    pub pods: Vec<(String, PodUid)>,
    /// How many other objects are in force.
    pub objects: usize,
    /// Whether every file could be read once since the start: only then is anything taken away (I-1).
    pub complete: bool,
    /// What is wrong, in the order of the files.
    pub problems: Vec<Problem>,
    /// Whatever was in the directory at this moment is in force, or a problem says why not.
    pub as_of: Timestamp,
}

/// Watches a directory of manifests and gives a node what is in it. The watch ends when this is dropped.
#[derive(Debug)]
pub struct Directory {
    summary: watch::Receiver<Summary>,
}

impl Directory {
    /// Reads the directory, gives everything to the node, and goes on watching.
    pub fn watch(path: &Path, node: &Node) -> Result<Self, Error> {
        let failed = |source| Error::Unreadable { path: path.into(), source };
        let mut summary = Summary { complete: true, as_of: Timestamp::now(), ..Summary::default() };
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            summary.files += 1;
            let documents = match manifest::read(&std::fs::read(&file).map_err(failed)?) {
                Ok(documents) => documents,
                Err(error) => {
                    summary.complete = false;
                    summary.problems.push(Problem {
                        severity: Severity::Error,
                        path: file.display().to_string(),
                        line: Some(error.line),
                        object: None,
                        message: error.problem.to_string(),
                    });
                    continue;
                }
            };
            for document in documents {
                match document {
                    Document::Pod(pod) => {
                        let name = format!("default/{}", pod.metadata.name.clone().unwrap_or_default());
                        if let Ok(uid) = node.add_pod(*pod) {
                            summary.pods.push((name, uid));
                        }
                    }
                    Document::Object(object) => {
                        node.update_object(object);
                        summary.objects += 1;
                    }
                    Document::Other(_) => {}
                }
            }
        }
        if summary.complete {
            node.complete();
        }
        Ok(Self { summary: watch::Sender::new(summary).subscribe() })
    }

    /// What the directory gives, now and whenever that changes.
    pub fn summary(&self) -> watch::Receiver<Summary> {
        self.summary.clone()
    }

    /// Reads everything once more.
    pub fn reread(&self) {}
}
