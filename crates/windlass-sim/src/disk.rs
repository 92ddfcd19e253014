//! The node's disk: directories of pods and volumes, and the records beside them.
//!
//! Everything has two layers: what the process reads and writes, and what a power loss leaves. A write reaches the lower
//! layer when it is synced. What was not synced is there, gone, or torn after a power loss; what was synced is there.

use crate::{
    faults::{Counts, Fault},
    rng::Rng,
};
use std::{collections::BTreeMap, sync::Arc};
use windlass_core::{
    event::{Place, Record},
    ids::{InnerName, PluginName, PodUid, VolumeId},
    operation::Proof,
    spec::{Mode, VolumeSpec},
};

/// Something written, in both layers.
#[derive(Clone, Debug, Default)]
struct Layered<T> {
    now: T,
    durable: T,
}

impl<T: Clone + PartialEq> Layered<T> {
    fn write(&mut self, value: T, sync: Sync) {
        self.now = value;
        if sync == Sync::Now {
            self.durable = self.now.clone();
        }
    }

    fn is_synced(&self) -> bool {
        self.now == self.durable
    }
}

/// Whether a write is made to last before the next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// It is.
    Now,
    /// It gets there some time.
    Later,
}

/// A record of a mount.
#[derive(Clone, PartialEq, Debug)]
pub struct MountRecord {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// Whether the mount was made, and which.
    pub record: Record,
    /// The label it is mounted with.
    pub label: Option<Arc<str>>,
}

/// A file that holds a record.
#[derive(Clone, PartialEq, Debug)]
pub enum File {
    /// It can be read.
    Whole(MountRecord),
    /// It cannot.
    Torn,
}

/// A record of an attachment that this node made.
#[derive(Clone, PartialEq, Debug)]
pub struct AttachRecord {
    /// The volume.
    pub spec: Arc<VolumeSpec>,
    /// The device, once attach has finished.
    pub device: Option<Arc<str>>,
}

/// What lies below a pod's directory for one volume.
#[derive(Clone, Debug)]
struct PublishDirectory {
    plugin: PluginName,
    inner_name: InnerName,
    mode: Mode,
    exists: Layered<bool>,
    record: Layered<Option<File>>,
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pods: BTreeMap<PodUid, Layered<bool>>,
    published: BTreeMap<(PodUid, VolumeId), PublishDirectory>,
    staged: BTreeMap<VolumeId, Layered<Option<MountRecord>>>,
    attached: BTreeMap<VolumeId, Layered<Option<AttachRecord>>>,
}

impl Disk {
    /// Makes the directory of a volume below a pod, and the pod's if it is missing; says whether it was not there.
    pub fn make_publish_directory(&mut self, pod: &PodUid, spec: &VolumeSpec) -> bool {
        self.pods.entry(pod.clone()).or_default().write(true, Sync::Now);
        let directory = self.published.entry((pod.clone(), spec.id.clone())).or_insert_with(|| PublishDirectory {
            plugin: spec.plugin.clone(),
            inner_name: spec.inner_name.clone(),
            mode: spec.mode,
            exists: Layered::default(),
            record: Layered::default(),
        });
        let new = !directory.exists.now;
        directory.exists.write(true, Sync::Now);
        new
    }

    /// Writes a record of a mount.
    pub fn write(&mut self, place: &Place, record: MountRecord, sync: Sync) {
        match place {
            Place::Stage(volume) => {
                let file = self.staged.entry(volume.clone()).or_default();
                file.write(Some(record), sync);
            }
            Place::Publish(volume, pod) => {
                let directory = self.published.get_mut(&(pod.clone(), volume.clone()));
                // The directory was made a step before, and nobody else removes it while the operation runs.
                let directory = directory.expect("a record is written into its directory");
                directory.record.write(Some(File::Whole(record)), sync);
            }
        }
    }

    /// What stands in the record of a mount. A torn one reads as nothing.
    pub fn read(&self, place: &Place) -> Option<&MountRecord> {
        match place {
            Place::Stage(volume) => self.staged.get(volume)?.now.as_ref(),
            Place::Publish(volume, pod) => {
                match self.published.get(&(pod.clone(), volume.clone()))?.record.now.as_ref()? {
                    File::Whole(record) => Some(record),
                    File::Torn => None,
                }
            }
        }
    }

    /// Is there a record of this mount, readable or not?
    pub fn has_record(&self, place: &Place) -> bool {
        match place {
            Place::Stage(_) => self.read(place).is_some(),
            Place::Publish(volume, pod) => {
                self.published.get(&(pod.clone(), volume.clone())).is_some_and(|it| it.record.now.is_some())
            }
        }
    }

    /// Removes the record of a mount.
    pub fn remove_record(&mut self, place: &Place) {
        match place {
            Place::Stage(volume) => {
                if let Some(file) = self.staged.get_mut(volume) {
                    file.write(None, Sync::Later);
                }
            }
            Place::Publish(volume, pod) => {
                if let Some(directory) = self.published.get_mut(&(pod.clone(), volume.clone())) {
                    directory.record.write(None, Sync::Later);
                }
            }
        }
    }

