//! Plugins on a real kernel. Before there is a second thread, the harness enters a mount namespace of its own (and, for
//! everybody but root, a user namespace), so whatever it mounts is gone when it ends. Each test has a mount namespace to
//! itself.

mod case;
mod empty_dir;
mod giving;
mod hangs;
mod host_path;
mod kills;
mod local;
mod node;
mod readme;
mod source;
mod volume;

use case::Case;
use windlass_testing::harness::Tests;
use windlass_testing::{namespace, tests};

fn main() {
    if kills::lived() || hangs::lived() {
        return;
    }
    let parts = [
        readme::tests,
        empty_dir::tests,
        host_path::tests,
        local::tests,
        node::tests,
        source::tests,
        hangs::tests,
        kills::tests,
    ];
    Tests::from_args().after(namespace::enter).parts(&parts).run();
}

/// Adds a test that is named as its function and runs in a mount namespace of its own.
fn add(tests: &mut Tests, name: &'static str, needs: &[&str], body: fn(&Case)) {
    tests.add(name, needs, move || body(&Case::new(name)));
}
