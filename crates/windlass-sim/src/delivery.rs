//! What arrives from the sources: pods and ends of lists, told to the engine with their volumes as they can be looked up at
//! that moment.

use crate::faults::Fault;
use crate::script::List;
use crate::source::{LogVersion, PodState};
use crate::world::{Happening, World};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::Event;
use windlass_core::event::Containers;
use windlass_core::ids::{Time, Version};
use windlass_core::reason::{Code, Reason, WaitsOn};
use windlass_core::spec::{Phase, Pod, PodVolume, Use, VolumeSpec, Want};

/// Something on its way from a source to the process.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub(crate) source: usize,
    pub(crate) connection: u64,
    pub(crate) what: Parcel,
}

#[derive(Clone, Debug)]
pub(crate) enum Parcel {
    /// A pod as it was in this version.
    Pod { pod: usize, version: LogVersion, nature: Nature },
    /// The end of a list that was made at this version.
    Complete { version: LogVersion, list: List },
}

/// How a delivery came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nature {
    /// The first time over this connection.
    News,
    /// Part of a list.
    Listed,
    /// Once more.
    Repeated,
    /// Something older once more.
    Old,
}

impl World {
    /// Something arrives.
    pub(crate) fn delivered(&mut self, delivery: Delivery) {
        let Delivery { source, connection, what } = delivery;
        if self.sources.connection(source) != connection {
            return;
        }
        match what {
            Parcel::Pod { pod, version, nature } => self.pod_delivered(source, pod, version, nature),
            Parcel::Complete { version, list } => self.list_delivered(source, version, list),
        }
    }

    fn pod_delivered(&mut self, source: usize, pod: usize, version: LogVersion, nature: Nature) {
        let Some(process) = &mut self.process else {
            return;
        };
        let told = process.told.get(&pod).copied();
        let newest = process.told.iter().filter(|(it, _)| self.setting.pods[**it].source == source);
        let newest = newest.map(|(_, version)| *version).max();
        if nature == Nature::Old && told.is_none_or(|it| it <= version) {
            return;
        }
        match nature {
            Nature::News if newest.is_some_and(|it| it > version) => self.faults.add(Fault::Reordered),
            Nature::Repeated => self.faults.add(Fault::Repeated),
            Nature::Old => self.faults.add(Fault::StaleEvent),
            Nature::News | Nature::Listed => {}
        }
        process.missing.remove(&pod);
        self.tell_pod(pod, version);
        // The engine keeps no memory of pods that are gone, so whoever tells of one again must have the last word. After an
        // old list that comes by itself.
        let (since, state) = self.sources.state_at(pod, told.unwrap_or(0));
        if since > version && nature != Nature::Listed && !matches!(state, PodState::Present(..)) {
            self.tell_pod(pod, since);
        }
    }

    /// Tells the engine of a pod as it was in a version, with its volumes as they can be looked up now.
    fn tell_pod(&mut self, pod: usize, version: LogVersion) {
        let (_, state) = self.sources.state_at(pod, version);
        let counted = self.setting.sources[self.setting.pods[pod].source].counted;
        let shown = shown_version(counted, version);
        let uid = self.setting.pods[pod].uid.clone();
        let news = self.process.as_mut().is_some_and(|it| it.hears_of(&uid, shown, state));
        let event = match state {
            PodState::Absent => Event::PodGone { uid, version: shown, containers: Containers::Stopped },
            PodState::Leaving(_) => Event::PodGone { uid, version: shown, containers: Containers::MayRun },
            PodState::Present(phase, named) => Event::PodApplied(self.resolved_pod(pod, phase, named, shown)),
        };
        if let Some(process) = &mut self.process {
            let told = process.told.entry(pod).or_default();
            *told = version.max(*told);
            process.slow_scan |= !process.found;
            if news {
                process.resolved.retain(|(it, index), _| *it != pod || state.names(*index));
                process.unknown.retain(|(it, _)| *it != pod);
                if let Event::PodApplied(given) = &event {
                    for (index, used) in self.setting.pods[pod].uses.iter().enumerate() {
                        let named = given.volumes.iter().find(|it| it.name == used.outer);
                        match named.map(|it| &it.want) {
                            Some(Want::Volume(found)) => {
                                process.resolved.insert((pod, index), found.spec.id.clone());
                            }
                            Some(Want::Unknown { .. } | Want::Pending(_)) => {
                                process.unknown.insert((pod, index));
                            }
                            Some(Want::Invalid { .. }) | None => {}
                        }
                    }
                }
            }
        }
        self.tell(event);
    }

    fn list_delivered(&mut self, source: usize, version: LogVersion, list: List) {
        let setting = self.setting.clone();
        if list == List::Stale {
            self.faults.add(Fault::StaleList);
        }
        let Some(process) = &mut self.process else {
            return;
        };
        let mut alone = std::mem::take(&mut process.looked_up_alone);
        alone.retain(|it| setting.pods[*it].source == source);
        process.looked_up_alone.retain(|it| setting.pods[*it].source != source);
        let known: Vec<(usize, LogVersion)> = process.told.iter().map(|(pod, told)| (*pod, *told)).collect();
        // Looking a pod up again told the engine that it is there, which only the list can take back.
        for pod in alone {
            let (_, state) = self.sources.state_at(pod, version);
            if state == PodState::Absent {
                self.tell_pod(pod, version);
            }
        }
        let containers = if setting.lingering { Containers::MayRun } else { Containers::Stopped };
        let counted = setting.sources[source].counted;
        let shown = shown_version(counted, version);
        if let Some(process) = &mut self.process {
            process.complete[source] = true;
            process.complete_once[source] = true;
            for pod in 0..setting.pods.len() {
                // What was missing was not told to be gone.
                if setting.pods[pod].source == source && !process.missing.contains(&pod) {
                    let told = process.told.entry(pod).or_default();
                    *told = version.max(*told);
                }
            }
        }
        let name = setting.sources[source].name.clone();
        let orphan_delay = Duration::from_millis(setting.orphan_delay);
        self.tell(Event::SourceComplete { source: name, version: shown, containers, orphan_delay, doubt: None });
        // The engine assumes that containers run on; for pods that it knew and that are gone, nothing does.
        if setting.lingering {
            for (pod, told) in known {
                let (_, state) = self.sources.state_at(pod, version.max(told));
                if setting.pods[pod].source == source && state == PodState::Absent {
                    self.tell_pod(pod, version.max(told));
                }
            }
        }
    }

