//! The real daemon and the real command line, on a real kernel. Before there is a second thread, the harness enters a
//! mount namespace of its own (and, for everybody but root, a user namespace), so whatever the daemons mount is gone when
//! it ends; each test has a directory of its own and ends the daemons that it started, also when it fails.

use std::panic::{RefUnwindSafe, UnwindSafe};

use libtest_mimic::{Arguments, Failed, Trial};

mod case;
mod claims;
mod csi;
#[path = "../../../windlass/tests/real/enter.rs"]
mod enter;
mod faults;
mod holds;
mod judge;
mod living;
mod shown;

/// The tests of each file.
const PARTS: [fn(&mut Vec<Trial>); 7] =
    [living::tests, holds::tests, shown::tests, faults::tests, csi::tests, claims::tests, judge::tests];

fn main() {
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    for part in PARTS {
        part(&mut tests);
    }
    // Listing needs no namespace, and must not fail for want of one.
    if !arguments.list
        && let Err(reason) = enter::enter()
    {
        eprintln!("all tests are skipped: {reason}");
        tests = tests.into_iter().map(|it| it.with_ignored_flag(true)).collect();
    }
    libtest_mimic::run(&arguments, tests).exit();
}

/// Adds a test that is named as its function and has a directory of its own.
fn add(tests: &mut Vec<Trial>, name: &str, body: impl Fn(&case::Case) + Send + UnwindSafe + RefUnwindSafe + 'static) {
    let directory = name.to_owned();
    tests.push(Trial::test(name, move || {
        let tried = std::panic::catch_unwind(|| body(&case::Case::new(&directory)));
        tried.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("panicked"))
        })
    }));
}

/// The tests of a file, each by the name of its function.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        pub(crate) fn tests(tests: &mut Vec<libtest_mimic::Trial>) {
            $(crate::add(tests, stringify!($test), $test);)*
        }
    };
}
pub(crate) use tests;
