//! Mounts, made by system call and finished before anyone can see them.
//!
//! A mount begins as [`Detached`]: a file system of its own ([`tmpfs`], [`filesystem`]) or a copy of what an open
//! descriptor names ([`bind`]). Attributes and propagation are set on it, and only then is it attached, so there is no
//! moment at which a read-only mount can be written. Sources and targets are descriptors, never paths that somebody
//! could exchange in between. What takes a mount away again is in `mount/unmount.rs`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};

use crate::path_error::PathError;
use crate::raw::{self, MountAttr};
use crate::safe_path::{Fresh, Place};
use crate::table::{self, Device, MountId};

mod filesystem;
mod options;
mod unmount;

pub use filesystem::{Swap, Tmpfs, filesystem, tmpfs};
pub use options::{Options, Value};
pub use rustix::mount::MountAttrFlags as Attributes;
pub use unmount::{UnmountPolicy, Unmounted, unmount, unmount_in, unmount_watched};

/// What can go wrong with a mount.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// The kernel knows no file system of this type, or refuses it.
    #[error("prepare a {kind} file system")]
    Prepare {
        /// The type.
        kind: String,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The file system does not take an option. Its value is not shown.
    #[error("set option {option} of a {kind} file system{}", said(log))]
    SetOption {
        /// The type.
        kind: String,
        /// The option, by name.
        option: String,
        /// What the kernel said about it, secrets masked.
        log: Vec<String>,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The file system could not be opened with these options.
    #[error("open a {kind} file system{}", said(log))]
    Create {
        /// The type.
        kind: String,
        /// What the kernel said about it, secrets masked.
        log: Vec<String>,
        /// Why.
        #[source]
        source: Errno,
    },
    /// There is a file system, and it could not be made into a mount.
    #[error("make a mount of a {kind} file system")]
    Make {
        /// The type.
        kind: String,
        /// Why.
        #[source]
        source: Errno,
    },
    /// Attributes or propagation could not be set.
    #[error("set attributes of the mount of {what}")]
    SetAttributes {
        /// What is mounted, or where.
        what: String,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The mount could not be put in its place.
    #[error("mount {what} on {}", target.display())]
    Attach {
        /// What was to be mounted.
        what: String,
        /// Where.
        target: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// A mount could not be moved.
    #[error("move the mount at {} to {}", from.display(), to.display())]
    Move {
        /// Where it is.
        from: PathBuf,
        /// Where it was to be.
        to: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// Another mount lies over the one that was to be unmounted.
    #[error("unmount {}: mount {over} lies over it", path.display())]
    Covered {
        /// The mount point.
        path: PathBuf,
        /// The other mount.
        over: MountId,
    },
    /// The kernel refused to unmount. `EBUSY`: something is open in it, or mounted below it.
    #[error("unmount {}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The kernel reported success, and the mount is still there: something else was unmounted.
    #[error("unmount {}: mount {mount} is still there", path.display())]
    StillMounted {
        /// The mount point.
        path: PathBuf,
        /// The mount.
        mount: MountId,
    },
    /// The mount table, which tells what happened, cannot be read.
    #[error("check the mount at {}", path.display())]
    Check {
        /// The mount point.
        path: PathBuf,
        /// Why.
        #[source]
        source: table::Error,
    },
}

impl Error {
    /// Whether the mount is in use, so that it is worth trying again later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Unmount { source: Errno::BUSY, .. } | Self::Covered { .. })
    }
}

/// The kernel's messages, to follow what was attempted.
fn said(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!(": {}", log.join("; ")) }
}

/// One mount, or it and all mounts below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The one mount.
    One,
    /// The mount and everything mounted below it.
    Tree,
}

impl Extent {
    fn flag(self) -> AtFlags {
        match self {
            Self::One => AtFlags::empty(),
            Self::Tree => raw::AT_RECURSIVE,
        }
    }
}

/// How mounts made below a mount spread. See mount_namespaces(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Neither way.
    Private,
    /// From where it was copied, not back.
    Slave,
    /// Both ways, with all copies.
    Shared,
    /// Neither way, and it cannot be bind mounted.
    Unbindable,
}

impl Propagation {
    fn flag(self) -> MountPropagationFlags {
        match self {
            Self::Private => MountPropagationFlags::PRIVATE,
            Self::Slave => MountPropagationFlags::DOWNSTREAM,
            Self::Shared => MountPropagationFlags::SHARED,
            Self::Unbindable => MountPropagationFlags::UNBINDABLE,
        }
    }
}

