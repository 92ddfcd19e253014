//! When volumes are made for claims, and when they are deleted again. What is asked for stands in `provision.rs`.
//!
//! A volume is deleted only if its claim was seen to go while this node was told of everything there is: a manifest that
//! cannot be read, a directory that is not there yet, or a start with other manifests than before delete nothing. Nor does
//! anything while the volume may be in use (I-1).

use std::{collections::BTreeMap, num::NonZeroUsize};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use windlass_linux::workers::Lane;

use super::*;
use crate::{
    objects::{Kind, Lookup},
    plugin::{Left, csi::controller},
    provision::{self, Provision, store::Store},
    tell::Tone,
};

/// Calls of one driver's controller for claims at a time, and with those that take long: one that hangs must not take all
/// threads, however many claims there are (I-6).
const CALLS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
const CALLS_MOST: NonZeroUsize = NonZeroUsize::new(24).unwrap();

/// How long after a failure it is tried again; twice as long after each, up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(300);

/// What is known of claims whose volumes are made here.
pub(super) struct Provisions {
    store: Store,
    claims: BTreeMap<Reference, Entry>,
    /// The claims of volumes that were made.
    volumes: HashMap<VolumeId, Reference>,
    /// Whether what earlier lives noted is known: before that nothing is made.
    is_read: bool,
    /// Whether all claims there are have been given: before that nothing is deleted.
    is_complete: bool,
}

#[derive(Default)]
struct Entry {
    /// The claim as it was given. What is kept of it for pods to see has more to say.
    given: Option<Arc<PersistentVolumeClaim>>,
    /// What is on disk.
    noted: Option<Provision>,
    /// A worker is at it.
    is_running: bool,
    /// The claim was seen to go.
    is_gone: bool,
    /// This node has grown the volume, which is not noted yet.
    has_grown: bool,
    failures: u32,
    not_before: Option<Time>,
    /// Why the claim is not bound.
    waits: Option<Arc<str>>,
}

/// How work for a claim ended.
struct Worked {
    /// What is on disk now.
    noted: Option<Provision>,
    /// What went wrong.
    failure: Option<Failure>,
}

impl Worked {
    /// This is on disk now; or that is still there, because something went wrong.
    fn of(done: Result<Option<Provision>, Failure>, before: Option<Provision>) -> Self {
        match done {
            Ok(noted) => Self { noted, failure: None },
            Err(failure) => Self { noted: before, failure: Some(failure) },
        }
    }
}

impl Provisions {
    pub(super) fn new(store: Store) -> Self {
        let (claims, volumes) = (BTreeMap::new(), HashMap::new());
        Self { store, claims, volumes, is_read: false, is_complete: false }
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone()
    }

    fn note(&mut self, claim: &Reference, noted: Option<Provision>) {
        let entry = self.claims.entry(claim.clone()).or_default();
        if let Some(volume) = entry.noted.as_ref().and_then(Provision::volume_id) {
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
            let claim = provision.reference();
            self.provisions.note(&claim, Some(provision));
            // It may have been given already, to nobody who would make a volume for it.
            let given = match self.memory.read().unwrap_or_else(PoisonError::into_inner).get(&claim) {
                Lookup::Found(Object::Claim(given)) => Some(given.clone()),
                _ => None,
            };
            if let Some(entry) = self.provisions.claims.get_mut(&claim).filter(|it| it.given.is_none()) {
                entry.given = given;
            }
            self.show_claim(&claim);
        }
        self.provisions.is_read = true;
        self.look_at_claims(|_| true);
    }

    /// All claims there are have been given.
    pub(super) fn claims_are_complete(&mut self) {
        self.provisions.is_complete = true;
        self.look_at_claims(|_| true);
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

    /// A class changed, which decides about claims that wait.
    pub(super) fn provision_for_class(&mut self) {
        self.look_at_claims(|it| it.waits.is_some() && it.noted.is_none());
    }

    /// A claim was removed by whoever gave it.
    pub(super) fn claim_is_gone(&mut self, claim: &Reference) {
        if let Some(entry) = self.provisions.claims.get_mut(claim) {
            entry.given = None;
            entry.is_gone = true;
            self.look_at_claim(claim);
        }
    }

    /// Something ended that a volume was needed for.
    pub(super) fn volumes_were_let_go<'a>(&mut self, volumes: impl IntoIterator<Item = &'a VolumeId>) {
        for volume in volumes {
            if let Some(claim) = self.provisions.volumes.get(volume).cloned() {
                self.look_at_claim(&claim);
            }
        }
    }

