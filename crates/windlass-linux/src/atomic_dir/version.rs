//! Writing one version: a directory that nobody looks into yet.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::{Contents, Error, File, Step};
use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::{Mounts, Place, open_beneath};

/// Who owns what: the contents' wishes, completed by who is writing.
pub(super) struct Owners {
    writer: u32,
    pub(super) group: u32,
    /// The group that is given to what is made in the target: its own, if it has the set-group-id bit.
    group_in_target: u32,
    /// What is made in the target belongs to who writes and has the mode that it is made with.
    is_exact: bool,
}

impl Owners {
    /// Of contents that belong to who writes them, in a directory of which it is known that what is made there does: then
    /// nobody need be asked who that is.
    pub(super) fn writer(target: &Place, contents: &Contents) -> Option<Self> {
        let belongs = contents.group.is_none() && contents.files().all(|(_, file)| file.owner.is_none());
        let is_exact = belongs && target.makes_exactly();
        is_exact.then_some(Self { writer: 0, group: 0, group_in_target: 0, is_exact })
    }

    pub(super) fn of(target: &Place, contents: &Contents) -> Result<Self, Error> {
        let status = rustix::fs::fstat(target).map_err(|source| PathError::new("list", target.path(), source))?;
        let own_group = rustix::process::getegid().as_raw();
        let inherits = Mode::from_raw_mode(status.st_mode).contains(Mode::SGID);
        Ok(Self {
            writer: rustix::process::geteuid().as_raw(),
            group: contents.group.unwrap_or(own_group),
            group_in_target: if inherits { status.st_gid } else { own_group },
            is_exact: false,
        })
    }

    pub(super) fn user(&self, owner: Option<u32>) -> u32 {
        owner.unwrap_or(self.writer)
    }

    /// Whether a file belongs to who writes, and to a group that is given to what is made here.
    fn is_writer(&self, owner: Option<u32>) -> bool {
        (self.user(owner), self.group) == (self.writer, self.group_in_target)
    }

    /// Gives a link its owner, if it has another. Only then, because who is not root may not do it at all.
    pub(super) fn own_link(&self, target: &Place, link: &Path, owner: Option<u32>) -> Result<(), Errno> {
        let status = rustix::fs::statat(target, link, AtFlags::SYMLINK_NOFOLLOW)?;
        self.change_link(target, link, owner, (status.st_uid, status.st_gid))
    }

    /// As [`Self::own_link`] for a link that was just made, whose owner is known without looking.
    pub(super) fn own_new_link(&self, target: &Place, link: &Path, owner: Option<u32>) -> Result<(), Errno> {
        self.change_link(target, link, owner, (self.writer, self.group_in_target))
    }

    fn change_link(&self, target: &Place, link: &Path, owner: Option<u32>, from: (u32, u32)) -> Result<(), Errno> {
        let (user, group) = (self.user(owner), self.group);
        if from == (user, group) {
            return Ok(());
        }
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        rustix::fs::chownat(target, link, user, group, AtFlags::SYMLINK_NOFOLLOW).map_err(unmapped)
    }

    /// Gives an open file or directory its owner and mode. The owner first: changing it drops mode bits.
    fn finish(&self, fd: &impl std::os::fd::AsFd, owner: Option<u32>, mode: Mode) -> Result<(), Errno> {
        self.finish_from(fd, &rustix::fs::fstat(fd)?, owner, mode)
    }

    /// The same, of something that was looked at and has not changed since.
    fn finish_from(
        &self,
        fd: &impl std::os::fd::AsFd,
        status: &Stat,
        owner: Option<u32>,
        mode: Mode,
    ) -> Result<(), Errno> {
        let (user, group) = (self.user(owner), self.group);
        let is_owned = (status.st_uid, status.st_gid) == (user, group);
        if !is_owned {
            rustix::fs::fchown(fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group))).map_err(unmapped)?;
        }
        // Changing the owner drops mode bits, so what was found before says nothing then.
        if is_owned && Mode::from_raw_mode(status.st_mode) == mode { Ok(()) } else { rustix::fs::fchmod(fd, mode) }
    }
}

