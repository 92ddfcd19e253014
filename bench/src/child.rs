//! A system in a process of its own, as the harness has it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{self, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::protocol::{ALL, Answer, Command, Figures};
use crate::system::{Places, System};

/// A process that serves the protocol. It is killed if nobody ends it.
pub(crate) struct Child {
    system: System,
    process: process::Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    patience: Duration,
}

/// What was measured, by part.
pub(crate) type Parts = BTreeMap<String, Figures>;

/// A system took longer for something than it may.
#[derive(Debug)]
pub(crate) struct TooLong(pub(crate) Duration);

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not done after {:?}", self.0)
    }
}

impl std::error::Error for TooLong {}

impl Child {
    /// Starts a system that has all it makes at these places and may take so long for each thing that it is told.
    pub(crate) fn start(
        system: System,
        places: &Places,
        options: &[String],
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let mut command = system.command(places, options)?;
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.with_context(|| format!("start {system}"))?;
        let commands = process.stdin.take().context("no standard input")?;
        let answers = BufReader::new(process.stdout.take().context("no standard output")?);
        Ok(Self { system, process, commands, answers, patience })
    }

    /// Has something done, and tells what was measured.
    pub(crate) fn ask(&mut self, command: &Command) -> anyhow::Result<Parts> {
        let answer = self.tell(command).and_then(|()| self.hear());
        answer.with_context(|| format!("{}: {command:?}", self.system))
    }

    /// Has something done that is measured as a whole.
    pub(crate) fn measure(&mut self, command: &Command) -> anyhow::Result<Figures> {
        let mut parts = self.ask(command)?;
        parts.remove(ALL).with_context(|| format!("{}: {command:?}: nothing was measured", self.system))
    }

    /// Has something done, without waiting for the answer.
    pub(crate) fn tell(&mut self, command: &Command) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(command)?;
        text.push(b'\n');
        self.commands.write_all(&text).context("it has ended")
    }

    /// Waits for the answer to what it was told.
    pub(crate) fn hear(&mut self) -> anyhow::Result<Parts> {
        // There is one answer to each command, so nothing is left of an earlier one.
        let patience = Timespec::try_from(self.patience)?;
        let mut ready = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
        if rustix::event::poll(&mut ready, Some(&patience))? == 0 {
            return Err(TooLong(self.patience).into());
        }
        let mut line = String::new();
        self.answers.read_line(&mut line).context("read its answer")?;
        if line.is_empty() {
            bail!("it has ended with {}", self.process.wait()?);
        }
        match serde_json::from_str(&line).with_context(|| format!("no answer: {line}"))? {
            Answer::Done(parts) => Ok(parts),
            Answer::Failed(text) => bail!(text),
        }
    }

    /// Lets it end. What is mounted stays so.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        self.ask(&Command::Leave)?;
        let status = self.process.wait()?;
        if !status.success() {
            bail!("{} has ended with {status}", self.system);
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
