//! A pod and the objects it names become what the engine can plan with: the volumes it wants, or why they are not known.
//!
//! This is a pure function. It asks an [`Objects`] and writes down whatever it asked for, found or not, so that a change
//! of any of them leads back to the pod. What the kubelet checks only when it mounts (where a volume may be used, mount
//! options) is checked here too, but is no reason to want a volume less: it goes along as a [`Refusal`], with which the
//! mount is answered.

mod affinity;
mod attachment;
mod claim;
mod limits;
mod migrate;
mod refusal;
mod revision;
mod selinux;
mod usage;

#[cfg(test)]
mod tests;

use crate::catalogue::{self, Attacher, Circumstances, Origin, RegisteredDrivers, VolumeType};
use crate::objects::{Lookup, Objects, Reference, View};
use k8s_openapi::api::core::v1::{self as api, PersistentVolume, PersistentVolumeClaim, PodSpec, Volume};
use k8s_openapi::api::storage::v1::CSIDriver;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use usage::Usage;
use windlass_core::ids::{DriverName, ObjectName, OuterName, PodUid, SourceName, Version, VolumeId};
use windlass_core::reason::Reason;
use windlass_core::spec::{
    Access, Capabilities, Identity, Mode, Phase, Pod, PodVolume, Refresh, Sharing, Use, VolumeSpec, Want,
};
use windlass_core::{expand, label};

pub(crate) use attachment::Attached;
pub(crate) use refusal::Refusal;
pub(crate) use selinux::Defaults as SelinuxDefaults;

/// What holds for all pods of this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// This node's name.
    pub node: Arc<str>,
    /// Drivers whose volumes this node attaches itself. Those of all others a controller attaches.
    pub attached_here: BTreeSet<String>,
    /// What completes SELinux options; `None` where SELinux is off, and then no volume has a label (E-80).
    pub selinux: Option<SelinuxDefaults>,
    /// Whether volumes of all access modes are mounted with labels, not only those for one pod (`SELinuxMount`, E-83).
    pub selinux_all_modes: bool,
    /// How often a driver that asks for it is called again (C-121). The kubelet does it with each pod sync.
    pub republish_every: Duration,
    /// How long one call of a CSI driver may take; those of some drivers by their names.
    pub deadline: Duration,
    /// See [`Settings::deadline`].
    pub deadlines: BTreeMap<String, Duration>,
}

impl Settings {
    /// The kubelet's settings for a node without SELinux.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            attached_here: BTreeSet::new(),
            selinux: None,
            selinux_all_modes: false,
            republish_every: Duration::from_secs(60),
            deadline: crate::csi::DEADLINE_DEFAULT,
            deadlines: BTreeMap::new(),
        }
    }

    /// How long one call of a driver may take.
    pub fn driver_deadline(&self, driver: &str) -> Duration {
        self.deadlines.get(driver).copied().unwrap_or(self.deadline)
    }
}

/// What the source of a pod says of it besides its manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// Who gave it.
    pub source: SourceName,
    /// How new it is.
    pub version: Version,
    /// How far its life has gone.
    pub phase: Phase,
}

/// Why a manifest is no pod at all.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing tells it from other pods.
    #[error("pod {0} has no uid")]
    NoUid(String),
    /// It has no name.
    #[error("pod with uid {0} has no name")]
    NoName(String),
    /// It has no specification.
    #[error("pod {0} has no spec")]
    NoSpec(String),
}

/// A pod whose volumes have been looked up.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// What the engine is told.
    pub pod: Pod,
    /// What the plugins need to know of those of its volumes that are known, in the same order.
    pub details: Vec<Detail>,
    /// The objects that were looked up, also those that were not there, in order. When one of them changes the pod is to
    /// be resolved again; for a `CSIDriver`, also when the driver registers.
    pub depends_on: Vec<ObjectName>,
    /// Trouble that is only worth a warning (E-85, E-86).
    pub warnings: Vec<(OuterName, label::Error)>,
    /// Those of its volumes that use the object because of which it was resolved again.
    pub affected: Vec<VolumeId>,
}

