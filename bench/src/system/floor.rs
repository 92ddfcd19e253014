//! The floor: the directories, files, links and mounts of a pod made and removed by bare system calls, and nothing else.
//!
//! No checks, no records, nobody to tell; the threads are as many as do it fastest here. Nothing that leaves the same on
//! disk can be faster by much.

mod bare;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::Mode;

use super::Places;
use crate::pods;
use crate::process::Process;
use crate::protocol::{Answer, Command, Serves};
use crate::times::{Alone, Stretch, percentiles};

/// Numbers of threads to choose from.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// How many pods the choice is made with, and how often.
const SAMPLE: usize = 100;
const TRIALS: usize = 2;

pub(crate) struct Floor {
    place: bare::Place,
    pods: usize,
    /// The best numbers of threads to make and to remove pods with, once they are known.
    best: Option<(usize, usize)>,
}

/// Something that is done with each pod.
type Work = fn(&bare::Place, usize) -> rustix::io::Result<()>;

impl Floor {
    pub(crate) fn new(places: &Places) -> anyhow::Result<Self> {
        // Modes are what is asked for, without another call for each.
        rustix::process::umask(Mode::empty());
        let place = bare::Place::new(&places.root).with_context(|| format!("make {}", places.node().display()))?;
        Ok(Self { place, pods: 0, best: None })
    }

    /// Finds out how many threads are best.
    fn calibrate(&mut self) -> anyhow::Result<(usize, usize)> {
        if let Some(best) = self.best {
            return Ok(best);
        }
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for threads in THREADS.repeat(TRIALS) {
            let began = Instant::now();
            self.each(SAMPLE, threads, bare::make)?;
            let made = Instant::now();
            self.each(SAMPLE, threads, bare::remove)?;
            up.push((made - began, threads));
            down.push((made.elapsed(), threads));
        }
        let best = |mut all: Vec<(Duration, usize)>| {
            all.sort_unstable();
            all.first().map_or(1, |it| it.1)
        };
        Ok(*self.best.insert((best(up), best(down))))
    }

    /// Does it with so many pods; how long each took from the beginning.
    fn each(&self, pods: usize, threads: usize, work: Work) -> anyhow::Result<Vec<Duration>> {
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        let one = || {
            let mut times = Vec::with_capacity(pods);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= pods {
                    return Ok(times);
                }
                work(&self.place, index)?;
                times.push(began.elapsed());
            }
        };
        let results: Vec<rustix::io::Result<Vec<Duration>>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
            let own = one();
            let others = others.into_iter().map(|it| it.join().unwrap_or(Err(rustix::io::Errno::CANCELED)));
            std::iter::once(own).chain(others).collect()
        });
        let mut all = Vec::with_capacity(pods);
        for times in results {
            all.extend(times?);
        }
        Ok(all)
    }

    fn measure(&self, pods: usize, threads: usize, work: Work) -> anyhow::Result<Answer> {
        let stretch = Stretch::begin(Process::Own)?;
        let times = self.each(pods, threads, work)?;
        let mut figures = stretch.end()?;
        figures.threads = Some(threads as f64);
        percentiles(&mut figures, times);
        Ok(Answer::all(figures))
    }

    fn one(&self, first: usize, count: usize) -> anyhow::Result<Answer> {
        let mut alone = Alone::default();
        for index in first..first + count {
            let began = Instant::now();
            bare::make(&self.place, pods::ALONE + index)?;
            let made = Instant::now();
            bare::remove(&self.place, pods::ALONE + index)?;
            alone.note(made - began, made.elapsed());
        }
        Ok(Answer::parts(alone.figures()))
    }
}

impl Serves for Floor {
    fn handle(&mut self, command: Command) -> anyhow::Result<Answer> {
        match command {
            Command::One { count, first } => self.one(first, count),
            Command::Up { pods, labels: false } => {
                self.pods = pods;
                let (threads, _) = self.calibrate()?;
                self.measure(pods, threads, bare::make)
            }
            Command::Down => {
                let (_, threads) = self.best.context("there is no pod")?;
                self.measure(self.pods, threads, bare::remove)
            }
            Command::Start | Command::Leave => Ok(Answer::nothing()),
            Command::Up { labels: true, .. }
            | Command::Want { .. }
            | Command::Await { .. }
            | Command::Restart { .. }
            | Command::Idle { .. }
            | Command::Cost
            | Command::Prepare { .. }
            | Command::Change => bail!("the floor only makes and removes pods"),
        }
    }
}
