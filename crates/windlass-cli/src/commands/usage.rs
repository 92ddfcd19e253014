//! `windlass usage`: how full the volumes of pods are, and how they are doing; df for pods.

use std::path::Path;
use std::process::ExitCode;

use tokio::task::JoinSet;
use windlass_api::view::{self, List, PodStatistics, VolumeStatistics};

use super::lookup;
use crate::args::{self, Look, Usage, UsageFormat};
use crate::client::{self, Client};
use crate::exit::Failure;
use crate::output::columns::Listed;
use crate::output::paint::{Paint, Tone};
use crate::output::table::{Cell, Table};
use crate::output::{self, plain};

/// So many pods are asked for at a time: one that hangs keeps its place for some seconds, and the daemon has other clients.
const AT_ONCE: usize = 8;

pub(crate) async fn run(command: &Usage, socket: Option<&Path>, look: &Look) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let names: Vec<&str> = command.pods.iter().map(|it| args::bare(it)).collect();
    let pods = pods(&client, &names, command.namespaces.one()).await?;
    let statistics = ask(&client, pods).await?;
    let alone = statistics.len() == 1 && names.len() == 1;
    let text = match command.output {
        UsageFormat::Json if alone => output::json(&statistics[0])?,
        UsageFormat::Yaml if alone => output::yaml(&statistics[0])?,
        UsageFormat::Json => output::json(&List::new(statistics))?,
        UsageFormat::Yaml => output::yaml(&List::new(statistics))?,
        UsageFormat::Table | UsageFormat::Wide => table(command, &statistics, Paint::of(look)),
    };
    output::data(&text)?;
    if text.is_empty() {
        output::note(&match command.namespaces.one() {
            Some(namespace) => format!("No volumes found in {} namespace.", plain(namespace)),
            None => "No volumes found.".into(),
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// The namespaces and names of the pods that are asked about, each once and in order.
async fn pods(client: &Client, names: &[&str], namespace: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let mut pods: Vec<view::Pod> = client.get::<List<view::Pod>>(&client::list(namespace, "pods")).await?.items;
    for name in names {
        match (pods.iter().any(|it| it.is_called(name)), namespace) {
            (true, _) => {}
            (false, Some(namespace)) => return Err(lookup::unknown(client, namespace, name).await?.into()),
            (false, None) => {
                return Err(Failure::new(format!("pod {:?} not found in any namespace", plain(name))).into());
            }
        }
    }
    pods.retain(|it| names.is_empty() || names.iter().any(|name| it.is_called(name)));
    // Of one that has no namespace only its directory was found, and nobody knows what its volumes are.
    let mut pods: Vec<_> = pods.into_iter().filter_map(|it| Some((it.metadata.namespace?, it.metadata.name))).collect();
    pods.sort();
    pods.dedup();
    Ok(pods)
}

/// Asks about some pods at a time; the answers are in the order of the pods. One that has gone meanwhile is left out.
async fn ask(client: &Client, pods: Vec<(String, String)>) -> anyhow::Result<Vec<PodStatistics>> {
    let mut asked = JoinSet::new();
    let mut answers: Vec<Option<PodStatistics>> = vec![None; pods.len()];
    let mut pods = pods.into_iter().enumerate();
    loop {
        while asked.len() < AT_ONCE
            && let Some((index, (namespace, name))) = pods.next()
        {
            let client = client.clone();
            asked.spawn(async move { (index, client.find(&client::statistics(&namespace, &name)).await) });
        }
        let Some(answer) = asked.join_next().await else { break };
        let (index, answer) = answer?;
        answers[index] = answer?;
    }
    Ok(answers.into_iter().flatten().collect())
}

fn table(command: &Usage, pods: &[PodStatistics], paint: Paint) -> String {
    let all_namespaces = command.namespaces.one().is_none();
    let mut headings = Vec::new();
    if all_namespaces {
        headings.push("NAMESPACE");
    }
    headings.extend(["POD", "VOLUME", "SIZE", "USED", "AVAIL", "USE%"]);
    if command.output == UsageFormat::Wide {
        headings.extend(["INODES", "IUSED", "IFREE", "IUSE%"]);
    }
    headings.push("CONDITION");
    let mut table = if command.no_headers { Table::bare(paint) } else { Table::new(&headings, paint) };
    let rows = pods.iter().flat_map(|pod| pod.status.volumes.iter().map(move |it| (&pod.metadata, it)));
    let rows = rows.map(|(pod, volume)| {
        let mut row: Vec<Cell> = Vec::with_capacity(headings.len());
        if all_namespaces {
            row.push(pod.namespace.as_deref().unwrap_or("<none>").into());
        }
        row.extend([pod.name.as_str().into(), volume.volume.as_str().into()]);
        row.extend(measured(volume.bytes, rounded));
        if command.output == UsageFormat::Wide {
            row.extend(measured(volume.inodes, |it| it.to_string()));
        }
        row.push(condition(volume));
        row
    });
    table.rows(rows.collect::<Vec<_>>())
}

/// Total, used, available, and how much of it that is.
fn measured(usage: Option<view::Usage>, write: impl Fn(u64) -> String) -> [Cell; 4] {
    let write = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), &write).into();
    let percent = usage.and_then(percent);
    let tone = match percent {
        Some(95..) => Tone::Bad,
        Some(80..) => Tone::Waiting,
        _ => Tone::Plain,
    };
    [
        write(usage.and_then(|it| it.total)),
        write(usage.map(|it| it.used)),
        write(usage.and_then(|it| it.available)),
        Cell::toned(percent.map_or_else(|| "-".to_owned(), |it| format!("{it}%")), tone),
    ]
}

/// Of what can be used, as df has it: rounded up, and without what a file system keeps for root.
fn percent(usage: view::Usage) -> Option<u64> {
    let (used, available) = (u128::from(usage.used), u128::from(usage.available?));
    let all = used + available;
    (all > 0).then(|| u64::try_from((used * 100).div_ceil(all)).unwrap_or(u64::MAX))
}

/// What its driver says of its health, or why nothing is known of the volume.
fn condition(volume: &VolumeStatistics) -> Cell {
    match (&volume.error, &volume.condition) {
        (Some(error), _) => Cell::toned(format!("Unknown: {error}"), Tone::Waiting),
        (None, None) => "-".into(),
        (None, Some(condition)) if condition.abnormal => {
            Cell::toned(format!("Abnormal: {}", condition.message), Tone::Bad)
        }
        (None, Some(_)) => Cell::toned("Normal", Tone::Good),
    }
}

/// A size for people: two digits or more, rounded up as df does, in the units of Kubernetes.
fn rounded(bytes: u64) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut unit, mut scale) = (0, 1_u128);
    while unit + 1 < units.len() && u128::from(bytes).div_ceil(scale) >= 1024 {
        unit += 1;
        scale *= 1024;
    }
    let tenths = (u128::from(bytes) * 10).div_ceil(scale);
    match (unit, tenths) {
        (0, _) => bytes.to_string(),
        (_, ..100) => format!("{}.{}{}", tenths / 10, tenths % 10, units[unit]),
        _ => format!("{}{}", u128::from(bytes).div_ceil(scale), units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        for (bytes, expected) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0Ki"),
            (1025, "1.1Ki"),
            (10 << 10, "10Ki"),
            ((10 << 10) + 1, "11Ki"),
            (320 << 20, "320Mi"),
            ((1 << 20) - 1, "1.0Mi"),
            (1536 << 20, "1.5Gi"),
            (u64::MAX, "16Ei"),
        ] {
            assert_eq!(rounded(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn how_full_it_is_leaves_out_what_nobody_can_use() {
        let usage = |total, available, used| view::Usage { total, available, used };
        assert_eq!(percent(usage(Some(100), Some(40), 50)), Some(56));
        assert_eq!(percent(usage(Some(100), Some(0), 100)), Some(100));
        assert_eq!(percent(usage(Some(0), Some(0), 0)), None);
        assert_eq!(percent(usage(None, None, 7)), None);
        assert_eq!(percent(usage(Some(u64::MAX), Some(u64::MAX), u64::MAX)), Some(50));
    }
}