    /// Removes the directory of a volume below a pod.
    pub fn remove_publish_directory(&mut self, pod: &PodUid, volume: &VolumeId) {
        if let Some(directory) = self.published.get_mut(&(pod.clone(), volume.clone())) {
            directory.exists.write(false, Sync::Later);
        }
    }

    /// Removes a pod's directory, unless there is something in it.
    pub fn remove_pod_directory(&mut self, pod: &PodUid) -> Result<(), VolumeId> {
        if let Some(volume) = self.volumes_below(pod).next() {
            return Err(volume.clone());
        }
        if let Some(directory) = self.pods.get_mut(pod) {
            directory.write(false, Sync::Later);
        }
        Ok(())
    }

    fn volumes_below<'a>(&'a self, pod: &'a PodUid) -> impl Iterator<Item = &'a VolumeId> {
        self.published
            .range((pod.clone(), VolumeId::from(""))..)
            .take_while(move |((owner, _), _)| owner == pod)
            .filter(|(_, it)| it.exists.now)
            .map(|((_, volume), _)| volume)
    }

    /// Writes the record of an attachment.
    pub fn write_attached(&mut self, record: AttachRecord, sync: Sync) {
        let file = self.attached.entry(record.spec.id.clone()).or_default();
        file.write(Some(record), sync);
    }

    /// What stands in the record of an attachment.
    pub fn read_attached(&self, volume: &VolumeId) -> Option<&AttachRecord> {
        self.attached.get(volume)?.now.as_ref()
    }

    /// Removes the record of an attachment.
    pub fn remove_attached(&mut self, volume: &VolumeId) {
        if let Some(file) = self.attached.get_mut(volume) {
            file.write(None, Sync::Later);
        }
    }

    /// The pods that have a directory.
    pub fn pods(&self) -> impl Iterator<Item = &PodUid> {
        self.pods.iter().filter(|(_, it)| it.now).map(|(pod, _)| pod)
    }

    /// The records of attachments.
    pub fn attached(&self) -> impl Iterator<Item = &AttachRecord> {
        self.attached.values().filter_map(|it| it.now.as_ref())
    }

    /// The records of staged volumes.
    pub fn staged(&self) -> impl Iterator<Item = &MountRecord> {
        self.staged.values().filter_map(|it| it.now.as_ref())
    }

    /// The directories of volumes below pods, each with its record if that can be read.
    pub fn published(&self) -> impl Iterator<Item = Published<'_>> {
        let there = self.published.iter().filter(|(_, it)| it.exists.now);
        there.map(|((pod, volume), it)| Published {
            pod,
            volume,
            plugin: &it.plugin,
            inner_name: &it.inner_name,
            mode: it.mode,
            record: match &it.record.now {
                Some(File::Whole(record)) => Some(record),
                Some(File::Torn) | None => None,
            },
        })
    }

    /// Somebody damages the `pick`th of the records that may be damaged; says which.
    pub fn corrupt(&mut self, pick: u64, may: impl Fn(&PodUid, &VolumeId) -> bool) -> Option<(PodUid, VolumeId)> {
        let whole = |it: &PublishDirectory| matches!(it.record.now, Some(File::Whole(_)));
        let candidates = self.published.iter().filter(|((pod, volume), it)| whole(it) && may(pod, volume));
        let candidates: Vec<(PodUid, VolumeId)> = candidates.map(|(names, _)| names.clone()).collect();
        let index = pick.checked_rem(candidates.len() as u64)?;
        let names = candidates[index as usize].clone();
        let directory = self.published.get_mut(&names)?;
        directory.record.write(Some(File::Torn), Sync::Now);
        Some(names)
    }

    /// Everything written so far is made to last, as at an orderly shutdown.
    pub fn sync(&mut self) {
        for directory in self.pods.values_mut() {
            directory.durable = directory.now;
        }
        for directory in self.published.values_mut() {
            directory.exists.durable = directory.exists.now;
            directory.record.durable = directory.record.now.clone();
        }
        for file in self.staged.values_mut() {
            file.durable = file.now.clone();
        }
        for file in self.attached.values_mut() {
            file.durable = file.now.clone();
        }
        self.forget_what_is_gone();
    }

    /// The power goes: each write that was not synced is kept, lost or torn.
    pub fn lose_power(&mut self, rng: &mut Rng, faults: &mut Counts) {
        let mut lost = |rng: &mut Rng| {
            let lost = rng.chance(500);
            if lost {
                faults.add(Fault::LostWrite);
            }
            lost
        };
        for directory in self.pods.values_mut() {
            if !directory.is_synced() && lost(rng) {
                directory.now = directory.durable;
            }
        }
        for file in self.attached.values_mut() {
            if !file.is_synced() && lost(rng) {
                file.now = file.durable.clone();
            }
        }
        for file in self.staged.values_mut() {
            // The part that says which volume it is was synced with the intent and is never torn.
            if !file.is_synced() && lost(rng) {
                file.now = file.durable.clone();
            }
        }
        for directory in self.published.values_mut() {
            if !directory.exists.is_synced() && lost(rng) {
                directory.exists.now = directory.exists.durable;
            }
            if !directory.record.is_synced() && lost(rng) {
                directory.record.now = directory.record.durable.clone();
            }
        }
        let half_written = self.published.values_mut().filter(|it| !it.record.is_synced() && it.record.now.is_some());
        for directory in half_written {
            if rng.chance(600) {
                directory.record.now = Some(File::Torn);
                faults.add(Fault::TornWrite);
            }
        }
        self.keep_directories_of_files();
        self.sync();
    }

    /// A file cannot be there without its directory, nor a directory without the one above it.
    fn keep_directories_of_files(&mut self) {
        for ((pod, _), directory) in &mut self.published {
            directory.exists.now |= directory.record.now.is_some();
            if directory.exists.now {
                self.pods.entry(pod.clone()).or_default().now = true;
            }
        }
    }

    fn forget_what_is_gone(&mut self) {
        self.pods.retain(|_, it| it.now);
        self.published.retain(|_, it| it.exists.now);
        self.staged.retain(|_, it| it.now.is_some());
        self.attached.retain(|_, it| it.now.is_some());
    }
}

