//! The kinds of volumes this node knows, as data: which volumes are theirs, and what they can do with them.
//!
//! How they do it stands in the plugins. Only CSI volumes have abilities of their own each; the others are as their kind.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, Volume},
    storage::v1::CSIDriver,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use windlass_core::{
    ids::{DriverName, PluginName},
    spec::{Attach, Capabilities, Concurrency, Identity, Refresh},
};

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

/// A kind of volume. The order is the kubelet's (P-12).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Scratch space.
    EmptyDir,
    /// A clone of a repository, which no node makes any more (P-10).
    GitRepo,
    /// A path of the host.
    HostPath,
    /// The keys of a secret.
    Secret,
    /// What the pod knows of itself.
    DownwardApi,
    /// The keys of a config map.
    ConfigMap,
    /// Several of the above, and tokens.
    Projected,
    /// A directory or device of this node, as a persistent volume.
    LocalVolume,
    /// What a driver provides.
    Csi,
    /// An image, which is the container runtime's business (E-157).
    Image,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Self; 10] = [
        Self::EmptyDir,
        Self::GitRepo,
        Self::HostPath,
        Self::Secret,
        Self::DownwardApi,
        Self::ConfigMap,
        Self::Projected,
        Self::LocalVolume,
        Self::Csi,
        Self::Image,
    ];

    /// What its plugin is called.
    pub fn plugin_name(self) -> &'static str {
        match self {
            Self::EmptyDir => "kubernetes.io/empty-dir",
            Self::GitRepo => "kubernetes.io/git-repo",
            Self::HostPath => "kubernetes.io/host-path",
            Self::Secret => "kubernetes.io/secret",
            Self::DownwardApi => "kubernetes.io/downward-api",
            Self::ConfigMap => "kubernetes.io/configmap",
            Self::Projected => "kubernetes.io/projected",
            Self::LocalVolume => "kubernetes.io/local-volume",
            Self::Csi => "kubernetes.io/csi",
            Self::Image => "kubernetes.io/image",
        }
    }

    /// The kind whose plugin has this name.
    pub fn of_plugin(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.plugin_name() == name)
    }

    /// Is this volume of this kind (P-41)?
    pub fn is_of(self, origin: &Origin<'_>) -> bool {
        match origin {
            Origin::Pod(volume) => match self {
                Self::EmptyDir => volume.empty_dir.is_some(),
                Self::GitRepo => volume.git_repo.is_some(),
                Self::HostPath => volume.host_path.is_some(),
                Self::Secret => volume.secret.is_some(),
                Self::DownwardApi => volume.downward_api.is_some(),
                Self::ConfigMap => volume.config_map.is_some(),
                Self::Projected => volume.projected.is_some(),
                Self::Csi => volume.csi.is_some(),
                Self::Image => volume.image.is_some(),
                Self::LocalVolume => false,
            },
            Origin::Persistent(volume) => volume.spec.as_ref().is_some_and(|spec| match self {
                Self::HostPath => spec.host_path.is_some(),
                Self::LocalVolume => spec.local.is_some(),
                Self::Csi => spec.csi.is_some(),
                Self::EmptyDir
                | Self::GitRepo
                | Self::Secret
                | Self::DownwardApi
                | Self::ConfigMap
                | Self::Projected
                | Self::Image => false,
            }),
        }
    }

    /// Is its content written by windlass and read-only for pods (P-113)?
    pub fn is_written(self) -> bool {
        match self {
            Self::Secret | Self::DownwardApi | Self::ConfigMap | Self::Projected => true,
            Self::EmptyDir | Self::GitRepo | Self::HostPath | Self::LocalVolume | Self::Csi | Self::Image => false,
        }
    }
}

/// What there is to know of a kind of volume (E-400..E-412).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plugin {
    /// The kind.
    pub kind: Kind,
    /// The plugin's name.
    pub name: PluginName,
    /// What it can do with a volume; for CSI see [`csi`].
    pub capabilities: Capabilities,
    /// Whether the mount options of a persistent volume mean something to it (P-218).
    pub mount_options: bool,
    /// Why it sets up no volume at all, if it does not.
    pub refuses: Option<&'static str>,
}

/// The plugins of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalogue {
    plugins: Vec<Plugin>,
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

impl Default for Catalogue {
    /// All that windlass knows.
    fn default() -> Self {
        Self { plugins: Kind::ALL.map(plugin).into() }
    }
}

impl Catalogue {
    /// These kinds alone: on this node the others are as unknown as a kind nobody has heard of.
    pub fn of(kinds: &[Kind]) -> Self {
        let plugins = Kind::ALL.into_iter().filter(|it| kinds.contains(it)).map(plugin).collect();
        Self { plugins }
    }

