//! A seed first becomes a script: everything that will be done to the node from outside, and when.
//!
//! The entries stand for themselves: each can be left out without making another one senseless, so a failing life can be
//! made shorter by leaving entries out. What lasts, such as a driver that is away, is one entry with its duration.

use crate::edge::Kill;
use std::fmt;
use windlass_core::event::Goal;
use windlass_core::ids::Time;

/// One day, in the engine's milliseconds.
pub const DAY: u64 = 24 * 60 * 60 * 1_000;

/// Everything that is done to a node.
#[derive(Clone, Debug)]
pub struct Script {
    /// How the process starts for the first time.
    pub first_start: Start,
    /// What happens, sorted by time.
    pub entries: Vec<Entry>,
    /// Kills at edges of the process's work, wherever in time these are.
    pub kills: Vec<Kill>,
    /// When all trouble ends.
    pub end: Time,
    /// Whether all pods are removed once the node has settled, to see that nothing is left.
    pub clear: bool,
}

/// Something at its time.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// What.
    pub stimulus: Stimulus,
}

/// Something that is done to the node from outside. Numbers are indices into the lists of the [`Setting`](crate::setting::Setting); durations are
/// in milliseconds.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Stimulus {
    /// The source has this pod.
    PodComes { pod: usize },
    /// The pod is being ended.
    PodStops { pod: usize },
    /// The pod ran to its end.
    PodFinishes { pod: usize },
    /// The source no longer has the pod, but its containers still run for a while.
    PodLeaves { pod: usize, lasts: u64 },
    /// The source no longer has the pod and nothing of it runs.
    PodGoes { pod: usize },
    /// The pod does not name one of its volumes for a while.
    VolumeDropped { pod: usize, index: usize, lasts: u64 },
    /// What is to be in a volume changed.
    ContentChanges { volume: usize },
    /// A volume should be larger.
    SizeGrows { volume: usize },
    /// What a pod's volumes are cannot be looked up.
    LookupFails { pod: usize, index: usize, lasts: u64 },
    /// The object that a volume needs is missing.
    ObjectMissing { volume: usize, lasts: u64 },
    /// Somebody waits for a pod.
    WaitStarts { pod: usize, goal: Goal, lasts: u64 },

    /// A source cannot be read.
    SourceAway { source: usize, lasts: u64, list: List },
    /// A source delivers late, in another order, again and again.
    SourceUnruly { source: usize, lasts: u64 },
    /// A driver is gone, and later back.
    DriverAway { driver: usize, lasts: u64 },
    /// A driver is restarted, breaking the calls in it.
    DriverRestarts { driver: usize },
    /// A driver misbehaves.
    DriverFaulty { driver: usize, behavior: Behavior, per_mille: u32, lasts: u64 },
    /// Plugins without drivers have trouble.
    LocalFaulty { trouble: LocalTrouble, per_mille: u32, lasts: u64 },
    /// The attacher has trouble.
    AttacherFaulty { trouble: AttacherTrouble, lasts: u64 },
    /// The attacher says of an attached volume that it is not.
    AttachmentFlaps { pick: u64, lasts: u64 },
    /// The report of what is in use does not come through.
    ReportsFail { trouble: ReportTrouble, lasts: u64 },
    /// Somebody unmounts something.
    MountTaken { pick: u64 },
    /// Somebody mounts over something.
    MountCovered { pick: u64, lasts: u64 },
    /// Timers fire late.
    TimersLate { by: u64, lasts: u64 },
    /// The clock shows an earlier time once.
    ClockSteps { back: u64 },
    /// The process is killed before its next-but-`steps` step of an operation.
    Killed { steps: u32, start: Start },
    /// The machine is shut down and started.
    Rebooted { start: Start },
    /// The machine loses its power.
    PowerLost { start: Start },

    /// A line for people, in stories told by hand.
    Remark { text: &'static str },
    /// Shows why a pod's volumes are as they are, in stories told by hand.
    Explained { pod: usize },
}

/// How a process starts, and what became of its disk while it was down.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// How long nothing runs.
    pub down: u64,
    /// Whether a record is damaged meanwhile.
    pub corrupt: bool,
    /// How long it takes until the disk is read.
    pub scan: u64,
    /// How long it takes until sources have told all.
    pub list: u64,
    /// How long it takes until the attacher has told all.
    pub attachments: u64,
}

impl Start {
    /// A start without trouble.
    pub const CLEAN: Self = Self { down: 200, corrupt: false, scan: 5, list: 50, attachments: 30 };
}

/// Which list a source gives when it is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// What it has now.
    Fresh,
    /// What it had a while ago, and then everything since.
    Stale,
}

/// How a driver misbehaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Behavior {
    FinalError,
    TimeoutWithEffect,
    TimeoutWithoutEffect,
    ConnectionLost,
    Hang,
    HangUntilRestart,
    DoneWithoutEffect,
    RefusedWithEffect,
    PartialStage,
    PartialUnstage,
    ExpandInUse,
    ExpandInfeasible,
    ExpandNotSupported,
}

/// What befalls plugins that have no driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum LocalTrouble {
    Refused,
    Unknown,
    Hang,
}

/// What befalls the attacher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum AttacherTrouble {
    Slow,
    Fails,
    Exhausted,
}

/// What befalls a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ReportTrouble {
    NotStored,
    AnswerLost,
}

impl Script {
    /// The same script with other entries.
    pub fn with(&self, entries: Vec<Entry>) -> Self {
        Self { entries, ..self.clone() }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", crate::trace::Clock(self.at), self.stimulus)
    }
}
