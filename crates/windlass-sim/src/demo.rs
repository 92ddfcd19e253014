//! A short story of one node, told by hand: what the engine does while pods come and go and things go wrong.

use crate::checks;
use crate::life::Options;
use crate::script::{Behavior, Entry, Script, Start, Stimulus};
use crate::setting::{Medium, PodPlan, Setting, SourcePlan, UsePlan, VolumePlan};
use crate::world::World;
use std::fmt::Write;
use std::time::Duration;
use windlass_core::event::Goal;
use windlass_core::ids::{ObjectName, OuterName, PluginName, PodUid, Time};
use windlass_core::spec::{Access, Capabilities, Identity, Mode, Refresh, Sharing};

const INTRODUCTION: &str = "\
The life of one node, with windlass's real engine and everything around it simulated.
  true:    what happens in the world        told:   what the engine hears of it
  start:   what the engine asks for         ended:  what came of it
";

/// The pods of the story, by their index.
const WEB: usize = 0;
const REPORT: usize = 1;
const WORKER: usize = 2;
const LATE: usize = 3;

/// The volumes of the story, by their index.
const SCRATCH: usize = 0;
const SETTINGS: usize = 1;
const DATA: usize = 2;
const ARCHIVE: usize = 3;

/// Tells the story; says whether all promises were kept.
pub fn tell() -> (String, bool) {
    let options = Options { trace: true, thorough_every: 1, ..Options::default() };
    let mut world = World::new(setting(), script(), &options);
    world.run_until(world.script.end);
    checks::settled(&mut world);
    checks::nothing_left(&mut world);
    let operations = world.operations;
    let left = [
        ("mounts", world.kernel.places().count()),
        ("volumes that a driver holds", world.drivers.iter().map(|it| it.sessions.len()).sum()),
        ("directories of pods", world.disk.pods().count()),
        ("records", world.disk.staged().count() + world.disk.published().count()),
    ];
    let report = world.into_report();
    let mut text = String::from(INTRODUCTION);
    for line in &report.trace {
        let _ = writeln!(text, "{line}");
    }
    let left: Vec<String> = left.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let _ = writeln!(text, "\nWhat is left: {}.", left.join(", "));
    let _ = match &report.failure {
        None => writeln!(text, "All promises were kept, over {operations} operations."),
        Some(failure) => writeln!(text, "A promise was broken: {}: {}", failure.check, failure.message),
    };
    (text, report.failure.is_none())
}

fn script() -> Script {
    let seconds = |at: f64| Time((at * 1000.0) as u64);
    let start = Start { down: 2_000, corrupt: false, scan: 5, list: 50, attachments: 30 };
    let hangs =
        Stimulus::DriverFaulty { driver: 0, behavior: Behavior::HangUntilRestart, per_mille: 1000, lasts: 20_000 };
    let story = [
        (1.0, remark("A pod comes. Its volumes are mounted side by side, and somebody waits for them.")),
        (1.0, Stimulus::WaitStarts { pod: WEB, goal: Goal::Mounted, lasts: 60_000 }),
        (1.0, Stimulus::PodComes { pod: WEB }),
        (10.0, remark("Its settings change. It keeps its mount; the content is brought up to date.")),
        (10.0, Stimulus::ContentChanges { volume: SETTINGS }),
        (20.0, remark("The driver hangs while it stages a volume for another pod. Nobody else waits for that.")),
        (20.0, hangs),
        (20.0, Stimulus::PodComes { pod: REPORT }),
        (40.0, Stimulus::Explained { pod: REPORT }),
        (45.0, remark("The pod is deleted, its stage call still out. Whether the volume is staged, nobody knows.")),
        (45.0, Stimulus::PodGoes { pod: REPORT }),
        (50.0, remark("The driver is restarted. The call ends without a clear answer, so it is undone.")),
        (50.0, Stimulus::DriverRestarts { driver: 0 }),
        (60.0, remark("The process is killed in the middle of a publish. What the driver was asked to do, it does.")),
        (60.0, Stimulus::PodComes { pod: WORKER }),
        (60.8, Stimulus::Killed { steps: 0, start }),
        (62.5, remark("It starts again from what is on disk: what was proven stays, what was begun is finished.")),
        (80.0, remark("The driver goes away, and a pod comes that needs it.")),
        (80.0, Stimulus::DriverAway { driver: 0, lasts: 20_000 }),
        (81.0, Stimulus::PodComes { pod: LATE }),
        (90.0, Stimulus::Explained { pod: LATE }),
        (99.0, remark("The driver is back: what waited for it goes on at once.")),
        (110.0, Stimulus::Explained { pod: LATE }),
        (120.0, remark("All pods go, and with them everything that was mounted for them.")),
        (120.0, Stimulus::PodGoes { pod: WEB }),
        (120.0, Stimulus::PodGoes { pod: WORKER }),
        (120.0, Stimulus::PodGoes { pod: LATE }),
    ];
    let entries = story.map(|(at, stimulus)| Entry { at: seconds(at), stimulus });
    Script { first_start: start, entries: entries.into(), kills: Vec::new(), end: seconds(180.0), clear: false }
}

