//! Objects kept in memory, with the way back from an object to the pods that use it.
//!
//! Every change answers with the pods that must be resolved again, so a change costs what it touches (I-9).

use crate::fingerprint::Fingerprint;
use crate::objects::{Lookup, ObjectKind, Objects, Reference};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use windlass_core::ids::{ObjectName, PodUid};
use windlass_core::reason::Reason;

/// An object of any kind that is kept.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Object {
    /// A claim.
    Claim(Arc<PersistentVolumeClaim>),
    /// A persistent volume.
    Volume(Arc<PersistentVolume>),
    /// A CSI driver's object.
    Driver(Arc<CSIDriver>),
    /// A node.
    Node(Arc<Node>),
    /// A config map.
    ConfigMap(Arc<ConfigMap>),
    /// A secret.
    Secret(Arc<Secret>),
    /// A storage class.
    Class(Arc<StorageClass>),
    /// That a volume is attached to a node, or is to be.
    Attachment(Arc<VolumeAttachment>),
}

impl fmt::Debug for Object {
    /// Its name alone: what is printed ends up in logs, and a secret must not (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reference())
    }
}

impl Object {
    /// What it is called. An object without a name is called by the empty one.
    pub fn reference(&self) -> Reference {
        let kind = match self {
            Self::Claim(_) => ObjectKind::Claim,
            Self::Volume(_) => ObjectKind::Volume,
            Self::Driver(_) => ObjectKind::Driver,
            Self::Node(_) => ObjectKind::Node,
            Self::ConfigMap(_) => ObjectKind::ConfigMap,
            Self::Secret(_) => ObjectKind::Secret,
            Self::Class(_) => ObjectKind::Class,
            Self::Attachment(_) => ObjectKind::Attachment,
        };
        let ObjectMeta { namespace, name, .. } = self.metadata();
        Reference::new(kind, namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default())
    }

    /// What every object has.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Claim(it) => &it.metadata,
            Self::Volume(it) => &it.metadata,
            Self::Driver(it) => &it.metadata,
            Self::Node(it) => &it.metadata,
            Self::ConfigMap(it) => &it.metadata,
            Self::Secret(it) => &it.metadata,
            Self::Class(it) => &it.metadata,
            Self::Attachment(it) => &it.metadata,
        }
    }

    fn version(&self, key: [u64; 2]) -> u64 {
        let mut fingerprint = Fingerprint::new(key);
        let metadata = self.metadata();
        match &metadata.resource_version {
            Some(version) if !version.is_empty() => {
                fingerprint.number(1);
                fingerprint.field(metadata.uid.as_deref().unwrap_or_default().as_bytes());
                fingerprint.field(version.as_bytes());
            }
            Some(_) | None => {
                fingerprint.number(2);
                self.content(&mut fingerprint);
            }
        }
        fingerprint.finish()
    }

    /// The bytes that a volume would show, in a form that tells all of them apart.
    fn content(&self, fingerprint: &mut Fingerprint) {
        match self {
            Self::ConfigMap(it) => {
                texts(fingerprint, it.data.as_ref());
                bytes(fingerprint, it.binary_data.as_ref());
            }
            Self::Secret(it) => {
                bytes(fingerprint, it.data.as_ref());
                texts(fingerprint, it.string_data.as_ref());
            }
            // No volume shows these.
            Self::Claim(_)
            | Self::Volume(_)
            | Self::Driver(_)
            | Self::Node(_)
            | Self::Class(_)
            | Self::Attachment(_) => {}
        }
    }
}

fn texts(fingerprint: &mut Fingerprint, map: Option<&BTreeMap<String, String>>) {
    fields(fingerprint, map.into_iter().flatten().map(|(key, value)| (key, value.as_bytes())));
}

fn bytes(fingerprint: &mut Fingerprint, map: Option<&BTreeMap<String, ByteString>>) {
    fields(fingerprint, map.into_iter().flatten().map(|(key, value)| (key, value.0.as_slice())));
}

