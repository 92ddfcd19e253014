//! Only what the driver can do is asked of it.

use windlass_csi::Code;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;

use super::{Hearing, Scene};
use crate::call::{Access, Asked};
use crate::rule::Rule;

pub(super) fn check(scene: &Scene<'_>, asked: &Asked, hearing: &mut Hearing) {
    let can = &scene.settings.capabilities;
    let optional = match asked {
        Asked::Stage(_) | Asked::Unstage { .. } => Some((Rule::CanStage, can.stage_unstage, "STAGE_UNSTAGE_VOLUME")),
        Asked::Stats { .. } => Some((Rule::CanStats, can.volume_stats, "GET_VOLUME_STATS")),
        Asked::Expand(_) => Some((Rule::CanExpand, can.expand, "EXPAND_VOLUME")),
        Asked::Create(_) | Asked::Delete { .. } => {
            Some((Rule::CanController, scene.settings.create, "CREATE_DELETE_VOLUME"))
        }
        Asked::Grow(_) => Some((Rule::CanController, scene.settings.grow, "EXPAND_VOLUME with its controller service")),
        Asked::Attach(_) | Asked::Detach { .. } => {
            Some((Rule::CanController, scene.settings.attach, "PUBLISH_UNPUBLISH_VOLUME"))
        }
        Asked::Unsupported { .. } => Some((Rule::CanController, false, "this")),
        Asked::RegistrationInfo
        | Asked::RegistrationStatus { .. }
        | Asked::Question(_)
        | Asked::Publish(_)
        | Asked::Unpublish { .. } => None,
    };
    if let Some((rule, able, name)) = optional {
        hearing.insist(rule, able, Code::Unimplemented, &[], || {
            format!("{} was called, and the driver has not said that it can do {name}", asked.method())
        });
    }
    if let Asked::Stage(_) | Asked::Stats { .. } | Asked::Expand(_) = asked {
        hearing.look(Rule::CapabilitiesFirst, scene.capabilities_asked, &[], || {
            format!("{} was called before NodeGetCapabilities", asked.method())
        });
    }
    let capability = match asked {
        Asked::Stage(it) => Some(&it.capability),
        Asked::Publish(it) => Some(&it.capability),
        _ => None,
    };
    let Some(capability) = capability else { return };
    if let Some(Access::Mount { group, .. }) = &capability.access {
        let fits = group.is_empty() || can.volume_mount_group;
        hearing.insist(Rule::CanMountGroup, fits, Code::InvalidArgument, &[], || {
            "a mount group is asked for, and the driver has not said that it can do VOLUME_MOUNT_GROUP".into()
        });
    }
    let newer = [Mode::SingleNodeSingleWriter, Mode::SingleNodeMultiWriter].map(|it| it as i32);
    let fits = can.single_node_multi_writer || !newer.contains(&capability.mode);
    hearing.insist(Rule::CanWriterModes, fits, Code::InvalidArgument, &[], || {
        format!("{} is asked for, and the driver has not said that it knows it", capability.mode_name())
    });
}
