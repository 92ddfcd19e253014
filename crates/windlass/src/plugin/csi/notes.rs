//! `vol_data.json`: what the kubelet notes beside a volume, so that it can be taken away when nothing else is known (C-76).
//!
//! windlass writes it as the kubelet does, for a kubelet that takes over, and reads what a kubelet wrote. It is written
//! whole or not at all, and not again if it says the same already (W-4). After a loss of power it may be missing: the record,
//! which is written before, is not.

use std::collections::BTreeMap;

use windlass_core::operation::Earlier;
use windlass_linux::name::Name;
use windlass_linux::safe_path::Place;
use windlass_linux::whole_file::{self, Survives};

use super::Failure;
use super::names::Identified;

/// What it is called.
pub(super) const FILE: &str = "vol_data.json";

/// No note is larger: handles have some hundred bytes.
const BYTES_MAX: usize = 64 * 1024;

/// A note.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Note(BTreeMap<String, String>);

impl Note {
    /// Beside a staged volume.
    pub(super) fn staged(source: &Identified) -> Self {
        Self(BTreeMap::new()).with("driverName", &source.driver).with("volumeHandle", &source.handle)
    }

    /// Beside a volume of a pod, or a device.
    pub(super) fn published(source: &Identified, name: &str, node: &str, attachment: &str) -> Self {
        Self::staged(source).with("specVolID", name).with("nodeName", node).with("attachmentID", attachment)
    }

    /// How long the volume lives: `Persistent` or `Ephemeral`.
    pub(super) fn living(self, mode: &str) -> Self {
        self.with("volumeLifecycleMode", mode)
    }

    /// The label that it was mounted with.
    pub(super) fn labelled(self, label: Option<&str>) -> Self {
        match label {
            Some(label) => self.with("seLinuxMountContext", label),
            None => self,
        }
    }

    fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// Which volume it is about, and what a pod or the persistent volume calls it.
    pub(super) fn identified(&self) -> Option<Identified> {
        let text = |key| self.0.get(key).filter(|it| !it.is_empty()).cloned();
        Some(Identified { driver: text("driverName")?, handle: text("volumeHandle")? })
    }

    /// Whether it is about a volume of the pod itself.
    pub(super) fn is_of_pod(&self) -> bool {
        self.0.get("volumeLifecycleMode").is_some_and(|it| it == "Ephemeral")
    }

    /// The name of the persistent volume.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.get("specVolID").map(String::as_str)
    }

    /// Writes it into a directory, unless it is there already.
    pub(super) fn write(&self, directory: &Place) -> Result<(), Failure> {
        let text = self.text()?;
        if whole_file::read(directory, &name()?, BYTES_MAX).is_ok_and(|it| it.as_ref() == Some(&text)) {
            return Ok(());
        }
        put(directory, &text)
    }

    /// The same; where nothing came before it is not looked for.
    pub(super) fn write_after(&self, earlier: Earlier, directory: &Place) -> Result<(), Failure> {
        match earlier {
            Earlier::Nothing => put(directory, &self.text()?),
            _ => self.write(directory),
        }
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> Result<Vec<u8>, Failure> {
        let mut text = serde_json::to_vec(&self.0).map_err(|error| Failure::open(&error))?;
        text.push(b'\n');
        Ok(text)
    }

    /// The note in a directory. One that makes no sense counts as none: what is recorded elsewhere tells as much.
    pub(super) fn read(directory: &Place) -> Result<Option<Self>, Failure> {
        let text = whole_file::read(directory, &name()?, BYTES_MAX)?;
        Ok(text.and_then(|it| Self::parse(&it)))
    }

    /// The note in a text.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().map(Self)
    }
}

fn put(directory: &Place, text: &[u8]) -> Result<(), Failure> {
    Ok(whole_file::write_readable(directory, &name()?, text, Survives::CrashWhole)?)
}

fn name() -> Result<Name, Failure> {
    Ok(Name::new("note", FILE)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::root(directory.path()).unwrap();
        (directory, place)
    }

    fn source() -> Identified {
        Identified { driver: "d.example".into(), handle: "vol/^ö".into() }
    }

    /// C-76.
    #[test]
    fn a_note_is_flat_sorted_and_ends_with_a_line() {
        let (directory, place) = place();
        let note = Note::published(&source(), "pv-1", "node-1", "csi-x").living("Persistent").labelled(None);
        note.write_after(Earlier::Nothing, &place).unwrap();
        let path = directory.path().join(FILE);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"attachmentID\":\"csi-x\",\"driverName\":\"d.example\",\"nodeName\":\"node-1\",\"specVolID\":\"pv-1\",\
             \"volumeHandle\":\"vol/^ö\",\"volumeLifecycleMode\":\"Persistent\"}\n"
        );
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
        assert_eq!(Note::read(&place).unwrap().unwrap().identified(), Some(source()));
    }

    /// W-4.
    #[test]
    fn a_note_that_says_the_same_is_not_written_again() {
        let (directory, place) = place();
        let inode = || std::fs::metadata(directory.path().join(FILE)).unwrap().ino();
        Note::staged(&source()).write(&place).unwrap();
        let first = inode();
        Note::staged(&source()).write(&place).unwrap();
        assert_eq!(inode(), first);
        Note::staged(&source()).labelled(Some("l")).write(&place).unwrap();
        assert_ne!(inode(), first);
    }

    #[test]
    fn what_makes_no_sense_is_no_note() {
        let (directory, place) = place();
        assert_eq!(Note::read(&place).unwrap(), None);
        for text in ["", "{", "[]", "{\"driverName\": 7}", "null"] {
            std::fs::write(directory.path().join(FILE), text).unwrap();
            assert_eq!(Note::read(&place).unwrap(), None, "{text}");
        }
        std::fs::write(directory.path().join(FILE), "{\"driverName\": \"d\", \"new\": \"x\"}").unwrap();
        assert_eq!(Note::read(&place).unwrap().unwrap().identified(), None, "no handle");
    }
}
