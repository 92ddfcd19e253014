//! Pods that come and go on a node in this process; or, for those who count from outside, in one of its own.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::serde_json::{self, json};
use windlass::Node;
use windlass::source::{Containers, Source};
use windlass_core::ids::PodUid;
use windlass_testing::namespace::BASE;
use windlass_testing::wait::run;

/// Tells the program to play alone: how many pods come, how many of them go again, and how often the node is started anew.
pub(crate) const PLAY: &str = "--play";

/// What the program is told to play, if it is.
pub(crate) fn told() -> Option<Vec<usize>> {
    let mut words = std::env::args().skip(1);
    words.next().filter(|it| it == PLAY)?;
    Some(words.filter_map(|it| it.parse().ok()).collect())
}

/// Plays as it is told, in the namespace that it is started in.
pub(crate) fn play(words: &[usize]) -> ExitCode {
    let [pods, gone, anew] = words else { return ExitCode::from(2) };
    // Others have played the same, and what they left is still there.
    let mut play = Play::start(&format!("calls-{}", std::process::id()));
    play.burst(0..*pods);
    play.remove(*gone);
    for _ in 0..*anew {
        play.start_anew();
    }
    // What stays mounted goes with the namespace.
    std::mem::forget(play);
    ExitCode::SUCCESS
}

/// A node with pods.
pub(crate) struct Play {
    node: Node,
    source: Source,
    root: String,
    pods: Vec<PodUid>,
    /// The most worker threads that were seen.
    pub(crate) threads_most: usize,
}

impl Play {
    /// Starts a node whose root has this name.
    pub(crate) fn start(name: &str) -> Self {
        let root = format!("{BASE}/{name}");
        let (node, source) = begin(&root);
        source.complete();
        Self { node, source, root, pods: Vec::new(), threads_most: 0 }
    }

    /// Ends the node, and starts another that finds what it left.
    pub(crate) fn start_anew(&mut self) {
        run(self.node.clone().stop(Duration::from_secs(60))).unwrap();
        (self.node, self.source) = begin(&self.root);
        let count = std::mem::take(&mut self.pods).len();
        self.burst(0..count);
        self.source.complete();
    }

    /// Pods come at once, and are waited for.
    pub(crate) fn burst(&mut self, indexes: Range<usize>) {
        let first = self.pods.len();
        self.pods.extend(indexes.map(|it| self.source.apply(pod(it)).unwrap()));
        run(async {
            for pod in &self.pods[first..] {
                self.node.ready(pod).await.unwrap();
                self.threads_most = self.threads_most.max(self.node.workers().threads);
            }
        });
    }

    /// The last of them go at once, and are waited for.
    pub(crate) fn remove(&mut self, count: usize) {
        let gone = self.pods.split_off(self.pods.len() - count);
        for pod in &gone {
            self.source.gone(pod, Containers::Stopped);
        }
        run(async {
            for pod in &gone {
                self.node.gone(pod).await.unwrap();
                self.threads_most = self.threads_most.max(self.node.workers().threads);
            }
        });
    }

    pub(crate) fn remove_all(&mut self) {
        self.remove(self.pods.len());
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        self.remove_all();
        run(self.node.clone().stop(Duration::from_secs(60))).unwrap();
    }
}

/// Starts a node, and gives it all that pods name.
fn begin(root: &str) -> (Node, Source) {
    let builder = Node::builder(format!("{root}/root")).runtime_directory(format!("{root}/run"));
    // Counting is part of what a pod costs.
    #[cfg(feature = "metrics")]
    let builder = builder.observe(std::sync::Arc::new(windlass::metrics::Metrics::new()).observer());
    let node = builder.start().unwrap();
    let keys = || (0..4).map(|it| (format!("key-{it}"), json!("v".repeat(256)))).collect::<serde_json::Map<_, _>>();
    let settings = json!({"metadata": {"name": "settings", "namespace": "default"}, "data": keys()});
    let secret = json!({"metadata": {"name": "keys", "namespace": "default"}, "stringData": keys()});
    node.update_object(serde_json::from_value::<ConfigMap>(settings).unwrap());
    node.update_object(serde_json::from_value::<Secret>(secret).unwrap());
    let source = node.source("test");
    (node, source)
}

fn pod(index: usize) -> Pod {
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "config", "configMap": {"name": "settings", "defaultMode": 0o644}},
        {"name": "secret", "secret": {"secretName": "keys", "defaultMode": 0o644}},
    ]);
    let mounts = ["disk", "memory", "config", "secret"].map(|it| json!({"name": it, "mountPath": format!("/{it}")}));
    serde_json::from_value(json!({
        "metadata": {"name": format!("pod-{index}"), "namespace": "default", "uid": format!("{index:08}-0000-4000-8000-000000000000")},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
    }))
    .unwrap()
}
