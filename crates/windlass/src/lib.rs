//! The kubelet's volume manager on its own.
//!
//! So far this crate turns pods and the objects they name into the wants of the engine, [`windlass_core`]. It is pure:
//! [`resolve`] asks [`objects`] and touches nothing else.

pub mod resolve;

pub mod catalogue;
pub mod defaults;
pub mod quantity;

pub mod memory;
pub mod objects;

mod fingerprint;
