//! What a watch has told, and so what is news to it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::view::{WatchEvent, WatchKind};

/// Objects, each with what tells it apart from the others of its group.
pub(super) type Entries<T> = Vec<(String, T)>;

/// What was told last, in groups of what is looked up together: the mounts of one pod, for example. It is kept as it was
/// told, which is the smallest form that there is of it.
#[derive(Default)]
pub(super) struct Seen {
    groups: BTreeMap<String, BTreeMap<String, Box<[u8]>>>,
}

impl Seen {
    /// The groups of which something was told.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.keys().map(String::as_str)
    }

    /// The group is now these. Writes a line for everything that is new, different or gone.
    pub(super) fn update<T: Serialize>(&mut self, group: &str, entries: Entries<T>, lines: &mut Vec<u8>) {
        let mut before = self.groups.remove(group).unwrap_or_default();
        let mut now = BTreeMap::new();
        for (key, object) in entries {
            // Objects are made of text, numbers and lists, all of which can be written.
            let object = serde_json::to_vec(&object).unwrap_or_default().into_boxed_slice();
            match before.remove(&key) {
                None => write(lines, WatchKind::Added, &object),
                Some(earlier) if earlier != object => write(lines, WatchKind::Modified, &object),
                Some(_) => {}
            }
            now.insert(key, object);
        }
        for object in before.values() {
            write(lines, WatchKind::Deleted, object);
        }
        if !now.is_empty() {
            self.groups.insert(group.into(), now);
        }
    }

    /// Writes that everything there was at the beginning has been told.
    pub(super) fn bookmark(lines: &mut Vec<u8>) {
        let line = serde_json::to_vec(&WatchEvent { kind: WatchKind::Bookmark, object: None::<()> });
        lines.extend(line.unwrap_or_default());
        lines.push(b'\n');
    }
}

/// Writes a [`WatchEvent`] about an object that is written already.
fn write(lines: &mut Vec<u8>, kind: WatchKind, object: &[u8]) {
    lines.extend(b"{\"type\":");
    lines.extend(serde_json::to_vec(&kind).unwrap_or_default());
    lines.extend(b",\"object\":");
    lines.extend(object);
    lines.extend(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news(seen: &mut Seen, group: &str, entries: &[(&str, u32)]) -> String {
        let mut lines = Vec::new();
        seen.update(group, entries.iter().map(|(key, value)| ((*key).into(), *value)).collect(), &mut lines);
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn only_what_differs_from_what_was_told_is_told() {
        let mut seen = Seen::default();
        assert_eq!(
            news(&mut seen, "one", &[("b", 1), ("a", 2)]),
            "{\"type\":\"ADDED\",\"object\":1}\n{\"type\":\"ADDED\",\"object\":2}\n"
        );
        assert_eq!(news(&mut seen, "two", &[("a", 9)]), "{\"type\":\"ADDED\",\"object\":9}\n");
        assert_eq!(news(&mut seen, "one", &[("b", 1), ("a", 2)]), "");
        assert_eq!(
            news(&mut seen, "one", &[("b", 5)]),
            "{\"type\":\"MODIFIED\",\"object\":5}\n{\"type\":\"DELETED\",\"object\":2}\n"
        );
        assert_eq!(news(&mut seen, "two", &[]), "{\"type\":\"DELETED\",\"object\":9}\n");
        assert_eq!(seen.groups().collect::<Vec<_>>(), ["one"]);
    }
}
