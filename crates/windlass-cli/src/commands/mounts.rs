//! `windlass mounts`: what to give the containers of a pod, in the words of those who run containers.

mod arguments;
mod oci;

use std::{path::Path, process::ExitCode};

use windlass::view::{self, ContainerMounts, Containers};

use super::lookup;
use crate::{
    args::{self, Color, Look, Mounts, MountsFormat},
    client::{self, Client},
    exit::Failure,
    output::{self, columns::title, paint::Paint, plain, table::Table},
};

pub(crate) async fn run(command: &Mounts, socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    let client = Client::new(socket);
    let name = args::bare(&command.pod);
    let Some(mut containers) = client.find::<Containers>(&client::containers(&command.namespace, name)).await? else {
        return Err(lookup::unknown(&client, &command.namespace, name).await?.into());
    };
    if let Some(only) = &command.container {
        let names = names(&containers);
        containers.status.containers.retain(|it| it.name == *only);
        if containers.status.containers.is_empty() {
            let text = format!("pod {} has no container {only:?}", title(&containers.metadata));
            return Err(Failure::new(text).hints([format!("it has {names}")]).into());
        }
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
    // Only what the pod has and is not mounted comes by waiting.
    let pod: view::Pod = client.get(&client::pod(&command.namespace, args::bare(&command.pod))).await?;
    let comes = |name: &str| pod.status.volumes.iter().any(|it| it.volume == name && !it.mounted);
    let hopeless = container.missing.iter().any(|it| !comes(&it.volume));
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
