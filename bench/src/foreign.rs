//! Mounts of others, many of them: bind mounts of one directory, in the namespace that all systems work in.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use crate::namespace::BASE;

/// Mounts that are there as long as this is.
pub(crate) struct Foreign(String);

impl Foreign {
    /// Makes so many.
    pub(crate) fn make(count: usize) -> anyhow::Result<Self> {
        let base = format!("{BASE}/foreign");
        fs::create_dir_all(&base).with_context(|| format!("make {base}"))?;
        mount("foreign", &base, "tmpfs", MountFlags::empty(), c"nr_inodes=0").context("mount a tmpfs")?;
        let foreign = Self(base);
        let source = Path::new(&foreign.0).join("source");
        fs::create_dir(&source).context("make what is mounted")?;
        for index in 0..count {
            let target = Path::new(&foreign.0).join(index.to_string());
            fs::create_dir(&target).context("make where it is mounted")?;
            mount_bind(&source, &target)
                .with_context(|| format!("make bind mount {index} of {count}; /proc/sys/fs/mount-max limits them"))?;
        }
        Ok(foreign)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // With what is mounted below it, in one step.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
