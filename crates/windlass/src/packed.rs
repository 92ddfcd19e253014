//! A pod at rest.
//!
//! The API's types have room for everything that a pod could say, most of it unused: a pod of four volumes and a kilobyte
//! of text takes twenty kilobytes. A node has many pods, keeps each for as long as it lives and looks into it only when it
//! has something to do for it. So it keeps the text, and whoever works with the pod has it open.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use k8s_openapi::api::core::v1::Pod;

/// A pod that takes as much memory as it says. Two are equal if they say the same.
#[derive(Clone)]
pub(crate) struct Packed(Arc<Inner>);

struct Inner {
    text: Box<[u8]>,
    open: Mutex<Open>,
}

enum Open {
    /// It is kept open here.
    Kept(Arc<Pod>),
    /// It is open while anybody else has it.
    Lent(Weak<Pod>),
}

impl Packed {
    /// Packs a pod, and keeps it open.
    pub(crate) fn new(pod: Arc<Pod>) -> Self {
        // It fails only for maps whose keys are no text, and a pod has none.
        let text = serde_json::to_vec(&*pod).unwrap_or_default();
        Self(Arc::new(Inner { text: text.into(), open: Mutex::new(Open::Kept(pod)) }))
    }

    /// The pod, the same one for all who have it open at a time. What was written here can be read; if it could not, the pod
    /// would be as unknown as one that was not given.
    pub(crate) fn open(&self) -> Option<Arc<Pod>> {
        let mut open = self.lock();
        let lent = match &*open {
            Open::Kept(pod) => return Some(pod.clone()),
            Open::Lent(pod) => pod.upgrade(),
        };
        // Under the lock, so that whoever comes meanwhile has the same one.
        let pod = lent.or_else(|| serde_json::from_slice(&self.0.text).ok().map(Arc::new))?;
        *open = Open::Lent(Arc::downgrade(&pod));
        Some(pod)
    }

    /// Its text, as JSON.
    pub(crate) fn text(&self) -> &[u8] {
        &self.0.text
    }

    /// Keeps it open, as somebody has it.
    pub(crate) fn keep(&self, pod: Arc<Pod>) {
        *self.lock() = Open::Kept(pod);
    }

    /// Keeps it open no longer than others do.
    pub(crate) fn lend(&self) {
        let mut open = self.lock();
        if let Open::Kept(pod) = &*open {
            let lent = Open::Lent(Arc::downgrade(pod));
            *open = lent;
        }
    }

    /// Lets go of the memory of a pod that was lent and that nobody has any more.
    pub(crate) fn rest(&self) {
        let mut open = self.lock();
        if let Open::Lent(pod) = &*open
            && pod.strong_count() == 0
        {
            *open = Open::Lent(Weak::new());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing that can panic leaves it half changed.
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl fmt::Debug for Packed {
    /// Not its text, which may hold what is not to be printed (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("bytes", &self.0.text.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{self as json, json};

    fn pod() -> Arc<Pod> {
        let value = json!({
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d\ne"},
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            },
            "spec": {
                "securityContext": {"fsGroup": 7, "supplementalGroups": []},
                "containers": [{
                    "name": "c", "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}},
                    "livenessProbe": {"httpGet": {"port": "web", "path": "/"}},
                    "ports": [{"containerPort": 80}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": true}],
                }],
                "volumes": [
                    {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                    {"name": "w", "projected": {"defaultMode": 420, "sources": [
                        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                        {"configMap": {"name": "m", "items": [{"key": "k", "path": "p", "mode": 256}]}},
                        {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    ]}},
                    {"name": "x", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}},
                ],
            },
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
        });
        let mut pod = json::from_value(value).unwrap();
        crate::defaults::pod(&mut pod);
        Arc::new(pod)
    }

    #[test]
    fn what_is_packed_comes_back_as_it_was() {
        let pod = pod();
        let packed = Packed::new(pod.clone());
        packed.rest();
        assert!(Arc::ptr_eq(&packed.open().unwrap(), &pod), "it is kept open");
        packed.lend();
        packed.rest();
        assert!(Arc::ptr_eq(&packed.open().unwrap(), &pod), "it is open still");
        let as_it_was = Pod::clone(&pod);
        drop(pod);
        packed.rest();
        let again = packed.open().unwrap();
        assert_eq!(*again, as_it_was);
        assert!(Arc::ptr_eq(&packed.open().unwrap(), &again), "it is opened once for all");
        assert_eq!(Packed::new(again), packed);
    }

    #[test]
    fn what_is_packed_is_small() {
        let packed = Packed::new(pod());
        assert!(packed.0.text.len() < size_of::<Pod>(), "{packed:?}");
    }
}
