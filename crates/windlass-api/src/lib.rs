//! What windlass shows of a node.

pub mod paths;
pub mod view;

#[cfg(feature = "client")]
pub mod client;
