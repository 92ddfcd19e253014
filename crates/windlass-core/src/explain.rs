//! Turns what planning waits for into reasons for people (I-7).

use crate::actual::{Mount, Standing, Turn, Volume, VolumeKey};
use crate::backoff::Backoff;
use crate::desired::{Held, Ignorance};
use crate::event::Attachment;
use crate::ids::OperationId;
use crate::operation::{Cause, OperationKind, Trouble};
use crate::plan::{Status, Wait};
use crate::reason::{Code, Reason, WaitsOn};
use crate::spec::Life;
use crate::step::Doubt;
use crate::table::Table;
use crate::world::World;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How something stands that planning found settled, or waiting.
pub(crate) fn code(status: Status, here: bool, world: &World) -> Code {
    let Some(wait) = status else {
        return if here { Code::Mounted } else { Code::Idle };
    };
    match wait {
        Wait::Running(operation) => running_code(operation, world),
        Wait::Busy(_) => Code::VolumeBusy,
        Wait::Backoff(_) => Code::BackingOff,
        Wait::Driver => Code::DriverMissing,
        Wait::Report => Code::NotReported,
        Wait::Attacher => Code::WaitingForAttacher,
        Wait::AttachmentLost => Code::AttachmentLost,
        Wait::Attach => Code::NotAttached,
        Wait::Stage => Code::NotStaged,
        Wait::Growth => Code::ExpansionPending,
        Wait::OtherPod(_) => Code::OtherPod,
        Wait::Pods(_) => Code::StillInPods,
        Wait::LabelConflict(_) => Code::LabelConflict,
        Wait::LabelMismatch => Code::LabelMismatch,
        Wait::Identity(_) | Wait::Ignorance(Ignorance::Identity) => Code::IdentityChanged,
        Wait::Disk => Code::DiskNotRead,
        Wait::Start | Wait::Ignorance(Ignorance::Start) => start_code(world),
        Wait::Ignorance(Ignorance::Lookup) => Code::LookupFailed,
        Wait::Ignorance(Ignorance::Containers) => Code::PodStopping,
        Wait::Ignorance(Ignorance::Held(code)) => code,
    }
}

fn running_code(operation: OperationId, world: &World) -> Code {
    let Some(running) = world.operations.get(&operation) else {
        return Code::VolumeBusy;
    };
    match running.turn {
        Turn::Queued { .. } => return Code::Queued,
        Turn::Blocked { .. } | Turn::Hung => return Code::Hung,
        Turn::Runs { .. } => {}
    }
    match running.kind {
        OperationKind::Attach => Code::Attaching,
        OperationKind::Stage => Code::Staging,
        OperationKind::Publish if running.refresh => Code::Refreshing,
        OperationKind::Publish => Code::Publishing,
        OperationKind::Expand => Code::Expanding,
        OperationKind::Unpublish => Code::Unpublishing,
        OperationKind::Unstage => Code::Unstaging,
        OperationKind::Detach => Code::Detaching,
    }
}

/// Why nothing may be taken away yet.
fn start_code(world: &World) -> Code {
    if !world.start.disk_read {
        Code::DiskNotRead
    } else if world.sources.is_empty() || world.incomplete_source().is_some() {
        Code::SourceIncomplete
    } else {
        Code::AttachmentsUnknown
    }
}

/// Collects the chain for one volume or mount.
pub(crate) struct Explainer<'a> {
    pub(crate) volumes: &'a Table<Volume>,
    pub(crate) world: &'a World,
    pub(crate) key: VolumeKey,
}

