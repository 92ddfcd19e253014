//! The judge over real sockets and with real mounts, before orchestrators that are clumsy and one that is not. The harness
//! enters a mount namespace of its own before there is a second thread, so whatever is mounted is gone when it ends.

mod court;
#[path = "../../../windlass/tests/real/enter.rs"]
mod enter;
mod tests;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let mut tests = tests::all();
    // Listing needs no namespace, and must not fail for want of one.
    if !arguments.list
        && let Err(reason) = enter::enter()
    {
        eprintln!("all tests are skipped: {reason}");
        tests = tests.into_iter().map(|it| it.with_ignored_flag(true)).collect();
    }
    libtest_mimic::run(&arguments, tests).exit();
}

/// A test that is named as its function and has a runtime of its own.
fn trial(name: &'static str, body: fn() -> std::pin::Pin<Box<dyn Future<Output = ()>>>) -> Trial {
    Trial::test(name, move || {
        let tried = std::panic::catch_unwind(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(body());
        });
        tried.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Failed::from(text.unwrap_or("panicked"))
        })
    })
}
