//! Operations that were given out and have not begun: while they wait for others no time of their own passes, so they are
//! never [`Code::Hung`](crate::reason::Code::Hung) for that (I-6, I-7).

use crate::actual::Turn;
use crate::engine::{Engine, Timer};
use crate::ids::OperationId;
use crate::oddity::Oddity;
use alloc::format;

impl Engine {
    /// An operation has not begun.
    pub(crate) fn operation_waits(&mut self, id: OperationId, turn: Turn) {
        let Some(running) = self.world.operations.get_mut(&id) else {
            return self.odd(Oddity::UnknownOperation, format!("operation {id} waits but was not given out"));
        };
        let before = core::mem::replace(&mut running.turn, turn);
        if let Turn::Runs { deadline } = before {
            self.timers.remove(&(deadline, Timer::Hung(id)));
        }
        self.touched.insert(running.volume);
    }

    /// An operation that had to wait runs from now on, and has its whole time.
    pub(crate) fn operation_started(&mut self, id: OperationId) {
        let Some(running) = self.world.operations.get_mut(&id) else {
            return self.odd(Oddity::UnknownOperation, format!("operation {id} began but was not given out"));
        };
        match running.turn {
            Turn::Queued { .. } | Turn::Blocked { .. } => {}
            // It was never told to wait, so its time counts already.
            Turn::Runs { .. } | Turn::Hung => return,
        }
        let deadline = self.world.now + self.volumes[running.volume].spec.capabilities.patience;
        running.turn = Turn::Runs { deadline };
        running.since = self.world.now;
        self.timers.insert((deadline, Timer::Hung(id)));
        self.touched.insert(running.volume);
    }
}
