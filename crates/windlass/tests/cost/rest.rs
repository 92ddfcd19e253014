//! What the kernel tells of threads: how often they slept, and what they sleep for.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// How often each thread of this process has gone to sleep, the caller left out.
pub(crate) struct Slept(BTreeMap<String, u64>);

impl Slept {
    pub(crate) fn so_far() -> Self {
        let slept = |thread: &String| {
            let status = read(thread, "status");
            let number = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
            number.and_then(|it| it.trim().parse().ok()).unwrap_or_default()
        };
        Self(others().into_iter().map(|it| (it.clone(), slept(&it))).collect())
    }

    /// How often since then, by the threads that there are.
    pub(crate) fn since(&self, before: &Self) -> u64 {
        let before = |thread| before.0.get(thread).copied().unwrap_or_default();
        self.0.iter().map(|(thread, slept)| slept.saturating_sub(before(thread))).sum()
    }
}

/// Returns when all other threads sleep until something happens, however long that takes; or after so long which ones do
/// not, by name.
pub(crate) fn until_asleep(patience: Duration) -> Result<(), Vec<String>> {
    let began = Instant::now();
    loop {
        let restless = waiting_for_a_time();
        if restless.is_empty() {
            return Ok(());
        }
        if began.elapsed() > patience {
            return Err(restless);
        }
        std::thread::yield_now();
    }
}

/// The threads that will wake at some time though nothing happens, or are awake, by name.
fn waiting_for_a_time() -> Vec<String> {
    let restless = others().into_iter().filter(|it| waits_for_a_time(&read(it, "syscall")));
    restless.map(|it| read(&it, "comm").trim().to_owned()).collect()
}

/// See proc_pid_syscall(5): the number of the call and its arguments.
fn waits_for_a_time(call: &str) -> bool {
    let mut words = call.split_ascii_whitespace();
    let number: Option<i64> = words.next().and_then(|it| it.parse().ok());
    let arguments: Vec<u64> =
        words.filter_map(|it| u64::from_str_radix(it.trim_start_matches("0x"), 16).ok()).collect();
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    // -1 is without end, as an int in a register of 64 bits.
    let endless = |at| argument(at) as u32 == u32::MAX;
    match number {
        Some(libc::SYS_futex) => argument(3) != 0,
        Some(libc::SYS_epoll_pwait) => !endless(3),
        #[cfg(target_arch = "x86_64")]
        Some(libc::SYS_epoll_wait) => !endless(3),
        Some(libc::SYS_ppoll) => argument(2) != 0,
        #[cfg(target_arch = "x86_64")]
        Some(libc::SYS_poll) => !endless(2),
        Some(libc::SYS_read) => false,
        // Another call, or none: it is not at rest.
        _ => true,
    }
}

/// The directories of all other threads of this process.
fn others() -> Vec<String> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    // The first thread waits for the one that runs the tests.
    let first = std::process::id().to_string();
    threads.filter(|it| *it != own && *it != first).map(|it| format!("/proc/self/task/{it}")).collect()
}

/// Empty if the thread has ended.
fn read(thread: &str, file: &str) -> String {
    fs::read_to_string(format!("{thread}/{file}")).unwrap_or_default()
}
