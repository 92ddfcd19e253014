//! What sources say of pods, and the volumes that a pod is handed.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1 as api;
use windlass_core::Event;
use windlass_core::event::{Containers, Hold, MountPlace};
use windlass_core::ids::{ObjectName, OuterName, PodUid, SourceName, Version, VolumeId};
use windlass_core::spec::{Access, Life, Mode, Want as VolumeWant};

use super::Drive;
use super::wishes::{GivenPod, Standing, phase};
use crate::catalogue::{Attributes, VolumeType};
use crate::fingerprint::Fingerprint;
use crate::node::{Change, DeleteError, Handed};
use crate::objects::{ObjectKind, Reference};
use crate::packed::Packed;
use crate::plugin;
use crate::resolve::{Detail, Given, Resolver};
use crate::source::Said;

/// What a source says when it has said all.
pub(super) struct Completed {
    version: Version,
    orphan_delay: Duration,
    doubt: Option<Arc<str>>,
}

impl Drive {
    pub(super) fn source_said(&mut self, source: &SourceName, said: Said) {
        match said {
            Said::Announced => {
                self.wishes.sources.entry(source.clone()).or_insert(false);
                self.tell(Event::SourceAnnounced(source.clone()));
            }
            Said::Pod { uid, version, packed, pod } => {
                if self.is_of(&uid, source) {
                    self.pod_given(&uid, source, version, packed, &pod);
                }
            }
            Said::PodGone { uid, version, containers } => {
                if self.is_of(&uid, source) {
                    self.pod_gone(&uid, version, containers);
                }
            }
            Said::PodHeld { uid, hold } => {
                if self.is_of(&uid, source) {
                    self.pod_held(&uid, hold);
                }
            }
            Said::Rereads(files) => self.source_rereads(source, files),
            Said::Read(number) => self.source_was_read(source, number),
            Said::Replaced { meant } => self.source_was_replaced(meant),
            Said::Lost(text) => {
                self.wishes.sources.insert(source.clone(), false);
                self.start.completed.remove(source);
                // What it does not say any more may be there all the same.
                self.wishes.memory_mut().begin_partial();
                self.claims_are_incomplete();
                self.tell(Event::SourceLost { source: source.clone(), text: text.clone() });
                self.outside.say(Change::SourceLost { source: source.clone(), text });
            }
            Said::Complete { version, orphan_delay, doubt } => {
                let completed = Completed { version, orphan_delay, doubt };
                self.wishes.sources.insert(source.clone(), true);
                match self.start.looked {
                    true => self.source_is_complete(source, completed),
                    false => _ = self.start.completed.insert(source.clone(), completed),
                }
            }
        }
    }

    /// Whether a source may speak of a pod: the one that has it, or any if none has.
    fn is_of(&self, uid: &PodUid, source: &SourceName) -> bool {
        let Some(owner) = self.wishes.other_source(uid, source).cloned() else { return true };
        self.outside.say(Change::PodOfTwoSources { pod: uid.clone(), owner, source: source.clone() });
        false
    }

    /// A pod is there, for the first time or changed.
    fn pod_given(&mut self, uid: &PodUid, source: &SourceName, version: Version, packed: Packed, pod: &Arc<api::Pod>) {
        self.is_back(uid);
        let before = self.wishes.pods.remove(uid);
        let now = self.now();
        if !self.start.looked {
            // The pod is opened again as soon as the disk was looked at, so what was read of it is kept.
            packed.keep(pod.clone());
        }
        self.start.holds.remove(uid);
        let given = GivenPod {
            source: source.clone(),
            version,
            pod: packed,
            phase: phase(pod),
            read_only: plugin::read_only(pod),
            given: before.as_ref().map_or(now, |it| it.given),
            standing: before.as_ref().map_or_else(|| Standing::new(now), |it| it.standing),
            details: before.map(|it| it.details).unwrap_or_default(),
            ending: false,
        };
        self.wishes.pods.insert(uid.clone(), given);
        if self.start.looked {
            self.tell_pod(uid);
            // While the pod is open.
            self.settle();
        }
    }