/// What a plugin needs to know of one volume of a pod, beyond what the engine knows.
#[derive(Clone, PartialEq, Debug)]
pub struct Detail {
    /// What the pod calls it.
    pub name: OuterName,
    /// Which volume it is.
    pub volume: VolumeId,
    /// Its type.
    pub volume_type: &'static VolumeType,
    /// The persistent volume that describes it; if there is none, the pod does. A volume of an in-tree kind that is a CSI
    /// volume today is described as such (E-154).
    pub persistent: Option<Arc<PersistentVolume>>,
    /// The claim that led to it.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    /// Whether it was described as an in-tree volume.
    pub migrated: bool,
    /// The mount options of a persistent volume, sorted, each once (P-217).
    pub mount_options: Vec<String>,
    /// How large it may grow (E-89): zero is without limit, `None` is not for this kind to say.
    pub size_limit_bytes: Option<u64>,
    /// What its attacher says of it, if somebody else attaches it.
    pub attachment: Option<Attached>,
    /// Why no mount of it can succeed at present. What is mounted already stays.
    pub refusal: Option<Refusal>,
}

/// Why one volume of a pod is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Trouble {
    /// It may be known later.
    Unknown { text: String, waits_on: Option<ObjectName> },
    /// It is to be made first.
    Pending(Box<Reason>),
    /// It can never be what the pod says.
    Invalid { text: String },
}

impl Trouble {
    fn waiting_for(object: &Reference, text: String) -> Self {
        Self::Unknown { text, waits_on: Some(object.into()) }
    }

    fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid { text: text.into() }
    }
}

impl From<Trouble> for Want {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unknown { text, waits_on } => Self::Unknown { text: text.into(), waits_on },
            Trouble::Pending(why) => Self::Pending(why),
            Trouble::Invalid { text } => Self::Invalid { text: text.into() },
        }
    }
}

/// Everything that resolving depends on, apart from the pod.
#[derive(Clone, Copy)]
pub struct Resolver<'a, O: ?Sized> {
    /// What holds for all pods of this node.
    pub settings: &'a Settings,
    /// The CSI drivers that are registered here.
    pub drivers: &'a RegisteredDrivers,
    /// The objects.
    pub objects: &'a O,
}

impl<O: Objects + ?Sized> Resolver<'_, O> {
    /// Looks the volumes of a pod up. Each stands for itself: trouble with one does not touch the others (E-147).
    ///
    /// The API server's [defaults](crate::defaults) must have been filled in.
    pub fn resolve(&self, pod: &api::Pod, given: Given) -> Result<Resolved, Error> {
        self.resolve_after(pod, given, None)
    }

    /// The same because an object changed: tells which volumes use it.
    pub fn resolve_after(&self, pod: &api::Pod, given: Given, changed: Option<&Reference>) -> Result<Resolved, Error> {
        let (uid, full_name, spec) = identify(pod)?;
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();

        let mut task = Task {
            resolver: self,
            pod,
            namespace,
            spec,
            uid,
            usage: Usage::of(spec),
            view: View::new(self.objects),
            warnings: Vec::new(),
        };
        let (mut volumes, mut details, mut affected) = (Vec::new(), Vec::new(), Vec::new());
        for (name, entry) in used_volumes(spec, &task.usage) {
            task.view.look_out_for(changed);
            let want = match entry.and_then(|it| task.volume(it)) {
                Ok((used, detail)) => {
                    if task.view.has_seen() {
                        affected.push(used.spec.id.clone());
                    }
                    details.push(detail);
                    Want::Volume(used)
                }
                Err(trouble) => trouble.into(),
            };
            volumes.push(PodVolume { name: name.into(), want });
        }
        let Given { source, version, phase } = given;
        let groups = spec.security_context.as_ref().and_then(|it| it.supplemental_groups.clone()).unwrap_or_default();
        let uid = task.uid;
        Ok(Resolved {
            pod: Pod { uid, name: full_name.into(), source, version, phase, groups, volumes },
            details,
            depends_on: task.view.into_touched(),
            warnings: task.warnings,
            affected,
        })
    }
}

