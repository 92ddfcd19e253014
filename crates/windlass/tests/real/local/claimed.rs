//! A claimed local volume of one pod, as the engine would have it staged, made and taken away.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::serde_json::{self, Value, json};
use windlass::inner::{
    Cache, Failure, Given, Local, Made, Plugin, Publish, RegisteredDrivers, Resolver, Scene, Settings, Slot, Stage,
    Tell, Unpublish, Want, fill_in,
};
use windlass::node::Event;
use windlass::token;
use windlass_core::ids::{PodUid, Version};
use windlass_core::operation::Earlier;
use windlass_core::spec::{self, Access, Phase, VolumeSpec};
use windlass_linux::table::Watch;

use crate::case::{Case, now};

/// The name of the volume unless a test needs two.
pub(crate) const VOLUME: &str = "pv";

/// A pod that claims a volume, in the making.
pub(crate) struct Claim {
    volume: Value,
    pod: Value,
    name: &'static str,
    read_only: bool,
}

/// A pod and its claimed volume.
pub(crate) struct Claimed {
    pub(crate) spec: Arc<VolumeSpec>,
    pub(crate) slot: Slot,
    want: Want,
    uid: PodUid,
    access: Access,
    /// The test's, but for who listens.
    scene: Scene,
    told: Arc<Mutex<Vec<Event>>>,
}

impl Claim {
    /// A claim to what is at a path.
    pub(crate) fn to(path: impl Into<PathBuf>) -> Self {
        // The API server would fill the mode in.
        let volume = json!({"local": {"path": path.into()}, "volumeMode": "Filesystem"});
        Self { volume, pod: json!({}), name: VOLUME, read_only: false }
    }

    /// Something in the specification of the persistent volume.
    pub(crate) fn volume(mut self, field: &str, value: Value) -> Self {
        self.volume[field] = value;
        self
    }

    pub(crate) fn raw(self) -> Self {
        self.volume("volumeMode", "Block".into())
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(crate) fn group(mut self, group: i64) -> Self {
        self.pod["securityContext"]["fsGroup"] = group.into();
        self
    }

    pub(crate) fn group_policy(mut self, policy: &str) -> Self {
        self.pod["securityContext"]["fsGroupChangePolicy"] = policy.into();
        self
    }

    pub(crate) fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// By the pod with this uid.
    pub(crate) fn by(self, case: &Case, uid: &str) -> Claimed {
        let Self { mut volume, pod, name, read_only } = self;
        let claim_uid = format!("claim-{name}");
        volume["accessModes"] = json!(["ReadWriteOnce"]);
        volume["capacity"] = json!({"storage": "1Gi"});
        volume["claimRef"] = json!({"namespace": "default", "name": name, "uid": claim_uid});
        let mode = volume["volumeMode"].clone();
        let volume: PersistentVolume =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": volume, "status": {"phase": "Bound"}}))
                .unwrap();
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": name, "uid": claim_uid},
            "spec": {"volumeName": name, "accessModes": ["ReadWriteOnce"], "volumeMode": mode},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        }))
        .unwrap();
        case.put(volume);
        case.put(claim);
        let uses = match mode.as_str() {
            Some("Block") => json!({"name": "main", "volumeDevices": [{"name": "v", "devicePath": "/dev/v"}]}),
            _ => json!({"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
        };
        let source = json!({"name": "v", "persistentVolumeClaim": {"claimName": name, "readOnly": read_only}});
        let mut manifest = json!({
            "metadata": {"namespace": "default", "name": uid, "uid": uid},
            "spec": {"containers": [uses], "volumes": [source]},
        });
        let Value::Object(pod) = pod else { panic!("{pod} is no object") };
        manifest["spec"].as_object_mut().unwrap().extend(pod);
        let mut pod: Pod = serde_json::from_value(manifest).unwrap();
        fill_in(&mut pod);
        Claimed::of(case, pod)
    }
}

impl Claimed {
    fn of(case: &Case, pod: Pod) -> Self {
        let (settings, drivers) = (Settings::new("node-1"), RegisteredDrivers::new());
        let objects = case.scene.objects.read().unwrap();
        let resolver = Resolver { settings: &settings, drivers: &drivers, objects: &*objects };
        let given = Given { source: "test".into(), version: Version::NONE, phase: Phase::Running };
        let mut resolved = resolver.resolve(&pod, given).unwrap();
        let spec::Want::Volume(used) = &resolved.pod.volumes[0].want else { panic!("{:?}", resolved.pod.volumes) };
        let (spec, access, uid) = (Arc::clone(&used.spec), used.access, resolved.pod.uid.clone());
        let slot = Slot::of(&uid, &spec).unwrap();
        let want =
            Want { pod: Arc::new(pod), detail: Arc::new(resolved.details.remove(0)), objects: Default::default() };
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&told);
        let scene = Scene {
            default_account: "".into(),
            layout: case.scene.layout.clone(),
            watch: Watch::begin().unwrap(),
            objects: Arc::clone(&case.scene.objects),
            tokens: Cache::new(Arc::new(token::NoProvider)),
            drivers: windlass::inner::Drivers::none(),
            attachments: Default::default(),
            observer: Default::default(),
            tell: Tell::new(move |event| listener.lock().unwrap().push(event)),
            node: Arc::clone(&case.scene.node),
        };
        Self { spec, slot, want, uid, access, scene, told }
    }

    pub(crate) fn stage(&self) -> Result<Made, Failure> {
        let Self { spec, want, access, .. } = self;
        now(Local.stage(&self.scene, &Stage { spec, want, access: *access, after: Earlier::Nothing, label: None }))
    }

    pub(crate) fn publish(&self, after: Earlier) -> Result<Made, Failure> {
        let Self { spec, slot, want, uid, access, .. } = self;
        let home = &self.scene.layout.home(&slot.pod);
        let (access, intend) = (*access, |_: &Made| Ok(()));
        let (label, made, intend) = (None, None, &intend);
        now(Local.publish(&self.scene, &Publish { spec, slot, home, uid, want, access, after, label, made, intend }))
    }

    /// Stages and publishes for the first time.
    pub(crate) fn make(&self) -> Made {
        self.stage().unwrap();
        self.publish(Earlier::Nothing).unwrap()
    }

    pub(crate) fn unpublish(&self, made: Option<&Made>) -> Result<(), Failure> {
        let Self { spec, slot, .. } = self;
        let home = &self.scene.layout.home(&slot.pod);
        now(Local.unpublish(&self.scene, &Unpublish { spec, slot, home, made, recorded: made.is_some() }))
    }

    pub(crate) fn unstage(&self) -> Result<(), Failure> {
        now(Local.unstage(&self.scene, &self.spec))
    }

    pub(crate) fn expand(&self, to_bytes: u64) -> Result<Option<u64>, Failure> {
        now(Local.expand(&self.scene, &self.spec, &self.want, to_bytes))
    }

    /// The volume's place in the pod, below the test's directory.
    pub(crate) fn place(&self) -> String {
        format!("root/{}", self.slot.path().display())
    }

    /// Something in the volume, as the pod sees it.
    pub(crate) fn inside(&self, below: &str) -> String {
        format!("{}/{below}", self.place())
    }

    /// What the pod's owner was told with this reason.
    pub(crate) fn told(&self, reason: &str) -> Vec<String> {
        let told = self.told.lock().unwrap();
        assert!(told.iter().all(|it| it.pod == self.uid));
        told.iter().filter(|it| it.reason == reason).map(|it| it.message.to_string()).collect()
    }
}
