//! SELinux labels (E-80..E-88): which label a pod's use of a volume asks for, and what pods that share a volume may ask for.
//!
//! Translating container options into labels needs the system's defaults and happens outside; the rules stand here.

use alloc::sync::Arc;

/// The label that one pod's use of a volume asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// The label the pod would have, empty if none (E-84, original).
    pub original: Option<Arc<str>>,
    /// Whether the volume is mounted with it (E-83). If not, it only counts for warnings.
    pub enforced: bool,
}

impl Wish {
    /// The label the volume is mounted with (E-84, effective).
    pub fn effective(&self) -> Option<&Arc<str>> {
        self.original.as_ref().filter(|_| self.enforced)
    }

    /// May a pod with this wish use the volume at the same time as one with `other` (E-87)?
    pub fn agrees_with(&self, other: &Self) -> bool {
        !(self.enforced || other.enforced) || self.original == other.original
    }
}
