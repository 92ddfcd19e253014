//! A directory of manifests as a source of pods and objects.
//!
//! Read are files whose names end in `.yaml`, `.yml` or `.json`, in the directory and in those below it; names that begin
//! with a dot, and those that editors give to their temporary files, are passed over. A link to a file is read where it
//! leads, so a directory that Kubernetes itself keeps current (`..data`) works; links to directories are not followed,
//! except that the directory itself may be one. Changes are told by the kernel, and what a file amounts to is decided in
//! `ledger.rs`.
//!
//! A manifest that vanishes takes effect after a moment ([`Config::removal_delay`]): editors and `git` move the old file away before they make the new
//! one, and between the two nothing must be unmounted (I-1). If the directory itself vanishes or cannot be read, all of
//! it is unknown and stays in force. On a network file system the kernel tells only of what this machine changes;
//! [`Directory::reread`] is for the rest.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use tokio::sync::watch;
use windlass_core::ids::PodUid;
use windlass_linux::watched_files::{self, Change, Choice, Handle, Trouble, WatchedFiles};

use super::ledger::{self, Give, Ledger};
use crate::{
    Node,
    view::{Problem, Severity},
};

/// A manifest that is larger is not read: an object has at most 1 MiB in an API server, and nobody writes eight of them.
const BYTES_MAX: u64 = 8 << 20;
/// Longer than anybody has reason to wait, and short enough to be added to any time.
const REMOVAL_DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How a directory is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How long what no manifest says any more stays in force before that is believed; a day at most. Editors and `git`
    /// move the old file away before they make the new one, and by default this is longer than that takes: 200 ms. With
    /// zero a pod is gone at once, also if its manifest is only being replaced.
    pub removal_delay: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { removal_delay: Duration::from_millis(200) }
    }
}

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
        source: Trouble,
    },
    /// It cannot be watched.
    #[error("watch manifests in {}", path.display())]
    Watch {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: watched_files::Error,
    },
    /// It changes all the time.
    #[error("the manifests in {} change faster than they can be read; find out who moves them around", path.display())]
    Restless {
        /// The directory.
        path: PathBuf,
    },
    /// There cannot be another thread.
    #[error("start a thread that watches manifests")]
    Thread(#[source] io::Error),
}

/// What the directory gives at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// How many files there are, also such as cannot be read.
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

impl Summary {
    /// How many problems there are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|it| it.severity == severity).count()
    }

    pub(super) fn add_pod(&mut self, name: &str, uid: &PodUid) {
        if let Err(index) = self.find_pod(name, uid) {
            self.pods.insert(index, (name.into(), uid.clone()));
        }
    }

    pub(super) fn drop_pod(&mut self, name: &str, uid: &PodUid) {
        if let Ok(index) = self.find_pod(name, uid) {
            self.pods.remove(index);
        }
    }

    fn find_pod(&self, name: &str, uid: &PodUid) -> Result<usize, usize> {
        self.pods.binary_search_by(|(other, pod)| (other.as_str(), pod).cmp(&(name, uid)))
    }
}

/// Who is given what is in force.
type Sink = Box<dyn FnMut(Give) + Send>;

/// Watches a directory of manifests and gives a node what is in it. The watch ends when this is dropped.
pub struct Directory {
    summary: watch::Receiver<Summary>,
    handle: Arc<Handle>,
    /// Empty once nothing is to be given any more.
    sink: Arc<Mutex<Option<Sink>>>,
}

impl Directory {
    /// Reads the directory, gives everything to the node, and goes on watching. A pod that names another node is not given.
    ///
    /// This blocks for as long as reading takes. Afterwards a thread of its own does the reading, so a file system that
    /// hangs keeps nobody else waiting (I-6).
    pub fn watch(path: &Path, node: &Node) -> Result<Self, Error> {
        Self::watch_with(path, node, Config::default())
    }

    /// As [`Directory::watch`], in another way than the usual.
    pub fn watch_with(path: &Path, node: &Node, config: Config) -> Result<Self, Error> {
        Self::read(path, node.name(), config)?.watch(node)
    }

