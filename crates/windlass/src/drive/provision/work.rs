//! What is done about claims' volumes, each on a worker, and what becomes of its end: made, grown, noted, deleted, let go of.

use std::num::NonZeroUsize;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use windlass_core::ids::VolumeId;
use windlass_core::operation::{Cause, Obstacle};
use windlass_core::reason::{Code, WaitsOn};
use windlass_linux::workers::Lane;

use super::{Entry, shown};
use crate::drive::alarms::Alarm;
use crate::drive::outside::{Owed, broke_off};
use crate::drive::{Drive, Message};
use crate::executor::Executor;
use crate::objects::{ObjectKind, Reference};
use crate::plugin::csi::{controller, lied};
use crate::plugin::{Failure, Left};
use crate::provision::Provision;
use crate::provision::store::Store;
use crate::tell::Tone;

/// Calls of one driver's controller for claims at a time, and with those that take long: one that hangs must not take all
/// threads, however many claims there are (I-6).
const CALLS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const CALLS_MOST: NonZeroUsize = NonZeroUsize::new(24).unwrap();

/// How long after a failure it is tried again; twice as long after each, up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(300);

/// What a worker does for a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Writes something down.
    Note,
    Make,
    Grow,
    Delete,
    /// Forgets a volume that its class keeps, which stays with its driver.
    Release,
}

impl Work {
    /// How a claim stands whose work has failed.
    pub(super) fn failed(self) -> Code {
        match self {
            Self::Note | Self::Make => Code::ProvisioningFailed,
            Self::Grow => Code::ResizeFailed,
            Self::Delete | Self::Release => Code::DeletionFailed,
        }
    }

    /// What Kubernetes' controllers call that in their events.
    pub(super) fn failure_event(self) -> &'static str {
        match self {
            Self::Note | Self::Make => "ProvisioningFailed",
            Self::Grow => "VolumeResizeFailed",
            Self::Delete | Self::Release => "VolumeFailedDelete",
        }
    }
}

/// What was done for a claim, and how it ended.
pub(crate) struct Worked {
    what: Work,
    end: End,
}

/// How work for a claim ended.
pub(super) struct End {
    /// What is on disk now.
    noted: Option<Provision>,
    /// What went wrong.
    failure: Option<Failure>,
}

impl End {
    /// This is on disk now; or that is still there, because something went wrong.
    pub(super) fn of(done: Result<Option<Provision>, Failure>, before: Option<Provision>) -> Self {
        match done {
            Ok(noted) => Self { noted, failure: None },
            Err(failure) => Self { noted: before, failure: Some(failure) },
        }
    }
}

impl Drive {
    /// A claim without a volume.
    pub(super) fn make_for(&mut self, claim: &Reference, given: &PersistentVolumeClaim, noted: Option<Provision>) {
        let order = match noted {
            // What was asked for once is asked for again, whatever the manifests say by now.
            Some(noted) => noted,
            None => match self.order(claim, given) {
                Ok(order) => order,
                Err((code, text, waits_on)) => return self.stand(claim, code, &text, waits_on),
            },
        };
        let driver = order.driver().to_owned();
        self.work(claim, Work::Make, &driver, move |executor, store| make(executor, store, order));
        // After that: pods that hear of it look at the claim.
        let text = format!("driver {driver} is asked for a volume");
        self.say_begun(claim, Code::Provisioning, &text);
    }

    /// A claim whose volume is too small by now.
    pub(super) fn grow_for(&mut self, claim: &Reference, noted: Provision, to_bytes: u64) {
        let driver = noted.driver().to_owned();
        self.work(claim, Work::Grow, &driver, move |executor, store| {
            let grown = controller::expand(&executor.scene, &noted, to_bytes);
            let grown = grown.and_then(|(bytes, here)| {
                let grown = noted.clone().grown(bytes, here);
                store.write(&grown).map(|()| grown)
            });
            End::of(grown.map(Some), Some(noted))
        });
        self.say_begun(claim, Code::Resizing, &format!("driver {driver} is asked for {to_bytes} bytes"));
    }

