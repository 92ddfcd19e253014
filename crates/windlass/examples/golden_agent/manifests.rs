//! A directory of manifests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use k8s_openapi::api::core::v1 as api;
use windlass::manifest::{self, Document, Object, Reference};

/// What the manifests of a directory say there is.
#[derive(Default)]
pub(crate) struct Manifests {
    pub(crate) objects: BTreeMap<Reference, Object>,
    /// By `namespace/name`.
    pub(crate) pods: BTreeMap<String, api::Pod>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Manifest { path: PathBuf, source: manifest::Error },
}

impl Manifests {
    /// Reads the files of a directory, not those of the directories in it.
    pub(crate) fn read(directory: &Path) -> Result<Self, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let mut found = Self::default();
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> = entries.map_err(failed(directory))?.iter().map(fs::DirEntry::path).collect();
        paths.retain(|it| it.extension().is_some_and(|it| it == "yaml" || it == "yml"));
        paths.sort();
        for path in paths {
            let bytes = fs::read(&path).map_err(failed(&path))?;
            let documents = manifest::read(&bytes).map_err(|source| Error::Manifest { path: path.clone(), source })?;
            documents.into_iter().for_each(|it| found.add(&path, it));
        }
        Ok(found)
    }

    fn add(&mut self, path: &Path, document: Document) {
        match document {
            Document::Pod(pod) => {
                let of = |it: &Option<String>| it.clone().unwrap_or_default();
                let name = format!("{}/{}", of(&pod.metadata.namespace), of(&pod.metadata.name));
                self.pods.insert(name, *pod);
            }
            Document::Object(object) => {
                self.objects.insert(object.reference(), object);
            }
            Document::Other(other) => eprintln!("{}, {other}", path.display()),
        }
    }
}
