//! Plugins with real devices, which needs a real root: loop devices with file systems on them. Elsewhere every test is
//! reported as ignored, with the reason. Each test has a mount namespace to itself, so whatever it mounts is gone when it
//! ends, and every loop device is detached, also when it fails.

use libtest_mimic::{Arguments, Failed, Trial};

mod disk;
mod fuse;
mod local;

#[path = "../real/local/claimed.rs"]
#[expect(dead_code, reason = "some of it is for directories")]
mod claimed;
#[path = "../real/namespace.rs"]
#[expect(dead_code, unused_imports, reason = "some of it is for other plugins")]
mod namespace;

fn main() {
    let arguments = Arguments::from_args();
    let mut tests = Vec::new();
    local::tests(&mut tests);
    let mut impossible = disk::impossible();
    // Listing needs no namespace, and must not fail for want of one.
    if impossible.is_none() && !arguments.list {
        impossible = namespace::enter().err();
    }
    let tests = tests.into_iter().map(|(name, needs, body)| {
        let reason = impossible.clone().or_else(|| needs.iter().find_map(|it| disk::lacking(it)));
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
fn trial(name: &'static str, body: fn(&namespace::Case)) -> Trial {
    Trial::test(name, move || {
        // On a thread of its own: the harness uses its threads again, and namespaces would pile up.
        let thread = std::thread::spawn(move || body(&namespace::Case::new(name).expect("a namespace")));
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("panicked"))
        })
    })
}

/// A test by name, with what it needs: see [`disk::lacking`].
type Test = (&'static str, &'static [&'static str], fn(&namespace::Case));

/// The tests of a file, each by the name of its function, with what it needs.
macro_rules! tests {
    ($($test:ident($($need:expr),*)),* $(,)?) => {
        pub(crate) fn tests(tests: &mut Vec<crate::Test>) {
            $(tests.push((stringify!($test), &[$($need),*], $test));)*
        }
    };
}
pub(crate) use tests;
