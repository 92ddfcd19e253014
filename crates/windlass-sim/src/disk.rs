//! The node's disk: directories of pods and volumes, and the records, which lie apart from them.
//!
//! Everything has two layers: what the process reads and writes, and what a power loss leaves. A write reaches the lower
//! layer when it is synced. What was not synced is there, gone, or torn after a power loss; what was synced is there.
//! Records are written in the ways that a [`Write`] names, and a tear leaves what it leaves of each.

use crate::faults::{Counts, Fault};
use crate::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_core::event::{MountPlace, Record};
use windlass_core::flight::{How, Survives, Write};
use windlass_core::ids::{InnerName, PluginName, PodUid, VolumeId};
use windlass_core::operation::Proof;
use windlass_core::spec::{Mode, VolumeSpec};

/// Something written, in both layers.
#[derive(Clone, Debug, Default)]
struct Layered<T> {
    now: T,
    durable: T,
}

impl<T: Clone + PartialEq> Layered<T> {
    fn is_synced(&self) -> bool {
        self.now == self.durable
    }

    fn sync(&mut self) {
        self.durable = self.now.clone();
    }
}

/// The file of a record.
#[derive(Clone, Debug, Default)]
struct RecordFile {
    layers: Layered<Option<File>>,
    /// What is left of what was not synced if it is torn.
    torn: Option<File>,
    /// Whether it was written in its place, so that it can be added to.
    begun: bool,
}

impl RecordFile {
    fn write(&mut self, record: MountRecord, Write { how, survives }: Write) {
        let is_first = how == How::First && self.layers.now.is_none();
        self.torn = match how {
            // The line before it counts.
            How::Added if self.begun && self.layers.is_synced() => self.layers.durable.clone(),
            // Nothing of it is in the place of the one before until all of it is.
            How::Added | How::Anew if survives == Survives::CrashWhole => self.layers.durable.clone(),
            How::First | How::Added | How::Anew => Some(File::Torn),
        };
        self.begun = is_first || (how == How::Added && self.begun);
        self.layers.now = Some(File::Whole(record));
        if survives == Survives::PowerLoss {
            self.layers.sync();
        }
    }

    /// Marks it, without touching what is in it.
    fn retire(&mut self, with_pod: bool) {
        if self.layers.is_synced() {
            self.torn = self.layers.durable.clone();
        }
        if let Some(File::Whole(record)) = &mut self.layers.now {
            record.record = Record::Leaving { with_pod };
        }
    }

    fn remove(&mut self) {
        self.layers.now = None;
        self.begun = false;
    }

    fn read(&self) -> Option<&MountRecord> {
        match self.layers.now.as_ref()? {
            File::Whole(record) => Some(record),
            File::Torn => None,
        }
    }

    fn lose_power(&mut self, rng: &mut Rng, faults: &mut Counts) {
        if self.layers.is_synced() {
            return;
        }
        if rng.chance(500) {
            faults.add(Fault::LostWrite);
            self.layers.now = self.layers.durable.clone();
        } else if self.layers.now.is_some() && rng.chance(600) {
            faults.add(Fault::TornWrite);
            self.layers.now = self.torn.clone();
        }
    }
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

/// What there is of one volume in a pod.
#[derive(Clone, Debug)]
struct Slot {
    plugin: PluginName,
    inner_name: InnerName,
    mode: Mode,
    directory: Layered<bool>,
    record: RecordFile,
}

impl Slot {
    fn of(spec: &VolumeSpec) -> Self {
        Self {
            plugin: spec.plugin.clone(),
            inner_name: spec.inner_name.clone(),
            mode: spec.mode,
            directory: Layered::default(),
            record: RecordFile::default(),
        }
    }

    fn is_there(&self) -> bool {
        self.directory.now || self.record.layers.now.is_some()
    }
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pods: BTreeMap<PodUid, Layered<bool>>,
    slots: BTreeMap<(PodUid, VolumeId), Slot>,
    staged: BTreeMap<VolumeId, RecordFile>,
    attached: BTreeMap<VolumeId, Layered<Option<AttachRecord>>>,
}

impl Disk {
    /// Makes the directory of a pod.
    pub fn make_pod_directory(&mut self, pod: &PodUid) {
        self.pods.entry(pod.clone()).or_default().now = true;
    }

    /// Makes the directory of a volume below a pod; says whether it was not there.
    pub fn make_publish_directory(&mut self, pod: &PodUid, spec: &VolumeSpec) -> bool {
        self.make_pod_directory(pod);
        let slot = self.slots.entry((pod.clone(), spec.id.clone())).or_insert_with(|| Slot::of(spec));
        !std::mem::replace(&mut slot.directory.now, true)
    }

    /// Is there a directory that stands for what is at this place?
    pub fn has_directory(&self, place: &MountPlace) -> bool {
        match place {
            MountPlace::Stage(_) => false,
            MountPlace::Publish(volume, pod) => {
                self.slots.get(&(pod.clone(), volume.clone())).is_some_and(|it| it.directory.now)
            }
        }
    }