    /// A pod came that may be the first that uses a claim.
    pub(super) fn claims_are_used(&mut self, pod: &api::Pod) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let volumes = pod.spec.iter().filter_map(|it| it.volumes.as_ref()).flatten();
        for source in volumes.filter_map(|it| it.persistent_volume_claim.as_ref()) {
            let claim = Reference::new(Kind::Claim, namespace, &source.claim_name);
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
        let claim = Object::Claim(given.clone()).reference();
        let is_ours = provision::asks(&given) && self.executor.scene.drivers.has_controllers();
        if !is_ours && !self.provisions.claims.contains_key(&claim) {
            return self.put(Object::Claim(given));
        }
        let entry = self.provisions.claims.entry(claim.clone()).or_default();
        entry.given = Some(given);
        entry.is_gone = false;
        self.show_claim(&claim);
        self.look_at_claim(&claim);
    }

    /// Shows pods a claim as it is now.
    fn show_claim(&mut self, claim: &Reference) {
        let Some(Entry { given: Some(given), noted, waits, .. }) = self.provisions.claims.get(claim) else { return };
        let bound = noted.as_ref().filter(|it| !it.is_doomed()).and_then(|it| it.bound(given));
        let shown = match (bound, waits) {
            (Some((shown, volume)), _) => {
                self.put(Object::Volume(Arc::new(volume)));
                Arc::new(shown)
            }
            (None, Some(text)) if provision::asks(given) => Arc::new(provision::waiting(given, text)),
            (None, _) => given.clone(),
        };
        self.put(Object::Claim(shown));
    }

    /// Decides what is to be done about a claim's volume, and begins it.
    pub(super) fn look_at_claim(&mut self, claim: &Reference) {
        if !self.provisions.is_read || self.stopping.is_some() {
            return;
        }
        let Some(entry) = self.provisions.claims.get(claim).filter(|it| !it.is_running) else { return };
        match (entry.given.clone(), entry.noted.clone()) {
            // What was begun to be deleted is nobody's any more, whoever asks for it by now (I-10).
            (_, Some(noted)) if noted.is_doomed() => self.release_for(claim, noted),
            (Some(given), Some(noted)) if noted.volume.is_some() => self.grow_for(claim, &given, noted),
            (Some(given), noted) if provision::asks(&given) => self.make_for(claim, &given, noted),
            (Some(_), None) | (None, None) => drop(self.provisions.claims.remove(claim)),
            // It names another volume by now, and what is being made for it is nobody's.
            (Some(_), Some(noted)) | (None, Some(noted)) => self.release_for(claim, noted),
        }
    }

    /// A claim without a volume.
    fn make_for(&mut self, claim: &Reference, given: &PersistentVolumeClaim, noted: Option<Provision>) {
        let order = match noted {
            // What was asked for once is asked for again, whatever the manifests say by now.
            Some(noted) => noted,
            None => match self.order(claim, given) {
                Ok(order) => order,
                Err(text) => return self.set_waits(claim, &text),
            },
        };
        if !self.is_due(claim) {
            return;
        }
        let driver = order.driver().to_owned();
        self.work(claim, &driver, move |executor, store| make(executor, store, order));
        // After that: pods that hear of it look at the claim.
        self.set_waits(claim, &format!("driver {driver} is asked for a volume"));
    }

    /// A claim with a volume, which may be too small by now.
    fn grow_for(&mut self, claim: &Reference, given: &PersistentVolumeClaim, noted: Provision) {
        let (Some(to_bytes), Some(size)) = (provision::wanted(given), noted.size()) else { return };
        if to_bytes <= size {
            return;
        }
        if !noted.may_grow() {
            let text = format!("it asks for {to_bytes} bytes and has {size}; its class does not let volumes grow");
            let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
            if entry.waits.as_deref() != Some(text.as_str()) {
                entry.waits = Some(text.as_str().into());
                self.tell_claim(claim, Tone::Warning, text);
            }
        } else if self.is_due(claim) {
            let driver = noted.driver().to_owned();
            self.work(claim, &driver, move |executor, store| {
                let grown = controller::expand(&executor.scene, &noted, to_bytes);
                let grown = grown.and_then(|(bytes, here)| {
                    let grown = noted.clone().grown(bytes, here);
                    store.write(&grown).map(|()| grown)
                });
                Worked::of(grown.map(Some), Some(noted))
            });
        }
    }

