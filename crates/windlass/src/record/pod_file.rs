//! The records of one pod's volumes in one file, of those volumes that have a directory in the pod.
//!
//! A file of its own for each volume costs more than the rest of most volumes. In a pod's file each record is a line that is
//! added; the last one of a volume counts. Two kinds of lines stand for what happens to a record: that its volume is being
//! taken away, and that it is gone. When the whole pod goes, a mark on the file says the first of all of them, and nobody says
//! the second: the file goes with the pod's directory.
//!
//! None of it need outlive the machine: the directories tell that there may be something, and what is proven is proven for one
//! boot. A process that ends in the middle of a line leaves what was there before it, and the next start writes the file
//! anew without the rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::flight::Trace;
use windlass_core::ids::PodUid;
use windlass_core::spec::Mode;
use windlass_linux::name::Name;
use windlass_linux::safe_path::Place;
use windlass_linux::whole_file::{self, Added, Seal, Survives};

use super::text::{self, Line, Mark, MarkWord};
use super::{Error, FoundRecord, Kept, Key, Record, is_called, plugin_trace, unknown};
use crate::layout::Slot;

/// No file of a pod is larger.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A file that has grown by as much is written anew, with the lines that count.
const GROWTH_MAX: usize = 64 * 1024;

/// Whether the record of a volume lies in its pod's file.
pub(super) fn holds(slot: &Slot) -> bool {
    plugin_trace(slot) == Some(Trace::Directory) && !whole_file::is_unfinished(&slot.pod)
}

/// The files of all pods.
#[derive(Debug)]
pub(super) struct PodFiles {
    root: Arc<Place>,
    kept: Kept,
    /// Of each pod that has a file, or for which something is being done.
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Files {
    by_pod: HashMap<Name, Arc<PodFile>>,
    /// All files were found: a pod that is not among them has none.
    are_known: bool,
}

/// Keeps a pod's file open while several things are done for the pod.
#[derive(Debug)]
pub(crate) struct Held {
    files: Arc<PodFiles>,
    pod: Name,
    file: Arc<PodFile>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.file.state();
        state.holders -= 1;
        if state.holders > 0 {
            return;
        }
        state.open = None;
        if state.there == There::Missing {
            drop(state);
            self.files.let_go(&self.pod, &self.file);
        }
    }
}

#[derive(Debug, Default)]
struct PodFile(Mutex<State>);