fn fields<'a>(fingerprint: &mut Fingerprint, map: impl Iterator<Item = (&'a String, &'a [u8])>) {
    let mut count = 0;
    for (key, value) in map {
        fingerprint.field(key.as_bytes());
        fingerprint.field(value);
        count += 1;
    }
    fingerprint.number(count);
}

macro_rules! from {
    ($($variant:ident($kind:ty)),*) => {
        $(impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$variant(Arc::new(object))
            }
        })*
    };
}

from! {
    Claim(PersistentVolumeClaim), Volume(PersistentVolume), Driver(CSIDriver), Node(Node), ConfigMap(ConfigMap),
    Secret(Secret), Class(StorageClass), Attachment(VolumeAttachment)
}

/// Objects in memory.
#[derive(Clone)]
pub struct Memory {
    key: [u64; 2],
    objects: BTreeMap<Reference, Entry>,
    failures: BTreeMap<Reference, Arc<str>>,
    /// What immutable objects have become meanwhile: something else, or nothing.
    hidden: BTreeMap<ObjectName, (Reference, Option<Object>)>,
    /// Why claims have no volume yet, as whoever makes volumes says.
    pending: BTreeMap<Reference, Reason>,
    dependents: Dependents,
    /// Whether objects that exist may not have been put yet.
    partial: bool,
}

#[derive(Clone)]
struct Entry {
    object: Object,
    /// Counted once, because an object is asked for it by every pod that shows it.
    version: u64,
}

impl fmt::Debug for Memory {
    /// What there is, but neither the key nor any content (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("objects", &self.objects.keys())
            .field("failures", &self.failures)
            .field("dependents", &self.dependents)
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// Nothing yet. Objects without a resource version are told apart by a number made of their content with `key`: it
    /// must be known to nobody else, and best be the same after a restart (see [`Objects::version`]).
    pub fn new(key: [u64; 2]) -> Self {
        Self {
            key,
            objects: BTreeMap::new(),
            failures: BTreeMap::new(),
            hidden: BTreeMap::new(),
            pending: BTreeMap::new(),
            dependents: Dependents::default(),
            partial: false,
        }
    }

    /// Whether objects that exist may not have been put yet. While that is so, it cannot be said of a config map or a secret
    /// that it does not exist, and nothing that shows it is taken away (I-1).
    pub fn begin_partial(&mut self) {
        self.partial = true;
    }

    /// All objects that exist have been put. Answers those that are used and do not exist, each with the pods to resolve
    /// again: none if that was known already.
    pub fn end_partial(&mut self) -> Vec<(ObjectName, Vec<PodUid>)> {
        if !std::mem::take(&mut self.partial) {
            return Vec::new();
        }
        let here: BTreeSet<ObjectName> = self.objects.keys().map(ObjectName::from).collect();
        let used = self.dependents.pods.iter().filter(|(object, _)| !here.contains(object));
        used.map(|(object, pods)| (object.clone(), pods.iter().cloned().collect())).collect()
    }

    fn missing<T>(&self, reference: &Reference) -> Lookup<T> {
        match reference.kind() {
            ObjectKind::ConfigMap | ObjectKind::Secret if self.partial => {
                Lookup::Unavailable("it has not been told of yet".into())
            }
            _ => Lookup::Absent,
        }
    }

    /// Whether objects may still come that were not told of.
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// The object is now this. Answers the pods to resolve again: none if it was this already.
    pub fn put(&mut self, object: Object) -> Vec<PodUid> {
        let reference = object.reference();
        let failed = self.failures.remove(&reference).is_some();
        if self.objects.get(&reference).is_some_and(|it| it.object == object) && !failed {
            self.hidden.remove(&ObjectName::from(&reference));
            return Vec::new();
        }
        if self.is_pinned(&reference) {
            self.hidden.insert(ObjectName::from(&reference), (reference.clone(), Some(object)));
            return if failed { self.dependents.of(&ObjectName::from(&reference)) } else { Vec::new() };
        }
        let version = object.version(self.key);
        self.objects.insert(reference.clone(), Entry { object, version });
        self.dependents.of(&ObjectName::from(&reference))
    }

