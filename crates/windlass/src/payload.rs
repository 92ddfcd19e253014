//! What is in the volumes that windlass writes: configMap, secret, downwardAPI and projected.
//!
//! Pure: a pod, one of its volumes and the objects that it shows become files with their bytes, modes and owners. To
//! put them on disk is [`windlass_linux::atomic_dir`]'s. What the kubelet does to such a volume afterwards for a pod
//! with an `fsGroup` (P-89, P-212) is in the modes and the group already (W-5), except for the volume's own directory,
//! which [`directory_mode`] speaks of.
//!
//! Nothing is written unless everything is there: an error leaves a volume as it is (P-101, P-123).

use crate::memory::{Memory, Object};
use crate::objects::{Lookup, ObjectKind, Reference};
use crate::token::{self, EXPIRATION_SECONDS_DEFAULT, Token};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Node, Pod, PodSpec, Secret, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_linux::atomic_dir::{Contents, File};

mod downward;
mod error;
mod nested;
mod quote;
mod snapshot;
mod user;

pub(crate) use error::{Error, Flaw};
pub(crate) use nested::nested_directories;
pub(crate) use snapshot::Snapshot;
pub(crate) use user::shared_user;

/// What a pod's `fsGroup` adds to files of volumes that containers only read (P-212).
const GROUP_FILE_BITS: u32 = 0o440;

/// The same for directories: these bits, and the group is inherited by what is made in them.
const GROUP_DIRECTORY_BITS: u32 = 0o2550;

/// Answers what is in the objects that a volume shows. It answers from what it has: it neither waits nor asks anybody.
pub trait Sources {
    /// A config map.
    fn config_map(&self, namespace: &str, name: &str) -> Lookup<Arc<ConfigMap>>;

    /// A secret.
    fn secret(&self, namespace: &str, name: &str) -> Lookup<Arc<Secret>>;

    /// A node.
    fn node(&self, name: &str) -> Lookup<Arc<Node>>;
}

impl Sources for Memory {
    fn config_map(&self, namespace: &str, name: &str) -> Lookup<Arc<ConfigMap>> {
        picked(self.get(&Reference::new(ObjectKind::ConfigMap, namespace, name)), config_map)
    }

    fn secret(&self, namespace: &str, name: &str) -> Lookup<Arc<Secret>> {
        picked(self.get(&Reference::new(ObjectKind::Secret, namespace, name)), secret)
    }

    fn node(&self, name: &str) -> Lookup<Arc<Node>> {
        picked(self.get(&Reference::new(ObjectKind::Node, "", name)), node)
    }
}

fn picked<T>(found: Lookup<&Object>, pick: fn(&Object) -> Option<&Arc<T>>) -> Lookup<Arc<T>> {
    match found {
        Lookup::Found(object) => pick(object).cloned().map_or(Lookup::Absent, Lookup::Found),
        Lookup::Absent => Lookup::Absent,
        Lookup::Unavailable(text) => Lookup::Unavailable(text),
    }
}

fn config_map(object: &Object) -> Option<&Arc<ConfigMap>> {
    if let Object::ConfigMap(it) = object { Some(it) } else { None }
}

fn secret(object: &Object) -> Option<&Arc<Secret>> {
    if let Object::Secret(it) = object { Some(it) } else { None }
}

fn node(object: &Object) -> Option<&Arc<Node>> {
    if let Object::Node(it) = object { Some(it) } else { None }
}

/// What the contents of a volume are made of, beside its pod.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// This node's name: its allocatable resources stand in for limits that a container does not have (P-118).
    pub node: &'a str,
    /// The objects.
    pub sources: &'a dyn Sources,
    /// Gives tokens for projected volumes; may block.
    pub tokens: &'a dyn Fn(&token::Request) -> Result<Token, token::Error>,
}

