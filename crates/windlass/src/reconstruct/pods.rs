//! What is in the directories of pods.
//!
//! A directory has one link more for each directory in it, on the file systems that count them. So where a directory is
//! there for each record, and there are no more links than these account for, there is no other, and nothing need be listed.
//! A pod of which that cannot be said is walked: it has what no record tells of, or less, or its file system does not count.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};
use rustix::io::Errno;
use windlass_core::ids::PodUid;
use windlass_core::operation::Proof;
use windlass_core::spec::Mode;
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{self, Mounts};
use windlass_linux::table::Table;
use windlass_linux::whole_file;

use super::Remains;
use crate::executor::Executor;
use crate::layout::Slot;
use crate::plugin::{self, Failure};

/// A place in a pod's directory that may hold a volume.
pub(super) struct Seen {
    pub(super) slot: Slot,
    /// The directory that is there, if it is one and nothing is mounted on it.
    pub(super) directory: Option<Proof>,
}

/// A pod's directory.
struct Home {
    slots: Vec<Seen>,
    /// It has all that a pod's directory has.
    is_whole: bool,
    /// When it was made, if its file system tells.
    born: Option<SystemTime>,
}

impl Remains {
    /// All pods that have a directory, with what is in them. Whatever else is there is not ours, and is told.
    pub(super) fn pods<'a>(
        &mut self,
        executor: &Executor,
        recorded: impl Iterator<Item = &'a Slot>,
    ) -> Result<Vec<(PodUid, Vec<Seen>)>, Failure> {
        let mut by_pod: HashMap<&Name, Vec<&Slot>> = HashMap::new();
        for slot in recorded {
            by_pod.entry(&slot.pod).or_default().push(slot);
        }
        let pods = executor.scene.layout.pods()?;
        let above = Above::of(&pods);
        let mut found = Vec::new();
        for (pod, _) in whole_file::entries(&pods)? {
            let Ok(uid) = std::str::from_utf8(pod.as_bytes()).map(PodUid::from) else {
                self.troubles.push(format!("the name of {}/{pod} is no text", pods.path().display()));
                continue;
            };
            let accounted = by_pod.get_mut(&pod).and_then(|slots| {
                slots.sort_by_key(|it| (&it.plugin, &it.name));
                above.as_ref().ok()?.account(&executor.scene.watch.table(), &pod, slots).ok()
            });
            let Some(home) = accounted.or_else(|| self.walk(executor, &pods, &pod)) else { continue };
            self.born.extend(home.born.map(|it| (uid.clone(), it)));
            if home.is_whole {
                self.whole.insert(uid.clone());
            }
            found.push((uid, home.slots));
        }
        Ok(found)
    }

    /// Lists all that is in a pod's directory, if it is one.
    fn walk(&mut self, executor: &Executor, pods: &safe_path::Place, pod: &Name) -> Option<Home> {
        let place = self.directory(pods, pod)?;
        let status = rustix::fs::statx(&place, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
        let (slots, has_volumes) = self.slots(executor, pod, &place);
        let is_whole = has_volumes && is_directory(&place, "plugins");
        Some(Home { slots, is_whole, born: status.ok().as_ref().and_then(birth) })
    }

    /// A directory in another. Whatever else is there is not ours, and is told.
    fn directory(&mut self, above: &safe_path::Place, name: &Name) -> Option<safe_path::Place> {
        match above.directory(&Relative::from(name.clone()), Mounts::Refuse) {
            Ok(place) => Some(place),
            Err(error) if error.is_missing() => None,
            Err(error) => {
                self.troubles.push(plugin::chain(&error));
                None
            }
        }
    }

    fn names(&mut self, directory: &safe_path::Place) -> Vec<Name> {
        let entries = whole_file::entries(directory).unwrap_or_else(|error| {
            self.troubles.push(plugin::chain(&error));
            Vec::new()
        });
        entries.into_iter().map(|(name, _)| name).collect()
    }

    /// The places in a pod's directory that may hold a volume (E-193), and whether there is a directory for those that are
    /// directories.
    fn slots(&mut self, executor: &Executor, pod: &Name, place: &safe_path::Place) -> (Vec<Seen>, bool) {
        let (mut slots, mut has_volumes) = (Vec::new(), false);
        for (mode, kind) in [(Mode::Filesystem, "volumes"), (Mode::Block, "volumeDevices")] {
            let Ok(kind) = Name::new("directory", kind) else { continue };
            let Some(plugins) = self.directory(place, &kind) else { continue };
            has_volumes |= mode == Mode::Filesystem;
            for plugin in self.names(&plugins) {
                let Some(volumes) = self.directory(&plugins, &plugin) else { continue };
                for name in self.names(&volumes) {
                    let directory = self.look(executor, &volumes, &name);
                    slots.push(Seen { slot: Slot { pod: pod.clone(), plugin: plugin.clone(), name, mode }, directory });
                }
            }
        }
        (slots, has_volumes)
    }

    /// Looks at a directory, unless something is mounted on it, which is not to be touched.
    fn look(&mut self, executor: &Executor, volumes: &safe_path::Place, name: &Name) -> Option<Proof> {
        if executor.scene.watch.table().at(&volumes.path().join(name.as_path())).next().is_some() {
            return None;
        }
        let place = match volumes.directory(&Relative::from(name.clone()), Mounts::Refuse) {
            Ok(place) => place,
            // Something else is there, or was put over it just now.
            Err(error) if matches!(error.errno(), Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
                return None;
            }
            Err(error) => {
                self.troubles.push(plugin::chain(&error));
                return None;
            }
        };
        plugin::directory_proof(&place).map_err(|failure| self.troubles.push(failure.text)).ok()
    }
}

