//! A connection whose other side must go on reading.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use windlass_linux::raw::unread_by_peer;

/// A stream that fails when the other side takes nothing for some time, however little was left to write: what is written
/// to it waits in memory, and its place among the connections is somebody else's.
///
/// What the kernel has taken and the other side has not is looked at too, because a few lines fit into its buffers for
/// good. There is a timer only after something was written and until it was read, so a quiet watch wakes nobody (I-8).
pub(super) struct Impatient<S> {
    stream: S,
    within: Duration,
    /// Runs while there is something that the kernel does not take.
    deadline: Option<Pin<Box<Sleep>>>,
    /// How much the other side had not read after the last write.
    unread: u32,
    /// Runs while there is something that the other side has not read.
    reading: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + AsFd + Unpin> Impatient<S> {
    pub(super) fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, deadline: None, unread: 0, reading: None }
    }

    /// Looks whether the other side goes on reading. The server flushes whenever it is woken, so this sees every timer.
    fn see_reader(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while let Some(reading) = &mut self.reading {
            if reading.as_mut().poll(context).is_pending() {
                return Ok(());
            }
            let unread = unread_by_peer(&self.stream)?;
            if unread == 0 {
                self.reading = None;
            } else if unread < self.unread {
                self.unread = unread;
                reading.as_mut().reset(Instant::now() + self.within);
            } else {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.see_reader(context)?;
        if self.reading.is_some() && unread_by_peer(&self.stream)? < self.unread {
            // It has read something since the last write, and more than what is written now is not asked of it.
            self.reading = None;
        }
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.deadline = None;
            self.unread = unread_by_peer(&self.stream)?;
            if self.unread > 0 && self.reading.is_none() {
                self.reading = Some(Box::pin(tokio::time::sleep(self.within)));
            }
            // The timer has to know whom to wake.
            self.see_reader(context)?;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.within)));
        deadline.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + AsFd + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.see_reader(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + AsFd + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.see_reader(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
