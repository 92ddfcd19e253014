//! What a set of manifest files amounts to: bytes in, and out come the pods and objects that are in force.
//!
//! A file takes effect as a whole. One that cannot be read, does not parse or holds something invalid leaves the last good
//! version in force, and until every file has had one, nothing may be taken away (I-1). So does one that says nothing, and
//! one that lacks what the good version had, unless its writer is known to have come to its end: a full disk, a kill and a
//! crash leave files that are shorter, and many of them are YAML all the same. If it only ends as it did before, it is in
//! force, and the pods that it lacks are held. What is read where something was mounted or unmounted, or has a field that is
//! nearly a known one, may add and change, and takes nothing away. A file that vanishes while its newest version is not in
//! force says nothing about what was in the good one: that is held too. Two objects of one name are a conflict: the one that
//! is in force stays, wherever it stands, and if neither is, the one whose file sorts first comes.
//! Where bytes come from and where objects go is for others.

mod claim;
mod file;
mod give;
mod holders;
mod loss;
mod objection;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::ids::PodUid;
use windlass_linux::watched_files::Origin;

use self::claim::{Claim, Definition};
use self::file::{File, Item, Value, Version};
pub(crate) use self::give::{Departed, Give, Holding};
pub(crate) use self::holders::Holders;
use crate::memory::Object;
use crate::objects::Reference;
use crate::packed::Packed;
use crate::validate;
use crate::view::{Problem, Severity};

use super::directory::Summary;

/// What two objects must not have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    Object(Reference),
    /// By `namespace/name`.
    Pod(Arc<str>),
    /// A pod of another node, by its uid. Many may have it: a directory can be that of many nodes.
    Elsewhere(PodUid),
}

impl Key {
    fn name(&self) -> &str {
        match self {
            Self::Object(reference) => reference.name(),
            Self::Pod(name) => name,
            Self::Elsewhere(uid) => uid.as_str(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(reference) => reference.fmt(f),
            Self::Pod(name) => write!(f, "Pod {name}"),
            Self::Elsewhere(uid) => write!(f, "Pod {uid} of another node"),
        }
    }
}

/// The files and what they amount to.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    root: PathBuf,
    /// Pods that name another node are not ours.
    node: Option<Arc<str>>,
    /// Never looked through, so nothing depends on an order.
    files: HashMap<Arc<Path>, File>,
    /// Files that have no good version.
    unread: BTreeSet<Arc<Path>>,
    /// Files with problems.
    troubled: BTreeSet<Arc<Path>>,
    /// Files whose newest version is not in force.
    unused: BTreeSet<Arc<Path>>,
    /// Files with a version that was refused for what it lacks: another file may turn out to have that.
    refused: BTreeSet<Arc<Path>>,
    /// Who defines an object.
    claims: BTreeMap<Key, Claim>,
    /// Objects that may be another than before.
    touched: BTreeSet<Key>,
    /// Those of them that a file does not name any more, though it may be that nobody means that, and what to say.
    rewritten: BTreeMap<Key, Arc<str>>,
    /// Objects that are not in force any more, and are not believed to be gone yet.
    doubted: BTreeMap<Reference, Problem>,
    /// Pods that are in force by their names, with their uids.
    named: BTreeMap<Key, (Definition, PodUid)>,
    /// The same by uid, of which each may have one: mostly there is one pod for each.
    bearers: BTreeMap<PodUid, Vec<Key>>,
    /// What the node has been given.
    pods: BTreeMap<PodUid, Given>,
    /// Pods that have a manifest, but for another node, and what that says.
    elsewhere: BTreeMap<PodUid, Arc<str>>,
    objects: BTreeMap<Reference, Object>,
    /// Who was in force before the start, where that was in conflict.
    recalled: Holders,
    /// Who is now, as it was told last.
    holders: Holders,
    /// Objects whose file was in force before the start and has not been read yet.
    awaited: BTreeSet<Key>,
    /// The same for uids.
    awaited_uids: BTreeSet<PodUid>,
    /// Of objects that several define.
    conflicts: BTreeMap<Key, Vec<Problem>>,
    /// Pods that would be in force if others had not their names, and what there is to say of each.
    outdone: BTreeMap<Key, BTreeMap<PodUid, Arc<str>>>,
    /// Of uids that several pods have.
    uid_conflicts: BTreeMap<PodUid, Vec<Problem>>,
    /// Files whose pods are kept open until the node is told of them.
    open: Vec<Arc<Path>>,
    /// Whether something was known of every file at one moment.
    complete: bool,
    /// Why the directory cannot be read, if it cannot.
    lost: Option<Arc<str>>,
    /// Whether all was given or the directory is lost, as it was told last.
    told: Option<Give>,
    /// Other files are read than when that was settled last, and whether somebody meant it.
    replaced: Option<bool>,
    /// Whether there are other problems than before.
    problems_changed: bool,
    /// How many versions of files there were, good and bad: what tells earlier from later.
    count: u64,
}

