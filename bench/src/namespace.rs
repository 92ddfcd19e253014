//! A mount namespace of our own: what is mounted in it is seen by nobody else, and goes with the last process in it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use rustix::thread::UnshareFlags;

use crate::system::Places;

/// Covered by a tmpfs in the namespace: everything that is made is below it.
pub(crate) const BASE: &str = "/mnt";
/// Neither bytes nor files are to run out before memory does.
const OPTIONS: &std::ffi::CStr = c"mode=0755,size=75%,nr_inodes=0";

/// Says what to do if this is not root.
pub(crate) fn need_root() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "this needs root, for it mounts thousands of volumes in a namespace of its own; run it with sudo"
    );
    Ok(())
}

/// Enters the namespace. There must be no other thread.
pub(crate) fn enter() -> anyhow::Result<()> {
    need_root()?;
    unshare().context("make a mount namespace")?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).context("make all mounts private")?;
    mount("windlass-bench", BASE, "tmpfs", MountFlags::empty(), OPTIONS)
        .with_context(|| format!("mount a tmpfs on {BASE}"))
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare() -> rustix::io::Result<()> {
    rustix::thread::unshare(UnshareFlags::NEWNS)
}

/// What the roots of systems are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// A tmpfs of its own.
    Memory,
    /// A directory on a disk.
    Real,
}

/// Where one system works, from nothing. Whatever is mounted there goes when this does.
pub(crate) struct Stage {
    disk: Disk,
    places: Places,
    mounted: PathBuf,
    directory: Option<PathBuf>,
}

impl Stage {
    /// Makes one, with its root in this directory of a disk if there is one.
    pub(crate) fn set(name: &str, disk: Option<&Path>) -> anyhow::Result<Self> {
        let mounted = Path::new(BASE).join(name);
        fs::create_dir(&mounted).with_context(|| format!("make {}", mounted.display()))?;
        mount("windlass-bench", &mounted, "tmpfs", MountFlags::empty(), OPTIONS)
            .with_context(|| format!("mount a tmpfs on {}", mounted.display()))?;
        let places = Places { root: mounted.join("root"), run: mounted.join("run") };
        let directory = disk.map(|it| it.join(name));
        let kind = if directory.is_some() { Disk::Real } else { Disk::Memory };
        let stage = Self { disk: kind, places, mounted, directory };
        for path in [&stage.places.root, &stage.places.run].into_iter().chain(&stage.directory) {
            fs::create_dir_all(path).with_context(|| format!("make {}", path.display()))?;
        }
        if let Some(directory) = &stage.directory {
            // By a bind mount its mounts go with all the others.
            mount_bind(directory, &stage.places.root).with_context(|| format!("bind {}", directory.display()))?;
        }
        Ok(stage)
    }

    /// Where the system has what it makes.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Where a driver has what it makes.
    pub(crate) fn driver(&self) -> PathBuf {
        self.mounted.join("driver")
    }

    /// Where it is told which volumes a driver has.
    pub(crate) fn volumes(&self) -> PathBuf {
        self.mounted.join("volumes.json")
    }

    /// What its root is on.
    pub(crate) fn disk(&self) -> Disk {
        self.disk
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // With all mounts below it, in one step.
        let _ = unmount(&self.mounted, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.mounted);
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}