    /// The object is known not to exist. Answers the pods to resolve again.
    pub fn remove(&mut self, reference: &Reference) -> Vec<PodUid> {
        let failed = self.failures.remove(reference).is_some();
        if self.is_pinned(reference) {
            self.hidden.insert(ObjectName::from(reference), (reference.clone(), None));
            return if failed { self.dependents.of(&ObjectName::from(reference)) } else { Vec::new() };
        }
        if self.objects.remove(reference).is_none() && !failed {
            return Vec::new();
        }
        self.dependents.of(&ObjectName::from(reference))
    }

    /// The object cannot be looked up until it is put or removed. Answers the pods to resolve again.
    pub fn fail(&mut self, reference: &Reference, text: &str) -> Vec<PodUid> {
        if self.failures.get(reference).is_some_and(|it| **it == *text) {
            return Vec::new();
        }
        self.failures.insert(reference.clone(), text.into());
        self.dependents.of(&ObjectName::from(reference))
    }

    /// Says why a claim has no volume yet, or that nobody says anything of that. Answers the pods to resolve again: none if
    /// that was said already.
    pub fn set_pending(&mut self, claim: &Reference, why: Option<Reason>) -> Vec<PodUid> {
        if self.pending.get(claim) == why.as_ref() {
            return Vec::new();
        }
        match why {
            Some(why) => self.pending.insert(claim.clone(), why),
            None => self.pending.remove(claim),
        };
        self.dependents.of(&ObjectName::from(claim))
    }

    /// Any object, as it was last known.
    pub fn get(&self, reference: &Reference) -> Lookup<&Object> {
        match (self.failures.get(reference), self.objects.get(reference)) {
            (Some(text), _) => Lookup::Unavailable(text.clone()),
            (None, Some(entry)) => Lookup::Found(&entry.object),
            (None, None) => self.missing(reference),
        }
    }

    /// The pods that use an object or wait for it.
    pub fn users(&self, object: &Reference) -> Vec<PodUid> {
        self.dependents.of(&ObjectName::from(object))
    }

    /// The pod turned out to use these objects, and no longer what it used before.
    pub fn set_uses(&mut self, pod: &PodUid, objects: &[ObjectName]) {
        let before = self.dependents.set(pod, objects);
        // Only what the pod has let go of can be free by now (I-9).
        for name in before.iter().filter(|it| self.hidden.contains_key(*it)).cloned().collect::<Vec<_>>() {
            if !self.dependents.of(&name).is_empty() {
                continue;
            }
            match self.hidden.remove(&name) {
                Some((_, Some(object))) => _ = self.put(object),
                Some((reference, None)) => _ = self.remove(&reference),
                None => {}
            }
        }
    }

    /// Whether changes of the object are not seen: it is immutable, and a pod has it as it was (P-110, P-282).
    fn is_pinned(&self, reference: &Reference) -> bool {
        let immutable = self.objects.get(reference).is_some_and(|it| match &it.object {
            Object::ConfigMap(it) => it.immutable == Some(true),
            Object::Secret(it) => it.immutable == Some(true),
            Object::Claim(_)
            | Object::Volume(_)
            | Object::Driver(_)
            | Object::Node(_)
            | Object::Class(_)
            | Object::Attachment(_) => false,
        });
        immutable && !self.dependents.of(&ObjectName::from(reference)).is_empty()
    }

    fn find<T>(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        pick: fn(&Object) -> Option<&Arc<T>>,
    ) -> Lookup<Arc<T>> {
        match self.get(&Reference::new(kind, namespace, name)) {
            Lookup::Found(object) => pick(object).cloned().map_or(Lookup::Absent, Lookup::Found),
            Lookup::Absent => Lookup::Absent,
            Lookup::Unavailable(text) => Lookup::Unavailable(text),
        }
    }

