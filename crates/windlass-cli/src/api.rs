//! The API: HTTP and JSON on a unix socket, Kubernetes-style objects, streamed watches.

use std::{path::Path, sync::Arc};

use tokio::{net::UnixListener, sync::watch};

use crate::daemon::shared::Shared;

/// What clients may take.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
}

pub(crate) struct SocketFile;

pub(crate) fn bind(path: &Path, _group: Option<&str>) -> anyhow::Result<(UnixListener, SocketFile)> {
    Ok((UnixListener::bind(path)?, SocketFile))
}

pub(crate) async fn serve(_: UnixListener, _: Arc<Shared>, _: Limits, mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}
