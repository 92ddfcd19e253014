//! `windlass describe`: everything about a pod, a volume or the node, for people.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::view::{self, Condition, ConditionStatus, List, MountStatus, Severity};

use super::{claims, lookup};
use crate::args::{Describe, Described, Look};
use crate::client::{self, Client};
use crate::daemon::config::Time;
use crate::exit::Failure;
use crate::output::age::{age, until};
use crate::output::columns::{
    Listed, Names, Scene, known_since, mount_status, size, title, tone_of_mount, volume_status,
};
use crate::output::lines::Lines;
use crate::output::paint::{Paint, Tone};
use crate::output::reasons::Style;
use crate::output::sections::{fields, indented, optional};
use crate::output::table::{Cell, Table};
use crate::output::{self, plain, short};

pub(crate) async fn run(command: &Describe, socket: Option<&Path>, look: &Look) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let style = Style { now: Timestamp::now(), lines: Lines::of_locale(), paint: Paint::of(look) };
    let names = command.target.names(&command.names);
    let texts = match command.target.resource {
        Described::Pod => pods(&client, &names, command.namespaces.one(), style).await?,
        Described::Claim => claims::describe(&client, &names, command.namespaces.one(), style).await?,
        Described::Volume => volumes(&client, &names, style).await?,
        Described::Driver => drivers(&client, &names, style).await?,
        Described::Node => {
            let node: view::Node = client.get(&client::node()).await?;
            if let Some(other) = names.iter().find(|it| **it != node.metadata.name) {
                let hint = format!("the node of this daemon is {}", plain(&node.metadata.name));
                return Err(Failure::new(format!("node {other:?} not found")).hints([hint]).into());
            }
            vec![describe_node(&node, style)]
        }
    };
    output::data(&texts.join("\n\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn drivers(client: &Client, names: &[&str], style: Style) -> anyhow::Result<Vec<String>> {
    let mut drivers = client.get::<List<view::Driver>>(&client::list(None, "drivers")).await?.items;
    if let Some(name) = names.iter().find(|name| !drivers.iter().any(|it| it.is_called(name))) {
        let hint = "a driver is known once it has registered, a volume wants it or something is set for it; see `windlass get drivers`";
        return Err(Failure::new(format!("driver {:?} not found", plain(name))).hints([hint.into()]).into());
    }
    drivers.retain(|it| names.is_empty() || names.iter().any(|name| it.is_called(name)));
    if drivers.is_empty() {
        output::note("No drivers found.");
    }
    let mut volumes = client.get::<List<view::Volume>>(&client::list(None, "volumes")).await?.items;
    view::Volume::sort(&mut volumes);
    Ok(drivers.iter().map(|it| describe_driver(it, &volumes, style)).collect())
}

fn describe_driver(driver: &view::Driver, volumes: &[view::Volume], style: Style) -> String {
    let status = &driver.status;
    let some = |text: Option<&str>| text.map_or_else(|| "<none>".to_owned(), plain);
    let registered = match (status.registered, status.since) {
        (true, Some(since)) => format!("yes, for {}", age(since, style.now)),
        (true, None) => "yes".into(),
        (false, _) => "no: start the driver; its volumes are tried as soon as it registers".into(),
    };
    let unreachable = status.unreachable_since.map(|since| {
        let (time, who) =
            (age(since, style.now), if status.refused.is_empty() { "nobody takes" } else { "it takes no" });
        let text =
            format!("for {time}: {who} calls at its socket; look at the driver, which is asked anew when it is back");
        ("Unreachable", text)
    });
    let number = |it: Option<u64>| it.map(|it| it.to_string());
    let settings = status.settings.clone().unwrap_or_default();
    let timeout = settings.timeout_milliseconds.map(|it| Time(Duration::from_millis(it)).to_string());
    let mut shown = vec![
        ("Name", plain(&driver.metadata.name)),
        ("Registered", registered),
        ("Endpoint", some(status.endpoint.as_deref())),
        ("Controller", some(settings.controller.as_deref())),
        ("Node ID", some(status.node_id.as_deref())),
        ("Volume Limit", some(number(status.volumes_max).as_deref())),
    ];
    shown.extend(unreachable);
    shown.extend(status.refused.iter().map(|it| ("Other Driver", plain(it))));
    // Of most drivers nothing is set: they are called like all others.
    shown.extend(timeout.map(|it| ("Timeout", it)));
    let (calls, calls_max) = (status.calls_at_once, status.calls_at_once_max);
    shown.extend((calls > 0).then(|| ("Calls At Once", format!("{calls}, at most {calls_max}"))));
    shown.extend(match (status.operations_under_way, status.operations_waiting) {
        (0, 0) => None,
        (under_way, 0) => Some(("Operations", format!("{under_way} under way"))),
        (under_way, waiting) => Some(("Operations", format!("{under_way} under way, {waiting} wait for those to end"))),
    });
    let mut text = fields(0, &shown);
    let lines = |heading: &str, lines: Vec<String>| match lines.is_empty() {
        true => format!("{heading}:  <none>\n"),
        false => format!("{heading}:\n{}", lines.iter().map(|it| format!("  {}\n", plain(it))).collect::<String>()),
    };
    text.push_str(&lines("Topology", status.topology.iter().map(|(key, value)| format!("{key}={value}")).collect()));
    text.push_str(&lines("Capabilities", status.capabilities.clone()));
    let own = volumes.iter().filter(|it| status.volumes.contains(&it.metadata.name));
    let own = own.map(|it| {
        let why = it.status.reasons.last().map(|it| format!(": {}", it.message)).unwrap_or_default();
        format!("{}{why}", it.metadata.name)
    });
    text.push_str(&lines("Volumes", own.collect()));
    text
}

async fn pods(client: &Client, names: &[&str], namespace: Option<&str>, style: Style) -> anyhow::Result<Vec<String>> {
    let mut pods: Vec<view::Pod> = Vec::new();
    match (names, namespace) {
        ([], _) => pods = client.get::<List<view::Pod>>(&client::list(namespace, "pods")).await?.items,
        (names, Some(namespace)) => {
            for name in names {
                pods.push(lookup::pod(client, namespace, name).await?);
            }
        }
        (names, None) => {
            let all = client.get::<List<view::Pod>>(&client::list(None, "pods")).await?.items;
            let missing: Vec<_> = names.iter().filter(|name| !all.iter().any(|it| it.is_called(name))).collect();
            if !missing.is_empty() {
                let text = |it: &&&str| format!("pod {:?} not found in any namespace", plain(it));
                return Err(Failure::new(missing.iter().map(text).collect::<Vec<_>>().join("\n")).into());
            }
            pods.extend(all.into_iter().filter(|it| names.iter().any(|name| it.is_called(name))));
        }
    }
    view::Pod::sort(&mut pods);
    if pods.is_empty() {
        let place = namespace.map(|it| format!(" in {it} namespace")).unwrap_or_default();
        output::note(&format!("No pods found{place}."));
    }
    let mut events: Vec<view::Event> = match pods.is_empty() {
        true => Vec::new(),
        false => client.get::<List<view::Event>>(&client::list(namespace, "events")).await?.items,
    };
    view::Event::sort(&mut events);
    Ok(pods.iter().map(|it| describe_pod(it, &events, style)).collect())
}

fn describe_pod(pod: &view::Pod, events: &[view::Event], style: Style) -> String {
    let mut shown = vec![
        ("Name", plain(&pod.metadata.name)),
        ("Namespace", optional(pod.metadata.namespace.as_deref())),
        ("UID", optional(pod.metadata.uid.as_deref())),
        ("Phase", format!("{:?}", pod.status.phase)),
        ("Age", known_since(pod).map_or_else(String::new, |it| age(it, style.now))),
    ];
    shown.extend(pod.status.goes_at.map(|it| ("Goes", format!("{} ({it:.0})", until(it, style.now)))));
    let mut text = fields(0, &shown);
    text.push_str(&conditions(&pod.status.conditions, style));
    text.push_str(if pod.status.volumes.is_empty() { "Volumes:  <none>\n" } else { "Volumes:\n" });
    for volume in &pod.status.volumes {
        text.push_str(&describe_mount(volume, style));
    }
    let own: Vec<_> = events.iter().filter(|it| Some(&it.status.pod_uid) == pod.metadata.uid.as_ref()).collect();
    text.push_str(&happened(&own, style));
    text
}

/// The events of what is described.
pub(super) fn happened(own: &[&view::Event], style: Style) -> String {
    if own.is_empty() {
        return "Events:  <none>\n".into();
    }
    // The object of each is the one that is described.
    let scene = Scene { now: style.now, gone: false, names: &Names::default() };
    let row = |it: &&view::Event| {
        let [seen, tone, reason, _, message, ..] = <[Cell; 8]>::try_from(it.row(&scene)).ok()?;
        Some(vec![tone, reason, seen, message])
    };
    let table = Table::new(&["TYPE", "REASON", "AGE", "MESSAGE"], style.paint).rows(own.iter().filter_map(row));
    format!("Events:\n{}", indented(2, &table))
}

fn describe_mount(volume: &MountStatus, style: Style) -> String {
    let status = mount_status(volume);
    let status = style.paint.text(tone_of_mount(volume), &plain(status));
    let mut text = format!("  {}:\n", plain(&volume.volume));
    text.push_str(&fields(
        4,
        &[
            ("Type", optional(volume.plugin.as_deref().map(short))),
            ("Volume", optional(volume.volume_id.as_deref())),
            ("Mode", optional(volume.mode.as_deref())),
            ("Status", format!("{status} for {}", age(volume.since, style.now))),
            ("Path", optional(volume.path.as_deref())),
        ],
    ));
    text.push_str(&reasons(&volume.reasons, 4, style));
    text
}

pub(super) fn reasons(reasons: &[view::Reason], indent: usize, style: Style) -> String {
    let Some(deepest) = reasons.last() else { return String::new() };
    let before = " ".repeat(indent);
    let chain = style.chain(reasons, indent + 2);
    format!("{before}Reasons:\n{chain}{before}What to do:  {}\n", plain(&deepest.remedy))
}

fn conditions(conditions: &[Condition], style: Style) -> String {
    let row = |it: &Condition| {
        let (status, tone) = match it.status {
            ConditionStatus::True => ("True", Tone::Good),
            ConditionStatus::False => ("False", Tone::Bad),
            ConditionStatus::Unknown => ("Unknown", Tone::Waiting),
        };
        let since = age(it.last_transition_time, style.now);
        vec![(&it.kind).into(), Cell::toned(status, tone), since.into(), (&it.reason).into(), (&it.message).into()]
    };
    let headings = ["TYPE", "STATUS", "AGE", "REASON", "MESSAGE"];
    let table = Table::new(&headings, style.paint).rows(conditions.iter().map(row));
    format!("Conditions:\n{}", indented(2, &table))
}

async fn volumes(client: &Client, names: &[&str], style: Style) -> anyhow::Result<Vec<String>> {
    let mut all: Vec<view::Volume> = client.get::<List<view::Volume>>(&client::list(None, "volumes")).await?.items;
    view::Volume::sort(&mut all);
    if let Some(missing) = names.iter().find(|name| !all.iter().any(|it| it.is_called(name))) {
        let hint = "`windlass get volumes` lists what there is".to_owned();
        return Err(Failure::new(format!("volume {:?} not found", plain(missing))).hints([hint]).into());
    }
    all.retain(|it| names.is_empty() || names.iter().any(|name| it.is_called(name)));
    if all.is_empty() {
        output::note("No volumes found.");
        return Ok(Vec::new());
    }
    let pods: List<view::Pod> = client.get(&client::list(None, "pods")).await?;
    let names = Names::of(&pods.items);
    Ok(all.iter().map(|it| describe_volume(it, &names, style)).collect())
}

fn describe_volume(volume: &view::Volume, names: &Names, style: Style) -> String {
    let status = &volume.status;
    let mut text = fields(
        0,
        &[
            ("Name", plain(&volume.metadata.name)),
            ("Type", plain(short(&status.plugin))),
            ("Status", volume_status(status).painted(style.paint)),
            ("Attached", plain(&status.attached)),
            ("Staged", plain(&status.staged)),
            ("In Use", status.in_use.to_string()),
            ("Size", status.size_bytes.map(size).unwrap_or_default()),
        ],
    );
    text.push_str(&reasons(&status.reasons, 0, style));
    if status.pods.is_empty() {
        text.push_str("Pods:  <none>\n");
        return text;
    }
    let row = |it: &view::VolumeUser| {
        vec![names.name(&it.uid).into(), it.names.join(",").into(), (&it.published).into(), (&it.uid).into()]
    };
    let table = Table::new(&["POD", "AS", "PUBLISHED", "UID"], style.paint).rows(status.pods.iter().map(row));
    text.push_str(&format!("Pods:\n{}", indented(2, &table)));
    for user in status.pods.iter().filter(|it| !it.reasons.is_empty()) {
        text.push_str(&format!("In {}:\n", plain(names.name(&user.uid))));
        text.push_str(&reasons(&user.reasons, 2, style));
    }
    text
}

fn describe_node(node: &view::Node, style: Style) -> String {
    let status = &node.status;
    let counts = &status.counts;
    let mut text = fields(
        0,
        &[
            ("Name", plain(&title(&node.metadata))),
            ("Version", plain(&status.version)),
            ("Process", status.process.to_string()),
            (
                "Started",
                format!(
                    "{} ({} ago)",
                    Timestamp::from_second(status.started.as_second()).unwrap_or(status.started),
                    age(status.started, style.now)
                ),
            ),
            ("Root", plain(&status.root)),
            ("Manifests", plain(&status.manifests)),
            ("Rootless", status.rootless.to_string()),
        ],
    );
    text.push_str(&conditions(&status.conditions, style));
    text.push_str("Counts:\n");
    text.push_str(&fields(
        2,
        &[
            ("Pods", format!("{} ({} ready)", counts.pods, counts.ready_pods)),
            ("Volumes", counts.volumes.to_string()),
            ("Operations", format!("{} ({} hung)", counts.operations, counts.hung_operations)),
            ("Threads", counts.threads.to_string()),
        ],
    ));
    if status.problems.is_empty() {
        text.push_str("Problems:  <none>\n");
        return text;
    }
    text.push_str("Problems:\n");
    for problem in &status.problems {
        let (kind, tone) = match problem.severity {
            Severity::Error => ("error", Tone::Bad),
            Severity::Warning => ("warning", Tone::Waiting),
            Severity::NotOurs => ("not ours", Tone::Plain),
        };
        text.push_str(&format!("  {}: {}\n", style.paint.text(tone, kind), lookup::problem(problem)));
    }
    text
}