impl PodFile {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of a pod's file.
#[derive(Debug, Default)]
struct State {
    there: There,
    /// Open, to be added to.
    open: Option<Added>,
    holders: usize,
    /// What went with the pod, and is only in a file with a mark.
    forgotten: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum There {
    #[default]
    Unknown,
    Missing,
    File {
        seal: Option<Seal>,
        bytes: usize,
        /// When it was last written anew.
        bytes_then: usize,
    },
}

impl There {
    fn seal(self) -> Option<Seal> {
        match self {
            Self::File { seal, .. } => seal,
            Self::Unknown | Self::Missing => None,
        }
    }
}

impl PodFiles {
    pub(super) fn new(root: Arc<Place>) -> Self {
        Self { root, kept: Kept::new(super::PODS), files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, pod: &Name) -> Arc<PodFile> {
        let mut files = self.files();
        if let Some(file) = files.by_pod.get(pod) {
            return file.clone();
        }
        let there = if files.are_known { There::Missing } else { There::Unknown };
        let file = Arc::new(PodFile(Mutex::new(State { there, ..State::default() })));
        files.by_pod.insert(pod.clone(), file.clone());
        file
    }

    /// Forgets a pod that has no file, unless somebody else is about to make one.
    fn let_go(&self, pod: &Name, file: &Arc<PodFile>) {
        let mut files = self.files();
        // The map has it, and whoever asks.
        if Arc::strong_count(file) <= 2 && file.state().there == There::Missing {
            files.by_pod.remove(pod);
        }
    }

    /// Keeps a pod's file open until what is returned is dropped.
    pub(super) fn hold(self: &Arc<Self>, pod: &Name) -> Held {
        let file = self.file(pod);
        file.state().holders += 1;
        Held { files: self.clone(), pod: pod.clone(), file }
    }

    /// Does something with what is known of a pod's file.
    fn with<T>(&self, pod: &Name, work: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        let file = self.file(pod);
        let mut state = file.state();
        let result = self.see(pod, &mut state).and_then(|()| work(&mut state));
        if state.holders == 0 {
            state.open = None;
            if state.there == There::Missing {
                drop(state);
                self.let_go(pod, &file);
            }
        }
        result
    }

    /// Finds out whether there is a file, if nobody knows.
    fn see(&self, pod: &Name, state: &mut State) -> Result<(), Error> {
        if state.there == There::Unknown {
            state.there = self.find(pod)?.map_or(There::Missing, |it| it.there());
        }
        Ok(())
    }

    /// What is in a pod's file; `None` if there is none.
    fn find(&self, pod: &Name) -> Result<Option<Contents>, Error> {
        match self.kept.find(&self.root)? {
            Some(directory) => read(&directory, pod),
            None => Ok(None),
        }
    }

    /// Adds lines. What a death leaves meanwhile is the file as it was, and perhaps a part of a line.
    fn add(&self, pod: &Name, state: &mut State, line: &[u8]) -> Result<(), Error> {
        let there = if state.there.seal().is_some() { self.revive(pod, state)? } else { state.there };
        let (bytes, bytes_then) = match there {
            There::File { bytes, bytes_then, .. } => (bytes, bytes_then),
            There::Unknown | There::Missing => (0, 0),
        };
        if state.open.is_none() {
            state.open = Some(self.kept.within(&self.root, |it| Added::open(it, pod))?);
        }
        let Some(open) = &state.open else { return Ok(()) };
        if let Err(source) = open.add(line, bytes) {
            // What is open may be of a file that is not there any more.
            (state.open, state.there) = (None, There::Unknown);
            return Err(Error::Add { what: pod.to_string(), source });
        }
        let bytes = bytes + line.len();
        state.there = There::File { seal: None, bytes, bytes_then };
        if bytes - bytes_then > GROWTH_MAX.max(bytes_then) {
            // It is only larger than it need be if this fails.
            let _ = self.write_anew(pod, state);
        }
        Ok(())
    }

    /// Makes a pod's records again what they are for each volume, once the pod is not on its way out any more. What went with
    /// it is not among them.
    fn revive(&self, pod: &Name, state: &mut State) -> Result<There, Error> {
        if state.there.seal().is_some() {
            self.write_anew(pod, state)?;
        }
        Ok(state.there)
    }

    fn write_anew(&self, pod: &Name, state: &mut State) -> Result<(), Error> {
        let mut contents = self.find(pod)?.unwrap_or_default();
        contents.entries.retain(|it| !state.forgotten.contains(&it.slot));
        let text = contents.text();
        if text.is_empty() {
            return self.remove_file(pod, state);
        }
        self.kept.within(&self.root, |it| whole_file::write(it, pod, &text, Survives::Crash))?;
        (state.open, state.there) = (None, There::File { seal: None, bytes: text.len(), bytes_then: text.len() });
        state.forgotten.clear();
        Ok(())
    }

    fn remove_file(&self, pod: &Name, state: &mut State) -> Result<(), Error> {
        if state.there != There::Missing
            && let Some(directory) = self.kept.find(&self.root)?
        {
            whole_file::remove(&directory, pod)?;
        }
        (state.open, state.there) = (None, There::Missing);
        state.forgotten.clear();
        Ok(())
    }

    pub(super) fn write(&self, slot: &Slot, line: &[u8]) -> Result<(), Error> {
        self.with(&slot.pod, |state| self.add(&slot.pod, state, line))
    }

    pub(super) fn read(&self, slot: &Slot) -> Result<Option<Record>, Error> {
        self.with(&slot.pod, |state| {
            if state.there == There::Missing || state.forgotten.contains(slot) {
                return Ok(None);
            }
            let contents = self.find(&slot.pod)?.unwrap_or_default();
            Ok(contents.found().into_iter().find(|(it, _)| it == slot).map(|(_, record)| record))
        })
    }

    pub(super) fn remove(&self, slot: &Slot) -> Result<(), Error> {
        self.with(&slot.pod, |state| match state.there {
            There::Unknown | There::Missing => Ok(()),
            // Whoever finds it once more finds nothing to take away, and the file goes with the pod.
            There::File { seal: Some(Seal::Strong), .. } => {
                state.forgotten.push(slot.clone());
                Ok(())
            }
            There::File { .. } => {
                let contents = self.find(&slot.pod)?.unwrap_or_default();
                match contents.entries.iter().all(|it| it.slot == *slot) {
                    true => self.remove_file(&slot.pod, state),
                    false => self.add(&slot.pod, state, &text::mark(&Mark::of(MarkWord::Gone, slot))),
                }
            }
        })
    }

    /// The volume of this record was being taken away when its record came here.
    pub(super) fn mark_leaving(&self, slot: &Slot, with_pod: bool) -> Result<(), Error> {
        let word = if with_pod { MarkWord::LeavingWithPod } else { MarkWord::Leaving };
        self.with(&slot.pod, |state| self.add(&slot.pod, state, &text::mark(&Mark::of(word, slot))))
    }

    pub(super) fn retire(&self, slot: &Slot, with_pod: bool) -> Result<(), Error> {
        self.with(&slot.pod, |state| match &mut state.there {
            There::Unknown | There::Missing | There::File { seal: Some(Seal::Strong), .. } => Ok(()),
            There::File { seal, .. } if with_pod => {
                if let Some(directory) = self.kept.find(&self.root)? {
                    whole_file::seal(&directory, &slot.pod, Seal::Strong)?;
                }
                *seal = Some(Seal::Strong);
                Ok(())
            }
            There::File { .. } => self.add(&slot.pod, state, &text::mark(&Mark::of(MarkWord::Leaving, slot))),
        })
    }

    /// The pod is back, or new: no mark of an earlier time counts for what is made from now on.
    pub(super) fn expect(&self, pod: &Name) -> Result<(), Error> {
        self.with(pod, |state| self.revive(pod, state).map(drop))
    }

    /// Nothing of the pod is left.
    pub(super) fn remove_pod(&self, pod: &Name) -> Result<(), Error> {
        self.with(pod, |state| self.remove_file(pod, state))
    }

    /// All records, those that cannot be read too. Files that an end of a process left torn are written anew.
    pub(super) fn all(&self) -> Result<Vec<FoundRecord>, Error> {
        let Some(directory) = self.kept.find(&self.root)? else {
            self.files().are_known = true;
            return Ok(Vec::new());
        };
        let names = whole_file::swept_names(&directory)?;
        let mut all = Vec::with_capacity(4 * names.len());
        for (pod, found) in read_side_by_side(&directory, &names) {
            match found {
                Ok(Some(contents)) => {
                    let file = self.file(&pod);
                    let mut state = file.state();
                    state.there = contents.there();
                    let mend = match (&contents.entries[..], contents.is_torn()) {
                        ([], _) => self.remove_file(&pod, &mut state),
                        (_, true) => self.write_anew(&pod, &mut state),
                        (_, false) => Ok(()),
                    };
                    all.extend(mend.err().map(|error| (unknown(&pod), Err(error))));
                    all.extend(contents.all(&directory, &pod));
                }
                Ok(None) => {}
                Err(error) => {
                    // There is one, whatever is in it: it is not to be taken for none.
                    self.file(&pod).state().there = There::Unknown;
                    all.push((unknown(&pod), Err(error)));
                }
            }
        }
        self.files().are_known = true;
        Ok(all)
    }
}

/// All records in a directory of pods' files, for somebody who only looks.
pub(super) fn look(directory: &Place, names: &[Name]) -> Vec<FoundRecord> {
    let mut all = Vec::new();
    for (pod, found) in read_side_by_side(directory, names) {
        match found {
            Ok(Some(contents)) => all.extend(contents.all(directory, &pod)),
            Ok(None) => {}
            Err(error) => all.push((unknown(&pod), Err(error))),
        }
    }
    all
}

type Found = (Name, Result<Option<Contents>, Error>);

/// Reads files on two threads if they are many: a start waits for all of them.
fn read_side_by_side(directory: &Place, names: &[Name]) -> Vec<Found> {
    const MANY: usize = 64;
    let read = |names: &[Name]| -> Vec<Found> { names.iter().map(|pod| (pod.clone(), read(directory, pod))).collect() };
    if names.len() < MANY {
        return read(names);
    }
    let (one, other) = names.split_at(names.len() / 2);
    std::thread::scope(|scope| {
        let beside = std::thread::Builder::new().name("windlass-start".into()).spawn_scoped(scope, || read(other));
        let mut all = read(one);
        all.extend(match beside {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => read(other),
        });
        all
    })
}

/// What is in a pod's file.
#[derive(Default)]
struct Contents {
    /// In the order in which their volumes came.
    entries: Vec<Entry>,
    seal: Option<Seal>,
    bytes: usize,
    /// What is wrong with lines of it.
    wrong: Vec<String>,
    /// The last line has no end.
    is_cut: bool,
}

struct Entry {
    slot: Slot,
    record: Record,
    /// As it stands in the file, with what this version does not know.
    line: Vec<u8>,
    /// It is being taken away.
    leaving: Option<Seal>,
}

fn read(directory: &Place, pod: &Name) -> Result<Option<Contents>, Error> {
    let found = whole_file::read_marked(directory, pod, BYTES_MAX)?;
    Ok(found.map(|it| Contents::parse(pod, &it.contents, it.seal)))
}

impl Contents {
    fn parse(pod: &Name, text: &[u8], seal: Option<Seal>) -> Self {
        let is_cut = text.last().is_some_and(|it| *it != b'\n');
        let mut contents = Self { seal, bytes: text.len(), is_cut, ..Self::default() };
        let mut lines = text.split_inclusive(|it| *it == b'\n');
        if is_cut {
            lines.next_back();
        }
        for line in lines {
            let wrong = contents.take(pod, line).err();
            contents.wrong.extend(wrong);
        }
        // A process that ends while it adds a line leaves others before it, or none of it.
        if is_cut && contents.entries.is_empty() {
            contents.wrong.push("it has no line that is whole".into());
        }
        contents
    }

