//! Servers that can die.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;

/// A server on a thread of its own. Dropping it is like the end of its process: every connection is closed by the kernel,
/// and the socket's file stays.
pub(crate) struct Server {
    pub(crate) path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves at a path from when this returns, in place of whatever was there.
    pub(crate) fn start(path: impl AsRef<Path>, routes: Routes) -> Self {
        let path = path.as_ref().to_path_buf();
        let _ = std::fs::remove_file(&path);
        Self::start_at(std::os::unix::net::UnixListener::bind(&path).unwrap(), path, routes)
    }

    /// Serves at a socket that was made already.
    pub(crate) fn start_at(listener: std::os::unix::net::UnixListener, path: PathBuf, routes: Routes) -> Self {
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
                let serving = tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming);
                tokio::select! {
                    served = serving => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { path, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What went wrong there is seen here by the test that waits for it.
            let _ = thread.join();
        }
    }
}
