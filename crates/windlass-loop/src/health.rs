//! How a volume is: what it holds, and whether something is wrong with it.

use std::path::Path;

use tonic::Status;
use windlass_csi::proto::csi::volume_usage::Unit;
use windlass_csi::proto::csi::{VolumeCondition, VolumeUsage};
use windlass_linux::safe_path::Place;
use windlass_linux::usage;

use crate::disk::{self, Loops};
use crate::record::{Record, Use};
use crate::store::{Store, internal};

/// Whether a volume is as it should be.
pub fn condition(store: &Store, record: &Record) -> Result<VolumeCondition, Status> {
    let wrong = wrong(store, record)?;
    let message = wrong.clone().unwrap_or_else(|| "the volume is as it should be".into());
    Ok(VolumeCondition { abnormal: wrong.is_some(), message })
}

/// What is wrong with a volume.
fn wrong(store: &Store, record: &Record) -> Result<Option<String>, Status> {
    let capacity = record.capacity_bytes;
    match store.image_size(record)? {
        None => return Ok(Some("the image is gone".into())),
        Some(bytes) if bytes < capacity => {
            return Ok(Some(format!("the image has {bytes} bytes, and should have {capacity}")));
        }
        Some(_) => {}
    }
    let loops = Loops::of(store, record)?;
    let staged = record.staged.iter().filter(|it| it.done).map(|it| (&it.spot.path, &it.usage, it.read_only));
    let published = record.published.iter().filter(|it| it.done).map(|it| (&it.spot.path, &it.usage, it.read_only));
    for (path, usage, read_only) in staged.chain(published) {
        let shown = path.display();
        match usage {
            Use::Block if loops.is_empty() => return Ok(Some("the loop device is gone".into())),
            Use::Block => {}
            Use::Mount { .. } => match disk::mounted(path)? {
                None => return Ok(Some(format!("the file system is not mounted at {shown} any more"))),
                Some(mount) if !loops.have(&mount)? => {
                    return Ok(Some(format!("something else is mounted at {shown}")));
                }
                // What the kernel does with an ext4 that is damaged.
                Some(mount) if !read_only && mount.super_option("ro").is_some() => {
                    return Ok(Some("the file system has become read-only, as it does when it is damaged".into()));
                }
                Some(_) => {}
            },
        }
    }
    Ok(None)
}

/// What a volume holds at one of the places where it is.
pub fn usage(record: &Record, at: &Path, usage: &Use) -> Result<Vec<VolumeUsage>, Status> {
    // All numbers of CSI are signed.
    let signed = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    match usage {
        Use::Block => Ok(vec![VolumeUsage {
            total: signed(record.capacity_bytes),
            unit: Unit::Bytes.into(),
            ..VolumeUsage::default()
        }]),
        Use::Mount { .. } => {
            let space = usage::statfs(&Place::root(at).map_err(internal)?).map_err(internal)?;
            let part = |available, total, used, unit: Unit| VolumeUsage {
                available: signed(available),
                total: signed(total),
                used: signed(used),
                unit: unit.into(),
            };
            Ok(vec![
                part(space.available_bytes, space.capacity_bytes, space.used_bytes, Unit::Bytes),
                part(space.inodes_free, space.inodes, space.inodes_used, Unit::Inodes),
            ])
        }
    }
}
