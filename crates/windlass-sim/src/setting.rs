//! What does not change during a node's life: its drivers, its sources of pods, the volumes there are, the pods to come.

use crate::rng::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::ids::{
    BootId, DriverName, InnerName, ObjectName, OuterName, PluginName, PodUid, SourceName, VolumeId,
};
use windlass_core::spec::{Access, Attach, Capabilities, Concurrency, Identity, Mode, Refresh, Sharing, VolumeSpec};
use windlass_core::{expand, label};

/// One gibibyte, the unit in which volumes grow.
pub const GIBIBYTE: u64 = 1 << 30;

/// A node and everything around it, before anything happens.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Where all chance comes from.
    pub seed: u64,
    /// The CSI-like drivers.
    pub drivers: Vec<DriverName>,
    /// The sources of pods.
    pub sources: Vec<SourcePlan>,
    /// The volumes that pods can name.
    pub volumes: Vec<VolumePlan>,
    /// The pods that will ever be. They come and go as the script says.
    pub pods: Vec<PodPlan>,
    /// Whether somebody outside attaches volumes.
    pub attacher: bool,
    /// Whether finished pods keep their volumes.
    pub keep_terminated: bool,
    /// Whether containers may outlive their pod's deletion; if so nothing is assumed stopped until it is said.
    pub lingering: bool,
    /// How long what no source names at start stays, in milliseconds.
    pub orphan_delay: u64,
    /// The identities of the pods' volumes, by pod and index.
    ids: Vec<Vec<VolumeId>>,
    by_volume: BTreeMap<VolumeId, usize>,
    by_pod: BTreeMap<PodUid, usize>,
}

/// A source of pods.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// Its name.
    pub name: SourceName,
    /// Whether it counts versions. One that does not, delivers in order and never repeats old things.
    pub counted: bool,
}

/// A volume, or for volumes that are a pod's own the pattern of it.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// What it is called.
    pub name: Arc<str>,
    /// Its kind.
    pub plugin: PluginName,
    /// Its driver, as an index into [`Setting::drivers`].
    pub driver: Option<usize>,
    /// What can be done with it.
    pub capabilities: Capabilities,
    /// As a directory or as a device.
    pub mode: Mode,
    /// How many pods may hold it.
    pub sharing: Sharing,
    /// What its mounts are made of.
    pub medium: Medium,
    /// Whether it is mounted with the pods' labels.
    pub labelled: bool,
    /// The object without which it cannot be published.
    pub object: Option<ObjectName>,
    /// The size it starts with, if it can grow.
    pub size_bytes: Option<u64>,
}

/// What a mount is made of, which decides what identifies it and whether it outlives a reboot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A directory on the node's own disk. No mount at all, so a reboot does not take it.
    Directory,
    /// Memory, a new file system for each mount.
    Memory,
    /// Something behind a driver or a network: the same device whoever mounts it.
    Remote,
}

/// A pod that will come.
#[derive(Clone, Debug)]
pub struct PodPlan {
    /// Its identity.
    pub uid: PodUid,
    /// `namespace/name`.
    pub name: Arc<str>,
    /// Its source, as an index into [`Setting::sources`].
    pub source: usize,
    /// The SELinux label it asks for where volumes are labelled.
    pub label: Option<Arc<str>>,
    /// The volumes it names.
    pub uses: Vec<UsePlan>,
}

/// One volume of a pod.
#[derive(Clone, Debug)]
pub struct UsePlan {
    /// What the pod calls it.
    pub outer: OuterName,
    /// Which it is, as an index into [`Setting::volumes`].
    pub volume: usize,
    /// Whether the pod may write.
    pub access: Access,
    /// Whether the pod's idea of the volume makes no sense.
    pub invalid: bool,
}

impl VolumePlan {
    /// The identity of the volume as `pod` names it.
    pub fn id(&self, pod: &PodUid) -> VolumeId {
        let text = match self.capabilities.identity {
            Identity::Shared => format!("{}/{}", self.plugin, self.name),
            Identity::PerPod => format!("{}/{}-{}", self.plugin, pod, self.name),
        };
        VolumeId::from(text.as_str())
    }

