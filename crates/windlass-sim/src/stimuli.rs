//! What each entry of the script does to the world, how what lasts ends, and how everything is well again at the end.

use crate::conditions::Refusal;
use crate::driver::Window;
use crate::faults::Fault;
use crate::script::{Start, Stimulus};
use crate::setting::GIBIBYTE;
use crate::source::PodState;
use crate::world::{Happening, World};
use windlass_core::Event;
use windlass_core::event::MountPlace;
use windlass_core::ids::Time;
use windlass_core::spec::Phase;

impl World {
    /// An entry of the script begins.
    pub(crate) fn stimulus(&mut self, index: usize) {
        let stimulus = self.script.entries[index].stimulus.clone();
        let now = self.now;
        let until = |lasts: u64| Time(now.0 + lasts);
        let mut lasting = None;
        match stimulus {
            Stimulus::PodComes { pod } => self.pod_comes(pod),
            Stimulus::PodStops { pod } => {
                if let PodState::Present(Phase::Running, named) = self.sources.state(pod) {
                    self.pod_becomes(pod, PodState::Present(Phase::Stopping, named));
                }
            }
            Stimulus::PodFinishes { pod } => {
                if let PodState::Present(_, named) = self.sources.state(pod) {
                    self.pod_becomes(pod, PodState::Present(Phase::Finished, named));
                }
            }
            Stimulus::PodLeaves { pod, lasts } => {
                match self.sources.state(pod) {
                    PodState::Present(Phase::Running | Phase::Stopping, named) => {
                        self.pod_becomes(pod, PodState::Leaving(named));
                    }
                    PodState::Present(Phase::Finished, _) | PodState::Leaving(_) | PodState::Absent => {
                        self.pod_becomes(pod, PodState::Absent);
                    }
                }
                lasting = Some(lasts);
            }
            Stimulus::PodGoes { pod } => self.pod_becomes(pod, PodState::Absent),
            Stimulus::VolumeDropped { pod, index, lasts } => {
                self.name_volume(pod, index, false);
                lasting = Some(lasts);
            }
            Stimulus::ContentChanges { volume } => {
                self.conditions.revisions[volume] += 1;
                let name = self.setting.volumes[volume].name.clone();
                self.note(|| format!("true: what is to be in {name} changed"));
                self.look_up_users(volume);
            }
            Stimulus::SizeGrows { volume } => self.size_grows(volume),
            Stimulus::LookupFails { pod, index, lasts } => {
                *self.conditions.lookups_failing.entry((pod, index)).or_default() += 1;
                self.look_up_again(pod);
                lasting = Some(lasts);
            }
            Stimulus::ObjectMissing { volume, lasts } => {
                *self.conditions.objects_missing.entry(volume).or_default() += 1;
                lasting = Some(lasts);
            }
            Stimulus::WaitStarts { pod, goal, lasts } => self.wait_starts(pod, goal, lasts),
            Stimulus::SourceAway { source, lasts, .. } => {
                self.source_lost(source);
                lasting = Some(lasts);
            }
            Stimulus::SourceUnruly { source, lasts } => self.source_unruly(source, until(lasts)),
            Stimulus::DriverAway { driver, lasts } => {
                if self.drivers[driver].up {
                    self.faults.add(Fault::DriverAway);
                    self.driver_down(driver);
                    self.driver_changed(driver);
                    self.schedule_in(lasts, Happening::DriverUp { driver });
                }
            }
            Stimulus::DriverRestarts { driver } => {
                if self.drivers[driver].up {
                    self.driver_down(driver);
                    let mut rng = self.luck(&[60, index as u64]);
                    // A quick restart may go unseen but for the new registration.
                    if rng.chance(500) {
                        self.driver_changed(driver);
                    }
                    self.schedule_in(rng.spread(50, 5_000), Happening::DriverUp { driver });
                }
            }
            Stimulus::DriverFaulty { driver, behavior, per_mille, lasts } => {
                let until = until(lasts);
                self.drivers[driver].faulty.retain(|it| it.until > now);
                self.drivers[driver].faulty.push(Window { behavior, per_mille, until });
            }
            Stimulus::LocalFaulty { trouble, per_mille, lasts } => {
                self.conditions.local.retain(|(.., until)| *until > now);
                self.conditions.local.push((trouble, per_mille, until(lasts)));
            }
            Stimulus::AttacherFaulty { trouble, lasts } => {
                self.conditions.attacher.retain(|(_, until)| *until > now);
                self.conditions.attacher.push((trouble, until(lasts)));
            }
            Stimulus::AttachmentFlaps { pick, lasts } => self.attachment_flaps(pick, lasts),
            Stimulus::ReportsFail { trouble, lasts } => {
                self.conditions.reports.retain(|(_, until)| *until > now);
                self.conditions.reports.push((trouble, until(lasts)));
            }
            Stimulus::MountTaken { pick } => self.mount_taken(pick),
            Stimulus::MountCovered { pick, lasts } => {
                self.mount_covered(pick);
                lasting = Some(lasts);
            }
            Stimulus::TimersLate { by, lasts } => self.conditions.timers_late = Some((by, until(lasts))),
            Stimulus::ClockSteps { back } => {
                if let Some(process) = &mut self.process {
                    process.clock_back = back;
                    self.tell(Event::TimePassed);
                }
            }
            Stimulus::Killed { steps, start } => self.plan_kill(steps, start),
            Stimulus::Rebooted { start } => {
                if self.process.is_some() {
                    self.reboot(start);
                }
            }
            Stimulus::PowerLost { start } => {
                if self.process.is_some() {
                    self.lose_power(start);
                }
            }
            Stimulus::Remark { text } => self.trace.remark(|| format!("\n{text}")),
            Stimulus::Explained { pod } => self.explain(pod),
        }
        if let Some(lasts) = lasting {
            self.schedule_in(lasts, Happening::StimulusOver(index));
        }
    }

