//! What `windlass describe` and `windlass explain` say of claims.

use std::process::ExitCode;

use windlass_api::view::{self, ClaimPhase, List};

use super::describe;
use crate::args::{Explain, TextFormat};
use crate::client::{self, Client};
use crate::exit::Failure;
use crate::output::age::age;
use crate::output::columns::{Listed, claim_status, second, size, title};
use crate::output::paint::Tone;
use crate::output::reasons::Style;
use crate::output::sections::{fields, optional};
use crate::output::{self, plain};

/// The claim that is meant by `claim/data` or `claim/shop/data`.
pub(super) fn named(what: &str) -> Option<&str> {
    let kinds = ["claim/", "claims/", "pvc/"];
    kinds.iter().find_map(|it| what.strip_prefix(it)).filter(|it| !it.is_empty())
}

/// The namespace and the name of a claim, as in `data`, `shop/data`, `claim/data` or `claim/shop/data`.
pub(super) fn parts<'a>(claim: &'a str, namespace: &'a str) -> (&'a str, &'a str) {
    let claim = named(claim).unwrap_or(claim);
    claim.split_once('/').unwrap_or((namespace, claim))
}

/// Everything about claims.
pub(super) async fn describe(
    client: &Client,
    names: &[&str],
    namespace: Option<&str>,
    style: Style,
) -> anyhow::Result<Vec<String>> {
    let mut claims = client.get::<List<view::Claim>>(&client::list(namespace, "claims")).await?.items;
    if let Some(name) = names.iter().find(|name| !claims.iter().any(|it| it.is_called(name))) {
        let hint = "`windlass get claims --all-namespaces` lists what there is".to_owned();
        return Err(Failure::new(format!("claim {:?} not found", plain(name))).hints([hint]).into());
    }
    claims.retain(|it| names.is_empty() || names.iter().any(|name| it.is_called(name)));
    view::Claim::sort(&mut claims);
    if claims.is_empty() {
        output::note("No claims found.");
        return Ok(Vec::new());
    }
    let mut events = client.get::<List<view::Event>>(&client::list(namespace, "events")).await?.items;
    view::Event::sort(&mut events);
    Ok(claims.iter().map(|it| describe_one(it, &events, style)).collect())
}

fn describe_one(claim: &view::Claim, events: &[view::Event], style: Style) -> String {
    let status = &claim.status;
    let bytes = |it: Option<u64>| it.map_or_else(|| "<none>".to_owned(), size);
    let mut shown = vec![
        ("Name", plain(&claim.metadata.name)),
        ("Namespace", optional(claim.metadata.namespace.as_deref())),
        ("Status", style.paint.text(tone(status.phase), &claim_status(status))),
        ("Volume", optional(status.volume.as_deref())),
        ("Handle", optional(status.volume_handle.as_deref())),
        ("Driver", optional(status.driver.as_deref())),
        ("Class", optional(status.storage_class.as_deref())),
        ("Reclaim Policy", optional(status.reclaim_policy.as_deref())),
        ("Access Modes", optional(Some(status.access_modes.join(",").as_str()).filter(|it| !it.is_empty()))),
        ("Mode", optional(status.volume_mode.as_deref())),
        ("Requested", bytes(status.requested_bytes)),
        ("Capacity", bytes(status.capacity_bytes)),
        ("Age", age(status.since, style.now)),
    ];
    shown.extend(status.gone_since.map(|it| ("Gone Since", format!("{} ({} ago)", second(it), age(it, style.now)))));
    shown.extend(status.delete_at.map(|it| ("Deleted At", second(it))));
    shown.push(("Pods", optional(Some(plain(&status.pods.join(", ")).as_str()).filter(|it| !it.is_empty()))));
    let mut text = fields(0, &shown);
    text.push_str(&describe::reasons(&status.reasons, 0, style));
    let is_own = |it: &&view::Event| {
        it.status.claim.as_deref() == Some(&claim.metadata.name) && it.metadata.namespace == claim.metadata.namespace
    };
    let own: Vec<_> = events.iter().filter(is_own).collect();
    text.push_str(&describe::happened(&own, style));
    text
}

fn tone(phase: ClaimPhase) -> Tone {
    match phase {
        ClaimPhase::Bound => Tone::Good,
        ClaimPhase::Pending | ClaimPhase::DeletePending | ClaimPhase::Deleting => Tone::Waiting,
        ClaimPhase::Failed | ClaimPhase::Kept => Tone::Bad,
    }
}

/// Why a claim is not as it should be, and what to do.
pub(super) async fn explain(client: &Client, command: &Explain, claim: &str, style: Style) -> anyhow::Result<ExitCode> {
    let (namespace, name) = parts(claim, &command.namespace);
    let Some(claim) = client.find::<view::Claim>(&client::claim(namespace, name)).await? else {
        let text = format!("claim {:?} not found in {} namespace", plain(name), plain(namespace));
        let hint = "`windlass get claims --all-namespaces` lists what there is".to_owned();
        return Err(Failure::new(text).hints([hint]).into());
    };
    output::data(&match command.output {
        TextFormat::Json => output::json(&claim.status.reasons)?,
        TextFormat::Yaml => output::yaml(&claim.status.reasons)?,
        TextFormat::Text => in_words(&claim, style),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(claim: &view::Claim, style: Style) -> String {
    let status = &claim.status;
    let state = style.paint.text(tone(status.phase), &claim_status(status));
    let volume = status.volume.as_deref().map(|it| format!(", volume {}", plain(it))).unwrap_or_default();
    let mut text = format!("claim {}: {state}{volume}\n", plain(&title(&claim.metadata)));
    text.push_str(&style.chain(&status.reasons, 2));
    if let Some(deepest) = status.reasons.last() {
        text.push_str(&format!("  What to do: {}\n", plain(&deepest.remedy)));
    }
    text
}
