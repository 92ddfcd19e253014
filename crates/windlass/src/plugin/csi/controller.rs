//! Attaching by the driver's controller service, where no cluster does it (C-81).
//!
//! A driver that attaches nothing has volumes that are attached already, as for the controllers of a cluster.

use k8s_openapi::api::core::v1::{CSIPersistentVolumeSource, PersistentVolume};
use windlass_csi::proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};

use super::*;
use crate::csi::Context;

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
        Some(source) => secret_of(scene, &source)?,
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

fn secret_of(scene: &Scene, source: &CSIPersistentVolumeSource) -> Result<Context, Failure> {
    let Some(reference) = &source.controller_publish_secret_ref else { return Ok(Context::new()) };
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
    request::read_secret(
        scene,
        &Reference::new(objects::Kind::Secret, namespace.unwrap_or_default(), name.unwrap_or_default()),
    )
}
