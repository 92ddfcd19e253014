//! What the end of an operation means for the volume it was about (E-§3.4, E-§6).

use crate::actual::{Growth, PodKey, Published, Running, VolumeKey};
use crate::backoff::Backoff;
use crate::engine::Engine;
use crate::ids::OperationId;
use crate::notice::{Notice, Verdict};
use crate::oddity::Oddity;
use crate::operation::{Cause, Done, OperationKind, Outcome, Proof, Trouble};
use crate::step::Step;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::mem;

impl Engine {
    pub(crate) fn operation_ended(&mut self, id: OperationId, outcome: Outcome) {
        let Some(running) = self.take_running(id) else {
            self.odd(Oddity::UnknownOperation, format!("operation {id} ended but does not run"));
            return;
        };
        let outcome = self.checked(id, running.kind, outcome);
        self.touch(running.volume);
        self.touch_rivals(running.pod);
        match running.kind {
            OperationKind::Attach | OperationKind::Detach => {
                let volume = &mut self.volumes[running.volume];
                let done = device(&outcome);
                volume.attach = mem::replace(&mut volume.attach, Step::Absent).ended(&outcome, done);
            }
            OperationKind::Stage | OperationKind::Unstage => {
                let volume = &mut self.volumes[running.volume];
                let done = proof(&outcome);
                volume.stage = mem::replace(&mut volume.stage, Step::Absent).ended(&outcome, done);
                volume.forget_label_if_unmounted();
            }
            OperationKind::Publish | OperationKind::Unpublish => self.mount_operation_ended(&running, &outcome),
            OperationKind::Expand => return self.expansion_ended(&running, outcome),
        }
        let pod = running.pod;
        match outcome {
            Outcome::Done(_) => self.clear_backoff(running.volume, pod),
            Outcome::Refused(trouble) | Outcome::Unknown(trouble) => {
                self.back_off(running.volume, pod, running.kind, trouble);
            }
        }
    }

    /// An answer that does not fit its question says nothing.
    fn checked(&mut self, id: OperationId, kind: OperationKind, outcome: Outcome) -> Outcome {
        let Outcome::Done(done) = &outcome else {
            return outcome;
        };
        let fits = match (kind, done) {
            (OperationKind::Attach, Done::Attached { .. })
            | (OperationKind::Stage | OperationKind::Publish, Done::Mounted(_))
            | (OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach, Done::Gone)
            | (OperationKind::Expand, Done::Expanded { .. }) => true,
            (_, Done::Attached { .. } | Done::Mounted(_) | Done::Gone | Done::Expanded { .. }) => false,
        };
        if fits {
            return outcome;
        }
        let text = format!("{kind} {id} was answered with {done:?}");
        self.odd(Oddity::OutcomeMismatch, text.clone());
        Outcome::Unknown(Trouble { cause: Cause::Other, text: text.into() })
    }

    fn mount_operation_ended(&mut self, running: &Running, outcome: &Outcome) {
        let now = self.world.now;
        let volume = &mut self.volumes[running.volume];
        let awaits_growth = volume.spec.capabilities.expand;
        let Some(mount) = running.pod.and_then(|it| volume.mounts.iter_mut().find(|mount| mount.pod == it)) else {
            return;
        };
        let revision = running.goal;
        if running.refresh {
            mount.refreshing = None;
            // Whatever became of the refresh, the pod keeps what it had (E-131), and a success makes good what was lost.
            if let Some(proof) = proof(outcome) {
                let awaits_growth = mount.step.held().is_some_and(|it| it.awaits_growth);
                mount.step = Step::Held(Published { proof, revision, at: now, awaits_growth });
            }
        } else {
            let done = proof(outcome).map(|proof| Published { proof, revision, at: now, awaits_growth });
            mount.step = mem::replace(&mut mount.step, Step::Absent).ended(outcome, done);
        }
        volume.forget_label_if_unmounted();
    }

