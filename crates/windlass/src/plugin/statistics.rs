//! How full volumes are (P-265, P-266, C-117, C-118).

use std::sync::atomic::AtomicBool;

use rustix::io::Errno;
use windlass_core::operation::Cause;
use windlass_linux::safe_path::Place;
use windlass_linux::usage;

use super::{Failure, Made, VolumeForm};

/// A walk through a volume that is a plain directory ends here: what is larger is counted up to this.
const ENTRIES_MAX: u64 = 1_000_000;

/// How full a volume is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// In bytes, if that is known.
    pub bytes: Option<Measure>,
    /// In files and directories, if that is known.
    pub inodes: Option<Measure>,
    /// What its driver says of its health, if it says anything.
    pub condition: Option<Condition>,
}

/// How much there is of something. A volume that is a directory among others has no size of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Measure {
    /// Altogether.
    pub total: Option<u64>,
    /// That is left.
    pub available: Option<u64>,
    /// That is used.
    pub used: u64,
}

/// What a driver says of a volume's health.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Condition {
    /// Something is wrong with it.
    pub abnormal: bool,
    /// What.
    pub message: String,
}

/// Measures what is there: a file system by asking it, a directory by walking through it.
pub(super) fn measure(made: &Made) -> Result<Statistics, Failure> {
    let unmeasured = |text: String| Failure::refused(Cause::NotSupported, text);
    if made.path.as_os_str().is_empty() {
        return Err(unmeasured("the container runtime mounts it, and alone knows how full it is".into()));
    }
    let place = Place::root(&made.path).map_err(|error| match error {
        error if error.errno() == Errno::NOTDIR => {
            unmeasured(format!("{} is no directory, and only directories are measured", made.path.display()))
        }
        error => error.into(),
    })?;
    let bytes_and_inodes = |bytes, inodes| Statistics { bytes: Some(bytes), inodes: Some(inodes), condition: None };
    match made.form {
        VolumeForm::Mount(_) | VolumeForm::Host => {
            let space = usage::statfs(&place).map_err(|error| Failure::open(&error))?;
            let bytes = Measure {
                total: Some(space.capacity_bytes),
                available: Some(space.available_bytes),
                used: space.used_bytes,
            };
            let inodes =
                Measure { total: Some(space.inodes), available: Some(space.inodes_free), used: space.inodes_used };
            Ok(bytes_and_inodes(bytes, inodes))
        }
        VolumeForm::Directory => {
            let budget = usage::Budget { entries_max: ENTRIES_MAX, stop: &AtomicBool::new(false) };
            let walked = usage::walk(&place, &budget).map_err(|error| Failure::open(&error))?;
            let bytes = Measure { used: walked.used_bytes, ..Measure::default() };
            let inodes = Measure { used: walked.inodes_used, ..Measure::default() };
            Ok(bytes_and_inodes(bytes, inodes))
        }
    }
}
