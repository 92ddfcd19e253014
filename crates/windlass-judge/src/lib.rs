//! A CSI driver that judges its orchestrator.
//!
//! It registers as any driver does, serves volumes that cost nothing, and looks at every call: whether it comes in order,
//! alone, with the right paths, within what the driver can do, and the same when it is repeated. It plays faults when it is
//! told to, and looks at what is made of an outcome that is open. In the end it says what it found ([`Verdict`]).
//!
//! The judging is pure: [`Judge`] takes calls and their ends as data and gives opinions; it knows no socket and no clock.
//! To read it, start with [`rule`], [`call`] and [`judge`](Judge); `check/` has a file for each kind of rule. [`serve`] is
//! the driver around it, and does what the judge does not refuse.
//!
//! What is typed, signals, and how a verdict is printed are for others.

pub mod call;
pub mod rule;

pub mod fault;
pub mod settings;

mod check;
mod judge;
mod volume;

pub mod verdict;

pub mod serve;

pub use judge::{Begun, Judge, News, Refusal};
pub use verdict::Verdict;
