//! When volumes are made for claims, and when they are deleted again. What is asked for stands in `provision.rs`, and what
//! is to be done next is decided in `provision/next.rs`; here it is carried out and told.
//!
//! A volume is deleted only if its claim was seen to go while this node was told of everything there is: a manifest that
//! cannot be read, a directory that is not there yet, or a start with other manifests than before delete nothing. Nor does
//! anything while the volume may be in use (I-1) or somebody else names it, or before a delay in which the claim may come back
//! (I-15). That delay counts only the time in which all that a deletion needs was so without a break: whatever stops being so,
//! the end of this process too, voids it, and it begins anew, for people to see, when all is so again. What was seen counts for
//! nothing once another place is read by accident. Before the deletion everything is read again.
//!
//! This is a room of its own: what is known of claims is private to it, and it has timers and back-off of its own, which
//! nothing else in the drive has. The rest of the drive comes in by these calls and by no field:
//!
//! | What is told | Call |
//! |---|---|
//! | the start: where notes are, what was noted | `Provisions::store`, `provisions_were_read` |
//! | sources: all is given, it is not known any more, all was read again, or is read at another place | `claims_are_complete`, `claims_are_incomplete`, `look_at_due_claims`, `source_was_replaced` |
//! | objects: a claim came, changed or went, a class or volume did | `claim_is_given`, `claim_has_changed`, `claim_is_gone`, `provision_for_class`, `look_at_claim_of` |
//! | a driver is there | `provision_for_driver` |
//! | pods: one uses claims; volumes were let go of | `claims_are_used`, `volumes_were_let_go` |
//! | work ended; its time has come; somebody wants it at once | `claim_worked`, `look_at_claim`, `retry_claims` |
//! | growth on this node ended, or failed | `expansion_has_ended`, `tell_of_failed_growth` |
//! | questions and orders of people (`claims.rs`) | `show_claims`, `show_one_claim`, `explain_growth`, `is_to_be_deleted`, `delete_claim` |

mod claims;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use windlass_core::{
    ids::{DriverName, PodUid, SourceName, Time, VolumeId},
    operation::{Cause, Obstacle},
    reason::{Code, Reason, WaitsOn},
    snapshot::{SourceState, SourceView},
};
use windlass_linux::workers::Lane;

use super::{
    Drive, Message,
    alarms::Alarm,
    outside::{Owed, broke_off},
};
use crate::{
    executor::Executor,
    memory::{Memory, Object},
    node::{Change, Ended, Loss},
    objects::{Lookup, ObjectKind, Reference},
    plugin::{
        Failure, Left,
        csi::{controller, lied, names},
    },
    provision::{
        self, Departure, Provision,
        next::{Facts, Kept, Next, next},
        store::{self, Store},
    },
    tell::Tone,
    view,
};

/// Calls of one driver's controller for claims at a time, and with those that take long: one that hangs must not take all
/// threads, however many claims there are (I-6).
const CALLS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const CALLS_MOST: NonZeroUsize = NonZeroUsize::new(24).unwrap();

/// How long after a failure it is tried again; twice as long after each, up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(300);

/// What is known of claims whose volumes are made here, or would be.
pub(crate) struct Provisions {
    store: Store,
    claims: BTreeMap<Reference, Entry>,
    /// The claims of volumes that were made.
    volumes: HashMap<VolumeId, Reference>,
    /// Why volumes do not grow that this node was told cannot.
    refused_growth: HashMap<VolumeId, Reason>,
    /// How long the volume of a claim that went stays.
    pub(super) delete_delay: Duration,
    /// How long it stays at least, if that was seen by an earlier life.
    orphan_delay: Duration,
    /// Whether what earlier lives noted is known: before that nothing is made.
    is_read: bool,
    /// Whether all claims there are have been given: before that nothing is deleted.
    is_complete: bool,
}

/// What is known of one claim.
struct Entry {
    /// Since when it is known in this life.
    known: Time,
    /// The claim as it was given. What is kept of it for pods to see has more to say.
    given: Option<Arc<PersistentVolumeClaim>>,
    /// What is on disk.
    noted: Option<Provision>,
    /// A worker is at it.
    is_running: bool,
    /// The claim was seen to go.
    departure: Option<Departure>,
    /// That was in an earlier life.
    is_recalled: bool,
    /// Somebody says that its volume is to go now.
    is_ordered: bool,
    /// When its volume is deleted, also as it was first told, while nothing keeps it.
    due: Option<(Time, Timestamp)>,
    /// This node has grown the volume, which is not noted yet.
    has_grown: bool,
    failures: u32,
    /// What was said when it failed last.
    failure: Option<Arc<str>>,
    not_before: Option<Time>,
    /// Why it is not as it should be, if it is not (I-7).
    stand: Option<Reason>,
    /// The bad news that was told last, so that it is told once.
    told: Option<Arc<str>>,
}

impl Entry {
    fn new(now: Time) -> Self {
        Self {
            known: now,
            given: None,
            noted: None,
            is_running: false,
            departure: None,
            is_recalled: false,
            is_ordered: false,
            due: None,
            has_grown: false,
            failures: 0,
            failure: None,
            not_before: None,
            stand: None,
            told: None,
        }
    }

