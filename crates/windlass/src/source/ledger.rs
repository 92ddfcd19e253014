//! What a set of manifest files amounts to: bytes in, and out come the pods and objects that are in force.
//!
//! A file takes effect as a whole. One that cannot be read, does not parse or holds something invalid leaves the last good
//! version in force, and until every file has had one, nothing may be taken away (I-1). Two objects of one name are a
//! conflict: the one that is in force stays, wherever it stands, and if neither is, the one whose file sorts first comes.
//! Where bytes come from and where objects go is for others.

mod claim;
mod file;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use windlass_core::ids::PodUid;

use self::{
    claim::{Claim, Place},
    file::{File, Item, Value},
};
use crate::{
    memory::Object,
    objects::Reference,
    packed::Packed,
    validate,
    view::{Problem, Severity},
};

use super::directory::Summary;

/// What to tell the node, in this order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Give {
    /// An object appeared or changed.
    Object(Object),
    /// A pod appeared or changed.
    Pod(Arc<Pod>, Packed),
    /// A pod is not in force any more.
    PodGone(PodUid),
    /// A pod is not in force any more, because another one has its name.
    PodReplaced(PodUid),
    /// An object is not in force any more.
    ObjectGone(Reference),
    /// All there is has been given.
    Complete,
}

impl Give {
    /// Whether what is given now is what was thought to be gone.
    pub(crate) fn is_undone_by(&self, given: &Self) -> bool {
        match (self, given) {
            (Self::PodGone(uid), Self::Pod(pod, _)) => pod.metadata.uid.as_deref() == Some(uid.as_str()),
            (Self::ObjectGone(reference), Self::Object(object)) => object.reference() == *reference,
            _ => false,
        }
    }
}

/// What two objects must not have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    Object(Reference),
    /// By `namespace/name`.
    Pod(Arc<str>),
}

impl Key {
    fn name(&self) -> &str {
        match self {
            Self::Object(reference) => reference.name(),
            Self::Pod(name) => name,
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(reference) => reference.fmt(f),
            Self::Pod(name) => write!(f, "Pod {name}"),
        }
    }
}

/// The files and what they amount to.
#[derive(Debug)]
pub(crate) struct Ledger {
    root: PathBuf,
    /// Pods that name another node are not ours.
    node: Option<Arc<str>>,
    files: BTreeMap<Arc<Path>, File>,
    /// Files that have no good version.
    unread: BTreeSet<Arc<Path>>,
    /// Files with problems.
    troubled: BTreeSet<Arc<Path>>,
    /// Who defines an object.
    claims: BTreeMap<Key, Claim>,
    /// Objects that may be another than before.
    touched: BTreeSet<Key>,
    /// Pods that are in force by their names, with their uids.
    named: BTreeMap<Key, (Place, PodUid)>,
    /// The same by uid, of which each may have one: mostly there is one pod for each.
    bearers: BTreeMap<PodUid, Vec<Key>>,
    /// What the node has been given.
    pods: BTreeMap<PodUid, (Key, Packed)>,
    objects: BTreeMap<Reference, Object>,
    /// Of objects that several define.
    conflicts: BTreeMap<Key, Vec<Problem>>,
    /// Of uids that several pods have.
    uid_conflicts: BTreeMap<PodUid, Vec<Problem>>,
    /// Files whose pods are kept open until the node is told of them.
    open: Vec<Arc<Path>>,
    complete: bool,
    /// Whether there are other problems than before.
    problems_changed: bool,
}

/// Changes that are being found, in the order in which the node is told.
#[derive(Default)]
struct Changes {
    objects: Vec<Object>,
    pods: Vec<(Key, Packed)>,
    pods_gone: Vec<(PodUid, Key)>,
    objects_gone: Vec<Reference>,
    /// Uids that may be another pod's than before.
    uids: BTreeSet<PodUid>,
}

