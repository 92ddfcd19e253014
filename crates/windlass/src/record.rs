//! What the mount table and the directories cannot tell is written down: one small file for each attach, stage and publish,
//! and one for all that a pod has in directories of its own (`record/pod_file.rs`).
//!
//! They lie in a directory of windlass's own, apart from the kubelet's layout, which stays as the kubelet has it: those of
//! publishes side by side, those of attaches, stages and pods in a directory for each. A record is a line, and the last whole
//! line of a file counts: what came of an intent is added to it. A file without one is empty, which is no record either; one
//! that cannot be read all the same is told apart from none. A record has a version, and fields that this version does not know are
//! kept when it is written again (`record/text.rs`). It holds the boot id, because a new boot makes every "mounted" untrue, and
//! never a byte of a secret (I-12).

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Mode;
use rustix::io::Errno;
use serde_json::{Map, Value};
use windlass_core::event;
use windlass_core::flight::Trace;
use windlass_core::ids::{BootId, VolumeId};
use windlass_core::spec::VolumeSpec;
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::whole_file::{self, Seal, Survives};

use crate::catalogue::VolumeType;
use crate::layout::{self, Slot};
use crate::plugin::Made;

mod name;
mod pod_file;
pub(crate) mod text;

pub(crate) use pod_file::Held;
use pod_file::PodFiles;

/// No record is larger.
const BYTES_MAX: usize = 64 * 1024;

/// What a record is about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// A volume's place in a pod.
    Publish(Slot),
    /// A volume's place on this node.
    Stage(VolumeId),
    /// That this node attached a volume.
    Attach(VolumeId),
}

/// What is known of an attach, a stage or a publish.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// What was made, or only that it was going to be.
    pub state: State,
    /// The SELinux label it is mounted with.
    pub label: Option<Arc<str>>,
    /// What the pod is called that it was published to, as `namespace/name`: once its manifest is gone nothing else tells.
    pub title: Option<String>,
    /// Fields that this version of windlass does not know.
    pub other: Map<String, Value>,
}

/// How far it got.
#[derive(Clone, PartialEq, Debug)]
pub enum State {
    /// It was going to be made.
    Intent {
        /// What was there, and in which boot it was made.
        made: Option<(BootId, Made)>,
    },
    /// It was being taken away. That is a mark on the record, and not in it.
    Leaving {
        /// What was there, and in which boot it was made.
        made: Option<(BootId, Made)>,
        /// Because its pod had gone.
        with_pod: bool,
    },
    /// It was made.
    Proven {
        /// In this boot.
        boot: BootId,
        /// What was made.
        made: Made,
        /// The content it was made with.
        revision: u64,
        /// How often the content was renewed though nothing changed.
        epoch: u64,
    },
    /// It was attached, or was going to be attached or detached. A new boot changes nothing of that.
    Attachment {
        /// What the driver calls this node.
        node: String,
        /// What the driver handed over for the calls that follow; `None` if attach is not known to have finished.
        context: Option<BTreeMap<String, String>>,
    },
}

impl Record {
    /// What was made, and in which boot, as far as this record tells.
    pub fn made(&self) -> Option<(&BootId, &Made)> {
        match &self.state {
            State::Intent { made } | State::Leaving { made, .. } => made.as_ref().map(|(boot, made)| (boot, made)),
            State::Proven { boot, made, .. } => Some((boot, made)),
            State::Attachment { .. } => None,
        }
    }

    /// The same, if it was made in this boot: what another boot made is not there, and its numbers mean nothing now.
    pub fn made_in(&self, boot: &BootId) -> Option<&Made> {
        self.made().filter(|(in_boot, _)| *in_boot == boot).map(|(_, made)| made)
    }

    /// That it is going to be made or taken away, and what is there of this boot's making.
    pub fn intent(&self, boot: &BootId) -> State {
        State::Intent { made: self.made_in(boot).map(|made| (boot.clone(), made.clone())) }
    }

    /// The same as it is once it is marked, whichever boot it is of.
    fn retired(self, seal: Seal) -> Self {
        let made = self.made().map(|(boot, made)| (boot.clone(), made.clone()));
        Self { state: State::Leaving { made, with_pod: seal == Seal::Strong }, ..self }
    }

    /// What the engine is told of it.
    pub fn for_engine(&self) -> event::Record {
        match &self.state {
            State::Intent { .. } | State::Attachment { .. } => event::Record::Intent,
            State::Leaving { with_pod, .. } => event::Record::Leaving { with_pod: *with_pod },
            State::Proven { boot, made, revision, .. } => {
                event::Record::Proven { boot: boot.clone(), proof: made.proof, revision: *revision }
            }
        }
    }
}

