//! One step of a volume's life: attached or not, staged or not, published to a pod or not.
//!
//! The three steps differ in what is held and in who may go first; how they begin and end is the same, and stands here.

use crate::ids::OperationId;
use crate::operation::{Earlier, Outcome};

/// Where a step stands. `T` is what is known of it while it holds: the device, or the mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<T> {
    /// Nothing of it is here.
    Absent,
    /// A call that makes it is running.
    Doing {
        /// The call.
        operation: OperationId,
        /// Why something may have been here before the call, if so. Then a refusal proves nothing.
        doubt: Option<Doubt>,
    },
    /// It is here.
    Held(T),
    /// It may or may not be here, in whole or in part.
    Uncertain(Doubt),
    /// A call that takes it away is running.
    Undoing {
        /// The call.
        operation: OperationId,
        /// Why it was uncertain before the call; `None` if it was held.
        doubt: Option<Doubt>,
    },
}

/// Why a step is uncertain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// A call that should have made it ended without an answer.
    Unanswered,
    /// A call that should have taken it away failed, so it may be half gone (E-133).
    HalfGone,
    /// It was found at start without proof, or proven for another boot (E-195).
    Found,
    /// It was here, and the mount vanished.
    Vanished,
    /// It was here, and another mount is there now.
    Replaced,
}

impl<T> Step<T> {
    /// May anything of it be here?
    pub fn may_be_here(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// What is held, if it is.
    pub fn held(&self) -> Option<&T> {
        match self {
            Self::Held(held) => Some(held),
            Self::Absent | Self::Doing { .. } | Self::Uncertain(_) | Self::Undoing { .. } => None,
        }
    }

    /// The call that is running.
    pub fn operation(&self) -> Option<OperationId> {
        match self {
            Self::Doing { operation, .. } | Self::Undoing { operation, .. } => Some(*operation),
            Self::Absent | Self::Held(_) | Self::Uncertain(_) => None,
        }
    }

    /// Why it is uncertain, or was when the call that runs began.
    pub fn doubt(&self) -> Option<Doubt> {
        match self {
            Self::Uncertain(doubt) => Some(*doubt),
            Self::Doing { doubt, .. } | Self::Undoing { doubt, .. } => *doubt,
            Self::Absent | Self::Held(_) => None,
        }
    }

    /// What a call that makes it must be told of the past.
    pub fn earlier(&self) -> Earlier {
        match self {
            Self::Held(_) => Earlier::Success,
            Self::Undoing { .. } => Earlier::Unknown,
            Self::Absent | Self::Doing { .. } | Self::Uncertain(_) => {
                self.doubt().map_or(Earlier::Nothing, |_| Earlier::Unknown)
            }
        }
    }

    /// The state once a call that makes it has begun.
    pub fn doing(&self, operation: OperationId) -> Self {
        Self::Doing { operation, doubt: self.doubt() }
    }

    /// The state once a call that takes it away has begun.
    pub fn undoing(&self, operation: OperationId) -> Self {
        Self::Undoing { operation, doubt: self.doubt() }
    }

    /// Is it here as far as is known, perhaps on its way out?
    pub fn is_still_here(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Undoing { doubt: None, .. })
    }

    /// The state once the running call has ended; `done` is what it brought.
    ///
    /// A refusal says only that *this* call left nothing behind: doubt from before it stays, until the step is held or
    /// undone (I-10). The kubelet forgets it here (E-127, E-130).
    pub fn ended(self, outcome: &Outcome, done: Option<T>) -> Self {
        match (self, outcome) {
            (Self::Doing { .. }, Outcome::Done(_)) => match done {
                Some(held) => Self::Held(held),
                None => Self::Uncertain(Doubt::Unanswered),
            },
            (Self::Doing { doubt, .. }, Outcome::Refused(_)) => doubt.map_or(Self::Absent, Self::Uncertain),
            (Self::Doing { .. }, Outcome::Unknown(_)) => Self::Uncertain(Doubt::Unanswered),
            (Self::Undoing { .. }, Outcome::Done(_)) => Self::Absent,
            (Self::Undoing { .. }, Outcome::Refused(_) | Outcome::Unknown(_)) => Self::Uncertain(Doubt::HalfGone),
            (state @ (Self::Absent | Self::Held(_) | Self::Uncertain(_)), _) => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Cause, Done, Trouble};

    fn trouble() -> Trouble {
        Trouble { cause: Cause::Other, text: "no".into() }
    }

    fn doing(doubt: Option<Doubt>) -> Step<u8> {
        Step::Doing { operation: OperationId(1), doubt }
    }

    #[test]
    fn a_refusal_forgets_nothing_that_was_in_doubt_before_it() {
        let refused = Outcome::Refused(trouble());
        assert_eq!(doing(None).ended(&refused, None), Step::Absent);
        assert_eq!(doing(Some(Doubt::Found)).ended(&refused, None), Step::Uncertain(Doubt::Found));
    }

    #[test]
    fn an_unknown_end_is_a_state_of_its_own() {
        let unknown = Outcome::Unknown(trouble());
        assert_eq!(doing(None).ended(&unknown, None), Step::Uncertain(Doubt::Unanswered));
        assert_eq!(Step::Held(3).undoing(OperationId(1)).ended(&unknown, None), Step::Uncertain(Doubt::HalfGone));
    }

    #[test]
    fn a_failed_removal_leaves_doubt_even_when_refused() {
        let refused = Outcome::Refused(trouble());
        assert_eq!(Step::Held(3).undoing(OperationId(1)).ended(&refused, None), Step::Uncertain(Doubt::HalfGone));
    }

    #[test]
    fn done_without_what_it_should_have_brought_is_doubt() {
        let done = Outcome::Done(Done::Gone);
        assert_eq!(doing(None).ended(&done, None), Step::Uncertain(Doubt::Unanswered));
        assert_eq!(doing(None).ended(&done, Some(3)), Step::Held(3));
    }
}
