//! Events that make no sense: each is counted and explained, none is a panic, none loses state.

use alloc::collections::VecDeque;
use alloc::string::String;

macro_rules! oddities {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A kind of nonsense.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Oddity {
            $($(#[$doc])* $name,)*
        }

        impl Oddity {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

oddities! {
    /// A result of an operation that does not run.
    UnknownOperation,
    /// A result that does not fit its operation, for example a mount from a detach. It counts as unknown.
    OutcomeMismatch,
    /// A pod, volume or name without text.
    EmptyName,
    /// A pod with two volumes of one name. The first counts.
    DuplicateName,
    /// An older version of a pod than the one known.
    StaleVersion,
    /// A pod that another source has already given.
    OtherSource,
    /// A source that was not announced.
    UnknownSource,
    /// A pod that nobody knows is gone.
    UnknownPod,
    /// A pod that is to be held no longer, and was not held.
    NotHeld,
    /// A volume of one pod that another pod wants.
    NotShared,
    /// A volume whose plugin or mode is another than before while it is here. The old one stays.
    SpecChanged,
    /// A pod whose volume at one place is another than before while it is here. The old one stays (E-417).
    IdentityChanged,
    /// A block volume whose plugin has no block volumes.
    NoBlock,
    /// A volume that should become smaller than it is.
    SizeShrunk,
    /// Something found after all was said to have been found.
    FoundLate,
    /// A mount at a place that is not known.
    UnknownPlace,
    /// A report of a set of volumes that was never given out.
    UnknownReport,
    /// A waiter that waits already, or is not known.
    UnknownWaiter,
    /// Time that went backwards.
    TimeWentBack,
}

/// How many explanations are kept.
const KEPT: usize = 64;

/// The nonsense so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Oddities {
    counts: [u64; Oddity::ALL.len()],
    latest: VecDeque<(Oddity, String)>,
    /// How many of the latest have not been told.
    untold: usize,
}

impl Oddities {
    pub(crate) fn note(&mut self, oddity: Oddity, text: String) {
        self.counts[oddity as usize] += 1;
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back((oddity, text));
        self.untold = (self.untold + 1).min(KEPT);
    }

    /// The oldest that has not been told.
    pub(crate) fn next(&mut self) -> Option<(Oddity, String)> {
        let index = self.latest.len().checked_sub(self.untold).filter(|_| self.untold > 0)?;
        self.untold -= 1;
        self.latest.get(index).cloned()
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (Oddity, u64)> {
        Oddity::ALL.iter().map(|&it| (it, self.counts[it as usize])).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn latest(&self) -> impl Iterator<Item = (Oddity, &str)> {
        self.latest.iter().map(|(oddity, text)| (*oddity, text.as_str()))
    }
}