/// What is to be in a volume of a pod. The pod has the API server's defaults (`defaults.rs`).
pub fn contents(pod: &Pod, volume: &Volume, surroundings: Surroundings<'_>) -> Result<Contents, Error> {
    let mut build = Build::new(pod, surroundings)?;
    let at = format!("spec.volumes[{}]", volume.name);
    if let Some(source) = &volume.config_map {
        let at = format!("{at}.configMap");
        let mode = build.default_mode(&at, source.default_mode)?;
        let keys = Keys { items: source.items.as_deref(), optional: source.optional == Some(true), mode };
        build.config_map(&at, &source.name, keys)?;
    } else if let Some(source) = &volume.secret {
        let at = format!("{at}.secret");
        let mode = build.default_mode(&at, source.default_mode)?;
        let keys = Keys { items: source.items.as_deref(), optional: source.optional == Some(true), mode };
        build.secret(&at, source.secret_name.as_deref().unwrap_or_default(), keys)?;
    } else if let Some(source) = &volume.downward_api {
        let at = format!("{at}.downwardAPI");
        let mode = build.default_mode(&at, source.default_mode)?;
        build.downward(&at, source.items.as_deref(), mode);
    } else if let Some(source) = &volume.projected {
        let at = format!("{at}.projected");
        let mode = build.default_mode(&at, source.default_mode)?;
        for (index, projection) in source.sources.iter().flatten().enumerate() {
            // One source that cannot be shown does not hide what is wrong with the others (P-123).
            let result = build.projection(&format!("{at}.sources[{index}]"), projection, mode);
            build.flaws.extend(result.err());
        }
    } else {
        return Err(Flaw::NotWritten { volume: volume.name.clone() }.into());
    }
    build.finish()
}

/// The mode that a directory of the volume must have in the end, if `mode` is what it is made with: the volume's own
/// (0777 on a disk, 1777 on a tmpfs), and those that are made in it for other mounts (0755, [`nested_directories`]).
/// Their group is that of the contents. The directories of the contents themselves are right already.
pub(crate) fn directory_mode(contents: &Contents, mode: u32) -> u32 {
    if contents.group.is_some() { mode | GROUP_DIRECTORY_BITS } else { mode }
}

/// Which keys of an object are shown, and how.
#[derive(Clone, Copy)]
struct Keys<'a> {
    items: Option<&'a [KeyToPath]>,
    optional: bool,
    mode: u32,
}

/// Contents in the making.
struct Build<'a> {
    pod: &'a Pod,
    namespace: &'a str,
    surroundings: Surroundings<'a>,
    contents: Contents,
    flaws: Vec<Flaw>,
}

