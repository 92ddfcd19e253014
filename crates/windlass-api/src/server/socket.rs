//! The socket's file: made without a moment in which somebody else could use it, and gone when the daemon ends.

use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;
use windlass_linux::process::{Process, Standing};

/// Who may use the socket: its owner and its group.
const MODE: u32 = 0o660;
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path cannot be one.
    #[error("{} cannot be the path of a socket: it has {length} bytes and at most 107 fit", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// How long it is.
        length: usize,
        /// What the system says.
        #[source]
        source: Errno,
    },
    /// Something else is there.
    #[error("{} is there and is no socket; remove it, or name another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Somebody serves there.
    #[error("another daemon answers at {}; end it, or name another path", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// There is no such group.
    #[error("there is no group {group} in /etc/group for the socket")]
    Group {
        /// What was named.
        group: String,
    },
    /// Something could not be done.
    #[error("{doing}")]
    Failed {
        /// What, with the path.
        doing: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// It may work with another path for the socket, and not with this one as things are.
    pub fn is_in_the_way(&self) -> bool {
        matches!(self, Self::NoSocket { .. } | Self::Taken { .. })
    }

    fn failed(doing: impl FnOnce() -> String) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Failed { doing: doing(), source }
    }
}

type Result<T> = std::result::Result<T, Error>;

/// The socket's file. It is removed when this goes, if it is still the same.
#[derive(Debug)]
pub struct SocketFile {
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
pub fn check(path: &Path, group: Option<&str>) -> Result<()> {
    address(path)?;
    group.map(find_group).transpose()?;
    match fs::symlink_metadata(path) {
        Ok(found) => is_socket(path, &found),
        // What else is wrong is told by who makes it.
        Err(_) => Ok(()),
    }
}

fn address(path: &Path) -> Result<SocketAddrUnix> {
    let length = path.as_os_str().len();
    SocketAddrUnix::new(path).map_err(|source| Error::Path { path: path.into(), length, source })
}

fn is_socket(path: &Path, found: &fs::Metadata) -> Result<()> {
    if !found.file_type().is_socket() {
        return Err(Error::NoSocket { path: path.into() });
    }
    Ok(())
}

/// Makes the socket and listens on it. The directory above it is made if it is missing, and the socket that a dead daemon
/// left behind is replaced; one that somebody answers on, or a file that is no socket, is an error.
pub fn bind(path: &Path, group: Option<&str>) -> Result<(UnixListener, SocketFile)> {
    let address = address(path)?;
    let group = group.map(find_group).transpose()?;
    make_directory(path)?;
    clear(path, &address)?;
    let making = || format!("make the socket {}", path.display());
    let socket = unconnected().map_err(io::Error::from).map_err(Error::failed(making))?;
    // A socket's file gets its mode from the socket, so there is no moment with a wider one.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(MODE)).map_err(io::Error::from).map_err(Error::failed(making))?;
    rustix::net::bind(&socket, &address).map_err(io::Error::from).map_err(Error::failed(making))?;
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let file = SocketFile { path: path.into(), file: file.map_err(io::Error::from).map_err(Error::failed(making))? };
    if let Some((name, group)) = group {
        rustix::fs::chown(path, None, Some(group)).map_err(|errno| Error::Failed {
            doing: format!("give the socket {} to the group {name}", path.display()),
            source: errno.into(),
        })?;
    }
    // The mask of this process may have narrowed it.
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(Error::failed(making))?;
    // Nobody gets in before this.
    rustix::net::listen(&socket, BACKLOG).map_err(io::Error::from).map_err(Error::failed(making))?;
    let listener = UnixListener::from_std(socket.into()).map_err(Error::failed(making))?;
    Ok((listener, file))
}

/// Makes the directory that the socket is to be in, if it is missing, so that whoever may use the socket can reach it.
pub fn make_directory(path: &Path) -> Result<()> {
    let Some(above) = path.parent().filter(|it| !it.as_os_str().is_empty()) else { return Ok(()) };
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(above);
    made.map_err(Error::failed(|| format!("make the directory {} of the socket", above.display())))
}

fn unconnected() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes what a dead daemon left.
fn clear(path: &Path, address: &SocketAddrUnix) -> Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::failed(|| format!("look at {}", path.display()))(error)),
    };
    is_socket(path, &found)?;
    let looking = || format!("see whether somebody answers at {}", path.display());
    let socket = unconnected().map_err(io::Error::from).map_err(Error::failed(looking))?;
    match rustix::net::connect(&socket, address) {
        // The kernel answers for one that was killed while a thread of it hangs in the kernel, and always will.
        Ok(()) if is_dead(&socket) => {}
        // Everybody else who answers is alive, also one who has too much to do at the moment.
        Ok(()) | Err(Errno::AGAIN) => {
            return Err(Error::Taken { path: path.into() });
        }
        Err(Errno::CONNREFUSED) => {}
        Err(errno) => return Err(Error::failed(looking)(errno.into())),
    }
    // Somebody else may have replaced it meanwhile.
    if fs::symlink_metadata(path).is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino())) {
        let removed = fs::remove_file(path);
        removed.map_err(Error::failed(|| format!("remove the socket {} of a dead daemon", path.display())))?;
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
fn find_group(group: &str) -> Result<(&str, Gid)> {
    let groups = fs::read_to_string("/etc/group").map_err(Error::failed(|| "read /etc/group".into()))?;
    // For example `users:x:100:alice,bob`.
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == group).then(|| fields.nth(1)?.parse::<u32>().ok())?
    });
    match named.or_else(|| group.parse().ok()).filter(|it| *it != u32::MAX) {
        Some(number) => Ok((group, Gid::from_raw(number))),
        None => Err(Error::Group { group: group.into() }),
    }
}
