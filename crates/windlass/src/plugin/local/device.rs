//! The file system of a device, mounted once for the node (P-143, P-147, E-262).
//!
//! It is formatted if it is empty and may be written (P-262), mounted with the persistent volume's options, and taken
//! away when no mount of it is left anywhere else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;
use windlass_core::operation::{Cause, Obstacle};
use windlass_core::spec::{Access, VolumeSpec};
use windlass_linux::device::{self, AtPath, Device};
use windlass_linux::format::{self, Patience};
use windlass_linux::mount::{self, Attributes, Options};
use windlass_linux::name::Name;
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::table::{self, Mount};
use windlass_linux::{remove, tools};

use super::{
    Failure, Left, MOUNTS, Made, Scene, Source, Stage, absolute, foreign, left_nothing, listed, mounted, replaced,
    unmount, volume_name,
};
use crate::layout::PRIVATE;

/// Where a volume's file system is mounted, below the root.
fn place(name: &Name) -> PathBuf {
    Path::new(MOUNTS).join(name.as_path())
}

/// Mounts the file system of a device. That it is mounted already is success.
pub(super) fn stage(scene: &Scene, task: &Stage<'_>, source: &Source<'_>, number: Device) -> Result<Made, Failure> {
    let name = volume_name(task.spec).map_err(left_nothing)?;
    let path = absolute(scene, &place(&name));
    // Stays also if the rest fails, as the kubelet has it.
    let mounts = scene.layout.make(Path::new(MOUNTS), PRIVATE).map_err(left_nothing)?;
    if let Some(mount) = mounted(&scene.watch, &path).map_err(left_nothing)? {
        return if is_of(&mount, number) { Ok(Made::mount(&mount)) } else { Err(foreign(&mount).nothing_left()) };
    }
    let mut options = task.want.detail.mount_options.clone();
    if task.access == Access::ReadOnly {
        options.push("ro".into());
    }
    let options = Options::parse(options);
    let access = if options.attributes.contains(Attributes::MOUNT_ATTR_RDONLY) {
        format::Access::ReadOnly
    } else {
        format::Access::ReadWrite
    };
    let device = device::resolve(&source.path).map_err(|error| source.unreachable(&error))?;
    let prepared = format::prepare(&device, source.kind, access, Patience::default());
    let detached = prepared.and_then(|it| it.mount(&options)).map_err(|error| failed(&error).nothing_left())?;
    let id = detached.id().map_err(left_nothing)?;
    let target = mounts.make_directory(&name, PRIVATE, Mounts::Refuse).map_err(left_nothing)?;
    if let Err(error) = detached.attach(&target) {
        let failure = Failure::from(error);
        return Err(match remove::empty_directories(&mounts, &name) {
            Ok(()) => failure.nothing_left(),
            Err(_) => failure,
        });
    }
    // What counts is what the mount table says (I-4).
    let mount = mounted(&scene.watch, &path)?.filter(|it| it.id == id).ok_or_else(|| replaced(&path))?;
    Ok(Made::mount(&mount))
}

/// Unmounts it, if nothing else has it. The device is not looked at: it may be gone (P-148).
///
/// That nobody has the device open afterwards is not checked (E-265): the kubelet knows no device for a local volume
/// either, and nothing is detached that would have to wait.
pub(super) fn unstage(scene: &Scene, spec: &VolumeSpec) -> Result<(), Failure> {
    let name = volume_name(spec)?;
    let Some(mounts) = scene.layout.find(Path::new(MOUNTS))? else { return Ok(()) };
    let path = absolute(scene, &place(&name));
    while let Some(mount) = mounted(&scene.watch, &path)? {
        if !is_of_a_device(&mount) {
            return Err(foreign(&mount));
        }
        check_references(scene, &mount, &place(&name))?;
        unmount(scene, &mount)?;
    }
    Ok(remove::empty_directories(&mounts, &name)?)
}

/// The root of the file system, to be bound into pods.
pub(super) fn open(scene: &Scene, spec: &VolumeSpec, number: Device) -> Result<Place, Failure> {
    let mount = find(scene, spec, number)?;
    let mounts = scene.layout.make(Path::new(MOUNTS), PRIVATE).map_err(left_nothing)?;
    let name = volume_name(spec).map_err(left_nothing)?;
    let root = mounts.open(&name.into(), OFlags::PATH | OFlags::DIRECTORY, Mounts::Enter).map_err(left_nothing)?;
    if table::identify(&root).map_err(left_nothing)? == mount.id {
        Ok(root)
    } else {
        Err(replaced(&mount.mount_point).nothing_left())
    }
}

/// Grows the file system to the size of its device (P-263).
pub(super) fn grow(scene: &Scene, spec: &VolumeSpec, source: &Source<'_>, number: Device) -> Result<(), Failure> {
    let mount = find(scene, spec, number)?;
    let device = device::resolve(&source.path).map_err(|error| source.unreachable(&error))?;
    format::grow(&device, &mount.mount_point, Patience::default()).map(drop).map_err(|error| failed(&error))
}

/// The mount that [`stage`] made.
fn find(scene: &Scene, spec: &VolumeSpec, number: Device) -> Result<Arc<Mount>, Failure> {
    let name = volume_name(spec).map_err(left_nothing)?;
    let path = absolute(scene, &place(&name));
    match mounted(&scene.watch, &path).map_err(left_nothing)? {
        Some(mount) if is_of(&mount, number) => Ok(mount),
        Some(mount) => Err(foreign(&mount).nothing_left()),
        None => {
            let text = format!("device {number} is not mounted at {}", path.display());
            Err(Failure::refused(Cause::Other, text))
        }
    }
}

