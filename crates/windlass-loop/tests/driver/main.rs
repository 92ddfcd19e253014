//! The program over its sockets, on real loop devices, as root. Elsewhere every test is reported as ignored, with the reason.
//!
//! Each test has a mount namespace and a tmpfs of its own, in which its driver runs. What a driver has started when it is
//! killed becomes a child of this process, and is waited for, so nothing is at work any more when a test looks.

use libtest_mimic::{Arguments, Failed, Trial};

mod case;
mod kills;
mod life;
mod refusals;

fn main() {
    let mut arguments = Arguments::from_args();
    // Whoever waits for all children of the process must not wait for those of another test.
    arguments.test_threads = Some(1);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("become the parent of orphans");
    let mut tests = Vec::new();
    for part in [life::tests, refusals::tests, kills::tests] {
        part(&mut tests);
    }
    let impossible = case::impossible();
    let tests = tests.into_iter().map(|(name, needs, body)| {
        let reason = impossible.clone().or_else(|| needs.iter().find_map(|it| case::lacking(it)));
        if let Some(reason) = &reason
            && !arguments.list
        {
            eprintln!("{name} is skipped: {reason}");
        }
        trial(name, body).with_ignored_flag(reason.is_some())
    });
    libtest_mimic::run(&arguments, tests.collect()).exit();
}

/// A test that runs in a mount namespace of its own.
fn trial(name: &'static str, body: fn(&mut case::Case)) -> Trial {
    Trial::test(name, move || {
        // On a thread of its own: the harness uses its threads again, and namespaces would pile up.
        let thread = std::thread::spawn(move || {
            let mut case = case::Case::new(name);
            body(&mut case);
            case.check_nothing_is_left();
        });
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("panicked"))
        })
    })
}

/// A test by name, with the programs that it needs.
type Test = (&'static str, &'static [&'static str], fn(&mut case::Case));

/// The tests of a file, each by the name of its function, with what it needs.
macro_rules! tests {
    ($($test:ident($($need:expr),*)),* $(,)?) => {
        pub(crate) fn tests(tests: &mut Vec<crate::Test>) {
            $(tests.push((stringify!($test), &[$($need),*], $test));)*
        }
    };
}
pub(crate) use tests;
