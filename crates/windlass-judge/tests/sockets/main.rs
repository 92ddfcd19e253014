//! The judge over real sockets and with real mounts, before orchestrators that are clumsy and one that is not. The harness
//! enters a mount namespace of its own before there is a second thread, so whatever is mounted is gone when it ends.

mod court;
mod tests;

use windlass_testing::harness::Tests;
use windlass_testing::namespace;

fn main() {
    Tests::from_args().after(namespace::enter).parts(&[tests::tests]).run();
}

/// Adds a test that is named as its function and has a runtime of its own.
fn add<Body: Future<Output = ()> + 'static>(tests: &mut Tests, name: &str, needs: &[&str], body: fn() -> Body) {
    tests.add(name, needs, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(body());
    });
}
