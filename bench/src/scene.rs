//! What is measured: scenes, which a system plays in a process of its own, and the works that each gives figures for.

mod csi;
mod fresh;
mod unmounted;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::child::{Child, Parts};
use crate::driver::{self, Manner, Real, Staging};
use crate::namespace::{Disk, Stage};
use crate::protocol::{Changed, Command, Figures};
use crate::system::{self, System};
use crate::volumes::Volumes;

/// Something that systems are measured at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scene {
    /// Pods that come and go alone.
    Alone {
        /// How many.
        count: usize,
    },
    /// The same, of a daemon that waits before it believes that a manifest is gone, as it does unless it is told otherwise.
    AloneByDefault {
        /// How many.
        count: usize,
    },
    /// The same, among mounts of others.
    AloneAmong {
        /// How many pods.
        count: usize,
        /// How many mounts.
        mounts: usize,
    },
    /// Pods that come and go at once, and stay for a while.
    Burst {
        /// How many.
        pods: usize,
        /// For how long.
        idle: Option<Idle>,
    },
    /// The same, and named by the number of their volumes.
    Volumes {
        /// How many pods.
        pods: usize,
    },
    /// Pods that come at once, to see how the cost of each grows.
    Growth {
        /// How many.
        pods: usize,
    },
    /// Pods that stay for a while, and a restart over them.
    Restart {
        /// How many.
        pods: usize,
        /// For how long.
        idle: Option<Idle>,
    },
    /// Something that pods show changes.
    Change {
        /// What.
        what: Changed,
        /// How many pods.
        pods: usize,
        /// How often.
        times: u32,
    },
    /// A mount is removed behind everybody's back.
    Unmounted {
        /// How often.
        times: usize,
        /// How long it may take to be noticed.
        within: Duration,
    },
    /// Pods that come and go alone, each with a volume of a CSI driver that stages.
    CsiAlone {
        /// How many.
        count: usize,
    },
    /// Pods that come and go at once, each with a volume of a CSI driver that stages.
    CsiBurst {
        /// How many.
        pods: usize,
    },
    /// The same, of one that takes so long for each call.
    CsiSlow {
        /// How many.
        pods: usize,
        /// How long.
        delay: Duration,
    },
    /// The same, of one that does not stage, and answers at once.
    CsiUnstaged {
        /// How many.
        pods: usize,
    },
    /// The same, of `windlass-loop`, which stages real file systems.
    CsiReal {
        /// How many.
        pods: usize,
    },
    /// Pods that come while the driver is away, until it comes back.
    CsiReturn {
        /// How many.
        pods: usize,
    },
}

/// A while with nothing to do, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Idle {
    /// To come to rest.
    pub(crate) rest: f64,
    /// To be watched.
    pub(crate) seconds: f64,
}

/// What a scene has given: works with their figures.
pub(crate) type Given = Vec<(String, Figures)>;

/// Volumes that a pod has.
pub(crate) const VOLUMES: usize = 4;