    /// Reads the directory for a node of this name, which need not have started yet.
    pub fn read(path: &Path, node: &str, config: Config) -> Result<Found, Error> {
        Found::read(path, Some(node), config)
    }

    /// What the directory gives, now and whenever that changes.
    pub fn summary(&self) -> watch::Receiver<Summary> {
        self.summary.clone()
    }

    /// Reads everything once more.
    pub fn reread(&self) {
        self.handle.reread();
    }
}

/// What was found in a directory of manifests, before it is given to a node.
pub struct Found {
    files: WatchedFiles,
    ledger: Ledger,
    grace: Duration,
}

impl Found {
    fn read(path: &Path, node: Option<&str>, config: Config) -> Result<Self, Error> {
        let grace = config.removal_delay.min(REMOVAL_DELAY_MAX);
        let failed = |source| Error::Watch { path: path.into(), source };
        let mut files = WatchedFiles::begin(path, choice(grace)).map_err(failed)?;
        // A manifest that was moved while directories were read would seem to be in none, and its pod to be gone (I-1).
        let first = files.at_once().map_err(failed)?.ok_or_else(|| Error::Restless { path: path.into() })?;
        let mut ledger = Ledger::new(path, node);
        take(&mut ledger, readable(path, first)?);
        Ok(Self { files, ledger, grace })
    }

    /// Gives everything to the node, and goes on watching.
    pub fn watch(self, node: &Node) -> Result<Directory, Error> {
        let node = node.clone();
        self.give(Box::new(move |give| match give {
            Give::Object(object) => node.update_object(object),
            // It was validated by the same rules by which the node takes it.
            Give::Pod(pod, packed) => _ = node.add_packed(pod, packed),
            Give::PodGone(uid) | Give::PodReplaced(uid) => node.remove_pod(&uid),
            Give::ObjectGone(reference) => node.remove_object(&reference),
            Give::Complete => node.complete(),
        }))
    }

    fn give(self, sink: Sink) -> Result<Directory, Error> {
        let Self { files, ledger, grace } = self;
        let sink = Arc::new(Mutex::new(Some(sink)));
        let mut reader =
            Reader { ledger, summary: watch::Sender::default(), sink: sink.clone(), grace, leaving: Vec::new() };
        reader.take(Vec::new(), files.as_of());
        let (summary, handle) = (reader.summary.subscribe(), files.handle());
        let thread = std::thread::Builder::new().name("windlass-source".into());
        thread.spawn(move || reader.run(files)).map_err(Error::Thread)?;
        Ok(Directory { summary, handle, sink })
    }
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("as_of", &self.files.as_of()).finish_non_exhaustive()
    }
}

impl Drop for Directory {
    /// Nothing is given after this. The thread ends by itself: it may hang in a file system, and is not waited for (I-6).
    fn drop(&mut self) {
        self.handle.end();
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("summary", &*self.summary.borrow()).finish_non_exhaustive()
    }
}

/// What a directory or a single file would give, with everything that is wrong with it, also as a whole: the same as
/// [`Directory`] finds, without a node and without going on.
pub fn check(path: &Path) -> Result<Summary, Error> {
    let failed = |source| Error::Unreadable { path: path.into(), source };
    let mut summary = Summary::default();
    let status = std::fs::metadata(path).map_err(|error| failed(Trouble::Unreadable(error)))?;
    let changes = if status.is_dir() {
        let changes = WatchedFiles::once(path, choice(Duration::ZERO))
            .map_err(|source| Error::Watch { path: path.into(), source })?;
        readable(path, changes)?
    } else {
        // It is asked for by name, so its name does not matter.
        let bytes = watched_files::read(path, BYTES_MAX).map_err(failed)?;
        vec![Change::Content { path: PathBuf::new(), bytes }]
    };
    let mut ledger = Ledger::new(path, None);
    take(&mut ledger, changes);
    ledger.settle(&mut summary);
    summary.problems.extend(ledger.unmet());
    ledger::sort(&mut summary.problems);
    Ok(summary)
}

