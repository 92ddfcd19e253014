//! Sharing: a volume that only one pod may have is in one pod at a time, and a volume is never mounted with two SELinux
//! labels at a time (E-87, E-122).

use crate::world::World;
use windlass_core::Operation;
use windlass_core::event::MountPlace;
use windlass_core::operation::{Action, OperationKind};
use windlass_core::spec::Sharing;

/// What the check is called.
pub const NAME: &str = "sharing";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    let volume = operation.volume();
    if world.unrecognisable.contains(volume) {
        return Ok(());
    }
    let label = match &operation.action {
        Action::Publish { label, .. } | Action::Stage { label, .. } => label,
        Action::Attach | Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage | Action::Detach => {
            return Ok(());
        }
    };
    if let Action::Publish { pod, .. } = &operation.action
        && operation.spec.sharing == Sharing::OnePod
    {
        let published = world.kernel.published_to(volume);
        let at_work = world.calls.values().filter(|it| it.at_work && it.operation.volume() == volume);
        let at_work = at_work.filter(|it| it.operation.action.kind() == OperationKind::Publish);
        let mut others = published.chain(at_work.filter_map(|it| it.operation.action.pod()));
        if let Some(other) = others.find(|it| *it != pod) {
            return Err(format!("{volume} may be in one pod, and is published to {pod} while {other} has it"));
        }
    }
    let staged = world.disk.staged().map(|it| (MountPlace::Stage(it.spec.id.clone()), it));
    let published = world
        .disk
        .published()
        .filter_map(|it| Some((MountPlace::Publish(it.volume.clone(), it.pod.clone()), it.record?)));
    for (place, record) in staged.chain(published) {
        if record.spec.id == *volume && record.label != *label && world.kernel.visible(&place).is_some() {
            let kind = operation.action.kind();
            return Err(format!("{kind} of {volume} with label {label:?} while it is mounted with {:?}", record.label));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use windlass_core::ids::{OperationId, PodUid, Time};
    use windlass_core::operation::Earlier;
    use windlass_core::spec::Access;

    /// A publish to some other pod of a volume that is published and fits, with the label it has.
    fn second_publish(world: &World, fits: impl Fn(&Operation) -> bool) -> Option<Operation> {
        world.disk.published().find_map(|it| {
            let record = it.record?;
            world.kernel.visible(&MountPlace::Publish(it.volume.clone(), it.pod.clone()))?;
            let action = Action::Publish {
                pod: PodUid::from("somebody-else"),
                after: Earlier::Nothing,
                access: Access::ReadWrite,
                revision: 1,
                label: record.label.clone(),
            };
            let (spec, deadline) = (record.spec.clone(), Time(u64::MAX));
            let operation = Operation { id: OperationId(1 << 40), spec, action, failures: 0, deadline };
            (fits(&operation) && !world.unrecognisable.contains(it.volume)).then_some(operation)
        })
    }

    #[test]
    fn a_second_pod_with_a_volume_for_one_is_noticed() {
        let one_pod = |it: &Operation| it.spec.sharing == Sharing::OnePod;
        let world = world_in_which(|it| it.process.is_some() && second_publish(it, one_pod).is_some());
        let operation = second_publish(&world, one_pod).expect("it was just there");
        assert!(check(&world, &operation).is_err_and(|it| it.contains("one pod")));
    }

    #[test]
    fn a_second_label_is_noticed() {
        let shared = |it: &Operation| it.spec.sharing == Sharing::Shared;
        let world = world_in_which(|it| it.process.is_some() && second_publish(it, shared).is_some());
        let mut operation = second_publish(&world, shared).expect("it was just there");
        assert_eq!(check(&world, &operation), Ok(()));
        if let Action::Publish { label, .. } = &mut operation.action {
            *label = Some("another".into());
        }
        assert!(check(&world, &operation).is_err_and(|it| it.contains("another")));
    }
}
