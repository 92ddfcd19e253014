//! What identifies a mount or a directory, as numbers that the engine compares (I-4).

use std::path::Path;

use rustix::fs::{AtFlags, FileType, Statx};
use windlass_core::operation::Proof;
use windlass_linux::mount::Detached;
use windlass_linux::name::Name;
use windlass_linux::safe_path::{Fresh, Place};
use windlass_linux::table::{self, Device, Mount, MountId, Watch};

use super::Failure;
use crate::fingerprint::Fingerprint;

/// Kinds of proof that no type of file system has.
const DIRECTORY: u64 = 1;
const NOTHING: u64 = 2;

/// The proof of a mount.
pub fn mount_proof(mount: &Mount) -> Proof {
    let Mount { device, root, kind, .. } = mount;
    proof(mount.id, *device, root.as_os_str().as_encoded_bytes(), kind.as_encoded_bytes())
}

/// The proof of a whole file system of this type that is going to be mounted: what [`mount_proof`] says of it once it is in
/// the mount table.
pub(super) fn new_mount_proof(mount: &Detached, kind: &str) -> Result<Proof, Failure> {
    let (id, device) = mount.identity()?;
    Ok(proof(id, device, b"/", kind.as_bytes()))
}

fn proof(id: MountId, device: Device, root: &[u8], kind: &[u8]) -> Proof {
    let mount_id = match id {
        MountId::Unique(id) => id,
        // May be given again, so it proves nothing.
        MountId::Reusable(_) => 0,
    };
    let text = |bytes: &[u8]| {
        let mut fingerprint = Fingerprint::new([0, 0]);
        fingerprint.field(bytes);
        fingerprint.finish()
    };
    let mut root = text(root);
    // The kernel gives the number of a file system without a device to the next one at once, and a new one is empty: only
    // the mount's own number tells them apart.
    if device.major == 0 {
        root = root.wrapping_add(mount_id);
    }
    let device = (u64::from(device.major) << 32) | u64::from(device.minor);
    Proof { mount_id, device, root, kind: text(kind) }
}

/// The proof of a directory that is no mount: its device and inode.
pub(crate) fn directory_proof(place: &Place) -> Result<Proof, Failure> {
    let status = status(place)?;
    Ok(Proof { mount_id: 0, device: status.st_dev, root: status.st_ino, kind: DIRECTORY })
}

/// The same of a directory that was made just now.
pub(super) fn fresh_proof(directory: &Fresh) -> Result<Proof, Failure> {
    let status = directory.status()?;
    Ok(Proof { mount_id: 0, device: status.st_dev, root: status.st_ino, kind: DIRECTORY })
}

/// The same of a directory that was looked at and not opened.
pub(crate) fn directory_proof_of(status: &Statx) -> Proof {
    let device = rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor);
    Proof { mount_id: 0, device, root: status.stx_ino, kind: DIRECTORY }
}

/// The same of what has this name in a directory, if that is a directory. It is looked at and not opened.
pub(super) fn entry_proof(parent: &Place, name: &Name) -> Option<Proof> {
    let status = rustix::fs::statat(parent, name.as_path(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_directory = FileType::from_raw_mode(status.st_mode).is_dir();
    is_directory.then_some(Proof { mount_id: 0, device: status.st_dev, root: status.st_ino, kind: DIRECTORY })
}

fn status(place: &Place) -> Result<rustix::fs::Stat, Failure> {
    rustix::fs::fstat(place)
        .map_err(|errno| Failure { text: format!("look at {place}: {errno}"), ..Failure::open(&errno) })
}

/// The proof of something that is the host's own, to which nothing is done.
pub(crate) fn nothing_proof(path: &Path) -> Proof {
    let mut fingerprint = Fingerprint::new([0, 0]);
    fingerprint.field(path.as_os_str().as_encoded_bytes());
    Proof { mount_id: 0, device: 0, root: fingerprint.finish(), kind: NOTHING }
}

/// What is mounted at a path now. Touches nothing at the path.
pub(crate) fn mounted(watch: &Watch, path: &Path) -> Result<Option<std::sync::Arc<Mount>>, table::Error> {
    watch.catch_up()?;
    Ok(watch.table().topmost(path).cloned())
}
