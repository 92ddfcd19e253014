//! Writes the script of a seed: which pods come, what becomes of them, and what goes wrong around them.

use crate::rng::Rng;
use crate::script::{
    AttacherTrouble, Behavior, DAY, Entry, List, LocalTrouble, ReportTrouble, Script, Start, Stimulus,
};
use crate::setting::{PodPlan, Setting, UsePlan};
use std::sync::Arc;
use windlass_core::event::Goal;
use windlass_core::ids::{OuterName, PodUid, Time};
use windlass_core::spec::Access;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The ways in which a driver misbehaves, but for growing volumes.
const BEHAVIORS: [Behavior; 10] = [
    Behavior::FinalError,
    Behavior::TimeoutWithEffect,
    Behavior::TimeoutWithoutEffect,
    Behavior::ConnectionLost,
    Behavior::Hang,
    Behavior::HangUntilRestart,
    Behavior::DoneWithoutEffect,
    Behavior::RefusedWithEffect,
    Behavior::PartialStage,
    Behavior::PartialUnstage,
];

/// The ways in which a driver does not grow volumes.
const RELUCTANCES: [Behavior; 3] = [Behavior::ExpandInUse, Behavior::ExpandInfeasible, Behavior::ExpandNotSupported];

impl Script {
    /// The script of a seed: adds its pods to the setting and says what happens during so many days.
    pub fn from_seed(setting: &mut Setting, days: u64) -> Self {
        let mut writer = Writer { entries: Vec::new(), end: days.max(1) * DAY };
        let seed = setting.seed;
        for lane in 0..Rng::keyed(seed, &[1]).between(2, 5) {
            let mut rng = Rng::keyed(seed, &[2, lane]);
            writer.lane(setting, &mut rng, lane);
        }
        for day in 0..days.max(1) {
            writer.changes(setting, &mut Rng::keyed(seed, &[3, day]), day * DAY);
            writer.surroundings(setting, &mut Rng::keyed(seed, &[4, day]), day * DAY);
            writer.interruptions(&mut Rng::keyed(seed, &[5, day]), day * DAY);
        }
        let Writer { mut entries, end } = writer;
        entries.retain(|it| it.at.0 < end);
        entries.sort_by_key(|it| it.at);
        let mut rng = Rng::keyed(seed, &[6]);
        let first_start = random_start(&mut rng);
        Self { first_start, entries, kills: Vec::new(), end: Time(end), clear: rng.chance(500) }
    }
}

/// A script in the making.
struct Writer {
    entries: Vec<Entry>,
    end: u64,
}

impl Writer {
    fn add(&mut self, at: u64, stimulus: Stimulus) {
        self.entries.push(Entry { at: Time(at), stimulus });
    }

    /// Pods that come one after the other, so that there are about as many pods at a time as there are lanes.
    fn lane(&mut self, setting: &mut Setting, rng: &mut Rng, lane: u64) {
        let mut at = rng.spread(SECOND, HOUR);
        let mut previous = None;
        for turn in 0.. {
            if at >= self.end {
                return;
            }
            // Pods from a directory keep their identity when they come back.
            let pod = match previous {
                Some(pod) if rng.chance(100) => pod,
                _ => {
                    let pod = random_pod(setting, rng, &format!("pod-{lane}-{turn}"));
                    setting.add_pod(pod)
                }
            };
            previous = Some(pod);
            let gone = at + rng.spread(20 * SECOND, 8 * HOUR);
            self.life(setting, rng, pod, at, gone);
            at = gone + rng.spread(SECOND, HOUR);
        }
    }

    /// One pod's life, from when it comes to when it goes.
    fn life(&mut self, setting: &Setting, rng: &mut Rng, pod: usize, at: u64, gone: u64) {
        self.add(at, Stimulus::PodComes { pod });
        if rng.chance(500) {
            let goal = *rng.pick(&[Goal::Mounted, Goal::MountedAtLast]);
            let lasts = rng.spread(10 * SECOND, 20 * MINUTE);
            // The kubelet asks before or after its source has told us of the pod.
            let asked = (at + rng.below(2 * SECOND)).saturating_sub(SECOND);
            self.add(asked, Stimulus::WaitStarts { pod, goal, lasts });
        }
        if rng.chance(150) {
            let stimulus = Stimulus::VolumeDropped {
                pod,
                index: rng.index(setting.pods[pod].uses.len()),
                lasts: rng.spread(SECOND, HOUR),
            };
            self.add(rng.between(at, gone), stimulus);
        }
        for _ in 0..if rng.chance(250) { rng.between(1, 2) } else { 0 } {
            let stimulus = Stimulus::LookupFails {
                pod,
                index: rng.index(setting.pods[pod].uses.len()),
                lasts: rng.spread(SECOND, HOUR),
            };
            // Often at the very beginning, where it matters most.
            let from = if rng.chance(500) { at.saturating_sub(1) } else { rng.between(at, gone) };
            self.add(from, stimulus);
        }
        let ending = rng.between(at, gone);
        match rng.below(10) {
            0..5 => self.add(gone.saturating_sub(rng.spread(100, MINUTE)).max(at + 1), Stimulus::PodStops { pod }),
            5..7 => self.add(ending, Stimulus::PodFinishes { pod }),
            _ => {}
        }
        if setting.lingering && rng.chance(600) {
            let lasts = rng.spread(100, 10 * MINUTE);
            self.add(gone, Stimulus::PodLeaves { pod, lasts });
        } else {
            self.add(gone, Stimulus::PodGoes { pod });
        }
        if rng.chance(250) {
            let goal = *rng.pick(&[Goal::Unmounted, Goal::Gone]);
            let lasts = rng.spread(10 * SECOND, 20 * MINUTE);
            self.add(gone + rng.below(SECOND), Stimulus::WaitStarts { pod, goal, lasts });
        }
    }

