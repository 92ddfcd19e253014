//! Paths: what must be there, what must not, and whose they are.

use windlass_csi::Code;

use super::{Hearing, Scene};
use crate::call::{Asked, AtPath, shown};
use crate::rule::Rule;

pub(super) fn check(scene: &Scene<'_>, asked: &Asked, hearing: &mut Hearing) {
    match asked {
        Asked::Stage(it) => {
            if it.found != AtPath::Unknown {
                let there = it.found == AtPath::Directory;
                hearing.insist(Rule::StagingDirectory, there, Code::FailedPrecondition, &[], || {
                    format!("there is no directory at {}", shown(&it.staging))
                });
            }
            alone(scene, &it.volume, &it.staging, hearing);
        }
        Asked::Publish(it) => {
            if it.parent != AtPath::Unknown {
                let there = it.parent == AtPath::Directory;
                hearing.insist(Rule::TargetParent, there, Code::FailedPrecondition, &[], || {
                    format!("{} is to be in a directory that is not there", shown(&it.target))
                });
            }
            // What an earlier call has made may well be there.
            if it.found != AtPath::Unknown && !scene.volume.targets.contains_key(&it.target) {
                hearing.look(Rule::TargetFree, it.found == AtPath::Nothing, &[], || match it.found {
                    AtPath::Directory => format!("there is a directory at {} already", shown(&it.target)),
                    _ => format!("there is something at {} already", shown(&it.target)),
                });
            }
            alone(scene, &it.volume, &it.target, hearing);
        }
        _ => {}
    }
}

fn alone(scene: &Scene<'_>, volume: &str, path: &str, hearing: &mut Hearing) {
    let others = scene.volumes.iter().filter(|(name, _)| *name != volume);
    let taken = others.map(|(name, it)| {
        let staged = it.stages.get(path).map(|it| &it.calls);
        (name, staged.or_else(|| it.targets.get(path).map(|it| &it.calls)))
    });
    let other = taken.filter_map(|(name, calls)| Some((name.as_str(), calls?))).next();
    let calls = other.map(|(_, calls)| calls.as_slice()).unwrap_or_default();
    hearing.insist(Rule::OwnPlace, other.is_none(), Code::FailedPrecondition, calls, || {
        format!("{} belongs to the volume {}", shown(path), shown(other.map_or("", |(name, _)| name)))
    });
}
