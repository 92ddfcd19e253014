//! The kubelet's volume manager on its own.
//!
//! [`Node`] is where to begin: it is given pods and the objects they name, mounts their volumes, keeps them current and
//! takes them away again. It decides with [`windlass_core`] and touches the system with [`windlass_linux`]; the volume
//! types stand between them, a file each, in [`plugin`].
//!
//! ```no_run
//! use std::time::Duration;
//! use windlass::{Node, manifest::{self, Document}};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::builder("/var/lib/example").node_name("node-1").start()?;
//! let source = node.source("manifests");
//!
//! let manifests = std::fs::read("web.yaml")?;
//! let mut pods = Vec::new();
//! for document in manifest::read(&manifests)? {
//!     match document {
//!         Document::Pod(pod) => pods.push(source.apply(*pod)?),
//!         Document::Object(object) => node.update_object(object),
//!         Document::Other(other) => eprintln!("skipped: {other}"),
//!     }
//! }
//! // That was all: what is on disk of other pods may go.
//! source.complete();
//!
//! for pod in &pods {
//!     for volume in node.ready(pod).await? {
//!         println!("{} is at {:?}, read-only: {}", volume.name, volume.path, volume.read_only);
//!     }
//! }
//! // Ends in order and leaves the volumes mounted; the next start finds them.
//! node.stop(Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A pod whose volumes do not come says why: [`Node::explain`]. One that has gone is told by
//! [`Source::gone`](source::Source::gone), and [`Node::gone`] waits until nothing of it is left.

pub mod node;
pub use node::Node;

pub mod observe;
pub mod view;

#[cfg(feature = "server")]
pub mod backend;
#[cfg(feature = "metrics")]
pub mod metrics;

pub mod source;

pub mod measuring;
pub mod plugin;

pub mod payload;
pub mod token;

pub mod resolve;

pub mod catalogue;
pub mod csi;
pub mod defaults;
pub mod manifest;
pub mod quantity;
pub mod validate;

pub mod memory;
pub mod objects;

pub mod layout;
pub mod record;
pub mod tell;

#[doc(hidden)]
pub mod fuzzing;

mod drive;
mod executor;
mod fingerprint;
mod packed;
mod provision;
mod reconstruct;
mod task;
mod under_way;
