//! What a node is started with, and its start.

use std::any::Any;
use std::collections::BTreeSet;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use std::{fmt, io};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use tokio::sync::{broadcast, watch};
use windlass_core::{Config, Engine};
use windlass_linux::abilities::Abilities;
use windlass_linux::name::Name;
use windlass_linux::process::Process;
use windlass_linux::safe_path;
use windlass_linux::table::Watch;
use windlass_linux::whole_file::{self, Survives};
use windlass_linux::workers::{Limits, Workers};

use crate::csi::{self, Drivers};
use crate::drive::{Drive, Message, Outside, Parts, Provisions, Recorder, Wishes};
use crate::executor::Executor;
use crate::fingerprint::Fingerprint;
use crate::layout::{self, Layout};
use crate::memory::Memory;
use crate::observe::Observer;
use crate::plugin::{self, Attachments, Scene};
use crate::provision::store::Store;
use crate::record::Records;
use crate::resolve::Settings;
use crate::tell::Tell;
use crate::token::{self, NoProvider};
use crate::under_way::UnderWay;

use super::lock::{Files, Locked, lock};
use super::state_watch::StateWatch;
use super::{Change, Ended, Inner, Node};

/// How long the volume of a claim that went stays, if nobody says otherwise: what a driver has deleted is gone, and people
/// need time to see that it is about to happen (I-15).
pub const DELETE_DELAY_DEFAULT: Duration = Duration::from_secs(10 * 60);

/// Why a node could not be started. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A directory could not be made or opened.
    #[error("open {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Another node works there, in this process or another, or is not done yet.
    #[error("{} is in use by {}; end that first", path.display(), Named(holder.as_ref()))]
    InUse {
        /// The root or the state directory.
        path: PathBuf,
        /// Who has it, if the kernel tells.
        holder: Option<Holder>,
    },
    /// Paths are given out as text, so they must be text.
    #[error("{} cannot be used: it is no UTF-8 text", path.display())]
    NotText {
        /// The directory.
        path: PathBuf,
    },
    /// A file of the system or of ours could not be read or written.
    #[error("{what}")]
    File {
        /// What was being done.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The mount table cannot be read or watched.
    #[error("watch the mount table")]
    Watch(#[source] Box<dyn Error + Send + Sync>),
    /// The kernel lacks something without which volumes cannot be mounted safely.
    #[error("this kernel cannot do what windlass needs ({0}); Linux 5.12 or newer, and the right to mount, are needed")]
    Abilities(Abilities),
}

impl StartError {
    /// Whether it fails again however often it is tried: this kernel, or what the node is started with, has to be another.
    pub fn is_final(&self) -> bool {
        match self {
            Self::NotText { .. } | Self::Abilities(_) => true,
            Self::Directory { .. } | Self::InUse { .. } | Self::File { .. } | Self::Watch(_) => false,
        }
    }

    /// Who works with the same directories, if that is why, and if the kernel tells.
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::InUse { holder, .. } => holder.as_ref(),
            Self::Directory { .. } | Self::NotText { .. } | Self::File { .. } | Self::Watch(_) | Self::Abilities(_) => {
                None
            }
        }
    }
}

/// A process that works somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// Its command line.
    pub command: String,
}

/// A holder in words.
struct Named<'a>(Option<&'a Holder>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Holder { process, command }) => write!(f, "process {process} ({command})"),
            None => f.write_str("another node"),
        }
    }
}

/// How whoever attaches volumes learns which of them are in use (I-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Report {
    /// By asking this node, which tells what is so at that moment ([`Node::volumes_in_use`]).
    #[default]
    Asked,
    /// By what is stored somewhere, as in a cluster: no volume is staged before [`Node::in_use_reported`] tells that a set
    /// was stored that has the volume in it. Each new set is told by [`Change::InUse`].
    Stored,
}

/// What a node is started with.
#[must_use]
pub struct Builder {
    root: PathBuf,
    state: Option<PathBuf>,
    runtime: PathBuf,
    settings: Settings,
    tokens: Arc<dyn token::Provider>,
    keep_terminated: bool,
    keep_directories: bool,
    hold_while_in_use: bool,
    recording: Option<PathBuf>,
    gives_memory_back: bool,
    report: Report,
    limits: Limits,
    drivers: csi::Settings,
    delete_delay: Duration,
    default_account: Arc<str>,
    observer: Observer,
}

