//! The real daemon and the real command line, on a real kernel. Before there is a second thread, the harness enters a
//! mount namespace of its own (and, for everybody but root, a user namespace), so whatever the daemons mount is gone when
//! it ends; each test has a directory of its own and ends the daemons that it started, also when it fails.

mod claims;
mod csi;
mod faults;
mod holds;
mod judge;
mod living;
mod metrics;
mod shown;

use windlass_testing::daemon::Case;
use windlass_testing::harness::Tests;
use windlass_testing::{namespace, tests};

fn main() {
    let parts = [
        living::tests,
        holds::tests,
        shown::tests,
        metrics::tests,
        faults::tests,
        csi::tests,
        claims::tests,
        judge::tests,
    ];
    Tests::from_args().after(namespace::enter).parts(&parts).run();
}

/// Adds a test that is named as its function and has a directory of its own.
fn add(tests: &mut Tests, name: &str, needs: &[&str], body: impl FnOnce(&Case) + Send + 'static) {
    let title = name.to_owned();
    tests.add(name, needs, move || body(&Case::new(env!("CARGO_BIN_EXE_windlass"), &title)));
}
