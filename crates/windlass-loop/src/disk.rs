//! The loop devices and mounts of a volume, found by what the kernel tells: a loop device by its file, a mount by its
//! device. Nothing is taken for ours by its number or its path alone.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use tonic::Status;
use windlass_linux::device::{self, AtPath, Device};
use windlass_linux::loop_device::{self, LoopDevice, Settings};
use windlass_linux::mount::{self, UnmountPolicy};
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Mount, Reader};

use crate::record::{Record, Spot};
use crate::store::{Store, internal, told};

/// The loop devices of a volume.
#[derive(Debug, Default)]
pub struct Loops {
    /// Those that have its image. One, unless something went wrong.
    pub base: Vec<LoopDevice>,
    /// Those that lie on these, for whoever may only read: so all see the same, at the same time.
    pub readers: Vec<LoopDevice>,
}

impl Loops {
    /// The loop devices that a volume has now.
    pub fn of(store: &Store, record: &Record) -> Result<Self, Status> {
        match store.image_size(record)? {
            Some(_) => Self::of_image(&store.image(record)?),
            None => Ok(Self::default()),
        }
    }

    /// The loop devices that have this image.
    pub(crate) fn of_image(image: &Place) -> Result<Self, Status> {
        let base = loop_device::of_file_by_name(image).map_err(internal)?;
        let mut readers = Vec::new();
        for device in &base {
            readers.extend(loop_device::of_file_by_name(&hold(&device.path())?).map_err(internal)?);
        }
        Ok(Self { base, readers })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.base.is_empty()
    }

