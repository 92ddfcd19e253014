//! `windlass delete`: takes away what is kept only because nobody said that it may go (I-1, I-15).

use std::path::Path;
use std::process::ExitCode;

use windlass::node::Code;
use windlass_api::view::{self, List, PodPhase};

use super::{claims, lookup};
use crate::args::{self, Delete, DeleteClaim, DeleteCommand, DeletePod};
use crate::client::{self, Client};
use crate::exit;
use crate::output::columns::title;
use crate::output::{self, plain};

pub(crate) async fn run(command: &Delete, socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    match &command.command {
        DeleteCommand::Pod(command) => pods(&client, command).await,
        DeleteCommand::Claim(command) => delete_claims(&client, command).await,
    }
}

async fn pods(client: &Client, command: &DeletePod) -> anyhow::Result<ExitCode> {
    let mut pods = Vec::new();
    if command.all_orphans {
        pods = client.get::<List<view::Pod>>(&client::list(None, "pods")).await?.items;
        pods.retain(is_orphan);
        if pods.is_empty() {
            output::note("No pod is held that no manifest names.");
        }
    }
    for name in &command.pods {
        pods.push(lookup::pod(client, &command.namespace, args::bare(name)).await?);
    }
    let mut refused = false;
    for pod in &pods {
        let (name, uid) = (plain(&title(&pod.metadata)), pod.metadata.uid.as_deref().unwrap_or_default());
        let (path, done) = match command.orphaned_volumes {
            false => (client::pod_by_uid(uid), format!("pod {name} is being taken away")),
            true => {
                (client::orphans(uid), format!("pod {name}: the volumes that it does not name are being taken away"))
            }
        };
        match client.delete::<serde_json::Value>(&path).await {
            Ok(_) => output::data(&format!("{done}\n"))?,
            Err(error) if error.is_refused() => {
                refused = true;
                output::note(&format!("error: {}", plain(&error.to_string())));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(if refused { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

/// Each for itself: one that is refused keeps no other.
async fn delete_claims(client: &Client, command: &DeleteClaim) -> anyhow::Result<ExitCode> {
    let mut refused = false;
    for claim in &command.claims {
        let (namespace, name) = claims::parts(claim, &command.namespace);
        match client.delete::<view::ClaimDeletion>(&client::claim(namespace, name)).await {
            Ok(deleted) => output::data(&told(&format!("{namespace}/{name}"), &deleted.status))?,
            Err(error) if error.is_refused() => {
                refused = true;
                output::note(&format!("error: {}", plain(&error.to_string())));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(if refused { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

/// It is held because no manifest names it, and for no other reason.
fn is_orphan(pod: &view::Pod) -> bool {
    let reasons = || pod.status.volumes.iter().flat_map(|it| &it.reasons);
    pod.status.phase == PodPhase::Held && reasons().any(|it| it.code == Code::NotInManifests.as_str())
}

fn told(claim: &str, deleted: &view::ClaimDeletionStatus) -> String {
    let volume = deleted.volume.as_deref().map_or_else(|| "its volume".into(), |it| format!("volume {it}"));
    let text = match deleted.outcome.as_str() {
        "Released" => format!("claim {claim}: {volume} is forgotten; its driver keeps it"),
        _ => format!("claim {claim}: {volume} is being deleted"),
    };
    format!("{}\n", plain(&text))
}