    /// Writes a record of a mount.
    pub fn write(&mut self, place: &MountPlace, record: MountRecord, write: Write) {
        let file = match place {
            MountPlace::Stage(volume) => self.staged.entry(volume.clone()).or_default(),
            MountPlace::Publish(volume, pod) => {
                let slot = self.slots.entry((pod.clone(), volume.clone()));
                &mut slot.or_insert_with(|| Slot::of(&record.spec)).record
            }
        };
        file.write(record, write);
    }

    fn file(&self, place: &MountPlace) -> Option<&RecordFile> {
        match place {
            MountPlace::Stage(volume) => self.staged.get(volume),
            MountPlace::Publish(volume, pod) => self.slots.get(&(pod.clone(), volume.clone())).map(|it| &it.record),
        }
    }

    fn file_mut(&mut self, place: &MountPlace) -> Option<&mut RecordFile> {
        match place {
            MountPlace::Stage(volume) => self.staged.get_mut(volume),
            MountPlace::Publish(volume, pod) => {
                self.slots.get_mut(&(pod.clone(), volume.clone())).map(|it| &mut it.record)
            }
        }
    }

    /// What stands in the record of a mount. A torn one reads as nothing.
    pub fn read(&self, place: &MountPlace) -> Option<&MountRecord> {
        self.file(place)?.read()
    }

    /// Would there be a record of this mount after a power loss?
    pub fn has_durable_record(&self, place: &MountPlace) -> bool {
        self.file(place).is_some_and(|it| it.layers.durable.is_some())
    }

    /// The records of mounts that a power loss may change and must not take.
    pub fn durable_records(&self) -> impl Iterator<Item = (MountPlace, &VolumeSpec)> {
        let staged = self.staged.iter().map(|(volume, it)| (MountPlace::Stage(volume.clone()), it));
        let slots = self.slots.iter();
        let published = slots.map(|((pod, volume), it)| (MountPlace::Publish(volume.clone(), pod.clone()), &it.record));
        staged.chain(published).filter_map(|(place, it)| match (&it.layers.now, &it.layers.durable) {
            (Some(File::Whole(_)), Some(File::Whole(record))) => Some((place, &*record.spec)),
            (_, _) => None,
        })
    }

    /// Marks the record of a mount: it proves nothing any more.
    pub fn retire(&mut self, place: &MountPlace, with_pod: bool) {
        if let Some(file) = self.file_mut(place) {
            file.retire(with_pod);
        }
    }

    /// Removes the record of a mount.
    pub fn remove_record(&mut self, place: &MountPlace) {
        if let Some(file) = self.file_mut(place) {
            file.remove();
        }
    }

    /// Removes the directory of a volume below a pod.
    pub fn remove_publish_directory(&mut self, pod: &PodUid, volume: &VolumeId) {
        if let Some(slot) = self.slots.get_mut(&(pod.clone(), volume.clone())) {
            slot.directory.now = false;
        }
    }

    /// Removes a pod's directory, unless there is something in it.
    pub fn remove_pod_directory(&mut self, pod: &PodUid) -> Result<(), VolumeId> {
        let mut below =
            self.slots.range((pod.clone(), VolumeId::from(""))..).take_while(|((owner, _), _)| owner == pod);
        if let Some(((_, volume), _)) = below.find(|(_, it)| it.directory.now) {
            return Err(volume.clone());
        }
        if let Some(directory) = self.pods.get_mut(pod) {
            directory.now = false;
        }
        Ok(())
    }

    /// Writes the record of an attachment, as ever so that it outlives a power loss.
    pub fn write_attached(&mut self, record: AttachRecord) {
        let file = self.attached.entry(record.spec.id.clone()).or_default();
        file.now = Some(record);
        file.sync();
    }

    /// What stands in the record of an attachment.
    pub fn read_attached(&self, volume: &VolumeId) -> Option<&AttachRecord> {
        self.attached.get(volume)?.now.as_ref()
    }

    /// Removes the record of an attachment.
    pub fn remove_attached(&mut self, volume: &VolumeId) {
        if let Some(file) = self.attached.get_mut(volume) {
            file.now = None;
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
        self.staged.values().filter_map(RecordFile::read)
    }

    /// The volumes of pods that have a directory or a record, each with its record if that can be read.
    pub fn published(&self) -> impl Iterator<Item = Published<'_>> {
        let there = self.slots.iter().filter(|(_, it)| it.is_there());
        there.map(|((pod, volume), it)| Published {
            pod,
            volume,
            plugin: &it.plugin,
            inner_name: &it.inner_name,
            mode: it.mode,
            record: it.record.read(),
        })
    }

    /// Somebody damages the `pick`th of the records that may be damaged; says which.
    pub fn corrupt(&mut self, pick: u64, may: impl Fn(&PodUid, &VolumeId) -> bool) -> Option<(PodUid, VolumeId)> {
        let candidates = self.slots.iter().filter(|((pod, volume), it)| it.record.read().is_some() && may(pod, volume));
        let candidates: Vec<(PodUid, VolumeId)> = candidates.map(|(names, _)| names.clone()).collect();
        let index = pick.checked_rem(candidates.len() as u64)?;
        let names = candidates[index as usize].clone();
        let file = &mut self.slots.get_mut(&names)?.record;
        file.layers.now = Some(File::Torn);
        file.layers.sync();
        Some(names)
    }

