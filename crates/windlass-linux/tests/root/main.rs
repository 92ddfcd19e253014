//! What needs a real root: loop devices with real file systems on them. Elsewhere every test is reported as ignored,
//! with the reason. Each test has a mount namespace and a tmpfs of its own, so whatever it mounts and writes is gone
//! when it ends, and every loop device is detached, also when it fails.

mod case;
mod formats;
mod loops;
mod maps;

use case::Case;
use windlass_testing::harness::Tests;
use windlass_testing::{disk, tests};

fn main() {
    // One at a time: a program that another test starts has a copy of every descriptor until it runs, and what is open is
    // in use.
    let tests = Tests::from_args().threads(1).after(disk::possible);
    tests.parts(&[loops::tests, formats::tests, maps::tests]).run();
}

/// Adds a test that runs in a mount namespace of its own, with what it needs.
fn add(tests: &mut Tests, name: &'static str, needs: &[&str], body: fn(&Case)) {
    tests.add(name, needs, move || body(&Case::new(name)));
}
