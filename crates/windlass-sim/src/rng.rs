//! A small generator of random numbers that stays as it is for ever, so that a seed keeps its meaning.
//!
//! Nothing here is shared between the parts of a world: whoever needs chance makes a generator of its own, keyed by what
//! the chance is about. So leaving out one stimulus does not change the luck of everything after it, and a failing life
//! can be made shorter.

/// The generator: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// The odd constant of SplitMix64: two to the 64th, divided by the golden ratio.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The generator of one seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The generator for one matter within a seed. Different keys give unrelated numbers.
    pub fn keyed(seed: u64, key: &[u64]) -> Self {
        let mut state = mix(seed.wrapping_add(STRIDE));
        for part in key {
            state = mix(state ^ part.wrapping_mul(STRIDE)).wrapping_add(STRIDE);
        }
        Self { state }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STRIDE);
        mix(self.state)
    }

    /// A number below `limit`; zero if there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The high half of the product: without the division of a remainder, and nearly as even.
        ((u128::from(self.number()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number from `low` to `high` of which each order of magnitude is as likely as another: seconds and hours alike.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1) as f64, high.max(1) as f64);
        let share = self.below(1 << 20) as f64 / (1 << 20) as f64;
        (low * (high / low).powf(share)) as u64
    }

    /// True this many times in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// An index into a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number for a name, to be used as part of a key: FNV-1a.
pub fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper_and_never_change() {
        let mut rng = Rng::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| rng.number()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn keys_give_unrelated_numbers() {
        let one = Rng::keyed(1, &[1, 2]).number();
        assert_ne!(one, Rng::keyed(1, &[2, 1]).number());
        assert_ne!(one, Rng::keyed(2, &[1, 2]).number());
        assert_ne!(one, Rng::keyed(1, &[1]).number());
        assert_eq!(one, Rng::keyed(1, &[1, 2]).number());
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut rng = Rng::new(7);
        for _ in 0..1000 {
            assert!(rng.below(10) < 10);
            assert!((3..=5).contains(&rng.between(3, 5)));
            assert!((10..=1000).contains(&rng.spread(10, 1000)));
        }
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0));
        assert!(rng.chance(1000));
    }
}
