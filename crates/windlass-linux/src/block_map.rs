//! Raw block volumes: a device made visible at a path (P-248 to P-251, E-465 to E-471).
//!
//! A device is mapped twice: its node is bind mounted over a file ([`bind_device`]), which stays what it is when the
//! device's own path changes, and a link leads to it ([`link`]). [`unlink`] and [`unbind`] take both away, and
//! [`references`] tells what is mapped in a directory.
//!
//! The kubelet also attaches a loop device to each such file, so that the device stays open and its number cannot go
//! to another device ([`hold`], [`release`]). That uses up loop devices (W-23), and an open descriptor does the same;
//! `release` is needed for what a kubelet has left behind, `hold` only for a kubelet that is to take over.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use crate::device::{self, Device};
use crate::loop_device::{self, Backing, LoopDevice};
use crate::mount::{self, Extent, UnmountPolicy};
use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::{Mounts, Place, open_beneath};
use crate::{remove, table};

/// Why a device could not be mapped, or its map not taken away.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// The device itself is the trouble.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// Something else is where the device was to be, or where it was expected.
    #[error("map a device at {}: something else is there", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
    },
    /// No device is mapped there.
    #[error("hold the device at {}: none is mapped there", path.display())]
    NotMapped {
        /// Where.
        path: PathBuf,
    },
    /// Another device is mapped there.
    #[error("map device {wanted} at {}: device {found} is there", path.display())]
    OtherDevice {
        /// Where.
        path: PathBuf,
        /// The device that was to be there.
        wanted: Device,
        /// The device that is.
        found: Device,
    },
    /// The mount could not be made or taken away.
    #[error("map a device at {}", path.display())]
    Mount {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<mount::Error>,
    },
    /// The mount table, which tells what is mounted, cannot be read.
    #[error("look at the mount of {}", path.display())]
    Table {
        /// Where it is mounted.
        path: PathBuf,
        /// Why.
        #[source]
        source: table::Error,
    },
    /// Something that is not a link is where a link was to be, or where it was expected.
    #[error("change the link {}: it is not a link", path.display())]
    NotALink {
        /// Where.
        path: PathBuf,
    },
    /// The file or the link could not be removed.
    #[error(transparent)]
    Remove(#[from] remove::Error),
    /// The loop device that holds the device is the trouble.
    #[error(transparent)]
    Loop(#[from] loop_device::Error),
}

/// Whether a call changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It did.
    Made,
    /// Everything was as it was to be.
    Nothing,
}

/// What is at a name in a directory.
enum MapEntry {
    Nothing,
    /// A file without contents, as they are made here.
    EmptyFile(OwnedFd),
    /// A device that is mounted there.
    Mapped(OwnedFd, Device),
    Link,
    Other,
}

fn look(directory: &Place, name: &Name) -> Result<MapEntry, Error> {
    let failed = |source| PathError::new("look at", directory.path().join(name.as_path()), source);
    let held = open_beneath(directory, name.as_path(), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), Mounts::Enter);
    let held = match held {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(MapEntry::Nothing),
        Err(source) => return Err(failed(source).into()),
    };
    let status: Stat = rustix::fs::fstat(&held).map_err(failed)?;
    Ok(match FileType::from_raw_mode(status.st_mode) {
        FileType::Symlink => MapEntry::Link,
        // A node that was made here by hand is not ours.
        FileType::BlockDevice if is_mount_root(&held).map_err(failed)? => {
            MapEntry::Mapped(held, device::number(status.st_rdev))
        }
        FileType::RegularFile if status.st_size == 0 && !is_mount_root(&held).map_err(failed)? => {
            MapEntry::EmptyFile(held)
        }
        _ => MapEntry::Other,
    })
}

