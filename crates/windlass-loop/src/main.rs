//! The program `windlass-loop`: what can be typed, the log, and the signals that end it.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::filter::LevelFilter;
use windlass_loop::driver::{self, Driver, Settings};
use windlass_loop::serve::Sockets;
use windlass_loop::store::Store;
use windlass_loop::{recover, size};

/// A CSI driver whose volumes are files on loop devices, with ext4 or xfs on them or raw
///
/// It serves identity, controller and node on one socket, and announces itself to the node (windlass, or a kubelet) by a
/// second socket in the node's registration directory. It needs root. Nothing is lost or left behind by ending it in
/// whatever way: volumes stay mounted, and the next start goes on with them.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLE)]
struct Arguments {
    /// The socket to serve on; `unix:///path` is understood too
    #[arg(long, value_name = "SOCKET", value_parser = endpoint)]
    endpoint: PathBuf,

    /// The node's registration directory, such as /var/lib/kubelet/plugins_registry. Without it the driver announces itself
    /// to nobody
    #[arg(long, value_name = "DIRECTORY")]
    registry: Option<PathBuf>,

    /// Where volumes are kept. Made if it is missing
    #[arg(long, value_name = "DIRECTORY")]
    state: PathBuf,

    /// The name of this node, as the orchestrator knows it
    #[arg(long, value_name = "NAME", value_parser = driver::check_node_id)]
    node_id: String,

    /// The name of the driver
    #[arg(long, default_value = "loop.csi.windlass.dev", value_parser = driver::check_name)]
    name: String,

    /// Volumes must be attached (ControllerPublishVolume) before they are staged
    #[arg(long)]
    attach: bool,

    /// The most that all volumes may have together, such as 10Gi. By default as much as the file system of the state
    /// directory could hold; images take up only what was written to them
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    capacity: Option<u64>,

    /// How many volumes the node may have; 0 for no limit
    #[arg(long, value_name = "COUNT", default_value_t = 128)]
    volumes_max: u32,

    /// Give volumes to the pod's group (VOLUME_MOUNT_GROUP) instead of leaving that to the node
    #[arg(long)]
    mount_group: bool,

    /// How much is logged, to standard error: error, warn, info, debug
    #[arg(long, value_name = "LEVEL", default_value_t = LevelFilter::INFO)]
    log_level: LevelFilter,
}

const EXAMPLE: &str = "Example:
  windlass-loop --endpoint /run/windlass-loop/csi.sock --state /var/lib/windlass-loop \\
      --node-id $(hostname) --registry /var/lib/kubelet/plugins_registry

Once it can be called, it prints one line to standard output. SIGTERM ends it in order.";

fn endpoint(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
    let path = PathBuf::from(path);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err("a socket is an absolute path, such as /run/windlass-loop/csi.sock".into())
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let color = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_max_level(arguments.log_level).with_target(false).with_ansi(color);
    log.with_writer(io::stderr).init();
    // Images and sockets are nobody else's.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for signals")?;
    let store = Arc::new(Store::open(&arguments.state, arguments.capacity)?);
    recover::recover(&store);
    let settings = Settings {
        name: arguments.name,
        node_id: arguments.node_id,
        attach: arguments.attach,
        volumes_max: arguments.volumes_max,
        mount_group: arguments.mount_group,
    };
    let sockets = Sockets::bind(&arguments.endpoint, arguments.registry.as_deref(), &settings.name)?;
    if !windlass_loop::grow::may_resize() {
        tracing::warn!(
            "this process is without CAP_SYS_RESOURCE: an ext4 that is mounted cannot grow until it is staged again"
        );
    }
    let text = format!("{} serves on {}\n", settings.name, arguments.endpoint.display());
    let (stop, stopped) = watch::channel(false);
    let served = tokio::spawn(sockets.serve(Driver::new(settings, store), stopped));
    // Nobody need read it.
    let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    tokio::pin!(served);
    tokio::select! {
        done = &mut served => return Ok(done.context("serve")??),
        _ = terminate.recv() => tracing::info!("ending by SIGTERM"),
        _ = interrupt.recv() => tracing::info!("ending by SIGINT"),
    }
    let _ = stop.send(true);
    Ok(served.await.context("serve")??)
}