    /// The claims there are.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (&Reference, &Arc<PersistentVolumeClaim>)> {
        let from = self.objects.range(Reference::new(ObjectKind::Claim, "", "")..);
        let of_kind = from.take_while(|(reference, _)| reference.kind() == ObjectKind::Claim);
        of_kind.filter_map(|(at, it)| if let Object::Claim(it) = &it.object { Some((at, it)) } else { None })
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &Arc<PersistentVolume>> {
        let from = self.objects.range(Reference::new(ObjectKind::Volume, "", "")..);
        let of_kind = from.take_while(|(reference, _)| reference.kind() == ObjectKind::Volume);
        of_kind.filter_map(|(_, it)| if let Object::Volume(it) = &it.object { Some(it) } else { None })
    }

    /// The objects that a pod uses or waits for.
    pub(crate) fn uses(&self, pod: &PodUid) -> &[ObjectName] {
        self.dependents.objects.get(pod).map_or(&[], |it| it)
    }

    /// The storage classes there are.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &Arc<StorageClass>> {
        let from = self.objects.range(Reference::new(ObjectKind::Class, "", "")..);
        let of_kind = from.take_while(|(reference, _)| reference.kind() == ObjectKind::Class);
        of_kind.filter_map(|(_, it)| if let Object::Class(it) = &it.object { Some(it) } else { None })
    }
}

impl Objects for Memory {
    fn claim(&self, namespace: &str, name: &str) -> Lookup<Arc<PersistentVolumeClaim>> {
        self.find(ObjectKind::Claim, namespace, name, |it| if let Object::Claim(it) = it { Some(it) } else { None })
    }

    fn volume(&self, name: &str) -> Lookup<Arc<PersistentVolume>> {
        self.find(ObjectKind::Volume, "", name, |it| if let Object::Volume(it) = it { Some(it) } else { None })
    }

    fn driver(&self, name: &str) -> Lookup<Arc<CSIDriver>> {
        self.find(ObjectKind::Driver, "", name, |it| if let Object::Driver(it) = it { Some(it) } else { None })
    }

    fn node(&self, name: &str) -> Lookup<Arc<Node>> {
        self.find(ObjectKind::Node, "", name, |it| if let Object::Node(it) = it { Some(it) } else { None })
    }

    fn attachment(&self, name: &str) -> Lookup<Arc<VolumeAttachment>> {
        self.find(ObjectKind::Attachment, "", name, |it| if let Object::Attachment(it) = it { Some(it) } else { None })
    }

    fn version(&self, object: &Reference) -> Lookup<u64> {
        match (self.objects.get(object), self.failures.get(object)) {
            (Some(entry), _) => Lookup::Found(entry.version),
            (None, Some(text)) => Lookup::Unavailable(text.clone()),
            (None, None) => self.missing(object),
        }
    }

    fn pending(&self, claim: &Reference) -> Option<Reason> {
        self.pending.get(claim).cloned()
    }
}

/// The way back from an object to the pods that use it or wait for it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Dependents {
    pods: BTreeMap<ObjectName, BTreeSet<PodUid>>,
    objects: BTreeMap<PodUid, Box<[ObjectName]>>,
}

impl Dependents {
    /// The pod uses these objects, and no longer what it used before, which is answered.
    pub(crate) fn set(&mut self, pod: &PodUid, depends_on: &[ObjectName]) -> Box<[ObjectName]> {
        let before = self.remove(pod);
        // Names are shared by all pods that use the object.
        let names = depends_on.iter().map(|object| {
            let object = self.pods.get_key_value(object).map_or(object, |(object, _)| object).clone();
            self.pods.entry(object.clone()).or_default().insert(pod.clone());
            object
        });
        let names: Box<[ObjectName]> = names.collect();
        if !names.is_empty() {
            self.objects.insert(pod.clone(), names);
        }
        before
    }

