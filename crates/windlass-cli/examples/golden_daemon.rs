//! Serves the golden cases (`tests/golden/README.md`) with the real daemon: what it is told becomes files in a directory of
//! manifests, and what it answers comes from the command line. It knows nothing of what a case expects.

#[path = "golden_daemon/daemon.rs"]
mod daemon;
#[path = "golden_daemon/manifests.rs"]
mod manifests;
#[path = "../../windlass/examples/golden_agent/protocol.rs"]
mod protocol;

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use clap::Parser;

use daemon::Daemon;
use manifests::Manifests;
use protocol::Answer;

/// Runs the daemon as it is told on standard input, one JSON object per line.
#[derive(Parser)]
struct Arguments {
    /// The program
    #[arg(long)]
    windlass: PathBuf,
    /// Directory of manifests. Its objects are there from the start, its pods only when they are told to run.
    #[arg(long)]
    manifests: PathBuf,
    /// Where volumes are mounted. What windlass keeps for itself lies beside it.
    #[arg(long)]
    root: PathBuf,
    /// Where drivers register; by default beside the root.
    #[arg(long)]
    registry: Option<PathBuf>,
    /// Pods that run from the start: NAMESPACE/NAME, comma separated.
    #[arg(long, value_delimiter = ',', default_value = "")]
    pods: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { windlass, manifests, root, registry, pods } = Arguments::parse();
    let pods = pods.into_iter().filter(|it| !it.is_empty()).collect();
    let mut daemon = Daemon::start(windlass, root, registry, Manifests::read(&manifests)?, pods)?;
    for line in io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(command) => daemon.obey(command),
            Err(error) => Answer::failed(&error),
        };
        let mut output = io::stdout().lock();
        serde_json::to_writer(&mut output, &answer)?;
        writeln!(output)?;
        output.flush()?;
    }
    // Whoever closes the input wants the volumes left as they are.
    daemon.stop()
}
