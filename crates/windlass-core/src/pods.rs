//! Pods coming, changing and going, and the sources they come from.

use crate::actual::{Growth, Mount, PodKey, Volume, VolumeKey};
use crate::desired::{NamedVolume, Pod, Used};
use crate::engine::Engine;
use crate::event::Containers;
use crate::ids::{OuterName, PodUid, SourceName, Version};
use crate::notice::Notice;
use crate::oddity::Oddity;
use crate::plan::{same_place, same_place_as};
use crate::reason::{Code, Reason, WaitsOn};
use crate::snapshot::SourceState;
use crate::spec::{self, Access, Identity, Life, Mode, PodVolume, Use, VolumeSpec, Want};
use crate::step::{Doubt, Step};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

impl Engine {
    pub(crate) fn pod_applied(&mut self, given: spec::Pod) {
        if given.uid.as_str().is_empty() {
            self.odd(Oddity::EmptyName, format!("pod {} has no uid", given.name));
            return;
        }
        let life = match self.world.sources.get(&given.source) {
            Some(source) => source.life,
            None => {
                let text = format!("pod {} comes from source {}, which was not announced", given.name, given.source);
                self.odd(Oddity::UnknownSource, text);
                0
            }
        };
        let key = self.pod_entry(&given.uid);
        if let Some(oddity) = self.not_news(key, &given) {
            self.odd(oddity, format!("pod {} in version {} from {}", given.name, given.version.0, given.source));
            return;
        }
        if !matches!(self.world.pods[key].life, Life::Known(_)) {
            self.end_hold(key);
        }
        self.world.set_title(key, given.name);
        let pod = &mut self.world.pods[key];
        pod.source = Some(given.source);
        pod.version = given.version;
        pod.life = Life::Known(given.phase);
        pod.confirmed = life;
        pod.groups = given.groups.into();
        pod.had_gone = false;
        self.name_volumes(key, given.volumes);
        self.judge_found(key);
        self.touch_pod(key);
        self.touch_volumes_of(key);
    }

    /// Why what a source says of a pod is to be ignored; nothing if it is not.
    fn not_news(&self, key: PodKey, given: &spec::Pod) -> Option<Oddity> {
        let pod = &self.world.pods[key];
        let known = matches!(pod.life, Life::Known(_));
        if known && pod.source.as_ref().is_some_and(|it| *it != given.source) {
            return Some(Oddity::OtherSource);
        }
        is_older(given.version, pod.version).then_some(Oddity::StaleVersion)
    }

    pub(crate) fn pod_gone(&mut self, uid: &PodUid, version: Version, containers: Containers) {
        let key = match (self.world.pod(uid), containers) {
            (Some(key), _) => key,
            // Nobody knows it, but its containers may run: what is found of it must stay (E-162).
            (None, Containers::MayRun) if !uid.as_str().is_empty() => self.pod_entry(uid),
            // What is found of it later goes, like that of any pod that was seen to go.
            (None, Containers::Stopped) if !uid.as_str().is_empty() && !self.world.start.disk_read => {
                self.pod_entry(uid)
            }
            (None, _) => {
                self.odd(Oddity::UnknownPod, format!("pod {uid} is gone, but was not known"));
                return;
            }
        };
        let pod = &self.world.pods[key];
        if is_older(version, pod.version) {
            self.odd(Oddity::StaleVersion, format!("pod {uid} gone in version {}", version.0));
            return;
        }
        if version > pod.version {
            self.world.pods[key].version = version;
        }
        self.lose_pod(key, containers);
    }

    pub(crate) fn lose_pod(&mut self, key: PodKey, containers: Containers) {
        self.end_hold(key);
        match containers {
            Containers::MayRun => self.world.pods[key].life = Life::Leaving,
            Containers::Stopped => {
                self.world.pods[key].life = Life::Gone;
                self.forget_uses(key);
            }
        }
        self.touch_pod(key);
        self.touch_volumes_of(key);
        self.drop_pod_if_over(key);
    }

    pub(crate) fn source_announced(&mut self, name: SourceName) {
        self.world.sources.entry(name).or_default();
        // What waits for the start to end may now wait for this source.
        if !self.world.start.may_take_away {
            self.touch_all();
        }
    }

