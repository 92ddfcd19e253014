//! Making and attaching volumes by the driver's controller service, where no cluster does it (C-81).
//!
//! A driver that attaches nothing has volumes that are attached already, as for the controllers of a cluster.

use k8s_openapi::api::core::v1::SecretReference;
use windlass_csi::{
    NodeCapabilities,
    proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, DeleteVolumeRequest},
};

use super::*;
use crate::{csi::Context, provision::Provision};

/// What the driver calls this node.
pub(super) fn node_id(scene: &Scene, spec: &VolumeSpec) -> Result<String, Failure> {
    let id = identified(spec)?;
    Ok(scene.drivers.get(&id.driver)?.info.id)
}

pub(super) fn attach(scene: &Scene, task: &Attach<'_>) -> Result<Context, Failure> {
    let source = Source::of(task.want)?;
    let driver = scene.drivers.controller(&source.id.driver)?;
    let can = scene.drivers.wait(driver.controller_capabilities()).map_err(|error| failed(&error).nothing_left())?;
    if !can.publish_unpublish {
        return Ok(Context::new());
    }
    let registered = scene.drivers.get(&source.id.driver)?;
    let request = ControllerPublishVolumeRequest {
        volume_id: source.id.handle.clone(),
        node_id: task.node_id.into(),
        volume_capability: Some(source.capability(task.spec.mode, &registered.capabilities, None)),
        readonly: can.publish_readonly && source.is_read_only(),
        secrets: source.secrets(scene, Step::Attach)?,
        volume_context: source.attributes(),
    };
    let deadline = source.deadline().unwrap_or_else(|| scene.drivers.deadline(&source.id.driver));
    let published = scene.drivers.wait(driver.controller_publish(request, deadline)).map_err(|error| failed(&error))?;
    Ok(published.publish_context)
}

pub(super) fn detach(scene: &Scene, spec: &VolumeSpec, node_id: &str) -> Result<(), Failure> {
    let id = identified(spec)?;
    let driver = scene.drivers.controller(&id.driver)?;
    let can = scene.drivers.wait(driver.controller_capabilities()).map_err(|error| failed(&error))?;
    if !can.publish_unpublish {
        return Ok(());
    }
    let secrets = match described(scene, &id) {
        Some(source) => read_referenced(scene, source.controller_publish_secret_ref.as_ref())?,
        // Nobody describes the volume any more; most drivers need no secret to let go of one.
        None => Context::new(),
    };
    let request = ControllerUnpublishVolumeRequest { volume_id: id.handle.clone(), node_id: node_id.into(), secrets };
    let detached = driver.controller_unpublish(request, scene.drivers.deadline(&id.driver));
    scene.drivers.wait(detached).map_err(|error| failed(&error))
}

fn identified(spec: &VolumeSpec) -> Result<Identified, Failure> {
    Identified::of_spec(spec, None).ok_or_else(|| {
        let text = format!("{} is no volume that could be attached", spec.id);
        Failure::refused(Cause::Node(Obstacle::InputInvalid), text)
    })
}

/// The persistent volume of this identity, if there is still one.
fn described(scene: &Scene, id: &Identified) -> Option<CSIPersistentVolumeSource> {
    let objects = scene.objects.read().unwrap_or_else(PoisonError::into_inner);
    let source = |it: &Arc<PersistentVolume>| it.spec.as_ref().and_then(|it| it.csi.clone());
    let mut sources = objects.volumes().filter_map(source);
    sources.find(|it| it.driver == id.driver && it.volume_handle == id.handle)
}

fn read_referenced(scene: &Scene, reference: Option<&SecretReference>) -> Result<Context, Failure> {
    let Some(reference) = reference else { return Ok(Context::new()) };
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
    request::read_secret(
        scene,
        &Reference::new(objects::Kind::Secret, namespace.unwrap_or_default(), name.unwrap_or_default()),
    )
}

/// Has the driver make a volume for a claim, or find the one that it made.
pub(crate) fn create(scene: &Scene, provision: &Provision) -> Result<PersistentVolume, Failure> {
    let driver = scene.drivers.controller(provision.driver())?;
    let asked = |error: CallError| failed(&error).nothing_left();
    let can = scene.drivers.wait(driver.controller_capabilities()).map_err(asked)?;
    if !can.create_delete {
        let text = format!("driver {} makes no volumes", driver.name());
        return Err(Failure::refused(Cause::NotSupported, text));
    }
    let whole = scene.drivers.wait(driver.plugin_capabilities()).map_err(asked)?;
    let told =
        NodeCapabilities { single_node_multi_writer: can.single_node_multi_writer, ..NodeCapabilities::default() };
    let request = provision.request(
        |mode| request::access_mode(mode, &told),
        whole.accessibility_constraints,
        provisioner_secret(scene, provision)?,
    );
    let created = driver.create_volume(request, scene.drivers.deadline(driver.name()));
    Ok(provision.made(scene.drivers.wait(created).map_err(|error| failed(&error))?))
}

/// Has the driver delete a volume that was made for a claim.
pub(crate) fn delete(scene: &Scene, provision: &Provision) -> Result<(), Failure> {
    let source = provision.volume.as_ref().and_then(|it| it.spec.as_ref()?.csi.as_ref());
    let Some(source) = source else { return Ok(()) };
    let driver = scene.drivers.controller(provision.driver())?;
    let secrets = provisioner_secret(scene, provision)?;
    let request = DeleteVolumeRequest { volume_id: source.volume_handle.clone(), secrets };
    let deleted = driver.delete_volume(request, scene.drivers.deadline(driver.name()));
    scene.drivers.wait(deleted).map_err(|error| failed(&error))
}

fn provisioner_secret(scene: &Scene, provision: &Provision) -> Result<Context, Failure> {
    read_referenced(scene, provision.secret("provisioner").as_ref())
}
