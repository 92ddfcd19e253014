//! A small generator of random numbers that stays as it is for ever, so that a seed keeps its meaning: SplitMix64.

/// Numbers that follow from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// An index into a list of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below the length of a list")
    }

    /// One of these.
    pub(crate) fn pick<'list, T>(&mut self, list: &'list [T]) -> &'list T {
        &list[self.index(list.len())]
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A number from `low` up to and without `high`, each doubling as likely as any other: short times are where a
    /// process that was just given something to do is busiest.
    pub(crate) fn spread(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high / low).max(1).ilog2());
        let from = low << self.below(doublings.max(1));
        from + self.below(from)
    }
}
