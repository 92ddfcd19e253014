//! How messages that carry secrets are shown: with the secrets' keys and without their values (I-12).

use std::collections::BTreeMap;
use std::fmt;

use super::csi;

/// Shows what keys there are.
struct Keys<'a>(&'a BTreeMap<String, String>);

impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.keys().map(|key| (key, format_args!("…")))).finish()
    }
}

macro_rules! redacted {
    ($($message:ident { $($field:ident),* } hiding $($secret:ident),*;)*) => {
        $(impl fmt::Debug for csi::$message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // By pattern, so that a new field cannot be forgotten.
                let Self { $($field,)* $($secret),* } = self;
                f.debug_struct(stringify!($message))
                    $(.field(stringify!($field), $field))*
                    $(.field(stringify!($secret), &Keys($secret)))*
                    .finish()
            }
        })*
    };
}

redacted! {
    CreateVolumeRequest {
        name, capacity_range, volume_capabilities, parameters, volume_content_source, accessibility_requirements,
        mutable_parameters
    } hiding secrets;
    DeleteVolumeRequest { volume_id } hiding secrets;
    ControllerPublishVolumeRequest { volume_id, node_id, volume_capability, readonly, volume_context } hiding secrets;
    ControllerUnpublishVolumeRequest { volume_id, node_id } hiding secrets;
    ValidateVolumeCapabilitiesRequest {
        volume_id, volume_context, volume_capabilities, parameters, mutable_parameters
    } hiding secrets;
    ControllerExpandVolumeRequest { volume_id, capacity_range, volume_capability } hiding secrets;
    ControllerModifyVolumeRequest { volume_id, mutable_parameters } hiding secrets;
    NodeStageVolumeRequest {
        volume_id, staging_target_path, volume_capability, volume_context
    } hiding publish_context, secrets;
    // Tokens of service accounts come in the volume's context (C-87).
    NodePublishVolumeRequest {
        volume_id, staging_target_path, target_path, volume_capability, readonly
    } hiding publish_context, secrets, volume_context;
    NodeExpandVolumeRequest {
        volume_id, volume_path, capacity_range, staging_target_path, volume_capability
    } hiding secrets;
}

#[cfg(test)]
mod tests {
    use super::csi::{NodePublishVolumeRequest, NodeStageVolumeRequest};

    #[test]
    fn secrets_and_tokens_are_not_shown_but_their_keys_are() {
        let hidden = || [("password".to_string(), "swordfish".to_string())].into();
        let stage = NodeStageVolumeRequest { volume_id: "v".into(), secrets: hidden(), ..Default::default() };
        let publish = NodePublishVolumeRequest { volume_context: hidden(), ..Default::default() };
        let shown = format!("{stage:?} {publish:#?}");
        assert!(shown.contains("password") && shown.contains("volume_id: \"v\""), "{shown}");
        assert!(!shown.contains("swordfish"), "{shown}");
    }
}
