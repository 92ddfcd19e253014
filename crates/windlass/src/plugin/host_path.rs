//! `hostPath`: a path of the host as it is (P-130..P-139). Nothing is made below the pod, so there is nothing to undo.

use std::fs::{self, DirBuilder, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Component, Path};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::HostPathVolumeSource;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use windlass_core::flight::Trace;
use windlass_core::operation::{Cause, Obstacle};
use windlass_core::spec::{Capabilities, Refresh};

use super::{Failure, Made, Plugin, Publish, Scene, Unpublish, Want, obstacle};
use crate::catalogue::VolumeType;

/// Paths of the host. What they lead to may hang: on a server, or on whoever serves a file system of its own.
pub(super) static HOST_PATH: VolumeType = VolumeType {
    in_pod: |it| it.host_path.is_some(),
    persistent: |it| it.host_path.is_some(),
    // Nothing is done to a path, so the pod's next container can be given another.
    capabilities: |_| Capabilities { refresh: Refresh::OnChange, ..Capabilities::default() },
    trace: Trace::Nothing,
    ..VolumeType::plain("kubernetes.io/host-path", &HostPath)
};

/// The calls of [`HOST_PATH`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPath;

#[async_trait]
impl Plugin for HostPath {
    async fn publish(&self, _: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
        let Some(source) = source(task.want) else {
            let text = format!("volume {} is no path of the host", task.want.detail.name);
            return Err(Failure::refused(Cause::Other, text));
        };
        check(Path::new(&source.path), source.type_.as_deref().unwrap_or_default())?;
        Ok(Made::untouched(source.path.clone().into()))
    }

    async fn unpublish(&self, _: &Scene, _: &Unpublish<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

fn source(want: &Want) -> Option<&HostPathVolumeSource> {
    match &want.detail.persistent {
        None => want.volume()?.host_path.as_ref(),
        Some(volume) => volume.spec.as_ref()?.host_path.as_ref(),
    }
}

/// Checks that a path is what its type says, and makes it if the type says so (P-132..P-139). Links are followed.
fn check(path: &Path, kind: &str) -> Result<(), Failure> {
    let shown = path.display();
    if path.as_os_str().is_empty() {
        return Err(unusable(format!("invalid HostPath `{shown}`: must not be empty")));
    }
    if path.components().any(|it| it == Component::ParentDir) {
        return Err(unusable(format!("invalid HostPath `{shown}`: must not contain '..'")));
    }
    if kind.is_empty() {
        return Ok(());
    }
    let found = std::fs::metadata(path).map(|it| it.file_type());
    let (is, what): (fn(&FileType) -> bool, _) = match kind {
        "DirectoryOrCreate" if found.is_err() => return make_directory(path),
        "Directory" | "DirectoryOrCreate" => (FileType::is_dir, "directory"),
        "FileOrCreate" if found.is_err() => return make_file(path),
        "File" | "FileOrCreate" => (FileType::is_file, "file"),
        "Socket" => (FileType::is_socket, "socket file"),
        "CharDevice" => (FileType::is_char_device, "character device"),
        "BlockDevice" => (FileType::is_block_device, "block device"),
        _ => return Err(unusable(format!("{kind} is an invalid volume type"))),
    };
    let text = format!("hostPath type check failed: {shown} is not a {what}");
    match found {
        Ok(found) if is(&found) => Ok(()),
        Ok(found) => Err(unusable(text).noting(format!("it is a {}", spelled(found)))),
        Err(error) => Err(Failure::refused(cause(&error), text).noting(match error.kind() {
            io::ErrorKind::NotFound => "there is nothing of that name".into(),
            _ => said(&error),
        })),
    }
}

fn spelled(found: FileType) -> &'static str {
    match found {
        it if it.is_dir() => "directory",
        it if it.is_file() => "file",
        it if it.is_socket() => "socket file",
        it if it.is_char_device() => "character device",
        it if it.is_block_device() => "block device",
        _ => "fifo",
    }
}

/// Makes a directory and those above it, with the kubelet's mode whatever the umask of this process (P-134).
fn make_directory(path: &Path) -> Result<(), Failure> {
    let is_missing = |it: &&Path| fs::symlink_metadata(it).is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    match DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Ok(()) => {
            // From the top, so that the next one can be reached; only what was made here.
            for made in missing.into_iter().rev() {
                let directory =
                    rustix::fs::open(made, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
                let changed = directory.and_then(|it| rustix::fs::fchmod(it, Mode::from_raw_mode(0o755)));
                changed.map_err(|errno| failed("chmod", made, &errno.into()))?;
            }
            Ok(())
        }
        // A link that leads nowhere is there, and cannot be entered. The kubelet takes it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("mkdir", path, &error)),
    }
}

/// Makes an empty file, where a link leads if there is one, but no directory above it (P-136).
fn make_file(path: &Path) -> Result<(), Failure> {
    // Not blocking: it can have become a fifo by now.
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let is_missing = fs::metadata(path).is_err_and(|it| it.kind() == io::ErrorKind::NotFound);
    let mode = Mode::from_raw_mode(0o644);
    match rustix::fs::open(path, flags, mode) {
        Ok(made) if is_missing => rustix::fs::fchmod(made, mode).map_err(|errno| failed("chmod", path, &errno.into())),
        Ok(_) => Ok(()),
        Err(errno) => Err(failed("open", path, &errno.into())),
    }
}

fn unusable(text: String) -> Failure {
    Failure::refused(Cause::Node(Obstacle::HostPathUnusable), text)
}

/// In the kubelet's words, which are Go's.
fn failed(call: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::refused(cause(error), format!("{call} {}: {}", path.display(), said(error)))
}

fn said(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|it| it.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The path is to blame, unless the file system is.
fn cause(error: &io::Error) -> Cause {
    let obstacle = error.raw_os_error().and_then(|it| obstacle(Errno::from_raw_os_error(it)));
    Cause::Node(match obstacle {
        Some(
            it @ (Obstacle::NoSpace
            | Obstacle::ReadOnlyFileSystem
            | Obstacle::FileSystemBroken
            | Obstacle::NotPermitted),
        ) => it,
        _ => Obstacle::HostPathUnusable,
    })
}