/// A pod that the node has been given.
#[derive(Debug)]
struct Given {
    key: Key,
    pod: Packed,
    /// Since when there is a pod of this uid, as [`Ledger::count`] counts.
    since: u64,
}

/// Reads one file.
pub(crate) struct Parser {
    path: String,
    node: Option<Arc<str>>,
}

impl Parser {
    /// Reads what is in the file.
    pub(crate) fn read(&self, bytes: &[u8], origin: Origin) -> Parsed {
        file::read(&self.path, self.node.as_deref(), bytes, origin)
    }
}

/// What was read of a file, or why it cannot be used.
pub(crate) type Parsed = Result<Version, Vec<Problem>>;

/// Changes that are being found, in the order in which the node is told.
#[derive(Default)]
struct Changes {
    objects: Vec<Object>,
    pods: Vec<Packed>,
    pods_gone: Vec<(PodUid, Departed)>,
    pods_held: Vec<(PodUid, Holding)>,
    objects_gone: Vec<(Reference, Option<Arc<str>>)>,
    /// Pods in whose place their file has others, on purpose.
    replaced: BTreeSet<PodUid>,
    /// Uids that may be another pod's than before.
    uids: BTreeSet<PodUid>,
}

impl Ledger {
    /// Nothing yet, of files below this directory.
    pub(crate) fn new(root: &Path, node: Option<&str>) -> Self {
        Self { root: root.into(), node: node.map(Into::into), holders: Holders::of(root), ..Self::default() }
    }

    /// A directory is another than before.
    pub(crate) fn replaced(&mut self, meant: bool) {
        self.replaced = Some(meant && self.replaced.unwrap_or(true));
    }

    /// This is in the file now.
    pub(crate) fn content(&mut self, path: &Path, bytes: &[u8], origin: Origin) {
        let parsed = self.parser(path).read(bytes, origin);
        self.parsed(path, parsed);
    }

    /// What reads a file of this path, which may take a while and can be done elsewhere.
    pub(crate) fn parser(&self, path: &Path) -> Parser {
        Parser { path: self.shown(path), node: self.node.clone() }
    }

    /// What is in the file now is being read elsewhere. If nothing else is known of it, anything may be in it (I-1).
    pub(crate) fn parsing(&mut self, path: &Path) {
        if !self.files.contains_key(path) {
            self.trouble(path, Vec::new());
        }
    }

    /// A file is there that is not read, because of its name.
    pub(crate) fn misnamed(&mut self, path: &Path) {
        let message = "it is not read: the name of a manifest ends in .yaml, .yml or .json, in small letters".into();
        let (severity, path_shown) = (Severity::Warning, self.shown(path));
        let problem = Problem { severity, path: path_shown, line: None, object: None, message };
        self.offer(path, Version { problems: vec![problem], ..Version::default() });
    }

    /// This was read of what is in the file now.
    pub(crate) fn parsed(&mut self, path: &Path, parsed: Parsed) {
        match parsed {
            Ok(mut version) => {
                // To move a file that was refused for what it lacks does not make it whole.
                let refused = self.refused.iter().filter_map(|it| self.files.get(it)?.refused.as_ref());
                let is_refused = refused.into_iter().any(|it| it.origin.is_of(&version.origin));
                version.origin.moved &= !is_refused;
                self.offer(path, version);
            }
            Err(problems) => _ = self.trouble(path, problems),
        }
    }

