//! What is behind the door, for this workspace alone: for the fuzzers (`crates/windlass-fuzz`), for tests that play the
//! engine's part, and for `windlass tree`, which looks at a disk that no node works on.
//!
//! What is here is no part of the library: nothing else may use it, and it changes whenever what is behind it does.

use crate::plugin::csi::notes::Note;
use crate::provision::Provision;
use crate::record;

pub use crate::catalogue::{RegisteredDrivers, VolumeType};
pub use crate::csi::{Drivers, Registered};
pub use crate::defaults::pod as fill_in;
pub use crate::layout::{Layout, Slot, escape, unescape};
pub use crate::memory::Memory;
pub use crate::payload::{Surroundings, contents};
pub use crate::plugin::csi::names::attachment;
pub use crate::plugin::local::Local;
pub use crate::plugin::{
    Attachments, Failure, Left, Made, Plugin, Publish, Scene, Stage, Unpublish, VolumeForm, Want, mount_proof,
};
pub use crate::record::{Key, Record, Records};
pub use crate::resolve::{Given, Resolver, Settings};
pub use crate::tell::Tell;
pub use crate::token::cache::Cache;

/// How quantities are read.
pub mod quantity {
    pub use crate::quantity::{MAX, bytes, thousandths};
}

/// The record in a file, or what is wrong with it.
pub fn read_record(contents: &[u8]) -> Result<Record, String> {
    record::text::parse(contents).map(|(record, _)| record)
}

/// A record as a line of a file.
///
/// # Panics
///
/// If it cannot be written.
#[must_use]
pub fn write_record(record: &Record) -> Vec<u8> {
    record::text::line(None, record).expect("a record can be written")
}

/// A `vol_data.json`, read and written again.
#[must_use]
pub fn rewrite_note(contents: &[u8]) -> Option<Vec<u8>> {
    Note::parse(contents).map(|it| it.text().unwrap_or_default())
}

/// What was made for a claim, read and written again.
pub fn rewrite_provision(contents: &[u8]) -> Result<Vec<u8>, String> {
    let provision: Provision = serde_json::from_slice(contents).map_err(|error| error.to_string())?;
    serde_json::to_vec(&provision).map_err(|error| error.to_string())
}