    /// Tells the engine of a pod. From now on it says when the pod's directory may go again.
    pub(super) fn tell_pod(&mut self, uid: &PodUid) {
        self.outside.executor.live.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        self.apply(uid);
        self.wishes.fresh.push(uid.clone());
    }

    /// Looks a pod's volumes up and tells the engine.
    pub(super) fn apply(&mut self, uid: &PodUid) {
        self.apply_after(uid, None);
    }

    /// Looks a pod's volumes up because an object changed, if one did: what failed of the volumes that use it is tried at
    /// once.
    pub(super) fn apply_after(&mut self, uid: &PodUid, changed: Option<&Reference>) {
        let Some(pod_given) = self.wishes.pods.get(uid).filter(|it| self.start.looked && !it.ending) else { return };
        let Some(pod) = pod_given.pod.open() else { return };
        let given = Given { source: pod_given.source.clone(), version: pod_given.version, phase: pod_given.phase };
        let mut memory = self.wishes.memory_mut();
        let resolver = Resolver { settings: &self.wishes.settings, drivers: &self.wishes.drivers, objects: &*memory };
        // A pod without a name or a specification is refused when it is given.
        let Ok(mut resolved) = resolver.resolve_after(&pod, given, changed) else { return };
        let claims = changed_claims(memory.uses(uid), &resolved.depends_on);
        memory.set_uses(uid, &resolved.depends_on);
        drop(memory);
        self.tell_of_claims(claims);
        for volume in &mut resolved.pod.volumes {
            if let VolumeWant::Volume(used) = &mut volume.want
                && let epoch @ 1.. = self.holdings.renewals.epoch(uid, &used.spec.id)
            {
                used.revision = renewed(used.revision, epoch);
            }
        }
        let before = self.wishes.pods.get_mut(uid).map(|it| mem::take(&mut it.details)).unwrap_or_default();
        self.wishes.forget_users(uid, before.iter().map(|it| &it.volume));
        let mut details: Vec<Arc<Detail>> = resolved.details.into_iter().map(Arc::new).collect();
        // A volume that cannot be looked up at the moment is still the pod's, as long as the pod has it (I-1).
        for detail in before {
            let place = MountPlace::Publish(detail.volume.clone(), uid.clone());
            let has = self.holdings.held.contains(&place) || self.operations.busy.contains_key(&place);
            if has && !details.iter().any(|it| it.volume == detail.volume) {
                details.push(detail);
            }
        }
        for detail in &details {
            self.look_after(&detail.volume);
        }
        // What a pod describes itself is for no other, and nobody need look for who uses it.
        for detail in details.iter().filter(|it| it.persistent.is_some()) {
            self.wishes.users.entry(detail.volume.clone()).or_default().insert(uid.clone());
        }
        if let Some(given) = self.wishes.pods.get_mut(uid) {
            given.details = details.into();
        }
        for (name, warning) in resolved.warnings {
            let text: Arc<str> = format!("volume {name}: {warning}").into();
            self.outside.executor.scene.tell.warning(uid, "SELinuxLabel", text);
        }
        let name = resolved.pod.name.clone();
        let unresolved = resolved.pod.volumes.iter().any(|it| !matches!(it.want, VolumeWant::Volume(_)));
        self.tell(Event::PodApplied(resolved.pod));
        for volume in resolved.affected {
            self.tell(Event::RetryWanted { volume, pod: Some(uid.clone()) });
        }
        self.tell_attachments(uid);
        self.note_standing(uid);
        self.outside.say(Change::Pod { pod: uid.clone(), name, unresolved });
        self.claims_are_used(&pod);
    }

    /// Notes how the volumes of a pod stand, so that it can be told since when.
    pub(super) fn note_standing(&mut self, pod: &PodUid) {
        let now = self.now();
        if let (Some(given), Some(standing)) = (self.wishes.pods.get_mut(pod), self.engine.pod_standing(pod)) {
            given.standing.note(standing, now);
        }
    }