/// Whether there is a directory of this name. Nothing of windlass goes there, so what it holds does not matter.
fn is_directory(above: &safe_path::Place, name: &str) -> bool {
    let status = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW);
    status.is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_dir())
}

/// When a directory was made, if its file system tells.
fn birth(status: &Statx) -> Option<SystemTime> {
    if status.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return None;
    }
    let seconds = u64::try_from(status.stx_btime.tv_sec).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, status.stx_btime.tv_nsec))
}

/// The directory of all pods, from which those below are looked at by their paths: they are neither opened nor listed.
///
/// Every part of a path is looked at before what is below it, so none is a link and none a mount. Whoever could change that
/// in between could also write our records; and what is found at the end is compared with what a record says.
struct Above<'a> {
    pods: &'a safe_path::Place,
    /// How long the path of that is, with a slash.
    length: usize,
    mount: u64,
}

/// It cannot be said that records account for all there is.
struct Doubt;

impl<'a> Above<'a> {
    fn of(pods: &'a safe_path::Place) -> Result<Self, Doubt> {
        let status = rustix::fs::statx(pods, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).map_err(|_| Doubt)?;
        Ok(Self { pods, length: pods.path().as_os_str().len() + 1, mount: status.stx_mnt_id })
    }

    /// A pod's directory, if it has nothing but what these records account for. They are in the order of their paths.
    fn account(&self, table: &Table, pod: &Name, recorded: &[&Slot]) -> Result<Home, Doubt> {
        // Devices are links, which are not counted.
        if recorded.iter().any(|it| it.mode != Mode::Filesystem) {
            return Err(Doubt);
        }
        let mut path = PathBuf::with_capacity(256);
        path.push(self.pods.path());
        path.push(pod.as_path());
        let top = self.directory(table, &path)?.ok_or(Doubt)?;
        path.push("plugins");
        let plugins = self.directory(table, &path)?;
        path.set_file_name("volumeDevices");
        // There is mostly no other directory than these two.
        if top.stx_nlink != links(1 + usize::from(plugins.is_some())) && self.directory(table, &path)?.is_some() {
            return Err(Doubt);
        }
        path.set_file_name("volumes");
        let volumes = self.directory(table, &path)?.ok_or(Doubt)?;
        let (mut slots, mut plugins_found) = (Vec::with_capacity(recorded.len()), 0);
        for of_plugin in recorded.chunk_by(|one, other| one.plugin == other.plugin) {
            path.push(of_plugin[0].plugin.as_path());
            // Paths of the host have none.
            if let Some(status) = self.directory(table, &path)? {
                let before = slots.len();
                for slot in of_plugin {
                    path.push(slot.name.as_path());
                    slots.extend(self.look(table, &path, slot)?);
                    path.pop();
                }
                if status.stx_nlink != links(slots.len() - before) {
                    return Err(Doubt);
                }
                plugins_found += 1;
            }
            path.pop();
        }
        match volumes.stx_nlink == links(plugins_found) {
            true => Ok(Home { slots, is_whole: plugins.is_some(), born: birth(&top) }),
            false => Err(Doubt),
        }
    }

    /// What is at a volume's place; `None` if nothing is.
    fn look(&self, table: &Table, path: &Path, slot: &Slot) -> Result<Option<Seen>, Doubt> {
        let directory = match table.at(path).next() {
            // It is not touched.
            Some(_) => None,
            None => match self.status(path, AtFlags::STATX_DONT_SYNC)? {
                Some(status) => Some(plugin::directory_proof_of(&status)),
                None => return Ok(None),
            },
        };
        Ok(Some(Seen { slot: slot.clone(), directory }))
    }

    /// A directory on the way to volumes; `None` if it is missing.
    fn directory(&self, table: &Table, path: &Path) -> Result<Option<Statx>, Doubt> {
        if table.at(path).next().is_some() { Err(Doubt) } else { self.status(path, AtFlags::empty()) }
    }