impl<'a> Build<'a> {
    fn new(pod: &'a Pod, surroundings: Surroundings<'a>) -> Result<Self, Flaw> {
        let mut contents = Contents::default();
        let context = pod.spec.as_ref().and_then(|it| it.security_context.as_ref());
        if let Some(group) = context.and_then(|it| it.fs_group) {
            contents.group = Some(id("spec.securityContext.fsGroup", group)?);
            contents.directory_mode |= GROUP_DIRECTORY_BITS.into();
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        Ok(Self { pod, namespace, surroundings, contents, flaws: Vec::new() })
    }

    fn finish(self) -> Result<Contents, Error> {
        match Error::of(self.flaws) {
            Some(error) => Err(error),
            None => Ok(self.contents),
        }
    }

    fn default_mode(&self, at: &str, mode: Option<i32>) -> Result<u32, Flaw> {
        let field = || format!("{at}.defaultMode");
        checked(field, mode.ok_or_else(|| Flaw::NoDefaultMode { field: field() })?)
    }

    fn projection(&mut self, at: &str, projection: &VolumeProjection, mode: u32) -> Result<(), Flaw> {
        if let Some(source) = &projection.config_map {
            let keys = Keys { items: source.items.as_deref(), optional: source.optional == Some(true), mode };
            self.config_map(&format!("{at}.configMap"), &source.name, keys)
        } else if let Some(source) = &projection.secret {
            let keys = Keys { items: source.items.as_deref(), optional: source.optional == Some(true), mode };
            self.secret(&format!("{at}.secret"), &source.name, keys)
        } else if let Some(source) = &projection.downward_api {
            self.downward(&format!("{at}.downwardAPI"), source.items.as_deref(), mode);
            Ok(())
        } else if let Some(source) = &projection.service_account_token {
            self.token(&format!("{at}.serviceAccountToken"), source, mode)
        } else {
            // The gates of all others are off (P-8, P-9).
            Err(Flaw::Unsupported { field: at.into() })
        }
    }

    /// P-102, P-104..P-108.
    fn config_map(&mut self, at: &str, name: &str, keys: Keys<'_>) -> Result<(), Flaw> {
        let reference = Reference::new(ObjectKind::ConfigMap, self.namespace, name);
        let found = self.surroundings.sources.config_map(self.namespace, name);
        let map = present(&reference, found, keys.optional)?.unwrap_or_default();
        // A key that is in both is text when it is listed, and bytes when all are shown; the API forbids it.
        let text = map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
        let bytes = map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
        let value = |key: &str| {
            let text = map.data.as_ref().and_then(|it| it.get(key)).map(String::as_bytes);
            text.or_else(|| map.binary_data.as_ref().and_then(|it| it.get(key)).map(|it| it.0.as_slice()))
        };
        self.keys(at, &reference, keys, text.chain(bytes), value)
    }

    fn secret(&mut self, at: &str, name: &str, keys: Keys<'_>) -> Result<(), Flaw> {
        let reference = Reference::new(ObjectKind::Secret, self.namespace, name);
        let found = self.surroundings.sources.secret(self.namespace, name);
        let secret = present(&reference, found, keys.optional)?.unwrap_or_default();
        let empty = BTreeMap::new();
        let data = secret.data.as_ref().unwrap_or(&empty);
        let all = data.iter().map(|(key, value)| (key.as_str(), value.0.as_slice()));
        self.keys(at, &reference, keys, all, |key| data.get(key).map(|it| it.0.as_slice()))
    }

    /// All keys of an object, or those that are listed.
    fn keys<'b>(
        &mut self,
        at: &str,
        reference: &Reference,
        keys: Keys<'_>,
        all: impl Iterator<Item = (&'b str, &'b [u8])>,
        value: impl Fn(&str) -> Option<&'b [u8]>,
    ) -> Result<(), Flaw> {
        let Some(items) = keys.items.filter(|it| !it.is_empty()) else {
            for (key, value) in all {
                if !is_key(key) {
                    return Err(Flaw::Key { reference: reference.clone(), key: key.into() });
                }
                self.add(|| reference.to_string(), key, value.to_vec(), keys.mode, None)?;
            }
            return Ok(());
        };
        for (index, item) in items.iter().enumerate() {
            let mode = match item.mode {
                Some(mode) => checked(|| format!("{at}.items[{index}].mode"), mode)?,
                None => keys.mode,
            };
            match value(&item.key) {
                Some(value) => {
                    self.add(|| format!("{at}.items[{index}].path"), &item.path, value.to_vec(), mode, None)?
                }
                None if keys.optional => {}
                None => return Err(Flaw::NoKey { reference: reference.clone(), key: item.key.clone() }),
            }
        }
        Ok(())
    }

    /// All items, and all that is wrong with them (P-114).
    fn downward(&mut self, at: &str, items: Option<&[DownwardAPIVolumeFile]>, mode: u32) {
        for (index, item) in items.unwrap_or_default().iter().enumerate() {
            let result = self.downward_item(&format!("{at}.items[{index}]"), item, mode);
            self.flaws.extend(result.err());
        }
    }