    /// How long its volume stays once nothing else keeps it. A claim that an earlier life saw go may have come back while
    /// nobody looked, and be missing by accident now, as any pod: it stays for at least as long as those do (I-1).
    fn delay(&self, orphan_delay: Duration) -> Duration {
        match &self.departure {
            Some(departure) if !self.is_ordered => departure.delay().max(orphan_delay * u32::from(self.is_recalled)),
            Some(_) | None => Duration::ZERO,
        }
    }

    /// From now on nothing keeps its volume, which stays for the whole delay.
    fn begin_count(&mut self, now: Time, orphan_delay: Duration) {
        let delay = self.delay(orphan_delay);
        let wall = SignedDuration::try_from(delay).ok().and_then(|it| Timestamp::now().checked_add(it).ok());
        self.due = Some((now + delay, wall.unwrap_or(Timestamp::MAX)));
    }

    /// Something keeps its volume, or may: what was counted until now counts for nothing.
    fn void_count(&mut self) {
        (self.due, self.is_ordered) = (None, false);
    }
}

/// What a worker does for a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
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
    fn failed(self) -> Code {
        match self {
            Self::Note | Self::Make => Code::ProvisioningFailed,
            Self::Grow => Code::ResizeFailed,
            Self::Delete | Self::Release => Code::DeletionFailed,
        }
    }

    /// What Kubernetes' controllers call that in their events.
    fn failure_event(self) -> &'static str {
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
struct End {
    /// What is on disk now.
    noted: Option<Provision>,
    /// What went wrong.
    failure: Option<Failure>,
}

impl End {
    /// This is on disk now; or that is still there, because something went wrong.
    fn of(done: Result<Option<Provision>, Failure>, before: Option<Provision>) -> Self {
        match done {
            Ok(noted) => Self { noted, failure: None },
            Err(failure) => Self { noted: before, failure: Some(failure) },
        }
    }
}

/// Why a claim waits before anybody is asked: a code, a text, and what has to happen.
type Hindrance = (Code, String, WaitsOn);

impl Provisions {
    pub(crate) fn new(store: Store, delete_delay: Duration) -> Self {
        Self {
            store,
            claims: BTreeMap::new(),
            volumes: HashMap::new(),
            refused_growth: HashMap::new(),
            delete_delay,
            orphan_delay: Duration::ZERO,
            is_read: false,
            is_complete: false,
        }
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone()
    }

    fn note(&mut self, claim: &Reference, noted: Option<Provision>, now: Time) {
        let entry = self.claims.entry(claim.clone()).or_insert_with(|| Entry::new(now));
        if let Some(volume) = entry.noted.as_ref().and_then(Provision::volume_id)
            && self.volumes.get(&volume) == Some(claim)
        {
            self.volumes.remove(&volume);
        }
        if let Some(volume) = noted.as_ref().and_then(Provision::volume_id) {
            self.volumes.insert(volume, claim.clone());
        }
        entry.noted = noted;
    }
}

impl Drive {
    /// What earlier lives noted.
    pub(super) fn provisions_were_read(&mut self, found: Vec<Provision>) {
        for provision in found {
            let (claim, now) = (provision.reference(), self.now());
            let departure = provision.departure.clone();
            self.provisions.note(&claim, Some(provision), now);
            // It may have been given already, to nobody who would make a volume for it.
            let given = match self.wishes.memory().get(&claim) {
                Lookup::Found(Object::Claim(given)) => Some(given.clone()),
                _ => None,
            };
            if let Some(entry) = self.provisions.claims.get_mut(&claim) {
                entry.given = entry.given.take().or(given);
                // One that is there has come back, and one that was seen to go in this life went then.
                if entry.given.is_none() && entry.departure.is_none() {
                    entry.departure = departure;
                    entry.is_recalled = true;
                }
            }
            self.show_claim(&claim);
        }
        self.provisions.is_read = true;
        self.look_at_claims(|_| true);
    }

    /// All claims there are have been given.
    pub(super) fn claims_are_complete(&mut self, orphan_delay: Duration) {
        self.provisions.is_complete = true;
        self.provisions.orphan_delay = self.provisions.orphan_delay.max(orphan_delay);
        self.look_at_claims(|_| true);
    }

    /// It is not known any more whether all claims there are have been given.
    pub(super) fn claims_are_incomplete(&mut self) {
        self.provisions.is_complete = false;
        self.look_at_claims(|_| true);
    }

    /// Whether all claims there are have been given, and there is nothing that cannot be read and may have some in it: if not,
    /// nothing is deleted.
    fn claims_are_known(&self) -> bool {
        self.provisions.is_complete && self.silent_source().is_none()
    }

    /// A source reads at another place than before. If nobody meant that, it is not known any more that claims went: they may
    /// be back at the place of before.
    pub(super) fn source_was_replaced(&mut self, meant: bool) {
        let is_doomed = |it: &Entry| it.noted.as_ref().is_some_and(Provision::is_doomed);
        for entry in self.provisions.claims.values_mut().filter(|it| it.departure.is_some() && !is_doomed(it)) {
            entry.void_count();
            entry.departure = entry.departure.take().filter(|_| meant);
        }
        self.look_at_claims(|it| it.given.is_none());
    }

