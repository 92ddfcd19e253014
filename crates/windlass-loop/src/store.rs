//! The state directory: the images and records of all volumes, who is working on which, and how much room is left.
//!
//! An image without a record is nobody's, and is removed at the next start: it is made before its record and removed after
//! it. A record that cannot be read keeps its image, for it may be somebody's data.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tonic::Status;
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::whole_file::{self, Survives};
use windlass_linux::{remove, usage};

use crate::record::{Life, Record, hex};

/// A record is far smaller, unless it holds many long paths.
const RECORD_BYTES_MAX: usize = 4 << 20;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory could not be made or opened.
    #[error("use {} as the state directory", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: windlass_linux::safe_path::Error,
    },
    /// A directory could not be made.
    #[error("make {}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("use {} as the state directory: another windlass-loop has it", path.display())]
    Taken {
        /// The directory.
        path: PathBuf,
    },
    /// It could not be taken.
    #[error("lock {}", path.display())]
    Lock {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The records could not be read.
    #[error("read the records in {}", path.display())]
    Read {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: whole_file::Error,
    },
}

/// The volumes.
pub struct Store {
    images: Place,
    records: Place,
    /// The most that all volumes may promise; without it, as much as the file system below can hold.
    capacity_bytes: Option<u64>,
    inner: Mutex<Inner>,
    /// Released with the process, however it ends.
    _lock: OwnedFd,
}

#[derive(Default)]
struct Inner {
    volumes: BTreeMap<String, Record>,
    /// What is being worked on.
    busy: BTreeSet<String>,
    /// Room that is taken by what is not there yet.
    claimed_bytes: u64,
}

/// Somebody's turn to work on a volume. Others are told to come later.
pub struct Turn {
    store: Arc<Store>,
    what: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.store.lock().busy.remove(&self.what);
    }
}

/// Room for a volume that is not there yet, or not as large.
pub struct Claim {
    store: Arc<Store>,
    bytes: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.store.lock().claimed_bytes -= self.bytes;
    }
}

