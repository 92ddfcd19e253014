//! CSI as windlass speaks it.
//!
//! [`proto`] has the messages and services, from definitions of our own with the field numbers of CSI v1.12 and of plugin
//! registration v1. What carries secrets does not show them (I-12). [`Driver`] makes the calls, and says of each that
//! failed what that means: refused, never sent, or unknown ([`End`]). [`registration`] finds drivers by the sockets on
//! which they introduce themselves.
//!
//! What a volume is, who wants it and what is done next is not known here, and nothing here is kept on disk.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use windlass_csi::{End, Driver, Limits, proto::csi};
//!
//! # async fn example() {
//! let driver = Driver::new("disks.example.com", "/run/disks/csi.sock", Limits::default());
//! let request = csi::NodeUnpublishVolumeRequest { volume_id: "disk-7".into(), target_path: "/mnt/disk-7".into() };
//! match driver.unpublish(request, Duration::from_secs(120)).await {
//!     Ok(()) => println!("gone"),
//!     Err(error) => match error.end {
//!         End::Final => println!("still there: {error}"),
//!         End::NotSent => println!("nothing has changed, for the driver is away: {error}"),
//!         End::Unknown => println!("perhaps gone, perhaps not: {error}"),
//!     },
//! }
//! # }
//! ```

pub mod proto;

mod error;
mod text;

mod call;
mod connection;

mod capabilities;
mod client;
mod endpoint;
mod name;
mod observer;
mod shared_answer;

pub mod registration;

#[doc(hidden)]
pub mod fuzzing;

#[cfg(feature = "server")]
mod socket;

pub use capabilities::{ControllerCapabilities, NodeCapabilities, PluginCapabilities};
pub use client::{Driver, Limits, NodeInfo, PluginInfo};
pub use endpoint::Endpoint;
pub use error::{CallError, End};
pub use name::{NameError, check_name, registration_socket};
pub use observer::{Called, Observer};
#[cfg(feature = "server")]
pub use socket::{Socket, SocketError, SocketFile};
pub use tonic::Code;