/// A mount that is not visible anywhere yet. Dropped, it is gone without a trace.
#[derive(Debug)]
pub struct Detached {
    fd: OwnedFd,
    what: String,
}

/// A copy of the mount that holds an open file or directory, with that as its root. Attributes (`ro`, `nosuid`, …) are
/// copied too.
///
/// In a user namespace the kernel refuses [`Extent::One`] where a mount below hides something from that namespace.
pub fn bind(source: &Place, extent: Extent) -> Result<Detached, Error> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if extent == Extent::Tree {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    match rustix::mount::open_tree(source, "", flags) {
        Ok(fd) => Ok(Detached { fd, what: source.to_string() }),
        Err(errno) => Err(PathError::new("bind mount", source.path(), errno).into()),
    }
}

impl Detached {
    /// Turns attributes on, before the mount can be seen. Those that are on stay on.
    pub fn with_attributes(self, attributes: MountAttrFlags, extent: Extent) -> Result<Self, Error> {
        let mut attr = MountAttr { set: attributes, ..MountAttr::default() };
        if attributes.intersects(MountAttrFlags::MOUNT_ATTR__ATIME) {
            // The kinds of access time exclude each other; the kernel wants the old one cleared.
            attr.clear = MountAttrFlags::MOUNT_ATTR__ATIME;
        }
        set(&self.fd, &self.what, extent, &attr)?;
        Ok(self)
    }

    /// Makes it read-only, before the mount can be seen.
    pub fn read_only(self, extent: Extent) -> Result<Self, Error> {
        self.with_attributes(MountAttrFlags::MOUNT_ATTR_RDONLY, extent)
    }

    /// Chooses how mounts made below it will spread. Attaching it below a shared mount makes it shared, whatever was
    /// chosen here; use [`set_propagation`] afterwards.
    pub fn with_propagation(self, propagation: Propagation, extent: Extent) -> Result<Self, Error> {
        set(&self.fd, &self.what, extent, &MountAttr { propagation: propagation.flag(), ..MountAttr::default() })?;
        Ok(self)
    }

    /// Which mount it is. It keeps its id when it is attached.
    pub fn id(&self) -> Result<MountId, table::Error> {
        Ok(self.identity()?.0)
    }

    /// The same, with the device of its file system, which it keeps as well.
    pub fn identity(&self) -> Result<(MountId, Device), table::Error> {
        table::identify_with_device(&self.fd)
    }

    /// As [`Detached::attach`], of a file system that was just made, at a directory that was just made.
    pub fn attach_fresh(self, target: &Fresh) -> Result<Place, Error> {
        let (top, below) = target.way();
        match rustix::mount::move_mount(&self.fd, "", top, below, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH) {
            Ok(()) => Ok(Place::of_new(self.fd, target.path())),
            Err(source) => Err(Error::Attach { what: self.what, target: target.path(), source }),
        }
    }

    /// Puts it over an open directory (or, for the mount of a file, over an open file), where everybody sees it.
    /// Returns its root, still open. To know which mount it is, ask [`Detached::id`] before.
    pub fn attach(self, target: &Place) -> Result<Place, Error> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        match rustix::mount::move_mount(&self.fd, "", target, "", flags) {
            Ok(()) => Ok(Place::of(self.fd, target.path())),
            Err(source) => Err(Error::Attach { what: self.what, target: target.path().into(), source }),
        }
    }
}

/// Moves a mount to another place, by an open descriptor of its root. Not possible out of a shared mount.
pub fn relocate(root: &Place, target: &Place) -> Result<(), Error> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(root, "", target, "", flags).map_err(|source| Error::Move {
        from: root.path().into(),
        to: target.path().into(),
        source,
    })
}

/// Changes how mounts below an attached mount spread, by an open descriptor of its root.
pub fn set_propagation(root: &Place, propagation: Propagation, extent: Extent) -> Result<(), Error> {
    let attr = MountAttr { propagation: propagation.flag(), ..MountAttr::default() };
    set(root, &root.to_string(), extent, &attr)
}

/// Turns attributes of an attached mount on and off, by an open descriptor of its root.
pub fn set_attributes(root: &Place, on: Attributes, off: Attributes, extent: Extent) -> Result<(), Error> {
    set(root, &root.to_string(), extent, &MountAttr { set: on, clear: off, ..MountAttr::default() })
}

fn set(fd: impl AsFd, what: &str, extent: Extent, attr: &MountAttr) -> Result<(), Error> {
    raw::mount_setattr(fd, "", AtFlags::EMPTY_PATH | extent.flag(), attr)
        .map_err(|source| Error::SetAttributes { what: what.into(), source })
}
