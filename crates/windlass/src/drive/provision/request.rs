//! What a driver is to be asked for, for a claim without a volume; or why it is not asked yet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use windlass_core::ids::{DriverName, PodUid, VolumeId};
use windlass_core::reason::{Code, WaitsOn};

use crate::drive::Drive;
use crate::memory::{Memory, Object};
use crate::objects::{Lookup, ObjectKind, Reference};
use crate::provision::{self, Provision};

/// Why a claim waits before anybody is asked: a code, a text, and what has to happen.
type Hindrance = (Code, String, WaitsOn);

impl Drive {
    /// What a driver is to be asked for; or why it is not asked yet.
    pub(super) fn order(&self, claim: &Reference, given: &PersistentVolumeClaim) -> Result<Provision, Hindrance> {
        let memory = self.wishes.memory();
        let drivers = &self.outside.executor.scene.drivers;
        let class = class_of(&memory, given);
        if !drivers.has_controllers() {
            // Whether there is a class is nothing to go by: there may be somebody else who makes volumes, and knows it.
            let of = class.ok().map_or_else(|| "any driver".into(), |it| format!("driver {}", it.provisioner));
            let text = format!("nothing makes its volume: no controller service of {of} is set");
            return Err((Code::ControllerMissing, text, WaitsOn::Nothing));
        }
        let class = class?;
        // Said before anything else: nobody is asked as long as this is so.
        if let Err(failure) = drivers.controller(&class.provisioner) {
            return Err((Code::ControllerMissing, failure.text, WaitsOn::Nothing));
        }
        if let Some(text) = provision::obstacle(given) {
            return Err((Code::InputInvalid, text, WaitsOn::Object(claim.into())));
        }
        if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") && memory.users(claim).is_empty() {
            let text = "it waits for the first pod that uses it".into();
            return Err((Code::WaitsForFirstPod, text, WaitsOn::Nothing));
        }
        let registered = drivers.get(&class.provisioner).map_err(|failure| {
            (Code::DriverMissing, failure.text, WaitsOn::Driver(class.provisioner.as_str().into()))
        })?;
        // Whose it is may be known once all pods are.
        let is_unknown = |(it, volume): &(&DriverName, &VolumeId)| {
            it.as_str() == class.provisioner && !self.provisions.volumes.contains_key(*volume)
        };
        if !self.provisions.is_complete && self.engine.volumes_of_drivers().any(|it| is_unknown(&it)) {
            let text = "a volume of the driver is here of which it is not known yet whose it is".into();
            return Err((Code::SourceIncomplete, text, self.waits_on_source()));
        }
        if let Some((pod, volume)) = self.forgotten(&class.provisioner, &memory.users(claim)) {
            let text = format!(
                "pod {pod} has a volume of the driver here that nobody names, {volume}: it may be the claim's, and what was \
                 noted of it may be lost. Bring the notes back (`provisions` in the state directory), or let the volume go: \
                 windlass delete pod {pod} --orphaned-volumes"
            );
            return Err((Code::ProvisioningFailed, text, WaitsOn::Nothing));
        }
        let mut number = [0; 16];
        crate::node::random(&mut number);
        Ok(Provision::new(number, given, &class, registered.info.topology, jiff::Timestamp::now()))
    }

    /// A volume of a driver that one of these pods has and does not name: another must not be made in its place while it may
    /// be what the pod's claim had (I-10).
    fn forgotten(&self, driver: &str, pods: &[PodUid]) -> Option<(String, VolumeId)> {
        pods.iter().find_map(|uid| {
            let detail = self.engine.view_pod(uid)?;
            let nameless = detail.volumes.iter().filter(|it| it.name.is_none()).filter_map(|it| it.volume.as_ref());
            let mut ids = nameless.map(|it| &it.id);
            let is_meant = |it: &&VolumeId| {
                let is_known = self.provisions.volumes.contains_key(*it);
                !is_known && self.engine.driver_of(it).is_some_and(|it| it.as_str() == driver)
            };
            let found = ids.find(is_meant)?.clone();
            Some((detail.pod.name.to_string(), found))
        })
    }
}

/// The class of a claim.
fn class_of(memory: &Memory, claim: &PersistentVolumeClaim) -> Result<Arc<StorageClass>, Hindrance> {
    match claim.spec.as_ref().and_then(|it| it.storage_class_name.as_deref()) {
        Some(name) => {
            let reference = Reference::new(ObjectKind::Class, "", name);
            match memory.get(&reference) {
                Lookup::Found(Object::Class(class)) => Ok(class.clone()),
                Lookup::Found(_) | Lookup::Absent => {
                    Err((Code::ClassMissing, reference.not_found(), WaitsOn::Object((&reference).into())))
                }
                Lookup::Unavailable(text) => {
                    Err((Code::ClassMissing, text.to_string(), WaitsOn::Object((&reference).into())))
                }
            }
        }
        None => {
            let default = memory.classes().find(|it| provision::is_default(it)).cloned();
            default.ok_or_else(|| {
                let text = "it names no storage class, and none is the default".into();
                (Code::ClassMissing, text, WaitsOn::Nothing)
            })
        }
    }
}
