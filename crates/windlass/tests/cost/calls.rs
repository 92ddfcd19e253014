//! System calls, counted by strace.

use std::collections::BTreeMap;
use std::process::Stdio;

use windlass_testing::harness::Failure;
use windlass_testing::namespace::BASE;

use crate::limits::{CALLS, START_CALLS};
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
    if !can_be_counted() {
        return Ok(());
    }
    let up = each(|pods| count(pods, 0, 0))?;
    let down = less(&each(|pods| count(pods, pods, 0))?, &up);
    show(&up, "up");
    show(&down, "down");
    judge("system calls", sum(&up), sum(&down), CALLS)
}

/// A pod whose records account for all that is there: nothing of it is opened, and no directory listed.
pub(crate) fn a_start_takes_no_more_than_it_may() -> Result<(), Failure> {
    if !can_be_counted() {
        return Ok(());
    }
    let start = less(&each(|pods| count(pods, 0, 1))?, &each(|pods| count(pods, 0, 0))?);
    show(&start, "start");
    let (calls, most) = (sum(&start), START_CALLS);
    println!("system calls of a start for each pod: {calls:.1} (at most {most})");
    match calls <= most {
        true => Ok(()),
        false => Err(format!("system calls of a start for each pod: {calls:.1}; at most {most}").into()),
    }
}

fn can_be_counted() -> bool {
    let strace = windlass_testing::process::program("strace").arg("--version").stdout(Stdio::null()).status();
    if strace.is_err() {
        eprintln!("skipped: system calls are not counted, for strace is not installed");
    }
    strace.is_ok()
}

fn show(counts: &Counts, when: &str) {
    for (name, count) in counts.iter().filter(|(_, it)| **it != 0.0) {
        println!("{count:>8.1} {when}  {name}");
    }
}

/// What is in one and not in the other.
fn less(all: &Counts, part: &Counts) -> Counts {
    all.iter().map(|(name, it)| (name.clone(), it - part.get(name).unwrap_or(&0.0))).collect()
}

fn sum(counts: &Counts) -> f64 {
    counts.iter().filter(|(name, _)| !DISREGARDED.contains(&name.as_str())).map(|(_, it)| it).sum()
}

/// What each pod takes: what start, end and the first pods take is in both counts and falls out.
fn each(count: impl Fn(usize) -> Result<Counts, Failure>) -> Result<Counts, Failure> {
    let few = COUNTED / 4;
    let more = less(&count(few + COUNTED)?, &count(few)?);
    Ok(more.into_iter().map(|(name, it)| (name, it / COUNTED as f64)).collect())
}

/// Lets pods come, and some of them go, and starts the node anew, in a process of its own.
fn count(pods: usize, gone: usize, anew: usize) -> Result<Counts, Failure> {
    let output = format!("{BASE}/calls-{pods}-{gone}-{anew}.txt");
    let program = std::env::current_exe()?;
    let strace = ["--follow-forks", "--summary-only", "--summary-columns=calls,name", "--output"];
    let mut command = windlass_testing::process::program("strace");
    command
        .args(strace)
        .arg(&output)
        .arg("--")
        .arg(program)
        .arg(PLAY)
        .args([pods, gone, anew].map(|it| it.to_string()));
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
