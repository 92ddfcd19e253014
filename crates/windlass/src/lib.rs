//! The kubelet's volume manager on its own: pods and the objects they name in, mounted volumes out.
//!
//! [`Node`] is where to begin. A program gives it pods and objects, awaits the volumes, and gets paths back for its
//! containers. All work is done on threads of the node's own, and whatever is awaited can be awaited on any runtime. What is
//! to be named in all of this is in this crate: [`k8s_openapi`] too, whose version of the API the program chooses by a
//! feature such as `v1_37`.
//!
//! # Give a pod, await it
//!
//! ```no_run
//! use std::time::Duration;
//! use windlass::{Node, manifest::{self, Document}};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::builder("/var/lib/example").node_name("node-1").start()?;
//! let source = node.source("manifests");
//!
//! let mut pods = Vec::new();
//! for document in manifest::read(&std::fs::read("web.yaml")?)? {
//!     match document {
//!         Document::Pod(mut pod) => {
//!             // Manifests rarely have a UID; this one follows from the pod's name.
//!             manifest::give_uid(&mut pod);
//!             pods.push(source.apply(*pod)?);
//!         }
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
//! [`Node::ready`] waits through any trouble, for any time. An object that changes is given again, and exactly the volumes
//! that show it follow, a moment later: while one does, [`Node::explain`] has something to say of its pod, and whenever that
//! may have changed there is a [`Change`](node::Change). A volume that no container mounts is not made. A pod that has gone is told by [`Source::gone`](source::Source::gone), and [`Node::gone`] waits
//! until nothing of it is left.
//!
//! # Ask what waits
//!
//! Whatever is not settled says why: a chain of reasons with stable codes, the deepest cause last.
//!
//! ```no_run
//! # async fn example(node: windlass::Node, pod: windlass::ids::PodUid) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! if let Err(error) = node.sync(&pod, Duration::from_secs(120)).await {
//!     eprintln!("{error}");
//!     for volume in node.explain(&pod).await? {
//!         for reason in &volume.reasons {
//!             eprintln!("{}: {}: {} ({})", volume.volume, reason.code, reason.text, reason.code.remedy());
//!         }
//!     }
//!     if error.is_final() {
//!         // To wait longer is of no use: the pod has to be another, or the node has ended.
//!         return Err(error.into());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Have several sources
//!
//! A pod is its source's. Nothing that is found on disk goes before every source is complete, so announce all of them first;
//! one that cannot be read any more is lost, and what it gave stays.
//!
//! ```no_run
//! # fn example(node: windlass::Node, pod: windlass::k8s_openapi::api::core::v1::Pod) -> Result<(), Box<dyn std::error::Error>> {
//! use std::path::Path;
//! use windlass::source::{Containers, directory::Directory};
//!
//! let own = node.source("agent");
//! let _manifests = Directory::watch(Path::new("/etc/example/manifests"), &node)?;
//!
//! let uid = own.apply(pod)?;
//! own.complete();
//! // Later: its containers are stopped, so its volumes may go.
//! own.gone(&uid, Containers::Stopped);
//! // Or: nobody can say for the moment which pods there are.
//! own.lost("the server does not answer");
//! # Ok(())
//! # }
//! ```
//!
//! # Give tokens
//!
//! A projected volume may show tokens of a service account. Whoever implements [`token::Provider`] gives them; where there
//! is no API server, a key of one's own signs them.
//!
//! ```no_run
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass::{Node, token::LocalIssuer};
//!
//! let key = std::fs::read_to_string("/etc/example/signing-key.pem")?;
//! let issuer = LocalIssuer::new("https://node-1.example", "https://node-1.example", &key)?;
//! let node = Node::builder("/var/lib/example").token_provider(issuer).start()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Watch what happens
//!
//! ```no_run
//! # async fn example(node: windlass::Node) {
//! use windlass::node::Change;
//!
//! let mut changes = node.changes();
//! while let Some(change) = changes.next().await {
//!     match change {
//!         Change::Volume { volume, pod: Some(pod), code } => println!("{volume} in {pod}: {code}"),
//!         Change::Event(event) => println!("{} {}: {}", event.tone, event.reason, event.message),
//!         Change::PodReleased(pod) => println!("nothing of {pod} is left"),
//!         Change::Missed(count) => println!("{count} changes were missed"),
//!         _ => {}
//!     }
//! }
//! // The node has ended: because somebody stopped it, or because it broke off, which is a defect.
//! eprintln!("{}", node.ended().await);
//! # }
//! ```
//!
//! # What is where
//!
//! | Module | |
//! |---|---|
//! | [`node`] | the node: how it is started, what it is asked, what it tells |
//! | [`source`] | where pods come from: the handle of a source, and a directory of manifests as one |
//! | [`manifest`] | YAML and JSON become pods and objects; what is wrong with them |
//! | [`token`] | who gives tokens of service accounts |
//! | [`statistics`] | how full volumes are |
//! | [`ids`] | the types of names |
//! | [`view`] | what is shown of a node: the types of the API, which the `show_*` questions answer with |
//!
//! With the feature `server` there is also `backend`: a node as the API's server shows it on a socket; with the feature
//! `metrics` there is `metrics`: what is counted of it, as Prometheus reads it.

pub use k8s_openapi;

pub mod node;
pub use node::Node;

pub mod source;

pub mod manifest;
pub mod token;

pub mod ids;
pub mod statistics;
pub mod view;

#[cfg(feature = "server")]
pub mod backend;
#[cfg(feature = "metrics")]
pub mod metrics;

#[doc(hidden)]
pub mod inner;

mod drive;

mod executor;
mod observe;
mod reconstruct;
mod task;
mod under_way;

mod catalogue;
mod csi;
mod plugin;

mod measuring;
mod payload;
mod provision;
mod resolve;

mod defaults;
mod memory;
mod objects;
mod packed;
mod quantity;
mod validate;

mod fingerprint;
mod layout;
mod record;
mod tell;
