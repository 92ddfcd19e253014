//! The service manager: told when we are ready, what we do, and that we are alive.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time;
use windlass::Node;

/// Tells the service manager, if there is one.
pub(crate) fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// Tells the watchdog that we are alive, as long as the engine answers. Ends at once where nobody watches, and with the
/// engine.
pub(crate) async fn keep_watchdog(node: Node) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    // Half of the time, as sd_watchdog_enabled(3) advises.
    let pause = (limit / 2).max(Duration::from_millis(1));
    loop {
        match time::timeout(pause, node.ping()).await {
            Ok(Ok(())) => tell(&[NotifyState::Watchdog]),
            Ok(Err(ended)) => return tracing::error!("the watchdog is not told any more that all is well: {ended}"),
            Err(_) => tracing::error!("the engine does not answer, so the watchdog is not told that all is well"),
        }
        time::sleep(pause).await;
    }
}
