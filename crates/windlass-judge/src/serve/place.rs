//! Where volumes are: directories of one small tmpfs, bind mounted to where they are asked for; raw devices are loop
//! devices on files of it.
//!
//! The tmpfs has a source of its own name, so that every mount of it can be told from those of others in the mount table,
//! also by the next judge if this one is killed. Loop devices clear themselves with the process.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use tonic::Status;
use windlass_linux::block_map;
use windlass_linux::loop_device::{self, Attached};
use windlass_linux::mount::{self, Extent, Options, UnmountPolicy, Value};
use windlass_linux::name::Name;
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Device, Mount, Reader};

use super::Error;
use crate::call::{Access, Capability, Publish, shown};

/// What the tmpfs says that it is.
const SOURCE: &str = "windlass-judge";
/// The most that all volumes hold together.
const BYTES_MAX: &str = "64m";
/// How large a raw device is. Its file holds only what was written.
pub(super) const IMAGE_BYTES: u64 = 16 << 20;
/// So many troubles are remembered.
const TROUBLES_MAX: usize = 20;

/// Where volumes are.
pub(super) struct Places {
    /// The tmpfs.
    base: PathBuf,
    device: Device,
    /// One thing at a time: all of it takes no time.
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// Directories by volume.
    volumes: BTreeMap<String, PathBuf>,
    /// Loop devices by volume.
    loops: BTreeMap<String, Attached>,
    /// Where volumes are staged.
    stages: BTreeMap<String, String>,
    /// Where volumes are published.
    targets: BTreeMap<String, String>,
    troubles: Vec<String>,
    closed: bool,
}

fn internal(error: impl StdError) -> Status {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        text.push_str(&format!(": {it}"));
        cause = it.source();
    }
    Status::internal(text)
}

impl Places {
    /// Makes the file system of the volumes. One that a judge has left which was killed is taken away first.
    pub(super) fn open(state: &Path) -> Result<Self, Error> {
        let base = state.join("volumes");
        fs::create_dir_all(&base).map_err(|source| Error::Directory { path: base.clone(), source })?;
        let base = fs::canonicalize(&base).map_err(|source| Error::Directory { path: base.clone(), source })?;
        let device = Self::make(&base).map_err(|source| Error::Volumes { path: base.clone(), source })?;
        Ok(Self { base, device, made: Mutex::default() })
    }

    fn make(base: &Path) -> Result<Device, Box<dyn StdError + Send + Sync>> {
        while let Some(old) = ours_at(base)? {
            mount::unmount(&old, UnmountPolicy::Clean)?;
        }
        let options = Options::default().and_parameter("size", Value::Plain(BYTES_MAX.into()));
        let options = options.and_parameter("mode", Value::Plain("755".into()));
        mount::filesystem("tmpfs", SOURCE, &options)?.attach(&Place::root(base)?)?;
        Ok(ours_at(base)?.ok_or("it is not there")?.device)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that the judge could not do.
    pub(super) fn trouble(&self, text: &str) {
        let mut made = self.made();
        if made.troubles.len() < TROUBLES_MAX {
            made.troubles.push(text.to_owned());
        }
    }

    /// The directory of a volume, made when it is first named.
    fn volume(&self, made: &mut Made, volume: &str) -> Result<PathBuf, Status> {
        if made.closed {
            return Err(Status::unavailable("the judge ends"));
        }
        if let Some(path) = made.volumes.get(volume) {
            return Ok(path.clone());
        }
        let path = self.base.join(format!("volume-{}", made.volumes.len()));
        fs::create_dir(&path).map_err(internal)?;
        // Whatever user a pod has, it may write.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(internal)?;
        made.volumes.insert(volume.into(), path.clone());
        Ok(path)
    }

    /// Stages a volume. For a raw device there is nothing to see.
    pub(super) fn stage(&self, volume: &str, staging: &str, capability: &Capability) -> Result<(), Status> {
        let mut made = self.made();
        let source = self.volume(&mut made, volume)?;
        made.stages.insert(staging.into(), volume.into());
        if capability.is_block() {
            return Ok(());
        }
        give(&source, capability)?;
        self.bind(&source, &fs::canonicalize(staging).map_err(internal)?, false)
    }

    /// Takes a staged volume away. That there is none is success.
    pub(super) fn unstage(&self, staging: &str) -> Result<(), Status> {
        let mut made = self.made();
        if let Ok(path) = fs::canonicalize(staging) {
            unmount(&path)?;
        }
        made.stages.remove(staging);
        Ok(())
    }

    /// Publishes a volume.
    pub(super) fn publish(&self, it: &Publish) -> Result<(), Status> {
        let mut made = self.made();
        let source = self.volume(&mut made, &it.volume)?;
        let target = resolve(&it.target).map_err(internal)?;
        made.targets.insert(it.target.clone(), it.volume.clone());
        if it.capability.is_block() {
            let device = match made.loops.get(&it.volume) {
                Some(attached) => attached.device().path(),
                None => {
                    let attached = attach(&source.join("device"))?;
                    let path = attached.device().path();
                    made.loops.insert(it.volume.clone(), attached);
                    path
                }
            };
            let (parent, name) = hold_parent(&target)?;
            return block_map::bind_device(&device, &parent, &name).map_err(internal).map(drop);
        }
        give(&source, &it.capability)?;
        match fs::create_dir(&target) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(internal(error)),
            _ => {}
        }
        self.bind(&source, &target, it.read_only)
    }

