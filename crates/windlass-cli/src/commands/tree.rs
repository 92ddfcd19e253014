//! `windlass tree`: pods and their volumes as a tree, from the daemon or, without one, from the disk.

mod disk;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use windlass_api::view::{self, List};

use crate::args::{self, Look, Tree};
use crate::client::{self, Client};
use crate::daemon::config::Settings;
use crate::exit::Failure;
use crate::output::columns::{Listed, mount_status, mounted_condition, title};
use crate::output::lines::{Branch, Lines};
use crate::output::paint::{Paint, Tone};
use crate::output::table::{Cell, Table};
use crate::output::{self, plain, short};
use crate::paths::Paths;

pub(crate) async fn run(command: &Tree, socket: Option<&Path>, look: &Look) -> anyhow::Result<ExitCode> {
    let names: Vec<_> = command.pods.iter().map(|it| args::bare(it)).collect();
    let paint = Paint::of(look);
    let tree = match &command.root {
        Some(root) => disk::tree(root, None, &names, paint)?,
        None => match from_daemon(&client::connect(socket), command, &names, paint).await {
            // Who names a socket means that daemon, and not whatever is on this disk.
            Err(error)
                if socket.is_none()
                    && error.downcast_ref::<client::Error>().is_some_and(client::Error::is_unreachable) =>
            {
                without_daemon(error, &names, paint)?
            }
            tree => tree?,
        },
    };
    output::data(&tree.draw(Lines::of_locale()))?;
    Ok(ExitCode::SUCCESS)
}

/// What can be told without a daemon, from where it would have its volumes.
fn without_daemon(error: anyhow::Error, names: &[&str], paint: Paint) -> anyhow::Result<Branch> {
    let paths = Paths::own();
    // As the daemon's own options read them.
    let named = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(Into::into);
    let settings = Settings { root: named("WINDLASS_ROOT"), config: named("WINDLASS_CONFIG"), ..Settings::default() };
    let config = settings.with_file(&paths)?.mean(&paths)?;
    if !config.root.exists() {
        return Err(error);
    }
    output::note(&format!("{error:#}; this is what is on disk below {}", config.root.display()));
    disk::tree(&config.root, Some(&config.state), names, paint)
}

async fn from_daemon(client: &Client, command: &Tree, names: &[&str], paint: Paint) -> anyhow::Result<Branch> {
    let namespace = command.namespaces.one();
    let node: view::Node = client.get(&client::node()).await?;
    let mut pods = client.get::<List<view::Pod>>(&client::list(namespace, "pods")).await?.items;
    if let Some(missing) = names.iter().find(|name| !pods.iter().any(|it| it.is_called(name))) {
        return Err(Failure::new(format!("pod {:?} not found", plain(missing))).into());
    }
    pods.retain(|it| names.is_empty() || names.iter().any(|name| it.is_called(name)));
    view::Pod::sort(&mut pods);
    if pods.is_empty() {
        let place = namespace.map(|it| format!(" in {it} namespace")).unwrap_or_default();
        output::note(&format!("No pods found{place}."));
    }
    let below = pods.iter().map(|it| pod(it, &node.status.root, paint)).collect();
    Ok(Branch { text: format!("{}  {}", plain(&node.metadata.name), plain(&node.status.root)), below })
}

fn pod(pod: &view::Pod, root: &str, paint: Paint) -> Branch {
    let root = Path::new(root);
    let directory = root.join("pods").join(pod.metadata.uid.as_deref().unwrap_or_default());
    let rows = pod.status.volumes.iter().map(|it| volume(it, &[&directory, root]));
    let below = Table::bare(paint).rows(rows).lines().map(Branch::leaf).collect();
    let reason = mounted_condition(pod).map_or("Unknown", |it| it.reason.as_str());
    let status = match pod.status.phase {
        view::PodPhase::Wanted => paint.text(Tone::of(reason), &plain(reason)),
        other => paint.text(Tone::Waiting, &format!("{other:?}")),
    };
    let mut text = format!("{}  {status}", plain(&title(&pod.metadata)));
    // Said once, and not of each volume.
    if pod.status.volumes.iter().any(|it| it.path.as_deref().is_some_and(|it| Path::new(it).starts_with(&directory))) {
        let below_root = directory.strip_prefix(root).unwrap_or(&directory);
        text.push_str(&format!("  {}", plain(&below_root.display().to_string())));
    }
    Branch { text, below }
}

/// A volume, with its path below the first of these that it is in.
fn volume(volume: &view::MountStatus, places: &[&Path]) -> Vec<Cell> {
    let kind = volume.plugin.as_deref().map_or("<unknown>", short);
    let path = volume.path.as_deref().map(Path::new).unwrap_or(Path::new(""));
    let path = places.iter().find_map(|it| path.strip_prefix(it).ok()).unwrap_or(path);
    vec![(&volume.volume).into(), kind.into(), Cell::state(mount_status(volume)), path.display().to_string().into()]
}