    /// The plugin whose volume this is (E-381).
    pub fn find(&self, origin: &Origin<'_>) -> Result<&Plugin, Error> {
        let mut matching = self.plugins.iter().filter(|it| it.kind.is_of(origin));
        let Some(plugin) = matching.next() else { return Err(Error::NoneMatched) };
        match matching.next() {
            None => Ok(plugin),
            Some(other) => {
                let all = [plugin, other].into_iter().chain(matching);
                Err(Error::SeveralMatched(all.map(|it| it.name.as_str().into()).collect()))
            }
        }
    }
}

/// The type of a volume that the kubelet sets up and windlass does not, if it is of one.
pub fn foreign_kind(origin: &Origin<'_>) -> Option<&'static str> {
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

fn plugin(kind: Kind) -> Plugin {
    let plain = Capabilities::default();
    let written = Capabilities { refresh: Refresh::OnChange, ..plain.clone() };
    let local = Capabilities {
        stage: true,
        block: true,
        expand: true,
        identity: Identity::Shared,
        // The first pod decides on ownership (P-145), so pods come one at a time; they may leave together.
        concurrency: Concurrency::ReleasesOverlap,
        ..plain.clone()
    };
    let capabilities = match kind {
        Kind::Secret | Kind::DownwardApi | Kind::ConfigMap | Kind::Projected => written,
        Kind::LocalVolume => local,
        Kind::EmptyDir | Kind::GitRepo | Kind::HostPath | Kind::Csi | Kind::Image => plain,
    };
    let refuses = (kind == Kind::GitRepo).then_some(
        "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate \
         `GitRepoVolumeDriver`",
    );
    let mount_options = matches!(kind, Kind::LocalVolume | Kind::Csi);
    Plugin { kind, name: kind.plugin_name().into(), capabilities, mount_options, refuses }
}

/// What a CSI driver said of itself when it registered (C-51).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Driver {
    /// `STAGE_UNSTAGE_VOLUME`.
    pub stage: bool,
    /// `EXPAND_VOLUME`.
    pub expand: bool,
    /// Where this node is, in the driver's words: labels of the node, as far as affinities go (C-25).
    pub topology: BTreeMap<String, String>,
}

/// The drivers that are registered on this node.
pub type Drivers = BTreeMap<DriverName, Driver>;

/// Who attaches volumes that must be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attacher {
    /// A controller of the cluster.
    #[default]
    Controller,
    /// This node.
    Node,
}

