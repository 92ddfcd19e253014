//! The mount table: what is mounted where, kept as one index that answers questions by path.
//!
//! No question touches the file system at the path it asks about, so a dead server cannot hold up an answer.
//! [`Reader`] fills a table from the kernel, [`Watch`] keeps one current. Nothing else in windlass reads the table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::mount::MountAttrFlags;

pub(crate) mod mountinfo;
mod read;
mod watch;

pub use mountinfo::Flaw;
pub use read::{Error, Reader, identify, look_up, over};
pub(crate) use read::{identify_at, identify_with_device, is_mounted, parse};
pub(crate) use watch::fanotify_group;
pub use watch::{Change, Events, Watch};

/// Which mount this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MountId {
    /// Never given to another mount until the machine reboots (`STATX_MNT_ID_UNIQUE`, Linux 6.8).
    Unique(u64),
    /// The number in mountinfo, which the kernel gives again once the mount is gone.
    Reusable(u32),
}

impl fmt::Display for MountId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unique(id) => write!(formatter, "{id}"),
            Self::Reusable(id) => write!(formatter, "{id} (reusable)"),
        }
    }
}

/// The device number of a file system; made up by the kernel for those without a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// The driver.
    pub major: u32,
    /// The device of the driver.
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.major, self.minor)
    }
}

/// How mounts made below this one spread to other mounts. See mount_namespaces(7). The default is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Propagation {
    /// The group of peers it shares with, if it is shared.
    pub peers: Option<u64>,
    /// The group it receives from, if it is a slave.
    pub master: Option<u64>,
    /// The nearest group that is visible from here, where that is not the master's.
    pub from: Option<u64>,
    /// It cannot be bind mounted.
    pub unbindable: bool,
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Which mount it is. Proof that a mount is the same one later only if it is [`MountId::Unique`].
    pub id: MountId,
    /// Its number in mountinfo, unique at any one moment.
    pub number: u32,
    /// The mount it is mounted on. The parent of the root is not in the table.
    pub parent: MountId,
    /// The file system.
    pub device: Device,
    /// The directory or file of the file system that is mounted; `/` for all of it.
    pub root: PathBuf,
    /// Where it is mounted, seen from the root of the reader.
    pub mount_point: PathBuf,
    /// The type, with its subtype after a point: `tmpfs`, `fuse.sshfs`.
    pub kind: OsString,
    /// What was mounted: a device, a server's path, a word.
    pub source: OsString,
    /// The attributes of this mount (not of the file system, which can be read-only on its own).
    pub attributes: MountAttrFlags,
    /// The options of the file system, as mountinfo has them, escapes included. See [`Mount::super_option`].
    pub super_options: OsString,
    /// How mounts below it spread.
    pub propagation: Propagation,
}

impl Mount {
    /// Whether both describe one mount in one place. Options may differ: they can change while it is mounted.
    #[must_use]
    pub fn is_same_mount(&self, other: &Self) -> bool {
        (self.id, self.parent, self.device) == (other.id, other.parent, other.device)
            && (&self.root, &self.mount_point) == (&other.root, &other.mount_point)
            && (&self.kind, &self.source) == (&other.kind, &other.source)
    }

    /// Whether nothing can be written through this mount: by its own attribute or by the file system's.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.attributes.contains(MountAttrFlags::MOUNT_ATTR_RDONLY) || self.super_option("ro").is_some()
    }

    /// The value of one option of the file system, unescaped and without quotes: empty if it has none, `None` if the
    /// option is not there.
    #[must_use]
    pub fn super_option(&self, name: &str) -> Option<OsString> {
        mountinfo::option(&self.super_options, name)
    }

    /// The attributes in the words of mountinfo: `rw,nosuid,relatime`.
    #[must_use]
    pub fn attribute_words(&self) -> String {
        mountinfo::spell(self.attributes)
    }
}