/// The secrets that calls of this node hand to a driver.
fn secrets(source: &api::CSIPersistentVolumeSource) -> impl Iterator<Item = &api::SecretReference> {
    let all = [&source.node_stage_secret_ref, &source.node_publish_secret_ref, &source.node_expand_secret_ref];
    all.into_iter().flatten()
}

/// What a pod is called: by its identity and, for people, as `namespace/name`. Also gives its specification.
pub(crate) fn identify(pod: &api::Pod) -> Result<(PodUid, String, &PodSpec), Error> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let full_name = format!("{}/{name}", pod.metadata.namespace.as_deref().unwrap_or_default());
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if uid.is_empty() {
        return Err(Error::NoUid(full_name));
    }
    if name.is_empty() {
        return Err(Error::NoName(uid.into()));
    }
    match &pod.spec {
        Some(spec) => Ok((uid.into(), full_name, spec)),
        None => Err(Error::NoSpec(full_name)),
    }
}

/// The volumes that containers use (E-146): in the pod's order, then what containers name and the pod does not have.
fn used_volumes<'a>(spec: &'a PodSpec, usage: &Usage<'a>) -> Vec<(&'a str, Result<&'a Volume, Trouble>)> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = Vec::new();
    for volume in spec.volumes.iter().flatten().filter(|it| usage.uses(&it.name)) {
        *count.entry(&volume.name).or_default() += 1;
        if count[volume.name.as_str()] == 1 {
            all.push((volume.name.as_str(), Ok(volume)));
        }
    }
    for (name, entry) in &mut all {
        if count[name] > 1 {
            *entry = Err(Trouble::invalid(format!("volume {name} is listed more than once in the pod")));
        }
    }
    let unlisted: BTreeSet<&str> =
        usage.mounts.union(&usage.devices).filter(|it| !count.contains_key(**it)).copied().collect();
    let missing =
        |name| Err(Trouble::invalid(format!("volume {name} is used by a container but not listed in the pod")));
    all.extend(unlisted.into_iter().map(|it| (it, missing(it))));
    all
}

/// One pod being resolved.
struct Task<'a, O: ?Sized> {
    resolver: &'a Resolver<'a, O>,
    pod: &'a api::Pod,
    namespace: &'a str,
    spec: &'a PodSpec,
    uid: PodUid,
    usage: Usage<'a>,
    view: View<'a, O>,
    warnings: Vec<(OuterName, label::Error)>,
}

/// A volume, found but not yet judged.
struct Definition<'a> {
    origin: Origin<'a>,
    claim: Option<Arc<PersistentVolumeClaim>>,
    read_only: bool,
    migrated: bool,
    mode: Mode,
}

