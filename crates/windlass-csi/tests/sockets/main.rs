//! The client and the registration against servers on real unix sockets.

mod calls;
mod driver;
mod questions;
mod registrar;
mod registration;
mod transport;
