//! How soon a mount that was removed behind everybody's back is there again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::{UnmountFlags, unmount};

use crate::protocol::Figures;
use crate::system::Places;
use crate::times::percentiles;

/// Between one unmount and the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Removes the mount of the first pod's volume in memory so often; nothing if it is not made again in time.
pub(super) fn measure(places: &Places, times: usize, within: Duration) -> anyhow::Result<Option<Figures>> {
    let path = places.volumes(0).join("kubernetes.io~empty-dir/memory");
    let mut all = Vec::new();
    for _ in 0..times {
        let table = fs::File::open("/proc/self/mountinfo").context("open the mount table")?;
        let began = Instant::now();
        unmount(&path, UnmountFlags::DETACH).with_context(|| format!("unmount {}", path.display()))?;
        while !is_mounted(&path)? {
            let left = Timespec::try_from(within.saturating_sub(began.elapsed()))?;
            // See proc_pid_mountinfo(5): it is exceptional that the table changes.
            if rustix::event::poll(&mut [PollFd::new(&table, PollFlags::PRI)], Some(&left))? == 0 {
                return Ok(None);
            }
        }
        all.push(began.elapsed());
        // Whoever has made it again has still to write that down, and to come to rest.
        std::thread::sleep(PAUSE);
    }
    let mut figures = Figures::default();
    percentiles(&mut figures, all);
    Ok(Some(figures))
}

/// Whether something else is there than its directory.
fn is_mounted(path: &Path) -> anyhow::Result<bool> {
    let device = |path: &Path| fs::metadata(path).map(|it| it.dev());
    let above = device(path.parent().context("a volume is in a directory")?)?;
    match device(path) {
        Ok(device) => Ok(device != above),
        // It may be made anew.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("look at {}", path.display())),
    }
}
