//! Once all trouble has ended the node settles: everything wanted is mounted, nothing unwanted is left, everybody who
//! waited was answered, and what is in use stands reported, no more and no less.

use crate::describe::place_words;
use crate::disk::Published;
use crate::kernel::Maker;
use crate::process::Process;
use crate::source::PodState;
use crate::world::World;
use std::collections::BTreeSet;
use windlass_core::event::MountPlace;
use windlass_core::ids::VolumeId;
use windlass_core::reason::Code;
use windlass_core::spec::{Access, Attach, Phase, Refresh};

/// What the check is called.
pub const NAME: &str = "settled";

/// Judges a node in which nothing should happen any more.
pub fn check(world: &World) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Err("no process runs".into());
    };
    if let Some(wait) = process.waiters.values().next() {
        return Err(format!("nobody answered {wait:?}"));
    }
    everything_wanted_is_mounted(world, process)?;
    nothing_unwanted_is_left(world)?;
    everything_has_grown(world, process)?;
    in_use_is_exact(world, process)
}

fn everything_wanted_is_mounted(world: &World, process: &Process) -> Result<(), String> {
    for (pod, plan) in world.setting.pods.iter().enumerate() {
        let state = world.sources.state(pod);
        let PodState::Present(Phase::Running, _) = state else {
            continue;
        };
        let mounted = process.engine.mounted_volumes(&plan.uid);
        for (index, used) in plan.uses.iter().enumerate() {
            if !state.names(index) || used.invalid {
                continue;
            }
            let place = MountPlace::Publish(world.setting.id(pod, index).clone(), plan.uid.clone());
            let is_there = world.kernel.visible(&place).is_some_and(|it| it.maker == Maker::Ours);
            if mounted.contains_key(&used.outer) && is_there {
                content_is_current(world, &place, used.volume)?;
                continue;
            }
            let reasons = process.engine.explain(&plan.uid, &used.outer);
            if !reasons.iter().any(|it| is_lasting(world, pod, index, it.code)) {
                return Err(format!("{} of pod {} is wanted and not mounted: {reasons:?}", used.outer, plan.uid));
            }
        }
    }
    Ok(())
}

/// What is in a mount is what is wanted, if it is the kind of volume of which that is promised.
fn content_is_current(world: &World, place: &MountPlace, volume: usize) -> Result<(), String> {
    let refreshes = world.setting.volumes[volume].capabilities.refresh != Refresh::Never;
    let content = world.contents.get(place).map(|(revision, _)| *revision);
    let wanted = world.conditions.revisions[volume];
    if refreshes && content != Some(wanted) {
        return Err(format!("content {content:?} instead of {wanted} is {}", place_words(place)));
    }
    Ok(())
}

/// May a volume stay away for this reason, because two pods want what only one can have?
fn is_lasting(world: &World, pod: usize, index: usize, code: Code) -> bool {
    let volume = world.setting.id(pod, index);
    let label = &world.setting.pods[pod].label;
    let plan = &world.setting.volumes[world.setting.pods[pod].uses[index].volume];
    let mut others = (0..world.setting.pods.len()).filter(|it| *it != pod && wants(world, *it, volume));
    match code {
        Code::OtherPod => others.any(|it| {
            let uid = world.setting.pods[it].uid.clone();
            world.kernel.visible(&MountPlace::Publish(volume.clone(), uid)).is_some()
        }),
        Code::LabelConflict | Code::LabelMismatch => {
            // A pod keeps what it has, also if a damaged record once made it share a label that it did not ask for.
            let labelled_otherwise = |it: &Published<'_>| it.record.is_some_and(|it| it.label != *label);
            let mut mounted = world.disk.published().filter(|it| it.volume == volume);
            plan.labelled
                && (others.any(|it| world.setting.pods[it].label != *label)
                    || mounted.any(|it| labelled_otherwise(&it)))
        }
        _ => false,
    }
}

fn wants(world: &World, pod: usize, volume: &VolumeId) -> bool {
    let uses = world.setting.pods[pod].uses.iter().enumerate();
    let state = world.sources.state(pod);
    let keep = world.setting.keep_terminated;
    uses.into_iter()
        .any(|(index, used)| !used.invalid && state.wants(index, keep) && world.setting.id(pod, index) == volume)
}

/// May a pod keep what it has? It may keep everything while one of its names is no volume, for that could be any.
fn may_keep(world: &World, pod: usize, volume: &VolumeId) -> bool {
    let state = world.sources.state(pod);
    let keep = world.setting.keep_terminated;
    let uses = world.setting.pods[pod].uses.iter().enumerate();
    let puzzling = uses.into_iter().any(|(index, used)| used.invalid && state.wants(index, keep));
    puzzling || wants(world, pod, volume)
}

fn anybody_may_keep(world: &World, volume: &VolumeId) -> bool {
    (0..world.setting.pods.len()).any(|it| may_keep(world, it, volume))
}

fn nothing_unwanted_is_left(world: &World) -> Result<(), String> {
    for place in world.kernel.ours() {
        let wanted = match place {
            MountPlace::Stage(volume) => anybody_may_keep(world, volume),
            MountPlace::Publish(volume, uid) => world.pod_index(uid).is_some_and(|it| may_keep(world, it, volume)),
        };
        if !wanted {
            return Err(format!("something is left {}", place_words(place)));
        }
    }
    let unwanted = |volume: &&VolumeId| !anybody_may_keep(world, volume);
    if let Some(volume) = world.drivers.iter().flat_map(|it| &it.sessions).find(unwanted) {
        return Err(format!("a driver's session for {volume} is left"));
    }
    if let Some(volume) = world.node_attached.iter().find(unwanted) {
        return Err(format!("{volume} is still attached by this node"));
    }
    if let Some(volume) = world.attacher.busy().find(unwanted) {
        return Err(format!("{volume} is still attached by the controller"));
    }
    nothing_unwanted_is_on_disk(world)
}

