//! Times of many pods, and what is told of them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::process::{Process, Usage};
use crate::protocol::Figures;

/// Long enough for any machine that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A stretch of work that is measured: its time, and the processor time that a process takes for it.
pub(crate) struct Stretch {
    process: Process,
    before: Usage,
    pub(crate) began: Instant,
}

impl Stretch {
    /// Begins now.
    pub(crate) fn begin(process: Process) -> anyhow::Result<Self> {
        Ok(Self { process, before: process.usage()?, began: Instant::now() })
    }

    /// Ends now, and tells what it took.
    pub(crate) fn end(&self) -> anyhow::Result<Figures> {
        let wall_ms = Some(milliseconds(self.began.elapsed()));
        let cpu_ms = Some(milliseconds(self.process.usage()?.since(&self.before)));
        Ok(Figures { wall_ms, cpu_ms, ..Figures::default() })
    }
}

/// A moment of the monotonic clock, which all processes share, in nanoseconds.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(transparent)]
pub(crate) struct Moment(u64);

impl Moment {
    /// This one.
    pub(crate) fn now() -> anyhow::Result<Self> {
        let time = Duration::try_from(rustix::time::clock_gettime(ClockId::Monotonic))?;
        Ok(Self(u64::try_from(time.as_nanos())?))
    }

    /// What this process calls it. One that is to come is taken for now.
    pub(crate) fn instant(self) -> anyhow::Result<Instant> {
        let passed = Duration::from_nanos(Self::now()?.0.saturating_sub(self.0));
        Instant::now().checked_sub(passed).context("a moment before the clock began")
    }
}

/// In the unit that everything is told in.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Notes the percentiles of these times.
pub(crate) fn percentiles(figures: &mut Figures, mut times: Vec<Duration>) {
    times.sort_unstable();
    // The least time that so many of a hundred do not exceed.
    let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    figures.p50_ms = at(50).map(milliseconds);
    figures.p99_ms = at(99).map(milliseconds);
}

/// What one pod after the other took, each alone.
#[derive(Default)]
pub(crate) struct Alone {
    ready: Vec<Duration>,
    gone: Vec<Duration>,
}

impl Alone {
    /// Notes one more.
    pub(crate) fn note(&mut self, ready: Duration, gone: Duration) {
        self.ready.push(ready);
        self.gone.push(gone);
    }

    /// What is told of them.
    pub(crate) fn figures(self) -> [(&'static str, Figures); 2] {
        [("ready", self.ready), ("gone", self.gone)].map(|(part, times)| {
            let mut figures = Figures::default();
            percentiles(&mut figures, times);
            (part, figures)
        })
    }
}

/// The processor time that a process has taken so far.
pub(crate) fn cost(process: Process) -> anyhow::Result<Figures> {
    Ok(Figures { cpu_ms: Some(milliseconds(process.usage()?.since_birth())), ..Figures::default() })
}

/// Watches a process that has nothing to do, once it has come to rest.
pub(crate) fn idle(process: Process, rest: f64, seconds: f64) -> anyhow::Result<Figures> {
    ensure!(rest >= 0.0 && seconds > 0.0, "doing nothing takes time");
    std::thread::sleep(Duration::from_secs_f64(rest));
    let switches = process.switches()?;
    let stretch = Stretch::begin(process)?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let figures = stretch.end()?;
    let share = figures.cpu_ms.unwrap_or_default() / figures.wall_ms.unwrap_or(f64::INFINITY);
    let mut figures = Figures {
        idle_percent: Some(share * 100.0),
        wakeups: Some(process.switches()?.saturating_sub(switches) as f64 / seconds),
        ..Figures::default()
    };
    process.memory(&mut figures)?;
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_for_whoever_hears_of_it() -> anyhow::Result<()> {
        let before = Instant::now();
        let told = serde_json::to_string(&Moment::now()?)?;
        let after = Instant::now();
        let heard = serde_json::from_str::<Moment>(&told)?.instant()?;
        // Two clocks are read one after the other, so it is a little late and never early.
        assert!(heard >= before, "{told}");
        assert!(heard < after + Duration::from_secs(1), "{told}");
        Ok(())
    }
}
