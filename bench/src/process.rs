//! What a process costs: processor time, memory, wake-ups.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use rustix::time::ClockId;

use crate::protocol::Figures;

/// Which process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Process {
    /// This one.
    Own,
    /// Another.
    Other(u32),
}

/// Processor time that a process had taken at a moment.
#[derive(Debug)]
pub(crate) struct Usage {
    /// Of the whole process, those of its threads that have ended included.
    total: Duration,
    /// How far `total` may be off.
    coarse: Duration,
    /// Of the threads that there are, to the nanosecond.
    threads: BTreeMap<u32, Duration>,
}

/// A tick of `/proc/PID/stat` is a hundredth of a second wherever this runs (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

impl Process {
    fn directory(self) -> String {
        match self {
            Self::Own => "/proc/self".into(),
            Self::Other(id) => format!("/proc/{id}"),
        }
    }

    fn read(self, file: &str) -> anyhow::Result<String> {
        let path = format!("{}/{file}", self.directory());
        fs::read_to_string(&path).with_context(|| format!("read {path}"))
    }

    /// The processor time so far.
    pub(crate) fn usage(self) -> anyhow::Result<Usage> {
        if matches!(self, Self::Own) {
            let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
            let total = Duration::try_from(time)?;
            return Ok(Usage { total, coarse: Duration::ZERO, threads: BTreeMap::new() });
        }
        // The clock of another process has no safe wrapper. Its statistics have ticks for all threads that there ever were,
        // and nanoseconds for those that there are.
        let text = self.read("stat")?;
        // See proc_pid_stat(5): the name may hold anything, so it is counted from behind it.
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
        let ticks: Vec<u32> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        let mut threads = BTreeMap::new();
        for thread in self.threads()? {
            // It may have ended meanwhile.
            let Ok(text) = self.read(&format!("task/{thread}/schedstat")) else { continue };
            let nanoseconds = text.split_ascii_whitespace().next().unwrap_or_default().parse()?;
            threads.insert(thread, Duration::from_nanos(nanoseconds));
        }
        Ok(Usage { total: TICK * ticks.iter().sum(), coarse: 2 * TICK, threads })
    }

    fn threads(self) -> anyhow::Result<Vec<u32>> {
        let path = format!("{}/task", self.directory());
        let entries = fs::read_dir(&path).with_context(|| format!("read {path}"))?;
        let names = entries.map(|it| Ok(it?.file_name().to_string_lossy().parse()?));
        names.collect()
    }

    /// How often threads were put on a processor so far, as long as none ends.
    pub(crate) fn switches(self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for thread in self.threads()? {
            let text = self.read(&format!("task/{thread}/status"))?;
            sum += field(&text, "voluntary_ctxt_switches:") + field(&text, "nonvoluntary_ctxt_switches:");
        }
        Ok(sum)
    }

    /// Notes the memory that it has now.
    pub(crate) fn memory(self, figures: &mut Figures) -> anyhow::Result<()> {
        let text = self.read("status")?;
        figures.rss_kib = Some(field(&text, "VmRSS:") as f64);
        figures.anonymous_kib = Some(field(&text, "RssAnon:") as f64);
        figures.threads = Some(field(&text, "Threads:") as f64);
        Ok(())
    }
}

/// A number in a file of the form `name: value`.
fn field(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|it| it.strip_prefix(name)).unwrap_or_default();
    rest.split_ascii_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or_default()
}

impl Usage {
    /// What was taken since the process began.
    pub(crate) fn since_birth(&self) -> Duration {
        self.since(&Self { total: Duration::ZERO, coarse: self.coarse, threads: BTreeMap::new() })
    }

    /// What was taken since then.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let total = self.total.saturating_sub(before.total);
        let time = |it: &Self, thread| it.threads.get(thread).copied().unwrap_or_default();
        let exact: Duration = self.threads.keys().map(|it| time(self, it).saturating_sub(time(before, it))).sum();
        // More than ticks explain: threads have ended, and what they took is known by ticks alone.
        if total > exact + self.coarse || self.coarse.is_zero() { total } else { exact }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(total: u64, threads: &[(u32, u64)]) -> Usage {
        let threads = threads.iter().map(|(id, time)| (*id, Duration::from_millis(*time))).collect();
        Usage { total: Duration::from_millis(total), coarse: 2 * TICK, threads }
    }

    #[test]
    fn what_threads_took_is_known_to_the_nanosecond() {
        assert_eq!(usage(50, &[(1, 51), (2, 7)]).since(&usage(40, &[(1, 48)])), Duration::from_millis(10));
    }

    #[test]
    fn what_threads_took_that_have_ended_is_not_lost() {
        assert_eq!(usage(140, &[(1, 51)]).since(&usage(40, &[(1, 48)])), Duration::from_millis(100));
    }

    #[test]
    fn another_process_is_read_as_this_one_is() -> anyhow::Result<()> {
        let other = Process::Other(std::process::id());
        let (own, other) = (Process::Own.usage()?, other.usage()?);
        assert!(other.total <= own.total + TICK, "{own:?} {other:?}");
        Ok(())
    }
}
