//! A directory of manifests as a source of pods and objects.
//!
//! Read are files whose names end in `.yaml`, `.yml` or `.json`, in the directory and in those below it; names that begin
//! with a dot, and those that editors give to their temporary files, are passed over; of names that only have capitals in
//! their ends (`.YAML`) it is said that they are. A link to a file is read where it
//! leads, so a directory that Kubernetes itself keeps current (`..data`) works; links to directories are not followed,
//! except that the directory itself may be one. Changes are told by the kernel, and what a file amounts to is decided in
//! `ledger.rs`.
//!
//! A manifest that vanishes takes effect after a moment ([`Config::removal_delay`]): editors and `git` move the old file away before they make the new
//! one, and between the two nothing must be unmounted (I-1). If the directory itself vanishes, cannot be read or is another
//! than the one that was read (because something was mounted or unmounted there, above all), the source is lost: what it
//! gave stays in force. When the directory is back everything is given again, and once what waits to go has gone or is held,
//! the source is complete. On a network file system the kernel tells only of what this machine changes;
//! [`Directory::reread`] is for the rest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::num::NonZero;
use std::ops::Deref;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use windlass_core::event::{Containers, Hold};
use windlass_core::ids::PodUid;
use windlass_core::reason::Code;
use windlass_linux::watched_files::{self, Change, Choice, Handle, Origin, WatchedFiles};

pub use windlass_linux::watched_files::{Error as WatchError, Trouble};

use super::ledger::{self, Departed, Give, Holders, Holding, Ledger, Parsed};
use crate::view::{Problem, Severity};
use crate::{Node, node};

/// A manifest that is larger is not read: an object has at most 1 MiB in an API server, and nobody writes eight of them.
const BYTES_MAX: u64 = 8 << 20;
/// A manifest that is larger is read on a thread of its own once the node runs, so that no other waits for it.
const COSTLY: usize = 64 << 10;
/// So many manifests at once are read on several threads.
const MANY: usize = 32;
/// Longer than anybody has reason to wait, and short enough to be added to any time.
const REMOVAL_DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What is kept for the next start, in windlass's own directory.
const KEPT: &str = "manifests-in-force";
/// Whoever wants to keep a pod for longer puts its manifest back.
const ORPHAN_DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How a directory is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How long what no manifest says any more stays in force before that is believed; a day at most. Editors and `git`
    /// move the old file away before they make the new one, and by default this is longer than that takes: 200 ms. With
    /// zero a pod is gone at once, also if its manifest is only being replaced.
    pub removal_delay: Duration,
    /// How long what is on disk stays if no manifest that was read since the start names it: a pod, or a volume of a pod; a
    /// year at most. At a start nobody can tell what was removed on purpose from what is not there yet, as where the manifests
    /// are on a file system that is mounted later, so by default there is time to notice: 10 minutes. It is never shorter than
    /// [`Config::removal_delay`].
    pub orphan_delay: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { removal_delay: Duration::from_millis(200), orphan_delay: Duration::from_secs(10 * 60) }
    }
}

impl Config {
    /// With nothing longer than can be added to any time.
    fn sane(self) -> Self {
        let removal_delay = self.removal_delay.min(REMOVAL_DELAY_MAX);
        Self { removal_delay, orphan_delay: self.orphan_delay.clamp(removal_delay, ORPHAN_DELAY_MAX) }
    }
}

/// Why a directory cannot be a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
        source: WatchError,
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

/// A pod that is in force.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InForce {
    /// `namespace/name`.
    pub name: String,
    /// What tells it apart from an earlier one of the same name.
    pub uid: PodUid,
    /// The file that says so, below the directory.
    pub file: Arc<Path>,
}

