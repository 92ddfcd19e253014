//! Making volumes larger: the image, its loop devices, and the file system that fills them.
//!
//! xfs grows while it is mounted. So does ext4, but the kernel wants `CAP_SYS_RESOURCE` for it; a driver without that says
//! so, and the file system grows when it is mounted the next time, for which nobody needs a right.

use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};
use tonic::Status;
use windlass_linux::format::{self, Grown, Patience};
use windlass_linux::loop_device;
use windlass_linux::tools::{Call, End, Tool};

use crate::disk::Loops;
use crate::record::{Content, Record, Use};
use crate::store::{Store, internal, told};

/// Grows an ext4 that is not mounted, if it does not fill its device.
pub(crate) fn before_mount(store: &Store, record: &mut Record, device: &Path) -> Result<(), Status> {
    let Content::Formatted { kind, size_bytes } = &record.content else { return Ok(()) };
    if kind != "ext4" || *size_bytes >= record.capacity_bytes {
        return Ok(());
    }
    // resize2fs wants a full check first, and says so.
    let tool = Tool::new("e2fsck", Some("e2fsprogs"));
    let call = Call::new(tool, Patience::default().work).argument("-f").argument("-p").argument(device);
    let output = call.run().map_err(internal)?;
    if !matches!(output.end, End::Exit(0 | 1)) {
        return Err(internal(output.failed()));
    }
    format::grow(device, device, Patience::default()).map_err(internal)?;
    filled(store, record)
}

/// Grows what is staged of a volume to the size of its image; the size that it has then.
pub fn online(store: &Store, record: &mut Record) -> Result<u64, Status> {
    let loops = Loops::of(store, record)?;
    // Those that lie on others come after them.
    for device in loops.all() {
        loop_device::resize(device).map_err(internal)?;
    }
    let mounts = record.staged.iter().map(|it| (&it.spot.path, &it.usage, it.read_only));
    let mut mounts = mounts.chain(record.published.iter().map(|it| (&it.spot.path, &it.usage, it.read_only)));
    let mounted = mounts.find(|(_, usage, _)| matches!(usage, Use::Mount { .. }));
    let Some((at, _, read_only)) = mounted else { return Ok(record.capacity_bytes) };
    let Content::Formatted { kind, size_bytes } = &record.content else { return Ok(record.capacity_bytes) };
    if *size_bytes >= record.capacity_bytes {
        return Ok(record.capacity_bytes);
    }
    if read_only {
        return Err(Status::failed_precondition(
            "the file system is mounted read-only; it grows once it can be written",
        ));
    }
    let Some(device) = loops.base.first() else {
        return Err(Status::internal("the volume has no loop device, although it is mounted"));
    };
    match format::grow(&device.path(), at, Patience::default()) {
        Ok(Grown::Full(_)) => {}
        Ok(Grown::ReadOnly) => return Err(Status::failed_precondition("the loop device is read-only")),
        Ok(Grown::Unformatted) => return Err(Status::internal("there is no file system, although it is mounted")),
        Err(error) if kind == "ext4" && !may_resize() => {
            return Err(Status::failed_precondition(format!(
                "an ext4 that is mounted grows only by CAP_SYS_RESOURCE, which this driver does not have; \
                 it will grow when the volume is staged the next time ({})",
                told(&error)
            )));
        }
        Err(error) => return Err(internal(error)),
    }
    filled(store, record)?;
    Ok(record.capacity_bytes)
}

/// Whether this process may resize an ext4 that is mounted.
#[must_use]
pub fn may_resize() -> bool {
    capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::SYS_RESOURCE))
}

fn filled(store: &Store, record: &mut Record) -> Result<(), Status> {
    if let Content::Formatted { size_bytes, .. } = &mut record.content {
        *size_bytes = record.capacity_bytes;
    }
    store.save(record)
}
