//! Which calls can make which others wait.
//!
//! Volumes that are files below the root and nothing else share a lane for being made, because they are held up by the same
//! file systems if by any. To make them keeps a processor busy, so there are not more at a time than processors. To take
//! them away is mostly to wait for the kernel, which lets no unmount return before all processors have noticed, so of
//! those many run at a time. Whatever may wait for others has a lane for each of its types, and drivers one each.
//!
//! An operation that waits for a driver has no thread, so how many of a driver are under way at a time is counted apart from
//! threads: as many as it takes without getting slower ([`Pace`](crate::csi::Pace)). What is done before and after a call is
//! brief, so a few threads do it for all that are under way, one after the other, and more if they wait for a disk.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::ids::{DriverName, OperationId};
use windlass_core::operation::{Operation, OperationKind};
use windlass_linux::workers::{Job, Lane};

use crate::catalogue::{HeldUpBy, VolumeType, driver_of};
use crate::csi::Drivers;
use crate::view::Operations;

/// What is done before and after a driver's call takes longer only if it waits for something.
const BRIEF: Duration = Duration::from_millis(1);

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
    /// Which know how many operations of each run at a time.
    known: Arc<Drivers>,
    processors: NonZeroUsize,
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
    under_way: usize,
    waiting: VecDeque<Beginning>,
    /// How many answers there were when it was listened to last.
    heard: u64,
}

impl Lanes {
    pub(super) fn new(known: Arc<Drivers>) -> Self {
        let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            make: Lane::narrow("make files", processors),
            take_away: Lane::from("take files away"),
            taken_over: Lane::narrow("take over", processors),
            pods: Lane::narrow("pods", processors),
            start: Lane::from("start"),
            drivers: HashMap::new(),
            tickets: HashMap::new(),
            known,
            processors,
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
            lane: Lane::brief(&format!("driver {name}"), self.processors, BRIEF),
            under_way: 0,
            waiting: VecDeque::new(),
            heard: 0,
        })
    }

    /// Gives an operation back if it can begin now; otherwise it waits until it is the [next](Self::next) of its driver.
    pub(super) fn enter(&mut self, driver: Option<&DriverName>, beginning: Beginning) -> Option<Beginning> {
        let Some(driver) = driver else { return Some(beginning) };
        self.driver(driver).waiting.push_back(beginning);
        self.next(driver)
    }

    /// An operation of a driver has ended. Others may be [next](Self::next).
    pub(super) fn leave(&mut self, driver: &DriverName) {
        if let Some(lane) = self.drivers.get_mut(driver) {
            lane.under_way -= 1;
        }
    }

    /// The operation of a driver that can begin now, if one waits that can.
    pub(super) fn next(&mut self, driver: &DriverName) -> Option<Beginning> {
        let lane = self.drivers.get_mut(driver)?;
        let admits = |under_way| self.known.with_pace(driver.as_str(), |it| it.admits(under_way));
        if lane.waiting.is_empty() || !admits(lane.under_way) {
            return None;
        }
        lane.under_way += 1;
        lane.waiting.pop_front()
    }

    /// The drivers of which operations wait. Those that said nothing since they were asked for last get more to do.
    pub(super) fn listen(&mut self) -> Vec<DriverName> {
        let waiting = self.drivers.iter_mut().filter(|(_, lane)| !lane.waiting.is_empty());
        let listen = |(name, lane): (&DriverName, &mut DriverLane)| {
            let heard = self.known.with_pace(name.as_str(), |pace| {
                if pace.answers() == lane.heard {
                    pace.silent();
                }
                pace.answers()
            });
            lane.heard = heard;
            name.clone()
        };
        waiting.map(listen).collect()
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
        let (under_way, waiting) = lane.map(|it| (it.under_way, it.waiting.len())).unwrap_or_default();
        let (at_once, at_once_max) = self.known.with_pace(driver, |it| (it.at_once(), it.most()));
        Operations { under_way, waiting, at_once, at_once_max }
    }
}
