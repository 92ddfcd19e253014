//! A look at a few systems while one works on them: up and down, again and again, a line each.

use clap::Args;

use crate::child::Child;
use crate::namespace::{self, Stage};
use crate::protocol::{Command, Figures};
use crate::system::System;
use crate::times::PATIENCE;

/// A few figures of a few systems, for those who work on them.
#[derive(Args, Debug)]
pub(crate) struct Quick {
    /// Which systems
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "floor,windlass-embedded")]
    systems: Vec<System>,

    /// How many pods come and go at once
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    pods: usize,

    /// How many pods come and go alone
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    alone: usize,

    /// How often
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: usize,
}

impl Quick {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        namespace::enter()?;
        println!(
            "{:18} {:6} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "", "wall ms", "cpu ms", "p50 ms", "p99 ms", "rss MiB"
        );
        for _ in 0..self.rounds {
            for system in &self.systems {
                let stage = Stage::set("stage", None)?;
                let mut child = Child::start(*system, stage.places(), &[], PATIENCE)?;
                child.ask(&Command::Start)?;
                for (part, figures) in child.ask(&Command::One { count: self.alone, first: 0 })? {
                    line(*system, &part, &figures);
                }
                line(*system, "up", &child.measure(&Command::Up { pods: self.pods, labels: false })?);
                line(*system, "down", &child.measure(&Command::Down)?);
                child.end()?;
            }
        }
        Ok(())
    }
}

fn line(system: System, part: &str, figures: &Figures) {
    let text = |it: Option<f64>| it.map(|it| format!("{it:.2}")).unwrap_or_default();
    let Figures { wall_ms, cpu_ms, p50_ms, p99_ms, rss_kib, .. } = figures;
    let [wall, cpu, p50, p99] = [wall_ms, cpu_ms, p50_ms, p99_ms].map(|it| text(*it));
    let rss = text(rss_kib.map(|it| it / 1024.0));
    println!("{:18} {part:6} {wall:>9} {cpu:>9} {p50:>9} {p99:>9} {rss:>9}", system.name());
}
