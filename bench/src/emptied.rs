//! Waiting until a directory is empty: what a pod's last directory is removed from a moment after its last volume has gone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::inotify::WatchFlags;

use crate::inotify::Directories;
use crate::times::PATIENCE;

/// A directory that is to become empty.
pub(crate) struct Emptied {
    directory: PathBuf,
    events: Directories,
}

impl Emptied {
    /// Begins before what empties it does.
    pub(crate) fn watch(directory: &Path) -> anyhow::Result<Self> {
        let events = Directories::new()?;
        events.add(directory, WatchFlags::DELETE | WatchFlags::ONLYDIR)?;
        Ok(Self { directory: directory.into(), events })
    }

    /// Waits until nothing is in it.
    pub(crate) fn wait(&self) -> anyhow::Result<()> {
        let path = self.directory.display();
        while fs::read_dir(&self.directory).with_context(|| format!("read {path}"))?.next().is_some() {
            ensure!(!self.events.wait(PATIENCE)?.is_empty(), "{path} is not empty, and nothing happens in it");
        }
        Ok(())
    }
}
