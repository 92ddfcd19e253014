//! Which processes keep a mount busy: those that have a file open or mapped in it, or stand in it.
//!
//! Only links below `/proc` are read and none is followed, so a file system that hangs does not hang this. Processes in
//! other mount namespaces have mounts of their own and are left out, and so is what may not be looked at.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::table::{Mount, mountinfo};

/// A process that keeps a mount busy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// What it calls itself, at most 15 bytes of it; empty if that cannot be told.
    pub command: String,
    /// One of the things that it has there.
    pub path: PathBuf,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, command, path } = self;
        write!(f, "process {process} ({}) has {}", command.escape_debug(), path.as_os_str().as_bytes().escape_ascii())
    }
}

/// The processes that have something at this path or below it, at most so many, in the order of their numbers.
#[must_use]
pub fn below(path: &Path, limit: usize) -> Vec<Holder> {
    let Ok(own) = fs::read_link("/proc/self/ns/mnt") else { return Vec::new() };
    let holders = processes().into_iter().filter_map(|process| {
        let directory = PathBuf::from(format!("/proc/{process}"));
        if fs::read_link(directory.join("ns/mnt")).ok()? != own {
            return None;
        }
        let path = held(&directory, path)?;
        Some(Holder { process, command: command(&directory), path })
    });
    holders.take(limit).collect()
}

/// Processes in other mount namespaces in which a directory is mounted, or something in it: one of each namespace, at most
/// so many. It is the directory `root` of the file system that is mounted as `mount`.
///
/// A namespace that is a copy has all mounts of the one that it was copied from, at the same paths or below another root;
/// `point`, where the directory itself is mounted, does not count there.
#[must_use]
pub fn in_other_namespaces(mount: &Mount, root: &Path, point: &Path, limit: usize) -> Vec<Holder> {
    let Ok(own) = fs::read_link("/proc/thread-self/ns/mnt") else { return Vec::new() };
    let point = point.strip_prefix("/").unwrap_or(point);
    let shows = |found: &Mount| {
        found.device == mount.device && found.root.starts_with(root) && !found.mount_point.ends_with(point)
    };
    let mut seen = vec![own];
    let holders = processes().into_iter().filter_map(|process| {
        let directory = PathBuf::from(format!("/proc/{process}"));
        let namespace = fs::read_link(directory.join("ns/mnt")).ok()?;
        if seen.contains(&namespace) {
            return None;
        }
        seen.push(namespace);
        let table = fs::read(directory.join("mountinfo")).ok()?;
        let mounts = table.split(|it| *it == b'\n').filter_map(|it| mountinfo::line(it).ok());
        let path = mounts.into_iter().find(shows)?.mount_point;
        Some(Holder { process, command: command(&directory), path })
    });
    holders.take(limit).collect()
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<u32> = entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect();
    processes.sort_unstable();
    processes
}

fn command(process: &Path) -> String {
    fs::read_to_string(process.join("comm")).unwrap_or_default().trim_end().into()
}

/// Something at this path or below it that a process has.
fn held(process: &Path, path: &Path) -> Option<PathBuf> {
    let links = ["cwd", "root", "exe"].into_iter().map(|it| process.join(it));
    let listed = |name: &str| fs::read_dir(process.join(name)).into_iter().flatten().flatten().map(|it| it.path());
    let mut links = links.chain(listed("fd")).chain(listed("map_files")).filter_map(|it| fs::read_link(it).ok());
    links.find(|it| it.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_file_open_is_found_and_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let file = path.join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(below(&path, 9), []);
        let open = fs::File::open(&file).unwrap();
        let found = below(&path, 9);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].process, &found[0].path), (std::process::id(), &file));
        let text = found[0].to_string();
        assert!(text.starts_with(&format!("process {} (", std::process::id())), "{text}");
        assert_eq!(below(&path, 0), []);
        assert_eq!(below(&path.join("fil"), 9), [], "another name that begins the same");
        drop(open);
        assert_eq!(below(&path, 9), []);
    }
}
