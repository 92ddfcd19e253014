//! Requests as the judge sees them. Values of secrets end here (I-12). What is on disk where a volume is to be is looked at
//! now, before anything is done.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_csi::proto::csi;
use windlass_csi::proto::csi::volume_capability::AccessType;

use crate::call::{
    Access, Asked, AtPath, Attach, Capability, Context, Create, Expand, Grow, Publish, Range, Secrets, Stage,
};

pub(super) fn create(it: &csi::CreateVolumeRequest) -> Asked {
    Asked::Create(Create {
        volume: Create::volume_of(&it.name),
        name: it.name.clone(),
        range: range(it.capacity_range),
        capabilities: it.volume_capabilities.iter().map(|it| capability(Some(it))).collect(),
        parameters: Context(it.parameters.clone()),
        is_copy: it.volume_content_source.is_some(),
        secrets: secrets(&it.secrets),
    })
}

pub(super) fn delete(it: &csi::DeleteVolumeRequest) -> Asked {
    Asked::Delete { volume: it.volume_id.clone(), secrets: secrets(&it.secrets) }
}

pub(super) fn grow(it: &csi::ControllerExpandVolumeRequest) -> Asked {
    Asked::Grow(Grow {
        volume: it.volume_id.clone(),
        range: range(it.capacity_range),
        capability: it.volume_capability.as_ref().map(|it| capability(Some(it))),
        secrets: secrets(&it.secrets),
    })
}

pub(super) fn attach(it: &csi::ControllerPublishVolumeRequest) -> Asked {
    Asked::Attach(Attach {
        volume: it.volume_id.clone(),
        node: it.node_id.clone(),
        capability: capability(it.volume_capability.as_ref()),
        read_only: it.readonly,
        secrets: secrets(&it.secrets),
        volume_context: Context(it.volume_context.clone()),
    })
}

pub(super) fn detach(it: &csi::ControllerUnpublishVolumeRequest) -> Asked {
    Asked::Detach { volume: it.volume_id.clone(), node: it.node_id.clone() }
}

pub(super) fn stage(it: &csi::NodeStageVolumeRequest) -> Asked {
    Asked::Stage(Stage {
        volume: it.volume_id.clone(),
        staging: it.staging_target_path.clone(),
        found: found(&it.staging_target_path),
        capability: capability(it.volume_capability.as_ref()),
        secrets: secrets(&it.secrets),
        publish_context: Context(it.publish_context.clone()),
        volume_context: Context(it.volume_context.clone()),
    })
}

pub(super) fn unstage(it: &csi::NodeUnstageVolumeRequest) -> Asked {
    Asked::Unstage { volume: it.volume_id.clone(), staging: it.staging_target_path.clone() }
}

pub(super) fn publish(it: &csi::NodePublishVolumeRequest) -> Asked {
    let parent = Path::new(&it.target_path).parent().and_then(Path::to_str);
    Asked::Publish(Publish {
        volume: it.volume_id.clone(),
        staging: it.staging_target_path.clone(),
        target: it.target_path.clone(),
        found: found(&it.target_path),
        parent: parent.map_or(AtPath::Unknown, found),
        capability: capability(it.volume_capability.as_ref()),
        read_only: it.readonly,
        secrets: secrets(&it.secrets),
        publish_context: Context(it.publish_context.clone()),
        volume_context: Context(it.volume_context.clone()),
    })
}

pub(super) fn unpublish(it: &csi::NodeUnpublishVolumeRequest) -> Asked {
    Asked::Unpublish { volume: it.volume_id.clone(), target: it.target_path.clone() }
}

pub(super) fn stats(it: &csi::NodeGetVolumeStatsRequest) -> Asked {
    Asked::Stats { volume: it.volume_id.clone(), path: it.volume_path.clone(), staging: it.staging_target_path.clone() }
}

pub(super) fn expand(it: &csi::NodeExpandVolumeRequest) -> Asked {
    Asked::Expand(Expand {
        volume: it.volume_id.clone(),
        path: it.volume_path.clone(),
        staging: it.staging_target_path.clone(),
        range: range(it.capacity_range),
        capability: it.volume_capability.as_ref().map(|it| capability(Some(it))),
        secrets: secrets(&it.secrets),
    })
}

fn range(it: Option<csi::CapacityRange>) -> Range {
    let csi::CapacityRange { required_bytes, limit_bytes } = it.unwrap_or_default();
    Range { required_bytes, limit_bytes }
}

fn capability(it: Option<&csi::VolumeCapability>) -> Capability {
    let Some(it) = it else { return Capability::default() };
    let access = it.access_type.as_ref().map(|it| match it {
        AccessType::Block(_) => Access::Block,
        AccessType::Mount(it) => Access::Mount {
            fs_type: it.fs_type.clone(),
            flags: it.mount_flags.clone(),
            group: it.volume_mount_group.clone(),
        },
    });
    Capability { access, mode: it.access_mode.as_ref().map_or(0, |it| it.mode) }
}

fn secrets(it: &BTreeMap<String, String>) -> Secrets {
    let bytes = it.iter().map(|(name, value)| name.len() + value.len()).sum();
    Secrets { names: it.keys().cloned().collect(), bytes }
}

fn found(path: &str) -> AtPath {
    if !path.starts_with('/') {
        return AtPath::Unknown;
    }
    match std::fs::metadata(path) {
        Ok(it) if it.is_dir() => AtPath::Directory,
        Ok(_) => AtPath::Other,
        // A link that leads nowhere is something all the same.
        Err(_) => match std::fs::symlink_metadata(path) {
            Ok(_) => AtPath::Other,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                AtPath::Nothing
            }
            Err(_) => AtPath::Unknown,
        },
    }
}