    /// The volume as its source describes it to `pod` while it should have `size`.
    pub fn spec(&self, setting: &Setting, pod: &PodUid, size: expand::Size) -> VolumeSpec {
        VolumeSpec {
            id: self.id(pod),
            plugin: self.plugin.clone(),
            driver: self.driver.map(|it| setting.drivers[it].clone()),
            inner_name: InnerName::from(&*self.name),
            capabilities: self.capabilities.clone(),
            mode: self.mode,
            sharing: self.sharing,
            group: None,
            size,
        }
    }

    /// The wish that a pod with this label has for the volume.
    pub fn wish(&self, label: Option<&Arc<str>>) -> label::Wish {
        label::Wish { original: label.cloned(), enforced: self.labelled }
    }
}

impl Setting {
    /// A setting without anything in it, to be filled by hand.
    pub fn empty(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// The node of a seed, with its volumes and without its pods.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::keyed(seed, &[0]);
        let mut setting = Self::empty(seed);
        for index in 0..rng.between(1, 3) {
            let name = format!("driver-{index}.example");
            setting.drivers.push(DriverName::from(name.as_str()));
        }
        setting.sources.push(SourcePlan { name: SourceName::from("api"), counted: true });
        if rng.chance(400) {
            setting.sources.push(SourcePlan { name: SourceName::from("directory"), counted: rng.chance(300) });
        }
        for index in 0..rng.between(3, 10) {
            let volume = random_volume(&mut rng, index, setting.drivers.len());
            setting.volumes.push(volume);
        }
        setting.attacher =
            setting.volumes.iter().any(|it| it.capabilities.attach == Attach::ByController) || rng.chance(300);
        setting.keep_terminated = rng.chance(150);
        setting.lingering = rng.chance(500);
        setting.orphan_delay = if rng.chance(600) { 10 * 60 * 1000 } else { 0 };
        setting
    }

    /// Adds a pod and returns its index.
    pub fn add_pod(&mut self, pod: PodPlan) -> usize {
        let index = self.pods.len();
        let ids: Vec<VolumeId> = pod.uses.iter().map(|it| self.volumes[it.volume].id(&pod.uid)).collect();
        for (id, used) in ids.iter().zip(&pod.uses) {
            self.by_volume.insert(id.clone(), used.volume);
        }
        self.ids.push(ids);
        self.by_pod.insert(pod.uid.clone(), index);
        self.pods.push(pod);
        index
    }

    /// The identity of the volume that a pod names with this index.
    pub fn id(&self, pod: usize, index: usize) -> &VolumeId {
        &self.ids[pod][index]
    }

    /// The plan of a volume, unless nobody ever planned such a volume.
    pub fn volume(&self, id: &VolumeId) -> Option<&VolumePlan> {
        self.by_volume.get(id).map(|&it| &self.volumes[it])
    }

    /// The index of a volume's plan.
    pub fn volume_index(&self, id: &VolumeId) -> Option<usize> {
        self.by_volume.get(id).copied()
    }

    /// The index of a pod.
    pub fn pod_index(&self, uid: &PodUid) -> Option<usize> {
        self.by_pod.get(uid).copied()
    }

    /// The volumes that a controller attaches.
    pub fn attached_by_controller(&self) -> impl Iterator<Item = &VolumeId> {
        self.by_volume
            .iter()
            .filter(|(_, plan)| self.volumes[**plan].capabilities.attach == Attach::ByController)
            .map(|(id, _)| id)
    }

    /// The identity of the `number`th boot.
    pub fn boot(number: u64) -> BootId {
        BootId::from(format!("boot-{number}").as_str())
    }
}

/// A volume of any kind.
fn random_volume(rng: &mut Rng, index: u64, drivers: usize) -> VolumePlan {
    match rng.below(100) {
        0..10 => scratch(rng, index),
        10..25 => content(rng, index),
        25..35 => network_share(rng, index),
        35..45 => inline(rng, index, drivers),
        _ => disk(rng, index, drivers),
    }
}