    /// Takes a version of a file, unless there is something against that.
    fn offer(&mut self, path: &Path, mut version: Version) {
        let lacking = match self.lacking(path, &version) {
            Ok(lacking) => lacking,
            Err(objection) => {
                let told = version.problems.iter().cloned().chain([*objection]).collect();
                let path = self.trouble(path, told);
                if let Some(file) = self.files.get_mut(&path) {
                    file.refused = Some(Box::new(version));
                    self.refused.insert(path);
                }
                return;
            }
        };
        if !lacking.is_empty() {
            let text: Arc<str> = format!(
                "{} was written in place without it, which an interrupted writer can leave too",
                self.shown(path)
            )
            .into();
            self.rewritten.extend(lacking.into_iter().map(|it| (it, text.clone())));
        }
        let path = self.trouble(path, std::mem::take(&mut version.problems));
        let good = self.files.get(&path).and_then(|it| it.good.as_ref());
        if good.is_some_and(|it| !version.origin.moved && !version.origin.is_at(&it.origin)) {
            self.replaced(false);
        }
        if let Some(file) = self.files.get_mut(&path) {
            let before = file.good.replace(version).unwrap_or_default();
            self.open.push(path.clone());
            self.unread.remove(&path);
            self.claim(&path, &before.items);
        }
    }

    /// Offers again what was refused for what other files have meanwhile.
    fn reconsider(&mut self) {
        for path in self.refused.clone() {
            let Some(refused) = self.files.get_mut(&path).and_then(|it| it.refused.take()) else { continue };
            if self.lacking(&path, &refused).is_ok() {
                self.offer(&path, *refused);
            } else if let Some(file) = self.files.get_mut(&path) {
                file.refused = Some(refused);
            }
        }
    }

    /// Why it cannot be told whether a pod that is in no file any more is meant to go, if it cannot (I-1).
    ///
    /// A file with an error that is newer than the pod may be one to which the pod was being moved.
    pub(crate) fn holding(&self, departed: &Departed) -> Option<Holding> {
        if let Some(text) = &departed.rewritten {
            return Some(Holding::Rewritten(text.clone()));
        }
        let mut unused = self.unused.iter().filter_map(|it| self.files.get(it)?.unused_since);
        (!self.is_whole() || unused.any(|it| it > departed.since)).then_some(Holding::Removed)
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
        if path.as_os_str().is_empty() {
            self.lost = Some(why.into());
        }
        let (shown, message) = (self.shown(path), format!("{why}{kept}"));
        let problem = Problem { severity: Severity::Error, path: shown, line: None, object: None, message };
        self.trouble(path, vec![problem]);
    }

    /// The file is gone.
    pub(crate) fn gone(&mut self, path: &Path) {
        let unused = self.files.get(path).filter(|it| it.unused_since.is_some()).and_then(|it| it.good.as_ref());
        if let Some(good) = unused {
            // What it would have said is not known, so nobody took away what the good version said (I-1).
            let is_cut =
                |it: &Item| self.beside(path, it).any(|other| other.is_same_pod(it)) && !self.is_kept_beside(path, it);
            if good.items.iter().any(is_cut) {
                let less = "it vanished while it had an error, and another file has less of a pod that was in it";
                return self.unreadable(path, &format!("{less}: put it back; if this is meant, start anew"));
            }
            let text: Arc<str> = format!("{} had an error when it vanished", self.shown(path)).into();
            self.rewritten.extend(good.items.iter().map(|it| (it.key.clone(), text.clone())));
        }
        let Some((path, file)) = self.files.remove_entry(path) else { return };
        if path.as_os_str().is_empty() {
            self.lost = None;
        }
        self.unread.remove(&path);
        self.refused.remove(&path);
        self.unused.remove(&path);
        self.problems_changed |= self.troubled.remove(&path);
        self.claim(&path, &file.good.unwrap_or_default().items);
    }