/// What the directory gives at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// How many files there are, also such as cannot be read.
    pub files: usize,
    /// The pods that are in force, in the order of their names.
    pub pods: Vec<InForce>,
    /// How many other objects are in force.
    pub objects: usize,
    /// Whether every file could be read once since the start, and the directory is not lost: only then is it known what there
    /// is, and anything taken away that is not there (I-1).
    pub complete: bool,
    /// Whether all that was just said was so at one moment since the start: what was not there then is not there by a manifest
    /// that nobody has read.
    pub was_complete: bool,
    /// Why the directory itself cannot be read, or is another than the one that was read, if that is so. What it gave stays
    /// in force.
    pub lost: Option<Arc<str>>,
    /// Directories that cannot be read any more, and files that never could be, below the directory. What was read in them
    /// before is in force.
    pub unread: Vec<Arc<Path>>,
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

    /// The file that says what a pod is, if one is in force.
    pub fn manifest_of(&self, uid: &PodUid) -> Option<&Path> {
        self.pods.iter().find(|it| it.uid == *uid).map(|it| &*it.file)
    }

    /// Whether a pod is in force by a file in a directory that cannot be read any more.
    pub fn is_lost(&self, uid: &PodUid) -> bool {
        self.manifest_of(uid).is_some_and(|it| ledger::is_below(self.unread.iter().map(AsRef::as_ref), it))
    }

    pub(super) fn add_pod(&mut self, name: &str, uid: &PodUid, file: &Arc<Path>) {
        match self.find_pod(name, uid) {
            Ok(index) => self.pods[index].file = file.clone(),
            Err(index) => {
                self.pods.insert(index, InForce { name: name.into(), uid: uid.clone(), file: file.clone() });
            }
        }
    }

    pub(super) fn drop_pod(&mut self, name: &str, uid: &PodUid) {
        if let Ok(index) = self.find_pod(name, uid) {
            self.pods.remove(index);
        }
    }

    fn find_pod(&self, name: &str, uid: &PodUid) -> Result<usize, usize> {
        self.pods.binary_search_by(|it| (it.name.as_str(), &it.uid).cmp(&(name, uid)))
    }
}

/// What a directory gives, now and whenever that changes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Summaries(watch::Receiver<Summary>);

impl Summaries {
    /// What the directory gives at this moment. Meanwhile it cannot change, so this is not to be kept.
    pub fn now(&self) -> impl Deref<Target = Summary> + '_ {
        self.0.borrow()
    }

    /// Waits until the directory gives something else than when this was last called, or made; `None` once nobody watches
    /// the directory any more.
    pub async fn changed(&mut self) -> Option<()> {
        self.0.changed().await.ok()
    }

    /// Waits until what the directory gives is like this; `None` once nobody watches the directory any more.
    pub async fn wait_for(&mut self, is_like: impl FnMut(&Summary) -> bool) -> Option<Summary> {
        self.0.wait_for(is_like).await.ok().map(|it| it.clone())
    }
}

/// Who is given what is in force.
type Sink = Box<dyn FnMut(Give) + Send>;
/// The same for several threads; empty once nothing is to be given any more.
type SharedSink = Arc<Mutex<Option<Sink>>>;

/// Watches a directory of manifests and gives a node what is in it. The watch ends when this is dropped.
pub struct Directory {
    summary: watch::Receiver<Summary>,
    handle: Arc<Handle>,
    let_go: LetGo,
    sink: SharedSink,
}

/// Pods that may go, because somebody said so.
type LetGo = Arc<Mutex<Vec<PodUid>>>;

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
    pub fn read(path: &Path, node: &str, config: Config) -> Result<ReadDirectory, Error> {
        ReadDirectory::read(path, Some(node), config)
    }

    /// What the directory gives, now and whenever that changes.
    pub fn summary(&self) -> Summaries {
        Summaries(self.summary.clone())
    }

    /// Lets pods go that are in force by manifests in directories that cannot be read any more ([`Summary::is_lost`]): nobody
    /// can remove those. If a directory is back, so are its pods. Cheap to clone, and does nothing once this is dropped.
    pub fn letting_go(&self) -> impl Fn(PodUid) + Clone + Send + Sync + 'static {
        let (handle, let_go) = (self.handle.clone(), self.let_go.clone());
        move |pod| {
            let_go.lock().unwrap_or_else(PoisonError::into_inner).push(pod);
            handle.interrupt();
        }
    }

    /// Reads everything once more.
    pub fn reread(&self) {
        let _ = self.handle.reread();
    }
}

