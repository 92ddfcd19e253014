//! What a request says, looked at alone: fields that are required, sizes, paths, secrets.

use windlass_csi::Code;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;

use super::{Hearing, Scene};
use crate::call::{Access, Asked, Capability, Context, Create, Expand, Grow, Range, Secrets, shown};
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
    if let Asked::Create(Create { range, .. }) | Asked::Grow(Grow { range, .. }) | Asked::Expand(Expand { range, .. }) =
        asked
    {
        let Range { required_bytes: least, limit_bytes: most } = *range;
        let fits = least >= 0 && most >= 0 && (most == 0 || least <= most);
        hearing.insist(Rule::ExpandSize, fits, Code::InvalidArgument, &[], || {
            format!("{least} bytes are required, and the limit is {most} bytes")
        });
    }
    secrets(scene, asked, hearing);
}

fn capabilities_of(asked: &Asked) -> &[Capability] {
    match asked {
        Asked::Create(it) => &it.capabilities,
        Asked::Grow(it) => it.capability.as_slice(),
        Asked::Attach(it) => std::slice::from_ref(&it.capability),
        Asked::Stage(it) => std::slice::from_ref(&it.capability),
        Asked::Publish(it) => std::slice::from_ref(&it.capability),
        Asked::Expand(it) => it.capability.as_slice(),
        _ => &[],
    }
}

fn secrets_of(asked: &Asked) -> Option<&Secrets> {
    match asked {
        Asked::Create(it) => Some(&it.secrets),
        Asked::Delete { secrets, .. } => Some(secrets),
        Asked::Grow(it) => Some(&it.secrets),
        Asked::Attach(it) => Some(&it.secrets),
        Asked::Stage(it) => Some(&it.secrets),
        Asked::Publish(it) => Some(&it.secrets),
        Asked::Expand(it) => Some(&it.secrets),
        _ => None,
    }
}

fn contexts_of(asked: &Asked) -> Vec<(&'static str, &Context)> {
    match asked {
        Asked::Create(it) => vec![("map of parameters", &it.parameters)],
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
        Asked::Create(it) => {
            missing.extend(it.name.is_empty().then_some("the name"));
            missing.extend(it.capabilities.is_empty().then_some("the capabilities"));
        }
        Asked::Delete { .. } | Asked::Grow(_) => {}
        _ if asked.place().is_empty() => {
            missing.push(if matches!(asked, Asked::Attach(_)) { "the node" } else { "the path" })
        }
        _ => {}
    }
    for capability in capabilities_of(asked) {
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
        Asked::Create(_) | Asked::Delete { .. } | Asked::Grow(_) | Asked::Attach(_) | Asked::Detach { .. } => return,
        Asked::Stats { path, staging, .. } | Asked::Expand(Expand { path, staging, .. }) => {
            vec![staging.as_str(), path.as_str()]
        }
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
    if let Asked::Create(it) = asked {
        look("the name", it.name.len(), TEXT_BYTES_MAX);
    }
    if let Asked::Attach(_) | Asked::Detach { .. } = asked {
        look("the node's id", asked.place().len(), NODE_BYTES_MAX);
    }
    for access in capabilities_of(asked).iter().filter_map(|it| it.access.as_ref()) {
        let Access::Mount { fs_type, flags, group } = access else { continue };
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
