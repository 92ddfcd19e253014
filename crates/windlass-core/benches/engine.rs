//! What one event costs with ever more volumes present, what a volume takes in memory, and how many histories a second run.
//!
//! `cargo bench -p windlass-core` prints the tables of `docs/performance.md`. A number is the median of many rounds; a
//! round times a batch of events of one kind, with everything that the engine gives out taken from it, and divides by the
//! volumes touched.

#[allow(dead_code, unreachable_pub)]
#[path = "../tests/histories/history.rs"]
mod history;
#[allow(dead_code, unreachable_pub)]
#[path = "../tests/histories/model.rs"]
mod model;
#[allow(dead_code, unreachable_pub)]
#[path = "../tests/histories/moves.rs"]
mod moves;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use std::time::Instant;
use windlass_core::event::Containers;
use windlass_core::expand::Size;
use windlass_core::ids::{DriverName, PluginName, PodUid, SourceName, Time, Version, VolumeId};
use windlass_core::label::Wish;
use windlass_core::operation::{Action, Done, Operation, Outcome, Proof};
use windlass_core::spec::{
    Access, Capabilities, Identity, Mode, Phase, Pod, PodVolume, Sharing, Use, VolumeSpec, Want,
};
use windlass_core::{Config, Engine, Event};

const PRESENT: [usize; 3] = [10, 1_000, 100_000];
const BATCH: usize = 1000;
const ROUNDS: usize = 41;

/// The kinds of event, in the order in which a round plays them.
const KINDS: [&str; 7] = [
    "pod added",
    "stage ended",
    "publish ended",
    "driver registered",
    "pod removed",
    "unpublish ended",
    "unstage ended",
];

/// Tells a second process of this program to measure memory, with so many volumes in a pod.
const MEMORY: &str = "WINDLASS_BENCH_MEMORY";

fn main() {
    if let Some(per_pod) = std::env::var(MEMORY).ok().and_then(|it| it.parse().ok()) {
        let before = resident_bytes();
        let bench = Bench::new(PRESENT[2], per_pod);
        println!("{}", (resident_bytes() - before) / PRESENT[2] as u64);
        drop(bench);
        return;
    }
    println!("One event, nanoseconds per touched volume (median of {ROUNDS} rounds of {BATCH}):\n");
    println!("| Event | {} volumes | {} | {} | growth |", PRESENT[0], PRESENT[1], PRESENT[2]);
    println!("|---|---|---|---|---|");
    let columns = measure();
    for (row, kind) in KINDS.iter().enumerate() {
        let [few, some, many] = [columns[0][row], columns[1][row], columns[2][row]];
        println!("| {kind} | {few:.0} | {some:.0} | {many:.0} | {:.2} × |", many / few);
    }
    println!(
        "
Memory (resident, {} volumes, with their pods and names):
",
        PRESENT[2]
    );
    for per_pod in [4, 1] {
        println!("- {} bytes per mounted volume with {per_pod} volumes in a pod", bytes_per_volume(per_pod));
    }
    println!(
        "\nHistories: {:.0} a second (up to 60 moves each, every invariant checked after every move)",
        histories()
    );
}

/// Medians by size and kind. The sizes take turns, so that whatever else the machine does disturbs all alike.
fn measure() -> [[f64; KINDS.len()]; PRESENT.len()] {
    let mut benches = PRESENT.map(|it| Bench::new(it, 1));
    let mut samples: [[Vec<f64>; KINDS.len()]; PRESENT.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (bench, samples) in benches.iter_mut().zip(&mut samples) {
            for (sample, nanoseconds) in samples.iter_mut().zip(bench.round()) {
                sample.push(nanoseconds);
            }
        }
    }
    samples.map(|it| {
        it.map(|mut it| {
            it.sort_by(f64::total_cmp);
            it[it.len() / 2]
        })
    })
}

struct Bench {
    engine: Engine,
    now: Time,
    mounts: u64,
    made: usize,
    plugin: PluginName,
    source: SourceName,
    driver: DriverName,
}

impl Bench {
    /// An engine with this many volumes, all mounted, so many in each pod.
    fn new(present: usize, per_pod: usize) -> Self {
        let engine = Engine::new(Config {
            sources: vec!["source".into()],
            boot: "boot".into(),
            attacher: false,
            keep_terminated: false,
            planning: Default::default(),
            seed: 1,
        });
        let mut bench = Self {
            engine,
            now: Time(0),
            mounts: 0,
            made: 0,
            plugin: "kubernetes.io/csi".into(),
            source: "source".into(),
            driver: "driver".into(),
        };
        bench.tell(Event::DiskRead);
        bench.tell(Event::SourceComplete {
            source: bench.source.clone(),
            version: Version::NONE,
            containers: Containers::Stopped,
            orphan_delay: core::time::Duration::ZERO,
            doubt: None,
        });
        bench.tell(Event::DriverRegistered(bench.driver.clone()));
        for _ in 0..present / per_pod {
            let mut pod = bench.pod(bench.driver.clone());
            for number in 1..per_pod {
                let name = format!("data-{number}").as_str().into();
                let want = bench.pod(bench.driver.clone()).volumes.remove(0).want;
                pod.volumes.push(PodVolume { name, want });
            }
            let staged = bench.tell(Event::PodApplied(pod));
            let published = bench.end(&staged);
            bench.end(&published);
        }
        bench
    }

