//! What the tests of windlass stand on. Integration tests use it; no program does.
//!
//! Everything that a test makes goes with it, also when it fails: mounts with a namespace, loop devices, processes and
//! servers when their values are dropped. Nothing here sleeps: whoever waits is woken by the kernel, or says after a minute
//! what did not come.

pub mod harness;
pub mod namespace;

pub mod directory;
pub mod disk;
pub mod process;
pub mod silent;
pub mod wait;

pub mod daemon;
pub mod scripted;
pub mod server;
