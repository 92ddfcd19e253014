//! Where things are below the root: the kubelet's layout (E-420..E-432, P-16..P-22), so that a node can move over and back.
//!
//! Names that come from outside become [`Name`]s here and nowhere else. Directories are made by descriptor, with exact
//! modes whatever the umask, and never through a mount.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::Mode;
use rustix::io::Errno;
use windlass_core::ids::PodUid;
use windlass_core::spec::{self, VolumeSpec};
use windlass_linux::name::{self, Name, Relative};
use windlass_linux::remove::{self, Aside};
use windlass_linux::safe_path::{self, Mounts, Place};
use windlass_linux::table::{self, MountId};

use crate::catalogue::VolumeType;

mod home;

pub(crate) use home::Home;

/// The mode of directories that are nobody else's business (P-16).
pub(crate) const PRIVATE: Mode = Mode::from_bits_retain(0o750);
/// The mode of a plugin's directory in a pod whose volumes everybody may enter.
pub(crate) const OPEN: Mode = Mode::from_bits_retain(0o755);

/// The directory of all pods.
const PODS: &str = "pods";

/// The root directory, held open.
#[derive(Clone, Debug)]
pub struct Layout {
    root: Arc<Place>,
    /// The mount that the root lies in: whoever looks the root up by its path should end there.
    mount: MountId,
    aside: Arc<OnceLock<Aside>>,
}

/// Why a volume has no place in a pod.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One of its names cannot be part of a path.
    #[error(transparent)]
    Name(#[from] name::Error),
    /// A directory could not be made or opened.
    #[error(transparent)]
    Reach(#[from] safe_path::Error),
    /// A directory that must lie in the root's file system is a mount.
    #[error(
        "{} is a mount of its own, which is not supported: unmount it, or mount the whole root directory there instead",
        path.display()
    )]
    MountOfItsOwn {
        /// The directory.
        path: PathBuf,
    },
    /// The kernel does not tell where a directory is mounted.
    #[error(transparent)]
    Mount(#[from] table::Error),
}