/// All that was found, if the directory could be read.
fn readable(path: &Path, changes: Vec<Change>) -> Result<Vec<Change>, Error> {
    let (mut found, mut trouble) = (Vec::with_capacity(changes.len()), None);
    for change in changes {
        match change {
            Change::Unreadable { path, trouble: why @ Trouble::Unreadable(_) } if path.as_os_str().is_empty() => {
                trouble = Some(why);
            }
            other => found.push(other),
        }
    }
    trouble.map_or(Ok(found), |source| Err(Error::Unreadable { path: path.into(), source }))
}

fn take(ledger: &mut Ledger, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Content { path, bytes } => ledger.content(&path, &bytes),
            Change::Gone { path, .. } => ledger.gone(&path),
            Change::Unreadable { path, trouble } => ledger.unreadable(&path, &trouble.to_string()),
        }
    }
}

/// Carries what the files say to the node.
struct Reader {
    ledger: Ledger,
    summary: watch::Sender<Summary>,
    sink: Arc<Mutex<Option<Sink>>>,
    grace: Duration,
    /// What no file says any more, and when that is believed: it may be on its way from one file to another.
    leaving: Vec<(Instant, Give)>,
}

impl Reader {
    fn run(mut self, mut files: WatchedFiles) {
        loop {
            // While there is a file of which nothing is known, anything may be in it (I-1).
            let until = self.leaving.iter().map(|(at, _)| *at).min().filter(|_| self.ledger.is_whole());
            match files.changes(until) {
                Ok(Some(changes)) => self.take(changes, files.as_of()),
                Ok(None) => return,
                Err(error) => {
                    let why = format!("its changes are not noticed any more, start again: {error}");
                    self.ledger.unreadable(Path::new(""), &why);
                    return self.take(Vec::new(), files.as_of());
                }
            }
        }
    }

    /// Takes in what is new about files, and passes on what that amounts to.
    fn take(&mut self, changes: Vec<Change>, as_of: SystemTime) {
        let now = Instant::now();
        // Files that have been missed for long enough are the last: what is in none of the others is believed to be gone.
        let is_over = |it: &Change| matches!(it, Change::Gone { since, .. } if *since + self.grace <= now);
        let (missed, changes): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(is_over);
        let sink = self.sink.clone();
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sink) = &mut *sink else { return take(&mut self.ledger, changes) };
        let Self { ledger, summary, leaving, grace, .. } = self;
        summary.send_if_modified(|summary| {
            let mut changed = false;
            for (changes, believed) in [(changes, now + *grace), (missed, now)] {
                take(ledger, changes);
                // Until it is complete the node takes nothing away, and says so.
                let was_complete = summary.complete;
                let (gives, settled) = ledger.settle(summary);
                changed |= settled;
                // Before anybody sees the summary, so that whoever does finds the node to have what it says.
                for give in gives {
                    match give {
                        Give::PodGone(_) | Give::ObjectGone(_) if was_complete => leaving.push((believed, give)),
                        _ => {
                            leaving.retain(|(_, it)| !it.is_undone_by(&give));
                            sink(give);
                        }
                    }
                }
            }
            if ledger.is_whole() {
                for (_, give) in leaving.extract_if(.., |(at, _)| *at <= now) {
                    sink(give);
                }
            }
            summary.as_of = Timestamp::try_from(as_of).unwrap_or(summary.as_of);
            changed
        });
    }
}

fn choice(grace: Duration) -> Choice {
    Choice { file: is_manifest, directory: |it| !is_passed_over(it), bytes_max: BYTES_MAX, grace }
}

fn is_manifest(name: &OsStr) -> bool {
    let name_bytes = name.as_encoded_bytes();
    !is_passed_over(name) && [&b".yaml"[..], b".yml", b".json"].iter().any(|it| name_bytes.ends_with(it))
}

/// Hidden names, which Kubernetes' own `..data` is one of, and what editors leave while they save.
fn is_passed_over(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let temporary = name.starts_with(b"#") && name.ends_with(b"#");
    // Vim tries whether it can write a directory by making a file of this name.
    name.starts_with(b".")
        || temporary
        || name == b"4913"
        || [&b"~"[..], b".swp", b".tmp"].iter().any(|it| name.ends_with(it))
}

#[cfg(test)]
mod tests;
