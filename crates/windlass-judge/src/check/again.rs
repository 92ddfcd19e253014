//! What is said of one volume in many calls must be the same.

use std::collections::BTreeMap;

use windlass_csi::Code;

use super::{Hearing, Scene};
use crate::call::{Access, Asked, Capability, Context, Create, Secrets, shown};
use crate::judge::MADE;
use crate::rule::Rule;
use crate::volume::Standing;

pub(super) fn check(scene: &Scene<'_>, asked: &Asked, hearing: &mut Hearing) {
    let volume = scene.volume;
    match asked {
        Asked::Create(it) => {
            if let Some(step) = &volume.made {
                let other = requests(&step.asked, it);
                hearing.insist(Rule::OneRequest, other.is_empty(), Code::AlreadyExists, &step.calls, || {
                    let name = shown(&it.name);
                    format!("a volume was asked for by the name {name} before, and otherwise: {}", other.join(", "))
                });
            }
        }
        Asked::Attach(it) => {
            if let Some(step) = volume.attachment() {
                let before = &step.asked;
                let mut other = differences(&before.capability, &it.capability);
                other.extend((before.read_only != it.read_only).then(|| "the read-only flag".into()));
                again(hearing, step.standing, &step.calls, other, secrets(&before.secrets, &it.secrets));
            }
            context(scene, &it.volume_context, hearing);
        }
        Asked::Stage(it) => {
            if let Some(step) = volume.stages.get(&it.staging) {
                let before = &step.asked;
                let other = differences(&before.capability, &it.capability);
                again(hearing, step.standing, &step.calls, other, secrets(&before.secrets, &it.secrets));
            }
            context(scene, &it.volume_context, hearing);
            attachment(scene, &it.publish_context, false, hearing);
        }
        Asked::Publish(it) => {
            if let Some(step) = volume.targets.get(&it.target) {
                let before = &step.asked;
                let mut other = differences(&before.capability, &it.capability);
                other.extend((before.read_only != it.read_only).then(|| "the read-only flag".into()));
                other.extend((before.staging != it.staging).then(|| "the staging path".into()));
                again(hearing, step.standing, &step.calls, other, secrets(&before.secrets, &it.secrets));
            }
            if let Some(step) = volume.stages.get(&it.staging) {
                let other = disagreements(&step.asked.capability, &it.capability);
                hearing.look(Rule::Agreement, other.is_empty(), &step.calls, || {
                    format!("it is published otherwise than it is staged: {}", other.join(", "))
                });
            }
            if !it.is_inline() {
                context(scene, &it.volume_context, hearing);
            }
            attachment(scene, &it.publish_context, it.is_inline(), hearing);
        }
        Asked::RegistrationInfo
        | Asked::RegistrationStatus { .. }
        | Asked::Question(_)
        | Asked::Delete { .. }
        | Asked::Grow(_)
        | Asked::Detach { .. }
        | Asked::Unstage { .. }
        | Asked::Unpublish { .. }
        | Asked::Stats { .. }
        | Asked::Expand(_)
        | Asked::Unsupported { .. } => {}
    }
}

/// A call that is repeated while what it made is there, or may be. A driver refuses one that cannot be had as well.
fn again(hearing: &mut Hearing, standing: Standing, calls: &[u64], mut other: Vec<String>, secrets: Option<String>) {
    let fits = other.is_empty() || standing == Standing::Open;
    other.extend(secrets);
    let text = || format!("the call is repeated, and something is not as before: {}", other.join(", "));
    if fits {
        hearing.look(Rule::SameAgain, other.is_empty(), calls, text);
    } else {
        hearing.insist(Rule::SameAgain, false, Code::AlreadyExists, calls, text);
    }
}

/// How two requests for a volume differ.
fn requests(before: &Create, now: &Create) -> Vec<String> {
    let mut other = Vec::new();
    other.extend((before.range != now.range).then(|| "the size".into()));
    if before.capabilities.len() == now.capabilities.len() {
        let pairs = before.capabilities.iter().zip(&now.capabilities);
        other.extend(pairs.flat_map(|(before, now)| differences(before, now)));
    } else {
        other.push("the number of capabilities".into());
    }
    let parameters = keys(&before.parameters.all(), &now.parameters.all());
    other.extend((!parameters.is_empty()).then(|| format!("the parameters under {}", parameters.join(", "))));
    other.extend((before.is_copy != now.is_copy).then(|| "the content".into()));
    other.extend(secrets(&before.secrets, &now.secrets));
    other
}

