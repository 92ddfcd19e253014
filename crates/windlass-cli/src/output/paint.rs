//! Color: what each state is painted in, and whether anything is painted at all.

use std::{
    env,
    io::{self, IsTerminal},
};

use windlass_core::reason::Code;

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
    /// That of a state or a reason.
    pub(crate) fn of(code: &str) -> Self {
        // A code of a newer daemon is not known here.
        let Some(code) = Code::ALL.iter().find(|it| it.as_str() == code) else { return Self::Waiting };
        match code {
            Code::Mounted | Code::Idle => Self::Good,
            Code::Attaching
            | Code::Staging
            | Code::Publishing
            | Code::Refreshing
            | Code::Expanding
            | Code::Unpublishing
            | Code::Unstaging
            | Code::Detaching
            | Code::NotAttached
            | Code::NotStaged
            | Code::VolumeBusy
            | Code::NotReported
            | Code::WaitingForAttacher
            | Code::OtherPod
            | Code::StillInPods
            | Code::LabelMismatch
            | Code::SourceIncomplete
            | Code::DiskNotRead
            | Code::AttachmentsUnknown
            | Code::PodStopping
            | Code::Uncertain
            | Code::ExpansionPending => Self::Waiting,
            Code::Hung
            | Code::BackingOff
            | Code::Failed
            | Code::ObjectMissing
            | Code::DriverMissing
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
            | Code::AttachFailed
            | Code::AttachLimit
            | Code::AttachmentLost
            | Code::LabelConflict
            | Code::IdentityChanged
            | Code::LookupFailed
            | Code::Invalid
            | Code::MountVanished
            | Code::MountReplaced => Self::Bad,
        }
    }

    fn sequence(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("\u{1b}[32m"),
            Self::Waiting => Some("\u{1b}[33m"),
            Self::Bad => Some("\u{1b}[31m"),
        }
    }

    fn mark(self) -> Option<char> {
        match self {
            Self::Plain => None,
            Self::Good => Some('\u{2061}'),
            Self::Waiting => Some('\u{2062}'),
            Self::Bad => Some('\u{2063}'),
        }
    }
}

const RESET: &str = "\u{1b}[0m";
const END: char = '\u{2064}';

/// Whether a character stands for a color: see [`Paint::mark`].
pub(crate) fn is_mark(letter: char) -> bool {
    ('\u{2061}'..=END).contains(&letter)
}

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

    /// This text between marks that take no room, for a table to measure; [`Paint::marked`] makes colors of them. The
    /// marks are characters that nobody sees, and [`super::plain`] leaves none in what others wrote.
    pub(crate) fn mark(self, tone: Tone, text: &str) -> String {
        match tone.mark().filter(|_| self.on) {
            Some(mark) => format!("{mark}{text}{END}"),
            None => text.into(),
        }
    }

    /// The colors that the marks stand for.
    pub(crate) fn marked(self, text: &str) -> String {
        if !self.on {
            return text.into();
        }
        let mut painted = String::with_capacity(text.len());
        for letter in text.chars() {
            let tone = [Tone::Good, Tone::Waiting, Tone::Bad].into_iter().find(|it| it.mark() == Some(letter));
            match tone.and_then(Tone::sequence) {
                Some(sequence) => painted.push_str(sequence),
                None if letter == END => painted.push_str(RESET),
                None => painted.push(letter),
            }
        }
        painted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const ON: Paint = Paint { on: true };

    #[test]
    fn every_settled_code_is_good_and_unknown_ones_wait() {
        assert_eq!(Tone::of("Mounted"), Tone::Good);
        assert_eq!(Tone::of("Publishing"), Tone::Waiting);
        assert_eq!(Tone::of("ObjectMissing"), Tone::Bad);
        assert_eq!(Tone::of("InventedTomorrow"), Tone::Waiting);
    }

    #[test]
    fn marks_become_colors() {
        assert_eq!(ON.marked(&ON.mark(Tone::Bad, "Hung")), ON.text(Tone::Bad, "Hung"));
        assert_eq!(Paint { on: false }.mark(Tone::Bad, "Hung"), "Hung");
    }
}
