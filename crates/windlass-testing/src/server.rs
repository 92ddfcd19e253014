//! gRPC servers that can die.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use tokio::sync::watch;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;

/// A server on a thread of its own. Dropping it is like the end of its process: every connection is closed by the kernel,
/// and the files of its sockets stay.
pub struct Server {
    /// Its first socket.
    pub path: PathBuf,
    death: Death,
    thread: Option<JoinHandle<()>>,
}

/// The end of a server, which comes when somebody says so.
#[derive(Clone)]
pub struct Death(watch::Sender<bool>);

impl Default for Death {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Death {
    /// The server ends now.
    pub fn come(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Serves at a path from when this returns, in place of whatever was there.
    pub fn start(path: impl AsRef<Path>, routes: Routes) -> Self {
        Self::start_all(Death::default(), [(path.as_ref().to_path_buf(), routes)])
    }

    /// Serves at a socket that was made already.
    pub fn start_at(listener: UnixListener, path: PathBuf, routes: Routes) -> Self {
        Self::serve(Death::default(), path, vec![(listener, routes)])
    }

    /// Serves at several paths until this death comes.
    pub fn start_all<const COUNT: usize>(death: Death, sockets: [(PathBuf, Routes); COUNT]) -> Self {
        let first = sockets[0].0.clone();
        let listeners = sockets.map(|(path, routes)| {
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path);
            (listener.unwrap_or_else(|error| panic!("listen at {}: {error}", path.display())), routes)
        });
        Self::serve(death, first, listeners.into())
    }

    fn serve(death: Death, path: PathBuf, listeners: Vec<(UnixListener, Routes)>) -> Self {
        let mut died = death.0.subscribe();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // With the runtime go all connections, as with a process.
            runtime.block_on(async move {
                for (listener, routes) in listeners {
                    listener.set_nonblocking(true).expect("a socket that does not block");
                    let listener = tokio::net::UnixListener::from_std(listener).expect("a socket");
                    let incoming = UnixListenerStream::new(listener);
                    tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
                }
                let _ = died.wait_for(|it| *it).await;
            });
        });
        Self { path, death, thread: Some(thread) }
    }

    /// Waits until its death has come.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // What went wrong there is seen by the test that waits for an answer.
            let _ = thread.join();
        }
    }

    /// Ends it now.
    pub fn kill(&mut self) {
        self.death.come();
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
