//! A mount namespace of our own: what is mounted in it is seen by nobody else, and goes with the last process in it.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::UnshareFlags,
};

use crate::system::Places;

/// Covered by a tmpfs in the namespace: everything in memory is below it.
pub(crate) const BASE: &str = "/mnt";

/// Enters the namespace. There must be no other thread.
pub(crate) fn enter() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "this needs root: the kubelet's volume manager mounts in the namespace of the system; try again with sudo"
    );
    unshare().context("make a mount namespace")?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).context("make all mounts private")?;
    // Neither bytes nor files are to run out before memory does.
    mount("windlass-bench", BASE, "tmpfs", MountFlags::empty(), c"mode=0755,size=75%,nr_inodes=0")
        .with_context(|| format!("mount a tmpfs on {BASE}"))
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare() -> rustix::io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWNS)
}

/// Makes places for one system, all empty: in memory, but for the root on a disk if there is one.
pub(crate) fn places(name: &str, disk: Option<&Path>) -> anyhow::Result<Places> {
    let memory = Path::new(BASE).join(name);
    let root = disk.map_or_else(|| memory.join("root"), |it| it.join(name));
    let places = Places { root, run: memory.join("run") };
    for path in [&places.root, &places.run] {
        fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
    }
    Ok(places)
}
