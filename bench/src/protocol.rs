//! What the harness and a system say to each other: a command a line on the system's standard input, an answer a line on
//! its standard output, both JSON. The kubelet's program, which is written in Go, has the same words.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::times::Moment;

/// What a system is told to do. It has done it when it answers.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum Command {
    /// Begin, with nothing there. Answers when it has come to rest.
    Start,
    /// Begin over what an earlier one has left mounted, with as many pods. Answers `synced` and `verified`.
    Restart {
        /// How many.
        pods: usize,
    },
    /// One pod after the other, each alone: wanted until it is ready, then removed until it is gone. Answers `ready` and
    /// `gone`.
    One {
        /// How many.
        count: usize,
        /// The number of the first.
        #[serde(default)]
        first: usize,
    },
    /// Want so many pods at once, and wait until all are ready.
    Up {
        /// How many.
        pods: usize,
        /// Whether they show their labels in a fifth volume.
        #[serde(default)]
        labels: bool,
    },
    /// Want so many pods at once, and do not wait for them.
    Want {
        /// How many.
        pods: usize,
    },
    /// Wait until all that are wanted are ready, and count from a moment that has passed. Processor time is not told.
    Await {
        /// The moment.
        since: Moment,
    },
    /// Remove all pods at once, and wait until they are gone.
    Down,
    /// Come to rest, then do nothing for a while. What comes after work, such as giving memory back, is not measured.
    Idle {
        /// How long it has to come to rest.
        rest: f64,
        /// For how long it is watched then.
        seconds: f64,
    },
    /// Tell the processor time taken so far.
    Cost,
    /// Get ready to change an object, or the pods.
    Prepare {
        /// What changes.
        what: Changed,
        /// The number that is to be read in the files.
        round: u32,
    },
    /// Make the change that was prepared. The files may become new after the answer.
    Change,
    /// End, and leave all volumes mounted.
    Leave,
}

/// What changes under pods that run.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Changed {
    /// The ConfigMap of all pods.
    ConfigMap,
    /// The Secret of all pods.
    Secret,
    /// A label of every pod.
    Labels,
}

/// What was measured; what does not apply is left out.
#[derive(Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures {
    /// From the first wish until the last is fulfilled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wall_ms: Option<f64>,
    /// Processor time of the system alone, without whoever asks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_ms: Option<f64>,
    /// Of the pods' times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    /// Of the pods' times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    /// Resident memory, after the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_kib: Option<f64>,
    /// The part of it that is the process's own, and not pages of files such as the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) anonymous_kib: Option<f64>,
    /// Of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_percent: Option<f64>,
    /// Times that a thread was put on a processor, a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wakeups: Option<f64>,
    /// Threads, after the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<f64>,
    /// Calls of the CSI driver, for each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rpcs: Option<f64>,
}

/// The name of the only part of an answer that has one.
pub(crate) const ALL: &str = "all";

/// What a system answers.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It is done, and this was measured, by part.
    Done(BTreeMap<String, Figures>),
    /// It could not be done.
    Failed(String),
}

impl Answer {
    /// With nothing measured.
    pub(crate) fn nothing() -> Self {
        Self::Done(BTreeMap::new())
    }

    /// With one part.
    pub(crate) fn all(figures: Figures) -> Self {
        Self::parts([(ALL, figures)])
    }

    /// With several.
    pub(crate) fn parts<const N: usize>(parts: [(&str, Figures); N]) -> Self {
        Self::Done(parts.map(|(name, figures)| (name.to_owned(), figures)).into())
    }
}

/// A system that is measured.
pub(crate) trait Serves {
    /// Does what it is told. [`Command::Leave`] is the last that it hears, if it does not end before.
    fn handle(&mut self, command: Command) -> anyhow::Result<Answer>;
}

/// Serves a system to whoever is at the other end of the standard streams, until that ends.
pub(crate) fn serve(mut system: impl Serves) -> anyhow::Result<()> {
    // Nothing that is measured outlives the one who measures.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("read a command")?;
        let command = serde_json::from_str(&line).with_context(|| format!("no command: {line}"))?;
        let last = command == Command::Leave;
        let answer = system.handle(command).unwrap_or_else(|error| Answer::Failed(format!("{error:#}")));
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        std::io::stdout().write_all(&text).context("write an answer")?;
        if last {
            break;
        }
    }
    Ok(())
}
