//! Whether the daemon knows all there is. Until then a pod that it does not show may be there all the same: a daemon that
//! has just started has read neither the disk nor the manifests.

use tokio::time::{Duration, Instant, sleep_until, timeout_at};
use windlass_api::view::{self, ConditionStatus, Severity};

use crate::client::{self, Client};
use crate::commands::lookup;
use crate::exit::Failure;
use crate::output::plain;

/// The node is not asked again sooner, and at first not later either if nothing happens.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Nor later than this.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// So many problems are shown.
const SHOWN: usize = 3;

/// Waits until all is known.
///
/// The node cannot be watched. What it finds out mostly shows in its pods, so it is asked again when one of them changes;
/// where nothing is to be found nothing changes, so it is also asked after a pause, which grows, and only until it knows.
pub(super) async fn all_known(client: &Client, deadline: Option<Instant>) -> anyhow::Result<()> {
    let Some(mut why) = unknown(client).await? else { return Ok(()) };
    let mut watch = client.watch::<view::Pod>(&client::list(None, "pods")).await?;
    let mut pause = PAUSE_MIN;
    while deadline.is_none_or(|it| Instant::now() < it) {
        let asked = Instant::now();
        let bounded = |it: Instant| deadline.map_or(it, |deadline| it.min(deadline));
        if let Ok(event) = timeout_at(bounded(asked + pause), watch.next()).await {
            event?;
            sleep_until(bounded(asked + PAUSE_MIN)).await;
        }
        match unknown(client).await? {
            Some(reason) => why = reason,
            None => return Ok(()),
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Err(why.into())
}

/// Why not all is known, if it is not.
async fn unknown(client: &Client) -> anyhow::Result<Option<Failure>> {
    let view::Node { status, .. } = client.get(&client::node()).await?;
    let why = |kind: &str| match status.conditions.iter().find(|it| it.kind == kind) {
        Some(condition) if condition.status == ConditionStatus::True => None,
        // Nothing comes from manifests that are lost before they are back, which may be never: what is here is all there is.
        Some(condition) if condition.reason == "SourceLost" => None,
        Some(condition) => Some(format!("{}: {}", plain(&condition.reason), plain(&condition.message))),
        None => Some(format!("it does not tell whether it is {kind}")),
    };
    let Some(why) = why("Synced").or_else(|| why("SourceComplete")) else { return Ok(None) };
    let errors = status.problems.iter().filter(|it| it.severity == Severity::Error).take(SHOWN).map(lookup::problem);
    let failure = Failure::not_yet(format!("timed out before the daemon knew all that is there: {why}"));
    Ok(Some(failure.hints(errors)))
}
