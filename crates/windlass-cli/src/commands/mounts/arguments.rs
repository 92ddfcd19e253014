//! As arguments of `podman run` and `docker run`, one a line.
//!
//! `--mount` takes a list that is separated by commas as a line of CSV is, so a path with a comma or a quotation mark is
//! written between quotation marks. (`--volume` has no way to write a colon.)

use windlass_api::view::{ContainerDevice, ContainerMount, ContainerMounts};

use crate::exit::Failure;
use crate::output::plain;

pub(super) fn podman(container: &ContainerMounts, groups: &[i64]) -> anyhow::Result<String> {
    lines(container, groups, |it| {
        if it.recursive_read_only {
            let text = "podman cannot mount read-only what is mounted below a volume (recursiveReadOnly)";
            return Err(Failure::new(format!(
                "{text}, which {} at {} asks for",
                plain(&it.volume),
                plain(&it.container_path)
            )));
        }
        // All containers of a pod may use its volumes, so the label is one that they share.
        Ok(if it.relabel { vec!["relabel=shared"] } else { Vec::new() })
    })
}

pub(super) fn docker(container: &ContainerMounts, groups: &[i64]) -> anyhow::Result<String> {
    lines(container, groups, |it| Ok(if it.recursive_read_only { vec!["bind-recursive=readonly"] } else { Vec::new() }))
}

fn lines(
    container: &ContainerMounts,
    groups: &[i64],
    own: impl Fn(&ContainerMount) -> Result<Vec<&'static str>, Failure>,
) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for mount in &container.mounts {
        lines.push(bind(mount, &own(mount)?));
    }
    for device in &container.devices {
        lines.push(self::device(device)?);
    }
    lines.extend(groups.iter().map(|it| format!("--group-add={it}")));
    if let Some(line) = lines.iter().find(|it| it.contains(['\n', '\r'])) {
        return Err(Failure::new(format!("a path with a line break cannot be written on a line: {line:?}")).into());
    }
    Ok(lines.iter().map(|it| format!("{it}\n")).collect())
}

fn bind(mount: &ContainerMount, own: &[&str]) -> String {
    let mut fields =
        vec!["type=bind".to_owned(), format!("source={}", mount.host_path), format!("target={}", mount.container_path)];
    if mount.read_only || mount.recursive_read_only {
        fields.push("readonly".into());
    }
    fields.push(format!("bind-propagation={}", propagation(&mount.propagation)));
    fields.extend(own.iter().map(|it| (*it).to_owned()));
    let fields: Vec<_> = fields.iter().map(|it| quoted(it)).collect();
    format!("--mount={}", fields.join(","))
}

/// One field of a line of CSV.
fn quoted(field: &str) -> String {
    if field.contains([',', '"']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}

fn device(device: &ContainerDevice) -> Result<String, Failure> {
    let ContainerDevice { host_path, container_path, permissions, .. } = device;
    if let Some(path) = [host_path, container_path].into_iter().find(|it| it.contains(':')) {
        return Err(Failure::new(format!("--device cannot be given the path {}, which has a colon", plain(path))));
    }
    Ok(format!("--device={host_path}:{container_path}:{permissions}"))
}

/// The kernel's word for a mount's propagation.
pub(super) fn propagation(kubernetes: &str) -> &'static str {
    match kubernetes {
        "HostToContainer" => "rslave",
        "Bidirectional" => "rshared",
        _ => "rprivate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(host_path: &str) -> ContainerMount {
        ContainerMount {
            volume: "data".into(),
            host_path: host_path.into(),
            container_path: "/data".into(),
            read_only: true,
            recursive_read_only: false,
            propagation: "None".into(),
            relabel: true,
        }
    }

    fn container(mounts: Vec<ContainerMount>) -> ContainerMounts {
        ContainerMounts { name: "app".into(), mounts, devices: Vec::new(), missing: Vec::new() }
    }

    #[test]
    fn a_path_with_a_comma_is_one_field() {
        let container = container(vec![mount(r#"/a,"b""#)]);
        assert_eq!(
            docker(&container, &[]).unwrap(),
            "--mount=type=bind,\"source=/a,\"\"b\"\"\",target=/data,readonly,bind-propagation=rprivate\n"
        );
    }

    #[test]
    fn each_runtime_is_told_what_it_understands() {
        let plain = container(vec![mount("/a")]);
        let text = podman(&plain, &[2000]).unwrap();
        assert!(text.ends_with(",bind-propagation=rprivate,relabel=shared\n--group-add=2000\n"), "{text}");
        let recursive = container(vec![ContainerMount { recursive_read_only: true, ..mount("/a") }]);
        assert!(
            docker(&recursive, &[]).unwrap().ends_with(",readonly,bind-propagation=rprivate,bind-recursive=readonly\n")
        );
        assert!(podman(&recursive, &[]).unwrap_err().to_string().contains("data at /data"));
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let device = |host_path: &str| ContainerDevice {
            volume: "disk".into(),
            host_path: host_path.into(),
            container_path: "/dev/disk".into(),
            permissions: "r".into(),
        };
        assert_eq!(super::device(&device("/dev/loop0")).unwrap(), "--device=/dev/loop0:/dev/disk:r");
        assert!(super::device(&device("/dev/a:b")).is_err());
        assert!(docker(&container(vec![mount("/a\n--privileged")]), &[]).is_err());
    }
}
