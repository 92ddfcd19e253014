//! Which scenes are played, how large and how often.

use std::time::Duration;

use crate::namespace::Disk;
use crate::protocol::Changed;
use crate::scene::{Idle, Scene};
use crate::times::PATIENCE;

/// A scene, and how often it is played.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) scene: Scene,
    pub(crate) rounds: usize,
    /// The kubelet takes its time; where more rounds of it tell no more, it has fewer.
    pub(crate) rounds_of_kubelet: usize,
    pub(crate) disk: Disk,
    /// How long a system may take for one thing in it.
    pub(crate) patience: Duration,
}

impl Act {
    fn new(scene: Scene, rounds: usize) -> Self {
        Self { scene, rounds, rounds_of_kubelet: rounds, disk: Disk::Memory, patience: 5 * PATIENCE }
    }

    fn kubelet_only(self, rounds_of_kubelet: usize) -> Self {
        Self { rounds_of_kubelet, ..self }
    }

    fn on_disk(self) -> Self {
        Self { disk: Disk::Real, ..self }
    }

    /// The works that it gives figures for.
    pub(crate) fn works(&self) -> Vec<String> {
        self.scene.works(self.disk)
    }
}

/// What a call takes of a driver that has something to do.
const SLOW: Duration = Duration::from_millis(20);

/// Everything: about three quarters of an hour, most of it the kubelet's.
pub(crate) fn full() -> Vec<Act> {
    let idle = Some(Idle { rest: 3.0, seconds: 10.0 });
    vec![
        Act::new(Scene::Alone { count: 200 }, 5).kubelet_only(1),
        Act::new(Scene::AloneByDefault { count: 200 }, 1),
        Act::new(Scene::Burst { pods: 100, idle }, 3).kubelet_only(2),
        Act::new(Scene::Burst { pods: 1000, idle }, 3).kubelet_only(2),
        Act::new(Scene::Restart { pods: 500, idle }, 3).kubelet_only(2),
        Act::new(Scene::Restart { pods: 1000, idle: None }, 3).kubelet_only(2),
        Act::new(Scene::Change { what: Changed::ConfigMap, pods: 200, times: 20 }, 3).kubelet_only(1),
        Act::new(Scene::Change { what: Changed::Secret, pods: 200, times: 20 }, 1),
        Act::new(Scene::Change { what: Changed::Labels, pods: 200, times: 20 }, 1),
        Act::new(Scene::Unmounted { times: 20, within: Duration::from_secs(10) }, 3).kubelet_only(1),
        Act::new(Scene::AloneAmong { count: 50, mounts: 20_000 }, 3).kubelet_only(1),
        Act::new(Scene::Growth { pods: 10 }, 3),
        Act::new(Scene::Growth { pods: 100 }, 3),
        Act::new(Scene::Growth { pods: 1000 }, 3).kubelet_only(1),
        Act::new(Scene::Growth { pods: 5000 }, 3).kubelet_only(1),
        Act::new(Scene::Volumes { pods: 2500 }, 3).kubelet_only(1),
        Act::new(Scene::CsiAlone { count: 200 }, 5).kubelet_only(1),
        Act::new(Scene::CsiBurst { pods: 500 }, 5).kubelet_only(2),
        Act::new(Scene::CsiSlow { pods: 500, delay: SLOW }, 3).kubelet_only(1),
        Act::new(Scene::CsiUnstaged { pods: 100 }, 3).kubelet_only(1),
        Act::new(Scene::CsiReal { pods: 100 }, 3).kubelet_only(1),
        Act::new(Scene::CsiReturn { pods: 100 }, 3).kubelet_only(1),
        Act::new(Scene::Alone { count: 200 }, 3).kubelet_only(1).on_disk(),
        Act::new(Scene::Burst { pods: 100, idle: None }, 3).on_disk(),
        Act::new(Scene::Burst { pods: 1000, idle: None }, 3).kubelet_only(2).on_disk(),
    ]
}

/// Two minutes.
pub(crate) fn quick() -> Vec<Act> {
    let idle = Some(Idle { rest: 1.0, seconds: 2.0 });
    vec![
        Act::new(Scene::Alone { count: 30 }, 1),
        Act::new(Scene::AloneByDefault { count: 10 }, 1),
        Act::new(Scene::Burst { pods: 100, idle }, 1),
        Act::new(Scene::Burst { pods: 1000, idle }, 2).kubelet_only(1),
        Act::new(Scene::Restart { pods: 500, idle }, 1),
        Act::new(Scene::Change { what: Changed::ConfigMap, pods: 200, times: 3 }, 1),
        Act::new(Scene::Unmounted { times: 5, within: Duration::from_secs(2) }, 1),
        Act::new(Scene::AloneAmong { count: 10, mounts: 2000 }, 1),
        Act::new(Scene::Growth { pods: 10 }, 1),
        Act::new(Scene::CsiAlone { count: 20 }, 1),
        Act::new(Scene::CsiBurst { pods: 500 }, 1),
        Act::new(Scene::CsiUnstaged { pods: 20 }, 1),
        Act::new(Scene::CsiReturn { pods: 100 }, 1).kubelet_only(0),
    ]
}
