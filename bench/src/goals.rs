//! What windlass must reach, and whether it does.

use crate::results::{Metric, Results};
use crate::system::System;

/// A bound that the figures of a work must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// At most this.
    Most(f64),
    /// At most so many times the floor.
    TimesFloor(f64),
    /// At least so many times less than the kubelet.
    UnderKubelet(f64),
}

/// A goal.
struct Goal {
    title: &'static str,
    work: &'static str,
    metric: Metric,
    bound: Bound,
}

/// A goal and how a system stands to it.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) title: &'static str,
    /// What is wanted.
    pub(crate) wanted: String,
    pub(crate) system: System,
    /// What was measured.
    pub(crate) measured: String,
    pub(crate) met: bool,
}

const fn goal(title: &'static str, work: &'static str, metric: Metric, bound: Bound) -> Goal {
    Goal { title, work, metric, bound }
}

/// Those of one figure, each.
const GOALS: [Goal; 23] = {
    use Bound::{Most, TimesFloor, UnderKubelet};
    use Metric::{Cpu, Idle, P50, P99, Rpcs, Rss, Wall};
    [
        goal("one pod, p50", "one-pod", P50, Most(2.0)),
        goal("one pod, p50", "one-pod", P50, UnderKubelet(150.0)),
        goal("1,000 pods up, time", "up-1000", Wall, TimesFloor(1.5)),
        goal("1,000 pods up, time", "up-1000", Wall, UnderKubelet(15.0)),
        goal("1,000 pods up, processor time", "up-1000", Cpu, UnderKubelet(15.0)),
        goal("1,000 pods down, time", "down-1000", Wall, TimesFloor(1.5)),
        goal("1,000 pods down, time", "down-1000", Wall, UnderKubelet(15.0)),
        goal("1,000 pods down, processor time", "down-1000", Cpu, UnderKubelet(15.0)),
        goal("idle with 100 pods", "idle-100", Idle, Most(0.02)),
        goal("idle with 500 pods", "idle-500", Idle, Most(0.02)),
        goal("idle with 1,000 pods", "idle-1000", Idle, Most(0.02)),
        goal("memory with 1,000 pods", "idle-1000", Rss, Most(25.0 * 1024.0)),
        goal("restart over 500 pods, synced", "restart-500-synced", Wall, Most(50.0)),
        goal("restart over 500 pods, verified", "restart-500-verified", Wall, Most(150.0)),
        goal("ConfigMap in 200 pods, p99", "configmap-200", P99, Most(500.0)),
        goal("Secret in 200 pods, p99", "secret-200", P99, Most(500.0)),
        goal("labels of 200 pods, p99", "labels-200", P99, Most(500.0)),
        goal("CSI volume alone, besides its driver, p99", "csi-one-overhead", P99, Most(5.0)),
        goal("500 CSI volumes at once, of a driver that does nothing, time", "csi-500", Wall, TimesFloor(1.5)),
        goal(
            "500 CSI volumes at once, of a driver that waits 20 ms a call, time",
            "csi-500-slow",
            Wall,
            TimesFloor(1.5),
        ),
        goal("100 CSI volumes at once, of windlass-loop, time", "csi-loop-100", Wall, TimesFloor(1.5)),
        goal("100 volumes of a driver that comes back", "csi-return-100", Wall, Most(200.0)),
        goal("CSI volume that is not staged, calls", "csi-unstaged", Rpcs, Most(3.0)),
    ]
};

/// How much more a pod may cost among many than among a hundred, and still be called the same.
const FLAT: f64 = 1.5;

/// How windlass stands to all goals whose works were measured.
pub(crate) fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut all = Vec::new();
    for goal in &GOALS {
        for system in [System::Windlass, System::Embedded] {
            all.extend(judge(goal, system, results));
        }
    }
    for system in [System::Windlass, System::Embedded] {
        all.extend(flat(system, results));
    }
    all
}

fn judge(goal: &Goal, system: System, results: &Results) -> Option<Verdict> {
    let value = results.median(goal.work, system, goal.metric)?;
    let other = |it| results.median(goal.work, it, goal.metric);
    let (wanted, measured, met) = match goal.bound {
        Bound::Most(most) => (format!("≤ {}", shown(most, goal.metric)), shown(value, goal.metric), value <= most),
        Bound::TimesFloor(most) => {
            let times = value / other(System::Floor)?;
            (format!("≤ {most} × floor"), format!("{times:.2} ×"), times <= most)
        }
        Bound::UnderKubelet(least) => {
            let times = other(System::Kubelet)? / value;
            (format!("≥ {least} × under the kubelet"), format!("{times:.1} ×"), times >= least)
        }
    };
    Some(Verdict { title: goal.title, wanted, system, measured, met })
}

/// Whether a pod costs the same among many as among a hundred.
fn flat(system: System, results: &Results) -> Option<Verdict> {
    let cost = |pods: u32| Some(results.median(&format!("growth-{pods}"), system, Metric::Cpu)? / f64::from(pods));
    let times = cost(5000)? / cost(100)?;
    let wanted = format!("≤ {FLAT} × of 100 pods");
    let (title, measured) = ("processor time per pod with 5,000 pods", format!("{times:.2} ×"));
    Some(Verdict { title, wanted, system, measured, met: times <= FLAT })
}

/// A figure with its unit.
pub(crate) fn shown(value: f64, metric: Metric) -> String {
    match metric {
        Metric::Wall | Metric::Cpu | Metric::P50 | Metric::P99 => format!("{} ms", digits(value)),
        Metric::Rss => format!("{:.1} MiB", value / 1024.0),
        Metric::Idle => format!("{value:.3} %"),
        Metric::Wakeups => format!("{value:.1} /s"),
        Metric::Rpcs => digits(value),
    }
}

/// As many digits as mean something.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        it if it < 10.0 => format!("{value:.2}"),
        it if it < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Figures;

    fn results(figures: &[(System, f64)]) -> Results {
        let mut results = Results::default();
        for (system, wall) in figures {
            results.add("up-1000", *system, Figures { wall_ms: Some(*wall), ..Figures::default() });
        }
        results
    }

    #[test]
    fn a_goal_is_met_up_to_its_bound() {
        let met = |windlass: f64| {
            let results = results(&[(System::Windlass, windlass), (System::Floor, 200.0), (System::Kubelet, 4500.0)]);
            verdicts(&results).into_iter().map(|it| it.met).collect::<Vec<_>>()
        };
        assert_eq!(met(300.0), [true, true]);
        assert_eq!(met(301.0), [false, false]);
    }

    #[test]
    fn drivers_have_the_same_goal_whatever_they_do() {
        let mut results = Results::default();
        for work in ["csi-500", "csi-500-slow", "csi-loop-100", "csi-return-100"] {
            for (system, wall) in [(System::Floor, 130.0), (System::Embedded, 200.0)] {
                results.add(work, system, Figures { wall_ms: Some(wall), ..Figures::default() });
            }
        }
        let wanted: Vec<_> = verdicts(&results).into_iter().map(|it| (it.wanted, it.met)).collect();
        let of_floor = ("≤ 1.5 × floor".to_owned(), false);
        assert_eq!(wanted, [of_floor.clone(), of_floor.clone(), of_floor, ("≤ 200 ms".into(), true)]);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert_eq!(verdicts(&results(&[(System::Windlass, 1.0)])), []);
    }
}
