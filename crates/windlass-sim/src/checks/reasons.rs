//! I-7, every wait has a reason: whatever is not settled says why, and what it says is true.

use crate::executor::Turn;
use crate::process::Process;
use crate::world::World;
use std::time::Duration;
use windlass_core::ids::{PodUid, VolumeId};
use windlass_core::operation::OperationKind;
use windlass_core::reason::{Code, Reason, WaitsOn};
use windlass_core::snapshot::{MountView, Snapshot, StepView, TurnView, VolumeView};
use windlass_core::spec::Phase;

use crate::source::PodState;

/// What the check is called.
pub const NAME: &str = "every wait has a reason (I-7)";

/// Judges all reasons that the engine gives at this moment.
pub fn check(world: &World, snapshot: &Snapshot) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    operations_are_those_that_run(process, snapshot)?;
    for volume in &snapshot.volumes {
        let about = || format!("volume {}", volume.id);
        // A volume that can do nothing before pods let go of it leaves it to their mounts to say why they do not.
        let silent = volume.reasons.is_empty() && volume.mounts.iter().all(|it| it.reasons.is_empty());
        if (in_motion(volume.attach) || in_motion(volume.stage)) && silent {
            return Err(format!("{} is not settled and does not say why: {volume:?}", about()));
        }
        for reason in &volume.reasons {
            let judge = Judge { world, process, snapshot, volume, mount: None };
            judge.reason(reason).map_err(|it| format!("{}: {it}: {reason:?}", about()))?;
        }
        for mount in &volume.mounts {
            let about = || format!("volume {} of pod {}", volume.id, mount.pod);
            if in_motion(mount.publish) && mount.reasons.is_empty() {
                return Err(format!("{} is not settled and does not say why: {mount:?}", about()));
            }
            for reason in &mount.reasons {
                let judge = Judge { world, process, snapshot, volume, mount: Some(mount) };
                judge.reason(reason).map_err(|it| format!("{}: {it}: {reason:?}", about()))?;
            }
        }
    }
    pods_explain_themselves(world, process)
}

/// Is a step neither here nor gone?
fn in_motion(step: StepView) -> bool {
    match step {
        StepView::Doing | StepView::Undoing | StepView::Uncertain(_) => true,
        StepView::Absent | StepView::Held => false,
    }
}

fn operations_are_those_that_run(process: &Process, snapshot: &Snapshot) -> Result<(), String> {
    let shown: Vec<_> = snapshot.operations.iter().map(|it| it.id).collect();
    let running: Vec<_> = process.flights.keys().copied().collect();
    if shown != running {
        return Err(format!("operations {shown:?} are shown as running, but {running:?} run"));
    }
    for view in &snapshot.operations {
        let turn = process.flights[&view.id].turn;
        let expected = match turn {
            Turn::Queued { ahead } => TurnView::Queued { ahead },
            Turn::Blocked => TurnView::Hung,
            Turn::Runs { until } if until <= snapshot.now => TurnView::Hung,
            Turn::Runs { .. } => TurnView::Runs,
        };
        if view.turn != expected {
            return Err(format!("operation {} stands at {turn:?}, but: {view:?}", view.id));
        }
    }
    Ok(())
}

/// A pod that runs and lacks a volume can say why.
fn pods_explain_themselves(world: &World, process: &Process) -> Result<(), String> {
    for (pod, told) in &process.told {
        let (_, PodState::Present(Phase::Running, _)) = world.sources.state_at(*pod, *told) else {
            continue;
        };
        let uid = &world.setting.pods[*pod].uid;
        let Some(status) = process.engine.pod_status(uid) else {
            return Err(format!("pod {uid} was told and is not known"));
        };
        for name in &status.unmounted {
            if process.engine.explain(uid, name).is_empty() {
                return Err(format!("{name} of pod {uid} is not mounted and does not say why"));
            }
        }
    }
    Ok(())
}