/// Like `emptyDir`.
fn scratch(rng: &mut Rng, index: u64) -> VolumePlan {
    VolumePlan {
        name: format!("scratch-{index}").into(),
        plugin: PluginName::from("kubernetes.io/empty-dir"),
        driver: None,
        capabilities: Capabilities { patience: patience(rng), ..Capabilities::default() },
        mode: Mode::Filesystem,
        sharing: Sharing::Shared,
        medium: *rng.pick(&[Medium::Directory, Medium::Memory]),
        labelled: false,
        object: None,
        size_bytes: None,
    }
}

/// Like `configMap` and `secret`.
fn content(rng: &mut Rng, index: u64) -> VolumePlan {
    VolumePlan {
        name: format!("content-{index}").into(),
        plugin: PluginName::from("kubernetes.io/configmap"),
        capabilities: Capabilities { refresh: Refresh::OnChange, patience: patience(rng), ..Capabilities::default() },
        medium: *rng.pick(&[Medium::Directory, Medium::Memory]),
        object: Some(ObjectName::from(format!("ConfigMap default/content-{index}").as_str())),
        ..scratch(rng, index)
    }
}

/// Like `nfs`: shared, with nothing to attach or stage, and no driver.
fn network_share(rng: &mut Rng, index: u64) -> VolumePlan {
    VolumePlan {
        name: format!("share-{index}").into(),
        plugin: PluginName::from("kubernetes.io/nfs"),
        capabilities: Capabilities {
            identity: Identity::Shared,
            concurrency: *rng.pick(&CONCURRENCIES),
            patience: patience(rng),
            ..Capabilities::default()
        },
        medium: Medium::Remote,
        ..scratch(rng, index)
    }
}

/// Like an inline CSI volume.
fn inline(rng: &mut Rng, index: u64, drivers: usize) -> VolumePlan {
    VolumePlan {
        name: format!("inline-{index}").into(),
        plugin: PluginName::from("kubernetes.io/csi"),
        driver: Some(rng.index(drivers)),
        capabilities: Capabilities { refresh: refresh(rng), patience: patience(rng), ..Capabilities::default() },
        medium: Medium::Memory,
        ..scratch(rng, index)
    }
}

/// Like a persistent CSI volume, with any mix of abilities.
fn disk(rng: &mut Rng, index: u64, drivers: usize) -> VolumePlan {
    let grows = rng.chance(350);
    let block = rng.chance(150);
    VolumePlan {
        name: format!("disk-{index}").into(),
        plugin: PluginName::from("kubernetes.io/csi"),
        driver: Some(rng.index(drivers)),
        capabilities: Capabilities {
            attach: *rng.pick(&[Attach::ByController, Attach::ByController, Attach::ByNode, Attach::NotNeeded]),
            stage: rng.chance(800),
            block,
            expand: grows,
            refresh: refresh(rng),
            identity: Identity::Shared,
            concurrency: *rng.pick(&CONCURRENCIES),
            patience: patience(rng),
        },
        mode: if block { Mode::Block } else { Mode::Filesystem },
        sharing: if rng.chance(200) { Sharing::OnePod } else { Sharing::Shared },
        medium: Medium::Remote,
        labelled: !block && rng.chance(250),
        object: None,
        size_bytes: grows.then_some(GIBIBYTE),
    }
}

const CONCURRENCIES: [Concurrency; 3] = [Concurrency::Alone, Concurrency::ReleasesOverlap, Concurrency::PodsOverlap];

fn refresh(rng: &mut Rng) -> Refresh {
    match rng.below(10) {
        0 => Refresh::Every(Duration::from_secs(rng.between(600, 3600))),
        1..3 => Refresh::OnChange,
        _ => Refresh::Never,
    }
}

fn patience(rng: &mut Rng) -> Duration {
    Duration::from_secs(rng.between(10, 150))
}
