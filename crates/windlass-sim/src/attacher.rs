//! The attach/detach controller: attaches what pods on the node want, detaches what nobody wants and the node does not
//! report in use.
//!
//! Its order is the real one's (`spec/controller.md`): to detach, it looks whether the volume is reported in use, stops
//! listing it as attached, looks again, and only then detaches. Between any two of these the node may write a report.

use crate::faults::Fault;
use crate::kernel::volume_of;
use crate::script::AttacherTrouble;
use crate::setting::UsePlan;
use crate::source::PodState;
use crate::world::{Happening, World};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::event::Attachment;
use windlass_core::ids::VolumeId;
use windlass_core::spec::{Attach, Phase};

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct Attacher {
    states: BTreeMap<VolumeId, State>,
    /// The volumes that it will look at soon.
    looking: BTreeSet<VolumeId>,
    /// The volumes of which it says wrongly that they are not attached.
    flapping: BTreeSet<VolumeId>,
}

/// Where a volume stands. One that is not here is detached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Attaching,
    Attached,
    /// No longer listed, but not yet detached.
    Leaving,
    /// Being detached: nobody may use it any more.
    Detaching,
}

impl Attacher {
    /// Is a volume truly attached, and nobody about to take it?
    pub fn is_attached(&self, volume: &VolumeId) -> bool {
        matches!(self.states.get(volume), Some(State::Attached | State::Leaving))
    }

    /// The volumes that are attached, or about to be, or not quite detached.
    pub fn busy(&self) -> impl Iterator<Item = &VolumeId> {
        self.states.keys()
    }
}

impl World {
    /// Something changed about a volume: the attacher looks at it soon, if it is one of its volumes.
    pub(crate) fn attacher_soon(&mut self, volume: &VolumeId) {
        let plan = self.setting.volume(volume);
        if !plan.is_some_and(|it| it.capabilities.attach == Attach::ByController) {
            return;
        }
        if self.attacher.looking.insert(volume.clone()) {
            let delay = 1 + self.luck(&[40, self.steps]).spread(1, 5_000);
            self.schedule_in(delay, Happening::AttacherLooks(volume.clone()));
        }
    }

    /// Does any pod on the node want the volume, as far as the API goes?
    fn is_wanted_by_api(&self, volume: &VolumeId) -> bool {
        let plan_of_volume = self.setting.volume_index(volume);
        self.setting.pods.iter().enumerate().any(|(pod, plan)| {
            let state = self.sources.state(pod);
            let runs = match state {
                PodState::Present(Phase::Running | Phase::Stopping, _) => true,
                PodState::Present(Phase::Finished, _) => self.setting.keep_terminated,
                PodState::Leaving(_) | PodState::Absent => false,
            };
            // What a controller attaches is never a pod's own, so the plan says which volume it is.
            let named = |(index, used): (usize, &UsePlan)| {
                Some(used.volume) == plan_of_volume && state.names(index) && !used.invalid
            };
            runs && plan.uses.iter().enumerate().any(named)
        })
    }

    /// The attacher looks at a volume.
    pub(crate) fn attacher_looks(&mut self, volume: &VolumeId) {
        self.attacher.looking.remove(volume);
        let wanted = self.is_wanted_by_api(volume);
        let state = self.attacher.states.get(volume).copied();
        let mut rng = self.luck(&[41, self.steps]);
        match state {
            None if wanted => {
                self.attacher.states.insert(volume.clone(), State::Attaching);
                let slow = self.conditions.attacher_trouble(self.now) == Some(AttacherTrouble::Slow);
                if slow {
                    self.faults.add(Fault::AttachSlow);
                }
                let takes = if slow { rng.spread(10_000, 600_000) } else { rng.spread(50, 5_000) };
                self.schedule_in(takes, Happening::AttachEnds(volume.clone()));
            }
            Some(State::Attached) if !wanted && !self.apiserver.in_use.contains(volume) => {
                self.attacher.states.insert(volume.clone(), State::Leaving);
                self.list_attachment(volume, false);
                self.schedule_in(rng.spread(10, 3_000), Happening::DetachVerified(volume.clone()));
            }
            None | Some(State::Attached | State::Attaching | State::Leaving | State::Detaching) => {}
        }
    }

