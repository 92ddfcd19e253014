//! Processes as they stand: whether one lives, is about to end, or is dead but for threads that the kernel cannot let go.
//!
//! Who is told to end while a thread of it waits in the kernel, on a dead server for example, stays as long as that wait
//! does, with everything that it has open and locked. It does nothing of its own any more: all that can still happen is that
//! the one system call comes to its end.

use std::path::Path;
use std::{fs, io};

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags};

/// A process, told apart from others that had or will have its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// When it was started, in clock ticks since the boot.
    pub started: u64,
}

/// How a process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// There is none.
    Gone,
    /// It does something, or may.
    Alive,
    /// It was killed or ends by itself, and its threads are on their way out.
    Ending,
    /// The same, and what is left of it waits in the kernel. No instruction of it runs any more, whatever comes of that wait.
    Stuck,
}

impl Process {
    /// This one.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// The one that has this number now.
    pub fn of(id: u32) -> io::Result<Self> {
        let started = Thread::read(Path::new(&format!("/proc/{id}")))?.started;
        Ok(Self { id, started })
    }

    /// How it stands. What cannot be read for another reason than that it is gone counts as alive.
    #[must_use]
    pub fn standing(&self) -> Standing {
        // Twice, because a thread may start another while the list is read: what is on its way out starts none.
        match (self.look(), self.look()) {
            (Standing::Stuck, standing) => standing,
            (standing, _) => standing,
        }
    }

    fn look(&self) -> Standing {
        let directory = format!("/proc/{}", self.id);
        match Thread::read(Path::new(&directory)) {
            Ok(leader) if leader.started == self.started => {}
            Ok(_) => return Standing::Gone,
            Err(error) if is_gone(&error) => return Standing::Gone,
            Err(_) => return Standing::Alive,
        }
        let Ok(threads) = fs::read_dir(format!("{directory}/task")) else { return Standing::Alive };
        let mut standing = Standing::Gone;
        for entry in threads {
            let Ok(entry) = entry else { return Standing::Alive };
            let thread = match Thread::read(&entry.path()) {
                Ok(thread) => thread,
                Err(error) if is_gone(&error) => continue,
                Err(_) => return Standing::Alive,
            };
            match thread.state {
                'Z' | 'X' | 'x' => {}
                _ if !thread.is_doomed(&entry.path()) => return Standing::Alive,
                'D' => standing = if standing == Standing::Ending { Standing::Ending } else { Standing::Stuck },
                _ => standing = Standing::Ending,
            }
        }
        standing
    }

    /// Becomes readable when nothing is left of it, threads included.
    pub fn watch(&self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let watched = rustix::process::pidfd_open(id, PidfdFlags::empty())?;
        // The number may have become another's before it was opened.
        if Self::of(self.id).is_ok_and(|it| it == *self) { Ok(watched) } else { Err(gone()) }
    }
}

fn is_gone(error: &io::Error) -> bool {
    // A thread that ends while it is read is "no such process".
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// What `stat` says of a thread (proc_pid_stat(5)).
struct Thread {
    state: char,
    flags: u64,
    started: u64,
}

/// It is in the middle of its exit; the flag of the kernel that `stat` shows.
const EXITING: u64 = 0x4;
/// SIGKILL in a set of signals.
const KILLED: u64 = 1 << 8;

impl Thread {
    fn read(directory: &Path) -> io::Result<Self> {
        let stat = fs::read_to_string(directory.join("stat"))?;
        Self::parse(&stat).ok_or_else(|| io::Error::other(format!("{} makes no sense", directory.display())))
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name is in parentheses and may hold any character, parentheses too.
        let (_, rest) = stat.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        // `state` is the third field of the line.
        let field = |number: usize| words.get(number - 3).copied();
        Some(Self {
            state: field(3)?.chars().next()?,
            flags: field(9)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
        })
    }

    /// Whether it will not run another instruction of its program.
    fn is_doomed(&self, directory: &Path) -> bool {
        if self.flags & EXITING != 0 {
            return true;
        }
        let Ok(status) = fs::read_to_string(directory.join("status")) else { return false };
        let pending = status.lines().filter_map(|it| it.strip_prefix("SigPnd:").or(it.strip_prefix("ShdPnd:")));
        pending.filter_map(|it| u64::from_str_radix(it.trim(), 16).ok()).any(|it| it & KILLED != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::event::{PollFd, PollFlags};

    use super::*;

    #[test]
    fn this_process_is_alive_and_another_of_its_number_is_not() {
        let own = Process::own().unwrap();
        assert_eq!(own.standing(), Standing::Alive);
        assert_eq!(Process { started: own.started + 1, ..own }.standing(), Standing::Gone);
        assert!(Process { started: own.started + 1, ..own }.watch().is_err());
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "it is about processes, and tests of this crate itself cannot use windlass-testing"
    )]
    fn one_that_is_killed_is_noticed_without_asking_again_and_again() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert_eq!(process.standing(), Standing::Alive);
        let watched = process.watch().unwrap();
        child.kill().unwrap();
        rustix::event::poll(&mut [PollFd::new(&watched, PollFlags::IN)], None).unwrap();
        assert_eq!(process.standing(), Standing::Gone, "nobody has waited for it yet, and it is dead all the same");
        child.wait().unwrap();
        assert_eq!(process.standing(), Standing::Gone);
    }

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let stat = "12 (a) Z (b) D 1 2 3 0 -1 4194308 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let thread = Thread::parse(stat).unwrap();
        assert_eq!((thread.state, thread.flags & EXITING, thread.started), ('D', EXITING, 777));
    }
}
