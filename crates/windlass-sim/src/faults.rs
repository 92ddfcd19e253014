//! What can go wrong in a simulated node, by name, and how often it did.
//!
//! A fault counts when it took effect, not when it was planned: a driver that was told to hang while nobody called it did
//! not hang.

use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident = $name:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        impl Fault {
            /// All kinds, in the order in which they are shown.
            pub const ALL: &[Self] = &[$(Self::$fault),*];

            /// The name people see.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)*
                }
            }
        }
    };
}

faults! {
    /// A driver answers with an error that says that nothing was done, and nothing was.
    FinalError = "driver: final error";
    /// No answer in time; the call was carried out nevertheless.
    TimeoutWithEffect = "driver: time-out, done";
    /// No answer in time; the call was not carried out.
    TimeoutWithoutEffect = "driver: time-out, not done";
    /// The connection broke in the middle of a call.
    ConnectionLost = "driver: connection lost";
    /// A call answers long after its deadline.
    Hang = "driver: hang";
    /// A call does not answer until the driver is restarted.
    HangUntilRestart = "driver: hang until restart";
    /// A driver says that it is done and did nothing.
    DoneWithoutEffect = "driver: lie, says done";
    /// A driver says that nothing was done and did it.
    RefusedWithEffect = "driver: lie, says refused";
    /// Half of a stage was done.
    PartialStage = "driver: half staged";
    /// Half of an unstage was done.
    PartialUnstage = "driver: half unstaged";
    /// A driver refuses because an earlier call for the volume is still at work.
    Aborted = "driver: earlier call at work";
    /// A volume cannot grow while in use.
    ExpandInUse = "driver: cannot grow in use";
    /// A volume cannot grow to that size at all.
    ExpandInfeasible = "driver: cannot grow";
    /// A volume does not grow on nodes.
    ExpandNotSupported = "driver: nothing to grow";
    /// A driver was restarted with calls in it.
    DriverRestart = "driver: restart";
    /// A driver went away.
    DriverAway = "driver: away";

    /// A plugin without a driver failed cleanly.
    LocalRefused = "local plugin: refused";
    /// A plugin without a driver failed in the middle.
    LocalUnknown = "local plugin: unknown";
    /// A plugin without a driver hung on a file system.
    LocalHang = "local plugin: hang";
    /// An operation waited for its turn.
    Queued = "operation: queued";
    /// An operation was held back because of a process of before.
    HeldBack = "operation: held back";
    /// An object that a volume needs was missing when it was published.
    ObjectMissing = "object: missing";
    /// What a pod's volume is could not be looked up.
    LookupFailed = "object: look-up failed";

    /// A record was half written when the power went.
    TornWrite = "disk: torn write";
    /// A write or removal was undone when the power went.
    LostWrite = "disk: lost write";
    /// A record was damaged while the process was down.
    CorruptRecord = "disk: corrupt record";

    /// The process died before anything of an operation was written.
    KillBeforeIntent = "kill: before the intent is written";
    /// The process died with the intent on disk and the call not made.
    KillBeforeCall = "kill: before the call";
    /// The process died while the driver was at work.
    KillDuringCall = "kill: during the call";
    /// The process died with the call answered and not yet verified.
    KillBeforeLook = "kill: before the mount is seen";
    /// The process died with the mount seen and not recorded.
    KillBeforeRecord = "kill: before the proof is written";
    /// The process died with the record written and the engine not told.
    KillBeforeResult = "kill: before the engine knows";
    /// The process died while no operation ran.
    KillIdle = "kill: idle";
    /// The machine lost power.
    PowerLoss = "node: power loss";
    /// The machine was shut down and started.
    Reboot = "node: reboot";
    /// The disk was read only after pods had come.
    SlowScan = "start: slow disk";

    /// A source took long to be complete.
    SourceIncomplete = "source: incomplete";
    /// Pods were missing in what a source gave at start, and came later.
    MissingAtStart = "source: pods missing at start";
    /// A source was lost, with what was on its way.
    SourceLost = "source: lost";
    /// A source came back with an old list.
    StaleList = "source: stale list";
    /// An older version of a pod came again.
    StaleEvent = "source: stale event";
    /// Events of different pods came in another order.
    Reordered = "source: reordered";
    /// An event came again.
    Repeated = "source: repeated";

    /// The attacher took its time.
    AttachSlow = "attacher: slow";
    /// The attacher failed.
    AttachFailed = "attacher: failed";
    /// The attacher found no room on the node.
    AttachExhausted = "attacher: no room";
    /// The attacher said that a volume is detached although it is not.
    AttachFlap = "attacher: says detached";
    /// What is attached was told late.
    AttachmentsLate = "attacher: late at start";
    /// The report of what is in use could not be stored.
    ReportFailed = "report: not stored";
    /// The report of what is in use was stored and the answer lost.
    ReportUnanswered = "report: answer lost";

    /// Somebody unmounted a volume.
    MountTaken = "mount: taken away";
    /// Somebody mounted over a volume.
    MountCovered = "mount: covered";
    /// Somebody took away what covered a volume.
    MountUncovered = "mount: uncovered";

    /// A timer fired late.
    TimerLate = "clock: timer late";
    /// The clock showed an earlier time than before.
    ClockBack = "clock: went back";
}

/// How often each kind of fault took effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts([u64; Fault::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Counts {
    /// One more.
    pub fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// All that another life had.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// How often this kind took effect.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// How many faults there were of any kind.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The kinds that never took effect.
    pub fn missing(&self) -> Vec<Fault> {
        Fault::ALL.iter().copied().filter(|&it| self.of(it) == 0).collect()
    }
}

impl fmt::Display for Counts {
    /// A table of two columns, one line for each kind, also for those that never occurred.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &fault in Fault::ALL {
            writeln!(f, "  {:<38} {:>10}", fault.name(), self.of(fault))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = Fault::ALL.iter().map(|it| it.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Fault::ALL.len());
    }

    #[test]
    fn counts_add_up_and_show_what_never_occurred() {
        let mut counts = Counts::default();
        counts.add(Fault::Hang);
        let mut sum = counts.clone();
        sum.merge(&counts);
        assert_eq!((sum.of(Fault::Hang), sum.total()), (2, 2));
        assert_eq!(sum.missing().len(), Fault::ALL.len() - 1);
    }
}
