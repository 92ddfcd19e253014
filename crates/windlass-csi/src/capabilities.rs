//! What a driver can do, as it says itself.
//!
//! What is not known here is left out: a driver may be newer than we are.

use crate::proto::csi;

macro_rules! capabilities {
    ($(#[$of:meta])* $name:ident from $types:ty { $($(#[$what:meta])* $field:ident = $variant:ident,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$what])* pub $field: bool,)*
        }

        impl $name {
            fn add(&mut self, number: i32) {
                $(if number == <$types>::$variant as i32 {
                    self.$field = true;
                })*
            }
        }
    };
}

capabilities! {
    /// What the driver's node service can do (C-51).
    NodeCapabilities from csi::node_service_capability::rpc::Type {
        /// Volumes are staged before they are published.
        stage_unstage = StageUnstageVolume,
        /// It tells how full a volume is.
        volume_stats = GetVolumeStats,
        /// Volumes can grow on the node.
        expand = ExpandVolume,
        /// It tells whether a volume is well.
        volume_condition = VolumeCondition,
        /// It knows the access modes that tell one writer on a node from many (C-50).
        single_node_multi_writer = SingleNodeMultiWriter,
        /// It gives the volume to a group itself.
        volume_mount_group = VolumeMountGroup,
    }
}

capabilities! {
    /// What the driver's controller service can do.
    ControllerCapabilities from csi::controller_service_capability::rpc::Type {
        /// Volumes can be made and deleted.
        create_delete = CreateDeleteVolume,
        /// Volumes are attached to nodes.
        publish_unpublish = PublishUnpublishVolume,
        /// It tells what volumes there are.
        list_volumes = ListVolumes,
        /// It tells how much room there is.
        get_capacity = GetCapacity,
        /// Volumes can be made from volumes.
        clone_volume = CloneVolume,
        /// Volumes can be attached read-only.
        publish_readonly = PublishReadonly,
        /// Volumes can grow.
        expand = ExpandVolume,
        /// Its list tells where volumes are attached.
        list_volumes_published_nodes = ListVolumesPublishedNodes,
        /// It tells whether a volume is well.
        volume_condition = VolumeCondition,
        /// It tells of one volume.
        get_volume = GetVolume,
        /// It knows the access modes that tell one writer on a node from many (C-50).
        single_node_multi_writer = SingleNodeMultiWriter,
        /// Volumes can be changed.
        modify_volume = ModifyVolume,
    }
}

/// What services and ways of growing the driver as a whole has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PluginCapabilities {
    /// There is a controller service.
    pub controller_service: bool,
    /// Volumes cannot be reached from everywhere.
    pub accessibility_constraints: bool,
    /// Volumes can grow while they are published.
    pub expand_online: bool,
    /// Volumes can grow while they are not published.
    pub expand_offline: bool,
}

impl From<&csi::NodeGetCapabilitiesResponse> for NodeCapabilities {
    fn from(answer: &csi::NodeGetCapabilitiesResponse) -> Self {
        let mut found = Self::default();
        for it in &answer.capabilities {
            // One that says nothing is passed over (C-47).
            if let Some(csi::node_service_capability::Type::Rpc(rpc)) = &it.r#type {
                found.add(rpc.r#type);
            }
        }
        found
    }
}

impl From<&csi::ControllerGetCapabilitiesResponse> for ControllerCapabilities {
    fn from(answer: &csi::ControllerGetCapabilitiesResponse) -> Self {
        let mut found = Self::default();
        for it in &answer.capabilities {
            if let Some(csi::controller_service_capability::Type::Rpc(rpc)) = &it.r#type {
                found.add(rpc.r#type);
            }
        }
        found
    }
}

impl From<&csi::GetPluginCapabilitiesResponse> for PluginCapabilities {
    fn from(answer: &csi::GetPluginCapabilitiesResponse) -> Self {
        use csi::plugin_capability::{Type, service, volume_expansion};
        let mut found = Self::default();
        for it in &answer.capabilities {
            match &it.r#type {
                Some(Type::Service(it)) => {
                    found.controller_service |= it.r#type == service::Type::ControllerService as i32;
                    found.accessibility_constraints |=
                        it.r#type == service::Type::VolumeAccessibilityConstraints as i32;
                }
                Some(Type::VolumeExpansion(it)) => {
                    found.expand_online |= it.r#type == volume_expansion::Type::Online as i32;
                    found.expand_offline |= it.r#type == volume_expansion::Type::Offline as i32;
                }
                None => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_or_empty_is_passed_over() {
        let rpc = |number| csi::NodeServiceCapability {
            r#type: Some(csi::node_service_capability::Type::Rpc(csi::node_service_capability::Rpc { r#type: number })),
        };
        let nothing = csi::NodeServiceCapability { r#type: None };
        let answer = csi::NodeGetCapabilitiesResponse { capabilities: vec![rpc(1), nothing, rpc(77), rpc(0), rpc(6)] };
        let wanted = NodeCapabilities { stage_unstage: true, volume_mount_group: true, ..Default::default() };
        assert_eq!(NodeCapabilities::from(&answer), wanted);
    }
}
