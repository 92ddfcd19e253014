//! The sockets. A connection knows how to cut itself, for that is a fault that can be played.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Connected, Router};

use windlass_csi::Socket;

use super::Error;

/// Answers calls until told to stop. The file is kept by whoever serves, and goes before the last call is answered.
pub(super) async fn answer(socket: Socket, router: Router, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
    let path = socket.path().to_owned();
    let lines = UnixListenerStream::new(socket.listener).map(|it| it.and_then(Line::new));
    drop(socket.file);
    let stopped = async move {
        let _ = stop.wait_for(|it| *it).await;
    };
    router.serve_with_incoming_shutdown(lines, stopped).await.map_err(|source| Error::Serve { path, source })
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
