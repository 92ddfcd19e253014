//! Says in plain words what happens, for traces that people read.

use std::sync::Arc;
use windlass_core::event::{Attachment, Containers, MountPlace, Record};
use windlass_core::notice::{Notice, Verdict};
use windlass_core::operation::{Action, Done, Earlier, Outcome};
use windlass_core::spec::{Phase, Pod, Want};
use windlass_core::{Event, Operation};

/// A fact that the engine is told.
pub fn describe(event: &Event) -> String {
    match event {
        Event::PodApplied(pod) => format!("told: {}", pod_words(pod)),
        Event::PodGone { uid, version, containers } => {
            format!("told: pod {uid} is gone in version {}{}", version.0, containers_words(*containers))
        }
        Event::SourceComplete { source, version, doubt, .. } => {
            let doubt = doubt.as_ref().map(|it| format!(", in doubt: {it}")).unwrap_or_default();
            format!("told: source {source} is complete as of version {}{doubt}", version.0)
        }
        Event::SourceRead { source, as_of } => format!("told: source {source} was read as of {as_of:?}"),
        Event::PodHeld { uid, hold } => format!("told: pod {uid} is held: {}", hold.text),
        Event::HoldReleased(uid) => format!("told: pod {uid} need not be held"),
        Event::SourceAnnounced(source) => format!("told: there is a source {source}"),
        Event::SourceLost { source, text } => format!("told: source {source} is lost: {text}"),
        Event::ObjectChanged(object) => format!("told: {object} changed"),
        Event::DriverRegistered(driver) => format!("told: driver {driver} registered"),
        Event::DriverUnregistered(driver) => format!("told: driver {driver} is gone"),
        Event::AttachmentChanged { volume, attachment } => match attachment {
            Attachment::Attached { .. } => format!("told: {volume} is attached"),
            Attachment::Detached => format!("told: {volume} is not attached"),
            Attachment::Failed { text, .. } => format!("told: {volume} could not be attached: {text}"),
        },
        Event::AttachmentsComplete => "told: that was all that is attached".into(),
        Event::InUseReported { version } => format!("told: what is in use stands reported in version {version}"),
        Event::MountSeen { place, proof } => match proof {
            Some(proof) => format!("told: mount {} is {}", proof.mount_id, place_words(place)),
            None => format!("told: nothing is {}", place_words(place)),
        },
        Event::FoundAttached { spec, device } => {
            format!("found: {} attached{}", spec.id, if device.is_some() { "" } else { ", perhaps" })
        }
        Event::FoundStaged(found) => {
            format!("found: {} staged{}", found.spec.id, found_words(&found.record, found.seen.is_some()))
        }
        Event::FoundPublished { pod, found } => {
            format!("found: {} in pod {pod}{}", found.spec.id, found_words(&found.record, found.seen.is_some()))
        }
        Event::FoundUnreadable { pod, plugin, inner_name, .. } => {
            format!("found: {plugin} {inner_name} in pod {pod}, without a readable record")
        }
        Event::FoundPod { uid, .. } => format!("found: a directory of pod {uid}"),
        Event::DiskRead => "told: that was all on disk".into(),
        Event::OperationQueued { id, ahead } => format!("queued: {id} behind {ahead}"),
        Event::OperationBlocked { id, by } => format!("held back: {id}, {by}"),
        Event::OperationStarted { id } => format!("began: {id}"),
        Event::RetryWanted { volume, pod } => match pod {
            Some(pod) => format!("told: try {volume} in pod {pod} at once"),
            None => format!("told: try {volume} at once"),
        },
        Event::OperationEnded { id, outcome } => format!("ended: {id} {}", describe_outcome(outcome)),
        Event::WaitStarted(wait) => {
            format!("asked: waiter {} wants pod {} to be {:?}", wait.waiter.0, wait.pod, wait.goal)
        }
        Event::WaitCancelled(waiter) => format!("asked: waiter {} no longer waits", waiter.0),
        Event::TimePassed => "told: time passed".into(),
    }
}

fn pod_words(pod: &Pod) -> String {
    let phase = match pod.phase {
        Phase::Running => "runs",
        Phase::Stopping => "is stopping",
        Phase::Finished => "has finished",
    };
    let volumes = pod.volumes.iter().map(|it| match &it.want {
        Want::Volume(used) => match used.label.effective() {
            Some(label) => format!("{}={} ({label})", it.name, used.spec.id),
            None => format!("{}={}", it.name, used.spec.id),
        },
        Want::Unknown { .. } | Want::Pending(_) => format!("{}=?", it.name),
        Want::Invalid { .. } => format!("{}=invalid", it.name),
    });
    let volumes: Vec<String> = volumes.collect();
    format!("pod {} {phase} in version {} with {}", pod.uid, pod.version.0, volumes.join(", "))
}

