//! The engine of windlass: it knows what pods want and what the node holds, and decides the next step for each volume.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod answer;
pub mod backoff;
pub mod event;
pub mod expand;
pub mod ids;
pub mod label;
pub mod notice;
pub mod oddity;
pub mod operation;
pub mod reason;
pub mod snapshot;
pub mod spec;
pub mod step;

mod engine;
pub use engine::{Config, Engine, Planning};
pub use event::Event;
pub use operation::Operation;
