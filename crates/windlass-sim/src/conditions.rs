//! What is the matter at the moment: troubles that last, and objects as they are now.

use crate::script::{AttacherTrouble, LocalTrouble, ReportTrouble};
use crate::setting::Setting;
use std::collections::BTreeMap;
use windlass_core::expand;
use windlass_core::ids::Time;

/// Everything around the node that changes and is not a thing of its own.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Troubles of plugins without drivers: which, how often in a thousand, until when.
    pub local: Vec<(LocalTrouble, u32, Time)>,
    /// Troubles of the attacher.
    pub attacher: Vec<(AttacherTrouble, Time)>,
    /// Troubles of the report.
    pub reports: Vec<(ReportTrouble, Time)>,
    /// How late timers fire, and until when.
    pub timers_late: Option<(u64, Time)>,
    /// The pods' volumes that cannot be looked up, by pod and index, with how many troubles are at work.
    pub lookups_failing: BTreeMap<(usize, usize), u32>,
    /// The volumes whose object is missing.
    pub objects_missing: BTreeMap<usize, u32>,
    /// What is to be in each volume.
    pub revisions: Vec<u64>,
    /// How large each volume should be, and its claim says it is.
    pub sizes: Vec<expand::Size>,
    /// The volumes of which a driver said that they cannot have the size that is wanted.
    pub growth_refused: BTreeMap<usize, Refusal>,
}

/// Why a volume does not grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It cannot have this size; perhaps another.
    ThisSize,
    /// It cannot grow while it is in use.
    InUse,
}

impl Conditions {
    /// Fair weather.
    pub fn new(setting: &Setting) -> Self {
        let size = |bytes: Option<u64>| expand::Size { wanted_bytes: bytes, recorded_bytes: bytes };
        Self {
            revisions: setting.volumes.iter().map(|_| 1).collect(),
            sizes: setting.volumes.iter().map(|it| size(it.size_bytes)).collect(),
            ..Self::default()
        }
    }

    /// How late a timer fires now.
    pub fn timer_delay(&self, now: Time) -> u64 {
        match self.timers_late {
            Some((by, until)) if until > now => by,
            Some(_) | None => 0,
        }
    }

    /// The attacher's trouble at this moment.
    pub fn attacher_trouble(&self, now: Time) -> Option<AttacherTrouble> {
        let at_work = self.attacher.iter().rfind(|(_, until)| *until > now);
        at_work.map(|(trouble, _)| *trouble)
    }

    /// The report's trouble at this moment.
    pub fn report_trouble(&self, now: Time) -> Option<ReportTrouble> {
        let at_work = self.reports.iter().rfind(|(_, until)| *until > now);
        at_work.map(|(trouble, _)| *trouble)
    }

    /// All troubles end.
    pub fn heal(&mut self) {
        self.local.clear();
        self.attacher.clear();
        self.reports.clear();
        self.timers_late = None;
    }
}
