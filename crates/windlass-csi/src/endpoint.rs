//! A driver's own socket that is made anew: the driver was started again, and whoever registers it may not have noticed.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

/// Room for many events; one alone never needs more than 300 bytes.
const BUFFER_BYTES: usize = 4096;
/// A socket is there before anybody listens at it, and nothing tells of that; it is a moment.
const LISTENS_AGAIN: Duration = Duration::from_millis(10);
/// Nobody needs longer to listen who made a socket to do so.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);

/// Watches the socket of a driver, from now on.
pub struct Endpoint {
    path: PathBuf,
    inotify: AsyncFd<OwnedFd>,
}

impl Endpoint {
    /// Watches a socket by the directory that it is in. Within a runtime of tokio.
    #[expect(
        deprecated,
        reason = "what takes its place is unsafe, for types that lie about their descriptor; this one does not"
    )]
    pub fn watch(path: &Path) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        inotify::add_watch(&inotify, directory, WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
        Ok(Self { path: path.into(), inotify: AsyncFd::with_interest(inotify, Interest::READABLE)? })
    }

    /// Waits until the socket is made anew and somebody listens at it. An error: its directory is gone.
    pub async fn made_anew(&mut self) -> io::Result<()> {
        loop {
            self.appears().await?;
            let listens = async {
                while UnixStream::connect(&self.path).await.is_err() {
                    tokio::time::sleep(LISTENS_AGAIN).await;
                }
            };
            if tokio::time::timeout(LISTENS_WITHIN, listens).await.is_ok() {
                return Ok(());
            }
        }
    }

    async fn appears(&mut self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
            let mut has_come = false;
            loop {
                match reader.next() {
                    Ok(event) if event.events().contains(ReadFlags::IGNORED) => {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    Ok(event) => {
                        let name = event.file_name().map(|it| OsStr::from_bytes(it.to_bytes()));
                        has_come |= name == self.path.file_name() || event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
            ready.clear_ready();
            if has_come {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_is_made_anew_is_told_of_once_somebody_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("csi.sock");
        let first = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut endpoint = Endpoint::watch(&path).unwrap();
        let waiting = endpoint.made_anew();
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::ZERO, &mut waiting).await;
        assert!(early.is_err(), "it was there before");
        std::fs::write(directory.path().join("other"), "").unwrap();
        drop(first);
        std::fs::remove_file(&path).unwrap();
        let _second = std::os::unix::net::UnixListener::bind(&path).unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_goes_ends_the_watch() {
        let directory = tempfile::tempdir().unwrap();
        let mut endpoint = Endpoint::watch(&directory.path().join("csi.sock")).unwrap();
        drop(directory);
        assert_eq!(endpoint.made_anew().await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