/// A directory of manifests that was read, and is not given to a node yet.
pub struct ReadDirectory {
    files: WatchedFiles,
    ledger: Ledger,
    config: Config,
}

impl ReadDirectory {
    fn read(path: &Path, node: Option<&str>, config: Config) -> Result<Self, Error> {
        let config = config.sane();
        let failed = |source| Error::Watch { path: path.into(), source };
        let mut files = WatchedFiles::begin(path, choice(config.removal_delay)).map_err(failed)?;
        // A manifest that was moved while directories were read would seem to be in none, and its pod to be gone (I-1).
        let first = files.at_once().map_err(failed)?.ok_or_else(|| Error::Restless { path: path.into() })?;
        let mut ledger = Ledger::new(path, node);
        take(&mut ledger, readable(path, first)?);
        Ok(Self { files, ledger, config })
    }

    /// Gives everything to the node, and goes on watching.
    pub fn watch(mut self, node: &Node) -> Result<Directory, Error> {
        let (node, orphan_delay) = (node.clone(), self.config.orphan_delay);
        let root = self.ledger.root().to_owned();
        let source = node.source(&format!("manifests in {}", root.display()));
        source.rereads(self.files.handle());
        // From now on it is told of every mount; what came or went since it was read is looked for once.
        self.files.handle().mounted(Path::new("/"));
        self.ledger.recall(Holders::parse(&root, &node.kept(KEPT).unwrap_or_default()));
        self.give(Box::new(move |give| match give {
            Give::Object(object) => node.update_object(object),
            // It was validated by the same rules by which the node takes it.
            Give::Pod(pod, packed) => _ = source.apply_packed(pod, packed),
            Give::PodGone(uid, _) | Give::PodReplaced(uid) => source.gone(&uid, Containers::Stopped),
            Give::PodHeld(uid, holding) => source.hold(&uid, hold(holding, orphan_delay)),
            Give::ObjectGone(reference, _) => node.remove_object(&reference),
            Give::Holders(holders) => node.keep(KEPT, &holders.text()),
            Give::Complete(doubt) => source.complete_doubting(orphan_delay, doubt),
            Give::Lost(why) => source.lost(&why),
            Give::Replaced { meant } => source.replaced(meant),
            Give::Read(number) => source.read(number),
            Give::BrokenOff(text) => node.break_off(text),
        }))
    }

    fn give(self, sink: Sink) -> Result<Directory, Error> {
        let sink = Arc::new(Mutex::new(Some(sink)));
        let (handle, (reader, files)) = (self.files.handle(), self.reader(sink.clone()));
        let (summary, let_go) = (reader.summary.subscribe(), reader.let_go.clone());
        begin("windlass-source", sink.clone(), move || reader.run(files)).map_err(Error::Thread)?;
        Ok(Directory { summary, handle, let_go, sink })
    }

    /// Gives everything, and makes who goes on reading.
    fn reader(self, sink: SharedSink) -> (Reader, WatchedFiles) {
        let Self { files, ledger, config } = self;
        let mut reader = Reader {
            ledger,
            summary: watch::Sender::default(),
            sink: sink.clone(),
            grace: config.removal_delay,
            orphan_delay: config.orphan_delay,
            leaving: Vec::new(),
            lost: None,
            read: files.read(),
            let_go: LetGo::default(),
            aside: Aside::new(files.handle(), sink),
        };
        reader.take(Vec::new(), &files);
        (reader, files)
    }
}

impl std::fmt::Debug for ReadDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadDirectory").field("as_of", &self.files.as_of()).finish_non_exhaustive()
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
        vec![Change::Content { path: PathBuf::new(), bytes, origin: Origin::default() }]
    };
    let mut ledger = Ledger::new(path, None);
    take(&mut ledger, changes);
    ledger.settle(&mut summary);
    summary.problems.extend(ledger.unmet());
    ledger::sort(&mut summary.problems);
    Ok(summary)
}

