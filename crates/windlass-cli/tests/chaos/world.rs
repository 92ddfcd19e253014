//! What the manifests say at a moment: pods and what they show, as text for the daemon and as files to expect.
//!
//! Nothing here knows the daemon or the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// How many config maps there are; each is a file.
pub(crate) const CONFIGS: usize = 3;
/// How many secrets there are; all are in one file.
pub(crate) const SECRETS: usize = 2;
/// How many claims of a directory on this node there are.
pub(crate) const LOCALS: usize = 2;

/// The file with the secrets.
pub(crate) const SECRETS_FILE: &str = "secrets.yaml";
/// The key that every object has, with its version.
pub(crate) const VERSION: &str = "version";

/// A kind of volume, of which a pod has one or none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Disk,
    Memory,
    Config,
    Secret,
    Labels,
    Projected,
    Host,
    Local,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] =
        [Self::Disk, Self::Memory, Self::Config, Self::Secret, Self::Labels, Self::Projected, Self::Host, Self::Local];

    /// What a pod calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Config => "config",
            Self::Secret => "secret",
            Self::Labels => "labels",
            Self::Projected => "projected",
            Self::Host => "host",
            Self::Local => "local",
        }
    }

    /// The plugin's directory in a pod; none for a path of the host, of which nothing is there.
    pub(crate) fn plugin(self) -> Option<&'static str> {
        match self {
            Self::Disk | Self::Memory => Some("kubernetes.io~empty-dir"),
            Self::Config => Some("kubernetes.io~configmap"),
            Self::Secret => Some("kubernetes.io~secret"),
            Self::Labels => Some("kubernetes.io~downward-api"),
            Self::Projected => Some("kubernetes.io~projected"),
            Self::Local => Some("kubernetes.io~local-volume"),
            Self::Host => None,
        }
    }

    /// Whether it is a mount of its own.
    pub(crate) fn is_mount(self) -> bool {
        matches!(self, Self::Memory | Self::Secret | Self::Labels | Self::Projected | Self::Local)
    }

    /// Whether containers write there.
    pub(crate) fn is_scratch(self) -> bool {
        matches!(self, Self::Disk | Self::Memory)
    }
}

/// A pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Its manifest.
    pub(crate) file: String,
    /// The value of a label, which it shows to itself.
    pub(crate) label: u64,
    /// Its volumes. A volume that left and came back has another number.
    pub(crate) volumes: BTreeMap<Kind, u64>,
    /// Which of the objects it uses.
    pub(crate) choice: usize,
}

impl Pod {
    fn config(&self) -> usize {
        self.choice % CONFIGS
    }

    fn secret(&self) -> usize {
        self.choice % SECRETS
    }

    fn local(&self) -> usize {
        self.choice % LOCALS
    }

    /// A volume's directory, below the root.
    pub(crate) fn place(&self, kind: Kind) -> Option<PathBuf> {
        let name = match kind {
            Kind::Local => format!("local-{}", self.local()),
            other => other.name().into(),
        };
        Some(Path::new("pods").join(&self.uid).join("volumes").join(kind.plugin()?).join(name))
    }

    /// A record of a volume, below the records.
    pub(crate) fn record(&self, kind: Kind) -> PathBuf {
        match kind {
            Kind::Host => format!("{}:volumes:kubernetes.io~host-path:host", self.uid).into(),
            Kind::Local => format!("{}:volumes:kubernetes.io~local-volume:local-{}", self.uid, self.local()).into(),
            // All that the pod has in directories of its own.
            Kind::Disk | Kind::Memory | Kind::Config | Kind::Secret | Kind::Labels | Kind::Projected => {
                Path::new("pods").join(&self.uid)
            }
        }
    }

    /// The files that what is shown depends on.
    fn files(&self) -> BTreeSet<String> {
        let shows = |kinds: &[Kind]| kinds.iter().any(|it| self.volumes.contains_key(it));
        let mut files = BTreeSet::from([self.file.clone()]);
        if shows(&[Kind::Config, Kind::Projected]) {
            files.insert(config_file(self.config()));
        }
        if shows(&[Kind::Secret, Kind::Projected]) {
            files.insert(SECRETS_FILE.into());
        }
        files
    }

    fn manifest(&self, hosts: &Path) -> Value {
        let volumes: Vec<Value> = self.volumes.keys().map(|it| self.volume(*it, hosts)).collect();
        let mounts: Vec<Value> =
            self.volumes.keys().map(|it| json!({"name": it.name(), "mountPath": format!("/{}", it.name())})).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": "default",
                "uid": self.uid,
                "labels": {"app": self.name, "turn": self.label.to_string()},
            },
            "spec": {
                "serviceAccountName": "robot",
                "containers": [{"name": "main", "image": "busybox", "volumeMounts": mounts}],
                "volumes": volumes,
            },
        })
    }

    fn volume(&self, kind: Kind, hosts: &Path) -> Value {
        let (config, secret) = (config_name(self.config()), secret_name(self.secret()));
        let labels = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
        let mut volume = match kind {
            Kind::Disk => json!({"emptyDir": {}}),
            Kind::Memory => json!({"emptyDir": {"medium": "Memory"}}),
            Kind::Config => json!({"configMap": {"name": config}}),
            Kind::Secret => json!({"secret": {"secretName": secret, "defaultMode": 0o400}}),
            Kind::Labels => json!({"downwardAPI": {"items": labels}}),
            Kind::Projected => json!({"projected": {"defaultMode": 0o440, "sources": [
                {"configMap": {"name": config, "items": [{"key": VERSION, "path": "config/version", "mode": 0o444}]}},
                {"secret": {"name": secret}},
                {"downwardAPI": {"items": labels}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 7200}},
            ]}}),
            Kind::Host => json!({"hostPath": {"path": hosts.join("host"), "type": "Directory"}}),
            Kind::Local => json!({"persistentVolumeClaim": {"claimName": format!("claim-{}", self.local())}}),
        };
        volume["name"] = kind.name().into();
        volume
    }
}