    /// An entry of the script that lasted is over.
    pub(crate) fn stimulus_over(&mut self, index: usize) {
        match self.script.entries[index].stimulus.clone() {
            Stimulus::PodLeaves { pod, .. } => {
                if let PodState::Leaving(_) = self.sources.state(pod) {
                    self.pod_becomes(pod, PodState::Absent);
                }
            }
            Stimulus::VolumeDropped { pod, index, .. } => self.name_volume(pod, index, true),
            Stimulus::LookupFails { pod, index, .. } => {
                if less(&mut self.conditions.lookups_failing, &(pod, index)) {
                    self.look_up_again(pod);
                }
            }
            Stimulus::ObjectMissing { volume, .. } => {
                if less(&mut self.conditions.objects_missing, &volume)
                    && let Some(object) = self.setting.volumes[volume].object.clone()
                {
                    self.tell(Event::ObjectChanged(object));
                }
            }
            Stimulus::SourceAway { source, list, .. } => self.source_back(source, list),
            Stimulus::MountCovered { .. } => self.mount_uncovered(),
            Stimulus::PodComes { .. }
            | Stimulus::PodStops { .. }
            | Stimulus::PodFinishes { .. }
            | Stimulus::PodGoes { .. }
            | Stimulus::ContentChanges { .. }
            | Stimulus::SizeGrows { .. }
            | Stimulus::WaitStarts { .. }
            | Stimulus::SourceUnruly { .. }
            | Stimulus::DriverAway { .. }
            | Stimulus::DriverRestarts { .. }
            | Stimulus::DriverFaulty { .. }
            | Stimulus::LocalFaulty { .. }
            | Stimulus::AttacherFaulty { .. }
            | Stimulus::AttachmentFlaps { .. }
            | Stimulus::ReportsFail { .. }
            | Stimulus::MountTaken { .. }
            | Stimulus::TimersLate { .. }
            | Stimulus::ClockSteps { .. }
            | Stimulus::Killed { .. }
            | Stimulus::Rebooted { .. }
            | Stimulus::PowerLost { .. }
            | Stimulus::Remark { .. }
            | Stimulus::Explained { .. } => {}
        }
    }

    fn pod_comes(&mut self, pod: usize) {
        if self.sources.state(pod) == PodState::Absent {
            let named = (1_u8 << self.setting.pods[pod].uses.len()) - 1;
            self.pod_becomes(pod, PodState::Present(Phase::Running, named));
        }
    }

    /// The pod names one of its volumes, or does not.
    fn name_volume(&mut self, pod: usize, index: usize, names: bool) {
        if let PodState::Present(phase, named) = self.sources.state(pod) {
            let bit = 1 << index;
            let named = if names { named | bit } else { named & !bit };
            self.pod_becomes(pod, PodState::Present(phase, named));
        }
    }

    fn size_grows(&mut self, volume: usize) {
        let size = &mut self.conditions.sizes[volume];
        if let Some(wanted) = &mut size.wanted_bytes {
            *wanted += GIBIBYTE;
            let wanted = *wanted;
            if self.conditions.growth_refused.get(&volume) == Some(&Refusal::ThisSize) {
                self.conditions.growth_refused.remove(&volume);
            }
            self.sources.forget_specs(volume);
            let name = self.setting.volumes[volume].name.clone();
            self.note(|| format!("true: {name} should have {wanted} bytes"));
            self.look_up_users(volume);
        }
    }

