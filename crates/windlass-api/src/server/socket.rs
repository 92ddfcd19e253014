//! The socket's file: made without a moment in which somebody else could use it, and gone when the daemon ends.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use rustix::{
    fd::OwnedFd,
    fs::{Gid, Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use tokio::net::UnixListener;
use windlass_linux::process::{Process, Standing};

/// Who may use the socket: its owner and its group.
const MODE: u32 = 0o660;
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// The socket's file. It is removed when this goes, if it is still the same.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// As long as this is open, no other file gets the same inode.
    file: OwnedFd,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = rustix::fs::fstat(&self.file).map(|it| (it.st_dev, it.st_ino));
        let there = rustix::fs::lstat(&self.path).map(|it| (it.st_dev, it.st_ino));
        if ours.is_ok() && ours == there {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether [`bind`] can work, as far as that can be told without changing anything.
pub(crate) fn check(path: &Path, group: Option<&str>) -> anyhow::Result<()> {
    address(path)?;
    group.map(find_group).transpose()?;
    match fs::symlink_metadata(path) {
        Ok(found) => is_socket(path, &found),
        // What else is wrong is told by who makes it.
        Err(_) => Ok(()),
    }
}

fn address(path: &Path) -> anyhow::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).with_context(|| {
        let length = path.as_os_str().len();
        format!("{} cannot be the path of a socket: it has {length} bytes and at most 107 fit", path.display())
    })
}

fn is_socket(path: &Path, found: &fs::Metadata) -> anyhow::Result<()> {
    if !found.file_type().is_socket() {
        bail!("{} is there and is no socket; remove it, or name another path with --socket", path.display());
    }
    Ok(())
}

/// Makes the socket and listens on it. The directory above it is made if it is missing, and the socket that a dead daemon
/// left behind is replaced; one that somebody answers on, or a file that is no socket, is an error.
pub(crate) fn bind(path: &Path, group: Option<&str>) -> anyhow::Result<(UnixListener, SocketFile)> {
    let address = address(path)?;
    let group = group.map(find_group).transpose()?;
    make_directory(path)?;
    clear(path, &address)?;
    let making = || format!("make the socket {}", path.display());
    let socket = unconnected().with_context(making)?;
    // A socket's file gets its mode from the socket, so there is no moment with a wider one.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(MODE)).with_context(making)?;
    rustix::net::bind(&socket, &address).with_context(making)?;
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let file = SocketFile { path: path.into(), file: file.with_context(making)? };
    if let Some((name, group)) = group {
        rustix::fs::chown(path, None, Some(group))
            .with_context(|| format!("give the socket {} to the group {name}", path.display()))?;
    }
    // The mask of this process may have narrowed it.
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).with_context(making)?;
    // Nobody gets in before this.
    rustix::net::listen(&socket, BACKLOG).with_context(making)?;
    let listener = UnixListener::from_std(socket.into()).with_context(making)?;
    Ok((listener, file))
}

/// Makes the directory that the socket is to be in, if it is missing, so that whoever may use the socket can reach it.
pub(crate) fn make_directory(path: &Path) -> anyhow::Result<()> {
    let Some(above) = path.parent().filter(|it| !it.as_os_str().is_empty()) else { return Ok(()) };
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(above);
    made.with_context(|| format!("make the directory {} of the socket", above.display()))
}

fn unconnected() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes what a dead daemon left.
fn clear(path: &Path, address: &SocketAddrUnix) -> anyhow::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("look at {}", path.display())),
    };
    is_socket(path, &found)?;
    let socket = unconnected()?;
    match rustix::net::connect(&socket, address) {
        // The kernel answers for one that was killed while a thread of it hangs in the kernel, and always will.
        Ok(()) if is_dead(&socket) => {}
        // Everybody else who answers is alive, also one who has too much to do at the moment.
        Ok(()) | Err(Errno::AGAIN) => {
            bail!("another daemon answers at {}; end it, or name another path with --socket", path.display())
        }
        Err(Errno::CONNREFUSED) => {}
        Err(errno) => return Err(errno).with_context(|| format!("see whether somebody answers at {}", path.display())),
    }
    // Somebody else may have replaced it meanwhile.
    if fs::symlink_metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino())) {
        fs::remove_file(path).with_context(|| format!("remove the socket {} of a dead daemon", path.display()))?;
    }
    Ok(())
}

/// Whether whoever listens at the other end runs no instruction any more (I-6, I-11).
fn is_dead(socket: &OwnedFd) -> bool {
    let listener = rustix::net::sockopt::socket_peercred(socket).ok().map(|it| it.pid.as_raw_nonzero().get());
    let listener = listener.and_then(|it| u32::try_from(it).ok()).map(Process::of);
    match listener {
        Some(Ok(process)) => matches!(process.standing(), Standing::Stuck | Standing::Gone),
        // It has gone, and somebody else has its socket open; or it is in a namespace of processes that is not seen here.
        Some(Err(_)) | None => false,
    }
}

/// A group by its name or its number.
fn find_group(group: &str) -> anyhow::Result<(&str, Gid)> {
    let groups = fs::read_to_string("/etc/group").context("read /etc/group")?;
    // For example `users:x:100:alice,bob`.
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == group).then(|| fields.nth(1)?.parse::<u32>().ok())?
    });
    match named.or_else(|| group.parse().ok()).filter(|it| *it != u32::MAX) {
        Some(number) => Ok((group, Gid::from_raw(number))),
        None => bail!("there is no group {group} in /etc/group for the socket"),
    }
}