impl<O: Objects + ?Sized> Task<'_, O> {
    fn volume(&mut self, volume: &Volume) -> Result<(Use, Detail), Trouble> {
        let definition = self.define(volume)?;
        let origin = &definition.origin;
        let volume_type = VolumeType::find(origin).map_err(|error| {
            let (name, kind) = (origin.name(), catalogue::foreign_kind(origin));
            let kind = kind.map(|it| format!(": windlass has no volumes of type {it}")).unwrap_or_default();
            Trouble::invalid(format!("failed to get Plugin from volumeSpec for volume \"{name}\" err={error}{kind}"))
        })?;
        let driver = self.driver_object(origin)?;
        let mut capabilities = self.capabilities(volume_type, origin, driver.as_deref());
        if let (Some(claim), Some(volume)) = (&definition.claim, origin.persistent()) {
            capabilities.expand &= !claim::is_grown(claim, volume);
        }
        let id = volume_id(&self.uid, volume_type, &capabilities, origin)?;
        let label = self.label(volume, &definition, driver.as_deref())?;
        let attachment = self.attachment(origin, &capabilities);
        let mount_options = origin.persistent().map(mount_options).unwrap_or_default();
        let refusal = self.refusal(&definition, volume_type, &capabilities, driver.as_deref(), &mount_options);
        let size_limit_bytes = match origin {
            Origin::Pod(it) => limits::limit(self.spec, (volume_type.limit)(it)).map_err(|error| {
                Trouble::invalid(format!("volume {} has no usable size limit: {error}", volume.name))
            })?,
            Origin::Persistent(_) => None,
        };
        let revision = match origin {
            _ if capabilities.refresh != Refresh::OnChange => 0,
            Origin::Pod(it) => revision::of(&mut self.view, self.pod, self.namespace, &self.resolver.settings.node, it),
            Origin::Persistent(it) => revision::of_persistent(it),
        };
        let read_only = definition.read_only || (volume_type.attributes)(Access::ReadWrite).read_only;
        let spec = VolumeSpec {
            id: id.clone(),
            plugin: volume_type.name.into(),
            driver: origin.driver().map(DriverName::from),
            inner_name: origin.name().into(),
            capabilities,
            mode: definition.mode,
            sharing: if one_pod(origin) == Some(true) { Sharing::OnePod } else { Sharing::Shared },
            group: origin.persistent().and_then(claim::group),
            size: size(&definition),
        };
        let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        let detail = Detail {
            name: volume.name.as_str().into(),
            volume: id,
            volume_type,
            persistent: match definition.origin {
                Origin::Pod(_) => None,
                Origin::Persistent(volume) => Some(volume),
            },
            claim: definition.claim,
            migrated: definition.migrated,
            mount_options,
            size_limit_bytes,
            attachment,
            refusal,
        };
        Ok((Use { spec: Arc::new(spec), access, revision, label }, detail))
    }

    /// Where the volume is described: the way from a claim to its volume, then from the in-tree kind to CSI.
    fn define<'v>(&mut self, volume: &'v Volume) -> Result<Definition<'v>, Trouble> {
        let Some(claimed) = claim::follow(&mut self.view, self.pod, self.namespace, volume) else {
            let migrated = migrate::pod_volume(volume, self.namespace).transpose().map_err(Trouble::invalid)?;
            return Ok(match migrated {
                Some(persistent) => Definition {
                    origin: Origin::Persistent(Arc::new(persistent)),
                    claim: None,
                    read_only: false,
                    migrated: true,
                    mode: Mode::Filesystem,
                },
                None => Definition {
                    origin: Origin::Pod(volume),
                    claim: None,
                    read_only: volume.csi.as_ref().and_then(|it| it.read_only).unwrap_or(false),
                    migrated: false,
                    // What a pod describes itself is a directory, even if it is listed among the devices.
                    mode: Mode::Filesystem,
                },
            });
        };
        let claim::Claimed { claim, volume: persistent, read_only } = claimed?;
        let translated = migrate::persistent(&persistent).transpose().map_err(Trouble::invalid)?;
        let migrated = translated.is_some();
        let persistent = translated.map_or(persistent, Arc::new);
        let mode = claim::mode(&persistent, &volume.name, &self.usage)?;
        Ok(Definition { origin: Origin::Persistent(persistent), claim: Some(claim), read_only, migrated, mode })
    }

    fn driver_object(&mut self, origin: &Origin<'_>) -> Result<Option<Arc<CSIDriver>>, Trouble> {
        let Some(driver) = origin.driver() else { return Ok(None) };
        // What is in them is nothing that is looked at here, but a driver may have refused the volume for it.
        for secret in origin.persistent().and_then(|it| it.spec.as_ref()?.csi.as_ref()).into_iter().flat_map(secrets) {
            let (namespace, name) = (secret.namespace.as_deref(), secret.name.as_deref());
            self.view.depends_on(
                crate::objects::ObjectKind::Secret,
                namespace.unwrap_or_default(),
                name.unwrap_or_default(),
            );
        }
        match self.view.driver(driver) {
            (_, Lookup::Found(object)) => Ok(Some(object)),
            // A driver without an object has the defaults (C-33).
            (_, Lookup::Absent) => Ok(None),
            (reference, Lookup::Unavailable(text)) => Err(Trouble::waiting_for(
                &reference,
                format!("failed to fetch CSIDriver {driver} from API server: {text}"),
            )),
        }
    }

    fn capabilities(&self, volume_type: &VolumeType, origin: &Origin<'_>, object: Option<&CSIDriver>) -> Capabilities {
        let (settings, driver) = (self.resolver.settings, origin.driver());
        let attached_here = driver.is_some_and(|it| settings.attached_here.contains(it));
        let of_volume = origin.persistent().and_then(|it| crate::validate::driver_timeout(&it.metadata)?.ok());
        (volume_type.capabilities)(&Circumstances {
            origin,
            object,
            registered: driver.and_then(|it| self.resolver.drivers.get(&DriverName::from(it))),
            attacher: if attached_here { Attacher::Node } else { Attacher::Controller },
            republish_every: settings.republish_every,
            deadline: of_volume.unwrap_or_else(|| settings.driver_deadline(driver.unwrap_or_default())),
        })
    }

    /// The label this pod asks for (E-80..E-86).
    fn label(
        &mut self,
        volume: &Volume,
        definition: &Definition<'_>,
        object: Option<&CSIDriver>,
    ) -> Result<label::Wish, Trouble> {
        let Some(defaults) = &self.resolver.settings.selinux else { return Ok(label::Wish::default()) };
        let options = self.usage.labels.get(volume.name.as_str());
        let policy = self.spec.security_context.as_ref().and_then(|it| it.se_linux_change_policy.as_deref());
        let circumstances = label::Circumstances {
            containers: options.into_iter().flatten().filter_map(|it| defaults.label(it)).collect(),
            recursive: policy == Some("Recursive"),
            supported: object.and_then(|it| it.spec.se_linux_mount).unwrap_or(false),
            one_pod: one_pod(&definition.origin),
            all_modes: self.resolver.settings.selinux_all_modes,
        };
        let (wish, warning) = label::wish(&circumstances).map_err(|error| Trouble::invalid(error.to_string()))?;
        self.warnings.extend(warning.map(|it| (OuterName::from(volume.name.as_str()), it)));
        Ok(wish)
    }
}

