//! The real engine of windlass in a simulated node that tries to break it.
//!
//! One seed is one node's life. The seed becomes a [`script`] of what is done to the node from outside; the [`world`]
//! plays it against a simulated kernel, disk, drivers, sources and attacher, with the engine's operations run one small
//! step at a time; the [`checks`] look after every step whether a promise of `windlass_core` was broken. When the script
//! ends, so does all trouble, and the node must settle: everything wanted is mounted, nothing unwanted is left.
//!
//! The same seed always gives the same life. A life that breaks a promise is made shorter by [`minimise`] until only the
//! entries are left that are needed to break it.

pub mod rng;

pub mod faults;
mod plot;
pub mod script;
pub mod setting;
pub mod trace;

pub mod apiserver;
pub mod attacher;
mod calls;
pub mod conditions;
pub mod delivery;
pub mod disk;
pub mod driver;
pub mod edge;
pub mod executor;
pub mod kernel;
pub mod process;
pub mod source;
mod start;
mod stimuli;

pub mod checks;
pub mod describe;
pub mod life;
pub mod world;

pub mod campaign;
pub mod demo;
pub mod kill_points;
pub mod minimise;
pub mod recorded;
