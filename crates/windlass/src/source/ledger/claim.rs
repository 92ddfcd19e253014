//! Who defines an object, and who of them is in force.

use std::path::Path;
use std::sync::Arc;

/// A place where an object is defined. Those of one file are next to each other, in the order of the file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Definition {
    pub(super) file: Arc<Path>,
    pub(super) index: usize,
}

/// All places where one object is defined.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// In order. Mostly there is one, and of claims there are as many as objects: room for one then.
    places: Vec<Definition>,
    /// The file that is in force.
    holder: Option<Arc<Path>>,
}

impl Claim {
    pub(super) fn add(&mut self, place: Definition) {
        if let Err(index) = self.places.binary_search(&place) {
            self.places.reserve_exact(1);
            self.places.insert(index, place);
        }
    }

    /// This file does not define it any more.
    pub(super) fn drop_file(&mut self, file: &Path) {
        self.places.retain(|it| *it.file != *file);
    }

    /// Whether it is not known yet who is in force, though somebody defines it.
    pub(super) fn is_open(&self) -> bool {
        self.holder.is_none() && !self.places.is_empty()
    }

    /// The file that is in force.
    pub(super) fn holder(&self) -> Option<&Path> {
        self.holder.as_deref()
    }

    /// Whether the file that was in force does not define it any more, though others do.
    pub(super) fn is_left(&self) -> bool {
        self.holder.is_some()
            && !self.places.is_empty()
            && !self.places.iter().any(|it| Some(&it.file) == self.holder.as_ref())
    }

    /// The place that is in force: in the file that was, else where the same is said, else in the file that was before the
    /// start, else in the first.
    pub(super) fn settle(&mut self, same: Option<&Definition>, recalled: Option<&Path>) -> Option<Definition> {
        let before = self.holder.as_deref().or(recalled);
        let held = self.places.iter().find(|it| Some(&*it.file) == before);
        let winner = held.or(same).or(self.places.first()).cloned();
        self.holder = winner.as_ref().map(|it| it.file.clone());
        winner
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Definition> {
        self.places.iter()
    }
}
