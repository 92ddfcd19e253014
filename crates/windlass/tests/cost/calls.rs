//! System calls, counted by strace.

use std::collections::BTreeMap;
use std::process::Stdio;

use windlass_testing::harness::Failure;
use windlass_testing::namespace::BASE;

use crate::limits::CALLS;
use crate::play::PLAY;
use crate::{COUNTED, judge};

/// By name.
type Counts = BTreeMap<String, f64>;

/// How many of these there are is up to others.
const DISREGARDED: [&str; 12] = [
    // Threads that wait for each other or for news, by the scheduler's will.
    "futex",
    "sched_yield",
    "restart_syscall",
    "clock_nanosleep",
    "ppoll",
    "read",
    // The allocator.
    "brk",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    // A build with assertions asks before each close.
    "fcntl",
];

pub(crate) fn a_pod_takes_no_more_than_it_may() -> Result<(), Failure> {
    if windlass_testing::process::program("strace").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: system calls are not counted, for strace is not installed");
        return Ok(());
    }
    // What start, end and the first pods take is in both and falls out.
    let (few, many) = (COUNTED / 4, COUNTED / 4 + COUNTED);
    let up = each(&count(many, 0)?, &count(few, 0)?);
    let both = each(&count(many, many)?, &count(few, few)?);
    let down = Counts::from_iter(both.iter().map(|(name, it)| (name.clone(), it - up.get(name).unwrap_or(&0.0))));
    for name in both.keys() {
        let of = |counts: &Counts| counts.get(name).copied().unwrap_or_default();
        println!("{:>8.1} up {:>8.1} down  {name}", of(&up), of(&down));
    }
    judge("system calls", sum(&up), sum(&down), CALLS)
}

fn sum(counts: &Counts) -> f64 {
    counts.iter().filter(|(name, _)| !DISREGARDED.contains(&name.as_str())).map(|(_, it)| it).sum()
}

/// What each pod takes that only one of them has.
fn each(many: &Counts, few: &Counts) -> Counts {
    let of = |name: &String| few.get(name).copied().unwrap_or_default();
    many.iter().map(|(name, it)| (name.clone(), (it - of(name)) / COUNTED as f64)).collect()
}

/// Lets pods come, and some of them go, in a process of its own.
fn count(pods: usize, gone: usize) -> Result<Counts, Failure> {
    let output = format!("{BASE}/calls-{pods}-{gone}.txt");
    let program = std::env::current_exe()?;
    let strace = ["--follow-forks", "--summary-only", "--summary-columns=calls,name", "--output"];
    let mut command = windlass_testing::process::program("strace");
    command.args(strace).arg(&output).arg("--").arg(program).arg(PLAY).args([pods, gone].map(|it| it.to_string()));
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{command:?}: {status}").into());
    }
    let table = std::fs::read_to_string(&output)?;
    let rows = table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    });
    // A thread that is being ended has a call that strace cannot name.
    Ok(rows.filter(|(_, name)| name != "total" && !name.starts_with('?')).map(|(calls, name)| (name, calls)).collect())
}
