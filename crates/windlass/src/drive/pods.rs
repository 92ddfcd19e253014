//! Pods and objects as they are given, and the volumes that a pod is handed.

use super::*;

impl Drive {
    /// A pod is there, for the first time or changed.
    pub(crate) fn add_pod(&mut self, uid: &PodUid, packed: Packed, pod: &Arc<api::Pod>) {
        self.is_back(uid);
        let before = self.pods.remove(uid);
        let given = before.as_ref().map_or_else(|| self.now(), |it| it.given);
        let standing = before.as_ref().map_or_else(|| Standing::new(self.now()), |it| it.standing);
        let details = before.map(|it| it.details).unwrap_or_default();
        let read_only = plugin::read_only(pod);
        if !self.looked {
            // It will be needed in a moment.
            packed.keep(pod.clone());
        }
        self.holds.remove(uid);
        let known = Known { pod: packed, phase: phase(pod), read_only, details, given, standing, ending: false };
        self.pods.insert(uid.clone(), known);
        if self.looked {
            self.tell_pod(uid);
            // While the pod is open.
            self.settle();
        }
    }

    /// Tells the engine of a pod. From now on it says when the pod's directory may go again.
    pub(super) fn tell_pod(&mut self, uid: &PodUid) {
        self.executor.live.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.clone());
        self.apply(uid);
        self.fresh.push(uid.clone());
    }

    /// Looks a pod's volumes up and tells the engine.
    pub(super) fn apply(&mut self, uid: &PodUid) {
        self.apply_after(uid, None);
    }

    /// The same because an object changed: what failed of the volumes that use it is tried at once.
    fn apply_after(&mut self, uid: &PodUid, changed: Option<&Reference>) {
        let Some(known) = self.pods.get(uid).filter(|it| self.looked && !it.ending) else { return };
        let Some(pod) = known.pod.open() else { return };
        let given = Given { source: self.source.clone(), version: Version::NONE, phase: known.phase };
        let memory = self.memory.clone();
        let mut memory = memory.write().unwrap_or_else(PoisonError::into_inner);
        let resolver = Resolver {
            settings: &self.settings,
            catalogue: &self.catalogue,
            drivers: &self.drivers,
            objects: &*memory,
        };
        // A pod without a name or a specification is refused when it is given.
        let Ok(mut resolved) = resolver.resolve_after(&pod, given, changed) else { return };
        let claims = changed_claims(memory.uses(uid), &resolved.depends_on);
        memory.set_uses(uid, &resolved.depends_on);
        drop(memory);
        self.tell_of_claims(claims);
        for volume in &mut resolved.pod.volumes {
            if let VolumeWant::Volume(used) = &mut volume.want
                && let Some(Renewal { epoch: epoch @ 1.., .. }) =
                    self.renewals.get(&(uid.clone(), used.spec.id.clone()))
            {
                used.revision = renewed(used.revision, *epoch);
            }
        }
        let before = self.pods.get_mut(uid).map(|it| std::mem::take(&mut it.details)).unwrap_or_default();
        self.forget_users(uid, before.iter().map(|it| &it.volume));
        let mut details: Vec<Arc<Detail>> = resolved.details.into_iter().map(Arc::new).collect();
        // A volume that cannot be looked up at the moment is still the pod's, as long as the pod has it (I-1).
        for detail in before {
            let place = Place::Publish(detail.volume.clone(), uid.clone());
            let has = self.held.contains(&place) || self.busy.contains_key(&place);
            if has && !details.iter().any(|it| it.volume == detail.volume) {
                details.push(detail);
            }
        }
        for detail in &details {
            self.look_after(&detail.volume);
        }
        // What a pod describes itself is for no other, and nobody need look for who uses it.
        for detail in details.iter().filter(|it| it.persistent.is_some()) {
            self.users.entry(detail.volume.clone()).or_default().insert(uid.clone());
        }
        if let Some(known) = self.pods.get_mut(uid) {
            known.details = details.into();
        }
        for (name, warning) in resolved.warnings {
            let text: Arc<str> = format!("volume {name}: {warning}").into();
            self.executor.scene.tell.warning(uid, "SELinuxLabel", text);
        }
        let name = resolved.pod.name.clone();
        let unresolved = resolved.pod.volumes.iter().any(|it| !matches!(it.want, VolumeWant::Volume(_)));
        self.tell(Event::PodApplied(resolved.pod));
        for volume in resolved.affected {
            self.tell(Event::RetryWanted { volume, pod: Some(uid.clone()) });
        }
        self.tell_attachments(uid);
        self.note_standing(uid);
        let _ = self.changes.send(Change::Pod { pod: uid.clone(), name, unresolved });
        self.claims_are_used(&pod);
    }

    pub(super) fn forget_users<'a>(&mut self, uid: &PodUid, volumes: impl Iterator<Item = &'a VolumeId>) {
        for volume in volumes {
            if let Some(users) = self.users.get_mut(volume) {
                users.remove(uid);
                if users.is_empty() {
                    self.users.remove(volume);
                }
            }
        }
    }

    /// A pod is gone, and nothing of it runs.
    pub(crate) fn remove_pod(&mut self, uid: &PodUid, containers: Containers) {
        self.holds.remove(uid);
        let mut volumes: Vec<VolumeId> = Vec::new();
        if containers == Containers::Stopped {
            volumes = self.forget_pod(uid);
        } else if let Some(known) = self.pods.get_mut(uid) {
            known.ending = true;
        }
        let name = self.engine.pod_name(uid).unwrap_or_else(|| uid.as_str().into());
        self.note_name(uid, &name);
        self.tell(Event::PodGone { uid: uid.clone(), version: Version::NONE, containers });
        let _ = self.changes.send(Change::Pod { pod: uid.clone(), name, unresolved: false });
        self.volumes_were_let_go(&volumes);
    }

    /// Forgets what a pod was given as; tells which volumes it used.
    fn forget_pod(&mut self, uid: &PodUid) -> Vec<VolumeId> {
        let known = self.pods.remove(uid);
        if let Some(given) = known.as_ref().map(|it| self.clock().wall(it.given)) {
            // As long as something of it is left it is as old as before.
            self.born.entry(uid.clone()).or_insert(given);
        }
        let volumes: Vec<VolumeId> = known.iter().flat_map(Known::volumes).cloned().collect();
        self.forget_users(uid, volumes.iter());
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let claims = changed_claims(memory.uses(uid), &[]);
        memory.set_uses(uid, &[]);
        drop(memory);
        self.tell_of_claims(claims);
        volumes
    }

    fn pod_changed(&self, uid: &PodUid) {
        let name = self.engine.pod_name(uid).unwrap_or_else(|| uid.as_str().into());
        let _ = self.changes.send(Change::Pod { pod: uid.clone(), name, unresolved: false });
    }

    /// The source cannot tell whether it has this pod: it keeps what it has and gets nothing new (I-1).
    pub(crate) fn hold_pod(&mut self, uid: &PodUid, hold: Hold) {
        if let Some(known) = self.pods.get_mut(uid) {
            known.ending = true;
        }
        if !self.disk_read {
            // What is on disk of it is told later, and must not be taken for nobody's.
            self.holds.insert(uid.clone(), hold.clone());
        }
        if self.looked {
            self.tell(Event::PodHeld { uid: uid.clone(), hold });
            self.pod_changed(uid);
        }
    }

    /// The time for which a pod was held is over, and the engine has let it go.
    pub(super) fn hold_ended(&mut self, uid: &PodUid) {
        let name = self.engine.pod_name(uid).unwrap_or_else(|| uid.as_str().into());
        self.note_name(uid, &name);
        let volumes = self.forget_pod(uid);
        self.pod_changed(uid);
        self.volumes_were_let_go(&volumes);
    }

    /// Somebody says that a pod that is held may go.
    pub(crate) fn delete_pod(&mut self, uid: &PodUid) -> Result<(), DeleteError> {
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
    pub(crate) fn delete_orphans(&mut self, uid: &PodUid) -> bool {
        let detail = self.engine.view_pod(uid).filter(|it| matches!(it.pod.life, Life::Known(_)));
        let reasons = detail.iter().flat_map(|it| &it.volumes).flat_map(|it| &it.reasons);
        let are_held = reasons.into_iter().any(|it| it.goes_at.is_some());
        if are_held {
            self.tell(Event::HoldReleased(uid.clone()));
        }
        are_held
    }

    /// The source has come upon something that it cannot read, or has read it again.
    pub(crate) fn doubt(&mut self, doubt: Option<Arc<str>>) {
        self.claims_are_doubted(doubt.is_some());
        self.tell(Event::SourceDoubted { source: self.source.clone(), doubt });
    }

    /// Whoever watches claims sees which pods use them.
    fn tell_of_claims(&self, claims: Vec<Arc<str>>) {
        for claim in claims {
            let _ = self.changes.send(Change::ClaimChanged { claim });
        }
    }

    /// All pods there are have been given. What is on disk and was not stays for this long.
    pub(crate) fn complete(&mut self, orphan_delay: Duration) {
        if !self.looked {
            self.completed = Some(orphan_delay);
            return;
        }
        // What has not been told of by now does not exist.
        let absent = self.memory.write().unwrap_or_else(PoisonError::into_inner).end_partial();
        // That is news to whoever was told that it may.
        let pods: BTreeSet<PodUid> = absent.iter().flat_map(|(_, pods)| pods).cloned().collect();
        self.apply_all(pods);
        for (object, _) in absent {
            self.tell(Event::ObjectChanged(object));
        }
        let source = self.source.clone();
        let (version, containers) = (Version::NONE, Containers::Stopped);
        self.tell(Event::SourceComplete { source, version, containers, orphan_delay });
        self.claims_are_complete();
    }

    pub(crate) fn update_object(&mut self, object: Object) {
        match object {
            Object::Claim(claim) => self.claim_is_given(claim),
            Object::Class(_) => {
                self.put(object);
                self.provision_for_class();
            }
            Object::Volume(volume) => {
                if let Some(claim) = volume.spec.as_ref().and_then(|it| it.claim_ref.as_ref()) {
                    let (namespace, name) = (claim.namespace.as_deref(), claim.name.as_deref());
                    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
                    self.claim_has_changed(&Reference::new(crate::objects::Kind::Claim, namespace, name));
                }
                self.put(Object::Volume(volume));
            }
            other => self.put(other),
        }
    }

    pub(super) fn put(&mut self, object: Object) {
        self.put_together([object]);
    }

    /// Objects that belong together: no pod sees one of them without the others.
    pub(super) fn put_together<const N: usize>(&mut self, objects: [Object; N]) {
        let references = objects.each_ref().map(Object::reference);
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        let pods: BTreeSet<PodUid> = objects.into_iter().flat_map(|it| memory.put(it)).collect();
        drop(memory);
        for pod in pods {
            self.apply_after(&pod, references.first());
        }
        for reference in &references {
            self.tell(Event::ObjectChanged(reference.into()));
        }
    }

    pub(crate) fn remove_object(&mut self, reference: &Reference) {
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).remove(reference);
        self.apply_all(pods);
        self.tell(Event::ObjectChanged(reference.into()));
        if reference.kind() == crate::objects::Kind::Claim {
            self.claim_has_changed(reference);
            self.claim_is_gone(reference);
        }
    }

    pub(crate) fn fail_object(&mut self, reference: &Reference, text: &str) {
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).fail(reference, text);
        self.apply_all(pods);
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
            let place = Place::Publish(volume.volume.clone(), uid.clone());
            let made = self.held.get(&place)?;
            let known = self.pods.get(uid)?;
            let detail = known.detail(&volume.volume)?;
            // A pod may name one volume twice, once to write and once only to read.
            let access = match known.access(&name) {
                Access::ReadOnly => Access::ReadOnly,
                Access::ReadWrite => volume.access,
            };
            let attributes = match volume.mode {
                windlass_core::spec::Mode::Filesystem => Attributes::of(detail.kind, access),
                windlass_core::spec::Mode::Block => {
                    Attributes { read_only: access == Access::ReadOnly, managed: false, relabel: false }
                }
            };
            Some(Handed { name, mode: volume.mode, attributes, proof: volume.proof, place, made })
        });
        handed.collect()
    }

    /// The names of a pod's volumes, for explaining each.
    pub(crate) fn volume_names(&self, uid: &PodUid) -> Vec<windlass_core::ids::OuterName> {
        let pod = self.pod(uid);
        let volumes = pod.iter().filter_map(|it| it.spec.as_ref()?.volumes.as_ref()).flatten();
        volumes.map(|it| it.name.as_str().into()).collect()
    }
}

/// The claims that are in one of the lists alone.
fn changed_claims(before: &[ObjectName], after: &[ObjectName]) -> Vec<Arc<str>> {
    let kind = crate::objects::Kind::Claim.name();
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