/// Why a record was not written, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its directory could not be made or opened.
    #[error("reach the record of {what}")]
    Reach {
        /// What it is about.
        what: String,
        /// Why.
        #[source]
        source: layout::Error,
    },
    /// The file could not be written, read or removed.
    #[error(transparent)]
    File(#[from] whole_file::Error),
    /// It is no record.
    #[error("the record {} cannot be read: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a pod's records is none.
    #[error("the record {} cannot be read: {reason}; that is left out from now on", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// What is wrong with the line.
        reason: String,
    },
    /// What came of an intent could not be added to its record.
    #[error("add to the record of {what}")]
    Add {
        /// What it is about.
        what: String,
        /// Why.
        #[source]
        source: Errno,
    },
    /// It could not be put into words.
    #[error("describe {what}")]
    Describe {
        /// What it is about.
        what: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// All records of a node.
#[derive(Clone, Debug)]
pub struct Records {
    root: Arc<Place>,
    attachments: Arc<Kept>,
    stages: Arc<Kept>,
    pods: Arc<PodFiles>,
}

/// A directory among the records, once it was needed.
#[derive(Debug)]
struct Kept {
    name: &'static str,
    place: Mutex<Option<Arc<Place>>>,
}

impl Kept {
    fn new(name: &'static str) -> Self {
        Self { name, place: Mutex::default() }
    }

    /// The directory; `None` if there is none.
    fn find(&self, root: &Place) -> Result<Option<Arc<Place>>, Error> {
        let mut kept = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = find(root, self.name)?.map(Arc::new);
        }
        Ok(kept.clone())
    }

    /// Does something in the directory, which is made if it is missing, also if somebody removed it meanwhile.
    fn within<T>(&self, root: &Place, work: impl Fn(&Place) -> Result<T, whole_file::Error>) -> Result<T, Error> {
        if let Some(place) = self.find(root)? {
            match work(&place) {
                Err(error) if error.errno() == Some(Errno::NOENT) => {}
                other => return Ok(other?),
            }
        }
        let reach = |source| Error::Reach { what: self.name.into(), source };
        let name = Name::new("directory", self.name).map_err(|source| reach(source.into()))?;
        let place = root.make_directory(&name, Mode::RWXU, Mounts::Refuse).map_err(|source| reach(source.into()))?;
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::new(place)).clone();
        Ok(work(&place)?)
    }
}

/// A record of an intent, to which what came of it can be added.
#[derive(Debug)]
pub struct Begun {
    place: BegunIn,
    key: Key,
}

#[derive(Debug)]
enum BegunIn {
    File(whole_file::Begun),
    Pod(Arc<PodFiles>, Slot),
}

impl Begun {
    /// Adds what came of it. It survives a [crash](Survives::Crash); if the machine ends, the intent may be all that is left.
    pub fn add(&self, record: &Record) -> Result<(), Error> {
        let (_, text) = text_of(&self.key, record)?;
        match &self.place {
            BegunIn::File(file) => file.add(&text).map_err(|source| Error::Add { what: describe(&self.key), source }),
            BegunIn::Pod(pods, slot) => pods.write(slot, &text),
        }
    }
}

/// A record that was found, or what is wrong with it.
pub(crate) type FoundRecord = (Key, Result<Record, Error>);

/// How the names in a directory of records are read.
type Names = fn(&Place) -> Result<Vec<Name>, whole_file::Error>;

fn finished_names(directory: &Place) -> Result<Vec<Name>, whole_file::Error> {
    let mut names = whole_file::names(directory)?;
    names.retain(|it| !whole_file::is_unfinished(it));
    Ok(names)
}

impl Records {
    /// The records in this directory, which is made if it is missing.
    pub fn open(directory: &Place) -> Result<Self, layout::Error> {
        let root = directory.make_directory(&Name::new("directory", "records")?, Mode::RWXU, Mounts::Refuse)?;
        let root = Arc::new(root);
        let (attachments, stages) = (Arc::new(Kept::new(ATTACHMENTS)), Arc::new(Kept::new(STAGES)));
        Ok(Self { pods: Arc::new(PodFiles::new(root.clone())), root, attachments, stages })
    }

    /// Keeps the file of a pod's records open until what is returned is dropped.
    pub(crate) fn hold(&self, pod: &Name) -> Held {
        self.pods.hold(pod)
    }

