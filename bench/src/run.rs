//! Plays all scenes: each system in turn, round after round, in an order that moves on with each round.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, bail};
use clap::Args;

use crate::{
    child::TooLong,
    foreign::Foreign,
    namespace::{self, Disk, Stage},
    plan::{self, Act},
    report,
    results::Results,
    scene::Scene,
    supervise,
    system::{self, System},
};

/// Measures everything and prints a table.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Two minutes instead of all
    #[arg(long)]
    quick: bool,

    /// Only these works, or those that begin so
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
            let asked = |work: &String| self.only.iter().any(|it| work.starts_with(it.as_str()));
            acts.retain(|it| it.works().iter().any(asked));
        }
        if acts.is_empty() {
            bail!("there is no such work; without --only all are measured, and the table names them");
        }
        Ok(acts)
    }

    fn play(&self, act: &Act, disk: &std::path::Path, results: &mut Results) -> anyhow::Result<()> {
        let mut systems: Vec<System> = act.scene.systems().to_vec();
        systems.retain(|it| self.systems.contains(it));
        let foreign = match act.scene {
            Scene::AloneAmong { mounts, .. } => Some(Foreign::make(mounts)?),
            _ => None,
        };
        for round in 0..act.rounds {
            for system in &systems {
                if *system == System::Kubelet && round >= act.rounds_of_kubelet {
                    continue;
                }
                eprint!("\r\x1b[K         round {}/{}: {system}", round + 1, act.rounds);
                let stage = Stage::set("stage", (act.disk == Disk::Real).then_some(disk))?;
                match act.scene.play(*system, &stage, act.patience) {
                    Ok(given) if given.is_empty() => results.note(*system, &act.works(), "not in the time that it had"),
                    Ok(given) => given.into_iter().for_each(|(work, figures)| results.add(&work, *system, figures)),
                    Err(error) => match error.downcast_ref::<TooLong>() {
                        Some(too_long) => results.note(*system, &act.works(), &too_long.to_string()),
                        None => return Err(error),
                    },
                }
            }
            // Nobody is always first, or always after the same one.
            systems.rotate_left(1);
        }
        eprint!("\r\x1b[K");
        drop(foreign);
        Ok(())
    }
}
