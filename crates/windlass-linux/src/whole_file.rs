//! Small files that are always whole: whoever reads one sees all of the old contents or all of the new.
//!
//! New contents are written beside the file and renamed over it. With [`Survives::PowerLoss`] they and the directory
//! are synced too, so that they are there after whatever happens next; with [`Survives::Crash`] they outlive this
//! process but perhaps not the machine, which is a hundred times faster on a disk. [`Survives::CrashWhole`] is in between.
//!
//! For contents that tell themselves where they end there is a cheaper way: a file is [begun](begin), and more is
//! [added](Begun::add) to it.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::{Mounts, Place, open_beneath};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// It is larger than a file of this kind can be.
    #[error("read {}: it is larger than {max_bytes} bytes", path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// The most that was expected.
        max_bytes: usize,
    },
}

impl Error {
    /// What the kernel answered, if it was asked.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::System(error) => Some(error.source),
            Self::Large { .. } => None,
        }
    }
}

/// What a written file outlives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// The end of this process, however sudden.
    Crash,
    /// The same; and after the end of the machine it is as it was before, or whole.
    CrashWhole,
    /// The end of the machine too.
    PowerLoss,
}

/// Something that a write is about to do. In this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make the file that will take the place of the old one.
    Make,
    /// Write the contents.
    Write,
    /// Sync them.
    SyncFile,
    /// Rename it over the old file: from here on the new contents are there.
    Rename,
    /// Sync the directory.
    SyncDirectory,
}

/// How names of files begin that are not in place yet.
const UNFINISHED: &str = "..new-";

/// How those of this process begin. What an earlier process of the same number left is written over.
fn ours() -> String {
    format!("{UNFINISHED}{}-", std::process::id())
}

/// The mode of files that everybody may read.
const READABLE: Mode = Mode::from_bits_retain(0o644);

/// Makes these the contents of a file.
pub fn write(directory: &Place, name: &Name, contents: &[u8], survives: Survives) -> Result<(), Error> {
    write_observed(directory, name, contents, survives, &mut |_| {})
}

/// As [`write()`], but everybody may read the file, whatever the umask.
pub fn write_readable(directory: &Place, name: &Name, contents: &[u8], survives: Survives) -> Result<(), Error> {
    replace(directory, name, contents, READABLE, survives, &mut |_| {})
}

/// As [`write()`], and tells of every step before it is taken. Tests end the process there.
pub fn write_observed(
    directory: &Place,
    name: &Name,
    contents: &[u8],
    survives: Survives,
    before: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    replace(directory, name, contents, WRITTEN, survives, before)
}

