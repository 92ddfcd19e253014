//! The lives that are killed everywhere: one driver or none, one volume, one pod or two, and one thing that happens to them.

use crate::script::{Behavior, Entry, LocalTrouble, Script, Start, Stimulus};
use crate::setting::{GIBIBYTE, Medium, PodPlan, Setting, SourcePlan, UsePlan, VolumePlan};
use std::time::Duration;
use windlass_core::ids::{OuterName, PluginName, PodUid, Time};
use windlass_core::spec::{Access, Attach, Capabilities, Concurrency, Identity, Mode, Refresh, Sharing};

/// A small whole life.
#[derive(Clone, Debug)]
pub struct Life {
    /// What it is called, which no other is.
    pub name: &'static str,
    pub(super) setting: Setting,
    pub(super) script: Script,
}

/// How a life's volume is.
#[derive(Clone, Copy)]
struct VolumeShape {
    attach: Attach,
    stage: bool,
    mode: Mode,
    /// A remote one is of a driver, the others the process makes itself.
    medium: Medium,
    refresh: Refresh,
}

const BY_CONTROLLER: VolumeShape = VolumeShape {
    attach: Attach::ByController,
    stage: true,
    mode: Mode::Filesystem,
    medium: Medium::Remote,
    refresh: Refresh::Never,
};
const BY_NODE: VolumeShape = VolumeShape { attach: Attach::ByNode, ..BY_CONTROLLER };
const STAGED: VolumeShape = VolumeShape { attach: Attach::NotNeeded, ..BY_CONTROLLER };
const DIRECTORY: VolumeShape = VolumeShape { stage: false, medium: Medium::Directory, ..STAGED };
const IN_MEMORY: VolumeShape = VolumeShape { medium: Medium::Memory, ..DIRECTORY };

/// When things happen, in seconds. The life without a kill has settled long before the next thing happens.
const COMES: u64 = 1;
const MEANWHILE: u64 = 20;
const GOES: u64 = 40;
const END: u64 = 80;

/// All lives.
pub fn lives() -> Vec<Life> {
    let not_staged = |it: VolumeShape| VolumeShape { stage: false, ..it };
    let block = |it: VolumeShape| VolumeShape { mode: Mode::Block, ..it };
    let comes_and_goes = [(COMES, comes(0)), (GOES, goes(0))];
    let grows = [(COMES, comes(0)), (MEANWHILE, Stimulus::SizeGrows { volume: 0 }), (GOES, goes(0))];
    let shared = [(COMES, comes(0)), (2, comes(1)), (MEANWHILE, goes(0)), (GOES, goes(1))];
    // The call is under way when the pod goes, and ends long after.
    let deleted = [(0, faulty(Behavior::Hang, 10)), (COMES, comes(0)), (8, goes(0))];
    let late = [(0, faulty(Behavior::TimeoutWithEffect, 30)), (COMES, comes(0)), (GOES, goes(0))];
    let lost = [(0, faulty(Behavior::ConnectionLost, 20)), (COMES, comes(0)), (GOES, goes(0))];
    // Unmounted, but the driver keeps it for a while: a staged volume without a pod.
    let kept = [(COMES, comes(0)), (GOES, faulty(Behavior::PartialUnstage, 20)), (GOES, goes(0))];
    let changing = |it: VolumeShape| VolumeShape { refresh: Refresh::OnChange, ..it };
    let changes = [(COMES, comes(0)), (MEANWHILE, CHANGES), (GOES, goes(0))];
    // Content that cannot be changed for a while: the pod keeps what it has.
    let refused = [(COMES, comes(0)), (10, troubled(LocalTrouble::Refused)), (MEANWHILE, CHANGES), (GOES, goes(0))];
    let refused_by_driver =
        [(COMES, comes(0)), (10, faulty(Behavior::FinalError, 15)), refused[2].clone(), (GOES, goes(0))];
    let at_first = |it| [(0, troubled(it)), (COMES, comes(0)), (GOES, goes(0))];
    let at_last = [(COMES, comes(0)), (35, troubled(LocalTrouble::Unknown)), (GOES, goes(0))];
    // It is back before the process is, whenever that was killed.
    let comes_back = [(COMES, comes(0)), (MEANWHILE, goes(0)), (21, comes(0)), (60, goes(0))];
    let stays = [(COMES, comes(0)), (MEANWHILE, Stimulus::DriverRestarts { driver: 0 })];
    vec![
        life("by controller, staged", BY_CONTROLLER, &comes_and_goes),
        life("by controller, staged, block", block(BY_CONTROLLER), &comes_and_goes),
        life("by controller, not staged", not_staged(BY_CONTROLLER), &comes_and_goes),
        life("by controller, not staged, block", block(not_staged(BY_CONTROLLER)), &comes_and_goes),
        life("by node, staged", BY_NODE, &comes_and_goes),
        life("by node, staged, block", block(BY_NODE), &comes_and_goes),
        life("by node, not staged", not_staged(BY_NODE), &comes_and_goes),
        life("by node, not staged, block", block(not_staged(BY_NODE)), &comes_and_goes),
        life("staged", STAGED, &comes_and_goes),
        life("staged, block", block(STAGED), &comes_and_goes),
        life("neither attached nor staged", not_staged(STAGED), &comes_and_goes),
        life("neither attached nor staged, block", block(not_staged(STAGED)), &comes_and_goes),
        life("by controller, growing", BY_CONTROLLER, &grows),
        life("by node, growing", BY_NODE, &grows),
        life("growing, not staged", not_staged(STAGED), &grows),
        life("by controller, two pods", BY_CONTROLLER, &shared),
        life("by node, two pods", BY_NODE, &shared),
        life("two pods", STAGED, &shared),
        life("by controller, deleted meanwhile", BY_CONTROLLER, &deleted),
        life("by node, deleted meanwhile", BY_NODE, &deleted),
        life("deleted while it is staged", STAGED, &deleted),
        life("deleted while it is published", not_staged(STAGED), &deleted),
        life("by controller, the driver answers late", BY_CONTROLLER, &late),
        life("by node, the driver answers late", BY_NODE, &late),
        life("the driver answers late", STAGED, &late),
        life("by node, the connection is lost", BY_NODE, &lost),
        life("by controller, staged without a pod", BY_CONTROLLER, &kept),
        life("by node, staged without a pod", BY_NODE, &kept),
        life("staged without a pod", STAGED, &kept),
        life("by controller, the pod stays", BY_CONTROLLER, &stays),
        life("by node, the pod stays", BY_NODE, &stays),
        life("a directory", DIRECTORY, &comes_and_goes),
        life("in memory", IN_MEMORY, &comes_and_goes),
        life("a directory, the pod comes back", DIRECTORY, &comes_back),
        life("in memory, the pod comes back", IN_MEMORY, &comes_back),
        life("a directory, content changes", changing(DIRECTORY), &changes),
        life("in memory, content changes", changing(IN_MEMORY), &changes),
        life("of a driver, content changes", changing(not_staged(STAGED)), &changes),
        life("a directory, content is refused", changing(DIRECTORY), &refused),
        life("in memory, content is refused", changing(IN_MEMORY), &refused),
        life("of a driver, content is refused", changing(not_staged(STAGED)), &refused_by_driver),
        life("a directory, refused at first", DIRECTORY, &at_first(LocalTrouble::Refused)),
        life("in memory, refused at first", IN_MEMORY, &at_first(LocalTrouble::Refused)),
        life("a directory, half made at first", DIRECTORY, &at_first(LocalTrouble::Unknown)),
        life("in memory, half made at first", IN_MEMORY, &at_first(LocalTrouble::Unknown)),
        life("in memory, half taken away", IN_MEMORY, &at_last),
    ]
}