    fn take(&mut self, pod: &Name, line: &[u8]) -> Result<(), String> {
        match text::parse_line(line)? {
            Line::Record(record) => {
                let uid = PodUid::from(pod.to_string().as_str());
                let slot = Slot::of(&uid, &record.spec).map_err(|error| error.to_string())?;
                if slot.pod != *pod || !is_called(&record.spec, &slot) {
                    return Err(format!("a line is about {}, which does not belong there", record.spec.id));
                }
                let entry = Entry { slot, record, line: line.into(), leaving: None };
                match self.entries.iter_mut().find(|it| it.slot == entry.slot) {
                    Some(before) => *before = entry,
                    None => self.entries.push(entry),
                }
            }
            Line::Mark(mark) => {
                let position = self.entries.iter().position(|it| mark.is_about(&it.slot));
                match (position, mark.word) {
                    (Some(position), MarkWord::Gone) => drop(self.entries.remove(position)),
                    (Some(position), MarkWord::Leaving) => self.entries[position].leaving = Some(Seal::Plain),
                    (Some(position), MarkWord::LeavingWithPod) => self.entries[position].leaving = Some(Seal::Strong),
                    (None, _) => {}
                }
            }
        }
        Ok(())
    }

    fn there(&self) -> There {
        There::File { seal: self.seal, bytes: self.bytes, bytes_then: self.bytes }
    }

