//! The kernel's opinion. Runs as any user: before there is a second thread, the harness enters a user and a mount
//! namespace of its own, so whatever it mounts is gone when it ends. Each test has a mount namespace to itself.

mod atomic;
mod case;
mod files;
mod mounts;
mod ownership;
mod paths;
mod removal;
mod tables;
mod usage;
mod watching;

use case::Case;
use windlass_testing::harness::Tests;
use windlass_testing::{namespace, tests};

fn main() {
    if namespace::wrote_maps() || atomic::written() {
        return;
    }
    let parts = [
        mounts::tests,
        tables::tests,
        watching::tests,
        paths::tests,
        removal::tests,
        ownership::tests,
        usage::tests,
        atomic::tests,
        files::tests,
    ];
    let tests = Tests::from_args().after(namespace::enter_as_anybody);
    eprintln!("{}", windlass_linux::abilities::Abilities::of_this_kernel());
    tests.parts(&parts).run();
}

/// Adds a test that is named as its function and runs in a mount namespace of its own.
fn add(tests: &mut Tests, name: &'static str, needs: &[&str], body: fn(&Case)) {
    tests.add(name, needs, move || body(&Case::new(name)));
}
