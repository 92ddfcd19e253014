//! Taking a mount away, this one and no other, and making sure that it went.
//!
//! `umount2(2)` takes a path and unmounts whatever is on top there. So the mount is named by its entry in the mount
//! table: it must still be there, nothing may lie over it, the path is walked without following links, and afterwards
//! the table must no longer have it.

use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::Error;
use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::Place;
use crate::table::{self, Mount, MountId, Watch};
use crate::working_directory;

/// How hard to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountPolicy {
    /// Only if nothing uses it.
    Clean,
    /// Tell the file system to give up on requests that are under way (`MNT_FORCE`; NFS, FUSE). May lose data.
    Force,
    /// Take it out of sight now; it ends when nothing uses it any more (`MNT_DETACH`). It takes everything mounted
    /// below along, and the file system may be busy long after.
    Lazy,
    /// Both.
    ForceLazy,
}

impl UnmountPolicy {
    fn flags(self) -> UnmountFlags {
        match self {
            Self::Clean => UnmountFlags::empty(),
            Self::Force => UnmountFlags::FORCE,
            Self::Lazy => UnmountFlags::DETACH,
            Self::ForceLazy => UnmountFlags::FORCE | UnmountFlags::DETACH,
        }
    }
}

/// How an unmount ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmounted {
    /// This call did it.
    Now,
    /// There was nothing to do.
    Before,
}

/// Unmounts this mount. That it is gone already is success.
///
/// Where mounts have no unique ids ([`MountId::Reusable`]), a mount of the same kind that came to the same place after
/// this one was gone can have its number and look the same; it is then taken for it.
///
/// What lies over it is asked of the kernel, which looks at all mounts there are to tell; [`unmount_watched`] is for
/// whoever has a table.
pub fn unmount(mount: &Mount, policy: UnmountPolicy) -> Result<Unmounted, Error> {
    take(mount, policy, |now| Ok(table::over(now)?.map(|it| it.id)))
}

/// As [`unmount`], but what lies over it is seen in a table that is kept current, however many mounts there are.
pub fn unmount_watched(watch: &Watch, mount: &Mount, policy: UnmountPolicy) -> Result<Unmounted, Error> {
    take(mount, policy, |now| {
        watch.catch_up()?;
        let table = watch.table();
        // By the entry in the table: a directory that was renamed since takes its mount along, and the table is not told.
        match table.get(mount.id) {
            Some(known) => Ok(table.over(known).map(|it| it.id)),
            None => Ok(table::over(now)?.map(|it| it.id)),
        }
    })
}

/// As [`unmount_watched`], for whoever holds the directory open that has the mount point, of a file system that is not
/// kept waiting by a server: then one look tells that this mount is there and nothing over it.
pub fn unmount_in(
    parent: &Place,
    name: &Name,
    watch: &Watch,
    mount: &Mount,
    policy: UnmountPolicy,
) -> Result<Unmounted, Error> {
    let is_there = matches!(mount.id, MountId::Unique(_))
        && table::identify_at(parent, name.as_path()).is_ok_and(|topmost| topmost == mount.id);
    if is_there {
        let flags = policy.flags() | UnmountFlags::NOFOLLOW;
        match working_directory::within(parent, || rustix::mount::unmount(name.as_path(), flags)) {
            Some(Ok(())) if !is_mounted(mount)? => return Ok(Unmounted::Now),
            Some(Err(source @ Errno::BUSY)) => {
                return Err(Error::Unmount { path: mount.mount_point.clone(), source });
            }
            // Something else came in between, or it is not possible in this way.
            Some(Ok(()) | Err(_)) | None => {}
        }
    }
    unmount_watched(watch, mount, policy)
}

fn is_mounted(mount: &Mount) -> Result<bool, Error> {
    table::is_mounted(mount.id).map_err(|source| Error::Check { path: mount.mount_point.clone(), source })
}

fn take(
    mount: &Mount,
    policy: UnmountPolicy,
    over: impl FnOnce(&Mount) -> Result<Option<MountId>, table::Error>,
) -> Result<Unmounted, Error> {
    let Some(now) = look(mount)? else {
        return Ok(Unmounted::Before);
    };
    let path = &now.mount_point;
    if let Some(over) = over(&now).map_err(|source| Error::Check { path: path.clone(), source })? {
        return Err(Error::Covered { path: path.clone(), over });
    }
    match remove(path, policy.flags()) {
        Ok(()) => {}
        // Somebody else was faster; whether they took this mount is seen below.
        Err(Error::Unmount { source: Errno::INVAL | Errno::NOENT, .. }) if look(mount)?.is_none() => {}
        Err(error) => return Err(error),
    }
    match mount.id {
        MountId::Unique(_) if !is_mounted(mount)? => Ok(Unmounted::Now),
        MountId::Reusable(_) if look(mount)?.is_none() => Ok(Unmounted::Now),
        MountId::Unique(_) | MountId::Reusable(_) => Err(Error::StillMounted { path: path.clone(), mount: mount.id }),
    }
}

/// The mount as it is now, if it is still mounted.
fn look(mount: &Mount) -> Result<Option<Mount>, Error> {
    let now = table::look_up(mount.id);
    let now = now.map_err(|source| Error::Check { path: mount.mount_point.clone(), source })?;
    Ok(now.filter(|it| match mount.id {
        MountId::Unique(_) => true,
        // The number may have gone to another mount.
        MountId::Reusable(_) => it.is_same_mount(mount),
    }))
}

/// `umount2` without following a link anywhere on the path.
fn remove(path: &Path, flags: UnmountFlags) -> Result<(), Error> {
    let reach = |source| PathError::new("reach the mount point", path, source);
    // The root of everything has neither parent nor name, and is nobody's to unmount.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(reach(Errno::BUSY).into());
    };
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = rustix::fs::openat2(CWD, parent, how, Mode::empty(), resolve).map_err(reach)?;
    // There is no call that unmounts by descriptor. The kernel does not follow a link in the last component, nor does it
    // touch the file system that is mounted there.
    let flags = flags | UnmountFlags::NOFOLLOW;
    let unmounted = working_directory::within(&parent, || rustix::mount::unmount(Path::new(name), flags));
    let unmounted = unmounted.unwrap_or_else(|| {
        // The magic link stands for the directory that is open. To find it costs as much as half an unmount.
        let there = Path::new("/proc/thread-self/fd").join(parent.as_raw_fd().to_string()).join(name);
        rustix::mount::unmount(&there, flags)
    });
    unmounted.map_err(|source| Error::Unmount { path: path.into(), source })
}
