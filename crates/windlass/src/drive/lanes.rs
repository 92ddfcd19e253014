//! Which calls can make which others wait.
//!
//! Volumes that are files below the root and nothing else share a lane for being made, because they are held up by the same
//! file systems if by any. To make them keeps a processor busy, so there are not more at a time than processors. To take
//! them away is mostly to wait for the kernel, which lets no unmount return before all processors have noticed, so of
//! those many run at a time. Whatever may wait for others has a lane for each of its types, and drivers one each.
//!
//! An operation that waits for a driver has no thread, so how many of a driver are under way at a time is counted apart from
//! threads: as many as it is said to stand.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZeroUsize;

use windlass_core::ids::{DriverName, OperationId};
use windlass_core::operation::{Operation, OperationKind};
use windlass_linux::workers::{Job, Lane};

use crate::catalogue::{HeldUpBy, VolumeType, driver_of};
use crate::csi::DriverSettings;
use crate::view::Operations;

/// Operations of one driver at a time. They have no thread while they wait for the driver, so this is what drivers are
/// to be spared, and what a kubelet does not spare them at all.
const AT_ONCE: usize = 256;

/// An operation that can begin.
pub(super) struct Beginning {
    pub(super) id: OperationId,
    pub(super) lane: Lane,
    pub(super) job: Job,
}

pub(super) struct Lanes {
    make: Lane,
    take_away: Lane,
    /// What is left of errands that met something slow.
    pub(super) taken_over: Lane,
    /// The directories of pods.
    pub(super) pods: Lane,
    /// What was there at start.
    pub(super) start: Lane,
    /// The lanes of drivers.
    drivers: HashMap<DriverName, DriverLane>,
    /// How many operations each lane was given, and how many of them have begun.
    tickets: HashMap<Lane, Tickets>,
    /// Of which driver how many operations run at a time, if not as many as of others.
    at_once: BTreeMap<String, usize>,
}

/// Operations of a lane begin in the order of their numbers.
#[derive(Default)]
struct Tickets {
    issued: u64,
    begun: u64,
}

/// The operations of a driver.
struct DriverLane {
    lane: Lane,
    at_once: usize,
    under_way: usize,
    waiting: VecDeque<Beginning>,
}

impl Lanes {
    pub(super) fn new(drivers: &BTreeMap<String, DriverSettings>) -> Self {
        let at_once = drivers.iter().filter_map(|(name, it)| Some((name.clone(), it.calls_at_once?.get())));
        let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            make: Lane::narrow("make files", processors),
            take_away: Lane::from("take files away"),
            taken_over: Lane::narrow("take over", processors),
            pods: Lane::narrow("pods", processors),
            start: Lane::from("start"),
            drivers: HashMap::new(),
            tickets: HashMap::new(),
            at_once: at_once.collect(),
        }
    }

    pub(super) fn of(&mut self, operation: &Operation) -> Lane {
        let spec = &operation.spec;
        if let Some(driver) = driver_of(spec) {
            return self.driver(driver).lane.clone();
        }
        match VolumeType::of(spec).map(|it| it.held_up_by) {
            Some(HeldUpBy::Root) => match operation.action.kind() {
                OperationKind::Publish => self.make.clone(),
                _ => self.take_away.clone(),
            },
            Some(HeldUpBy::Anything | HeldUpBy::Driver) | None => Lane::from(spec.plugin.as_str()),
        }
    }

    /// Whether nothing holds up the operations of a lane but the file system of the root.
    pub(super) fn is_of_root(&self, lane: &Lane) -> bool {
        *lane == self.make || *lane == self.take_away
    }

    /// A driver that hangs holds up its own volumes alone.
    fn driver(&mut self, name: &DriverName) -> &mut DriverLane {
        self.drivers.entry(name.clone()).or_insert_with(|| DriverLane {
            lane: Lane::from(format!("driver {name}").as_str()),
            at_once: self.at_once.get(name.as_str()).copied().unwrap_or(AT_ONCE),
            under_way: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Gives an operation back if it can begin now; otherwise it waits until others of its driver have [left](Self::leave).
    pub(super) fn enter(&mut self, driver: Option<&DriverName>, beginning: Beginning) -> Option<Beginning> {
        let Some(driver) = driver else { return Some(beginning) };
        let lane = self.driver(driver);
        if lane.under_way < lane.at_once {
            lane.under_way += 1;
            return Some(beginning);
        }
        lane.waiting.push_back(beginning);
        None
    }

    /// An operation of a driver has ended. Another that can begin now is given back.
    pub(super) fn leave(&mut self, driver: &DriverName) -> Option<Beginning> {
        let lane = self.drivers.get_mut(driver)?;
        let next = lane.waiting.pop_front();
        lane.under_way -= usize::from(next.is_none());
        next
    }

    /// The number of another operation of a lane.
    pub(super) fn ticket(&mut self, lane: &Lane) -> u64 {
        let tickets = match self.tickets.get_mut(lane) {
            Some(tickets) => tickets,
            None => self.tickets.entry(lane.clone()).or_default(),
        };
        tickets.issued += 1;
        tickets.issued
    }

    /// An operation of a lane has begun, or never will.
    pub(super) fn has_begun(&mut self, lane: &Lane) {
        if let Some(tickets) = self.tickets.get_mut(lane) {
            tickets.begun += 1;
        }
    }

    /// How many operations of a lane begin before the one of this number.
    pub(super) fn ahead(&self, lane: &Lane, ticket: u64) -> u32 {
        let begun = self.tickets.get(lane).map_or(0, |it| it.begun);
        ticket.saturating_sub(begun + 1).try_into().unwrap_or(u32::MAX)
    }

    /// How many operations of a driver there are.
    pub(super) fn operations(&self, driver: &str) -> Operations {
        let lane = self.drivers.get(&DriverName::from(driver));
        lane.map(|it| Operations { under_way: it.under_way, waiting: it.waiting.len() }).unwrap_or_default()
    }
}
