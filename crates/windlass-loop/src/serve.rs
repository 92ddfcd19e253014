//! The sockets: where the services are, from the first call to the last.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;
use windlass_csi::proto::csi::controller_server::ControllerServer;
use windlass_csi::proto::csi::identity_server::IdentityServer;
use windlass_csi::proto::csi::node_server::NodeServer;
use windlass_csi::proto::registration::registration_server::RegistrationServer;
use windlass_csi::registration_socket;

use crate::controller::ControllerService;
use crate::driver::Driver;
use crate::identity::IdentityService;
use crate::node::NodeService;
use crate::registration::RegistrationService;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory of a socket could not be made.
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
    /// The socket could not be made.
    #[error("serve on {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server failed.
    #[error("serve on {}", path.display())]
    Serve {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// A socket's file, which is there while this is.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A socket.
struct Socket {
    file: File,
    listener: UnixListener,
}

impl Socket {
    /// Makes a socket. One that a process has left which is gone is replaced.
    fn bind(path: &Path) -> Result<Self, Error> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|source| Error::Directory { path: parent.into(), source })?;
        }
        let bind = |source| Error::Bind { path: path.into(), source };
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(Error::InTheWay { path: path.into() }),
            Ok(_) if UnixStream::connect(path).is_ok() => return Err(Error::Taken { path: path.into() }),
            Ok(_) => std::fs::remove_file(path).map_err(bind)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(bind(error)),
        }
        let listener = UnixListener::bind(path).map_err(bind)?;
        Ok(Self { file: File(path.into()), listener })
    }
}

/// The sockets of a driver, before anybody is answered.
pub struct Sockets {
    driver: Socket,
    registration: Option<Socket>,
}

impl Sockets {
    /// Makes the socket of the services, and then that of the registration, if there is to be one: whoever finds the second
    /// can use the first.
    pub fn bind(endpoint: &Path, registry: Option<&Path>, name: &str) -> Result<Self, Error> {
        let driver = Socket::bind(endpoint)?;
        let registration = registry.map(|it| Socket::bind(&it.join(registration_socket(name)))).transpose()?;
        Ok(Self { driver, registration })
    }

    /// Answers calls until told to stop. Calls that are under way then are given a while to end.
    pub async fn serve(self, driver: Arc<Driver>, mut stop: watch::Receiver<bool>) -> Result<(), Error> {
        // An orchestrator keeps its connection, and need not close it.
        const GRACE: Duration = Duration::from_secs(10);
        let Socket { file, listener } = self.driver;
        let services = Server::builder()
            .add_service(IdentityServer::new(IdentityService(driver.clone())))
            .add_service(ControllerServer::new(ControllerService(driver.clone())))
            .add_service(NodeServer::new(NodeService(driver.clone())));
        let registration = RegistrationService { name: driver.settings.name.clone(), endpoint: file.0.clone() };
        let registration = Server::builder().add_service(RegistrationServer::new(registration));
        let services = answer(services, file.0.clone(), listener, stop.clone());
        let (second, registration) = match self.registration {
            Some(Socket { file, listener }) => {
                let answering = answer(registration, file.0.clone(), listener, stop.clone());
                (Some(file), Some(answering))
            }
            None => (None, None),
        };
        let serving = async {
            let registration = async {
                match registration {
                    Some(answering) => answering.await,
                    None => Ok(()),
                }
            };
            tokio::try_join!(services, registration).map(drop)
        };
        tokio::pin!(serving);
        tokio::select! {
            done = &mut serving => return done,
            _ = stop.wait_for(|it| *it) => {}
        }
        // Whoever comes now is told at once that nobody is here.
        drop((second, file));
        tokio::time::timeout(GRACE, serving).await.unwrap_or(Ok(()))
    }
}

/// Answers calls on one socket until told to stop.
async fn answer(
    router: Router,
    path: PathBuf,
    listener: UnixListener,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let stopped = async move {
        let _ = stop.wait_for(|it| *it).await;
    };
    let served = router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), stopped).await;
    served.map_err(|source| Error::Serve { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_one_that_is_served_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/csi.sock");
        let socket = Socket::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(Error::Taken { .. })));
        drop(socket);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as a killed process leaves it");
        drop(Socket::bind(&path).unwrap());
        std::fs::write(&path, "data").unwrap();
        assert!(matches!(Socket::bind(&path), Err(Error::InTheWay { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }
}
