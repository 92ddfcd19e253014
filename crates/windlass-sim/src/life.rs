//! One seed is one node's life: it runs, trouble ends, it settles, and is judged.

use crate::checks;
use crate::faults::Counts;
use crate::script::Script;
use crate::setting::Setting;
use crate::trace::Trace;
use crate::world::World;
use windlass_core::Planning;
use windlass_core::ids::Time;
use windlass_core::spec::Refresh;

/// How long a node may take to settle once all trouble has ended.
const SETTLING: u64 = 2 * 60 * 60 * 1000;

/// How long a node is watched that never falls quite silent, because some volume wants to be refreshed now and then.
const WATCHING: u64 = 75 * 60 * 1000;

/// How a life is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether to keep what happens, for people.
    pub trace: bool,
    /// Where the engine's planning looks.
    pub planning: Planning,
    /// What is deliberately broken, to see that the checks notice.
    pub sabotage: Option<Sabotage>,
    /// A check that is not made, to see whether the others notice too.
    pub without: Option<&'static str>,
    /// How many steps pass between two looks at everything, which take longer than the steps.
    pub thorough_every: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { trace: false, planning: Planning::Touched, sabotage: None, without: None, thorough_every: 16 }
    }
}

/// Ways to break the surroundings of the engine on purpose. Each must make a check fail, or the check is worth nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Sources leave pods out of their lists (I-1).
    ForgetsPods,
    /// The executor starts operations twice (I-2).
    StartsTwice,
    /// Reports of what is in use are acknowledged and not stored (I-3).
    ForgetsReports,
    /// The executor takes a driver's word for a mount (I-4).
    TrustsDrivers,
    /// The executor takes every error to mean that nothing happened (I-10).
    GuessesRefused,
    /// A start does not look at the mount table (I-11).
    ScansBlindly,
    /// The executor leaves directories behind.
    LeavesDirectories,
    /// Some results never reach the engine.
    LosesResults,
    /// The executor writes a record once the call has succeeded, and not before it (I-10).
    RecordsLate,
    /// What is reported in use is what pods name, and not what is here (I-3).
    ReportsPodsOnly,
    /// A start does not look for staged volumes that no pod has (I-11).
    ForgetsStaged,
    /// The executor does not write down that content is about to change.
    NeverUnsettles,
    /// The executor does not write down what a plugin is going to mount (I-4).
    NeverAnnounces,
    /// The executor does not write down what it made (I-11).
    NeverProves,
    /// The executor does not write back the record of what it did not change (I-11).
    NeverRestores,
    /// The executor leaves the record as proof of what it takes away (I-10).
    NeverRetires,
    /// The executor removes the record before it takes away what it is of (I-10).
    ForgetsEarly,
    /// The executor leaves the record of what it took away.
    NeverForgets,
}

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The check that noticed.
    pub check: &'static str,
    /// What it noticed.
    pub message: String,
    /// When.
    pub at: Time,
}

impl Failure {
    /// Is this the same thing gone wrong, though perhaps with other volumes and pods?
    pub fn is_like(&self, other: &Self) -> bool {
        self.check == other.check && gist(&self.message) == gist(&other.message)
    }
}

/// The words of a message without the names and numbers in it, up to where it becomes a description.
fn gist(message: &str) -> Vec<&str> {
    let is_name = |it: &&str| it.contains('/') || it.contains(|letter: char| letter.is_ascii_digit());
    let words = message.split_whitespace().take_while(|it| !it.starts_with('{'));
    words.filter(|it| !is_name(it)).take(12).collect()
}

/// What came of a life.
#[derive(Clone, Debug)]
pub struct Report {
    /// The promise that was broken, if one was.
    pub failure: Option<Failure>,
    /// What went wrong around the engine, on purpose.
    pub faults: Counts,
    /// How many operations the engine asked for.
    pub operations: u64,
    /// How many edges of its work the process came to.
    pub edges: u64,
    /// How much time passed in the world, in milliseconds.
    pub simulated: u64,
    /// What happened, if that was kept.
    pub trace: Vec<String>,
}

/// The setting and the script of a seed.
pub fn plan(seed: u64, days: u64) -> (Setting, Script) {
    let mut setting = Setting::from_seed(seed);
    let script = Script::from_seed(&mut setting, days);
    (setting, script)
}

/// Runs the life of a seed.
pub fn run_seed(seed: u64, days: u64, options: &Options) -> Report {
    let (setting, script) = plan(seed, days);
    run(setting, script, options)
}

/// Runs a life.
pub fn run(setting: Setting, script: Script, options: &Options) -> Report {
    let mut world = World::new(setting, script, options);
    world.live();
    world.into_report()
}

impl World {
    /// Lives through the script, settles, and is judged.
    pub(crate) fn live(&mut self) {
        self.run_until(self.script.end);
        if self.failure.is_some() {
            return;
        }
        self.heal();
        self.settle();
        if self.failure.is_none() {
            checks::settled(self);
        }
        if self.failure.is_none() && self.script.clear {
            self.remove_all_pods();
            self.settle();
            if self.failure.is_none() {
                checks::settled(self);
                checks::nothing_left(self);
            }
        }
    }

    /// Runs until nothing happens any more, or for long enough.
    fn settle(&mut self) {
        let begin = self.now.0;
        let silent = Time(begin + SETTLING);
        let watched = Time(begin + WATCHING);
        while self.failure.is_none() {
            let end = if self.is_quiet() && self.refreshes_regularly() { watched } else { silent };
            match self.next_at() {
                Some(at) if at <= end => self.step(),
                Some(_) | None => return,
            };
        }
    }

    /// Does the engine hold a volume that must be refreshed now and then?
    pub(crate) fn refreshes_regularly(&self) -> bool {
        let regular = |it: &windlass_core::event::MountPlace| {
            let plan = self.setting.volume(crate::kernel::volume_of(it));
            plan.is_some_and(|it| matches!(it.capabilities.refresh, Refresh::Every(_)))
        };
        self.kernel.ours().any(regular)
    }

    pub(crate) fn into_report(self) -> Report {
        Report {
            failure: self.failure,
            faults: self.faults,
            operations: self.operations,
            edges: self.edges,
            simulated: self.now.0,
            trace: Trace::into_lines(self.trace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_alike_whatever_the_names() {
        let failure = |message: &str| Failure { check: "x", message: message.into(), at: Time(0) };
        let one = failure("csi/disk-1 is taken from pod-2, which wants it");
        assert!(one.is_like(&failure("csi/disk-4 is taken from pod-7, which wants it")));
        assert!(!one.is_like(&failure("csi/disk-1 is left behind")));
    }
}