/// Why a pod stays, and for how long.
fn hold(holding: Holding, orphan_delay: Duration) -> Hold {
    match holding {
        Holding::OtherNode(text) => Hold { code: Code::OtherNode, text, delay: Some(orphan_delay) },
        // As long as somebody names it.
        Holding::Conflict(text) => Hold { code: Code::ManifestConflict, text, delay: None },
        Holding::ConflictOver => {
            let text = "the manifest that named the pod, and was not in force, does not name it any more".into();
            Hold { code: Code::NotInManifests, text, delay: Some(orphan_delay) }
        }
        Holding::Rewritten(text) => Hold { code: Code::NotInManifests, text, delay: Some(orphan_delay) },
        // It goes as soon as everything can be read.
        Holding::Removed => {
            let text = "its manifest was removed".into();
            Hold { code: Code::NotInManifests, text, delay: Some(Duration::ZERO) }
        }
    }
}

/// Begins a thread. Without it nobody would notice any more what manifests say, so if it breaks off the node is told.
fn begin(name: &str, sink: SharedSink, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let text = format!("the thread {name}, which reads manifests, broke off");
    let guarded = move || {
        let Err(panic) = panic::catch_unwind(AssertUnwindSafe(work)) else { return };
        if let Some(sink) = &mut *sink.lock().unwrap_or_else(PoisonError::into_inner) {
            sink(Give::BrokenOff(format!("{text}: {}", node::said(&*panic)).into()));
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(guarded).map(|_| ())
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

/// What is in the files that have content, in their order. Where there are many, all processors read them.
fn parse(ledger: &Ledger, changes: &[Change]) -> Vec<Parsed> {
    let parse = |changes: &[Change]| -> Vec<Parsed> {
        let contents = changes.iter().filter_map(|it| match it {
            Change::Content { path, bytes, origin } => Some(ledger.parser(path).read(bytes, *origin)),
            Change::Gone { .. } | Change::Unreadable { .. } | Change::Misnamed { .. } | Change::Replaced { .. } => None,
        });
        contents.collect()
    };
    if changes.len() < MANY {
        return parse(changes);
    }
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let parts = changes.chunks(changes.len().div_ceil(threads)).map(|part| {
            let thread = std::thread::Builder::new().name("windlass-parse".into());
            (part, thread.spawn_scoped(scope, || parse(part)))
        });
        // All of them begin before the first is waited for.
        let parts: Vec<_> = parts.collect();
        let parsed = parts.into_iter().flat_map(|(part, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
            Err(_) => parse(part),
        });
        parsed.collect()
    })
}

fn take(ledger: &mut Ledger, changes: Vec<Change>) {
    let mut parsed = parse(ledger, &changes).into_iter();
    for change in changes {
        match change {
            Change::Content { path, .. } => {
                if let Some(parsed) = parsed.next() {
                    ledger.parsed(&path, parsed);
                }
            }
            Change::Gone { path, .. } => ledger.gone(&path),
            Change::Unreadable { path, trouble: trouble @ (Trouble::Another { .. } | Trouble::Unmounted) } => {
                let kept = "what was read there stays in force";
                let gone = "If it is gone for good, let its pods go (windlass delete pod), or start anew";
                ledger.unreadable(&path, &format!("{trouble}; {kept}. {gone}"));
            }
            Change::Unreadable { path, trouble } => ledger.unreadable(&path, &trouble.to_string()),
            Change::Misnamed { path } => ledger.misnamed(&path),
            Change::Replaced { meant, .. } => ledger.replaced(meant),
        }
    }
}

/// Manifests that are read aside, because they may take long.
struct Aside {
    /// The newest version of each file, by number: what is read of an older one is of no interest.
    newest: BTreeMap<PathBuf, u64>,
    count: u64,
    done: Arc<Mutex<Vec<(PathBuf, u64, Parsed)>>>,
    handle: Arc<Handle>,
    sink: SharedSink,
}

impl Aside {
    fn new(handle: Arc<Handle>, sink: SharedSink) -> Self {
        Self { newest: BTreeMap::new(), count: 0, done: Arc::default(), handle, sink }
    }

    /// Takes the costly files out of changes, and begins to read them.
    fn begin(&mut self, ledger: &mut Ledger, changes: Vec<Change>) -> Vec<Change> {
        let (mut rest, mut costly) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            let (Change::Content { path, .. }
            | Change::Gone { path, .. }
            | Change::Unreadable { path, .. }
            | Change::Misnamed { path }
            | Change::Replaced { path, .. }) = &change;
            self.newest.remove(path);
            match change {
                Change::Content { path, bytes, origin } if bytes.len() > COSTLY => {
                    self.count += 1;
                    self.newest.insert(path.clone(), self.count);
                    costly.push((path, self.count, bytes, origin));
                }
                other => rest.push(other),
            }
        }
        if costly.is_empty() {
            return rest;
        }
        costly.sort_by_key(|(_, _, bytes, _)| bytes.len());
        let parsers: Vec<_> = costly.iter().map(|(path, ..)| ledger.parser(path)).collect();
        costly.iter().for_each(|(path, ..)| ledger.parsing(path));
        let (done, handle) = (self.done.clone(), self.handle.clone());
        let costly = Arc::new(costly);
        let work = {
            let costly = costly.clone();
            move || {
                for ((path, number, bytes, origin), parser) in costly.iter().zip(parsers) {
                    let parsed = parser.read(bytes, *origin);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((path.clone(), *number, parsed));
                    handle.interrupt();
                }
            }
        };
        if begin("windlass-parse", self.sink.clone(), work).is_err() {
            // Without a thread others wait, which is better than not to read it.
            for (path, _, bytes, origin) in costly.iter() {
                self.newest.remove(path);
                ledger.content(path, bytes, *origin);
            }
        }
        rest
    }

    /// What has been read.
    fn finished(&mut self) -> Vec<(PathBuf, Parsed)> {
        let done = std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner));
        let newest = &mut self.newest;
        let current = done.into_iter().filter_map(|(path, number, parsed)| {
            let current = newest.get(&path) == Some(&number);
            current.then(|| newest.remove(&path)).map(|_| (path, parsed))
        });
        current.collect()
    }
}