/// Compares reasons of one volume, or of a pod's mount of it, with what is so.
struct Judge<'a> {
    world: &'a World,
    process: &'a Process,
    snapshot: &'a Snapshot,
    volume: &'a VolumeView,
    mount: Option<&'a MountView>,
}

impl Judge<'_> {
    fn reason(&self, reason: &Reason) -> Result<(), &'static str> {
        if reason.text.is_empty() {
            return Err("the reason has no text");
        }
        if reason.since > self.snapshot.now {
            return Err("the reason holds since a moment that has not come");
        }
        if let WaitsOn::Operation(id) = reason.waits_on
            && !self.process.flights.contains_key(&id)
        {
            return Err("it waits for an operation that does not run");
        }
        let kind_runs = |kinds: &[OperationKind]| match self.operation_kind(reason) {
            Some(kind) if kinds.contains(&kind) => Ok(()),
            Some(_) | None => Err("it names an operation of another kind"),
        };
        match reason.code {
            Code::Mounted | Code::Idle => Err("that is no reason to wait"),
            Code::Attaching => kind_runs(&[OperationKind::Attach]),
            Code::Staging => kind_runs(&[OperationKind::Stage]),
            Code::Publishing | Code::Refreshing => kind_runs(&[OperationKind::Publish]),
            Code::Expanding => kind_runs(&[OperationKind::Expand]),
            Code::Unpublishing => kind_runs(&[OperationKind::Unpublish]),
            Code::Unstaging => kind_runs(&[OperationKind::Unstage]),
            Code::Detaching => kind_runs(&[OperationKind::Detach]),
            Code::Queued => match reason.waits_on {
                WaitsOn::Operation(id) if self.is_queued(id) => Ok(()),
                _ => Err("the operation is not queued"),
            },
            Code::Hung => self.is_hung(reason),
            Code::VolumeBusy => match &reason.waits_on {
                WaitsOn::Operation(id) if self.flies_for_this_volume(*id) => Ok(()),
                _ => Err("it waits for an operation of another volume"),
            },
            Code::BackingOff => match reason.next_try {
                Some(at) if at > self.snapshot.now && reason.attempts > 0 => Ok(()),
                Some(_) | None => Err("it backs off without a next try to come"),
            },
            Code::Failed
            | Code::ObjectMissing
            | Code::DriverUnreachable
            | Code::NoSpace
            | Code::ReadOnlyFileSystem
            | Code::HeldOpen
            | Code::FileSystemBroken
            | Code::NotPermitted
            | Code::HostPathUnusable
            | Code::InTheWay
            | Code::TokenMissing
            | Code::AbilityMissing
            | Code::InputInvalid
            | Code::DriverLied
                if !self.failed_so(reason) =>
            {
                Err("the last attempt did not fail so")
            }
            Code::DriverMissing => match &reason.waits_on {
                WaitsOn::Driver(name) if self.is_registered(name.as_str()) => Err("the driver is registered"),
                _ => Ok(()),
            },
            Code::DiskNotRead if self.process.disk_read => Err("the disk was read"),
            Code::NotInManifests => match reason.goes_at {
                Some(at) if at > self.snapshot.now && at.since(self.snapshot.now) <= self.orphan_delay() => Ok(()),
                Some(_) | None => Err("it does not say when it goes"),
            },
            Code::OtherNode | Code::ManifestConflict => Err("nobody said so"),
            Code::SourceIncomplete if self.process.complete.iter().all(|it| *it) => Err("all sources are complete"),
            Code::AttachmentsUnknown if self.process.attachments_complete => Err("all attachments were told"),
            Code::WaitingForAttacher | Code::AttachFailed | Code::AttachLimit | Code::AttachmentLost
                if self.is_attached() =>
            {
                Err("it was told to be attached")
            }
            Code::NotStaged if self.volume.stage == StepView::Held => Err("it is staged"),
            Code::OtherPod => match &reason.waits_on {
                WaitsOn::Pod(other) if self.other_pod_has_it(other) => Ok(()),
                _ => Err("no other pod has it"),
            },
            Code::LabelConflict => match &reason.waits_on {
                WaitsOn::Pod(other) if self.is_other_pod(other) => Ok(()),
                _ => Err("no other pod wants it"),
            },
            Code::Uncertain | Code::MountVanished | Code::MountReplaced if !self.is_uncertain() => {
                Err("nothing is uncertain")
            }
            Code::LookupFailed if !self.a_lookup_failed() => Err("no look-up failed"),
            // What is left is said of matters that the world does not keep an account of.
            _ => Ok(()),
        }
    }

    fn orphan_delay(&self) -> Duration {
        Duration::from_millis(self.world.setting.orphan_delay)
    }

    fn operation_kind(&self, reason: &Reason) -> Option<OperationKind> {
        let WaitsOn::Operation(id) = reason.waits_on else {
            return None;
        };
        Some(self.process.flights.get(&id)?.operation.action.kind())
    }

    fn is_hung(&self, reason: &Reason) -> Result<(), &'static str> {
        let WaitsOn::Operation(id) = reason.waits_on else {
            return Err("it names no operation");
        };
        match self.process.flights.get(&id) {
            Some(flight) => match flight.turn {
                Turn::Blocked => Ok(()),
                Turn::Runs { until } if until <= self.snapshot.now => Ok(()),
                Turn::Runs { .. } => Err("the operation still has time"),
                Turn::Queued { .. } => Err("the operation has not begun"),
            },
            None => Err("the operation is none that runs"),
        }
    }

    fn is_queued(&self, id: windlass_core::ids::OperationId) -> bool {
        self.process.flights.get(&id).is_some_and(|it| matches!(it.turn, Turn::Queued { .. }))
    }

    /// Is it what the last operation said? A mount that waits for its volume tells of the volume's failures too.
    fn failed_so(&self, reason: &Reason) -> bool {
        let said = |pod: Option<&PodUid>| {
            let last = self.process.failures.get(&(self.volume.id.clone(), pod.cloned()));
            last.is_some_and(|it| it.cause.code() == reason.code && *it.text == *reason.text)
        };
        reason.attempts > 0 && (said(None) || self.mount.is_some_and(|it| said(Some(&it.pod))))
    }

    fn flies_for_this_volume(&self, id: windlass_core::ids::OperationId) -> bool {
        let flight = self.process.flights.get(&id);
        flight.is_some_and(|it| *it.operation.volume() == self.volume.id)
    }

    fn is_registered(&self, name: &str) -> bool {
        let drivers = &self.world.setting.drivers;
        self.process.drivers.iter().any(|it| drivers[*it].as_str() == name)
    }

    fn is_attached(&self) -> bool {
        let volume: &VolumeId = &self.volume.id;
        let told = self.process.attachments.get(volume);
        told.is_some_and(|(_, it)| matches!(it, windlass_core::event::Attachment::Attached { .. }))
    }

    fn is_other_pod(&self, other: &PodUid) -> bool {
        self.mount.is_none_or(|it| it.pod != *other) && self.volume.mounts.iter().any(|it| it.pod == *other)
    }

    fn other_pod_has_it(&self, other: &PodUid) -> bool {
        let has = |it: &MountView| it.pod == *other && it.publish != StepView::Absent;
        self.is_other_pod(other) && self.volume.mounts.iter().any(has)
    }

    fn is_uncertain(&self) -> bool {
        // While a call tries again, what it may find there is as uncertain as before.
        let uncertain = |step| matches!(step, StepView::Uncertain(_) | StepView::Doing | StepView::Undoing);
        // The chain of a mount that waits for its volume goes on with the volume's own reasons.
        self.mount.is_some_and(|it| uncertain(it.publish))
            || uncertain(self.volume.stage)
            || uncertain(self.volume.attach)
    }

    fn a_lookup_failed(&self) -> bool {
        let Some(pod) = self.mount.and_then(|it| self.world.pod_index(&it.pod)) else {
            return false;
        };
        // A volume that cannot be what the pod says is as little known as one that could not be looked up.
        let invalid = self.world.setting.pods[pod].uses.iter().any(|it| it.invalid);
        invalid || self.process.unknown.range((pod, 0)..(pod + 1, 0)).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use windlass_core::ids::Time;
    use windlass_core::operation::{Cause, Obstacle};

    fn snapshot(world: &World) -> Snapshot {
        world.process.as_ref().expect("it runs").engine.snapshot()
    }

    /// A world in which something has a reason with this code, and its snapshot.
    fn with_code(code: Code) -> (World, Snapshot) {
        with_code_where(code, |_| true)
    }

    /// The same, of the worlds whose process looks like this; that is looked at first, since a snapshot takes its time.
    fn with_code_where(code: Code, looks: impl Fn(&Process) -> bool) -> (World, Snapshot) {
        let has = |it: &[Reason]| it.iter().any(|it| it.code == code);
        let world = world_in_which(|world| {
            world.process.as_ref().is_some_and(&looks)
                && snapshot(world)
                    .volumes
                    .iter()
                    .any(|it| has(&it.reasons) || it.mounts.iter().any(|it| has(&it.reasons)))
        });
        let snapshot = snapshot(&world);
        assert_eq!(check(&world, &snapshot), Ok(()));
        (world, snapshot)
    }

    fn tamper(snapshot: &mut Snapshot, code: Code, change: impl Fn(&mut Reason)) {
        for volume in &mut snapshot.volumes {
            let of_mounts = volume.mounts.iter_mut().flat_map(|it| &mut it.reasons);
            for reason in of_mounts.chain(&mut volume.reasons).filter(|it| it.code == code) {
                change(reason);
            }
        }
    }

    #[test]
    fn a_wait_without_a_reason_is_noticed() {
        let (world, mut snapshot) = with_code(Code::Publishing);
        for volume in &mut snapshot.volumes {
            volume.mounts.iter_mut().for_each(|it| it.reasons.clear());
        }
        assert!(check(&world, &snapshot).is_err());
    }

    #[test]
    fn a_next_try_in_the_past_is_noticed() {
        let (world, mut snapshot) = with_code(Code::BackingOff);
        tamper(&mut snapshot, Code::BackingOff, |it| it.next_try = Some(Time(1)));
        assert!(check(&world, &snapshot).is_err());
    }

    #[test]
    fn a_false_code_is_noticed() {
        for code in [Code::Hung, Code::Staging, Code::Mounted, Code::OtherPod, Code::AttachmentsUnknown] {
            let (world, mut snapshot) = with_code(Code::BackingOff);
            if code == Code::AttachmentsUnknown && world.process.as_ref().is_some_and(|it| !it.attachments_complete) {
                continue;
            }
            tamper(&mut snapshot, Code::BackingOff, |it| it.code = code);
            assert!(check(&world, &snapshot).is_err(), "{code}");
        }
    }

    /// Each obstacle occurs in some life, is explained by its own code, and by no other.
    #[test]
    fn a_failure_with_a_false_code_or_text_is_noticed() {
        for obstacle in Obstacle::ALL {
            let code = obstacle.code();
            let (world, snapshot) =
                with_code_where(code, |it| it.failures.values().any(|it| it.cause == Cause::Node(*obstacle)));
            let noticed = |change: &dyn Fn(&mut Reason)| {
                let mut snapshot = snapshot.clone();
                tamper(&mut snapshot, code, change);
                check(&world, &snapshot).is_err()
            };
            assert!(noticed(&|it| it.code = Code::Failed), "{code}");
            assert!(noticed(&|it| it.text.push('!')), "{code}");
            assert!(noticed(&|it| it.attempts = 0), "{code}");
        }
    }

    #[test]
    fn an_operation_that_does_not_run_is_noticed() {
        let (world, mut snapshot) = with_code(Code::Publishing);
        snapshot.operations.clear();
        assert!(check(&world, &snapshot).is_err());
    }
}