    /// Somebody says that a pod may go. It does if its manifest is in a directory that cannot be read any more, until the
    /// manifest can be; while its manifest can be read, that says what is meant. Whether it goes.
    pub(crate) fn let_go(&mut self, uid: &PodUid) -> bool {
        let Some(given) = self.pods.get(uid) else { return false };
        let (key, place) = (given.key.clone(), self.named.get(&given.key).map(|(place, _)| place.file.clone()));
        let Some(path) = place.filter(|it| is_below(self.unread.iter().map(AsRef::as_ref), it)) else { return false };
        let Some(mut good) = self.files.get_mut(&path).and_then(|it| it.good.take()) else { return false };
        self.claim(&path, &good.items);
        good.items.retain(|it| it.key != key);
        if let Some(file) = self.files.get_mut(&path) {
            file.good = Some(good);
        }
        self.claim(&path, &[]);
        true
    }

    /// Notes what is wrong with a file, of which nothing else need be known.
    fn trouble(&mut self, path: &Path, problems: Vec<Problem>) -> Arc<Path> {
        let path = self.files.get_key_value(path).map_or_else(|| path.into(), |(path, _)| path.clone());
        let file = self.files.entry(path.clone()).or_default();
        if file.good.is_none() {
            self.unread.insert(path.clone());
        }
        // Whatever comes now is newer.
        self.count += 1;
        file.refused = None;
        file.unused_since = problems.iter().any(|it| it.severity == Severity::Error).then_some(self.count);
        self.refused.remove(&path);
        match file.unused_since {
            Some(_) => self.unused.insert(path.clone()),
            None => self.unused.remove(&path),
        };
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
        let now = self.files.get(path).and_then(|it| it.good.as_ref()).map_or(&[][..], |it| &it.items);
        for (index, item) in now.iter().enumerate() {
            self.claims.entry(item.key.clone()).or_default().add(Definition { file: path.clone(), index });
            self.touched.insert(item.key.clone());
        }
    }

    /// What changed since the last time. The summary is brought up to date; `true` if it is another.
    pub(crate) fn settle(&mut self, summary: &mut Summary) -> (Vec<Give>, bool) {
        self.reconsider();
        self.touched.append(&mut self.awaited);
        let mut changes = Changes { uids: std::mem::take(&mut self.awaited_uids), ..Changes::default() };
        for key in std::mem::take(&mut self.touched) {
            self.settle_key(key, &mut changes);
        }
        for uid in std::mem::take(&mut changes.uids) {
            self.settle_uid(uid, summary, &mut changes);
        }
        self.rewritten.clear();
        if self.lost.is_none() && matches!(self.told, Some(Give::Lost(_))) {
            // What is not given again is taken for gone.
            changes.pods = self.pods.values().map(|it| it.pod.clone()).collect();
            self.told = None;
        }
        // Nodes first: the size of a volume in memory follows from what the node allots (P-64). Pods never see less than
        // they name, so objects go last.
        changes.objects.sort_by_key(|it| !matches!(it, Object::Node(_)));
        let mut gives: Vec<Give> = changes.objects.into_iter().map(Give::Object).collect();
        let conflict =
            |(uid, holding): &(PodUid, Holding)| matches!(holding, Holding::Conflict(_)).then(|| uid.clone());
        let kept: BTreeSet<PodUid> = changes.pods_held.iter().filter_map(conflict).collect();
        changes.pods_gone.retain(|(uid, ..)| !kept.contains(uid));
        let replaced = changes.replaced;
        let gone = changes.pods_gone.into_iter().map(|(uid, departed)| match replaced.contains(&uid) {
            true => Give::PodReplaced(uid),
            false => Give::PodGone(uid, departed),
        });
        let gone: Vec<Give> = gone.collect();
        let pods = changes.pods.into_iter().filter_map(|packed| Some(Give::Pod(packed.open()?, packed)));
        gives.extend(pods);
        self.close();
        gives.extend(gone);
        let held = changes.pods_held.into_iter().filter(|(uid, _)| !self.pods.contains_key(uid));
        gives.extend(held.map(|(uid, holding)| Give::PodHeld(uid, holding)));
        gives.extend(changes.objects_gone.into_iter().map(|(reference, doubt)| Give::ObjectGone(reference, doubt)));
        self.complete |= self.unread.is_empty();
        let holders = self.holders_now();
        if self.holders != holders && self.complete {
            self.holders = holders.clone();
            // Before anything else that follows from it.
            gives.insert(0, Give::Holders(holders));
        }
        // Before anything else: what is given now was read there.
        if let Some(meant) = self.replaced.take() {
            gives.insert(0, Give::Replaced { meant });
        }
        // Last: what was not known before may name what waits to be taken away.
        let known = match &self.lost {
            Some(why) => Some(Give::Lost(why.clone())),
            None => self.complete.then(|| Give::Complete(self.doubt())),
        };
        if self.told != known {
            gives.extend(known.clone());
            self.told = known;
        }
        let problems_changed = self.tell_problems(summary);
        let mut changed = problems_changed || !gives.is_empty() || summary.files != self.files.len();
        if !summary.unread.iter().eq(self.unread.iter()) {
            summary.unread = self.unread.iter().cloned().collect();
            changed = true;
        }
        summary.files = self.files.len();
        summary.objects = self.objects.len();
        summary.complete = self.complete && self.lost.is_none();
        summary.lost.clone_from(&self.lost);
        (gives, changed)
    }