fn remark(text: &'static str) -> Stimulus {
    Stimulus::Remark { text }
}

fn setting() -> Setting {
    let mut setting = Setting::empty(7);
    setting.drivers.push("disk.example".into());
    setting.sources.push(SourcePlan { name: "manifests".into(), counted: true });
    let patience = Duration::from_secs(15);
    let scratch = VolumePlan {
        name: "scratch".into(),
        plugin: PluginName::from("kubernetes.io/empty-dir"),
        driver: None,
        capabilities: Capabilities { patience, ..Capabilities::default() },
        mode: Mode::Filesystem,
        sharing: Sharing::Shared,
        medium: Medium::Memory,
        labelled: false,
        object: None,
        size_bytes: None,
    };
    let settings = VolumePlan {
        name: "settings".into(),
        plugin: PluginName::from("kubernetes.io/configmap"),
        capabilities: Capabilities { refresh: Refresh::OnChange, patience, ..Capabilities::default() },
        object: Some(ObjectName::from("ConfigMap default/settings")),
        ..scratch.clone()
    };
    let data = VolumePlan {
        name: "data".into(),
        plugin: PluginName::from("kubernetes.io/csi"),
        driver: Some(0),
        capabilities: Capabilities { stage: true, identity: Identity::Shared, patience, ..Capabilities::default() },
        medium: Medium::Remote,
        ..scratch.clone()
    };
    let archive = VolumePlan { name: "archive".into(), ..data.clone() };
    setting.volumes.extend([scratch, settings, data, archive]);
    let pods: [(&str, &[(&str, usize)]); 4] = [
        ("web", &[("cache", SCRATCH), ("settings", SETTINGS), ("data", DATA)]),
        ("report", &[("archive", ARCHIVE)]),
        ("worker", &[("data", DATA)]),
        ("late", &[("archive", ARCHIVE), ("cache", SCRATCH)]),
    ];
    for (name, uses) in pods {
        let uses = uses.iter().map(|(outer, volume)| UsePlan {
            outer: OuterName::from(*outer),
            volume: *volume,
            access: Access::ReadWrite,
            invalid: false,
        });
        setting.add_pod(PodPlan {
            uid: PodUid::from(name),
            name: format!("default/{name}").into(),
            source: 0,
            label: None,
            uses: uses.collect(),
        });
    }
    setting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_story_ends_well_and_tells_what_it_promises() {
        let (text, kept) = tell();
        assert!(kept, "{text}");
        for words in ["Hung", "DriverMissing", "the process is killed", "What is left: 0 mounts, 0 volumes"] {
            assert!(text.contains(words), "{words:?} is missing in:\n{text}");
        }
        assert_eq!(text, tell().0, "nothing is left to chance");
    }
}
