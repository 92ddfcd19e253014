//! The edges of the process's work: the moments between two things that it does or hears, at each of which it can be
//! killed.
//!
//! They are counted from the beginning of a life, through all kills, so that a number names the same moment whenever the
//! life is played again.

use crate::script::Start;
use crate::world::{Happening, World};
use std::fmt;
use std::str::FromStr;
use windlass_core::flight::Step;
use windlass_core::ids::OperationId;

/// A kill at an edge. It is written as the edge's number, and how the process comes back: `12:later`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kill {
    /// Which edge, counted from 1.
    pub edge: u64,
    /// How the process comes back.
    pub comeback: Comeback,
}

/// How the process comes back after a kill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Comeback {
    /// At once: what drivers were asked for is still under way.
    AtOnce,
    /// When all that was under way is over, and perhaps the pod is gone.
    Later,
    /// At once, with a disk that takes longer to be read than everything else.
    SlowDisk,
}

impl Comeback {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AtOnce, Self::Later, Self::SlowDisk];

    fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at-once",
            Self::Later => "later",
            Self::SlowDisk => "slow-disk",
        }
    }

    fn start(self) -> Start {
        match self {
            Self::AtOnce => Start { down: 1, ..Start::CLEAN },
            Self::Later => Start { down: 30_000, ..Start::CLEAN },
            Self::SlowDisk => Start { down: 1, scan: 5_000, list: 10, attachments: 10, ..Start::CLEAN },
        }
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.edge, self.comeback.name())
    }
}

impl FromStr for Kill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (edge, name) = text.split_once(':').unwrap_or((text, Comeback::AtOnce.name()));
        let edge = edge.parse().map_err(|_| format!("'{edge}' is not the number of an edge"))?;
        let comeback = Comeback::ALL.into_iter().find(|it| it.name() == name);
        let comeback = comeback.ok_or_else(|| {
            let known = Comeback::ALL.map(Comeback::name).join(", ");
            format!("'{name}' is no way to come back; there are {known}")
        })?;
        Ok(Self { edge, comeback })
    }
}

/// Where in its work the process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    /// Before a step of an operation.
    Before(OperationId, Step),
    /// The call of an operation was made, and nothing has come of it yet.
    CallMade(OperationId),
    /// It is recorded what a plugin is going to mount, and it is not mounted.
    Announced(OperationId),
    /// A driver or the kernel did what it was asked for, and nobody has heard of it.
    CallDone(OperationId),
    /// The call answered, and the plugin has not looked at the answer.
    Answered(OperationId),
    /// The engine was told how an operation ended, and what follows at once has followed.
    Told(OperationId),
    /// Before the process hears or does this, which is no operation.
    Hears(&'static str),
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(id, step) => write!(f, "before {step} of {id}"),
            Self::CallMade(id) => write!(f, "the call of {id} was made"),
            Self::Announced(id) => write!(f, "the call of {id} has said what it will mount"),
            Self::Answered(id) => write!(f, "the call of {id} has answered"),
            Self::CallDone(id) => write!(f, "the call of {id} has taken effect"),
            Self::Told(id) => write!(f, "the end of {id} was told"),
            Self::Hears(what) => write!(f, "before {what}"),
        }
    }
}

impl World {
    /// The process comes to an edge of its work; says whether it dies there.
    pub(crate) fn dies_at(&mut self, edge: Edge) -> bool {
        if self.process.is_none() {
            return false;
        }
        self.edges += 1;
        let Some(kill) = self.script.kills.iter().find(|it| it.edge == self.edges).copied() else {
            return false;
        };
        self.note(|| format!("edge {}: {edge}", kill.edge));
        self.kill_and_start(kill.comeback.start());
        true
    }

    /// Does the script have a kill for an edge that is yet to come?
    pub(crate) fn will_be_killed(&self) -> bool {
        self.script.kills.iter().any(|it| it.edge > self.edges)
    }

    /// The edge before something happens in the process that is not a step of an operation.
    pub(crate) fn comes_to(&mut self, happening: &Happening) {
        let what = match happening {
            Happening::ScanRuns(life) if self.lives(*life) => "the disk is read",
            Happening::ScanEnds(life) if self.lives(*life) => "the disk counts as read",
            Happening::ListRuns { life, .. } if self.lives(*life) => "a source is read",
            Happening::Delivered { life, .. } if self.lives(*life) => "a pod or the end of a list arrives",
            Happening::AttachmentTold { life, .. } if self.lives(*life) => "word of an attachment arrives",
            Happening::AttachmentsTold { life } if self.lives(*life) => "the attachments are read",
            Happening::ReportSent { life } if self.lives(*life) => "the report is sent",
            Happening::ReportStored { life, .. } if self.lives(*life) => "the report is stored",
            Happening::ReportAnswered { life, .. } if self.lives(*life) => "the report is acknowledged",
            _ => return,
        };
        self.dies_at(Edge::Hears(what));
    }
}
