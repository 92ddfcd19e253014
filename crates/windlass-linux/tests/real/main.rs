//! The kernel's opinion. Runs as any user: before there is a second thread, the harness enters a user and a mount
//! namespace of its own, so whatever it mounts is gone when it ends. Each test has a mount namespace to itself.

use libtest_mimic::{Arguments, Failed, Trial};

mod atomic;
mod files;
mod mounts;
mod namespace;
mod ownership;
mod paths;
mod removal;
mod tables;
mod usage;
mod watching;

fn main() {
    if namespace::helped() || atomic::written() {
        return;
    }
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    for part in [
        mounts::tests,
        tables::tests,
        watching::tests,
        paths::tests,
        removal::tests,
        ownership::tests,
        usage::tests,
        atomic::tests,
        files::tests,
    ] {
        part(&mut tests);
    }
    // Listing needs no namespace, and must not fail for want of one.
    if !arguments.list
        && let Err(reason) = namespace::enter()
    {
        eprintln!("all tests are skipped: {reason}");
        tests = tests.into_iter().map(|it| it.with_ignored_flag(true)).collect();
    }
    eprintln!("{}", windlass_linux::abilities::Abilities::of_this_kernel());
    libtest_mimic::run(&arguments, tests).exit();
}

/// Adds a test that is named as its function and runs in a mount namespace of its own.
fn add(tests: &mut Vec<Trial>, name: &'static str, body: fn(&namespace::Case)) {
    let name = name.rsplit("::").next().unwrap_or(name);
    tests.push(Trial::test(name, move || {
        // On a thread of its own: the harness uses its threads again, and namespaces would pile up.
        let thread = std::thread::spawn(move || body(&namespace::Case::new(name).expect("a namespace")));
        thread.join().map_err(|panic| {
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
