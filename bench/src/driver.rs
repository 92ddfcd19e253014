//! A CSI driver that does next to nothing, as a process of its own: what is left of a volume's time is its orchestrator's.
//!
//! It really mounts what it is asked for, because orchestrators look: each of its volumes is a directory of one tmpfs,
//! bound to where it is wanted (`service.rs`). It counts the calls that reach it and the time that it takes for each, and
//! tells so to whoever measures (`process.rs`), who asks by lines on the standard streams.
//!
//! Beside it stands a driver that has something to do, which is a program of its own (`real.rs`).

mod process;
mod real;
mod service;
mod state;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, ErrorKind, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};
use windlass_csi::registration_socket;

pub(crate) use process::Driver;
pub(crate) use real::Real;

use self::service::Service;
use self::state::State;
use crate::times::Moment;

/// What it is called.
pub(crate) const NAME: &str = "null.bench.example.com";

/// Whether it has volumes staged before they are published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Staging {
    /// Each once for the node.
    #[default]
    Staged,
    /// Never.
    Unstaged,
}

/// What kind of driver it is. By default one that stages and answers at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) staging: Staging,
    /// How long a call takes that makes a volume appear.
    pub(crate) delay: Duration,
}

/// Calls that make a volume appear, if its driver stages.
pub(crate) const UP: [&str; 2] = ["NodeStageVolume", "NodePublishVolume"];

/// Serves a driver that does next to nothing, until its standard input ends.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where its socket and its volumes are
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,

    /// Where it registers
    #[arg(long, value_name = "DIR")]
    registry: PathBuf,

    /// Say that it does not stage volumes
    #[arg(long)]
    unstaged: bool,

    /// Take so long for each call that makes a volume appear
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    delay: u32,
}

/// What a driver is asked by the one who measures. It says when it was there without being asked. Each is answered with
/// the calls since the one before.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// As soon as it is served.
    Now,
    /// Once nothing of its volumes is mounted.
    Settled,
}

/// Calls, by method.
#[derive(Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally(BTreeMap<String, Called>);

/// The calls of one method.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq)]
struct Called {
    count: u32,
    /// The driver's own time, from when it has read a request until it has an answer.
    busy_ms: f64,
}

impl Tally {
    fn note(&mut self, method: &str, busy_ms: f64) {
        let called = match self.0.get_mut(method) {
            Some(called) => called,
            None => self.0.entry(method.to_owned()).or_default(),
        };
        called.count += 1;
        called.busy_ms += busy_ms;
    }

    /// How many calls there were, of whatever method.
    pub(crate) fn count(&self) -> u32 {
        self.0.values().map(|it| it.count).sum()
    }

    /// How long the driver took for calls of these methods.
    pub(crate) fn busy_ms(&self, methods: &[&str]) -> f64 {
        methods.iter().filter_map(|it| self.0.get(*it)).map(|it| it.busy_ms).sum()
    }
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // Nothing that is measured outlives the one who measures.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        let volumes = self.directory.join("volumes");
        for directory in [&volumes, &self.registry] {
            fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        }
        mount("windlass-bench-driver", &volumes, "tmpfs", MountFlags::empty(), c"mode=0755,nr_inodes=0")
            .with_context(|| format!("mount a tmpfs on {}", volumes.display()))?;
        let state = Arc::new(State::default());
        let staging = if self.unstaged { Staging::Unstaged } else { Staging::Staged };
        let manner = Manner { staging, delay: Duration::from_millis(self.delay.into()) };
        let endpoint = self.directory.join("csi.sock");
        // Nobody can call it before, and everybody from then on.
        let since = Moment::now()?;
        // Whoever finds the second can use the first.
        let listeners = [bind(&endpoint)?, bind(&self.registry.join(registration_socket(NAME)))?];
        let service = Service { state: state.clone(), volumes: volumes.into(), endpoint, manner };
        std::thread::Builder::new().name("serve".into()).spawn(move || {
            if let Err(error) = service.serve(listeners) {
                eprintln!("the driver: {error:#}");
                // Nobody would answer any more.
                std::process::exit(1);
            }
        })?;
        tell(&since)?;
        for line in std::io::stdin().lock().lines() {
            let line = line.context("read a question")?;
            let question = serde_json::from_str(&line).with_context(|| format!("no question: {line}"))?;
            tell(&state.answer(question))?;
        }
        Ok(())
    }
}

/// Says something in a line.
fn tell(what: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    std::io::stdout().write_all(&text).context("write a line")
}

/// Makes a socket, in place of one that a driver has left which was killed.
fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", path.display()));
        }
        _ => {}
    }
    let bound = UnixListener::bind(path).and_then(|it| it.set_nonblocking(true).map(|()| it));
    bound.with_context(|| format!("bind {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_some_methods_is_told_and_the_calls_of_all() {
        let mut tally = Tally::default();
        tally.note("NodeStageVolume", 2.0);
        tally.note("NodePublishVolume", 0.5);
        tally.note("NodePublishVolume", 0.5);
        tally.note("NodeGetCapabilities", 4.0);
        assert_eq!(tally.count(), 4);
        assert_eq!(tally.busy_ms(&UP), 3.0);
    }
}