    fn status(&self, path: &Path, flags: AtFlags) -> Result<Option<Statx>, Doubt> {
        let below = OsStr::from_bytes(path.as_os_str().as_bytes().get(self.length..).ok_or(Doubt)?);
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK | StatxFlags::BTIME | StatxFlags::MNT_ID;
        match rustix::fs::statx(self.pods, below, flags | AtFlags::SYMLINK_NOFOLLOW, wanted) {
            Ok(status) => {
                let is_directory = FileType::from_raw_mode(status.stx_mode.into()).is_dir();
                if is_directory && status.stx_mnt_id == self.mount { Ok(Some(status)) } else { Err(Doubt) }
            }
            Err(Errno::NOENT) => Ok(None),
            Err(_) => Err(Doubt),
        }
    }
}

/// The links of a directory that has so many directories in it.
fn links(directories: usize) -> u32 {
    u32::try_from(directories).map_or(u32::MAX, |it| it.saturating_add(2))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    const VOLUMES: [&str; 3] =
        ["kubernetes.io~configmap/config", "kubernetes.io~empty-dir/disk", "kubernetes.io~empty-dir/memory"];

    fn slot(below: &str, mode: Mode) -> Slot {
        let (plugin, name) = below.split_once('/').unwrap();
        let name_of = |it: &str| Name::new("test", it).unwrap();
        Slot { pod: name_of("a"), plugin: name_of(plugin), name: name_of(name), mode }
    }

    /// Whether records of the three volumes, and of a path of the host, account for what is there after a change.
    fn is_accounted_for(mode: Mode, change: impl FnOnce(&Path)) -> bool {
        let directory = tempfile::tempdir().unwrap();
        let pod = directory.path().join("a");
        fs::create_dir_all(pod.join("plugins")).unwrap();
        VOLUMES.iter().for_each(|it| fs::create_dir_all(pod.join("volumes").join(it)).unwrap());
        change(&pod);
        let mut slots = VOLUMES.map(|it| slot(it, Mode::Filesystem)).to_vec();
        slots.push(slot("kubernetes.io~host-path/host", mode));
        let place = safe_path::Place::root(directory.path()).unwrap();
        let above = Above::of(&place).ok().unwrap();
        let home = above.account(&Table::default(), &slots[0].pod, &slots.iter().collect::<Vec<_>>());
        let expected = VOLUMES.map(|it| fs::symlink_metadata(pod.join("volumes").join(it)).ok().map(|it| it.ino()));
        if let Ok(home) = &home {
            let found = home.slots.iter().map(|it| it.directory.map(|it| it.root));
            assert_eq!(found.collect::<Vec<_>>(), expected.into_iter().flatten().map(Some).collect::<Vec<_>>());
        }
        home.is_ok()
    }

    #[test]
    fn a_pod_is_walked_unless_its_records_account_for_every_directory() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        // Otherwise every pod is walked.
        let counts = fs::metadata(directory.path()).unwrap().nlink() == 3;
        let fine = |change: fn(&Path)| assert_eq!(is_accounted_for(Mode::Filesystem, change), counts);
        fine(|_| {});
        fine(|pod| fs::write(pod.join("etc-hosts"), "").unwrap());
        fine(|pod| fs::create_dir(pod.join("containers")).unwrap());
        fine(|pod| fs::remove_dir(pod.join("plugins")).unwrap());
        fine(|pod| fs::remove_dir(pod.join("volumes").join(VOLUMES[1])).unwrap());
        let doubted = |change: fn(&Path)| assert!(!is_accounted_for(Mode::Filesystem, change));
        doubted(|pod| fs::create_dir(pod.join("volumes/kubernetes.io~empty-dir/new")).unwrap());
        doubted(|pod| fs::create_dir(pod.join("volumes/kubernetes.io~secret")).unwrap());
        doubted(|pod| fs::create_dir(pod.join("volumeDevices")).unwrap());
        doubted(|pod| fs::remove_dir_all(pod.join("volumes")).unwrap());
        doubted(|pod| fs::remove_dir_all(pod).unwrap());
        doubted(|pod| {
            let disk = pod.join("volumes").join(VOLUMES[1]);
            fs::rename(&disk, disk.with_file_name("new")).unwrap();
        });
        for below in
            ["", "plugins", "volumes", "volumes/kubernetes.io~empty-dir", "volumes/kubernetes.io~empty-dir/disk"]
        {
            let moved = |leave: fn(&Path, &Path)| {
                move |pod: &Path| {
                    let elsewhere = pod.with_file_name("elsewhere");
                    fs::rename(pod.join(below), &elsewhere).unwrap();
                    let path = if below.is_empty() { pod.to_owned() } else { pod.join(below) };
                    leave(&elsewhere, &path);
                }
            };
            let linked = moved(|elsewhere, path| symlink(elsewhere, path).unwrap());
            assert!(!is_accounted_for(Mode::Filesystem, linked), "{below}");
            let file = moved(|_, path| fs::write(path, "").unwrap());
            assert!(!is_accounted_for(Mode::Filesystem, file), "{below}");
        }
        assert!(!is_accounted_for(Mode::Block, |_| {}), "devices are links, which are not counted");
    }
}