    /// Everything written so far is made to last, as at an orderly shutdown.
    pub fn sync(&mut self) {
        self.pods.values_mut().for_each(Layered::sync);
        self.attached.values_mut().for_each(Layered::sync);
        self.staged.values_mut().for_each(|it| it.layers.sync());
        for slot in self.slots.values_mut() {
            slot.directory.sync();
            slot.record.layers.sync();
        }
        self.pods.retain(|_, it| it.now);
        self.slots.retain(|_, it| it.is_there());
        self.staged.retain(|_, it| it.layers.now.is_some());
        self.attached.retain(|_, it| it.now.is_some());
    }

    /// The power goes: each write that was not synced is kept, lost or torn.
    pub fn lose_power(&mut self, rng: &mut Rng, faults: &mut Counts) {
        fn lose<T: Clone + PartialEq>(it: &mut Layered<T>, rng: &mut Rng, faults: &mut Counts) {
            if !it.is_synced() && rng.chance(500) {
                faults.add(Fault::LostWrite);
                it.now = it.durable.clone();
            }
        }
        self.pods.values_mut().for_each(|it| lose(it, rng, faults));
        self.attached.values_mut().for_each(|it| lose(it, rng, faults));
        self.staged.values_mut().for_each(|it| it.lose_power(rng, faults));
        for ((pod, _), slot) in &mut self.slots {
            lose(&mut slot.directory, rng, faults);
            slot.record.lose_power(rng, faults);
            // No directory is there without the one above it.
            if slot.directory.now {
                self.pods.entry(pod.clone()).or_default().now = true;
            }
        }
        self.sync();
    }
}

/// A volume in a pod.
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

    const SYNCED: Write = Write { how: How::First, survives: Survives::PowerLoss };

    fn spec() -> Arc<VolumeSpec> {
        let mut setting = Setting::from_seed(1);
        setting.volumes[0].capabilities = Capabilities::default();
        Arc::new(setting.volumes[0].spec(&setting, &"p".into(), Default::default()))
    }

    fn place() -> MountPlace {
        MountPlace::Publish(spec().id.clone(), "p".into())
    }

    fn intent() -> MountRecord {
        MountRecord { spec: spec(), record: Record::Intent, label: None }
    }

    fn proven() -> MountRecord {
        let proof = Proof { mount_id: 1, device: 2, root: 3, kind: 4 };
        let record = Record::Proven { boot: "b".into(), proof, revision: 0 };
        MountRecord { record, ..intent() }
    }

    /// How often, of 200 power losses, a proof that was written so over a synced intent is kept, lost, and torn.
    fn after_power_losses(how: How, survives: Survives) -> (u64, u64, u64) {
        let (mut kept, mut lost, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let mut disk = Disk::default();
            disk.write(&place(), intent(), SYNCED);
            disk.write(&place(), proven(), Write { how, survives });
            disk.lose_power(&mut Rng::new(seed), &mut Counts::default());
            assert!(disk.published().next().is_some());
            match disk.read(&place()) {
                Some(record) if record.proof().is_some() => kept += 1,
                Some(_) => lost += 1,
                None => torn += 1,
            }
        }
        (kept, lost, torn)
    }

    #[test]
    fn what_was_synced_outlives_a_power_loss() {
        for seed in 0..50 {
            let mut disk = Disk::default();
            disk.write(&place(), intent(), SYNCED);
            disk.lose_power(&mut Rng::new(seed), &mut Counts::default());
            assert_eq!(disk.read(&place()), Some(&intent()));
        }
    }

    #[test]
    fn what_replaces_a_record_and_is_not_synced_is_kept_or_lost_or_torn_unless_it_was_whole_first() {
        let (kept, lost, torn) = after_power_losses(How::Anew, Survives::Crash);
        assert!(kept > 20 && lost > 20 && torn > 20, "{kept} {lost} {torn}");
        let (kept, lost, torn) = after_power_losses(How::Anew, Survives::CrashWhole);
        assert!(kept > 20 && lost > 100 && torn == 0, "{kept} {lost} {torn}");
    }

    #[test]
    fn what_is_added_to_a_record_never_costs_what_was_there_before() {
        let (kept, lost, torn) = after_power_losses(How::Added, Survives::Crash);
        assert!(kept > 20 && lost > 100 && torn == 0, "{kept} {lost} {torn}");
    }

    #[test]
    fn a_mark_may_be_lost_with_the_power_and_the_record_is_not() {
        let mut marked = 0;
        for seed in 0..100 {
            let mut disk = Disk::default();
            disk.write(&place(), proven(), SYNCED);
            disk.retire(&place(), true);
            assert_eq!(disk.read(&place()).and_then(MountRecord::proof), None);
            disk.lose_power(&mut Rng::new(seed), &mut Counts::default());
            let record = disk.read(&place()).expect("it was synced");
            marked += u32::from(record.record == Record::Leaving { with_pod: true });
        }
        assert!((10..90).contains(&marked), "{marked}");
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
