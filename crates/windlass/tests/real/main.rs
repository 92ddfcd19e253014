//! Plugins on a real kernel. Before there is a second thread, the harness enters a mount namespace of its own (and, for
//! everybody but root, a user namespace), so whatever it mounts is gone when it ends. Each test has a mount namespace to
//! itself.

use libtest_mimic::{Arguments, Failed, Trial};

mod empty_dir;
mod giving;
mod hangs;
mod host_path;
mod kills;
mod local;
mod namespace;
mod node;
mod readme;
mod source;
mod volume;

/// The tests of each file.
const PARTS: [fn(&mut Vec<Trial>); 8] = [
    readme::tests,
    empty_dir::tests,
    host_path::tests,
    local::tests,
    node::tests,
    source::tests,
    hangs::tests,
    kills::tests,
];

fn main() {
    if kills::lived() || hangs::lived() {
        return;
    }
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    for part in PARTS {
        part(&mut tests);
    }
    // Listing needs no namespace, and must not fail for want of one.
    if !arguments.list
        && let Err(reason) = namespace::enter()
    {
        eprintln!("all tests are skipped: {reason}");
        tests = tests.into_iter().map(|it| it.with_ignored_flag(true)).collect();
    }
    libtest_mimic::run(&arguments, tests).exit();
}

/// Adds a test that is named as its function and runs in a mount namespace of its own.
fn add(tests: &mut Vec<Trial>, name: &'static str, body: fn(&namespace::Case)) {
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
