//! `local`: a directory or a device of this node as a persistent volume (P-141..P-150).
//!
//! The path is looked at anew in every call, links followed. A directory is bound into each pod and nothing else is done
//! to it (`local/directory.rs`). The file system of a device is mounted once for the node (`local/device.rs`) and bound
//! into each pod in the same way. A device that is wanted as a device is mapped into each pod (`local/raw.rs`).
//!
//! Once something is there, only names lead back to it: the persistent volume may be deleted, and its path gone (P-148).
//! So nothing that takes away looks at the path, and nothing at all ever removes anything from it.

mod device;
mod directory;
mod raw;

use std::fmt::Display;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use windlass_core::expand;
use windlass_core::flight::Trace;
use windlass_core::operation::{Cause, Obstacle, Proof};
use windlass_core::spec::{Access, Capabilities, Concurrency, Identity, Mode, Sharing, VolumeSpec};
use windlass_linux::device::{AtPath, Device};
use windlass_linux::name::{self, Name};
use windlass_linux::safe_path::Place;
use windlass_linux::whole_file;

use super::{
    Failure, Left, Made, Plugin, Publish, Scene, Stage, Unpublish, VolumeForm, Want, absolute, foreign, mount_proof,
    mounted, nothing_proof, unmount,
};
use crate::catalogue::{Attributes, VolumeType};

/// Where the file systems of devices are mounted, below the root (E-429).
const MOUNTS: &str = "plugins/kubernetes.io/local-volume/mounts";
/// Where devices are mapped, below the root. The kubelet escapes the plugin's name here and nowhere else (P-22).
const MAPS: &str = "plugins/kubernetes.io~local-volume/volumeDevices";

/// Directories and devices of this node. What their paths lead to may hang: each call touches no path but its own.
pub(super) static LOCAL_VOLUME: VolumeType = VolumeType {
    persistent: |it| it.local.is_some(),
    capabilities: |_| capabilities(),
    attributes: |access| {
        let read_only = access == Access::ReadOnly;
        Attributes { read_only, managed: !read_only, relabel: true }
    },
    trace: Trace::Record,
    mount_options: true,
    ..VolumeType::plain("kubernetes.io/local-volume", &Local)
};

fn capabilities() -> Capabilities {
    Capabilities {
        stage: true,
        block: true,
        expand: true,
        identity: Identity::Shared,
        // The first pod decides on ownership (P-145), so pods come one at a time; they may leave together.
        concurrency: Concurrency::ReleasesOverlap,
        ..Capabilities::default()
    }
}

/// The calls of `LOCAL_VOLUME`.
#[derive(Clone, Copy, Debug)]
pub struct Local;

#[async_trait]
impl Plugin for Local {
    async fn stage(&self, scene: &Scene, task: &Stage<'_>) -> Result<Made, Failure> {
        let source = Source::of(task.want)?;
        match (task.spec.mode, source.look()?) {
            (Mode::Filesystem, Target::Device(number)) => device::stage(scene, task, &source, number),
            (Mode::Filesystem, Target::Directory) | (Mode::Block, Target::Device(_)) => Ok(source.untouched()),
            (Mode::Block, Target::Directory) => Err(source.not_a_device()),
        }
    }

    async fn unstage(&self, scene: &Scene, spec: &VolumeSpec) -> Result<(), Failure> {
        match spec.mode {
            Mode::Filesystem => device::unstage(scene, spec),
            Mode::Block => raw::unstage(scene, spec),
        }
    }

    async fn publish(&self, scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
        let source = Source::of(task.want)?;
        match (task.spec.mode, source.look()?) {
            (Mode::Filesystem, Target::Directory) => {
                source.check_no_way_up()?;
                let root = Place::root(&source.path).map_err(|error| source.unreachable(&error))?;
                directory::publish(scene, task, &root)
            }
            (Mode::Filesystem, Target::Device(number)) => {
                let root = device::open(scene, task.spec, number)?;
                directory::publish(scene, task, &root)
            }
            (Mode::Block, Target::Device(_)) => raw::publish(scene, task, &source),
            (Mode::Block, Target::Directory) => Err(source.not_a_device()),
        }
    }

    async fn unpublish(&self, scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
        match task.slot.mode {
            Mode::Filesystem => directory::unpublish(scene, task),
            Mode::Block => raw::unpublish(scene, task),
        }
    }

