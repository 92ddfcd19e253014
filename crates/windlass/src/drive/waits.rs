//! Those who wait for a pod.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::Event;
use windlass_core::answer::WaitError;
use windlass_core::event::{Goal, Wait};
use windlass_core::ids::{PodUid, Time, WaiterId};

use super::Drive;
use super::departing::Waiter;

/// Whom to answer, and for which pod if it is to be gone: its directory goes after the engine is done with it.
#[derive(Default)]
pub(super) struct Waits(HashMap<WaiterId, (Waiter, Option<PodUid>)>);

impl Drive {
    pub(super) fn wait_began(
        &mut self,
        waiter: WaiterId,
        pod: PodUid,
        goal: Goal,
        within: Option<Duration>,
        answer: Waiter,
    ) {
        self.waits.0.insert(waiter, (answer, Some(pod.clone()).filter(|_| goal == Goal::Gone)));
        let until = within.map_or(Time(u64::MAX), |it| self.now() + it);
        self.tell(Event::WaitStarted(Wait { waiter, pod, goal, until }));
    }

    pub(super) fn wait_cancelled(&mut self, waiter: WaiterId) {
        if self.waits.0.remove(&waiter).is_some() {
            self.tell(Event::WaitCancelled(waiter));
        }
    }

    /// The engine has an answer for somebody.
    pub(super) fn wait_ended(&mut self, waiter: WaiterId, result: Result<(), WaitError>) {
        match (self.waits.0.remove(&waiter), result) {
            (Some((sender, Some(pod))), Ok(())) => self.gone_but_for_directory(&pod, sender),
            (Some((sender, _)), result) => _ = sender.send(result.map_err(Into::into)),
            (None, _) => {}
        }
    }
}
