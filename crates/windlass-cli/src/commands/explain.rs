//! `windlass explain`: why the volumes of a pod, or of all, are not settled, and what to do (I-7).

mod everything;

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use windlass_api::view::{self, MountStatus, PodPhase};

use super::{claims, lookup};
use crate::args::{self, Explain, Look, TextFormat};
use crate::client::{self, Client};
use crate::exit::Failure;
use crate::output::age::age;
use crate::output::columns::{mount_status, title, tone_of_mount};
use crate::output::lines::Lines;
use crate::output::paint::Paint;
use crate::output::reasons::Style;
use crate::output::{self, plain, short};

pub(crate) async fn run(command: &Explain, socket: Option<&Path>, look: &Look) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let style = || Style { now: Timestamp::now(), lines: Lines::of_locale(), paint: Paint::of(look) };
    let Some(what) = command.what.as_deref() else {
        let all = everything::ask(&client).await?;
        output::data(&match command.output {
            TextFormat::Json => output::json(&all.causes())?,
            TextFormat::Yaml => output::yaml(&all.causes())?,
            TextFormat::Text => all.text(style()),
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    if claims::named(what).is_some() {
        return claims::explain(&client, command, what, style()).await;
    }
    let (pod, volume) = find(&client, &command.namespace, what).await?;
    let volumes: Vec<_> =
        pod.status.volumes.iter().filter(|it| volume.is_none_or(|volume| it.volume == volume)).collect();
    if let Some(volume) = volume
        && volumes.is_empty()
    {
        let names: Vec<_> = pod.status.volumes.iter().map(|it| plain(&it.volume)).collect();
        let text = format!("pod {} has no volume {:?}", title(&pod.metadata), plain(volume));
        let hint = (!names.is_empty()).then(|| format!("it has {}", names.join(", ")));
        return Err(Failure::new(text).hints(hint).into());
    }
    output::data(&match command.output {
        TextFormat::Json => output::json(&volumes)?,
        TextFormat::Yaml => output::yaml(&volumes)?,
        TextFormat::Text => explain(&pod, &volumes, volume, style()),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The pod, and the volume if only one is asked for.
async fn find<'a>(client: &Client, namespace: &str, what: &'a str) -> anyhow::Result<(view::Pod, Option<&'a str>)> {
    // `pod/web` is the pod `web`, unless there is a pod that is called `pod` and has such a volume.
    let bare = args::bare(what);
    if let Some((name, volume)) = what.split_once('/').filter(|_| bare != what)
        && let Some(pod) = client.find::<view::Pod>(&client::pod(namespace, name)).await?
        && pod.status.volumes.iter().any(|it| it.volume == volume)
    {
        return Ok((pod, Some(volume)));
    }
    let (name, volume) = match bare.split_once('/') {
        Some((name, volume)) => (name, Some(volume)),
        None => (bare, None),
    };
    Ok((lookup::pod(client, namespace, name).await?, volume))
}

/// In words: of each volume that is not settled, the chain of reasons and what to do about the deepest.
fn explain(pod: &view::Pod, volumes: &[&MountStatus], only: Option<&str>, style: Style) -> String {
    let name = plain(&title(&pod.metadata));
    let unsettled: Vec<_> = volumes.iter().filter(|it| !it.mounted || !it.reasons.is_empty()).collect();
    let unmounted = volumes.iter().filter(|it| !it.mounted).count();
    // Of one that goes it is the other way round: what is still here is what is to be explained.
    if matches!(pod.status.phase, PodPhase::Held | PodPhase::Finished | PodPhase::Leaving) {
        return goes(&name, pod.status.phase, volumes, only, style);
    }
    let mut text = match (unmounted, only) {
        (0, Some(volume)) => format!("pod {name}: volume {} is mounted", plain(volume)),
        (_, Some(volume)) => format!("pod {name}: volume {} is not mounted", plain(volume)),
        (0, None) => match volumes.len() {
            0 => format!("pod {name}: it has no volumes"),
            1 => format!("pod {name}: its only volume is mounted"),
            all => format!("pod {name}: all {all} volumes are mounted"),
        },
        (1, None) => format!("pod {name}: 1 of {} is not mounted", output::count(volumes.len(), "volume")),
        (some, None) => format!("pod {name}: {some} of {} volumes are not mounted", volumes.len()),
    };
    // What is mounted and cannot be brought up to date, for example.
    match (unmounted, unsettled.len(), volumes.len()) {
        (1.., ..) | (0, 0, _) => {}
        (0, _, 1) => text.push_str(", with trouble"),
        (0, some, _) => text.push_str(&format!(", {some} with trouble")),
    }
    text.push('\n');
    for volume in unsettled {
        text.push('\n');
        text.push_str(&one(volume, style));
    }
    text
}

/// The same of a pod that is not to have its volumes any more.
fn goes(name: &str, phase: PodPhase, volumes: &[&MountStatus], only: Option<&str>, style: Style) -> String {
    let mut text = match (volumes.len(), only) {
        (_, Some(volume)) => format!("pod {name} is {phase:?}: volume {} is still here\n", plain(volume)),
        (0, None) => format!("pod {name} is {phase:?}: nothing of it is left\n"),
        (1, None) => format!("pod {name} is {phase:?}: 1 volume is still here\n"),
        (some, None) => format!("pod {name} is {phase:?}: {some} volumes are still here\n"),
    };
    for volume in volumes {
        text.push('\n');
        text.push_str(&one(volume, style));
    }
    text
}

fn one(volume: &MountStatus, style: Style) -> String {
    let kind = volume.plugin.as_deref().map(|it| format!(" ({})", plain(short(it)))).unwrap_or_default();
    let status = mount_status(volume);
    let status = style.paint.text(tone_of_mount(volume), &plain(status));
    let mut text = format!("{}{kind}: {status} for {}\n", plain(&volume.volume), age(volume.since, style.now));
    text.push_str(&style.chain(&volume.reasons, 2));
    match volume.reasons.last() {
        Some(deepest) => text.push_str(&format!("  What to do: {}\n", plain(&deepest.remedy))),
        None => text.push_str("  It has given no reason yet.\n"),
    }
    text
}