    /// Sources have read everything again, for which volumes wait whose time is over.
    pub(super) fn look_at_due_claims(&mut self) {
        let now = self.now();
        self.look_at_claims(|it| it.due.is_some_and(|(due, _)| due <= now));
    }

    /// Something was removed that this node keeps for itself. What was noted for claims is known, and is written again: nothing
    /// else tells that they have volumes, and the next start would have others made.
    pub(super) fn state_is_lost(&mut self, loss: &Loss) {
        let is_lost = |claim: &Reference, entry: &Entry| match loss {
            // What is being worked on is noted when that has ended, or is not to be noted any more.
            Loss::Note(file) => !entry.is_running && store::is_called(claim, file),
            Loss::Notes => !entry.is_running,
            Loss::Directory => true,
        };
        let lost = self.provisions.claims.iter().filter(|(claim, it)| is_lost(claim, it));
        let lost: Vec<Provision> = lost.filter_map(|(_, it)| it.noted.clone()).collect();
        if *loss == Loss::Directory {
            // Nothing is begun any more of which the next start would know nothing.
            self.provisions.is_read = false;
            let (store, inbox) = (self.provisions.store(), self.outside.inbox());
            let renew = move || drop(inbox.send(Message::StateRenewed(store.renew(&lost))));
            if let Err(error) = self.outside.workers.run(&self.operations.lanes.start, renew) {
                self.state_was_renewed(Err(Failure::open(&error)));
            }
            return;
        }
        for noted in lost {
            let claim = noted.reference();
            let text = "what was noted of its volume was removed, and is written anew".into();
            self.tell_claim(&claim, Tone::Warning, "NoteRemoved", text);
            self.work(&claim, Work::Note, noted.driver().to_owned().as_str(), move |_, store| {
                End::of(store.write(&noted).map(|()| Some(noted.clone())), Some(noted))
            });
        }
    }

    /// What the next start needs is where it looks for it, or cannot be put there.
    pub(super) fn state_was_renewed(&mut self, renewed: Result<(), Failure>) {
        let text = match renewed {
            Ok(()) => "What was noted of the volumes of claims is written anew".into(),
            Err(failure) => format!("What was noted of the volumes of claims is lost: {failure}").into(),
        };
        self.ended = Some(Ended::StateLost { path: self.provisions.store.path().into(), text });
    }

    /// A driver is there, and perhaps a new one at the same place: no wait that it caused goes on.
    pub(super) fn provision_for_driver(&mut self, driver: &str) {
        for entry in self.provisions.claims.values_mut() {
            if entry.noted.as_ref().is_none_or(|it| it.driver() == driver) {
                entry.not_before = None;
            }
        }
        self.look_at_claims(|_| true);
    }

    /// A class changed or went, which decides about claims that wait: what failed with the old one is tried at once.
    pub(super) fn provision_for_class(&mut self) {
        for entry in self.provisions.claims.values_mut().filter(|it| it.noted.is_none()) {
            entry.not_before = None;
        }
        self.look_at_claims(|it| it.stand.is_some() && it.noted.is_none() || it.departure.is_some());
    }

    /// A claim was removed by whoever gave it. One that nobody gave in this life was not seen to go (I-15).
    pub(super) fn claim_is_gone(&mut self, claim: &Reference) {
        let (now, delay, orphan_delay) = (self.now(), self.provisions.delete_delay, self.provisions.orphan_delay);
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if entry.given.take().is_some() {
            entry.departure = Some(Departure::now(delay));
            entry.begin_count(now, orphan_delay);
            self.look_at_claim(claim);
        }
    }

    /// What failed for claims is tried at once: for those of a pod, or for all.
    pub(super) fn retry_claims(&mut self, pod: Option<&PodUid>) -> Vec<view::Retried> {
        let memory = self.wishes.memory();
        let is_meant = |claim: &Reference| pod.is_none_or(|it| memory.users(claim).contains(it));
        let failed = self.provisions.claims.iter().filter(|(claim, it)| it.failures > 0 && is_meant(claim));
        let failed: Vec<(Reference, u32)> = failed.map(|(claim, it)| (claim.clone(), it.failures)).collect();
        drop(memory);
        for (claim, _) in &failed {
            if let Some(entry) = self.provisions.claims.get_mut(claim) {
                entry.failures = 0;
                entry.not_before = None;
            }
            self.look_at_claim(claim);
        }
        let retried = failed.into_iter().map(|(claim, attempts)| {
            let what = format!("claim {}/{}", claim.namespace(), claim.name());
            view::Retried { what, attempts }
        });
        retried.collect()
    }

