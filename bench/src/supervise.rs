//! Watches over the process that measures, so that nothing is left however it ends.
//!
//! All that is mounted is in a namespace that goes with its last process, and all processes go with the one that measures.
//! What remains is the directory on the disk: it is removed when the last of them has ended, for only then nobody writes to
//! it any more.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::system;

/// Runs this program once more, with the arguments that it was given, and cleans up after it.
pub(crate) fn watch_over() -> anyhow::Result<()> {
    let output = system::output()?;
    let _lock = lock(&output)?;
    let disk = output.join("disk");
    // What a run has left that was killed with everything.
    remove(&disk)?;
    fs::create_dir_all(&disk).with_context(|| format!("make {}", disk.display()))?;
    let ended = run(&disk);
    remove(&disk)?;
    let status = ended?;
    if !status.success() {
        bail!("nothing was measured to the end: {status}");
    }
    Ok(())
}

/// One at a time: two would measure each other.
fn lock(output: &Path) -> anyhow::Result<fs::File> {
    fs::create_dir_all(output).with_context(|| format!("make {}", output.display()))?;
    let path = output.join("lock");
    let file = fs::File::create(&path).with_context(|| format!("make {}", path.display()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .with_context(|| format!("lock {}; does another one measure?", path.display()))?;
    Ok(file)
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

fn run(disk: &Path) -> anyhow::Result<ExitStatus> {
    // Every process below has the writing end, so it is at its end when the last of them is.
    let (mut alive, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map(|(it, held)| (fs::File::from(it), held))?;
    rustix::io::fcntl_setfd(&held, FdFlags::empty())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let own = std::env::current_exe().context("find this program")?;
        let mut child = Command::new(own).args(std::env::args_os().skip(1)).arg("--disk").arg(disk).spawn()?;
        drop(held);
        tokio::select! {
            status = child.wait() => return Ok(status?),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        child.kill().await?;
        bail!("interrupted; nothing is left mounted")
    });
    alive.read_to_end(&mut Vec::new()).context("wait for all processes to end")?;
    ended
}
