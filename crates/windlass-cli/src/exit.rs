//! How the program ends: one meaning for each exit status, whatever the verb.

use std::{io, process::ExitCode};

use crate::client::Unreachable;

/// What was asked for failed, or is not so.
pub(crate) const FAILED: u8 = 1;
/// What was typed makes no sense; clap uses the same.
pub(crate) const USAGE: u8 = 2;
/// The daemon cannot be reached.
pub(crate) const UNREACHABLE: u8 = 3;
/// What was waited for is not true in time, or not all of it.
pub(crate) const NOT_YET: u8 = 4;

/// Turns the end of a verb into an exit status, and says what went wrong.
pub(crate) fn code(done: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match done {
        Ok(code) => return code,
        Err(error) => error,
    };
    // A reader who has seen enough, such as `head`, is no failure.
    let closed = |it: &(dyn std::error::Error + 'static)| {
        it.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    let unreachable = error.chain().find_map(|it| it.downcast_ref::<Unreachable>());
    if let Some(hint) = unreachable.and_then(Unreachable::hint) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(if unreachable.is_some() { UNREACHABLE } else { FAILED })
}