    /// Whether something in it is not a whole line.
    fn is_torn(&self) -> bool {
        self.is_cut || !self.wrong.is_empty()
    }

    /// The file without what does not count.
    fn text(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.bytes);
        for entry in &self.entries {
            text.extend_from_slice(&entry.line);
            let word = match self.seal.or(entry.leaving) {
                None => continue,
                Some(Seal::Plain) => MarkWord::Leaving,
                Some(Seal::Strong) => MarkWord::LeavingWithPod,
            };
            text.extend(text::mark(&Mark::of(word, &entry.slot)));
        }
        text
    }

    fn found(self) -> Vec<(Slot, Record)> {
        let seal = self.seal;
        let entries = self.entries.into_iter().map(|Entry { slot, record, leaving, .. }| match seal.or(leaving) {
            Some(seal) => (slot, record.retired(seal)),
            None => (slot, record),
        });
        entries.collect()
    }

    fn all(mut self, directory: &Place, pod: &Name) -> Vec<FoundRecord> {
        let path = || directory.path().join(pod.as_path());
        let wrong = std::mem::take(&mut self.wrong).into_iter();
        let wrong = wrong.map(|reason| (unknown(pod), Err(Error::Line { path: path(), reason })));
        let found = self.found().into_iter().map(|(slot, record)| (Key::Publish(slot), Ok(record)));
        wrong.chain(found).collect()
    }
}

impl<'a> Mark<'a> {
    fn of(word: MarkWord, slot: &'a Slot) -> Self {
        let text = |it: &'a Name| String::from_utf8_lossy(it.as_bytes());
        Self { word, plugin: text(&slot.plugin), name: text(&slot.name), block: slot.mode == Mode::Block }
    }