    /// Attaching ends, well or not.
    pub(crate) fn attach_ends(&mut self, volume: &VolumeId) {
        let trouble = self.conditions.attacher_trouble(self.now);
        let failed = match trouble {
            Some(AttacherTrouble::Fails) => Some((Fault::AttachFailed, "the cloud said no", false)),
            Some(AttacherTrouble::Exhausted) => Some((Fault::AttachExhausted, "the node has no free slot", true)),
            Some(AttacherTrouble::Slow) | None => None,
        };
        let Some((fault, text, exhausted)) = failed else {
            self.attacher.states.insert(volume.clone(), State::Attached);
            self.list_attachment(volume, true);
            // Whoever wanted it may have changed its mind meanwhile.
            return self.attacher_soon(volume);
        };
        self.faults.add(fault);
        self.attacher.states.remove(volume);
        let version = self.next_attachment_version();
        self.tell_attachment(volume, version, Attachment::Failed { text: text.into(), exhausted });
        self.attacher.looking.insert(volume.clone());
        let again = self.luck(&[42, self.steps]).between(5_000, 60_000);
        self.schedule_in(again, Happening::AttacherLooks(volume.clone()));
    }

    /// The volume is no longer listed: the attacher looks once more whether it may be detached.
    pub(crate) fn detach_verified(&mut self, volume: &VolumeId) {
        if self.is_wanted_by_api(volume) || self.apiserver.in_use.contains(volume) {
            self.attacher.states.insert(volume.clone(), State::Attached);
            self.list_attachment(volume, true);
            return self.attacher_soon(volume);
        }
        self.attacher.states.insert(volume.clone(), State::Detaching);
        self.holdings_changed = true;
        let takes = self.luck(&[43, self.steps]).spread(50, 5_000);
        self.schedule_in(takes, Happening::DetachEnds(volume.clone()));
    }

    /// The volume is detached.
    pub(crate) fn detach_ends(&mut self, volume: &VolumeId) {
        self.note(|| format!("true: {volume} is detached"));
        self.attacher.states.remove(volume);
        self.attacher_soon(volume);
    }

    /// The attacher says of an attached volume that it is not; says which.
    pub(crate) fn attachment_flaps(&mut self, pick: u64, lasts: u64) {
        let attached = self.attacher.states.iter().filter(|(_, state)| **state == State::Attached);
        let attached: Vec<VolumeId> = attached.map(|(volume, _)| volume.clone()).collect();
        if attached.is_empty() {
            return;
        }
        let volume = attached[(pick % attached.len() as u64) as usize].clone();
        if self.attacher.flapping.insert(volume.clone()) {
            if self.kernel.ours().any(|it| *volume_of(it) == volume) {
                self.faults.add(Fault::AttachFlap);
            }
            self.list_attachment(&volume, false);
            self.schedule_in(lasts, Happening::Relisted(volume));
        }
    }

    /// The attacher is right again about a volume.
    pub(crate) fn relisted(&mut self, volume: &VolumeId) {
        if self.attacher.flapping.remove(volume) && self.attacher.states.get(volume) == Some(&State::Attached) {
            self.list_attachment(volume, true);
        }
    }

    /// The attacher is right again about all volumes, and looks at everything once more.
    pub(crate) fn heal_attacher(&mut self) {
        for volume in self.attacher.flapping.clone() {
            self.relisted(&volume);
        }
        let volumes: Vec<VolumeId> = self.setting.attached_by_controller().cloned().collect();
        for volume in volumes {
            self.attacher_soon(&volume);
        }
    }
}