/// Carries what the files say to the node.
struct Reader {
    ledger: Ledger,
    summary: watch::Sender<Summary>,
    sink: SharedSink,
    grace: Duration,
    orphan_delay: Duration,
    /// What no file says any more, and when that is believed: it may be on its way from one file to another.
    leaving: Vec<(Instant, Give)>,
    /// Why the directory is lost, as the node was told.
    lost: Option<Arc<str>>,
    /// How often everything was read, as it was told last.
    read: u64,
    let_go: LetGo,
    aside: Aside,
}

impl Reader {
    fn run(mut self, mut files: WatchedFiles) {
        loop {
            // While there is a file of which nothing is known, anything may be in it (I-1): pods are only told to be held.
            let reads_all = self.ledger.is_whole();
            let is_whole = reads_all && self.aside.newest.is_empty();
            let waits = self.leaving.iter().filter(|(_, it)| is_whole || !reads_all && it.is_told_in_doubt());
            let until = waits.map(|(at, _)| *at).min();
            match files.changes(until) {
                Ok(Some(changes)) => self.take(changes, &files),
                Ok(None) => return,
                Err(error) => {
                    let why = format!("its changes are not noticed any more, start again: {error}");
                    self.ledger.unreadable(Path::new(""), &why);
                    return self.take(Vec::new(), &files);
                }
            }
        }
    }