fn comes(pod: usize) -> Stimulus {
    Stimulus::PodComes { pod }
}

fn goes(pod: usize) -> Stimulus {
    Stimulus::PodGoes { pod }
}

/// The driver does this with every call, for so many seconds.
fn faulty(behavior: Behavior, seconds: u64) -> Stimulus {
    Stimulus::DriverFaulty { driver: 0, behavior, per_mille: 1000, lasts: seconds * 1000 }
}

const CHANGES: Stimulus = Stimulus::ContentChanges { volume: 0 };

/// What the process does itself goes wrong like this, for a quarter of a minute.
fn troubled(trouble: LocalTrouble) -> Stimulus {
    Stimulus::LocalFaulty { trouble, per_mille: 1000, lasts: 15_000 }
}

fn life(name: &'static str, kind: VolumeShape, story: &[(u64, Stimulus)]) -> Life {
    let entry = |(at, stimulus): &(u64, Stimulus)| Entry { at: Time(at * 1000), stimulus: stimulus.clone() };
    let script = Script {
        first_start: Start::CLEAN,
        entries: story.iter().map(entry).collect(),
        kills: Vec::new(),
        end: Time(END * 1000),
        // Whoever is left goes at the end, and nothing may be left then.
        clear: true,
    };
    Life { name, setting: setting(kind), script }
}

fn setting(kind: VolumeShape) -> Setting {
    let mut setting = Setting::empty(1);
    setting.drivers.push("disk.example".into());
    setting.sources.push(SourcePlan { name: "manifests".into(), counted: true });
    setting.attacher = kind.attach == Attach::ByController;
    let of_driver = kind.medium == Medium::Remote;
    setting.volumes.push(VolumePlan {
        name: "data".into(),
        plugin: PluginName::from(if of_driver { "kubernetes.io/csi" } else { "kubernetes.io/configmap" }),
        driver: of_driver.then_some(0),
        capabilities: Capabilities {
            attach: kind.attach,
            stage: kind.stage,
            block: kind.mode == Mode::Block,
            expand: of_driver,
            refresh: kind.refresh,
            identity: if of_driver { Identity::Shared } else { Identity::PerPod },
            concurrency: Concurrency::Alone,
            patience: Duration::from_secs(5),
        },
        mode: kind.mode,
        sharing: Sharing::Shared,
        medium: kind.medium,
        labelled: false,
        object: None,
        size_bytes: of_driver.then_some(GIBIBYTE),
    });
    for name in ["one", "other"] {
        let used = UsePlan { outer: OuterName::from("data"), volume: 0, access: Access::ReadWrite, invalid: false };
        setting.add_pod(PodPlan {
            uid: PodUid::from(name),
            name: format!("default/{name}").into(),
            source: 0,
            label: None,
            uses: vec![used],
        });
    }
    setting
}