    /// What changes about volumes in one day.
    fn changes(&mut self, setting: &Setting, rng: &mut Rng, day: u64) {
        for _ in 0..rng.between(4, 16) {
            let volume = rng.index(setting.volumes.len());
            self.add(day + rng.below(DAY), Stimulus::ContentChanges { volume });
        }
        for _ in 0..rng.between(2, 30) {
            let volume = rng.index(setting.volumes.len());
            self.add(day + rng.below(DAY), Stimulus::SizeGrows { volume });
        }
        for _ in 0..rng.between(0, 6) {
            let volume = rng.index(setting.volumes.len());
            let lasts = rng.spread(SECOND, 2 * HOUR);
            self.add(day + rng.below(DAY), Stimulus::ObjectMissing { volume, lasts });
        }
    }

    /// What befalls the node's surroundings in one day. Each kind of trouble stays away from some days, so that other
    /// kinds are seen alone.
    fn surroundings(&mut self, setting: &Setting, rng: &mut Rng, day: u64) {
        for driver in 0..setting.drivers.len() {
            self.driver(rng, day, driver);
        }
        for _ in 0..often(rng, 600, 4) {
            let trouble = *rng.pick(&[LocalTrouble::Refused, LocalTrouble::Unknown, LocalTrouble::Hang]);
            let per_mille = rng.between(100, 900) as u32;
            let lasts = rng.spread(MINUTE, 3 * HOUR);
            self.add(day + rng.below(DAY), Stimulus::LocalFaulty { trouble, per_mille, lasts });
        }
        for source in 0..setting.sources.len() {
            for _ in 0..often(rng, 600, 4) {
                let lasts = rng.spread(SECOND, 30 * MINUTE);
                let list = if rng.chance(400) { List::Stale } else { List::Fresh };
                self.add(day + rng.below(DAY), Stimulus::SourceAway { source, lasts, list });
            }
            for _ in 0..often(rng, 600, 3) {
                let lasts = rng.spread(10 * MINUTE, 6 * HOUR);
                self.add(day + rng.below(DAY), Stimulus::SourceUnruly { source, lasts });
            }
        }
        if setting.attacher {
            self.attacher(rng, day);
        }
        for _ in 0..often(rng, 500, 5) {
            let pick = rng.number();
            self.add(day + rng.below(DAY), Stimulus::MountTaken { pick });
        }
        for _ in 0..often(rng, 500, 4) {
            let pick = rng.number();
            let lasts = rng.spread(SECOND, 2 * HOUR);
            self.add(day + rng.below(DAY), Stimulus::MountCovered { pick, lasts });
        }
        for _ in 0..often(rng, 300, 2) {
            let by = rng.spread(10, MINUTE);
            let lasts = rng.spread(MINUTE, 2 * HOUR);
            self.add(day + rng.below(DAY), Stimulus::TimersLate { by, lasts });
        }
        for _ in 0..often(rng, 200, 2) {
            let back = rng.spread(1, HOUR);
            self.add(day + rng.below(DAY), Stimulus::ClockSteps { back });
        }
    }

    fn driver(&mut self, rng: &mut Rng, day: u64, driver: usize) {
        for _ in 0..often(rng, 800, 8) {
            let stimulus = Stimulus::DriverFaulty {
                driver,
                behavior: *rng.pick(&BEHAVIORS),
                per_mille: rng.between(100, 950) as u32,
                lasts: rng.spread(MINUTE, 2 * HOUR),
            };
            self.add(day + rng.below(DAY), stimulus);
        }
        for _ in 0..often(rng, 600, 3) {
            let stimulus = Stimulus::DriverFaulty {
                driver,
                behavior: *rng.pick(&RELUCTANCES),
                per_mille: 900,
                lasts: rng.spread(HOUR, 12 * HOUR),
            };
            self.add(day + rng.below(DAY), stimulus);
        }
        for _ in 0..often(rng, 500, 3) {
            let lasts = rng.spread(SECOND, HOUR);
            self.add(day + rng.below(DAY), Stimulus::DriverAway { driver, lasts });
        }
        for _ in 0..often(rng, 700, 6) {
            self.add(day + rng.below(DAY), Stimulus::DriverRestarts { driver });
        }
    }

