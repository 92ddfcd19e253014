//! When volumes are made for claims, and when they are deleted again. What is asked for stands in `provision.rs`, and what
//! is to be done next is decided in `provision/next.rs`; here it is found out when that is to be asked, carried out (`work.rs`,
//! `request.rs`) and told (`standing.rs`, `claims.rs`).
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
//! | objects: a claim came, changed or went, a class or volume did | `claim_is_given`, `claim_has_changed`, `claim_is_gone`, `provision_for_class`, `look_at_claim_of`, `look_at_claim_named` |
//! | a driver is there | `provision_for_driver` |
//! | pods: one uses claims; volumes were let go of | `claims_are_used`, `volumes_were_let_go` |
//! | work ended; its time has come; somebody wants it at once | `claim_worked`, `look_at_claim`, `retry_claims` |
//! | growth on this node ended, or failed | `expansion_has_ended`, `tell_of_failed_growth` |
//! | questions (`claims.rs`) and orders (`orders.rs`) of people | `show_claims`, `show_one_claim`, `explain_growth`, `is_to_be_deleted`, `delete_claim` |

mod claims;
mod keeping;
mod orders;
mod request;
mod standing;
mod work;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use windlass_core::ids::{Time, VolumeId};
use windlass_core::reason::Reason;

use self::keeping::id_of;
pub(super) use self::keeping::names;
use self::orders::Order;
pub(crate) use self::work::Worked;
use self::work::{End, Work};
use super::{Drive, Message};
use crate::memory::{Memory, Object};
use crate::node::{Ended, Loss};
use crate::objects::{Lookup, ObjectKind, Reference};
use crate::plugin::Failure;
use crate::provision::next::{Facts, Next, next};
use crate::provision::store::{self, Store};
use crate::provision::{self, Departure, Provision};
use crate::tell::Tone;
use crate::view;

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
    /// What a worker does about it.
    running: Option<Work>,
    /// The claim was seen to go.
    departure: Option<Departure>,
    /// That was in an earlier life.
    is_recalled: bool,
    /// Somebody says that its volume is to go now, which is being noted.
    order: Option<Order>,
    /// A persistent volume that is the same volume of the driver says that it stays, or has said so.
    says_retain: bool,
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
            running: None,
            departure: None,
            is_recalled: false,
            order: None,
            says_retain: false,
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
        let delay = self.departure.as_ref().map_or(Duration::ZERO, Departure::delay);
        delay.max(orphan_delay * u32::from(self.is_recalled))
    }

    /// Whether somebody says that its volume is to go now.
    fn is_ordered(&self) -> bool {
        self.departure.as_ref().is_some_and(|it| it.is_ordered)
    }

    /// What is to be on disk, by what is known now.
    fn to_note(&self) -> Option<Provision> {
        let known = self.noted.clone()?.departed(self.departure.clone());
        Some(if self.says_retain { known.retained() } else { known })
    }

    /// From now on nothing keeps its volume, which stays for the whole delay.
    fn begin_count(&mut self, now: Time, orphan_delay: Duration) {
        let delay = self.delay(orphan_delay);
        let wall = SignedDuration::try_from(delay).ok().and_then(|it| Timestamp::now().checked_add(it).ok());
        self.due = Some((now + delay, wall.unwrap_or(Timestamp::MAX)));
    }

    /// Something keeps its volume: what was counted until now, or ordered, counts for nothing.
    fn void_count(&mut self) {
        self.due = None;
        if let Some(departure) = &mut self.departure {
            departure.is_ordered = false;
        }
    }
}

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
        let had = entry.noted.as_ref().and_then(Provision::volume_id);
        let has = noted.as_ref().and_then(Provision::volume_id);
        entry.says_retain &= had == has;
        if let Some(volume) = had
            && self.volumes.get(&volume) == Some(claim)
        {
            self.volumes.remove(&volume);
        }
        if let Some(volume) = has {
            self.volumes.insert(volume, claim.clone());
        }
        entry.noted = noted;
    }
}

impl Drive {
    /// What earlier lives noted.
    pub(super) fn provisions_were_read(&mut self, found: Vec<Provision>) {
        let retained: HashSet<VolumeId> =
            self.wishes.memory().volumes().filter(|it| provision::retains(it)).filter_map(|it| id_of(it)).collect();
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
                entry.says_retain =
                    entry.noted.as_ref().and_then(Provision::volume_id).is_some_and(|it| retained.contains(&it));
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
            Loss::Note(file) => entry.running.is_none() && store::is_called(claim, file),
            Loss::Notes => entry.running.is_none(),
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

    /// What failed for some claims is tried at once.
    pub(super) fn retry_claims(&mut self, is_meant: impl Fn(&Memory, &Reference) -> bool) -> Vec<view::Retried> {
        let memory = self.wishes.memory();
        let failed = self.provisions.claims.iter().filter(|(claim, it)| it.failures > 0 && is_meant(&memory, claim));
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
            says_retain: entry.says_retain,
            // Asked only where it matters, for it goes through all persistent volumes.
            is_named: entry.given.is_none()
                && entry.departure.is_some()
                && entry.noted.as_ref().is_some_and(|it| self.naming(it).is_some()),
        };
        let decide = next;
        let (next, given, noted) = (decide(&facts), entry.given.clone(), entry.noted.clone());
        // What is to be told does not wait until it is on disk.
        let is_counted = next == Next::Note
            && entry
                .to_note()
                .is_some_and(|after| matches!(decide(&Facts { noted: Some(&after), ..facts }), Next::Count(_)));
        let (now, orphan_delay) = (facts.now, self.provisions.orphan_delay);
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if next.keeps() {
            entry.due = None;
            // An order was given of what was so then. That not all is known yet is so after each start.
            if next != Next::Unknown && entry.is_ordered() {
                entry.void_count();
                return self.look_at_claim(claim);
            }
        }
        if entry.running.is_some() {
            return;
        }
        if next == Next::Begin {
            entry.begin_count(now, orphan_delay);
            return self.look_at_claim(claim);
        }
        match (next, given, noted) {
            (Next::Make, Some(given), noted) => self.make_for(claim, &given, noted),
            (Next::Grow { to_bytes, .. }, _, Some(noted)) => self.grow_for(claim, noted, to_bytes),
            (Next::Note, _, Some(noted)) => self.note_what_is_known(claim, noted, is_counted),
            (Next::Reread, _, Some(noted)) => self.reread_for(claim, &noted),
            (Next::Delete, _, Some(noted)) => self.delete_for(claim, noted),
            (next, _, noted) => self.stand_by(claim, next, noted.as_ref()),
        }
    }

    /// Somebody says that it is to be tried at once.
    fn try_claim_now(&mut self, claim: &Reference) {
        if let Some(entry) = self.provisions.claims.get_mut(claim) {
            entry.not_before = None;
        }
        self.look_at_claim(claim);
    }
}

/// A volume as people know it.
fn shown(volume: &PersistentVolume) -> String {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    match volume.spec.as_ref().and_then(|it| it.csi.as_ref()) {
        Some(source) => format!("{name} ({} of driver {})", source.volume_handle, source.driver),
        None => name.into(),
    }
}