    /// Whether a volume that this node made is to be deleted now because its claim is gone. One whose time has not come may
    /// still be used again.
    pub(super) fn is_to_be_deleted(&self, volume: &VolumeId) -> bool {
        let claim = self.provisions.volumes.get(volume);
        let Some(entry) = claim.and_then(|it| self.provisions.claims.get(it)) else { return false };
        let Some(noted) = &entry.noted else { return false };
        // While something keeps it no time counts, and what is left of the time after that is all of it.
        let is_due = match entry.due {
            Some((due, _)) => due <= self.now(),
            None => entry.delay(self.provisions.orphan_delay).is_zero(),
        };
        let is_due = entry.departure.is_some() && is_due;
        entry.given.is_none() && self.is_deleted_with_claim(noted) && (is_due || noted.is_released)
    }

    /// Something ended that a volume was needed for.
    pub(super) fn volumes_were_let_go<'a>(&mut self, volumes: impl IntoIterator<Item = &'a VolumeId>) {
        for volume in volumes {
            self.provisions.refused_growth.remove(volume);
            if let Some(claim) = self.provisions.volumes.get(volume).cloned() {
                self.look_at_claim(&claim);
            }
        }
    }

    /// A pod came that may be the first that uses a claim.
    pub(super) fn claims_are_used(&mut self, pod: &Pod) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let volumes = pod.spec.iter().filter_map(|it| it.volumes.as_ref()).flatten();
        for source in volumes.filter_map(|it| it.persistent_volume_claim.as_ref()) {
            let claim = Reference::new(ObjectKind::Claim, namespace, &source.claim_name);
            if self.provisions.claims.get(&claim).is_some_and(|it| it.noted.is_none()) {
                self.look_at_claim(&claim);
            }
        }
    }

    fn look_at_claims(&mut self, which: impl Fn(&Entry) -> bool) {
        let claims = self.provisions.claims.iter().filter(|(_, it)| which(it)).map(|(claim, _)| claim.clone());
        for claim in claims.collect::<Vec<_>>() {
            self.look_at_claim(&claim);
        }
    }

    /// A claim was given. It is kept bound if its volume is there, else with why it is not.
    pub(super) fn claim_is_given(&mut self, given: Arc<PersistentVolumeClaim>) {
        let (claim, now) = (Object::Claim(given.clone()).reference(), self.now());
        self.claim_has_changed(&claim);
        if !provision::asks(&given) && !self.provisions.claims.contains_key(&claim) {
            return self.put(Object::Claim(given));
        }
        let entry = self.provisions.claims.entry(claim.clone()).or_insert_with(|| Entry::new(now));
        let is_back = entry.departure.take().is_some();
        entry.is_recalled = false;
        entry.given = Some(given);
        entry.void_count();
        // It does not go any more; what it is instead is said below.
        entry.stand = entry.stand.take().filter(|_| !is_back);
        self.show_claim(&claim);
        self.look_at_claim(&claim);
    }

    /// Shows pods a claim as it is now.
    fn show_claim(&mut self, claim: &Reference) {
        let Some(Entry { given, noted, stand, .. }) = self.provisions.claims.get(claim) else { return };
        let bound = given.as_ref().zip(noted.as_ref().filter(|it| !it.is_doomed()));
        let bound = bound.and_then(|(given, noted)| noted.bound(given));
        let asks = given.as_ref().is_some_and(|it| provision::asks(it));
        let pending = stand.clone().filter(|_| bound.is_none() && asks);
        let shown = given.clone();
        let pods = self.wishes.memory_mut().set_pending(claim, pending);
        match (bound, shown) {
            (Some((shown, volume)), _) => {
                self.put_together([Object::Volume(Arc::new(volume)), Object::Claim(Arc::new(shown))]);
            }
            (None, Some(given)) => self.put(Object::Claim(given)),
            (None, None) => {}
        }
        self.apply_all(pods);
    }

    /// Decides what is to be done about a claim's volume, and begins it.
    pub(super) fn look_at_claim(&mut self, claim: &Reference) {
        if !self.provisions.is_read || self.stopping.is_some() {
            return;
        }
        let Some(entry) = self.provisions.claims.get(claim) else { return };
        let volume = entry.noted.as_ref().and_then(Provision::volume_id);
        let due = entry.due.map(|(due, _)| due);
        let facts = Facts {
            now: self.now(),
            given: entry.given.as_deref(),
            noted: entry.noted.as_ref(),
            departure: entry.departure.as_ref(),
            due,
            not_before: entry.not_before,
            is_complete: self.claims_are_known(),
            is_reread: due.max(entry.not_before).is_some_and(|it| self.reading.unread_as_of(it).is_none()),
            is_in_use: volume.is_some_and(|it| self.engine.view_volume(&it).is_some()),
            is_retained: entry.noted.as_ref().is_some_and(|it| !self.is_deleted_with_claim(it)),
            // Asked only where it matters, for it goes through all persistent volumes.
            is_named: entry.given.is_none()
                && entry.departure.is_some()
                && entry.noted.as_ref().is_some_and(|it| self.naming(it).is_some()),
        };
        let decide = next;
        let (next, given, noted) = (decide(&facts), entry.given.clone(), entry.noted.clone());
        // What is to be told does not wait until it is on disk.
        let is_counted = next == Next::Note
            && noted
                .clone()
                .map(|it| it.departed(entry.departure.clone()))
                .is_some_and(|after| matches!(decide(&Facts { noted: Some(&after), ..facts }), Next::Count(_)));
        let (now, orphan_delay) = (facts.now, self.provisions.orphan_delay);
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if next.keeps() {
            entry.void_count();
        }
        if entry.is_running {
            return;
        }
        if next == Next::Begin {
            entry.begin_count(now, orphan_delay);
            return self.look_at_claim(claim);
        }
        match (next, given, noted) {
            (Next::Make, Some(given), noted) => self.make_for(claim, &given, noted),
            (Next::Grow { to_bytes, .. }, _, Some(noted)) => self.grow_for(claim, noted, to_bytes),
            (Next::Note, _, Some(noted)) => self.note_departure(claim, noted, is_counted),
            (Next::Reread, _, Some(noted)) => self.reread_for(claim, &noted),
            (Next::Delete, _, Some(noted)) => self.delete_for(claim, noted),
            (next, _, noted) => self.stand_by(claim, next, noted.as_ref()),
        }
    }

    /// There is nothing to be done about a claim now, but something to be said.
    fn stand_by(&mut self, claim: &Reference, next: Next, noted: Option<&Provision>) {
        let volume = noted.and_then(|it| it.volume.as_ref()).map_or_else(|| "its volume".into(), shown);
        match next {
            Next::Forget => {
                self.provisions.claims.remove(claim);
                self.wishes.memory_mut().set_pending(claim, None);
            }
            Next::Settled => self.set_stand(claim, None),
            // What failed still stands.
            Next::BackOff => {}
            Next::Unknown => {
                let text = format!("whether the claim is there is not known yet, and {volume} stays until it is");
                self.stand(claim, Code::SourceIncomplete, &text, self.waits_on_source());
            }
            Next::MayNotGrow { to_bytes, from_bytes } => {
                let text =
                    format!("it asks for {to_bytes} bytes and has {from_bytes}; its class does not let volumes grow");
                self.stand(claim, Code::ResizeFailed, &text, WaitsOn::Nothing);
                self.warn_once(claim, Work::Grow.failure_event(), text);
            }
            Next::Keep(Kept::NotSeen) => {
                let text = format!("{volume} is kept: nobody saw that the claim went");
                self.stand(claim, Code::VolumeKept, &text, WaitsOn::Nothing);
                self.warn_once(claim, "VolumeKept", format!("{text}. {}", Code::VolumeKept.remedy()));
            }
            Next::Keep(Kept::Retained) => {
                let text = format!("{volume} is kept, as its class says (reclaimPolicy: Retain)");
                self.stand(claim, Code::VolumeKept, &text, WaitsOn::Nothing);
            }
            Next::Keep(Kept::Named) => {
                let other = noted.and_then(|it| self.naming(it)).map(|it| it.to_string()).unwrap_or_default();
                let text = format!("{volume} is kept: {other}");
                self.stand(claim, Code::VolumeKept, &text, WaitsOn::Nothing);
            }
            Next::Keep(Kept::NamesAnother) => {
                let text = format!("{volume} was made for the claim and is kept: the claim names another volume");
                self.stand(claim, Code::VolumeKept, &text, WaitsOn::Nothing);
            }
            Next::Count(due) => {
                self.alarms.set(due, Alarm::Provision(claim.clone()));
                self.say_when_deleted(claim, &volume);
            }
            Next::LetGo => {
                let text = format!(
                    "the claim is gone, and {volume} is deleted when nothing has had it for all of the delete-delay"
                );
                self.stand(claim, Code::StillInPods, &text, WaitsOn::Nothing);
            }
            Next::Make | Next::Grow { .. } | Next::Note | Next::Begin | Next::Reread | Next::Delete => {
                unreachable!("{next:?} is done, not waited for")
            }
        }
    }

    /// The source that has not told all it has, or cannot read something.
    fn silent_source(&self) -> Option<SourceName> {
        let is_silent = |it: &SourceView| it.state != SourceState::Complete { doubt: None };
        self.engine.sources().into_iter().find(is_silent).map(|it| it.name)
    }

    fn waits_on_source(&self) -> WaitsOn {
        self.silent_source().map_or(WaitsOn::Nothing, WaitsOn::Source)
    }

    /// Who else names a volume that this node has made.
    fn naming(&self, noted: &Provision) -> Option<Naming> {
        let (made, own) = (noted.volume.as_ref()?, noted.reference());
        let source = made.spec.as_ref()?.csi.as_ref()?;
        let is_same = |it: &&Arc<PersistentVolume>| {
            let csi = it.spec.as_ref().and_then(|it| it.csi.as_ref());
            it.metadata.name != made.metadata.name
                && csi.is_some_and(|it| it.driver == source.driver && it.volume_handle == source.volume_handle)
        };
        let memory = self.wishes.memory();
        if let Some(volume) = memory.volumes().find(is_same) {
            return Some(Naming::Volume(volume.metadata.name.clone().unwrap_or_default()));
        }
        if let Some((claim, _)) = memory.claims().find(|(it, given)| **it != own && names(given) == Some(&noted.name)) {
            return Some(Naming::Claim(claim.clone()));
        }
        let id = noted.volume_id();
        let has = |it: &Entry| it.noted.as_ref().is_some_and(|it| it.volume_id() == id);
        let other = self.provisions.claims.iter().find(|(claim, it)| **claim != own && has(it));
        other.map(|(claim, _)| Naming::Record(claim.clone()))
    }

    /// A claim came, went or changed that names this volume: it may be one that was made for another claim.
    pub(super) fn look_at_claim_named(&mut self, volume: &str) {
        self.look_at_claims(|it| it.departure.is_some() && it.noted.as_ref().is_some_and(|it| it.name == volume));
    }

    /// Whether a volume goes with its claim. Its class may say by now that it stays.
    pub(super) fn is_deleted_with_claim(&self, noted: &Provision) -> bool {
        let class = Reference::new(ObjectKind::Class, "", noted.class.metadata.name.as_deref().unwrap_or_default());
        let retains = |it: &StorageClass| it.reclaim_policy.as_deref() == Some("Retain");
        let is_retained = matches!(self.wishes.memory().get(&class), Lookup::Found(Object::Class(it)) if retains(it));
        noted.is_deleted_with_claim() && !is_retained
    }

    /// A persistent volume came or went: it may be the same volume of a driver as this node has made for a claim.
    pub(super) fn look_at_claim_of(&mut self, volume: &PersistentVolume) {
        let Some(source) = volume.spec.as_ref().and_then(|it| it.csi.as_ref()) else { return };
        let volume = names::volume_id(&source.driver, &source.volume_handle);
        if let Some(claim) = self.provisions.volumes.get(&volume).cloned() {
            self.look_at_claim(&claim);
        }
    }

    /// Says when the volume of a claim that is gone is deleted, and how to stop that (I-15).
    fn say_when_deleted(&mut self, claim: &Reference, volume: &str) {
        let Some((due, at)) = self.provisions.claims.get(claim).and_then(|it| it.due) else { return };
        let text = format!("the claim is gone, and {volume} is deleted at {at:.0}");
        let mut reason = self.reason(claim, Code::DeletePending, &text, WaitsOn::Time);
        reason.goes_at = Some(due);
        self.set_stand(claim, Some(reason));
        self.warn_once(claim, "DeletePending", format!("{text}. {}", Code::DeletePending.remedy()));
    }

    /// A claim without a volume.
    fn make_for(&mut self, claim: &Reference, given: &PersistentVolumeClaim, noted: Option<Provision>) {
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
    fn grow_for(&mut self, claim: &Reference, noted: Provision, to_bytes: u64) {
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

    /// That a claim went, or came back, is on disk before anything is done about it.
    fn note_departure(&mut self, claim: &Reference, noted: Provision, is_counted: bool) {
        let Some(departure) = self.provisions.claims.get(claim).map(|it| it.departure.clone()) else { return };
        let volume = noted.volume.as_ref().map_or_else(|| "its volume".into(), shown);
        let driver = noted.driver().to_owned();
        self.work(claim, Work::Note, &driver, move |_, store| {
            let after = noted.clone().departed(departure);
            End::of(store.write(&after).map(|()| Some(after)), Some(noted))
        });
        if is_counted {
            self.say_when_deleted(claim, &volume);
        }
    }

    /// This node has grown a volume, so the claim shows its size.
    fn volume_has_grown(&mut self, volume: &VolumeId) {
        let Some(claim) = self.provisions.volumes.get(volume).cloned() else { return };
        let Some(entry) = self.provisions.claims.get_mut(&claim) else { return };
        entry.has_grown = entry.is_running;
        let Some(noted) = entry.noted.clone().filter(|_| !entry.is_running) else { return };
        let Some(grown) = noted.clone().grown_here() else { return };
        self.work(&claim, Work::Note, grown.driver().to_owned().as_str(), move |_, store| {
            End::of(store.write(&grown).map(|()| Some(grown)), Some(noted))
        });
    }

    /// What a driver is to be asked for; or why it is not asked yet.
    fn order(&self, claim: &Reference, given: &PersistentVolumeClaim) -> Result<Provision, Hindrance> {
        let memory = self.wishes.memory();
        let drivers = &self.outside.executor.scene.drivers;
        let class = class_of(&memory, given);
        if !drivers.has_controllers() {
            // Whether there is a class is nothing to go by: there may be somebody else who makes volumes, and knows it.
            let of = class.ok().map_or_else(|| "any driver".into(), |it| format!("driver {}", it.provisioner));
            let text = format!("nothing makes its volume: no controller service of {of} is set");
            return Err((Code::ControllerMissing, text, WaitsOn::Nothing));
        }
        let class = class?;
        // Said before anything else: nobody is asked as long as this is so.
        if let Err(failure) = drivers.controller(&class.provisioner) {
            return Err((Code::ControllerMissing, failure.text, WaitsOn::Nothing));
        }
        if let Some(text) = provision::obstacle(given) {
            return Err((Code::InputInvalid, text, WaitsOn::Object(claim.into())));
        }
        if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") && memory.users(claim).is_empty() {
            let text = "it waits for the first pod that uses it".into();
            return Err((Code::WaitsForFirstPod, text, WaitsOn::Nothing));
        }
        let registered = drivers.get(&class.provisioner).map_err(|failure| {
            (Code::DriverMissing, failure.text, WaitsOn::Driver(class.provisioner.as_str().into()))
        })?;
        // Whose it is may be known once all pods are.
        let is_unknown = |(it, volume): &(&DriverName, &VolumeId)| {
            it.as_str() == class.provisioner && !self.provisions.volumes.contains_key(*volume)
        };
        if !self.provisions.is_complete && self.engine.volumes_of_drivers().any(|it| is_unknown(&it)) {
            let text = "a volume of the driver is here of which it is not known yet whose it is".into();
            return Err((Code::SourceIncomplete, text, self.waits_on_source()));
        }
        if let Some((pod, volume)) = self.forgotten(&class.provisioner, &memory.users(claim)) {
            let text = format!(
                "pod {pod} has a volume of the driver here that nobody names, {volume}: it may be the claim's, and what was \
                 noted of it may be lost. Bring the notes back (`provisions` in the state directory), or let the volume go: \
                 windlass delete pod {pod} --orphaned-volumes"
            );
            return Err((Code::ProvisioningFailed, text, WaitsOn::Nothing));
        }
        let mut number = [0; 16];
        crate::node::random(&mut number);
        Ok(Provision::new(number, given, &class, registered.info.topology, jiff::Timestamp::now()))
    }

    /// A volume of a driver that one of these pods has and does not name: another must not be made in its place while it may
    /// be what the pod's claim had (I-10).
    fn forgotten(&self, driver: &str, pods: &[PodUid]) -> Option<(String, VolumeId)> {
        pods.iter().find_map(|uid| {
            let detail = self.engine.view_pod(uid)?;
            let nameless = detail.volumes.iter().filter(|it| it.name.is_none()).filter_map(|it| it.volume.as_ref());
            let mut ids = nameless.map(|it| &it.id);
            let is_meant = |it: &&VolumeId| {
                let is_known = self.provisions.volumes.contains_key(*it);
                !is_known && self.engine.driver_of(it).is_some_and(|it| it.as_str() == driver)
            };
            let found = ids.find(is_meant)?.clone();
            Some((detail.pod.name.to_string(), found))
        })
    }

    /// The time of a volume whose claim is gone has come: everything is read again first.
    fn reread_for(&mut self, claim: &Reference, noted: &Provision) {
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
    fn delete_for(&mut self, claim: &Reference, noted: Provision) {
        // From now on no claim gets it any more.
        let (noted, now) = (noted.released(true), self.now());
        self.provisions.note(claim, Some(noted.clone()), now);
        let (driver, volume) = (noted.driver().to_owned(), noted.volume.as_ref().map_or_else(String::new, shown));
        self.work(claim, Work::Delete, &driver, move |executor, store| match noted.volume {
            // Nobody knows whether it was made, nor what it is called: that is found out by making it.
            None => make(executor, store, noted),
            Some(_) => delete(executor, store, noted),
        });
        let text = format!("its volume of before is being deleted: {volume}");
        self.say_begun(claim, Code::DeletingVolume, text.trim_end_matches(": "));
    }

    /// A volume that its class keeps, and that somebody lets go of: it stays with its driver.
    fn release_for(&mut self, claim: &Reference, noted: Provision) {
        let driver = noted.driver().to_owned();
        self.work(claim, Work::Release, &driver, move |_, store| {
            End::of(store.remove(&noted.reference()).map(|()| None), Some(noted))
        });
    }

    /// Somebody says that it is to be tried at once.
    fn try_claim_now(&mut self, claim: &Reference) {
        if let Some(entry) = self.provisions.claims.get_mut(claim) {
            entry.not_before = None;
        }
        self.look_at_claim(claim);
    }

    /// Does something about a claim's volume, elsewhere.
    fn work(
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
            entry.is_running = true;
            self.operations.chores += 1;
        }
    }

    pub(super) fn claim_worked(&mut self, claim: &Reference, worked: Worked) {
        let Worked { what, end } = worked;
        self.operations.chores = self.operations.chores.saturating_sub(1);
        let now = self.now();
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        entry.is_running = false;
        match end {
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
                let mut reason = self.reason(claim, code, &failure.text, WaitsOn::Time);
                reason.next_try = Some(at);
                self.set_stand(claim, Some(reason));
                self.warn_once(claim, what.failure_event(), failure.to_string());
            }
        }
        self.claim_has_changed(claim);
        let entry = self.provisions.claims.get(claim).filter(|it| it.has_grown);
        if let Some(volume) = entry.and_then(|it| it.noted.as_ref()).and_then(Provision::volume_id) {
            self.volume_has_grown(&volume);
        }
        self.show_claim(claim);
        self.look_at_claim(claim);
    }

    /// A driver is asked. What it said the last time is still said, until it says something else.
    fn say_begun(&mut self, claim: &Reference, code: Code, text: &str) {
        let text = match self.provisions.claims.get(claim).and_then(|it| it.failure.as_ref()) {
            Some(failure) => format!("{text} once more; the last time: {failure}"),
            None => text.to_owned(),
        };
        self.stand(claim, code, &text, WaitsOn::Nothing);
    }

    fn stand(&mut self, claim: &Reference, code: Code, text: &str, waits_on: WaitsOn) {
        let reason = self.reason(claim, code, text, waits_on);
        self.set_stand(claim, Some(reason));
    }

    /// A reason of a claim: since when it holds, and how often that failed, follow from what is known of the claim.
    fn reason(&self, claim: &Reference, code: Code, text: &str, waits_on: WaitsOn) -> Reason {
        let entry = self.provisions.claims.get(claim);
        let before = entry.and_then(|it| it.stand.as_ref()).filter(|it| it.code == code || it.attempts > 0);
        let since = before.map_or_else(|| self.now(), |it| it.since);
        let attempts = entry.map_or(0, |it| it.failures);
        Reason { code, text: text.into(), since, attempts, next_try: None, goes_at: None, waits_on }
    }

    /// Says how a claim stands, to the pods that wait for it and to whoever looks.
    fn set_stand(&mut self, claim: &Reference, stand: Option<Reason>) {
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if entry.stand == stand {
            return;
        }
        entry.stand = stand;
        self.claim_has_changed(claim);
        self.show_claim(claim);
    }

    /// Whoever watches claims looks at this one again.
    pub(super) fn claim_has_changed(&self, claim: &Reference) {
        let claim = format!("{}/{}", claim.namespace(), claim.name()).into();
        self.outside.say(Change::ClaimChanged { claim });
    }

    /// Tells bad news that was not the last to be told.
    fn warn_once(&mut self, claim: &Reference, reason: &'static str, text: String) {
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if entry.told.as_deref() != Some(text.as_str()) {
            entry.told = Some(text.as_str().into());
            self.tell_claim(claim, Tone::Warning, reason, text);
        }
    }

    fn tell_claim(&self, claim: &Reference, tone: Tone, reason: &'static str, text: String) {
        for pod in self.wishes.memory().users(claim) {
            match tone {
                Tone::Normal => self.outside.executor.scene.tell.normal(&pod, reason, text.as_str()),
                Tone::Warning => self.outside.executor.scene.tell.warning(&pod, reason, text.as_str()),
            }
        }
        let claim = format!("{}/{}", claim.namespace(), claim.name()).into();
        self.outside.say(Change::Claim { claim, tone, reason, text: text.into() });
    }
}

