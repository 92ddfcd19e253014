//! A directory bound into pods: that of the path, or the root of the device's file system (P-144..P-147).
//!
//! The source is held open from the first look on, so it is the directory that was looked at that is bound, wherever its
//! path leads by then. The mount is complete, read-only and all, before anybody can see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;
use windlass_core::operation::Earlier;
use windlass_core::spec::Access;
use windlass_linux::mount::{self, Extent, Options};
use windlass_linux::name::Name;
use windlass_linux::path_error::PathError;
use windlass_linux::remove;
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::table::{self, Mount};

use super::{
    Failure, Made, Publish, Scene, Unpublish, absolute, foreign, left_nothing, mount_proof, mounted, replaced, unmount,
};
use crate::layout::PRIVATE;
use crate::plugin::group;

/// Gives a directory to a pod.
pub(super) fn publish(scene: &Scene, task: &Publish<'_>, source: &Place) -> Result<Made, Failure> {
    let group = group::wanted(task.want)?;
    let identity = identity(source).map_err(left_nothing)?;
    // The first pod decides on the group (P-145), whichever volumes lead to the directory.
    let turn = Turn::of(identity);
    let _held = turn.take();
    let parent = task.home.make_parent(task.slot, PRIVATE).map_err(left_nothing)?;
    let path = absolute(scene, &task.slot.path());
    if let Some(mount) = mounted(&scene.watch, &path).map_err(left_nothing)? {
        let root = open(&parent, &task.slot.name, &mount).map_err(Failure::nothing_left)?;
        if self::identity(&root).map_err(left_nothing)? != identity {
            return Err(foreign(&mount).nothing_left());
        }
        // P-302. The kubelet stops here, also if it was cut off before it had given everything to the group.
        if let (Some(group), Earlier::Nothing | Earlier::Unknown) = (group, task.after) {
            group::finish(scene, task, &root, &mount, group)?;
        }
        return Ok(Made::mount(&mount));
    }
    let mount = bind(scene, task, source, &parent)?;
    let given = group.map_or(Ok(()), |group| {
        let root = open(&parent, &task.slot.name, &mount)?;
        group::give(scene, task, &root, &mount, group)
    });
    match given {
        Ok(()) => Ok(Made::mount(&mount)),
        Err(failure) if task.after == Earlier::Nothing => Err(undo(scene, &parent, &task.slot.name, &mount, failure)),
        Err(failure) => Err(failure),
    }
}

fn bind(scene: &Scene, task: &Publish<'_>, source: &Place, parent: &Place) -> Result<Arc<Mount>, Failure> {
    // Of the options only those of a mount mean something to a bind; the attributes of the source stay (P-255).
    let attributes = Options::parse(&task.want.detail.mount_options).attributes;
    let detached = mount::bind(source, Extent::One).and_then(|it| it.with_attributes(attributes, Extent::One));
    let mut detached = detached.map_err(left_nothing)?;
    if task.access == Access::ReadOnly {
        detached = detached.read_only(Extent::One).map_err(left_nothing)?;
    }
    let id = detached.id().map_err(left_nothing)?;
    let target = parent.make_directory(&task.slot.name, PRIVATE, Mounts::Refuse).map_err(left_nothing)?;
    if let Err(error) = detached.attach(&target) {
        let failure = Failure::from(error);
        // P-146.
        return Err(match remove::empty_directories(parent, &task.slot.name) {
            Ok(()) => failure.nothing_left(),
            Err(_) => failure,
        });
    }
    // What counts is what the mount table says (I-4).
    let path = absolute(scene, &task.slot.path());
    mounted(&scene.watch, &path)?.filter(|it| it.id == id).ok_or_else(|| replaced(&path))
}

/// The root of a mount, and of no other that took its place.
fn open(parent: &Place, name: &Name, mount: &Mount) -> Result<Place, Failure> {
    let root = parent.directory(&name.clone().into(), Mounts::Enter)?;
    if table::identify(&root)? == mount.id { Ok(root) } else { Err(replaced(&mount.mount_point)) }
}

/// Takes away what a first publish made and could not finish (P-146).
fn undo(scene: &Scene, parent: &Place, name: &Name, mount: &Mount, failure: Failure) -> Failure {
    let undone = unmount(scene, mount).and_then(|()| Ok(remove::empty_directories(parent, name)?));
    match undone {
        Ok(()) => failure.nothing_left(),
        Err(other) => Failure { text: format!("{} (and then: {})", failure.text, other.text), ..failure },
    }
}

/// Takes a directory from a pod: the mount, and then the empty mount point. What else is there stays (I-5).
pub(super) fn unpublish(scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
    let Some(parent) = task.home.find_parent(task.slot)? else { return Ok(()) };
    let path = absolute(scene, &task.slot.path());
    while let Some(mount) = mounted(&scene.watch, &path)? {
        // Without a record there is no telling, and whatever is at a pod's place is the pod's, as the kubelet has it.
        if task.made.is_some_and(|it| !it.proof.holds_for(&mount_proof(&mount))) {
            return Err(foreign(&mount));
        }
        unmount(scene, &mount)?;
    }
    Ok(remove::empty_directories(&parent, &task.slot.name)?)
}

/// Which directory it is.
type Identity = (u64, u64);

fn identity(place: &Place) -> Result<Identity, PathError> {
    let status: Stat = rustix::fs::fstat(place).map_err(|source| PathError::new("look at", place.path(), source))?;
    Ok((status.st_dev, status.st_ino))
}

/// One at a time binds a directory into a pod: it stays locked until it has been given to the pod's group, so that the
/// next one sees whose it is. A directory that hangs holds up nobody but those who want the same one.
struct Turn {
    identity: Identity,
    lock: Arc<Mutex<()>>,
}

static TURNS: Mutex<BTreeMap<Identity, Arc<Mutex<()>>>> = Mutex::new(BTreeMap::new());

impl Turn {
    fn of(identity: Identity) -> Self {
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = turns.entry(identity).or_default().clone();
        Self { identity, lock }
    }

    fn take(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        // The map has one and this has one: nobody else waits.
        if Arc::strong_count(&self.lock) <= 2 {
            turns.remove(&self.identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_forgotten_with_the_last_who_waits() {
        let known = |identity| TURNS.lock().unwrap().contains_key(&identity);
        let identity = (u64::MAX, 1);
        let (one, other) = (Turn::of(identity), Turn::of(identity));
        let held = one.take();
        assert!(other.lock.try_lock().is_err());
        assert!(Turn::of((u64::MAX, 2)).lock.try_lock().is_ok());
        drop(held);
        drop(one);
        assert!(known(identity));
        drop(other);
        assert!(!known(identity) && !known((u64::MAX, 2)));
    }
}
