//! A working directory of a thread's own, for the calls that take a path and no descriptor.
//!
//! All threads of a process share one, which is nobody's to change. A thread that gave up sharing can step into a directory
//! that it holds open and use a plain name there, where others must go by way of `/proc`.

use std::cell::Cell;
use std::os::fd::AsFd;

use crate::raw;

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Gives the calling thread a working directory of its own, and with it a root and a umask; what other threads do to
/// theirs no longer concerns it. Where the kernel refuses, nothing changes, and nothing depends on it but speed.
pub fn make_own() {
    OWN.set(raw::unshare_fs().is_ok());
}

/// Does something with an open directory for a working directory. `None`, and nothing done, if the thread has none of its
/// own or may not go there.
pub(crate) fn within<T>(directory: impl AsFd, work: impl FnOnce() -> T) -> Option<T> {
    if !OWN.get() {
        return None;
    }
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