    fn expansion_ended(&mut self, running: &Running, outcome: Outcome) {
        let volume = &mut self.volumes[running.volume];
        volume.expanding = None;
        let verdict = match outcome {
            Outcome::Done(Done::Expanded { size_bytes }) => {
                // A driver may round up; one that says less than it was asked for has done what it can (E-289).
                volume.size_bytes = Some(size_bytes.max(running.goal));
                Verdict::Grown { size_bytes }
            }
            Outcome::Refused(trouble) => match trouble.cause {
                Cause::InUse => {
                    volume.growth = Growth::InUse;
                    Verdict::InUse(trouble)
                }
                Cause::Infeasible => {
                    volume.growth = Growth::Infeasible { to_bytes: running.goal };
                    Verdict::Infeasible(trouble)
                }
                Cause::NotSupported => {
                    volume.size_bytes = Some(running.goal);
                    Verdict::Grown { size_bytes: running.goal }
                }
                Cause::Driver | Cause::Object(_) | Cause::Node(_) | Cause::Other => Verdict::Failed(trouble),
            },
            Outcome::Done(_) => return,
            // A time-out is no verdict (the kubelet takes it for one, W-20).
            Outcome::Unknown(trouble) => {
                return self.back_off(running.volume, None, OperationKind::Expand, trouble);
            }
        };
        match &verdict {
            Verdict::Failed(trouble) => self.back_off(running.volume, None, OperationKind::Expand, trouble.clone()),
            Verdict::Grown { .. } | Verdict::Infeasible(_) | Verdict::InUse(_) => {
                self.clear_backoff(running.volume, None);
            }
        }
        let volume = self.volumes[running.volume].spec.id.clone();
        self.notices.push_back(Notice::ExpansionEnded { volume, verdict });
    }

    /// Notes a failure, of a pod's mount or of the volume itself.
    fn back_off(&mut self, key: VolumeKey, pod: Option<PodKey>, kind: OperationKind, trouble: Trouble) {
        let previous = self.take_backoff(key, pod);
        let backoff = Backoff::failed(previous.as_deref(), kind, self.world.now, trouble);
        if let Cause::Object(object) = &backoff.trouble.cause {
            self.missing_objects.insert((object.clone(), key, pod));
        }
        if let Some(place) = self.backoff_place(key, pod) {
            *place = Some(Box::new(backoff));
        }
    }

    /// Forgets failures, because of a success or because their cause went away.
    pub(crate) fn clear_backoff(&mut self, key: VolumeKey, pod: Option<PodKey>) {
        self.take_backoff(key, pod);
    }

    /// Forgets all failures of a volume and of its mounts.
    pub(crate) fn clear_backoffs(&mut self, key: VolumeKey) {
        self.clear_backoff(key, None);
        for index in 0..self.volumes[key].mounts.len() {
            let mount = &self.volumes[key].mounts[index];
            if mount.backoff.is_some() {
                let pod = mount.pod;
                self.clear_backoff(key, Some(pod));
            }
        }
    }

    fn take_backoff(&mut self, key: VolumeKey, pod: Option<PodKey>) -> Option<Box<Backoff>> {
        let previous = self.backoff_place(key, pod)?.take()?;
        if let Cause::Object(object) = &previous.trouble.cause {
            self.missing_objects.remove(&(object.clone(), key, pod));
        }
        Some(previous)
    }

    fn backoff_place(&mut self, key: VolumeKey, pod: Option<PodKey>) -> Option<&mut Option<Box<Backoff>>> {
        let volume = &mut self.volumes[key];
        match pod {
            None => Some(&mut volume.backoff),
            Some(pod) => volume.mount_mut(pod).map(|it| &mut it.backoff),
        }
    }
}

/// The mount that an operation made, if it made one.
fn proof(outcome: &Outcome) -> Option<Proof> {
    match outcome {
        Outcome::Done(Done::Mounted(proof)) => Some(*proof),
        Outcome::Done(Done::Gone | Done::Attached { .. } | Done::Expanded { .. })
        | Outcome::Refused(_)
        | Outcome::Unknown(_) => None,
    }
}

/// The device that an operation attached, if it did.
fn device(outcome: &Outcome) -> Option<Option<Arc<str>>> {
    match outcome {
        Outcome::Done(Done::Attached { device }) => Some(device.clone()),
        Outcome::Done(Done::Gone | Done::Mounted(_) | Done::Expanded { .. })
        | Outcome::Refused(_)
        | Outcome::Unknown(_) => None,
    }
}
