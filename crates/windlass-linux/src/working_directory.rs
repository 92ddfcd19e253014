//! A working directory and a umask of a thread's own.
//!
//! All threads of a process share one of each, which are nobody's to change. A thread that gave up sharing can step into a
//! directory that it holds open and use a plain name there, where others must go by way of `/proc`. And its umask takes
//! nothing off the modes of what it makes, so that it need not look what became of them.

use std::cell::Cell;
use std::os::fd::AsFd;

use rustix::fs::Mode;

use crate::raw;

thread_local! {
    /// The umask that the thread had before it had its own, if it has its own.
    static OWN: Cell<Option<Mode>> = const { Cell::new(None) };
}

/// Gives the calling thread a working directory of its own, and with it a root and a umask; what other threads do to
/// theirs no longer concerns it. Its umask is empty from then on. Where the kernel refuses, nothing changes, and nothing
/// depends on it but speed.
pub fn make_own() {
    if OWN.get().is_none() && raw::unshare_fs().is_ok() {
        OWN.set(Some(rustix::process::umask(Mode::empty())));
    }
}

/// Whether the calling thread's umask takes nothing off the modes of what it makes.
pub(crate) fn umask_is_empty() -> bool {
    OWN.get().is_some()
}

/// The umask of everybody, until this is dropped: for programs, which take it over from the thread that starts them.
#[must_use = "when it is dropped the thread's own umask is back"]
pub fn usual_umask() -> UsualUmask {
    UsualUmask(OWN.get().map(rustix::process::umask))
}

/// See [`usual_umask`].
#[derive(Debug)]
pub struct UsualUmask(Option<Mode>);

impl Drop for UsualUmask {
    fn drop(&mut self) {
        self.0.map(rustix::process::umask);
    }
}

/// Does something with an open directory for a working directory. `None`, and nothing done, if the thread has none of its
/// own or may not go there.
pub(crate) fn within<T>(directory: impl AsFd, work: impl FnOnce() -> T) -> Option<T> {
    OWN.get()?;
    rustix::process::fchdir(directory).ok()?;
    let _back = Back;
    Some(work())
}

/// Leaves the directory, which would otherwise be kept from being unmounted.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        let _ = rustix::process::chdir("/");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_thread_of_its_own_makes_what_it_asks_for_and_starts_programs_as_others_do() {
        let umask = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find_map(|it| it.strip_prefix("Umask:\t")).unwrap().to_owned()
        };
        let everybody = umask();
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| {
                make_own();
                let own = umask();
                let usual = usual_umask();
                (own, umask(), drop(usual), umask())
            });
            assert_eq!(seen.join().unwrap(), ("0000".into(), everybody.clone(), (), "0000".into()));
        });
        assert_eq!(umask(), everybody);
    }

    #[test]
    fn a_thread_steps_into_a_directory_and_back_and_takes_no_other_along() {
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(directory.path()).unwrap();
        let before = std::env::current_dir().unwrap();
        assert_eq!(within(&open, || ()), None, "all threads would go along");
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| {
                make_own();
                let seen = within(&open, || std::env::current_dir().unwrap());
                (seen, std::env::current_dir().unwrap())
            });
            let (inside, after) = seen.join().unwrap();
            assert_eq!(inside, Some(directory.path().canonicalize().unwrap()));
            assert_eq!(after, Path::new("/"));
        });
        assert_eq!(std::env::current_dir().unwrap(), before);
    }
}
