//! The sockets: where the services are, from the first call to the last.

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
use windlass_csi::{Socket, SocketError, registration_socket};

use crate::controller::ControllerService;
use crate::driver::Driver;
use crate::identity::IdentityService;
use crate::node::NodeService;
use crate::registration::RegistrationService;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no socket to serve on.
    #[error(transparent)]
    Socket(#[from] SocketError),
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
        let path = self.driver.path().to_owned();
        let Socket { file, listener } = self.driver;
        let services = Server::builder()
            .add_service(IdentityServer::new(IdentityService(driver.clone())))
            .add_service(ControllerServer::new(ControllerService(driver.clone())))
            .add_service(NodeServer::new(NodeService(driver.clone())));
        let registration = RegistrationService { name: driver.settings.name.clone(), endpoint: path.clone() };
        let registration = Server::builder().add_service(RegistrationServer::new(registration));
        let services = answer(services, path, listener, stop.clone());
        let (second, registration) = match self.registration {
            Some(socket) => {
                let path = socket.path().to_owned();
                let answering = answer(registration, path, socket.listener, stop.clone());
                (Some(socket.file), Some(answering))
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