    /// Something is going to be made for a pod, which may have been on its way out.
    pub(crate) fn expect_pod(&self, pod: &Name) -> Result<(), Error> {
        self.pods.expect(pod)
    }

    /// Nothing of a pod is left: nor is a record of what it had in directories.
    pub(crate) fn remove_pod(&self, pod: &Name) -> Result<(), Error> {
        self.pods.remove_pod(pod)
    }

    /// Writes a record, in place of the one there is.
    pub fn write(&self, key: &Key, record: &Record, survives: Survives) -> Result<(), Error> {
        let (name, text) = text_of(key, record)?;
        match in_pod(key) {
            Some(slot) => self.pods.write(slot, &text),
            None => self.within(key, |directory| whole_file::write(directory, &name, &text, survives)),
        }
    }

    /// Writes a record where there is none yet; `None` if there is something. Whatever a process that ends meanwhile leaves
    /// is taken for none.
    pub fn begin(&self, key: &Key, record: &Record, survives: Survives) -> Result<Option<Begun>, Error> {
        let (name, text) = text_of(key, record)?;
        let place = match in_pod(key) {
            Some(slot) => {
                self.pods.write(slot, &text)?;
                Some(BegunIn::Pod(self.pods.clone(), slot.clone()))
            }
            None => {
                let begun = self.within(key, |directory| whole_file::begin(directory, &name, &text, survives))?;
                begun.map(BegunIn::File)
            }
        };
        Ok(place.map(|place| Begun { place, key: key.clone() }))
    }

    /// Does something in the directory of a record, which is made if it is missing.
    fn within<T>(&self, key: &Key, work: impl Fn(&Place) -> Result<T, whole_file::Error>) -> Result<T, Error> {
        match self.kept(key) {
            None => Ok(work(&self.root)?),
            Some(kept) => kept.within(&self.root, work),
        }
    }

    /// The directory of a record, if it is not that of all.
    fn kept(&self, key: &Key) -> Option<&Kept> {
        match key {
            Key::Publish(_) => None,
            Key::Stage(_) => Some(&self.stages),
            Key::Attach(_) => Some(&self.attachments),
        }
    }

    /// The directory of a record; `None` if there is none.
    fn find(&self, key: &Key) -> Result<Option<Arc<Place>>, Error> {
        match self.kept(key) {
            None => Ok(Some(self.root.clone())),
            Some(kept) => kept.find(&self.root),
        }
    }

    /// Reads a record; `None` if there is none.
    pub fn read(&self, key: &Key) -> Result<Option<Record>, Error> {
        if let Some(slot) = in_pod(key) {
            return self.pods.read(slot);
        }
        let name = reached_name(key)?;
        let Some(directory) = self.find(key)? else { return Ok(None) };
        let Some((record, _)) = read(&directory, &name)? else { return Ok(None) };
        check(&directory, &name, key, &record)?;
        Ok(Some(record))
    }

    /// Removes a record. That there is none is success.
    pub fn remove(&self, key: &Key) -> Result<(), Error> {
        if let Some(slot) = in_pod(key) {
            return self.pods.remove(slot);
        }
        let name = reached_name(key)?;
        Ok(self.find(key)?.map_or(Ok(()), |it| whole_file::remove(&it, &name))?)
    }

    /// From now on a record proves nothing: what it tells of is going to be taken away, by itself or because its pod has
    /// gone. That there is none is success. The record is marked, in one call, and need not be written anew for that. After a
    /// loss of power the mark may be gone; by then there is another boot, for which the record proves nothing either.
    pub fn retire(&self, key: &Key, with_pod: bool) -> Result<(), Error> {
        if let Some(slot) = in_pod(key) {
            return self.pods.retire(slot, with_pod);
        }
        let name = reached_name(key)?;
        let seal = if with_pod { Seal::Strong } else { Seal::Plain };
        Ok(self.find(key)?.map_or(Ok(()), |it| whole_file::seal(&it, &name, seal))?)
    }