impl Builder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            state: None,
            runtime: "/run/windlass".into(),
            settings: Settings::new("localhost"),
            tokens: Arc::new(NoProvider),
            keep_terminated: false,
            keep_directories: false,
            hold_while_in_use: false,
            recording: None,
            gives_memory_back: false,
            report: Report::default(),
            limits: Limits::default(),
            drivers: csi::Settings::default(),
            delete_delay: DELETE_DELAY_DEFAULT,
            default_account: "".into(),
            observer: Observer::default(),
        }
    }

    /// The node's name, as nodes' objects and volumes' affinities have it. The default is `localhost`.
    pub fn node_name(mut self, name: &str) -> Self {
        self.settings.node = name.into();
        self
    }

    /// Where records are kept: what directories and the mount table cannot tell. The default is `windlass` below the root.
    pub fn state_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.state = Some(path.into());
        self
    }

    /// Where the key lies that tells contents of objects apart; it must be in memory, and is worth nothing after a reboot
    /// (I-12). The default is `/run/windlass`. If it cannot be written or is not in memory, contents are compared once more
    /// after a restart.
    pub fn runtime_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.runtime = path.into();
        self
    }

    /// Who gives service account tokens. By default nobody, and volumes that need one wait with the reason `TokenMissing`.
    pub fn token_provider(mut self, provider: impl token::Provider + 'static) -> Self {
        self.tokens = Arc::new(provider);
        self
    }

    /// Whether finished pods keep their volumes until they are removed. The default is no.
    pub fn keep_terminated(mut self, keep: bool) -> Self {
        self.keep_terminated = keep;
        self
    }

    /// Whether the volumes of a pod that is gone are held back while somebody else has them: a process of another mount
    /// namespace in which they are mounted, as in a container, or one that has a file of theirs open. They are tried again
    /// as after any failure, and the reason is `HeldOpen`. The default is no: whoever removes a pod has ended its
    /// containers, and each look goes through all processes of the machine.
    pub fn hold_while_in_use(mut self, hold: bool) -> Self {
        self.hold_while_in_use = hold;
        self
    }

    /// Keeps everything that the engine is told and asks for, added to this file, which only its owner can read. With it a
    /// defect can be told so that others see it too: `windlass-sim events` plays it to a fresh engine. It holds names and what
    /// drivers said, and no secrets (I-12). The file grows with every event, and a stop waits until all is written. The
    /// default is not to.
    pub fn record_events(mut self, file: impl Into<PathBuf>) -> Self {
        self.recording = Some(file.into());
        self
    }

    /// Leaves the directories of pods that have gone where they are, until [`Node::remove_pod_directory`]: for a program that
    /// keeps things of its own in them. By default they are removed with the last volume.
    pub fn keep_pod_directories(mut self) -> Self {
        self.keep_directories = true;
        self
    }

    /// The service account that drivers are told of a pod that names none: in a cluster admission has filled in
    /// `default`, and whoever plays a cluster says so here. By default it is empty.
    pub fn default_service_account(mut self, name: &str) -> Self {
        self.default_account = name.into();
        self
    }

    /// Gives memory back to the system a moment after many pods came or went at once: what is free of the heap, and those
    /// pages of the program that were needed then and may not be soon (`malloc_trim`, `madvise`). For a program that has
    /// little besides windlass in its memory, for it goes through all of that.
    pub fn give_memory_back(mut self) -> Self {
        self.gives_memory_back = true;
        self
    }

    /// How whoever attaches volumes learns which of them are in use. By default they ask this node.
    pub fn report(mut self, report: Report) -> Self {
        self.report = report;
        self
    }

    /// How many operations of a kind of volume run at a time, and how many threads there may be.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where CSI drivers register: the kubelet's `plugins_registry`. By default nobody looks for drivers, and their volumes
    /// wait with the reason `DriverMissing`.
    pub fn driver_registry(mut self, path: impl Into<PathBuf>) -> Self {
        self.drivers.registry = Some(path.into());
        self
    }

    /// How long one call of a CSI driver may take before its outcome counts as unknown. The default is two minutes (C-46).
    pub fn driver_deadline(mut self, deadline: Duration) -> Self {
        self.drivers.deadline = deadline;
        self
    }

    /// What holds for one CSI driver: where its controller service is, if this node is to attach and provision volumes of
    /// its own accord, and how it is called.
    pub fn driver(mut self, name: &str, settings: csi::DriverSettings) -> Self {
        self.drivers.drivers.insert(name.into(), settings);
        self
    }

    /// How long a volume that this node had made stays after its claim was seen to go, if its class has it deleted
    /// (`reclaimPolicy: Delete`) and nothing else keeps it; it begins anew at each start. A claim that comes back in that time
    /// has its volume as before. The default is ten minutes; see [`Node::delete_claim`].
    pub fn delete_delay(mut self, delay: Duration) -> Self {
        self.delete_delay = delay;
        self
    }

    /// Who is told of everything that is counted, as it happens.
    pub fn observe(mut self, observer: Observer) -> Self {
        self.observer = observer;
        self
    }

    /// Starts the node: reads what earlier lives left and begins to work on what it is given.
    pub fn start(self) -> Result<Node, StartError> {
        let abilities = Abilities::of_this_kernel();
        if ![abilities.openat2, abilities.fsopen, abilities.mount_setattr].iter().all(|it| it.is_present()) {
            return Err(StartError::Abilities(*abilities));
        }
        let layout = open(&self.root)?;
        let state_path = self.state.unwrap_or_else(|| self.root.join("windlass"));
        let state = make_directory(&state_path)?;
        let notes = make_directory(&state_path)?;
        let boot = read("/proc/sys/kernel/random/boot_id")?;
        let boot = boot.trim();
        let in_state = Files { directory: &state, lock: ".lock-state", next: ".lock-state.next" };
        let Locked { locks: of_state, before: in_state } = lock(&state, &state_path, in_state, boot)?;
        let in_root = Files { directory: &state, lock: ".lock-root", next: ".lock-root.next" };
        let Locked { locks: of_root, before: in_root } = lock(layout.root(), layout.path(), in_root, boot)?;
        let locks = of_root.into_iter().chain(of_state).collect();
        let failed = |source: layout::Error| StartError::Directory { path: state_path.clone(), source: source.into() };
        let records = Records::open(&state).map_err(failed)?;
        layout.set_aside(&state).map_err(failed)?;
        let under_way = Arc::new(UnderWay::read(make_directory(&state_path)?, boot));
        let key = key(&self.runtime, layout.path());
        let mut memory = Memory::new(key);
        memory.begin_partial();
        let memory = Arc::new(RwLock::new(memory));
        let (changes, first) = broadcast::channel(4096);
        // Weak: a call that hangs keeps what it works with, and must not keep the stream of changes open.
        let listeners = changes.downgrade();
        let (inbox, messages) = channel();
        let mut settings = self.settings;
        let has_controller = |(name, it): (&String, &csi::DriverSettings)| it.controller.as_ref().map(|_| name.clone());
        settings.deadline = self.drivers.deadline;
        let deadlines = self.drivers.drivers.iter().filter_map(|(name, it)| Some((name.clone(), it.deadline?)));
        settings.deadlines = deadlines.collect();
        settings.attached_here = self.drivers.drivers.iter().filter_map(has_controller).collect();
        let drivers = {
            let inbox: Sender<Message> = inbox.clone();
            let tell = move |news| drop(inbox.send(Message::Driver(news)));
            let registry = self.drivers.registry.clone().unwrap_or_default();
            Drivers::begin(self.drivers, &self.observer, tell).map_err(|source| StartError::File {
                what: format!("look for drivers in {}", registry.display()),
                source,
            })?
        };
        let scene = Scene {
            layout,
            watch: Watch::begin().map_err(|error| StartError::Watch(error.into()))?,
            objects: memory.clone(),
            tokens: token::Cache::new(self.tokens),
            drivers,
            attachments: Attachments::default(),
            tell: Tell::new(move |event| {
                if let Some(listeners) = listeners.upgrade() {
                    let _ = listeners.send(Change::Event(event));
                }
            }),
            observer: self.observer,
            node: settings.node.clone(),
            default_account: self.default_account,
        };
        let executor = Arc::new(Executor::new(scene, records, boot.into(), self.hold_while_in_use));
        let config = Config {
            sources: Vec::new(),
            boot: boot.into(),
            attacher: false,
            keep_terminated: self.keep_terminated,
            planning: Default::default(),
            seed: key[0],
        };
        let listeners = changes.downgrade();
        let failed = move |error: io::Error| {
            if let Some(listeners) = listeners.upgrade() {
                let text = format!("events are not recorded any more: {error}").into();
                let _ = listeners.send(Change::Damaged { text });
            }
        };
        let recorder = self.recording.as_deref().map(|path| {
            Recorder::begin(path, &config, failed)
                .map_err(|source| StartError::File { what: format!("record events in {}", path.display()), source })
        });
        let recorder = recorder.transpose()?;
        let workers = Workers::new("windlass-work", self.limits);
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(|errno| file("make an eventfd", errno))?);
        let watched = StateWatch::begin(&state_path).map_err(|source| StartError::File {
            what: format!("watch {}", state_path.display()),
            source: io::Error::other(source),
        })?;
        watch_mounts(executor.clone(), watched, wake.clone(), inbox.clone())?;
        let hung = under_way.processes();
        for (process, _) in &hung {
            watch_process(*process, wake.clone(), inbox.clone())?;
        }
        let before: BTreeSet<Process> = in_root.into_iter().chain(in_state).chain(hung.iter().map(|it| it.0)).collect();
        let drive = Drive::new(Parts {
            engine: Engine::new(config),
            outside: Outside::new(executor.clone(), workers.clone(), inbox.clone(), changes.clone(), locks, recorder),
            wishes: Wishes::new(memory, settings),
            provisions: Provisions::new(Store::new(state), self.delete_delay),
            under_way,
            keep_directories: self.keep_directories,
            gives_memory_back: self.gives_memory_back,
            report: self.report,
        });
        for process in before {
            let places = hung.iter().find(|(it, _)| *it == process).map_or(0, |(_, places)| *places);
            // Nobody need listen yet.
            let _ = changes.send(Change::TookOver { process: process.id, places });
        }
        let (end, ended) = watch::channel(None);
        let run = move || {
            // What the drive holds goes before it is told that it has ended: whoever hears that may begin anew.
            let run = AssertUnwindSafe(move || drive.run(&messages));
            match panic::catch_unwind(run) {
                Ok(over) => {
                    end.send_replace(Some(over.ended.clone()));
                    over.tell();
                }
                Err(panic) => _ = end.send_replace(Some(Ended::Broken { text: said(&*panic).into() })),
            }
        };
        let thread = std::thread::Builder::new().name("windlass-engine".into());
        thread.spawn(run).map_err(|source| StartError::File { what: "start a thread".into(), source })?;
        let (first, questions, changes) = (Mutex::new(Some(first)), Arc::default(), changes.downgrade());
        let next_waiter = AtomicU64::new(0);
        Ok(Node(Arc::new(Inner {
            inbox,
            next_waiter,
            changes,
            ended,
            first,
            workers,
            executor,
            questions,
            notes,
            wake,
        })))
    }
}