    fn is_about(&self, slot: &Slot) -> bool {
        self.plugin.as_bytes() == slot.plugin.as_bytes()
            && self.name.as_bytes() == slot.name.as_bytes()
            && self.block == (slot.mode == Mode::Block)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use windlass_core::operation::Proof;
    use windlass_core::spec::{Capabilities, Sharing, VolumeSpec};

    use super::*;
    use crate::plugin::{Made, VolumeForm};
    use crate::record::{Records, State};

    fn key(name: &str) -> Key {
        Key::Publish(Slot::of(&"uid".into(), &record(name, 0).spec).unwrap())
    }

    /// Proven, with content of this revision.
    fn record(name: &str, revision: u64) -> Record {
        let spec = VolumeSpec {
            id: format!("kubernetes.io/empty-dir/uid-{name}").as_str().into(),
            plugin: "kubernetes.io/empty-dir".into(),
            driver: None,
            inner_name: name.into(),
            capabilities: Capabilities::default(),
            mode: Mode::Filesystem,
            sharing: Sharing::Shared,
            group: None,
            size: windlass_core::expand::Size::default(),
        };
        let proof = Proof { mount_id: 1, device: 2, root: 3, kind: 4 };
        let (form, path) = (VolumeForm::Directory, PathBuf::from("/given/out"));
        let made = Made { proof, form, path, refresh_at: None, lost_at: None };
        let state = State::Proven { boot: "boot".into(), made, revision, epoch: 0 };
        Record { spec: Arc::new(spec), state, label: None, title: None, other: serde_json::Map::new() }
    }

    fn opened() -> (tempfile::TempDir, Records) {
        let directory = tempfile::tempdir().unwrap();
        let records = again(&directory);
        (directory, records)
    }

    /// As the next process finds them.
    fn again(directory: &tempfile::TempDir) -> Records {
        Records::open(&Place::root(directory.path()).unwrap()).unwrap()
    }

    fn file(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("records/pods/uid")
    }

    fn write(records: &Records, name: &str, revision: u64) {
        records.write(&key(name), &record(name, revision), Survives::Crash).unwrap();
    }

    /// The volumes that are recorded, each with its revision if it is proven, or with how it leaves.
    fn found(records: &Records) -> Vec<String> {
        let mut all: Vec<String> = records.all().unwrap().into_iter().map(|(_, found)| told(found)).collect();
        all.sort();
        all
    }

    fn told(found: Result<Record, Error>) -> String {
        match found.map(|it| (it.spec.inner_name.to_string(), it.state)) {
            Ok((name, State::Proven { revision, .. })) => format!("{name} {revision}"),
            Ok((name, State::Leaving { with_pod: true, .. })) => format!("{name} leaves with its pod"),
            Ok((name, State::Leaving { .. })) => format!("{name} leaves"),
            Ok((name, other)) => format!("{name} {other:?}"),
            Err(error) => format!("! {error}"),
        }
    }

    #[test]
    fn the_last_line_of_a_volume_counts_and_all_volumes_of_a_pod_have_one_file() {
        let (directory, records) = opened();
        let _open = records.hold(&Name::new("pod", "uid").unwrap());
        for (name, revision) in [("a", 1), ("b", 1), ("a", 2)] {
            write(&records, name, revision);
        }
        assert_eq!(records.read(&key("a")).unwrap(), Some(record("a", 2)));
        assert_eq!(records.read(&key("c")).unwrap(), None);
        for records in [&records, &again(&directory)] {
            assert_eq!(found(records), ["a 2", "b 1"]);
        }
        assert_eq!(std::fs::read_dir(directory.path().join("records/pods")).unwrap().count(), 1);
        let looked = Records::look(&Place::root(directory.path()).unwrap()).unwrap().unwrap();
        assert_eq!(looked.len(), 2);
    }

    #[test]
    fn a_volume_that_leaves_or_is_gone_is_told_from_those_that_stay() {
        let (directory, records) = opened();
        ["a", "b", "c"].iter().for_each(|it| write(&records, it, 1));
        records.retire(&key("a"), false).unwrap();
        records.retire(&key("b"), false).unwrap();
        records.remove(&key("b")).unwrap();
        assert_eq!(found(&again(&directory)), ["a leaves", "c 1"]);
        write(&records, "a", 2);
        write(&records, "b", 3);
        assert_eq!(found(&again(&directory)), ["a 2", "b 3", "c 1"]);
        for name in ["a", "b", "c"] {
            records.remove(&key(name)).unwrap();
        }
        assert!(!file(&directory).exists(), "nothing is left to tell of");
        records.remove(&key("a")).unwrap();
        records.retire(&key("a"), true).unwrap();
        assert!(!file(&directory).exists());
    }

    /// I-11: of a pod that comes back while it goes, what is made anew is proven, and the rest still leaves.
    #[test]
    fn a_pod_that_goes_marks_all_and_one_that_is_back_has_what_is_made_for_it() {
        let (directory, records) = opened();
        ["a", "b", "c"].iter().for_each(|it| write(&records, it, 1));
        records.retire(&key("a"), true).unwrap();
        records.remove(&key("a")).unwrap();
        assert_eq!(records.read(&key("a")).unwrap(), None, "it is gone");
        let all_leave = ["a leaves with its pod", "b leaves with its pod", "c leaves with its pod"];
        assert_eq!(found(&again(&directory)), all_leave, "a process that ends now looks once more");
        records.expect_pod(&Name::new("pod", "uid").unwrap()).unwrap();
        assert_eq!(found(&again(&directory)), ["b leaves with its pod", "c leaves with its pod"]);
        write(&records, "a", 2);
        assert_eq!(found(&again(&directory)), ["a 2", "b leaves with its pod", "c leaves with its pod"]);
        records.retire(&key("b"), true).unwrap();
        write(&records, "c", 5);
        assert_eq!(found(&again(&directory)), ["a leaves with its pod", "b leaves with its pod", "c 5"]);
        records.remove_pod(&Name::new("pod", "uid").unwrap()).unwrap();
        assert!(!file(&directory).exists());
        write(&records, "a", 7);
        assert_eq!(found(&again(&directory)), ["a 7"]);
    }

    /// I-10: whatever a process or a machine leaves that ends while it adds a line.
    #[test]
    fn a_file_that_is_cut_anywhere_loses_no_line_that_was_whole() {
        let (directory, records) = opened();
        let mut lengths = Vec::new();
        for (name, revision) in [("a", 1), ("b", 1), ("a", 2)] {
            write(&records, name, revision);
            lengths.push(std::fs::metadata(file(&directory)).unwrap().len() as usize);
        }
        let whole = std::fs::read(file(&directory)).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(file(&directory), &whole[..cut]).unwrap();
            let lines = lengths.iter().filter(|it| **it <= cut).count();
            let expected: &[&str] = [&[][..], &["a 1"], &["a 1", "b 1"], &["a 2", "b 1"]][lines];
            let records = again(&directory);
            let seen: Vec<String> = found(&records).into_iter().filter(|it| !it.starts_with('!')).collect();
            assert_eq!(seen, expected, "cut at {cut}");
            // From then on there is nothing wrong with it, and what is added counts.
            assert_eq!(found(&again(&directory)), expected, "cut at {cut}");
            write(&records, "c", 9);
            assert_eq!(found(&again(&directory)).len(), expected.len() + 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_that_makes_no_sense_is_told_once_and_hides_no_other() {
        let (directory, records) = opened();
        let other = |text: &str| text.replace("uid-a", "other-a");
        for damage in
            ["nonsense\n", "{}\n", "{\"mark\":1}\n", "\n", &other(std::str::from_utf8(&line("a", 1)).unwrap())]
        {
            write(&records, "a", 1);
            write(&records, "b", 1);
            let good = std::fs::read_to_string(file(&directory)).unwrap();
            std::fs::write(file(&directory), [damage, &good].concat()).unwrap();
            let seen = found(&again(&directory));
            assert!(matches!(&seen[..], [wrong, _, _] if wrong.starts_with("! the record ")), "{damage:?}: {seen:?}");
            assert_eq!(found(&again(&directory)), ["a 1", "b 1"]);
            std::fs::remove_file(file(&directory)).unwrap();
        }
    }

    fn line(name: &str, revision: u64) -> Vec<u8> {
        text::line(None, &record(name, revision)).unwrap()
    }

    #[test]
    fn a_file_that_is_added_to_again_and_again_stays_small() {
        let (directory, records) = opened();
        write(&records, "b", 1);
        for revision in 0..1000 {
            write(&records, "a", revision);
        }
        assert!(std::fs::metadata(file(&directory)).unwrap().len() < 3 * GROWTH_MAX as u64);
        assert_eq!(found(&again(&directory)), ["a 999", "b 1"]);
    }

    /// What this version does not know is kept, also when the file is written anew.
    #[test]
    fn records_of_earlier_versions_are_moved_over() {
        let (directory, _) = opened();
        let old = |name: &str| directory.path().join(format!("records/uid:volumes:kubernetes.io~empty-dir:{name}"));
        let with_more = String::from_utf8(line("a", 1)).unwrap().replacen('{', "{\"more\":[1],", 1);
        std::fs::write(old("a"), with_more).unwrap();
        std::fs::write(old("b"), line("b", 2)).unwrap();
        std::fs::write(old("c"), line("c", 3)).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(old("b"), std::fs::Permissions::from_mode(0o500)).unwrap();
        std::fs::set_permissions(old("c"), std::fs::Permissions::from_mode(0o400)).unwrap();
        let expected = ["a 1", "b leaves with its pod", "c leaves"];
        assert_eq!(found(&again(&directory)), expected);
        assert!(["a", "b", "c"].iter().all(|it| !old(it).exists()));
        // One that was ended meanwhile left both: what is in the pod's file counts.
        std::fs::write(old("a"), line("a", 9)).unwrap();
        assert_eq!(found(&again(&directory)), expected);
        assert!(!old("a").exists());
        assert!(std::fs::read_to_string(file(&directory)).unwrap().contains("\"more\":[1]"));
    }
}
