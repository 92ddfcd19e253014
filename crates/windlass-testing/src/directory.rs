//! A directory of a test's own, and what is mounted in it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use windlass_linux::mount::{Detached, Tmpfs, tmpfs};
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Mount, Reader};

use crate::namespace::BASE;

/// A directory below [`BASE`], which goes with the namespace.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes the directory of this name, which no other test has.
    pub fn new(name: &str) -> Self {
        let directory = Self(Path::new(BASE).join(name));
        directory.directory("");
        directory
    }

    /// The same for a test of this name, with a path so short that sockets fit in: their paths have a limit.
    pub fn short(name: &str) -> Self {
        Self::new(&short(name))
    }

    /// A directory that is there already.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// A path in it.
    pub fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// A path in it, as text.
    pub fn text(&self, below: &str) -> String {
        self.path(below).to_str().expect("a path that is text").to_owned()
    }

    /// Makes a directory in it, with those above.
    pub fn directory(&self, below: &str) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("make {}: {error}", path.display()));
        path
    }

    /// Makes a directory in it and holds it open for its path alone.
    pub fn place(&self, below: &str) -> Place {
        Place::root(self.directory(below)).unwrap()
    }

    /// Makes a file in it, with the directories above.
    pub fn file(&self, below: &str, contents: &str) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().expect("a path below a directory")).unwrap();
        std::fs::write(&path, contents).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }

    /// What a file in it reads.
    pub fn read(&self, below: &str) -> String {
        let path = self.path(below);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// The names in a directory of it: none if there is no such directory.
    pub fn names(&self, below: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(below)).into_iter().flatten();
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The mode of what is at a path, without following a link there.
    pub fn mode(&self, below: &str) -> u32 {
        std::fs::symlink_metadata(self.path(below)).unwrap().mode() & 0o7777
    }

    /// The group of what is at a path, without following a link there.
    pub fn group(&self, below: &str) -> u32 {
        std::fs::symlink_metadata(self.path(below)).unwrap().gid()
    }

    /// Mounts an empty tmpfs on a directory in it, which is made.
    pub fn tmpfs(&self, below: &str) -> Place {
        a_tmpfs().attach(&self.place(below)).unwrap()
    }

    /// Unmounts whatever is at a path, as somebody else would.
    pub fn unmount(&self, below: &str) {
        rustix::mount::unmount(self.path(below), rustix::mount::UnmountFlags::empty()).unwrap();
    }

    /// The mount that is seen at a path.
    pub fn mounted(&self, below: &str) -> Option<Mount> {
        mounted(&self.path(below))
    }

    /// Where something is mounted below a path.
    pub fn mounts_below(&self, below: &str) -> Vec<PathBuf> {
        mounts_below(&self.path(below))
    }
}

/// An empty tmpfs that is not mounted anywhere yet.
pub fn a_tmpfs() -> Detached {
    tmpfs(&Tmpfs::default()).unwrap()
}

/// The mount that is seen at a path.
pub fn mounted(path: &Path) -> Option<Mount> {
    Reader::best().read().unwrap().topmost(path).map(|it| Mount::clone(it))
}

/// Where something is mounted below a path.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    Reader::best().read().unwrap().below(path).map(|it| it.mount_point.clone()).collect()
}

/// A short name that no other test of this program has.
pub fn short(name: &str) -> String {
    let number = name.bytes().fold(7_u32, |sum, it| sum.wrapping_mul(31).wrapping_add(it.into()));
    format!("{number:x}")
}
