//! When a failed operation is tried again: 500 ms, doubling, at most 2 min 2 s (E-6e, E-329).

use crate::ids::Time;
use crate::operation::{OperationKind, Trouble};
use core::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(122);

/// The memory of failures in a row. It belongs to a place where one operation runs at a time; another kind of operation at
/// that place starts afresh (E-327).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// What failed.
    pub kind: OperationKind,
    /// How many times in a row.
    pub failures: u32,
    /// When the first of them was.
    pub since: Time,
    /// Not tried again before this.
    pub retry_at: Time,
    /// The last failure.
    pub trouble: Trouble,
}

impl Backoff {
    /// The memory after one more failure of `kind`.
    pub fn failed(previous: Option<&Self>, kind: OperationKind, now: Time, trouble: Trouble) -> Self {
        let (failures, since) = match previous {
            Some(previous) if previous.kind == kind => (previous.failures.saturating_add(1), previous.since),
            Some(_) | None => (1, now),
        };
        Self { kind, failures, since, retry_at: now + delay(failures), trouble }
    }
}

/// How long to wait after this many failures in a row.
pub fn delay(failures: u32) -> Duration {
    // Past eight doublings the cap holds anyway, and the shift cannot overflow.
    let doublings = failures.saturating_sub(1).min(8);
    (FIRST * (1 << doublings)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Cause;

    #[test]
    fn delays_double_from_half_a_second_to_two_minutes_and_two_seconds() {
        let seconds: alloc::vec::Vec<f64> = (1..=11).map(|it| delay(it).as_secs_f64()).collect();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0, 122.0]);
        assert_eq!(delay(u32::MAX), LONGEST);
    }

    #[test]
    fn another_kind_of_operation_starts_afresh() {
        let trouble = Trouble { cause: Cause::Other, text: "no".into() };
        let once = Backoff::failed(None, OperationKind::Stage, Time(0), trouble.clone());
        let twice = Backoff::failed(Some(&once), OperationKind::Stage, Time(500), trouble.clone());
        assert_eq!((twice.failures, twice.retry_at), (2, Time(1500)));
        let other = Backoff::failed(Some(&twice), OperationKind::Unstage, Time(1500), trouble);
        assert_eq!((other.failures, other.retry_at), (1, Time(2000)));
    }
}