    fn downward_item(&mut self, at: &str, item: &DownwardAPIVolumeFile, mode: u32) -> Result<(), Flaw> {
        let mode = match item.mode {
            Some(mode) => checked(|| format!("{at}.mode"), mode)?,
            None => mode,
        };
        let value = if let Some(field) = &item.field_ref {
            downward::field(self.pod, &field.field_path)?
        } else if let Some(field) = &item.resource_field_ref {
            let empty = PodSpec::default();
            let spec = self.pod.spec.as_ref().unwrap_or(&empty);
            let node = || {
                let reference = Reference::new(ObjectKind::Node, "", self.surroundings.node);
                present(&reference, self.surroundings.sources.node(self.surroundings.node), false)
            };
            downward::resource(at, spec, field, node)?
        } else {
            return Err(Flaw::NoReference { field: at.into() });
        };
        self.add(|| format!("{at}.path"), &item.path, value.into_bytes(), mode, None)
    }

    /// P-124, P-125.
    fn token(&mut self, at: &str, source: &ServiceAccountTokenProjection, mode: u32) -> Result<(), Flaw> {
        let user = self.pod.spec.as_ref().and_then(shared_user);
        let owner = user.map(|it| id("securityContext.runAsUser", it)).transpose()?;
        let mode = if owner.is_some() || self.contents.group.is_some() { 0o600 } else { mode };
        let token = (self.surroundings.tokens)(&token_request(self.pod, source)).map_err(Flaw::Token)?;
        self.add(|| format!("{at}.path"), &source.path, token.text().into(), mode, owner)
    }

    /// One file. A file that has the path already is replaced: the later source wins (P-121).
    fn add(
        &mut self,
        field: impl Fn() -> String,
        path: &str,
        contents: Vec<u8>,
        mode: u32,
        owner: Option<u32>,
    ) -> Result<(), Flaw> {
        let mode = if self.contents.group.is_some() { mode | GROUP_FILE_BITS } else { mode };
        let file = File { contents, mode: mode.into(), owner };
        self.contents.add("path", path, file).map_err(|cause| Flaw::Path { field: field(), cause })
    }
}

fn token_request(pod: &Pod, source: &ServiceAccountTokenProjection) -> token::Request {
    let audience = source.audience.iter().filter(|it| !it.is_empty());
    token::Request {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        service_account: pod.spec.as_ref().and_then(|it| it.service_account_name.clone()).unwrap_or_default(),
        audiences: audience.cloned().collect(),
        expiration_seconds: source.expiration_seconds.unwrap_or(EXPIRATION_SECONDS_DEFAULT),
        pod_name: pod.metadata.name.clone().unwrap_or_default(),
        pod_uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
    }
}

/// The object; `None` if it does not exist and need not. What could not be looked up may exist (P-106).
fn present<T>(reference: &Reference, found: Lookup<Arc<T>>, optional: bool) -> Result<Option<Arc<T>>, Flaw> {
    match found {
        Lookup::Found(object) => Ok(Some(object)),
        Lookup::Absent if optional => Ok(None),
        Lookup::Absent => Err(Flaw::Missing(reference.clone())),
        Lookup::Unavailable(text) => Err(Flaw::Unavailable { reference: reference.clone(), text }),
    }
}

/// Is it a name that the API takes for a key (P-100)?
fn is_key(key: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_');
    (1..=253).contains(&key.len()) && key.bytes().all(plain) && key != "." && !key.starts_with("..")
}

/// The API takes permission bits only (P-99).
fn checked(field: impl Fn() -> String, mode: i32) -> Result<u32, Flaw> {
    match u32::try_from(mode) {
        Ok(bits @ 0..=0o777) => Ok(bits),
        Ok(_) | Err(_) => Err(Flaw::Mode { field: field(), mode }),
    }
}

/// A user or group that the kernel knows how to write down: not less than zero, and not the one number that means none.
fn id(field: &'static str, id: i64) -> Result<u32, Flaw> {
    u32::try_from(id).ok().filter(|it| *it != u32::MAX).ok_or(Flaw::Id { field, id })
}

#[cfg(test)]
mod tests;