fn is_mount_root(held: impl AsFd) -> Result<bool, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = rustix::fs::statx(held, "", flags, StatxFlags::empty())?;
    Ok(status.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Bind mounts a block device over a file, which is made with mode 0750. The same device there already is success,
/// another one is an error; the kubelet does not look (P-248).
pub fn bind_device(device: &Path, directory: &Place, name: &Name) -> Result<Change, Error> {
    let path = directory.path().join(name.as_path());
    let (held, wanted) = device::find(device)?;
    let target = match look(directory, name)? {
        MapEntry::Nothing => {
            make_file(directory, name).map_err(|source| PathError::new("make the file", path.clone(), source))?
        }
        // From a call that did not get further.
        MapEntry::EmptyFile(file) => file,
        MapEntry::Mapped(_, found) if found == wanted => return Ok(Change::Nothing),
        MapEntry::Mapped(_, found) => return Err(Error::OtherDevice { path, wanted, found }),
        MapEntry::Link | MapEntry::Other => return Err(Error::InTheWay { path }),
    };
    let bound = mount::bind(&Place::of(held, device), Extent::One);
    bound
        .and_then(|it| it.attach(&Place::of(target, &path)))
        .map_err(|source| Error::Mount { path, source: Box::new(source) })?;
    Ok(Change::Made)
}

fn make_file(directory: &Place, name: &Name) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    let file = open_beneath(directory, name.as_path(), flags, Mode::empty(), Mounts::Refuse)?;
    // Exactly this, whatever the umask.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o750))?;
    Ok(file)
}

/// Takes a device away from a file, and removes the file. That nothing is there is success.
pub fn unbind(directory: &Place, name: &Name) -> Result<Change, Error> {
    let path = directory.path().join(name.as_path());
    match look(directory, name)? {
        MapEntry::Nothing => return Ok(Change::Nothing),
        MapEntry::EmptyFile(_) => {}
        MapEntry::Mapped(held, _) => unmount(&path, held)?,
        MapEntry::Link | MapEntry::Other => return Err(Error::InTheWay { path }),
    }
    remove::tree(directory, name, |it| it.path.as_os_str().is_empty() && it.kind == FileType::RegularFile)?;
    Ok(Change::Made)
}

fn unmount(path: &Path, held: OwnedFd) -> Result<(), Error> {
    let failed = |source| Error::Table { path: path.into(), source };
    let mount = table::look_up(table::identify(&held).map_err(failed)?).map_err(failed)?;
    // What is held keeps the mount busy.
    drop(held);
    if let Some(mount) = mount {
        mount::unmount(&mount, UnmountPolicy::Clean)
            .map_err(|source| Error::Mount { path: path.into(), source: Box::new(source) })?;
    }
    Ok(())
}

/// Makes a link, or makes the one that is there lead elsewhere, in one step: at no time is there none.
pub fn link(directory: &Place, name: &Name, target: &Path) -> Result<Change, Error> {
    let path = directory.path().join(name.as_path());
    match look(directory, name)? {
        MapEntry::Nothing => {}
        MapEntry::Link => match rustix::fs::readlinkat(directory, name.as_path(), Vec::new()) {
            Ok(now) if now.to_bytes() == target.as_os_str().as_bytes() => return Ok(Change::Nothing),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(source) => return Err(PathError::new("look at", path, source).into()),
        },
        MapEntry::EmptyFile(_) | MapEntry::Mapped(..) | MapEntry::Other => return Err(Error::NotALink { path }),
    }
    let temporary = temporary(name);
    // From a call that did not get further.
    remove_link(directory, &temporary)?;
    let made = rustix::fs::symlinkat(target, directory, temporary.as_path());
    let renamed = made.and_then(|()| rustix::fs::renameat(directory, temporary.as_path(), directory, name.as_path()));
    match renamed {
        Ok(()) => Ok(Change::Made),
        Err(source) => {
            // What failed first is what gets reported; the next call removes what is left.
            let _ = remove_link(directory, &temporary);
            Err(PathError::new("make the link", path, source).into())
        }
    }
}

/// Removes a link. That there is none is success; what is not a link stays, and is an error.
pub fn unlink(directory: &Place, name: &Name) -> Result<Change, Error> {
    remove_link(directory, &temporary(name))?;
    remove_link(directory, name)
}

