//! What a pod may cost: what it was counted to cost, and a little more.

/// On the way up and on the way down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) up: f64,
    pub(crate) down: f64,
}

/// System calls of all threads that do not depend on how the scheduler or the allocator does its work.
pub(crate) const CALLS: Limits = Limits { up: 167.0, down: 91.0 };

/// Allocations and reallocations of all threads.
pub(crate) const ALLOCATIONS: Limits = Limits { up: 645.0, down: 310.0 };

/// Times that a thread went to sleep, of a pod that comes and goes alone. Threads that meet can do with fewer or need more.
pub(crate) const WAKE_UPS: Limits = Limits { up: 26.0, down: 30.0 };

/// Worker threads at a time, on a machine with so many processors.
pub(crate) const fn threads(processors: usize) -> usize {
    16 + 2 * processors
}
