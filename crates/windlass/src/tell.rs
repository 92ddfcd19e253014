//! What pods' owners should know: the kubelet's events, with its reasons and texts (P-48, E-300..E-309).

use std::{fmt, sync::Arc};

use windlass_core::ids::PodUid;

/// Something that happened to a pod or its volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The pod.
    pub pod: PodUid,
    /// Good or bad news.
    pub tone: Tone,
    /// The kubelet's word for it, for example `FailedMount`.
    pub reason: &'static str,
    /// What happened.
    pub message: Arc<str>,
}

/// Good or bad news.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl fmt::Display for Tone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// Takes events to whoever listens.
#[derive(Clone)]
pub struct Tell(Arc<dyn Fn(Event) + Send + Sync>);

impl Tell {
    /// Events go to this function, which must not block.
    pub fn new(listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Good news.
    pub fn normal(&self, pod: &PodUid, reason: &'static str, message: impl Into<Arc<str>>) {
        (self.0)(Event { pod: pod.clone(), tone: Tone::Normal, reason, message: message.into() });
    }

    /// Bad news.
    pub fn warning(&self, pod: &PodUid, reason: &'static str, message: impl Into<Arc<str>>) {
        (self.0)(Event { pod: pod.clone(), tone: Tone::Warning, reason, message: message.into() });
    }
}

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}
