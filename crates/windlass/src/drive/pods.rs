//! Pods and objects as they are given, and the volumes that a pod is handed.

use super::*;

impl Drive {
    /// A pod is there, for the first time or changed.
    pub(crate) fn add_pod(&mut self, uid: &PodUid, packed: Packed, pod: &Arc<api::Pod>) {
        let before = self.pods.remove(uid);
        let given = before.as_ref().map_or_else(|| self.now(), |it| it.given);
        let details = before.map(|it| it.details).unwrap_or_default();
        let read_only = plugin::read_only(pod);
        if !self.looked {
            // It will be needed in a moment.
            packed.keep(pod.clone());
        }
        let known = Known { pod: packed, phase: phase(pod), read_only, details, given, ending: false };
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
        let Ok(mut resolved) = resolver.resolve(&pod, given) else { return };
        memory.set_uses(uid, &resolved.depends_on);
        drop(memory);
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
            let has = self.held.contains(&place) || self.busy.contains(&place);
            if has && !details.iter().any(|it| it.volume == detail.volume) {
                details.push(detail);
            }
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
        self.tell(Event::PodApplied(resolved.pod));
        self.tell_attachments(uid);
        let _ = self.changes.send(Change::Pod { pod: uid.clone(), name });
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
        let mut volumes: Vec<VolumeId> = Vec::new();
        if containers == Containers::Stopped {
            let known = self.pods.remove(uid);
            volumes.extend(known.iter().flat_map(Known::volumes).cloned());
            self.forget_users(uid, volumes.iter());
            self.memory.write().unwrap_or_else(PoisonError::into_inner).set_uses(uid, &[]);
        } else if let Some(known) = self.pods.get_mut(uid) {
            known.ending = true;
        }
        self.tell(Event::PodGone { uid: uid.clone(), version: Version::NONE, containers });
        let name = self.engine.view_pod(uid).map_or_else(|| uid.as_str().into(), |it| it.pod.name);
        let _ = self.changes.send(Change::Pod { pod: uid.clone(), name });
        self.volumes_were_let_go(&volumes);
    }

    /// All pods there are have been given.
    pub(crate) fn complete(&mut self) {
        if !self.looked {
            self.completed = true;
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
        self.tell(Event::SourceComplete { source, version: Version::NONE, containers: Containers::Stopped });
        self.claims_are_complete();
    }

    pub(crate) fn update_object(&mut self, object: Object) {
        match object {
            Object::Claim(claim) => self.claim_is_given(claim),
            Object::Class(_) => {
                self.put(object);
                self.provision_for_class();
            }
            other => self.put(other),
        }
    }

    pub(super) fn put(&mut self, object: Object) {
        let name = ObjectName::from(&object.reference());
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).put(object);
        self.apply_all(pods);
        self.tell(Event::ObjectChanged(name));
    }

    pub(crate) fn remove_object(&mut self, reference: &Reference) {
        let pods = self.memory.write().unwrap_or_else(PoisonError::into_inner).remove(reference);
        self.apply_all(pods);
        self.tell(Event::ObjectChanged(reference.into()));
        self.claim_is_gone(reference);
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

/// The revision of a content that was renewed though nothing changed.
fn renewed(revision: u64, epoch: u64) -> u64 {
    let mut fingerprint = Fingerprint::new([0, 0]);
    fingerprint.number(revision);
    fingerprint.number(epoch);
    fingerprint.finish()
}