    /// The pods that name a volume are looked up again.
    fn look_up_users(&mut self, volume: usize) {
        for pod in 0..self.setting.pods.len() {
            let uses = self.setting.pods[pod].uses.iter().any(|it| it.volume == volume);
            if uses && matches!(self.sources.state(pod), PodState::Present(..)) {
                self.look_up_again(pod);
            }
        }
    }

    /// The `pick`th place at which something is mounted.
    fn picked_place(&self, pick: u64) -> Option<MountPlace> {
        let count = self.kernel.places().count() as u64;
        let index = pick.checked_rem(count)?;
        self.kernel.places().nth(index as usize).cloned()
    }

    fn mount_taken(&mut self, pick: u64) {
        if let Some(place) = self.picked_place(pick)
            && self.kernel.unmount_top(&place)
        {
            self.faults.add(Fault::MountTaken);
            self.note(|| format!("true: somebody unmounts what is {}", crate::describe::place_words(&place)));
            self.mount_changed(&place);
        }
    }

    fn mount_covered(&mut self, pick: u64) {
        if let Some(place) = self.picked_place(pick) {
            self.kernel.cover(place.clone());
            self.faults.add(Fault::MountCovered);
            self.note(|| format!("true: somebody mounts over what is {}", crate::describe::place_words(&place)));
            self.mount_changed(&place);
        }
    }

    /// Whoever mounted over our volumes takes that away.
    fn mount_uncovered(&mut self) {
        if let Some((place, mount_id)) = self.kernel.first_foreign()
            && self.kernel.unmount(&place, mount_id)
        {
            self.faults.add(Fault::MountUncovered);
            self.note(|| format!("true: somebody uncovers what is {}", crate::describe::place_words(&place)));
            self.mount_changed(&place);
        }
    }

    /// Shows why each volume of a pod is as it is.
    fn explain(&mut self, pod: usize) {
        let plan = self.setting.pods[pod].clone();
        for used in &plan.uses {
            let Some(process) = &self.process else {
                return;
            };
            let reasons = process.engine.explain(&plan.uid, &used.outer);
            let mounted = process.engine.mounted_volumes(&plan.uid).contains_key(&used.outer);
            let head = format!("explain {} {}:", plan.name, used.outer);
            self.trace.remark(|| match (reasons.is_empty(), mounted) {
                (true, true) => format!("    {head} it is mounted"),
                (true, false) => format!("    {head} nothing is known of it"),
                (false, _) => {
                    let lines = reasons
                        .iter()
                        .map(|it| format!("\n      {}: {}\n        {}", it.code, it.text, it.code.remedy()));
                    format!("    {head}{}", lines.collect::<String>())
                }
            });
        }
    }

    /// All trouble ends: everything works, everybody tells the truth, and whatever hung lets go.
    pub(crate) fn heal(&mut self) {
        self.trace.remark(|| "-- all trouble ends --".into());
        self.kill = None;
        self.conditions.heal();
        for driver in 0..self.drivers.len() {
            self.drivers[driver].faulty.clear();
            let hangs = self.calls.values().any(|it| it.driver == Some(driver));
            if hangs || !self.drivers[driver].up {
                self.driver_down(driver);
                self.driver_changed(driver);
                self.schedule_in(1_000, Happening::DriverUp { driver });
            }
        }
        for (pod, _) in std::mem::take(&mut self.conditions.lookups_failing).into_keys() {
            self.look_up_again(pod);
        }
        for volume in std::mem::take(&mut self.conditions.objects_missing).into_keys() {
            if let Some(object) = self.setting.volumes[volume].object.clone() {
                self.tell(Event::ObjectChanged(object));
            }
        }
        self.heal_attacher();
        if self.process.is_none() {
            self.process_starts(Start::CLEAN);
        }
        self.heal_sources();
    }

    /// Every pod goes.
    pub(crate) fn remove_all_pods(&mut self) {
        self.trace.remark(|| "-- all pods go --".into());
        for pod in 0..self.setting.pods.len() {
            self.pod_becomes(pod, PodState::Absent);
        }
    }
}

/// One trouble less at work; says whether it was the last.
fn less<K: Ord>(counts: &mut std::collections::BTreeMap<K, u32>, key: &K) -> bool {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        Some(_) => {
            counts.remove(key);
            true
        }
        None => false,
    }
}