    /// P-150: a directory has no size of its own, and a raw device has its own already.
    async fn expand(
        &self,
        scene: &Scene,
        spec: &VolumeSpec,
        want: &Want,
        to_bytes: u64,
    ) -> Result<Option<u64>, Failure> {
        let source = Source::of(want)?;
        match (spec.mode, source.look()?) {
            (Mode::Filesystem, Target::Device(number)) => device::grow(scene, spec, &source, number)?,
            (Mode::Filesystem, Target::Directory) | (Mode::Block, _) => {}
        }
        Ok(Some(to_bytes))
    }

    fn staged(&self, scene: &Scene) -> Result<Vec<(VolumeSpec, Option<Proof>)>, Failure> {
        let mut all = Vec::new();
        for (below, mode) in [(MOUNTS, Mode::Filesystem), (MAPS, Mode::Block)] {
            let Some(directory) = scene.layout.find(Path::new(below))? else { continue };
            for name in whole_file::names(&directory)? {
                // What is not text is not the name of a persistent volume.
                let Ok(text) = std::str::from_utf8(name.as_bytes()) else { continue };
                let spec = rebuild(text, mode);
                let proof = match mode {
                    Mode::Filesystem => mounted(&scene.watch, &directory.path().join(name.as_path()))?,
                    // Mounts are made there for pods alone.
                    Mode::Block => None,
                };
                all.push((spec, proof.map(|it| mount_proof(&it))));
            }
        }
        Ok(all)
    }
}

/// What a volume is, as far as its name tells.
fn rebuild(name: &str, mode: Mode) -> VolumeSpec {
    VolumeSpec {
        id: format!("{}/{name}", LOCAL_VOLUME.name).as_str().into(),
        plugin: LOCAL_VOLUME.name.into(),
        driver: None,
        inner_name: name.into(),
        capabilities: capabilities(),
        mode,
        sharing: Sharing::Shared,
        group: None,
        size: expand::Size::default(),
    }
}

/// Where a volume is, by the word of its persistent volume.
struct Source<'a> {
    /// The path as it is written.
    written: &'a str,
    /// The path, absolute (P-149).
    path: PathBuf,
    /// The type of file system for a device without one; empty if that is not said.
    kind: &'a str,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Directory,
    Device(Device),
}

impl<'a> Source<'a> {
    fn of(want: &'a Want) -> Result<Self, Failure> {
        let spec = want.detail.persistent.as_ref().and_then(|it| it.spec.as_ref());
        let Some(local) = spec.and_then(|it| it.local.as_ref()) else {
            let text = format!("volume {} is neither a directory nor a device of this node", want.detail.name);
            return Err(Failure::refused(Cause::Other, text));
        };
        let path = Path::new("/").join(&local.path);
        Ok(Self { written: &local.path, path, kind: local.fs_type.as_deref().unwrap_or_default() })
    }

