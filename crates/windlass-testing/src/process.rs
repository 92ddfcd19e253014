//! Other processes, which end with the test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use rustix::process::{Pid, Signal};

use crate::wait::PATIENCE;

/// A process that ends with this, if it has not ended before.
pub struct Process(pub Child);

impl Process {
    /// Starts it.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("start {:?}: {error}", command.get_program())))
    }

    /// Starts it, and waits for the first line of its standard output; the rest of it is not read. The line is empty if it
    /// ended without one.
    #[track_caller]
    pub fn start_until_it_speaks(command: &mut Command) -> (Self, String) {
        let mut process = Self::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line of text");
        (process, line)
    }

    /// Starts it for the lines of its standard output.
    #[track_caller]
    pub fn start_for_lines(command: &mut Command) -> (Self, Lines) {
        let mut process = Self::start(command.stdout(Stdio::piped()));
        let output = BufReader::new(process.0.stdout.take().expect("a pipe"));
        let (sender, lines) = mpsc::channel();
        // Ends with the process.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|it| sender.send(it)));
        (process, Lines(lines))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.0), signal).expect("send a signal");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a process prints, line by line. It is at an end when the process is, or when nothing came for a minute.
pub struct Lines(Receiver<String>);

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.0.recv_timeout(PATIENCE).ok()
    }
}

/// A program that a test starts. One that goes on for longer than a call is a [`Process`].
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn program(path: impl AsRef<OsStr>) -> Command {
    Command::new(path)
}

/// A copy of this test program, which then does what the environment says.
pub fn copy_of_this_program() -> Command {
    program("/proc/self/exe")
}