impl Ledger {
    /// Nothing yet, of files below this directory.
    pub(crate) fn new(root: &Path, node: Option<&str>) -> Self {
        Self {
            root: root.into(),
            node: node.map(Into::into),
            files: BTreeMap::new(),
            unread: BTreeSet::new(),
            troubled: BTreeSet::new(),
            claims: BTreeMap::new(),
            touched: BTreeSet::new(),
            named: BTreeMap::new(),
            bearers: BTreeMap::new(),
            pods: BTreeMap::new(),
            objects: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            uid_conflicts: BTreeMap::new(),
            open: Vec::new(),
            complete: false,
            problems_changed: false,
        }
    }

    /// This is in the file now.
    pub(crate) fn content(&mut self, path: &Path, bytes: &[u8]) {
        let (items, problems) = file::read(&self.shown(path), self.node.as_deref(), bytes);
        let path = self.trouble(path, problems);
        if let (Some(items), Some(file)) = (items, self.files.get_mut(&path)) {
            let before = file.good.replace(items).unwrap_or_default();
            self.open.push(path.clone());
            self.unread.remove(&path);
            self.claim(&path, &before);
        }
    }

    /// Whether something is known of every file there is.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    /// The file, or directory, is there and cannot be read.
    pub(crate) fn unreadable(&mut self, path: &Path, why: &str) {
        let kept = match self.files.get(path) {
            Some(File { good: Some(_), .. }) => "; its last good version stays in force",
            Some(File { good: None, .. }) | None => "",
        };
        let (shown, message) = (self.shown(path), format!("{why}{kept}"));
        let problem = Problem { severity: Severity::Error, path: shown, line: None, object: None, message };
        self.trouble(path, vec![problem]);
    }

    /// The file is gone.
    pub(crate) fn gone(&mut self, path: &Path) {
        let Some((path, file)) = self.files.remove_entry(path) else { return };
        self.unread.remove(&path);
        self.problems_changed |= self.troubled.remove(&path);
        self.claim(&path, &file.good.unwrap_or_default());
    }

    /// Notes what is wrong with a file, of which nothing else need be known.
    fn trouble(&mut self, path: &Path, problems: Vec<Problem>) -> Arc<Path> {
        let path = self.files.get_key_value(path).map_or_else(|| path.into(), |(path, _)| path.clone());
        let file = self.files.entry(path.clone()).or_default();
        if file.good.is_none() {
            self.unread.insert(path.clone());
        }
        self.problems_changed |= file.problems != problems;
        match problems.is_empty() {
            true => self.troubled.remove(&path),
            false => self.troubled.insert(path.clone()),
        };
        file.problems = problems;
        path
    }

    /// A file has other items than before.
    fn claim(&mut self, path: &Arc<Path>, before: &[Item]) {
        for item in before {
            if let Some(claim) = self.claims.get_mut(&item.key) {
                claim.drop_file(path);
            }
            self.touched.insert(item.key.clone());
        }
        let now = self.files.get(path).and_then(|it| it.good.as_deref()).unwrap_or_default();
        for (index, item) in now.iter().enumerate() {
            self.claims.entry(item.key.clone()).or_default().add(Place { file: path.clone(), index });
            self.touched.insert(item.key.clone());
        }
    }