fn nothing_unwanted_is_on_disk(world: &World) -> Result<(), String> {
    for directory in world.disk.published() {
        let (pod, volume) = (directory.pod, directory.volume);
        if !world.pod_index(pod).is_some_and(|it| may_keep(world, it, volume)) {
            return Err(format!("the directory of {volume} below pod {pod} is left"));
        }
    }
    for pod in world.disk.pods() {
        if world.pod_index(pod).is_some_and(|it| world.sources.state(it) == PodState::Absent) {
            return Err(format!("the directory of pod {pod} is left"));
        }
    }
    if let Some(record) = world.disk.staged().find(|it| !anybody_may_keep(world, &it.spec.id)) {
        return Err(format!("the record of {} as staged is left", record.spec.id));
    }
    if let Some(record) = world.disk.attached().find(|it| !anybody_may_keep(world, &it.spec.id)) {
        return Err(format!("the record of {} as attached is left", record.spec.id));
    }
    Ok(())
}

/// Volumes have the size that is wanted, unless their driver said that this cannot be.
fn everything_has_grown(world: &World, process: &Process) -> Result<(), String> {
    for (pod, plan) in world.setting.pods.iter().enumerate() {
        let PodState::Present(Phase::Running, _) = world.sources.state(pod) else {
            continue;
        };
        let mounted = process.engine.mounted_volumes(&plan.uid);
        for used in plan.uses.iter().filter(|it| mounted.contains_key(&it.outer)) {
            let size = world.conditions.sizes[used.volume];
            let refused = world.conditions.growth_refused.contains_key(&used.volume);
            if used.access == Access::ReadWrite && !refused && size.recorded_bytes < size.wanted_bytes {
                return Err(format!("{} of pod {} has not grown: {size:?}", used.outer, plan.uid));
            }
        }
    }
    Ok(())
}

fn in_use_is_exact(world: &World, process: &Process) -> Result<(), String> {
    let Some(in_use) = process.engine.volumes_in_use() else {
        return Err("what is in use cannot be reported".into());
    };
    let said: BTreeSet<VolumeId> = in_use.volumes.into_iter().collect();
    let stored = &world.apiserver.in_use;
    if said != *stored {
        return Err(format!("{said:?} are in use, but {stored:?} stand reported"));
    }
    if let Some(volume) = said.iter().find(|it| !anybody_may_keep(world, it)) {
        return Err(format!("{volume} is reported in use and nobody wants it"));
    }
    for (pod, plan) in world.setting.pods.iter().enumerate() {
        let state = world.sources.state(pod);
        for (index, used) in plan.uses.iter().enumerate() {
            let attach = world.setting.volumes[used.volume].capabilities.attach;
            let wanted = matches!(state, PodState::Present(Phase::Running, _)) && state.names(index) && !used.invalid;
            let volume = world.setting.id(pod, index);
            if wanted && attach != Attach::NotNeeded && !stored.contains(volume) {
                return Err(format!("{volume} is wanted by pod {} and not reported in use", plan.uid));
            }
        }
    }
    Ok(())
}

/// Judges a node from which all pods have gone.
pub fn check_nothing_left(world: &World) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Err("no process runs".into());
    };
    if let Some(place) = world.kernel.places().next() {
        return Err(format!("something is left {}", place_words(place)));
    }
    if let Some(volume) = world.apiserver.listed().next() {
        return Err(format!("{volume} is still listed as attached"));
    }
    let snapshot = process.engine.snapshot();
    if let Some(volume) = snapshot.volumes.first() {
        return Err(format!("the engine still knows {volume:?}"));
    }
    if let Some(pod) = snapshot.pods.first() {
        return Err(format!("the engine still knows {pod:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use crate::life::{Options, plan};

    fn settled_world() -> World {
        let (setting, script) = plan(3, 1);
        let mut world = World::new(setting, script, &Options::default());
        world.script.clear = false;
        world.live();
        assert_eq!(world.failure, None);
        world
    }

    #[test]
    fn a_world_that_has_not_settled_is_noticed() {
        let world = world_in_which(|it| it.process.as_ref().is_some_and(|it| !it.waiters.is_empty()));
        assert!(check(&world).is_err());
    }

    #[test]
    fn a_mount_that_is_missing_is_noticed() {
        let mut world = settled_world();
        let published = |it: &&MountPlace| matches!(it, MountPlace::Publish(..));
        let place = world.kernel.ours().find(published).cloned().expect("some pod has a volume");
        world.kernel.unmount_all(&place);
        assert!(check(&world).is_err_and(|it| it.contains("not mounted")));
    }

    #[test]
    fn what_is_left_is_noticed() {
        let mut world = settled_world();
        world.kernel.mount(MountPlace::Stage("nobody/knows-me".into()), None, 3);
        assert!(check(&world).is_err_and(|it| it.contains("is left")));
        assert!(check_nothing_left(&world).is_err());
    }

    #[test]
    fn a_report_of_too_much_is_noticed() {
        let mut world = settled_world();
        world.apiserver.in_use.insert("nobody/knows-me".into());
        assert!(check(&world).is_err_and(|it| it.contains("stand reported")));
    }
}
