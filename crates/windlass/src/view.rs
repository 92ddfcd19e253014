//! What is shown of a node, made from what the engine knows. The types are [`windlass_api::view`]'s.

// Only the API's server shows these.
#[cfg(any(feature = "server", test))]
pub(crate) mod containers;
mod driver;
#[cfg(feature = "server")]
mod statistics;

use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use windlass_core::ids::Time;
use windlass_core::reason::{self, Code, WaitsOn};
use windlass_core::snapshot::{OperationView, PodDetail, PodView, PodVolumeView, StepView, TurnView, VolumeView};
use windlass_core::spec::{Life, Mode, Phase};

use crate::drive::Standing;

pub(crate) use driver::{Operations, driver};
#[cfg(feature = "server")]
pub(crate) use statistics::statistics;
pub use windlass_api::view::*;

/// When something was, by the clock on the wall: the engine counts from its own start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What the clock on the wall showed, or would have shown, at the engine's zero; to the millisecond.
    zero: Timestamp,
}

impl Clock {
    /// It is now `now` for the engine.
    pub(crate) fn at(now: Time) -> Self {
        let wall = Timestamp::now();
        let zero = wall.checked_sub(since_zero(now)).unwrap_or(Timestamp::MIN);
        Self { zero: Timestamp::from_millisecond(zero.as_millisecond()).unwrap_or(zero) }
    }

    /// The earlier clock as long as it is right to the second, so that what was at one time is shown at the same time twice:
    /// the two clocks are never read at quite the same moment. One that was set, or that went on while the machine slept, is
    /// not right any more.
    pub(crate) fn or_earlier(self, earlier: Self) -> Self {
        let off = self.zero.duration_since(earlier.zero).abs();
        if off < SignedDuration::from_secs(1) { earlier } else { self }
    }

    /// This moment of the engine on the wall, to the millisecond.
    pub(crate) fn wall(&self, time: Time) -> Timestamp {
        self.zero.checked_add(since_zero(time)).unwrap_or(Timestamp::MAX)
    }

    fn reasons(&self, reasons: &[reason::Reason]) -> Vec<Reason> {
        reasons.iter().map(|it| self.reason(it)).collect()
    }

    pub(crate) fn reason(&self, reason: &reason::Reason) -> Reason {
        let reason::Reason { code, text, since, attempts, next_try, goes_at, waits_on } = reason;
        Reason {
            code: code.to_string(),
            urgency: urgency(*code),
            message: text.clone(),
            remedy: code.remedy().into(),
            since: self.wall(*since),
            attempts: *attempts,
            next_try: next_try.map(|it| self.wall(it)),
            goes_at: goes_at.map(|it| self.wall(it)),
            waits_on: awaited(waits_on),
        }
    }
}

/// How much a state needs somebody's attention.
pub fn urgency(code: Code) -> Urgency {
    match code.urgency() {
        reason::Urgency::Settled => Urgency::Settled,
        reason::Urgency::Working => Urgency::Working,
        reason::Urgency::Waiting => Urgency::Waiting,
        reason::Urgency::Trouble => Urgency::Trouble,
    }
}

fn since_zero(time: Time) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(time.0).unwrap_or(i64::MAX))
}

fn awaited(waits_on: &WaitsOn) -> Option<Awaited> {
    let (kind, name) = match waits_on {
        WaitsOn::Nothing => return None,
        WaitsOn::Time => ("Time", None),
        WaitsOn::Operation(id) => ("Operation", Some(id.to_string())),
        WaitsOn::Driver(name) => ("Driver", Some(name.to_string())),
        WaitsOn::Object(name) => ("Object", Some(name.to_string())),
        WaitsOn::Attacher => ("Attacher", None),
        WaitsOn::Report => ("Report", None),
        WaitsOn::Pod(uid) => ("Pod", Some(uid.to_string())),
        WaitsOn::Volume(id) => ("Volume", Some(id.to_string())),
        WaitsOn::Source(name) => ("Source", Some(name.to_string())),
        WaitsOn::Disk => ("Disk", None),
    };
    Some(Awaited { kind: kind.into(), name })
}

/// Since when a pod is known, and stands as it does.
#[derive(Clone, Copy)]
pub(crate) struct Since {
    /// When it was given first in this life of the node.
    pub(crate) given: Time,
    /// When it was given first in any.
    pub(crate) first_seen: Timestamp,
    /// How its volumes stand; none of a pod that is not given.
    pub(crate) standing: Option<Standing>,
}

