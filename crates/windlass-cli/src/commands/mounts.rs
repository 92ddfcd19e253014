//! `windlass mounts`: what to give the containers of a pod, in the words of those who run containers.

mod arguments;
mod oci;

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use windlass::backend::mount_namespace;
use windlass_api::view::{self, ContainerMounts, Containers};

use super::lookup;
use crate::args::{self, Color, Look, Mounts, MountsFormat};
use crate::client::{self, Client};
use crate::exit::Failure;
use crate::output::columns::title;
use crate::output::paint::Paint;
use crate::output::table::Table;
use crate::output::{self, plain};

/// How the daemon begins to say why a volume cannot be given yet; whatever else it says will not change by waiting.
const NOT_MOUNTED: &str = "the volume is not mounted";

pub(crate) async fn run(command: &Mounts, socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let name = args::bare(&command.pod);
    let mut containers = match client.get::<Containers>(&client::containers(&command.namespace, name)).await {
        Ok(containers) => containers,
        Err(error) if error.is_not_found() => {
            // It may be known and have no containers any more; then the daemon has said it best.
            return Err(match client.find::<view::Pod>(&client::pod(&command.namespace, name)).await? {
                Some(_) => error.into(),
                None => lookup::unknown(&client, &command.namespace, name).await?.into(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(only) = &command.container {
        let names = names(&containers);
        containers.status.containers.retain(|it| it.name == *only);
        if containers.status.containers.is_empty() {
            let text = format!("pod {} has no container {only:?}", title(&containers.metadata));
            return Err(Failure::new(text).hints([format!("it has {names}")]).into());
        }
    }
    let elsewhere = elsewhere(&client, command).await?;
    match (elsewhere, command.output) {
        (Some(failure), MountsFormat::Oci | MountsFormat::Podman | MountsFormat::Docker) => return Err(failure.into()),
        (Some(failure), MountsFormat::Table | MountsFormat::Json) => {
            output::note(&format!("note: {failure}"));
            failure.tell_hints();
        }
        (None, _) => {}
    }
    let groups = &containers.status.groups;
    let text = match command.output {
        MountsFormat::Table => table(&containers),
        MountsFormat::Json => output::json(&containers)?,
        MountsFormat::Oci => oci::config(complete(&client, command, &containers).await?, groups)?,
        MountsFormat::Podman => arguments::podman(complete(&client, command, &containers).await?, groups)?,
        MountsFormat::Docker => arguments::docker(complete(&client, command, &containers).await?, groups)?,
    };
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// That the paths lead to the mounts only in the daemon's mount namespace: from here they are bare directories, and
/// whoever mounts them writes beside the volumes (I-4).
async fn elsewhere(client: &Client, command: &Mounts) -> anyhow::Result<Option<Failure>> {
    let view::Node { status, .. } = client.get(&client::node()).await?;
    let here = mount_namespace();
    if here.is_empty() || status.mount_namespace.is_empty() || here == status.mount_namespace {
        return Ok(None);
    }
    let user = if status.rootless { " --preserve-credentials --user" } else { "" };
    let format = command.output.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default();
    let container = command.container.as_ref().map(|it| format!(" -c {}", plain(it))).unwrap_or_default();
    // The socket is named since a user is root in there, and would ask the system's daemon without it.
    let hint = format!(
        "run it, and the container, where they are: `nsenter{user} --mount --target {} -- \
            windlass --socket {} mounts {} -n {}{container} -o {format}`",
        status.process,
        plain(&client.socket().display().to_string()),
        plain(&command.pod),
        plain(&command.namespace)
    );
    let text = "the mounts are in the daemon's own mount namespace, and cannot be seen from here";
    Ok(Some(Failure::new(text).hints([hint])))
}

fn names(containers: &Containers) -> String {
    containers.status.containers.iter().map(|it| plain(&it.name)).collect::<Vec<_>>().join(", ")
}

/// The one container that is asked for, if it can be given all it names.
async fn complete<'a>(
    client: &Client,
    command: &Mounts,
    containers: &'a Containers,
) -> anyhow::Result<&'a ContainerMounts> {
    let container = match &containers.status.containers[..] {
        [one] => one,
        [] => return Err(Failure::new(format!("pod {} has no containers", title(&containers.metadata))).into()),
        _ => {
            let text = format!("pod {} has several containers", title(&containers.metadata));
            let hint = format!("name one of them with --container: {}", names(containers));
            return Err(Failure::usage(text).hints([hint]).into());
        }
    };
    if container.missing.is_empty() {
        return Ok(container);
    }
    let mut text = format!(
        "container {:?} of pod {} cannot be given all the volumes it names:",
        plain(&container.name),
        title(&containers.metadata)
    );
    for missing in &container.missing {
        text.push_str(&format!(
            "\n  {} at {}: {}",
            plain(&missing.volume),
            plain(&missing.container_path),
            plain(&missing.message)
        ));
    }
    // Only what the pod has and is not mounted comes by waiting, if nothing else is wrong with it.
    let pod: view::Pod = client.get(&client::pod(&command.namespace, args::bare(&command.pod))).await?;
    let comes = |name: &str| pod.status.volumes.iter().any(|it| it.volume == name && !it.mounted);
    let hopeless = container.missing.iter().any(|it| !it.message.starts_with(NOT_MOUNTED) || !comes(&it.volume));
    Err(match hopeless {
        true => Failure::new(text),
        false => {
            Failure::not_yet(text).hints([format!("`windlass wait {}` waits for them", plain(&pod.metadata.name))])
        }
    }
    .into())
}

/// For people: what is missing stands in its place.
fn table(containers: &Containers) -> String {
    let mut rows = Vec::new();
    for container in &containers.status.containers {
        let name = container.name.as_str();
        rows.extend(container.mounts.iter().map(|it| {
            let access = match (it.read_only, it.recursive_read_only) {
                (_, true) => "rro",
                (true, false) => "ro",
                (false, false) => "rw",
            };
            [name, &it.volume, &it.container_path, access, &it.propagation, &it.host_path].map(Into::into).to_vec()
        }));
        rows.extend(container.devices.iter().map(|it| {
            [name, &it.volume, &it.container_path, &it.permissions, "device", &it.host_path].map(Into::into).to_vec()
        }));
        rows.extend(container.missing.iter().map(|it| {
            let why = format!("<missing: {}>", it.message);
            [name, &it.volume, &it.container_path, "-", "-", &why].map(Into::into).to_vec()
        }));
    }
    if rows.is_empty() {
        output::note(&format!("The containers of pod {} are given nothing.", title(&containers.metadata)));
    }
    let headings = ["CONTAINER", "VOLUME", "CONTAINER PATH", "ACCESS", "PROPAGATION", "HOST PATH"];
    Table::new(&headings, Paint::of(&Look { color: Color::Never })).rows(rows)
}
