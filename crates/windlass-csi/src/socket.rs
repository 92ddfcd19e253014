//! A socket to serve on, for drivers.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Its directory could not be made.
    #[error("make the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else serves there.
    #[error("serve on {}: another process does", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there, and is not removed.
    #[error("serve on {}: something is there that is not a socket", path.display())]
    InTheWay {
        /// What is there.
        path: PathBuf,
    },
    /// It could not be made.
    #[error("serve on {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A socket's file, which is there while this is.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A socket that nobody answers yet.
#[derive(Debug)]
pub struct Socket {
    /// Its file. Whoever keeps it keeps the socket to be found.
    pub file: Arc<SocketFile>,
    /// Who comes.
    pub listener: UnixListener,
}

impl Socket {
    /// Makes a socket, for its owner alone: a driver mounts for whoever may call it. One that a process has left which is
    /// gone is replaced. Within a runtime of tokio.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| SocketError::Directory { path: parent.into(), source })?;
        }
        let bind = |source| SocketError::Bind { path: path.into(), source };
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(SocketError::InTheWay { path: path.into() }),
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(SocketError::Taken { path: path.into() }),
            Ok(_) => std::fs::remove_file(path).map_err(bind)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(bind(error)),
        }
        let listener = UnixListener::bind(path).map_err(bind)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(bind)?;
        Ok(Self { file: Arc::new(SocketFile(path.into())), listener })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.file.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_one_that_is_served_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/csi.sock");
        let socket = Socket::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::Taken { .. })));
        drop(socket);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as a killed process leaves it");
        drop(Socket::bind(&path).unwrap());
        std::fs::write(&path, "data").unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::InTheWay { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }
}