impl Store {
    /// Opens the state directory, which is made if it is missing, and reads its records. Whoever has it has it alone.
    pub fn open(path: &Path, capacity_bytes: Option<u64>) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(|source| Error::Make { path: path.into(), source })?;
        // Loop devices tell of their files without links.
        let path = &std::fs::canonicalize(path).map_err(|source| Error::Make { path: path.into(), source })?;
        let open = |source| Error::Open { path: path.clone(), source };
        let root = Place::root(path).map_err(open)?;
        let lock = rustix::fs::openat(&root, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let lock = lock.map_err(|source| Error::Lock { path: path.clone(), source })?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::Taken { path: path.clone() }),
            Err(source) => return Err(Error::Lock { path: path.clone(), source }),
        }
        let below = |name: &str| {
            let relative = Relative::new("directory", name).expect("a plain name");
            root.make_directories(&relative, Mode::RWXU, Mounts::Refuse).map_err(open)
        };
        let store = Self {
            images: below("images")?,
            records: below("records")?,
            capacity_bytes,
            inner: Mutex::default(),
            _lock: lock,
        };
        let read = |source| Error::Read { path: path.join("records"), source };
        for name in whole_file::swept_names(&store.records).map_err(read)? {
            let text = whole_file::read(&store.records, &name, RECORD_BYTES_MAX).map_err(read)?.unwrap_or_default();
            match serde_json::from_slice::<Record>(&text) {
                Ok(record) if record.file_name().as_bytes() == name.as_bytes() => {
                    store.lock().volumes.insert(record.id.clone(), record);
                }
                Ok(record) => {
                    tracing::error!(record = %name, id = record.id, "this record is another volume's: not used")
                }
                Err(error) => {
                    tracing::error!(record = %name, %error, "this record cannot be read: its volume is not used")
                }
            }
        }
        Ok(store)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics between two changes that belong together.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn to work on a volume by its id, or on a name that is being created.
    pub fn turn(self: &Arc<Self>, what: &str) -> Result<Turn, Status> {
        if self.lock().busy.insert(what.to_owned()) {
            Ok(Turn { store: self.clone(), what: what.to_owned() })
        } else {
            Err(Status::aborted(format!("another call for \"{}\" is under way", what.escape_debug())))
        }
    }

    /// A volume.
    #[must_use]
    pub fn volume(&self, id: &str) -> Option<Record> {
        self.lock().volumes.get(id).cloned()
    }

    /// A volume that must be there.
    pub fn expect(&self, id: &str) -> Result<Record, Status> {
        self.volume(id).ok_or_else(|| Status::not_found(format!("there is no volume \"{}\"", id.escape_debug())))
    }

    /// The volume that was created by this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Record> {
        let inner = self.lock();
        inner.volumes.values().find(|it| it.life == Life::Persistent && it.name == name).cloned()
    }

    /// All volumes, by id.
    #[must_use]
    pub fn volumes(&self) -> Vec<Record> {
        self.lock().volumes.values().cloned().collect()
    }

    /// The volumes after this id that somebody created, at most so many, and whether there are more.
    #[must_use]
    pub fn page(&self, after: &str, count_max: usize) -> (Vec<Record>, bool) {
        use std::ops::Bound::{Excluded, Unbounded};
        let inner = self.lock();
        let rest = inner.volumes.range::<str, _>((Excluded(after), Unbounded)).map(|(_, it)| it);
        let mut rest = rest.filter(|it| it.life == Life::Persistent);
        let page = rest.by_ref().take(count_max).cloned().collect();
        (page, rest.next().is_some())
    }

    /// How many volumes are attached.
    #[must_use]
    pub fn attached(&self) -> usize {
        self.lock().volumes.values().filter(|it| it.attached.is_some()).count()
    }

    /// How much all volumes may promise.
    pub fn capacity_bytes(&self) -> Result<u64, Status> {
        match self.capacity_bytes {
            Some(bytes) => Ok(bytes),
            None => Ok(usage::statfs(&self.images).map_err(internal)?.capacity_bytes),
        }
    }

    /// How much more can be promised.
    pub fn free_bytes(&self) -> Result<u64, Status> {
        let capacity = self.capacity_bytes()?;
        Ok(capacity.saturating_sub(self.lock().promised()))
    }

    /// Takes room for something that will be there soon.
    pub fn claim(self: &Arc<Self>, bytes: u64) -> Result<Claim, Status> {
        let capacity = self.capacity_bytes()?;
        let mut inner = self.lock();
        if bytes > capacity {
            return Err(Status::out_of_range(format!(
                "{bytes} bytes are more than the {capacity} that there are in all"
            )));
        }
        let free = capacity.saturating_sub(inner.promised());
        if bytes > free {
            return Err(Status::resource_exhausted(format!("{bytes} bytes are more than the {free} that are left")));
        }
        inner.claimed_bytes += bytes;
        Ok(Claim { store: self.clone(), bytes })
    }

    /// Puts a new volume on disk: its image, then its record.
    pub fn create(&self, record: &Record) -> Result<(), Status> {
        let made = self.make_image(record).and_then(|()| self.save(record));
        if made.is_err()
            && let Err(error) = self.remove_image(record)
        {
            tracing::warn!(%error, "an image is left until the next start");
        }
        made
    }

    fn make_image(&self, record: &Record) -> Result<(), Status> {
        let name: Relative = image(record)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW;
        let file = self.images.create(&name, flags, Mode::RUSR | Mode::WUSR, Mounts::Refuse).map_err(internal)?;
        // What a process left that was killed is not used.
        rustix::fs::ftruncate(&file, 0).map_err(internal)?;
        rustix::fs::ftruncate(&file, record.capacity_bytes).map_err(internal)?;
        rustix::fs::fsync(&file).map_err(internal)?;
        rustix::fs::openat(&self.images, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(rustix::fs::fsync)
            .map_err(internal)
    }

    /// Makes an image as large as this. It never gets smaller.
    pub fn grow_image(&self, record: &Record, bytes: u64) -> Result<(), Status> {
        let file =
            self.images.open(&image(record)?, OFlags::RDWR | OFlags::NOFOLLOW, Mounts::Refuse).map_err(internal)?;
        if image_bytes(&file).map_err(internal)? < bytes {
            rustix::fs::ftruncate(&file, bytes).map_err(internal)?;
            rustix::fs::fsync(&file).map_err(internal)?;
        }
        Ok(())
    }

    /// Holds the image of a volume.
    pub fn image(&self, record: &Record) -> Result<Place, Status> {
        self.images.find(&image(record)?, Mounts::Refuse).map_err(internal)
    }

    /// How large the image of a volume is; `None` if it is gone.
    pub fn image_size(&self, record: &Record) -> Result<Option<u64>, Status> {
        match self.images.find(&image(record)?, Mounts::Refuse) {
            Ok(file) => image_bytes(&file).map(Some).map_err(internal),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(internal(error)),
        }
    }

    /// Writes a record, and takes it as what is known from then on.
    pub fn save(&self, record: &Record) -> Result<(), Status> {
        let text = serde_json::to_vec(record).map_err(internal)?;
        // A record that was lost with the power would lose its volume.
        whole_file::write(&self.records, &record_name(record)?, &text, Survives::PowerLoss).map_err(internal)?;
        self.lock().volumes.insert(record.id.clone(), record.clone());
        Ok(())
    }

    /// Removes a volume that nobody uses: its record, then its image.
    pub fn forget(&self, record: &Record) -> Result<(), Status> {
        whole_file::remove(&self.records, &record_name(record)?).map_err(internal)?;
        self.lock().volumes.remove(&record.id);
        self.remove_image(record)
    }

    fn remove_image(&self, record: &Record) -> Result<(), Status> {
        let name = record.image_name().map_err(internal)?;
        remove::tree(&self.images, &name, |it| it.path.as_os_str().is_empty()).map_err(internal)
    }

    /// Images that no record is of, each held.
    pub(crate) fn strays(&self) -> Result<Vec<(Name, Place)>, Status> {
        let records: BTreeSet<_> = whole_file::names(&self.records).map_err(internal)?.into_iter().collect();
        let mut strays = Vec::new();
        for name in whole_file::names(&self.images).map_err(internal)? {
            let of = name.as_bytes().strip_suffix(b".img").and_then(|it| std::str::from_utf8(it).ok());
            let known = of.and_then(|it| Name::new("record", it).ok()).is_some_and(|it| records.contains(&it));
            if !known {
                let relative = Relative::of("image", [&name]).map_err(internal)?;
                strays.push((name, self.images.find(&relative, Mounts::Refuse).map_err(internal)?));
            }
        }
        Ok(strays)
    }

    /// Removes an image that no record is of.
    pub(crate) fn remove_stray(&self, name: &Name) -> Result<(), Status> {
        remove::tree(&self.images, name, |it| it.path.as_os_str().is_empty()).map_err(internal)
    }
}