    /// The first file of which nothing is known, else the first whose newest version is not in force: what it may say.
    fn doubt(&self) -> Option<Arc<str>> {
        let unread = self.unread.first().map(|it| (it, "which cannot be read"));
        let (path, why) = unread.or_else(|| Some((self.unused.first()?, "which has an error")))?;
        Some(format!("it may be in {}, {why}", self.shown(path)).into())
    }

    /// Whether something was known of every file at one moment: until then the node takes nothing away.
    pub(crate) fn was_complete(&self) -> bool {
        self.complete
    }

    /// Brings the problems in the summary up to date; `true` if they are others.
    pub(crate) fn tell_problems(&mut self, summary: &mut Summary) -> bool {
        let changed = std::mem::take(&mut self.problems_changed);
        if changed {
            summary.problems = self.problems();
        }
        changed
    }

    /// Who was in force before the start; to be told before anything is settled.
    pub(crate) fn recall(&mut self, holders: Holders) {
        self.holders = holders.clone();
        self.recalled = holders;
    }

    /// The directory of the files.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Who is in force where that is in conflict.
    fn holders_now(&self) -> Holders {
        let mut holders = Holders::of(&self.root);
        for key in self.conflicts.keys() {
            let file = self.claims.get(key).and_then(Claim::holder).and_then(|it| it.to_str());
            holders.files.extend(file.map(|it| (key.to_string(), it.to_owned())));
        }
        for uid in self.uid_conflicts.keys() {
            holders.uids.extend(self.pods.get(uid).map(|it| (uid.to_string(), it.key.to_string())));
        }
        holders
    }

    /// The node is about to be told of the pods that were read, and nobody looks into them here.
    fn close(&mut self) {
        for path in std::mem::take(&mut self.open) {
            for item in self.files.get(&path).and_then(|it| it.good.as_ref()).into_iter().flat_map(|it| &it.items) {
                if let Value::Pod(_, packed) = &item.value {
                    packed.lend();
                }
            }
        }
    }