    pub(crate) fn source_complete(
        &mut self,
        name: &SourceName,
        version: Version,
        containers: Containers,
        orphan_delay: Duration,
        doubt: Option<Arc<str>>,
    ) {
        let Some(source) = self.world.sources.get_mut(name) else {
            self.odd(Oddity::UnknownSource, format!("source {name} is complete, but was not announced"));
            return;
        };
        source.enter(SourceState::Complete { doubt }, self.world.now);
        source.orphan_delay = orphan_delay;
        let life = source.life;
        let missing = |pod: &Pod| {
            matches!(pod.life, Life::Known(_))
                && pod.source.as_ref() == Some(name)
                && pod.confirmed < life
                && !is_older(version, pod.version)
        };
        let missing: Vec<PodKey> = self.world.pods.keys().filter(|it| missing(&self.world.pods[*it])).collect();
        for pod in missing {
            self.lose_pod(pod, containers);
        }
        self.open_the_gate();
    }

    pub(crate) fn source_lost(&mut self, name: &SourceName, text: &Arc<str>) {
        match self.world.sources.get_mut(name) {
            Some(source) => {
                source.enter(SourceState::Lost(text.clone()), self.world.now);
                source.life += 1;
                // What waits for the start to end may now wait for this source.
                if !self.world.start.may_take_away {
                    self.touch_all();
                }
            }
            None => self.odd(Oddity::UnknownSource, format!("source {name} is lost ({text}), but was not announced")),
        }
    }

    /// Once everything is known at one moment, what nobody claimed may go (E-182).
    pub(crate) fn open_the_gate(&mut self) {
        // Where no source is known, none can say that nothing is wanted.
        let all_complete = !self.world.sources.is_empty() && self.world.incomplete_source().is_none();
        let start = &mut self.world.start;
        if !start.may_take_away {
            start.may_take_away = start.disk_read && start.attachments_complete && all_complete;
            // Even if it stays closed, what it waits for may be another thing now.
            self.touch_all();
        }
        let pods: Vec<PodKey> = self.world.pods.keys().collect();
        for pod in pods {
            self.judge_found(pod);
        }
        self.end_holds();
    }

    pub(crate) fn pod_entry(&mut self, uid: &PodUid) -> PodKey {
        self.world.pod(uid).unwrap_or_else(|| self.world.add_pod(Pod::new(uid.clone())))
    }

    /// Replaces what a pod names by what it names now.
    fn name_volumes(&mut self, pod: PodKey, given: Vec<PodVolume>) {
        let before = mem::take(&mut self.world.pods[pod].volumes);
        let mut named: Vec<NamedVolume> = Vec::with_capacity(given.len());
        let mut used: Vec<(VolumeKey, Used)> = Vec::with_capacity(given.len());
        for PodVolume { name, want } in given {
            if named.iter().any(|it| it.name == name) {
                let uid = &self.world.pods[pod].uid;
                self.odd(Oddity::DuplicateName, format!("pod {uid} has two volumes named {name}"));
                continue;
            }
            let earlier = before.iter().find(|it| it.name == name);
            named.push(self.resolved(pod, name, want, earlier, &mut used));
        }
        self.tally.exchange_names(&before, &named);
        self.world.pods[pod].volumes = named.into();
        for volume in self.world.pods[pod].mounts.clone() {
            let now = used.iter().position(|(it, _)| *it == volume).map(|it| used.swap_remove(it).1);
            self.use_mount(volume, pod, now);
        }
        for (volume, now) in used {
            self.add_mount(volume, pod);
            self.use_mount(volume, pod, Some(now));
        }
    }

    /// The pod uses nothing any more. Its names stay as long as the mounts they are of, for whoever asks about them.
    fn forget_uses(&mut self, pod: PodKey) {
        for volume in self.world.pods[pod].mounts.clone() {
            self.use_mount(volume, pod, None);
        }
        self.drop_names(pod, |it| it.volume.is_none());
    }

    fn drop_names(&mut self, pod: PodKey, which: impl Fn(&NamedVolume) -> bool) {
        let names = &mut self.world.pods[pod].volumes;
        if names.iter().any(&which) {
            let (dropped, kept): (Vec<_>, Vec<_>) = mem::take(names).into_iter().partition(which);
            *names = kept.into();
            self.tally.exchange_names(&dropped, &[]);
        }
    }

