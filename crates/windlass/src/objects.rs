//! The objects that resolving a pod looks up, and what they are called.
//!
//! Where they come from is no matter here: an API server's watch, a directory of manifests, a program that embeds
//! windlass. [`memory::Memory`](crate::memory::Memory) keeps them in memory.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use windlass_core::ids::ObjectName;
use windlass_core::reason::Reason;

/// What looking an object up gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lookup<T> {
    /// It is this.
    Found(T),
    /// It does not exist, as far as is known for certain. It may appear.
    Absent,
    /// It could not be looked up, which says nothing about it. The text says why, for people.
    Unavailable(Arc<str>),
}

/// A kind of object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ObjectKind {
    /// `PersistentVolumeClaim`.
    Claim,
    /// `PersistentVolume`.
    Volume,
    /// `CSIDriver`.
    Driver,
    /// `Node`.
    Node,
    /// `ConfigMap`.
    ConfigMap,
    /// `Secret`.
    Secret,
    /// `ClusterTrustBundle`.
    TrustBundle,
    /// `StorageClass`.
    Class,
    /// `VolumeAttachment`.
    Attachment,
}

impl ObjectKind {
    /// What the API calls one of them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
            Self::Driver => "CSIDriver",
            Self::Node => "Node",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::TrustBundle => "ClusterTrustBundle",
            Self::Class => "StorageClass",
            Self::Attachment => "VolumeAttachment",
        }
    }

    /// What the API calls many of them, as it stands in `persistentvolumes "x" not found`.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Claim => "persistentvolumeclaims",
            Self::Volume => "persistentvolumes",
            Self::Driver => "csidrivers.storage.k8s.io",
            Self::Node => "nodes",
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::TrustBundle => "clustertrustbundles.certificates.k8s.io",
            Self::Class => "storageclasses.storage.k8s.io",
            Self::Attachment => "volumeattachments.storage.k8s.io",
        }
    }

    /// Does it live in a namespace?
    pub fn is_namespaced(self) -> bool {
        match self {
            Self::Claim | Self::ConfigMap | Self::Secret => true,
            Self::Volume | Self::Driver | Self::Node | Self::TrustBundle | Self::Class | Self::Attachment => false,
        }
    }
}

/// Which object is meant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reference {
    kind: ObjectKind,
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Reference {
    /// The object of this kind and name. The namespace counts only for kinds that live in one.
    pub fn new(kind: ObjectKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: if kind.is_namespaced() { namespace } else { "" }.into(), name: name.into() }
    }

    /// Its kind.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Its namespace; empty for kinds that live in none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name, without the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The API server's words for its absence.
    pub fn not_found(&self) -> String {
        format!("{} \"{}\" not found", self.kind.resource(), self.name)
    }
}

impl fmt::Display for Reference {
    /// In words a person knows: `Secret default/password`, `Node node-1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.is_namespaced() {
            true => write!(f, "{} {}/{}", self.kind.name(), self.namespace, self.name),
            false => write!(f, "{} {}", self.kind.name(), self.name),
        }
    }
}

impl From<&Reference> for ObjectName {
    fn from(reference: &Reference) -> Self {
        Self::from(reference.to_string().as_str())
    }
}

/// Answers what objects there are. It answers from what it has: it neither waits nor asks anybody.
pub trait Objects {
    /// A claim.
    fn claim(&self, namespace: &str, name: &str) -> Lookup<Arc<PersistentVolumeClaim>>;

    /// A persistent volume.
    fn volume(&self, name: &str) -> Lookup<Arc<PersistentVolume>>;

    /// A CSI driver's object. Most drivers work without one, so `Absent` is no failure.
    fn driver(&self, name: &str) -> Lookup<Arc<CSIDriver>>;

    /// A node.
    fn node(&self, name: &str) -> Lookup<Arc<Node>>;

    /// What says whether a volume is attached.
    fn attachment(&self, name: &str) -> Lookup<Arc<VolumeAttachment>>;

    /// A number that is another whenever the content of the object is another: what a volume that shows the object must
    /// be compared by. It must be the same after a restart, or volumes are compared with their objects once more then.
    ///
    /// An object that was known and cannot be read now should keep its number, so that nothing is written anew because
    /// the API server was away. The number of a `Secret` is written to disk and must not tell its content (I-12).
    fn version(&self, object: &Reference) -> Lookup<u64>;

