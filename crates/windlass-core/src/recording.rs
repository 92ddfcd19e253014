//! What an engine was told and what it asked for, as plain data that can be kept and played again.
//!
//! An engine decides by nothing else than its configuration and its events, each with its time. So whoever keeps these has a
//! whole life of it: a fresh engine that is told the same asks for the same operations and ends in the same state. Whoever
//! drives an engine makes the entries; how they are kept is theirs to say. There is no secret in them (I-12), because an
//! engine knows none. They mean something to the version that wrote them alone.

use crate::engine::{Config, Engine};
use crate::event::Event;
use crate::ids::Time;
use crate::notice::Notice;
use crate::operation::Operation;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::iter;

/// One entry of a recording, in the order in which things happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Entry {
    /// An engine began, with nothing of an earlier one.
    Began(Config),
    /// It was told this.
    Told {
        /// When.
        at: Time,
        /// What.
        event: Event,
    },
    /// It gave this out.
    Gave(Operation),
}

impl Entry {
    /// An engine begins with this configuration. The seed is not kept: it changes no decision, and may be somebody's secret.
    pub fn began(config: &Config) -> Self {
        Self::Began(Config { seed: 0, ..config.clone() })
    }
}

/// A fresh engine that is told what another was told.
#[derive(Default, Debug)]
pub struct Replay {
    engine: Option<Engine>,
}

/// Where a replay is not what was recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Difference {
    /// There is no engine yet.
    #[error("the recording does not begin with the beginning of an engine")]
    Beginning,
    /// Another operation was given out than the one that was recorded.
    #[error("recorded was {recorded:?}, and given out is {given:?}")]
    Operation {
        /// As it was.
        recorded: Box<Operation>,
        /// As it is now.
        given: Option<Box<Operation>>,
    },
}

impl Replay {
    /// Plays the next entry. Answers what the engine says unasked.
    pub fn play(&mut self, entry: Entry) -> Result<Vec<Notice>, Difference> {
        match (entry, &mut self.engine) {
            (Entry::Began(config), engine) => *engine = Some(Engine::new(config)),
            (Entry::Told { at, event }, Some(engine)) => engine.handle(at, event),
            (Entry::Gave(recorded), Some(engine)) => {
                let given = engine.next_operation();
                if given.as_ref() != Some(&recorded) {
                    let (recorded, given) = (Box::new(recorded), given.map(Box::new));
                    return Err(Difference::Operation { recorded, given });
                }
            }
            (Entry::Told { .. } | Entry::Gave(_), None) => return Err(Difference::Beginning),
        }
        let notices = iter::from_fn(|| self.engine.as_mut()?.next_notice());
        Ok(notices.collect())
    }

    /// The engine as it is by now, if it has begun.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }
}
