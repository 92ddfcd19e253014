//! The API: HTTP and JSON on a unix socket, Kubernetes-style objects, watches as streams.
//!
//! `docs/api.md` tells how to use it and `docs/openapi.json`, which is served, is the contract. The objects themselves are
//! `windlass_api::view`'s. Everything runs on the daemon's one runtime thread, so nothing here blocks.

mod caller;
mod connections;
mod places;
mod query;
mod routes;
mod seen;
mod socket;
mod stall;
mod statistics;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use connections::{Limits, serve};
pub(crate) use socket::{bind, check, make_directory};

/// Where the resources are.
pub(crate) const BASE: &str = "/apis/windlass/v1alpha1";

/// The contract, as it is served.
pub(crate) const OPENAPI: &str = include_str!("../../../docs/openapi.json");