/// All mounts that the reader's namespace shows from the reader's root, indexed.
#[derive(Debug, Default, Clone)]
pub struct Table {
    mounts: HashMap<MountId, Arc<Mount>>,
    /// A path can have several mounts: stacked on each other, or hidden below one that covers a parent directory.
    by_point: BTreeMap<Point, Vec<MountId>>,
    /// One set and not one for each content: mostly there is one mount of each.
    by_content: BTreeSet<(Device, Point, MountId)>,
}

/// A path as bytes, which compare many times faster than the components of a path.
///
/// Everything below a path lies together, because it begins with the same bytes and a slash.
type Point = Box<[u8]>;

fn point(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Table {
    /// A table of these mounts.
    pub fn of(mounts: impl IntoIterator<Item = Mount>) -> Self {
        let mut table = Self::default();
        for mount in mounts {
            table.insert(mount);
        }
        table
    }

    /// How many mounts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mounts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    /// All mounts, by path.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Mount>> {
        self.by_point.values().flatten().map(|it| &self.mounts[it])
    }

    /// The mount with this id.
    #[must_use]
    pub fn get(&self, id: MountId) -> Option<&Arc<Mount>> {
        self.mounts.get(&id)
    }

    /// Whether looking this path up ends on the root of a mount.
    ///
    /// The path is absolute and free of links; it is compared, not looked up.
    #[must_use]
    pub fn is_mount_point(&self, path: &Path) -> bool {
        self.topmost(path).is_some()
    }

    /// The mount that is seen at this path, if the path is a mount point: the topmost of a stack.
    #[must_use]
    pub fn topmost(&self, path: &Path) -> Option<&Arc<Mount>> {
        // Mostly there is none, which is seen without a walk.
        let there = match point(path) {
            [there @ .., b'/'] if !there.is_empty() => there,
            there => there,
        };
        self.by_point.get(there)?;
        self.containing(path).filter(|it| it.mount_point == path)
    }

    /// The mount that a look-up of this path ends in.
    ///
    /// Walks as the kernel does, entering at each directory the mount whose parent is the one walked in, so a mount
    /// that is hidden because something covers a directory above it is not found.
    #[must_use]
    pub fn containing(&self, path: &Path) -> Option<&Arc<Mount>> {
        let mut current: Option<&Arc<Mount>> = None;
        let mut walked: Vec<u8> = Vec::with_capacity(path.as_os_str().len());
        for component in path.components() {
            match component {
                Component::RootDir => walked.push(b'/'),
                Component::Normal(name) => {
                    if walked.last().is_some_and(|it| *it != b'/') {
                        walked.push(b'/');
                    }
                    walked.extend(name.as_bytes());
                }
                // Anything but names below the root is not a path as the table has it.
                Component::ParentDir | Component::CurDir | Component::Prefix(_) => return None,
            }
            let here = self.by_point.get(walked.as_slice()).map_or(&[][..], Vec::as_slice);
            // Each step enters another mount of this path, so there are at most as many steps as mounts.
            for _ in here {
                let entered = here.iter().map(|it| &self.mounts[it]).find(|it| match current {
                    Some(current) => it.parent == current.id && it.id != current.id,
                    // The root mount: its parent cannot be seen, or is itself.
                    None => it.parent == it.id || !self.mounts.contains_key(&it.parent),
                });
                match entered {
                    Some(mount) => current = Some(mount),
                    None => break,
                }
            }
        }
        current
    }

    /// All mounts whose mount point is this path: the stack seen there, and any that are hidden.
    pub fn at(&self, path: &Path) -> impl Iterator<Item = &Arc<Mount>> {
        self.by_point.get(point(path)).into_iter().flatten().map(|it| &self.mounts[it])
    }

    /// All mounts whose mount point lies below this path (not at it), parents before children, hidden ones included.
    pub fn below(&self, path: &Path) -> impl DoubleEndedIterator<Item = &Arc<Mount>> {
        let mut first = point(path).to_vec();
        if first.last() != Some(&b'/') {
            first.push(b'/');
        }
        let after = self.by_point.range::<[u8], _>((Bound::Excluded(first.as_slice()), Bound::Unbounded));
        let inside = after.take_while(|(point, _)| point.starts_with(&first)).flat_map(|(_, ids)| ids);
        inside.map(|it| &self.mounts[it]).collect::<Vec<_>>().into_iter()
    }

    /// The other mounts of the same directory of the same file system: those that a bind mount made of each other.
    pub fn references(&self, mount: &Mount) -> impl Iterator<Item = &Arc<Mount>> {
        let id = mount.id;
        let first = (mount.device, Point::from(point(&mount.root)), MountId::Unique(0));
        let from = self.by_content.range(first.clone()..);
        let all = from.take_while(move |(device, root, _)| (*device, root) == (first.0, &first.1)).map(|it| it.2);
        all.filter(move |it| *it != id).map(|it| &self.mounts[&it])
    }

    /// The mounts that are mounted directly on this one.
    pub fn children(&self, mount: &Mount) -> Vec<Arc<Mount>> {
        let id = mount.id;
        let around = self.at(&mount.mount_point).chain(self.below(&mount.mount_point));
        around.filter(|it| it.parent == id && it.id != id).cloned().collect()
    }

    /// The mount that lies directly over this one, covering all of it.
    #[must_use]
    pub fn over(&self, mount: &Mount) -> Option<&Arc<Mount>> {
        self.at(&mount.mount_point).find(|it| it.parent == mount.id && it.id != mount.id)
    }

    /// Puts a mount in, in place of what was known under its id.
    pub(crate) fn insert(&mut self, mount: Mount) -> Arc<Mount> {
        self.remove(mount.id);
        let mount = Arc::new(mount);
        // Mostly there is one, and there may be many thousands: room for one then.
        let here = self.by_point.entry(point(&mount.mount_point).into()).or_insert_with(|| Vec::with_capacity(1));
        here.push(mount.id);
        self.by_content.insert((mount.device, point(&mount.root).into(), mount.id));
        self.mounts.insert(mount.id, Arc::clone(&mount));
        mount
    }

    /// Takes a mount out.
    pub(crate) fn remove(&mut self, id: MountId) -> Option<Arc<Mount>> {
        let mount = self.mounts.remove(&id)?;
        let point = point(&mount.mount_point);
        if let Some(here) = self.by_point.get_mut(point) {
            here.retain(|it| *it != id);
            if here.is_empty() {
                self.by_point.remove(point);
            }
        }
        self.by_content.remove(&(mount.device, self::point(&mount.root).into(), id));
        Some(mount)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mount(number: u32, parent: u32, point: &str) -> Mount {
        let line = format!("{number} {parent} 0:{number} / {point} rw - tmpfs none rw");
        mountinfo::line(line.as_bytes()).unwrap()
    }

    fn numbers<'table>(mounts: impl Iterator<Item = &'table Arc<Mount>>) -> Vec<u32> {
        mounts.map(|it| it.number).collect()
    }

    #[test]
    fn the_topmost_of_a_stack_is_seen() {
        let table = Table::of([mount(1, 0, "/"), mount(3, 2, "/a"), mount(2, 1, "/a")]);
        assert_eq!(table.topmost(Path::new("/a")).unwrap().number, 3);
        assert_eq!(table.topmost(Path::new("/a/")).unwrap().number, 3);
        assert_eq!(numbers(table.at(Path::new("/a"))), [3, 2]);
        assert_eq!(table.containing(Path::new("/a/b/c")).unwrap().number, 3);
        assert!(!table.is_mount_point(Path::new("/a/b")));
        assert!(!table.is_mount_point(Path::new("/ab")));
    }

    #[test]
    fn a_mount_below_a_covered_directory_is_hidden() {
        let mut table = Table::of([mount(1, 0, "/"), mount(2, 1, "/a/b"), mount(3, 1, "/a")]);
        assert!(!table.is_mount_point(Path::new("/a/b")), "the kernel finds a plain directory there");
        assert_eq!(table.containing(Path::new("/a/b")).unwrap().number, 3);
        table.insert(mount(4, 3, "/a/b"));
        assert_eq!(table.topmost(Path::new("/a/b")).unwrap().number, 4);
        assert_eq!(numbers(table.below(Path::new("/a"))), [2, 4], "but it is there, and in the way");
    }

    #[test]
    fn below_knows_names_from_prefixes() {
        let points = ["/a", "/a/b", "/a/b/c", "/a-b", "/a.b", "/ab"];
        let mounts = points.iter().zip(2..).map(|(point, number)| mount(number, 1, point));
        let table = Table::of(mounts.chain([mount(1, 0, "/")]));
        assert_eq!(numbers(table.below(Path::new("/a"))), [3, 4]);
        assert_eq!(numbers(table.below(Path::new("/a")).rev()), [4, 3]);
        assert_eq!(table.below(Path::new("/")).count(), 6);
        assert_eq!(table.below(Path::new("/zzz")).count(), 0);
    }

    #[test]
    fn bind_mounts_of_one_directory_refer_to_each_other() {
        let line = |text: &str| mountinfo::line(text.as_bytes()).unwrap();
        let first = line("2 1 8:1 /data /a rw - ext4 /dev/sda1 rw");
        let table = Table::of([
            line("1 0 8:1 / / rw - ext4 /dev/sda1 rw"),
            first.clone(),
            line("3 1 8:1 /data /b ro - ext4 /dev/sda1 rw"),
            line("4 1 8:2 /data /c rw - ext4 /dev/sda2 rw"),
        ]);
        assert_eq!(numbers(table.references(&first)), [3]);
    }

    #[test]
    fn a_path_that_is_not_plain_is_no_mount_point() {
        let table = Table::of([mount(1, 0, "/"), mount(2, 1, "/a")]);
        assert!(table.containing(Path::new("/a/../a")).is_none());
        assert!(table.containing(Path::new("a")).is_none());
        assert!(table.containing(Path::new("")).is_none());
    }

    #[test]
    fn a_root_that_is_its_own_parent_ends_the_walk() {
        let table = Table::of([mount(1, 1, "/"), mount(2, 1, "/"), mount(3, 3, "/x")]);
        assert_eq!(table.topmost(Path::new("/")).unwrap().number, 2);
        assert!(!table.is_mount_point(Path::new("/x")));
    }

    /// A table and the parts of it that were put in, by number.
    fn histories() -> impl Strategy<Value = Vec<(u32, Option<usize>)>> {
        prop::collection::vec((1u32..6, prop::option::of(0usize..4)), 0..40)
    }

    proptest! {
        #[test]
        fn a_table_kept_step_by_step_equals_one_made_at_once(history in histories()) {
            const POINTS: [&str; 4] = ["/", "/a", "/a/b", "/c"];
            let mut table = Table::default();
            let mut model = BTreeMap::new();
            for (number, point) in history {
                match point {
                    Some(point) => {
                        let mount = mount(number, 1, POINTS[point]);
                        model.insert(number, mount.clone());
                        table.insert(mount);
                    }
                    None => {
                        model.remove(&number);
                        table.remove(MountId::Reusable(number));
                    }
                }
            }
            let fresh = Table::of(model.into_values());
            prop_assert_eq!(&table.mounts, &fresh.mounts);
            prop_assert_eq!(&table.by_content, &fresh.by_content);
            prop_assert_eq!(table.by_point.keys().collect::<Vec<_>>(), fresh.by_point.keys().collect::<Vec<_>>());
            for point in POINTS {
                let sorted = |table: &Table| {
                    let mut all = numbers(table.at(Path::new(point)).chain(table.below(Path::new(point))));
                    all.sort_unstable();
                    all
                };
                prop_assert_eq!(sorted(&table), sorted(&fresh));
            }
        }
    }
}
