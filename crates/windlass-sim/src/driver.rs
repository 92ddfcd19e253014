//! A CSI-like driver: it attaches, stages, publishes and grows volumes, each call as often as it is asked, and it may fail
//! in every way that a driver can.
//!
//! What it did outlives its process, as sessions and mounts do, and is gone after a reboot. A call that has reached it is
//! carried out whether or not somebody still waits for the answer.

use crate::rng::{Rng, number_of};
use crate::script::Behavior;
use crate::setting::{Medium, VolumePlan};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Operation;
use windlass_core::event::MountPlace;
use windlass_core::ids::{OperationId, Time, VolumeId};
use windlass_core::operation::{Cause, OperationKind, Proof, Trouble};
use windlass_core::spec::Concurrency;

/// A driver.
#[derive(Clone, Debug, Default)]
pub struct Driver {
    /// Whether it can be called.
    pub up: bool,
    /// The volumes for which it keeps a session on this node, mounted or not.
    pub sessions: BTreeSet<VolumeId>,
    /// The sizes of volumes that have grown.
    pub sizes: BTreeMap<VolumeId, u64>,
    /// How it misbehaves at the moment.
    pub faulty: Vec<Window>,
}

/// A while in which a driver misbehaves.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// How.
    pub behavior: Behavior,
    /// How many calls in a thousand.
    pub per_mille: u32,
    /// Until when.
    pub until: Time,
}

/// One call, seen from the side that carries it out.
#[derive(Clone, Debug)]
pub struct Call {
    /// What was asked.
    pub operation: Operation,
    /// The place it is about, if it is about a mount.
    pub place: Option<MountPlace>,
    /// The driver; none if the process does it itself.
    pub driver: Option<usize>,
    /// The life of the process that asked.
    pub life: u64,
    /// What it will do.
    pub effect: Effect,
    /// What it will answer.
    pub answer: Answer,
    /// Whether the driver is still at it, so that it refuses other calls for the volume.
    pub at_work: bool,
    /// Whether the answer has yet to come.
    pub awaited: bool,
}

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// What it was asked to do.
    Whole,
    /// The session without the mount, or the mount without the session.
    Half,
    /// Nothing.
    Nothing,
}

/// What a call answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// That it is done.
    Done,
    /// That nothing was done (a final error in CSI's words).
    Final(Trouble),
    /// Nothing that says whether anything was done.
    Open(Trouble),
}

impl Answer {
    /// A final error without a special cause.
    pub fn refused(text: &str) -> Self {
        Self::Final(Trouble { cause: Cause::Other, text: text.into() })
    }

    /// Nothing certain, without a special cause.
    pub fn open(text: &str) -> Self {
        Self::Open(Trouble { cause: Cause::Other, text: text.into() })
    }
}

/// Number that identifies one call for ever.
pub type CallId = u64;

impl Driver {
    /// How it treats a call that comes now, if it misbehaves.
    pub fn misbehavior(&self, now: Time, kind: OperationKind, rng: &mut Rng) -> Option<Behavior> {
        self.faulty
            .iter()
            .filter(|it| it.until > now && applies(it.behavior, kind))
            .find(|it| rng.chance(it.per_mille))
            .map(|it| it.behavior)
    }
}

/// Can a call of this kind go wrong in this way?
fn applies(behavior: Behavior, kind: OperationKind) -> bool {
    match behavior {
        Behavior::PartialStage => kind == OperationKind::Stage,
        Behavior::PartialUnstage => kind == OperationKind::Unstage,
        Behavior::ExpandInUse | Behavior::ExpandInfeasible | Behavior::ExpandNotSupported => {
            kind == OperationKind::Expand
        }
        // Nothing shows whether a volume has grown or is attached, so a lie about it could not be found out.
        Behavior::DoneWithoutEffect | Behavior::RefusedWithEffect => {
            !matches!(kind, OperationKind::Expand | OperationKind::Attach | OperationKind::Detach)
        }
        Behavior::FinalError
        | Behavior::TimeoutWithEffect
        | Behavior::TimeoutWithoutEffect
        | Behavior::ConnectionLost
        | Behavior::Hang
        | Behavior::HangUntilRestart => true,
    }
}

