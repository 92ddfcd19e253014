//! What is really there, on disk and in the mount table, against what the manifests say.
//!
//! Two questions: what has not come about yet ([`Truth::differences`]), which is asked until nothing is left, and what was
//! done that should not have been ([`Seen::damage`]), which is asked when all has come right.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use windlass_linux::table::{self, MountId};

use crate::world::{Kind, Pod, Shown, World};

/// Where everything is.
pub(crate) struct Truth {
    pub(crate) root: PathBuf,
}

/// A volume of a pod, as long as it is wanted: if it comes back, it has another number.
type Volume = (String, Kind, u64);

/// What tells that a volume is the same as before.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Identity {
    mount: Option<MountId>,
    /// The directory itself.
    inode: u64,
    /// What is shown, and the version of it on disk.
    shown: Option<(BTreeMap<String, Shown>, PathBuf)>,
}

/// What was there when all had come right.
#[derive(Default)]
pub(crate) struct Seen(BTreeMap<Volume, Identity>);

impl Truth {
    /// Where the records are.
    fn records(&self) -> PathBuf {
        self.root.join("windlass/records")
    }

    /// The records of volumes in pods that are there, those of volumes that are being taken away too, and whatever else
    /// lies beside them.
    fn found_records(&self) -> BTreeSet<PathBuf> {
        let beside = names(&self.records()).into_iter().filter(|it| it != "stages" && it != "pods").map(PathBuf::from);
        let of_pods = names(&self.records().join("pods")).into_iter().map(|it| Path::new("pods").join(it));
        beside.chain(of_pods).collect()
    }

    /// Directories in which something happens while all comes right.
    pub(crate) fn places(&self) -> [PathBuf; 2] {
        [self.root.join("pods"), self.records()]
    }

    /// What is not as the manifests say. While a manifest makes no sense nothing is taken away, so that pods in `leaving`
    /// and volumes that pods do not name any more may still be there.
    pub(crate) fn differences(&self, world: &World, leaving: &BTreeSet<String>) -> Vec<String> {
        let mut differences = Vec::new();
        let doubt = world.broken.is_some();
        let sure: Vec<&Pod> = world.pods.values().filter(|it| !world.is_in_doubt(it)).collect();
        let in_doubt = world.pods.values().filter(|it| world.is_in_doubt(it)).map(|it| it.uid.clone());
        let tolerated: BTreeSet<String> =
            if doubt { in_doubt.chain(leaving.iter().cloned()).collect() } else { BTreeSet::new() };
        let is_tolerated = |path: &Path| match path.iter().count() {
            2 => path.file_name().is_some_and(|it| tolerated.contains(&*it.to_string_lossy())),
            _ => doubt,
        };

        let uids: BTreeSet<PathBuf> = sure.iter().map(|it| Path::new("pods").join(&it.uid)).collect();
        let places = sure.iter().flat_map(|pod| pod.volumes.keys().filter_map(|it| pod.place(*it))).collect();
        let records = sure.iter().flat_map(|pod| pod.volumes.keys().map(|it| pod.record(*it))).collect();
        let mounts =
            sure.iter().flat_map(|pod| pod.volumes.keys().filter(|it| it.is_mount()).filter_map(|it| pod.place(*it)));
        let mounts: BTreeSet<PathBuf> = mounts.collect();
        let mounted = self.mounts();
        for (path, ids) in &mounted {
            if ids.len() > 1 {
                differences.push(format!("{} is mounted {} times: {ids:?}", path.display(), ids.len()));
            }
        }
        let mut compare = |what: &str, wanted: BTreeSet<PathBuf>, found: BTreeSet<PathBuf>| {
            let missing = wanted.difference(&found).map(|it| format!("{what} missing: {}", it.display()));
            let excess = found.difference(&wanted).filter(|it| !is_tolerated(it));
            let excess = excess.map(|it| format!("{what} left: {}", it.display()));
            differences.extend(missing.chain(excess));
        };
        compare("pod", uids, below(&self.root, "pods", 1));
        compare("volume", places, volumes(&self.root));
        compare("record", records, self.found_records());
        compare("mount", mounts, mounted.into_keys().collect());

        for pod in sure {
            for kind in pod.volumes.keys() {
                if let (Some(shown), Some(place)) = (world.shown(pod, *kind), pod.place(*kind)) {
                    let said = compare_contents(&self.root.join(&place), &shown);
                    differences.extend(said.into_iter().map(|it| format!("{}: {it}", place.display())));
                }
            }
        }
        differences
    }