/// A file that a volume shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    /// Its bytes; a token's are not known beforehand.
    pub(crate) bytes: Option<Vec<u8>>,
    pub(crate) mode: u32,
}

/// All that the manifests say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct World {
    /// By name.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// The versions of the config maps and secrets, which only grow.
    pub(crate) configs: [u64; CONFIGS],
    pub(crate) secrets: [u64; SECRETS],
    /// A manifest that makes no sense at the moment.
    pub(crate) broken: Option<String>,
}

impl World {
    /// All files.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let configs = (0..CONFIGS).map(config_file);
        let pods = self.pods.values().map(|it| it.file.clone());
        configs.chain(pods).chain([SECRETS_FILE.into(), "node.yaml".into()]).collect()
    }

    /// What is in a file. Directories of the host are below `hosts`.
    pub(crate) fn text(&self, file: &str, hosts: &Path) -> String {
        if self.broken.as_deref() == Some(file) {
            return "apiVersion: v1\nkind: [\n".into();
        }
        if let Some(pod) = self.pods.values().find(|it| it.file == file) {
            return pod.manifest(hosts).to_string();
        }
        if file == SECRETS_FILE {
            let all = self.secrets.iter().enumerate().map(|(index, version)| {
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret_name(index), "namespace": "default"},
                    "stringData": data(&secret_name(index), *version)})
            });
            return documents(all);
        }
        if let Some(index) = (0..CONFIGS).find(|it| config_file(*it) == file) {
            let name = config_name(index);
            return documents([json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"}, "data": data(&name, self.configs[index])})]);
        }
        documents(node(hosts))
    }

    /// Whether a manifest makes no sense that has to do with what this pod shows.
    pub(crate) fn is_in_doubt(&self, pod: &Pod) -> bool {
        self.broken.as_ref().is_some_and(|it| pod.files().contains(it))
    }

    /// What a volume shows, by path; nothing for those that are not written by windlass.
    pub(crate) fn shown(&self, pod: &Pod, kind: Kind) -> Option<BTreeMap<String, Shown>> {
        let config = || data(&config_name(pod.config()), self.configs[pod.config()]);
        let secret = || data(&secret_name(pod.secret()), self.secrets[pod.secret()]);
        let labels = || format!("app=\"{}\"\nturn=\"{}\"", pod.name, pod.label);
        let with = |mode| move |(path, text): (String, String)| (path, Shown { bytes: Some(text.into_bytes()), mode });
        match kind {
            Kind::Disk | Kind::Memory | Kind::Host | Kind::Local => None,
            Kind::Config => Some(config().into_iter().map(with(0o644)).collect()),
            Kind::Secret => Some(secret().into_iter().map(with(0o400)).collect()),
            Kind::Labels => Some([with(0o644)(("labels".into(), labels()))].into()),
            Kind::Projected => {
                let mut all: BTreeMap<_, _> = secret().into_iter().map(with(0o440)).collect();
                all.extend([
                    with(0o444)(("config/version".into(), self.configs[pod.config()].to_string())),
                    with(0o440)(("labels".into(), labels())),
                    ("token".into(), Shown { bytes: None, mode: 0o440 }),
                ]);
                Some(all)
            }
        }
    }
}

/// The file of a config map.
pub(crate) fn config_file(index: usize) -> String {
    format!("config/{}.yaml", config_name(index))
}

fn config_name(index: usize) -> String {
    format!("settings-{index}")
}

fn secret_name(index: usize) -> String {
    format!("keys-{index}")
}

/// What an object holds in a version: the version, and keys of different lengths that come and go.
fn data(name: &str, version: u64) -> BTreeMap<String, String> {
    let extra = (0..version % 4).map(|it| {
        let length = usize::try_from(version * 37 % 5000).unwrap_or_default();
        (format!("extra-{it}"), format!("{name} {version} {it} {}", "x".repeat(length)))
    });
    extra.chain([(VERSION.into(), version.to_string())]).collect()
}

/// The node, and claims of directories on it.
fn node(hosts: &Path) -> Vec<Value> {
    let mut all = vec![json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1"}}})];
    for index in 0..LOCALS {
        let (volume, claim, uid) = (format!("local-{index}"), format!("claim-{index}"), format!("claim-uid-{index}"));
        let selector =
            json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}]);
        all.push(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": hosts.join(&volume)},
                "claimRef": {"namespace": "default", "name": claim, "uid": uid},
                "nodeAffinity": {"required": {"nodeSelectorTerms": selector}}},
            "status": {"phase": "Bound"}}));
        all.push(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": "default", "uid": uid},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "", "volumeName": volume},
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}));
    }
    all
}

/// JSON is YAML, and YAML can have several documents.
fn documents(all: impl IntoIterator<Item = Value>) -> String {
    let mut text = String::new();
    for document in all {
        let _ = writeln!(text, "---\n{document}");
    }
    text
}