/// Is this the file system of this device, and all of it?
fn is_of(mount: &Mount, number: Device) -> bool {
    // A btrfs has a device number of its own, and a root that can be any subvolume.
    let by_name = || {
        mount.kind == "btrfs"
            && matches!(device::look(Path::new(&mount.source)), Ok(AtPath::Block(found)) if found == number)
    };
    mount.device == number && mount.root.as_os_str() == "/" || by_name()
}

/// Is this the file system of some device, which may be gone?
fn is_of_a_device(mount: &Mount) -> bool {
    let source = Path::new(&mount.source);
    source.is_absolute() && !matches!(device::look(source), Ok(AtPath::Directory | AtPath::Other))
}

/// E-262, E-263: no other mount may be left, but the same one seen through another path of the root directory.
fn check_references(scene: &Scene, mount: &Mount, below: &Path) -> Result<(), Failure> {
    let table = scene.watch.table();
    let others = table.references(mount).filter(|it| !it.mount_point.ends_with(below));
    let others: Vec<_> = others.map(|it| it.mount_point.display()).collect();
    if others.is_empty() {
        return Ok(());
    }
    let (path, others) = (mount.mount_point.display(), listed(others));
    let text = format!("the device mount path \"{path}\" is still mounted by other references {others}");
    Err(Failure { left: Left::Something, ..Failure::refused(Cause::Node(Obstacle::HeldOpen), text) })
}

/// Whether the device, the file system on it or this system is to blame.
fn failed(error: &format::Error) -> Failure {
    use format::Error;
    let obstacle = match error {
        Error::BadKind { .. } => Some(Obstacle::InputInvalid),
        Error::UnformattedReadOnly { .. } | Error::FilesystemMismatch { .. } | Error::NotGrowable { .. } => {
            Some(Obstacle::HostPathUnusable)
        }
        Error::HasFilesystemErrors { .. } | Error::Unreadable { .. } => Some(Obstacle::FileSystemBroken),
        Error::Detect { source: tools::Error::Missing { .. }, .. }
        | Error::Format { source: tools::Error::Missing { .. }, .. }
        | Error::Grow { source: tools::Error::Missing { .. }, .. } => Some(Obstacle::AbilityMissing),
        Error::Mount { source, .. } => match **source {
            // The kernel has no such file system.
            mount::Error::Prepare { source: Errno::NODEV, .. } => Some(Obstacle::AbilityMissing),
            _ => None,
        },
        Error::Device(error) if error.is_missing() => Some(Obstacle::HostPathUnusable),
        Error::Device(_)
        | Error::Detect { .. }
        | Error::Understand { .. }
        | Error::Format { .. }
        | Error::Check { .. }
        | Error::Grow { .. } => None,
    };
    let failure = Failure::open(error);
    match obstacle {
        Some(obstacle) => Failure { cause: Cause::Node(obstacle), ..failure },
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use windlass_linux::table::{MountId, Propagation};

    use super::*;

    const NUMBER: Device = Device { major: 7, minor: 3 };

    fn mount(root: &str, source: &str) -> Mount {
        Mount {
            id: MountId::Reusable(1),
            number: 1,
            parent: MountId::Reusable(0),
            device: NUMBER,
            root: root.into(),
            mount_point: "/mounts/pv".into(),
            kind: "ext4".into(),
            source: source.into(),
            attributes: Attributes::empty(),
            super_options: OsString::new(),
            propagation: Propagation::default(),
        }
    }

    #[test]
    fn a_file_system_is_known_by_its_device_and_only_as_a_whole() {
        assert!(is_of(&mount("/", "/dev/loop3"), NUMBER));
        assert!(!is_of(&mount("/", "/dev/loop3"), Device { major: 7, minor: 4 }));
        assert!(!is_of(&mount("/sub", "/dev/loop3"), NUMBER));
    }

    #[test]
    fn what_has_no_device_is_not_ours_and_a_device_may_be_gone() {
        assert!(is_of_a_device(&mount("/", "/dev/no-such-device")));
        assert!(!is_of_a_device(&mount("/", "tmpfs")));
        assert!(!is_of_a_device(&mount("/", "/proc")));
    }

    #[test]
    fn a_failure_says_what_is_in_the_way() {
        let cause = |error: format::Error| failed(&error).cause;
        let device = PathBuf::from("/dev/loop3");
        assert_eq!(cause(format::Error::BadKind { kind: "a b".into() }), Cause::Node(Obstacle::InputInvalid));
        let error = format::Error::UnformattedReadOnly { device: device.clone(), kind: "ext4".into() };
        assert_eq!(cause(error), Cause::Node(Obstacle::HostPathUnusable));
        let source = Box::new(mount::Error::Prepare { kind: "none".into(), source: Errno::NODEV });
        let error = format::Error::Mount { device: device.clone(), kind: "none".into(), source };
        assert_eq!(cause(error), Cause::Node(Obstacle::AbilityMissing));
        assert_eq!(
            cause(format::Error::Unreadable { device, source: Errno::IO }),
            Cause::Node(Obstacle::FileSystemBroken)
        );
    }
}