fn replace(
    directory: &Place,
    name: &Name,
    contents: &[u8],
    mode: Mode,
    survives: Survives,
    before: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let unfinished = PathBuf::from(format!("{}{}", ours(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let path = directory.path().join(name.as_path());
    let write = |source| PathError::new("write", path.clone(), source);
    before(Step::Make);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
    let file = open_beneath(directory, &unfinished, flags, mode, Mounts::Refuse).map_err(write)?;
    let written = (|| {
        if mode != WRITTEN {
            rustix::fs::fchmod(&file, mode)?;
        }
        before(Step::Write);
        write_all(&file, contents)?;
        if survives != Survives::Crash {
            before(Step::SyncFile);
            rustix::fs::fsync(&file)?;
        }
        Ok(())
    })();
    let replaced = written.map_err(write).and_then(|()| {
        before(Step::Rename);
        rustix::fs::renameat(directory, &unfinished, directory, name.as_path())
            .map_err(|source| PathError::new("replace", path.clone(), source))
    });
    if let Err(error) = replaced {
        // What is left is small, and swept up at the next start.
        let _ = rustix::fs::unlinkat(directory, &unfinished, AtFlags::empty());
        return Err(error.into());
    }
    if survives == Survives::PowerLoss {
        before(Step::SyncDirectory);
        sync(directory).map_err(|source| PathError::new("sync the directory of", path, source))?;
    }
    Ok(())
}

/// Makes a file with these contents, if there is none of this name; `None` if there is.
///
/// It is made in its place and then written, which costs less than renaming it there. So a process that ends in between
/// leaves an empty file, and whoever reads it meanwhile finds it empty; after a loss of power there may be less than all of
/// it, unless it [survives](Survives::PowerLoss) that. This is for contents of which all that is told apart.
pub fn begin(directory: &Place, name: &Name, contents: &[u8], survives: Survives) -> Result<Option<Begun>, Error> {
    let path = || directory.path().join(name.as_path());
    let failed = |source| PathError::new("write", path(), source);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = match open_beneath(directory, name.as_path(), flags, WRITTEN, Mounts::Refuse) {
        Ok(file) => file,
        Err(Errno::EXIST) => return Ok(None),
        Err(source) => return Err(failed(source).into()),
    };
    let written = write_all(&file, contents).and_then(|()| match survives {
        Survives::Crash => Ok(()),
        Survives::CrashWhole | Survives::PowerLoss => rustix::fs::fsync(&file),
    });
    if let Err(source) = written {
        let _ = rustix::fs::unlinkat(directory, name.as_path(), AtFlags::empty());
        return Err(failed(source).into());
    }
    if survives == Survives::PowerLoss {
        sync(directory).map_err(|source| PathError::new("sync the directory of", path(), source))?;
    }
    Ok(Some(Begun { file }))
}

/// A file that was [begun](begin).
#[derive(Debug)]
pub struct Begun {
    file: OwnedFd,
}

impl Begun {
    /// Adds to its end. If the process or the machine ends meanwhile, what was there before is, and perhaps a part of this.
    pub fn add(&self, contents: &[u8]) -> Result<(), Errno> {
        write_all(&self.file, contents)
    }
}

/// A file that lines are added to, one after the other. Whoever reads it knows what is whole by itself.
#[derive(Debug)]
pub struct Added {
    file: OwnedFd,
}

impl Added {
    /// Opens a file to add to it, and makes it if there is none.
    pub fn open(directory: &Place, name: &Name) -> Result<Self, Error> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match open_beneath(directory, name.as_path(), flags, WRITTEN, Mounts::Refuse) {
            Ok(file) => Ok(Self { file }),
            Err(source) => Err(PathError::new("write", directory.path().join(name.as_path()), source).into()),
        }
    }

    /// Adds to its end, or leaves it with as many bytes as it has. It survives a [crash](Survives::Crash).
    pub fn add(&self, contents: &[u8], bytes: usize) -> Result<(), Errno> {
        write_all(&self.file, contents).inspect_err(|_| {
            // What was written in part would be taken for a part of what is added next.
            let _ = rustix::fs::ftruncate(&self.file, bytes as u64);
        })
    }
}

/// The contents of a file; `None` if there is none.
pub fn read(directory: &Place, name: &Name, max_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
    Ok(read_marked(directory, name, max_bytes)?.map(|it| it.contents))
}

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What is in it.
    pub contents: Vec<u8>,
    /// How it was [sealed](seal()) since it was written, if it was.
    pub seal: Option<Seal>,
}

/// As [`read()`], and tells whether it was sealed.
pub fn read_marked(directory: &Place, name: &Name, max_bytes: usize) -> Result<Option<Read>, Error> {
    let path = || directory.path().join(name.as_path());
    let failed = |source| PathError::new("read", path(), source);
    // Not blocking: what is there could be a fifo.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open_beneath(directory, name.as_path(), flags, Mode::empty(), Mounts::Refuse) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(source) => return Err(failed(source).into()),
    };
    let status = rustix::fs::fstat(&file).map_err(failed)?;
    let seal = Seal::of(Mode::from_raw_mode(status.st_mode));
    // A file is replaced and not changed, so it has as many bytes as it says. What is no such file may have more or less.
    let length = usize::try_from(status.st_size).unwrap_or(usize::MAX);
    let is_file = FileType::from_raw_mode(status.st_mode).is_file();
    let mut contents = Vec::new();
    loop {
        let length_read = contents.len();
        if is_file && length_read > 0 && length_read == length && length <= max_bytes {
            return Ok(Some(Read { contents, seal }));
        }
        const PART: usize = 4096;
        contents.resize(length_read.saturating_add(PART.max(length_read).max(length)).min(max_bytes + 1), 0);
        match rustix::io::read(&file, &mut contents[length_read..]) {
            Ok(0) if length_read > max_bytes => return Err(Error::Large { path: path(), max_bytes }),
            Ok(0) => {
                contents.truncate(length_read);
                return Ok(Some(Read { contents, seal }));
            }
            Ok(count) => contents.truncate(length_read + count),
            Err(Errno::INTR) => contents.truncate(length_read),
            Err(source) => return Err(failed(source).into()),
        }
    }
}

/// The mode of files that are written.
const WRITTEN: Mode = Mode::RUSR.union(Mode::WUSR);

/// A mark on a file. What each means is for those who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// The mode of the file is 0400.
    Plain,
    /// The mode of the file is 0500.
    Strong,
}

impl Seal {
    fn mode(self) -> Mode {
        match self {
            Self::Plain => Mode::RUSR,
            Self::Strong => Mode::RUSR.union(Mode::XUSR),
        }
    }

    fn of(mode: Mode) -> Option<Self> {
        [Self::Plain, Self::Strong].into_iter().find(|it| it.mode() == mode)
    }
}

