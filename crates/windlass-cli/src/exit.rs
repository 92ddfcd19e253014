//! How the program ends: one meaning for each exit status, whatever the verb.

use std::io;
use std::process::ExitCode;

use crate::{client, output};

/// What was asked for failed, or is not so.
pub(crate) const FAILED: u8 = 1;
/// What was typed makes no sense; clap uses the same.
pub(crate) const USAGE: u8 = 2;
/// The daemon cannot be reached, or ended on the way.
pub(crate) const UNREACHABLE: u8 = 3;
/// What was waited for is not true in time, or not all of it.
pub(crate) const NOT_YET: u8 = 4;

/// A failure that has its own exit status, or something to say that may help.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    text: String,
    hints: Vec<String>,
    status: u8,
}

impl Failure {
    /// What was asked for failed, or is not so.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hints: Vec::new(), status: FAILED }
    }

    /// What was typed makes no sense.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { status: USAGE, ..Self::new(text) }
    }

    /// It is not so yet.
    pub(crate) fn not_yet(text: impl Into<String>) -> Self {
        Self { status: NOT_YET, ..Self::new(text) }
    }

    /// With what may help.
    pub(crate) fn hints(mut self, hints: impl IntoIterator<Item = String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// Says what may help.
    pub(crate) fn tell_hints(&self) {
        for hint in &self.hints {
            output::note(&format!("hint: {hint}"));
        }
    }
}

/// Turns the end of a verb into an exit status, and says what went wrong.
pub(crate) fn code(done: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match done {
        Ok(code) => return code,
        Err(error) => error,
    };
    let asked = error.chain().find_map(|it| it.downcast_ref::<client::Error>());
    let unreachable = asked.filter(|it| it.is_unreachable());
    // A reader who has seen enough, such as `head`, is no failure; a daemon that hangs up is one.
    let closed = |it: &(dyn std::error::Error + 'static)| {
        it.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
    };
    if unreachable.is_none() && error.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    output::note(&format!("error: {error:#}"));
    let failure = error.chain().find_map(|it| it.downcast_ref::<Failure>());
    if let Some(failure) = failure {
        failure.tell_hints();
    }
    if let Some(hint) = unreachable.and_then(client::hint) {
        output::note(&format!("hint: {hint}"));
    }
    ExitCode::from(match (unreachable, failure) {
        (Some(_), _) => UNREACHABLE,
        (None, Some(failure)) => failure.status,
        (None, None) => FAILED,
    })
}