    /// Finds out which of those that define an object is in force.
    fn settle_key(&mut self, key: Key, changes: &mut Changes) {
        let recalled = self.recalled.files.get(&key.to_string()).map(Path::new);
        let is_unread = recalled.is_some_and(|it| self.unread.contains(it));
        if is_unread && self.claims.get(&key).is_some_and(Claim::is_open) {
            // Another is not to take its place before it is known what it says.
            self.awaited.insert(key);
            return;
        }
        let same = self.same_elsewhere(&key);
        let winner = self.claims.get_mut(&key).and_then(|it| it.settle(same.as_ref(), recalled));
        let mut conflicts = Vec::new();
        match &winner {
            None => _ = self.claims.remove(&key),
            Some(_) if matches!(key, Key::Elsewhere(_)) => {}
            Some(winner) => {
                let others = self.claims.get(&key).into_iter().flat_map(|it| it.places()).filter(|it| *it != winner);
                let text =
                    || format!("it is defined in {} already, which stays in force; remove one", self.told(winner));
                conflicts.extend(others.map(|it| self.conflict(it, &key, text())));
            }
        }
        self.problems_changed |= replace(&mut self.conflicts, &key, conflicts);
        self.hold_outdone(&key, winner.as_ref(), changes);
        let value = winner.as_ref().and_then(|it| self.item(it)).map(|it| it.value.clone());
        match (&key, value, winner) {
            (Key::Object(reference), Some(Value::Object(object)), _) => {
                self.problems_changed |= self.doubted.remove(reference).is_some();
                if self.objects.get(reference) != Some(&object) {
                    self.objects.insert(reference.clone(), object.clone());
                    changes.objects.push(object);
                }
            }
            (Key::Object(reference), _, _) => {
                if self.objects.remove(reference).is_some() {
                    let doubt = self.rewritten.get(&key).cloned();
                    if let Some(text) = &doubt {
                        let message = format!("{text}; it stays for orphan-delay");
                        let (path, object) = (self.shown(Path::new("")), Some(key.to_string()));
                        let problem = Problem { severity: Severity::Warning, path, line: None, object, message };
                        self.doubted.insert(reference.clone(), problem);
                        self.problems_changed = true;
                    }
                    changes.objects_gone.push((reference.clone(), doubt));
                }
            }
            (Key::Elsewhere(uid), value, _) => {
                let now = if let Some(Value::Elsewhere(text)) = value { Some(text) } else { None };
                if self.elsewhere.get(uid) != now.as_ref() {
                    changes.uids.insert(uid.clone());
                }
                match now {
                    Some(text) => self.elsewhere.insert(uid.clone(), text),
                    None => self.elsewhere.remove(uid),
                };
            }
            (Key::Pod(_), Some(Value::Pod(uid, _)), Some(place)) => self.bear(key, Some((place, uid)), changes),
            (Key::Pod(_), _, _) => self.bear(key, None, changes),
        }
    }

    /// Where the same is said as what is in force, if the file that said so does not say it any more: it was renamed.
    fn same_elsewhere(&self, key: &Key) -> Option<Definition> {
        let claim = self.claims.get(key).filter(|it| it.is_left())?;
        let value = match key {
            Key::Object(reference) => Value::Object(self.objects.get(reference)?.clone()),
            Key::Pod(_) => {
                let (_, uid) = self.named.get(key)?;
                Value::Pod(uid.clone(), self.pods.get(uid)?.pod.clone())
            }
            Key::Elsewhere(_) => return None,
        };
        let before = Item { key: key.clone(), line: 0, value };
        let place = |is_same: &dyn Fn(&Item) -> bool| claim.places().find(|it| self.item(it).is_some_and(is_same));
        place(&|it| it.value == before.value).or_else(|| place(&|it| it.keeps(&before))).cloned()
    }

    /// An object that was doubted to be gone is.
    pub(crate) fn believe(&mut self, reference: &Reference) {
        self.problems_changed |= self.doubted.remove(reference).is_some();
    }

    /// Which of several pods of a name is meant cannot be told, and of one that is not in force there may be data here.
    fn hold_outdone(&mut self, key: &Key, winner: Option<&Definition>, changes: &mut Changes) {
        let uid_at = |place: &Definition| match &self.item(place)?.value {
            Value::Pod(uid, _) => Some(uid.clone()),
            Value::Object(_) | Value::Elsewhere(_) => None,
        };
        let mut now = BTreeMap::new();
        if let Some((winner, uid)) = winner.and_then(|it| Some((it, uid_at(it)?))) {
            for place in self.claims.get(key).into_iter().flat_map(|it| it.places()) {
                let text = || format!("{} names it, and {} another {key}", self.told(place), self.told(winner));
                now.extend(uid_at(place).filter(|it| *it != uid).map(|it| (it, text().into())));
            }
        }
        let before = match now.is_empty() {
            true => self.outdone.remove(key),
            false => self.outdone.insert(key.clone(), now.clone()),
        };
        let before = before.unwrap_or_default();
        // It may be outdone under another name meanwhile.
        let is_outdone = |uid: &PodUid| self.outdone.values().any(|it| it.contains_key(uid));
        let over = before.keys().filter(|it| !is_outdone(it) && !self.elsewhere.contains_key(*it));
        changes.pods_held.extend(over.map(|it| (it.clone(), Holding::ConflictOver)));
        let news = now.into_iter().filter(|(uid, text)| before.get(uid) != Some(text));
        changes.pods_held.extend(news.map(|(uid, text)| (uid, Holding::Conflict(text))));
    }

