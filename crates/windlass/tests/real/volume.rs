//! One volume of one pod, as the engine would have it made and taken away.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::serde_json::{self, Value, json};
use windlass::inner::{
    Failure, Given, Made, Plugin, Publish, RegisteredDrivers, Resolver, Settings, Slot, Unpublish, VolumeType, Want,
    fill_in,
};
use windlass_core::ids::{PodUid, Version};
use windlass_core::operation::Earlier;
use windlass_core::spec::{self, Access, Phase, VolumeSpec};

use crate::case::{Case, now};

/// The uid of every pod.
pub(crate) const POD: &str = "uid";

/// A volume that is resolved.
pub(crate) struct Volume {
    pub(crate) spec: Arc<VolumeSpec>,
    pub(crate) slot: Slot,
    want: Want,
    uid: PodUid,
    access: Access,
    volume_type: &'static VolumeType,
    /// What a record would say is going to be mounted.
    recorded: Mutex<Option<Made>>,
}

impl Volume {
    /// The volume `v` of a pod whose only container mounts it. The object has what goes into `spec` besides.
    pub(crate) fn new(case: &Case, source: Value, spec: Value) -> Self {
        let mut volume = source;
        volume["name"] = "v".into();
        let mut manifest = json!({
            "metadata": {"namespace": "default", "name": "pod", "uid": POD},
            "spec": {
                "containers": [{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "volumes": [volume],
            },
        });
        let Value::Object(spec) = spec else { panic!("{spec} is no object") };
        manifest["spec"].as_object_mut().unwrap().extend(spec);
        let mut pod: Pod = serde_json::from_value(manifest).unwrap();
        fill_in(&mut pod);
        Self::of(case, pod)
    }

    /// The only volume of a pod.
    pub(crate) fn of(case: &Case, pod: Pod) -> Self {
        let (settings, drivers) = (Settings::new("node-1"), RegisteredDrivers::new());
        let objects = case.scene.objects.read().unwrap();
        let resolver = Resolver { settings: &settings, drivers: &drivers, objects: &*objects };
        let given = Given { source: "test".into(), version: Version::NONE, phase: Phase::Running };
        let mut resolved = resolver.resolve(&pod, given).unwrap();
        let spec::Want::Volume(used) = &resolved.pod.volumes[0].want else { panic!("{:?}", resolved.pod.volumes) };
        let spec = Arc::clone(&used.spec);
        let detail = resolved.details.remove(0);
        let uid = resolved.pod.uid.clone();
        Self {
            slot: Slot::of(&uid, &spec).unwrap(),
            spec,
            uid,
            access: used.access,
            volume_type: detail.volume_type,
            recorded: Mutex::default(),
            want: Want::new(&Arc::new(pod), &Arc::new(detail), &objects, "node-1"),
        }
    }

    fn plugin(&self) -> &'static dyn Plugin {
        self.volume_type.plugin
    }

    pub(crate) fn publish(&self, case: &Case, after: Earlier) -> Result<Made, Failure> {
        let Self { spec, slot, want, uid, access, .. } = self;
        let home = &case.scene.layout.home(&slot.pod);
        let made = self.recorded.lock().unwrap().clone();
        let intend = |made: &Made| {
            *self.recorded.lock().unwrap() = Some(made.clone());
            Ok(())
        };
        let task = Publish {
            spec,
            slot,
            home,
            uid,
            want,
            access: *access,
            after,
            label: None,
            made: made.as_ref(),
            intend: &intend,
        };
        now(self.plugin().publish(&case.scene, &task))
    }

    /// As if there were no record any more.
    pub(crate) fn forget(&self) {
        *self.recorded.lock().unwrap() = None;
    }

    pub(crate) fn unpublish(&self, case: &Case, made: Option<&Made>) -> Result<(), Failure> {
        let Self { spec, slot, .. } = self;
        let home = &case.scene.layout.home(&slot.pod);
        let task = Unpublish { spec, slot, home, made, recorded: made.is_some() };
        now(self.plugin().unpublish(&case.scene, &task)).inspect(|()| self.forget())
    }
}
