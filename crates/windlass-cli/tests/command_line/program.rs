//! Runs the real program.

use std::process::{Command, Output};

use crate::daemon::Daemon;

/// What a run of the program came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, in surroundings that are the same everywhere.
pub(crate) fn windlass() -> Command {
    let mut command = windlass_testing::process::program(env!("CARGO_BIN_EXE_windlass"));
    for name in ["SOCKET", "NAMESPACE", "CONFIG", "ROOT"] {
        command.env_remove(format!("WINDLASS_{name}"));
    }
    for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE"] {
        command.env_remove(name);
    }
    command.env("LANG", "C.UTF-8");
    command
}

impl Daemon {
    /// Runs the program with these words against this daemon, to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Run {
        Run::of(windlass().arg("--socket").arg(self.socket()).args(words).output().unwrap())
    }

    /// The same, and nothing may go wrong.
    #[track_caller]
    pub(crate) fn print(&self, words: &[&str]) -> String {
        let run = self.run(words);
        assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""), "{words:?}: {run:?}");
        run.stdout
    }
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It failed with this status, printed no data, and said all of this.
    #[track_caller]
    pub(crate) fn failed(&self, status: i32, said: &[&str]) {
        assert_eq!((self.status, self.stdout.as_str()), (Some(status), ""), "{self:?}");
        for part in said {
            assert!(self.stderr.contains(part), "{part:?} is missing: {}", self.stderr);
        }
    }
}

/// Lines that belong together.
pub(crate) fn lines(lines: &[&str]) -> String {
    lines.iter().map(|it| format!("{it}\n")).collect()
}
