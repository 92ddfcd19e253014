//! What a driver is told: a volume as its objects describe it, in CSI's words (C-49..C-60, C-82..C-88).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, CSIVolumeSource, PersistentVolume, SecretReference};
use k8s_openapi::api::storage::v1::CSIDriver;
use windlass_core::operation::{Cause, Obstacle};
use windlass_core::spec::Mode;
use windlass_csi::NodeCapabilities;
use windlass_csi::proto::csi::{VolumeCapability, volume_capability as capability};

use super::names::{self, Identified};
use super::{Context, Failure, Scene, Want};
use crate::memory::Object;
use crate::objects::{Lookup, ObjectKind, Reference};
use crate::{token, validate};

/// The key under which tokens of service accounts are handed over (C-87).
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// Where a volume comes from.
pub(super) enum Origin<'a> {
    /// A persistent volume.
    Persistent(&'a PersistentVolume, &'a CSIPersistentVolumeSource),
    /// A pod's own description.
    Inline(&'a CSIVolumeSource),
}

/// A volume as its objects describe it.
pub(super) struct Source<'a> {
    want: &'a Want,
    pub(super) origin: Origin<'a>,
    /// Driver and handle.
    pub(super) id: Identified,
    /// What the persistent volume or the pod calls it.
    pub(super) name: Cow<'a, str>,
}

impl<'a> Source<'a> {
    /// The volume that a pod wants.
    pub(super) fn of(want: &'a Want) -> Result<Self, Failure> {
        if let Some(volume) = &want.detail.persistent
            && let Some(source) = volume.spec.as_ref().and_then(|it| it.csi.as_ref())
        {
            let id = Identified { driver: source.driver.clone(), handle: source.volume_handle.clone() };
            let name = volume.metadata.name.as_deref().unwrap_or_default();
            return Ok(Self { want, origin: Origin::Persistent(volume, source), id, name: name.into() });
        }
        let Some(source) = want.volume().and_then(|it| it.csi.as_ref()) else {
            let text = format!("volume {} is not one of a CSI driver", want.detail.name);
            return Err(Failure::refused(Cause::Other, text));
        };
        let name = want.detail.name.as_str();
        let handle = names::inline_handle(want.uid().as_str(), name);
        let id = Identified { driver: source.driver.clone(), handle };
        Ok(Self { want, origin: Origin::Inline(source), id, name: name.into() })
    }