impl Layout {
    /// Opens the root; makes it and what every node has in it if it is missing.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let root = make_root(root)?;
        // The mount table has paths without links.
        let path = std::fs::canonicalize(root.path()).unwrap_or_else(|_| root.path().into());
        let root = Place::of(root.into(), path);
        for directory in [PODS, "plugins"] {
            let made = root.make_directory(&Name::new("directory", directory)?, PRIVATE, Mounts::Refuse);
            made.map_err(|error| match error.errno() {
                Errno::XDEV => Error::MountOfItsOwn { path: root.path().join(directory) },
                _ => error.into(),
            })?;
        }
        let mount = table::identify(&root)?;
        Ok(Self { root: Arc::new(root), mount, aside: Arc::default() })
    }

    /// The root.
    pub fn root(&self) -> &Place {
        &self.root
    }

    /// What lies over a path below the root, or over the root itself, so that the path leads into another file system than
    /// the one that is held open. The path itself is none of a volume's own mounts.
    pub fn cover(&self, table: &table::Table, path: &Path) -> Option<Arc<table::Mount>> {
        // In a changed root (`chroot`) the mount that all lies in need not be in the table.
        table.containing(path).filter(|it| it.id != self.mount).cloned()
    }

    /// The root's path.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The directory of all pods.
    pub fn pods(&self) -> Result<Place, Error> {
        self.make(Path::new(PODS), PRIVATE)
    }

    /// Where files below the root go before they are removed: a directory among windlass's own, and beside the pods' if
    /// that is on another file system, to which nothing can be renamed.
    pub fn set_aside(&self, state: &Place) -> Result<&Aside, Error> {
        let device = |place: &Place| rustix::fs::fstat(place).map(|it| it.st_dev);
        let (above, name) = match device(state) {
            Ok(found) if device(&self.root) == Ok(found) => (state, "removing"),
            Ok(_) | Err(_) => (&*self.root, "windlass-removing"),
        };
        let aside = Aside::open(self.root.clone(), above, &Name::new("directory", name)?)?;
        Ok(self.aside.get_or_init(|| aside))
    }

    /// Where files go before they are removed, if [a place was made](Self::set_aside).
    pub fn aside(&self) -> Option<&Aside> {
        self.aside.get()
    }

    /// Removes a directory below the root, or a file, as [`remove::tree`] does: nothing of what is moved elsewhere
    /// meanwhile, with whichever directory below the root (I-5).
    pub fn remove_tree(
        &self,
        parent: &Place,
        name: &Name,
        ours: impl FnMut(remove::Entry<'_>) -> bool,
    ) -> Result<(), remove::Error> {
        match self.aside() {
            Some(aside) => remove::tree_by(aside, parent, name, ours),
            None => remove::tree(parent, name, ours),
        }
    }

    /// Makes a pod's directory, with what every pod has in it (E-420), and holds it open.
    pub fn make_home(&self, pod: &Name) -> Result<Home, Error> {
        Home::make_of(self, pod)
    }

    /// A pod's directory, which is opened or made when it is needed.
    pub fn home(&self, pod: &Name) -> Home {
        Home::of(self, pod)
    }

    /// Makes a directory below the root; those that are missing on the way get the same mode.
    pub fn make(&self, below: &Path, mode: Mode) -> Result<Place, Error> {
        Ok(self.root.make_directories(&Relative::new("path below the root", below)?, mode, Mounts::Refuse)?)
    }

    /// Opens a directory below the root; `None` if it is missing.
    pub fn find(&self, below: &Path) -> Result<Option<Place>, Error> {
        match self.root.directory(&Relative::new("path below the root", below)?, Mounts::Refuse) {
            Ok(place) => Ok(Some(place)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a directory that this system's owner chose; makes it and those above it if they are missing.
pub(crate) fn make_root(path: &Path) -> Result<Place, Error> {
    match Place::root(path) {
        Err(error) if error.is_missing() => {}
        other => return Ok(other?),
    }
    let mut existing = path.to_path_buf();
    let mut missing = Vec::new();
    let above = loop {
        let Some(name) = existing.file_name().map(ToOwned::to_owned) else { break Place::root("/")? };
        missing.push(name);
        existing.pop();
        match Place::root(if existing.as_os_str().is_empty() { Path::new(".") } else { &existing }) {
            Err(error) if error.is_missing() => {}
            other => break other?,
        }
    };
    let below: PathBuf = missing.iter().rev().collect();
    let made = above.make_directories(&Relative::new("root directory", &below)?, PRIVATE, Mounts::Enter)?;
    // By the path it was asked for, which is what people and the mount table call it.
    drop(made);
    Ok(Place::root(path)?)
}

/// One volume's place in one pod.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// The pod.
    pub pod: Name,
    /// The plugin's directory (`kubernetes.io~secret`).
    pub plugin: Name,
    /// The volume's own directory, or the link to its device.
    pub name: Name,
    /// As a directory or as a device.
    pub mode: spec::Mode,
}

impl Slot {
    /// The place of a volume in a pod, if their names can be parts of a path.
    pub fn of(pod: &PodUid, spec: &VolumeSpec) -> Result<Self, name::Error> {
        let inner = match VolumeType::of(spec).is_some_and(|it| it.slashed_names) {
            true => escape(spec.inner_name.as_str()),
            false => spec.inner_name.as_str().to_owned(),
        };
        Ok(Self {
            pod: Name::new("metadata.uid", pod.as_str())?,
            plugin: Name::new("plugin name", escape(spec.plugin.as_str()))?,
            name: Name::new("volume name", inner)?,
            mode: spec.mode,
        })
    }

    /// The directory of the pod that holds volumes of this kind.
    fn kind(&self) -> &'static str {
        match self.mode {
            spec::Mode::Filesystem => "volumes",
            spec::Mode::Block => "volumeDevices",
        }
    }

    /// Where the plugin's volumes of the pod are, below the root.
    pub fn parent(&self) -> PathBuf {
        self.below([Path::new(self.kind()), self.plugin.as_path()])
    }

    /// Where the volume itself is (P-17, P-19), below the root.
    pub fn path(&self) -> PathBuf {
        self.below([Path::new(self.kind()), self.plugin.as_path(), self.name.as_path()])
    }

    fn below<const N: usize>(&self, parts: [&Path; N]) -> PathBuf {
        // Long enough for most, so that it need not grow.
        let mut path = PathBuf::with_capacity(128);
        path.push(PODS);
        path.push(self.pod.as_path());
        path.extend(parts);
        path
    }
}

/// A plugin's name as a directory: `/` becomes `~`.
pub fn escape(plugin: &str) -> String {
    plugin.replace('/', "~")
}

/// The plugin whose directory this is.
pub fn unescape(directory: &str) -> String {
    directory.replace('~', "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn spec(name: &str, mode: spec::Mode) -> VolumeSpec {
        VolumeSpec {
            id: "kubernetes.io/empty-dir/1-data".into(),
            plugin: "kubernetes.io/empty-dir".into(),
            driver: None,
            inner_name: name.into(),
            capabilities: spec::Capabilities::default(),
            mode,
            sharing: spec::Sharing::Shared,
            group: None,
            size: windlass_core::expand::Size::default(),
        }
    }

    /// P-17, P-19.
    #[test]
    fn a_volume_is_where_the_kubelet_has_it() {
        let slot = |mode| Slot::of(&"uid".into(), &spec("data", mode)).unwrap().path();
        assert_eq!(slot(spec::Mode::Filesystem), Path::new("pods/uid/volumes/kubernetes.io~empty-dir/data"));
        assert_eq!(slot(spec::Mode::Block), Path::new("pods/uid/volumeDevices/kubernetes.io~empty-dir/data"));
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused_by_field() {
        for (uid, name, field) in [
            ("..", "data", "metadata.uid"),
            ("a/b", "data", "metadata.uid"),
            ("a\0", "data", "metadata.uid"),
            ("", "data", "metadata.uid"),
            ("uid", "..", "volume name"),
            ("uid", "../../etc", "volume name"),
            ("uid", &"x".repeat(300), "volume name"),
        ] {
            let error = Slot::of(&uid.into(), &spec(name, spec::Mode::Filesystem)).unwrap_err();
            assert_eq!(error.field, field, "{uid:?} {name:?}");
        }
    }

    /// P-16, E-420.
    #[test]
    fn directories_have_the_modes_of_the_kubelets() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::open(&directory.path().join("a/root")).unwrap();
        let slot = Slot::of(&"uid".into(), &spec("data", spec::Mode::Filesystem)).unwrap();
        layout.home(&slot.pod).make_parent(&slot, OPEN).unwrap();
        let mode = |below: &str| std::fs::metadata(layout.path().join(below)).unwrap().permissions().mode() & 0o7777;
        for private in ["", "pods", "plugins", "pods/uid", "pods/uid/volumes", "pods/uid/plugins"] {
            assert_eq!(mode(private), 0o750, "{private}");
        }
        assert_eq!(mode("pods/uid/volumes/kubernetes.io~empty-dir"), 0o755);
    }
}
