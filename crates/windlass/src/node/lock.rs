//! One node at a time in a directory, whatever became of the one before.
//!
//! Who works in a directory has the directory itself locked, and a file of windlass's own, and the locks go with the last
//! thread that could still do something there. A process that was killed while a thread waits in the kernel keeps its locks for as long
//! as that wait takes, which may be until the machine is rebooted. It runs no instruction any more ([`Standing::Stuck`]), so
//! its lock of the directory does not count, and another file takes the place of the one that it has locked. Everybody looks
//! and acts with yet another file locked, for a moment and one after the other, so of two that find the same dead holder one
//! gets the directory, and the other finds a living one. Whoever removes these files, because they look left behind, lets
//! nobody in: the directory stays locked.

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use windlass_linux::process::{Process, Standing};
use windlass_linux::safe_path::Place;

use super::{Holder, StartError};

/// Where the files of a lock are. The directory of a kubelet has none that a kubelet would not make.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) directory: &'a Place,
    /// What is locked, and says who has locked it.
    pub(super) lock: &'a str,
    /// What is locked while somebody looks, and takes the place of the other if its holder is dead.
    pub(super) next: &'a str,
}

/// How long somebody who is on the way out is waited for, and somebody who looks.
const PATIENCE: Duration = Duration::from_secs(5);
/// Who was killed is given this long before it counts as stuck: most waits in the kernel are short.
const GRACE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(10);

/// A directory that is this node's alone.
pub(super) struct Locked {
    pub(super) locks: Vec<OwnedFd>,
    /// Who had it, and is dead but for threads that hang in the kernel.
    pub(super) before: Option<Process>,
}

/// Locks a directory.
#[expect(
    clippy::disallowed_methods,
    reason = "the holder of a lock tells nobody when it ends, and nothing else runs yet"
)]
pub(super) fn lock(directory: &Place, path: &Path, files: Files<'_>, boot: &str) -> Result<Locked, StartError> {
    let own = Process::own().map_err(|source| StartError::File { what: "look at this process".into(), source })?;
    let text = format!("{} {} {boot}\n", own.id, own.started);
    let began = Instant::now();
    loop {
        let attempted = attempt(directory, files, &text, began.elapsed());
        match attempted.map_err(|(what, errno)| failed(path, what, errno))? {
            Attempt::Locked(locked) => return Ok(locked),
            Attempt::Held(Some(holder)) if holder.stays || began.elapsed() >= PATIENCE => {
                return Err(StartError::InUse { path: path.into(), holder: Some(holder.shown()) });
            }
            Attempt::Held(None) if began.elapsed() >= PATIENCE => {
                return Err(StartError::InUse { path: path.into(), holder: None });
            }
            Attempt::Held(_) | Attempt::Dead { .. } => thread::sleep(PAUSE),
        }
    }
}

fn failed(path: &Path, what: &str, errno: Errno) -> StartError {
    StartError::File { what: format!("{what} {}", path.display()), source: errno.into() }
}

enum Attempt {
    Locked(Locked),
    /// Somebody has it; who, if the kernel tells.
    Held(Option<LockHolder>),
    /// Who has the file is dead, so that another file is to take its place. With what else was locked.
    Dead {
        locks: Vec<OwnedFd>,
        holder: Process,
    },
}

/// What was tried, and why it did not work.
type Failed = (&'static str, Errno);

fn attempt(directory: &Place, files: Files<'_>, text: &str, waited: Duration) -> Result<Attempt, Failed> {
    let whole = open(directory, ".", OFlags::DIRECTORY).map_err(|errno| ("open", errno))?;
    let has_whole = is_locked(&whole).map_err(|errno| ("lock", errno))?;
    let turn = match open(files.directory, files.next, OFlags::CREATE) {
        Ok(turn) => turn,
        // Where no file can be made the directory alone is locked, and keeps everybody out as well.
        Err(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) if has_whole => {
            return Ok(Attempt::Locked(Locked { locks: vec![whole], before: None }));
        }
        Err(errno) => return Err(("make a file to lock in", errno)),
    };
    // Another looks at this moment, or has put the file to its use since it was opened.
    if !is_locked(&turn).map_err(|errno| ("lock a file in", errno))? || !is_named(files, &turn) {
        return Ok(Attempt::Held(None));
    }
    let attempted = in_turn(files, text, waited, whole, has_whole);
    if let Ok(Attempt::Dead { mut locks, holder }) = attempted {
        write(files.directory, files.next, text);
        rustix::fs::renameat(files.directory, files.next, files.directory, files.lock)
            .map_err(|errno| ("take over", errno))?;
        locks.push(turn);
        return Ok(Attempt::Locked(Locked { locks, before: Some(holder) }));
    }
    // Whoever waits for it finds that it has no name any more, and makes another.
    let _ = rustix::fs::unlinkat(files.directory, files.next, AtFlags::empty());
    attempted
}

/// Nobody else looks at the same time.
fn in_turn(files: Files<'_>, text: &str, waited: Duration, whole: OwnedFd, has_whole: bool) -> Result<Attempt, Failed> {
    let dead = match has_whole {
        true => None,
        false => match LockHolder::holder(&whole).map(|it| it.dead(waited)) {
            Some(Ok(process)) => Some(process),
            Some(Err(holder)) => return Ok(Attempt::Held(Some(holder))),
            None => return Ok(Attempt::Held(None)),
        },
    };
    // Whoever is dead has left a file. Without it nobody knows who came after, and who came after may live.
    let made = if dead.is_some() { OFlags::empty() } else { OFlags::CREATE };
    let file = match open(files.directory, files.lock, made) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(Attempt::Held(LockHolder::holder(&whole))),
        Err(errno) => return Err(("make a file to lock in", errno)),
    };
    let mut locks: Vec<OwnedFd> = has_whole.then_some(whole).into_iter().collect();
    if is_locked(&file).map_err(|errno| ("lock a file in", errno))? {
        write(files.directory, files.lock, text);
        locks.push(file);
        return Ok(Attempt::Locked(Locked { locks, before: dead }));
    }
    let Some(found) = LockHolder::holder(&file) else { return Ok(Attempt::Held(None)) };
    match found.dead(waited) {
        // The file says who has it, which must agree with the kernel: a number alone may be another's by now.
        Ok(holder) if said(&file, text) == Some(holder) => Ok(Attempt::Dead { locks, holder }),
        Ok(_) => Ok(Attempt::Held(Some(LockHolder { stays: true, ..found }))),
        Err(holder) => Ok(Attempt::Held(Some(holder))),
    }
}