    /// A pod's volumes are looked up again, because something about them changed.
    pub(crate) fn look_up_again(&mut self, pod: usize) {
        if let Some(process) = &self.process {
            let (life, delay) = (process.life, 1 + self.luck(&[23, self.steps]).below(50));
            self.schedule_in(delay, Happening::Resolved { life, pod });
        }
    }

    /// A pod's volumes were looked up again.
    pub(crate) fn resolved(&mut self, pod: usize) {
        let source = self.setting.pods[pod].source;
        let Some(process) = &mut self.process else {
            return;
        };
        let Some(told) = process.told.get(&pod).copied() else {
            return;
        };
        let (since, state) = self.sources.state_at(pod, told);
        if matches!(state, PodState::Present(..)) {
            if !process.complete[source] {
                process.looked_up_alone.insert(pod);
            }
            self.tell_pod(pod, since);
        }
    }

    fn resolved_pod(&mut self, index: usize, phase: Phase, named: u8, version: Version) -> Pod {
        let setting = self.setting.clone();
        let plan = &setting.pods[index];
        let mut volumes = Vec::with_capacity(plan.uses.len());
        for (number, used) in plan.uses.iter().enumerate() {
            if named & (1 << number) == 0 {
                continue;
            }
            let want = if self.conditions.lookups_failing.contains_key(&(index, number)) {
                self.faults.add(Fault::LookupFailed);
                // Neither says anything of what is there.
                match number % 2 {
                    0 => Want::Unknown { text: "the claim could not be read".into(), waits_on: None },
                    _ => Want::Pending(Box::new(Reason {
                        code: Code::ProvisioningFailed,
                        text: "the claim's volume is not made yet".into(),
                        since: Time::ZERO,
                        attempts: 1,
                        next_try: None,
                        goes_at: None,
                        waits_on: WaitsOn::Nothing,
                    })),
                }
            } else if used.invalid {
                Want::Invalid { text: "the claim has another mode than the pod asks for".into() }
            } else {
                Want::Volume(Use {
                    spec: self.spec(used.volume, index),
                    access: used.access,
                    revision: self.conditions.revisions[used.volume],
                    label: setting.volumes[used.volume].wish(plan.label.as_ref()),
                })
            };
            volumes.push(PodVolume { name: used.outer.clone(), want });
        }
        Pod {
            uid: plan.uid.clone(),
            name: plan.name.clone(),
            source: setting.sources[plan.source].name.clone(),
            version,
            phase,
            groups: Vec::new(),
            volumes,
        }
    }

    /// A volume as it is described to a pod now.
    fn spec(&mut self, volume: usize, pod: usize) -> Arc<VolumeSpec> {
        let (setting, size) = (&self.setting, self.conditions.sizes[volume]);
        let make = || Arc::new(setting.volumes[volume].spec(setting, &setting.pods[pod].uid, size));
        self.sources.specs.entry((volume, pod)).or_insert_with(make).clone()
    }
}

/// A version as the engine is told it. An empty source is at version 0 here, which to the engine means not counting.
fn shown_version(counted: bool, version: LogVersion) -> Version {
    if counted { Version(version + 1) } else { Version::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use crate::checks::thorough;
    use windlass_core::spec::Life;

    /// A pod that was found on disk and is held because a list left it out, and a version in which it wanted its first volume.
    fn left_out(world: &World) -> Option<(usize, LogVersion)> {
        let process = world.process.as_ref()?;
        let pods = world.disk.pods().filter_map(|it| world.pod_index(it));
        let gone = pods.filter_map(|pod| Some((pod, *process.told.get(&pod)?)));
        let mut gone = gone.filter(|(pod, told)| world.sources.state_at(*pod, *told).1 == PodState::Absent);
        gone.find_map(|(pod, told)| {
            let uid = &world.setting.pods[pod].uid;
            let held = process.engine.snapshot().pods.iter().any(|it| it.uid == *uid && it.life == Life::Held);
            let wanted = |it: &LogVersion| world.sources.state_at(pod, *it).1.wants(0, false);
            let version = (0..told).rev().find(wanted).filter(|_| held)?;
            Some((pod, version))
        })
    }

    /// A list that leaves out a pod which was only found tells no version of it, so that any word of it is news.
    #[test]
    fn a_stale_list_may_bring_back_a_pod_that_was_found_and_left_out_of_a_newer_one() {
        let mut world = world_in_which(|it| left_out(it).is_some());
        let (pod, version) = left_out(&world).expect("it was just seen");
        world.conditions.lookups_failing.insert((pod, 0), 1);
        world.tell_pod(pod, version);
        thorough(&mut world);
        assert_eq!(world.failure, None);
        assert!(world.process.expect("it runs").unknown.contains(&(pod, 0)));
    }
}
