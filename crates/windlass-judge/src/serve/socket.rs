//! The sockets. A connection knows how to cut itself, for that is a fault that can be played.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as Probe;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Connected, Router};

use super::Error;

/// A socket's file, which is there while this is.
pub(super) struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A socket that nobody answers yet.
pub(super) struct Socket {
    file: Arc<File>,
    listener: UnixListener,
}

impl Socket {
    /// Makes a socket. One that a process has left which is gone is replaced.
    pub(super) fn bind(path: &Path) -> Result<Self, Error> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| Error::Directory { path: parent.into(), source })?;
        }
        let bind = |source| Error::Bind { path: path.into(), source };
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(Error::InTheWay { path: path.into() }),
            Ok(_) if Probe::connect(path).is_ok() => return Err(Error::Taken { path: path.into() }),
            Ok(_) => std::fs::remove_file(path).map_err(bind)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(bind(error)),
        }
        let listener = UnixListener::bind(path).map_err(bind)?;
        // The judge mounts for whoever may call it.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(bind)?;
        Ok(Self { file: Arc::new(File(path.into())), listener })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.0
    }

    /// Keeps the file.
    pub(super) fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    /// Answers calls until told to stop.
    pub(super) async fn answer(self, router: Router, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
        let path = self.file.0.clone();
        // The file is kept by whoever serves, and goes before the last call is answered.
        drop(self.file);
        let lines = UnixListenerStream::new(self.listener).map(|it| it.and_then(Line::new));
        let stopped = async move {
            let _ = stop.wait_for(|it| *it).await;
        };
        router.serve_with_incoming_shutdown(lines, stopped).await.map_err(|source| Error::Serve { path, source })
    }
}

/// Cuts a connection.
#[derive(Clone)]
pub(super) struct Cut(Arc<OwnedFd>);

impl Cut {
    /// Cuts it now. Whoever waits for an answer at the other end never gets one.
    pub(super) fn now(&self) {
        // Cut already is as good.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

/// A connection.
struct Line {
    stream: UnixStream,
    cut: Cut,
}

impl Line {
    fn new(stream: UnixStream) -> io::Result<Self> {
        let cut = Cut(Arc::new(stream.as_fd().try_clone_to_owned()?));
        Ok(Self { stream, cut })
    }
}

impl Connected for Line {
    type ConnectInfo = Cut;

    fn connect_info(&self) -> Cut {
        self.cut.clone()
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
