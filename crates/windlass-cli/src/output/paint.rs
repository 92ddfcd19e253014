//! Color: what each state is painted in, and whether anything is painted at all.

use std::env;
use std::io::{self, IsTerminal};

use windlass::node::Code;
use windlass::view;
use windlass_api::view::Urgency;

use crate::args::{Color, Look};

/// How good or bad a state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// Neither.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// On the way, or waiting for somebody else.
    Waiting,
    /// Failing, or in need of a person.
    Bad,
}

impl Tone {
    /// That of a state.
    pub(crate) fn of(code: &str) -> Self {
        // A code of a newer daemon is not known here.
        urgency(code).map_or(Self::Waiting, Self::from)
    }

    fn sequence(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("\u{1b}[32m"),
            Self::Waiting => Some("\u{1b}[33m"),
            Self::Bad => Some("\u{1b}[31m"),
        }
    }
}

/// How much a state needs attention, by its code; `None` for one that is not known.
pub(crate) fn urgency(code: &str) -> Option<Urgency> {
    Code::ALL.iter().find(|it| it.as_str() == code).map(|it| view::urgency(*it))
}

impl From<Urgency> for Tone {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Settled => Self::Good,
            Urgency::Working | Urgency::Waiting => Self::Waiting,
            Urgency::Trouble => Self::Bad,
        }
    }
}

const RESET: &str = "\u{1b}[0m";

/// Paints, or does not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// For standard output.
    pub(crate) fn of(look: &Look) -> Self {
        let on = match look.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let set = |name: &str| env::var_os(name).filter(|it| !it.is_empty());
                io::stdout().is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_none_or(|it| it != "dumb")
            }
        };
        Self { on }
    }

    /// This text in its color.
    pub(crate) fn text(self, tone: Tone, text: &str) -> String {
        match tone.sequence().filter(|_| self.on) {
            Some(sequence) => format!("{sequence}{text}{RESET}"),
            None => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_settled_code_is_good_and_unknown_ones_wait() {
        assert_eq!(Tone::of("Mounted"), Tone::Good);
        assert_eq!(Tone::of("Publishing"), Tone::Waiting);
        assert_eq!(Tone::of("ObjectMissing"), Tone::Bad);
        assert_eq!(Tone::of("InventedTomorrow"), Tone::Waiting);
    }
}
