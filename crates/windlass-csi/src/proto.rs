//! The messages and services, generated from `proto/` when the crate is built.

mod redacted;

/// CSI: package `csi.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod csi {
    tonic::include_proto!("csi.v1");
}

/// How a plugin introduces itself to the node: package `pluginregistration`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod registration {
    tonic::include_proto!("pluginregistration");
}