/// A pod as it is shown. `path` tells where a volume of it is, by its id.
pub(crate) fn pod(
    clock: Clock,
    detail: &PodDetail,
    since: Since,
    path: impl Fn(&PodVolumeView) -> Option<String>,
) -> Pod {
    let PodDetail { pod, volumes } = detail;
    let given = since.given;
    let (namespace, name) = split(&pod.name);
    let volumes: Vec<_> = volumes
        .iter()
        .map(|it| MountStatus {
            pod: name.clone(),
            pod_uid: pod.uid.to_string(),
            volume: title(it),
            unnamed: it.name.is_none(),
            volume_id: it.volume.as_ref().map(|it| it.id.to_string()),
            plugin: it.volume.as_ref().map(|it| it.plugin.to_string()),
            mode: it.volume.as_ref().map(|it| mode(it.mode).into()),
            state: it.code.to_string(),
            // Of what is neither here nor wanted nobody knows since when.
            since: clock.wall(if it.volume.is_none() && it.reasons.is_empty() { given } else { it.since }),
            mounted: it.volume.as_ref().is_some_and(|it| it.mounted),
            stale: !it.current,
            path: path(it),
            reasons: clock.reasons(&it.reasons),
        })
        .collect();
    let of_volumes = volumes.iter().map(|it| it.since).max().unwrap_or(clock.wall(given));
    let mounted_since = since.standing.filter(|it| it.now.mounted == pod.ready).map(|it| clock.wall(it.mounted_since));
    let is_current = !volumes.iter().any(|it| it.stale);
    let current_since = since.standing.filter(|it| it.now.current == is_current).map(|it| clock.wall(it.current_since));
    let conditions = vec![
        mounted(pod, &volumes, mounted_since.unwrap_or(of_volumes)),
        current(&volumes, current_since.unwrap_or(of_volumes)),
    ];
    let phase = match pod.life {
        Life::Found => PodPhase::Found,
        Life::Held => PodPhase::Held,
        Life::Known(Phase::Running) => PodPhase::Wanted,
        Life::Known(Phase::Stopping) => PodPhase::Ending,
        Life::Known(Phase::Finished) => PodPhase::Finished,
        Life::Leaving => PodPhase::Ending,
        Life::Gone => PodPhase::Leaving,
    };
    let metadata = Metadata { namespace, name, uid: Some(pod.uid.to_string()) };
    let held = volumes.iter().flat_map(|it| &it.reasons).filter(|_| phase == PodPhase::Held);
    let goes_at = held.filter_map(|it| it.goes_at).max();
    Object::new(
        metadata,
        PodStatus { phase, releasing: Vec::new(), first_seen: Some(since.first_seen), conditions, goes_at, volumes },
    )
}

/// Adds to a mount that what was in it is lost, before whatever else is to be said, which may be what to do next.
pub(crate) fn content_was_lost(mount: &mut MountStatus, at: SystemTime) {
    let code = Code::ContentLost;
    let reason = Reason {
        code: code.to_string(),
        urgency: urgency(code),
        message: code.meaning().into(),
        remedy: code.remedy().into(),
        since: Timestamp::try_from(at).unwrap_or(mount.since),
        attempts: 0,
        next_try: None,
        goes_at: None,
        waits_on: None,
    };
    mount.reasons.insert(0, reason);
}

/// That what a pod had in its volumes is lost, if it is.
pub(crate) fn content_lost(volumes: &[MountStatus]) -> Option<Condition> {
    let code = Code::ContentLost.as_str();
    let lost: Vec<_> = volumes.iter().filter(|it| it.reasons.iter().any(|it| it.code == code)).collect();
    let since = lost.iter().flat_map(|it| &it.reasons).filter(|it| it.code == code).map(|it| it.since).max()?;
    let names: Vec<&str> = lost.iter().map(|it| it.volume.as_str()).collect();
    Some(Condition {
        kind: "VolumeContentLost".into(),
        status: ConditionStatus::True,
        reason: code.into(),
        message: format!("volume {}: {}", names.join(", "), Code::ContentLost.meaning()),
        last_transition_time: since,
    })
}