/// What a call does, what it answers, and when.
#[derive(Clone, Debug)]
pub struct Response {
    /// What it does.
    pub effect: Effect,
    /// What it answers.
    pub answer: Answer,
    /// When it does it; not before the driver is restarted if `None`.
    pub finishes: Option<Time>,
    /// When it answers; not before the driver is restarted if `None`.
    pub answers: Option<Time>,
}

/// How a driver responds to a call that reached it now.
pub fn respond(now: Time, operation: &Operation, behavior: Option<Behavior>, rng: &mut Rng) -> Response {
    let soon = Time(now.0 + rng.spread(3, 4_000));
    let later = Time(soon.0 + rng.spread(1, 120_000));
    // Whoever calls gives up a little before the operation counts as hung.
    let out_of_time = Time(now.0 + 1 + operation.deadline.0.saturating_sub(now.0) / 10 * 9);
    let at_once = |effect, answer| Response { effect, answer, finishes: Some(soon), answers: Some(soon) };
    let Some(behavior) = behavior else {
        return at_once(Effect::Whole, Answer::Done);
    };
    let refused = |cause, text: &str| Answer::Final(Trouble { cause, text: text.into() });
    let timed_out = || Answer::open("DEADLINE_EXCEEDED: no answer in time");
    let lost = || Answer::open("UNAVAILABLE: connection lost");
    match behavior {
        Behavior::FinalError => at_once(Effect::Nothing, refused(Cause::Other, "INTERNAL: not today")),
        Behavior::DoneWithoutEffect => at_once(Effect::Nothing, Answer::Done),
        Behavior::RefusedWithEffect => {
            at_once(Effect::Whole, refused(Cause::Other, "INTERNAL: it went wrong, or so it seems"))
        }
        Behavior::PartialStage => at_once(Effect::Half, Answer::open("UNAVAILABLE: logged in but could not mount")),
        Behavior::PartialUnstage => at_once(Effect::Half, Answer::open("UNAVAILABLE: unmounted but could not log out")),
        Behavior::ExpandInUse => {
            at_once(Effect::Nothing, refused(Cause::InUse, "FAILED_PRECONDITION: volume is in use"))
        }
        Behavior::ExpandInfeasible => at_once(Effect::Nothing, refused(Cause::Infeasible, "OUT_OF_RANGE: too large")),
        Behavior::ExpandNotSupported => {
            at_once(Effect::Nothing, refused(Cause::NotSupported, "UNIMPLEMENTED: nothing to do here"))
        }
        Behavior::TimeoutWithEffect => Response {
            effect: Effect::Whole,
            answer: timed_out(),
            finishes: Some(if rng.chance(500) { soon } else { out_of_time.max(later) }),
            answers: Some(out_of_time),
        },
        Behavior::TimeoutWithoutEffect => {
            Response { effect: Effect::Nothing, answer: timed_out(), finishes: Some(later), answers: Some(out_of_time) }
        }
        Behavior::ConnectionLost => Response {
            effect: if rng.chance(600) { Effect::Whole } else { Effect::Nothing },
            answer: lost(),
            finishes: Some(later),
            answers: Some(soon),
        },
        Behavior::Hang => {
            let at = Time(operation.deadline.0 + rng.spread(1_000, 1_800_000));
            let done = rng.chance(700);
            Response {
                effect: if done || rng.chance(300) { Effect::Whole } else { Effect::Nothing },
                answer: if done { Answer::Done } else { lost() },
                finishes: Some(at),
                answers: Some(at),
            }
        }
        Behavior::HangUntilRestart => Response {
            effect: if rng.chance(500) { Effect::Whole } else { Effect::Nothing },
            answer: lost(),
            finishes: None,
            answers: None,
        },
    }
}