    /// Sets how a pod uses a mount it has; new facts are worth a new try at once.
    fn use_mount(&mut self, key: VolumeKey, pod: PodKey, used: Option<Used>) {
        let Some(mount) = self.volumes[key].mount_mut(pod) else {
            return;
        };
        mount.unclaimed &= used.is_none();
        if mount.used != used {
            mount.used = used;
            mount.used_since = self.world.now;
            self.clear_backoff(key, Some(pod));
        }
        self.touch(key);
    }

    fn resolved(
        &mut self,
        pod: PodKey,
        name: OuterName,
        want: Want,
        earlier: Option<&NamedVolume>,
        used: &mut Vec<(VolumeKey, Used)>,
    ) -> NamedVolume {
        let found = match &want {
            Want::Volume(new) if earlier.is_none() => self.found_instead(pod, new),
            _ => None,
        };
        let found = found.map(|it| NamedVolume { name: name.clone(), volume: Some(it), trouble: None });
        let earlier = earlier.or(found.as_ref());
        let (code, text, waits_on): (Code, Arc<str>, _) = match want {
            Want::Volume(new) => match self.admitted(pod, &name, &new.spec) {
                Ok(volume) if self.has_another(pod, earlier, volume, &new.spec) => {
                    let title = &self.world.pods[pod].title;
                    let text = match earlier.and_then(|it| it.volume) == Some(volume) {
                        false => format!(
                            "volume {name} of pod {title} should now be {}, but the pod has another and keeps it",
                            new.spec.id
                        ),
                        true => format!(
                            "volume {name} of pod {title} should now be {}, but the pod has {} and keeps that",
                            kind(&new.spec),
                            kind(&self.volumes[volume].spec)
                        ),
                    };
                    self.odd(Oddity::IdentityChanged, text.clone());
                    (Code::IdentityChanged, text.into(), None)
                }
                Ok(volume) => {
                    add_use(used, volume, Used { access: new.access, revision: new.revision, label: new.label });
                    return NamedVolume { name, volume: Some(volume), trouble: None };
                }
                Err(text) => (Code::Invalid, text.into(), None),
            },
            Want::Invalid { text } => (Code::Invalid, text, None),
            Want::Unknown { text, waits_on } => (Code::LookupFailed, text, waits_on),
            Want::Pending(why) => return self.unresolved(pod, name, why, earlier, used),
        };
        let trouble = earlier.and_then(|it| it.trouble.as_ref()).filter(|it| it.code == code);
        let since = trouble.map_or(self.world.now, |it| it.since);
        let waits_on = waits_on.map_or(WaitsOn::Nothing, WaitsOn::Object);
        let why =
            Reason { code, text: text.as_ref().into(), since, attempts: 0, next_try: None, goes_at: None, waits_on };
        self.unresolved(pod, name, Box::new(why), earlier, used)
    }

    /// A name that could not be made into a volume keeps the one that it was before.
    fn unresolved(
        &self,
        pod: PodKey,
        name: OuterName,
        why: Box<Reason>,
        earlier: Option<&NamedVolume>,
        used: &mut Vec<(VolumeKey, Used)>,
    ) -> NamedVolume {
        let before = earlier.and_then(|it| it.volume).and_then(|volume| {
            let used = self.volumes[volume].mount(pod)?.used.clone()?;
            Some((volume, used))
        });
        let volume = before.map(|(volume, before)| {
            add_use(used, volume, before);
            volume
        });
        NamedVolume { name, volume, trouble: Some(why) }
    }

    /// Does the pod use another volume under this name that it has, or may have? It may run with it (I-1). What has the same
    /// identity is another all the same if it cannot become what it should be.
    fn has_another(&self, pod: PodKey, earlier: Option<&NamedVolume>, volume: VolumeKey, spec: &VolumeSpec) -> bool {
        let other = earlier.and_then(|it| it.volume);
        let other = other.filter(|it| *it != volume || !is_same_kind(&self.volumes[volume], spec));
        let mount = other.and_then(|it| self.volumes[it].mount(pod));
        mount.is_some_and(|it| it.used.is_some() && it.step.may_be_here())
    }

    /// The volume that the pod had before this process began where it should have another now. The pod uses it as it did then,
    /// so that it is the same whether the pod changed before a restart or after it.
    fn found_instead(&mut self, pod: PodKey, new: &Use) -> Option<VolumeKey> {
        let is_another = |it: &VolumeKey| {
            let volume = &self.volumes[*it];
            match volume.id() == &new.spec.id {
                true => !is_same_kind(volume, &new.spec),
                false => same_place_as(&volume.spec, &new.spec),
            }
        };
        let key = self.world.pods[pod].mounts.iter().copied().find(is_another)?;
        let mount = self.volumes[key].mount_mut(pod).filter(|it| it.unclaimed)?;
        let revision = mount.step.held()?.revision;
        mount.used = Some(Used { access: new.access, revision, label: new.label.clone() });
        Some(key)
    }

