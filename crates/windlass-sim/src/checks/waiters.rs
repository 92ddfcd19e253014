//! Whoever waits for a pod is answered once, at once when what they wait for is true, at the latest when their time is up,
//! and truthfully.

use crate::process::Process;
use crate::world::World;
use windlass_core::event::{Goal, Wait};
use windlass_core::snapshot::{Snapshot, StepView};

/// What the check is called.
pub const NAME: &str = "waiters";

/// Judges those who still wait.
pub fn check(world: &World, snapshot: &Snapshot) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    for wait in process.waiters.values() {
        if wait.until <= snapshot.now {
            return Err(format!("time is up and nobody answered {wait:?}"));
        }
        // While a call that takes a mount away runs, the mount is neither here nor gone.
        let in_motion = process.engine.has_possibly_mounted_volumes(&wait.pod);
        let judged = wait.goal != Goal::Unmounted || !in_motion;
        if process.disk_read && judged && is_reached(process, wait) {
            return Err(format!("it is so and nobody answered {wait:?}"));
        }
    }
    Ok(())
}

/// Judges an answer: it went to somebody who waited, and was true.
pub fn check_answer(process: &Process, wait: Option<&Wait>, reached: bool) -> Result<(), String> {
    let Some(wait) = wait else {
        return Err("somebody was answered twice, or did not wait".into());
    };
    if reached && !is_reached(process, wait) {
        return Err(format!("it was said to be so and is not: {wait:?}"));
    }
    Ok(())
}

fn is_reached(process: &Process, wait: &Wait) -> bool {
    match wait.goal {
        Goal::Mounted | Goal::MountedAtLast => {
            let status = process.engine.pod_status(&wait.pod);
            status.is_some_and(|it| it.unmounted.is_empty())
        }
        // What is in doubt does not count, in the kubelet's way (E-28).
        Goal::Unmounted => {
            let volumes = process.engine.snapshot().volumes;
            let mut mounts = volumes.iter().flat_map(|it| &it.mounts);
            !mounts.any(|it| it.pod == wait.pod && it.publish == StepView::Held)
        }
        Goal::Gone => !process.engine.has_possibly_mounted_volumes(&wait.pod),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use windlass_core::ids::{Time, WaiterId};

    fn wait(pod: &str, goal: Goal, until: u64) -> Wait {
        Wait { waiter: WaiterId(1 << 40), pod: pod.into(), goal, until: Time(until) }
    }

    #[test]
    fn somebody_who_is_not_answered_is_noticed() {
        let mut world = world_in_which(|it| it.process.as_ref().is_some_and(|it| it.disk_read));
        for forgotten in [wait("nobody", Goal::Gone, u64::MAX), wait("nobody", Goal::Mounted, 0)] {
            let process = world.process.as_mut().expect("it runs");
            process.waiters.insert(forgotten.waiter, forgotten);
            let snapshot = process.engine.snapshot();
            assert!(check(&world, &snapshot).is_err());
        }
    }

    #[test]
    fn a_false_answer_is_noticed() {
        let world = world_in_which(|it| it.process.as_ref().is_some_and(|it| it.disk_read));
        let process = world.process.as_ref().expect("it runs");
        let wait = wait("nobody", Goal::Mounted, u64::MAX);
        assert!(check_answer(process, Some(&wait), true).is_err());
        assert!(check_answer(process, Some(&wait), false).is_ok());
        assert!(check_answer(process, None, true).is_err());
    }
}
