//! Order: what must have succeeded before a call may come, and what is made of an outcome that is open.

use windlass_csi::Code;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;

use super::{Hearing, Scene};
use crate::call::{Asked, Attach, Expand, Grow, Publish, shown};
use crate::rule::Rule;
use crate::volume::{Standing, Step};

pub(super) fn check(scene: &Scene<'_>, asked: &Asked, hearing: &mut Hearing) {
    if asked.volume().is_some() {
        hearing.look(Rule::AskedFirst, scene.introduced, &[], || {
            format!("{} was called before anybody asked the driver who it is", asked.method())
        });
    }
    match asked {
        Asked::Delete { .. } => delete(scene, hearing),
        Asked::Grow(it) => {
            exists(scene, hearing);
            grow(scene, it, hearing);
        }
        Asked::Attach(it) => {
            exists(scene, hearing);
            attach(scene, it, hearing);
        }
        Asked::Detach { .. } => detach(scene, hearing),
        Asked::Stage(it) => {
            exists(scene, hearing);
            attached(scene, hearing);
            let other = scene.volume.stages.iter().find(|(path, _)| **path != it.staging);
            let calls = other.map(|(_, it)| it.calls.as_slice()).unwrap_or_default();
            hearing.insist(Rule::OneStaging, other.is_none(), Code::FailedPrecondition, calls, || {
                let there = shown(other.map_or("", |(path, _)| path));
                format!("the volume is staged at {there}, and is to be staged at {}", shown(&it.staging))
            });
        }
        Asked::Unstage { staging, .. } => unstage(scene, staging, hearing),
        Asked::Publish(it) => {
            exists(scene, hearing);
            publish(scene, it, hearing);
        }
        Asked::Unpublish { target, .. } => known(scene, "NodeUnpublishVolume", target, hearing),
        Asked::Stats { path, staging, .. } => {
            if !staging.is_empty() {
                staging_path(scene, staging, hearing);
            }
            let there = is_there(scene, path);
            hearing.insist(Rule::StatsPlace, there.is_some(), Code::NotFound, &[], || {
                format!("the volume is not at {}", shown(path))
            });
        }
        Asked::Expand(it) => {
            match is_there(scene, &it.path) {
                Some((Standing::Open, calls)) => assume(hearing, &calls, "the volume is grown where it may not be"),
                there => hearing.insist(Rule::ExpandPlace, there.is_some(), Code::NotFound, &[], || {
                    format!("the volume is not at {}", shown(&it.path))
                }),
            }
            staging_path(scene, &it.staging, hearing);
            grown(scene, it, hearing);
        }
        Asked::RegistrationInfo
        | Asked::RegistrationStatus { .. }
        | Asked::Question(_)
        | Asked::Create(_)
        | Asked::Unsupported { .. } => {}
    }
}

/// The staging path of a call that names one besides the place that it is about. A driver that stages nothing cannot tell,
/// and kubelets name one to it all the same (C-113); of a volume that is not staged the place is wrong.
fn staging_path(scene: &Scene<'_>, staging: &str, hearing: &mut Hearing) {
    let stages = &scene.volume.stages;
    let Some((path, step)) = stages.iter().next() else { return };
    hearing.insist(Rule::StagingPath, stages.contains_key(staging), Code::InvalidArgument, &step.calls, || {
        format!("the staging path is {}, and the volume is staged at {}", shown(staging), shown(path))
    });
}

/// Whether the volume is there, as far as the driver has made or deleted it. Volumes that it was never asked to make are.
fn exists(scene: &Scene<'_>, hearing: &mut Hearing) {
    let volume = scene.volume;
    match (&volume.made, volume.deleted) {
        (Some(Step { standing: Standing::Open, calls, .. }), _) => {
            assume(hearing, calls, "whether the volume is there is open, and it is to be used");
        }
        (Some(_), _) => hearing.look(Rule::NotDeleted, true, &[], String::new),
        (None, Some(by)) => hearing.insist(Rule::NotDeleted, false, Code::NotFound, &[by], || {
            "the volume is to be used, and was deleted".into()
        }),
        (None, None) => {}
    }
}