    /// The volume that a pod names, if it makes sense.
    fn admitted(&mut self, pod: PodKey, name: &OuterName, spec: &Arc<VolumeSpec>) -> Result<VolumeKey, String> {
        let title = &self.world.pods[pod].title;
        if name.as_str().is_empty() || spec.id.as_str().is_empty() || spec.inner_name.as_str().is_empty() {
            let text = format!("volume \"{name}\" of pod {title} has an empty name or identity");
            self.odd(Oddity::EmptyName, text.clone());
            return Err(text);
        }
        if spec.mode == Mode::Block && !spec.capabilities.block {
            let text = format!(
                "volume {name} has volumeMode Block, but plugin {} has no BlockVolumeMapper: it cannot give raw devices",
                spec.plugin
            );
            self.odd(Oddity::NoBlock, text.clone());
            return Err(text);
        }
        let Some(key) = self.volumes.find(spec.id.as_str()) else {
            let key = self.volumes.insert(Volume::new(spec.clone(), self.world.now));
            self.touch(key);
            return Ok(key);
        };
        let other = |it: &&Mount| it.pod != pod && (it.used.is_some() || it.step.may_be_here());
        if spec.capabilities.identity == Identity::PerPod
            && let Some(other) = self.volumes[key].mounts.iter().find(other)
        {
            let text = format!("volume {} belongs to pod {} alone", spec.id, self.world.pods[other.pod].title);
            self.odd(Oddity::NotShared, text.clone());
            return Err(text);
        }
        self.update_spec(key, spec);
        Ok(key)
    }

    /// Takes over what is new about a volume, as far as that can change while it is here.
    pub(crate) fn update_spec(&mut self, key: VolumeKey, spec: &Arc<VolumeSpec>) {
        let volume = &mut self.volumes[key];
        if volume.spec == *spec {
            return;
        }
        if !is_same_kind(volume, spec) && volume.may_be_here() {
            let text = format!("volume {} is here as {:?} and cannot become {:?}", spec.id, volume.spec, spec);
            self.odd(Oddity::SpecChanged, text);
            return;
        }
        let moves = !same_place_as(&volume.spec, spec);
        self.set_parked(key, false);
        self.discount(key);
        let volume = &mut self.volumes[key];
        volume.size_bytes = spec.size.known(volume.size_bytes, spec.capabilities.expand);
        if let Growth::Infeasible { to_bytes } = volume.growth
            && spec.size.wanted_bytes != Some(to_bytes)
        {
            volume.growth = Growth::Open;
        }
        let shrinks = spec.size.wanted_bytes.zip(volume.size_bytes).is_some_and(|(wanted, has)| wanted < has);
        let wants_less = spec.size.wanted_bytes < volume.spec.size.wanted_bytes;
        volume.spec = spec.clone();
        if shrinks && wants_less {
            self.odd(Oddity::SizeShrunk, format!("volume {} should become smaller: {:?}", spec.id, spec.size));
        }
        self.clear_backoffs(key);
        self.touch(key);
        if moves {
            for index in 0..self.volumes[key].mounts.len() {
                self.settle_contest(self.volumes[key].mounts[index].pod);
            }
        }
    }

    /// A pod gets an entry in a volume, and may find there what it had in an earlier life under a name nobody could read.
    pub(crate) fn add_mount(&mut self, key: VolumeKey, pod: PodKey) {
        if self.volumes[key].mount(pod).is_some() {
            return;
        }
        let mut mount = Mount::new(pod, self.world.now);
        let same = |it: &&VolumeKey| same_place(&self.volumes[**it], &self.volumes[key]);
        let others: Vec<VolumeKey> = self.world.pods[pod].mounts.iter().filter(same).copied().collect();
        for other in others {
            if self.volumes[other].unreadable {
                if let Some(nameless) = self.volumes[other].mount_mut(pod)
                    && nameless.step.operation().is_none()
                {
                    nameless.step = Step::Absent;
                    mount.step = Step::Uncertain(Doubt::Found);
                    mount.unclaimed = nameless.unclaimed;
                    self.touch(other);
                    continue;
                }
            } else {
                let text = format!(
                    "pod {} has {} where it should have {}",
                    self.world.pods[pod].title,
                    self.volumes[other].id(),
                    self.volumes[key].id()
                );
                self.odd(Oddity::IdentityChanged, text);
            }
            self.world.pods[pod].contested = true;
        }
        self.world.pods[pod].mounts.push(key);
        self.volumes[key].mounts.push(mount);
        self.touch(key);
        self.touch_rivals(Some(pod));
    }

