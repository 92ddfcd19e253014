//! A pod's directory while something is made or taken away in it: what its volumes have in common is found once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Mode;
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{Fresh, Mounts, Place};

use super::{Error, Layout, PODS, PRIVATE, Slot, escape};

/// What every pod has in its directory (E-420).
const VOLUMES: &str = "volumes";
const PLUGINS: &str = "plugins";

/// A pod's directory, with those in it that were needed so far held open.
///
/// To be kept for as long as something is done in it and no longer: who removes or moves a directory meanwhile is noticed
/// as late as by anyone who has it open.
#[derive(Debug)]
pub struct Home {
    layout: Layout,
    pod: Name,
    is_new: bool,
    /// What is open, by its path in the pod's directory.
    open: Mutex<Vec<(PathBuf, Arc<Place>)>>,
    /// The pod's directory, if it was made for this.
    fresh: Option<Fresh>,
    /// The directories of plugins in it that were made for this.
    made: Mutex<Vec<PathBuf>>,
}

impl Home {
    /// Of a pod that may have a directory or not.
    pub(super) fn of(layout: &Layout, pod: &Name) -> Self {
        let (open, made) = (Mutex::default(), Mutex::default());
        Self { layout: layout.clone(), pod: pod.clone(), is_new: false, open, fresh: None, made }
    }

    /// Makes a pod's directory, with what every pod has in it (E-420).
    pub(super) fn make_of(layout: &Layout, pod: &Name) -> Result<Self, Error> {
        let mut home = Self::of(layout, pod);
        let pods = layout.pods()?;
        let new = pods.make_new_directory(pod, PRIVATE)?;
        home.is_new = new.is_some();
        let top = match new {
            Some(new) => new,
            None => pods.make_directory(pod, PRIVATE, Mounts::Refuse)?,
        };
        let top = home.keep(Path::new(""), top);
        home.fresh = Fresh::of(&top).filter(|_| home.is_new);
        for directory in [VOLUMES, PLUGINS] {
            match &home.fresh {
                Some(fresh) => fresh.directory(Path::new(directory)).make(PRIVATE)?,
                None => {
                    let place = top.make_directory(&Name::new("directory", directory)?, PRIVATE, Mounts::Refuse)?;
                    home.keep(Path::new(directory), place);
                }
            }
        }
        Ok(home)
    }

    /// Whether the pod's directory was made for this: nothing of an earlier time is in it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The directory that holds a volume, if the pod's was made for this; it is made if it is missing.
    pub fn fresh_parent(&self, slot: &Slot, mode: Mode) -> Result<Option<Fresh>, Error> {
        self.make_fresh(below(slot.kind(), slot.plugin.as_path()), mode)
    }

    /// The directory of a plugin's notes about the pod's volumes, if the pod's was made for this; it is made if it is missing.
    pub fn fresh_notes(&self, plugin: &str) -> Result<Option<Fresh>, Error> {
        self.make_fresh(below(PLUGINS, escape(plugin)), PRIVATE)
    }

    fn make_fresh(&self, below: PathBuf, mode: Mode) -> Result<Option<Fresh>, Error> {
        let Some(fresh) = &self.fresh else { return Ok(None) };
        // Somebody has opened it, and may have made it, the other way.
        if self.opened(&below).is_some() {
            return Ok(None);
        }
        let directory = fresh.directory(&below);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.contains(&below) {
            directory.make(mode)?;
            made.push(below);
        }
        Ok(Some(directory))
    }

    /// Makes the directory that holds a volume, and the pod's if that is missing. `mode` is that of the plugin's
    /// directory; all above are private.
    pub fn make_parent(&self, slot: &Slot, mode: Mode) -> Result<Arc<Place>, Error> {
        self.make(&below(slot.kind(), slot.plugin.as_path()), mode)
    }

    /// Opens the directory that holds a volume; `None` if it is missing.
    pub fn find_parent(&self, slot: &Slot) -> Result<Option<Arc<Place>>, Error> {
        self.find(&below(slot.kind(), slot.plugin.as_path()))
    }

    /// Makes the directory of a plugin's notes about the pod's volumes (P-18).
    pub fn make_notes(&self, plugin: &str) -> Result<Arc<Place>, Error> {
        self.make(&below(PLUGINS, escape(plugin)), PRIVATE)
    }

    /// Opens the directory of a plugin's notes; `None` if it is missing.
    pub fn find_notes(&self, plugin: &str) -> Result<Option<Arc<Place>>, Error> {
        self.find(&below(PLUGINS, escape(plugin)))
    }

    /// Holds nothing open until something is needed again.
    pub fn close(&self) {
        self.lock().clear();
    }

    fn make(&self, below: &Path, mode: Mode) -> Result<Arc<Place>, Error> {
        let (Some(above), Some(name)) = (below.parent(), below.file_name()) else {
            let made = Self::make_of(&self.layout, &self.pod)?;
            let top = made.opened(below);
            self.lock().extend(made.open.into_inner().unwrap_or_else(PoisonError::into_inner));
            return Ok(top.expect("it was made"));
        };
        // Where the one above was opened before, this is mostly missing; otherwise it is mostly there.
        let found = match self.opened(above) {
            Some(_) => self.opened(below),
            None => self.find(below)?,
        };
        match found {
            Some(found) => Ok(found),
            None => {
                let above = self.make(above, PRIVATE)?;
                let made = above.make_directory(&Name::new("directory", name)?, mode, Mounts::Refuse)?;
                Ok(self.keep(below, made))
            }
        }
    }

    fn find(&self, below: &Path) -> Result<Option<Arc<Place>>, Error> {
        if let Some(open) = self.opened(below) {
            return Ok(Some(open));
        }
        let nearest = below.ancestors().skip(1).find_map(|it| Some((it, self.opened(it)?)));
        let found = match nearest {
            Some((above, place)) => {
                let rest = below.strip_prefix(above).unwrap_or(below);
                place.directory(&Relative::new("path in a pod's directory", rest)?, Mounts::Refuse)
            }
            None => {
                let path = [Path::new(PODS), self.pod.as_path(), below].iter().collect::<PathBuf>();
                self.layout.root.directory(&Relative::new("path below the root", path)?, Mounts::Refuse)
            }
        };
        match found {
            Ok(place) => Ok(Some(self.keep(below, place))),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn opened(&self, below: &Path) -> Option<Arc<Place>> {
        self.lock().iter().find(|(path, _)| path.as_os_str() == below.as_os_str()).map(|(_, place)| place.clone())
    }

    fn keep(&self, below: &Path, place: Place) -> Arc<Place> {
        let place = Arc::new(place);
        self.lock().push((below.into(), place.clone()));
        place
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PathBuf, Arc<Place>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn below(directory: &str, plugin: impl AsRef<OsStr>) -> PathBuf {
    let plugin = Path::new(plugin.as_ref());
    let mut path = PathBuf::with_capacity(directory.len() + 1 + plugin.as_os_str().len());
    path.push(directory);
    path.push(plugin);
    path
}