/// A volume's directory below a pod.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// The pod.
    pub pod: &'a PodUid,
    /// Which volume it truly is, whatever can be read of it.
    pub volume: &'a VolumeId,
    /// The plugin, which is in the path.
    pub plugin: &'a PluginName,
    /// The directory's own name.
    pub inner_name: &'a InnerName,
    /// Whether it is among the directories or among the devices, which is in the path too.
    pub mode: Mode,
    /// Its record, if that can be read.
    pub record: Option<&'a MountRecord>,
}

impl MountRecord {
    /// The mount that the record proves, if it proves one.
    pub fn proof(&self) -> Option<Proof> {
        match &self.record {
            Record::Intent | Record::Leaving { .. } => None,
            Record::Proven { proof, .. } => Some(*proof),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Setting;
    use windlass_core::spec::Capabilities;

    fn spec() -> Arc<VolumeSpec> {
        let mut setting = Setting::from_seed(1);
        setting.volumes[0].capabilities = Capabilities::default();
        Arc::new(setting.volumes[0].spec(&setting, &"p".into(), Default::default()))
    }

    fn intent() -> MountRecord {
        MountRecord { spec: spec(), record: Record::Intent, label: None }
    }

    fn proven() -> MountRecord {
        let proof = Proof { mount_id: 1, device: 2, root: 3, kind: 4 };
        let record = Record::Proven { boot: "b".into(), proof, revision: 0 };
        MountRecord { record, ..intent() }
    }

    #[test]
    fn what_was_synced_outlives_a_power_loss() {
        for seed in 0..50 {
            let mut disk = Disk::default();
            let place = Place::Publish(spec().id.clone(), "p".into());
            disk.make_publish_directory(&"p".into(), &spec());
            disk.write(&place, intent(), Sync::Now);
            disk.lose_power(&mut Rng::new(seed), &mut Counts::default());
            assert_eq!(disk.read(&place), Some(&intent()));
        }
    }

    #[test]
    fn what_was_not_synced_is_kept_or_lost_or_torn() {
        let (mut kept, mut lost, mut torn) = (0, 0, 0);
        let mut faults = Counts::default();
        for seed in 0..200 {
            let mut disk = Disk::default();
            let place = Place::Publish(spec().id.clone(), "p".into());
            disk.make_publish_directory(&"p".into(), &spec());
            disk.write(&place, intent(), Sync::Now);
            disk.write(&place, proven(), Sync::Later);
            disk.lose_power(&mut Rng::new(seed), &mut faults);
            match disk.read(&place) {
                Some(record) if record.proof().is_some() => kept += 1,
                Some(_) => lost += 1,
                None => torn += 1,
            }
            assert!(disk.has_record(&place));
        }
        assert!(kept > 20 && lost > 20 && torn > 20, "{kept} {lost} {torn}");
        assert_eq!(faults.of(Fault::TornWrite), torn);
    }

    #[test]
    fn a_pod_directory_with_something_in_it_is_not_removed() {
        let mut disk = Disk::default();
        let (pod, spec) = (PodUid::from("p"), spec());
        disk.make_publish_directory(&pod, &spec);
        assert_eq!(disk.remove_pod_directory(&pod), Err(spec.id.clone()));
        disk.remove_publish_directory(&pod, &spec.id);
        assert_eq!(disk.remove_pod_directory(&pod), Ok(()));
        assert_eq!(disk.pods().count(), 0);
    }
}
