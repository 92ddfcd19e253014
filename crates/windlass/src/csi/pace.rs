//! How many operations of a driver are under way at a time: more while its answers do not take longer for it, fewer when
//! they do.
//!
//! Answers are judged in rounds, of each method by itself, by the shortest answer of a round: one volume that takes long (it
//! is formatted, say) says nothing of the load, but if even the shortest answer takes twice as long as answers once did, calls
//! wait for each other. Then there are fewer at a time. If answers are no shorter for that, and no shorter if there are fewer
//! still, it was not the load: that time is what such answers take, and there are as many as before.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

/// With how many it begins, twice as many each round.
const FIRST: usize = 64;
/// Never fewer than this, so that one that hangs does not stand in the way of all others.
const LEAST: usize = 2;
/// How many more in a round, once answers have taken longer.
const MORE: usize = 4;
/// Answers that take only so much longer do not take longer.
const UNNOTICED: Duration = Duration::from_millis(10);

/// The pace of one driver.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// What is set for the driver.
    most: usize,
    at_once: usize,
    /// More operations wanted to begin than could.
    is_reached: bool,
    /// Answers have taken longer at some time.
    is_known: bool,
    /// How many answers there were of any kind.
    answers: u64,
    methods: BTreeMap<&'static str, Method>,
}

/// What is known of the answers of one method.
#[derive(Clone, Debug)]
struct Method {
    /// What an answer takes if nothing holds it up.
    unhindered: Duration,
    /// The shortest answer of this round.
    shortest: Option<Duration>,
    /// How many answers are left of calls that were made before the round began.
    earlier: usize,
    /// How many answers are left until the round is over.
    left: usize,
    lowered: Option<Lowered>,
}

/// How it was before there were fewer at a time.
#[derive(Clone, Copy, Debug)]
struct Lowered {
    from: usize,
    shortest: Duration,
    /// It was the second time, because answers were no shorter after the first.
    in_vain: bool,
}

impl Pace {
    pub(crate) fn new(most: NonZeroUsize) -> Self {
        let most = most.get();
        let at_once = FIRST.min(most);
        Self { most, at_once, is_reached: false, is_known: false, answers: 0, methods: BTreeMap::new() }
    }

    /// How many operations are under way at a time now.
    pub(crate) fn at_once(&self) -> usize {
        self.at_once
    }

    /// How many there may be, whatever it answers.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How many answers there were.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Whether another may begin beside so many.
    pub(crate) fn admits(&mut self, under_way: usize) -> bool {
        let admits = under_way < self.at_once;
        self.is_reached |= !admits;
        admits
    }

    /// A call ended with an error, which tells nothing of how long calls take.
    pub(crate) fn failed(&mut self) {
        self.answers += 1;
    }

    /// A call did what it was to do, and took this long.
    pub(crate) fn answered(&mut self, method: &'static str, took: Duration) {
        self.answers += 1;
        let (at_once, least_at_once) = (self.at_once, LEAST.min(self.most));
        let Method { unhindered, shortest, earlier, left, lowered } = self.methods.entry(method).or_insert(Method {
            unhindered: took,
            shortest: None,
            earlier: 0,
            left: at_once,
            lowered: None,
        });
        *unhindered = took.min(*unhindered);
        if *earlier > 0 {
            *earlier -= 1;
            return;
        }
        let least = shortest.map_or(took, |it| it.min(took));
        *shortest = Some(least);
        *left -= 1;
        if *left > 0 {
            return;
        }
        *shortest = None;
        let is_longer = least > 2 * *unhindered && least - *unhindered > UNNOTICED;
        let before = lowered.take();
        let in_vain = before.filter(|it| least > it.shortest * 17 / 20);
        if !is_longer {
            self.allow_more();
        } else if at_once <= least_at_once {
            *unhindered = least;
        } else if let Some(Lowered { from, in_vain: true, .. }) = in_vain {
            // Twice fewer at a time was no help: it is not for their number that answers take so long.
            *unhindered = least;
            self.at_once = from.max(at_once);
        } else {
            let from = in_vain.map_or(at_once, |it| it.from);
            (*lowered, *earlier) = (Some(Lowered { from, shortest: least, in_vain: in_vain.is_some() }), at_once);
            self.at_once = (at_once * 7 / 10).max(least_at_once);
            self.is_known = true;
        }
        let at_once = self.at_once;
        if let Some(method) = self.methods.get_mut(method) {
            method.left = at_once;
        }
    }

    /// Operations wait, and for a good while there was no answer at all: those that wait do not wait for what hangs.
    pub(crate) fn silent(&mut self) {
        self.at_once = (2 * self.at_once).min(self.most);
    }