/// Who names a volume that was made for another claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Naming {
    /// A persistent volume that somebody wrote.
    Volume(String),
    /// A claim.
    Claim(Reference),
    /// What this node has noted for a claim: a driver gave both the same.
    Record(Reference),
}

impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(name) => write!(f, "the PersistentVolume {name} is the same volume of the driver"),
            Self::Claim(claim) => write!(f, "claim {}/{} names it", claim.namespace(), claim.name()),
            Self::Record(claim) => write!(f, "claim {}/{} has the same", claim.namespace(), claim.name()),
        }
    }
}

/// The volume that a claim names.
pub(super) fn names(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.spec.as_ref()?.volume_name.as_ref().filter(|it| !it.is_empty())
}

/// A volume as people know it.
fn shown(volume: &PersistentVolume) -> String {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    match volume.spec.as_ref().and_then(|it| it.csi.as_ref()) {
        Some(source) => format!("{name} ({} of driver {})", source.volume_handle, source.driver),
        None => name.into(),
    }
}

/// The class of a claim.
fn class_of(memory: &Memory, claim: &PersistentVolumeClaim) -> Result<Arc<StorageClass>, Hindrance> {
    match claim.spec.as_ref().and_then(|it| it.storage_class_name.as_deref()) {
        Some(name) => {
            let reference = Reference::new(ObjectKind::Class, "", name);
            match memory.get(&reference) {
                Lookup::Found(Object::Class(class)) => Ok(class.clone()),
                Lookup::Found(_) | Lookup::Absent => {
                    Err((Code::ClassMissing, reference.not_found(), WaitsOn::Object((&reference).into())))
                }
                Lookup::Unavailable(text) => {
                    Err((Code::ClassMissing, text.to_string(), WaitsOn::Object((&reference).into())))
                }
            }
        }
        None => {
            let default = memory.classes().find(|it| provision::is_default(it)).cloned();
            default.ok_or_else(|| {
                let text = "it names no storage class, and none is the default".into();
                (Code::ClassMissing, text, WaitsOn::Nothing)
            })
        }
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
        store.write(&order)?;
        let volume = made.volume.as_ref().map(shown).unwrap_or_default();
        let what = format!("{volume} was made for claim {}/{} already", other.namespace(), other.name());
        Err(lied(order.driver(), what))
    });
    let made_nothing = matches!(&made, Err(failure) if failure.left == Left::Nothing);
    let is_forgotten = is_first && made_nothing && store.remove(&order.reference()).is_ok();
    End::of(made, Some(order).filter(|_| !is_forgotten))
}

fn delete(executor: &Executor, store: &Store, noted: Provision) -> End {
    let done = store.write(&noted).and_then(|()| controller::delete(&executor.scene, &noted));
    let done = done.and_then(|()| store.remove(&noted.reference())).map(|()| None);
    End::of(done, Some(noted))
}