    /// A pod of this name has this uid now, or there is none any more.
    fn bear(&mut self, key: Key, now: Option<(Definition, PodUid)>, changes: &mut Changes) {
        if let Some((place, uid)) = self.named.remove(&key) {
            let same_file = now.as_ref().is_some_and(|(it, now)| it.file == place.file && *now != uid);
            if same_file && !self.rewritten.contains_key(&key) {
                changes.replaced.insert(uid.clone());
            }
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
        let mut placed: Vec<(&Definition, &Key)> =
            bearers.filter_map(|key| self.named.get(key).map(|(place, _)| (place, key))).collect();
        placed.sort();
        let before = self.pods.get(&uid).map(|it| &it.key);
        let recalled = self.recalled.uids.get(uid.as_str());
        let is_recalled = |key: &Key| before.is_none() && recalled.is_some_and(|it| *it == key.to_string());
        let is_awaited = before.is_none() && recalled.is_some() && !placed.iter().any(|(_, key)| is_recalled(key));
        if is_awaited && !placed.is_empty() && !self.unread.is_empty() {
            self.awaited_uids.insert(uid);
            return;
        }
        let winner =
            placed.iter().find(|(_, key)| Some(*key) == before || is_recalled(key)).or(placed.first()).copied();
        let mut conflicts = Vec::new();
        let mut now = None;
        if let Some((place, key)) = winner {
            let text = || format!("metadata.uid: {key} in {} has it already, and stays in force", self.told(place));
            let others = placed.iter().filter(|it| **it != (place, key));
            conflicts.extend(others.map(|(place, key)| self.conflict(place, key, text())));
            if let Some(Item { value: Value::Pod(_, pod), .. }) = self.item(place) {
                now = Some((key.clone(), pod.clone(), place.file.clone()));
            }
        } else {
            self.bearers.remove(&uid);
        }
        self.problems_changed |= replace(&mut self.uid_conflicts, &uid, conflicts);
        let before = self.pods.remove(&uid);
        if let Some(before) = before.as_ref().filter(|it| now.as_ref().is_none_or(|(key, ..)| *key != it.key)) {
            summary.drop_pod(before.key.name(), &uid);
        }
        match now {
            Some((key, pod, file)) => {
                summary.add_pod(key.name(), &uid, &file);
                let since = before.as_ref().map_or(self.count, |it| it.since);
                if before.is_none_or(|it| it.pod != pod) {
                    changes.pods.push(pod.clone());
                }
                self.pods.insert(uid, Given { key, pod, since });
            }
            None => match self.elsewhere.get(&uid) {
                // Whether it was moved there or somebody made a mistake cannot be told, and here is its data.
                Some(text) => changes.pods_held.push((uid, Holding::OtherNode(text.clone()))),
                None => changes.pods_gone.extend(before.map(|Given { key, since, .. }| {
                    let rewritten = self.rewritten.get(&key).cloned();
                    (uid, Departed { since, rewritten })
                })),
            },
        }
    }

    /// What pods in force name that no file has: to be told only of a set of files that is meant to be all there is.
    pub(crate) fn unmet(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for Given { key, pod, .. } in self.pods.values() {
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

    fn item(&self, place: &Definition) -> Option<&Item> {
        self.files.get(&place.file)?.good.as_ref()?.items.get(place.index)
    }

    /// A place as it is told: file and line.
    fn told(&self, place: &Definition) -> String {
        let line = self.item(place).map(|it| it.line).unwrap_or_default();
        format!("{}:{line}", self.shown(&place.file))
    }

    fn conflict(&self, place: &Definition, key: &Key, message: String) -> Problem {
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
        let mut problems: Vec<Problem> = files.chain(conflicts).chain(self.doubted.values()).cloned().collect();
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

/// Whether a file is in one of these directories, or further below.
pub(crate) fn is_below<'a>(mut directories: impl Iterator<Item = &'a Path>, file: &Path) -> bool {
    directories.any(|it| file != it && file.starts_with(it))
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