    /// A pod has left its source.
    fn pod_gone(&mut self, uid: &PodUid, version: Version, containers: Containers) {
        self.start.holds.remove(uid);
        let mut volumes: Vec<VolumeId> = Vec::new();
        if containers == Containers::Stopped {
            volumes = self.forget_pod(uid);
        } else if let Some(given) = self.wishes.pods.get_mut(uid) {
            given.ending = true;
        }
        let name = self.pod_name(uid);
        self.note_name(uid, &name);
        self.tell(Event::PodGone { uid: uid.clone(), version, containers });
        self.outside.say(Change::Pod { pod: uid.clone(), name, unresolved: false });
        self.volumes_were_let_go(&volumes);
    }

    /// Forgets what a pod was given as; tells which volumes it used.
    fn forget_pod(&mut self, uid: &PodUid) -> Vec<VolumeId> {
        let given = self.wishes.pods.remove(uid);
        if let Some(first) = given.as_ref().map(|it| self.outside.clock().wall(it.given)) {
            // As long as something of it is left it is as old as before.
            self.holdings.born.entry(uid.clone()).or_insert(first);
        }
        let volumes: Vec<VolumeId> = given.iter().flat_map(GivenPod::volumes).cloned().collect();
        self.wishes.forget_users(uid, volumes.iter());
        let mut memory = self.wishes.memory_mut();
        let claims = changed_claims(memory.uses(uid), &[]);
        memory.set_uses(uid, &[]);
        drop(memory);
        self.tell_of_claims(claims);
        volumes
    }

    /// `namespace/name` of a pod; its UID, if that is all that is known of it.
    fn pod_name(&self, uid: &PodUid) -> Arc<str> {
        self.engine.pod_name(uid).unwrap_or_else(|| uid.as_str().into())
    }

    /// The source cannot tell whether it has this pod: it keeps what it has and gets nothing new (I-1).
    fn pod_held(&mut self, uid: &PodUid, hold: Hold) {
        if let Some(given) = self.wishes.pods.get_mut(uid) {
            given.ending = true;
        }
        if !self.start.disk_read {
            // What is on disk of it is told later, and must not be taken for nobody's.
            self.start.holds.insert(uid.clone(), hold.clone());
        }
        if self.start.looked {
            self.tell(Event::PodHeld { uid: uid.clone(), hold });
            self.outside.say(Change::Pod { pod: uid.clone(), name: self.pod_name(uid), unresolved: false });
        }
    }

    /// The time for which a pod was held is over, and the engine has let it go.
    pub(super) fn hold_ended(&mut self, uid: &PodUid) {
        let name = self.pod_name(uid);
        self.note_name(uid, &name);
        let volumes = self.forget_pod(uid);
        self.outside.say(Change::Pod { pod: uid.clone(), name, unresolved: false });
        self.volumes_were_let_go(&volumes);
    }

    /// Somebody says that a pod that is held may go.
    pub(super) fn delete_pod(&mut self, uid: &PodUid) -> Result<(), DeleteError> {
        let pod = self.engine.view_pod(uid).ok_or(DeleteError::Unknown)?.pod;
        match pod.life {
            Life::Held => {
                self.tell(Event::HoldReleased(uid.clone()));
                Ok(())
            }
            Life::Gone => Ok(()),
            Life::Found => Err(DeleteError::NotReady),
            Life::Known(_) | Life::Leaving => Err(DeleteError::Wanted),
        }
    }

    /// Somebody says that volumes of a pod may go that are held because it does not name them.
    pub(super) fn delete_orphans(&mut self, uid: &PodUid) -> bool {
        let detail = self.engine.view_pod(uid).filter(|it| matches!(it.pod.life, Life::Known(_)));
        let reasons = detail.iter().flat_map(|it| &it.volumes).flat_map(|it| &it.reasons);
        let are_held = reasons.into_iter().any(|it| it.goes_at.is_some());
        if are_held {
            self.tell(Event::HoldReleased(uid.clone()));
        }
        are_held
    }

