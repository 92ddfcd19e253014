//! The names of records. All records of publishes lie beside each other, one file each, so that a pod's records cost no
//! directories of their own: the place in the pod is the name, `pod:volumes:plugin:volume`.
//!
//! What does not fit into a name has a number for one, and what it is about stands in the record alone. So it is with
//! attaches and stages too, because a volume's identity can be long.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use windlass_core::ids::VolumeId;
use windlass_core::spec::Mode;
use windlass_linux::name::{Error, Name};
use windlass_linux::whole_file;

use crate::fingerprint::Fingerprint;
use crate::layout::Slot;

const SEPARATOR: u8 = b':';

/// The name of the record of a publish.
pub(super) fn of_publish(slot: &Slot) -> Result<Name, Error> {
    let parts = [slot.pod.as_bytes(), mode_word(slot.mode).as_bytes(), slot.plugin.as_bytes(), slot.name.as_bytes()];
    let fits = parts.iter().all(|it| !it.contains(&SEPARATOR));
    let name = Name::new("record", OsStr::from_bytes(&parts.join(&SEPARATOR)));
    match name.ok().filter(|it| fits && !whole_file::is_unfinished(it)) {
        Some(name) => Ok(name),
        None => numbered(&parts),
    }
}

/// The publish whose record has this name; `None` if it is a number, or no name of a record at all.
pub(super) fn publish(name: &Name) -> Option<Slot> {
    let mut parts = name.as_bytes().split(|it| *it == SEPARATOR).map(OsStr::from_bytes);
    let mut part = || Name::new("record", parts.next()?).ok();
    let (pod, word, plugin, name) = (part()?, part()?, part()?, part()?);
    let mode = [Mode::Filesystem, Mode::Block].into_iter().find(|it| mode_word(*it).as_bytes() == word.as_bytes())?;
    parts.next().is_none().then_some(Slot { pod, plugin, name, mode })
}

/// The name of the record of an attach or a stage.
pub(super) fn of_volume(volume: &VolumeId) -> Result<Name, Error> {
    numbered(&[volume.as_str().as_bytes()])
}

/// Whether what a record is about stands in it alone.
pub(super) fn is_number(name: &Name) -> bool {
    name.as_bytes().len() == 32 && name.as_bytes().iter().all(u8::is_ascii_hexdigit)
}

fn numbered(parts: &[&[u8]]) -> Result<Name, Error> {
    let half = |key| {
        let mut fingerprint = Fingerprint::new([key, 0]);
        for part in parts {
            fingerprint.field(part);
        }
        fingerprint.finish()
    };
    Name::new("record", format!("{:016x}{:016x}", half(1), half(2)))
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Filesystem => "volumes",
        Mode::Block => "volumeDevices",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(pod: &str, name: &str, mode: Mode) -> Slot {
        let new = |it: &str| Name::new("name", it).unwrap();
        Slot { pod: new(pod), plugin: new("kubernetes.io~local-volume"), name: new(name), mode }
    }

    #[test]
    fn the_place_in_the_pod_is_the_name() {
        for (mode, word) in [(Mode::Filesystem, "volumes"), (Mode::Block, "volumeDevices")] {
            let name = of_publish(&slot("uid", "disk", mode)).unwrap();
            assert_eq!(name.to_string(), format!("uid:{word}:kubernetes.io~local-volume:disk"));
            assert_eq!(publish(&name), Some(slot("uid", "disk", mode)));
            assert!(!is_number(&name));
        }
    }

    #[test]
    fn what_does_not_fit_into_a_name_has_a_number() {
        let long = "x".repeat(250);
        let odd = [("uid", "a:b"), ("a:volumes", "b"), ("uid", long.as_str()), ("..new-1", "disk")];
        let mut names: Vec<Name> = Vec::new();
        for (pod, name) in odd {
            let name = of_publish(&slot(pod, name, Mode::Filesystem)).unwrap();
            assert!(is_number(&name) && publish(&name).is_none() && !names.contains(&name), "{name}");
            names.push(name);
        }
    }

    #[test]
    fn only_names_of_records_are_taken_for_records() {
        for other in
            ["stages", "uid", "a:b", "uid:other:plugin:disk", "uid:volumes:plugin:disk:more", "uid:volumes::disk"]
        {
            let name = Name::new("name", other).unwrap();
            assert!(publish(&name).is_none() && !is_number(&name), "{other}");
        }
    }
}
