//! The engine of windlass: it knows what pods want and what the node holds, and decides the next step for each volume.
//!
//! It does no IO, knows no clock and no async. Facts go in as [`Event`]s, work comes out as [`Operation`]s, and
//! [`Engine::deadline`] says when it wants to be woken. To read it, start with [`event`], [`operation`] and `plan.rs`; what
//! whoever runs an operation does around its call is [`flight`].
#![no_std]

extern crate alloc;

pub mod event;
pub mod flight;
pub mod operation;
pub mod spec;

mod engine;
mod plan;

mod actual;
mod desired;
mod world;

mod facts;
mod hold;
mod outcome;
mod pods;
mod recover;
mod waits;

pub mod backoff;
pub mod expand;
pub mod label;
pub mod step;

pub mod answer;
pub mod notice;
pub mod oddity;
pub mod reason;
pub mod recording;
pub mod snapshot;
pub mod tally;

mod explain;
mod view;

pub mod ids;
mod table;
mod titles;
mod turns;

pub use engine::{Config, Engine, Planning};
pub use event::Event;
pub use operation::Operation;
