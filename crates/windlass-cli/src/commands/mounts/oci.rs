//! As parts of an OCI runtime configuration (`config.json`), to be merged into the whole.

use std::path::Path;

use anyhow::Context;
use rustix::fs::{FileType, Mode};
use serde::Serialize;
use windlass_api::view::{ContainerDevice, ContainerMount, ContainerMounts};

use crate::exit::Failure;
use crate::output;

/// Parts that would be empty are left out, so that merging them changes nothing.
#[derive(Serialize)]
struct Config {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Mount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linux: Option<Linux>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process>,
}

#[derive(Serialize, Debug, PartialEq)]
struct Mount {
    destination: String,
    #[serde(rename = "type")]
    kind: &'static str,
    source: String,
    options: Vec<&'static str>,
}

#[derive(Serialize)]
struct Linux {
    devices: Vec<Device>,
    resources: Resources,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    major: u32,
    minor: u32,
    file_mode: u32,
    uid: u32,
    gid: u32,
}

#[derive(Serialize)]
struct Resources {
    devices: Vec<Rule>,
}

/// What the container's control group lets it do with a device.
#[derive(Serialize)]
struct Rule {
    allow: bool,
    #[serde(rename = "type")]
    kind: &'static str,
    major: u32,
    minor: u32,
    access: String,
}

#[derive(Serialize)]
struct Process {
    user: User,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User {
    additional_gids: Vec<i64>,
}

pub(super) fn config(container: &ContainerMounts, groups: &[i64]) -> anyhow::Result<String> {
    let devices: Vec<_> = container.devices.iter().map(device).collect::<anyhow::Result<_>>()?;
    let (devices, rules): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
    let config = Config {
        mounts: container.mounts.iter().map(mount).collect(),
        linux: (!devices.is_empty()).then_some(Linux { devices, resources: Resources { devices: rules } }),
        process: (!groups.is_empty()).then(|| Process { user: User { additional_gids: groups.to_vec() } }),
    };
    output::json(&config)
}

fn mount(mount: &ContainerMount) -> Mount {
    let access = match (mount.read_only, mount.recursive_read_only) {
        (_, true) => "rro",
        (true, false) => "ro",
        (false, false) => "rw",
    };
    Mount {
        destination: mount.container_path.clone(),
        kind: "bind",
        source: mount.host_path.clone(),
        // With what is mounted below it, as the kubelet's runtimes do.
        options: vec!["rbind", access, super::arguments::propagation(&mount.propagation)],
    }
}

/// The device as it is now: a path tells nothing of its numbers, which are what a container is given.
fn device(device: &ContainerDevice) -> anyhow::Result<(Device, Rule)> {
    let look = || format!("look at the device {}, which must be visible from here", device.host_path);
    let found = rustix::fs::stat(Path::new(&device.host_path)).map_err(std::io::Error::from).with_context(look)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::BlockDevice {
        return Err(Failure::new(format!("{} is no block device", device.host_path)).into());
    }
    let (major, minor) = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    let made = Device {
        path: device.container_path.clone(),
        kind: "b",
        major,
        minor,
        file_mode: Mode::from_raw_mode(found.st_mode).bits(),
        uid: found.st_uid,
        gid: found.st_gid,
    };
    Ok((made, Rule { allow: true, kind: "b", major, minor, access: device.permissions.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_the_options_of_its_access_and_propagation() {
        let given = |read_only, recursive_read_only, propagation: &str| {
            let given = ContainerMount {
                volume: "data".into(),
                host_path: "/a".into(),
                container_path: "/b".into(),
                read_only,
                recursive_read_only,
                propagation: propagation.into(),
                relabel: false,
            };
            mount(&given).options
        };
        assert_eq!(given(false, false, "None"), ["rbind", "rw", "rprivate"]);
        assert_eq!(given(true, false, "HostToContainer"), ["rbind", "ro", "rslave"]);
        assert_eq!(given(true, true, "None"), ["rbind", "rro", "rprivate"]);
        assert_eq!(given(false, false, "Bidirectional"), ["rbind", "rw", "rshared"]);
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let given = ContainerDevice {
            volume: "disk".into(),
            host_path: "/dev/null".into(),
            container_path: "/dev/x".into(),
            permissions: "rwm".into(),
        };
        assert_eq!(device(&given).err().unwrap().to_string(), "/dev/null is no block device");
        let missing = ContainerDevice { host_path: "/dev/there-is-none".into(), ..given };
        let error = format!("{:#}", device(&missing).err().unwrap());
        assert!(error.contains("/dev/there-is-none, which must be visible from here: No such file"), "{error}");
    }
}
