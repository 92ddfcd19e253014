//! Giving a volume to a pod: a bind mount of where it is staged, or of its device. A volume that lives with a pod is made
//! here, mounted where the pod finds it, and ends with that.

use std::path::Path;

use rustix::fs::Mode;
use tonic::Status;
use windlass_linux::mount::{self, Extent, Options};
use windlass_linux::name::Name;
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::{block_map, remove};

use crate::capability::Wish;
use crate::disk::{self, Loops};
use crate::record::{Life, Publish, Record, Spot, Use};
use crate::stage::{self, Mounting};
use crate::store::{Store, internal};

/// Publishes a volume. One that is staged must be staged at `staging`.
pub fn publish(store: &Store, record: &mut Record, staging: &str, asked: &str, wish: Wish) -> Result<(), Status> {
    if record.life == Life::Persistent {
        check_stage(store, record, staging, &wish)?;
    }
    let spot = disk::entry(asked)?;
    let loops = Loops::of(store, record)?;
    if let Some(there) = record.published_at(asked, Some(&spot.path)).cloned() {
        let same = (&there.usage, there.read_only) == (&wish.usage, wish.read_only);
        if there.done && is_there(&there, &loops)? {
            return if same {
                Ok(())
            } else {
                Err(Status::already_exists(format!("the volume is published at {asked} in another way")))
            };
        }
        if !same {
            undo(store, record, &there.spot)?;
        }
    }
    let others = || record.published.iter().filter(|it| it.spot.path != spot.path);
    if let Some(other) = others().find(|it| it.alone || wish.alone || record.life == Life::Ephemeral) {
        let there = other.spot.path.display();
        return Err(Status::failed_precondition(format!(
            "the volume is for one alone, and is published at {there} already"
        )));
    }
    record.published.retain(|it| it.spot.path != spot.path);
    let Wish { usage, read_only, alone } = wish;
    record.published.push(Publish { spot: spot.clone(), usage, read_only, alone, done: false });
    store.save(record)?;
    match make(store, record, &spot) {
        Ok(()) => {
            record.published.iter_mut().filter(|it| it.spot == spot).for_each(|it| it.done = true);
            store.save(record)
        }
        Err(status) => {
            // A refusal leaves nothing behind. What does not go now is found by the record.
            if let Err(error) = undo(store, record, &spot) {
                tracing::warn!(
                    volume = record.id,
                    error = error.message(),
                    "what a failed publish left is still there"
                );
            }
            Err(status)
        }
    }
}

fn check_stage(store: &Store, record: &Record, staging: &str, wish: &Wish) -> Result<(), Status> {
    if staging.is_empty() {
        return Err(Status::failed_precondition("the staging path is missing, and the volume must be staged first"));
    }
    let path = disk::directory(staging).ok().map(|it| it.path);
    let staged = record.staged.as_ref().filter(|it| it.spot.is(staging, path.as_deref()));
    let staged = match staged {
        Some(staged) if staged.done && stage::is_there(staged, &Loops::of(store, record)?)? => staged,
        _ => {
            return Err(Status::failed_precondition(format!("the volume is not staged at {}", staging.escape_debug())));
        }
    };
    match (&staged.usage, &wish.usage) {
        (Use::Block, Use::Block) | (Use::Mount { .. }, Use::Mount { .. }) => {}
        (Use::Block, Use::Mount { .. }) => {
            return Err(Status::failed_precondition(
                "the volume is staged as a raw device, and cannot be published as a mount",
            ));
        }
        (Use::Mount { .. }, Use::Block) => {
            return Err(Status::failed_precondition(
                "the volume is staged as a mount, and cannot be published as a raw device",
            ));
        }
    }
    if staged.read_only && !wish.read_only {
        return Err(Status::failed_precondition(
            "the volume is staged read-only, and cannot be published to be written",
        ));
    }
    Ok(())
}

