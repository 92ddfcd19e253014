//! The one source of pods that most of these tests need.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use windlass::Node;
use windlass::node::PodError;
use windlass::source::{Containers, Source};
use windlass_core::ids::PodUid;

/// A node that is given pods by a test.
pub(crate) trait Giving {
    fn test(&self) -> Source;

    fn add_pod(&self, pod: impl Into<Arc<api::Pod>>) -> Result<PodUid, PodError> {
        self.test().apply(pod)
    }

    fn remove_pod(&self, pod: &PodUid) {
        self.test().gone(pod, Containers::Stopped);
    }

    fn complete(&self) {
        self.test().complete();
    }
}

impl Giving for Node {
    fn test(&self) -> Source {
        self.source("test")
    }
}