    /// What is left when nothing should be.
    pub(crate) fn remains(&self) -> Vec<String> {
        let mounts = self.mounts().into_keys().map(|it| format!("mount left: {}", it.display()));
        let files = [("", "pods"), ("", "plugins"), ("windlass/records", "stages")];
        let below =
            |(above, name)| below(&self.root.join(above), name, 1).into_iter().map(move |it| Path::new(above).join(it));
        let files = files.into_iter().flat_map(below).chain(self.found_records());
        mounts.chain(files.map(|it| format!("left: {}", it.display()))).collect()
    }

    /// Whether something was begun and not ended: a record of an intent, or a version that nothing leads to.
    pub(crate) fn is_in_the_middle(&self) -> bool {
        let intent = |path: &PathBuf| {
            let text = fs::read_to_string(self.records().join(path)).unwrap_or_default();
            // The last line of each volume counts.
            let lines = text.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
            let last: BTreeMap<String, bool> =
                lines.map(|it| (it["volume"]["id"].to_string(), it["proven"].is_null())).collect();
            last.into_values().any(|it| it)
        };
        let torn = |path: &PathBuf| names(&self.root.join(path)).iter().filter(|it| it.starts_with("..")).count() > 2;
        // The record of what is being taken away is marked by its mode.
        let marked =
            |path: &PathBuf| fs::metadata(self.records().join(path)).is_ok_and(|it| it.permissions().readonly());
        self.found_records().iter().any(|it| marked(it) || intent(it)) || volumes(&self.root).iter().any(torn)
    }

    /// What is mounted below the root, by path.
    fn mounts(&self) -> BTreeMap<PathBuf, Vec<MountId>> {
        let table = table::Reader::best().read().expect("read the mount table");
        let mut mounts: BTreeMap<PathBuf, Vec<MountId>> = BTreeMap::new();
        for mount in table.below(&self.root) {
            let path = mount.mount_point.strip_prefix(&self.root).expect("below the root").to_owned();
            mounts.entry(path).or_default().push(mount.id);
        }
        mounts
    }

    /// What is there now, when all has come right.
    pub(crate) fn look(&self, world: &World) -> Seen {
        let mounts = self.mounts();
        let mut seen = BTreeMap::new();
        for pod in world.pods.values() {
            for (kind, number) in &pod.volumes {
                let Some(place) = pod.place(*kind) else { continue };
                let path = self.root.join(&place);
                // While a manifest makes no sense, not all volumes need be there.
                let Ok(metadata) = fs::metadata(&path) else { continue };
                // A volume that a manifest is missing for may show something older.
                let shown = world.shown(pod, *kind).filter(|_| !world.is_in_doubt(pod));
                let shown = shown.zip(fs::read_link(path.join("..data")).ok());
                let mount = mounts.get(&place).and_then(|it| it.first().copied());
                // Nor need they be mounted yet: they may come at this moment.
                if kind.is_mount() && mount.is_none() {
                    continue;
                }
                let identity = Identity { mount, inode: metadata.ino(), shown };
                seen.insert((pod.uid.clone(), *kind, *number), identity);
            }
        }
        Seen(seen)
    }
}

impl Seen {
    /// What was made anew, or taken away, without need (I-1, I-11): whatever a pod has kept wanting is the same mount
    /// and the same directory, and what shows the same is not even written again.
    pub(crate) fn damage(&self, world: &World, now: &Seen) -> Vec<String> {
        let mut damage = Vec::new();
        for pod in world.pods.values() {
            for (kind, number) in &pod.volumes {
                let volume = (pod.uid.clone(), *kind, *number);
                let Some(before) = self.0.get(&volume) else { continue };
                let title = format!("{} of {}", kind.name(), pod.uid);
                match now.0.get(&volume) {
                    None => damage.push(format!("{title} was taken away though the pod wants it")),
                    Some(after) => damage.extend(before.compare(after, *kind).map(|it| format!("{title} {it}"))),
                }
            }
        }
        damage
    }

