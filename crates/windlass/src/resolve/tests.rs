//! Manifests in, what the engine is told out. The texts of errors are the kubelet's own, taken from runs of it.

use super::*;
use crate::catalogue::RegisteredDriver;
use crate::defaults;
use crate::memory::Memory;
use k8s_openapi::serde::de::DeserializeOwned;
use k8s_openapi::serde_json::{self, Value, json};
use proptest::prelude::*;
use std::fmt::Write;

mod claims;
mod csi;
mod usage;
mod written;

const NODE: &str = "
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
";

/// A world of objects and pods.
struct World {
    settings: Settings,
    drivers: RegisteredDrivers,
    memory: Memory,
    pods: Vec<api::Pod>,
}

impl World {
    fn new(manifests: &str) -> Self {
        let mut world = Self {
            settings: Settings::new("node-1"),
            drivers: RegisteredDrivers::new(),
            memory: Memory::new([1, 2]),
            pods: Vec::new(),
        };
        world.apply(NODE);
        world.apply(manifests);
        world
    }

    /// Reads manifests as a source would, with the API server's defaults.
    fn apply(&mut self, manifests: &str) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
        for document in documents.into_iter().filter(|it| !it.is_null()) {
            let object = match document["kind"].as_str().unwrap() {
                "Pod" => {
                    self.pods.push(filled(document, defaults::pod));
                    continue;
                }
                "Node" => filled::<api::Node>(document, |_| ()).into(),
                "PersistentVolume" => filled(document, defaults::persistent_volume).into(),
                "PersistentVolumeClaim" => filled(document, defaults::claim).into(),
                "CSIDriver" => filled(document, defaults::csi_driver).into(),
                "ConfigMap" => filled(document, |it: &mut api::ConfigMap| defaults::namespace(&mut it.metadata)).into(),
                "Secret" => filled(document, defaults::secret).into(),
                other => panic!("no {other} here"),
            };
            self.memory.put(object);
        }
    }

    fn resolve(&self, pod: &api::Pod) -> Resolved {
        let Self { settings, drivers, memory: objects, .. } = self;
        let given = Given { source: "test".into(), version: Version(1), phase: Phase::Running };
        Resolver { settings, drivers, objects }.resolve(pod, given).unwrap()
    }

    /// The only pod, resolved.
    fn only(&self) -> Resolved {
        let [pod] = self.pods.as_slice() else { panic!("one pod") };
        self.resolve(pod)
    }

    /// How the only pod uses its only volume.
    fn only_use(&self) -> Use {
        match self.only().pod.volumes.as_slice() {
            [PodVolume { want: Want::Volume(used), .. }] => used.clone(),
            other => panic!("one known volume, not {other:?}"),
        }
    }

    /// All pods in words: a line per volume.
    fn trace(&self) -> String {
        let mut text = String::new();
        for pod in &self.pods {
            let resolved = self.resolve(pod);
            writeln!(text, "{}", resolved.pod.name).unwrap();
            for volume in &resolved.pod.volumes {
                write!(text, "  {} ", volume.name).unwrap();
                match &volume.want {
                    Want::Volume(used) => {
                        let access = if used.access == Access::ReadOnly { ", read-only" } else { "" };
                        let mode = if used.spec.mode == Mode::Block { ", block" } else { "" };
                        writeln!(text, "is {}{access}{mode}", used.spec.id).unwrap();
                        let detail = resolved.details.iter().find(|it| it.name == volume.name).unwrap();
                        if let Some(refusal) = &detail.refusal {
                            let waits_on = refusal.waits_on.iter().map(|it| format!(" <- {it}")).collect::<String>();
                            writeln!(text, "    refused: {refusal}{waits_on}").unwrap();
                        }
                    }
                    Want::Unknown { text: why, waits_on } => {
                        let waits_on = waits_on.as_ref().map_or("nothing", |it| it.as_str());
                        writeln!(text, "unknown: {why} <- {waits_on}").unwrap();
                    }
                    Want::Pending(why) => writeln!(text, "pending: {}: {}", why.code, why.text).unwrap(),
                    Want::Invalid { text: why } => writeln!(text, "invalid: {why}").unwrap(),
                }
            }
        }
        text
    }
}

fn filled<T: DeserializeOwned>(document: Value, fill: fn(&mut T)) -> T {
    let mut object = serde_json::from_value(document).unwrap();
    fill(&mut object);
    object
}

fn run(manifests: &str) -> String {
    World::new(manifests).trace()
}

/// A pod `p` that mounts these volumes, given as name and source.
fn pod(volumes: &[(&str, &str)]) -> String {
    let mounts: Vec<String> = volumes.iter().map(|(name, _)| format!("{{name: {name}, mountPath: /{name}}}")).collect();
    let volumes: Vec<String> = volumes.iter().map(|(name, source)| format!("{{name: {name}, {source}}}")).collect();
    format!(
        "
kind: Pod
metadata: {{name: p, uid: uid-1}}
spec:
  containers: [{{name: main, volumeMounts: [{}]}}]
  volumes: [{}]
",
        mounts.join(", "),
        volumes.join(", ")
    )
}

/// A claim `data` that is bound to the volume `pv`, and the volume.
fn bound(volume: &str) -> String {
    format!(
        "
---
kind: PersistentVolumeClaim
metadata: {{name: data, uid: claim-1}}
spec: {{volumeName: pv, accessModes: [ReadWriteOnce]}}
status: {{phase: Bound, capacity: {{storage: 1Gi}}}}
---
kind: PersistentVolume
metadata: {{name: pv}}
spec: {{claimRef: {{uid: claim-1}}, capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], {volume}}}
"
    )
}

/// A pod that uses that claim.
fn claiming(volume: &str) -> World {
    World::new(&(pod(&[("v", "persistentVolumeClaim: {claimName: data}")]) + &bound(volume)))
}

/// A persistent volume of a CSI driver.
const CSI: &str = "csi: {driver: d.example.com, volumeHandle: vol-1}";
