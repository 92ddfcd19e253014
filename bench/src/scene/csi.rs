//! Volumes of a CSI driver. The driver is a process of its own, and the same for all systems; what it takes itself is
//! known, so that what remains is its orchestrator's.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::child::Child;
use crate::driver::{Driver, Manner, Question, Real, UP};
use crate::namespace::Stage;
use crate::protocol::{Command, Figures};
use crate::times::{milliseconds, percentiles};

/// How long pods wait for a driver that is away: long enough to be tried, and to be left for later.
const AWAY: Duration = Duration::from_secs(2);

/// Starts a driver, and has the system see to the first of its volumes: after that it knows all that it asks only once.
fn start(child: &mut Child, stage: &Stage, manner: Manner) -> anyhow::Result<Driver> {
    let mut driver = Driver::start(&stage.driver(), &stage.places().registry(), manner)?;
    child.ask(&Command::One { count: 1, first: 0 })?;
    driver.ask(Question::Settled)?;
    Ok(driver)
}

/// Pods that come and go alone: until one is mounted, how much of that is not the driver's, and until it has gone.
pub(super) fn alone(child: &mut Child, stage: &Stage, count: usize) -> anyhow::Result<Vec<Option<Figures>>> {
    let mut driver = start(child, stage, Manner::default())?;
    let (mut ready, mut overhead, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for first in 1..=count {
        let mut parts = child.ask(&Command::One { count: 1, first })?;
        let mut part = |name| parts.remove(name).and_then(|it| it.p50_ms).context("nothing was measured");
        let time = part("ready")?;
        gone.push(part("gone")?);
        // Once it is unstaged too: the next one is to be alone.
        let tally = driver.ask(Question::Settled)?;
        ready.push(time);
        overhead.push(time - tally.busy_ms(&UP));
    }
    let figures = |times: Vec<f64>| {
        let mut figures = Figures::default();
        percentiles(&mut figures, times.into_iter().map(|it| Duration::from_secs_f64(it.max(0.0) / 1000.0)).collect());
        Some(figures)
    };
    Ok(vec![figures(ready), figures(overhead), figures(gone)])
}

/// Pods that come and go at once: until all are mounted, and until the driver has nothing of them any more.
pub(super) fn burst(
    child: &mut Child,
    stage: &Stage,
    pods: usize,
    manner: Manner,
) -> anyhow::Result<Vec<Option<Figures>>> {
    let mut driver = start(child, stage, manner)?;
    let each = |count: u32| Some(f64::from(count) / pods as f64);
    let mut up = child.measure(&Command::Up { pods, labels: false })?;
    up.rpcs = each(driver.ask(Question::Now)?.count());
    let (mut down, tally) = down(child, || driver.ask(Question::Settled))?;
    down.rpcs = each(tally.count());
    Ok(vec![Some(up), Some(down)])
}

/// The same, of a driver that has something to do.
pub(super) fn burst_of_real(child: &mut Child, driver: &Real, pods: usize) -> anyhow::Result<Vec<Option<Figures>>> {
    child.ask(&Command::One { count: 1, first: 0 })?;
    driver.unstaged(1)?;
    let up = child.measure(&Command::Up { pods, labels: false })?;
    let (down, ()) = down(child, || driver.unstaged(pods))?;
    Ok(vec![Some(up), Some(down)])
}

/// Removes all pods, until the driver says that it has nothing of them any more.
fn down<T>(child: &mut Child, settle: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Figures, T)> {
    let before = spent(child)?;
    let began = Instant::now();
    let mut down = child.measure(&Command::Down)?;
    let settled = settle()?;
    // That pods are gone does not mean that their volumes are unstaged.
    down.wall_ms = Some(milliseconds(began.elapsed()));
    down.cpu_ms = Some(spent(child)? - before);
    Ok((down, settled))
}

/// The processor time that a system has taken so far.
fn spent(child: &mut Child) -> anyhow::Result<f64> {
    child.measure(&Command::Cost)?.cpu_ms.context("no processor time")
}

/// A driver is killed, pods come that want its volumes, and it is started again: from when it can be called until all are
/// mounted. What it leaves is what is left of a container that is killed: its sockets, which nobody answers.
pub(super) fn comes_back(child: &mut Child, stage: &Stage, pods: usize) -> anyhow::Result<Vec<Option<Figures>>> {
    drop(start(child, stage, Manner::default())?);
    child.ask(&Command::Want { pods })?;
    std::thread::sleep(AWAY);
    let before = spent(child)?;
    let mut driver = Driver::start(&stage.driver(), &stage.places().registry(), Manner::default())?;
    let mut figures = child.measure(&Command::Await { since: driver.since })?;
    figures.cpu_ms = Some(spent(child)? - before);
    figures.rpcs = Some(f64::from(driver.ask(Question::Now)?.count()) / pods as f64);
    Ok(vec![Some(figures)])
}
