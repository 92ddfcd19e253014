//! Making and attaching volumes by the driver's controller service, where no cluster does it (C-81).
//!
//! A driver that attaches nothing has volumes that are attached already, as for the controllers of a cluster.

use k8s_openapi::api::core::v1::SecretReference;
use windlass_csi::proto::csi::{
    ControllerExpandVolumeRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    DeleteVolumeRequest, VolumeCapability, volume_capability,
};
use windlass_csi::{ControllerCapabilities, Driver, NodeCapabilities};

use super::*;
use crate::provision::Provision;

/// What the driver calls this node.
pub(super) fn node_id(scene: &Scene, spec: &VolumeSpec) -> Result<String, Failure> {
    let id = identified(spec)?;
    Ok(scene.drivers.get(&id.driver)?.info.id)
}

pub(super) async fn attach(scene: &Scene, task: &Attach<'_>) -> Result<Context, Failure> {
    let source = Source::of(task.want)?;
    let driver = scene.drivers.controller(&source.id.driver)?;
    let can = capabilities(scene, &driver).await.map_err(Failure::nothing_left)?;
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
    let published = scene.drivers.call(&driver, |it| async move { it.controller_publish(request, deadline).await });
    Ok(published.await.map_err(|error| failed(&error))?.publish_context)
}

pub(super) async fn detach(scene: &Scene, spec: &VolumeSpec, node_id: &str) -> Result<(), Failure> {
    let id = identified(spec)?;
    let driver = scene.drivers.controller(&id.driver)?;
    let can = capabilities(scene, &driver).await?;
    if !can.publish_unpublish {
        return Ok(());
    }
    let secrets = match described(scene, spec, &id) {
        Some(source) => read_referenced(scene, source.controller_publish_secret_ref.as_ref())?,
        // Nobody describes the volume any more; most drivers need no secret to let go of one.
        None => Context::new(),
    };
    let request = ControllerUnpublishVolumeRequest { volume_id: id.handle.clone(), node_id: node_id.into(), secrets };
    let deadline = scene.drivers.deadline(&id.driver);
    let detached = scene.drivers.call(&driver, |it| async move { it.controller_unpublish(request, deadline).await });
    detached.await.map_err(|error| failed(&error))
}

async fn capabilities(scene: &Scene, driver: &Driver) -> Result<ControllerCapabilities, Failure> {
    let asked = scene.drivers.call(driver, |it| async move { it.controller_capabilities().await });
    asked.await.map_err(|error| failed(&error))
}

fn identified(spec: &VolumeSpec) -> Result<Identified, Failure> {
    Identified::of_spec(spec, None).ok_or_else(|| {
        let text = format!("{} is no volume that could be attached", spec.id);
        Failure::refused(Cause::Node(Obstacle::InputInvalid), text)
    })
}

/// The persistent volume of this identity, if there is still one.
fn described(scene: &Scene, spec: &VolumeSpec, id: &Identified) -> Option<CSIPersistentVolumeSource> {
    let reference = Reference::new(objects::ObjectKind::Volume, "", spec.inner_name.as_str());
    let objects = scene.objects.read().unwrap_or_else(PoisonError::into_inner);
    let Lookup::Found(Object::Volume(volume)) = objects.get(&reference) else { return None };
    let source = volume.spec.as_ref()?.csi.as_ref()?;
    (source.driver == id.driver && source.volume_handle == id.handle).then(|| source.clone())
}

fn read_referenced(scene: &Scene, reference: Option<&SecretReference>) -> Result<Context, Failure> {
    let Some(reference) = reference else { return Ok(Context::new()) };
    let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_deref());
    request::read_secret(
        scene,
        &Reference::new(objects::ObjectKind::Secret, namespace.unwrap_or_default(), name.unwrap_or_default()),
    )
}

/// Has the driver make a volume for a claim, or find the one that it made.
pub(crate) fn create(scene: &Scene, provision: &Provision) -> Result<PersistentVolume, Failure> {
    let driver = scene.drivers.controller(provision.driver())?;
    let can = wait(scene, driver.controller_capabilities()).map_err(Failure::nothing_left)?;
    if !can.create_delete {
        let text = format!("driver {} makes no volumes", driver.name());
        return Err(Failure::refused(Cause::NotSupported, text));
    }
    let whole = wait(scene, driver.plugin_capabilities()).map_err(Failure::nothing_left)?;
    let told = multi_writer(&can);
    let request = provision.request(
        |mode| request::access_mode(mode, &told),
        whole.accessibility_constraints,
        provisioner_secret(scene, provision)?,
    );
    let created = driver.create_volume(request, scene.drivers.deadline(driver.name()));
    Ok(provision.made(wait(scene, created)?))
}