impl Explainer<'_> {
    fn volume(&self) -> &Volume {
        &self.volumes[self.key]
    }

    /// Why the volume itself is not settled.
    pub(crate) fn volume_chain(&self, status: Status) -> Vec<Reason> {
        let volume = self.volume();
        let mut chain = Vec::new();
        if let Some(wait) = status {
            self.link(&mut chain, wait, status, volume.standing, volume.backoff.as_deref());
            doubt(&mut chain, volume.stage.doubt().map(|it| doubt_reason(it, "stage", volume.standing)));
        }
        chain
    }

    /// Why a pod's mount is not settled; what the volume waits for follows where the mount waits for the volume.
    pub(crate) fn mount_chain(&self, mount: &Mount, status: Status, volume_status: Status) -> Vec<Reason> {
        let mut chain = Vec::new();
        let Some(wait) = status else { return chain };
        if let (Wait::Ignorance(Ignorance::Held(code)), Some(hold)) = (wait, &self.world.pods[mount.pod].hold) {
            chain.push(self.held(code, hold));
            return chain;
        }
        self.link(&mut chain, wait, volume_status, mount.standing, mount.backoff.as_deref());
        doubt(&mut chain, mount.step.doubt().map(|it| doubt_reason(it, "publish", mount.standing)));
        chain
    }

    fn link(
        &self,
        chain: &mut Vec<Reason>,
        wait: Wait,
        volume_status: Status,
        standing: Standing,
        backoff: Option<&Backoff>,
    ) {
        let volume = self.volume();
        let code = code(Some(wait), true, self.world);
        let mut reason = Reason {
            code,
            text: String::from(code.meaning()),
            // What fails again and again fails since the first time.
            since: backoff.map_or(standing.since, |it| it.since.min(standing.since)),
            attempts: backoff.map_or(0, |it| it.failures),
            next_try: None,
            goes_at: None,
            waits_on: WaitsOn::Nothing,
        };
        match wait {
            Wait::Running(operation) => {
                self.operation(&mut reason, operation);
                chain.push(reason);
                chain.extend(backoff.map(|it| self.failure(it, standing)));
            }
            Wait::Busy(operation) => {
                reason.waits_on = WaitsOn::Operation(operation);
                if let Some(running) = self.world.operations.get(&operation) {
                    let state = if matches!(running.turn, Turn::Queued { .. }) { "goes first" } else { "is running" };
                    reason.text = format!("{} {operation} of the same volume {state}", running.kind);
                }
                chain.push(reason.clone());
                reason.code = running_code(operation, self.world);
                reason.attempts = 0;
                self.operation(&mut reason, operation);
                chain.push(reason);
            }
            Wait::Backoff(retry_at) => {
                reason.next_try = Some(retry_at);
                reason.waits_on = WaitsOn::Time;
                if let Some(backoff) = backoff {
                    reason.text = match backoff.failures {
                        1 => format!("{} failed", backoff.kind),
                        failures => format!("{} failed {failures} times in a row", backoff.kind),
                    };
                }
                chain.push(reason);
                chain.extend(backoff.map(|it| self.failure(it, standing)));
            }
            Wait::Driver => {
                if let Some(driver) = &volume.spec.driver {
                    reason.text = format!("driver {driver} is not registered on this node");
                    reason.waits_on = WaitsOn::Driver(driver.clone());
                }
                chain.push(reason);
            }
            Wait::Report => {
                reason.waits_on = WaitsOn::Report;
                chain.push(reason);
            }
            Wait::Attacher | Wait::AttachmentLost => {
                reason.waits_on = WaitsOn::Attacher;
                chain.push(reason.clone());
                if let Some(Attachment::Failed { text, exhausted }) = self.world.attachment(volume.id()) {
                    reason.code = if *exhausted { Code::AttachLimit } else { Code::AttachFailed };
                    reason.text = text.to_string();
                    chain.push(reason);
                }
            }
            Wait::Attach | Wait::Stage | Wait::Growth => {
                chain.push(reason);
                chain.extend(self.volume_chain(volume_status));
            }
            Wait::OtherPod(pod) | Wait::LabelConflict(pod) | Wait::Pods(pod) => {
                let pod = &self.world.pods[pod];
                reason.text = format!("{} (pod {})", code.meaning(), pod.title);
                reason.waits_on = WaitsOn::Pod(pod.uid.clone());
                chain.push(reason);
                if let (Life::Held, Some(hold)) = (pod.life, &pod.hold) {
                    chain.push(self.held(hold.shown(self.world), hold));
                }
            }
            Wait::Identity(other) => {
                let other = self.volumes[other].id();
                reason.text = format!("the pod has volume {other} at this place, which stays while the pod is here");
                reason.waits_on = WaitsOn::Volume(other.clone());
                chain.push(reason);
            }
            Wait::Disk | Wait::Start | Wait::Ignorance(Ignorance::Start) => {
                reason.waits_on = match code {
                    Code::DiskNotRead => WaitsOn::Disk,
                    Code::AttachmentsUnknown => WaitsOn::Attacher,
                    _ => WaitsOn::Nothing,
                };
                if code == Code::SourceIncomplete
                    && let Some((source, _, why)) = self.world.silence()
                {
                    reason.text = format!("{why}, so nothing is taken away");
                    reason.waits_on = WaitsOn::Source(source.clone());
                }
                chain.push(reason);
            }
            Wait::LabelMismatch | Wait::Ignorance(_) => chain.push(reason),
        }
    }

    /// Why a pod, or a volume that its pod does not name, stays.
    fn held(&self, code: Code, hold: &Held) -> Reason {
        let silence = self.world.silence().filter(|_| code == Code::SourceIncomplete);
        let goes_at = hold.until.filter(|_| silence.is_none());
        let (text, since, waits_on) = match silence {
            Some((source, since, why)) => {
                (format!("{}; it stays because {why}", hold.text), since, WaitsOn::Source(source.clone()))
            }
            None => (hold.text.to_string(), hold.since, hold.until.map_or(WaitsOn::Nothing, |_| WaitsOn::Time)),
        };
        Reason { code, text, since, attempts: 0, next_try: None, goes_at, waits_on }
    }

    /// The last failure, as the deepest reason known.
    fn failure(&self, backoff: &Backoff, standing: Standing) -> Reason {
        let Trouble { cause, text } = &backoff.trouble;
        let (code, text) = (cause.code(), text.to_string());
        let waits_on = match cause {
            Cause::Driver => WaitsOn::Time,
            Cause::Object(object) => WaitsOn::Object(object.clone()),
            Cause::InUse | Cause::Infeasible | Cause::NotSupported | Cause::Node(_) | Cause::Other => WaitsOn::Nothing,
        };
        let since = backoff.since.min(standing.since);
        Reason { code, text, since, attempts: backoff.failures, next_try: None, goes_at: None, waits_on }
    }

    fn operation(&self, reason: &mut Reason, operation: OperationId) {
        reason.waits_on = WaitsOn::Operation(operation);
        if let Some(running) = self.world.operations.get(&operation) {
            reason.since = running.since;
            let kind = running.kind;
            reason.text = match &running.turn {
                Turn::Queued { ahead: 0 } => format!("{kind} {operation} is the next to begin"),
                Turn::Queued { ahead: 1 } => format!("{kind} {operation} waits for its turn behind 1 other"),
                Turn::Queued { ahead } => format!("{kind} {operation} waits for its turn behind {ahead} others"),
                Turn::Blocked { by } => format!("{kind} {operation} has not begun: {by}"),
                Turn::Runs { .. } => format!("{kind} {operation} is running"),
                Turn::Hung => format!("{kind} {operation} has not answered in its time"),
            };
        }
    }
}

