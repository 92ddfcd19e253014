//! What needs a real root: loop devices with real file systems on them. Elsewhere every test is reported as ignored,
//! with the reason. Each test has a mount namespace and a tmpfs of its own, so whatever it mounts and writes is gone
//! when it ends, and every loop device is detached, also when it fails.

use libtest_mimic::{Arguments, Failed, Trial};

mod case;
mod formats;
mod loops;
mod maps;

fn main() {
    let mut arguments = Arguments::from_args();
    // A program that another test starts has a copy of every descriptor until it runs, and what is open is in use.
    arguments.test_threads = Some(1);
    let mut tests = Vec::new();
    for part in [loops::tests, formats::tests, maps::tests] {
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
fn trial(name: &'static str, body: fn(&case::Case)) -> Trial {
    Trial::test(name, move || {
        // On a thread of its own: the harness uses its threads again, and namespaces would pile up.
        let thread = std::thread::spawn(move || body(&case::Case::new(name).expect("a namespace")));
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("panicked"))
        })
    })
}

/// A test by name, with what it needs: programs, [`case::RESIZE`], [`case::UNDISTURBED`].
type Test = (&'static str, &'static [&'static str], fn(&case::Case));

/// The tests of a file, each by the name of its function, with what it needs.
macro_rules! tests {
    ($($test:ident($($need:expr),*)),* $(,)?) => {
        pub(crate) fn tests(tests: &mut Vec<crate::Test>) {
            $(tests.push((stringify!($test), &[$($need),*], $test));)*
        }
    };
}
pub(crate) use tests;