/// What can and must be done with a CSI volume (E-412).
///
/// A volume of the pod itself is published and nothing else (C-99). For a persistent volume the driver's object says
/// whether it is attached (C-34), and the driver itself whether it is staged and can grow. A driver that is not
/// registered is taken to be able to do all, as the kubelet does: nothing is done before it is there.
pub fn csi(
    origin: &Origin<'_>,
    object: Option<&CSIDriver>,
    registered: Option<&Driver>,
    attacher: Attacher,
    republish_every: Duration,
    deadline: Duration,
) -> Capabilities {
    let refresh = match object.and_then(|it| it.spec.requires_republish) {
        Some(true) => Refresh::Every(republish_every),
        Some(false) | None => Refresh::Never,
    };
    // A call gives up at its deadline, and what is done around it takes a moment: only what goes on after that hangs.
    let patience = deadline.saturating_add((deadline / 4).max(Duration::from_secs(1)));
    let common = Capabilities { refresh, patience, ..Capabilities::default() };
    if origin.persistent().is_none() {
        return common;
    }
    let attach = match (object.and_then(|it| it.spec.attach_required), attacher) {
        (Some(false), _) => Attach::NotNeeded,
        (Some(true) | None, Attacher::Controller) => Attach::ByController,
        (Some(true) | None, Attacher::Node) => Attach::ByNode,
    };
    Capabilities {
        attach,
        stage: registered.is_none_or(|it| it.stage),
        block: true,
        expand: registered.is_none_or(|it| it.expand),
        identity: Identity::Shared,
        // The CSI specification asks for no more than one call per volume at a time.
        concurrency: Concurrency::Alone,
        ..common
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{
        core::v1::{
            CSIPersistentVolumeSource, CSIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
            PersistentVolumeSpec,
        },
        storage::v1::CSIDriverSpec,
    };

    fn pod_volume(change: impl FnOnce(&mut Volume)) -> Volume {
        let mut volume = Volume { name: "v".into(), ..Volume::default() };
        change(&mut volume);
        volume
    }

    fn inline() -> Volume {
        pod_volume(|it| it.csi = Some(CSIVolumeSource { driver: "d".into(), ..CSIVolumeSource::default() }))
    }

    fn persistent() -> Origin<'static> {
        let source = CSIPersistentVolumeSource { driver: "d".into(), ..CSIPersistentVolumeSource::default() };
        let spec = PersistentVolumeSpec { csi: Some(source), ..PersistentVolumeSpec::default() };
        Origin::Persistent(Arc::new(PersistentVolume { spec: Some(spec), ..PersistentVolume::default() }))
    }

    fn object(change: impl FnOnce(&mut CSIDriverSpec)) -> CSIDriver {
        let mut object = CSIDriver::default();
        change(&mut object.spec);
        object
    }

    fn of(origin: &Origin<'_>, object: Option<&CSIDriver>, registered: Option<&Driver>) -> Capabilities {
        csi(origin, object, registered, Attacher::Controller, Duration::from_secs(60), Duration::from_secs(120))
    }

    /// E-381.
    #[test]
    fn a_volume_has_one_plugin_or_an_error_that_says_why() {
        let catalogue = Catalogue::default();
        let empty = EmptyDirVolumeSource::default;
        let scratch = pod_volume(|it| it.empty_dir = Some(empty()));
        assert_eq!(catalogue.find(&Origin::Pod(&scratch)).map(|it| it.kind), Ok(Kind::EmptyDir));
        let text = |volume: &Volume| catalogue.find(&Origin::Pod(volume)).unwrap_err().to_string();
        assert_eq!(text(&pod_volume(|_| ())), "no volume plugin matched");
        let both = pod_volume(|it| {
            it.host_path = Some(HostPathVolumeSource::default());
            it.empty_dir = Some(empty());
        });
        assert_eq!(text(&both), "multiple volume plugins matched: kubernetes.io/empty-dir,kubernetes.io/host-path");
        assert_eq!(
            Catalogue::of(&[Kind::Csi]).find(&Origin::Pod(&scratch)),
            Err(Error::NoneMatched),
            "not on this node"
        );
    }

    /// E-412, C-34, C-99.
    #[test]
    fn a_csi_volume_of_a_pod_is_only_published() {
        let expected = Capabilities::default();
        assert_eq!(of(&Origin::Pod(&inline()), Some(&object(|it| it.attach_required = Some(true))), None), expected);
        let able = Driver { stage: true, expand: true, ..Driver::default() };
        assert_eq!(of(&Origin::Pod(&inline()), None, Some(&able)), expected);
    }

    /// E-412, C-34.
    #[test]
    fn a_persistent_csi_volume_is_attached_unless_its_driver_says_otherwise() {
        let refused = object(|it| it.attach_required = Some(false));
        assert_eq!(of(&persistent(), None, None).attach, Attach::ByController);
        assert_eq!(of(&persistent(), Some(&object(|_| ())), None).attach, Attach::ByController);
        assert_eq!(of(&persistent(), Some(&refused), None).attach, Attach::NotNeeded);
        let by_node = csi(&persistent(), None, None, Attacher::Node, Duration::ZERO, Duration::from_secs(8));
        assert_eq!(by_node.patience, Duration::from_secs(10), "a call that gave up is no hang");
        assert_eq!(by_node.attach, Attach::ByNode);
        assert_eq!(
            csi(&persistent(), Some(&refused), None, Attacher::Node, Duration::ZERO, Duration::ZERO).attach,
            Attach::NotNeeded
        );
    }

    #[test]
    fn what_a_registered_driver_cannot_do_is_not_asked_of_it() {
        let of = |registered: Option<(bool, bool)>| {
            let registered = registered.map(|(stage, expand)| Driver { stage, expand, ..Driver::default() });
            let capabilities = of(&persistent(), None, registered.as_ref());
            (capabilities.stage, capabilities.expand, capabilities.identity)
        };
        assert_eq!(of(None), (true, true, Identity::Shared));
        assert_eq!(of(Some((false, true))), (false, true, Identity::Shared));
        assert_eq!(of(Some((true, false))), (true, false, Identity::Shared));
    }

    /// C-40.
    #[test]
    fn a_driver_may_ask_to_be_called_again_and_again() {
        let asks = object(|it| it.requires_republish = Some(true));
        for origin in [Origin::Pod(&inline()), persistent()] {
            assert_eq!(of(&origin, Some(&asks), None).refresh, Refresh::Every(Duration::from_secs(60)));
            assert_eq!(of(&origin, None, None).refresh, Refresh::Never);
        }
    }

    /// P-27..P-37: which kinds are made anew when their content changes, and which take mount options.
    #[test]
    fn the_table_of_kinds_is_the_kubelets() {
        for kind in Kind::ALL {
            let plugin = plugin(kind);
            assert_eq!(plugin.capabilities.refresh == Refresh::OnChange, kind.is_written(), "{kind:?}");
            assert_eq!(plugin.mount_options, matches!(kind, Kind::Csi | Kind::LocalVolume), "{kind:?}");
            assert_eq!(plugin.capabilities.stage, kind == Kind::LocalVolume, "{kind:?}");
            assert_eq!(plugin.capabilities.attach, Attach::NotNeeded, "{kind:?}");
            assert_eq!(plugin.name.as_str().split('/').count(), 2, "{kind:?}: E-66");
        }
    }
}
