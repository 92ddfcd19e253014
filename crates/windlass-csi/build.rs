//! Generates the messages and services of `proto/`. Nothing generated is kept, and no `protoc` is needed.

use std::error::Error;

/// Messages that carry secrets. Their text for people is written by hand, in `redacted.rs`.
const SECRET: &[&str] = &[
    "csi.v1.CreateVolumeRequest",
    "csi.v1.DeleteVolumeRequest",
    "csi.v1.ControllerPublishVolumeRequest",
    "csi.v1.ControllerUnpublishVolumeRequest",
    "csi.v1.ValidateVolumeCapabilitiesRequest",
    "csi.v1.ControllerExpandVolumeRequest",
    "csi.v1.ControllerModifyVolumeRequest",
    "csi.v1.NodeStageVolumeRequest",
    "csi.v1.NodePublishVolumeRequest",
    "csi.v1.NodeExpandVolumeRequest",
];

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["proto/csi.proto", "proto/registration.proto"];
    for file in files {
        println!("cargo::rerun-if-changed={file}");
    }
    let mut config = tonic_prost_build::Config::new();
    config.btree_map(["."]).skip_debug(SECRET);
    tonic_prost_build::configure()
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .build_transport(false)
        .compile_fds_with_config(protox::compile(files, ["proto"])?, config)?;
    Ok(())
}
