//! What happened, line by line, for people. Off unless somebody wants to read it.

use std::fmt;
use windlass_core::ids::Time;

/// The lines of one life.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps what it is told.
    pub fn kept() -> Self {
        Self { lines: Some(Vec::new()) }
    }

    /// A trace that keeps nothing, and does not even ask for the words.
    pub fn none() -> Self {
        Self::default()
    }

    /// Does anybody want to read it?
    pub fn is_kept(&self) -> bool {
        self.lines.is_some()
    }

    /// Notes one line. The words are only made if they are kept.
    pub fn note(&mut self, now: Time, words: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{}  {}", Clock(now), words()));
        }
    }

    /// Notes lines that belong to no moment.
    pub fn remark(&mut self, words: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(words());
        }
    }

    /// The lines.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

/// A moment as people read it: hours, minutes, seconds and milliseconds, with days before them once there are any.
pub struct Clock(pub Time);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.0;
        let seconds = milliseconds / 1000;
        let (minutes, hours) = (seconds / 60, seconds / 3600);
        if hours >= 24 {
            write!(f, "{}d ", hours / 24)?;
        }
        write!(f, "{:02}:{:02}:{:02}.{:03}", hours % 24, minutes % 60, seconds % 60, milliseconds % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_like_a_clock() {
        assert_eq!(Clock(Time(3_723_004)).to_string(), "01:02:03.004");
        assert_eq!(Clock(Time(90_000_000)).to_string(), "1d 01:00:00.000");
    }

    #[test]
    fn words_that_nobody_keeps_are_not_made() {
        let mut trace = Trace::none();
        trace.note(Time(0), || unreachable!("nobody reads this"));
        assert!(trace.into_lines().is_empty());
    }
}