    /// Takes in what is new about files, and passes on what that amounts to.
    fn take(&mut self, changes: Vec<Change>, files: &WatchedFiles) {
        let now = Instant::now();
        // Files that have been missed for long enough are the last: what is in none of the others is believed to be gone.
        let is_over = |it: &Change| matches!(it, Change::Gone { since, .. } if *since + self.grace <= now);
        let (missed, changes): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(is_over);
        let sink = self.sink.clone();
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sink) = &mut *sink else { return take(&mut self.ledger, changes) };
        let Self { ledger, summary, leaving, grace, orphan_delay, aside, lost, read, let_go, .. } = self;
        let mut let_go = std::mem::take(&mut *let_go.lock().unwrap_or_else(PoisonError::into_inner));
        let_go.retain(|it| ledger.let_go(it));
        let changes = aside.begin(ledger, changes);
        // Those that vanished are not read any more, wherever they were being read.
        let missed = aside.begin(ledger, missed);
        for (path, parsed) in aside.finished() {
            ledger.parsed(&path, parsed);
        }
        summary.send_if_modified(|summary| {
            let mut changed = false;
            let was_known = (summary.complete, summary.lost.clone());
            for (changes, believed) in [(changes, now + *grace), (missed, now)] {
                take(ledger, changes);
                // Until it is complete the node takes nothing away, and says so.
                let was_complete = ledger.was_complete();
                let (gives, settled) = ledger.settle(summary);
                changed |= settled;
                // Before anybody sees the summary, so that whoever does finds the node to have what it says.
                for give in gives {
                    match give {
                        Give::PodGone(uid, _) if let_go.contains(&uid) => sink(Give::PodReplaced(uid)),
                        // Nothing of it can be held by the node, as a pod can: it is not told of before.
                        Give::ObjectGone(_, Some(_)) => leaving.push((now + *orphan_delay, give)),
                        Give::PodGone(..) | Give::ObjectGone(..) if was_complete => leaving.push((believed, give)),
                        Give::PodGone(uid, Departed { rewritten: Some(text), .. }) => {
                            sink(Give::PodHeld(uid, Holding::Rewritten(text)));
                        }
                        _ => {
                            leaving.retain(|(_, it)| !it.is_undone_by(&give));
                            // After a loss, whatever has not been given again is gone at once. So what is to go after its
                            // delay, or to be held, comes first; and what the kernel told of meanwhile is read first.
                            let gone = leaving.iter().filter(|(_, it)| matches!(it, Give::PodGone(..)));
                            let last = gone.map(|(at, _)| *at).max();
                            match &give {
                                Give::Complete(_) if lost.is_some() => {
                                    leaving.push((last.map_or(now, |it| it.max(now)), give));
                                }
                                _ => pass_on(give, lost, sink),
                            }
                        }
                    }
                }
            }
            let reads_all = ledger.is_whole();
            let is_whole = reads_all && aside.newest.is_empty();
            let is_due = |(at, give): &mut (Instant, Give)| {
                // Only what the kernel tells by then says that it is in no other file.
                *at <= files.heard() && (is_whole || !reads_all && give.is_told_in_doubt())
            };
            for (_, give) in leaving.extract_if(.., is_due) {
                let give = match give {
                    Give::PodGone(uid, departed) => match ledger.holding(&departed) {
                        Some(holding) => Give::PodHeld(uid, holding),
                        None => Give::PodGone(uid, departed),
                    },
                    Give::ObjectGone(reference, doubt) => {
                        ledger.believe(&reference);
                        Give::ObjectGone(reference, doubt)
                    }
                    give => give,
                };
                pass_on(give, lost, sink);
            }
            summary.complete &= lost.is_none();
            summary.lost.clone_from(lost);
            summary.was_complete |= summary.complete;
            changed |= was_known != (summary.complete, summary.lost.clone());
            changed |= ledger.tell_problems(summary);
            // What is being read is not in force, and nothing says why.
            if aside.newest.is_empty() {
                summary.as_of = Timestamp::try_from(files.as_of()).unwrap_or(summary.as_of);
                if std::mem::replace(read, files.read()) < files.read() {
                    sink(Give::Read(files.read()));
                }
            }
            changed
        });
    }
}

/// Gives something to the node, and keeps in mind whether it knows the directory to be lost.
fn pass_on(give: Give, lost: &mut Option<Arc<str>>, sink: &mut Sink) {
    match &give {
        Give::Lost(why) => *lost = Some(why.clone()),
        Give::Complete(_) => *lost = None,
        _ => {}
    }
    sink(give);
}

fn choice(grace: Duration) -> Choice {
    let misnamed = |it: &OsStr| is_manifest(&it.to_ascii_lowercase());
    Choice { file: is_manifest, misnamed, directory: |it| !is_passed_over(it), bytes_max: BYTES_MAX, grace }
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
