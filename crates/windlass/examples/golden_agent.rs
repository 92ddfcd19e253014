//! Serves the golden cases (`tests/golden/README.md`, `tests/golden-csi/README.md`): a node that does what it is told, line
//! by line.
//!
//! It is also what a program that embeds windlass looks like: objects and pods go in, volumes are awaited, and paths come
//! out. It knows nothing of what a case expects.

#[path = "golden_agent/agent.rs"]
mod agent;
#[path = "golden_agent/inspect.rs"]
mod inspect;
#[path = "golden_agent/manifests.rs"]
mod manifests;
#[path = "golden_agent/protocol.rs"]
mod protocol;
#[path = "golden_agent/tree.rs"]
mod tree;

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use clap::Parser;
use tokio::runtime;

use agent::{Agent, Place};
use manifests::Manifests;
use protocol::Answer;

/// Mounts the volumes of pods as it is told on standard input, one JSON object per line.
#[derive(Parser)]
struct Arguments {
    /// Directory of manifests. Its objects are there from the start, its pods only when they are told to run.
    #[arg(long)]
    manifests: PathBuf,
    /// Where volumes are mounted. What windlass keeps for itself lies beside it.
    #[arg(long)]
    root: PathBuf,
    /// Where CSI drivers register. Without it their volumes wait for them.
    #[arg(long)]
    registry: Option<PathBuf>,
    /// Pods that run from the start: NAMESPACE/NAME, comma separated.
    #[arg(long, value_delimiter = ',', default_value = "")]
    pods: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    // The node works on threads of its own; this runtime only waits for it.
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let world = Manifests::read(&arguments.manifests)?;
    let mut agent = Agent::start(&Place::around(arguments.root), arguments.registry, world)?;
    for pod in arguments.pods.iter().filter(|it| !it.is_empty()) {
        agent.run(pod)?;
    }
    agent.complete();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = if let Ok(asked) = serde_json::from_str(&line) {
            runtime.block_on(agent.inspect(asked))
        } else {
            let answer = match serde_json::from_str(&line) {
                Ok(command) => runtime.block_on(agent.obey(command)),
                Err(error) => Answer::failed(&error),
            };
            serde_json::to_value(answer)?
        };
        let mut output = io::stdout().lock();
        serde_json::to_writer(&mut output, &answer)?;
        writeln!(output)?;
        output.flush()?;
    }
    // Whoever closes the input wants the volumes left as they are.
    runtime.block_on(agent.stop());
    Ok(())
}
