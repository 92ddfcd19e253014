//! The CSI drivers of this node: who is registered, and how their calls are made from threads that may block.
//!
//! One thread runs what must not block: it watches for drivers that come and go, and carries the bytes of all calls. A
//! worker that makes a call waits for its end, so that a driver that hangs holds up its own volumes and nothing else (I-6).

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use tokio::{runtime, sync::watch};
use windlass_core::operation::Cause;
use windlass_csi::{CallError, Driver, NodeCapabilities, NodeInfo, registration};

use crate::plugin::Failure;

/// How long a call may take, if nobody says otherwise (C-46).
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(120);

/// The drivers of a node.
pub struct Drivers {
    calls: Option<Calls>,
    registered: RwLock<BTreeMap<String, Registered>>,
    /// How long a call may take.
    pub(crate) deadline: Duration,
}

/// How calls are made.
struct Calls {
    runtime: runtime::Handle,
    /// Ends the thread with the last who has it.
    _stop: watch::Sender<()>,
}

/// A driver that is registered.
#[derive(Clone, Debug)]
pub struct Registered {
    /// How it is called.
    pub driver: Driver,
    /// What it can do on this node.
    pub capabilities: NodeCapabilities,
    /// What it says of this node.
    pub info: NodeInfo,
    /// Since when.
    pub since: SystemTime,
}

/// What became of a driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Registered { name: Arc<str>, capabilities: NodeCapabilities, topology: BTreeMap<String, String> },
    Unregistered { name: Arc<str> },
    Refused { text: Arc<str> },
}

impl Drivers {
    /// None, ever: for a node that is not asked to look for any.
    pub fn none() -> Arc<Self> {
        Arc::new(Self { calls: None, registered: RwLock::default(), deadline: DEADLINE_DEFAULT })
    }

    /// Looks for drivers in a directory from now on, and tells what becomes of them.
    pub(crate) fn begin(
        registry: &Path,
        deadline: Duration,
        tell: impl Fn(News) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let (stop, mut stopped) = watch::channel(());
        let settings = registration::Settings::new(registry);
        // All of it happens on a thread of its own: whoever calls this may be within a runtime, where nothing may block.
        let (begun, beginning) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(begun.send(Err(error))),
            };
            runtime.block_on(async move {
                let watched = registration::watch(settings);
                let _ = begun.send(watched.map(|news| (runtime::Handle::current(), news)));
                // Calls hold on to the drivers, so none is under way when this ends.
                let _ = stopped.changed().await;
            });
        };
        std::thread::Builder::new().name("windlass-csi".into()).spawn(run)?;
        let (runtime, mut news) = beginning.recv().map_err(io::Error::other)??;
        let calls = Some(Calls { runtime: runtime.clone(), _stop: stop });
        let drivers = Arc::new(Self { calls, registered: RwLock::default(), deadline });
        let known = Arc::downgrade(&drivers);
        runtime.spawn(async move {
            while let Some(next) = news.recv().await
                && let Some(drivers) = known.upgrade()
            {
                if let Some(next) = drivers.take_in(next) {
                    tell(next);
                }
            }
        });
        Ok(drivers)
    }

    fn take_in(&self, news: registration::News) -> Option<News> {
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        Some(match news {
            registration::News::Registered { driver, info, capabilities, .. } => {
                let name: Arc<str> = driver.name().into();
                let (since, topology) = (SystemTime::now(), info.topology.clone());
                registered.insert(name.to_string(), Registered { driver, capabilities, info, since });
                News::Registered { name, capabilities, topology }
            }
            registration::News::Unregistered { name, .. } => {
                registered.remove(&*name)?;
                News::Unregistered { name }
            }
            registration::News::Refused { socket, text, .. } => {
                News::Refused { text: format!("{}: {text}", socket.display()).into() }
            }
        })
    }

    /// All that are registered, by name.
    pub fn all(&self) -> Vec<Registered> {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// A driver, if it is registered.
    pub fn get(&self, name: &str) -> Result<Registered, Failure> {
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        registered.get(name).cloned().ok_or_else(|| {
            let text = format!("driver name {name} not found in the list of registered CSI drivers");
            Failure::refused(Cause::Driver, text)
        })
    }

    /// Waits for the end of a call.
    pub(crate) fn wait<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        match &self.calls {
            Some(calls) => calls.runtime.block_on(call),
            // Nobody is registered, so there is nobody to call.
            None => unreachable!("a driver was called on a node that has none"),
        }
    }
}