    /// This node has grown a volume, so the claim shows its size.
    pub(super) fn volume_has_grown(&mut self, volume: &VolumeId) {
        let Some(claim) = self.provisions.volumes.get(volume).cloned() else { return };
        let Some(entry) = self.provisions.claims.get_mut(&claim) else { return };
        entry.has_grown = entry.is_running;
        let Some(noted) = entry.noted.clone().filter(|_| !entry.is_running) else { return };
        let Some(grown) = noted.clone().grown_here() else { return };
        self.work(&claim, grown.driver().to_owned().as_str(), move |_, store| {
            Worked::of(store.write(&grown).map(|()| Some(grown)), Some(noted))
        });
    }

    /// What a driver is to be asked for; or why it is not asked yet.
    fn order(&self, claim: &Reference, given: &PersistentVolumeClaim) -> Result<Provision, String> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let class = class_of(&memory, given)?;
        // Said before anything else: nobody is asked as long as this is so.
        self.executor.scene.drivers.controller(&class.provisioner).map_err(|failure| failure.text)?;
        if let Some(text) = provision::obstacle(given) {
            return Err(text);
        }
        if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") && memory.users(claim).is_empty() {
            return Err("it waits for the first pod that uses it".into());
        }
        let registered = self.executor.scene.drivers.get(&class.provisioner).map_err(|failure| failure.text)?;
        let mut number = [0; 16];
        crate::node::random(&mut number);
        Ok(Provision::new(number, given, &class, registered.info.topology))
    }

    /// A volume whose claim is not there.
    fn release_for(&mut self, claim: &Reference, noted: Provision) {
        let Some(entry) = self.provisions.claims.get(claim) else { return };
        if !self.provisions.is_complete {
            return;
        }
        if !entry.is_gone && !noted.is_released {
            let text =
                "its volume is kept: nobody saw that the claim went. To have it deleted, add the claim and remove it";
            return self.tell_claim(claim, Tone::Warning, text.into());
        }
        let is_in_use = noted.volume_id().is_some_and(|it| self.engine.view_volume(&it).is_some());
        let is_kept = noted.volume.is_some() && !noted.is_deleted_with_claim();
        if is_in_use || is_kept || !self.is_due(claim) {
            return;
        }
        // From now on no claim gets it any more.
        let noted = noted.released(true);
        self.provisions.note(claim, Some(noted.clone()));
        let driver = noted.driver().to_owned();
        self.work(claim, &driver, move |executor, store| match noted.volume {
            // Nobody knows whether it was made, nor what it is called: that is found out by making it.
            None => make(executor, store, noted),
            Some(_) => delete(executor, store, noted),
        });
        self.set_waits(claim, "its volume of before is being deleted");
    }

    /// Whether the time of the next try has come.
    fn is_due(&self, claim: &Reference) -> bool {
        let not_before = self.provisions.claims.get(claim).and_then(|it| it.not_before);
        not_before.is_none_or(|it| it <= self.now())
    }

    /// Does something about a claim's volume, elsewhere.
    fn work(
        &mut self,
        claim: &Reference,
        driver: &str,
        work: impl FnOnce(&Executor, &Store) -> Worked + Send + 'static,
    ) {
        let (executor, store, inbox) = (self.executor.clone(), self.provisions.store(), self.inbox.clone());
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        let (before, locks, claim) = (entry.noted.clone(), Some(self.locks.clone()), claim.clone());
        let lane = Lane::wide(&format!("provision/{driver}"), CALLS, CALLS_MOST);
        let started = self.workers.run(&lane, move || {
            let mut answer = Answered { claim, inbox, locks, before, worked: None };
            answer.worked = Some(work(&executor, &store));
        });
        // Without any thread it is tried again with the next change.
        if started.is_ok() {
            entry.is_running = true;
            self.chores += 1;
        }
    }

    fn worked(&mut self, claim: &Reference, worked: Worked) {
        self.chores = self.chores.saturating_sub(1);
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        entry.is_running = false;
        match worked {
            Worked { noted, failure: None } => {
                entry.failures = 0;
                entry.not_before = None;
                entry.waits = None;
                let (had, has) = (entry.noted.as_ref().and_then(|it| it.volume.clone()), noted.clone());
                self.provisions.note(claim, noted);
                match (had, has.and_then(|it| it.volume)) {
                    (None, Some(volume)) => {
                        self.tell_claim(claim, Tone::Normal, format!("volume {} was made", shown(&volume)));
                    }
                    (Some(volume), None) => {
                        let name = volume.metadata.name.as_deref().unwrap_or_default();
                        self.remove_object(&Reference::new(Kind::Volume, "", name));
                        self.tell_claim(claim, Tone::Normal, format!("volume {} was deleted", shown(&volume)));
                    }
                    (Some(_), Some(_)) | (None, None) => {}
                }
            }
            Worked { noted, failure: Some(failure) } => {
                let wait = (RETRY * 2_u32.pow(entry.failures.min(16))).min(RETRY_MAX);
                entry.failures += 1;
                let at = self.now() + wait;
                if let Some(entry) = self.provisions.claims.get_mut(claim) {
                    entry.not_before = Some(at);
                }
                self.alarms.insert((at, Alarm::Provision(claim.clone())));
                self.provisions.note(claim, noted);
                self.set_waits(claim, &failure.text);
                self.tell_claim(claim, Tone::Warning, failure.to_string());
            }
        }
        let entry = self.provisions.claims.get(claim).filter(|it| it.has_grown);
        if let Some(volume) = entry.and_then(|it| it.noted.as_ref()).and_then(Provision::volume_id) {
            self.volume_has_grown(&volume);
        }
        self.show_claim(claim);
        self.look_at_claim(claim);
    }

    /// Says why a claim is not bound, to the pods that wait for it.
    fn set_waits(&mut self, claim: &Reference, text: &str) {
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if entry.waits.as_deref() == Some(text) {
            return;
        }
        entry.waits = Some(text.into());
        self.show_claim(claim);
    }

    fn tell_claim(&self, claim: &Reference, tone: Tone, text: String) {
        let reason = if tone == Tone::Normal { "ProvisioningSucceeded" } else { "ProvisioningFailed" };
        for pod in self.memory.read().unwrap_or_else(PoisonError::into_inner).users(claim) {
            match tone {
                Tone::Normal => self.executor.scene.tell.normal(&pod, reason, text.as_str()),
                Tone::Warning => self.executor.scene.tell.warning(&pod, reason, text.as_str()),
            }
        }
        let claim = format!("{}/{}", claim.namespace(), claim.name()).into();
        let _ = self.changes.send(Change::Claim { claim, tone, text: text.into() });
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

/// The class of a claim.
fn class_of(memory: &Memory, claim: &PersistentVolumeClaim) -> Result<Arc<StorageClass>, String> {
    match claim.spec.as_ref().and_then(|it| it.storage_class_name.as_deref()) {
        Some(name) => {
            let reference = Reference::new(Kind::Class, "", name);
            match memory.get(&reference) {
                Lookup::Found(Object::Class(class)) => Ok(class.clone()),
                Lookup::Found(_) | Lookup::Absent => Err(reference.not_found()),
                Lookup::Unavailable(text) => Err(text.to_string()),
            }
        }
        None => {
            let default = memory.classes().find(|it| provision::is_default(it)).cloned();
            default.ok_or_else(|| "it names no storage class, and none is the default".into())
        }
    }
}

/// Has a volume made. What was going to be made is noted first, and stays noted if that is not known not to be there.
fn make(executor: &Executor, store: &Store, order: Provision) -> Worked {
    // A refusal does not clear the doubt of an earlier call (I-10).
    let is_first = match store.has(&order.reference()) {
        Ok(has) => !has,
        Err(failure) => return Worked::of(Err(failure), Some(order)),
    };
    if let Err(failure) = store.write(&order) {
        return Worked::of(Err(failure), Some(order).filter(|_| !is_first));
    }
    let made = controller::create(&executor.scene, &order).and_then(|volume| {
        let made = order.clone().with_volume(volume);
        store.write(&made).map(|()| Some(made))
    });
    let made_nothing = matches!(&made, Err(failure) if failure.left == Left::Nothing);
    let is_forgotten = is_first && made_nothing && store.remove(&order.reference()).is_ok();
    Worked::of(made, Some(order).filter(|_| !is_forgotten))
}

fn delete(executor: &Executor, store: &Store, noted: Provision) -> Worked {
    let done = store.write(&noted).and_then(|()| controller::delete(&executor.scene, &noted));
    let done = done.and_then(|()| store.remove(&noted.reference())).map(|()| None);
    Worked::of(done, Some(noted))
}

/// Tells how work for a claim ended, also if it broke off.
struct Answered {
    claim: Reference,
    inbox: Sender<Message>,
    locks: Option<Locks>,
    /// What was noted before.
    before: Option<Provision>,
    worked: Option<Worked>,
}

impl Drop for Answered {
    fn drop(&mut self) {
        let before = self.before.take();
        let worked = self.worked.take().unwrap_or_else(|| {
            let text = "the work broke off; this is a defect of windlass";
            Worked::of(Err(Failure::refused(Cause::Other, text)), before)
        });
        drop(self.locks.take());
        let claim = self.claim.clone();
        let _ = self.inbox.send(Box::new(move |drive| drive.worked(&claim, worked)));
    }
}
