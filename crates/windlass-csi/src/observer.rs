//! Who is told of every call of a driver, for whoever counts them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::Code;

/// A call of a driver that has come to an end, sent or not.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    /// The driver's name.
    pub driver: &'a Arc<str>,
    /// What was called, for example `/csi.v1.Node/NodeStageVolume`.
    pub method: &'static str,
    /// How it ended: what the driver said, or what gRPC calls it that nothing came of it.
    pub code: Code,
    /// How long it took.
    pub took: Duration,
}

/// Is told of calls that have ended, where they end: it must not block. The default is told and does nothing.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Told>>);

type Told = dyn Fn(&Called<'_>) + Send + Sync;

impl Observer {
    /// Somebody who does this with every call.
    pub fn new(told: impl Fn(&Called<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }

    pub(crate) fn tell(&self, called: &Called<'_>) {
        if let Some(told) = &self.0 {
            told(called);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").finish_non_exhaustive()
    }
}
