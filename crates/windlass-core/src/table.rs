//! Things with a name, kept where a small number finds them at once.
//!
//! A look-up by name costs the same with ten entries and with a hundred thousand (I-9), which an ordered map of strings
//! does not give: each of its comparisons is a cache miss. The hash index is never iterated, so nothing depends on its
//! order; entries are visited in the order of their keys, which depend on the history alone.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::marker::PhantomData;
use core::{fmt, ops};
use foldhash::quality::FixedState;
use hashbrown::HashTable;

/// Something that is found by its name.
pub(crate) trait Named {
    fn name(&self) -> &str;
}

/// Where an entry is. Valid until the entry is removed.
pub(crate) struct Key<V> {
    place: u32,
    of: PhantomData<fn() -> V>,
}

/// Entries by name and by key.
#[derive(Clone)]
pub(crate) struct Table<V> {
    // Boxed, so that growing the list moves pointers and its spare room costs next to nothing.
    entries: Vec<Option<Box<V>>>,
    free: Vec<u32>,
    by_name: HashTable<u32>,
    hasher: FixedState,
}

impl<V: Named> Table<V> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { entries: Vec::new(), free: Vec::new(), by_name: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Key<V>> {
        let hash = self.hasher.hash_one(name);
        let place = *self.by_name.find(hash, |&it| self.entry(it).name() == name)?;
        Some(Key::at(place))
    }

    /// Adds an entry whose name is not in the table yet.
    pub(crate) fn insert(&mut self, value: V) -> Key<V> {
        let hash = self.hasher.hash_one(value.name());
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.entries.push(None);
                u32::try_from(self.entries.len() - 1).expect("fewer than four billion entries")
            }
        };
        self.entries[place as usize] = Some(Box::new(value));
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_name.insert_unique(hash, place, |&it| hasher.hash_one(name_at(entries, it)));
        Key::at(place)
    }

    pub(crate) fn remove(&mut self, key: Key<V>) -> V {
        let hash = self.hasher.hash_one(self[key].name());
        if let Ok(found) = self.by_name.find_entry(hash, |&it| it == key.place) {
            found.remove();
        }
        self.free.push(key.place);
        *self.entries[key.place as usize].take().expect("a key is used only while its entry is there")
    }

    pub(crate) fn contains(&self, key: Key<V>) -> bool {
        self.entries.get(key.place as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<V>> + '_ {
        (0..).zip(&self.entries).filter(|(_, entry)| entry.is_some()).map(|(place, _)| Key::at(place))
    }

    /// The least key there can be, for ranges.
    pub(crate) fn first_key(&self) -> Key<V> {
        Key::at(0)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().flatten().map(|it| &**it)
    }

    fn entry(&self, place: u32) -> &V {
        self.entries[place as usize].as_ref().expect("a key is used only while its entry is there")
    }
}

fn name_at<V: Named>(entries: &[Option<Box<V>>], place: u32) -> &str {
    entries[place as usize].as_ref().map_or("", |it| it.name())
}

impl<V: Named> ops::Index<Key<V>> for Table<V> {
    type Output = V;

    fn index(&self, key: Key<V>) -> &V {
        self.entry(key.place)
    }
}

impl<V: Named> ops::IndexMut<Key<V>> for Table<V> {
    fn index_mut(&mut self, key: Key<V>) -> &mut V {
        self.entries[key.place as usize].as_mut().expect("a key is used only while its entry is there")
    }
}

impl<V> Key<V> {
    fn at(place: u32) -> Self {
        Self { place, of: PhantomData }
    }

    /// The key after this one, whether or not anything is there.
    pub(crate) fn next(self) -> Self {
        Self::at(self.place.saturating_add(1))
    }
}

impl<V> fmt::Debug for Key<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.place)
    }
}

impl<V> Clone for Key<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Key<V> {}

impl<V> PartialEq for Key<V> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<V> Eq for Key<V> {}

impl<V> PartialOrd for Key<V> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<V> Ord for Key<V> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    impl Named for String {
        fn name(&self) -> &str {
            self
        }
    }

    #[test]
    fn an_entry_is_found_by_name_until_it_is_removed() {
        let mut table = Table::new(7);
        let keys: Vec<_> = (0..1000).map(|it| table.insert(format!("name {it}"))).collect();
        for (number, key) in keys.iter().enumerate() {
            assert!(table.find(&format!("name {number}")) == Some(*key));
        }
        for key in keys.iter().step_by(2) {
            table.remove(*key);
        }
        assert!(table.find("name 2").is_none());
        assert!(table.find("name 3") == Some(keys[3]));
        assert_eq!(table.values().count(), 500);
    }

    #[test]
    fn keys_do_not_depend_on_the_seed() {
        let life = |seed| {
            let mut table = Table::new(seed);
            let first = table.insert(String::from("a"));
            table.insert(String::from("b"));
            table.remove(first);
            table.insert(String::from("c"));
            table.keys().map(|it| table[it].clone()).collect::<Vec<_>>()
        };
        assert_eq!(life(1), ["c", "b"]);
        assert_eq!(life(1), life(2));
    }
}
