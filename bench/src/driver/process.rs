//! The driver, as the one who measures has it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{self, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::de::DeserializeOwned;

use super::{Manner, Question, Staging, Tally};
use crate::child::TooLong;
use crate::times::{Moment, PATIENCE};

/// A driver that runs. It is killed when this goes, and what it has mounted stays.
pub(crate) struct Driver {
    process: process::Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// When it could be called first.
    pub(crate) since: Moment,
}

impl Driver {
    /// Starts a driver that keeps its things in one directory and registers in another.
    pub(crate) fn start(directory: &Path, registry: &Path, manner: Manner) -> anyhow::Result<Self> {
        let mut command = process::Command::new(std::env::current_exe().context("find this program")?);
        command.arg("driver").arg("--directory").arg(directory).arg("--registry").arg(registry);
        if manner.staging == Staging::Unstaged {
            command.arg("--unstaged");
        }
        command.arg("--delay").arg(manner.delay.as_millis().to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the driver")?;
        let questions = process.stdin.take().context("no standard input")?;
        let mut answers = BufReader::new(process.stdout.take().context("no standard output")?);
        let since = hear(&mut answers).context("start the driver")?;
        Ok(Self { process, questions, answers, since })
    }

    /// The calls since the last question, once it is so.
    pub(crate) fn ask(&mut self, question: Question) -> anyhow::Result<Tally> {
        self.answer(question).with_context(|| format!("the driver: {question:?}"))
    }

    fn answer(&mut self, question: Question) -> anyhow::Result<Tally> {
        let mut text = serde_json::to_vec(&question)?;
        text.push(b'\n');
        self.questions.write_all(&text).context("it has ended")?;
        hear(&mut self.answers)
    }
}

/// What it says next.
fn hear<T: DeserializeOwned>(answers: &mut BufReader<ChildStdout>) -> anyhow::Result<T> {
    let line = line(answers)?;
    serde_json::from_str(&line).with_context(|| format!("no answer: {line}"))
}

/// The next line that a process says, if it does not take too long for it.
pub(super) fn line(answers: &mut BufReader<ChildStdout>) -> anyhow::Result<String> {
    let patience = Timespec::try_from(PATIENCE)?;
    let mut ready = [PollFd::new(answers.get_ref(), PollFlags::IN)];
    if rustix::event::poll(&mut ready, Some(&patience))? == 0 {
        return Err(TooLong(PATIENCE).into());
    }
    let mut line = String::new();
    answers.read_line(&mut line).context("read its answer")?;
    ensure!(!line.is_empty(), "it has ended");
    Ok(line)
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
