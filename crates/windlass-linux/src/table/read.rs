//! Reading the mount table from the kernel, in one of two ways that give the same answers.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use linux_raw_sys::general as linux;
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::mountinfo::{self, Flaw};
use super::{Device, Mount, MountId, Propagation, Table};
use crate::abilities::Abilities;
use crate::raw;

/// What can go wrong with the mount table.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// mountinfo could not be opened or read.
    #[error("read {MOUNTINFO}")]
    Read(#[source] std::io::Error),
    /// A line of mountinfo makes no sense.
    #[error("understand this line of {MOUNTINFO}: {line}")]
    Understand {
        /// The line, with bytes that are not text escaped.
        line: String,
        /// What is wrong with it.
        #[source]
        flaw: Flaw,
    },
    /// The mounts could not be listed.
    #[error("list mounts")]
    List(#[source] Errno),
    /// A mount could not be described.
    #[error("describe mount {mount}")]
    Describe {
        /// The mount.
        mount: MountId,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The mount that a descriptor is on could not be told.
    #[error("find out which mount a descriptor is on")]
    Identify(#[source] Errno),
    /// Watching the mount table could not be set up.
    #[error("watch the mount table: {step}")]
    Watch {
        /// The part of it that failed.
        step: &'static str,
        /// Why.
        #[source]
        source: Errno,
    },
    /// Events about mounts could not be read.
    #[error("read events of the mount table")]
    Events(#[source] Errno),
}

/// Of the thread, not of the process: threads can be in different mount namespaces.
pub(super) const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

/// A way to read the mount table of the calling thread's mount namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// `listmount` and `statmount`: unique ids, and one mount at a time. Linux 6.13.
    Statmount,
    /// The text of mountinfo: all or nothing, and ids that are used again. Any kernel with `/proc`.
    Mountinfo,
}

impl Reader {
    /// The better one of those that work here.
    #[must_use]
    pub fn best() -> Self {
        if Abilities::of_this_kernel().statmount.is_present() { Self::Statmount } else { Self::Mountinfo }
    }

    /// Reads the whole table.
    pub fn read(self) -> Result<Table, Error> {
        match self {
            Self::Statmount => describe_all(list(raw::LSMT_ROOT)?),
            Self::Mountinfo => {
                let mut text = Vec::new();
                let mut file = std::fs::File::open(MOUNTINFO).map_err(Error::Read)?;
                file.read_to_end(&mut text).map_err(Error::Read)?;
                parse(&text)
            }
        }
    }
}

/// What this mount is now; `None` if it is no longer here. Asked of whichever source knows such ids.
pub fn look_up(id: MountId) -> Result<Option<Mount>, Error> {
    match id {
        MountId::Unique(unique) => describe(unique, &mut Vec::new()),
        MountId::Reusable(_) => Ok(Reader::Mountinfo.read()?.get(id).map(|it| Mount::clone(it))),
    }
}

/// Whether this mount is here, which costs less than to tell what it is.
pub(crate) fn is_mounted(id: MountId) -> Result<bool, Error> {
    let MountId::Unique(unique) = id else { return Ok(look_up(id)?.is_some()) };
    match raw::statmount(unique, linux::STATMOUNT_MNT_BASIC.into(), &mut Vec::new()) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::PERM) => Ok(false),
        Err(source) => Err(Error::Describe { mount: id, source }),
    }
}

/// The mount that lies directly over this one, covering all of it.
pub fn over(mount: &Mount) -> Result<Option<Mount>, Error> {
    let table = match mount.id {
        MountId::Unique(unique) => describe_all(list(unique)?)?,
        MountId::Reusable(_) => Reader::Mountinfo.read()?,
    };
    Ok(table.over(mount).map(|it| Mount::clone(it)))
}

/// The table in a text of mountinfo.
pub(crate) fn parse(text: &[u8]) -> Result<Table, Error> {
    let lines = text.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    let mounts = lines.map(|line| {
        let shown = || line.escape_ascii().to_string();
        mountinfo::line(line).map_err(|flaw| Error::Understand { line: shown(), flaw })
    });
    Ok(Table::of(mounts.collect::<Result<Vec<_>, _>>()?))
}

/// The unique ids of all mounts below one, or of all that can be reached from the root.
fn list(parent: u64) -> Result<Vec<u64>, Error> {
    let mut all = Vec::new();
    let mut part = [0; 512];
    loop {
        let last = all.last().copied().unwrap_or(0);
        let count = match raw::listmount(parent, last, &mut part) {
            Ok(count) => count,
            // The mount is gone, and so is everything below it.
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(Error::List(errno)),
        };
        all.extend_from_slice(&part[..count]);
        if count < part.len() {
            return Ok(all);
        }
    }
}

/// Those of these mounts that are still there.
fn describe_all(ids: Vec<u64>) -> Result<Table, Error> {
    let mut buffer = Vec::new();
    let mut mounts = Vec::with_capacity(ids.len());
    for id in ids {
        mounts.extend(describe(id, &mut buffer)?);
    }
    Ok(Table::of(mounts))
}

/// What we ask of `statmount`.
const WANTED: u32 = linux::STATMOUNT_SB_BASIC
    | linux::STATMOUNT_MNT_BASIC
    | linux::STATMOUNT_PROPAGATE_FROM
    | linux::STATMOUNT_MNT_ROOT
    | linux::STATMOUNT_MNT_POINT
    | linux::STATMOUNT_FS_TYPE
    | linux::STATMOUNT_FS_SUBTYPE
    | linux::STATMOUNT_MNT_OPTS
    | linux::STATMOUNT_SB_SOURCE;

/// One mount by its unique id; `None` if it is not in the table (any more), or cannot be reached from the root.
pub(super) fn describe(unique: u64, buffer: &mut Vec<u64>) -> Result<Option<Mount>, Error> {
    let id = MountId::Unique(unique);
    let answer = match raw::statmount(unique, WANTED.into(), buffer) {
        Ok(answer) => answer,
        // EPERM: it is there, but not below our root, so mountinfo would not show it either.
        Err(Errno::NOENT | Errno::PERM) => return Ok(None),
        Err(source) => return Err(Error::Describe { mount: id, source }),
    };
    let fixed = answer.fixed;
    let Some(mount_point) = answer.text(linux::STATMOUNT_MNT_POINT, fixed.mnt_point).filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    let mut kind = answer.text(linux::STATMOUNT_FS_TYPE, fixed.fs_type).unwrap_or_default().to_vec();
    if let Some(subtype) = answer.text(linux::STATMOUNT_FS_SUBTYPE, fixed.fs_subtype).filter(|it| !it.is_empty()) {
        kind.push(b'.');
        kind.extend(subtype);
    }
    let root = answer.text(linux::STATMOUNT_MNT_ROOT, fixed.mnt_root).unwrap_or_default();
    let source = answer.text(linux::STATMOUNT_SB_SOURCE, fixed.sb_source).unwrap_or_default();
    let options = answer.text(linux::STATMOUNT_MNT_OPTS, fixed.mnt_opts).unwrap_or_default();
    let group = |number: u64| (number != 0).then_some(number);
    let master = group(fixed.mnt_master);
    let spread = |flag: u32| fixed.mnt_propagation & u64::from(flag) != 0;
    Ok(Some(Mount {
        id,
        number: fixed.mnt_id_old,
        parent: MountId::Unique(fixed.mnt_parent_id),
        device: Device { major: fixed.sb_dev_major, minor: fixed.sb_dev_minor },
        root: PathBuf::from(OsString::from_vec(root.to_vec())),
        mount_point: PathBuf::from(OsString::from_vec(mount_point.to_vec())),
        kind: OsString::from_vec(kind),
        source: OsString::from_vec(source.to_vec()),
        attributes: attributes(fixed.mnt_attr),
        super_options: super_options(fixed.sb_flags, options),
        propagation: Propagation {
            peers: group(fixed.mnt_peer_group),
            master,
            // mountinfo leaves this out where it is the master.
            from: group(fixed.propagate_from).filter(|it| Some(*it) != master),
            unbindable: spread(linux::MS_UNBINDABLE),
        },
    }))
}

fn attributes(bits: u64) -> MountAttrFlags {
    MountAttrFlags::from_bits_retain(u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits"))
}

/// The options of the file system as mountinfo has them: the flags that every file system has go first, in its order.
fn super_options(flags: u32, options: &[u8]) -> OsString {
    let mut text = if flags & linux::MS_RDONLY != 0 { b"ro".to_vec() } else { b"rw".to_vec() };
    for (flag, word) in
        [(linux::MS_SYNCHRONOUS, ",sync"), (linux::MS_DIRSYNC, ",dirsync"), (linux::MS_LAZYTIME, ",lazytime")]
    {
        if flags & flag != 0 {
            text.extend(word.bytes());
        }
    }
    if !options.is_empty() {
        text.push(b',');
        text.extend(options);
    }
    OsString::from_vec(text)
}

/// The mount that an open file is on. Asks the kernel's tables alone, not the file system.
pub fn identify<Fd: AsFd>(file: Fd) -> Result<MountId, Error> {
    Ok(identify_with_device(file)?.0)
}

/// The same, with the device of the file system.
pub(crate) fn identify_with_device<Fd: AsFd>(file: Fd) -> Result<(MountId, Device), Error> {
    identify_by(file.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)
}

/// The mount that is seen at a name in an open directory: the topmost of what is mounted there.
pub(crate) fn identify_at<Fd: AsFd>(directory: Fd, name: &Path) -> Result<MountId, Error> {
    Ok(identify_by(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?.0)
}

fn identify_by(file: BorrowedFd<'_>, below: &Path, flags: AtFlags) -> Result<(MountId, Device), Error> {
    // AT_STATX_DONT_SYNC: do not ask a server; the id is not the file system's to know.
    let flags = flags | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let unique = StatxFlags::from_bits_retain(linux::STATX_MNT_ID_UNIQUE);
    let status = rustix::fs::statx(file, below, flags, unique | StatxFlags::MNT_ID).map_err(Error::Identify)?;
    if status.stx_mask & linux::STATX_MNT_ID_UNIQUE != 0 && Reader::best() == Reader::Statmount {
        return Ok((MountId::Unique(status.stx_mnt_id), device(&status)));
    }
    // Asked for both, a kernel that has both gives the unique one.
    let status = rustix::fs::statx(file, below, flags, StatxFlags::MNT_ID).map_err(Error::Identify)?;
    let id = u32::try_from(status.stx_mnt_id).ok().filter(|_| status.stx_mask & StatxFlags::MNT_ID.bits() != 0);
    id.map(|it| (MountId::Reusable(it), device(&status))).ok_or(Error::Identify(Errno::OPNOTSUPP))
}

fn device(status: &Statx) -> Device {
    Device { major: status.stx_dev_major, minor: status.stx_dev_minor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_shown_in_the_error() {
        let error = parse(b"1 0 0:5 / / rw - tmpfs none rw\n2 1 0:6 \xff\n").unwrap_err();
        assert!(error.to_string().ends_with("2 1 0:6 \\xff"), "{error}");
    }

    #[test]
    fn flags_come_before_the_file_systems_own_options() {
        assert_eq!(super_options(linux::MS_RDONLY | linux::MS_LAZYTIME, b"size=1k"), "ro,lazytime,size=1k");
        assert_eq!(super_options(0, b""), "rw");
    }
}