fn make(store: &Store, record: &mut Record, spot: &Spot) -> Result<(), Status> {
    let Some(wanted) = record.published.iter().find(|it| it.spot == *spot).cloned() else { return Ok(()) };
    let (parent, name) = hold_parent(&spot.path)?;
    match wanted.usage {
        Use::Mount { filesystem, flags, group } => {
            // Not opened: the mount of an earlier call may lie over it.
            parent.make_directory(&name, Mode::from_raw_mode(0o750), Mounts::Enter).map_err(internal).map(drop)?;
            if record.life == Life::Ephemeral {
                let how = Mounting { filesystem, flags, group, read_only: wanted.read_only };
                return stage::mount(store, record, &spot.path, &how);
            }
            if disk::ours_at(&spot.path, &Loops::of(store, record)?)?.is_some() {
                return Ok(());
            }
            let Some(staged) = &record.staged else { return Ok(()) };
            let source = Place::root(&staged.spot.path).map_err(internal)?;
            let mut bound = mount::bind(&source, Extent::One).map_err(internal)?;
            bound = bound.with_attributes(Options::parse(&flags).attributes, Extent::One).map_err(internal)?;
            if wanted.read_only {
                bound = bound.read_only(Extent::One).map_err(internal)?;
            }
            let target = Place::root(&spot.path).map_err(internal)?;
            bound.attach(&target).map_err(internal).map(drop)
        }
        Use::Block => {
            let writable = record.staged.as_ref().is_some_and(|it| !it.read_only);
            let mut device = disk::attach_raw(store, record, !writable)?;
            if wanted.read_only && writable {
                device = disk::attach_reader(&device)?;
            }
            block_map::bind_device(&device.path(), &parent, &name).map_err(internal).map(drop)
        }
    }
}

/// The directory that holds a target, and the target's name there.
fn hold_parent(path: &Path) -> Result<(Place, Name), Status> {
    let odd = || Status::internal(format!("{} has no parent", path.display()));
    let parent = Place::root(path.parent().ok_or_else(odd)?).map_err(internal)?;
    let name = Name::new("target", path.file_name().ok_or_else(odd)?).map_err(internal)?;
    Ok((parent, name))
}

/// Whether what was published is still there.
pub(crate) fn is_there(published: &Publish, loops: &Loops) -> Result<bool, Status> {
    match published.usage {
        Use::Mount { .. } => Ok(disk::ours_at(&published.spot.path, loops)?.is_some()),
        Use::Block => {
            // The mount is of the device's node: what is there now is asked of the node itself.
            let found = windlass_linux::device::look(&published.spot.path);
            let Ok(windlass_linux::device::AtPath::Block(found)) = found else { return Ok(false) };
            let is_it = |path: &Path| matches!(windlass_linux::device::look(path), Ok(windlass_linux::device::AtPath::Block(it)) if it == found);
            Ok(loops.all().any(|it| is_it(&it.path())))
        }
    }
}

/// Takes a published volume away. That it is not published there is success. A volume that lives with a pod ends.
pub fn unpublish(store: &Store, record: &mut Record, asked: &str) -> Result<(), Status> {
    let path = disk::entry(asked).ok().map(|it| it.path);
    if let Some(there) = record.published_at(asked, path.as_deref()).map(|it| it.spot.clone()) {
        undo(store, record, &there)?;
    }
    if record.life == Life::Ephemeral && record.published.is_empty() {
        end(store, record)?;
    }
    Ok(())
}

/// Deletes a volume that nobody uses.
pub(crate) fn end(store: &Store, record: &Record) -> Result<(), Status> {
    let loops = Loops::of(store, record)?;
    loops.detach()?;
    if let Some(device) = Loops::of(store, record)?.base.first() {
        let device = device.path();
        return Err(Status::failed_precondition(format!("somebody still uses the volume by {}", device.display())));
    }
    store.forget(record)
}

/// Takes away what is there of a publish, all or in part.
pub(crate) fn undo(store: &Store, record: &mut Record, spot: &Spot) -> Result<(), Status> {
    let Some(there) = record.published.iter().find(|it| it.spot == *spot).cloned() else { return Ok(()) };
    let loops = Loops::of(store, record)?;
    match hold_parent(&spot.path) {
        // Gone with everything in it; what was mounted there as well.
        Err(_) if !spot.path.parent().is_some_and(Path::exists) => {}
        Err(status) => return Err(status),
        Ok((parent, name)) => match there.usage {
            Use::Mount { .. } => {
                disk::unmount(&spot.path, &loops)?;
                remove::empty_directories(&parent, &name).map_err(internal)?;
            }
            Use::Block => block_map::unbind(&parent, &name).map_err(internal).map(drop)?,
        },
    }
    record.published.retain(|it| it.spot != *spot);
    if there.usage == Use::Block && !record.published.iter().any(|it| it.read_only) {
        for reader in &loops.readers {
            windlass_linux::loop_device::detach(reader).map_err(internal)?;
        }
    }
    store.save(record)
}