impl Inner {
    fn promised(&self) -> u64 {
        self.volumes.values().map(|it| it.capacity_bytes).sum::<u64>().saturating_add(self.claimed_bytes)
    }
}

fn image(record: &Record) -> Result<Relative, Status> {
    let name = record.image_name().map_err(internal)?;
    Relative::of("image", [&name]).map_err(internal)
}

fn image_bytes(file: &Place) -> Result<u64, Errno> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}

fn record_name(record: &Record) -> Result<Name, Status> {
    Name::new("record", record.file_name()).map_err(internal)
}

/// What nobody else has, of 128 bits.
pub(crate) fn random() -> Result<String, Status> {
    let mut bytes = [0; 16];
    let length = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(internal)?;
    if length == bytes.len() { Ok(hex(&bytes)) } else { Err(Status::internal("the kernel gave too few random bytes")) }
}

/// An error that is not the caller's, with its causes.
pub(crate) fn internal(error: impl std::error::Error) -> Status {
    Status::internal(told(&error))
}

/// An error with its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(path: &Path) -> Arc<Store> {
        Arc::new(Store::open(path, Some(10 << 20)).unwrap())
    }

    fn record(id: &str, bytes: u64) -> Record {
        Record::new(id.into(), format!("name of {id}"), Life::Persistent, bytes, String::new())
    }

    #[test]
    fn a_volume_is_there_after_a_restart_and_gone_after_it_was_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let one = store(directory.path());
        let volume = record("vol-1", 1 << 20);
        one.create(&volume).unwrap();
        drop(one);
        let two = store(directory.path());
        assert_eq!(two.volume("vol-1"), Some(volume.clone()));
        assert_eq!(two.named("name of vol-1"), Some(volume.clone()));
        assert_eq!(two.image_size(&volume).unwrap(), Some(1 << 20));
        two.forget(&volume).unwrap();
        two.forget(&volume).unwrap();
        drop(two);
        assert_eq!(store(directory.path()).volumes(), []);
        assert_eq!(std::fs::read_dir(directory.path().join("images")).unwrap().count(), 0);
    }

    #[test]
    fn a_state_directory_has_one_process() {
        let directory = tempfile::tempdir().unwrap();
        let _one = store(directory.path());
        assert!(matches!(Store::open(directory.path(), None), Err(Error::Taken { .. })));
    }

    #[test]
    fn one_call_at_a_time_works_on_a_volume() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        let turn = store.turn("vol-1").unwrap();
        assert_eq!(store.turn("vol-1").map(drop).unwrap_err().code(), tonic::Code::Aborted);
        store.turn("vol-2").map(drop).unwrap();
        drop(turn);
        store.turn("vol-1").map(drop).unwrap();
    }

    #[test]
    fn no_more_is_promised_than_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        store.create(&record("vol-1", 6 << 20)).unwrap();
        assert_eq!(store.free_bytes().unwrap(), 4 << 20);
        let claim = store.claim(3 << 20).unwrap();
        assert_eq!(store.claim(2 << 20).map(drop).unwrap_err().code(), tonic::Code::ResourceExhausted);
        drop(claim);
        store.claim(2 << 20).map(drop).unwrap();
        assert_eq!(store.claim(11 << 20).map(drop).unwrap_err().code(), tonic::Code::OutOfRange);
    }

    #[test]
    fn an_image_without_a_record_is_a_stray_and_one_with_a_broken_record_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let one = store(directory.path());
        for id in ["vol-1", "vol-2", "vol-3"] {
            one.create(&record(id, 4096)).unwrap();
        }
        drop(one);
        std::fs::remove_file(directory.path().join("records/vol-2")).unwrap();
        std::fs::write(directory.path().join("records/vol-3"), "{").unwrap();
        let two = store(directory.path());
        assert_eq!(two.volumes().len(), 1);
        let strays: Vec<_> = two.strays().unwrap().into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(strays, ["vol-2.img"]);
    }

    #[test]
    fn pages_go_on_after_the_last_volume_although_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
        for id in ["vol-1", "vol-2", "vol-3"] {
            store.create(&record(id, 4096)).unwrap();
        }
        let ids = |page: &(Vec<Record>, bool)| page.0.iter().map(|it| it.id.clone()).collect::<Vec<_>>();
        let first = store.page("", 2);
        assert_eq!((ids(&first), first.1), (vec!["vol-1".into(), "vol-2".into()], true));
        store.forget(&record("vol-2", 4096)).unwrap();
        let second = store.page("vol-2", 2);
        assert_eq!((ids(&second), second.1), (vec!["vol-3".into()], false));
    }
}