    /// `Persistent` or `Ephemeral`.
    pub(super) fn life(&self) -> &'static str {
        match self.origin {
            Origin::Persistent(..) => "Persistent",
            Origin::Inline(_) => "Ephemeral",
        }
    }

    /// The attributes as they are written.
    pub(super) fn attributes(&self) -> Context {
        let attributes = match self.origin {
            Origin::Persistent(_, source) => source.volume_attributes.as_ref(),
            Origin::Inline(source) => source.volume_attributes.as_ref(),
        };
        attributes.cloned().unwrap_or_default()
    }

    fn fs_type(&self) -> &str {
        let kind = match self.origin {
            Origin::Persistent(_, source) => source.fs_type.as_deref(),
            Origin::Inline(source) => source.fs_type.as_deref(),
        };
        kind.unwrap_or_default()
    }

    fn access_modes(&self) -> &[String] {
        match self.origin {
            Origin::Persistent(volume, _) => {
                volume.spec.as_ref().and_then(|it| it.access_modes.as_deref()).unwrap_or_default()
            }
            Origin::Inline(_) => &[],
        }
    }

    /// Whether the object says that nobody may write it.
    pub(super) fn is_read_only(&self) -> bool {
        match self.origin {
            Origin::Persistent(_, source) => source.read_only == Some(true),
            Origin::Inline(source) => source.read_only == Some(true),
        }
    }

    /// How the volume is to be used (C-49, C-50, C-82).
    pub(super) fn capability(&self, mode: Mode, can: &NodeCapabilities, label: Option<&str>) -> VolumeCapability {
        let access_type = match mode {
            Mode::Block => capability::AccessType::Block(capability::BlockVolume {}),
            Mode::Filesystem => {
                let options = match self.origin {
                    Origin::Persistent(volume, _) => volume.spec.as_ref().and_then(|it| it.mount_options.clone()),
                    Origin::Inline(_) => None,
                };
                let mut mount_flags = options.unwrap_or_default();
                mount_flags.extend(label.map(|it| format!("context=\"{it}\"")));
                let group = self.want.group().filter(|_| can.volume_mount_group);
                capability::AccessType::Mount(capability::MountVolume {
                    fs_type: self.fs_type().into(),
                    mount_flags,
                    volume_mount_group: group.map(|it| it.to_string()).unwrap_or_default(),
                })
            }
        };
        let first = self.access_modes().first().map(String::as_str);
        let access_mode = capability::AccessMode { mode: access_mode(first, can).into() };
        VolumeCapability { access_type: Some(access_type), access_mode: Some(access_mode) }
    }

    /// How long a call for this volume may take, if its object says.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let Origin::Persistent(volume, _) = self.origin else { return None };
        validate::driver_timeout(&volume.metadata)?.ok()
    }

    /// What the attacher handed over (C-81), or the driver itself if this node attached the volume; empty where nobody
    /// attaches.
    pub(super) fn publish_context(&self, scene: &Scene) -> Result<Context, Failure> {
        match &self.want.detail.attachment {
            None => Ok(scene.attachments.get(&self.want.detail.volume).unwrap_or_default()),
            Some(it) => it.metadata.clone().map_err(|text| {
                let reference = Reference::new(ObjectKind::Attachment, "", &it.name);
                Failure::refused(Cause::Object((&reference).into()), text)
            }),
        }
    }

    /// The secret for a step.
    pub(super) fn secrets(&self, scene: &Scene, step: Step) -> Result<Context, Failure> {
        let reference = |it: Option<&SecretReference>| {
            let it = it?;
            Some((it.namespace.clone().unwrap_or_default(), it.name.clone()?))
        };
        let secret = match (&self.origin, step) {
            (Origin::Persistent(_, source), Step::Attach) => reference(source.controller_publish_secret_ref.as_ref()),
            (Origin::Persistent(_, source), Step::Stage) => reference(source.node_stage_secret_ref.as_ref()),
            (Origin::Persistent(_, source), Step::Publish) => reference(source.node_publish_secret_ref.as_ref()),
            (Origin::Persistent(_, source), Step::Expand) => reference(source.node_expand_secret_ref.as_ref()),
            // C-66.
            (Origin::Inline(source), Step::Publish) => {
                let name = source.node_publish_secret_ref.as_ref().map(|it| it.name.clone());
                name.filter(|it| !it.is_empty()).map(|name| (self.want.namespace().to_owned(), name))
            }
            (Origin::Inline(_), Step::Attach | Step::Stage | Step::Expand) => None,
        };
        let Some((namespace, name)) = secret else { return Ok(Context::new()) };
        read_secret(scene, &Reference::new(ObjectKind::Secret, &namespace, &name))
    }

    /// What the driver hears of the pod, if it wants to (C-86), over the attributes.
    pub(super) fn pod_info(&self, default_account: &str) -> Context {
        let pod = &self.want.pod;
        let account = self.account(default_account);
        let ephemeral = matches!(self.origin, Origin::Inline(_)).to_string();
        let entries = [
            ("pod.name", pod.metadata.name.clone().unwrap_or_default()),
            ("pod.namespace", self.want.namespace().to_owned()),
            ("pod.uid", self.want.uid().as_str().to_owned()),
            ("serviceAccount.name", account),
            ("ephemeral", ephemeral),
        ];
        entries.into_iter().map(|(key, value)| (format!("csi.storage.k8s.io/{key}"), value)).collect()
    }

    /// The pod's service account, or this one if it names none.
    fn account(&self, default: &str) -> String {
        let named = self.want.pod.spec.as_ref().and_then(|it| it.service_account_name.as_deref());
        named.filter(|it| !it.is_empty()).unwrap_or(default).to_owned()
    }

    /// Tokens of the pod's service account, if the driver asks for any (C-87): for the secrets, and for the context.
    pub(super) fn tokens(&self, scene: &Scene, driver: Option<&CSIDriver>) -> Result<(Context, Context), Failure> {
        let requests = driver.and_then(|it| it.spec.token_requests.as_deref()).unwrap_or_default();
        if requests.is_empty() {
            return Ok(Default::default());
        }
        let (pod, account) = (&self.want.pod, self.account(&scene.default_account));
        let mut tokens = BTreeMap::new();
        for wanted in requests {
            let audience = wanted.audience.clone();
            let request = token::Request {
                namespace: self.want.namespace().to_owned(),
                service_account: account.clone(),
                audiences: Some(audience.clone()).filter(|it| !it.is_empty()).into_iter().collect(),
                expiration_seconds: wanted.expiration_seconds.unwrap_or(token::EXPIRATION_SECONDS_DEFAULT),
                pod_name: pod.metadata.name.clone().unwrap_or_default(),
                pod_uid: self.want.uid(),
            };
            let token = scene.tokens.token(&request, SystemTime::now()).map_err(|error| {
                let obstacle = if error.is_the_providers() { Obstacle::TokenMissing } else { Obstacle::InputInvalid };
                Failure::refused(Cause::Node(obstacle), error.text())
            })?;
            let expires = Timestamp::try_from(token.expires()).map_err(|error| Failure::open(&error).nothing_left())?;
            let expires = expires.round(jiff::Unit::Second).unwrap_or(expires).to_string();
            tokens.insert(audience, BTreeMap::from([("expirationTimestamp", expires), ("token", token.text().into())]));
        }
        let text = serde_json::to_string(&tokens).map_err(|error| Failure::open(&error).nothing_left())?;
        let tokens = Context::from([(TOKENS.to_owned(), text)]);
        Ok(match driver.and_then(|it| it.spec.service_account_token_in_secrets) {
            Some(true) => (tokens, Context::new()),
            Some(false) | None => (Context::new(), tokens),
        })
    }

    /// Whether this node gives the volume to the pod's group (C-90).
    pub(super) fn changes_group(&self, driver: Option<&CSIDriver>, can: &NodeCapabilities) -> bool {
        let policy = driver.and_then(|it| it.spec.fs_group_policy.as_deref());
        match policy.unwrap_or("ReadWriteOnceWithFSType") {
            _ if can.volume_mount_group => false,
            "None" => false,
            "File" => true,
            _ => {
                let is_once = |it: &String| it == "ReadWriteOnce" || it == "ReadWriteOncePod";
                let once = matches!(self.origin, Origin::Inline(_)) || self.access_modes().iter().any(is_once);
                !self.fs_type().is_empty() && once
            }
        }
    }
}

