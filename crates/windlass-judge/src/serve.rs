//! The driver around the judge: it registers, answers, and does what the judge does not refuse.
//!
//! Its volumes are directories of one small tmpfs, so they cost nothing and keep nothing: a volume is there as soon as
//! somebody names it, and all of them are gone when the judge ends.

mod controller;
mod driver;
mod identity;
mod node;
mod place;
mod read;
mod socket;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tonic::transport::Server;
use windlass_csi::proto::csi::controller_server::ControllerServer;
use windlass_csi::proto::csi::identity_server::IdentityServer;
use windlass_csi::proto::csi::node_server::NodeServer;
use windlass_csi::proto::registration::registration_server::RegistrationServer;
use windlass_csi::{Socket, SocketError, registration_socket};

use crate::call::Shown;
use crate::settings::Settings;
use crate::{News, Verdict};
use driver::Driver;
use place::Places;

/// How long calls that are under way are given at the end.
const GRACE: Duration = Duration::from_secs(5);

/// Why the judge cannot serve.
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
    /// The directory of the volumes could not be made.
    #[error("make the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file system of the volumes could not be made.
    #[error("mount the file system of the volumes on {}", path.display())]
    Volumes {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Where the judge serves, and as what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The driver's name.
    pub name: String,
    /// The socket of its services, an absolute path.
    pub endpoint: PathBuf,
    /// The directory in which drivers register; without it the judge announces itself to nobody.
    pub registry: Option<PathBuf>,
    /// A directory for its volumes. Made if it is missing.
    pub state: PathBuf,
    /// What it pretends to be, and what it expects.
    pub settings: Settings,
}

/// What is told while it happens.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A call has come.
    Begun(&'a Shown),
    /// It has ended, after so long.
    Ended(&'a Shown, Duration),
    /// A rule was not kept.
    Breach(&'a News),
}

/// Hears what is told.
pub type Listener = Box<dyn Fn(Told<'_>) + Send + Sync>;

/// A judge that can be found, and whose calls wait to be answered.
pub struct Bench {
    driver: Arc<Driver>,
    endpoint: Socket,
    registration: Option<Socket>,
}

impl Bench {
    /// Makes the volumes' file system, the socket of the services, and then that of the registration: whoever finds the last
    /// can use the others.
    pub fn bind(options: Options, listener: Listener) -> Result<Self, Error> {
        let Options { name, endpoint, registry, state, settings } = options;
        let places = Places::open(&state)?;
        let endpoint = Socket::bind(&endpoint)?;
        let registration = registry.map(|it| Socket::bind(&it.join(registration_socket(&name)))).transpose()?;
        let driver = Driver::new(name, endpoint.path().to_owned(), settings, places, listener);
        Ok(Self { driver, endpoint, registration })
    }

    /// Becomes ready when volumes have come, all of them are gone again, and nothing was asked for a while after that.
    pub fn idle(&self) -> impl Future<Output = ()> + Send + 'static {
        let driver = self.driver.clone();
        async move {
            let mut changes = driver.changes();
            loop {
                changes.mark_unchanged();
                let changed = changes.changed();
                match driver.idle_after() {
                    Some(quiet) => match tokio::time::timeout(quiet, changed).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) | Err(_) => return,
                    },
                    None if changed.await.is_err() => return,
                    None => {}
                }
            }
        }
    }

    /// Answers calls until then, takes away what is left of its own, and says what it found.
    pub async fn serve(self, until: impl Future<Output = ()>) -> Result<Verdict, Error> {
        let Self { driver, endpoint, registration } = self;
        let (stop, stopped) = watch::channel(false);
        let mut services = Server::builder()
            .add_service(IdentityServer::new(identity::IdentityService(driver.clone())))
            .add_service(NodeServer::new(node::NodeService(driver.clone())));
        if driver.settings().has_controller() {
            services = services.add_service(ControllerServer::new(controller::ControllerService(driver.clone())));
        }
        let introduction = identity::RegistrationService(driver.clone());
        let introduction = Server::builder().add_service(RegistrationServer::new(introduction));
        let files = (endpoint.file.clone(), registration.as_ref().map(|it| it.file.clone()));
        let serving = async {
            let registration = async {
                match registration {
                    Some(socket) => socket::answer(socket, introduction, stopped.clone()).await,
                    None => Ok(()),
                }
            };
            tokio::try_join!(socket::answer(endpoint, services, stopped.clone()), registration).map(drop)
        };
        let mut failed = None;
        {
            tokio::pin!(serving);
            tokio::select! {
                done = &mut serving => failed = done.err(),
                () = until => {}
            }
            // Whoever comes now is told at once that nobody is here.
            drop(files);
            driver.stop();
            let _ = stop.send(true);
            if failed.is_none() {
                failed = tokio::time::timeout(GRACE, serving).await.unwrap_or(Ok(())).err();
            }
        }
        let verdict = driver.conclude();
        match failed {
            Some(error) => Err(error),
            None => Ok(verdict),
        }
    }
}
