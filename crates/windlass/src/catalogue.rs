//! What there is to know of a type of volume, as data.
//!
//! A type is a file in `plugin/`, where its description stands beside the calls that it describes, and a line in
//! [`ALL`]. Whatever is done with a volume asks its description; outside of `plugin/` no single one can be named. Only
//! what reads manifests looks at their fields.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, Volume};
use k8s_openapi::api::storage::v1::CSIDriver;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::flight::Trace;
use windlass_core::ids::DriverName;
use windlass_core::spec::{Access, Capabilities, VolumeSpec};

use crate::plugin::{ALL, Plugin};

/// What there is to know of a type of volume (E-400..E-412).
pub struct VolumeType {
    /// What its plugin is called (E-66).
    pub name: &'static str,
    /// How its volumes are made and taken away.
    pub plugin: &'static dyn Plugin,
    /// Which volumes that a pod describes itself are its own (P-41).
    pub in_pod: fn(&Volume) -> bool,
    /// Which persistent volumes are its own (P-41).
    pub persistent: fn(&PersistentVolumeSpec) -> bool,
    /// What can be done with a volume.
    pub capabilities: fn(&Circumstances<'_>) -> Capabilities,
    /// What tells a persistent volume that pods share from the others of its type (E-64); empty if nothing does.
    pub own_name: fn(&PersistentVolume) -> String,
    /// What else tells a volume that a pod describes itself from another in its place: with another one it is another volume.
    pub variant: fn(&Volume) -> String,
    /// What a container may assume of a directory of this type that its pod has like this.
    pub attributes: fn(Access) -> Attributes,
    /// Who fills it.
    pub content: Content,
    /// What limits the room that a volume takes on the node's disk (E-89).
    pub limit: fn(&Volume) -> Limit<'_>,
    /// What tells after a crash that something of a publish may be there.
    pub trace: Trace,
    /// Who can hold up its calls.
    pub held_up_by: HeldUpBy,
    /// Whether the mount options of a persistent volume mean something to it (P-218).
    pub mount_options: bool,
    /// Whether names of volumes may have slashes in them, which their directories have not.
    pub slashed_names: bool,
    /// Why it sets up no volume at all, if it does not.
    pub refusal: Option<Refused>,
}

/// What is known of a volume when its capabilities are asked for.
#[derive(Clone, Debug)]
pub struct Circumstances<'a> {
    /// Where it is described.
    pub origin: &'a Origin<'a>,
    /// The object of its driver.
    pub object: Option<&'a CSIDriver>,
    /// What its driver said of itself.
    pub registered: Option<&'a RegisteredDriver>,
    /// Who attaches volumes of its driver.
    pub attacher: Attacher,
    /// How often a driver that asks for it is called again.
    pub republish_every: Duration,
    /// How long one call of its driver may take.
    pub deadline: Duration,
}

/// What a container may assume of a volume (E-396, P-27..P-39).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// It must not be written.
    pub read_only: bool,
    /// Its ownership is windlass's to change.
    pub managed: bool,
    /// The container runtime may relabel it for SELinux.
    pub relabel: bool,
}

/// Who fills a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Its pod, and it is nowhere else: that it was lost is told.
    Scratch,
    /// windlass, from objects and from what the pod says of itself (P-113).
    Written,
    /// Somebody else.
    Foreign,
}

/// What limits the room that a volume takes on the node's disk.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit<'a> {
    /// Nothing: it does not lie there.
    None,
    /// What the whole pod may take.
    OfPod,
    /// The same, or this if it is less.
    Own(&'a Quantity),
}

/// Who can hold up the calls of a type, and so which of them wait for each other (I-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldUpBy {
    /// The file systems below the root, as those of all such types.
    Root,
    /// Anything: a path of the host, a device, whoever gives tokens.
    Anything,
    /// The driver of the volume.
    Driver,
}

/// Why a type sets up no volume at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// In the kubelet's words.
    pub text: &'static str,
    /// What these leave out.
    pub note: &'static str,
}

impl VolumeType {
    /// A type that nothing is special about: a directory in its pod, which somebody else fills. What differs is said by
    /// its own description.
    pub const fn plain(name: &'static str, plugin: &'static dyn Plugin) -> Self {
        Self {
            name,
            plugin,
            in_pod: |_| false,
            persistent: |_| false,
            capabilities: |_| Capabilities::default(),
            own_name: |volume| volume.metadata.name.clone().unwrap_or_default(),
            variant: |_| String::new(),
            attributes: |access| Attributes { read_only: access == Access::ReadOnly, managed: false, relabel: false },
            content: Content::Foreign,
            limit: |_| Limit::None,
            trace: Trace::Directory,
            held_up_by: HeldUpBy::Anything,
            mount_options: false,
            slashed_names: false,
            refusal: None,
        }
    }