/// Tells the drive what the kernel tells of mounts, and of the directory in which this node keeps what is its own, on a thread
/// that sleeps in between.
fn watch_mounts(
    executor: Arc<Executor>,
    mut state: StateWatch,
    wake: Arc<OwnedFd>,
    inbox: Sender<Message>,
) -> Result<(), StartError> {
    let told = inbox.clone();
    let watch = move || {
        let pause = |time: Timespec| _ = rustix::event::poll(&mut [PollFd::new(&*wake, PollFlags::IN)], Some(&time));
        loop {
            let watch = &executor.scene.watch;
            let awaited = [watch.as_fd(), wake.as_fd(), state.as_fd()];
            let mut ready = awaited.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
            match rustix::event::poll(&mut ready, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if !ready[1].revents().is_empty() {
                return;
            }
            if !ready[2].revents().is_empty() {
                for loss in state.losses() {
                    let _ = inbox.send(Message::StateLost(loss));
                }
            }
            let changes = match watch.changes(Some(Duration::ZERO)) {
                Ok(changes) if changes.is_empty() => continue,
                Ok(changes) => changes,
                Err(error) => {
                    let text = plugin::chain(&error);
                    let told = inbox.send(Message::MountsUnreadable(text));
                    // Not at once again: what is wrong may take its time, and nothing else is to be told meanwhile.
                    pause(Timespec { tv_sec: 1, tv_nsec: 0 });
                    if told.is_err() {
                        return;
                    }
                    continue;
                }
            };
            if inbox.send(Message::MountsChanged(changes)).is_err() {
                return;
            }
            // Where many are mounted, all of a millisecond are told at once: whoever needs to know a mount looks itself.
            pause(Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        }
    };
    let watch = move || {
        // Nobody would notice any more that a mount is not the one that was made (I-4), so the drive ends with it.
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(watch)) {
            let text = format!("the thread that watches mounts broke off: {}", said(&*panic));
            let _ = told.send(Message::BrokeOff(text.into()));
        }
    };
    let thread = std::thread::Builder::new().name("windlass-mounts".into());
    thread.spawn(watch).map_err(|source| StartError::File { what: "start a thread".into(), source })?;
    Ok(())
}

/// Tells the drive when nothing is left of a process of before, on a thread that sleeps until then.
fn watch_process(process: Process, wake: Arc<OwnedFd>, inbox: Sender<Message>) -> Result<(), StartError> {
    let watch = move || {
        if let Ok(watched) = process.watch() {
            let mut ready = [PollFd::new(&watched, PollFlags::IN), PollFd::new(&*wake, PollFlags::IN)];
            while matches!(rustix::event::poll(&mut ready, None), Err(rustix::io::Errno::INTR)) {}
            if !ready[1].revents().is_empty() {
                return;
            }
        }
        let _ = inbox.send(Message::ProcessEnded(process));
    };
    let thread = std::thread::Builder::new().name("windlass-before".into());
    thread.spawn(watch).map_err(|source| StartError::File { what: "start a thread".into(), source })?;
    Ok(())
}

/// What a thread said before it broke off.
pub(crate) fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it said nothing")
}

