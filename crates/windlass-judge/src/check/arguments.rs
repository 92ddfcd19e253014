//! What a request says, looked at alone: fields that are required, sizes, paths, secrets.

use windlass_csi::Code;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;

use super::{Hearing, Scene};
use crate::call::{Access, Asked, Capability, Context, Secrets, shown};
use crate::fault::Call;
use crate::rule::Rule;

/// The longest text.
const TEXT_BYTES_MAX: usize = 128;
/// The largest map, and all mount flags together.
const MAP_BYTES_MAX: usize = 4096;
/// The longest name of a node.
const NODE_BYTES_MAX: usize = 256;

pub(super) fn check(scene: &Scene<'_>, asked: &Asked, hearing: &mut Hearing) {
    let Some(volume) = asked.volume() else { return };
    if matches!(asked, Asked::Unsupported { .. }) {
        return;
    }
    required(asked, volume, hearing);
    absolute(asked, hearing);
    sizes(asked, volume, hearing);
    if let Asked::Expand(it) = asked {
        let (least, most) = (it.required_bytes, it.limit_bytes);
        let fits = least >= 0 && most >= 0 && (most == 0 || least <= most);
        hearing.insist(Rule::ExpandSize, fits, Code::InvalidArgument, &[], || {
            format!("{least} bytes are required, and the limit is {most} bytes")
        });
    }
    secrets(scene, asked, hearing);
}

fn capability_of(asked: &Asked) -> Option<&Capability> {
    match asked {
        Asked::Attach(it) => Some(&it.capability),
        Asked::Stage(it) => Some(&it.capability),
        Asked::Publish(it) => Some(&it.capability),
        Asked::Expand(it) => it.capability.as_ref(),
        _ => None,
    }
}

fn secrets_of(asked: &Asked) -> Option<&Secrets> {
    match asked {
        Asked::Attach(it) => Some(&it.secrets),
        Asked::Stage(it) => Some(&it.secrets),
        Asked::Publish(it) => Some(&it.secrets),
        Asked::Expand(it) => Some(&it.secrets),
        _ => None,
    }
}

fn contexts_of(asked: &Asked) -> Vec<(&'static str, &Context)> {
    match asked {
        Asked::Attach(it) => vec![("volume context", &it.volume_context)],
        Asked::Stage(it) => vec![("publish context", &it.publish_context), ("volume context", &it.volume_context)],
        Asked::Publish(it) => vec![("publish context", &it.publish_context), ("volume context", &it.volume_context)],
        _ => Vec::new(),
    }
}

fn required(asked: &Asked, volume: &str, hearing: &mut Hearing) {
    let mut missing = Vec::new();
    if volume.is_empty() {
        missing.push("the volume's id");
    }
    match asked {
        // Empty means all nodes.
        Asked::Detach { .. } => {}
        _ if asked.place().is_empty() => {
            missing.push(if matches!(asked, Asked::Attach(_)) { "the node" } else { "the path" })
        }
        _ => {}
    }
    if let Some(capability) = capability_of(asked) {
        if capability.access.is_none() {
            missing.push("the access type of the capability");
        }
        if Mode::try_from(capability.mode).unwrap_or(Mode::Unknown) == Mode::Unknown {
            missing.push("the access mode of the capability");
        }
    }
    hearing.insist(Rule::RequiredFields, missing.is_empty(), Code::InvalidArgument, &[], || {
        format!("{} has no value: {}", asked.method(), missing.join(", "))
    });
}

fn absolute(asked: &Asked, hearing: &mut Hearing) {
    let mut paths = match asked {
        Asked::Attach(_) | Asked::Detach { .. } => return,
        Asked::Publish(it) => vec![it.staging.as_str(), it.target.as_str()],
        _ => vec![asked.place()],
    };
    paths.retain(|it| !it.is_empty());
    let odd = paths.iter().find(|it| !it.starts_with('/') || it.contains('\0') || it.split('/').any(|it| it == ".."));
    hearing.insist(Rule::AbsolutePaths, odd.is_none(), Code::InvalidArgument, &[], || {
        format!("the path {} is not an absolute path without `..`", shown(odd.unwrap_or(&"")))
    });
}

fn sizes(asked: &Asked, volume: &str, hearing: &mut Hearing) {
    let mut large = Vec::new();
    let mut look = |what: &str, bytes: usize, most: usize| {
        if bytes > most {
            large.push(format!("{what} has {bytes} bytes of at most {most}"));
        }
    };
    look("the volume's id", volume.len(), TEXT_BYTES_MAX);
    if let Asked::Attach(_) | Asked::Detach { .. } = asked {
        look("the node's id", asked.place().len(), NODE_BYTES_MAX);
    }
    if let Some(Access::Mount { fs_type, flags, group }) = capability_of(asked).and_then(|it| it.access.as_ref()) {
        look("the type of the file system", fs_type.len(), TEXT_BYTES_MAX);
        look("the mount flags", flags.iter().map(String::len).sum(), MAP_BYTES_MAX);
        look("the mount group", group.len(), TEXT_BYTES_MAX);
    }
    for (what, context) in contexts_of(asked) {
        look(&format!("the {what}"), context.bytes(), MAP_BYTES_MAX);
    }
    if let Some(secrets) = secrets_of(asked) {
        look("the map of secrets", secrets.bytes, MAP_BYTES_MAX);
    }
    hearing.look(Rule::Sizes, large.is_empty(), &[], || large.join(", "));
}

fn secrets(scene: &Scene<'_>, asked: &Asked, hearing: &mut Hearing) {
    let (Some(call), Some(secrets)) = (Call::of(asked), secrets_of(asked)) else { return };
    for due in scene.settings.secrets.iter().filter(|it| it.call == call) {
        match &due.name {
            Some(name) => hearing.look(Rule::Secrets, secrets.names.contains(name), &[], || {
                format!("{} has no secret {}", asked.method(), shown(name))
            }),
            None => hearing
                .look(Rule::Secrets, !secrets.names.is_empty(), &[], || format!("{} has no secrets", asked.method())),
        }
    }
}
