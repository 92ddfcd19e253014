//! Plugins with real devices, which needs a real root: loop devices with file systems on them. Elsewhere every test is
//! reported as ignored, with the reason. Each test has a mount namespace to itself, so whatever it mounts is gone when it
//! ends, and every loop device is detached, also when it fails.

mod local;

#[path = "../real/case.rs"]
#[expect(dead_code, reason = "some of it is for other plugins")]
mod case;
#[path = "../real/local/claimed.rs"]
#[expect(dead_code, reason = "some of it is for directories")]
mod claimed;

use case::Case;
use windlass_testing::harness::Tests;
use windlass_testing::{disk, namespace, tests};

fn main() {
    // One after the other: a program that a test starts has for a moment open what all others have open, and so their mounts.
    Tests::from_args().threads(1).after(disk::possible).after(namespace::enter).parts(&[local::tests]).run();
}

/// Adds a test that runs in a mount namespace of its own, with what it needs.
fn add(tests: &mut Tests, name: &'static str, needs: &[&str], body: fn(&Case)) {
    tests.add(name, needs, move || body(&Case::new(name)));
}