/// For which call a secret is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// `ControllerPublishVolume`
    Attach,
    /// `NodeStageVolume`
    Stage,
    /// `NodePublishVolume`
    Publish,
    /// `NodeExpandVolume`
    Expand,
}

/// All keys of a secret, as text (C-66).
pub(super) fn read_secret(scene: &Scene, reference: &Reference) -> Result<Context, Failure> {
    let missing = |why: String| {
        let text = format!(
            "failed to find the secret {} in the namespace {} with error: {why}",
            reference.name(),
            reference.namespace()
        );
        Failure::refused(Cause::Object(reference.into()), text)
    };
    let objects = scene.objects.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    match objects.get(reference) {
        Lookup::Found(Object::Secret(secret)) => {
            let data = secret.data.iter().flatten();
            let data = data.map(|(key, value)| (key.clone(), String::from_utf8_lossy(&value.0).into_owned()));
            let text = secret.string_data.iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
            Ok(data.chain(text).collect())
        }
        Lookup::Found(_) | Lookup::Absent => Err(missing(reference.not_found())),
        Lookup::Unavailable(text) => Err(missing(text.to_string())),
    }
}

/// C-50.
pub(super) fn access_mode(mode: Option<&str>, can: &NodeCapabilities) -> capability::access_mode::Mode {
    use capability::access_mode::Mode as Told;
    let several = can.single_node_multi_writer;
    match mode {
        None | Some("ReadWriteOnce") if several => Told::SingleNodeMultiWriter,
        None | Some("ReadWriteOnce") => Told::SingleNodeWriter,
        Some("ReadOnlyMany") => Told::MultiNodeReaderOnly,
        Some("ReadWriteMany") => Told::MultiNodeMultiWriter,
        Some("ReadWriteOncePod") if several => Told::SingleNodeSingleWriter,
        Some("ReadWriteOncePod") => Told::SingleNodeWriter,
        Some(_) => Told::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::serde_json::{Value, from_value, json};
    use windlass_core::ids::VolumeId;

    use super::*;
    use crate::payload::Snapshot;
    use crate::resolve::Detail;

    const NONE: NodeCapabilities = NodeCapabilities {
        stage_unstage: true,
        volume_stats: false,
        expand: false,
        volume_condition: false,
        single_node_multi_writer: false,
        volume_mount_group: false,
    };

    /// A volume of a pod with a group: a persistent one with this specification, or else this one of the pod's own.
    fn want(persistent: Option<Value>, own: &Value) -> Want {
        let volume = json!({"name": "v", "csi": own});
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"containers": [], "volumes": [volume], "securityContext": {"fsGroup": 7}},
        });
        let persistent = persistent.map(|spec| from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap());
        let detail = Detail {
            name: "v".into(),
            volume: VolumeId::from("x"),
            volume_type: &crate::plugin::csi::CSI,
            persistent: persistent.map(Arc::new),
            claim: None,
            migrated: false,
            mount_options: Vec::new(),
            size_limit_bytes: None,
            attachment: None,
            refusal: None,
        };
        Want { pod: Arc::new(from_value(pod).unwrap()), detail: Arc::new(detail), objects: Snapshot::default() }
    }

    fn persistent(modes: &[&str], kind: &str) -> Want {
        let source = json!({"driver": "d", "volumeHandle": "h", "fsType": kind, "volumeAttributes": {"a": "b"}});
        let spec = json!({"csi": source, "accessModes": modes, "mountOptions": ["noatime", "discard"]});
        want(Some(spec), &json!({"driver": "d"}))
    }

    fn mount(source: &Source<'_>, can: &NodeCapabilities, label: Option<&str>) -> capability::MountVolume {
        match source.capability(Mode::Filesystem, can, label).access_type {
            Some(capability::AccessType::Mount(it)) => it,
            other => panic!("{other:?}"),
        }
    }

    /// C-50, T-23.
    #[test]
    fn access_modes_are_told_by_what_the_driver_can_tell_apart() {
        use capability::access_mode::Mode as Told;
        let able = NodeCapabilities { single_node_multi_writer: true, ..NONE };
        for (mode, plain, exact) in [
            (None, Told::SingleNodeWriter, Told::SingleNodeMultiWriter),
            (Some("ReadWriteOnce"), Told::SingleNodeWriter, Told::SingleNodeMultiWriter),
            (Some("ReadOnlyMany"), Told::MultiNodeReaderOnly, Told::MultiNodeReaderOnly),
            (Some("ReadWriteMany"), Told::MultiNodeMultiWriter, Told::MultiNodeMultiWriter),
            (Some("ReadWriteOncePod"), Told::SingleNodeWriter, Told::SingleNodeSingleWriter),
            (Some("Odd"), Told::Unknown, Told::Unknown),
        ] {
            assert_eq!((access_mode(mode, &NONE), access_mode(mode, &able)), (plain, exact), "{mode:?}");
        }
    }

    /// C-41, C-82, T-15, T-22.
    #[test]
    fn a_mount_carries_options_label_and_group() {
        let want = persistent(&["ReadWriteOnce"], "xfs");
        let source = Source::of(&want).unwrap();
        let plain = mount(&source, &NONE, None);
        assert_eq!((plain.fs_type.as_str(), plain.volume_mount_group.as_str()), ("xfs", ""));
        assert_eq!(plain.mount_flags, ["noatime", "discard"], "in their order");
        let able = NodeCapabilities { volume_mount_group: true, ..NONE };
        let labelled = mount(&source, &able, Some("s:o:t:s0:c1,c2"));
        assert_eq!(labelled.mount_flags.last().unwrap(), "context=\"s:o:t:s0:c1,c2\"");
        assert_eq!(labelled.volume_mount_group, "7");
    }

    /// C-90, T-21.
    #[test]
    fn the_group_is_changed_here_only_where_the_policy_says_so() {
        let policy = |it: &str| -> CSIDriver { from_value(json!({"spec": {"fsGroupPolicy": it}})).unwrap() };
        let changes = |want: &Want, policy: Option<&CSIDriver>| Source::of(want).unwrap().changes_group(policy, &NONE);
        let once = persistent(&["ReadWriteMany", "ReadWriteOncePod"], "ext4");
        let (many, typeless) = (persistent(&["ReadWriteMany"], "ext4"), persistent(&["ReadWriteOnce"], ""));
        let inline = want(None, &json!({"driver": "d", "fsType": "ext4"}));
        let all = [&once, &many, &typeless, &inline];
        let default = all.map(|it| changes(it, None));
        assert_eq!(default, [true, false, false, true]);
        assert_eq!(all.map(|it| changes(it, Some(&policy("ReadWriteOnceWithFSType")))), default);
        assert_eq!(all.map(|it| changes(it, Some(&policy("File")))), [true; 4]);
        assert_eq!(all.map(|it| changes(it, Some(&policy("None")))), [false; 4]);
        let able = NodeCapabilities { volume_mount_group: true, ..NONE };
        assert!(!Source::of(&once).unwrap().changes_group(Some(&policy("File")), &able), "the driver does it");
    }

    /// C-70, C-86, C-99, T-19.
    #[test]
    fn a_volume_of_the_pod_is_the_pods_alone() {
        let want = want(None, &json!({"driver": "d", "volumeAttributes": {"a": "b"}}));
        let source = Source::of(&want).unwrap();
        assert_eq!(source.id.handle, names::inline_handle("u", "v"));
        let info = source.pod_info("default");
        assert_eq!(info["csi.storage.k8s.io/ephemeral"], "true");
        assert_eq!(info["csi.storage.k8s.io/pod.uid"], "u");
        assert_eq!(info["csi.storage.k8s.io/serviceAccount.name"], "default", "what admission fills in");
        assert_eq!(source.attributes().len(), 1, "what a pod adds is not written into them (W-14)");
        assert!(mount(&source, &NONE, None).mount_flags.is_empty());
    }
}