impl Scene {
    /// Who can play it.
    pub(crate) fn systems(&self) -> &'static [System] {
        use System::{Embedded, Floor, Kubelet, Windlass};
        match self {
            Self::Alone { .. }
            | Self::Burst { .. }
            | Self::Volumes { .. }
            | Self::Growth { .. }
            | Self::CsiAlone { .. }
            | Self::CsiBurst { .. }
            | Self::CsiSlow { .. }
            | Self::CsiUnstaged { .. }
            | Self::CsiReal { .. } => &[Floor, Windlass, Embedded, Kubelet],
            Self::AloneByDefault { .. } => &[Windlass],
            Self::AloneAmong { .. }
            | Self::Restart { .. }
            | Self::Change { .. }
            | Self::Unmounted { .. }
            | Self::CsiReturn { .. } => &[Windlass, Embedded, Kubelet],
        }
    }

    /// Says what is missing to play it.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::CsiReal { .. } => system::windlass_loop().map(drop),
            _ => Ok(()),
        }
    }

    /// Why it cannot be played on this machine, if it cannot.
    pub(crate) fn impossible(&self) -> Option<&'static str> {
        let lacking = matches!(self, Self::CsiReal { .. }) && !Path::new("/dev/loop-control").exists();
        lacking.then_some("there are no loop devices here")
    }

    /// The works that it gives figures for.
    pub(crate) fn works(&self, disk: Disk) -> Vec<String> {
        let names = match self {
            Self::Alone { .. } => vec!["one-pod".into(), "one-pod-gone".into()],
            Self::AloneByDefault { .. } => vec!["one-pod-gone-default".into()],
            Self::AloneAmong { mounts, .. } => vec![format!("foreign-{mounts}")],
            Self::Burst { pods, idle } => {
                let mut names = vec![format!("up-{pods}"), format!("down-{pods}")];
                if idle.is_some() {
                    names.insert(1, format!("idle-{pods}"));
                }
                names
            }
            Self::Volumes { pods } => {
                let count = pods * VOLUMES;
                vec![format!("volumes-{count}"), format!("volumes-{count}-down")]
            }
            Self::Growth { pods } => vec![format!("growth-{pods}")],
            Self::Restart { pods, idle } => {
                let mut names = vec![format!("restart-{pods}-synced"), format!("restart-{pods}-verified")];
                if idle.is_some() {
                    names.insert(0, format!("idle-{pods}"));
                }
                names
            }
            Self::Change { what, pods, .. } => vec![match what {
                Changed::ConfigMap => format!("configmap-{pods}"),
                Changed::Secret => format!("secret-{pods}"),
                Changed::Labels => format!("labels-{pods}"),
            }],
            Self::Unmounted { .. } => vec!["unmount-noticed".into()],
            Self::CsiAlone { .. } => vec!["csi-one".into(), "csi-one-overhead".into(), "csi-one-gone".into()],
            Self::CsiBurst { pods } => vec![format!("csi-{pods}"), format!("csi-{pods}-down")],
            Self::CsiSlow { pods, .. } => vec![format!("csi-{pods}-slow"), format!("csi-{pods}-slow-down")],
            Self::CsiUnstaged { .. } => vec!["csi-unstaged".into(), "csi-unstaged-down".into()],
            Self::CsiReal { pods } => vec![format!("csi-loop-{pods}"), format!("csi-loop-{pods}-down")],
            Self::CsiReturn { pods } => vec![format!("csi-return-{pods}")],
        };
        let suffix = match disk {
            Disk::Memory => "",
            Disk::Real => "-disk",
        };
        names.into_iter().map(|it| it + suffix).collect()
    }

    /// The driver that has something to do, where pods have its volumes.
    fn real(&self, stage: &Stage) -> anyhow::Result<Option<Real>> {
        match self {
            Self::CsiReal { pods } => Real::start(&stage.driver(), &stage.places().registry(), *pods).map(Some),
            _ => Ok(None),
        }
    }

    /// The volumes of the driver that does next to nothing, where pods have those.
    fn volumes(&self) -> Option<Volumes> {
        match self {
            Self::CsiAlone { count: pods }
            | Self::CsiBurst { pods }
            | Self::CsiSlow { pods, .. }
            | Self::CsiUnstaged { pods }
            | Self::CsiReturn { pods } => {
                // One more, for the first.
                Some(Volumes::of_any_name(driver::NAME, pods + 1))
            }
            _ => None,
        }
    }

    /// What a system is told when it is started.
    fn options(&self, stage: &Stage, volumes: Option<&Volumes>) -> anyhow::Result<Vec<String>> {
        let mut options = Vec::new();
        if let Self::AloneByDefault { .. } = self {
            options.push("--wait-before-removal".into());
        }
        if let Some(volumes) = volumes {
            let file = stage.volumes();
            volumes.write(&file)?;
            options.extend(["--csi-volumes".into(), file.display().to_string()]);
        }
        Ok(options)
    }

    /// Has a system play it.
    pub(crate) fn play(&self, system: System, stage: &Stage, patience: Duration) -> anyhow::Result<Given> {
        let real = self.real(stage)?;
        let volumes = real.as_ref().map(|it| it.volumes().clone()).or_else(|| self.volumes());
        let options = self.options(stage, volumes.as_ref())?;
        let mut child = Child::start(system, stage.places(), &options, patience)?;
        child.ask(&Command::Start)?;
        // In the order of the works; what a system cannot be measured at is left out.
        let figures: Vec<Option<Figures>> = match self {
            Self::Alone { count } => take(child.ask(&one(*count))?, &["ready", "gone"]),
            Self::AloneByDefault { count } => take(child.ask(&one(*count))?, &["gone"]),
            Self::AloneAmong { count, .. } => take(child.ask(&one(*count))?, &["ready"]),
            Self::Burst { pods, idle } => {
                let up = child.measure(&up(*pods))?;
                let mut all = vec![Some(up)];
                if let Some(idle) = idle {
                    all.push(doing_nothing(&mut child, system, *idle)?);
                }
                all.push(Some(child.measure(&Command::Down)?));
                all
            }
            Self::Volumes { pods } => vec![Some(child.measure(&up(*pods))?), Some(child.measure(&Command::Down)?)],
            Self::Growth { pods } => vec![Some(child.measure(&up(*pods))?)],
            Self::Restart { pods, idle } => {
                child.ask(&up(*pods))?;
                let mut all = Vec::new();
                if let Some(idle) = idle {
                    all.push(doing_nothing(&mut child, system, *idle)?);
                }
                child.end()?;
                child = Child::start(system, stage.places(), &options, patience)?;
                all.extend(take(child.ask(&Command::Restart { pods: *pods })?, &["synced", "verified"]));
                all
            }
            Self::Change { what, pods, times } => {
                vec![Some(fresh::measure(&mut child, stage.places(), *what, *pods, *times)?)]
            }
            Self::Unmounted { times, within } => {
                child.ask(&up(1))?;
                vec![unmounted::measure(stage.places(), *times, *within)?]
            }
            Self::CsiAlone { count } => csi::alone(&mut child, stage, *count)?,
            Self::CsiBurst { pods } => csi::burst(&mut child, stage, *pods, Manner::default())?,
            Self::CsiSlow { pods, delay } => {
                csi::burst(&mut child, stage, *pods, Manner { delay: *delay, ..Manner::default() })?
            }
            Self::CsiUnstaged { pods } => {
                csi::burst(&mut child, stage, *pods, Manner { staging: Staging::Unstaged, ..Manner::default() })?
            }
            Self::CsiReal { pods } => {
                csi::burst_of_real(&mut child, real.as_ref().context("there is no driver")?, *pods)?
            }
            Self::CsiReturn { pods } => csi::comes_back(&mut child, stage, *pods)?,
        };
        child.end()?;
        if let Some(real) = real {
            real.end()?;
        }
        let works = self.works(stage.disk()).into_iter().zip(figures);
        Ok(works.filter_map(|(work, figures)| Some((work, figures?))).collect())
    }
}

fn one(count: usize) -> Command {
    Command::One { count, first: 0 }
}

fn up(pods: usize) -> Command {
    Command::Up { pods, labels: false }
}

fn take(mut parts: Parts, names: &[&str]) -> Vec<Option<Figures>> {
    names.iter().map(|it| parts.remove(*it)).collect()
}

/// The floor has nobody who could be idle.
fn doing_nothing(child: &mut Child, system: System, idle: Idle) -> anyhow::Result<Option<Figures>> {
    let Idle { rest, seconds } = idle;
    match system {
        System::Floor => Ok(None),
        System::Windlass | System::Embedded | System::Kubelet => {
            Ok(Some(child.measure(&Command::Idle { rest, seconds })?))
        }
    }
}
