//! How soon pods show what has changed: the time until the new bytes are read in each pod's file.
//!
//! Each volume's directory is watched by inotify. Whoever measures reads the file when it is told of the new version, so its
//! own work is part of the times.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use rustix::fs::inotify::WatchFlags;

use crate::child::{Child, TooLong};
use crate::inotify::Directories;
use crate::pods;
use crate::protocol::{Changed, Command, Figures};
use crate::system::Places;
use crate::times::{PATIENCE, percentiles};

/// Where a pod shows it, below its volumes.
fn shown(what: Changed) -> (&'static str, &'static str) {
    match what {
        Changed::ConfigMap => ("kubernetes.io~configmap/config", "key-0"),
        Changed::Secret => ("kubernetes.io~secret/secret", "key-0"),
        Changed::Labels => ("kubernetes.io~downward-api/labels", "labels"),
    }
}

/// What is to be read there.
fn content(what: Changed, round: u32) -> String {
    match what {
        Changed::ConfigMap | Changed::Secret => pods::content(round),
        Changed::Labels => format!("round=\"{round}\""),
    }
}

/// Changes something so often under so many pods. The processor time is that of one change in all of them.
pub(super) fn measure(
    child: &mut Child,
    places: &Places,
    what: Changed,
    pods: usize,
    times: u32,
) -> anyhow::Result<Figures> {
    child.ask(&Command::Up { pods, labels: what == Changed::Labels })?;
    let directories = Directories::new()?;
    let mut files: HashMap<i32, PathBuf> = HashMap::new();
    let (volume, file) = shown(what);
    for index in 0..pods {
        let directory = places.volumes(index).join(volume);
        // A new version comes into use by the rename of a link.
        files.insert(directories.add(&directory, WatchFlags::MOVED_TO)?, directory.join(file));
    }
    let mut all = Vec::new();
    let mut cost = 0.0;
    for round in 1..=times {
        child.ask(&Command::Prepare { what, round })?;
        cost -= spent(child)?;
        let wanted = content(what, round);
        let mut waiting = files.clone();
        let began = Instant::now();
        child.tell(&Command::Change)?;
        while !waiting.is_empty() {
            let moved = directories.wait(PATIENCE)?;
            if moved.is_empty() {
                return Err(TooLong(PATIENCE).into());
            }
            for watch in moved {
                let Some(path) = waiting.get(&watch) else { continue };
                if fs::read(path).is_ok_and(|it| it == wanted.as_bytes()) {
                    all.push(began.elapsed());
                    waiting.remove(&watch);
                }
            }
        }
        child.hear()?;
        cost += spent(child)?;
    }
    let mut figures = Figures { cpu_ms: Some(cost / f64::from(times.max(1))), ..Figures::default() };
    percentiles(&mut figures, all);
    Ok(figures)
}

/// The processor time that a system has taken so far.
fn spent(child: &mut Child) -> anyhow::Result<f64> {
    child.measure(&Command::Cost)?.cpu_ms.context("no processor time")
}
