//! `configMap`, `secret`, `downwardAPI` and `projected`: volumes whose files windlass writes (P-74..P-129).
//!
//! What is in them says [`payload`]; how it changes in one step says [`atomic_dir`]. They lie in scratch space: on disk
//! for a config map, in memory for all others, because those can show secrets (P-75, I-12).
//!
//! Nothing is touched before all contents are there, and an update that fails leaves the version in use as it is; the
//! kubelet takes the whole volume away then (P-103, W-3).

use std::cell::Cell;
use std::time::SystemTime;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Volume;
use rustix::fs::Mode;
use windlass_core::ids::{ObjectName, PodUid};
use windlass_core::operation::{Cause, Earlier, Obstacle};
use windlass_core::spec::{Capabilities, Refresh};
use windlass_linux::atomic_dir::{self, Contents};
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::usage;

use super::empty_dir::{self, Marker, Medium, Scratch};
use super::{Failure, Left, Made, Plugin, Publish, Scene, Unpublish};
use crate::catalogue::{Attributes, Content, HeldUpBy, Limit, VolumeType};
use crate::payload::{self, Surroundings};

/// The keys of a secret.
pub(super) static SECRET: VolumeType =
    VolumeType { in_pod: |it| it.secret.is_some(), ..written("kubernetes.io/secret") };

/// What the pod knows of itself.
pub(super) static DOWNWARD_API: VolumeType =
    VolumeType { in_pod: |it| it.downward_api.is_some(), ..written("kubernetes.io/downward-api") };

/// The keys of a config map.
pub(super) static CONFIG_MAP: VolumeType = VolumeType {
    in_pod: |it| it.config_map.is_some(),
    // The others lie in memory.
    limit: |_| Limit::OfPod,
    ..written("kubernetes.io/configmap")
};

/// Several of the above, and tokens, for which it may have to wait.
pub(super) static PROJECTED: VolumeType = VolumeType {
    in_pod: |it| it.projected.is_some(),
    held_up_by: HeldUpBy::Anything,
    ..written("kubernetes.io/projected")
};

/// What they have in common.
const fn written(name: &'static str) -> VolumeType {
    VolumeType {
        capabilities: |_| Capabilities { refresh: Refresh::OnChange, ..Capabilities::default() },
        attributes: |_| Attributes { read_only: true, managed: true, relabel: true },
        content: Content::Written,
        held_up_by: HeldUpBy::Root,
        ..VolumeType::plain(name, &Written)
    }
}

/// Their calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written;

#[async_trait]
impl Plugin for Written {
    async fn publish(&self, scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
        let Some(volume) = task.want.volume() else {
            let text = format!("volume {} is none that is written", task.want.detail.name);
            return Err(Failure::refused(Cause::Other, text));
        };
        let (contents, refresh_at) = contents(scene, task, volume)?;
        let nested = match &task.want.pod.spec {
            Some(spec) => payload::nested_directories(spec, &volume.name).map_err(|error| refused(&error))?,
            None => Vec::new(),
        };
        let medium = if volume.config_map.is_some() { Medium::Disk } else { Medium::Memory { limit_bytes: None } };
        let Scratch { root, made, is_new } = empty_dir::set_up(scene, task, Marker::Wrapped, &medium)?;
        let written = root
            .open()
            .and_then(|root| write(&root, is_new, &contents, &nested).map_err(|failure| with_room(failure, &root)));
        match written {
            Ok(hidden) => tell_hidden(scene, task, &hidden),
            Err(failure) => return Err(undone(scene, task, &made, failure)),
        }
        Ok(Made { refresh_at, ..made })
    }

    async fn unpublish(&self, scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
        empty_dir::tear_down(scene, task.home, task.slot, Marker::Wrapped, task.made, atomic_dir::is_ours)?;
        // P-129: also those of the pod's other volumes, which get new ones when they are next written.
        scene.tokens.forget(&PodUid::from(task.slot.pod.to_string().as_str()));
        Ok(())
    }
}

/// What is to be in the volume, and when its tokens want to be renewed.
fn contents(scene: &Scene, task: &Publish<'_>, volume: &Volume) -> Result<(Contents, Option<SystemTime>), Failure> {
    let refresh_at = Cell::new(None::<SystemTime>);
    let tokens = |request: &_| {
        let token = scene.tokens.token(request, SystemTime::now())?;
        let at = scene.tokens.refresh_at(request).into_iter().chain(refresh_at.get()).min();
        refresh_at.set(at);
        Ok(token)
    };
    let surroundings = Surroundings { node: &scene.node, sources: &task.want.objects, tokens: &tokens };
    let contents = payload::contents(&task.want.pod, volume, surroundings).map_err(|error| refused(&error))?;
    Ok((contents, refresh_at.get()))
}

/// Writes it, and answers which names users do not see, because something else has their place (P-92).
fn write(root: &Place, is_new: bool, contents: &Contents, nested: &[Relative]) -> Result<Vec<Name>, Failure> {
    let mode = Mode::from(payload::directory_mode(contents, 0o755));
    for directory in nested {
        root.make_directories(directory, mode, Mounts::Refuse)?;
    }
    let is_empty = is_new && nested.is_empty();
    let write = if is_empty { atomic_dir::write_first } else { atomic_dir::write };
    Ok(write(root, contents)?.hidden)
}

/// The kubelet leaves such keys hidden and tells nobody.
fn tell_hidden(scene: &Scene, task: &Publish<'_>, hidden: &[Name]) {
    if hidden.is_empty() {
        return;
    }
    let names: Vec<String> = hidden.iter().map(ToString::to_string).collect();
    let text = format!(
        "volume \"{}\" does not show {}: something else has that place, such as a directory for another mount",
        task.want.detail.name,
        names.join(", ")
    );
    scene.tell.warning(task.uid, "HiddenVolumeFiles", text);
}

/// A file system is full of bytes or full of files, and the kernel has one word for both.
fn with_room(failure: Failure, root: &Place) -> Failure {
    match (&failure.cause, usage::statfs(root)) {
        (Cause::Node(Obstacle::NoSpace), Ok(space)) => {
            let (bytes, inodes) = (space.available_bytes, space.inodes_free);
            // What was written before it was full has been removed again by now.
            failure
                .noting(format!("without what was begun, the file system has {bytes} bytes and {inodes} inodes left"))
        }
        _ => failure,
    }
}

/// What could not be written is taken away again if it is new. What a pod has stays as it was before this call.
fn undone(scene: &Scene, task: &Publish<'_>, made: &Made, failure: Failure) -> Failure {
    let left = match task.after {
        Earlier::Success => Left::Nothing,
        Earlier::Unknown => Left::Something,
        Earlier::Nothing => {
            match empty_dir::tear_down(scene, task.home, task.slot, Marker::Wrapped, Some(made), atomic_dir::is_ours) {
                Ok(()) => Left::Nothing,
                Err(_) => Left::Something,
            }
        }
    };
    Failure { left, ..failure }
}

fn refused(error: &payload::Error) -> Failure {
    let cause = match error.waits_on() {
        Some(object) => Cause::Object(ObjectName::from(object)),
        None if error.wants_token() => Cause::Node(Obstacle::TokenMissing),
        None => Cause::Node(Obstacle::InputInvalid),
    };
    let text = error.to_string();
    // The kubelet does not say in which object a key is missing.
    let object = error.waits_on().map(ToString::to_string).filter(|it| !text.contains(it));
    Failure::refused(cause, text).noting(object.unwrap_or_default())
}
