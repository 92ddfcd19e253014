//! What windlass shows of a node, for those who ask it and for those who serve it.
//!
//! - [`view`]: the objects, plain types for serde. Nothing else is needed to read or to write them.
//! - `client` (feature `client`, on by default): asks a daemon on its socket.
//! - `server` (feature `server`): answers on a socket, for whatever implements its `Backend`.
//! - [`paths`]: where things are asked for; [`OPENAPI`]: all of it as a document, made from the types.

pub mod paths;
pub mod view;

#[cfg(feature = "client")]
pub mod client;

#[cfg(feature = "server")]
pub mod server;

#[cfg(test)]
mod tests;

/// Where the resources are.
pub const BASE: &str = "/apis/windlass/v1alpha1";

/// The contract, as the server sends it and as it lies in `docs/openapi.json`.
pub const OPENAPI: &str = include_str!("../openapi.json");
