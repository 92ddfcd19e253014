//! Which calls can make which others wait.
//!
//! Volumes that are files below the root and nothing else share a lane for being made, because they are held up by the same
//! file systems if by any. To make them keeps a processor busy, so there are not more at a time than processors. To take
//! them away is mostly to wait for the kernel, which lets no unmount return before all processors have noticed, so of
//! those many run at a time. Whatever may wait for others has a lane for each of its types, and drivers one each: their
//! calls do little here but wait, so there the driver is to say how many it can do at a time, up to a limit.

use std::{collections::BTreeMap, num::NonZeroUsize};

use windlass_core::operation::{Kind as ActionKind, Operation};
use windlass_linux::workers::Lane;

use crate::{catalogue::Kind, csi::DriverSettings};

/// Calls of one driver at a time.
const CALLS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// With those that take long. Two drivers that hang leave threads for everything else.
const CALLS_MOST: NonZeroUsize = NonZeroUsize::new(192).unwrap();

pub(super) struct Lanes {
    make: Lane,
    take_away: Lane,
    /// The directories of pods.
    pub(super) pods: Lane,
    /// What was there at start.
    pub(super) start: Lane,
    /// Those of drivers of which not as many calls are made at a time as of others, however long they take.
    drivers: BTreeMap<String, Lane>,
}

impl Lanes {
    pub(super) fn new(drivers: &BTreeMap<String, DriverSettings>) -> Self {
        let plugin = Kind::Csi.plugin_name();
        let drivers = drivers.iter().filter_map(|(name, it)| {
            let at_once = it.calls_at_once?;
            Some((name.clone(), Lane::wide(&format!("{plugin}/{name}"), at_once, at_once)))
        });
        let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            make: Lane::narrow("make files", processors),
            take_away: Lane::from("take files away"),
            pods: Lane::narrow("pods", processors),
            start: Lane::from("start"),
            drivers: drivers.collect(),
        }
    }

    pub(super) fn of(&self, operation: &Operation) -> Lane {
        let plugin = operation.spec.plugin.as_str();
        match Kind::of_plugin(plugin) {
            Some(Kind::EmptyDir | Kind::Secret | Kind::DownwardApi | Kind::ConfigMap) => {
                match operation.action.kind() {
                    ActionKind::Publish => self.make.clone(),
                    _ => self.take_away.clone(),
                }
            }
            // A driver that hangs holds up its own volumes alone.
            Some(Kind::Csi) => match &operation.spec.driver {
                Some(driver) => match self.drivers.get(driver.as_str()) {
                    Some(lane) => lane.clone(),
                    None => Lane::wide(&format!("{plugin}/{driver}"), CALLS, CALLS_MOST),
                },
                None => Lane::from(plugin),
            },
            // A projected volume may wait for a token, the others for anything.
            Some(Kind::GitRepo | Kind::HostPath | Kind::Projected | Kind::LocalVolume | Kind::Image) | None => {
                Lane::from(plugin)
            }
        }
    }
}
