//! That a claim was seen to go, and when its volume is deleted for that: not at once, because what a driver has deleted is
//! gone (I-15).
//!
//! The time counts on over restarts. Within one boot the kernel's clock tells how much is left, whatever becomes of the
//! clock on the wall. After a reboot only the wall's is left: one that was set back shortens nothing, and one that jumps
//! ahead leaves people time to see what is about to happen.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use windlass_core::ids::BootId;

/// So long a volume stays after a reboot at least, unless all of its time is shorter.
const AFTER_BOOT: Duration = Duration::from_secs(60);

/// A moment, by the clocks that a departure is counted by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    pub(crate) boot: BootId,
    /// By the kernel's clock of this boot, which nobody sets.
    pub(crate) uptime: Duration,
    pub(crate) wall: Timestamp,
}

impl Moment {
    /// Now, in this boot.
    pub(crate) fn now(boot: &BootId) -> Self {
        let uptime = clock_gettime(ClockId::Monotonic);
        let uptime = Duration::new(uptime.tv_sec.unsigned_abs(), u32::try_from(uptime.tv_nsec).unwrap_or(0));
        Self { boot: boot.clone(), uptime, wall: Timestamp::now() }
    }

    /// So much later, by the clock on the wall.
    pub(crate) fn after(&self, time: Duration) -> Timestamp {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(time).unwrap_or(Timestamp::MAX)
    }
}

/// A claim was seen to go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Departure {
    /// When, by the clock on the wall.
    pub(crate) since: Timestamp,
    /// How long its volume stays after that.
    delay_milliseconds: u64,
    /// The boot in which that was.
    boot: String,
    /// When the time is over, by that boot's clock.
    due_uptime_milliseconds: u64,
    /// Somebody said that the volume is to go.
    #[serde(default)]
    is_ordered: bool,
}

impl Departure {
    /// A claim has gone just now, and its volume stays for so long.
    pub(crate) fn begin(now: &Moment, delay: Duration) -> Self {
        Self {
            since: now.wall,
            delay_milliseconds: milliseconds(delay),
            boot: now.boot.as_str().into(),
            due_uptime_milliseconds: milliseconds(now.uptime.saturating_add(delay)),
            is_ordered: false,
        }
    }

    /// Somebody says that the volume is to go, and that nothing is to be waited for.
    pub(crate) fn order(now: &Moment) -> Self {
        Self { is_ordered: true, ..Self::begin(now, Duration::ZERO) }
    }

    /// Whether somebody said that the volume is to go.
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// How long the volume still stays.
    pub(crate) fn remaining(&self, now: &Moment) -> Duration {
        let delay = Duration::from_millis(self.delay_milliseconds);
        if self.boot == now.boot.as_str() {
            return Duration::from_millis(self.due_uptime_milliseconds).saturating_sub(now.uptime).min(delay);
        }
        let passed = now.wall.duration_since(self.since).max(SignedDuration::ZERO).unsigned_abs();
        delay.saturating_sub(passed).max(AFTER_BOOT.min(delay))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(boot: &str, uptime: Duration, wall: i64) -> Moment {
        Moment { boot: boot.into(), uptime, wall: Timestamp::from_second(1_800_000_000 + wall).unwrap() }
    }

    #[test]
    fn the_time_counts_on_in_another_process() {
        let departure = Departure::begin(&at("a", MINUTE, 0), 10 * MINUTE);
        let text = serde_json::to_string(&departure).unwrap();
        let departure: Departure = serde_json::from_str(&text).unwrap();
        assert_eq!(departure.remaining(&at("a", 4 * MINUTE, 180)), 7 * MINUTE);
        assert_eq!(departure.remaining(&at("a", 11 * MINUTE, 600)), Duration::ZERO);
        assert_eq!(departure.remaining(&at("a", 99 * MINUTE, 6000)), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_set_changes_nothing_within_one_boot() {
        let departure = Departure::begin(&at("a", MINUTE, 0), 10 * MINUTE);
        for wall in [-1_000_000, 0, 1_000_000] {
            assert_eq!(departure.remaining(&at("a", 2 * MINUTE, wall)), 9 * MINUTE, "{wall}");
        }
    }

    #[test]
    fn after_a_reboot_a_clock_that_went_back_shortens_nothing_and_one_that_jumped_leaves_a_minute() {
        let departure = Departure::begin(&at("a", MINUTE, 0), 10 * MINUTE);
        assert_eq!(departure.remaining(&at("b", Duration::ZERO, 240)), 6 * MINUTE, "the time when nothing ran counts");
        assert_eq!(departure.remaining(&at("b", Duration::ZERO, -1_000_000)), 10 * MINUTE);
        assert_eq!(departure.remaining(&at("b", Duration::ZERO, 1_000_000)), MINUTE);
        let short = Departure::begin(&at("a", MINUTE, 0), MINUTE / 2);
        assert_eq!(short.remaining(&at("b", Duration::ZERO, 1_000_000)), MINUTE / 2);
    }

    #[test]
    fn a_delay_without_end_never_ends() {
        let departure = Departure::begin(&at("a", MINUTE, 0), Duration::MAX);
        assert!(departure.remaining(&at("a", 99 * MINUTE, 0)) > 1_000_000 * MINUTE);
        assert!(departure.remaining(&at("b", MINUTE, 0)) > 1_000_000 * MINUTE);
    }
}