fn open(root: &Path) -> Result<Layout, StartError> {
    if root.to_str().is_none() {
        return Err(StartError::NotText { path: root.into() });
    }
    let failed = |source: layout::Error| StartError::Directory { path: root.into(), source: source.into() };
    Layout::open(root).map_err(failed)
}

fn make_directory(path: &Path) -> Result<safe_path::Place, StartError> {
    layout::make_root(path).map_err(|source| StartError::Directory { path: path.into(), source: source.into() })
}

fn read(path: &str) -> Result<String, StartError> {
    std::fs::read_to_string(path).map_err(|source| StartError::File { what: format!("read {path}"), source })
}

fn file(what: &str, errno: rustix::io::Errno) -> StartError {
    StartError::File { what: what.into(), source: errno.into() }
}

/// The key by which contents are told apart: the same for this root until the machine reboots.
fn key(runtime: &Path, root: &Path) -> [u64; 2] {
    let mut fingerprint = Fingerprint::new([0, 0]);
    fingerprint.field(root.as_os_str().as_encoded_bytes());
    let name = format!("key-{:016x}", fingerprint.finish());
    let mut bytes = [0; 16];
    // Without it contents are compared once more after a restart, and that is all.
    let kept = layout::make_root(runtime).ok().filter(is_in_memory).and_then(|directory| {
        let name = Name::new("key", name).ok()?;
        match whole_file::read(&directory, &name, bytes.len()).ok()? {
            Some(kept) if kept.len() == bytes.len() => {
                bytes.copy_from_slice(&kept);
                Some(())
            }
            _ => {
                random(&mut bytes);
                whole_file::write(&directory, &name, &bytes, Survives::Crash).ok()
            }
        }
    });
    if kept.is_none() {
        random(&mut bytes);
    }
    let half = |range: std::ops::Range<usize>| bytes[range].iter().fold(0, |all, it| (all << 8) | u64::from(*it));
    [half(0..8), half(8..16)]
}

/// A key that lay on a disk would tell of secrets long after (I-12).
fn is_in_memory(directory: &safe_path::Place) -> bool {
    // statfs(2).
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    rustix::fs::fstatfs(directory).is_ok_and(|it| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&it.f_type))
}

pub(crate) fn random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // No kernel that windlass runs on lacks it.
            Err(_) => return,
        }
    }
}