    /// The type whose plugin has this name.
    pub fn named(plugin: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|it| it.name == plugin)
    }

    /// The type whose volumes lie in a directory of this name.
    pub fn in_directory(name: &[u8]) -> Option<&'static Self> {
        let escaped = |it: u8| if it == b'/' { b'~' } else { it };
        ALL.iter().copied().find(|it| it.name.bytes().map(escaped).eq(name.iter().copied()))
    }

    /// The type of a volume that the engine knows.
    pub fn of(spec: &VolumeSpec) -> Option<&'static Self> {
        Self::named(spec.plugin.as_str())
    }

    /// The type whose volume this is (E-381).
    pub fn find(origin: &Origin<'_>) -> Result<&'static Self, Error> {
        find_in(ALL, origin)
    }

    fn is_of(&self, origin: &Origin<'_>) -> bool {
        match origin {
            Origin::Pod(volume) => (self.in_pod)(volume),
            Origin::Persistent(volume) => volume.spec.as_ref().is_some_and(self.persistent),
        }
    }
}

impl PartialEq for VolumeType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for VolumeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The driver of a volume, if its calls are those of a driver.
pub(crate) fn driver_of(spec: &VolumeSpec) -> Option<&DriverName> {
    spec.driver.as_ref().filter(|_| VolumeType::of(spec).is_some_and(|it| it.held_up_by == HeldUpBy::Driver))
}

fn find_in<'t>(types: &[&'t VolumeType], origin: &Origin<'_>) -> Result<&'t VolumeType, Error> {
    let mut matching = types.iter().copied().filter(|it| it.is_of(origin));
    let Some(one) = matching.next() else { return Err(Error::NoneMatched) };
    match matching.next() {
        None => Ok(one),
        Some(other) => {
            let all = [one, other].into_iter().chain(matching);
            Err(Error::SeveralMatched(all.map(|it| it.name.into()).collect()))
        }
    }
}

/// Why no plugin was found (E-381).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// No plugin knows such a volume.
    #[error("no volume plugin matched")]
    NoneMatched,
    /// The volume is of several kinds at once.
    #[error("multiple volume plugins matched: {}", .0.join(","))]
    SeveralMatched(Vec<String>),
}

/// Where a volume is described (E-3).
#[derive(Clone, PartialEq, Debug)]
pub enum Origin<'a> {
    /// In the pod that uses it.
    Pod(&'a Volume),
    /// In an object of its own, which a claim led to.
    Persistent(Arc<PersistentVolume>),
}

impl Origin<'_> {
    /// What its directory is called: the pod's name for it, or the persistent volume's name (P-23).
    pub fn name(&self) -> &str {
        match self {
            Self::Pod(volume) => &volume.name,
            Self::Persistent(volume) => volume.metadata.name.as_deref().unwrap_or_default(),
        }
    }

    /// The persistent volume, if it is one.
    pub fn persistent(&self) -> Option<&PersistentVolume> {
        match self {
            Self::Pod(_) => None,
            Self::Persistent(volume) => Some(volume),
        }
    }

    /// The CSI driver, if it has one.
    pub fn driver(&self) -> Option<&str> {
        match self {
            Self::Pod(volume) => volume.csi.as_ref().map(|it| it.driver.as_str()),
            Self::Persistent(volume) => volume.spec.as_ref()?.csi.as_ref().map(|it| it.driver.as_str()),
        }
    }
}

/// The type of a volume that the kubelet sets up and windlass does not, if it is of one.
pub(crate) fn foreign_kind(origin: &Origin<'_>) -> Option<&'static str> {
    let (nfs, iscsi, fc, flex) = match origin {
        Origin::Pod(it) => (it.nfs.is_some(), it.iscsi.is_some(), it.fc.is_some(), it.flex_volume.is_some()),
        Origin::Persistent(volume) => {
            let it = volume.spec.as_ref()?;
            (it.nfs.is_some(), it.iscsi.is_some(), it.fc.is_some(), it.flex_volume.is_some())
        }
    };
    let kinds = [(nfs, "nfs"), (iscsi, "iscsi"), (fc, "fc"), (flex, "flexVolume")];
    kinds.into_iter().find(|(is, _)| *is).map(|(_, name)| name)
}

/// What a CSI driver said of itself when it registered (C-51).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisteredDriver {
    /// `STAGE_UNSTAGE_VOLUME`.
    pub stage: bool,
    /// `EXPAND_VOLUME`.
    pub expand: bool,
    /// Where this node is, in the driver's words: labels of the node, as far as affinities go (C-25).
    pub topology: BTreeMap<String, String>,
}

/// The drivers that are registered on this node.
pub type RegisteredDrivers = BTreeMap<DriverName, RegisteredDriver>;

/// Who attaches volumes that must be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attacher {
    /// A controller of the cluster.
    #[default]
    Controller,
    /// This node.
    Node,
}

#[cfg(test)]
mod tests;
