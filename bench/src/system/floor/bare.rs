//! What windlass leaves on disk for a pod, by the fewest system calls.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Result;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::pods;

/// Where the pods are.
pub(super) struct Place {
    path: PathBuf,
    pods: OwnedFd,
    content: String,
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// The directories of a pod, each after the one that it is in.
const DIRECTORIES: [(&str, u32); 13] = [
    ("plugins", 0o750),
    ("plugins/kubernetes.io~empty-dir", 0o750),
    ("plugins/kubernetes.io~empty-dir/disk", 0o750),
    ("plugins/kubernetes.io~empty-dir/memory", 0o750),
    ("plugins/kubernetes.io~empty-dir/wrapped_config", 0o750),
    ("plugins/kubernetes.io~empty-dir/wrapped_secret", 0o750),
    ("volumes", 0o750),
    ("volumes/kubernetes.io~empty-dir", 0o755),
    ("volumes/kubernetes.io~empty-dir/disk", 0o777),
    (MEMORY, 0o777),
    ("volumes/kubernetes.io~configmap", 0o755),
    (CONFIG, 0o777),
    ("volumes/kubernetes.io~secret", 0o755),
];
const MEMORY: &str = "volumes/kubernetes.io~empty-dir/memory";
const CONFIG: &str = "volumes/kubernetes.io~configmap/config";
const SECRET: &str = "volumes/kubernetes.io~secret/secret";

/// The kubelet's marks that an emptyDir is there.
const MARKS: [&str; 4] = [
    "plugins/kubernetes.io~empty-dir/disk/ready",
    "plugins/kubernetes.io~empty-dir/memory/ready",
    "plugins/kubernetes.io~empty-dir/wrapped_config/ready",
    "plugins/kubernetes.io~empty-dir/wrapped_secret/ready",
];

/// The version that is shown. Its name has the form that the kubelet gives it.
const VERSION: &str = "..2026_01_01_00_00_00.1000000000";
/// Keys, and what their links lead to.
const LINKS: [(&str, &str); pods::KEYS] =
    [("key-0", "..data/key-0"), ("key-1", "..data/key-1"), ("key-2", "..data/key-2"), ("key-3", "..data/key-3")];

/// The kernel's default for the mode is the kubelet's too.
const OPTIONS: &CStr = c"noswap";

impl Place {
    /// Makes what all pods have in common.
    pub(super) fn new(root: &Path) -> Result<Self> {
        let directory = rustix::fs::open(root, DIRECTORY, Mode::empty())?;
        mkdirat(&directory, "node", Mode::from(0o750))?;
        mkdirat(&directory, "node/pods", Mode::from(0o750))?;
        mkdirat(&directory, "node/plugins", Mode::from(0o750))?;
        let pods = openat(&directory, "node/pods", DIRECTORY, Mode::empty())?;
        Ok(Self { path: root.join("node/pods"), pods, content: pods::content(0) })
    }
}

/// Makes a pod.
pub(super) fn make(place: &Place, index: usize) -> Result<()> {
    let uid = pods::uid(index);
    mkdirat(&place.pods, &uid, Mode::from(0o750))?;
    let pod = openat(&place.pods, &uid, DIRECTORY, Mode::empty())?;
    for (path, mode) in DIRECTORIES {
        mkdirat(&pod, path, Mode::from(mode))?;
    }
    mkdirat(&pod, SECRET, Mode::from(0o777))?;
    for path in MARKS {
        openat(&pod, path, FILE, Mode::from(0o644))?;
    }
    let path = place.path.join(&uid);
    mount(c"tmpfs", path.join(MEMORY), c"tmpfs", MountFlags::empty(), OPTIONS)?;
    mount(c"tmpfs", path.join(SECRET), c"tmpfs", MountFlags::empty(), OPTIONS)?;
    for path in [CONFIG, SECRET] {
        let volume = openat(&pod, path, DIRECTORY, Mode::empty())?;
        mkdirat(&volume, VERSION, Mode::from(0o755))?;
        let version = openat(&volume, VERSION, DIRECTORY, Mode::empty())?;
        for (key, link) in LINKS {
            let file = openat(&version, key, FILE, Mode::from(0o644))?;
            rustix::io::write(file, place.content.as_bytes())?;
            symlinkat(link, &volume, key)?;
        }
        symlinkat(VERSION, &volume, "..data")?;
    }
    Ok(())
}

/// Removes a pod.
pub(super) fn remove(place: &Place, index: usize) -> Result<()> {
    let uid = pods::uid(index);
    let path = place.path.join(&uid);
    // What is in them goes with them.
    unmount(path.join(MEMORY), UnmountFlags::DETACH)?;
    unmount(path.join(SECRET), UnmountFlags::DETACH)?;
    let pod = openat(&place.pods, &uid, DIRECTORY, Mode::empty())?;
    let volume = openat(&pod, CONFIG, DIRECTORY, Mode::empty())?;
    let version = openat(&volume, VERSION, DIRECTORY, Mode::empty())?;
    for (key, _) in LINKS {
        unlink(version.as_fd(), key)?;
        unlink(volume.as_fd(), key)?;
    }
    unlink(volume.as_fd(), "..data")?;
    remove_directory(volume.as_fd(), VERSION)?;
    for path in MARKS {
        unlink(pod.as_fd(), path)?;
    }
    remove_directory(pod.as_fd(), SECRET)?;
    for (path, _) in DIRECTORIES.iter().rev() {
        remove_directory(pod.as_fd(), path)?;
    }
    remove_directory(place.pods.as_fd(), &uid)
}

fn unlink(directory: BorrowedFd<'_>, name: &str) -> Result<()> {
    unlinkat(directory, name, AtFlags::empty())
}

fn remove_directory(directory: BorrowedFd<'_>, name: &str) -> Result<()> {
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}
