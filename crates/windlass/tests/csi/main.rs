//! Volumes of drivers, over real sockets and with real mounts. The driver is scripted: it does as the test says, and keeps
//! in mind what it did.
//!
//! As in `tests/real`, everything is in a mount namespace that goes with the process, and each test has one to itself.

mod calls;
mod claims;
mod controlled;
mod driver;
#[path = "../real/giving.rs"]
mod giving;
mod host;
mod life;
mod limits;
mod truth;

use host::Host;
use windlass_testing::harness::Tests;
use windlass_testing::{namespace, tests};

/// Most of the time is waiting for the next try, so more run at a time than there are processors. Not many more: each node and
/// each socket that is awaited has a watcher of the kernel's, of which a user has 128, and gives it back a moment after its end.
const THREADS: usize = 6;

fn main() {
    let parts = [calls::tests, claims::tests, controlled::tests, life::tests, limits::tests, truth::tests];
    Tests::from_args().threads_by_default(THREADS).after(namespace::enter).parts(&parts).run();
}

/// Adds a test that runs in a mount namespace of its own.
fn add(tests: &mut Tests, name: &str, needs: &[&str], body: impl FnOnce(&Host) + Send + 'static) {
    let title = name.to_owned();
    tests.add(name, needs, move || body(&Host::new(&title)));
}
