//! Serves what a node shows: HTTP and JSON on a unix socket, Kubernetes-style objects, watches as streams.
//!
//! `docs/api.md` tells how to use it and [`crate::OPENAPI`], which is served, is the contract. What is answered comes from a
//! [`Backend`]; events come from a [`Journal`]. Nothing here blocks, so that all of it can run on one thread.

mod backend;
mod caller;
mod connections;
mod endpoint;
mod journal;
mod places;
mod query;
mod routes;
mod seen;
mod socket;
mod stall;
#[cfg(test)]
mod tests;
mod watch;

pub use backend::{Backend, Changes, Pods, Readiness, Touched};
pub use connections::{Limits, serve, serve_metrics};
pub use journal::Journal;
pub use socket::{Error, SocketFile, bind, check, make_directory};