    /// What became of a claim, and what was said of its volume, is on disk before anything is done about it.
    pub(super) fn note_what_is_known(&mut self, claim: &Reference, noted: Provision, is_counted: bool) {
        let Some(after) = self.provisions.claims.get(claim).and_then(Entry::to_note) else { return };
        let volume = noted.volume.as_ref().map_or_else(|| "its volume".into(), shown);
        let driver = noted.driver().to_owned();
        self.work(claim, Work::Note, &driver, move |_, store| {
            End::of(store.write(&after).map(|()| Some(after)), Some(noted))
        });
        if is_counted {
            self.say_when_deleted(claim, &volume);
        }
    }

    /// This node has grown a volume, so the claim shows its size.
    pub(super) fn volume_has_grown(&mut self, volume: &VolumeId) {
        let Some(claim) = self.provisions.volumes.get(volume).cloned() else { return };
        let Some(entry) = self.provisions.claims.get_mut(&claim) else { return };
        entry.has_grown = entry.running.is_some();
        let Some(noted) = entry.noted.clone().filter(|_| entry.running.is_none()) else { return };
        let Some(grown) = noted.clone().grown_here() else { return };
        self.work(&claim, Work::Note, grown.driver().to_owned().as_str(), move |_, store| {
            End::of(store.write(&grown).map(|()| Some(grown)), Some(noted))
        });
    }

    /// The time of a volume whose claim is gone has come: everything is read again first.
    pub(super) fn reread_for(&mut self, claim: &Reference, noted: &Provision) {
        let Some((due, _)) = self.provisions.claims.get(claim).and_then(|it| it.due) else { return };
        let not_before = self.provisions.claims.get(claim).and_then(|it| it.not_before);
        let as_of = not_before.map_or(due, |it| it.max(due));
        let Some(source) = self.reading.unread_as_of(as_of).cloned() else { return };
        let volume = noted.volume.as_ref().map_or_else(|| "its volume".into(), shown);
        let text =
            format!("the claim is gone, and {volume} is deleted if it still is when everything was read once more");
        self.stand(claim, Code::DeletePending, &text, WaitsOn::Source(source));
        self.reread(as_of);
    }

    /// A volume whose claim is gone, and whose time has come.
    pub(super) fn delete_for(&mut self, claim: &Reference, noted: Provision) {
        // From now on no claim gets it any more, unless nothing comes of it.
        let (before, noted, now) = (noted.clone(), noted.released(true), self.now());
        self.provisions.note(claim, Some(noted.clone()), now);
        let (driver, volume) = (noted.driver().to_owned(), noted.volume.as_ref().map_or_else(String::new, shown));
        self.work(claim, Work::Delete, &driver, move |executor, store| match noted.volume {
            None => find_out(executor, store, noted),
            Some(_) => delete(executor, store, noted, before),
        });
        let text = format!("its volume of before is being deleted: {volume}");
        self.say_begun(claim, Code::DeletingVolume, text.trim_end_matches(": "));
    }

    /// A volume that its class keeps, and that somebody lets go of: it stays with its driver.
    pub(super) fn release_for(&mut self, claim: &Reference, noted: Provision) {
        let driver = noted.driver().to_owned();
        self.work(claim, Work::Release, &driver, move |_, store| {
            End::of(store.remove(&noted.reference()).map(|()| None), Some(noted))
        });
    }

    /// Does something about a claim's volume, elsewhere.
    pub(super) fn work(
        &mut self,
        claim: &Reference,
        what: Work,
        driver: &str,
        work: impl FnOnce(&Executor, &Store) -> End + Send + 'static,
    ) {
        let (executor, store) = (self.outside.executor.clone(), self.provisions.store());
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        let broken = Worked { what, end: End::of(Err(broke_off()), entry.noted.clone()) };
        let (answer, claim) = (self.outside.owe(Owed::Claim(claim.clone(), Box::new(broken))), claim.clone());
        let lane = Lane::wide(&format!("provision/{driver}"), CALLS, CALLS_MOST);
        let started = self.outside.workers.run(&lane, move || {
            let end = work(&executor, &store);
            answer.give(Message::ClaimWorked(claim, Box::new(Worked { what, end })));
        });
        // Without any thread it is tried again with the next change.
        if started.is_ok() {
            entry.running = Some(what);
            self.operations.chores += 1;
        }
    }