    /// What changed since the last time. The summary is brought up to date; `true` if it is another.
    pub(crate) fn settle(&mut self, summary: &mut Summary) -> (Vec<Give>, bool) {
        let mut changes = Changes::default();
        for key in std::mem::take(&mut self.touched) {
            self.settle_key(key, &mut changes);
        }
        for uid in std::mem::take(&mut changes.uids) {
            self.settle_uid(uid, summary, &mut changes);
        }
        // Nodes first: the size of a volume in memory follows from what the node allots (P-64). Pods never see less than
        // they name, so objects go last.
        changes.objects.sort_by_key(|it| !matches!(it, Object::Node(_)));
        let mut gives: Vec<Give> = changes.objects.into_iter().map(Give::Object).collect();
        let gone =
            changes.pods_gone.into_iter().map(|(uid, key)| match changes.pods.iter().any(|(other, _)| *other == key) {
                true => Give::PodReplaced(uid),
                false => Give::PodGone(uid),
            });
        let gone: Vec<Give> = gone.collect();
        let pods = changes.pods.into_iter().filter_map(|(_, packed)| Some(Give::Pod(packed.open()?, packed)));
        gives.extend(pods);
        self.close();
        gives.extend(gone);
        gives.extend(changes.objects_gone.into_iter().map(Give::ObjectGone));
        if !self.complete && self.unread.is_empty() {
            self.complete = true;
            gives.push(Give::Complete);
        }
        let problems_changed = std::mem::take(&mut self.problems_changed);
        if problems_changed {
            summary.problems = self.problems();
        }
        let changed = problems_changed || !gives.is_empty() || summary.files != self.files.len();
        summary.files = self.files.len();
        summary.objects = self.objects.len();
        summary.complete = self.complete;
        (gives, changed)
    }

    /// The node is about to be told of the pods that were read, and nobody looks into them here.
    fn close(&mut self) {
        for path in std::mem::take(&mut self.open) {
            for item in self.files.get(&path).and_then(|it| it.good.as_ref()).into_iter().flatten() {
                if let Value::Pod(_, packed) = &item.value {
                    packed.lend();
                }
            }
        }
    }

    /// Finds out which of those that define an object is in force.
    fn settle_key(&mut self, key: Key, changes: &mut Changes) {
        let winner = self.claims.get_mut(&key).and_then(Claim::settle);
        let mut conflicts = Vec::new();
        match &winner {
            None => _ = self.claims.remove(&key),
            Some(winner) => {
                let others = self.claims.get(&key).into_iter().flat_map(|it| it.places()).filter(|it| *it != winner);
                let text = format!("it is defined in {} already, which stays in force; remove one", self.told(winner));
                conflicts.extend(others.map(|it| self.conflict(it, &key, text.clone())));
            }
        }
        self.problems_changed |= replace(&mut self.conflicts, &key, conflicts);
        let value = winner.as_ref().and_then(|it| self.item(it)).map(|it| it.value.clone());
        match (&key, value, winner) {
            (Key::Object(reference), Some(Value::Object(object)), _) => {
                if self.objects.get(reference) != Some(&object) {
                    self.objects.insert(reference.clone(), object.clone());
                    changes.objects.push(object);
                }
            }
            (Key::Object(reference), _, _) => {
                if self.objects.remove(reference).is_some() {
                    changes.objects_gone.push(reference.clone());
                }
            }
            (Key::Pod(_), Some(Value::Pod(uid, _)), Some(place)) => self.bear(key, Some((place, uid)), changes),
            (Key::Pod(_), _, _) => self.bear(key, None, changes),
        }
    }

    /// A pod of this name has this uid now, or there is none any more.
    fn bear(&mut self, key: Key, now: Option<(Place, PodUid)>, changes: &mut Changes) {
        if let Some((_, uid)) = self.named.remove(&key) {
            if let Some(bearers) = self.bearers.get_mut(&uid) {
                bearers.retain(|it| *it != key);
            }
            changes.uids.insert(uid);
        }
        if let Some((place, uid)) = now {
            self.bearers.entry(uid.clone()).or_insert_with(|| Vec::with_capacity(1)).push(key.clone());
            changes.uids.insert(uid.clone());
            self.named.insert(key, (place, uid));
        }
    }