fn delete(scene: &Scene<'_>, hearing: &mut Hearing) {
    let volume = scene.volume;
    let stages = volume.stages.values().map(|it| (it.standing, &it.calls));
    let targets = volume.targets.values().map(|it| (it.standing, &it.calls));
    let attached = volume.attached.values().map(|it| (it.standing, &it.calls));
    let (held, open) = calls(stages.chain(targets).chain(attached));
    if held.is_empty() && !open.is_empty() {
        assume(hearing, &open, "the volume is deleted while it may still be attached or on the node");
    } else {
        hearing.insist(Rule::DeleteLast, held.is_empty(), Code::FailedPrecondition, &held, || {
            "the volume is deleted while it is attached or on the node".into()
        });
    }
}

fn grow(scene: &Scene<'_>, it: &Grow, hearing: &mut Hearing) {
    let Some((bytes, by)) = scene.volume.size else { return };
    let least = it.range.required_bytes;
    hearing.look(Rule::NeverSmaller, least == 0 || least >= bytes, &[by], || {
        format!("{least} bytes are asked for, and the volume has {bytes}")
    });
}

/// Whether the controller has made the volume as large as the node is to make it, where that is needed.
fn grown(scene: &Scene<'_>, it: &Expand, hearing: &mut Hearing) {
    if !scene.settings.grow {
        return;
    }
    let (volume, least) = (scene.volume, it.range.required_bytes);
    let fits = volume.size.is_some_and(|(bytes, _)| least <= bytes);
    if !fits && !volume.enlarging.is_empty() {
        return assume(hearing, &volume.enlarging, "whether the volume is larger is open, and the node is to follow");
    }
    let by = volume.size.map(|(_, by)| by);
    hearing.insist(Rule::GrowFirst, fits, Code::FailedPrecondition, by.as_slice(), || match volume.size {
        Some((bytes, _)) => format!("the node is to grow the volume to {least} bytes, and it has {bytes}"),
        None => "the node is to grow the volume, and nobody has made it larger before".into(),
    });
}

/// The calls by which something is there, and those after which it may be.
fn calls<'a>(left: impl Iterator<Item = (Standing, &'a Vec<u64>)>) -> (Vec<u64>, Vec<u64>) {
    let (mut held, mut open) = (Vec::new(), Vec::new());
    for (standing, calls) in left {
        match standing {
            Standing::Held => held.extend(calls),
            Standing::Open => open.extend(calls),
        }
    }
    held.sort_unstable();
    open.sort_unstable();
    (held, open)
}

/// An open outcome is taken for one that is known.
fn assume(hearing: &mut Hearing, calls: &[u64], text: &str) {
    hearing.insist(Rule::NotAssumed, false, Code::FailedPrecondition, calls, || text.into());
}

fn attach(scene: &Scene<'_>, it: &Attach, hearing: &mut Hearing) {
    let ours = &scene.settings.node_id;
    hearing.insist(Rule::NodeId, it.node == *ours, Code::NotFound, &[], || {
        format!("the node is called {}, and the driver named {}", shown(&it.node), shown(ours))
    });
}

/// Whether the volume is attached, where that is needed.
fn attached(scene: &Scene<'_>, hearing: &mut Hearing) {
    if !scene.settings.attach {
        return;
    }
    match scene.volume.attachment() {
        Some(Step { standing: Standing::Open, calls, .. }) => {
            assume(hearing, calls, "whether the volume is attached is open, and the node is to have it");
        }
        there => hearing.insist(Rule::AttachFirst, there.is_some(), Code::FailedPrecondition, &[], || {
            "the volume is not attached to this node".into()
        }),
    }
}