    pub(in crate::drive) fn claim_worked(&mut self, claim: &Reference, worked: Worked) {
        let Worked { what, end } = worked;
        self.operations.chores = self.operations.chores.saturating_sub(1);
        let now = self.now();
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        entry.running = None;
        let refusal = end.failure.as_ref().filter(|_| entry.order.is_some()).map(|it| it.text.clone());
        let released =
            entry.noted.as_ref().and_then(|it| it.volume.as_ref()).map(shown).filter(|_| what == Work::Release);
        match end {
            // What was ordered and cannot be noted is refused, and nothing else has failed.
            End { failure: Some(_), .. } if what == Work::Note && refusal.is_some() => {}
            End { noted, failure: None } => {
                entry.failures = 0;
                entry.failure = None;
                entry.not_before = None;
                // What it is instead is said in a moment, and does not last since this failed.
                entry.stand = entry.stand.take().filter(|it| it.attempts == 0);
                // What was told of the time of its deletion stays told.
                if what != Work::Note {
                    entry.told = None;
                }
                let is_back = |it: &Provision| it.departure.is_some() && !it.is_doomed();
                let is_back = entry.noted.as_ref().is_some_and(is_back)
                    && noted.as_ref().is_some_and(|it| it.departure.is_none());
                let had = entry.noted.as_ref().and_then(|it| it.volume.clone());
                let has = noted.as_ref().and_then(|it| it.volume.clone());
                let size = noted.as_ref().and_then(Provision::size).unwrap_or_default();
                let is_left_to_node = noted.as_ref().is_some_and(Provision::is_left_to_node);
                let id = entry.noted.as_ref().and_then(Provision::volume_id);
                self.provisions.note(claim, noted, now);
                if let Some(id) = id {
                    self.look_after(&id);
                }
                match (had, has) {
                    (None, Some(volume)) => {
                        let text = format!("volume {} was made", shown(&volume));
                        self.tell_claim(claim, Tone::Normal, "ProvisioningSucceeded", text);
                    }
                    (Some(volume), None) => {
                        let name = volume.metadata.name.as_deref().unwrap_or_default();
                        self.object_gone(&Reference::new(ObjectKind::Volume, "", name));
                        let (reason, text) = match what {
                            Work::Release => (
                                "VolumeReleased",
                                format!("volume {} is forgotten; its driver keeps it", shown(&volume)),
                            ),
                            Work::Note | Work::Make | Work::Grow | Work::Delete => {
                                ("VolumeDelete", format!("volume {} was deleted", shown(&volume)))
                            }
                        };
                        self.tell_claim(claim, Tone::Normal, reason, text);
                    }
                    (Some(_), Some(_)) if what == Work::Grow && is_left_to_node => {
                        let text =
                            format!("its volume may have {size} bytes, and is grown by the node when a pod has it");
                        self.tell_claim(claim, Tone::Normal, "FileSystemResizeRequired", text);
                    }
                    (Some(_), Some(_)) if what == Work::Grow => {
                        let text = format!("its volume has {size} bytes");
                        self.tell_claim(claim, Tone::Normal, "VolumeResizeSuccessful", text);
                    }
                    // Only now: what is on disk would have it deleted after a restart.
                    (Some(_), Some(_)) if is_back => {
                        let text = "the claim is back, and its volume stays".into();
                        self.tell_claim(claim, Tone::Normal, "DeleteCancelled", text);
                    }
                    (None, None) if what == Work::Delete => {
                        let text =
                            "what was noted of its volume is forgotten; whatever its driver made is left with it";
                        self.tell_claim(claim, Tone::Normal, "VolumeReleased", text.into());
                    }
                    (Some(_), Some(_)) | (None, None) => {}
                }
            }
            End { noted, failure: Some(failure) } => {
                let wait = (RETRY * 2_u32.pow(entry.failures.min(16))).min(RETRY_MAX);
                entry.failures += 1;
                entry.failure = Some(failure.text.as_str().into());
                let at = now + wait;
                entry.not_before = Some(at);
                self.alarms.set(at, Alarm::Provision(claim.clone()));
                self.provisions.note(claim, noted, now);
                let code = match failure.cause {
                    Cause::Node(Obstacle::DriverLied) => Code::DriverLied,
                    _ => what.failed(),
                };
                let remedy = self.remedy_for_lie(claim).filter(|_| code == Code::DriverLied).unwrap_or_default();
                let mut reason = self.reason(claim, code, &format!("{}{remedy}", failure.text), WaitsOn::Time);
                reason.next_try = Some(at);
                self.set_stand(claim, Some(reason));
                self.warn_once(claim, what.failure_event(), failure.to_string());
            }
        }
        self.answer_order(claim, refusal.as_deref(), released.as_deref());
        self.claim_has_changed(claim);
        let entry = self.provisions.claims.get(claim).filter(|it| it.has_grown);
        if let Some(volume) = entry.and_then(|it| it.noted.as_ref()).and_then(Provision::volume_id) {
            self.volume_has_grown(&volume);
        }
        self.show_claim(claim);
        self.look_at_claim(claim);
    }
}

