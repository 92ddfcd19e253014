//! What a pod may cost: what it was counted to cost, and a little more.

/// On the way up and on the way down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) up: f64,
    pub(crate) down: f64,
}

/// System calls of all threads but those that only wait for each other, which differ from run to run.
pub(crate) const CALLS: Limits = Limits { up: 600.0, down: 600.0 };

/// Allocations and reallocations of all threads.
pub(crate) const ALLOCATIONS: Limits = Limits { up: 2000.0, down: 2000.0 };

/// Times that a thread went to sleep, of a pod that comes and goes alone.
pub(crate) const WAKE_UPS: Limits = Limits { up: 100.0, down: 100.0 };

/// Worker threads at a time.
pub(crate) const THREADS: usize = 40;
