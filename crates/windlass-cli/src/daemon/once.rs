//! `--once`: waits until all is mounted, or nothing more is to be expected, and prints how it stands.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time;
use windlass::node::{Changes, Ended};
use windlass::view::{self, MountStatus, PodPhase, Severity};

use super::Served;
use crate::exit;
use crate::output::{self, plain};

/// A volume that failed this often in a row is not expected to come up by itself.
const TRIES: u32 = 3;

/// Waits, at most this long, and prints.
pub(crate) async fn bring_up(served: &Served, mut changes: Changes, within: Duration) -> anyhow::Result<ExitCode> {
    let until = Timestamp::now().checked_add(SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX));
    let until = until.unwrap_or(Timestamp::MAX);
    let settle = async {
        while !is_settled(served, until).await? && changes.next().await.is_some() {}
        Ok::<_, Ended>(())
    };
    // That time is up shows in what is true then.
    if let Ok(settled) = time::timeout(within, settle).await {
        settled?;
    }
    let summary = served.source.summary().now().clone();
    for problem in &summary.problems {
        output::note(&plain(&problem.to_string()));
    }
    let pods = served.node.show_pods().await?;
    output::data(&lines(&pods))?;
    let refused = summary.problems.iter().any(|it| it.severity == Severity::Error);
    let missing = summary.pods.iter().any(|it| !pods.iter().any(|pod| is(pod, it.uid.as_str()) && is_done(pod)));
    // What is held is not gone, though nobody names it.
    let is_left = |it: &view::Pod| {
        let is_held = it.status.volumes.iter().flat_map(|it| &it.reasons).any(|it| it.goes_at.is_some());
        is_held || matches!(it.status.phase, PodPhase::Leaving | PodPhase::Held)
    };
    let leaving = pods.iter().any(is_left);
    Ok(match (refused, missing || leaving) {
        (true, _) => ExitCode::from(exit::FAILED),
        (false, true) => ExitCode::from(exit::NOT_YET),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn is(pod: &view::Pod, uid: &str) -> bool {
    pod.metadata.uid.as_deref() == Some(uid)
}

/// Whether all is as it should be with a pod. One that has finished wants nothing.
fn is_done(pod: &view::Pod) -> bool {
    pod.is_mounted() || (pod.status.phase == PodPhase::Finished && pod.status.volumes.is_empty())
}

/// Whether nothing more is to be expected until then.
async fn is_settled(served: &Served, until: Timestamp) -> Result<bool, Ended> {
    let summary = served.source.summary().now().clone();
    let synced = served.node.is_synced().await?;
    let pods: BTreeMap<_, _> =
        served.node.show_pods().await?.into_iter().map(|it| (it.metadata.uid.clone(), it)).collect();
    let given = summary.pods.iter().all(|it| pods.contains_key(&Some(it.uid.to_string())));
    // Without all manifests nothing is taken away, so there is no use in waiting for that.
    let rest = pods.values().filter(|it| summary.complete || it.status.phase == PodPhase::Wanted);
    let rest = rest.into_iter().all(|pod| match pod.status.phase {
        PodPhase::Found => false,
        // It may stay for longer than anybody waits here.
        PodPhase::Held => pod.status.goes_at.is_none_or(|it| it > until),
        PodPhase::Wanted | PodPhase::Ending | PodPhase::Finished => {
            is_done(pod) || pod.status.volumes.iter().all(is_at_rest)
        }
        // What others have of it is theirs.
        PodPhase::Releasing => true,
        PodPhase::Leaving => !pod.status.volumes.is_empty() && pod.status.volumes.iter().all(is_at_rest),
    });
    Ok(synced && given && rest)
}

/// Whether what keeps a volume from being settled will not go away by itself.
fn is_at_rest(volume: &MountStatus) -> bool {
    let tried = volume.reasons.iter().any(|it| it.attempts >= TRIES);
    let stuck = volume.reasons.iter().all(|it| it.waits_on.as_ref().is_none_or(|it| it.kind == "Object"));
    tried || stuck
}

/// A line for each volume: pod, volume, state, and where it is or why it is not.
fn lines(pods: &[view::Pod]) -> String {
    let mut lines = String::new();
    for pod in pods {
        let title = match &pod.metadata.namespace {
            Some(namespace) => format!("{namespace}/{}", pod.metadata.name),
            None => pod.metadata.name.clone(),
        };
        for volume in &pod.status.volumes {
            let rest = match (&volume.path, volume.reasons.last()) {
                (_, Some(deepest)) => format!("{}: {}", deepest.code, deepest.message),
                (Some(path), None) => path.clone(),
                (None, None) => String::new(),
            };
            lines += &format!("{}/{}\t{}\t{}\n", plain(&title), plain(&volume.volume), volume.state, plain(&rest));
        }
        if pod.status.volumes.is_empty() {
            lines += &format!("{}\tno volumes\n", plain(&title));
        }
    }
    lines
}