    /// Whoever watches claims sees which pods use them.
    fn tell_of_claims(&self, claims: Vec<Arc<str>>) {
        for claim in claims {
            self.outside.say(Change::ClaimChanged { claim });
        }
    }

    /// A source has said all there is. What is on disk and was not named stays for this long.
    pub(super) fn source_is_complete(&mut self, source: &SourceName, completed: Completed) {
        let all = self.wishes.are_complete();
        if all {
            // An object that was not given by now does not exist.
            let absent = self.wishes.memory_mut().end_partial();
            // Until now the pods that name such an object were told that it may exist.
            let pods: BTreeSet<PodUid> = absent.iter().flat_map(|(_, pods)| pods).cloned().collect();
            self.apply_all(pods);
            for (object, _) in absent {
                self.tell(Event::ObjectChanged(object));
            }
        }
        let Completed { version, orphan_delay, doubt } = completed;
        let (source, containers) = (source.clone(), Containers::Stopped);
        self.tell(Event::SourceComplete { source, version, containers, orphan_delay, doubt });
        if all {
            self.claims_are_complete(orphan_delay);
        }
    }

    pub(super) fn apply_all(&mut self, pods: impl IntoIterator<Item = PodUid>) {
        for pod in pods {
            self.apply(&pod);
        }
    }

    /// What a pod may be given, to be looked at once more before it is handed out.
    pub(crate) fn hand_out(&self, uid: &PodUid) -> Vec<Handed> {
        let mounted = self.engine.mounted_volumes(uid);
        let handed = mounted.into_iter().filter_map(|(name, volume)| {
            let place = MountPlace::Publish(volume.volume.clone(), uid.clone());
            let made = self.holdings.held.get(&place)?;
            let given = self.wishes.pods.get(uid)?;
            // What it had before a restart and names otherwise now, it has all the same.
            let detail = given.detail(&volume.volume).map(|it| it.volume_type);
            let volume_type = detail.or_else(|| VolumeType::named(volume.plugin.as_str()))?;
            // A pod may name one volume twice, once to write and once only to read.
            let access = match given.access(&name) {
                Access::ReadOnly => Access::ReadOnly,
                Access::ReadWrite => volume.access,
            };
            let attributes = match volume.mode {
                Mode::Filesystem => (volume_type.attributes)(access),
                Mode::Block => Attributes { read_only: access == Access::ReadOnly, managed: false, relabel: false },
            };
            Some(Handed { name, mode: volume.mode, attributes, proof: volume.proof, place, made })
        });
        handed.collect()
    }

    /// The names of a pod's volumes, for explaining each.
    pub(crate) fn volume_names(&self, uid: &PodUid) -> Vec<OuterName> {
        let pod = self.pod(uid);
        let volumes = pod.iter().filter_map(|it| it.spec.as_ref()?.volumes.as_ref()).flatten();
        volumes.map(|it| it.name.as_str().into()).collect()
    }
}

/// The claims that are in one of the lists alone.
fn changed_claims(before: &[ObjectName], after: &[ObjectName]) -> Vec<Arc<str>> {
    let kind = ObjectKind::Claim.name();
    let only = |one: &[ObjectName], other: &[ObjectName]| {
        let names = one.iter().filter(|it| !other.contains(it));
        let claims = names.filter_map(|it| it.as_str().strip_prefix(kind)?.strip_prefix(' ').map(Arc::from));
        claims.collect::<Vec<_>>()
    };
    if before == after { Vec::new() } else { [only(before, after), only(after, before)].concat() }
}

/// The revision of a content that was renewed though nothing changed.
fn renewed(revision: u64, epoch: u64) -> u64 {
    let mut fingerprint = Fingerprint::new([0, 0]);
    fingerprint.number(revision);
    fingerprint.number(epoch);
    fingerprint.finish()
}