    fn attacher(&mut self, rng: &mut Rng, day: u64) {
        for _ in 0..often(rng, 600, 4) {
            let trouble = *rng.pick(&[AttacherTrouble::Slow, AttacherTrouble::Fails, AttacherTrouble::Exhausted]);
            let lasts = rng.spread(MINUTE, 3 * HOUR);
            self.add(day + rng.below(DAY), Stimulus::AttacherFaulty { trouble, lasts });
        }
        for _ in 0..often(rng, 400, 3) {
            let pick = rng.number();
            let lasts = rng.spread(SECOND, 30 * MINUTE);
            self.add(day + rng.below(DAY), Stimulus::AttachmentFlaps { pick, lasts });
        }
        for _ in 0..often(rng, 500, 3) {
            let trouble = *rng.pick(&[ReportTrouble::NotStored, ReportTrouble::AnswerLost]);
            let lasts = rng.spread(MINUTE, HOUR);
            self.add(day + rng.below(DAY), Stimulus::ReportsFail { trouble, lasts });
        }
    }

    /// Kills, reboots and power losses of one day. Most fall where something is going on.
    fn interruptions(&mut self, rng: &mut Rng, day: u64) {
        let busy: Vec<u64> = self.entries.iter().map(|it| it.at.0).filter(|at| (day..day + DAY).contains(at)).collect();
        let moment = |rng: &mut Rng| {
            if rng.chance(800) && !busy.is_empty() {
                *rng.pick(&busy) + rng.spread(1, 5 * SECOND)
            } else {
                day + rng.below(DAY)
            }
        };
        for _ in 0..often(rng, 850, 14) {
            let steps = rng.between(0, 14) as u32;
            let start = random_start(rng);
            self.add(moment(rng), Stimulus::Killed { steps, start });
        }
        for _ in 0..often(rng, 300, 2) {
            let start = random_start(rng);
            self.add(moment(rng), Stimulus::Rebooted { start });
        }
        for _ in 0..often(rng, 300, 2) {
            let start = random_start(rng);
            self.add(moment(rng), Stimulus::PowerLost { start });
        }
    }
}

/// How many times something happens on a day: not at all, or up to `most` times.
fn often(rng: &mut Rng, per_mille: u32, most: u64) -> u64 {
    if rng.chance(per_mille) { rng.between(1, most) } else { 0 }
}

fn random_start(rng: &mut Rng) -> Start {
    Start {
        down: rng.spread(5, 20 * MINUTE),
        corrupt: rng.chance(150),
        scan: if rng.chance(150) { rng.spread(SECOND, 10 * MINUTE) } else { rng.below(20) },
        list: if rng.chance(200) { rng.spread(SECOND, HOUR) } else { 20 + rng.below(500) },
        attachments: if rng.chance(150) { rng.spread(SECOND, 30 * MINUTE) } else { rng.below(200) },
    }
}

/// A pod with one to four volumes.
fn random_pod(setting: &Setting, rng: &mut Rng, name: &str) -> PodPlan {
    let source = rng.index(setting.sources.len());
    // Most pods of a node agree on their label; now and then one does not.
    let label = match rng.below(20) {
        0..8 => None,
        8 => Some("s0:c7,c8"),
        _ => Some("s0:c1,c2"),
    };
    let mut uses: Vec<UsePlan> = Vec::new();
    for index in 0..rng.between(1, 4) {
        let volume = rng.index(setting.volumes.len());
        // A pod may name one volume twice, but not with two ideas of how it may be used.
        let access = match uses.iter().find(|it| it.volume == volume) {
            Some(same) => same.access,
            None if rng.chance(200) => Access::ReadOnly,
            None => Access::ReadWrite,
        };
        uses.push(UsePlan {
            outer: OuterName::from(format!("v{index}").as_str()),
            volume,
            access,
            invalid: rng.chance(15),
        });
    }
    PodPlan {
        uid: PodUid::from(name),
        name: format!("default/{name}").into(),
        source,
        label: label.map(Arc::from),
        uses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_script() {
        let script = |seed| {
            let mut setting = Setting::from_seed(seed);
            format!("{:?}", Script::from_seed(&mut setting, 1).entries)
        };
        assert_eq!(script(3), script(3));
        assert_ne!(script(3), script(4));
    }

    #[test]
    fn entries_are_in_the_order_of_time_and_end_before_the_end() {
        let mut setting = Setting::from_seed(11);
        let script = Script::from_seed(&mut setting, 2);
        assert!(script.entries.is_sorted_by_key(|it| it.at));
        assert!(script.entries.iter().all(|it| it.at < script.end));
    }
}