    /// P-142.
    fn look(&self) -> Result<Target, Failure> {
        if self.written.is_empty() {
            return Err(self.missing());
        }
        match windlass_linux::device::look(&self.path) {
            Ok(AtPath::Directory) => Ok(Target::Directory),
            Ok(AtPath::Block(number)) => Ok(Target::Device(number)),
            Ok(AtPath::Other) => {
                let note = format!("{} is neither", self.path.display());
                Err(unusable("only directory and block device are supported").noting(note))
            }
            Err(error) if error.is_missing() => Err(self.missing()),
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    /// P-144. The kubelet asks this of directories only.
    fn check_no_way_up(&self) -> Result<(), Failure> {
        if Path::new(self.written).components().any(|it| it == Component::ParentDir) {
            return Err(unusable(format!("invalid path: {} must not contain '..'", self.written)));
        }
        Ok(())
    }

    /// What is staged where there is nothing to be done.
    fn untouched(&self) -> Made {
        let path = self.path.clone();
        Made { proof: nothing_proof(&path), form: VolumeForm::Host, path, refresh_at: None, lost_at: None }
    }

    fn missing(&self) -> Failure {
        unusable(format!("path \"{}\" does not exist", self.written))
    }

    fn not_a_device(&self) -> Failure {
        unusable(format!("path \"{}\" is not a block device", self.written))
    }

    /// The path is to blame, unless the file system is. Nothing was done yet.
    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        let failure = Failure::open(error).nothing_left();
        let cause = match failure.cause {
            it @ Cause::Node(Obstacle::FileSystemBroken | Obstacle::NotPermitted) => it,
            _ => Cause::Node(Obstacle::HostPathUnusable),
        };
        Failure { cause, ..failure }
    }
}

fn volume_name(spec: &VolumeSpec) -> Result<Name, name::Error> {
    Name::new("volume name", spec.inner_name.as_str())
}

fn unusable(text: impl Into<String>) -> Failure {
    Failure::refused(Cause::Node(Obstacle::HostPathUnusable), text)
}

/// Something that is not ours is where the volume belongs.
fn in_the_way(text: impl Into<String>) -> Failure {
    Failure::in_the_way(text)
}

/// What was mounted a moment ago is not there.
fn replaced(path: &Path) -> Failure {
    in_the_way(format!("{} was mounted, and something else is there now", path.display()))
}

/// Several things in the kubelet's words, which are Go's.
fn listed(things: impl IntoIterator<Item = impl Display>) -> String {
    let things: Vec<String> = things.into_iter().map(|it| it.to_string()).collect();
    format!("[{}]", things.join(" "))
}

fn left_nothing(error: impl Into<Failure>) -> Failure {
    error.into().nothing_left()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{LocalVolumeSource, PersistentVolume, PersistentVolumeSpec, Pod};

    use super::*;
    use crate::resolve::Detail;

    fn want(path: &str) -> Want {
        let local = LocalVolumeSource { path: path.into(), ..LocalVolumeSource::default() };
        let spec = PersistentVolumeSpec { local: Some(local), ..PersistentVolumeSpec::default() };
        let volume = PersistentVolume { spec: Some(spec), ..PersistentVolume::default() };
        let detail = Detail {
            name: "data".into(),
            volume: "kubernetes.io/local-volume/pv".into(),
            volume_type: &LOCAL_VOLUME,
            persistent: Some(Arc::new(volume)),
            claim: None,
            migrated: false,
            mount_options: Vec::new(),
            size_limit_bytes: None,
            attachment: None,
            refusal: None,
        };
        Want { pod: Arc::new(Pod::default()), detail: Arc::new(detail), objects: Default::default() }
    }

    fn refusal(path: &str) -> String {
        let want = want(path);
        let source = Source::of(&want).unwrap();
        let failure = source.look().err().or_else(|| source.check_no_way_up().err()).expect("refused");
        assert_eq!((failure.left, failure.cause), (Left::Nothing, Cause::Node(Obstacle::HostPathUnusable)), "{path}");
        failure.text
    }

    /// P-142, P-144.
    #[test]
    fn what_cannot_be_a_local_volume_is_refused_in_the_kubelets_words() {
        assert_eq!(refusal("/nowhere/at/all"), "path \"/nowhere/at/all\" does not exist");
        assert_eq!(refusal("/dev/null"), "only directory and block device are supported");
        assert_eq!(refusal("/proc/self/status"), "only directory and block device are supported");
        assert_eq!(refusal("/proc/../proc"), "invalid path: /proc/../proc must not contain '..'");
        // The empty path, made absolute, would be everything there is.
        assert_eq!(refusal(""), "path \"\" does not exist");
        assert!(refusal("/proc/self/status/below").starts_with("look at /proc/self/status/below"));
    }

    #[test]
    fn a_path_is_absolute() {
        let want = want("proc/self");
        let source = Source::of(&want).unwrap();
        assert_eq!(source.path, Path::new("/proc/self"));
        assert_eq!(source.look().unwrap(), Target::Directory, "links are followed");
        assert_eq!(source.untouched().form, VolumeForm::Host);
    }

    /// P-25, P-33.
    #[test]
    fn a_volume_is_known_again_by_its_name() {
        let spec = rebuild("pv-1", Mode::Block);
        assert_eq!(spec.id.as_str(), "kubernetes.io/local-volume/pv-1");
        assert_eq!((spec.plugin.as_str(), spec.inner_name.as_str()), ("kubernetes.io/local-volume", "pv-1"));
        assert!(spec.capabilities.stage && spec.capabilities.block);
    }

    #[test]
    fn things_are_listed_as_the_kubelet_does() {
        assert_eq!(listed(["/a", "/b"]), "[/a /b]");
    }
}