    /// The pod is gone. Answers what it used.
    pub(crate) fn remove(&mut self, pod: &PodUid) -> Box<[ObjectName]> {
        let used = self.objects.remove(pod).unwrap_or_default();
        for object in &used {
            if let Some(pods) = self.pods.get_mut(object) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.pods.remove(object);
                }
            }
        }
        used
    }

    /// The pods that use this object, in order.
    pub(crate) fn of(&self, object: &ObjectName) -> Vec<PodUid> {
        self.pods.get(object).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(value: &str, version: Option<&str>) -> Object {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".into());
        map.metadata.name = Some("settings".into());
        map.metadata.resource_version = version.map(Into::into);
        map.data = Some(BTreeMap::from([("key".into(), value.into())]));
        map.into()
    }

    fn node() -> Object {
        let mut node = Node::default();
        node.metadata.name = Some("node-1".into());
        node.into()
    }

    fn settings() -> Reference {
        Reference::new(ObjectKind::ConfigMap, "default", "settings")
    }

    fn used() -> Memory {
        let mut memory = Memory::new([1, 2]);
        memory.set_uses(&"a".into(), &[ObjectName::from(&settings())]);
        memory.set_uses(&"b".into(), &[ObjectName::from(&settings()), "Node node-1".into()]);
        memory
    }

    fn pods(names: &[&str]) -> Vec<PodUid> {
        names.iter().map(|it| PodUid::from(*it)).collect()
    }

    #[test]
    fn a_change_names_the_pods_that_use_the_object() {
        let mut memory = used();
        assert_eq!(memory.put(config("1", None)), pods(&["a", "b"]), "it appeared");
        assert_eq!(memory.put(config("1", None)), pods(&[]), "it is the same");
        assert_eq!(memory.put(config("2", None)), pods(&["a", "b"]), "it changed");
        memory.set_uses(&"a".into(), &[]);
        assert_eq!(memory.remove(&settings()), pods(&["b"]), "it went");
        assert_eq!(memory.remove(&settings()), pods(&[]), "it was gone");
        memory.set_uses(&"b".into(), &[]);
        assert_eq!(memory.put(config("1", None)), pods(&[]), "nobody uses it");
    }

    #[test]
    fn an_object_that_cannot_be_read_is_neither_there_nor_absent_and_keeps_its_version() {
        let mut memory = used();
        memory.put(config("1", None));
        let before = memory.version(&settings());
        assert_eq!(memory.fail(&settings(), "timed out"), pods(&["a", "b"]));
        assert_eq!(memory.fail(&settings(), "timed out"), pods(&[]));
        assert_eq!(memory.get(&settings()), Lookup::Unavailable("timed out".into()));
        assert_eq!(memory.version(&settings()), before);
        assert_eq!(memory.put(config("1", None)), pods(&["a", "b"]), "it can be read again");
        assert!(matches!(memory.get(&settings()), Lookup::Found(_)));
    }

    /// I-1.
    #[test]
    fn what_has_not_been_told_of_is_not_said_to_be_absent_before_all_is_told() {
        let mut memory = Memory::new([1, 2]);
        memory.begin_partial();
        memory.set_uses(&"a".into(), &[ObjectName::from(&settings())]);
        memory.set_uses(&"b".into(), &["Node node-1".into()]);
        memory.put(node());
        assert!(matches!(memory.get(&settings()), Lookup::Unavailable(_)));
        assert!(matches!(memory.version(&settings()), Lookup::Unavailable(_)));
        assert_eq!(memory.node("node-2"), Lookup::Absent, "no volume shows it");
        assert_eq!(memory.end_partial(), [(ObjectName::from(&settings()), pods(&["a"]))]);
        assert_eq!(memory.get(&settings()), Lookup::Absent);
        assert_eq!(memory.end_partial(), []);
    }

    /// P-110.
    #[test]
    fn an_immutable_object_stays_as_it_was_while_a_pod_uses_it() {
        let immutable = |value: &str| {
            let Object::ConfigMap(map) = config(value, None) else { panic!() };
            Object::from(ConfigMap { immutable: Some(true), ..Arc::unwrap_or_clone(map) })
        };
        let mut memory = used();
        memory.put(immutable("1"));
        assert_eq!(memory.put(immutable("2")), pods(&[]));
        assert_eq!(memory.remove(&settings()), pods(&[]));
        assert_eq!(memory.put(config("3", None)), pods(&[]));
        memory.set_uses(&"a".into(), &[]);
        assert_eq!(memory.get(&settings()), Lookup::Found(&immutable("1")));
        memory.set_uses(&"b".into(), &[]);
        assert_eq!(memory.get(&settings()), Lookup::Found(&config("3", None)), "nobody has it any more");
    }

    #[test]
    fn a_version_follows_the_resource_version_or_else_the_content() {
        let version = |object: Object, key| {
            let mut memory = Memory::new(key);
            memory.put(object);
            memory.version(&settings())
        };
        assert_ne!(version(config("1", None), [1, 2]), version(config("2", None), [1, 2]));
        assert_eq!(version(config("1", Some("7")), [1, 2]), version(config("2", Some("7")), [1, 2]));
        assert_ne!(version(config("1", Some("7")), [1, 2]), version(config("1", Some("8")), [1, 2]));
        assert_ne!(version(config("1", None), [1, 2]), version(config("1", None), [1, 3]), "the key counts (I-12)");
        assert_eq!(Memory::new([1, 2]).version(&settings()), Lookup::Absent);
    }

    /// I-12.
    #[test]
    fn what_is_printed_tells_no_secret() {
        let mut secret = Secret::default();
        secret.metadata.name = Some("password".into());
        secret.string_data = Some(BTreeMap::from([("key".into(), "hunter2".into())]));
        let object = Object::from(secret);
        assert_eq!(format!("{object:?}"), "Secret /password");
        let mut memory = Memory::new([0xabcd_ef01, 0x1234_5678]);
        memory.put(object);
        let printed = format!("{memory:?}");
        assert!(printed.contains("password"), "{printed}");
        for secret in ["hunter2", &0xabcd_ef01_u64.to_string(), &0x1234_5678_u64.to_string()] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }

    #[test]
    fn moving_a_value_to_another_place_of_an_object_changes_its_version() {
        let with = |data: &str, binary: &str| {
            let map = ConfigMap {
                data: Some(BTreeMap::from([(data.into(), "x".into())])),
                binary_data: Some(BTreeMap::from([(binary.into(), ByteString(b"x".to_vec()))])),
                ..ConfigMap::default()
            };
            let mut memory = Memory::new([0, 0]);
            memory.put(map.into());
            memory.version(&Reference::new(ObjectKind::ConfigMap, "", ""))
        };
        assert_ne!(with("a", "b"), with("b", "a"));
    }

    proptest! {
        /// I-9: the index answers what a search through all pods would.
        #[test]
        fn the_way_back_agrees_with_the_way_there(steps in proptest::collection::vec((0..4_u8, proptest::collection::btree_set(0..4_u8, 0..4)), 0..20)) {
            let mut dependents = Dependents::default();
            let mut model: BTreeMap<PodUid, BTreeSet<ObjectName>> = BTreeMap::new();
            for (pod, objects) in steps {
                let pod = PodUid::from(format!("pod-{pod}").as_str());
                let objects: BTreeSet<ObjectName> = objects.iter().map(|it| format!("Node {it}").as_str().into()).collect();
                dependents.set(&pod, &objects.iter().cloned().collect::<Vec<_>>());
                model.insert(pod, objects);
                for object in (0..4).map(|it| ObjectName::from(format!("Node {it}").as_str())) {
                    let expected: Vec<_> = model.iter().filter(|(_, it)| it.contains(&object)).map(|(pod, _)| pod.clone()).collect();
                    prop_assert_eq!(dependents.of(&object), expected);
                }
            }
            model.keys().for_each(|pod| drop(dependents.remove(pod)));
            prop_assert!(dependents.pods.is_empty() && dependents.objects.is_empty(), "nothing is left");
        }
    }
}
