//! Whether a version on disk already is what is wanted: the same files, bytes, modes and owners.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::version::Owners;
use super::{Contents, File};
use crate::name::{Name, Relative};
use crate::safe_path::{Mounts, Place, open_beneath};

/// Whether a version holds exactly these contents. A version that cannot be read does not: it is written again.
pub(super) fn holds(target: &Place, version: &Name, contents: &Contents, owners: &Owners) -> bool {
    let Ok(top) = target.directory_named(version, Mounts::Refuse) else {
        return false;
    };
    let mut missing = contents.directories();
    let mut files: BTreeSet<PathBuf> = contents.files().map(|(path, _)| path.as_path().into()).collect();
    let found = directory(&OwnedFd::from(top), Path::new(""), contents, owners, &mut missing, &mut files);
    found == Ok(true) && missing.is_empty() && files.is_empty()
}

/// Compares a directory and everything in it, and takes what it finds off the lists. As deep as the contents are.
fn directory(
    fd: &OwnedFd,
    path: &Path,
    contents: &Contents,
    owners: &Owners,
    missing: &mut BTreeSet<PathBuf>,
    files: &mut BTreeSet<PathBuf>,
) -> Result<bool, Errno> {
    let status = rustix::fs::fstat(fd)?;
    let mode = Mode::from_raw_mode(status.st_mode);
    if (status.st_uid, status.st_gid, mode) != (owners.user(None), owners.group, contents.directory_mode) {
        return Ok(false);
    }
    for entry in rustix::fs::Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let name = Path::new(std::ffi::OsStr::from_bytes(name));
        let path = path.join(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let same = if files.remove(&path) {
            let wanted = wanted(contents, &path).ok_or(Errno::INVAL)?;
            let found = open_beneath(fd, name, flags, Mode::empty(), Mounts::Refuse)?;
            file(&found, wanted, owners)?
        } else if missing.remove(&path) {
            let found = open_beneath(fd, name, flags | OFlags::DIRECTORY, Mode::empty(), Mounts::Refuse)?;
            directory(&found, &path, contents, owners, missing, files)?
        } else {
            false
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn wanted<'contents>(contents: &'contents Contents, path: &Path) -> Option<&'contents File> {
    contents.files.get(&Relative::new("path", path).ok()?)
}

fn file(fd: &OwnedFd, wanted: &File, owners: &Owners) -> Result<bool, Errno> {
    let status = rustix::fs::fstat(fd)?;
    let same = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
        && Mode::from_raw_mode(status.st_mode) == wanted.mode
        && (status.st_uid, status.st_gid) == (owners.user(wanted.owner), owners.group)
        && u64::try_from(status.st_size) == Ok(wanted.contents.len() as u64);
    Ok(same && same_bytes(fd, &wanted.contents)?)
}

fn same_bytes(fd: impl AsFd, wanted: &[u8]) -> Result<bool, Errno> {
    let mut rest = wanted;
    let mut buffer = [0; 16 * 1024];
    loop {
        match rustix::io::read(&fd, &mut buffer) {
            Ok(0) => return Ok(rest.is_empty()),
            Ok(count) => match rest.strip_prefix(&buffer[..count]) {
                Some(after) => rest = after,
                None => return Ok(false),
            },
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