fn remove_link(directory: &Place, name: &Name) -> Result<Change, Error> {
    match look(directory, name)? {
        MapEntry::Nothing => return Ok(Change::Nothing),
        MapEntry::Link => {}
        MapEntry::EmptyFile(_) | MapEntry::Mapped(..) | MapEntry::Other => {
            return Err(Error::NotALink { path: directory.path().join(name.as_path()) });
        }
    }
    remove::tree(directory, name, |it| it.kind == FileType::Symlink)?;
    Ok(Change::Made)
}

/// Where a link is made before it takes its name: always the same place, so that a call that was cut off leaves nothing
/// which the next one does not find. No volume can have a name that begins with a point.
fn temporary(name: &Name) -> Name {
    let mut bytes = b".".to_vec();
    bytes.extend(name.as_bytes());
    bytes.truncate(Name::BYTES_MAX);
    Name::new("temporary link", OsString::from_vec(bytes)).expect("a point and a name are a name")
}

/// A device in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Its name there.
    pub name: OsString,
    /// Which device it is.
    pub device: Device,
}

/// The block devices in a directory, by name: mapped there or not (E-467).
pub fn references(directory: &Place) -> Result<Vec<Reference>, Error> {
    let failed = |source| PathError::new("look at", directory.path(), source);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, ".", flags, Mode::empty()).map_err(failed)?;
    let mut buffer = vec![MaybeUninit::uninit(); 8 * 1024];
    let mut entries = RawDir::new(&opened, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failed)?;
        // The directory tells of the file below the device, so each is looked at.
        match rustix::fs::statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice => {
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
                found.push(Reference { name, device: device::number(status.st_rdev) });
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(source) => return Err(failed(source).into()),
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Keeps a mapped device open by a loop device, as the kubelet does (P-250). One that does so already is enough.
pub fn hold(directory: &Place, name: &Name) -> Result<LoopDevice, Error> {
    let path = directory.path().join(name.as_path());
    let MapEntry::Mapped(held, _) = look(directory, name)? else {
        return Err(Error::NotMapped { path });
    };
    let backing = Backing::of(&held).map_err(|source| PathError::new("look at", path, source))?;
    let real = real_path(directory, name)?;
    if let Some(there) = loop_device::of_path(&real)?.into_iter().find(|it| it.backing == backing) {
        return Ok(there);
    }
    Ok(loop_device::attach(&Place::of(held, real), loop_device::Settings::default())?.keep())
}

/// Detaches the loop devices that [`hold`], or a kubelet, has put on a mapped device. That there are none is success.
///
/// Only those that were attached by this path: the same device can be mapped, and held, elsewhere. While the device is
/// mapped, only those that have it: in another mount namespace this path may be another device's.
pub fn release(directory: &Place, name: &Name) -> Result<Change, Error> {
    let backing = match look(directory, name)? {
        MapEntry::Mapped(held, _) => {
            let path = directory.path().join(name.as_path());
            Some(Backing::of(&held).map_err(|source| PathError::new("look at", path, source))?)
        }
        MapEntry::Nothing | MapEntry::EmptyFile(_) | MapEntry::Link | MapEntry::Other => None,
    };
    let mut held = loop_device::of_path(&real_path(directory, name)?)?;
    held.retain(|it| backing.is_none_or(|backing| it.backing == backing));
    for device in &held {
        loop_device::detach(device)?;
    }
    Ok(if held.is_empty() { Change::Nothing } else { Change::Made })
}

/// The path without links, as the kernel tells it of a loop device's file.
fn real_path(directory: &Place, name: &Name) -> Result<PathBuf, Error> {
    let link = Path::new("/proc/thread-self/fd").join(directory.as_fd().as_raw_fd().to_string());
    let read = rustix::fs::readlink(&link, Vec::new());
    let read = read.map_err(|source| PathError::new("look at", directory.path(), source))?;
    Ok(Path::new(OsStr::from_bytes(read.to_bytes())).join(name.as_path()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Case {
        directory: tempfile::TempDir,
        place: Place,
    }

    impl Case {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let place = Place::root(directory.path()).unwrap();
            Self { directory, place }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.directory.path().join(below)
        }

        fn names(&self) -> Vec<OsString> {
            let mut names: Vec<_> =
                std::fs::read_dir(self.directory.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
            names.sort();
            names
        }
    }

    fn name(value: &str) -> Name {
        Name::new("name", value).unwrap()
    }

    #[test]
    fn a_link_is_made_changed_and_removed() {
        let case = Case::new();
        let disk = name("disk");
        assert_eq!(link(&case.place, &disk, Path::new("/dev/a")).unwrap(), Change::Made);
        assert_eq!(link(&case.place, &disk, Path::new("/dev/a")).unwrap(), Change::Nothing);
        assert_eq!(link(&case.place, &disk, Path::new("/dev/b")).unwrap(), Change::Made);
        assert_eq!(std::fs::read_link(case.path("disk")).unwrap(), Path::new("/dev/b"));
        assert_eq!(case.names(), ["disk"], "and nothing beside it");
        assert_eq!(unlink(&case.place, &disk).unwrap(), Change::Made);
        assert_eq!(unlink(&case.place, &disk).unwrap(), Change::Nothing);
        assert!(case.names().is_empty());
    }

    #[test]
    fn what_a_cut_off_call_left_is_cleared() {
        let case = Case::new();
        symlink("/dev/old", case.path(".disk")).unwrap();
        link(&case.place, &name("disk"), Path::new("/dev/a")).unwrap();
        assert_eq!(case.names(), ["disk"]);
        symlink("/dev/old", case.path(".disk")).unwrap();
        unlink(&case.place, &name("disk")).unwrap();
        assert!(case.names().is_empty());
        let long = name(&"a".repeat(255));
        link(&case.place, &long, Path::new("/dev/a")).unwrap();
        unlink(&case.place, &long).unwrap();
    }

    #[test]
    fn what_is_not_a_link_stays() {
        let case = Case::new();
        std::fs::write(case.path("file"), "data").unwrap();
        std::fs::create_dir(case.path("directory")).unwrap();
        for there in ["file", "directory"] {
            let error = link(&case.place, &name(there), Path::new("/dev/a")).unwrap_err();
            assert!(matches!(&error, Error::NotALink { path } if *path == case.path(there)), "{error:?}");
            assert!(matches!(unlink(&case.place, &name(there)), Err(Error::NotALink { .. })));
        }
        assert_eq!(case.names(), ["directory", "file"]);
    }

    #[test]
    fn what_is_no_device_is_not_taken_away() {
        let case = Case::new();
        std::fs::write(case.path("data"), "data").unwrap();
        std::fs::create_dir(case.path("directory")).unwrap();
        symlink("data", case.path("link")).unwrap();
        for there in ["data", "directory", "link"] {
            assert!(matches!(unbind(&case.place, &name(there)), Err(Error::InTheWay { .. })), "{there}");
            assert!(matches!(hold(&case.place, &name(there)), Err(Error::NotMapped { .. })), "{there}");
        }
        assert_eq!(case.names().len(), 3);
        assert_eq!(references(&case.place).unwrap(), []);
    }

    #[test]
    fn a_file_that_was_left_without_a_device_is_removed() {
        let case = Case::new();
        make_file(&case.place, &name("pod")).unwrap();
        let mode = std::fs::metadata(case.path("pod")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o750);
        assert_eq!(unbind(&case.place, &name("pod")).unwrap(), Change::Made);
        assert_eq!(unbind(&case.place, &name("pod")).unwrap(), Change::Nothing);
    }

    #[test]
    fn only_a_block_device_is_mapped() {
        let case = Case::new();
        for device in ["/dev/null", "/", "/nowhere/at/all", "relative"] {
            let error = bind_device(Path::new(device), &case.place, &name("pod")).unwrap_err();
            assert!(matches!(error, Error::Device(_)), "{error:?}");
        }
        assert!(case.names().is_empty(), "nothing is made for it");
    }
}