/// Has a volume made. What was going to be made is noted first, and stays noted if that is not known not to be there.
fn make(executor: &Executor, store: &Store, order: Provision) -> End {
    match store.damage(&order.reference()) {
        Ok(None) => {}
        Ok(Some(damage)) => return End::of(Err(damage), None),
        Err(failure) => return End::of(Err(failure), Some(order)),
    }
    // A refusal does not clear the doubt of an earlier call (I-10).
    let is_first = match store.has(&order.reference()) {
        Ok(has) => !has,
        Err(failure) => return End::of(Err(failure), Some(order)),
    };
    if let Err(failure) = store.write(&order) {
        return End::of(Err(failure), Some(order).filter(|_| !is_first));
    }
    let made = controller::create(&executor.scene, &order).and_then(|volume| {
        let made = order.clone().with_volume(volume);
        store.write(&made)?;
        // After that: of two that get the same at once, one sees the other.
        let Some(other) = store.other_with(&made)? else { return Ok(Some(made)) };
        if order.is_released {
            // It was going to be deleted, and nothing is its own.
            return store.remove(&order.reference()).map(|()| None);
        }
        store.write(&order)?;
        let volume = made.volume.as_ref().map(shown).unwrap_or_default();
        let what = format!("{volume} was made for claim {}/{} already", other.namespace(), other.name());
        Err(lied(order.driver(), what))
    });
    let made_nothing = matches!(&made, Err(failure) if failure.left == Left::Nothing);
    let is_forgotten = is_first && made_nothing && store.remove(&order.reference()).is_ok();
    End::of(made, Some(order).filter(|_| !is_forgotten))
}

/// Finds out about a volume that is to be deleted whether it was made and what it is called, which making it tells. What a
/// driver that lies has made is given up only because somebody said so.
fn find_out(executor: &Executor, store: &Store, noted: Provision) -> End {
    let (claim, is_ordered) = (noted.reference(), noted.departure.as_ref().is_some_and(|it| it.is_ordered));
    let end = make(executor, store, noted);
    let has_lied = end.failure.as_ref().is_some_and(|it| it.cause == Cause::Node(Obstacle::DriverLied));
    if is_ordered && has_lied { End::of(store.remove(&claim).map(|()| None), end.noted) } else { end }
}

fn delete(executor: &Executor, store: &Store, noted: Provision, before: Provision) -> End {
    let delete = match controller::deletion(&executor.scene, &noted) {
        Ok(delete) => delete,
        Err(failure) => return End::of(Err(failure), Some(before)),
    };
    match store.write(&noted).and_then(|()| delete()) {
        // Nobody was there to hear it, so nothing has begun, and whatever keeps the volume by the next try is heard (I-15).
        // If that cannot be noted, it is as if it had begun.
        Err(failure) if failure.cause == Cause::Driver && store.write(&before).is_ok() => {
            End::of(Err(failure), Some(before))
        }
        done => End::of(done.and_then(|()| store.remove(&noted.reference())).map(|()| None), Some(noted)),
    }
}
