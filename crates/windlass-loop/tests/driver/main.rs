//! The program over its sockets, on real loop devices, as root. Elsewhere every test is reported as ignored, with the reason.
//!
//! Each test has a mount namespace and a tmpfs of its own, in which its driver runs. What a driver has started when it is
//! killed becomes a child of this process, and is waited for, so nothing is at work any more when a test looks.

mod case;
mod kills;
mod life;
mod refusals;

use case::Case;
use windlass_testing::harness::Tests;
use windlass_testing::{disk, tests};

fn main() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("become the parent of orphans");
    // One at a time: whoever waits for all children of the process must not wait for those of another test.
    let tests = Tests::from_args().threads(1).after(disk::possible);
    tests.parts(&[life::tests, refusals::tests, kills::tests]).run();
}

/// Adds a test that runs in a mount namespace of its own, with the programs that it needs.
fn add(tests: &mut Tests, name: &'static str, needs: &[&str], body: fn(&mut Case)) {
    tests.add(name, needs, move || {
        let mut case = Case::new(name);
        body(&mut case);
        case.check_nothing_is_left();
    });
}