fn containers_words(containers: Containers) -> &'static str {
    match containers {
        Containers::MayRun => ", but its containers may still run",
        Containers::Stopped => ", and nothing of it runs",
    }
}

fn found_words(record: &Record, seen: bool) -> &'static str {
    match (record, seen) {
        (Record::Leaving { .. }, _) => ", perhaps: it was being taken away",
        (Record::Intent, _) => ", perhaps: only the intent is recorded",
        (Record::Proven { .. }, true) => ", recorded, with a mount there",
        (Record::Proven { .. }, false) => ", recorded, but nothing is mounted",
    }
}

/// Where a mount is, as the end of a sentence.
pub fn place_words(place: &MountPlace) -> String {
    match place {
        MountPlace::Stage(volume) => format!("where {volume} is staged"),
        MountPlace::Publish(volume, pod) => format!("at {volume} in pod {pod}"),
    }
}

/// An operation that starts.
pub fn describe_operation(operation: &Operation) -> String {
    let volume = operation.volume();
    let id = operation.id;
    let again = |after: &Earlier| match after {
        Earlier::Nothing => "",
        Earlier::Unknown => ", after an attempt with an unknown end",
        Earlier::Success => ", to bring it up to date",
    };
    let labelled = |label: &Option<Arc<str>>| match label {
        Some(label) => format!(" with label {label}"),
        None => String::new(),
    };
    match &operation.action {
        Action::Attach => format!("start: {id} attach {volume}"),
        Action::Stage { after, label } => format!("start: {id} stage {volume}{}{}", labelled(label), again(after)),
        Action::Publish { pod, after, label, .. } => {
            format!("start: {id} publish {volume} to pod {pod}{}{}", labelled(label), again(after))
        }
        Action::Expand { from_bytes, to_bytes, .. } => {
            format!("start: {id} grow {volume} from {from_bytes} to {to_bytes} bytes")
        }
        Action::Unpublish { pod, .. } => format!("start: {id} unpublish {volume} from pod {pod}"),
        Action::Unstage => format!("start: {id} unstage {volume}"),
        Action::Detach => format!("start: {id} detach {volume}"),
    }
}

/// How an operation ended.
pub fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(Done::Gone) => "done, nothing is left".into(),
        Outcome::Done(Done::Attached { .. }) => "done, attached".into(),
        Outcome::Done(Done::Mounted(proof)) => format!("done, as mount {}", proof.mount_id),
        Outcome::Done(Done::Expanded { size_bytes }) => format!("done, {size_bytes} bytes large now"),
        Outcome::Refused(trouble) => format!("refused: {}", trouble.text),
        Outcome::Unknown(trouble) => format!("with unknown effect: {}", trouble.text),
    }
}

/// What the engine says of its own accord, if it is worth a line.
pub fn describe_notice(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::WaitEnded { waiter, result: Ok(()) } => format!("answer: waiter {}: it is so", waiter.0),
        Notice::WaitEnded { waiter, result: Err(error) } => format!("answer: waiter {}: {error}", waiter.0),
        Notice::InUseChanged { version } => format!("notice: what is in use changed, version {version}"),
        Notice::Synced => "notice: what is in use may be reported".into(),
        Notice::RereadWanted { as_of } => format!("notice: sources are to be read again as of {as_of:?}"),
        Notice::HoldEnded(pod) => format!("notice: pod {pod} was held for long enough"),
        Notice::PodReleased(pod) => format!("notice: nothing of pod {pod} is left"),
        Notice::ExpansionEnded { volume, verdict } => match verdict {
            Verdict::Grown { size_bytes } => format!("notice: {volume} has grown to {size_bytes} bytes"),
            Verdict::Failed(trouble) => format!("notice: {volume} did not grow: {}", trouble.text),
            Verdict::Infeasible(trouble) => format!("notice: {volume} cannot grow: {}", trouble.text),
            Verdict::InUse(trouble) => format!("notice: {volume} cannot grow in use: {}", trouble.text),
        },
        Notice::VolumeChanged { .. } => return None,
    })
}
