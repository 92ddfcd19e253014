//! What is made, by where it is wanted and by its path. Of a path there is one copy, for there are many.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use windlass_core::event::MountPlace;
use windlass_core::operation::Proof;

use crate::plugin::{Made, VolumeForm};

#[derive(Default)]
pub(super) struct Held {
    entries: HashMap<MountPlace, Box<Entry>>,
    /// The places whose paths must not be mounted over, or are mounts themselves. In order, so that all below a path lie
    /// together; and as bytes, which compare many times faster than the components of a path.
    watched: BTreeMap<Arc<OsStr>, MountPlace>,
}

/// As [`Made`].
struct Entry {
    proof: Proof,
    form: HeldAs,
    path: Arc<OsStr>,
    refresh_at: Option<SystemTime>,
    lost_at: Option<SystemTime>,
}

/// As [`What`].
enum HeldAs {
    Mount(Arc<OsStr>),
    Directory,
    Host,
}

impl Held {
    pub(super) fn contains(&self, place: &MountPlace) -> bool {
        self.entries.contains_key(place)
    }

    pub(super) fn get(&self, place: &MountPlace) -> Option<Made> {
        let Entry { proof, form, path, refresh_at, lost_at } = &**self.entries.get(place)?;
        let form = match form {
            HeldAs::Mount(path) => VolumeForm::Mount(path.into()),
            HeldAs::Directory => VolumeForm::Directory,
            HeldAs::Host => VolumeForm::Host,
        };
        Some(Made { proof: *proof, form, path: path.into(), refresh_at: *refresh_at, lost_at: *lost_at })
    }

    pub(super) fn proof(&self, place: &MountPlace) -> Option<Proof> {
        self.entries.get(place).map(|it| it.proof)
    }

    /// The path that a container is given.
    pub(super) fn path(&self, place: &MountPlace) -> Option<&Path> {
        self.entries.get(place).map(|it| Path::new(&it.path))
    }

    /// When what was in it was found to be lost.
    pub(super) fn lost_at(&self, place: &MountPlace) -> Option<SystemTime> {
        self.entries.get(place).and_then(|it| it.lost_at)
    }

    /// Where a mount would be that changes what was made there, and whether what was made is no mount itself.
    pub(super) fn watched(&self, place: &MountPlace) -> Option<(&Path, bool)> {
        let entry = self.entries.get(place)?;
        match &entry.form {
            HeldAs::Mount(path) => Some((Path::new(path), false)),
            HeldAs::Directory => Some((Path::new(&entry.path), true)),
            HeldAs::Host => None,
        }
    }

    /// The places that a mount at this path is about: the one at the path, and all that it covers.
    pub(super) fn at_or_below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a MountPlace> {
        let mut inside = path.as_os_str().to_owned();
        if !inside.as_encoded_bytes().ends_with(b"/") {
            inside.push("/");
        }
        let at = self.watched.get(path.as_os_str());
        let from = self.watched.range::<OsStr, _>((Bound::Excluded(inside.as_os_str()), Bound::Unbounded));
        let is_inside = move |it: &OsStr| it.as_encoded_bytes().starts_with(inside.as_encoded_bytes());
        at.into_iter().chain(from.take_while(move |(it, _)| is_inside(it)).map(|(_, place)| place))
    }

    pub(super) fn insert(&mut self, place: MountPlace, made: &Made) {
        self.remove(&place);
        let path: Arc<OsStr> = made.path.as_os_str().into();
        let form = match &made.form {
            VolumeForm::Mount(mount) if *mount == made.path => HeldAs::Mount(path.clone()),
            VolumeForm::Mount(mount) => HeldAs::Mount(mount.as_os_str().into()),
            VolumeForm::Directory => HeldAs::Directory,
            VolumeForm::Host => HeldAs::Host,
        };
        match &form {
            HeldAs::Mount(path) => _ = self.watched.insert(path.clone(), place.clone()),
            HeldAs::Directory => _ = self.watched.insert(path.clone(), place.clone()),
            HeldAs::Host => {}
        }
        let Made { proof, refresh_at, lost_at, .. } = *made;
        self.entries.insert(place, Box::new(Entry { proof, form, path, refresh_at, lost_at }));
    }

    pub(super) fn remove(&mut self, place: &MountPlace) {
        // Another may have the same path by now.
        let watched = self.watched(place).map(|(path, _)| PathBuf::from(path));
        if let Some(path) = watched.filter(|it| self.watched.get(it.as_os_str()) == Some(place)) {
            self.watched.remove(path.as_os_str());
        }
        self.entries.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(volume: &str) -> MountPlace {
        MountPlace::Publish(volume.into(), "pod".into())
    }

    fn made(form: VolumeForm, path: &str) -> Made {
        let proof = Proof { mount_id: 1, device: 2, root: 3, kind: 4 };
        let at = Some(SystemTime::UNIX_EPOCH);
        Made { proof, form, path: path.into(), refresh_at: at, lost_at: at }
    }

    #[test]
    fn what_is_held_comes_back_as_it_was() {
        let mut held = Held::default();
        for (volume, made) in [
            ("a", made(VolumeForm::Mount("/a".into()), "/a")),
            ("b", made(VolumeForm::Mount("/b".into()), "/b/mount")),
            ("c", made(VolumeForm::Directory, "/c")),
            ("d", made(VolumeForm::Host, "/d")),
        ] {
            held.insert(place(volume), &made);
            assert_eq!(held.get(&place(volume)), Some(made));
        }
        assert_eq!(held.watched(&place("b")), Some((Path::new("/b"), false)));
        assert_eq!(held.watched(&place("c")), Some((Path::new("/c"), true)));
        assert_eq!(held.watched(&place("d")), None);
        assert_eq!(held.path(&place("b")), Some(Path::new("/b/mount")));
    }

    #[test]
    fn a_path_is_that_of_whoever_had_it_last_until_it_is_gone() {
        let mut held = Held::default();
        held.insert(place("a"), &made(VolumeForm::Directory, "/x"));
        held.insert(place("b"), &made(VolumeForm::Directory, "/x"));
        held.remove(&place("a"));
        let at = |held: &Held, path: &str| held.at_or_below(Path::new(path)).cloned().collect::<Vec<_>>();
        assert_eq!(at(&held, "/x"), [place("b")]);
        held.insert(place("b"), &made(VolumeForm::Directory, "/y"));
        assert_eq!((at(&held, "/x"), at(&held, "/y")), (vec![], vec![place("b")]));
        held.remove(&place("b"));
        assert!(held.entries.is_empty() && held.watched.is_empty());
    }

    #[test]
    fn a_mount_is_about_what_it_covers_and_not_about_what_has_a_longer_name() {
        let mut held = Held::default();
        for path in ["/r/pods/1/a", "/r/pods/1/b", "/r/pods-2/a", "/r/pods.old/a", "/r/plugins/a"] {
            held.insert(place(path), &made(VolumeForm::Directory, path));
        }
        let below = |path: &str| held.at_or_below(Path::new(path)).cloned().collect::<Vec<_>>();
        assert_eq!(below("/r/pods"), [place("/r/pods/1/a"), place("/r/pods/1/b")]);
        assert_eq!(below("/r/pods/1/b"), [place("/r/pods/1/b")]);
        assert_eq!(below("/r").len(), 5);
        assert_eq!(below("/r/pods/1/a/inside"), []);
    }
}