fn kind(access: Option<&Access>) -> &'static str {
    match access {
        None => "nothing",
        Some(Access::Block) => "block",
        Some(Access::Mount { .. }) => "mount",
    }
}

/// How two capabilities differ; mount flags may have secrets in them, so they are not quoted.
fn differences(before: &Capability, now: &Capability) -> Vec<String> {
    let mut other = disagreements(before, now);
    if let (Some(Access::Mount { flags, group, .. }), Some(Access::Mount { flags: flags_now, group: group_now, .. })) =
        (&before.access, &now.access)
    {
        other.extend((flags != flags_now).then(|| "the mount flags".into()));
        other.extend((group != group_now).then(|| format!("the mount group ({} {})", shown(group), shown(group_now))));
    }
    other
}

/// How two capabilities differ in what makes them of another kind.
fn disagreements(before: &Capability, now: &Capability) -> Vec<String> {
    let mut other = Vec::new();
    let (was, is) = (kind(before.access.as_ref()), kind(now.access.as_ref()));
    other.extend((was != is).then(|| format!("the access type ({was}, {is})")));
    if let (Some(Access::Mount { fs_type, .. }), Some(Access::Mount { fs_type: now, .. })) =
        (&before.access, &now.access)
    {
        other.extend((fs_type != now).then(|| format!("the file system ({}, {})", shown(fs_type), shown(now))));
    }
    let changed = before.mode != now.mode;
    other.extend(changed.then(|| format!("the access mode ({}, {})", before.mode_name(), now.mode_name())));
    other
}

/// How the names of secrets differ. Values may change: secrets are renewed.
fn secrets(before: &Secrets, now: &Secrets) -> Option<String> {
    let (before, now) = (before.of_volume(), now.of_volume());
    let other = before.symmetric_difference(&now).map(|it| shown(it)).collect::<Vec<_>>();
    (!other.is_empty()).then(|| format!("the names of secrets ({})", other.join(", ")))
}

/// The keys under which two contexts differ.
fn keys(before: &BTreeMap<&str, &str>, now: &BTreeMap<&str, &str>) -> Vec<String> {
    let all = before.keys().chain(now.keys().filter(|it| !before.contains_key(*it)));
    all.filter(|it| before.get(*it) != now.get(*it)).map(|it| shown(it)).collect()
}

/// The volume context is the same in all calls.
fn context(scene: &Scene<'_>, now: &Context, hearing: &mut Hearing) {
    let volume = scene.volume;
    if let Some(step) = volume.made.as_ref().filter(|it| it.standing == Standing::Held) {
        // Who hands it over may add to it.
        let told = step.asked.volume.as_str();
        hearing.look(Rule::VolumeContext, now.get(MADE) == Some(told), &step.calls, || {
            format!("the volume context lacks what making the volume has told, under {MADE}")
        });
    }
    let attached = volume.attached.values().map(|it| (&it.asked.volume_context, &it.calls));
    let staged = volume.stages.values().map(|it| (&it.asked.volume_context, &it.calls));
    let published = volume.targets.values().map(|it| (&it.asked.volume_context, &it.calls));
    let Some((before, calls)) = attached.chain(staged).chain(published).next() else { return };
    let other = keys(&before.of_volume(), &now.of_volume());
    hearing.look(Rule::VolumeContext, other.is_empty(), calls, || {
        format!("the volume context is not as before under {}", other.join(", "))
    });
}

/// The publish context is what attaching the volume has told.
fn attachment(scene: &Scene<'_>, now: &Context, inline: bool, hearing: &mut Hearing) {
    let none = Context::default();
    let (expected, calls) = match scene.volume.attachment() {
        Some(step) if !inline && step.standing == Standing::Held => {
            (&scene.volume.publish_context, step.calls.as_slice())
        }
        // That it is not attached, or may not be, is said elsewhere.
        _ if scene.settings.attach && !inline => return,
        _ => (&none, [].as_slice()),
    };
    let other = keys(&expected.all(), &now.all());
    hearing.look(Rule::PublishContext, other.is_empty(), calls, || {
        format!("the publish context is not what attaching the volume has told, under {}", other.join(", "))
    });
}
