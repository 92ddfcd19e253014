//! Which mounts matter: those on the way to the root or to where a link leads, and those below the root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What mounts mean for the files, and which came or went.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// Everything that is passed on the way to the root (the empty path), or to where a link leads.
    ways: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// The same by what is passed, and how often.
    passed: BTreeMap<PathBuf, usize>,
    /// Where something was mounted or unmounted, and that was not looked at yet.
    changed: BTreeSet<PathBuf>,
}

impl Mounts {
    /// Something was mounted or unmounted here; whether that matters.
    pub(super) fn changed(&mut self, point: &Path) -> bool {
        let matters = self.passed.contains_key(point) || self.root().is_some_and(|it| point.starts_with(it));
        if matters {
            self.changed.insert(point.into());
        }
        matters
    }

    /// What was mounted or unmounted below the root since this was last asked, and whether anything was on a way.
    pub(super) fn take(&mut self) -> (Vec<PathBuf>, bool) {
        let changed = std::mem::take(&mut self.changed);
        let is_on_a_way = changed.iter().any(|it| self.passed.contains_key(it));
        let root = self.root();
        let below = changed.iter().filter_map(|it| it.strip_prefix(root?).ok()).map(Path::to_path_buf).collect();
        (below, is_on_a_way)
    }

    /// This is passed from now on, on the way to where this path leads.
    pub(super) fn pass(&mut self, path: &Path, way: Vec<PathBuf>) {
        way.iter().for_each(|it| *self.passed.entry(it.clone()).or_default() += 1);
        let before = match way.is_empty() {
            true => self.ways.remove(path),
            false => self.ways.insert(path.into(), way),
        };
        for before in before.into_iter().flatten() {
            match self.passed.get_mut(&before) {
                Some(count) if *count > 1 => *count -= 1,
                _ => _ = self.passed.remove(&before),
            }
        }
    }

    /// Where the root is, links followed.
    fn root(&self) -> Option<&PathBuf> {
        self.ways.get(Path::new(""))?.last()
    }
}
