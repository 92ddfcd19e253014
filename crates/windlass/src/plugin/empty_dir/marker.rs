//! The note that a directory is complete: a file called `ready` beside the pod's volumes (P-60, P-296).
//!
//! It is written last and removed first, so whoever finds it finds a volume that was finished. windlass has records of
//! its own; the note is for the kubelet that may take over.

use std::ffi::OsString;

use rustix::fs::{Mode, OFlags};
use windlass_linux::name::{self, Name, Relative};
use windlass_linux::remove;
use windlass_linux::safe_path::Mounts;

use crate::layout::{Home, PRIVATE, Slot};
use crate::plugin::Failure;

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

    /// Is the note there?
    pub(super) fn is_there(self, home: &Home, slot: &Slot) -> Result<bool, Failure> {
        let Some(notes) = home.find_notes(super::EMPTY_DIR.name)? else { return Ok(false) };
        let file = Relative::new("volume name", self.name(slot)?.as_path().join(FILE))?;
        match notes.open(&file, OFlags::PATH | OFlags::NOFOLLOW, Mounts::Refuse) {
            Ok(file) => Ok(file.kind()?.is_file()),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Leaves the note. That it cannot be left is an error (W-27).
    pub(super) fn write(self, home: &Home, slot: &Slot) -> Result<(), Failure> {
        let name = self.name(slot)?;
        if let Some(notes) = home.fresh_notes(super::EMPTY_DIR.name)? {
            let note = notes.directory(name.as_path());
            note.make(PRIVATE)?;
            return Ok(note.add_file(&Name::new("note", FILE)?, FILE_MODE)?);
        }
        let notes = home.make_notes(super::EMPTY_DIR.name)?;
        notes.add_directory(&name, PRIVATE)?;
        let file = Relative::new("volume name", name.as_path().join(FILE))?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(notes.create(&file, flags, FILE_MODE, Mounts::Refuse).map(drop)?)
    }

    /// Takes the note away, with the directory that held it. That it is missing is success.
    pub(super) fn remove(self, home: &Home, slot: &Slot) -> Result<(), Failure> {
        match self.name(slot) {
            Ok(name) => remove_from(home, super::EMPTY_DIR.name, &name),
            // With so long a name there was none.
            Err(_) => Ok(()),
        }
    }
}

/// Takes a volume's note out of a plugin's directory.
pub(super) fn remove_from(home: &Home, plugin: &str, volume: &Name) -> Result<(), Failure> {
    let Some(notes) = home.find_notes(plugin)? else { return Ok(()) };
    Ok(remove::directory_of(&notes, volume, &Name::new("note", FILE)?)?)
}