/// In a user namespace an id that is not mapped there is called invalid; what is meant is that it is not permitted.
fn unmapped(errno: Errno) -> Errno {
    if errno == Errno::INVAL { Errno::PERM } else { errno }
}

/// Writes all files into the directory of a new version, and gives everything its mode and owner.
pub(super) fn fill(
    target: &Place,
    version: &Name,
    contents: &Contents,
    owners: &Owners,
    before: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    let directories = contents.directories();
    if owners.is_exact && directories.is_empty() && contents.directory_mode.contains(Mode::RWXU) {
        // The version is made as it is to be, and nobody else has seen it: it need not be opened.
        for (path, file) in contents.files() {
            before(Step::WriteFile);
            let path = version.as_path().join(path.as_path());
            write_new(target, &path, file, file.mode)
                .map_err(|source| PathError::new("write", target.path().join(path), source))?;
        }
        return Ok(());
    }
    let top = target.directory_named(version, Mounts::Refuse)?;
    let failed = |source| PathError::new("write", top.path(), source);
    let status = rustix::fs::fstat(&top).map_err(failed)?;
    let given = Given::by(&status, contents.directory_mode | Mode::RWXU);
    for directory in &directories {
        rustix::fs::mkdirat(&top, directory, Mode::RWXU)
            .map_err(|source| PathError::new("write", top.path().join(directory), source))?;
    }
    for (path, file) in contents.files() {
        before(Step::WriteFile);
        let path = path.as_path();
        write_file(&top, path, file, owners, given)
            .map_err(|source| PathError::new("write", top.path().join(path), source))?;
    }
    // Last, and the innermost first: their modes may forbid writing or entering, even to us.
    for directory in directories.iter().rev() {
        let failed = |source| PathError::new("write", top.path().join(directory), source);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = open_beneath(&top, directory, flags, Mode::empty(), Mounts::Refuse).map_err(failed)?;
        owners.finish(&fd, None, contents.directory_mode).map_err(failed)?;
    }
    Ok(owners.finish_from(&top, &status, None, contents.directory_mode).map_err(failed)?)
}

/// What modes files have in a directory without another look.
///
/// What takes bits off a mode, the umask or what the directories above prescribe, takes the same off everything that is made
/// here. So whatever bits the directory was given when it was made, files are given too; and without the set-group-id bit
/// they belong to who makes them.
#[derive(Clone, Copy)]
struct Given(Mode);

impl Given {
    /// By a directory that was just made, and the mode that was asked for it.
    fn by(directory: &Stat, asked: Mode) -> Self {
        let special = Mode::SUID | Mode::SGID | Mode::SVTX;
        let exact = Mode::from_raw_mode(directory.st_mode) == asked && !asked.intersects(special);
        Self(if exact { asked } else { Mode::empty() })
    }

    fn is_exact(self, mode: Mode) -> bool {
        self.0 != Mode::empty() && self.0.contains(mode)
    }
}

fn write_file(top: &Place, path: &Path, file: &File, owners: &Owners, given: Given) -> Result<(), Errno> {
    // Readable by nobody else until it has its owner. One that is ours has its mode at once, if the umask lets it.
    let is_writer = owners.is_writer(file.owner);
    let mode = if is_writer { file.mode } else { Mode::RUSR | Mode::WUSR };
    let fd = write_new(top, path, file, mode)?;
    if is_writer && given.is_exact(file.mode) { Ok(()) } else { owners.finish(&fd, file.owner, file.mode) }
}

fn write_new(top: &Place, path: &Path, file: &File, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let fd = open_beneath(top, path, flags, mode, Mounts::Refuse)?;
    let mut rest = file.contents.as_slice();
    while !rest.is_empty() {
        match rustix::io::write(&fd, rest) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(fd)
}