/// The name that tells the volume from all others of this node (E-63, E-64, C-67, C-68).
fn volume_id(
    uid: &PodUid,
    volume_type: &VolumeType,
    capabilities: &Capabilities,
    origin: &Origin<'_>,
) -> Result<VolumeId, Trouble> {
    let own_name = match (capabilities.identity, origin) {
        (_, Origin::Pod(volume)) => format!("{uid}-{}{}", volume.name, (volume_type.variant)(volume)),
        (Identity::PerPod, Origin::Persistent(_)) => format!("{uid}-{}", origin.name()),
        (Identity::Shared, Origin::Persistent(volume)) => (volume_type.own_name)(volume),
    };
    if own_name.is_empty() {
        return Err(Trouble::invalid(format!(
            "failed to GetUniqueVolumeNameFromSpec for volumeSpec \"{}\" using volume plugin \"{}\" err=it has no name of its own",
            origin.name(),
            volume_type.name
        )));
    }
    Ok(format!("{}/{own_name}", volume_type.name).as_str().into())
}

/// Whether the only access mode is `ReadWriteOncePod`; `None` without a persistent volume (E-83).
fn one_pod(origin: &Origin<'_>) -> Option<bool> {
    let modes = origin.persistent()?.spec.as_ref().and_then(|it| it.access_modes.as_deref()).unwrap_or_default();
    Some(modes == ["ReadWriteOncePod"])
}

/// The old annotation wins over the specification (P-217).
fn mount_options(volume: &PersistentVolume) -> Vec<String> {
    let annotation =
        volume.metadata.annotations.as_ref().and_then(|it| it.get("volume.beta.kubernetes.io/mount-options"));
    let options: Vec<&str> = match annotation {
        Some(list) => list.split(',').collect(),
        None => volume.spec.iter().filter_map(|it| it.mount_options.as_ref()).flatten().map(String::as_str).collect(),
    };
    let sorted: BTreeSet<&str> = options.into_iter().filter(|it| !it.is_empty()).collect();
    sorted.into_iter().map(Into::into).collect()
}

/// How large the volume should be and is (E-158): only what a claim lets this pod write grows.
fn size(definition: &Definition<'_>) -> expand::Size {
    match (&definition.claim, definition.origin.persistent()) {
        (Some(claim), Some(volume)) if !definition.read_only => claim::size(claim, volume),
        _ => expand::Size::default(),
    }
}
