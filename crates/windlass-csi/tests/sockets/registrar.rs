//! A plugin that introduces itself, and a directory to do it in.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::mpsc;
use tonic::service::Routes;
use windlass_csi::proto::registration::registration_server::RegistrationServer;
use windlass_csi::proto::registration::{PluginInfo, RegistrationStatus};
use windlass_csi::registration::{News, Settings, watch};
use windlass_testing::scripted::{self, Registrar};
use windlass_testing::server::Server;

use crate::driver::{Answers, LONG};

/// A plugin that serves the registration and the driver at one socket.
pub(crate) struct Plugin {
    pub(crate) registrar: Arc<Registrar>,
    pub(crate) heard: mpsc::UnboundedReceiver<RegistrationStatus>,
    pub(crate) script: Arc<Answers>,
    pub(crate) server: Server,
}

/// What a driver of this name says of itself when its services are at the socket where it is asked.
pub(crate) fn info(name: &str) -> PluginInfo {
    scripted::info(name, "")
}

impl Plugin {
    pub(crate) fn start(path: impl AsRef<Path>, info: PluginInfo) -> Self {
        Self::start_as(path, info, Answers::new(), false)
    }

    pub(crate) fn start_hanging(path: impl AsRef<Path>) -> Self {
        Self::start_as(path, info("hangs.example.com"), Answers::new(), true)
    }

    pub(crate) fn start_as(path: impl AsRef<Path>, info: PluginInfo, script: Arc<Answers>, hangs: bool) -> Self {
        Self::serve(info, script, hangs, |routes| Server::start(path, routes))
    }

    pub(crate) fn start_at(listener: UnixListener, path: PathBuf, info: PluginInfo) -> Self {
        Self::serve(info, Answers::new(), false, |routes| Server::start_at(listener, path, routes))
    }

    fn serve(info: PluginInfo, script: Arc<Answers>, hangs: bool, start: impl FnOnce(Routes) -> Server) -> Self {
        let (registrar, heard) = Registrar::new(info, hangs);
        let routes = script.routes().add_service(RegistrationServer::from_arc(registrar.clone()));
        Self { server: start(routes), registrar, heard, script }
    }

    /// What the plugin is told next.
    pub(crate) async fn hears(&mut self) -> RegistrationStatus {
        tokio::time::timeout(LONG, self.heard.recv()).await.expect("it is told nothing").unwrap()
    }
}

/// A directory that is watched.
pub(crate) struct Watched {
    pub(crate) directory: TempDir,
    pub(crate) news: Option<mpsc::Receiver<News>>,
}

impl Watched {
    /// Not watched yet.
    pub(crate) fn prepare() -> Self {
        Self { directory: TempDir::new().unwrap(), news: None }
    }

    pub(crate) fn start() -> Self {
        let mut it = Self::prepare();
        it.watch();
        it
    }

    pub(crate) fn watch(&mut self) {
        self.watch_with(|_| {});
    }

    pub(crate) fn watch_with(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = Settings::new(self.directory.path());
        settings.back_off = Duration::from_millis(20);
        settings.grace = Duration::from_millis(50);
        change(&mut settings);
        self.news = Some(watch(settings).unwrap());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The next news, in short: `+name at socket`, `-name at socket`, `!socket: text`, `?socket` for one that vanished.
    pub(crate) async fn next(&mut self) -> String {
        let news = self.next_whole().await;
        let short = |path: &Path| path.strip_prefix(self.directory.path()).unwrap().display().to_string();
        match news {
            News::Registered { driver, socket, .. } => format!("+{} at {}", driver.name(), short(&socket)),
            News::Unregistered { name, socket } => format!("-{name} at {}", short(&socket)),
            News::Refused { socket, text, .. } => format!("!{}: {text}", short(&socket)),
            News::Vanished { socket } => format!("?{}", short(&socket)),
        }
    }

    pub(crate) async fn next_whole(&mut self) -> News {
        let news = self.news.as_mut().expect("it is watched");
        tokio::time::timeout(LONG, news.recv()).await.expect("there are no news").expect("the watch goes on")
    }
}