/// Has the driver make a volume larger. Tells how large it is then, and whether this node has to grow it too.
pub(crate) fn expand(scene: &Scene, provision: &Provision, to_bytes: u64) -> Result<(u64, bool), Failure> {
    let volume = provision.volume.as_ref().and_then(|it| it.spec.as_ref());
    let Some((spec, source)) = volume.and_then(|it| Some((it, it.csi.as_ref()?))) else {
        return Err(Failure::refused(Cause::Other, "there is no volume yet"));
    };
    let driver = scene.drivers.controller(provision.driver())?;
    let can = wait(scene, driver.controller_capabilities()).map_err(Failure::nothing_left)?;
    if !can.expand {
        // Then a node may grow it by itself, and there is nothing to do before that (C-109).
        return match scene.drivers.get(driver.name())?.capabilities.expand {
            true => Ok((to_bytes, true)),
            false => {
                let text = format!(
                    "driver {} lets no volume grow: neither its controller nor its node service has EXPAND_VOLUME",
                    driver.name()
                );
                Err(Failure::refused(Cause::NotSupported, text))
            }
        };
    }
    let told = multi_writer(&can);
    let access_type = match spec.volume_mode.as_deref() {
        Some("Block") => volume_capability::AccessType::Block(volume_capability::BlockVolume {}),
        Some(_) | None => volume_capability::AccessType::Mount(volume_capability::MountVolume {
            fs_type: source.fs_type.clone().unwrap_or_default(),
            mount_flags: spec.mount_options.clone().unwrap_or_default(),
            volume_mount_group: String::new(),
        }),
    };
    let first = spec.access_modes.as_ref().and_then(|it| it.first()).map(String::as_str);
    let access_mode = volume_capability::AccessMode { mode: request::access_mode(first, &told).into() };
    let request = ControllerExpandVolumeRequest {
        volume_id: source.volume_handle.clone(),
        capacity_range: Some(CapacityRange {
            required_bytes: i64::try_from(to_bytes).unwrap_or(i64::MAX),
            limit_bytes: 0,
        }),
        secrets: read_referenced(scene, source.controller_expand_secret_ref.as_ref())?,
        volume_capability: Some(VolumeCapability { access_type: Some(access_type), access_mode: Some(access_mode) }),
    };
    let expanded = driver.controller_expand(request, scene.drivers.deadline(driver.name()));
    let answer = wait(scene, expanded)?;
    let bytes = u64::try_from(answer.capacity_bytes).unwrap_or(0);
    if bytes < to_bytes {
        let text = format!("the volume has {bytes} bytes instead of {to_bytes}");
        return Err(lied(driver.name(), text));
    }
    Ok((bytes, answer.node_expansion_required))
}

/// What a driver says of access modes, as for its node service.
fn multi_writer(can: &ControllerCapabilities) -> NodeCapabilities {
    NodeCapabilities { single_node_multi_writer: can.single_node_multi_writer, ..NodeCapabilities::default() }
}

/// What deletes a volume that was made, if there is one. An error means that nothing was sent.
pub(crate) fn deletion<'a>(
    scene: &'a Scene,
    provision: &Provision,
) -> Result<impl FnOnce() -> Result<(), Failure> + 'a, Failure> {
    let source = provision.volume.as_ref().and_then(|it| it.spec.as_ref()?.csi.as_ref());
    let prepared = source.map(|source| -> Result<_, Failure> {
        let driver = scene.drivers.controller(provision.driver())?;
        let secrets = provisioner_secret(scene, provision)?;
        Ok((driver, DeleteVolumeRequest { volume_id: source.volume_handle.clone(), secrets }))
    });
    let prepared = prepared.transpose()?;
    Ok(move || match prepared {
        None => Ok(()),
        Some((driver, request)) => wait(scene, driver.delete_volume(request, scene.drivers.deadline(driver.name()))),
    })
}

/// Makes a call about a claim, and blocks until it has ended: whoever works for a claim has a thread to itself.
fn wait<T>(scene: &Scene, call: impl Future<Output = Result<T, CallError>>) -> Result<T, Failure> {
    scene.drivers.wait(call).map_err(|error| failed(&error))
}

fn provisioner_secret(scene: &Scene, provision: &Provision) -> Result<Context, Failure> {
    read_referenced(scene, provision.secret("provisioner").as_ref())
}
