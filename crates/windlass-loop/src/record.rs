//! What is remembered of a volume: one record for each, always whole on disk.
//!
//! What is mounted is the mount table's to tell, and what a loop device has is the kernel's. A record says what was meant,
//! so that what is found can be told apart, used or taken away.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use windlass_linux::name::Name;

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What CSI calls it: ours, unless the volume lives with a pod.
    pub id: String,
    /// The name it was created by; empty if it lives with a pod. It may hold any character.
    pub name: String,
    /// How long it lives.
    pub life: Life,
    /// How large it is.
    pub capacity_bytes: u64,
    /// The file system it was created for; empty if none was named.
    pub filesystem: String,
    /// What is on it.
    pub content: Content,
    /// The node it is attached to.
    pub attached: Option<Attachment>,
    /// Where it is staged, or was about to be.
    pub staged: Option<Stage>,
    /// Where it is published, or was about to be.
    pub published: Vec<Publish>,
}

/// How long a volume lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    /// From create to delete.
    Persistent,
    /// From publish to unpublish: an inline volume of a pod.
    Ephemeral,
}

/// What is on a volume. Nothing is formatted that may hold something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Nothing was ever written to it.
    Empty,
    /// A file system was about to be made, and nobody has used it yet.
    Formatting,
    /// A file system, which was made once.
    Formatted {
        /// `ext4` or `xfs`.
        kind: String,
        /// The size of the device that it fills.
        size_bytes: u64,
    },
    /// Whatever somebody wrote to it as a raw device.
    Raw,
}

/// An attachment to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The node.
    pub node: String,
    /// It must not be written there.
    pub read_only: bool,
    /// What whoever stages it must show.
    pub token: String,
}

/// A path as it was asked for, and where that is without links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// As it was asked for.
    pub asked: String,
    /// Without links.
    pub path: PathBuf,
}

/// How a volume is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Use {
    /// As a raw device.
    Block,
    /// As a file system.
    Mount {
        /// `ext4`, `xfs`, or empty for whatever is there.
        filesystem: String,
        /// Mount options.
        flags: Vec<String>,
        /// The group that it is given to.
        group: Option<u32>,
    },
}

/// A volume made ready on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Where.
    pub spot: Spot,
    /// As what.
    pub usage: Use,
    /// It cannot be written.
    pub read_only: bool,
    /// It is there; otherwise it was about to be, and may be in part.
    pub done: bool,
}

/// A volume given to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    /// Where.
    pub spot: Spot,
    /// As what.
    pub usage: Use,
    /// It cannot be written there.
    pub read_only: bool,
    /// Nobody else may have it.
    pub alone: bool,
    /// It is there; otherwise it was about to be, and may be in part.
    pub done: bool,
}

impl Record {
    /// A volume that nothing was done with yet.
    #[must_use]
    pub fn new(id: String, name: String, life: Life, capacity_bytes: u64, filesystem: String) -> Self {
        let content = Content::Empty;
        Self {
            id,
            name,
            life,
            capacity_bytes,
            filesystem,
            content,
            attached: None,
            staged: None,
            published: Vec::new(),
        }
    }

    /// The name of its record, and of its image with `.img` after it.
    #[must_use]
    pub fn file_name(&self) -> String {
        match self.life {
            Life::Persistent => self.id.clone(),
            // The orchestrator chose the id: it may hold anything, and be of any length.
            Life::Ephemeral => format!("inline-{}", hash(self.id.as_bytes())),
        }
    }

    /// The name of its image.
    pub fn image_name(&self) -> Result<Name, windlass_linux::name::Error> {
        Name::new("image", format!("{}.img", self.file_name()))
    }

    /// Where it is published, by what was asked for or by where that is.
    #[must_use]
    pub fn published_at(&self, asked: &str, path: Option<&std::path::Path>) -> Option<&Publish> {
        self.published.iter().find(|it| it.spot.is(asked, path))
    }

    /// Whether anybody has it on this node.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.staged.is_some() || !self.published.is_empty()
    }
}

impl Spot {
    /// Whether this is the place that was asked for.
    #[must_use]
    pub fn is(&self, asked: &str, path: Option<&std::path::Path>) -> bool {
        self.asked == asked || path.is_some_and(|it| it == self.path)
    }
}

fn hash(bytes: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// Bytes as lower case digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_after_it_was_written_and_read() {
        let spot = Spot { asked: "/var/run/x".into(), path: "/run/x".into() };
        let usage = Use::Mount { filesystem: "xfs".into(), flags: vec!["noatime".into()], group: Some(7) };
        let mut record = Record::new("vol-1".into(), "ä/..\n".into(), Life::Persistent, 1 << 30, "xfs".into());
        record.content = Content::Formatted { kind: "xfs".into(), size_bytes: 1 << 30 };
        record.staged = Some(Stage { spot: spot.clone(), usage: usage.clone(), read_only: false, done: true });
        record.published.push(Publish { spot, usage: Use::Block, read_only: true, alone: true, done: false });
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(serde_json::from_slice::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn an_id_of_somebody_else_is_a_file_name_whatever_it_holds() {
        let long = "x".repeat(2000);
        for id in ["../../etc/passwd", "", ".", "a\0b", "ü^", long.as_str()] {
            let record = Record::new(id.into(), String::new(), Life::Ephemeral, 1, String::new());
            assert_eq!(record.file_name().len(), "inline-".len() + 64);
            record.image_name().unwrap();
        }
    }

    #[test]
    fn a_place_is_known_by_what_was_asked_and_by_where_it_is() {
        let spot = Spot { asked: "/var/run/x".into(), path: "/run/x".into() };
        assert!(spot.is("/var/run/x", None));
        assert!(spot.is("/run/../run/x", Some(std::path::Path::new("/run/x"))));
        assert!(!spot.is("/run/y", Some(std::path::Path::new("/run/y"))));
        assert!(!spot.is("/run/x", None));
    }
}