    /// Why a claim has no volume yet, if whoever is to make it says. Nothing that is written in the claim itself counts.
    fn pending(&self, claim: &Reference) -> Option<Reason> {
        let _ = claim;
        None
    }
}

/// Looks objects up, and remembers which: also those that are absent, because a pod waits for them.
pub(crate) struct View<'a, O: ?Sized> {
    objects: &'a O,
    touched: BTreeSet<Reference>,
    /// An object, and whether it was looked up since it was looked out for.
    watched: Option<(Reference, bool)>,
}

impl<'a, O: Objects + ?Sized> View<'a, O> {
    pub(crate) fn new(objects: &'a O) -> Self {
        Self { objects, touched: BTreeSet::new(), watched: None }
    }

    pub(crate) fn claim(&mut self, namespace: &str, name: &str) -> (Reference, Lookup<Arc<PersistentVolumeClaim>>) {
        (self.touch(ObjectKind::Claim, namespace, name), self.objects.claim(namespace, name))
    }

    /// Why a claim that was looked up has no volume yet.
    pub(crate) fn pending(&self, claim: &Reference) -> Option<Reason> {
        self.objects.pending(claim)
    }

    pub(crate) fn volume(&mut self, name: &str) -> (Reference, Lookup<Arc<PersistentVolume>>) {
        (self.touch(ObjectKind::Volume, "", name), self.objects.volume(name))
    }

    pub(crate) fn driver(&mut self, name: &str) -> (Reference, Lookup<Arc<CSIDriver>>) {
        (self.touch(ObjectKind::Driver, "", name), self.objects.driver(name))
    }

    pub(crate) fn node(&mut self, name: &str) -> (Reference, Lookup<Arc<Node>>) {
        (self.touch(ObjectKind::Node, "", name), self.objects.node(name))
    }

    pub(crate) fn attachment(&mut self, name: &str) -> (Reference, Lookup<Arc<VolumeAttachment>>) {
        (self.touch(ObjectKind::Attachment, "", name), self.objects.attachment(name))
    }

    pub(crate) fn version(&mut self, kind: ObjectKind, namespace: &str, name: &str) -> (Reference, Lookup<u64>) {
        let reference = self.touch(kind, namespace, name);
        let version = self.objects.version(&reference);
        (reference, version)
    }

    /// From now on it matters whether this object is looked up.
    pub(crate) fn look_out_for(&mut self, object: Option<&Reference>) {
        self.watched = object.map(|it| (it.clone(), false));
    }

    /// Whether it was.
    pub(crate) fn has_seen(&self) -> bool {
        self.watched.as_ref().is_some_and(|(_, seen)| *seen)
    }

    /// An object decides about a volume without being looked at here.
    pub(crate) fn depends_on(&mut self, kind: ObjectKind, namespace: &str, name: &str) {
        self.touch(kind, namespace, name);
    }

    /// Everything that was looked up.
    pub(crate) fn into_touched(self) -> Vec<ObjectName> {
        self.touched.iter().map(ObjectName::from).collect()
    }

    fn touch(&mut self, kind: ObjectKind, namespace: &str, name: &str) -> Reference {
        let reference = Reference::new(kind, namespace, name);
        if let Some((watched, seen)) = &mut self.watched {
            *seen |= *watched == reference;
        }
        self.touched.insert(reference.clone());
        reference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_as_people_say_it() {
        assert_eq!(Reference::new(ObjectKind::Secret, "default", "password").to_string(), "Secret default/password");
        assert_eq!(Reference::new(ObjectKind::Node, "default", "node-1").to_string(), "Node node-1");
        assert_eq!(
            Reference::new(ObjectKind::Node, "a", "n"),
            Reference::new(ObjectKind::Node, "b", "n"),
            "no namespace"
        );
    }

    /// E-152a, E-152e: the text that follows "from API server: ".
    #[test]
    fn absence_reads_as_the_api_server_says_it() {
        let claim = Reference::new(ObjectKind::Claim, "default", "data");
        assert_eq!(claim.not_found(), "persistentvolumeclaims \"data\" not found");
        assert_eq!(Reference::new(ObjectKind::Volume, "", "pv").not_found(), "persistentvolumes \"pv\" not found");
    }
}
