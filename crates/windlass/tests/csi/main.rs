//! Volumes of drivers, over real sockets and with real mounts. The driver is scripted: it does as the test says, and keeps
//! in mind what it did.
//!
//! As in `tests/real`, everything is in a mount namespace that goes with the process, and each test has one to itself.

use libtest_mimic::{Arguments, Failed, Trial};

mod calls;
mod claims;
mod controlled;
mod driver;
#[path = "../real/enter.rs"]
#[allow(dead_code, reason = "the other test program asks more of it")]
mod enter;
mod giving;
mod host;
mod life;
mod limits;
mod truth;

/// Most of the time is waiting for the next try, so more run at a time than there are processors.
const THREADS: usize = 16;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(THREADS));
    let mut tests = Vec::new();
    calls::tests(&mut tests);
    claims::tests(&mut tests);
    controlled::tests(&mut tests);
    life::tests(&mut tests);
    limits::tests(&mut tests);
    truth::tests(&mut tests);
    // Listing needs no namespace, and must not fail for want of one.
    if !arguments.list
        && let Err(reason) = enter::enter()
    {
        eprintln!("all tests are skipped: {reason}");
        tests = tests.into_iter().map(|it| it.with_ignored_flag(true)).collect();
    }
    libtest_mimic::run(&arguments, tests).exit();
}

/// Adds a test that runs in a mount namespace of its own.
fn add(tests: &mut Vec<Trial>, name: &str, body: impl FnOnce(&host::Host) + Send + 'static) {
    let title = name.to_owned();
    tests.push(Trial::test(name, move || {
        // On a thread of its own: the harness uses its threads again, and namespaces would pile up.
        let thread = std::thread::spawn(move || body(&host::Host::new(&title)));
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("panicked"))
        })
    }));
}