    /// Takes a published volume away. That there is none is success.
    pub(super) fn unpublish(&self, target: &str) -> Result<(), Status> {
        let mut made = self.made();
        let volume = made.targets.get(target).cloned();
        if let Ok(path) = resolve(target) {
            match fs::symlink_metadata(&path).map(|it| it.file_type()) {
                Ok(kind) if kind.is_dir() => {
                    let ours = unmount(&path)? || volume.is_some();
                    if ours {
                        // One that holds something is not ours to empty.
                        let _ = fs::remove_dir(&path);
                    }
                }
                Ok(kind) if kind.is_block_device() || kind.is_file() && volume.is_some() => {
                    let (parent, name) = hold_parent(&path)?;
                    block_map::unbind(&parent, &name).map_err(internal)?;
                }
                _ => {}
            }
        }
        made.targets.remove(target);
        if let Some(volume) = volume
            && !made.targets.values().any(|it| *it == volume)
        {
            made.loops.remove(&volume);
        }
        Ok(())
    }

    fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<(), Status> {
        while let Some(there) = ours_at(target).map_err(internal)? {
            if there.device == self.device {
                return Ok(());
            }
            // A judge that was killed has left it.
            mount::unmount(&there, UnmountPolicy::Clean).map_err(internal)?;
        }
        let mut bound = mount::bind(&Place::root(source).map_err(internal)?, Extent::One).map_err(internal)?;
        if read_only {
            bound = bound.read_only(Extent::One).map_err(internal)?;
        }
        bound.attach(&Place::root(target).map_err(internal)?).map_err(internal).map(drop)
    }

    /// Takes everything away that is left: what it was, and what did not work, now or before.
    pub(super) fn close(&self) -> (Vec<String>, Vec<String>) {
        let (stages, targets) = {
            let mut made = self.made();
            if std::mem::replace(&mut made.closed, true) {
                return (Vec::new(), Vec::new());
            }
            (made.stages.clone(), made.targets.clone())
        };
        let mut taken = Vec::new();
        for (place, volume, staged) in targets
            .iter()
            .map(|(place, volume)| (place, volume, false))
            .chain(stages.iter().map(|(place, volume)| (place, volume, true)))
        {
            let mounted = resolve(place).ok().and_then(|it| ours_at(&it).ok().flatten()).is_some();
            let device = fs::symlink_metadata(place).is_ok_and(|it| it.file_type().is_block_device());
            match if staged { self.unstage(place) } else { self.unpublish(place) } {
                Ok(()) if mounted || device => taken.push(format!("{} at {}", shown(volume), shown(place))),
                Ok(()) => {}
                Err(status) => self.trouble(status.message()),
            }
        }
        self.made().loops.clear();
        if let Err(status) = unmount(&self.base) {
            self.trouble(status.message());
        }
        let _ = fs::remove_dir(&self.base);
        (taken, std::mem::take(&mut self.made().troubles))
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // Of a judge that never came to serve.
        self.close();
    }
}

/// What is mounted at a path, if it is a judge's.
fn ours_at(path: &Path) -> Result<Option<Arc<Mount>>, windlass_linux::table::Error> {
    let table = Reader::best().read()?;
    let is_ours = |it: &&Arc<Mount>| it.kind == OsStr::new("tmpfs") && it.source == OsStr::new(SOURCE);
    Ok(table.topmost(path).filter(is_ours).cloned())
}

/// Unmounts what is a judge's; whether there was something.
fn unmount(path: &Path) -> Result<bool, Status> {
    let mut any = false;
    while let Some(mount) = ours_at(path).map_err(internal)? {
        mount::unmount(&mount, UnmountPolicy::Clean).map_err(internal)?;
        any = true;
    }
    Ok(any)
}

/// A path without links, although its last part may not be there.
fn resolve(path: &str) -> std::io::Result<PathBuf> {
    let path = Path::new(path);
    let odd = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path does not end in a name");
    let (parent, name) = (path.parent().ok_or_else(odd)?, path.file_name().ok_or_else(odd)?);
    Ok(fs::canonicalize(parent)?.join(name))
}

fn hold_parent(path: &Path) -> Result<(Place, Name), Status> {
    let odd = || Status::internal(format!("{} has no parent", path.display()));
    let parent = Place::root(path.parent().ok_or_else(odd)?).map_err(internal)?;
    let name = Name::new("target", path.file_name().ok_or_else(odd)?).map_err(internal)?;
    Ok((parent, name))
}

/// A loop device on a file, which is made if it is missing.
fn attach(image: &Path) -> Result<Attached, Status> {
    let file = fs::File::options().create(true).truncate(false).write(true).open(image).map_err(internal)?;
    file.set_len(IMAGE_BYTES).map_err(internal)?;
    let held = rustix::fs::open(image, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(internal)?;
    let settings = loop_device::Settings { read_only: false, autoclear: true };
    loop_device::attach(&Place::of(held, image), settings).map_err(internal)
}

/// Gives a volume to the group that is asked for.
fn give(source: &Path, capability: &Capability) -> Result<(), Status> {
    let Some(Access::Mount { group, .. }) = &capability.access else { return Ok(()) };
    if group.is_empty() {
        return Ok(());
    }
    let number = group.parse().map_err(|_| Status::invalid_argument("the mount group is not a number"))?;
    std::os::unix::fs::chown(source, None, Some(number)).map_err(internal)?;
    fs::set_permissions(source, fs::Permissions::from_mode(0o2777)).map_err(internal)
}
