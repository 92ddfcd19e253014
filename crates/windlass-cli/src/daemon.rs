//! `windlass run`: the daemon. Puts the parts together, and ends them in order.

pub(crate) mod config;
mod drivers;
mod follow;
mod log;
mod namespace;
mod once;
mod service;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fs, panic};

use anyhow::Context;
use config::{Config, Settings, Tokens};
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use windlass::Node;
use windlass::backend::{About, NodeBackend, Recorder};
use windlass::metrics::Metrics;
use windlass::node::{Builder, DriverSettings, Limits, Observer};
use windlass::source::directory::{self, Directory};
use windlass::token::{LocalIssuer, Program};
use windlass_api::server;
use windlass_linux::table;

use crate::output;
use crate::paths::Paths;

/// Runs the daemon until it is told to end.
pub(crate) fn run(settings: Box<Settings>, socket: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let paths = Paths::own();
    let print = settings.print_config;
    let config = Settings { socket, ..*settings }.with_file(&paths)?.mean(&paths)?;
    if print {
        output::data(&config.to_settings().to_yaml()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    log::begin(&config)?;
    // More would let threads wait for each other less, which they hardly do, and each keeps what it once had.
    windlass_linux::raw::limit_heaps(2);
    let rootless = !namespace::may_mount();
    // While there is one thread.
    if rootless {
        namespace::enter()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let done = runtime.block_on(Arc::new(Daemon { config, rootless }).run());
    // Whoever hangs in a file system is not waited for (I-6).
    runtime.shutdown_background();
    done
}

/// Manifests that are being read.
type Reading = JoinHandle<Result<directory::ReadDirectory, directory::Error>>;

/// What a thread came to.
fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}

/// The node and the manifests that it follows.
struct Served {
    node: Node,
    source: Directory,
}

/// Says by which option another path can be named.
fn unusable(error: server::Error) -> anyhow::Error {
    match error.is_in_the_way() {
        true => anyhow::anyhow!("{error} with --socket"),
        false => error.into(),
    }
}

struct Daemon {
    config: Config,
    rootless: bool,
}

impl Daemon {
    async fn run(self: Arc<Self>) -> anyhow::Result<ExitCode> {
        let config = &self.config;
        // Before anything is begun that they should end in order.
        let mut signals = Signals::listen()?;
        if config.once.is_none() {
            // Before the node keeps something of its own there, in a directory that nobody else can enter.
            server::make_directory(&config.socket)?;
        }
        // What cannot work is refused before anything is made below the root.
        let port = match config.metrics_address.filter(|_| config.once.is_none()) {
            Some(address) => {
                Some(TcpListener::bind(address).await.with_context(|| format!("serve metrics at {address}"))?)
            }
            None => None,
        };
        // At the same time as the disk: each takes a while where there are many pods.
        let manifests = self.read_manifests()?;
        let daemon = self.clone();
        let metrics = Arc::new(Metrics::new());
        let counting = metrics.observer();
        // The same holds for the socket.
        let checked = move || {
            if daemon.config.once.is_none() {
                server::check(&daemon.config.socket, daemon.config.socket_group.as_deref()).map_err(unusable)?;
            }
            let manifests = &daemon.config.manifests;
            fs::read_dir(manifests).with_context(|| format!("read manifests in {}", manifests.display()))?;
            daemon.start(counting)
        };
        let Some(node) = signals.unless(checked).await else { return Ok(ExitCode::SUCCESS) };
        let node = node?;
        // Whoever has the root may have the socket, so this comes after the lock.
        let socket = match config.once {
            None => Some(server::bind(&config.socket, config.socket_group.as_deref()).map_err(unusable)?),
            Some(_) => None,
        };
        let follow = node.changes_since_start().unwrap_or_else(|| node.changes());
        let once = node.changes();
        let mut about = About::new(&config.root);
        about.rootless = self.rootless;
        let recorder = Recorder::new(&about);
        let record = recorder.record();
        // Begins before the manifests are read, for that brings more news than can be kept for later.
        tokio::spawn(follow::follow(follow, node.clone(), recorder, config.clone()));
        let given = node.clone();
        let Some(source) = signals.unless(move || joined(manifests)?.watch(&given)).await else {
            self.end(&node, &mut signals).await;
            return Ok(ExitCode::SUCCESS);
        };
        let source = source?;
        let backend = NodeBackend::new(node.clone(), record.clone(), about).with_metrics(metrics);
        let backend = Arc::new(backend.with_manifests(&config.manifests, &source));
        let served = Served { node, source };
        self.greet();
        tokio::spawn(follow::follow_source(served.source.summary(), backend.clone()));
        let Some((listener, file)) = socket else {
            let within = config.once.unwrap_or_default();
            let code = tokio::select! {
                code = once::bring_up(&served, once, within) => code,
                name = signals.end() => {
                    tracing::info!(signal = name, "ending");
                    Ok(ExitCode::from(crate::exit::NOT_YET))
                }
            };
            self.end(&served.node, &mut signals).await;
            return code;
        };
        drop(once);
        let (stop, stopped) = watch::channel(false);
        let limits = server::Limits::new(config.connections_max);
        if let Some(listener) = port {
            if let Ok(address) = listener.local_addr() {
                tracing::info!("metrics are served at {address}");
            }
            tokio::spawn(server::serve_metrics(listener, backend.clone(), limits, stopped.clone()));
        }
        let serving = tokio::spawn(server::serve(listener, backend, record.journal.clone(), limits, stopped));
        tokio::spawn(service::keep_watchdog(served.node.clone()));
        service::tell(&[NotifyState::Ready, NotifyState::Status("following the manifests")]);
        let name = loop {
            tokio::select! {
                told = signals.next() => match told {
                    Told::End(name) => break name,
                    Told::Reread => {
                        tracing::info!("reading all manifests again");
                        served.source.reread();
                    }
                },
                // Nothing would be looked after any more, and nobody would see it: whoever restarts services does so now.
                ended = served.node.ended() => {
                    tracing::error!("{ended}");
                    service::tell(&[NotifyState::Stopping, NotifyState::Status("the engine broke off")]);
                    let _ = stop.send(true);
                    drop(file);
                    return Err(ended.into());
                }
            }
        };
        match self.rootless {
            false => tracing::info!(signal = name, "ending, the volumes stay mounted"),
            true => tracing::info!(signal = name, "ending, and the mounts with the namespace of this process"),
        }
        service::tell(&[NotifyState::Stopping]);
        let _ = stop.send(true);
        tokio::select! {
            _ = serving => {}
            _ = signals.end() => {}
        }
        drop(file);
        self.end(&served.node, &mut signals).await;
        Ok(ExitCode::SUCCESS)
    }

    /// On a thread of its own, which nobody waits for if it hangs in a file system (I-6).
    fn read_manifests(&self) -> anyhow::Result<Reading> {
        let Config { manifests, node_name, source, .. } = self.config.clone();
        let thread = thread::Builder::new().name("windlass-read".into());
        thread.spawn(move || Directory::read(&manifests, &node_name, source)).context("start a thread")
    }

    fn start(&self, observer: Observer) -> anyhow::Result<Node> {
        let config = &self.config;
        let limits = Limits { threads_max: config.threads_max, ..Limits::default() };
        let builder = Node::builder(&config.root)
            .node_name(&config.node_name)
            .state_directory(&config.state)
            .runtime_directory(&config.runtime)
            .driver_registry(&config.driver_registry)
            .driver_deadline(config.driver_timeout)
            .keep_terminated(config.keep_terminated)
            .hold_while_in_use(config.hold_while_in_use)
            .delete_delay(config.delete_delay)
            .default_service_account("default")
            .give_memory_back()
            .observe(observer)
            .limits(limits);
        let with_driver =
            |builder: Builder, (name, settings): (&String, &DriverSettings)| builder.driver(name, settings.clone());
        let builder = config.drivers.iter().fold(builder, with_driver);
        let builder = match &config.record_events {
            Some(file) => builder.record_events(file),
            None => builder,
        };
        let builder = match &config.tokens {
            Tokens::None => builder,
            Tokens::Command(program) => builder.token_provider(Program::new(program)),
            Tokens::Key { file, issuer, audience } => {
                let key = fs::read_to_string(file).with_context(|| format!("read the key {}", file.display()))?;
                let issuer = LocalIssuer::new(issuer, audience, &key);
                builder.token_provider(issuer.with_context(|| format!("use the key {}", file.display()))?)
            }
        };
        builder.start().context("start")
    }

    /// The first lines of the log: what runs, and what will not work.
    fn greet(&self) {
        let Config { node_name, root, manifests, socket, .. } = &self.config;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            node = node_name,
            root = %root.display(),
            manifests = %manifests.display(),
            socket = %socket.display(),
            "windlass runs"
        );
        if self.rootless {
            tracing::warn!(
                process = std::process::id(),
                "without root: the mounts are in a namespace of this process, and what needs other users, devices or \
                 disks is refused"
            );
        } else if !is_shared(root) {
            tracing::warn!(
                "the mount that {} is on is not shared: mounts that containers make in a volume stay their own \
                 (mountPropagation); `mount --make-rshared` of that mount changes it",
                root.display()
            );
        }
    }

    async fn end(&self, node: &Node, signals: &mut Signals) {
        tokio::select! {
            running = node.clone().stop(self.config.stop_timeout) => match running {
                Ok(0) => tracing::info!("ended"),
                Err(ended) => tracing::error!("{ended}"),
                Ok(running) => tracing::warn!(running, "ended while operations ran; the next start recovers from them"),
            },
            // Whoever asks twice is in a hurry.
            name = signals.end() => {
                tracing::warn!(signal = name, "ended at once; the next start recovers from what ran");
            }
        }
    }
}

/// Whether mounts below this path are seen by other mount namespaces that share with ours.
fn is_shared(path: &std::path::Path) -> bool {
    let mount = fs::File::open(path).ok().and_then(|it| table::look_up(table::identify(it).ok()?).ok()?);
    mount.is_none_or(|it| it.propagation.peers.is_some())
}

/// What the process is told from outside.
enum Told {
    /// To end, by this signal.
    End(&'static str),
    /// To read everything once more.
    Reread,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::End("SIGTERM"),
            _ = self.interrupt.recv() => Told::End("SIGINT"),
            _ = self.hangup.recv() => Told::Reread,
        }
    }

    /// Does something that may block, elsewhere; `None` if somebody wants us to end before it is done.
    async fn unless<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        tokio::select! {
            done = tokio::task::spawn_blocking(work) => match done.map_err(tokio::task::JoinError::try_into_panic) {
                Ok(done) => Some(done),
                // A defect is no end in order.
                Err(Ok(panic)) => panic::resume_unwind(panic),
                Err(Err(_)) => None,
            },
            name = self.end() => {
                tracing::info!(signal = name, "ending before all is read");
                None
            }
        }
    }

    /// Waits until somebody wants us to end.
    async fn end(&mut self) -> &'static str {
        loop {
            if let Told::End(name) = self.next().await {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It would look like a daemon that somebody ended.
    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_start_that_breaks_off_does_not_end_well() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Signals::listen().unwrap().unless(|| panic!("on purpose")).await });
    }
}
