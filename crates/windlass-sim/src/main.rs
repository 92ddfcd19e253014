//! `windlass-sim`: runs nodes' lives and says whether the engine kept its promises.

use clap::{Parser, Subcommand};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use windlass_sim::campaign::Campaign;
use windlass_sim::edge::Kill;
use windlass_sim::life::{Options, run_seed};
use windlass_sim::recorded::{self, Played};
use windlass_sim::{demo, kill_points};

/// Runs the real engine of windlass in simulated nodes that try to break it.
///
/// One seed is one node's life: pods come, change and go, drivers fail and hang, the process is killed between any two
/// steps, the node reboots. The engine's promises are checked all the time; when the trouble ends, the node must settle.
///
/// Exit status: 0 if all promises were kept, 1 if one was broken, 2 if the arguments make no sense.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run many seeds and report
    ///
    /// Prints how often each kind of fault took effect and, for a failure, the seed and a trace made as short as
    /// possible. The last line is a summary.
    Run {
        /// How many seeds to run
        #[arg(long, value_name = "N")]
        seeds: u64,
        /// The first seed
        #[arg(long, value_name = "S", default_value_t = 0)]
        from: u64,
        /// How many simulated days each node lives
        #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=366))]
        days: u64,
        /// How many threads to use [default: as many as there are processors]
        #[arg(long, value_name = "J")]
        jobs: Option<usize>,
    },
    /// Run one seed and print everything that happens
    Replay {
        /// The seed
        seed: u64,
        /// How many simulated days the node lives
        #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=366))]
        days: u64,
    },
    /// Play what a daemon recorded to a fresh engine, and print everything that happens
    ///
    /// The recording is made by `windlass run --record-events FILE`. The engine must give out the same operations; what
    /// changed in it since the recording was made can be seen, for a defect that was recorded is there or is not.
    Events {
        /// The recording
        file: PathBuf,
    },
    /// Kill the process at every edge of its work, and again at every edge after that
    ///
    /// Plays small whole lives, once for each kill and each pair of kills. With --life and --at it plays one of them and
    /// prints everything that happens.
    Kills {
        /// How many threads to use [default: as many as there are processors]
        #[arg(long, value_name = "J")]
        jobs: Option<usize>,
        /// The life to play alone
        #[arg(long, value_name = "NAME")]
        life: Option<String>,
        /// Where it is killed, as the numbers of edges, each with how it comes back: at-once, later or slow-disk
        #[arg(long, value_name = "EDGE:COMEBACK", requires = "life", value_delimiter = ',')]
        at: Vec<Kill>,
    },
    /// Tell a short story of one node, in which nothing is left to chance
    Demo,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { seeds, from, days, jobs } => {
            let jobs = jobs.or_else(|| thread::available_parallelism().ok().map(Into::into));
            let campaign = Campaign { from, seeds, days, jobs: jobs.unwrap_or(1) };
            let (results, text) = campaign.run_and_report();
            print(&text);
            exit(results.failures.is_empty())
        }
        Command::Replay { seed, days } => {
            let options = Options { trace: true, ..Options::default() };
            let report = run_seed(seed, days, &options);
            print(&(report.trace.join("\n") + "\n"));
            match &report.failure {
                None => print(&format!("ok: seed {seed}, {} operations\n", report.operations)),
                Some(failure) => print(&format!("FAILED: seed {seed}: {}: {}\n", failure.check, failure.message)),
            }
            exit(report.failure.is_none())
        }
        Command::Events { file } => match File::open(&file).and_then(|it| recorded::play(BufReader::new(it))) {
            Ok(played) => {
                print(&(played.trace.join("\n") + "\n"));
                let Played { engines, operations, difference, .. } = played;
                match &difference {
                    None => print(&format!("ok: {engines} engines, {operations} operations\n")),
                    Some((line, why)) => print(&format!("DIFFERS: {}:{line}: {why}\n", file.display())),
                }
                exit(difference.is_none())
            }
            Err(error) => {
                eprintln!("error: {}: {error}", file.display());
                ExitCode::from(2)
            }
        },
        Command::Kills { jobs, life: None, .. } => {
            let jobs = jobs.or_else(|| thread::available_parallelism().ok().map(Into::into));
            let (results, text) = kill_points::play_and_report(jobs.unwrap_or(1));
            print(&text);
            exit(results.failures.is_empty())
        }
        Command::Kills { life: Some(name), at, .. } => match kill_points::lives().iter().find(|it| it.name == name) {
            Some(life) => replay(life, &at),
            None => {
                eprintln!("error: no life is called '{name}'; there are:");
                kill_points::lives().iter().for_each(|it| eprintln!("  {}", it.name));
                ExitCode::from(2)
            }
        },
        Command::Demo => {
            let (text, kept) = demo::tell();
            print(&text);
            exit(kept)
        }
    }
}

/// Plays one small life, and tells it line by line.
fn replay(life: &kill_points::Life, kills: &[Kill]) -> ExitCode {
    let report = life.killed_at(kills, &Options { trace: true, ..kill_points::options() });
    print(&(report.trace.join("\n") + "\n"));
    match &report.failure {
        None => print(&format!("ok: {} edges, {} operations\n", report.edges, report.operations)),
        Some(failure) => print(&format!("FAILED: {}: {}\n", failure.check, failure.message)),
    }
    exit(report.failure.is_none())
}

/// Writes to standard output. A reader who has seen enough, such as `head`, is no failure.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

fn exit(kept: bool) -> ExitCode {
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
