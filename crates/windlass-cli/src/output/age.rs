//! How long something has lasted, as kubectl writes it: exact while it is short, rough when it is long.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time from then till now. What lies ahead, by a clock that is a little off, is `0s`.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    duration(now.duration_since(then).as_secs().max(0))
}

/// The time from now till then, for something to come.
pub(crate) fn until(then: Timestamp, now: Timestamp) -> String {
    match then.duration_since(now).as_millis() {
        ..=0 => "now".into(),
        // Rounded up: something that comes is not there yet.
        milliseconds => format!("in {}", duration(i64::try_from((milliseconds + 999) / 1000).unwrap_or(i64::MAX))),
    }
}

fn duration(seconds: i64) -> String {
    // Each unit is used alone above some size, and with the next smaller one below it.
    let pair = |unit: i64, letter, smaller: i64, small_letter| match seconds % unit / smaller {
        0 => format!("{}{letter}", seconds / unit),
        rest => format!("{}{letter}{rest}{small_letter}", seconds / unit),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => pair(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 20 * MINUTE, "3h20m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR + 20 * DAY, "2y20d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn a_clock_that_is_off_makes_no_negative_age() {
        let now = Timestamp::from_second(1000).unwrap();
        let later = Timestamp::from_millisecond(1_001_200).unwrap();
        assert_eq!(age(later, now), "0s");
        assert_eq!(until(now, later), "now");
        assert_eq!(until(later, now), "in 2s");
    }
}