    /// Brings up a batch of pods, lets drivers come back, and takes the pods away again.
    fn round(&mut self) -> [f64; KINDS.len()] {
        self.now = Time(self.now.0 + 1000);
        let driver = self.driver.clone();
        let pods: Vec<Pod> = (0..BATCH).map(|_| self.pod(driver.clone())).collect();
        let uids: Vec<PodUid> = pods.iter().map(|it| it.uid.clone()).collect();
        let (added, stages) = self.time(pods.into_iter().map(Event::PodApplied).collect());
        let ends = self.ends(&stages);
        let (staged, publishes) = self.time(ends);
        let ends = self.ends(&publishes);
        let (published, _) = self.time(ends);

        // Each of these waits for a driver of its own.
        let waiting: Vec<Pod> = (0..BATCH).map(|it| self.pod(format!("driver-{it}").as_str().into())).collect();
        let waiting_uids: Vec<PodUid> = waiting.iter().map(|it| it.uid.clone()).collect();
        let drivers: Vec<DriverName> = (0..BATCH).map(|it| format!("driver-{it}").as_str().into()).collect();
        for pod in waiting {
            self.tell(Event::PodApplied(pod));
        }
        let (registered, stages) = self.time(drivers.iter().cloned().map(Event::DriverRegistered).collect());
        for driver in drivers {
            self.tell(Event::DriverUnregistered(driver));
        }
        for uid in waiting_uids {
            self.tell(gone(uid));
        }
        for stage in stages {
            let outcome = Outcome::Refused(windlass_core::operation::Trouble {
                cause: windlass_core::operation::Cause::Other,
                text: "not today".into(),
            });
            self.tell(Event::OperationEnded { id: stage.id, outcome });
        }

        let (removed, unpublishes) = self.time(uids.into_iter().map(gone).collect());
        let ends = self.ends(&unpublishes);
        let (unpublished, unstages) = self.time(ends);
        let ends = self.ends(&unstages);
        let (unstaged, rest) = self.time(ends);
        assert!(rest.is_empty() && self.engine.deadline().is_none(), "the round left nothing behind");
        [added, staged, published, registered, removed, unpublished, unstaged]
    }

    /// Nanoseconds per event of a batch, and what the engine asked for.
    fn time(&mut self, events: Vec<Event>) -> (f64, Vec<Operation>) {
        let count = events.len() as f64;
        let mut operations = Vec::with_capacity(events.len());
        let start = Instant::now();
        for event in events {
            self.engine.handle(self.now, event);
            while let Some(operation) = self.engine.next_operation() {
                operations.push(operation);
            }
            while self.engine.next_notice().is_some() {}
        }
        (start.elapsed().as_nanos() as f64 / count, operations)
    }

    fn tell(&mut self, event: Event) -> Vec<Operation> {
        self.time(vec![event]).1
    }

    fn end(&mut self, operations: &[Operation]) -> Vec<Operation> {
        let ends = self.ends(operations);
        self.time(ends).1
    }

    fn ends(&mut self, operations: &[Operation]) -> Vec<Event> {
        operations.iter().map(|it| Event::OperationEnded { id: it.id, outcome: self.done(it) }).collect()
    }

    fn done(&mut self, operation: &Operation) -> Outcome {
        self.mounts += 1;
        let proof = Proof { mount_id: self.mounts, device: self.mounts, root: 2, kind: 3 };
        Outcome::Done(match operation.action {
            Action::Stage { .. } | Action::Publish { .. } => Done::Mounted(proof),
            Action::Attach => Done::Attached { device: None },
            Action::Expand { to_bytes, .. } => Done::Expanded { size_bytes: to_bytes },
            Action::Unpublish { .. } | Action::Unstage | Action::Detach => Done::Gone,
        })
    }

    /// A pod with one volume, with names as long as real ones.
    fn pod(&mut self, driver: DriverName) -> Pod {
        self.made += 1;
        let number = self.made;
        let spec = Arc::new(VolumeSpec {
            id: VolumeId::from(format!("kubernetes.io/csi/disk.csi.example.com^volume-{number:012}").as_str()),
            plugin: self.plugin.clone(),
            driver: Some(driver),
            inner_name: format!("pvc-8c2f6d1e-0f0a-4d0e-9a49-{number:012}").as_str().into(),
            capabilities: Capabilities { stage: true, identity: Identity::Shared, ..Capabilities::default() },
            mode: Mode::Filesystem,
            sharing: Sharing::Shared,
            group: None,
            size: Size::default(),
        });
        let label = Wish::default();
        let use_ = Use { spec, access: Access::ReadWrite, revision: 1, label };
        Pod {
            uid: format!("6f5b2f6c-7c37-4b60-9d54-{number:012}").as_str().into(),
            name: format!("default/web-{number}").as_str().into(),
            source: self.source.clone(),
            version: Version(1),
            phase: Phase::Running,
            groups: vec![],
            volumes: vec![PodVolume { name: "data".into(), want: Want::Volume(use_) }],
        }
    }
}

fn gone(uid: PodUid) -> Event {
    Event::PodGone { uid, version: Version::NONE, containers: Containers::Stopped }
}

/// How many random histories run in a second, with all their checks.
fn histories() -> f64 {
    let mut runner = TestRunner::deterministic();
    let scripts: Vec<Vec<moves::Move>> =
        (0..2000).map(|_| moves::moves().new_tree(&mut runner).expect("a history").current()).collect();
    let start = Instant::now();
    for script in &scripts {
        let mut history = history::History::new();
        for it in script {
            history.play(it);
            history.check();
        }
    }
    scripts.len() as f64 / start.elapsed().as_secs_f64()
}

/// What a mounted volume takes. The engine is measured in a process of its own, where no earlier one has left room.
fn bytes_per_volume(per_pod: usize) -> String {
    let this = std::env::current_exe().expect("the path of this program");
    let output = std::process::Command::new(this).env(MEMORY, per_pod.to_string()).output().expect("a second process");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The memory this process occupies.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("the memory table of this process");
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|it| it.parse().ok()).expect("a number of pages");
    pages * 4096
}
