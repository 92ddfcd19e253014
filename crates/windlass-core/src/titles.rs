//! Which pods have a name: mostly one, and more while an earlier one of the same name goes.
//!
//! A question for one pod costs the same however many there are (I-9). The index is asked by hash alone, so nothing depends
//! on its order.

use crate::actual::PodKey;
use crate::desired::Pod;
use crate::table::Table;
use core::hash::BuildHasher;
use foldhash::quality::FixedState;
use hashbrown::HashTable;

#[derive(Clone)]
pub(crate) struct Titles {
    pods: HashTable<PodKey>,
    hasher: FixedState,
}

impl Titles {
    pub(crate) fn new(seed: u64) -> Self {
        Self { pods: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    /// The pods that have this title, in no particular order.
    pub(crate) fn find<'a>(&'a self, pods: &'a Table<Pod>, title: &'a str) -> impl Iterator<Item = PodKey> + 'a {
        let hash = self.hasher.hash_one(title);
        self.pods.iter_hash(hash).copied().filter(move |it| *pods[*it].title == *title)
    }

    /// Adds a pod by the title that it has.
    pub(crate) fn insert(&mut self, pods: &Table<Pod>, key: PodKey) {
        let hasher = &self.hasher;
        let hash = |it: &PodKey| hasher.hash_one(&*pods[*it].title);
        self.pods.insert_unique(hash(&key), key, hash);
    }

    /// Forgets a pod that has the title by which it was added.
    pub(crate) fn remove(&mut self, pods: &Table<Pod>, key: PodKey) {
        let hash = self.hasher.hash_one(&*pods[key].title);
        if let Ok(found) = self.pods.find_entry(hash, |it| *it == key) {
            found.remove();
        }
    }
}