fn detach(scene: &Scene<'_>, hearing: &mut Hearing) {
    let stages = scene.volume.stages.values().map(|it| (it.standing, &it.calls));
    let targets = scene.volume.targets.values().map(|it| (it.standing, &it.calls));
    let (held, open) = calls(stages.chain(targets));
    if held.is_empty() && !open.is_empty() {
        assume(hearing, &open, "the volume is detached while it may still be on the node");
    } else {
        hearing.insist(Rule::DetachLast, held.is_empty(), Code::FailedPrecondition, &held, || {
            "the volume is detached while the node has it".into()
        });
    }
}

fn unstage(scene: &Scene<'_>, staging: &str, hearing: &mut Hearing) {
    known(scene, "NodeUnstageVolume", staging, hearing);
    let targets = &scene.volume.targets;
    let held = targets.iter().find(|(_, it)| it.standing == Standing::Held);
    let open = targets.iter().find(|(_, it)| it.standing == Standing::Open);
    match (held, open) {
        (None, Some((path, step))) => {
            let text = format!("the volume is unstaged while it may be published at {}", shown(path));
            assume(hearing, &step.calls, &text);
        }
        (held, _) => {
            let calls = held.map(|(_, it)| it.calls.as_slice()).unwrap_or_default();
            hearing.insist(Rule::UnpublishFirst, held.is_none(), Code::FailedPrecondition, calls, || {
                format!("the volume is unstaged while it is published at {}", shown(held.map_or("", |(path, _)| path)))
            });
        }
    }
}

fn publish(scene: &Scene<'_>, it: &Publish, hearing: &mut Hearing) {
    if !it.is_inline() {
        attached(scene, hearing);
        if scene.settings.capabilities.stage_unstage {
            staged(scene, it, hearing);
        }
    }
    let alone = |mode: i32| mode == Mode::SingleNodeSingleWriter as i32;
    let others = || scene.volume.targets.iter().filter(|(path, _)| **path != it.target);
    let other = others().find(|(_, step)| alone(it.capability.mode) || alone(step.asked.capability.mode));
    if alone(it.capability.mode) || other.is_some() {
        let calls = other.map(|(_, step)| step.calls.as_slice()).unwrap_or_default();
        hearing.insist(Rule::OneWriter, other.is_none(), Code::FailedPrecondition, calls, || {
            format!("the volume is for one alone, and is at {} too", shown(other.map_or("", |(path, _)| path)))
        });
    }
}

fn staged(scene: &Scene<'_>, it: &Publish, hearing: &mut Hearing) {
    let stages = &scene.volume.stages;
    match stages.get(&it.staging) {
        Some(Step { standing: Standing::Open, calls, .. }) => {
            assume(hearing, calls, "whether the volume is staged is open, and it is to be published");
        }
        Some(Step { standing: Standing::Held, .. }) => {
            hearing.look(Rule::StageFirst, true, &[], String::new);
        }
        None => {
            let elsewhere = stages.iter().next();
            let calls = elsewhere.map(|(_, it)| it.calls.as_slice()).unwrap_or_default();
            hearing.insist(Rule::StageFirst, false, Code::FailedPrecondition, calls, || match elsewhere {
                Some((path, _)) => format!("the volume is staged at {}, not at {}", shown(path), shown(&it.staging)),
                None => "the volume is published, and is not staged".into(),
            });
        }
    }
}

fn known(scene: &Scene<'_>, method: &str, place: &str, hearing: &mut Hearing) {
    hearing.look(Rule::KnownPlace, scene.volume.heard.contains(place), &[], || {
        format!("{method} names {}, where the volume was never asked for", shown(place))
    });
}

/// Whether the volume is at a path, and the calls that show it. A device may be known by other paths than its target, for
/// orchestrators map it further; so any will do.
fn is_there(scene: &Scene<'_>, path: &str) -> Option<(Standing, Vec<u64>)> {
    let volume = scene.volume;
    let stage = volume.stages.get(path).map(|it| (it.standing, it.calls.clone()));
    let target = volume.targets.get(path).map(|it| (it.standing, it.calls.clone()));
    let device = volume.targets.values().find(|it| it.asked.capability.is_block());
    target.or(stage).or_else(|| device.map(|it| (it.standing, it.calls.clone())))
}