/// Marks a file that [`write()`] wrote, in one call and without touching what is in it: a mark that readers see, until the
/// file is written again. That it is missing is success. The mark survives a [crash](Survives::Crash).
pub fn seal(directory: &Place, name: &Name, seal: Seal) -> Result<(), Error> {
    // The one call here that follows a link. To put one here, one must be us.
    match rustix::fs::chmodat(directory, name.as_path(), seal.mode(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(source) => Err(PathError::new("write", directory.path().join(name.as_path()), source).into()),
    }
}

/// Removes a file that [`write()`] wrote. That it is missing is success.
pub fn remove(directory: &Place, name: &Name) -> Result<(), Error> {
    match rustix::fs::unlinkat(directory, name.as_path(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(source) => Err(PathError::new("remove", directory.path().join(name.as_path()), source).into()),
    }
}

/// The names in a directory, sorted.
pub fn names(directory: &Place) -> Result<Vec<Name>, Error> {
    let readable = reopen(directory).map_err(|source| PathError::new("list", directory.path(), source))?;
    let entries = entries(&Place::of(readable, directory.path()))?;
    Ok(entries.into_iter().map(|(name, _)| name).collect())
}

/// The names in a directory that was opened for this, sorted, each with what the directory knows of its kind.
///
/// It goes by where the descriptor stands in the directory, so it finds everything once, and nobody else may list it.
pub fn entries(directory: &Place) -> Result<Vec<(Name, FileType)>, Error> {
    let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
    let mut listing = RawDir::new(directory, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry.map_err(|source| PathError::new("list", directory.path(), source))?;
        // All but `.` and `..` are names.
        let name = Name::new("entry", OsStr::from_bytes(entry.file_name().to_bytes()));
        entries.extend(name.map(|it| (it, entry.file_type())));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries)
}

/// Whether this is what a process has not finished to write, or never will.
#[must_use]
pub fn is_unfinished(name: &Name) -> bool {
    name.as_bytes().starts_with(UNFINISHED.as_bytes())
}

/// The names in a directory that holds only files of [`write()`]. What other processes did not finish is removed, so there
/// must be none that writes.
pub fn swept_names(directory: &Place) -> Result<Vec<Name>, Error> {
    let mut names = names(directory)?;
    let ours = ours();
    names.retain(|name| {
        let unfinished = is_unfinished(name);
        if unfinished && !name.as_bytes().starts_with(ours.as_bytes()) {
            let _ = rustix::fs::unlinkat(directory, name.as_path(), AtFlags::empty());
        }
        !unfinished
    });
    Ok(names)
}

fn reopen(directory: &Place) -> Result<OwnedFd, Errno> {
    open_beneath(directory, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty(), Mounts::Refuse)
}

fn sync(directory: &Place) -> Result<(), Errno> {
    match rustix::fs::fsync(directory) {
        // It was opened to be passed through.
        Err(Errno::BADF) => rustix::fs::fsync(reopen(directory)?),
        other => other,
    }
}

fn write_all(file: &OwnedFd, mut contents: &[u8]) -> Result<(), Errno> {
    while !contents.is_empty() {
        match rustix::io::write(file, contents) {
            Ok(count) => contents = &contents[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(value: &str) -> Name {
        Name::new("name", value).unwrap()
    }

    #[test]
    fn a_file_is_written_replaced_read_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::root(directory.path()).unwrap();
        let file = name("record");
        assert_eq!(read(&place, &file, 10).unwrap(), None);
        write(&place, &file, b"one", Survives::PowerLoss).unwrap();
        assert_eq!(read(&place, &file, 10).unwrap().unwrap(), b"one");
        write(&place, &file, b"two", Survives::Crash).unwrap();
        assert_eq!(read(&place, &file, 3).unwrap().unwrap(), b"two");
        assert!(matches!(read(&place, &file, 2), Err(Error::Large { .. })));
        assert_eq!(names(&place).unwrap(), std::slice::from_ref(&file));
        remove(&place, &file).unwrap();
        remove(&place, &file).unwrap();
        assert_eq!(names(&place).unwrap(), []);
    }

    /// A process that ends at any step leaves the old contents or the new ones, and nothing that is not swept up.
    #[test]
    fn an_end_at_any_step_leaves_the_old_contents_or_the_new() {
        struct Ended;
        for survives in [Survives::Crash, Survives::CrashWhole, Survives::PowerLoss] {
            let mut seen = Vec::new();
            for end_at in 0.. {
                let directory = tempfile::tempdir().unwrap();
                let place = Place::root(directory.path()).unwrap();
                let file = name("record");
                write(&place, &file, b"old", survives).unwrap();
                let mut count = 0;
                // An unwinding panic stands for the end of the process: the directory is left as it is at that step.
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    write_observed(&place, &file, b"new contents", survives, &mut |step| {
                        if count == end_at {
                            seen.push(step);
                            std::panic::resume_unwind(Box::new(Ended));
                        }
                        count += 1;
                    })
                }));
                let contents = read(&place, &file, 100).unwrap().unwrap();
                let renamed = matches!(seen.last(), Some(Step::SyncDirectory)) || ended.is_ok();
                assert_eq!(contents, if renamed { b"new contents".as_slice() } else { b"old" }, "ended at {end_at}");
                // As another process would see it.
                for name in names(&place).unwrap() {
                    let other = name.to_string().replace(&ours(), "..new-0-");
                    std::fs::rename(directory.path().join(name.as_path()), directory.path().join(other)).unwrap();
                }
                assert_eq!(swept_names(&place).unwrap(), [file]);
                assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "what was left is swept up");
                if ended.is_ok() {
                    break;
                }
            }
            let steps: &[Step] = match survives {
                Survives::Crash => &[Step::Make, Step::Write, Step::Rename],
                Survives::CrashWhole => &[Step::Make, Step::Write, Step::SyncFile, Step::Rename],
                Survives::PowerLoss => &[Step::Make, Step::Write, Step::SyncFile, Step::Rename, Step::SyncDirectory],
            };
            assert_eq!(seen, steps);
        }
    }

    #[test]
    fn a_file_is_begun_once_and_added_to() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::root(directory.path()).unwrap();
        for survives in [Survives::Crash, Survives::PowerLoss] {
            let begun = begin(&place, &name("record"), b"one", survives).unwrap().unwrap();
            assert!(begin(&place, &name("record"), b"two", survives).unwrap().is_none());
            assert_eq!(read(&place, &name("record"), 10).unwrap().unwrap(), b"one");
            begun.add(b", and").unwrap();
            begun.add(b" so").unwrap();
            assert_eq!(read(&place, &name("record"), 20).unwrap().unwrap(), b"one, and so");
            remove(&place, &name("record")).unwrap();
        }
        std::os::unix::fs::symlink("canary", directory.path().join("link")).unwrap();
        assert!(begin(&place, &name("link"), b"new", Survives::Crash).unwrap().is_none());
        assert!(!directory.path().join("canary").exists());
    }

    #[test]
    fn a_file_is_sealed_until_it_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::root(directory.path()).unwrap();
        let file = name("record");
        seal(&place, &file, Seal::Plain).unwrap();
        assert_eq!(read_marked(&place, &file, 10).unwrap(), None);
        let found = |contents: &[u8], seal| Some(Read { contents: contents.into(), seal });
        for written in [b"one".as_slice(), b"two"] {
            write(&place, &file, written, Survives::Crash).unwrap();
            assert_eq!(read_marked(&place, &file, 10).unwrap(), found(written, None));
            for mark in [Seal::Plain, Seal::Plain, Seal::Strong] {
                seal(&place, &file, mark).unwrap();
                assert_eq!(read_marked(&place, &file, 10).unwrap(), found(written, Some(mark)));
            }
        }
        assert!(begin(&place, &file, b"three", Survives::Crash).unwrap().is_none());
        remove(&place, &file).unwrap();
        assert!(begin(&place, &file, b"three", Survives::Crash).unwrap().is_some());
        assert_eq!(read_marked(&place, &file, 10).unwrap(), found(b"three", None));
    }

    #[test]
    fn a_file_of_any_length_up_to_the_limit_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::root(directory.path()).unwrap();
        for length in [0, 1, 4095, 4096, 4097, 8192, 20_000] {
            let contents: Vec<u8> = (0..length).map(|it| (it % 251) as u8).collect();
            write(&place, &name("record"), &contents, Survives::Crash).unwrap();
            assert_eq!(read(&place, &name("record"), 20_000).unwrap().unwrap(), contents);
            assert_eq!(read(&place, &name("record"), length).unwrap().unwrap(), contents);
            assert!(length == 0 || matches!(read(&place, &name("record"), length - 1), Err(Error::Large { .. })));
        }
    }

    #[test]
    fn a_link_or_a_directory_in_the_way_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::root(directory.path()).unwrap();
        std::fs::write(directory.path().join("canary"), "intact").unwrap();
        std::os::unix::fs::symlink("canary", directory.path().join("link")).unwrap();
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        assert!(read(&place, &name("link"), 10).is_err());
        write(&place, &name("link"), b"new", Survives::Crash).unwrap();
        assert_eq!(std::fs::read(directory.path().join("canary")).unwrap(), b"intact");
        let error = write(&place, &name("directory"), b"new", Survives::Crash).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ISDIR));
        assert_eq!(names(&place).unwrap().len(), 3, "nothing is left over");
    }
}