fn title(volume: &PodVolumeView) -> String {
    let inner = || volume.volume.as_ref().map(|it| it.inner_name.to_string()).unwrap_or_default();
    volume.name.as_ref().map_or_else(inner, ToString::to_string)
}

/// Whether all volumes of a pod are mounted; if not, the deepest cause of the first that is not.
fn mounted(pod: &PodView, volumes: &[MountStatus], since: Timestamp) -> Condition {
    let stuck = volumes.iter().find(|it| !it.mounted);
    let status = match pod.life {
        Life::Held => ConditionStatus::Unknown,
        Life::Found | Life::Known(_) | Life::Leaving | Life::Gone => pod.ready.into(),
    };
    let (reason, message) = match (pod.ready, stuck) {
        (true, _) => (Code::Mounted.to_string(), Code::Mounted.meaning().to_owned()),
        (false, None) => (Code::Idle.to_string(), "The pod wants no volumes any more.".to_owned()),
        (false, Some(volume)) => match volume.reasons.last() {
            Some(deepest) => (deepest.code.clone(), format!("volume {}: {}", volume.volume, deepest.message)),
            None => (volume.state.clone(), format!("volume {} is not mounted", volume.volume)),
        },
    };
    Condition { kind: "VolumesMounted".into(), status, reason, message, last_transition_time: since }
}

/// Whether all volumes that are mounted are as they should be now; if not, the deepest cause of the first that is not.
fn current(volumes: &[MountStatus], since: Timestamp) -> Condition {
    let stale = volumes.iter().find(|it| it.stale);
    let (reason, message) = match stale {
        None => {
            ("Current".to_owned(), "Nothing keeps a volume that is mounted from being brought up to date.".to_owned())
        }
        Some(volume) => match volume.reasons.last() {
            Some(deepest) => (deepest.code.clone(), format!("volume {}: {}", volume.volume, deepest.message)),
            None => (volume.state.clone(), format!("volume {} cannot be brought up to date", volume.volume)),
        },
    };
    let status = stale.is_none().into();
    Condition { kind: "VolumesCurrent".into(), status, reason, message, last_transition_time: since }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Filesystem => "Filesystem",
        Mode::Block => "Block",
    }
}

fn step(step: StepView) -> &'static str {
    match step {
        StepView::Absent => "Absent",
        StepView::Doing => "Doing",
        StepView::Held => "Held",
        StepView::Uncertain(_) => "Uncertain",
        StepView::Undoing => "Undoing",
    }
}

/// A volume as it is shown.
pub(crate) fn volume(clock: Clock, volume: &VolumeView) -> Volume {
    let pods = volume.mounts.iter().map(|it| VolumeUser {
        uid: it.pod.to_string(),
        names: it.names.iter().map(ToString::to_string).collect(),
        published: step(it.publish).into(),
        mounted: it.mounted,
        stale: !it.current,
        reasons: clock.reasons(&it.reasons),
    });
    let is_absent = |it: StepView| it == StepView::Absent;
    let if_needed = |needed: bool, at: StepView| if needed || !is_absent(at) { step(at) } else { "NotNeeded" };
    let is_here =
        !is_absent(volume.attach) || !is_absent(volume.stage) || volume.mounts.iter().any(|it| !is_absent(it.publish));
    let status = VolumeStatus {
        plugin: volume.plugin.to_string(),
        attached: if_needed(volume.needs_attach, volume.attach).into(),
        staged: if_needed(volume.needs_stage, volume.stage).into(),
        size_bytes: volume.size_bytes,
        in_use: volume.in_use || is_here,
        reasons: clock.reasons(&volume.reasons),
        pods: pods.collect(),
    };
    Object::new(Metadata { name: volume.id.to_string(), ..Metadata::default() }, status)
}

/// An operation as it is shown.
pub(crate) fn operation(clock: Clock, operation: &OperationView) -> Operation {
    let status = OperationStatus {
        operation: operation.kind.to_string(),
        volume_id: operation.volume.to_string(),
        pod_uid: operation.pod.as_ref().map(ToString::to_string),
        since: clock.wall(operation.since),
        hung: operation.turn == TurnView::Hung,
        queued_behind: match operation.turn {
            TurnView::Queued { ahead } => Some(ahead),
            TurnView::Runs | TurnView::Hung => None,
        },
    };
    Object::new(Metadata { name: operation.id.to_string(), ..Metadata::default() }, status)
}
