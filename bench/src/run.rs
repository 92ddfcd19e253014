//! Plays all scenes: each system in turn, round after round, in an order that moves on with each round.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;

use crate::child::TooLong;
use crate::foreign::Foreign;
use crate::namespace::{self, Disk, Stage};
use crate::plan::{self, Act};
use crate::results::Results;
use crate::scene::Scene;
use crate::system::{self, System};
use crate::{report, supervise};

/// Measures everything and prints a table.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Two minutes instead of all
    #[arg(long)]
    quick: bool,

    /// Only these works, and those that go on with a hyphen
    #[arg(long, value_name = "WORK", value_delimiter = ',')]
    only: Vec<String>,

    /// Only these systems
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "floor,windlass,windlass-embedded,kubelet"
    )]
    systems: Vec<System>,

    /// Write the table and the picture into this directory too
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,

    /// This process was started to be watched over, and has this directory on a disk
    #[arg(long, value_name = "DIR", hide = true)]
    disk: Option<PathBuf>,
}

impl Run {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        namespace::need_root()?;
        let acts = self.acts()?;
        self.systems.iter().try_for_each(|it| it.check())?;
        acts.iter().try_for_each(|it| it.scene.check())?;
        let Some(disk) = &self.disk else { return supervise::watch_over() };
        // Nothing is to be left when the one who watches over this is gone.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        namespace::enter()?;
        let began = Instant::now();
        let mut results = Results::default();
        for (index, act) in acts.iter().enumerate() {
            let works = act.works().join(", ");
            eprintln!("[{:>4.0} s] {}/{}: {works}", began.elapsed().as_secs_f64(), index + 1, acts.len());
            self.play(act, disk, &mut results).with_context(|| format!("measure {works}"))?;
        }
        let took = began.elapsed();
        report::report(&results, self.quick, took, &system::output()?, self.docs.as_deref())
    }

    fn acts(&self) -> anyhow::Result<Vec<Act>> {
        let mut acts = if self.quick { plan::quick() } else { plan::full() };
        if !self.only.is_empty() {
            acts.retain(|act| act.works().iter().any(|work| self.only.iter().any(|it| is_or_goes_on(work, it))));
        }
        if acts.is_empty() {
            bail!("there is no such work; without --only all are measured, and the table names them");
        }
        Ok(acts)
    }

    fn play(&self, act: &Act, disk: &Path, results: &mut Results) -> anyhow::Result<()> {
        let mut systems: Vec<System> = act.scene.systems().to_vec();
        systems.retain(|it| self.systems.contains(it));
        results.expect(&act.works());
        if let Some(why) = act.scene.impossible() {
            systems.iter().for_each(|it| results.note(*it, &act.works(), why));
            return Ok(());
        }
        let foreign = match act.scene {
            Scene::AloneAmong { mounts, .. } => Some(Foreign::make(mounts)?),
            _ => None,
        };
        for round in 0..act.rounds {
            for system in &systems {
                if *system == System::Kubelet && round >= act.rounds_of_kubelet {
                    continue;
                }
                progress(&format!("         round {}/{}: {system}", round + 1, act.rounds));
                let stage = Stage::set("stage", (act.disk == Disk::Real).then_some(disk))?;
                match act.scene.play(*system, &stage, act.patience) {
                    Ok(given) if given.is_empty() => results.note(*system, &act.works(), "not in the time that it had"),
                    Ok(given) => given.into_iter().for_each(|(work, figures)| results.add(&work, *system, figures)),
                    Err(error) => match error.downcast_ref::<TooLong>() {
                        Some(too_long) => results.note(*system, &act.works(), &too_long.to_string()),
                        None => return Err(error.context(system.name())),
                    },
                }
            }
            // Nobody is always first, or always after the same one.
            systems.rotate_left(1);
        }
        progress("");
        drop(foreign);
        Ok(())
    }
}

/// Shows what runs in place of what was shown before, to those who watch.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

/// `up-100` is asked for by itself and by `up`, and `up-1000` is not asked for by it.
fn is_or_goes_on(work: &str, asked: &str) -> bool {
    work.strip_prefix(asked).is_some_and(|it| it.is_empty() || it.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_is_asked_for_by_its_name_or_its_first_words() {
        assert!(is_or_goes_on("up-100", "up-100"));
        assert!(is_or_goes_on("up-100-disk", "up-100"));
        assert!(is_or_goes_on("one-pod-gone", "one-pod"));
        assert!(!is_or_goes_on("up-1000", "up-100"));
    }

    #[test]
    fn what_is_promised_to_be_measured_is_planned() {
        let planned = |acts: Vec<Act>| acts.iter().flat_map(Act::works).collect::<Vec<_>>();
        let (full, quick) = (planned(plan::full()), planned(plan::quick()));
        for work in [
            "one-pod",
            "one-pod-gone",
            "up-100",
            "up-1000",
            "down-100",
            "down-1000",
            "idle-100",
            "idle-500",
            "idle-1000",
            "restart-500-synced",
            "restart-500-verified",
            "configmap-200",
            "csi-one-overhead",
            "csi-500",
            "csi-unstaged",
            "csi-return-100",
        ] {
            assert!(full.iter().any(|it| it == work), "{work} is not in a full run");
            assert!(quick.iter().any(|it| it == work), "{work} is not in a quick run");
        }
        for work in ["csi-500-slow", "csi-loop-100", "csi-loop-100-down"] {
            assert!(full.iter().any(|it| it == work), "{work} is not in a full run");
        }
    }
}
