//! The kubelet's volume manager on its own.
//!
//! [`Node`] is where to begin: it is given pods and the objects they name, mounts their volumes, keeps them current and
//! takes them away again. It decides with [`windlass_core`] and touches the system with [`windlass_linux`]; the volume
//! types stand between them, a file each, in [`plugin`].

pub mod node;
pub use node::Node;

pub mod plugin;

pub mod payload;
pub mod token;

pub mod resolve;

pub mod catalogue;
pub mod defaults;
pub mod manifest;
pub mod quantity;

pub mod memory;
pub mod objects;

pub mod layout;
pub mod record;
pub mod tell;

mod drive;
mod executor;
mod fingerprint;
mod reconstruct;