    fn allow_more(&mut self) {
        if std::mem::take(&mut self.is_reached) {
            let more = if self.is_known { MORE } else { self.at_once };
            self.at_once = (self.at_once + more).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(most: usize) -> Pace {
        Pace::new(NonZeroUsize::new(most).unwrap())
    }

    fn milliseconds(number: usize) -> Duration {
        Duration::from_millis(number as u64)
    }

    /// So many calls of a driver that has as many under way as it may have, and answers in the order in which it is called.
    /// What a call takes is told by how many are under way.
    fn call(pace: &mut Pace, calls: usize, takes: impl Fn(usize) -> Duration) {
        let mut under_way = std::collections::VecDeque::new();
        for _ in 0..calls {
            while pace.admits(under_way.len()) {
                under_way.push_back(under_way.len() + 1);
            }
            let load = under_way.pop_front().unwrap();
            pace.answered("NodeStageVolume", takes(load));
        }
    }

    #[test]
    fn a_driver_that_takes_no_longer_for_more_gets_as_many_as_are_set() {
        let mut pace = pace(256);
        assert_eq!(pace.at_once(), 64);
        call(&mut pace, 64 + 128, |_| milliseconds(20));
        assert_eq!(pace.at_once(), 256);
        call(&mut pace, 10_000, |_| milliseconds(20));
        assert_eq!(pace.at_once(), 256);
    }

    #[test]
    fn a_driver_that_takes_longer_for_more_gets_fewer() {
        let mut pace = pace(256);
        pace.answered("NodeStageVolume", milliseconds(20));
        call(&mut pace, 10_000, |load| milliseconds(20 * load));
        assert!((LEAST..=8).contains(&pace.at_once()), "{pace:?}");
    }

    #[test]
    fn a_driver_that_does_eight_at_a_time_gets_no_fewer_than_those_and_not_many_more() {
        let mut pace = pace(256);
        pace.answered("NodeStageVolume", milliseconds(100));
        let takes = |load: usize| milliseconds(100 * load.div_ceil(8));
        call(&mut pace, 2000, takes);
        for _ in 0..100 {
            call(&mut pace, 500, takes);
            assert!((8..=32).contains(&pace.at_once()), "{pace:?}");
        }
    }

    #[test]
    fn volumes_that_take_longer_do_not_make_it_fewer() {
        let mut pace = pace(256);
        call(&mut pace, 2000, |_| milliseconds(50));
        // All of them, for good: no load does that.
        call(&mut pace, 5000, |_| milliseconds(5000));
        assert_eq!(pace.at_once(), 256);
        // Some of them.
        for number in 0..5000 {
            pace.admits(usize::MAX);
            pace.answered("NodePublishVolume", milliseconds(if number % 16 == 0 { 50 } else { 5000 }));
        }
        assert_eq!(pace.at_once(), 256);
    }

    #[test]
    fn what_takes_next_to_nothing_may_take_twice_that() {
        let mut pace = pace(256);
        pace.answered("NodeStageVolume", milliseconds(1));
        call(&mut pace, 2000, |_| milliseconds(10));
        assert_eq!(pace.at_once(), 256);
    }

    #[test]
    fn a_driver_that_recovers_gets_more_again() {
        let mut pace = pace(256);
        pace.answered("NodeStageVolume", milliseconds(20));
        call(&mut pace, 10_000, |load| milliseconds(20 * load));
        call(&mut pace, 100_000, |_| milliseconds(20));
        assert_eq!(pace.at_once(), 256);
    }

    #[test]
    fn it_is_never_more_than_is_set_and_one_if_that_is_set() {
        for most in [1, 3, 100] {
            let mut pace = pace(most);
            call(&mut pace, 1000, |_| milliseconds(20));
            pace.silent();
            assert_eq!(pace.at_once(), most);
            call(&mut pace, 10_000, |load| milliseconds(20 * load));
            assert!(pace.at_once() <= most);
        }
    }

    #[test]
    fn it_grows_only_if_somebody_waits() {
        let mut pace = pace(256);
        (0..1000).for_each(|_| pace.answered("NodeStageVolume", milliseconds(20)));
        assert_eq!(pace.at_once(), 64);
    }

    #[test]
    fn calls_that_hang_hold_up_no_others() {
        let mut pace = pace(256);
        assert!(!pace.admits(64));
        pace.silent();
        pace.failed();
        assert!(pace.admits(64));
        assert_eq!(pace.answers(), 1);
    }
}