    /// All of them, those that lie on others last.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &LoopDevice> {
        self.base.iter().chain(&self.readers)
    }

    /// Detaches all of them. One that somebody has open or mounted goes with its last user.
    pub fn detach(&self) -> Result<(), Status> {
        for device in self.all().rev() {
            match loop_device::detach(device) {
                // It has cleared itself meanwhile, and its number has gone to another volume's image.
                Ok(_) | Err(loop_device::Error::OtherFile { .. }) => {}
                Err(error) => return Err(internal(error)),
            }
        }
        Ok(())
    }

    /// Whether a mount is of one of them.
    pub fn have(&self, mount: &Mount) -> Result<bool, Status> {
        for device in self.all() {
            if number(&device.path())? == Some(mount.device) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The number of a device; `None` if there is none at this path.
fn number(path: &Path) -> Result<Option<Device>, Status> {
    match device::look(path) {
        Ok(AtPath::Block(device)) => Ok(Some(device)),
        Ok(AtPath::Directory | AtPath::Other) => Ok(None),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(internal(error)),
    }
}

fn hold(path: &Path) -> Result<Place, Status> {
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let fd = fd.map_err(|errno| Status::internal(format!("hold {}: {errno}", path.display())))?;
    Ok(Place::of(fd, path))
}

/// The loop device through which a volume is used as a raw device, attached if it is not.
///
/// It does not clear itself: a device that is bind mounted is not in use. So whoever calls this has said so in the record.
pub(crate) fn attach_raw(store: &Store, record: &Record, read_only: bool) -> Result<LoopDevice, Status> {
    let loops = Loops::of(store, record)?;
    if let Some(device) = loops.base.iter().find(|it| it.read_only == read_only && !it.autoclear) {
        return Ok(device.clone());
    }
    release(store, record, &loops)?;
    let settings = Settings { read_only, autoclear: false };
    Ok(loop_device::attach(&store.image(record)?, settings).map_err(internal)?.keep())
}

/// The loop device for whoever may only read a raw device that others may write: it lies on the first.
pub(crate) fn attach_reader(base: &LoopDevice) -> Result<LoopDevice, Status> {
    let file = hold(&base.path())?;
    let there = loop_device::of_file_by_name(&file).map_err(internal)?;
    if let Some(device) = there.into_iter().find(|it| it.read_only && !it.autoclear) {
        return Ok(device);
    }
    let settings = Settings { read_only: true, autoclear: false };
    Ok(loop_device::attach(&file, settings).map_err(internal)?.keep())
}

/// Makes sure that nobody has a volume's image, before somebody gets it.
pub(crate) fn release(store: &Store, record: &Record, loops: &Loops) -> Result<(), Status> {
    if loops.is_empty() {
        return Ok(());
    }
    loops.detach()?;
    match Loops::of(store, record)?.base.first() {
        None => Ok(()),
        // A program that a killed driver has started may still be at work on it, and two would destroy each other's.
        Some(device) => {
            Err(Status::aborted(format!("{} still has the image, and somebody has it open", device.path().display())))
        }
    }
}

/// The mount that is seen at a path.
pub(crate) fn mounted(path: &Path) -> Result<Option<Mount>, Status> {
    let table = Reader::best().read().map_err(internal)?;
    Ok(table.topmost(path).map(|it| Mount::clone(it)))
}

/// The mount of a volume's file system that is seen at a path; what else is mounted there is an error.
pub(crate) fn ours_at(path: &Path, loops: &Loops) -> Result<Option<Mount>, Status> {
    match mounted(path)? {
        None => Ok(None),
        Some(mount) if loops.have(&mount)? => Ok(Some(mount)),
        Some(mount) => Err(Status::internal(format!(
            "something else is mounted at {}: {} {}",
            path.display(),
            mount.kind.display(),
            mount.source.display()
        ))),
    }
}

/// Takes away what is mounted of a volume at a path. That nothing is there is success.
pub(crate) fn unmount(path: &Path, loops: &Loops) -> Result<(), Status> {
    // More than one after calls that overlapped in two processes.
    while let Some(mount) = ours_at(path, loops)? {
        match mount::unmount(&mount, UnmountPolicy::Clean) {
            Ok(_) => {}
            Err(error) if error.is_busy() => {
                return Err(Status::failed_precondition(format!("{}: somebody still uses it", told(&error))));
            }
            Err(error) => return Err(internal(error)),
        }
    }
    Ok(())
}

/// The place of a directory that must be there.
pub(crate) fn directory(asked: &str) -> Result<Spot, Status> {
    let path = absolute(asked)?;
    let path = std::fs::canonicalize(path)
        .map_err(|error| Status::failed_precondition(format!("use the directory {}: {error}", asked.escape_debug())))?;
    match device::look(&path).map_err(internal)? {
        AtPath::Directory => Ok(Spot { asked: asked.into(), path }),
        AtPath::Block(_) | AtPath::Other => {
            Err(Status::failed_precondition(format!("{} is not a directory", asked.escape_debug())))
        }
    }
}

/// The place of something that may not be there yet, in a directory that must be.
pub(crate) fn entry(asked: &str) -> Result<Spot, Status> {
    let path = absolute(asked)?;
    let odd = || Status::invalid_argument(format!("the path \"{}\" does not end in a name", asked.escape_debug()));
    let (parent, name) = (path.parent().ok_or_else(odd)?, path.file_name().ok_or_else(odd)?);
    let parent = std::fs::canonicalize(parent)
        .map_err(|error| Status::failed_precondition(format!("use the directory {}: {error}", parent.display())))?;
    Ok(Spot { asked: asked.into(), path: parent.join(name) })
}

fn absolute(asked: &str) -> Result<PathBuf, Status> {
    let path = PathBuf::from(asked);
    if path.is_absolute() && !asked.contains('\0') {
        return Ok(path);
    }
    Err(Status::invalid_argument(format!("the path \"{}\" is not absolute", asked.escape_debug())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_place_is_known_without_links() {
        let directory = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(directory.path()).unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        symlink(real.join("a"), real.join("link")).unwrap();
        std::fs::write(real.join("file"), "").unwrap();
        let text = |name: &str| real.join(name).to_str().unwrap().to_owned();
        assert_eq!(super::directory(&text("link")).unwrap().path, real.join("a"));
        assert_eq!(entry(&text("link/new")).unwrap().path, real.join("a/new"));
        assert_eq!(super::directory(&text("file")).unwrap_err().code(), tonic::Code::FailedPrecondition);
        assert_eq!(super::directory(&text("none")).unwrap_err().code(), tonic::Code::FailedPrecondition);
        assert_eq!(entry(&text("none/new")).unwrap_err().code(), tonic::Code::FailedPrecondition);
        for odd in ["", "some/path", "/", "/a/..", "/a\0b"] {
            assert_eq!(entry(odd).unwrap_err().code(), tonic::Code::InvalidArgument, "{odd:?}");
        }
    }
}
