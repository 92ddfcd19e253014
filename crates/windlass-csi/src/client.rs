//! A driver, as somebody who calls it sees it. The calls themselves are in `node.rs`, `controller.rs` and `identity.rs`.

mod controller;
mod identity;
mod node;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

use crate::call::{self, Failure};
use crate::capabilities::{ControllerCapabilities, NodeCapabilities, PluginCapabilities};
use crate::connection::{Asks, Connection, Target};
use crate::observer::{Called, Observer};
use crate::shared_answer::SharedAnswer;
use crate::text::{self, Secrets};
use crate::{CallError, End};

pub(crate) use identity::GET_PLUGIN_INFO;
pub use identity::PluginInfo;
pub use node::NodeInfo;

/// What a driver is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest answer that is taken. A larger one is nonsense.
    pub message_bytes: usize,
    /// How long making a connection may take.
    pub connect: Duration,
    /// How long the driver may think about what does not change: who it is and what it can do.
    pub question: Duration,
}

impl Default for Limits {
    /// The kubelet's (C-6, C-14, C-44).
    fn default() -> Self {
        Self { message_bytes: 4 << 20, connect: Duration::from_secs(10), question: Duration::from_secs(120) }
    }
}

/// A CSI driver at a unix socket.
///
/// Clones share one connection. It is made by the first call, on the runtime of whoever calls, and made anew by the next
/// call after it has ended. Whoever is there then is asked for the driver's name first, and if it gives another one nothing
/// is sent to it. Nothing is sent while there are no calls (I-8). Dropping a call ends it: the driver is told that
/// nobody waits, and what it has done by then is unknown.
///
/// One `Driver` is one registration: what the driver can do is asked once.
#[derive(Clone)]
pub struct Driver(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    endpoint: PathBuf,
    limits: Limits,
    observer: Observer,
    connection: Arc<Connection>,
    node: SharedAnswer<NodeCapabilities, CallError>,
    controller: SharedAnswer<ControllerCapabilities, CallError>,
    plugin: SharedAnswer<PluginCapabilities, CallError>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("name", &self.0.name).field("endpoint", &self.0.endpoint).finish()
    }
}

impl Driver {
    /// A driver that has just introduced itself by this name, and serves at this socket. Nothing is connected to yet.
    pub fn new(name: impl Into<Arc<str>>, endpoint: impl Into<PathBuf>, limits: Limits) -> Self {
        Self::observed(name, endpoint, limits, Observer::default())
    }

    /// The same, and somebody is told of every call.
    pub fn observed(
        name: impl Into<Arc<str>>,
        endpoint: impl Into<PathBuf>,
        limits: Limits,
        observer: Observer,
    ) -> Self {
        let name = name.into();
        Self::asking(Asks::AgainFor(name.clone()), name, endpoint.into(), limits, observer)
    }

    /// A driver that should serve at this socket. Before anything is sent, whoever does is asked whether it has this name.
    pub fn expected(
        name: impl Into<Arc<str>>,
        endpoint: impl Into<PathBuf>,
        limits: Limits,
        observer: Observer,
    ) -> Self {
        let name = name.into();
        Self::asking(Asks::AlwaysFor(name.clone()), name, endpoint.into(), limits, observer)
    }

    fn asking(asks: Asks, name: Arc<str>, endpoint: PathBuf, limits: Limits, observer: Observer) -> Self {
        let target = Target::Path(endpoint.clone());
        Self(Arc::new(Inner {
            connection: Arc::new(Connection::new(target, asks, limits.connect)),
            name,
            endpoint,
            limits,
            observer,
            node: SharedAnswer::new(),
            controller: SharedAnswer::new(),
            plugin: SharedAnswer::new(),
        }))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The socket at which it serves.
    pub fn endpoint(&self) -> &Path {
        &self.0.endpoint
    }

    /// Whether the process that this driver was when it was first called still takes its calls: the connection of then has
    /// not ended. If it has, another process may be there by now, which can do other things.
    pub fn is_same_process(&self) -> bool {
        self.0.connection.is_first()
    }

    /// Whether this is the other, or a clone of it.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Why nothing is sent to whoever serves at its socket, if that is not this driver.
    pub fn refused(&self) -> Option<String> {
        self.0.connection.refused()
    }

    /// Waits until a connection to it has ended, which is what the end of its process looks like.
    pub async fn disconnected(&self) {
        self.0.connection.ended().await;
    }

    /// Asks whoever serves at the same place now: another driver as far as answers go, that is asked anew for everything.
    pub async fn asked_anew(&self) -> Result<(Self, NodeInfo, NodeCapabilities), CallError> {
        let Inner { name, endpoint, limits, observer, .. } = &*self.0;
        let driver = Self::expected(name.clone(), endpoint.clone(), *limits, observer.clone());
        let info = driver.node_info().await?;
        let capabilities = driver.node_capabilities().await?;
        Ok((driver, info, capabilities))
    }

    async fn call<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        secrets: &Secrets,
        deadline: Duration,
    ) -> Result<A, CallError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let began = Instant::now();
        let answer = call::unary(&self.0.connection, path, request, deadline, self.0.limits.message_bytes).await;
        let code = answer.as_ref().map_or_else(|failure| failure.code, |_| Code::Ok);
        self.0.observer.tell(&Called { driver: &self.0.name, method: path, code, took: began.elapsed() });
        answer.map_err(|failure| self.error(path, failure, secrets))
    }

    /// A call that carries no secrets and changes nothing.
    async fn ask<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        self.call(path, request, &Secrets::default(), self.0.limits.question).await
    }

    fn error(&self, path: &'static str, failure: Failure, secrets: &Secrets) -> CallError {
        let Failure { code, end, message, lied } = failure;
        let message = text::shown(&message, secrets);
        CallError { method: method(path), driver: self.0.name.clone(), code, end, message, lied }
    }

    /// Refuses a request that says nothing where something must be said (C-48).
    fn require(&self, path: &'static str, fields: &[(&str, &str)]) -> Result<(), CallError> {
        match fields.iter().find(|(_, value)| value.is_empty()) {
            Some((field, _)) => Err(self.unfit(path, format!("the request has no {field}; nothing was sent"))),
            None => Ok(()),
        }
    }

    /// Refuses a size that cannot be (C-48).
    fn require_size(
        &self,
        path: &'static str,
        range: Option<&crate::proto::csi::CapacityRange>,
    ) -> Result<(), CallError> {
        match range {
            Some(it) if it.required_bytes < 0 || it.limit_bytes < 0 => {
                Err(self.unfit(path, "the request has a negative size; nothing was sent".to_string()))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn unfit(&self, path: &'static str, message: String) -> CallError {
        let failure = Failure { code: Code::InvalidArgument, end: End::Final, message, lied: false };
        self.error(path, failure, &Secrets::default())
    }

    /// The driver said yes, and then something that cannot be.
    fn lied(&self, path: &'static str, message: impl Into<String>) -> CallError {
        let failure = Failure { code: Code::Internal, end: End::Unknown, message: message.into(), lied: true };
        self.error(path, failure, &Secrets::default())
    }
}

/// The last part of a path like `/csi.v1.Node/NodeStageVolume`.
fn method(path: &'static str) -> &'static str {
    path.rsplit('/').next().unwrap_or(path)
}