/// Not to be written to: a file system that has a file open for that cannot be made read-only.
fn open(directory: &Place, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Locks it, unless somebody else has.
fn is_locked(file: &OwnedFd) -> Result<bool, Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether this is still the file that takes the place of the other.
fn is_named(files: Files<'_>, file: &OwnedFd) -> bool {
    let named = rustix::fs::statat(files.directory, files.next, AtFlags::SYMLINK_NOFOLLOW);
    let open = rustix::fs::fstat(file);
    matches!((named, open), (Ok(named), Ok(open)) if (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino))
}

/// Says who has it. Where nothing can be written it is locked all the same, and nobody can take it over.
fn write(directory: &Place, name: &str, text: &str) {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) {
        let _ = std::fs::File::from(file).write_all(text.as_bytes());
    }
}

/// The process that a file names, if that was in this boot.
fn said(file: &OwnedFd, own: &str) -> Option<Process> {
    let mut bytes = [0; 128];
    let count = rustix::io::pread(file, &mut bytes, 0).ok()?;
    let mut said = std::str::from_utf8(&bytes[..count]).ok()?.split_whitespace();
    let process = Process { id: said.next()?.parse().ok()?, started: said.next()?.parse().ok()? };
    (said.next()? == own.split_whitespace().last()? && said.next().is_none()).then_some(process)
}

/// Who has locked something.
struct LockHolder {
    id: u32,
    /// It lives, and there is no use in waiting.
    stays: bool,
}

impl LockHolder {
    /// Who has locked this, if the kernel tells: a process of another process namespace is not seen.
    fn holder(locked: &OwnedFd) -> Option<Self> {
        let stat = rustix::fs::fstat(locked).ok()?;
        let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let file = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        // For example `1: FLOCK  ADVISORY  WRITE 812 fd:00:131 0 EOF`; lines of those who wait have an arrow before the
        // kind.
        let id = locks.lines().find_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (kind, process) = (words.next()?, words.nth(2)?);
            (kind == "FLOCK" && words.next()? == file).then(|| process.parse().ok())?
        })?;
        Some(Self { id, stays: false })
    }

    /// The process, if it does nothing any more and has had time to end; else who it is, and whether it stays.
    fn dead(&self, waited: Duration) -> Result<Process, Self> {
        let process = Process::of(self.id);
        match process.as_ref().map_or(Standing::Ending, Process::standing) {
            Standing::Stuck if waited >= GRACE => process.map_err(|_| Self { id: self.id, stays: false }),
            Standing::Alive => Err(Self { id: self.id, stays: true }),
            Standing::Stuck | Standing::Ending | Standing::Gone => Err(Self { id: self.id, stays: false }),
        }
    }

    fn shown(&self) -> Holder {
        let command = std::fs::read(format!("/proc/{}/cmdline", self.id)).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
        Holder { process: self.id, command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "lock";
    const NEXT: &str = "lock.next";

    fn lock(directory: &tempfile::TempDir) -> Result<Locked, StartError> {
        let place = Place::root(directory.path()).unwrap();
        super::lock(&place, directory.path(), Files { directory: &place, lock: FILE, next: NEXT }, "boot")
    }

    #[test]
    fn a_directory_is_one_nodes_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(&directory).unwrap();
        assert_eq!(first.before, None);
        let second = lock(&directory);
        let Err(StartError::InUse { holder: Some(holder), .. }) = second else { panic!("it is in use") };
        assert_eq!(holder.process, std::process::id());
        drop(first);
        assert!(lock(&directory).is_ok());
    }

    /// Whoever was killed has let go once nothing of it is left, and is not taken over before.
    #[test]
    fn whoever_lives_is_never_taken_over_whatever_the_file_says() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(&directory).unwrap();
        for text in ["", "nonsense", "1 1 boot\n", "99999999 1 boot\n"] {
            std::fs::write(directory.path().join(FILE), text).unwrap();
            assert!(matches!(lock(&directory), Err(StartError::InUse { .. })));
        }
        drop(first);
    }

    /// As people do who take it for something that a crash has left.
    #[test]
    fn whoever_removes_the_file_lets_nobody_in() {
        let directory = tempfile::tempdir().unwrap();
        let first = lock(&directory).unwrap();
        std::fs::remove_file(directory.path().join(FILE)).unwrap();
        assert!(matches!(lock(&directory), Err(StartError::InUse { .. })));
        drop(first);
        assert!(lock(&directory).is_ok());
    }

    #[test]
    fn of_many_that_come_at_once_one_gets_it() {
        let directory = tempfile::tempdir().unwrap();
        let got: Vec<_> = std::thread::scope(|scope| {
            let come = || scope.spawn(|| lock(&directory).ok());
            let threads: Vec<_> = (0..8).map(|_| come()).collect();
            threads.into_iter().filter_map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(got.len(), 1);
        assert!(!directory.path().join(NEXT).exists());
    }
}
