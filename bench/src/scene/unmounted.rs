//! How soon a mount that was removed behind everybody's back is there again.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    mount::{UnmountFlags, unmount},
};

use crate::{protocol::Figures, system::Places, times::percentiles};

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
