//! Where a test runs: a mount namespace, a directory, a node in it and the driver that it finds.

use std::ops::Deref;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::serde_json::{self, Value, json};
use windlass::Node;
use windlass::node::{Builder, DriverSettings, Report, Volume};
use windlass_core::ids::PodUid;
use windlass_testing::directory::Directory;
use windlass_testing::namespace;
use windlass_testing::wait::run;

use crate::giving::Giving as _;

/// What the driver is called.
pub(crate) const NAME: &str = "scripted.example.com";

/// How long a call of the driver may take. Tests let it pass, so it is short.
pub(crate) const DEADLINE: Duration = Duration::from_millis(400);

/// How large the volume is after it has grown, in bytes.
pub(crate) const GROWN: u64 = 2 << 30;

pub(crate) struct Host(Directory);

impl Deref for Host {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.0
    }
}

impl Host {
    pub(crate) fn new(name: &str) -> Self {
        namespace::separate();
        Self(Directory::short(name))
    }

    /// Starts a node that has the objects of this test's volume, and knows nothing else of the world.
    pub(crate) fn node(&self) -> Node {
        self.node_with("vol-1")
    }

    /// The same, of a volume that the driver calls so.
    pub(crate) fn node_with(&self, handle: &str) -> Node {
        self.start(self.builder(), handle, false)
    }

    /// The same, and it attaches volumes itself.
    pub(crate) fn attaching_node(&self) -> Node {
        self.start(self.controlling(), "vol-1", true)
    }

    /// The same, of a volume that others have attached, who read what is stored of volumes in use.
    pub(crate) fn reporting_node(&self) -> Node {
        let node = self.start(self.builder().report(Report::Stored), "vol-1", true);
        let attachment = json!({
            "metadata": {"name": windlass::inner::attachment("vol-1", NAME, "node-1")},
            "spec": {"attacher": NAME, "nodeName": "node-1", "source": {"persistentVolumeName": "pv"}},
            "status": {"attached": true},
        });
        node.update_object(of::<k8s_openapi::api::storage::v1::VolumeAttachment>(&attachment));
        node
    }

    fn builder(&self) -> Builder {
        Node::builder(self.path("node"))
            .runtime_directory(self.path("run"))
            .node_name("node-1")
            .driver_registry(self.path("registry"))
            .driver_deadline(DEADLINE)
    }

    /// A node that knows of the driver's controller service.
    pub(crate) fn controlling(&self) -> Builder {
        let settings = DriverSettings { controller: Some(self.path("csi.sock")), ..DriverSettings::default() };
        // What deletes something at once says so; others say how long they wait.
        self.builder().driver(NAME, settings).delete_delay(Duration::ZERO)
    }

    /// A node that knows of no controller service, and of nothing else.
    pub(crate) fn bare(&self) -> Node {
        self.builder().start().expect("a node")
    }

    fn start(&self, builder: Builder, handle: &str, attach: bool) -> Node {
        let node = builder.start().expect("a node");
        let driver = json!({"metadata": {"name": NAME}, "spec": {"attachRequired": attach}});
        node.update_object(of::<k8s_openapi::api::storage::v1::CSIDriver>(&driver));
        give(&node, handle, "1Gi");
        node
    }

    /// The same as [`Host::node`], with what is set for the driver. By itself a call may take for ever.
    pub(crate) fn node_set(&self, settings: DriverSettings) -> Node {
        self.start(self.builder().driver_deadline(Duration::MAX).driver(NAME, settings), "vol-1", false)
    }

    /// The volume is larger by now, and what is on it should be so too.
    pub(crate) fn grow(&self, node: &Node) {
        give(node, "vol-1", "2Gi");
    }

    /// Ends a node that has nothing left to do. By then nothing is mounted or noted of volumes, and no directory of a pod is
    /// left: those are removed a moment after the last volume, which the end waits for.
    pub(crate) fn end(&self, node: Node) {
        assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0), "nothing runs any more");
        assert_eq!(self.left(), [""; 0]);
    }

    /// Everything that is mounted or noted of volumes: empty when nothing is left.
    fn left(&self) -> Vec<String> {
        let mounts = self.mounts_below("node").into_iter().map(|it| format!("mount {}", it.display()));
        let mut left: Vec<String> = mounts.collect();
        let mut directories = vec![self.path("node/plugins/kubernetes.io/csi").join(NAME), self.path("node/pods")];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                left.push(entry.path().display().to_string());
                directories.push(entry.path());
            }
        }
        left
    }
}

/// The pod that wants the volume, with this for a group.
pub(crate) fn pod_of_group(group: i64) -> Pod {
    let mut pod = pod();
    let spec = pod.spec.get_or_insert_default();
    spec.security_context.get_or_insert_default().fs_group = Some(group);
    pod
}

/// The volume is of this size, and its claim was told of the size that it began with.
fn give(node: &Node, handle: &str, size: &str) {
    give_as(node, "", handle, size);
}

/// The same, of a volume and a claim with this after their names.
pub(crate) fn give_as(node: &Node, suffix: &str, handle: &str, size: &str) {
    let (pv, claim) = (format!("pv{suffix}"), format!("claim{suffix}"));
    let capacity = json!({"storage": size});
    let volume = json!({
        "metadata": {"name": pv},
        "spec": {
            "capacity": capacity, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": NAME, "volumeHandle": handle, "fsType": "tmpfs"},
            "claimRef": {"namespace": "default", "name": claim, "uid": claim},
        },
    });
    node.update_object(of::<k8s_openapi::api::core::v1::PersistentVolume>(&volume));
    let claim = json!({
        "metadata": {"namespace": "default", "name": claim, "uid": claim},
        "spec": {"volumeName": pv, "accessModes": ["ReadWriteOnce"], "resources": {"requests": capacity}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    node.update_object(of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(&claim));
}

/// The pod that wants the volume.
pub(crate) fn pod() -> Pod {
    pod_as("", "uid-1")
}

/// A pod of this UID that wants the volume with this after its name.
pub(crate) fn pod_as(suffix: &str, uid: &str) -> Pod {
    of(&json!({
        "metadata": {"namespace": "default", "name": format!("app{suffix}"), "uid": uid},
        "spec": {
            "containers": [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim{suffix}")}}],
        },
    }))
}

pub(crate) fn uid() -> PodUid {
    "uid-1".into()
}

pub(crate) fn of<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("an object")
}

/// The pod comes, and gets its volume.
pub(crate) fn bring_up(node: &Node) -> Vec<Volume> {
    node.add_pod(pod()).expect("a pod");
    run(node.ready(&uid())).expect("a volume that is mounted")
}

/// The pod goes, and nothing is left.
pub(crate) fn take_down(node: &Node) {
    node.remove_pod(&uid());
    settle(node);
}

/// Waits until the disk was read, and nothing is wanted, known or here.
pub(crate) fn settle(node: &Node) {
    let mut changes = node.changes();
    run(async {
        while let Ok(now) = node.snapshot().await
            && !(now.synced && now.volumes.is_empty() && now.pods.is_empty())
        {
            changes.next().await;
        }
    });
}
