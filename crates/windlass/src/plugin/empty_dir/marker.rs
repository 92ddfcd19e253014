//! The note that a directory is complete: a file called `ready` beside the pod's volumes (P-60, P-296).
//!
//! It is written last and removed first, so whoever finds it finds a volume that was finished. windlass has records of
//! its own; the note is for the kubelet that may take over.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use windlass_linux::{
    name::{self, Name},
    remove,
};

use super::Error;
use crate::{
    layout::{Layout, PRIVATE, Slot},
    plugin::Failure,
};

const FILE: &str = "ready";
const FILE_MODE: Mode = Mode::from_bits_retain(0o644);

/// Whose note it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::plugin) enum Marker {
    /// Of a volume that is scratch space for its pod.
    Own,
    /// Of a volume of another type, whose directory lies in scratch space (P-74).
    Wrapped,
}

impl Marker {
    fn name(self, slot: &Slot) -> Result<Name, name::Error> {
        match self {
            Self::Own => Ok(slot.name.clone()),
            Self::Wrapped => {
                let mut name = OsString::from("wrapped_");
                name.push(&slot.name);
                Name::new("volume name", name)
            }
        }
    }

    /// Where the note is, below the root.
    fn directory(self, slot: &Slot) -> Result<PathBuf, name::Error> {
        Ok(slot.metadata(super::PLUGIN).join(self.name(slot)?.as_path()))
    }

    /// Is the note there?
    pub(super) fn is_there(self, layout: &Layout, slot: &Slot) -> Result<bool, Failure> {
        let Some(directory) = layout.find(&self.directory(slot)?)? else { return Ok(false) };
        match rustix::fs::statat(&directory, FILE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(FileType::from_raw_mode(status.st_mode).is_file()),
            Err(Errno::NOENT) => Ok(false),
            Err(source) => Err(Error::Look { path: directory.path().join(FILE), source }.into()),
        }
    }

    /// Leaves the note. That it cannot be left is an error (W-27).
    pub(super) fn write(self, layout: &Layout, slot: &Slot) -> Result<(), Failure> {
        let directory = layout.make(&self.directory(slot)?, PRIVATE)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let written = rustix::fs::openat(&directory, FILE, flags, FILE_MODE)
            // Whatever the umask.
            .and_then(|file| rustix::fs::fchmod(file, FILE_MODE));
        written.map_err(|source| Error::Write { path: directory.path().join(FILE), source }.into())
    }

    /// Takes the note away, with the directory that held it. That it is missing is success.
    pub(super) fn remove(self, layout: &Layout, slot: &Slot) -> Result<(), Failure> {
        match self.name(slot) {
            Ok(name) => remove_from(layout, &slot.metadata(super::PLUGIN), &name),
            // With so long a name there was none.
            Err(_) => Ok(()),
        }
    }
}

/// Takes a volume's note out of a plugin's directory.
pub(super) fn remove_from(layout: &Layout, plugin: &Path, volume: &Name) -> Result<(), Failure> {
    let Some(parent) = layout.find(plugin)? else { return Ok(()) };
    Ok(remove::directory_of(&parent, volume, &Name::new("note", FILE)?)?)
}