    /// From now on this counts.
    pub(crate) fn merge(&mut self, now: Seen) {
        self.0.extend(now.0);
    }
}

impl Identity {
    fn compare(&self, after: &Self, kind: Kind) -> Option<String> {
        if self.mount != after.mount {
            return Some(format!("was mounted again: it was mount {:?} and is {:?}", self.mount, after.mount));
        }
        if self.inode != after.inode {
            return Some(format!("is another directory: it was inode {} and is {}", self.inode, after.inode));
        }
        match (&self.shown, &after.shown) {
            // Tokens are kept in memory alone, so a new process needs new ones.
            (Some(before), Some(after)) if kind != Kind::Projected && before.0 == after.0 && before.1 != after.1 => {
                Some(format!("was written again: it was {} and is {}", before.1.display(), after.1.display()))
            }
            _ => None,
        }
    }
}

/// The paths so many levels below a directory, with the directory's name in front.
fn below(root: &Path, name: &str, levels: usize) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::from([PathBuf::from(name)]);
    for _ in 0..levels {
        paths = paths
            .into_iter()
            .flat_map(|it| names(&root.join(&it)).into_iter().map(move |name| it.join(name)))
            .collect();
    }
    paths
}

/// The volumes in a tree that is laid out as the kubelet does: `pods/UID/volumes/PLUGIN/NAME`.
fn volumes(root: &Path) -> BTreeSet<PathBuf> {
    let pods = below(root, "pods", 1);
    pods.iter().flat_map(|it| below(root, &it.join("volumes").to_string_lossy(), 2)).collect()
}

/// What is in a directory; nothing if it is not there (any more).
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect()
}

/// What a written volume shows against what it should.
fn compare_contents(volume: &Path, shown: &BTreeMap<String, Shown>) -> Vec<String> {
    let mut differences = Vec::new();
    for (path, wanted) in shown {
        match read(&volume.join(path)) {
            Err(error) => differences.push(format!("{path}: {error}")),
            Ok((bytes, mode)) => {
                if mode != wanted.mode {
                    differences.push(format!("{path} has mode {mode:o}, not {:o}", wanted.mode));
                }
                match &wanted.bytes {
                    Some(wanted) if *wanted != bytes => {
                        differences.push(format!("{path} reads {:?}, not {:?}", start(&bytes), start(wanted)));
                    }
                    None if !is_token(&bytes) => differences.push(format!("{path} is no token: {:?}", start(&bytes))),
                    _ => {}
                }
            }
        }
    }
    let first = |path: &str| path.split('/').next().unwrap_or(path).to_owned();
    let visible: BTreeSet<String> = shown.keys().map(|it| first(it)).collect();
    let (own, found): (BTreeSet<_>, BTreeSet<_>) = names(volume).into_iter().partition(|it| it.starts_with(".."));
    if found != visible {
        differences.push(format!("has {found:?}, not {visible:?}"));
    }
    let files = files(&volume.join("..data"), "");
    if files.iter().ne(shown.keys()) {
        differences.push(format!("..data has {files:?}"));
    }
    if own.len() != 2 {
        differences.push(format!("beside the files there are {own:?}, not one version and a link to it"));
    }
    differences
}

/// All files below a directory.
fn files(directory: &Path, prefix: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for name in names(directory) {
        let path = directory.join(&name);
        if path.is_dir() {
            all.extend(files(&path, &format!("{prefix}{name}/")));
        } else {
            all.insert(format!("{prefix}{name}"));
        }
    }
    all
}

fn read(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    Ok((fs::read(path)?, fs::metadata(path)?.permissions().mode() & 0o7777))
}

/// Whether it looks like a JSON Web Token.
fn is_token(bytes: &[u8]) -> bool {
    let parts: Vec<_> = bytes.split(|it| *it == b'.').collect();
    parts.len() == 3 && parts.iter().all(|it| !it.is_empty())
}

/// The first bytes of a file, for people.
fn start(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned()
}
