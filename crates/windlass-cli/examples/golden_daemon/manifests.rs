//! Manifests as they are written, document by document.

use std::error::Error;
use std::fs;
use std::path::Path;

use windlass::manifest::{self, Document};

/// The documents of a directory of manifests, in order.
pub(crate) struct Manifests(Vec<Written>);

/// One document, unchanged.
struct Written {
    text: String,
    /// `namespace/name`, if it is a pod.
    pod: Option<String>,
    /// Its UID, if it has one.
    uid: Option<String>,
}

impl Manifests {
    /// Reads the files of a directory, not those of the directories in it.
    pub(crate) fn read(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let mut documents = Vec::new();
        let mut paths = fs::read_dir(directory)?.map(|it| it.map(|it| it.path())).collect::<Result<Vec<_>, _>>()?;
        paths.retain(|it| it.extension().is_some_and(|it| it == "yaml" || it == "yml"));
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(path)?;
            for text in split(&text) {
                let (pod, uid) = pod(&text)?.unzip();
                documents.push(Written { pod, uid: uid.flatten(), text });
            }
        }
        Ok(Self(documents))
    }

    /// One file of all objects, and of the pods of these names. If there are none, it says so: an empty file is no wish.
    pub(crate) fn with(&self, pods: &[String]) -> String {
        let wanted = self.0.iter().filter(|it| it.pod.as_ref().is_none_or(|it| pods.contains(it)));
        let documents = wanted.map(|it| format!("---\n{}\n", it.text));
        documents.chain(["---\n{apiVersion: v1, kind: List, items: []}\n".into()]).collect()
    }

    /// The UID of a pod, if it has one: for a moment there can be an older pod of the same name.
    pub(crate) fn uid(&self, pod: &str) -> Option<&str> {
        self.0.iter().find(|it| it.pod.as_deref() == Some(pod))?.uid.as_deref()
    }

    /// All pods.
    pub(crate) fn pods(&self) -> Vec<String> {
        self.0.iter().filter_map(|it| it.pod.clone()).collect()
    }
}

/// The documents of a text: three hyphens at the beginning of a line mean nothing else in YAML.
fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match (line.trim_end() == "---", documents.last_mut()) {
            (false, Some(last)) => last.extend([line, "\n"]),
            _ => documents.push(String::new()),
        }
    }
    documents
}

/// The name and the UID of a pod.
fn pod(text: &str) -> Result<Option<(String, Option<String>)>, manifest::Error> {
    let pod = manifest::read(text.as_bytes())?.into_iter().find_map(|it| match it {
        Document::Pod(pod) => Some(pod.metadata),
        Document::Object(_) | Document::Other(_) => None,
    });
    Ok(pod.map(|it| (format!("{}/{}", it.namespace.unwrap_or_default(), it.name.unwrap_or_default()), it.uid)))
}