impl Call {
    /// Would a driver refuse `operation` while it is at work on this call? Calls for a volume as a whole exclude all
    /// others; those for different pods may overlap if the driver can do that.
    pub fn excludes(&self, operation: &Operation) -> bool {
        if !self.at_work || self.operation.volume() != operation.volume() {
            return false;
        }
        match (self.operation.action.pod(), operation.action.pod()) {
            (Some(one), Some(other)) if one != other => operation.spec.capabilities.concurrency == Concurrency::Alone,
            (Some(_) | None, Some(_) | None) => true,
        }
    }

    /// The operation that the call belongs to, in the life that made it.
    pub fn asked_by(&self) -> (u64, OperationId) {
        (self.life, self.operation.id)
    }
}

/// The device of which a volume's mounts are, where that is always the same one.
pub fn device_of(volume: &VolumeId) -> u64 {
    number_of(volume.as_str()) & 0xffff_ffff
}

/// The type of file system of a volume's mounts.
pub fn file_system_of(medium: Medium) -> u64 {
    match medium {
        Medium::Directory => 1,
        Medium::Memory => 2,
        Medium::Remote => 3,
    }
}

/// Could this be a mount of this volume? What is seen is compared with what must be there, never with who made it.
pub fn fits(plan: &VolumePlan, volume: &VolumeId, seen: &Proof) -> bool {
    let device = match plan.medium {
        Medium::Directory => seen.mount_id == 0,
        Medium::Memory => true,
        Medium::Remote => seen.device == device_of(volume),
    };
    device && seen.kind == file_system_of(plan.medium)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Setting;
    use std::sync::Arc;
    use windlass_core::operation::Action;

    fn operation(action: Action, concurrency: Concurrency) -> Operation {
        let setting = Setting::from_seed(1);
        let mut spec = setting.volumes[0].spec(&setting, &"p".into(), Default::default());
        spec.capabilities.concurrency = concurrency;
        Operation { id: OperationId(1), spec: Arc::new(spec), action, failures: 0, deadline: Time(10_000) }
    }

    fn call(operation: Operation) -> Call {
        Call {
            operation,
            place: None,
            driver: Some(0),
            life: 1,
            effect: Effect::Whole,
            answer: Answer::Done,
            at_work: true,
            awaited: true,
        }
    }

    fn unpublish(pod: &str) -> Action {
        Action::Unpublish { pod: pod.into(), with_pod: false }
    }

    #[test]
    fn calls_for_different_pods_overlap_only_if_the_driver_can() {
        for (concurrency, excludes) in [(Concurrency::Alone, true), (Concurrency::PodsOverlap, false)] {
            let one = call(operation(unpublish("a"), concurrency));
            assert_eq!(one.excludes(&operation(unpublish("b"), concurrency)), excludes);
            assert!(one.excludes(&operation(unpublish("a"), concurrency)));
            assert!(one.excludes(&operation(Action::Unstage, concurrency)));
        }
    }

    #[test]
    fn a_hang_answers_after_the_deadline_or_not_at_all() {
        let operation = operation(Action::Unstage, Concurrency::Alone);
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let late = respond(Time(5), &operation, Some(Behavior::Hang), &mut rng);
            assert!(late.answers > Some(operation.deadline));
            let never = respond(Time(5), &operation, Some(Behavior::HangUntilRestart), &mut rng);
            assert_eq!(never.answers, None);
        }
    }

    #[test]
    fn half_measures_apply_only_to_staging() {
        assert!(applies(Behavior::PartialStage, OperationKind::Stage));
        assert!(!applies(Behavior::PartialStage, OperationKind::Publish));
        assert!(!applies(Behavior::DoneWithoutEffect, OperationKind::Expand));
    }
}