    /// The records in this directory for somebody who only looks, while another process may write them: nothing is made
    /// and nothing removed. `None` if there are none.
    pub fn look(directory: &Place) -> Result<Option<Vec<FoundRecord>>, Error> {
        let what = || directory.path().display().to_string();
        let name = Relative::new("directory", "records");
        let root = name.map_err(|source| Error::Reach { what: what(), source: source.into() })?;
        match directory.directory(&root, Mounts::Refuse) {
            Ok(root) => {
                let mut all = read_all(&root, finished_names)?;
                if let Some(pods) = find(&root, PODS)? {
                    all.extend(pod_file::look(&pods, &finished_names(&pods)?));
                }
                Ok(Some(all))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(Error::Reach { what: what(), source: error.into() }),
        }
    }

    /// All records, those that cannot be read too. What earlier processes did not finish is removed.
    pub fn all(&self) -> Result<Vec<FoundRecord>, Error> {
        let mut all = self.pods.all()?;
        let (earlier, others): (Vec<_>, Vec<_>) =
            read_all(&self.root, whole_file::swept_names)?.into_iter().partition(|(key, _)| in_pod(key).is_some());
        if !earlier.is_empty() {
            self.move_over(&mut all, earlier)?;
        }
        all.extend(others);
        Ok(all)
    }

    /// Brings records into the files of their pods that an earlier version has left beside each other. One that is there
    /// already was being moved when its process ended, and may have been written since.
    fn move_over(&self, all: &mut Vec<FoundRecord>, earlier: Vec<FoundRecord>) -> Result<(), Error> {
        let there: HashSet<Key> = all.iter().map(|(key, _)| key.clone()).collect();
        for (key, found) in earlier {
            let is_there = there.contains(&key);
            if let (Ok(record), Some(slot), false) = (&found, in_pod(&key), is_there) {
                self.write(&key, record, Survives::Crash)?;
                if let State::Leaving { with_pod, .. } = record.state {
                    self.pods.mark_leaving(slot, with_pod)?;
                }
            }
            whole_file::remove(&self.root, &reached_name(&key)?)?;
            if !is_there {
                all.push((key, found));
            }
        }
        Ok(())
    }
}

fn read_all(root: &Place, names: Names) -> Result<Vec<FoundRecord>, Error> {
    let mut all = Vec::new();
    for (directory, key) in [(ATTACHMENTS, Key::Attach as fn(VolumeId) -> Key), (STAGES, Key::Stage)] {
        let Some(directory) = find(root, directory)? else { continue };
        for name in names(&directory)? {
            match read(&directory, &name) {
                Ok(None) => {}
                Ok(Some((record, _))) => {
                    let key = key(record.spec.id.clone());
                    let found = check(&directory, &name, &key, &record).map(|()| record);
                    all.push((if found.is_ok() { key } else { unknown(&name) }, found));
                }
                Err(error) => all.push((unknown(&name), Err(error))),
            }
        }
    }
    for name in names(root)? {
        all.extend(read_publish(root, &name));
    }
    Ok(all)
}

/// The record of a publish that has this name; `None` if there is none, or if what is there is not ours.
fn read_publish(directory: &Place, name: &Name) -> Option<FoundRecord> {
    let slot = name::publish(name);
    if slot.is_none() && !name::is_number(name) {
        return None;
    }
    let found = match (read(directory, name).transpose(), &slot) {
        (Some(found), _) => found,
        // Its records are renamed into place, so windlass left none that is empty; and no directory tells of it, so nothing
        // else would take the file away.
        (None, Some(slot)) if plugin_trace(slot) == Some(Trace::Nothing) => {
            Err(damaged(directory, name, "it is empty".into()))
        }
        (None, _) => return None,
    };
    Some(match (found, slot) {
        (Ok((record, _)), Some(slot)) => {
            let key = Key::Publish(slot);
            let found = check(directory, name, &key, &record).map(|()| record);
            (key, found)
        }
        (Ok((record, pod)), None) => match Slot::of(&pod.as_deref().unwrap_or_default().into(), &record.spec) {
            Ok(slot) => {
                let key = Key::Publish(slot);
                match check(directory, name, &key, &record) {
                    Ok(()) => (key, Ok(record)),
                    Err(error) => (unknown(name), Err(error)),
                }
            }
            Err(error) => (unknown(name), Err(damaged(directory, name, error.to_string()))),
        },
        (Err(error), Some(slot)) => (Key::Publish(slot), Err(error)),
        (Err(error), None) => (unknown(name), Err(error)),
    })
}

/// A directory among the records; `None` if there is none.
fn find(root: &Place, name: &'static str) -> Result<Option<Place>, Error> {
    let reach = |source| Error::Reach { what: name.into(), source };
    let below = Relative::new("directory", name).map_err(|source| reach(source.into()))?;
    match root.directory(&below, Mounts::Refuse) {
        Ok(place) => Ok(Some(place)),
        // A file where a directory should be is not ours.
        Err(error) if error.is_missing() || error.errno() == Errno::NOTDIR => Ok(None),
        Err(error) => Err(reach(error.into())),
    }
}

/// What tells of such a volume; `None` if there is no such plugin.
fn plugin_trace(slot: &Slot) -> Option<Trace> {
    VolumeType::in_directory(slot.plugin.as_bytes()).map(|it| it.trace)
}

const ATTACHMENTS: &str = "attachments";
const STAGES: &str = "stages";
const PODS: &str = "pods";

/// The place in a pod, of a record that lies in its pod's file.
fn in_pod(key: &Key) -> Option<&Slot> {
    match key {
        Key::Publish(slot) if pod_file::holds(slot) => Some(slot),
        Key::Publish(_) | Key::Stage(_) | Key::Attach(_) => None,
    }
}

fn name_of(key: &Key) -> Result<Name, windlass_linux::name::Error> {
    match key {
        Key::Publish(slot) => name::of_publish(slot),
        Key::Stage(volume) | Key::Attach(volume) => name::of_volume(volume),
    }
}

fn reached_name(key: &Key) -> Result<Name, Error> {
    name_of(key).map_err(|source| Error::Reach { what: describe(key), source: source.into() })
}

/// A record with a number for a name that does not tell what it is about.
fn unknown(name: &Name) -> Key {
    Key::Stage(name.to_string().as_str().into())
}

/// Is a record about what its name says? One that is not would keep its pod waiting for a volume that it never had.
fn check(directory: &Place, name: &Name, key: &Key, record: &Record) -> Result<(), Error> {
    let spec = &record.spec;
    let is_about = match key {
        Key::Stage(volume) | Key::Attach(volume) => *volume == spec.id,
        Key::Publish(slot) => {
            let place = Slot::of(&slot.pod.to_string().as_str().into(), spec);
            place.as_ref() == Ok(slot) && is_called(spec, slot)
        }
    };
    if is_about && name_of(key).as_ref() == Ok(name) {
        return Ok(());
    }
    Err(damaged(directory, name, format!("it is about {}, which does not belong there", spec.id)))
}

/// Does the identity of a volume belong to its place (E-63, E-64)? What a driver calls it, the place does not tell.
fn is_called(spec: &VolumeSpec, slot: &Slot) -> bool {
    let Some(own) = spec.id.as_str().strip_prefix(spec.plugin.as_str()).and_then(|it| it.strip_prefix('/')) else {
        return false;
    };
    let inner = spec.inner_name.as_str();
    let of_pod = || own.strip_prefix(&slot.pod.to_string())?.strip_prefix('-')?.strip_prefix(inner);
    // A variant may follow.
    spec.driver.is_some() || own == inner || of_pod().is_some_and(|it| it.is_empty() || it.starts_with(':'))
}

/// A record, and the pod that stands in it if its name does not tell; `None` if there is none.
fn read(directory: &Place, name: &Name) -> Result<Option<(Record, Option<String>)>, Error> {
    let found = whole_file::read_marked(directory, name, BYTES_MAX)?;
    // An empty one was being created when its process ended, or is being created now.
    let Some(found) = found.filter(|it| !it.contents.is_empty()) else { return Ok(None) };
    let (record, pod) = text::parse(&found.contents).map_err(|reason| damaged(directory, name, reason))?;
    Ok(Some((
        match found.seal {
            Some(seal) => record.retired(seal),
            None => record,
        },
        pod,
    )))
}

fn damaged(directory: &Place, name: &Name, reason: String) -> Error {
    Error::Damaged { path: directory.path().join(name.as_path()), reason }
}

/// The name of a record, and what is in it.
fn text_of(key: &Key, record: &Record) -> Result<(Name, Vec<u8>), Error> {
    let name = reached_name(key)?;
    let pod = match key {
        Key::Publish(slot) if in_pod(key).is_none() && name::is_number(&name) => Some(&slot.pod),
        Key::Publish(_) | Key::Stage(_) | Key::Attach(_) => None,
    };
    let text = text::line(pod, record).map_err(|source| Error::Describe { what: describe(key), source })?;
    Ok((name, text))
}

fn describe(key: &Key) -> String {
    match key {
        Key::Publish(slot) => slot.path().display().to_string(),
        Key::Stage(volume) => format!("the stage of {volume}"),
        Key::Attach(volume) => format!("the attachment of {volume}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use windlass_core::operation::Proof;
    use windlass_core::spec::{Attach, Capabilities, Concurrency, Identity, Mode as VolumeMode, Refresh, Sharing};

    use super::*;
    use crate::plugin::VolumeForm;

    fn record(mode: VolumeMode) -> Record {
        let spec = VolumeSpec {
            id: "kubernetes.io/local-volume/disk".into(),
            plugin: "kubernetes.io/local-volume".into(),
            driver: Some("driver".into()),
            inner_name: "disk".into(),
            capabilities: Capabilities {
                attach: Attach::ByNode,
                refresh: Refresh::Every(Duration::from_secs(60)),
                identity: Identity::Shared,
                concurrency: Concurrency::PodsOverlap,
                ..Capabilities::default()
            },
            mode,
            sharing: Sharing::OnePod,
            group: Some("7".into()),
            size: windlass_core::expand::Size::default(),
        };
        let made = Made {
            proof: Proof { mount_id: u64::MAX, device: 1, root: u64::MAX - 1, kind: 3 },
            form: VolumeForm::Mount("/mounted/at".into()),
            path: "/given/out".into(),
            refresh_at: Some(UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
            lost_at: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
        };
        let state = State::Proven { boot: "boot".into(), made, revision: u64::MAX, epoch: 2 };
        let (label, title) = (Some("label".into()), Some("default/web".into()));
        Record { spec: Arc::new(spec), state, label, title, other: Map::new() }
    }

    fn publish(mode: VolumeMode) -> Key {
        Key::Publish(Slot::of(&"uid".into(), &record(mode).spec).unwrap())
    }

    fn stage() -> Key {
        Key::Stage("kubernetes.io/local-volume/disk".into())
    }

    fn opened() -> (tempfile::TempDir, Records) {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::open(&Place::root(directory.path()).unwrap()).unwrap();
        (directory, records)
    }

    #[test]
    fn a_record_reads_as_it_was_written() {
        let (_directory, records) = opened();
        let mut made = record(VolumeMode::Filesystem);
        assert_eq!(records.read(&stage()).unwrap(), None);
        records.write(&stage(), &made, Survives::PowerLoss).unwrap();
        assert_eq!(records.read(&stage()).unwrap().unwrap(), made);
        made.state = made.intent(&"boot".into());
        assert!(made.made_in(&"boot".into()).is_some() && made.made_in(&"another".into()).is_none());
        records.write(&stage(), &made, Survives::Crash).unwrap();
        assert_eq!(records.read(&stage()).unwrap().unwrap(), made);
        made.state = State::Intent { made: None };
        records.write(&stage(), &made, Survives::Crash).unwrap();
        assert_eq!(records.read(&stage()).unwrap().unwrap(), made);
        records.remove(&stage()).unwrap();
        records.remove(&stage()).unwrap();
        assert_eq!(records.read(&stage()).unwrap(), None);
    }

    #[test]
    fn all_records_are_found_and_a_damaged_one_is_told_apart() {
        let (directory, records) = opened();
        for key in [publish(VolumeMode::Filesystem), publish(VolumeMode::Block), stage()] {
            let mode = if key == publish(VolumeMode::Block) { VolumeMode::Block } else { VolumeMode::Filesystem };
            records.write(&key, &record(mode), Survives::Crash).unwrap();
        }
        let found = records.all().unwrap();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|(key, it)| records.read(key).unwrap().as_ref() == it.as_ref().ok()));
        let torn = directory.path().join("records/uid:volumes:kubernetes.io~local-volume:disk");
        let text = std::fs::read(&torn).unwrap();
        for length in [1, text.len() / 2, text.len() - 2] {
            std::fs::write(&torn, &text[..length]).unwrap();
            let found = records.all().unwrap();
            let damaged: Vec<_> = found.iter().filter(|(_, it)| matches!(it, Err(Error::Damaged { .. }))).collect();
            assert_eq!(damaged.len(), 1, "cut at {length}");
            assert_eq!(damaged[0].0, publish(VolumeMode::Filesystem));
        }
    }

    #[test]
    fn a_record_of_another_volume_than_its_name_says_is_damaged() {
        let (directory, records) = opened();
        let good = record(VolumeMode::Filesystem);
        let changed = |change: fn(&mut VolumeSpec)| {
            let mut record = good.clone();
            change(Arc::make_mut(&mut record.spec));
            record
        };
        let own = VolumeSpec { driver: None, ..VolumeSpec::clone(&good.spec) };
        for record in [
            changed(|it| (it.id, it.driver) = ("kubernetes.io/local-volume/other".into(), None)),
            changed(|it| (it.id, it.driver) = ("kubernetes.io/local-volume/other-disk".into(), None)),
            changed(|it| it.id = "kubernetes.io/empty-dir/disk".into()),
            changed(|it| it.inner_name = "other".into()),
            changed(|it| it.plugin = "kubernetes.io/empty-dir".into()),
            changed(|it| it.mode = VolumeMode::Block),
        ] {
            let text = text::line(None, &record).unwrap();
            std::fs::write(directory.path().join("records/uid:volumes:kubernetes.io~local-volume:disk"), text).unwrap();
            let damaged = |it: &Result<Record, Error>| matches!(it, Err(Error::Damaged { .. }));
            let read = records.read(&publish(VolumeMode::Filesystem)).map(Option::unwrap);
            assert!(damaged(&read), "{:?}", record.spec);
            assert!(matches!(records.all().unwrap().as_slice(), [(Key::Publish(_), it)] if damaged(it)));
            // It is written over, and removed, as if it were none.
            records.write(&publish(VolumeMode::Filesystem), &good, Survives::Crash).unwrap();
            assert_eq!(records.read(&publish(VolumeMode::Filesystem)).unwrap().as_ref(), Some(&good));
            records.remove(&publish(VolumeMode::Filesystem)).unwrap();
        }
        for id in ["disk", "uid-disk", "uid-disk:variant"].map(|it| format!("kubernetes.io/local-volume/{it}")) {
            let record =
                Record { spec: Arc::new(VolumeSpec { id: id.as_str().into(), ..own.clone() }), ..good.clone() };
            records.write(&publish(VolumeMode::Filesystem), &record, Survives::Crash).unwrap();
            assert_eq!(records.read(&publish(VolumeMode::Filesystem)).unwrap(), Some(record));
        }
    }

    /// I-11: what a process leaves that ended while it created a record.
    #[test]
    fn an_empty_record_is_none_and_is_written_over() {
        let (directory, records) = opened();
        let key = publish(VolumeMode::Filesystem);
        let made = record(VolumeMode::Filesystem);
        std::fs::write(directory.path().join("records/uid:volumes:kubernetes.io~local-volume:disk"), "").unwrap();
        assert_eq!(records.read(&key).unwrap(), None);
        assert_eq!(records.all().unwrap().len(), 0);
        // Of a path of the host nobody leaves one, and nothing else tells of it.
        std::fs::write(directory.path().join("records/uid:volumes:kubernetes.io~host-path:host"), "").unwrap();
        let found = records.all().unwrap();
        assert!(matches!(found.as_slice(), [(Key::Publish(_), Err(Error::Damaged { .. }))]), "{found:?}");
        assert!(records.begin(&key, &made, Survives::Crash).unwrap().is_none());
        records.write(&key, &made, Survives::Crash).unwrap();
        assert_eq!(records.read(&key).unwrap().as_ref(), Some(&made));
    }

    /// I-10: what a process or a machine leaves that ended while it added to a record.
    #[test]
    fn what_came_of_an_intent_counts_once_it_is_added_whole() {
        let (directory, records) = opened();
        let made = record(VolumeMode::Filesystem);
        let intent = Record { state: State::Intent { made: None }, ..made.clone() };
        let publish = (publish(VolumeMode::Filesystem), "uid:volumes:kubernetes.io~local-volume:disk".to_owned());
        let stage = (stage(), format!("stages/{}", name::of_volume(&made.spec.id).unwrap()));
        for (key, file) in [publish, stage] {
            let file = directory.path().join("records").join(file);
            let begun = records.begin(&key, &intent, Survives::PowerLoss).unwrap().unwrap();
            assert!(records.begin(&key, &made, Survives::Crash).unwrap().is_none(), "there is one");
            assert_eq!(records.read(&key).unwrap().as_ref(), Some(&intent));
            let before = std::fs::read(&file).unwrap().len();
            begun.add(&made).unwrap();
            assert_eq!(records.read(&key).unwrap().as_ref(), Some(&made));
            let whole = std::fs::read(&file).unwrap();
            for length in before..whole.len() {
                std::fs::write(&file, &whole[..length]).unwrap();
                assert_eq!(records.read(&key).unwrap().as_ref(), Some(&intent), "cut at {length}");
            }
            std::fs::write(&file, &whole).unwrap();
            records.retire(&key, false).unwrap();
            let was_made = made.made().map(|(boot, made)| (boot.clone(), made.clone()));
            let retired = Record { state: State::Leaving { made: was_made, with_pod: false }, ..made.clone() };
            assert_eq!(records.read(&key).unwrap().as_ref(), Some(&retired));
            records.remove(&key).unwrap();
        }
    }

    #[test]
    fn a_directory_of_records_that_somebody_removed_is_made_again() {
        let (directory, records) = opened();
        let made = record(VolumeMode::Filesystem);
        for _ in 0..2 {
            records.write(&stage(), &made, Survives::Crash).unwrap();
            assert_eq!(records.read(&stage()).unwrap().as_ref(), Some(&made));
            std::fs::remove_dir_all(directory.path().join("records/stages")).unwrap();
            assert_eq!(records.read(&stage()).unwrap(), None);
            records.retire(&stage(), false).unwrap();
            records.remove(&stage()).unwrap();
            assert!(records.begin(&stage(), &made, Survives::PowerLoss).unwrap().is_some());
            assert_eq!(records.all().unwrap().len(), 1);
        }
    }

    /// I-11: what a process leaves that ended while a volume was taken away.
    #[test]
    fn a_retired_record_proves_nothing_until_a_newer_one_is_written() {
        let (directory, records) = opened();
        let (key, made) = (publish(VolumeMode::Filesystem), record(VolumeMode::Filesystem));
        records.retire(&key, false).unwrap();
        let was_made = made.made().map(|(boot, made)| (boot.clone(), made.clone()));
        for with_pod in [false, true] {
            records.write(&key, &made, Survives::Crash).unwrap();
            assert!(matches!(records.all().unwrap().as_slice(), [(_, Ok(record))] if *record == made));
            records.retire(&key, with_pod).unwrap();
            let leaving = Record { state: State::Leaving { made: was_made.clone(), with_pod }, ..made.clone() };
            assert_eq!(records.read(&key).unwrap().as_ref(), Some(&leaving));
            let place = Place::root(directory.path()).unwrap();
            for found in [records.all().unwrap(), Records::look(&place).unwrap().unwrap()] {
                assert!(matches!(found.as_slice(), [(found, Ok(record))] if *found == key && *record == leaving));
            }
        }
        records.remove(&key).unwrap();
        assert_eq!(records.all().unwrap().len(), 0);
    }

    #[test]
    fn who_looks_leaves_what_another_process_is_writing() {
        let (directory, records) = opened();
        let place = Place::root(directory.path()).unwrap();
        records.write(&publish(VolumeMode::Block), &record(VolumeMode::Block), Survives::Crash).unwrap();
        let unfinished = directory.path().join("records/..new-1-0");
        std::fs::write(&unfinished, "half").unwrap();
        assert!(whole_file::is_unfinished(&Name::new("record", "..new-1-0").unwrap()), "the name is out of date");
        let found = Records::look(&place).unwrap().unwrap();
        assert_eq!(found.len(), 1);
        assert!(unfinished.exists());
        assert_eq!(records.all().unwrap().len(), 1);
        assert!(!unfinished.exists());
        let empty = tempfile::tempdir().unwrap();
        assert!(Records::look(&Place::root(empty.path()).unwrap()).unwrap().is_none());
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is made");
    }

    #[test]
    fn what_this_version_does_not_know_is_kept() {
        let (directory, records) = opened();
        records.write(&stage(), &record(VolumeMode::Filesystem), Survives::Crash).unwrap();
        let file = std::fs::read_dir(directory.path().join("records/stages")).unwrap().next().unwrap().unwrap().path();
        let mut value: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        value["from_the_future"] = serde_json::json!({"a": [1, 2]});
        value["version"] = 7.into();
        std::fs::write(&file, value.to_string()).unwrap();
        let read = records.read(&stage()).unwrap().unwrap();
        records.write(&stage(), &read, Survives::Crash).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(r#""from_the_future":{"a":[1,2]}"#), "{text}");
    }

    #[test]
    fn a_record_whose_name_would_be_too_long_is_found_too() {
        let (directory, records) = opened();
        let mut long = record(VolumeMode::Filesystem);
        let name = "x".repeat(Name::BYTES_MAX);
        let spec = Arc::make_mut(&mut long.spec);
        (spec.inner_name, spec.id) = (name.as_str().into(), format!("{}/{name}", spec.plugin).as_str().into());
        let key = Key::Publish(Slot::of(&"uid".into(), &long.spec).unwrap());
        records.write(&key, &long, Survives::Crash).unwrap();
        assert_eq!(records.read(&key).unwrap().as_ref(), Some(&long));
        std::fs::write(directory.path().join("records/foreign"), "not ours").unwrap();
        let found = records.all().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].0, found[0].1.as_ref().ok()), (&key, Some(&long)));
        records.remove(&key).unwrap();
        assert_eq!(records.all().unwrap().len(), 0);
    }
}