/// Doubt about what is here follows how it stands, and comes before what that waits for or what the last attempt said,
/// which is the deeper cause.
fn doubt(chain: &mut Vec<Reason>, doubt: Option<Reason>) {
    let place = chain.len().min(1);
    chain.splice(place..place, doubt);
}

fn doubt_reason(doubt: Doubt, step: &str, standing: Standing) -> Reason {
    let (code, text) = match doubt {
        Doubt::Unanswered => (Code::Uncertain, format!("an earlier {step} ended without a clear answer")),
        Doubt::HalfGone => (Code::Uncertain, format!("undoing {step} failed, so it may be half gone")),
        Doubt::Found => (Code::Uncertain, format!("found at start without proof that the {step} is whole")),
        Doubt::Vanished => (Code::MountVanished, String::from(Code::MountVanished.meaning())),
        Doubt::Replaced => (Code::MountReplaced, String::from(Code::MountReplaced.meaning())),
    };
    Reason { code, text, since: standing.since, attempts: 0, next_try: None, goes_at: None, waits_on: WaitsOn::Nothing }
}

/// The pod errors of the kubelet that come from sharing a volume (E-87, E-118); the others are in the pod itself.
pub(crate) fn sharing_error(wait: Wait, mount: &Mount, volume: &Volume, world: &World) -> Option<String> {
    let label_of = |mount: Option<&Mount>| {
        let used = mount.and_then(|it| it.used.as_ref());
        used.and_then(|it| it.label.original.clone()).unwrap_or_default()
    };
    match wait {
        Wait::LabelConflict(first) => Some(format!(
            "conflicting SELinux labels of volume {}: \"{}\" and \"{}\"",
            volume.spec.inner_name,
            label_of(volume.mount(first)),
            label_of(Some(mount)),
        )),
        Wait::LabelMismatch => Some(format!(
            "waiting for unmount of volume \"{}\", because it is already mounted to a different pod with a different \
             SELinux label",
            volume.id()
        )),
        Wait::Identity(_) => Some(format!(
            "pod {} already has another volume at the place of volume {}",
            world.pods[mount.pod].title,
            volume.id()
        )),
        Wait::Running(_)
        | Wait::Busy(_)
        | Wait::Backoff(_)
        | Wait::Driver
        | Wait::Report
        | Wait::Attacher
        | Wait::AttachmentLost
        | Wait::Attach
        | Wait::Stage
        | Wait::Growth
        | Wait::OtherPod(_)
        | Wait::Pods(_)
        | Wait::Disk
        | Wait::Start
        | Wait::Ignorance(_) => None,
    }
}
