//! What a pod may cost: what it was counted to cost, and a little more.

/// On the way up and on the way down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) up: f64,
    pub(crate) down: f64,
}

/// System calls of all threads that do not depend on how the scheduler or the allocator does its work.
/// On the way down each file is taken aside before it is removed, and its directory is looked up again in between (I-5):
/// 17 calls for the nine files of a config map, and without them a directory that is moved away is emptied at its new place.
pub(crate) const CALLS: Limits = Limits { up: 100.0, down: 101.0 };

/// The same, of a start that finds a pod as its records say.
pub(crate) const START_CALLS: f64 = 27.0;

/// Allocations and reallocations of all threads. Some ten on the way up are for the records of file systems in memory before
/// they are mounted (I-4).
pub(crate) const ALLOCATIONS: Limits = Limits { up: 660.0, down: 310.0 };

/// Times that a thread went to sleep, of a pod that comes and goes alone. Threads that meet can do with fewer or need more.
pub(crate) const WAKE_UPS: Limits = Limits { up: 26.0, down: 30.0 };

/// Worker threads at a time, on a machine with so many processors: those that take volumes away, those that make them and the
/// directories of pods, and those that take over from others that have become slow.
pub(crate) const fn threads(processors: usize) -> usize {
    16 + 3 * processors
}
