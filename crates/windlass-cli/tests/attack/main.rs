//! Attacks: what an accident, a full disk, a clumsy hand or an enemy does to a node, and what must not come of it.
//!
//! Each attack has a canary, something that must still be there or must not be told, and runs in a process and a mount
//! namespace of its own, with the real daemon and, where a driver's volumes are at stake, the real driver `windlass-loop`.
//! It is HELD if the canary lives and BROKEN if not; a table says so, and the last line counts. See docs/attack.md.
//!
//! `ATTACK_ROUNDS` says how often those are tried that depend on the moment, `ATTACK_ONLY` which are tried.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tokio::time::Instant;
use windlass_testing::daemon::Case;
use windlass_testing::namespace;
use windlass_testing::process::copy_of_this_program;

mod driver;
mod victim;

mod adoption;
mod claims;
mod clients;
mod costly;
mod files;
mod hangs;
mod mounts;
mod records;
mod removal;
mod resources;
mod restarts;

/// One attack.
pub(crate) struct Attack {
    group: &'static str,
    name: &'static str,
    body: fn(&Case),
}

/// The attacks of a file, each by the name of its function.
macro_rules! attacks {
    ($group:literal: $($attack:ident),* $(,)?) => {
        pub(crate) fn attacks() -> Vec<crate::Attack> {
            vec![$(crate::Attack::new($group, stringify!($attack), $attack)),*]
        }
    };
}
pub(crate) use attacks;

/// The attacks of each file.
const GROUPS: [fn() -> Vec<Attack>; 11] = [
    files::attacks,
    mounts::attacks,
    restarts::attacks,
    claims::attacks,
    removal::attacks,
    adoption::attacks,
    hangs::attacks,
    clients::attacks,
    records::attacks,
    costly::attacks,
    resources::attacks,
];

/// Set for the copy of this program that carries an attack out: which one.
const CARRY_OUT: &str = "WINDLASS_ATTACK";
/// Most of them wait for timers most of the time.
const AT_A_TIME: usize = 4;
/// Longer than any attack takes that is not stuck: whatever it waits for, it waits for a minute at most.
const PATIENCE: Duration = Duration::from_secs(240);
/// How often an attack that depends on the moment is tried in the short form.
const ROUNDS: usize = 3;

/// What the standard library adds to every panic.
const BACKTRACE: &str = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";

/// The exit status of an attack that cannot be carried out here.
const SKIPPED: i32 = 3;

impl Attack {
    pub(crate) fn new(group: &'static str, name: &'static str, body: fn(&Case)) -> Self {
        Self { group, name, body }
    }
}

/// How an attack ended.
enum Verdict {
    Held,
    Broken(String),
    Skipped(String),
}

fn main() -> ExitCode {
    if clients::lived() {
        return ExitCode::SUCCESS;
    }
    let all: Vec<Attack> = GROUPS.iter().flat_map(|it| it()).collect();
    if let Ok(name) = std::env::var(CARRY_OUT) {
        let attack = all.iter().find(|it| it.name == name).expect("an attack has this name");
        return carry_out(attack);
    }
    let arguments = Arguments::from_args();
    if arguments.list {
        let listed = all.iter().map(|it| Trial::test(it.name, || Ok(()))).collect();
        return libtest_mimic::run(&arguments, listed).exit_code();
    }
    let only = std::env::var("ATTACK_ONLY").unwrap_or_default();
    let is_meant = |attack: &Attack| {
        let is_like = |word: &str| attack.group == word || attack.name.contains(word);
        let words: Vec<&str> = only.split_whitespace().chain(arguments.filter.as_deref()).collect();
        words.is_empty() || words.into_iter().any(is_like)
    };
    report(all.into_iter().filter(is_meant).collect())
}

/// Carries an attack out in this process.
fn carry_out(attack: &Attack) -> ExitCode {
    if let Err(reason) = namespace::enter() {
        skip(&reason);
    }
    // The names of attacks are long, and the path of a socket must be short.
    match catch_unwind(AssertUnwindSafe(|| (attack.body)(&Case::new(env!("CARGO_BIN_EXE_windlass"), "a")))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ends an attack that cannot be carried out here.
pub(crate) fn skip(reason: &str) -> ! {
    eprintln!("{reason}");
    std::process::exit(SKIPPED);
}

/// How often an attack that depends on the moment is tried.
pub(crate) fn rounds() -> usize {
    let text = std::env::var("ATTACK_ROUNDS").ok().filter(|it| !it.is_empty());
    text.map_or(ROUNDS, |it| it.parse().unwrap_or_else(|_| panic!("ATTACK_ROUNDS is {it:?}, and must be a number")))
}

/// Carries all out, a few at a time, and says how each ended.
fn report(attacks: Vec<Attack>) -> ExitCode {
    let width = attacks.iter().map(|it| it.name.len()).max().unwrap_or_default();
    let (mut passed, mut skipped, mut causes) = (0, 0, Vec::new());
    let left = Mutex::new(VecDeque::from(attacks));
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            let (left, sender) = (&left, sender.clone());
            scope.spawn(move || {
                let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(attack) = next() {
                    let began = Instant::now();
                    let verdict = attacked(&attack);
                    let _ = sender.send((attack, verdict, began.elapsed()));
                }
            });
        }
        drop(sender);
        for (attack, verdict, took) in ended {
            let word = match &verdict {
                Verdict::Held => "HELD",
                Verdict::Broken(_) => "BROKEN",
                Verdict::Skipped(_) => "SKIPPED",
            };
            println!("{word:<8}{:<10} {:<width$} {:5.1} s", attack.group, attack.name, took.as_secs_f64());
            match verdict {
                Verdict::Held => passed += 1,
                Verdict::Broken(cause) => causes.push((attack, cause)),
                Verdict::Skipped(reason) => {
                    skipped += 1;
                    println!("        {reason}");
                }
            }
        }
    });
    for (attack, cause) in &causes {
        println!("\nBROKEN  {}: {}\n{cause}", attack.group, attack.name);
    }
    if skipped > 0 {
        println!("\n{skipped} could not be carried out here");
    }
    println!("{passed} passed, {} failed", causes.len());
    if causes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Carries an attack out in a process of its own.
fn attacked(attack: &Attack) -> Verdict {
    let mut command = copy_of_this_program();
    command.env(CARRY_OUT, attack.name).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("start a copy of this program");
    let id = rustix::process::Pid::from_child(&child);
    // Ends an attack that does not end by itself; whatever it started ends with its namespace of processes or its pipes.
    let (finished, unfinished) = mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if unfinished.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output().expect("wait for a copy of this program");
    drop(finished);
    let _ = guard.join();
    let said = String::from_utf8_lossy(&output.stderr).replace(BACKTRACE, "");
    match output.status.code() {
        Some(0) => Verdict::Held,
        Some(SKIPPED) => Verdict::Skipped(said.lines().last().unwrap_or_default().into()),
        Some(_) => Verdict::Broken(said),
        None => Verdict::Broken(format!("it did not end by itself: {}\n{said}", output.status)),
    }
}
