//! What only the cases of CSI drivers ask for (`tests/golden-csi/README.md`).

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time;
use windlass::inner::Registered;
use windlass::manifest::Object;
use windlass::node::Change;

use crate::agent::Agent;
use crate::manifests::Manifests;
use crate::tree;

/// How long it takes at most to tidy up after a driver.
const SOON: Duration = Duration::from_millis(300);

/// What to do, besides what the other cases ask for.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Inspect {
    /// The objects of this directory are there, besides those that were or in their place.
    Apply { dir: PathBuf },
    /// Ask once how full every mounted volume is.
    Stats,
    /// Tell what lies below the root.
    Tree,
    /// Tell what is known of drivers, volumes and claims, and what the owners of pods were told.
    Objects,
}

/// What the owners of pods were told so far: each thing once.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Value>>>);

impl Events {
    pub(crate) fn note(&self, change: &Change) {
        let Change::Event(event) = change else { return };
        let told = json!({
            "object": format!("pod {}", event.pod),
            "type": event.tone.to_string(),
            "reason": event.reason,
            "message": &*event.message,
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&told) {
            all.push(told);
        }
    }

    fn all(&self, root: &Path) -> Vec<Value> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for event in &mut all {
            let message = event["message"].as_str().map(|it| tree::fold(root, it));
            event["message"] = json!(message);
        }
        all
    }
}

impl Agent {
    pub(crate) async fn inspect(&mut self, asked: Inspect) -> Value {
        let answer = match asked {
            Inspect::Apply { dir } => self.apply(&dir).map(|()| json!({})),
            Inspect::Stats => {
                self.stats().await;
                Ok(json!({}))
            }
            Inspect::Tree => {
                self.finish().await;
                tree::read(&self.root).map(|it| json!({"tree": it})).map_err(Into::into)
            }
            Inspect::Objects => Ok(json!({"objects": self.objects().await, "events": self.events.all(&self.root)})),
        };
        answer.unwrap_or_else(|error: Box<dyn Error>| json!({"error": error.to_string()}))
    }

    /// Objects appear or change; pods are only known of until they are told to run.
    fn apply(&mut self, directory: &Path) -> Result<(), Box<dyn Error>> {
        let more = Manifests::read(directory)?;
        for object in more.objects.values() {
            self.node.update_object(object.clone());
        }
        self.world.objects.extend(more.objects);
        self.world.pods.extend(more.pods);
        Ok(())
    }

    /// Lets what runs come to its end, if that is near: a driver has answered a little before all is tidied up.
    async fn finish(&self) {
        let mut changes = self.node.changes();
        let done = async {
            while self.node.snapshot().await.is_ok_and(|it| !it.operations.is_empty()) {
                changes.next().await;
            }
        };
        let _ = time::timeout(SOON, done).await;
    }

    async fn stats(&self) {
        for pod in self.running.values() {
            for (volume, answer) in self.node.statistics(pod).await.unwrap_or_default() {
                eprintln!("{pod} {volume}: {answer:?}");
            }
        }
    }

    /// As far as windlass knows it: it writes no objects, but tells whoever does.
    async fn objects(&self) -> Map<String, Value> {
        let drivers: Vec<Value> = self.node.drivers().iter().map(driver).collect();
        let in_use = self.node.volumes_in_use().await.ok().flatten().map(|it| it.volumes).unwrap_or_default();
        let in_use: Vec<String> = in_use.iter().map(ToString::to_string).collect();
        let sizes: BTreeMap<String, Option<u64>> = match self.node.snapshot().await {
            Ok(snapshot) => snapshot.volumes.iter().map(|it| (it.id.to_string(), it.size_bytes)).collect(),
            Err(_) => BTreeMap::new(),
        };
        let mut all = Map::new();
        all.insert("csiNode".into(), json!({"drivers": drivers}));
        all.insert("node".into(), json!({"volumesInUse": in_use}));
        all.insert("sizes".into(), json!(sizes));
        for object in self.world.objects.values() {
            let Object::Claim(claim) = object else { continue };
            let of = |it: &Option<String>| it.clone().unwrap_or_default();
            let name = format!("claim {}/{}", of(&claim.metadata.namespace), of(&claim.metadata.name));
            all.insert(name, json!(claim.status));
        }
        all
    }
}

/// A driver as a `CSINode` has it (C-26).
fn driver(registered: &Registered) -> Value {
    let info = &registered.info;
    let keys: Vec<&String> = info.topology.keys().collect();
    let mut entry = json!({"name": registered.driver.name(), "nodeID": info.id, "topologyKeys": keys});
    if let Some(limit) = info.limit {
        entry["allocatable"] = json!({"count": limit});
    }
    entry
}