    /// Removes mounts that nobody names and that are not here.
    pub(crate) fn drop_idle_mounts(&mut self, key: VolumeKey) {
        let mut index = 0;
        while let Some(mount) = self.volumes[key].mounts.get(index) {
            if mount.used.is_some() || mount.step.may_be_here() || mount.refreshing.is_some() {
                index += 1;
                continue;
            }
            let pod = mount.pod;
            self.clear_backoff(key, Some(pod));
            self.volumes[key].mounts.remove(index);
            self.drop_names(pod, |it| it.volume == Some(key));
            let entry = &mut self.world.pods[pod];
            entry.mounts.retain(|it| *it != key);
            if entry.contested {
                self.settle_contest(pod);
            }
            self.touch_pod(pod);
            self.touch(key);
            self.drop_pod_if_over(pod);
        }
    }

    /// After a mount went or moved: are there two at one place?
    fn settle_contest(&mut self, pod: PodKey) {
        let mounts = &self.world.pods[pod].mounts;
        let contested = mounts.iter().enumerate().any(|(index, one)| {
            mounts[index + 1..].iter().any(|other| same_place(&self.volumes[*one], &self.volumes[*other]))
        });
        self.world.pods[pod].contested = contested;
        self.touch_volumes_of(pod);
    }

    /// A pod of which nothing is left, and nobody wants anything, is forgotten; but not before all is read that may be
    /// left of it.
    pub(crate) fn drop_pod_if_over(&mut self, key: PodKey) {
        let is_held = self.world.pods[key].life == Life::Held;
        if is_held && self.world.pods[key].mounts.is_empty() && self.world.start.disk_read {
            // There is nothing to be kept.
            self.hold_is_over(key);
            return;
        }
        let pod = &self.world.pods[key];
        if pod.life == Life::Gone && pod.mounts.is_empty() && self.world.start.disk_read {
            let pod = self.world.remove_pod(key);
            self.tally.exchange_names(&pod.volumes, &[]);
            if !self.waits.is_empty() {
                self.touched_pods.push(pod.uid.clone());
            }
            self.notices.push_back(Notice::PodReleased(pod.uid));
        }
    }

    pub(crate) fn touch_volumes_of(&mut self, pod: PodKey) {
        self.touched.extend(&self.world.pods[pod].mounts);
    }
}

/// What does not change of a volume while it is here.
fn kind(spec: &VolumeSpec) -> String {
    let form = match spec.mode {
        Mode::Filesystem => "a file system",
        Mode::Block => "a raw device",
    };
    let maker = spec.driver.as_ref().map_or(spec.plugin.as_str(), |it| it.as_str());
    format!("{form} of {maker} called {}", spec.inner_name)
}

/// Can a volume become this while it is here?
fn is_same_kind(volume: &Volume, spec: &VolumeSpec) -> bool {
    let now = &volume.spec;
    // Where a driver's volume is staged follows from what its driver calls it. What it is called in pods is not known of one
    // that was found there without a record, and matters from the first pod on; what runs meanwhile has its own.
    let is_in_no_pod = || volume.mounts.iter().all(|it| !it.step.may_be_here());
    now.plugin == spec.plugin
        && now.driver == spec.driver
        && now.mode == spec.mode
        && (now.inner_name == spec.inner_name || now.driver.is_some() && is_in_no_pod())
}

/// Is `given` older than what is known? A source that does not count is always news.
fn is_older(given: Version, known: Version) -> bool {
    given != Version::NONE && given < known
}

/// A pod may name one volume twice (E-59): it then gets it once, and may write if either name may.
fn add_use(used: &mut Vec<(VolumeKey, Used)>, volume: VolumeKey, new: Used) {
    match used.iter_mut().find(|(it, _)| *it == volume) {
        Some((_, used)) if new.access == Access::ReadWrite => used.access = Access::ReadWrite,
        Some(_) => {}
        None => used.push((volume, new)),
    }
}