    /// Finds out which of the pods that have a uid is in force.
    fn settle_uid(&mut self, uid: PodUid, summary: &mut Summary, changes: &mut Changes) {
        let bearers = self.bearers.get(&uid).into_iter().flatten();
        let mut placed: Vec<(&Place, &Key)> =
            bearers.filter_map(|key| self.named.get(key).map(|(place, _)| (place, key))).collect();
        placed.sort();
        let before = self.pods.get(&uid).map(|(key, _)| key);
        let winner = placed.iter().find(|(_, key)| Some(*key) == before).or(placed.first()).copied();
        let mut conflicts = Vec::new();
        let mut now = None;
        if let Some((place, key)) = winner {
            let text = format!("metadata.uid: {key} in {} has it already, and stays in force", self.told(place));
            let others = placed.iter().filter(|it| **it != (place, key));
            conflicts.extend(others.map(|(place, key)| self.conflict(place, key, text.clone())));
            if let Some(Item { value: Value::Pod(_, pod), .. }) = self.item(place) {
                now = Some((key.clone(), pod.clone()));
            }
        } else {
            self.bearers.remove(&uid);
        }
        self.problems_changed |= replace(&mut self.uid_conflicts, &uid, conflicts);
        let before = self.pods.remove(&uid);
        if let Some((key, _)) = before.as_ref().filter(|(key, _)| now.as_ref().is_none_or(|(other, _)| other != key)) {
            summary.drop_pod(key.name(), &uid);
        }
        match now {
            Some((key, pod)) => {
                if before.as_ref().is_none_or(|(other, _)| *other != key) {
                    summary.add_pod(key.name(), &uid);
                }
                if before.is_none_or(|(_, before)| before != pod) {
                    changes.pods.push((key.clone(), pod.clone()));
                }
                self.pods.insert(uid, (key, pod));
            }
            None => changes.pods_gone.extend(before.map(|(key, _)| (uid, key))),
        }
    }

    /// What pods in force name that no file has: to be told only of a set of files that is meant to be all there is.
    pub(crate) fn unmet(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (key, pod) in self.pods.values() {
            let Some((place, _)) = self.named.get(key) else { continue };
            let Some(pod) = pod.open() else { continue };
            for (reference, field) in validate::references(&pod) {
                if !self.objects.contains_key(&reference) {
                    let message = format!("{field}: there is no {reference} in these manifests");
                    problems.push(Problem { severity: Severity::Warning, ..self.conflict(place, key, message) });
                }
            }
        }
        problems
    }

    fn item(&self, place: &Place) -> Option<&Item> {
        self.files.get(&place.file)?.good.as_ref()?.get(place.index)
    }

    /// A place as it is told: file and line.
    fn told(&self, place: &Place) -> String {
        let line = self.item(place).map(|it| it.line).unwrap_or_default();
        format!("{}:{line}", self.shown(&place.file))
    }

    fn conflict(&self, place: &Place, key: &Key, message: String) -> Problem {
        let line = self.item(place).map(|it| it.line);
        Problem {
            severity: Severity::Error,
            path: self.shown(&place.file),
            line,
            object: Some(key.to_string()),
            message,
        }
    }

    /// All problems, in the order of the files.
    fn problems(&self) -> Vec<Problem> {
        let files = self.troubled.iter().filter_map(|it| self.files.get(it)).flat_map(|it| &it.problems);
        let conflicts = self.conflicts.values().chain(self.uid_conflicts.values()).flatten();
        let mut problems: Vec<Problem> = files.chain(conflicts).cloned().collect();
        sort(&mut problems);
        problems
    }

    /// A path as it is told.
    fn shown(&self, path: &Path) -> String {
        match path.as_os_str().is_empty() {
            true => self.root.display().to_string(),
            false => self.root.join(path).display().to_string(),
        }
    }
}

/// Puts problems into the order in which a person reads them.
pub(crate) fn sort(problems: &mut [Problem]) {
    problems.sort_by(|a, b| (&a.path, a.line, a.severity, &a.message).cmp(&(&b.path, b.line, b.severity, &b.message)));
}

/// Notes what there is to say of a key, if anything; `true` if that is something else than before.
fn replace<K: Ord + Clone>(all: &mut BTreeMap<K, Vec<Problem>>, key: &K, now: Vec<Problem>) -> bool {
    let changed = all.get(key).map_or(&[][..], Vec::as_slice) != now;
    match now.is_empty() {
        true => all.remove(key),
        false => all.insert(key.clone(), now),
    };
    changed
}
